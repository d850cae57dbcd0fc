"""Types of `shoal.nn`. Written by tools/stubs.py."""
from . import init as init, utils as utils
from .. import functional as functional
from .adaptive import AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss
from .containers import (
    ModuleDict as ModuleDict, ModuleList as ModuleList, ParameterDict as ParameterDict,
    ParameterList as ParameterList, Sequential as Sequential)
from .convolutions import (
    CircularPad1d as CircularPad1d, CircularPad2d as CircularPad2d, CircularPad3d as CircularPad3d,
    ConstantPad1d as ConstantPad1d, ConstantPad2d as ConstantPad2d, ConstantPad3d as ConstantPad3d,
    Conv1d as Conv1d, Conv2d as Conv2d, Conv3d as Conv3d, ConvTranspose1d as ConvTranspose1d,
    ConvTranspose2d as ConvTranspose2d, ConvTranspose3d as ConvTranspose3d,
    ReflectionPad1d as ReflectionPad1d, ReflectionPad2d as ReflectionPad2d,
    ReflectionPad3d as ReflectionPad3d, ReplicationPad1d as ReplicationPad1d,
    ReplicationPad2d as ReplicationPad2d, ReplicationPad3d as ReplicationPad3d, ZeroPad1d as ZeroPad1d,
    ZeroPad2d as ZeroPad2d, ZeroPad3d as ZeroPad3d)
from .functions import (
    AdaptiveAvgPool1d as AdaptiveAvgPool1d, AdaptiveAvgPool2d as AdaptiveAvgPool2d,
    AdaptiveAvgPool3d as AdaptiveAvgPool3d, AdaptiveMaxPool1d as AdaptiveMaxPool1d,
    AdaptiveMaxPool2d as AdaptiveMaxPool2d, AdaptiveMaxPool3d as AdaptiveMaxPool3d,
    AlphaDropout as AlphaDropout, AvgPool1d as AvgPool1d, AvgPool2d as AvgPool2d, AvgPool3d as AvgPool3d,
    BCELoss as BCELoss, BCEWithLogitsLoss as BCEWithLogitsLoss, CELU as CELU, CTCLoss as CTCLoss,
    ChannelShuffle as ChannelShuffle, CosineEmbeddingLoss as CosineEmbeddingLoss,
    CosineSimilarity as CosineSimilarity, CrossEntropyLoss as CrossEntropyLoss, Dropout as Dropout,
    Dropout1d as Dropout1d, Dropout2d as Dropout2d, Dropout3d as Dropout3d, ELU as ELU,
    FeatureAlphaDropout as FeatureAlphaDropout, Fold as Fold, FractionalMaxPool2d as FractionalMaxPool2d,
    FractionalMaxPool3d as FractionalMaxPool3d, GELU as GELU, GLU as GLU,
    GaussianNLLLoss as GaussianNLLLoss, Hardshrink as Hardshrink, Hardsigmoid as Hardsigmoid,
    Hardswish as Hardswish, Hardtanh as Hardtanh, HingeEmbeddingLoss as HingeEmbeddingLoss,
    HuberLoss as HuberLoss, KLDivLoss as KLDivLoss, L1Loss as L1Loss, LPPool1d as LPPool1d,
    LPPool2d as LPPool2d, LeakyReLU as LeakyReLU, LocalResponseNorm as LocalResponseNorm,
    LogSigmoid as LogSigmoid, LogSoftmax as LogSoftmax, MSELoss as MSELoss,
    MarginRankingLoss as MarginRankingLoss, MaxPool1d as MaxPool1d, MaxPool2d as MaxPool2d,
    MaxPool3d as MaxPool3d, MaxUnpool1d as MaxUnpool1d, MaxUnpool2d as MaxUnpool2d,
    MaxUnpool3d as MaxUnpool3d, Mish as Mish, MultiLabelMarginLoss as MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss as MultiLabelSoftMarginLoss, MultiMarginLoss as MultiMarginLoss,
    NLLLoss as NLLLoss, NLLLoss2d as NLLLoss2d, PReLU as PReLU, PairwiseDistance as PairwiseDistance,
    PixelShuffle as PixelShuffle, PixelUnshuffle as PixelUnshuffle, PoissonNLLLoss as PoissonNLLLoss,
    RReLU as RReLU, ReLU as ReLU, ReLU6 as ReLU6, SELU as SELU, SiLU as SiLU, Sigmoid as Sigmoid,
    SmoothL1Loss as SmoothL1Loss, SoftMarginLoss as SoftMarginLoss, Softmax as Softmax,
    Softmax2d as Softmax2d, Softmin as Softmin, Softplus as Softplus, Softshrink as Softshrink,
    Softsign as Softsign, Tanh as Tanh, Tanhshrink as Tanhshrink, Threshold as Threshold,
    TripletMarginLoss as TripletMarginLoss,
    TripletMarginWithDistanceLoss as TripletMarginWithDistanceLoss, Unfold as Unfold,
    Upsample as Upsample, UpsamplingBilinear2d as UpsamplingBilinear2d,
    UpsamplingNearest2d as UpsamplingNearest2d)
