"""Distributions whose draws are functions of those of others."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import no_grad
from ..tensor import Tensor
from . import constraints
from .constraints import Constraint
from .continuous import EULER, Exponential, Normal
from .distribution import Distribution, _Shape, parameters, rightmost_sum, valid
from .multivariate import Independent
from .transforms import AffineTransform, ComposeTransform, ExpTransform, PowerTransform, Transform


class TransformedDistribution(Distribution):
    """A distribution whose draws are those of another, transformed by one function, or by a list of them in turn."""

    def __init__(self, base_distribution: Distribution, transforms: Transform | Sequence[Transform],
                 validate_args: bool | None = None) -> None:
        if isinstance(transforms, Transform):
            transforms = [transforms]
        if not isinstance(transforms, list) or not all(isinstance(t, Transform) for t in transforms):
            raise ValueError(f"TransformedDistribution: the transforms are {transforms!r}; they must be a Transform or a "
                             "list of them")
        self.transforms = transforms
        whole = ComposeTransform(transforms)
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        events, taken = len(base_distribution.event_shape), whole.domain.event_dim
        if len(shape) < taken:
            raise ValueError(f"TransformedDistribution: the shape {list(shape)} of the base has less than {taken} axes")
        made = whole.forward_shape(shape)
        wanted = whole.inverse_shape(made)
        if tuple(wanted) != shape:
            base_distribution = base_distribution.expand(wanted[:len(wanted) - events])
        if taken > events:
            base_distribution = Independent(base_distribution, taken - events)
        self.base_dist = base_distribution
        self.has_rsample = base_distribution.has_rsample
        cut = len(made) - whole.codomain.event_dim - max(events - taken, 0)
        super().__init__(made[:cut], made[cut:], validate_args)

    def expand(self, batch_shape: _Shape) -> Any:
        """The same distribution for a batch of another shape."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        shape = ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self._event))
        made.base_dist = self.base_dist.expand(shape[:len(shape) - len(self.base_dist.event_shape)])
        Distribution.__init__(made, batch_shape, self._event, self._validate_args)
        return made

    @property
    def support(self) -> Constraint:
        """What the last transform gives."""
        if not self.transforms:
            return self.base_dist.support
        found, events = self.transforms[-1].codomain, len(self._event)
        return constraints.independent(found, events - found.event_dim) if events > found.event_dim else found

    def _transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape + event_shape, without gradients."""
        with no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape + event_shape, through which gradients reach the parameters."""
        return self._transformed(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at a value."""
        y, events, total = self._inside(value), len(self._event), None
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            events += transform.domain.event_dim - transform.codomain.event_dim
            term = rightmost_sum(transform.log_abs_det_jacobian(x, y), events - transform.domain.event_dim)
            total, y = term if total is None else total + term, x
        made = rightmost_sum(self.base_dist.log_prob(y), events - len(self.base_dist.event_shape))
        return made if total is None else made - total

    def _ascending(self, value: Tensor) -> Tensor:
        """A probability, or that of the opposite where the transforms descend."""
        sign = ComposeTransform(self.transforms).sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most a value."""
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._ascending(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """The value that is not exceeded with a probability."""
        return self._transformed(self.base_dist.icdf(self._ascending(value)))

    def _shown(self) -> tuple[str, ...]:
        return tuple(self.arg_constraints)

    def __repr__(self) -> str:
        return super().__repr__() if self.arg_constraints else f"{type(self).__name__}()"


class LogNormal(TransformedDistribution):
    """e to the power of a normal number of mean `loc` and deviation `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    base_dist: Normal

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), [ExpTransform()], validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """exp(loc + scale^2 / 2)"""
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        """exp(loc - scale^2)"""
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        """(exp(scale^2) - 1) exp(2 loc + scale^2)"""
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        return self.base_dist.entropy() + self.loc


class Pareto(TransformedDistribution):
    """The Pareto distribution: density alpha scale^alpha / x^(alpha + 1) for x >= scale."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        given, check = parameters(scale, alpha), self._checks(validate_args)
        self.scale, self.alpha = (valid(f"Pareto: {name}", value, tensor, constraints.positive, check)
                                  for name, value, tensor in zip(("scale", "alpha"), (scale, alpha), given))
        super().__init__(Exponential(self.alpha, False), [ExpTransform(), AffineTransform(0, self.scale)], validate_args)

    def expand(self, batch_shape: _Shape) -> Any:
        """The same distribution for a batch of another shape."""
        return Pareto(self.scale.expand(*batch_shape), self.alpha.expand(*batch_shape), self._validate_args)

    @property
    def support(self) -> Constraint:
        """scale or more."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        """alpha scale / (alpha - 1); infinite with an alpha of 1 or less."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        """scale"""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variances; infinite with an alpha of 2 or less."""
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(TransformedDistribution):
    """The Weibull distribution: the probability of more than x is exp(-(x / scale)^concentration)."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        given, check = parameters(scale, concentration), self._checks(validate_args)
        self.scale, self.concentration = (
            valid(f"Weibull: {name}", value, tensor, constraints.positive, check)
            for name, value, tensor in zip(("scale", "concentration"), (scale, concentration), given))
        base = Exponential(self.scale.detach() * 0 + 1, False)
        super().__init__(base, [PowerTransform(self.concentration.reciprocal()), AffineTransform(0, self.scale)],
                         validate_args)

    def expand(self, batch_shape: _Shape) -> Any:
        """The same distribution for a batch of another shape."""
        return Weibull(self.scale.expand(*batch_shape), self.concentration.expand(*batch_shape), self._validate_args)

    @property
    def support(self) -> Constraint:
        """Above 0."""
        return constraints.positive

    def _moment(self, n: int) -> Tensor:
        return (1 + n * self.concentration.reciprocal()).lgamma()

    @property
    def mean(self) -> Tensor:
        """The means."""
        return self.scale * self._moment(1).exp()

    @property
    def mode(self) -> Tensor:
        """The most probable values."""
        k = self.concentration.clamp(min=1)
        return self.scale * ((k - 1) / k).pow(k.reciprocal())

    @property
    def variance(self) -> Tensor:
        """The variances."""
        return self.scale.square() * (self._moment(2).exp() - (2 * self._moment(1)).exp())

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        inverse = self.concentration.reciprocal()
        return EULER * (1 - inverse) + (self.scale * inverse).log() + 1

