"""Probability distributions, as torch.distributions: drawing from them, logarithms of densities, entropies and
Kullback-Leibler divergences.

Parameters are tensors or numbers, broadcast with one another: that shape is `batch_shape`. One draw of each has
the shape batch_shape + event_shape. `rsample` passes gradients on to the parameters, `sample` does not.

A parameter that a distribution cannot have, such as a negative scale, is an error: at once where it is a number, and
of what derives from it where it is a tensor, since nothing is read. So is a value outside of a distribution's support
whose density is asked for. Neither is looked for with validate_args=False.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .autograd import no_grad
from .creation import as_tensor, broadcast_tensors, zeros
from .dtypes import Size
from .indexing import required
from .random import multinomial, poisson, rand, randn
from .tensor import Tensor
from .words import check_integer, check_tensor, invalid

_Shape = Sequence[int]


def _parameters(*values: Any) -> tuple[Tensor, ...]:
    beside = next((v for v in values if isinstance(v, Tensor)), None)
    for v in values:
        if not isinstance(v, (Tensor, int, float, str)) and getattr(v, "shape", None) != ():
            raise invalid(f"a parameter of a distribution is of type {type(v).__name__}; it must be a tensor or a number")
    made = [v if isinstance(v, Tensor) else as_tensor(float(v), None if beside is None else beside.dtype)
            for v in values]
    return tuple(broadcast_tensors(*made))


# What a parameter must be: how to tell, and the words for it.
_Rule = tuple[Callable[[Any], Any], str]
_POSITIVE: _Rule = lambda x: x > 0, "above 0"
_NOT_NEGATIVE: _Rule = lambda x: x >= 0, "0 or more"
_PROBABILITY: _Rule = lambda x: (x >= 0) & (x <= 1), "from 0 to 1"
_REAL: _Rule = lambda x: x == x, "a number"
_WEIGHTS: _Rule = lambda x: (x >= 0) & (x.sum(-1, True) > 0), "0 or more, and some of them above 0"
_COUNT: _Rule = lambda x: (x >= 0) & (x == x.floor()), "an integer, 0 or more"
_SYMMETRIC: _Rule = lambda x: (x - x.mT).abs() <= 1e-6 + 1e-5 * x.abs(), "symmetric"
_LOWER: _Rule = (lambda x: (x == x.tril()) & (x.diagonal(0, -2, -1) > 0).all(-1).unsqueeze(-1).unsqueeze(-1),
                 "lower triangular, with a diagonal above 0")
_EITHER: _Rule = lambda x: (x == 0) | (x == 1), "0 or 1"


def _valid(what: str, given: Any, value: Tensor, rule: _Rule, validate_args: bool | None) -> Tensor:
    """A parameter as it was given, and as a tensor, that has to follow a rule."""
    fine, words = rule
    if validate_args is False:
        return value
    if not isinstance(given, Tensor):
        if not fine(given):
            raise invalid(f"{what} is {given}; it must be {words}")
        return value
    made: Tensor = required(value, fine(value), f"{what} must be {words}")
    return made


class Distribution:
    """What distributions share. A subclass has `log_prob`, `mean`, `variance`, and `rsample` or `sample`."""

    has_rsample = False

    def __init__(self, batch_shape: _Shape = (), event_shape: _Shape = (), validate_args: bool | None = None) -> None:
        self._batch, self._event = Size(batch_shape), Size(event_shape)
        self._validate = validate_args

    def _inside(self, value: Any, rule: _Rule) -> Tensor:
        """A value whose density is asked for, which has to follow a rule: to lie within the support."""
        what = f"{type(self).__name__}: the value"
        if not isinstance(value, Tensor):
            raise invalid(f"{what} is of type {type(value).__name__}; it must be a Tensor")
        return _valid(what, value, value, rule, self._validate)

    @property
    def batch_shape(self) -> Any:
        """The shape of the parameters."""
        return self._batch

    @property
    def event_shape(self) -> Any:
        """The shape of one draw from one distribution of the batch."""
        return self._event

    @property
    def mean(self) -> Tensor:
        """The means."""
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def variance(self) -> Tensor:
        """The variances."""
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviations."""
        return self.variance.sqrt()

    def _extended(self, sample_shape: _Shape) -> tuple[int, ...]:
        return (*sample_shape, *self._batch, *self._event)

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape + event_shape, through which gradients reach the parameters."""
        raise NotImplementedError(f"{type(self).__name__}: gradients do not pass through draws; use sample")

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape + event_shape, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or probability, at a value."""
        raise NotImplementedError(f"{type(self).__name__} has no density")

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    def perplexity(self) -> Tensor:
        """exp(entropy)"""
        return self.entropy().exp()

    def _shown(self) -> tuple[str, ...]:
        return ()

    def __repr__(self) -> str:
        def text(value: Tensor) -> str:
            return str(value.item()) if value.numel() == 1 else str(value.shape)
        return f"{type(self).__name__}(" + ", ".join(f"{n}: {text(getattr(self, n))}" for n in self._shown()) + ")"


