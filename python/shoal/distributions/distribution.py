"""What all distributions share."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from .. import draws
from ..autograd import no_grad
from ..creation import as_tensor, broadcast_tensors
from ..dtypes import Size, finfo
from ..indexing import required
from ..tensor import Tensor
from ..words import invalid
from .constraints import Constraint, is_dependent

_Shape = Sequence[int]


def parameters(*values: Any) -> tuple[Tensor, ...]:
    """Parameters, tensors or numbers, as tensors that are broadcast with one another."""
    beside = next((v for v in values if isinstance(v, Tensor)), None)
    for v in values:
        if not isinstance(v, (Tensor, int, float, str)) and getattr(v, "shape", None) != ():
            raise invalid(f"a parameter of a distribution is of type {type(v).__name__}; it must be a tensor or a number")
    made = [v if isinstance(v, Tensor) else as_tensor(float(v), None if beside is None else beside.dtype)
            for v in values]
    return tuple(broadcast_tensors(*made))


def valid(what: str, given: Any, value: Tensor, constraint: Constraint, validate_args: bool | None) -> Tensor:
    """A parameter as it was given, and as a tensor, that has to follow a constraint."""
    if validate_args is False or is_dependent(constraint):
        return value
    if not isinstance(given, Tensor):  # a number: an error at once
        if not constraint.check(float(given)):  # type: ignore[arg-type]
            raise invalid(f"{what} is {given}; it must be {constraint.words}")
        return value
    if value.ndim < constraint.event_dim:
        raise invalid(f"{what} has shape {list(value.shape)}; it needs {constraint.event_dim} axes at least")
    fine = constraint.check(value)
    for _ in range(constraint.event_dim):
        fine = fine.unsqueeze(-1)
    made: Tensor = required(value, fine, f"{what} must be {constraint.words}")
    return made


def inner(value: Tensor) -> Tensor:
    """Numbers from 0 to 1 as such between both, exclusively, of which logarithms are finite."""
    limits = finfo(value.dtype)
    return value.clamp(limits.tiny, 1 - limits.eps)


def uniform(shape: _Shape, dtype: Any) -> Tensor:
    """Numbers between 0 and 1, both exclusively, that draws of a type are made of: of float32 at least."""
    drawn = draws.uniform(shape)
    return inner(drawn if dtype == "float64" else drawn.float())


def rightmost_sum(value: Tensor, count: int) -> Tensor:
    """The sum over the last axes, as many as said."""
    return value.sum(tuple(range(-count, 0))) if count else value


def together(*shapes: _Shape) -> Size:
    """The shape that several broadcast to."""
    from ..words import common_shape
    return Size(common_shape(shapes, "the parameters of a distribution"))


class Distribution:
    """What distributions share. A subclass has `log_prob`, `mean`, `variance`, and `rsample` or `sample`."""

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: ClassVar[dict[str, Constraint]] = {}
    # The parameters, and how many of the last axes of each belong to an event.
    _parts: ClassVar[dict[str, int]] = {}
    _default_validate: ClassVar[bool] = True

    def __init__(self, batch_shape: _Shape = (), event_shape: _Shape = (), validate_args: bool | None = None) -> None:
        self._batch, self._event = Size(batch_shape), Size(event_shape)
        self._validate_args = self._checks(validate_args)

    @classmethod
    def _checks(cls, validate_args: bool | None) -> bool:
        """Whether parameters and values are checked."""
        return cls._default_validate if validate_args is None else validate_args

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether parameters and values are checked where nothing is said."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: {value!r} is neither True nor False")
        Distribution._default_validate = value

    def _take(self, validate_args: bool | None, **given: Any) -> None:
        """Has parameters of the batch's shape, broadcast and checked."""
        check = self._checks(validate_args)
        made = parameters(*given.values())
        for (name, value), tensor in zip(given.items(), made):
            setattr(self, name, valid(f"{type(self).__name__}: {name}", value, tensor, self.arg_constraints[name], check))
        Distribution.__init__(self, made[0].shape, (), check)

    def expand(self, batch_shape: _Shape) -> Any:
        """The same distribution for a batch of another shape, to which the parameters are expanded."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        for name, events in self._parts.items():
            value = self.__dict__.get(name)
            if value is not None:
                made.__dict__[name] = value.expand(*batch_shape, *value.shape[value.ndim - events:])
        made._batch = Size(batch_shape)
        return made

    def _inside(self, value: Any) -> Tensor:
        """A value whose density is asked for, which has to lie within the support."""
        what = f"{type(self).__name__}: the value"
        if not isinstance(value, Tensor):
            raise invalid(f"{what} is of type {type(value).__name__}; it must be a Tensor")
        if not self._validate_args:
            return value
        events = len(self._event)
        if tuple(value.shape[value.ndim - events:]) != tuple(self._event) or value.ndim < events:
            raise invalid(f"{what} has shape {list(value.shape)}; its last axes must be those of an event, {list(self._event)}")
        together(value.shape, (*self._batch, *self._event))
        return valid(what, value, value, self.support, True)

    @property
    def batch_shape(self) -> Any:
        """The shape of the parameters."""
        return self._batch

    @property
    def event_shape(self) -> Any:
        """The shape of one draw from one distribution of the batch."""
        return self._event

    @property
    def support(self) -> Constraint:
        """Where draws lie."""
        raise NotImplementedError(f"{type(self).__name__} has no support")

    @property
    def mean(self) -> Tensor:
        """The means."""
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def mode(self) -> Tensor:
        """The most probable values."""
        raise NotImplementedError(f"{type(self).__name__} has no mode")

    @property
    def variance(self) -> Tensor:
        """The variances."""
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviations."""
        return self.variance.sqrt()

    def _extended_shape(self, sample_shape: _Shape = ()) -> Size:
        if not isinstance(sample_shape, (tuple, list)):
            raise TypeError(f"{type(self).__name__}: sample_shape is {sample_shape!r}; it must be a tuple of integers, "
                            "such as (3,)")
        return Size((*sample_shape, *self._batch, *self._event))

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape + event_shape, through which gradients reach the parameters."""
        raise NotImplementedError(f"{type(self).__name__}: gradients do not pass through draws; use sample")

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape + event_shape, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`"""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or probability, at a value."""
        raise NotImplementedError(f"{type(self).__name__} has no density")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most a value."""
        raise NotImplementedError(f"{type(self).__name__} has no distribution function")

    def icdf(self, value: Tensor) -> Tensor:
        """The value that is not exceeded with a probability."""
        raise NotImplementedError(f"{type(self).__name__} has no quantiles")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution along a new first axis; with expand for each of the batch."""
        raise NotImplementedError(f"{type(self).__name__}: its values are not listed")

    def _listed(self, values: Tensor, expand: bool) -> Tensor:
        n = values.shape[0]
        made: Tensor = values.reshape(n, *(1,) * len(self._batch), *values.shape[1:])
        return made.expand(n, *self._batch, *values.shape[1:]) if expand else made

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    def perplexity(self) -> Tensor:
        """exp(entropy)"""
        return self.entropy().exp()

    def _shown(self) -> tuple[str, ...]:
        return tuple(self._parts)

    def __repr__(self) -> str:
        def text(value: Tensor) -> str:
            return str(value.item() if not value.ndim else value if value.numel() == 1 else value.shape)
        return f"{type(self).__name__}(" + ", ".join(f"{n}: {text(getattr(self, n))}" for n in self._shown()) + ")"
