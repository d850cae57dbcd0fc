"""Distributions of integers and of categories."""
from __future__ import annotations

import math
from typing import Any

from .. import draws
from ..creation import arange, broadcast_tensors, eye, zeros
from ..dtypes import finfo
from ..random import fractions, multinomial
from ..tensor import Tensor
from ..words import check_integer, invalid
from . import constraints
from .constraints import Constraint
from .distribution import Distribution, _Shape, parameters, together, valid


class Poisson(Distribution):
    """The Poisson distribution: how many events of a mean rate occur."""

    arg_constraints = {"rate": constraints.nonnegative}
    _parts = {"rate": 0}

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self.rate: Tensor
        self._take(validate_args, rate=rate)

    @property
    def support(self) -> Constraint:
        """Integers, 0 or more."""
        return constraints.nonnegative_integer

    @property
    def mean(self) -> Tensor:
        """rate"""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """The rate without its fraction."""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        """rate"""
        return self.rate

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape: whole numbers, in the type of the rate."""
        made: Tensor = draws.poisson(self.rate.detach().expand(self._extended_shape(sample_shape)))
        return made.to(self.rate.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of a value, an integer, 0 or more."""
        value = self._inside(value)
        return value.xlogy(self.rate) - self.rate - (value + 1).lgamma()


class _Odds(Distribution):
    """A distribution given by probabilities or by logits, one of both."""

    _parts = {"probs": 0, "logits": 0}
    _probs: Constraint = constraints.unit_interval

    def _given(self, probs: Any, logits: Any, validate_args: bool | None, *others: Any) -> tuple[Tensor, ...]:
        """What was given of the two, and other parameters, broadcast."""
        if (probs is None) == (logits is None):
            raise invalid(f"{type(self).__name__}: give probs or logits, one of both")
        self._by_probs = logits is None
        given = probs if self._by_probs else logits
        check = self._checks(validate_args)
        made = parameters(*others, given) if others else parameters(given)
        name, constraint = ("probs", self._probs) if self._by_probs else ("logits", constraints.real)
        return *made[:-1], valid(f"{type(self).__name__}: {name}", given, made[-1], constraint, check)

    def _single(self, probs: Any, logits: Any, validate_args: bool | None, *others: Any) -> tuple[Tensor, ...]:
        """Has probabilities of 1, or of success, and their logits; what else was given, broadcast."""
        *rest, given = self._given(probs, logits, validate_args, *others)
        self.probs = given if self._by_probs else given.sigmoid()
        self.logits = _clamped(given).logit() if self._by_probs else given
        Distribution.__init__(self, given.shape, (), validate_args)
        return tuple(rest)

    def _counted(self, total_count: Any, probs: Any, logits: Any, validate_args: bool | None) -> None:
        """`_single` of trials, and how many they are."""
        count, = self._single(probs, logits, validate_args, total_count)
        self.total_count = valid(f"{type(self).__name__}: total_count", total_count, count.to(self.probs.dtype),
                                 self.arg_constraints["total_count"], self._validate_args)

    def _shown(self) -> tuple[str, ...]:
        return (*(n for n in self._parts if n not in ("probs", "logits")), "probs" if self._by_probs else "logits")


def _clamped(probs: Tensor) -> Tensor:
    eps = finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def _log_sum(logits: Tensor) -> Tensor:
    """log(1 + e^x)"""
    return logits.clamp(min=0) + (-logits.abs()).exp().log1p()


