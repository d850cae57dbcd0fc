"""Distributions of real numbers."""
from __future__ import annotations

import math
from typing import Any

from .. import special
from ..creation import where
from ..draws import von_mises
from ..random import rand, randn
from ..tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Distribution, _Shape, parameters, uniform, valid

EULER = 0.5772156649015329


class _LocScale(Distribution):
    """A distribution that is moved by `loc` and stretched by `scale`."""

    has_rsample = True
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    _parts = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc: Tensor
        self.scale: Tensor
        self._take(validate_args, loc=loc, scale=scale)

    @property
    def support(self) -> Constraint:
        """All numbers."""
        return constraints.real

    @property
    def mean(self) -> Tensor:
        """The means."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The most probable values."""
        return self.loc

    def _standard(self, value: Tensor) -> Tensor:
        return (self._inside(value) - self.loc) / self.scale

    def _uniform(self, sample_shape: _Shape) -> Tensor:
        """Numbers between 0 and 1, both exclusively."""
        return uniform(self._extended_shape(sample_shape), self.loc.dtype)


class Normal(_LocScale):
    """The normal distribution of mean `loc` and standard deviation `scale`."""

    @property
    def variance(self) -> Tensor:
        """scale^2"""
        return self.scale * self.scale

    @property
    def stddev(self) -> Tensor:
        """scale"""
        return self.scale

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape, through which gradients reach the parameters."""
        return self.loc + randn(self._extended_shape(sample_shape), dtype=self.loc.dtype) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at a value."""
        z = self._standard(value)
        return -z * z / 2 - self.scale.log() - math.log(2 * math.pi) / 2

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        return self.scale.log() + 0.5 * (1 + math.log(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most a value."""
        made: Tensor = special.ndtr(self._standard(value))
        return made

    def icdf(self, value: Tensor) -> Tensor:
        """The value that is not exceeded with a probability."""
        return self.loc + self.scale * special.ndtri(value)


class Laplace(_LocScale):
    """The Laplace distribution: density exp(-|x - loc| / scale) / (2 scale)."""

    @property
    def variance(self) -> Tensor:
        """2 scale^2"""
        return 2 * self.scale * self.scale

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape, through which gradients reach the parameters."""
        u = self._uniform(sample_shape)
        lower = (2 * u.minimum(1 - u)).log()
        return self.loc + self.scale * where(u < 0.5, lower, -lower).to(self.loc.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at a value."""
        return -(self._inside(value) - self.loc).abs() / self.scale - (2 * self.scale).log()

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        return 1 + (2 * self.scale).log()

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most a value."""
        z = self._standard(value)
        return 0.5 - 0.5 * z.sign() * (-z.abs()).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """The value that is not exceeded with a probability."""
        apart = value - 0.5
        return self.loc - self.scale * apart.sign() * (-2 * apart.abs()).log1p()


class Cauchy(_LocScale):
    """The Cauchy distribution: density 1 / (pi scale (1 + z^2)), z = (x - loc) / scale."""

    @property
    def mean(self) -> Tensor:
        """NaN: there is none."""
        return self.loc.detach() * 0 + math.nan

    @property
    def variance(self) -> Tensor:
        """Infinity."""
        return self.loc.detach() * 0 + math.inf

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape, through which gradients reach the parameters."""
        return self.loc + self.scale * ((self._uniform(sample_shape) - 0.5) * math.pi).tan().to(self.loc.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at a value."""
        return -math.log(math.pi) - self.scale.log() - self._standard(value).square().log1p()

    def entropy(self) -> Tensor:
        """log(4 pi scale)"""
        return math.log(4 * math.pi) + self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most a value."""
        return self._standard(value).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """The value that is not exceeded with a probability."""
        return ((value - 0.5) * math.pi).tan() * self.scale + self.loc


class Gumbel(_LocScale):
    """The Gumbel distribution: the probability of at most x is exp(-exp(-(x - loc) / scale))."""

    @property
    def mean(self) -> Tensor:
        """loc + 0.577 scale"""
        return self.loc + self.scale * EULER

    @property
    def variance(self) -> Tensor:
        """pi^2 / 6 scale^2"""
        return (math.pi ** 2 / 6) * self.scale * self.scale

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape, through which gradients reach the parameters."""
        return self.loc - self.scale * (-self._uniform(sample_shape).log()).log().to(self.loc.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at a value."""
        z = self._standard(value)
        return -z - (-z).exp() - self.scale.log()

    def entropy(self) -> Tensor:
        """log(scale) + 1.577"""
        return self.scale.log() + (1 + EULER)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most a value."""
        return (-(-self._standard(value)).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        """The value that is not exceeded with a probability."""
        return self.loc - self.scale * (-value.log()).log()


class Uniform(Distribution):
    """The uniform distribution over [low, high)."""

    has_rsample = True
    arg_constraints = {"low": constraints.dependent, "high": constraints.dependent}
    _parts = {"low": 0, "high": 0}

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low: Tensor
        self.high: Tensor
        self._take(validate_args, low=low, high=high)
        both = high if not isinstance(low, Tensor) and not isinstance(high, Tensor) else self.high
        above = constraints.greater_than(self.low if isinstance(both, Tensor) else float(low))
        self.high = valid("Uniform: high", both, self.high, above, self._validate_args)

    @property
    def support(self) -> Constraint:
        """From low to high."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        """(low + high) / 2"""
        return (self.low + self.high) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: all values are equally probable."""
        return self.high * math.nan

    @property
    def variance(self) -> Tensor:
        """(high - low)^2 / 12"""
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape, through which gradients reach the bounds."""
        return self.low + rand(self._extended_shape(sample_shape), dtype=self.low.dtype) * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """-log(high - low) within [low, high); -infinity at high, and elsewhere with validate_args=False."""
        value = self._inside(value)
        inside = (value >= self.low) & (value < self.high)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def entropy(self) -> Tensor:
        """log(high - low)"""
        return (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most a value."""
        return ((self._inside(value) - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        """The value that is not exceeded with a probability."""
        return value * (self.high - self.low) + self.low


class Exponential(Distribution):
    """The exponential distribution: density rate exp(-rate x) for x >= 0."""

    has_rsample = True
    arg_constraints = {"rate": constraints.positive}
    _parts = {"rate": 0}

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self.rate: Tensor
        self._take(validate_args, rate=rate)

    @property
    def support(self) -> Constraint:
        """0 or more."""
        return constraints.nonnegative

    @property
    def mean(self) -> Tensor:
        """1 / rate"""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        """0"""
        return self.rate.detach() * 0

    @property
    def variance(self) -> Tensor:
        """1 / rate^2"""
        return self.rate ** -2

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape, through which gradients reach the rate."""
        return -uniform(self._extended_shape(sample_shape), self.rate.dtype).log().to(self.rate.dtype) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at a value, 0 or more."""
        return self.rate.log() - self.rate * self._inside(value)

    def entropy(self) -> Tensor:
        """1 - log(rate)"""
        return 1 - self.rate.log()

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most a value."""
        return -(-self.rate * self._inside(value)).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """The value that is not exceeded with a probability."""
        return -(-value).log1p() / self.rate


class _Half(Distribution):
    """The absolute value of a draw of a distribution around 0, of which it has the double density."""

    has_rsample = True
    arg_constraints = {"scale": constraints.positive}
    _base: type[_LocScale]

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        given, = parameters(scale)
        what = f"{type(self).__name__}: scale"
        check = self._checks(validate_args)
        self.base_dist = self._base(given.detach() * 0, valid(what, scale, given, constraints.positive, check), False)
        super().__init__(given.shape, (), validate_args)

    def expand(self, batch_shape: _Shape) -> Any:
        """The same distribution for a batch of another shape."""
        made = super().expand(batch_shape)
        made.base_dist = self.base_dist.expand(batch_shape)
        return made

    @property
    def scale(self) -> Tensor:
        """The scale of the distribution of both sides."""
        return self.base_dist.scale

    @property
    def support(self) -> Constraint:
        """0 or more."""
        return constraints.nonnegative

    @property
    def mode(self) -> Tensor:
        """0"""
        return self.scale.detach() * 0

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape, through which gradients reach the scale."""
        return self.base_dist.rsample(sample_shape).abs()

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at a value."""
        made = self.base_dist.log_prob(self._inside(value)) + math.log(2)
        return where(value >= 0, made, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most a value."""
        return 2 * self.base_dist.cdf(self._inside(value)) - 1

    def icdf(self, value: Tensor) -> Tensor:
        """The value that is not exceeded with a probability."""
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        return self.base_dist.entropy() - math.log(2)

    def _shown(self) -> tuple[str, ...]:
        return ("scale",)


class HalfNormal(_Half):
    """The absolute value of a normal draw around 0."""

    _base = Normal

    @property
    def mean(self) -> Tensor:
        """scale sqrt(2 / pi)"""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        """scale^2 (1 - 2 / pi)"""
        return self.scale * self.scale * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The absolute value of a Cauchy draw around 0."""

    _base = Cauchy

    @property
    def mean(self) -> Tensor:
        """Infinity."""
        return self.scale.detach() * 0 + math.inf

    @property
    def variance(self) -> Tensor:
        """Infinity."""
        return self.mean


class VonMises(Distribution):
    """The von Mises distribution of angles from -pi to pi: density in proportion to exp(concentration cos(x - loc))."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    _parts = {"loc": 0, "concentration": 0}

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc: Tensor
        self.concentration: Tensor
        self._take(validate_args, loc=loc, concentration=concentration)

    @property
    def support(self) -> Constraint:
        """All numbers: angles come again."""
        return constraints.real

    @property
    def mean(self) -> Tensor:
        """The circular means."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The most probable angles."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variances."""
        return 1 - special.i1e(self.concentration) / special.i0e(self.concentration)

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """Angles of shape sample_shape + batch_shape."""
        around = von_mises(self.concentration.detach().expand(self._extended_shape(sample_shape)))
        made = (around + math.pi + self.loc.detach().double()) % (2 * math.pi) - math.pi
        return made.to(self.loc.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at an angle."""
        near = self.concentration * ((self._inside(value) - self.loc).cos() - 1)
        return near - math.log(2 * math.pi) - special.i0e(self.concentration).log()
