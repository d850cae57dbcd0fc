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
from .functions import MODULES as _MODULES
from .functions import PReLU
from .layers import (AdaptiveAvgPool2d, AvgPool2d, BatchNorm1d, BatchNorm2d, Conv2d, Dropout,
                     Embedding, Flatten, Identity, LayerNorm, Linear, MaxPool2d, ModuleDict,
                     ModuleList, MultiheadAttention, ParameterList, RMSNorm, Sequential, Unflatten)
from .module import Module, Parameter

sys.modules[__name__ + ".functional"] = functional  # so that it can be imported from here, too
globals().update(_MODULES)

__all__ = [
    "AdaptiveAvgPool2d", "AvgPool2d", "BatchNorm1d", "BatchNorm2d", "Conv2d", "Dropout", "Embedding",
    "Flatten", "Identity", "LayerNorm", "Linear", "MaxPool2d", "Module", "ModuleDict", "ModuleList",
    "MultiheadAttention", "PReLU", "Parameter", "ParameterList", "RMSNorm", "Sequential", "Unflatten",
    "functional", "init", "utils", *_MODULES]