class Bernoulli(_Odds):
    """1 with probability probs, else 0; or logits = log(probs / (1 - probs))."""

    has_enumerate_support = True
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._single(probs, logits, validate_args)

    @property
    def support(self) -> Constraint:
        """0 and 1."""
        return constraints.boolean

    @property
    def mean(self) -> Tensor:
        """probs"""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """0 or 1, whichever is more probable; NaN where both are the same."""
        return (self.probs >= 0.5).to(self.probs.dtype).masked_fill(self.probs == 0.5, math.nan)

    @property
    def variance(self) -> Tensor:
        """probs (1 - probs)"""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """Zeros and ones of shape sample_shape + batch_shape, in the type of the parameter."""
        p = self.probs.detach()
        return (fractions(self._extended_shape(sample_shape), p.dtype) < p).to(p.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of 0 or 1."""
        logits, value = broadcast_tensors(self.logits, self._inside(value))
        return value * logits - _log_sum(logits)

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        return _log_sum(self.logits) - self.probs * self.logits

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1 along a new first axis."""
        return self._listed(arange(2).to(self.probs.dtype), expand)


class Geometric(_Odds):
    """How many trials fail before the first that succeeds, with probability probs each."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._single(probs, logits, validate_args)
        if self._by_probs:
            self.probs = valid("Geometric: probs", probs, self.probs, constraints.positive, self._validate_args)

    @property
    def support(self) -> Constraint:
        """Integers, 0 or more."""
        return constraints.nonnegative_integer

    @property
    def mean(self) -> Tensor:
        """1 / probs - 1"""
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        """0"""
        return self.probs.detach() * 0

    @property
    def variance(self) -> Tensor:
        """(1 / probs - 1) / probs"""
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape: whole numbers, in the type of the parameter."""
        p = self.probs.detach()
        made: Tensor = (draws.uniform(self._extended_shape(sample_shape)).log() / (-p.double()).log1p()).floor()
        return made.to(p.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of a value, an integer, 0 or more."""
        value, p = broadcast_tensors(self._inside(value), self.probs)
        p = p.masked_fill((p == 1) & (value == 0), 0)
        return value * (-p).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        return (_log_sum(self.logits) - self.probs * self.logits) / self.probs


class Binomial(_Odds):
    """How many of `total_count` trials succeed, with probability probs each."""

    has_enumerate_support = True
    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval,
                       "logits": constraints.real}
    _parts = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        self._counted(total_count, probs, logits, validate_args)

    @property
    def support(self) -> Constraint:
        """Integers from 0 to total_count."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        """total_count probs"""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """The most probable counts."""
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        """total_count probs (1 - probs)"""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape: whole numbers, in the type of the parameter."""
        shape, p = self._extended_shape(sample_shape), self.probs.detach()
        made: Tensor = draws.binomial(self.total_count.detach().expand(shape), p.expand(shape))
        return made.to(p.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of a count."""
        value, n = self._inside(value), self.total_count
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return value * self.logits - n * _log_sum(self.logits) + ways

    def _most(self) -> int:
        n = int(self.total_count.max().item())
        if self.total_count.numel() and int(self.total_count.min().item()) != n:
            raise NotImplementedError("Binomial: the total counts differ; their values have no list in common")
        return n

    def entropy(self) -> Tensor:
        """The entropies, in nats; the total counts, which are read, must be the same."""
        self._most()
        chances = self.log_prob(self.enumerate_support(False))
        return -(chances.exp() * chances).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 to total_count along a new first axis; the total counts, which are read, must be the same."""
        return self._listed(arange(self._most() + 1).to(self.probs.dtype), expand)


class NegativeBinomial(_Odds):
    """How many trials succeed, with probability probs each, before `total_count` have failed."""

    arg_constraints = {"total_count": constraints.nonnegative, "probs": constraints.half_open_interval(0, 1),
                       "logits": constraints.real}
    _parts = {"total_count": 0, "probs": 0, "logits": 0}
    _probs = constraints.half_open_interval(0, 1)

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        self._counted(total_count, probs, logits, validate_args)

    @property
    def support(self) -> Constraint:
        """Integers, 0 or more."""
        return constraints.nonnegative_integer

    @property
    def mean(self) -> Tensor:
        """total_count exp(logits)"""
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        """The most probable counts."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """mean / (1 - probs)"""
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape: whole numbers, in the type of the parameter."""
        shape = self._extended_shape(sample_shape)
        rate = draws.standard_gamma(self.total_count.detach().expand(shape)) * self.logits.detach().double().exp()
        made: Tensor = draws.poisson(rate)
        return made.to(self.logits.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of a count."""
        value, n = self._inside(value), self.total_count
        chance = -n * _log_sum(self.logits) - value * _log_sum(-self.logits)
        ways = -(n + value).lgamma() + (value + 1).lgamma() + n.lgamma()
        return chance - ways.masked_fill(n + value == 0, 0)


class Categorical(_Odds):
    """0 to K - 1 with probabilities (…, K), which are divided by their sum; or the softmax of logits (…, K)."""

    has_enumerate_support = True
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _parts = {"probs": 1, "logits": 1}
    _probs = constraints.weights

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        for parameter in (probs, logits):
            fits = isinstance(parameter, Tensor) and parameter.ndim and parameter.shape[-1]
            if parameter is not None and not fits:
                raise invalid(f"{type(self).__name__}: probs, or logits, must be a tensor whose last axis are the "
                              f"categories, one at least; not {parameter}")
        given, = self._given(probs, logits, validate_args)
        if self._by_probs:
            self.probs = given / given.sum(-1, keepdim=True)
            self.logits = _clamped(self.probs).log()
        else:
            self.logits = given.log_softmax(-1)
            self.probs = given.softmax(-1)
        Distribution.__init__(self, given.shape[:-1], (), validate_args)

    @property
    def support(self) -> Constraint:
        """0 to K - 1."""
        return constraints.integer_interval(0, self.probs.shape[-1] - 1)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self.probs.shape

    @property
    def mean(self) -> Tensor:
        """NaN: categories are no numbers."""
        return self.probs.detach()[..., 0] * math.nan

    @property
    def mode(self) -> Tensor:
        """The most probable categories."""
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        """NaN: categories are no numbers."""
        return Categorical.mean.__get__(self)

    def _drawn(self, sample_shape: _Shape) -> Tensor:
        extended, k = self._extended_shape(sample_shape), self.probs.shape[-1]
        shape = extended[:len(extended) - len(self._event)]
        if not math.prod(shape):
            return zeros(shape, dtype="int64")
        return multinomial(self.probs.detach().reshape(-1, k), math.prod(sample_shape), True).T.reshape(shape)

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """Categories, int64, of shape sample_shape + batch_shape."""
        return self._drawn(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of categories, 0 to K - 1."""
        value = self._inside(value).long().unsqueeze(-1)
        shape = together(value.shape[:-1], self.logits.shape[:-1])
        return self.logits.expand(*shape, -1).gather(-1, value.expand(*shape, 1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        return -(self.probs * self.logits.clamp(min=finfo(self.logits.dtype).min)).sum(-1)  # not 0 times infinity

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 to K - 1 along a new first axis."""
        return self._listed(arange(self.probs.shape[-1]), expand)


class OneHotCategorical(Categorical):
    """A `Categorical` whose draws are vectors with a single 1 among zeros."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)
        self._event = self.probs.shape[-1:]

    @property
    def support(self) -> Constraint:
        """A single 1 among zeros."""
        return constraints.one_hot

    @property
    def mean(self) -> Tensor:
        """probs"""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The most probable vectors."""
        return self._vectors(self.probs.argmax(-1))

    @property
    def variance(self) -> Tensor:
        """probs (1 - probs)"""
        return self.probs * (1 - self.probs)

    def _vectors(self, categories: Tensor) -> Tensor:
        return (categories.unsqueeze(-1) == arange(self.probs.shape[-1])).to(self.probs.dtype)

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """Vectors of shape sample_shape + batch_shape + (K,)."""
        return self._vectors(self._drawn(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of vectors."""
        value, logits = broadcast_tensors(self._inside(value), self.logits)
        return logits.gather(-1, value.argmax(-1, True)).squeeze(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The vectors along a new first axis."""
        return self._listed(eye(self.probs.shape[-1], dtype=self.probs.dtype), expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """A `OneHotCategorical` whose draws have the gradients of the probabilities (Bengio et al., 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw, through which gradients reach the probabilities as if it were they."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(Categorical):
    """How often each of K categories comes in `total_count` draws, an integer."""

    has_enumerate_support = False

    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError(f"Multinomial: total_count is {total_count!r}; it must be the same integer for all")
        check_integer(total_count, "Multinomial", "total_count")
        super().__init__(probs, logits, validate_args)
        self.total_count = total_count
        self._event = self.probs.shape[-1:]

    @property
    def support(self) -> Constraint:
        """Integers, 0 or more, with a sum of total_count."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        """total_count probs"""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """Not available."""
        raise NotImplementedError("Multinomial has no mode")

    @property
    def variance(self) -> Tensor:
        """total_count probs (1 - probs)"""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """Counts of shape sample_shape + batch_shape + (K,), in the type of the parameter."""
        ones = zeros(self._extended_shape(sample_shape), dtype=self.probs.dtype)
        drawn = self._drawn((self.total_count, *sample_shape))
        at = drawn.movedim(0, -1)
        return ones.scatter_add(-1, at, at.to(ones.dtype) * 0 + 1)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of counts."""
        value, logits = broadcast_tensors(self._inside(value), self.logits)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        n = self.total_count
        one = Binomial(n, probs=self.probs, validate_args=False)
        counts = one.enumerate_support(False)[1:]
        ways = (one.log_prob(counts).exp() * (counts + 1).lgamma()).sum((0, -1))
        return n * Categorical.entropy(self) - math.lgamma(n + 1) + ways

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Not available."""
        raise NotImplementedError("Multinomial: its values are not listed")
