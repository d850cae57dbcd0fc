"""Modules that take the size of their input from the first one: LazyLinear and its like."""
import inspect

from ..creation import zeros
from ..recording import restructured
from ..words import check_tensor
from . import convolutions, layers, norms
from .module import Module, Parameter


class UninitializedParameter(Parameter):
    """A parameter whose shape is not known yet. An optimizer may have it already."""

    __slots__ = ()

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        made = super().__new__(cls, zeros(0, dtype=dtype), requires_grad)
        made.__class__ = cls
        return made

    def __repr__(self):
        return "<UninitializedParameter>"


def _lazy(of, size, axis):
    """The class of modules that become `of` when they are called; `size` is the argument that the input's length
    along an axis gives."""
    whole = inspect.signature(of.__init__)
    own = whole.replace(parameters=[
        p.replace(default=True) if p.name in ("affine", "track_running_stats") else p  # as in torch, of all norms
        for p in whole.parameters.values() if p.name != size])

    class Lazy(of):
        __doc__ = f"{of.__name__} whose {size} is that of its first input."

        def __init__(self, *args, **keywords):
            Module.__init__(self)
            given = own.bind(self, *args, **keywords)
            given.apply_defaults()
            settings = dict(list(given.arguments.items())[1:])
            object.__setattr__(self, "_settings", settings)
            for name in ("weight", "bias"):
                there = settings.get("affine", True) and (name == "weight" or settings.get("bias", True))
                self.register_parameter(name, UninitializedParameter(dtype=settings["dtype"]) if there else None)

        def __call__(self, input, *args, **keywords):
            check_tensor(input, type(self).__name__)
            self._become(input.shape[axis(input.ndim)])
            return self(input, *args, **keywords)

        def _become(self, length):
            made = of(**{size: length}, **self._settings)
            for name, parameter in self._parameters.items():
                if parameter is not None:
                    wanted = parameter.requires_grad
                    parameter._view = None  # what either was made of is of no use any more
                    parameter._swap(made._parameters[name])
                    parameter.__class__ = Parameter
                    parameter.requires_grad_(wanted)
                    made._parameters[name] = parameter
            kept = {name: vars(self)[name] for name in ("_hooks", "_before", "_passed", "training")}
            vars(self).clear()
            vars(self).update(vars(made), **kept)
            self.__class__ = of
            restructured()

        def extra_repr(self):
            return ", ".join([f"{size}=0", *(f"{n}={v!r}" for n, v in self._settings.items()
                                             if n not in ("device", "dtype"))])

    Lazy.__init__.__signature__ = own
    Lazy.__name__ = Lazy.__qualname__ = "Lazy" + of.__name__
    Lazy.__module__ = __name__
    return Lazy


def _classes():
    yield _lazy(layers.Linear, "in_features", lambda rank: -1)
    for n in (1, 2, 3):
        for kind in ("Conv", "ConvTranspose"):
            yield _lazy(getattr(convolutions, f"{kind}{n}d"), "in_channels", lambda rank, n=n: rank - n - 1)
        yield _lazy(getattr(norms, f"BatchNorm{n}d"), "num_features", lambda rank: 1)
        yield _lazy(getattr(norms, f"InstanceNorm{n}d"), "num_features", lambda rank, n=n: rank - n - 1)


LAZY = {made.__name__: made for made in _classes()}
globals().update(LAZY)