class _LocScale(Distribution):
    """A distribution that is moved by `loc` and stretched by `scale`."""

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = _parameters(loc, scale)
        self.loc = _valid(f"{type(self).__name__}: loc", loc, self.loc, _REAL, validate_args)
        self.scale = _valid(f"{type(self).__name__}: scale", scale, self.scale, _POSITIVE, validate_args)
        super().__init__(self.loc.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """The means."""
        return self.loc

    mode = mean

    def _shown(self) -> tuple[str, ...]:
        return "loc", "scale"


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
        return self.loc + randn(self._extended(sample_shape), dtype=self.loc.dtype) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at a value."""
        z = (self._inside(value, _REAL) - self.loc) / self.scale
        return -z * z / 2 - self.scale.log() - math.log(2 * math.pi) / 2

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        return self.scale.log() + 0.5 * (1 + math.log(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most a value."""
        return 0.5 * (1 + ((self._inside(value, _REAL) - self.loc) / (self.scale * math.sqrt(2))).erf())

    def icdf(self, value: Tensor) -> Tensor:
        """The value that is not exceeded with a probability."""
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)


class Laplace(_LocScale):
    """The Laplace distribution: density exp(-|x - loc| / scale) / (2 scale)."""

    @property
    def variance(self) -> Tensor:
        """2 scale^2"""
        return 2 * self.scale * self.scale

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape, through which gradients reach the parameters."""
        u = rand(self._extended(sample_shape), dtype=self.loc.dtype) - 0.5
        return self.loc - self.scale * u.sign() * (-2 * u.abs()).clamp(min=-1 + 2 ** -24).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at a value."""
        return -(self._inside(value, _REAL) - self.loc).abs() / self.scale - (2 * self.scale).log()

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        return 1 + (2 * self.scale).log()


