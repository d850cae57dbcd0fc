"""Functions that models are made of, under torch's names: also `shoal.nn.functional`.

Each is written in recorded operations, so gradients pass through all of them. With `inplace` the input
becomes the result as well. Convolutions, pools and resampling are in `windows`, losses in `losses`.
"""
import functools
import math

from . import _shoal
from .amp import cast, cast_type
from .creation import arange, full, where
from .errors import UnsupportedError
from .fractional import *
from .indexing import in_range
from .losses import *
from .random import fractions, rand_like
from .windows import *
from .words import (axis_of, check_bounds, check_integer, check_number, check_padding_idx, check_probability,
                    check_tensor, invalid, is_floating, torch_words)


def _inplace(function):
    """Lets a function's `inplace` have the input become the result."""
    @functools.wraps(function)
    def either(input, *args, inplace=False, **keywords):
        if args and isinstance(args[-1], bool) and len(args) == most:
            args, inplace = args[:-1], args[-1]
        check_tensor(input, function.__name__)
        made = function(input, *args, **keywords)
        return input._become(made, function.__name__) if inplace else made
    most = function.__code__.co_varnames.index("inplace")
    return either


# ---- activations ----

@_inplace
def relu(input, inplace=False):
    """max(x, 0)"""
    return input.relu()


@_inplace
def relu6(input, inplace=False):
    """min(max(x, 0), 6)"""
    return hardtanh(input, 0, 6)


@_inplace
def leaky_relu(input, negative_slope=0.01, inplace=False):
    """x where it is positive, else negative_slope x."""
    return where(input > 0, input, input * negative_slope)


def prelu(input, weight):
    """leaky_relu with a learned slope: one, or one per index of axis 1."""
    if weight.size > 1 and input.ndim > 1:
        weight = weight.reshape((1, -1) + (1,) * (input.ndim - 2))
    return where(input > 0, input, input * weight)


@_inplace
def elu(input, alpha=1.0, inplace=False):
    """x where it is positive, else alpha (e^x - 1)."""
    return where(input > 0, input, where(input > 0, 0, input).expm1() * alpha)


@_inplace
def selu(input, inplace=False):
    """Scaled elu (Klambauer et al., 2017)."""
    return elu(input, 1.6732632423543772) * 1.0507009873554805


@_inplace
def celu(input, alpha=1.0, inplace=False):
    """max(x, 0) + min(0, alpha (e^(x/alpha) - 1))"""
    return where(input > 0, input, (where(input > 0, 0, input) / alpha).expm1() * alpha)


def gelu(input, approximate="none"):
    """x Phi(x); approximate="tanh" takes the formula with tanh."""
    return input.gelu(approximate)


@_inplace
def silu(input, inplace=False):
    """x sigmoid(x)"""
    return input.silu()


@_inplace
def mish(input, inplace=False):
    """x tanh(softplus(x))"""
    return input * softplus(input).tanh()


def sigmoid(input):
    """1 / (1 + e^-x)"""
    return input.sigmoid()


def tanh(input):
    """The hyperbolic tangent."""
    return input.tanh()


def softplus(input, beta=1.0, threshold=20.0):
    """log(1 + e^(beta x)) / beta; x itself where beta x is above the threshold."""
    scaled = input * beta
    smooth = (scaled.maximum(0) + (-abs(scaled)).exp().log1p()) / beta
    return where(scaled > threshold, input, smooth)


def logsigmoid(input):
    """log(sigmoid(x))"""
    return input.minimum(0) - (-abs(input)).exp().log1p()


def softsign(input):
    """x / (1 + |x|)"""
    return input / (abs(input) + 1)


@_inplace
def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """x, not below min_val and not above max_val. Its gradient at these is 0, as torch's, where that of `clamp` is 1."""
    check_bounds(min_val, max_val, "hardtanh")
    bounded = input._detach().clamp(min_val, max_val).astype(input.dtype)
    return where((input > min_val) & (input < max_val), input, bounded)


@_inplace
def hardsigmoid(input, inplace=False):
    """min(max(x + 3, 0), 6) / 6"""
    return relu6(input + 3) / 6


@_inplace
def hardswish(input, inplace=False):
    """x hardsigmoid(x)"""
    bent = where(input > 3, 0, input)
    return where(input > 3, input, bent * ((bent + 3).clamp(min=0) / 6))


