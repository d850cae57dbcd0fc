"""Activations and losses as modules: each holds the arguments of one function of
`shoal.functional`, from the one table below."""
import inspect

from .. import functional as F
from .module import Module

# Class: (function, the arguments held). Where one is called otherwise here, NAME=ARGUMENT.
_TABLE = {
    "ReLU": ("relu", "inplace"),
    "ReLU6": ("relu6", "inplace"),
    "LeakyReLU": ("leaky_relu", "negative_slope inplace"),
    "ELU": ("elu", "alpha inplace"),
    "SELU": ("selu", "inplace"),
    "CELU": ("celu", "alpha inplace"),
    "GELU": ("gelu", "approximate"),
    "SiLU": ("silu", "inplace"),
    "Mish": ("mish", "inplace"),
    "Sigmoid": ("sigmoid", ""),
    "Tanh": ("tanh", ""),
    "Softplus": ("softplus", "beta threshold"),
    "LogSigmoid": ("logsigmoid", ""),
    "Softsign": ("softsign", ""),
    "Hardtanh": ("hardtanh", "min_val max_val inplace"),
    "Hardsigmoid": ("hardsigmoid", "inplace"),
    "Hardswish": ("hardswish", "inplace"),
    "GLU": ("glu", "dim=axis"),
    "Softmax": ("softmax", "dim=axis"),
    "LogSoftmax": ("log_softmax", "dim=axis"),
    "Softmin": ("softmin", "dim=axis"),
    "CosineSimilarity": ("cosine_similarity", "dim=axis eps"),
    "PairwiseDistance": ("pairwise_distance", "p eps keepdim"),
    "CrossEntropyLoss": ("cross_entropy", "weight ignore_index reduction label_smoothing"),
    "NLLLoss": ("nll_loss", "weight ignore_index reduction"),
    "MSELoss": ("mse_loss", "reduction"),
    "L1Loss": ("l1_loss", "reduction"),
    "SmoothL1Loss": ("smooth_l1_loss", "reduction beta"),
    "HuberLoss": ("huber_loss", "reduction delta"),
    "BCELoss": ("binary_cross_entropy", "weight reduction"),
    "BCEWithLogitsLoss": ("binary_cross_entropy_with_logits", "weight reduction pos_weight"),
    "KLDivLoss": ("kl_div", "reduction log_target"),
    "HingeEmbeddingLoss": ("hinge_embedding_loss", "margin reduction"),
    "SoftMarginLoss": ("soft_margin_loss", "reduction"),
    "MarginRankingLoss": ("margin_ranking_loss", "margin reduction"),
    "TripletMarginLoss": ("triplet_margin_loss", "margin p reduction"),
    "PoissonNLLLoss": ("poisson_nll_loss", "log_input reduction eps"),
}


def _module(name, function, held):
    """A Module class for a row of the table."""
    call = getattr(F, function)
    defaults = inspect.signature(call).parameters
    names = dict(h.partition("=")[::2] for h in held.split())
    names = {own: of or own for own, of in names.items()}
    own = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                                               default=defaults[of].default)
                             for n, of in names.items()])

    class Function(Module):
        __doc__ = call.__doc__

        def __init__(self, *args, **keywords):
            super().__init__()
            given = own.bind(*args, **keywords)
            given.apply_defaults()
            for key, value in given.arguments.items():
                if hasattr(value, "session"):
                    self.register_buffer(key, value)
                else:
                    setattr(self, key, value)

        def forward(self, *tensors):
            return call(*tensors, **{of: getattr(self, n) for n, of in names.items()})

        def extra_repr(self):
            return ", ".join(f"{n}={getattr(self, n)}" for n in names
                             if n != "inplace" and getattr(self, n) != own.parameters[n].default)

    Function.__init__.__signature__ = own.replace(parameters=[
        inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *own.parameters.values()])
    Function.__name__ = Function.__qualname__ = name
    Function.__module__ = __name__
    return Function


MODULES = {name: _module(name, function, held)
           for name, (function, held) in _TABLE.items()}
globals().update(MODULES)


class PReLU(Module):
    """leaky_relu with a learned slope: one, or one per channel."""

    def __init__(self, num_parameters=1, init=0.25):
        from ..creation import full
        from .module import Parameter
        super().__init__()
        self.weight = Parameter(full((num_parameters,), float(init)))

    def forward(self, input):
        return F.prelu(input, self.weight)
