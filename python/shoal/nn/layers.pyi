"""Types of `shoal.nn.layers`. Written by tools/stubs.py."""
from typing import Any
from ..tensor import Extreme, Tensor, _Axes, _DType, _Device, _Shape
from .module import Module

class Bilinear(Module):
    weight: Any
    in1_features: Any
    in2_features: Any
    out_features: Any
    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True,
        device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...
    def forward(self, input1: Tensor, input2: Tensor) -> Any: ...
    def reset_parameters(self) -> None: ...


class Embedding(Module):
    num_embeddings: Any
    embedding_dim: Any
    padding_idx: Any
    max_norm: Any
    norm_type: Any
    scale_grad_by_freq: Any
    sparse: Any
    weight: Any
    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Any = None, _freeze: bool = False, device: _Device | None = None,
        dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...
    def forward(self, input: Tensor) -> Any: ...
    @classmethod
    def from_pretrained(
        cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False
    ) -> Any: ...
    def reset_parameters(self) -> None: ...


class EmbeddingBag(Module):
    weight: Any
    num_embeddings: Any
    embedding_dim: Any
    mode: Extreme
    max_norm: Any
    norm_type: Any
    include_last_offset: Any
    padding_idx: Any
    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = 'mean',
        sparse: bool = False, _weight: Any = None, include_last_offset: bool = False,
        padding_idx: int | None = None, device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...
    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Any: ...
    @classmethod
    def from_pretrained(
        cls, embeddings: Any, freeze: bool = True, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = 'mean', sparse: bool = False,
        include_last_offset: bool = False, padding_idx: int | None = None
    ) -> Any: ...


class Flatten(Module):
    start_dim: Any
    end_dim: Any
    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None: ...
    def extra_repr(self) -> str: ...
    def forward(self, input: Tensor) -> Any: ...


class Identity(Module):
    def __init__(self, *args: Any, **keywords: Any) -> None: ...
    def forward(self, input: Tensor) -> Any: ...


class LayerNorm(Module):
    normalized_shape: Any
    eps: Any
    elementwise_affine: Any
    def __init__(
        self, normalized_shape: _Shape, eps: float = 1e-05, elementwise_affine: bool = True,
        bias: bool = True, device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...
    def forward(self, input: Tensor) -> Any: ...


class Linear(Module):
    weight: Any
    in_features: Any
    out_features: Any
    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: _Device | None = None,
        dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...
    def forward(self, input: Tensor) -> Any: ...
    def reset_parameters(self) -> None: ...


class MultiheadAttention(Module):
    batch_first: Any
    out_proj: Any
    embed_dim: Any
    num_heads: Any
    dropout: Any
    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
        add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
        vdim: int | None = None, batch_first: bool = False, device: _Device | None = None,
        dtype: _DType | None = None
    ) -> None: ...
    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False
    ) -> Any: ...
    def reset_parameters(self) -> None: ...


class RMSNorm(Module):
    normalized_shape: Any
    eps: Any
    def __init__(
        self, normalized_shape: _Shape, eps: float | None = None, elementwise_affine: bool = True,
        device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...
    def forward(self, input: Tensor) -> Any: ...


class Unflatten(Module):
    dim: Any
    unflattened_size: Any
    def __init__(self, dim: _Axes, unflattened_size: _Shape) -> None: ...
    def extra_repr(self) -> str: ...
    def forward(self, input: Tensor) -> Any: ...

