"""Types of `shoal.nn.transformer`. Written by tools/stubs.py."""
from collections.abc import Callable
from typing import Any
from ..tensor import Tensor, _DType, _Device
from .module import Module

class Transformer(Module):
    encoder: Any
    decoder: Any
    d_model: Any
    nhead: Any
    batch_first: Any
    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: Any = 6,
        num_decoder_layers: Any = 6, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = 'relu', custom_encoder: Any = None,
        custom_decoder: Any = None, layer_norm_eps: float = 1e-05, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: _Device | None = None,
        dtype: _DType | None = None
    ) -> None: ...
    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        src_is_causal: Any = None, tgt_is_causal: Any = None, memory_is_causal: bool = False
    ) -> Any: ...
    @staticmethod
    def generate_square_subsequent_mask(
        sz: Any, device: _Device | None = None, dtype: _DType | None = None
    ) -> Any: ...


class TransformerDecoder(Module):
    layers: Any
    num_layers: Any
    norm: Any
    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None: ...
    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, tgt_is_causal: Any = None,
        memory_is_causal: bool = False
    ) -> Any: ...


class TransformerEncoder(Module):
    layers: Any
    num_layers: Any
    norm: Any
    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
        enable_nested_tensor: bool = True, mask_check: bool = True
    ) -> None: ...
    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None
    ) -> Any: ...


class _Layer(Module):
    self_attn: Any
    linear1: Any
    dropout: Any
    linear2: Any
    norm_first: Any
    activation: Any
    multihead_attn: Any


class TransformerDecoderLayer(_Layer):
    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = 'relu', layer_norm_eps: float = 1e-05,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True,
        device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool = False,
        memory_is_causal: bool = False
    ) -> Any: ...


class TransformerEncoderLayer(_Layer):
    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = 'relu', layer_norm_eps: float = 1e-05,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True,
        device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def forward(
        self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False
    ) -> Any: ...

MODULES: dict[str, Any]