@torch_words
def glu(input, axis=-1):
    """The first half along an axis times the sigmoid of the second."""
    axis = axis_of(axis, input.ndim, "glu")
    if input.shape[axis] % 2:
        raise invalid(f"glu: axis {axis} of {input._text()} has no halves: its length is odd")
    a, b = input.chunk(2, axis)
    return a * b.sigmoid()


def _classes(input, axis):
    """The axis that torch takes for classes where none is given."""
    if axis is not None:
        return axis
    return 0 if input.ndim in (0, 1, 3) else 1


@torch_words
def softmax(input, axis=None, dtype=None):
    """e^x over its sum along an axis; None: 0 for one or three axes, else 1, as torch takes it. Better give it."""
    return (input if dtype is None else input.astype(dtype)).softmax(_classes(input, axis))


@torch_words
def log_softmax(input, axis=None, dtype=None):
    """The logarithm of softmax along an axis."""
    return (input if dtype is None else input.astype(dtype)).log_softmax(_classes(input, axis))


@torch_words
def softmin(input, axis=None):
    """softmax(-x)"""
    return (-input).softmax(_classes(input, axis))


@_inplace
def dropout(input, p=0.5, training=True, inplace=False, generator=None):
    """In training each element is 0 with probability p, else divided by 1 - p.

    Which ones depends on the generator's seed and stream and the element's place alone, not on how
    the tensor is distributed.
    """
    check_probability(p, "dropout")
    if not training or p == 0:
        return input
    if p == 1:
        return input * 0.0
    dtype = input.dtype if is_floating(input.dtype) else "float32"
    return where(fractions(input.shape, dtype, generator) >= p, input * (1 / (1 - p)), 0)


# ---- layers ----

def _flipped(weight):
    """The axes in reverse order, of which nobody knows that it is a view."""
    axes = range(weight.ndim - 1, -1, -1)
    return _shoal.apply(weight.session, "transpose", (weight,), {"permutation": axes}, 1)[0]


def linear(input, weight, bias=None):
    """x weight^T + bias; weight: (out, in)."""
    check_tensor(input, "linear")
    check_tensor(weight, "linear", "the weight")
    if input.shape[-1:] != weight.shape[-1:]:
        raise invalid(f"linear: the last axis of {input._text()} must be as long as that of the "
                      f"weight, {weight._text()}")
    if cast_type() is not None:
        input, weight, bias = cast(input, weight, bias)
    made = input @ _flipped(weight)
    return made if bias is None else made + bias


def bilinear(input1, input2, weight, bias=None):
    """x1^T W_k x2 for each k, plus bias; weight: (out, in1, in2)."""
    lead = input1.shape[:-1]
    a, b = input1.reshape(-1, input1.shape[-1]), input2.reshape(-1, input2.shape[-1])
    made = (a.tensordot(weight, ([1], [1])) * b.unsqueeze(1)).sum(-1)
    made = made.reshape(*lead, weight.shape[0])
    return made if bias is None else made + bias


def _clipped_rows(weight, input, max_norm, norm_type):
    """In place: the rows that are used, to a norm of max_norm at most."""
    from .autograd import no_grad
    with no_grad():
        rows = input.ravel().unique()
        used = weight._detach().take(rows, 0)
        size = used.norm(norm_type, -1, True)
        kept = where(size > max_norm, used * (max_norm / (size + 1e-7)), used)
        weight._rebind(weight._detach().index_copy(0, rows, kept))


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
              sparse=False):
    """Rows of `weight` at integers; no gradient reaches the row padding_idx. max_norm: rows that are used
    are scaled, in place, to that norm at most."""
    if scale_grad_by_freq:
        raise invalid("embedding: scale_grad_by_freq is not available")
    check_tensor(weight, "embedding", "the weight")
    if weight.ndim != 2:
        raise invalid(f"embedding: the weight {weight._text()} is no matrix")
    check_padding_idx(padding_idx, weight.shape[0], "embedding")
    if max_norm is not None:
        _clipped_rows(weight, input, max_norm, norm_type)
    rows = weight._take_rows(weight._rows(input, 0, "embedding"), 0)
    if padding_idx is None:
        return rows
    return where((input == padding_idx % weight.shape[0]).unsqueeze(-1), rows._detach(), rows)


