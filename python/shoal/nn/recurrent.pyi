"""Types of `shoal.nn.recurrent`. Written by tools/stubs.py."""
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..tensor import Axes, DType, Operand, Shape, Sorted, Tensor
from .module import Module, Parameter

class GRU(_Recurrent):
    def __init__(
        self, input_size: Any, hidden_size: Any, num_layers: int = ..., bias: bool = ...,
        batch_first: bool = ..., dropout: Any = ..., bidirectional: Any = ..., device: Any = ...,
        dtype: DType | None = ...
    ) -> None: ...

class GRUCell(_Cell):
    def __init__(
        self, input_size: Any, hidden_size: Any, bias: bool = ..., device: Any = ...,
        dtype: DType | None = ...
    ) -> None: ...

class LSTM(_Recurrent):
    def __init__(
        self, input_size: Any, hidden_size: Any, num_layers: int = ..., bias: bool = ...,
        batch_first: bool = ..., dropout: Any = ..., bidirectional: Any = ...,
        proj_size: Any = ..., device: Any = ..., dtype: DType | None = ...
    ) -> None: ...

class LSTMCell(_Cell):
    def __init__(
        self, input_size: Any, hidden_size: Any, bias: bool = ..., device: Any = ...,
        dtype: DType | None = ...
    ) -> None: ...

class RNN(_Recurrent):
    def __init__(
        self, input_size: Any, hidden_size: Any, num_layers: int = ..., nonlinearity: str = ...,
        bias: bool = ..., batch_first: bool = ..., dropout: Any = ..., bidirectional: Any = ...,
        device: Any = ..., dtype: DType | None = ...
    ) -> None: ...

class RNNCell(_Cell):
    def __init__(
        self, input_size: Any, hidden_size: Any, bias: bool = ..., nonlinearity: str = ...,
        device: Any = ..., dtype: DType | None = ...
    ) -> None: ...

