"""Probability distributions, as torch.distributions: drawing from them, logarithms of densities, entropies and
Kullback-Leibler divergences.

Parameters are tensors or numbers, broadcast with one another: that shape is `batch_shape`. One draw of each has
the shape batch_shape + event_shape. `rsample` passes gradients on to the parameters, `sample` does not.

A parameter that a distribution cannot have, such as a negative scale, is an error: at once where it is a number, and
of what derives from it where it is a tensor, since nothing is read. So is a value outside of a distribution's support
whose density is asked for. Neither is looked for with validate_args=False.
"""
from . import constraints, kl, transforms
from .continuous import (Cauchy, Exponential, Gumbel, HalfCauchy, HalfNormal, Laplace, Normal, Uniform, VonMises)
from .discrete import (Bernoulli, Binomial, Categorical, Geometric, Multinomial, NegativeBinomial, OneHotCategorical,
                       OneHotCategoricalStraightThrough, Poisson)
from .distribution import Distribution
from .gammas import Beta, Chi2, Dirichlet, Gamma, StudentT
from .kl import kl_divergence, register_kl
from .multivariate import Independent, MixtureSameFamily, MultivariateNormal
from .transformed import LogNormal, Pareto, TransformedDistribution, Weibull
from .transforms import (AbsTransform, AffineTransform, ComposeTransform, ExpTransform, IndependentTransform,
                         LowerCholeskyTransform, PowerTransform, ReshapeTransform, SigmoidTransform, SoftmaxTransform,
                         SoftplusTransform, StackTransform, StickBreakingTransform, TanhTransform, Transform,
                         identity_transform)

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2",
    "ComposeTransform", "Dirichlet", "Distribution", "ExpTransform", "Exponential", "Gamma", "Geometric", "Gumbel",
    "HalfCauchy", "HalfNormal", "Independent", "IndependentTransform", "Laplace", "LogNormal",
    "LowerCholeskyTransform", "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal",
    "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PowerTransform", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform", "StickBreakingTransform",
    "StudentT", "TanhTransform", "Transform", "TransformedDistribution", "Uniform", "VonMises", "Weibull", "constraints",
    "identity_transform", "kl", "kl_divergence", "register_kl", "transforms"]
