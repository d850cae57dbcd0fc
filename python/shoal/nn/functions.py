"""Activations and losses as modules: each holds the arguments of one function of
`shoal.functional`, from the one table below."""
import inspect

from .. import functional as F
from ..words import invalid
from .module import Module

# Class: (function, the arguments held). Where one is called otherwise here, NAME=ARGUMENT.
_TABLE = {
    "ReLU": ("relu", "inplace"),
    "ReLU6": ("relu6", "inplace"),
    "LeakyReLU": ("leaky_relu", "negative_slope inplace"),
    "RReLU": ("rrelu", "lower upper inplace +training"),
    "ELU": ("elu", "alpha inplace"),
    "SELU": ("selu", "inplace"),
    "CELU": ("celu", "alpha inplace"),
    "GELU": ("gelu", "approximate"),
    "SiLU": ("silu", "inplace"),
    "Mish": ("mish", "inplace"),
    "Sigmoid": ("sigmoid", ""),
    "Tanh": ("tanh", ""),
    "Tanhshrink": ("tanhshrink", ""),
    "Threshold": ("threshold", "threshold value inplace"),
    "Hardshrink": ("hardshrink", "lambd"),
    "Softshrink": ("softshrink", "lambd"),
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
    "Dropout": ("dropout", "p inplace +training"),
    "Dropout1d": ("dropout1d", "p inplace +training"),
    "Dropout2d": ("dropout2d", "p inplace +training"),
    "Dropout3d": ("dropout3d", "p inplace +training"),
    "AlphaDropout": ("alpha_dropout", "p inplace +training"),
    "FeatureAlphaDropout": ("feature_alpha_dropout", "p inplace +training"),
    "LocalResponseNorm": ("local_response_norm", "size alpha beta k"),
    "MaxPool1d": ("max_pool1d", "kernel_size stride padding dilation return_indices ceil_mode"),
    "MaxPool2d": ("max_pool2d", "kernel_size stride padding dilation return_indices ceil_mode"),
    "MaxPool3d": ("max_pool3d", "kernel_size stride padding dilation return_indices ceil_mode"),
    "MaxUnpool1d": ("max_unpool1d", "kernel_size stride padding"),
    "MaxUnpool2d": ("max_unpool2d", "kernel_size stride padding"),
    "MaxUnpool3d": ("max_unpool3d", "kernel_size stride padding"),
    "AvgPool1d": ("avg_pool1d", "kernel_size stride padding ceil_mode count_include_pad"),
    "AvgPool2d": ("avg_pool2d", "kernel_size stride padding ceil_mode count_include_pad divisor_override"),
    "AvgPool3d": ("avg_pool3d", "kernel_size stride padding ceil_mode count_include_pad divisor_override"),
    "LPPool1d": ("lp_pool1d", "norm_type kernel_size stride ceil_mode"),
    "LPPool2d": ("lp_pool2d", "norm_type kernel_size stride ceil_mode"),
    "AdaptiveAvgPool1d": ("adaptive_avg_pool1d", "output_size"),
    "AdaptiveAvgPool2d": ("adaptive_avg_pool2d", "output_size"),
    "AdaptiveAvgPool3d": ("adaptive_avg_pool3d", "output_size"),
    "AdaptiveMaxPool1d": ("adaptive_max_pool1d", "output_size return_indices"),
    "FractionalMaxPool2d": ("fractional_max_pool2d", "kernel_size output_size output_ratio return_indices _random_samples"),
    "FractionalMaxPool3d": ("fractional_max_pool3d", "kernel_size output_size output_ratio return_indices _random_samples"),
    "AdaptiveMaxPool2d": ("adaptive_max_pool2d", "output_size return_indices"),
    "AdaptiveMaxPool3d": ("adaptive_max_pool3d", "output_size return_indices"),
    "PixelShuffle": ("pixel_shuffle", "upscale_factor"),
    "PixelUnshuffle": ("pixel_unshuffle", "downscale_factor"),
    "ChannelShuffle": ("channel_shuffle", "groups"),
    "Fold": ("fold", "output_size kernel_size dilation padding stride"),
    "Unfold": ("unfold", "kernel_size dilation padding stride"),
    "Upsample": ("interpolate", "size scale_factor mode align_corners recompute_scale_factor"),
    "UpsamplingNearest2d": ("upsample_nearest", "size scale_factor"),
    "UpsamplingBilinear2d": ("upsample_bilinear", "size scale_factor"),
    "CosineSimilarity": ("cosine_similarity", "dim=axis eps"),
    "PairwiseDistance": ("pairwise_distance", "p eps keepdim"),
    "CrossEntropyLoss": ("cross_entropy",
                         "weight size_average ignore_index reduce reduction label_smoothing"),
    "NLLLoss": ("nll_loss", "weight size_average ignore_index reduce reduction"),
    "NLLLoss2d": ("nll_loss", "weight size_average ignore_index reduce reduction"),
    "MSELoss": ("mse_loss", "size_average reduce reduction"),
    "L1Loss": ("l1_loss", "size_average reduce reduction"),
    "SmoothL1Loss": ("smooth_l1_loss", "size_average reduce reduction beta"),
    "HuberLoss": ("huber_loss", "reduction delta"),
    "BCELoss": ("binary_cross_entropy", "weight size_average reduce reduction"),
    "BCEWithLogitsLoss": ("binary_cross_entropy_with_logits",
                          "weight size_average reduce reduction pos_weight"),
    "KLDivLoss": ("kl_div", "size_average reduce reduction log_target"),
    "HingeEmbeddingLoss": ("hinge_embedding_loss", "margin size_average reduce reduction"),
    "SoftMarginLoss": ("soft_margin_loss", "size_average reduce reduction"),
    "MarginRankingLoss": ("margin_ranking_loss", "margin size_average reduce reduction"),
    "TripletMarginLoss": ("triplet_margin_loss", "margin p eps swap size_average reduce reduction"),
    "TripletMarginWithDistanceLoss": ("triplet_margin_with_distance_loss",
                                      "*distance_function margin swap reduction"),
    "PoissonNLLLoss": ("poisson_nll_loss", "log_input full size_average eps reduce reduction"),
    "GaussianNLLLoss": ("gaussian_nll_loss", "*full eps reduction"),
    "CosineEmbeddingLoss": ("cosine_embedding_loss", "margin size_average reduce reduction"),
    "MultiMarginLoss": ("multi_margin_loss", "p margin weight size_average reduce reduction"),
    "MultiLabelMarginLoss": ("multilabel_margin_loss", "size_average reduce reduction"),
    "MultiLabelSoftMarginLoss": ("multilabel_soft_margin_loss", "weight size_average reduce reduction"),
    "CTCLoss": ("ctc_loss", "blank reduction zero_infinity"),
}
# Not shown in a module's line, as in torch.
_QUIET = ("size_average", "reduce", "return_indices", "divisor_override", "count_include_pad")
_QUIET_OF = {"CosineSimilarity": ("dim", "eps"), "PairwiseDistance": ("p", "eps", "keepdim")} | {
    f"AvgPool{n}d": ("ceil_mode",) for n in (1, 2, 3)}


