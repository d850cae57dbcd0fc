"""Layers: modules with weights, and modules that only name a function."""
import math

from .. import functional as F
from ..creation import ones, zeros
from ..words import check_padding_idx, invalid
from . import init
from .module import Module, Parameter


def _empty(*shape, dtype=None):
    return Parameter(zeros(*shape, dtype=dtype))


class Identity(Module):
    """What it is given."""

    def __init__(self, *args, **keywords):
        super().__init__()

    def forward(self, input):
        return input


class Linear(Module):
    """x weight^T + bias; weight: (out_features, in_features), uniformly distributed over +-1/sqrt(in)."""

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = _empty(out_features, in_features, dtype=dtype)
        self.register_parameter("bias", _empty(out_features, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws the initial values."""
        init.kaiming_uniform_(self.weight, math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(max(1, self.in_features))
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input):
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self):
        return (f"in_features={self.in_features}, out_features={self.out_features}, "
                f"bias={self.bias is not None}")


class Bilinear(Module):
    """x1^T W_k x2 for each k, plus bias: (…, in1) and (…, in2) give (…, out)."""

    def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = _empty(out_features, in1_features, in2_features, dtype=dtype)
        self.register_parameter("bias", _empty(out_features, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws the initial values."""
        bound = 1 / math.sqrt(self.in1_features)
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def forward(self, input1, input2):
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self):
        return (f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
                f"out_features={self.out_features}, bias={self.bias is not None}")


class Embedding(Module):
    """Rows of a learned table at integers; no gradient reaches the row padding_idx, zeros."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
                 scale_grad_by_freq=False, sparse=False, _weight=None, _freeze=False, device=None, dtype=None):
        super().__init__()
        check_padding_idx(padding_idx, num_embeddings, "Embedding")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx, self.max_norm, self.norm_type = padding_idx, max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if _weight is not None:
            self.weight = Parameter(_weight, requires_grad=not _freeze)
        else:
            self.weight = _empty(num_embeddings, embedding_dim, dtype=dtype)
            self.reset_parameters()

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, padding_idx=None, max_norm=None, norm_type=2.0,
                        scale_grad_by_freq=False, sparse=False):
        """A layer over a table that is there."""
        return cls(*embeddings.shape, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
                   embeddings, freeze)

    def reset_parameters(self):
        """Draws the initial values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init._set(self.weight, self.weight._detach().index_fill(0, [
                self.padding_idx % self.num_embeddings], 0))

    def forward(self, input):
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
                           self.scale_grad_by_freq)

    def extra_repr(self):
        more = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{more}"


class EmbeddingBag(Module):
    """Sums, means or maxima of rows of a learned table at bags of integers."""

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
                 mode="mean", sparse=False, _weight=None, include_last_offset=False, padding_idx=None,
                 device=None, dtype=None):
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.mode = num_embeddings, embedding_dim, mode
        self.max_norm, self.norm_type = max_norm, norm_type
        self.include_last_offset, self.padding_idx = include_last_offset, padding_idx
        self.weight = Parameter(_weight) if _weight is not None else \
            _empty(num_embeddings, embedding_dim, dtype=dtype)
        if _weight is None:
            init.normal_(self.weight)

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
                        mode="mean", sparse=False, include_last_offset=False, padding_idx=None):
        """A layer over a table that is there."""
        made = cls(*embeddings.shape, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings,
                   include_last_offset, padding_idx)
        made.weight.requires_grad = not freeze
        return made

    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type, False, self.mode,
                               False, per_sample_weights, self.include_last_offset, self.padding_idx)

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"