from .layers import (
    Bilinear as Bilinear, Embedding as Embedding, EmbeddingBag as EmbeddingBag, Flatten as Flatten,
    Identity as Identity, LayerNorm as LayerNorm, Linear as Linear,
    MultiheadAttention as MultiheadAttention, RMSNorm as RMSNorm, Unflatten as Unflatten)
from .lazy import (
    LazyBatchNorm1d as LazyBatchNorm1d, LazyBatchNorm2d as LazyBatchNorm2d,
    LazyBatchNorm3d as LazyBatchNorm3d, LazyConv1d as LazyConv1d, LazyConv2d as LazyConv2d,
    LazyConv3d as LazyConv3d, LazyConvTranspose1d as LazyConvTranspose1d,
    LazyConvTranspose2d as LazyConvTranspose2d, LazyConvTranspose3d as LazyConvTranspose3d,
    LazyInstanceNorm1d as LazyInstanceNorm1d, LazyInstanceNorm2d as LazyInstanceNorm2d,
    LazyInstanceNorm3d as LazyInstanceNorm3d, LazyLinear as LazyLinear,
    UninitializedParameter as UninitializedParameter)
from .module import Module as Module, Parameter as Parameter
from .norms import (
    BatchNorm1d as BatchNorm1d, BatchNorm2d as BatchNorm2d, BatchNorm3d as BatchNorm3d,
    GroupNorm as GroupNorm, InstanceNorm1d as InstanceNorm1d, InstanceNorm2d as InstanceNorm2d,
    InstanceNorm3d as InstanceNorm3d, SyncBatchNorm as SyncBatchNorm)
from .recurrent import (
    GRU as GRU, GRUCell as GRUCell, LSTM as LSTM, LSTMCell as LSTMCell, RNN as RNN, RNNCell as RNNCell)
from .transformer import (
    Transformer as Transformer, TransformerDecoder as TransformerDecoder,
    TransformerDecoderLayer as TransformerDecoderLayer, TransformerEncoder as TransformerEncoder,
    TransformerEncoderLayer as TransformerEncoderLayer)

__all__ = [
    "AdaptiveLogSoftmaxWithLoss", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Bilinear", "Conv1d",
    "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Embedding",
    "EmbeddingBag", "Flatten", "GRU", "GRUCell", "GroupNorm", "Identity", "InstanceNorm1d",
    "InstanceNorm2d", "InstanceNorm3d", "LSTM", "LSTMCell", "LayerNorm", "Linear", "Module", "ModuleDict",
    "ModuleList", "MultiheadAttention", "PReLU", "Parameter", "ParameterDict", "ParameterList", "RMSNorm",
    "RNN", "RNNCell", "Sequential", "Softmax2d", "SyncBatchNorm", "Transformer", "TransformerDecoder",
    "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer", "Unflatten",
    "UninitializedParameter", "functional", "init", "utils", "LazyLinear", "LazyConv1d",
    "LazyConvTranspose1d", "LazyBatchNorm1d", "LazyInstanceNorm1d", "LazyConv2d", "LazyConvTranspose2d",
    "LazyBatchNorm2d", "LazyInstanceNorm2d", "LazyConv3d", "LazyConvTranspose3d", "LazyBatchNorm3d",
    "LazyInstanceNorm3d", "ReLU", "ReLU6", "LeakyReLU", "RReLU", "ELU", "SELU", "CELU", "GELU", "SiLU",
    "Mish", "Sigmoid", "Tanh", "Tanhshrink", "Threshold", "Hardshrink", "Softshrink", "Softplus",
    "LogSigmoid", "Softsign", "Hardtanh", "Hardsigmoid", "Hardswish", "GLU", "Softmax", "LogSoftmax",
    "Softmin", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout",
    "LocalResponseNorm", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d", "LPPool2d", "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "FractionalMaxPool2d",
    "FractionalMaxPool3d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "PixelShuffle", "PixelUnshuffle",
    "ChannelShuffle", "Fold", "Unfold", "Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d",
    "CosineSimilarity", "PairwiseDistance", "CrossEntropyLoss", "NLLLoss", "NLLLoss2d", "MSELoss",
    "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss", "BCEWithLogitsLoss", "KLDivLoss",
    "HingeEmbeddingLoss", "SoftMarginLoss", "MarginRankingLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss", "PoissonNLLLoss", "GaussianNLLLoss", "CosineEmbeddingLoss",
    "MultiMarginLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "CTCLoss", "ConstantPad1d",
    "ConstantPad2d", "ConstantPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d", "ReflectionPad1d",
    "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "CircularPad1d", "CircularPad2d", "CircularPad3d"
]