class Uniform(Distribution):
    """The uniform distribution over [low, high)."""

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = _parameters(low, high)
        both = high if not isinstance(low, Tensor) and not isinstance(high, Tensor) else self.high
        self.high = _valid("Uniform: high", both, self.high, (lambda x: x > (
            self.low if isinstance(x, Tensor) else low), "above low"), validate_args)
        super().__init__(self.low.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """(low + high) / 2"""
        return (self.low + self.high) / 2

    @property
    def variance(self) -> Tensor:
        """(high - low)^2 / 12"""
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape, through which gradients reach the bounds."""
        return self.low + rand(self._extended(sample_shape), dtype=self.low.dtype) * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """-log(high - low) within [low, high); -infinity at high, and elsewhere with validate_args=False."""
        value = self._inside(value, (lambda x: (x >= self.low) & (x <= self.high), "from low to high"))
        inside = (value >= self.low) & (value < self.high)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def entropy(self) -> Tensor:
        """log(high - low)"""
        return (self.high - self.low).log()

    def _shown(self) -> tuple[str, ...]:
        return "low", "high"


class Exponential(Distribution):
    """The exponential distribution: density rate exp(-rate x) for x >= 0."""

    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self.rate, = _parameters(rate)
        self.rate = _valid("Exponential: rate", rate, self.rate, _POSITIVE, validate_args)
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """1 / rate"""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        """1 / rate^2"""
        return self.rate ** -2

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape, through which gradients reach the rate."""
        return -(-rand(self._extended(sample_shape), dtype=self.rate.dtype)).log1p() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at a value, 0 or more."""
        return self.rate.log() - self.rate * self._inside(value, _NOT_NEGATIVE)

    def entropy(self) -> Tensor:
        """1 - log(rate)"""
        return 1 - self.rate.log()

    def _shown(self) -> tuple[str, ...]:
        return ("rate",)


class Poisson(Distribution):
    """The Poisson distribution: how many events of a mean rate occur."""

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self.rate, = _parameters(rate)
        self.rate = _valid("Poisson: rate", rate, self.rate, _NOT_NEGATIVE, validate_args)
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """rate"""
        return self.rate

    @property
    def variance(self) -> Tensor:
        """rate"""
        return self.rate

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape: whole numbers, in the type of the rate."""
        return poisson(self.rate.detach().expand(self._extended(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of a value, an integer, 0 or more."""
        value = self._inside(value, _COUNT)
        return value.xlogy(self.rate) - self.rate - (value + 1).lgamma()

    def _shown(self) -> tuple[str, ...]:
        return ("rate",)


class _Discrete(Distribution):
    """A distribution given by probabilities or by logits, one of both."""

    def _take(self, probs: Any, logits: Any, rule: _Rule, validate_args: bool | None) -> Tensor:
        if (probs is None) == (logits is None):
            raise invalid(f"{type(self).__name__}: give probs or logits, one of both")
        self._by_probs = logits is None
        made, = _parameters(probs if logits is None else logits)
        if logits is None:
            return _valid(f"{type(self).__name__}: probs", probs, made, rule, validate_args)
        return _valid(f"{type(self).__name__}: logits", logits, made, _REAL, validate_args)

    def _shown(self) -> tuple[str, ...]:
        return ("probs" if self._by_probs else "logits",)


class Bernoulli(_Discrete):
    """1 with probability probs, else 0; or logits = log(probs / (1 - probs))."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        given = self._take(probs, logits, _PROBABILITY, validate_args)
        self.probs = given if self._by_probs else given.sigmoid()
        eps = 2.0 ** (-23 if given.dtype.itemsize < 8 else -52)
        self.logits = given.clamp(eps, 1 - eps).logit() if self._by_probs else given
        super().__init__(given.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """probs"""
        return self.probs

    @property
    def variance(self) -> Tensor:
        """probs (1 - probs)"""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """Zeros and ones of shape sample_shape + batch_shape, in the type of the parameter."""
        p = self.probs.detach()
        return (rand(self._extended(sample_shape), dtype=p.dtype) < p).to(p.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of 0 or 1."""
        logits, value = broadcast_tensors(self.logits, self._inside(value, _EITHER))
        return value * logits - logits.clamp(min=0) - (-logits.abs()).exp().log1p()

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        return self.logits.clamp(min=0) + (-self.logits.abs()).exp().log1p() - self.probs * self.logits


class Categorical(_Discrete):
    """0 to K - 1 with probabilities (…, K), which are divided by their sum; or the softmax of logits (…, K)."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        for parameter in (probs, logits):
            fits = isinstance(parameter, Tensor) and parameter.ndim and parameter.numel()
            if parameter is not None and not fits:
                raise invalid("Categorical: probs, or logits, must be a tensor whose last axis are the categories, one "
                              f"at least; not {parameter}")
        given = self._take(probs, logits, _WEIGHTS, validate_args)
        if self._by_probs:
            self.probs = given / given.sum(-1, keepdim=True)
            eps = 2.0 ** (-23 if given.dtype.itemsize < 8 else -52)
            self.logits = self.probs.clamp(eps, 1 - eps).log()
        else:
            self.logits = given.log_softmax(-1)
            self.probs = given.softmax(-1)
        super().__init__(given.shape[:-1], (), validate_args)

    @property
    def mode(self) -> Tensor:
        """The most probable categories."""
        return self.probs.argmax(-1)

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """Categories, int64, of shape sample_shape + batch_shape."""
        n = math.prod(sample_shape)
        rows = self.probs.detach().reshape(-1, self.probs.shape[-1])
        return multinomial(rows, n, True).T.reshape(self._extended(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of categories, 0 to K - 1."""
        k = self.logits.shape[-1]
        value = self._inside(value, (lambda x: (x >= 0) & (x < k) & (x == x.floor()), f"an integer from 0 to {k - 1}"))
        value = value.long().unsqueeze(-1)
        shape = broadcast_tensors(zeros(value.shape[:-1]), zeros(self.logits.shape[:-1]))[0].shape
        return self.logits.expand(*shape, -1).gather(-1, value.expand(*shape, 1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        return -(self.probs * self.logits).sum(-1)


def _solved(lower: Tensor, b: Tensor) -> Tensor:
    from .linalg import solve_triangular
    batch = broadcast_tensors(zeros(lower.shape[:-2]), zeros(b.shape[:-2]))[0].shape
    return solve_triangular(lower.expand(*batch, -1, -1), b.expand(*batch, -1, -1), upper=False)


class MultivariateNormal(Distribution):
    """The normal distribution of vectors, of mean `loc` (…, n), with a covariance (…, n, n), its inverse, or its
    Cholesky factor."""

    has_rsample = True

    def __init__(self, loc: Tensor, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
                 scale_tril: Tensor | None = None, validate_args: bool | None = None) -> None:
        from .linalg import cholesky, inv
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(given) != 1:
            raise invalid("MultivariateNormal: give one of covariance_matrix, precision_matrix and scale_tril")
        check_tensor(loc, "MultivariateNormal", "the loc")
        check_tensor(given[0], "MultivariateNormal", "the matrix")
        if not loc.ndim or given[0].ndim < 2:
            raise invalid(f"MultivariateNormal: loc has shape {list(loc.shape)}, the matrix {list(given[0].shape)}; they "
                          "need one axis, and two, at least")
        if scale_tril is None:
            symmetric = _valid("MultivariateNormal: the matrix", given[0], given[0], _SYMMETRIC, validate_args)
            made: Tensor = cholesky(symmetric if covariance_matrix is not None else inv(symmetric))
        else:
            made = _valid("MultivariateNormal: scale_tril", scale_tril, scale_tril, _LOWER, validate_args)
        self.scale_tril = made
        if self.scale_tril.shape[-2:] != (loc.shape[-1],) * 2:
            raise invalid(f"MultivariateNormal: loc has shape {list(loc.shape)}, the matrix {list(given[0].shape)}")
        batch = broadcast_tensors(zeros(loc.shape[:-1]), zeros(given[0].shape[:-2]))[0].shape
        self.loc = loc.expand(*batch, -1)
        super().__init__(batch, loc.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        """loc"""
        return self.loc

    mode = mean

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariances (…, n, n)."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def variance(self) -> Tensor:
        """The diagonals of the covariances."""
        return (self.scale_tril ** 2).sum(-1).expand(*self._batch, *self._event)

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape + (n,), through which gradients reach the parameters."""
        z = randn(self._extended(sample_shape), dtype=self.loc.dtype)
        return self.loc + (self.scale_tril @ z.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self) -> Tensor:
        return self.scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at vectors."""
        z = _solved(self.scale_tril, (self._inside(value, _REAL) - self.loc).unsqueeze(-1))
        return -(z * z).sum((-2, -1)) / 2 - self._half_log_det() - self.loc.shape[-1] * math.log(2 * math.pi) / 2

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        n = self.loc.shape[-1]
        return (n * (1 + math.log(2 * math.pi)) / 2 + self._half_log_det()).expand(*self._batch)

    def _shown(self) -> tuple[str, ...]:
        return "loc", "scale_tril"


class Independent(Distribution):
    """A distribution of which the last axes of the batch count as one event: their logarithms are added."""

    def __init__(self, base_distribution: Distribution, reinterpreted_batch_ndims: int,
                 validate_args: bool | None = None) -> None:
        if not isinstance(base_distribution, Distribution):
            raise TypeError(f"Independent: {base_distribution!r} is no distribution")
        check_integer(reinterpreted_batch_ndims, "Independent", "reinterpreted_batch_ndims")
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        batch = base_distribution.batch_shape
        if not 0 <= reinterpreted_batch_ndims <= len(batch):
            raise invalid(f"Independent: {reinterpreted_batch_ndims} axes of a batch of shape {list(batch)}")
        cut = len(batch) - reinterpreted_batch_ndims
        self.has_rsample = base_distribution.has_rsample
        super().__init__(batch[:cut], (*batch[cut:], *base_distribution.event_shape), validate_args)

    @property
    def mean(self) -> Tensor:
        """The means."""
        return self.base_dist.mean

    @property
    def variance(self) -> Tensor:
        """The variances."""
        return self.base_dist.variance

    def _added(self, value: Tensor) -> Tensor:
        n = self.reinterpreted_batch_ndims
        return value.sum(tuple(range(-n, 0))) if n else value

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of the distribution within."""
        return self.base_dist.rsample(sample_shape)

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of the distribution within, without gradients."""
        return self.base_dist.sample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at a value, added over the event's axes."""
        return self._added(self.base_dist.log_prob(value))

    def entropy(self) -> Tensor:
        """The entropies, in nats, added over the event's axes."""
        return self._added(self.base_dist.entropy())

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


# ---- Kullback-Leibler divergences ----

def _normals(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    return (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log()) / 2


def _bernoullis(p: Any, q: Any) -> Tensor:
    from .functional import logsigmoid
    made: Tensor = p.probs * (p.logits - q.logits) + logsigmoid(-p.logits) - logsigmoid(-q.logits)
    return made


def _categoricals(p: Any, q: Any) -> Tensor:
    return (p.probs * (p.logits - q.logits)).sum(-1)


def _uniforms(p: Any, q: Any) -> Tensor:
    within = (q.low <= p.low) & (q.high >= p.high)
    return ((q.high - q.low) / (p.high - p.low)).log() - within.to(p.low.dtype).log()


def _exponentials(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


def _poissons(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


def _laplaces(p: Any, q: Any) -> Tensor:
    apart = (p.loc - q.loc).abs()
    ratio = p.scale / q.scale
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


def _vectors(p: Any, q: Any) -> Tensor:
    parts = _solved(q.scale_tril, p.scale_tril), _solved(q.scale_tril, (q.loc - p.loc).unsqueeze(-1))
    squares = sum((part * part).sum((-2, -1)) for part in parts)
    return q._half_log_det() - p._half_log_det() + (squares - p.loc.shape[-1]) / 2


def _independents(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise invalid("kl_divergence: the two count different axes as an event")
    made: Tensor = p._added(kl_divergence(p.base_dist, q.base_dist))
    return made


_KL: dict[type, Callable[[Any, Any], Tensor]] = {
    Normal: _normals, Bernoulli: _bernoullis, Categorical: _categoricals, Uniform: _uniforms,
    Exponential: _exponentials, Poisson: _poissons, Laplace: _laplaces, MultivariateNormal: _vectors,
    Independent: _independents}


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The Kullback-Leibler divergence of two distributions of the same kind: the mean under p of log(p / q)."""
    rule = _KL.get(type(p))
    if rule is None or type(q) is not type(p):
        raise NotImplementedError(f"kl_divergence: there is no rule for {type(p).__name__} and {type(q).__name__}")
    return rule(p, q)


__all__ = ["Bernoulli", "Categorical", "Distribution", "Exponential", "Independent", "Laplace", "MultivariateNormal",
           "Normal", "Poisson", "Uniform", "kl_divergence"]