class LayerNorm(Module):
    """(x - mean) / sqrt(variance + eps) over the last axes, times weight, plus bias."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None,
                 dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else \
            tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        for name, made in (("weight", ones), ("bias", zeros)):
            there = elementwise_affine and (name == "weight" or bias)
            self.register_parameter(name, Parameter(
                made(self.normalized_shape, dtype=dtype)) if there else None)

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"


class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) over the last axes, times weight."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else \
            tuple(normalized_shape)
        self.eps = eps
        self.register_parameter("weight", Parameter(
            ones(self.normalized_shape, dtype=dtype)) if elementwise_affine else None)

    def forward(self, input):
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"


class Flatten(Module):
    """The axes from start_dim to end_dim as one."""

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input):
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self):
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One axis as several."""

    def __init__(self, dim, unflattened_size):
        super().__init__()
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input):
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self):
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class MultiheadAttention(Module):
    """Attention of several heads with learned projections, as torch's.

    query (N, S, E), key and value (N, T, E) with batch_first, else (S, N, E) and (T, N, E); without
    N, one of each. Gives (result, weights), the weights None unless need_weights.
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False,
                 add_zero_attn=False, kdim=None, vdim=None, batch_first=False, device=None, dtype=None):
        if add_bias_kv or add_zero_attn:
            raise invalid("MultiheadAttention: add_bias_kv and add_zero_attn are not available")
        super().__init__()
        if embed_dim % num_heads:
            raise invalid(f"MultiheadAttention: {num_heads} heads do not divide embed_dim "
                          f"{embed_dim}")
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.batch_first = batch_first
        widths = {"q": embed_dim, "k": kdim or embed_dim, "v": vdim or embed_dim}
        alike = len(set(widths.values())) == 1
        self.register_parameter("in_proj_weight", _empty(3 * embed_dim, embed_dim, dtype=dtype)
                                if alike else None)
        for name, width in widths.items():
            self.register_parameter(f"{name}_proj_weight", None if alike else _empty(
                embed_dim, width, dtype=dtype))
        self.register_parameter("in_proj_bias", _empty(3 * embed_dim, dtype=dtype)
                                if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws the initial values."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight,
                       self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)

    def _projected(self, query, key, value):
        e = self.embed_dim
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.split(e)
        if self.in_proj_weight is not None and query is key is value:
            return F.linear(query, self.in_proj_weight, self.in_proj_bias).split(e, -1)
        weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight) \
            if self.in_proj_weight is None else self.in_proj_weight.split(e)
        return tuple(F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):
        one = query.ndim == 2
        if not one and not self.batch_first:
            same = query is key is value
            query = query.transpose(0, 1)
            key, value = (query, query) if same else (key.transpose(0, 1), value.transpose(0, 1))
        if not query.ndim == key.ndim == value.ndim or not query.shape[:-2] == key.shape[:-2] == value.shape[:-2] or \
                key.shape[-2] != value.shape[-2]:
            raise invalid(f"MultiheadAttention: query {query._text()}, key {key._text()} and value {value._text()} "
                          "differ in the batch, or key and value in length")
        if key_padding_mask is not None and tuple(key_padding_mask.shape) != tuple(key.shape[:-1]):
            raise invalid(f"MultiheadAttention: key_padding_mask {key_padding_mask._text()} for keys of shape "
                          f"{list(key.shape[:-1])}")
        heads = [x.unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)
                 for x in self._projected(query, key, value)]
        mask = self._mask(attn_mask, key_padding_mask, heads)
        p = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            scores = (heads[0] * (1 / math.sqrt(heads[0].shape[-1]))) @ heads[1].mT
            weights = (scores if mask is None else scores + mask).softmax(-1)
            made = F.dropout(weights, p) @ heads[2]
            weights = weights.mean(-3) if average_attn_weights else weights
        else:
            made = F.scaled_dot_product_attention(*heads, attn_mask=mask, dropout_p=p)
        made = self.out_proj(made.transpose(-3, -2).flatten(-2))
        if not one and not self.batch_first:
            made = made.transpose(0, 1)
        return made, weights

    def _mask(self, attn_mask, key_padding_mask, heads):
        """Both masks as one that is added; torch's true is what is hidden."""
        total = None
        if attn_mask is not None and attn_mask.ndim == 3:
            attn_mask = attn_mask.unflatten(0, (-1, self.num_heads))
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(-2).unsqueeze(-2)
        for mask in (attn_mask, key_padding_mask):
            if mask is None:
                continue
            if mask.dtype == "bool":
                mask = zeros(mask.shape, dtype=heads[0].dtype).masked_fill(mask, -math.inf)
            total = mask if total is None else total + mask
        return total
