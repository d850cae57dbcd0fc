"""Distributions of what is above 0, made of gamma draws: their gradients are implicit (Figurnov et al., 2018)."""
from __future__ import annotations

import math
from typing import Any

from .. import special
from ..draws import standard_gamma
from ..dtypes import finfo
from ..random import randn
from ..tensor import Tensor
from ..words import check_tensor, invalid
from . import constraints
from .constraints import Constraint
from .distribution import Distribution, _Shape, inner, parameters, valid


class Gamma(Distribution):
    """The gamma distribution: density in proportion to x^(concentration - 1) exp(-rate x)."""

    has_rsample = True
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    _parts = {"concentration": 0, "rate": 0}

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration: Tensor
        self.rate: Tensor
        self._take(validate_args, concentration=concentration, rate=rate)

    @property
    def support(self) -> Constraint:
        """0 or more."""
        return constraints.nonnegative

    @property
    def mean(self) -> Tensor:
        """concentration / rate"""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """(concentration - 1) / rate, or 0."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """concentration / rate^2"""
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape, through which gradients reach the parameters."""
        a = self.concentration.expand(self._extended_shape(sample_shape))
        made = (standard_gamma(a) / self.rate.double()).to(a.dtype)
        return made.clamp(min=finfo(a.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at a value."""
        value = self._inside(value)
        return self.concentration.xlogy(self.rate) + (self.concentration - 1).xlogy(value) - self.rate * value \
            - self.concentration.lgamma()

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most a value."""
        made: Tensor = self.concentration.igamma(self.rate * self._inside(value))
        return made


class Chi2(Gamma):
    """The sum of the squares of `df` standard normal numbers."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        given, = parameters(df)
        check = self._checks(validate_args)
        self.concentration = valid("Chi2: df", df, given, constraints.positive, check) * 0.5
        self.rate = given.detach() * 0 + 0.5
        Distribution.__init__(self, given.shape, (), check)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2

    def _shown(self) -> tuple[str, ...]:
        return ("df",)


class StudentT(Distribution):
    """Student's distribution with `df` degrees of freedom, moved by `loc` and stretched by `scale`."""

    has_rsample = True
    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    _parts = {"df": 0, "loc": 0, "scale": 0}

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df: Tensor
        self.loc: Tensor
        self.scale: Tensor
        self._take(validate_args, df=df, loc=loc, scale=scale)

    @property
    def support(self) -> Constraint:
        """All numbers."""
        return constraints.real

    @property
    def mean(self) -> Tensor:
        """loc; NaN with a df of 1 or less."""
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def mode(self) -> Tensor:
        """loc"""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """scale^2 df / (df - 2); infinite with a df of 2 or less, NaN with one of 1 or less."""
        inner = self.df.masked_fill(self.df <= 2, 3.0)
        made = self.scale.square() * inner / (inner - 2)
        return made.masked_fill(self.df <= 2, math.inf).masked_fill(self.df <= 1, math.nan)

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape, through which gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        half = (self.df * 0.5).expand(shape)
        share = (standard_gamma(half) / half.double()).rsqrt().to(half.dtype)
        return self.loc + self.scale * randn(shape, dtype=half.dtype) * share

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at a value."""
        z = (self._inside(value) - self.loc) / self.scale
        norm = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + (0.5 * self.df).lgamma() \
            - (0.5 * (self.df + 1)).lgamma()
        return -0.5 * (self.df + 1) * (z * z / self.df).log1p() - norm

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        half, more = self.df * 0.5, (self.df + 1) * 0.5
        beta = half.lgamma() + math.lgamma(0.5) - more.lgamma()
        return self.scale.log() + more * (more.digamma() - half.digamma()) + 0.5 * self.df.log() + beta


class Dirichlet(Distribution):
    """Vectors above 0 of sum 1: density in proportion to the product of x^(concentration - 1)."""

    has_rsample = True
    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    _parts = {"concentration": 1}

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        check_tensor(concentration, "Dirichlet", "the concentration")
        if not concentration.ndim:
            raise invalid("Dirichlet: the concentration must have one axis at least")
        check = self._checks(validate_args)
        self.concentration = valid("Dirichlet: concentration", concentration, concentration,
                                   self.arg_constraints["concentration"], check)
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], check)

    @property
    def support(self) -> Constraint:
        """Vectors above 0 of sum 1."""
        return constraints.simplex

    @property
    def mean(self) -> Tensor:
        """concentration over its sum."""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """The most probable vectors."""
        above = (self.concentration - 1).clamp(min=0)
        made = above / above.sum(-1, True)
        low = (self.concentration < 1).all(-1, True)  # the most of it is in a corner
        corner = self.concentration.argmax(-1, True) == self._places()
        return made.where(~low, corner.to(made.dtype))

    def _places(self) -> Tensor:
        from ..creation import arange
        made: Tensor = arange(self.concentration.shape[-1])
        return made

    @property
    def variance(self) -> Tensor:
        """The variances of the elements."""
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape + event_shape, through which gradients reach the parameters."""
        parts = standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        made = (parts / parts.sum(-1, True)).to(self.concentration.dtype)
        return inner(made)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at a vector."""
        a = self.concentration
        return (a - 1).xlogy(self._inside(value)).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        return a.lgamma().sum(-1) - total.lgamma() - (k - total) * total.digamma() - ((a - 1) * a.digamma()).sum(-1)


class Beta(Distribution):
    """Numbers from 0 to 1: density in proportion to x^(concentration1 - 1) (1 - x)^(concentration0 - 1)."""

    has_rsample = True
    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    _parts = {"concentration1": 0, "concentration0": 0}

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1: Tensor
        self.concentration0: Tensor
        self._take(validate_args, concentration1=concentration1, concentration0=concentration0)

    @property
    def support(self) -> Constraint:
        """From 0 to 1."""
        return constraints.unit_interval

    def _pair(self) -> Dirichlet:
        from ..creation import stack
        return Dirichlet(stack([self.concentration1, self.concentration0], -1), False)

    @property
    def mean(self) -> Tensor:
        """concentration1 over the sum of both."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        """The most probable values."""
        return self._pair().mode[..., 0]

    @property
    def variance(self) -> Tensor:
        """The variances."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape, through which gradients reach the parameters."""
        return self._pair().rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at a value."""
        value = self._inside(value)
        a, b = self.concentration1, self.concentration0
        return (a - 1).xlogy(value) + special.xlog1py(b - 1, -value) + (a + b).lgamma() - a.lgamma() - b.lgamma()

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        return self._pair().entropy()

