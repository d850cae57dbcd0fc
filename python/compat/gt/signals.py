"""GT2's `gt.signal`: named scopes. In a scope new tensors lie, and operations run, as its signal says."""
import contextlib

from shoal import signal as _signal
from shoal.signal import current_backward_signal, current_signal, get_signal_stack

from . import pool

__all__ = ["context", "current_backward_signal", "current_signal", "enter", "exit",
           "get_signal_stack", "signal", "tensor"]


@contextlib.contextmanager
def context(name, backward=None):
    """A scope; backward: the signal under which its gradients are computed. Also a decorator."""
    pool.session()
    with _signal.context(name, backward):
        yield name


signal = context


def enter(name, backward=None):
    """Opens a scope of this thread, until `exit`."""
    pool.session()
    _signal.enter(name, backward)


def exit(name):
    """Closes the innermost scope; RuntimeError when that has another name."""
    if current_signal() != name:
        raise RuntimeError(f"gt.signal.exit('{name}'): the innermost scope is {current_signal()!r}")
    _signal.exit(name)


def tensor(x, name):
    """A copy of x that lies as the signal says."""
    pool.session()
    return _signal.tensor(x, name)
