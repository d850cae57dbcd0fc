"""Kullback-Leibler divergences of pairs of distributions: the mean, under the first, of log(p / q)."""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from ..functional import softplus
from ..special import xlogy
from ..tensor import Tensor
from .continuous import (EULER, Cauchy, Exponential, Gumbel, HalfCauchy, HalfNormal, Laplace, Normal, Uniform)
from .discrete import Bernoulli, Binomial, Categorical, Geometric, Multinomial, OneHotCategorical, Poisson
from .distribution import Distribution, rightmost_sum
from .gammas import Beta, Dirichlet, Gamma
from .multivariate import Independent, MultivariateNormal, solved
from .transformed import Pareto, TransformedDistribution

_Rule = Callable[[Any, Any], Tensor]
_rules: dict[tuple[type, type], _Rule] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Callable[[Any, Any], Tensor]], Callable[[Any, Any], Tensor]]:
    """Decorates a function of two distributions of two kinds, or of kinds derived from those, as their divergence."""
    for kind in (type_p, type_q):
        if not (isinstance(kind, type) and issubclass(kind, Distribution)):
            raise TypeError(f"register_kl: {kind!r} is no kind of distributions")

    def known(rule: _Rule) -> _Rule:
        _rules[type_p, type_q] = rule
        return rule
    return known


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The Kullback-Leibler divergence of two distributions: by the rule of the kinds nearest to theirs."""
    for kind_p in type(p).__mro__:
        for kind_q in type(q).__mro__:
            rule = _rules.get((kind_p, kind_q))
            if rule is not None:
                return rule(p, q)
    raise NotImplementedError(f"kl_divergence: there is no rule for {type(p).__name__} and {type(q).__name__}")


def _infinite(p: Any, q: Any) -> Tensor:
    """The first has draws where the second has none."""
    return next(getattr(p, name).detach() * 0 + math.inf for name in ("rate", "loc", "scale", "concentration",
                                                                      "concentration1") if hasattr(p, name))


for _kind, _others in ((Exponential, (Beta, Pareto, Uniform)), (Gamma, (Beta, Pareto, Uniform)), (Beta, (Pareto,)),
                       (Gumbel, (Beta, Exponential, Gamma, Pareto, Uniform)), (Pareto, (Beta, Uniform)),
                       (Laplace, (Beta, Exponential, Gamma, Pareto, Uniform)), (Poisson, (Bernoulli, Binomial)),
                       (Normal, (Beta, Exponential, Gamma, Pareto, Uniform))):
    for _other in _others:
        _rules[_kind, _other] = _infinite
del _kind, _others, _other


# ---- of the same kind ----

@register_kl(Normal, Normal)
def _normals(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    return (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log()) / 2


@register_kl(HalfCauchy, HalfCauchy)
@register_kl(HalfNormal, HalfNormal)
def _halves(p: Any, q: Any) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Bernoulli, Bernoulli)
def _bernoullis(p: Any, q: Any) -> Tensor:
    ones = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    zeros = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    ones = ones.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0)
    made: Tensor = ones + zeros.masked_fill(q.probs == 1, math.inf).masked_fill(p.probs == 1, 0)
    return made


@register_kl(Binomial, Binomial)
def _binomials(p: Any, q: Any) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("kl_divergence: of binomial distributions the second has more trials than the first")
    made: Tensor = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return made.masked_fill(p.total_count > q.total_count, math.inf)


@register_kl(Categorical, Categorical)
def _categoricals(p: Any, q: Any) -> Tensor:
    parts: Tensor = p.probs * (p.logits - q.logits)
    return parts.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0).sum(-1)


def _mixed(p: Any, q: Any) -> Tensor:
    raise NotImplementedError(f"kl_divergence: there is no rule for {type(p).__name__} and {type(q).__name__}")


# All three derive from Categorical here.
for _pair in itertools.permutations((Categorical, OneHotCategorical, Multinomial), 2):
    _rules[_pair] = _mixed
_rules[OneHotCategorical, OneHotCategorical] = _categoricals
del _pair


@register_kl(Multinomial, Multinomial)
def _counts(p: Any, q: Any) -> Tensor:
    if p.total_count != q.total_count:
        raise NotImplementedError("kl_divergence: the multinomial distributions have different total counts")
    return p.total_count * _categoricals(p, q)


@register_kl(Uniform, Uniform)
def _uniforms(p: Any, q: Any) -> Tensor:
    made: Tensor = ((q.high - q.low) / (p.high - p.low)).log()
    return made.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(Exponential, Exponential)
def _exponentials(p: Any, q: Any) -> Tensor:
    ratio: Tensor = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Geometric, Geometric)
def _geometrics(p: Any, q: Any) -> Tensor:
    made: Tensor = -p.entropy() - (-q.probs).log1p() / p.probs - q.logits
    return made


@register_kl(Poisson, Poisson)
def _poissons(p: Any, q: Any) -> Tensor:
    made: Tensor = p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)
    return made


@register_kl(Laplace, Laplace)
def _laplaces(p: Any, q: Any) -> Tensor:
    apart = (p.loc - q.loc).abs()
    ratio: Tensor = p.scale / q.scale
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchys(p: Any, q: Any) -> Tensor:
    made: Tensor = ((p.scale + q.scale).square() + (p.loc - q.loc).square()).log() - (4 * p.scale * q.scale).log()
    return made


@register_kl(Gumbel, Gumbel)
def _gumbels(p: Any, q: Any) -> Tensor:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc) / q.scale
    made: Tensor = -ratio.log() + apart + ratio * EULER + (-apart + (1 + ratio).lgamma()).exp() - (1 + EULER)
    return made


@register_kl(Gamma, Gamma)
def _gammas(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    made: Tensor = b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() \
        + (q.rate - p.rate) * (a / p.rate)
    return made


@register_kl(Dirichlet, Dirichlet)
def _dirichlets(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    made: Tensor = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1) \
        + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)
    return made


@register_kl(Beta, Beta)
def _betas(p: Any, q: Any) -> Tensor:
    return _dirichlets(p._pair(), q._pair())


@register_kl(Pareto, Pareto)
def _paretos(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    made: Tensor = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return made.masked_fill(p.scale < q.scale, math.inf)


@register_kl(MultivariateNormal, MultivariateNormal)
def _vectors(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(f"kl_divergence: vectors of {list(p.event_shape)} and of {list(q.event_shape)} elements")
    parts = solved(q.scale_tril, p.scale_tril), solved(q.scale_tril, (q.loc - p.loc).unsqueeze(-1))
    squares = sum((part * part).sum((-2, -1)) for part in parts)
    made: Tensor = q.half_log_det() - p.half_log_det() + (squares - p.loc.shape[-1]) / 2
    return made


@register_kl(Independent, Independent)
def _independents(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence: the two count different axes as an event")
    return rightmost_sum(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence: the two are transformed by different functions")
    return kl_divergence(p.base_dist, q.base_dist)


# ---- of two kinds: minus the entropy of the first, minus the mean of the logarithm of the second ----

def _log_gaussian(mean: Any, square: Any, q: Any) -> Tensor:
    """The mean of -log q, q being normal, of what has a mean and a mean of squares."""
    made: Tensor = (square - 2 * q.loc * mean + q.loc.square()) / (2 * q.scale.square()) + q.scale.log() \
        + math.log(2 * math.pi) / 2
    return made


@register_kl(Beta, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Uniform, Normal)
def _against_normal(p: Any, q: Any) -> Tensor:
    made: Tensor = -p.entropy() + _log_gaussian(p.mean, p.variance + p.mean.square(), q)
    return made


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Tensor:
    return _against_normal(p, q).masked_fill(p.alpha <= 2, math.inf)


@register_kl(Beta, Exponential)
@register_kl(Gamma, Exponential)
@register_kl(Uniform, Exponential)
@register_kl(Pareto, Exponential)
def _against_exponential(p: Any, q: Any) -> Tensor:
    made: Tensor = -p.entropy() - q.rate.log() + q.rate * p.mean
    if isinstance(p, Uniform):
        made = made.masked_fill(p.low < 0, math.inf)
    return made.masked_fill(p.alpha <= 1, math.inf) if isinstance(p, Pareto) else made


def _log_gamma(p: Any, mean_log: Any, q: Any) -> Tensor:
    """The divergence from a gamma distribution of what has a mean and a mean of logarithms."""
    made: Tensor = -p.entropy() + q.concentration.lgamma() - q.concentration * q.rate.log() \
        - (q.concentration - 1) * mean_log + q.rate * p.mean
    return made


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Tensor:
    return _log_gamma(p, p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(), q)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Tensor:
    return _log_gamma(p, -p.rate.log() - EULER, q)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Tensor:
    return _log_gamma(p, p.scale.log() + p.alpha.reciprocal(), q).masked_fill(p.alpha <= 1, math.inf)


def _mean_log(low: Any, high: Any) -> Any:
    """The mean of log x over an interval."""
    return (xlogy(high, high) - xlogy(low, low)) / (high - low) - 1


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Tensor:
    return _log_gamma(p, _mean_log(p.low, p.high), q).masked_fill(p.low < 0, math.inf)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Tensor:
    a, b = q.concentration1, q.concentration0
    made: Tensor = -p.entropy() + a.lgamma() + b.lgamma() - (a + b).lgamma() - (a - 1) * _mean_log(p.low, p.high) \
        - (b - 1) * _mean_log(1 - p.high, 1 - p.low)
    return made.masked_fill((p.low < 0) | (p.high > 1), math.inf)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Tensor:
    made: Tensor = -p.entropy() - q.alpha.log() - xlogy(q.alpha, q.scale) + (q.alpha + 1) * _mean_log(p.low, p.high)
    return made.masked_fill(p.low < q.scale, math.inf)


@register_kl(Beta, Uniform)
def _beta_uniform(p: Any, q: Any) -> Tensor:
    made: Tensor = -p.entropy() + (q.high - q.low).log()
    return made.masked_fill((q.low > 0) | (q.high < 1), math.inf)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Tensor:
    made: Tensor = -p.entropy() - (p.probs * q.rate.log() - q.rate)
    return made


def _log_gumbel(p: Any, mean_power: Any, q: Any) -> Tensor:
    """The divergence from a Gumbel distribution, of what has a mean and a mean of e^(-x / scale)."""
    made: Tensor = -p.entropy() + q.scale.log() + (p.mean - q.loc) / q.scale + (q.loc / q.scale).exp() * mean_power
    return made


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Tensor:
    product = p.rate * q.scale
    return _log_gumbel(p, product / (product + 1), q)


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Tensor:
    return _log_gumbel(p, (1 + (p.rate * q.scale).reciprocal()).pow(-p.concentration), q)


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Tensor:
    return _log_gumbel(p, (-p.loc / q.scale + (p.scale / q.scale).square() / 2).exp(), q)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Tensor:
    share = q.scale / (p.high - p.low)
    return _log_gumbel(p, share * ((-p.low / q.scale).exp() - (-p.high / q.scale).exp()), q)


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Tensor:
    apart = p.loc - q.loc
    ratio = apart / p.scale
    mean_size = math.sqrt(2 / math.pi) * p.scale * (-ratio.square() / 2).exp() + apart * (ratio * math.sqrt(0.5)).erf()
    made: Tensor = -p.entropy() + (2 * q.scale).log() + mean_size / q.scale
    return made


__all__ = ["kl_divergence", "register_kl"]