def _shown(name, module, names):
    """What a module's line shows of its settings: [(name, value)]."""
    quiet = _QUIET + _QUIET_OF.get(name, ())
    if name.startswith("Upsampl"):
        scale = getattr(module, "scale_factor", None)
        first = ("size", module.size) if scale is None else \
            ("scale_factor", tuple(map(float, scale)) if isinstance(scale, tuple) else float(scale))
        return [first, ("mode", getattr(module, "mode", "bilinear" if "Bilinear" in name else "nearest"))]
    return [(n, getattr(module, n)) for n in names if n not in quiet]


def _module(name, function, held):
    """A Module class for a row of the table. +: an attribute of every module; *: by keyword alone."""
    call = getattr(F, function)
    defaults = inspect.signature(call).parameters
    words = held.split()
    modes = [w[1:] for w in words if w.startswith("+")]
    by_keyword = any(w.startswith("*") for w in words)
    names = dict(w.lstrip("*").partition("=")[::2] for w in words if not w.startswith("+"))
    names = {own: of or own for own, of in names.items()}
    passed = [*names.items(), *((m, m) for m in modes)]
    kind = inspect.Parameter.KEYWORD_ONLY if by_keyword else inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = inspect.Signature([inspect.Parameter(n, kind, default=defaults[of].default)
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
            if "p" in names and modes and not 0 <= self.p <= 1:
                raise invalid(f"{name}: p is {self.p}; a probability lies between 0 and 1")
            if names.get("stride") and self.stride is None:
                self.stride = self.kernel_size

        def forward(self, *tensors, **keywords):
            for own, of in passed:
                keywords[of] = getattr(self, own)
            return call(*tensors, **keywords)

        def extra_repr(self):
            if name.endswith("Loss"):
                return ""
            shown = [f"{n}={value!r}" for n, value in _shown(name, self, names)
                     if not hasattr(value, "session") and (value or n != "inplace" or modes)]
            if name == "LocalResponseNorm":
                shown[0] = str(self.size)
            return ", ".join(shown)

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

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        from ..creation import full
        from .module import Parameter
        super().__init__()
        self.num_parameters = num_parameters
        self.weight = Parameter(full((num_parameters,), float(init), dtype))

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


class Softmax2d(Module):
    """softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input):
        return input.softmax(-3)
