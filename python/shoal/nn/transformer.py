"""Transformer layers (Vaswani et al., 2017), with torch's names of weights."""
import copy

from .. import functional as F
from ..creation import full
from ..words import invalid
from . import init
from .containers import ModuleList
from .functions import MODULES
from .layers import LayerNorm, Linear, MultiheadAttention
from .module import Module


def _activation(given):
    if callable(given):
        return given
    if given not in ("relu", "gelu"):
        raise invalid(f"activation '{given}' is neither relu nor gelu")
    return getattr(F, given)


class _Layer(Module):
    """What encoder and decoder layers share: the two linear layers, and a residual around each part."""

    def _own(self, d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
             norm_first, bias, dtype, norms):
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype)
        if norms == 3:
            self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first,
                                                     dtype=dtype)
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype=dtype)
        self.dropout = MODULES["Dropout"](dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype=dtype)
        self.norm_first = norm_first
        for i in range(1, norms + 1):
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype))
        for i in range(1, norms + 1):
            setattr(self, f"dropout{i}", MODULES["Dropout"](dropout))
        self.activation = _activation(activation)

    def _feed(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _around(self, x, number, part):
        norm, drop = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        return x + drop(part(norm(x))) if self.norm_first else norm(x + drop(part(x)))


class TransformerEncoderLayer(_Layer):
    """Self-attention and two linear layers, each with a residual and a norm after it, or before it with norm_first.

    src: (S, N, E), or (N, S, E) with batch_first, or (S, E); the result has its shape.
    """

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu",
                 layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        self._own(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
                  norm_first, bias, dtype, 2)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        x = self._around(src, 1, lambda y: self.self_attn(
            y, y, y, key_padding_mask=src_key_padding_mask, need_weights=False, attn_mask=src_mask,
            is_causal=is_causal and src_mask is None)[0])
        return self._around(x, 2, self._feed)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to `memory` and two linear layers; as TransformerEncoderLayer.

    tgt: (T, N, E), memory: (S, N, E); with batch_first N comes first. The result has the shape of tgt.
    """

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu",
                 layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        self._own(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
                  norm_first, bias, dtype, 3)

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False):
        x = self._around(tgt, 1, lambda y: self.self_attn(
            y, y, y, key_padding_mask=tgt_key_padding_mask, need_weights=False, attn_mask=tgt_mask,
            is_causal=tgt_is_causal and tgt_mask is None)[0])
        x = self._around(x, 2, lambda y: self.multihead_attn(
            y, memory, memory, key_padding_mask=memory_key_padding_mask, need_weights=False,
            attn_mask=memory_mask)[0])
        return self._around(x, 3, self._feed)


class TransformerEncoder(Module):
    """num_layers copies of a layer one after another, and a norm, if it is given; shapes as the layer's."""

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """num_layers copies of a layer one after another, and a norm, if it is given; shapes as the layer's."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(decoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=None, memory_is_causal=False):
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                        bool(tgt_is_causal))
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder of src (S, N, E) and a decoder of tgt (T, N, E), which attends to what the encoder gives; with
    batch_first N comes first. The result has the shape of tgt."""

    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6,
                 dim_feedforward=2048, dropout=0.1, activation="relu", custom_encoder=None,
                 custom_decoder=None, layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True,
                 device=None, dtype=None):
        super().__init__()
        how = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
               norm_first, bias, device, dtype)

        def norm():
            return LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*how), num_encoder_layers, norm())
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*how), num_decoder_layers, norm())
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None,
                tgt_key_padding_mask=None, memory_key_padding_mask=None, src_is_causal=None,
                tgt_is_causal=None, memory_is_causal=False):
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask,
                            memory_key_padding_mask, tgt_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """A mask to be added that hides what comes later: -inf above the diagonal, else 0."""
        return full((sz, sz), -float("inf"), dtype or "float32").triu(1)
