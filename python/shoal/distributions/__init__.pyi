"""Types of `shoal.distributions`. Written by tools/stubs.py."""
from . import constraints as constraints, kl as kl, transforms as transforms
from .continuous import (
    Cauchy as Cauchy, Exponential as Exponential, Gumbel as Gumbel, HalfCauchy as HalfCauchy,
    HalfNormal as HalfNormal, Laplace as Laplace, Normal as Normal, Uniform as Uniform,
    VonMises as VonMises)
from .discrete import (
    Bernoulli as Bernoulli, Binomial as Binomial, Categorical as Categorical, Geometric as Geometric,
    Multinomial as Multinomial, NegativeBinomial as NegativeBinomial,
    OneHotCategorical as OneHotCategorical,
    OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough, Poisson as Poisson)
from .distribution import Distribution as Distribution
from .gammas import Beta as Beta, Chi2 as Chi2, Dirichlet as Dirichlet, Gamma as Gamma, StudentT as StudentT
from .kl import kl_divergence as kl_divergence, register_kl as register_kl
from .multivariate import (
    Independent as Independent, MixtureSameFamily as MixtureSameFamily,
    MultivariateNormal as MultivariateNormal)
from .transformed import (
    LogNormal as LogNormal, Pareto as Pareto, TransformedDistribution as TransformedDistribution,
    Weibull as Weibull)
from .transforms import (
    AbsTransform as AbsTransform, AffineTransform as AffineTransform,
    ComposeTransform as ComposeTransform, ExpTransform as ExpTransform,
    IndependentTransform as IndependentTransform, LowerCholeskyTransform as LowerCholeskyTransform,
    PowerTransform as PowerTransform, ReshapeTransform as ReshapeTransform,
    SigmoidTransform as SigmoidTransform, SoftmaxTransform as SoftmaxTransform,
    SoftplusTransform as SoftplusTransform, StackTransform as StackTransform,
    StickBreakingTransform as StickBreakingTransform, TanhTransform as TanhTransform,
    Transform as Transform)
identity_transform: ComposeTransform

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2",
    "ComposeTransform", "Dirichlet", "Distribution", "ExpTransform", "Exponential", "Gamma", "Geometric",
    "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "IndependentTransform", "Laplace", "LogNormal",
    "LowerCholeskyTransform", "MixtureSameFamily", "Multinomial", "MultivariateNormal",
    "NegativeBinomial", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto",
    "Poisson", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "StudentT", "TanhTransform",
    "Transform", "TransformedDistribution", "Uniform", "VonMises", "Weibull", "constraints",
    "identity_transform", "kl", "kl_divergence", "register_kl", "transforms"
]
