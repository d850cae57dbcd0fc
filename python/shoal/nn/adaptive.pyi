"""Types of `shoal.nn.adaptive`. Written by tools/stubs.py."""
from typing import Any, NamedTuple
from ..tensor import Tensor, _DType, _Device
from .module import Module

class ASMoutput(NamedTuple):
    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    head_size: Any
    head: Any
    tail: Any
    in_features: Any
    n_classes: Any
    div_value: Any
    cutoffs: Any
    head_bias: Any
    shortlist_size: Any
    n_clusters: Any
    def __init__(
        self, in_features: int, n_classes: Any, cutoffs: Any, div_value: float = 4.0,
        head_bias: bool = False, device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def forward(self, input: Tensor, target: Tensor) -> Any: ...
    def log_prob(self, input: Tensor) -> Any: ...
    def predict(self, input: Tensor) -> Any: ...
    def reset_parameters(self) -> None: ...

