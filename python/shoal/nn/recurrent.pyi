"""Types of `shoal.nn.recurrent`. Written by tools/stubs.py."""
from typing import Any
from ..tensor import Extreme, Tensor, _DType, _Device
from .module import Module

class _Cell(Module):
    weight_ih: Any
    weight_hh: Any
    mode: Extreme
    input_size: Any
    hidden_size: Any
    bias: Any
    def __init__(
        self, mode: Any, input_size: int, hidden_size: int, bias: bool = True,
        device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...
    def forward(self, input: Tensor, hx: Any = None) -> Any: ...
    def reset_parameters(self) -> None: ...


class _Recurrent(Module):
    mode: Extreme
    input_size: Any
    hidden_size: Any
    num_layers: Any
    bias: Any
    batch_first: Any
    dropout: Any
    bidirectional: Any
    proj_size: Any
    def __init__(
        self, mode: Any, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...
    def flatten_parameters(self) -> None: ...
    def forward(self, input: Tensor, hx: Any = None) -> Any: ...
    def reset_parameters(self) -> None: ...


class GRU(_Recurrent):
    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...


class GRUCell(_Cell):
    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: _Device | None = None,
        dtype: _DType | None = None
    ) -> None: ...


class LSTM(_Recurrent):
    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...


class LSTMCell(_Cell):
    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: _Device | None = None,
        dtype: _DType | None = None
    ) -> None: ...


class RNN(_Recurrent):
    nonlinearity: Any
    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = 'tanh',
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...


class RNNCell(_Cell):
    nonlinearity: Any
    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = 'tanh',
        device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...

