"""Layers: modules with weights, and modules that only name a function."""
import math

from .. import functional as F
from ..creation import ones, zeros
from ..words import invalid
from . import init
from .module import Module, Parameter


def _empty(*shape, dtype=None):
    return Parameter(zeros(*shape, dtype=dtype or "float32"))


class Identity(Module):
    """What it is given."""

    def __init__(self, *args, **keywords):
        super().__init__()

    def forward(self, input):
        return input


class Linear(Module):
    """x weight^T + bias; weight: (out_features, in_features), uniformly distributed over +-1/sqrt(in)."""

    def __init__(self, in_features, out_features, bias=True, dtype=None):
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


class Embedding(Module):
    """Rows of a learned table at integers; no gradient reaches the row padding_idx, zeros."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, dtype=None):
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx
        self.weight = _empty(num_embeddings, embedding_dim, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws the initial values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init._set(self.weight, self.weight.detach().index_fill(0, [
                self.padding_idx % self.num_embeddings], 0))

    def forward(self, input):
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self):
        more = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{more}"


class LayerNorm(Module):
    """(x - mean) / sqrt(variance + eps) over the last axes, times weight, plus bias."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else \
            tuple(normalized_shape)
        self.eps = eps
        for name, made in (("weight", ones), ("bias", zeros)):
            there = elementwise_affine and (name == "weight" or bias)
            self.register_parameter(name, Parameter(
                made(self.normalized_shape, dtype=dtype or "float32")) if there else None)

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}"


class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) over the last axes, times weight."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else \
            tuple(normalized_shape)
        self.eps = eps
        self.register_parameter("weight", Parameter(
            ones(self.normalized_shape, dtype=dtype or "float32")) if elementwise_affine else None)

    def forward(self, input):
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}"


class BatchNorm2d(Module):
    """Normalised over all axes but axis 1, by the batch in training, else by what has been seen."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, dtype=None):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        kind = dtype or "float32"
        for name, made in (("weight", ones), ("bias", zeros)):
            self.register_parameter(name, Parameter(made(num_features, dtype=kind))
                                    if affine else None)
        self.register_buffer("running_mean", zeros(num_features, dtype=kind))
        self.register_buffer("running_var", ones(num_features, dtype=kind))

    def forward(self, input):
        return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias,
                            self.training, self.momentum, self.eps)

    def extra_repr(self):
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm1d(BatchNorm2d):
    """BatchNorm2d of (N, C) or (N, C, L)."""


class Dropout(Module):
    """In training each element is 0 with probability p, else divided by 1 - p."""

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p <= 1:
            raise invalid(f"Dropout: p is {p}; a probability lies between 0 and 1")
        self.p = p

    def forward(self, input):
        return F.dropout(input, self.p, self.training)

    def extra_repr(self):
        return f"p={self.p}"


class Conv2d(Module):
    """Cross-correlation of (N, C, H, W) with learned kernels; padding a number, two or "same"."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1,
                 groups=1, bias=True, dtype=None):
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise invalid(f"Conv2d: {groups} groups do not divide {in_channels} and {out_channels} "
                          "channels")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride = F._pair(kernel_size), F._pair(stride)
        self.padding, self.dilation, self.groups = padding, F._pair(dilation), groups
        self.weight = _empty(out_channels, in_channels // groups, *self.kernel_size, dtype=dtype)
        self.register_parameter("bias", _empty(out_channels, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws the initial values."""
        init.kaiming_uniform_(self.weight, math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(max(1, math.prod(self.weight.shape[1:])))
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input):
        return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation,
                        self.groups)

    def extra_repr(self):
        return (f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
                f"stride={self.stride}, padding={self.padding}")


class MaxPool2d(Module):
    """The largest in each window over the last two axes."""

    def __init__(self, kernel_size, stride=None, padding=0, dilation=1):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation

    def forward(self, input):
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation)

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(Module):
    """The mean of each window over the last two axes."""

    def __init__(self, kernel_size, stride=None, padding=0, count_include_pad=True):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.count_include_pad = padding, count_include_pad

    def forward(self, input):
        return F.avg_pool2d(input, self.kernel_size, self.stride, self.padding,
                            self.count_include_pad)

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AdaptiveAvgPool2d(Module):
    """Means over windows that divide the last two axes evenly."""

    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def forward(self, input):
        return F.adaptive_avg_pool2d(input, self.output_size)

    def extra_repr(self):
        return f"output_size={self.output_size}"


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


class MultiheadAttention(Module):
    """Attention of several heads with learned projections, as torch's.

    query (N, S, E), key and value (N, T, E) with batch_first, else (S, N, E) and (T, N, E); without
    N, one of each. Gives (result, weights), the weights None unless need_weights.
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, kdim=None, vdim=None,
                 batch_first=False, dtype=None):
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
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype)
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

    def extra_repr(self):
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"


# ---- modules of modules ----

class Sequential(Module):
    """Modules one after another: Sequential(a, b, …) or Sequential({"first": a, …})."""

    def __init__(self, *modules):
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], dict):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            self.extend(modules)

    def append(self, module):
        """One more at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        """More at the end."""
        for module in modules:
            self.append(module)
        return self

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, index):
        found = list(self._modules.values())[index]
        return type(self)(*found) if isinstance(index, slice) else found

    def __setitem__(self, index, module):
        self.add_module(list(self._modules)[index], module)

    def forward(self, input):
        for module in self:
            input = module(input)
        return input


class ModuleList(Sequential):
    """Modules in a list; it computes nothing itself."""

    def __init__(self, modules=()):
        Module.__init__(self)
        self.extend(modules)

    def __getitem__(self, index):
        found = list(self._modules.values())[index]
        return ModuleList(found) if isinstance(index, slice) else found

    def insert(self, index, module):
        """One more at an index."""
        modules = list(self)
        modules.insert(index, module)
        self._modules.clear()
        self.extend(modules)

    def forward(self, *args, **keywords):
        raise NotImplementedError("a ModuleList computes nothing; call its modules")


class ModuleDict(Module):
    """Modules by names; it computes nothing itself."""

    def __init__(self, modules=None):
        super().__init__()
        self.update(modules or {})

    def update(self, modules):
        """More modules, from a dict."""
        for name, module in modules.items():
            self.add_module(name, module)

    def __getitem__(self, name):
        return self._modules[name]

    def __setitem__(self, name, module):
        self.add_module(name, module)

    def __delitem__(self, name):
        del self._modules[name]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, name):
        return name in self._modules

    def keys(self):
        """The names."""
        return self._modules.keys()

    def values(self):
        """The modules."""
        return self._modules.values()

    def items(self):
        """(name, module) of each."""
        return self._modules.items()


class ParameterList(Module):
    """Parameters in a list."""

    def __init__(self, parameters=()):
        super().__init__()
        for i, p in enumerate(parameters):
            self.register_parameter(str(i), p if isinstance(p, Parameter) else Parameter(p))

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters.values())

    def __getitem__(self, index):
        return list(self._parameters.values())[index]
