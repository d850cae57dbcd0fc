"""GT2's `gt.signal`: named scopes. In a scope new tensors lie, and operations run, as its signal says."""
from shoal.signal import (context, current_backward_signal, current_signal, enter, get_signal_stack)
from shoal.signal import exit as _exit
from shoal.signal import tensor as _tensor

from . import pool

signal = context

__all__ = ["context", "current_backward_signal", "current_signal", "enter", "exit",
           "get_signal_stack", "signal", "tensor"]


def exit(name):
    """Closes the innermost scope; RuntimeError when that has another name."""
    if current_signal() != name:
        raise RuntimeError(f"gt.signal.exit('{name}'): the innermost scope is {current_signal()!r}")
    _exit(name)


def tensor(x, name):
    """A copy of x that lies as the signal says."""
    pool.session()
    return _tensor(x, name)