def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False,
                  mode="mean", sparse=False, per_sample_weights=None, include_last_offset=False,
                  padding_idx=None):
    """Sums, means or maxima of rows of `weight` at each bag of integers: the rows of a matrix, or the parts of
    a vector that begin at offsets."""
    if mode not in ("sum", "mean", "max"):
        raise invalid(f"embedding_bag: mode '{mode}' is none of sum, mean, max")
    check_tensor(input, "embedding_bag")
    if per_sample_weights is not None and mode != "sum":
        raise UnsupportedError(f"embedding_bag: per_sample_weights with mode '{mode}'; they go with 'sum'")
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise invalid(f"embedding_bag: per_sample_weights {per_sample_weights._text()} of {input._text()}; the shapes "
                      "must be the same")
    if input.ndim == 2 and offsets is not None:
        raise invalid(f"embedding_bag: {input._text()} with offsets; the bags of a matrix are its rows")
    if input.ndim == 1 and offsets is None:
        raise invalid("embedding_bag: a vector of integers needs offsets, where its bags begin")
    if offsets is not None:
        if offsets.ndim != 1:
            raise invalid(f"embedding_bag: the offsets are {offsets._text()}; they must be a vector")
        offsets = in_range(offsets, 0, input.shape[0] + 1, error="embedding_bag: an offset does not lie from 0 to "
                           f"{input.shape[0]}, the number of integers")
    if input.ndim == 2:
        bags, n = arange(input.shape[0]).repeat_interleave(input.shape[1]), input.shape[0]
    else:
        starts = offsets[:-1] if include_last_offset else offsets
        n = starts.shape[0]
        bags = (arange(input.shape[0]).unsqueeze(1) >= starts.unsqueeze(0)).sum(1) - 1
    flat = input.ravel()
    rows = embedding(flat, weight, padding_idx, max_norm, norm_type)
    counted = full(flat.shape, 1, rows.dtype) if padding_idx is None else \
        (flat != padding_idx % weight.shape[0]).astype(rows.dtype)
    if mode == "max":
        least = full((n, weight.shape[1]), -math.inf, rows.dtype)
        rows = where((counted > 0).unsqueeze(1), rows, -math.inf)
        made = least.scatter(0, bags.unsqueeze(1).broadcast_to(rows.shape), rows, "maximum")
        return where(made == -math.inf, 0, made)
    scaled = rows * counted.unsqueeze(1)
    if per_sample_weights is not None:
        scaled = scaled * per_sample_weights.ravel().unsqueeze(1)
    total = full((n, weight.shape[1]), 0, rows.dtype).index_add(0, bags, scaled)
    if mode == "sum":
        return total
    count = full((n,), 0, rows.dtype).index_add(0, bags, counted).clamp(min=1)
    return total / count.unsqueeze(1)


def one_hot(input, num_classes=-1):
    """1 at each integer along a new last axis, else 0, as int64; num_classes -1: reads the largest. Integers
    outside of 0 to num_classes - 1 are an error, of what derives from them."""
    check_tensor(input, "one_hot")
    check_integer(num_classes, "one_hot", "num_classes")
    if num_classes < 0:
        num_classes = int(input.max().item()) + 1
    return (in_range(input, 0, num_classes).unsqueeze(-1) == arange(num_classes, dtype=input.dtype)).long()


def _as_one_axis(input, normalized_shape, what):
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or input.shape[-len(shape):] != shape:
        raise invalid(f"{what}: the last axes of {input._text()} are not {list(shape)}")
    return input.flatten(-len(shape)) if len(shape) > 1 else input


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(variance + eps) over the last axes, times weight, plus bias."""
    x = _as_one_axis(input, normalized_shape, "layer_norm")
    made = x.layer_norm(None if weight is None else weight.ravel(),
                        None if bias is None else bias.ravel(), -1, eps)
    return made.reshape(input.shape)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """x / sqrt(mean(x^2) + eps) over the last axes, times weight."""
    x = _as_one_axis(input, normalized_shape, "rms_norm")
    eps = 2.0 ** {"float64": -52, "float16": -10, "bfloat16": -7}.get(x.dtype, -23) \
        if eps is None else eps
    return x.rms_norm(None if weight is None else weight.ravel(), -1, eps).reshape(input.shape)


def batch_norm(input, running_mean=None, running_var=None, weight=None, bias=None, training=False,
               momentum=0.1, eps=1e-5):
    """Normalised over all axes but axis 1: by the batch in training, else by what has been seen.

    In training running_mean and running_var are updated in place.
    """
    axes = tuple(a for a in range(input.ndim) if a != 1)
    shape = (1, -1) + (1,) * (input.ndim - 2)
    n = input.numel() // max(1, input.shape[1])
    if training and n == 1:
        raise invalid(f"batch_norm: in training more than one value per channel is needed: {input._text()}")
    if not training and (running_mean is None or running_var is None):
        raise invalid("batch_norm: without training running_mean and running_var must be given")
    if training:
        mean, var = input.mean(axes), input.var(axes, correction=0)
        if running_mean is not None:
            running_mean.copy_(running_mean._detach().lerp(mean._detach(), momentum))
            running_var.copy_(running_var._detach().lerp(var._detach() * (n / max(1, n - 1)), momentum))
    else:
        mean, var = running_mean._detach(), running_var._detach()
    made = (input - mean.reshape(shape)) * (var + eps).rsqrt().reshape(shape)
    return _scaled(made, weight, bias)


def _scaled(x, weight, bias):
    shape = (1, -1) + (1,) * (x.ndim - 2)
    if weight is not None:
        x = x * weight.reshape(shape)
    return x if bias is None else x + bias.reshape(shape)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(variance + eps) over groups of channels, axis 1, times weight, plus bias."""
    n, channels = input.shape[:2]
    if channels % num_groups:
        raise invalid(f"group_norm: {num_groups} groups do not divide {channels} channels")
    x = input.reshape(n, num_groups, -1).layer_norm(None, None, -1, eps).reshape(input.shape)
    return _scaled(x, weight, bias)


