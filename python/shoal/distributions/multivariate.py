"""Distributions of vectors, and those that are made of others."""
from __future__ import annotations

import math
from typing import Any

from ..random import randn
from ..tensor import Tensor
from ..words import check_integer, check_tensor, invalid
from . import constraints
from .constraints import Constraint
from .discrete import Categorical
from .distribution import Distribution, _Shape, rightmost_sum, together, valid


def solved(lower: Tensor, b: Tensor) -> Tensor:
    """The solutions of lower triangular systems, broadcast."""
    from ..linalg import solve_triangular
    batch = together(lower.shape[:-2], b.shape[:-2])
    made: Tensor = solve_triangular(lower.expand(*batch, -1, -1), b.expand(*batch, -1, -1), upper=False)
    return made


class MultivariateNormal(Distribution):
    """The normal distribution of vectors, of mean `loc` (…, n), with a covariance (…, n, n), its inverse, or its
    Cholesky factor."""

    has_rsample = True
    arg_constraints = {"loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}
    _parts = {"loc": 1, "scale_tril": 2}

    def __init__(self, loc: Tensor, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
                 scale_tril: Tensor | None = None, validate_args: bool | None = None) -> None:
        from ..linalg import cholesky, inv
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(given) != 1:
            raise invalid("MultivariateNormal: give one of covariance_matrix, precision_matrix and scale_tril")
        check_tensor(loc, "MultivariateNormal", "the loc")
        check_tensor(given[0], "MultivariateNormal", "the matrix")
        if not loc.ndim or given[0].ndim < 2:
            raise invalid(f"MultivariateNormal: loc has shape {list(loc.shape)}, the matrix {list(given[0].shape)}; they "
                          "need one axis, and two, at least")
        if given[0].shape[-2:] != (loc.shape[-1],) * 2:
            raise invalid(f"MultivariateNormal: loc has shape {list(loc.shape)}, the matrix {list(given[0].shape)}")
        check = self._checks(validate_args)
        if scale_tril is None:
            # That it is positive definite, too, is seen by what takes it apart.
            symmetric = valid("MultivariateNormal: the matrix", given[0], given[0], constraints.symmetric, check)
            made: Tensor = cholesky(symmetric if covariance_matrix is not None else inv(symmetric))
        else:
            made = valid("MultivariateNormal: scale_tril", scale_tril, scale_tril, constraints.lower_cholesky, check)
        batch = together(loc.shape[:-1], given[0].shape[:-2])
        self.scale_tril = made.expand(*batch, -1, -1)
        self.loc = valid("MultivariateNormal: loc", loc, loc, constraints.real_vector, check).expand(*batch, -1)
        super().__init__(batch, loc.shape[-1:], check)

    @property
    def support(self) -> Constraint:
        """All vectors."""
        return constraints.real_vector

    @property
    def mean(self) -> Tensor:
        """loc"""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """loc"""
        return self.loc

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariances (…, n, n)."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor:
        """The inverses of the covariances (…, n, n)."""
        from ..linalg import inv
        made: Tensor = inv(self.covariance_matrix)
        return made

    @property
    def variance(self) -> Tensor:
        """The diagonals of the covariances."""
        return (self.scale_tril ** 2).sum(-1)

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape + (n,), through which gradients reach the parameters."""
        z = randn(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + (self.scale_tril @ z.unsqueeze(-1)).squeeze(-1)

    def half_log_det(self) -> Tensor:
        """Half the logarithms of the determinants of the covariances."""
        return self.scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at vectors."""
        z = solved(self.scale_tril, (self._inside(value) - self.loc).unsqueeze(-1))
        return -(z * z).sum((-2, -1)) / 2 - self.half_log_det() - self.loc.shape[-1] * math.log(2 * math.pi) / 2

    def entropy(self) -> Tensor:
        """The entropies, in nats."""
        return self.loc.shape[-1] * (1 + math.log(2 * math.pi)) / 2 + self.half_log_det()


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
        self.has_enumerate_support = base_distribution.has_enumerate_support and not reinterpreted_batch_ndims
        super().__init__(batch[:cut], (*batch[cut:], *base_distribution.event_shape), validate_args)

    def expand(self, batch_shape: _Shape) -> Any:
        """The same distribution for a batch of another shape."""
        taken = self._event[:self.reinterpreted_batch_ndims]
        return Independent(self.base_dist.expand((*batch_shape, *taken)), self.reinterpreted_batch_ndims,
                           self._validate_args)

    @property
    def support(self) -> Constraint:
        """That of the distribution within, for all of an event."""
        inner, n = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(inner, n) if n else inner

    @property
    def mean(self) -> Tensor:
        """The means."""
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        """The most probable values."""
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        """The variances."""
        return self.base_dist.variance

    def rsample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of the distribution within."""
        return self.base_dist.rsample(sample_shape)

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of the distribution within, without gradients."""
        return self.base_dist.sample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at a value, added over the event's axes."""
        return rightmost_sum(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """The entropies, in nats, added over the event's axes."""
        return rightmost_sum(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The values of the distribution within, where no axes of the batch count as an event."""
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Independent: the values of several distributions are not listed")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """A mixture: which part a draw comes from is drawn by a `Categorical`, among the last axis of the batch of another
    distribution."""

    def __init__(self, mixture_distribution: Categorical, component_distribution: Distribution,
                 validate_args: bool | None = None) -> None:
        if type(mixture_distribution) is not Categorical:
            raise ValueError(f"MixtureSameFamily: the mixture is {mixture_distribution!r}; it must be a Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError(f"MixtureSameFamily: the components are {component_distribution!r}; they must be a distribution")
        self.mixture_distribution, self.component_distribution = mixture_distribution, component_distribution
        batch, n = component_distribution.batch_shape, mixture_distribution.probs.shape[-1]
        if not len(batch) or batch[-1] != n:
            raise ValueError(f"MixtureSameFamily: a mixture of {n} of a batch of shape {list(batch)}; they must be along "
                             "its last axis")
        together(mixture_distribution.batch_shape, batch[:-1])
        super().__init__(batch[:-1], component_distribution.event_shape, validate_args)

    def expand(self, batch_shape: _Shape) -> Any:
        """The same distribution for a batch of another shape."""
        n = self.mixture_distribution.probs.shape[-1]
        return MixtureSameFamily(self.mixture_distribution.expand(batch_shape),
                                 self.component_distribution.expand((*batch_shape, n)), self._validate_args)

    @property
    def support(self) -> Constraint:
        """That of the parts."""
        return self.component_distribution.support

    def _weights(self) -> Tensor:
        return self.mixture_distribution.probs.reshape(*self.mixture_distribution.probs.shape, *(1,) * len(self._event))

    @property
    def mean(self) -> Tensor:
        """The means."""
        return (self._weights() * self.component_distribution.mean).sum(-1 - len(self._event))

    @property
    def variance(self) -> Tensor:
        """The variances: the mean of the parts' and the variance of their means."""
        axis, weights, parts = -1 - len(self._event), self._weights(), self.component_distribution
        apart = (parts.mean - self.mean.unsqueeze(axis)).square()
        return (weights * (parts.variance + apart)).sum(axis)

    def _unsqueezed(self, value: Tensor) -> Tensor:
        return self._inside(value).unsqueeze(-1 - len(self._event))

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most a value."""
        return (self.component_distribution.cdf(self._unsqueezed(value)) * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at a value."""
        parts = self.component_distribution.log_prob(self._unsqueezed(value))
        return (parts + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: _Shape = ()) -> Tensor:
        """A draw of shape sample_shape + batch_shape + event_shape."""
        events = len(self._event)
        drawn = self.component_distribution.sample(sample_shape)
        at = self.mixture_distribution.expand(self._batch).sample(sample_shape)
        at = at.reshape(*at.shape, *(1,) * (events + 1)).expand(*at.shape, 1, *self._event)
        return drawn.gather(len(sample_shape) + len(self._batch), at).squeeze(len(sample_shape) + len(self._batch))

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
