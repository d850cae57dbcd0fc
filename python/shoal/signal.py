"""Signals: named scopes that say where values lie and where they are computed.

    layer1:                       # signals.yaml
      shard:
        axis: 0                   # cut along this axis; negative: from the last
        workers: [0, 1]           # in the order in which they joined; null: all
        shares: [70, 30]          # left out: by the workers' speeds
        replicated: false         # true: a whole copy on each
      backward: layer1_backward   # under which gradients are computed; left out: the same
      compile: false              # true: the scope is one program

    shoal.signal.load("signals.yaml")        # or the variable SHOAL_CONFIG
    with shoal.signal.context("layer1"):
        y = model(x)

Inside, on this thread, new tensors are cut as the signal says; what comes from outside is brought
along: parameters as copies, unless a signal has placed them, the rest cut. Tensors with fewer axes
than the one that is cut are copied. A name that nobody has described changes nothing.
"""
import contextlib
import copy
import functools
from dataclasses import dataclass

from . import _shoal
from .errors import ShoalError
from .nn.module import Module
from .pool import session
from .recording import restructured
from .replay import Replayed


@dataclass(frozen=True)
class Signal:
    """What is said of a signal; workers None: all, shares None: by speed."""
    name: str
    shard: bool = True
    axis: int = 0
    replicated: bool = False
    workers: list[int] | None = None
    shares: list[float] | None = None
    backward: str | None = None
    compile: bool = False


def load(path):
    """Reads descriptions from a YAML file; a mistake is a FormatError with line and column."""
    _shoal.signals_load(str(path))
    restructured()


def parse(text, source="<text>"):
    """Reads descriptions from a YAML text; `source` is its name in messages."""
    _shoal.signals_parse(text, source)
    restructured()


def describe(signal):
    """Adds a `Signal`, or replaces the one of its name."""
    _shoal.signal_describe(signal.name, signal.shard, signal.axis, signal.replicated, signal.workers,
                           signal.shares, signal.backward, signal.compile)
    restructured()


def described():
    """The signals that are described, by name."""
    return {row["name"]: Signal(**row) for row in _shoal.signals()}


def clear():
    """Forgets all descriptions."""
    _shoal.signals_clear()
    restructured()


def enter(name, backward=None):
    """Opens a scope of this thread; `exit` closes it. backward: in the place of the one described."""
    _shoal.signal_enter(session(), name, backward)


def exit(name=None):
    """Closes the innermost scope, whose name must be `name`, if given."""
    _shoal.signal_exit(session(), current_signal() if name is None else name)


@contextlib.contextmanager
def context(name, backward=None):
    """A scope: `with shoal.signal.context("layer1"): ...`; also a decorator."""
    inside = session()
    _shoal.signal_enter(inside, name, backward)
    try:
        yield name
    finally:
        _shoal.signal_exit(inside, name)


def tensor(x, name):
    """x, cut or copied as the signal says."""
    return _shoal.signal_place(x, name)


def current_signal():
    """The name of the innermost scope, or None."""
    scopes = _shoal.signal_scopes()
    return scopes[0][0] if scopes else None


def current_backward_signal():
    """The signal under which gradients of the innermost scope are computed, or None."""
    scopes = _shoal.signal_scopes()
    return scopes[0][1] if scopes else None


def get_signal_stack():
    """The names of the open scopes, the outermost first."""
    return [name for name, _ in reversed(_shoal.signal_scopes())]


def _compiled(module, name, replay, donate):
    """A module whose calls are one program each: another object with the same parameters."""
    made = copy.copy(module)
    made.__dict__ = dict(module.__dict__)
    call = type(module).forward.__get__(made)
    object.__setattr__(made, "forward", compile(call, name=name or f"compile {type(module).__name__}",
                                                replay=replay, donate=donate))
    return made


def compile(function=None, *, name=None, replay=False, donate=(), **settings):
    """Makes all that a function records one program, whatever its size: a decorator.

    What was recorded before goes to the workers first. A read inside ends the program there.

    function: also a module, of which a compiled one with the same parameters is returned. settings: what
    torch.compile takes beside (backend, mode, fullgraph, dynamic) says nothing here.

    replay: from the third call on the function is not called any more; the program that it recorded
    is sent with the tensors of the day. Its Python does nothing then, but for optimizers, schedules and
    random generators: numbers in it stay those of the recording, so pass what changes as an argument.
    Arrays among the arguments become tensors; no gradients pass through results. Arguments of another
    shape, element type or (if they are no tensors) value, another mode of a module, other parameters or
    signals have it recorded anew. What cannot be replayed is called as before, with a warning.

    donate: numbers of positional arguments that may be written over, such as a cache that is updated: the
    tensors passed there have no value after the call, as with donate_argnums of jax.jit. What the function
    changes in place is written over anyway, if nobody else has its value.
    """
    if function is None:
        return functools.partial(compile, name=name, replay=replay, donate=donate)
    if isinstance(function, Module):
        return _compiled(function, name, replay, donate)
    scope = name or f"compile {function.__module__}.{function.__qualname__}"
    describe(Signal(scope, shard=False, compile=True))

    if replay:
        return Replayed(function, functools.partial(context, scope), (donate,) if isinstance(donate, int) else donate)
    if donate != ():
        raise ShoalError("compile: donate is for functions that are replayed: pass replay=True")

    @functools.wraps(function)
    def whole(*args, **keywords):
        with context(scope):
            return function(*args, **keywords)
    return whole