def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
                  momentum=0.1, eps=1e-5):
    """(x - mean) / sqrt(variance + eps) over the axes after the channels, axis 1, of each input."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    axes = tuple(range(2, input.ndim))
    if math.prod(input.shape[2:]) == 1:
        raise invalid(f"instance_norm: more than one value per channel is needed: {input._text()}")
    mean, var = input.mean(axes, True), input.var(axes, correction=0, keepdim=True)
    if running_mean is not None:
        n = input.numel() // max(1, input.shape[0] * input.shape[1])
        unbiased = var._detach() * (n / max(1, n - 1))
        running_mean.copy_(running_mean._detach().lerp(mean._detach().mean((0, *axes)), momentum))
        running_var.copy_(running_var._detach().lerp(unbiased.mean((0, *axes)), momentum))
    return _scaled((input - mean) * (var + eps).rsqrt(), weight, bias)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """x / (k + alpha times the mean square of `size` neighbouring channels)^beta."""
    square = (input * input).movedim(1, -1)
    low = size // 2
    padded = square.pad((0,) * (input.ndim - 1) + (low,), (0,) * (input.ndim - 1) + (size - 1 - low,))
    mean = padded.unfold(-1, size, 1).mean(-1).movedim(-1, 1)
    return input / (mean * alpha + k) ** beta


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False,
                                 scale=None):
    """softmax(scale q k^T + mask) v for q [..., S, D], k [..., T, D], v [..., T, E].

    attn_mask: bool (true takes part) or of q's type (added), broadcast to [..., S, T]. is_causal:
    query i sees keys up to i. scale: 1 / sqrt(D) when None. A query that sees nothing has NaN.
    """
    rows, columns = query.shape[-2], key.shape[-2]
    if is_causal and attn_mask is not None:
        raise invalid("scaled_dot_product_attention: give attn_mask or is_causal, not both")
    plain = not dropout_p and (attn_mask is None or attn_mask.ndim <= query.ndim) and \
        query.ndim == key.ndim == value.ndim and \
        query.shape[:-2] == key.shape[:-2] == value.shape[:-2]
    if plain and (not is_causal or rows == columns):
        return query.attention(key, value, attn_mask, None, is_causal, scale)
    if is_causal:
        attn_mask = full((rows, columns), True).tril()
    scores = (query * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)) @ key.mT
    if attn_mask is not None and attn_mask.dtype == "bool":
        scores = where(attn_mask, scores, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return dropout(scores.softmax(-1), dropout_p) @ value


# ---- distances ----

@torch_words
def normalize(input, p=2.0, axis=1, eps=1e-12):
    """x over its p-norm along an axis, which counts as eps at least."""
    return input / input.norm(p, axis, True).clamp(min=eps)


@torch_words
def cosine_similarity(x1, x2, axis=1, eps=1e-8):
    """The cosine of the angle between vectors along an axis; their lengths count as eps at least."""
    check_tensor(x1, "cosine_similarity", "x1")
    check_tensor(x2, "cosine_similarity", "x2")
    lengths = x1.norm(2, axis).clamp(min=eps) * x2.norm(2, axis).clamp(min=eps)
    return (x1 * x2).sum(axis) / lengths


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of x1 - x2 + eps along the last axis."""
    check_tensor(x1, "pairwise_distance", "x1")
    check_tensor(x2, "pairwise_distance", "x2")
    return (x1 - x2 + eps).norm(p, -1, keepdim)


