"""What models are made of, under torch's names: modules, layers, activations, losses, `init`, `utils`.

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(64, 32)
            self.outer = nn.Linear(32, 10)

        def forward(self, x):
            return self.outer(self.inner(x).relu())
"""
import sys

from .. import functional
from . import functions, init, utils
from .containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .adaptive import AdaptiveLogSoftmaxWithLoss
from .convolutions import PADS as _PADS
from .convolutions import (Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
from .functions import MODULES as _MODULES
from .functions import PReLU, Softmax2d
from .layers import (Bilinear, Embedding, EmbeddingBag, Flatten, Identity, LayerNorm, Linear,
                     MultiheadAttention, RMSNorm, Unflatten)
from .lazy import LAZY as _LAZY
from .lazy import UninitializedParameter
from .module import Module, Parameter
from .norms import (BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm1d, InstanceNorm2d,
                    InstanceNorm3d, SyncBatchNorm)
from .recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from .transformer import (Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder,
                          TransformerEncoderLayer)

sys.modules[__name__ + ".functional"] = functional  # so that it can be imported from here, too
globals().update(_MODULES)
globals().update(_PADS)
globals().update(_LAZY)

__all__ = [
    "AdaptiveLogSoftmaxWithLoss", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Bilinear", "Conv1d", "Conv2d", "Conv3d",
    "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Embedding", "EmbeddingBag", "Flatten", "GRU",
    "GRUCell", "GroupNorm", "Identity", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LSTM",
    "LSTMCell", "LayerNorm", "Linear", "Module", "ModuleDict", "ModuleList", "MultiheadAttention", "PReLU",
    "Parameter", "ParameterDict", "ParameterList", "RMSNorm", "RNN", "RNNCell", "Sequential", "Softmax2d",
    "SyncBatchNorm", "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer", "Unflatten", "UninitializedParameter", "functional", "init", "utils", *_LAZY, *_MODULES,
    *_PADS]