def pdist(input, p=2.0):
    """The p-norms of the differences of all pairs of rows."""
    n = input.shape[0]
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    if not pairs:
        return full((0,), 0, input.dtype)
    left, right = ([pair[k] for pair in pairs] for k in (0, 1))
    return (input.take(left, 0) - input.take(right, 0)).norm(p, -1)


# ---- more activations ----

@_inplace
def threshold(input, threshold, value, inplace=False):
    """x where it is above the threshold, else the value."""
    check_number(threshold, "threshold", "threshold")
    check_number(value, "threshold", "value")
    return where(input <= threshold, value, input)


def hardshrink(input, lambd=0.5):
    """x where |x| is above lambd, else 0."""
    return where(abs(input) > lambd, input, input * 0)


def softshrink(input, lambd=0.5):
    """x, lambd nearer to 0, and 0 within lambd."""
    return where(input > lambd, input - lambd, where(input < -lambd, input + lambd, input * 0))


def tanhshrink(input):
    """x - tanh(x)"""
    return input - input.tanh()


@_inplace
def rrelu(input, lower=1 / 8, upper=1 / 3, training=False, inplace=False):
    """leaky_relu with a slope that in training is drawn from [lower, upper), else is their mean."""
    check_bounds(lower, upper, "rrelu")
    slope = rand_like(input) * (upper - lower) + lower if training else (lower + upper) / 2
    return where(input > 0, input, input * slope)


@torch_words
def gumbel_softmax(logits, tau=1.0, hard=False, eps=1e-10, axis=-1):
    """softmax((logits + noise) / tau), the noise Gumbel's; hard: one 1, with the gradients of the soft one."""
    noise = -(-fractions(logits.shape, logits.dtype)).log1p()
    soft = ((logits - noise.clamp(min=1e-38).log().astype(logits.dtype)) / tau).softmax(axis)
    if not hard:
        return soft
    at = soft.argmax(axis, True)
    made = (soft * 0)._detach().scatter(axis, at, 1.0)
    return made - soft._detach() + soft


# ---- more dropout ----

def _dropped(input, p, training, shape):
    """Whole parts of the input dropped: a mask of a shape that broadcasts."""
    check_probability(p, "dropout")
    if not training or p == 0:
        return input
    mask = dropout(full(shape, 1, input.dtype), p)
    return input * mask


@_inplace
def dropout1d(input, p=0.5, training=True, inplace=False):
    """In training whole channels of (N, C, L) are 0 with probability p, the others divided by 1 - p."""
    return _dropped(input, p, training, (*input.shape[:-1], 1))


@_inplace
def dropout2d(input, p=0.5, training=True, inplace=False):
    """In training whole channels of (N, C, H, W) are 0 with probability p, the others divided by 1 - p."""
    return _dropped(input, p, training, (*input.shape[:2], *(1,) * (input.ndim - 2)))


@_inplace
def dropout3d(input, p=0.5, training=True, inplace=False):
    """In training whole channels of (N, C, D, H, W) are 0 with probability p, the others divided by 1 - p."""
    return _dropped(input, p, training, (*input.shape[:2], *(1,) * (input.ndim - 2)))


def _alpha(input, p, training, shape):
    check_probability(p, "alpha_dropout")
    if not training or p == 0:
        return input
    low = -1.7580993408473766
    scale = ((1 - p) * (1 + p * low * low)) ** -0.5
    kept = fractions(shape, input.dtype) >= p
    return where(kept, input, low) * scale - low * p * scale


@_inplace
def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps mean and variance of what selu gives (Klambauer et al., 2017)."""
    return _alpha(input, p, training, input.shape)


@_inplace
def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """alpha_dropout of whole channels."""
    return _alpha(input, p, training, (*input.shape[:2], *(1,) * (input.ndim - 2)))


def _own_name(name):
    def inplace(input, *args, **keywords):
        return globals()[name](input, *args, inplace=True, **keywords)
    inplace.__name__ = inplace.__qualname__ = name + "_"
    inplace.__doc__ = f"`{name}` in place."
    return inplace


for _name in ("relu", "elu", "selu", "celu", "leaky_relu", "hardtanh", "threshold", "rrelu"):
    globals()[_name + "_"] = _own_name(_name)
del _name
