"""Functions that models are made of, under torch's names: also `shoal.nn.functional`.

Each is written in recorded operations, so gradients pass through all of them. `reduction` is "none", "sum"
or "mean". `inplace` is taken and changes nothing: a value never changes.
"""
import math

from . import _shoal
from .creation import arange, full, where
from .random import rand_like
from .words import invalid, is_floating, torch_words


# ---- activations ----

def relu(input, inplace=False):
    """max(x, 0)"""
    return input.relu()


def relu6(input, inplace=False):
    """min(max(x, 0), 6)"""
    return input.clamp(0, 6)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """x where it is positive, else negative_slope x."""
    return where(input > 0, input, input * negative_slope)


def prelu(input, weight):
    """leaky_relu with a learned slope: one, or one per index of axis 1."""
    if weight.size > 1 and input.ndim > 1:
        weight = weight.reshape((1, -1) + (1,) * (input.ndim - 2))
    return where(input > 0, input, input * weight)


def elu(input, alpha=1.0, inplace=False):
    """x where it is positive, else alpha (e^x - 1)."""
    return where(input > 0, input, input.minimum(0).expm1() * alpha)


def selu(input, inplace=False):
    """Scaled elu (Klambauer et al., 2017)."""
    return elu(input, 1.6732632423543772) * 1.0507009873554805


def celu(input, alpha=1.0, inplace=False):
    """max(x, 0) + min(0, alpha (e^(x/alpha) - 1))"""
    return input.relu() + (input.minimum(0) / alpha).expm1() * alpha


def gelu(input, approximate="none"):
    """x Phi(x); approximate="tanh" takes the formula with tanh."""
    return input.gelu(approximate)


def silu(input, inplace=False):
    """x sigmoid(x)"""
    return input.silu()


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
    smooth = (scaled.relu() + (-abs(scaled)).exp().log1p()) / beta
    return where(scaled > threshold, input, smooth)


def logsigmoid(input):
    """log(sigmoid(x))"""
    return input.minimum(0) - (-abs(input)).exp().log1p()


def softsign(input):
    """x / (1 + |x|)"""
    return input / (abs(input) + 1)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """x, not below min_val and not above max_val."""
    return input.clamp(min_val, max_val)


def hardsigmoid(input, inplace=False):
    """min(max(x + 3, 0), 6) / 6"""
    return relu6(input + 3) / 6


def hardswish(input, inplace=False):
    """x hardsigmoid(x)"""
    return input * hardsigmoid(input)


@torch_words
def glu(input, axis=-1):
    """The first half along an axis times the sigmoid of the second."""
    a, b = input.chunk(2, axis)
    return a * b.sigmoid()


@torch_words
def softmax(input, axis=-1, dtype=None):
    """e^x over its sum along an axis."""
    return (input if dtype is None else input.astype(dtype)).softmax(axis)


@torch_words
def log_softmax(input, axis=-1, dtype=None):
    """The logarithm of softmax along an axis."""
    return (input if dtype is None else input.astype(dtype)).log_softmax(axis)


@torch_words
def softmin(input, axis=-1):
    """softmax(-x)"""
    return (-input).softmax(axis)


def dropout(input, p=0.5, training=True, inplace=False, generator=None):
    """In training each element is 0 with probability p, else divided by 1 - p.

    Which ones depends on the generator's seed and stream and the element's place alone, not on how
    the tensor is spread.
    """
    if not 0 <= p <= 1:
        raise invalid(f"dropout: p is {p}; a probability lies between 0 and 1")
    if not training or p == 0:
        return input
    if p == 1:
        return input * 0.0
    dtype = input.dtype if is_floating(input.dtype) else "float32"
    return where(rand_like(input, dtype, generator) >= p, input * (1 / (1 - p)), 0)


# ---- layers ----

def linear(input, weight, bias=None):
    """x weight^T + bias; weight: (out, in)."""
    if input.shape[-1:] != weight.shape[-1:]:
        raise invalid(f"linear: the last axis of {input._text()} must be as long as that of the "
                      f"weight, {weight._text()}")
    made = input @ weight.T
    return made if bias is None else made + bias


def embedding(input, weight, padding_idx=None):
    """Rows of `weight` at integers; no gradient reaches the row padding_idx."""
    rows = weight.take(input, 0)
    if padding_idx is None:
        return rows
    return where((input == padding_idx % weight.shape[0]).unsqueeze(-1), rows.detach(), rows)


def one_hot(input, num_classes=-1):
    """1 at each integer along a new last axis, else 0, as int64; num_classes -1: reads the largest."""
    if num_classes < 0:
        num_classes = int(input.max().item()) + 1
    return (input.unsqueeze(-1) == arange(num_classes, dtype=input.dtype)).long()


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
    if training or running_mean is None:
        mean, var = input.mean(axes), input.var(axes)
        if training and running_mean is not None:
            n = input.size // max(1, input.shape[1])
            running_mean.copy_(running_mean.lerp(mean.detach(), momentum))
            running_var.copy_(running_var.lerp(var.detach() * (n / max(1, n - 1)), momentum))
    else:
        mean, var = running_mean, running_var
    made = (input - mean.reshape(shape)) * (var + eps).rsqrt().reshape(shape)
    if weight is not None:
        made = made * weight.reshape(shape)
    return made if bias is None else made + bias.reshape(shape)


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


# ---- images ----

def _pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


def _single(value):
    return value if isinstance(value, int) else tuple(value)[0]


def _windows(x, op, kernel, stride, padding, dilation):
    """Windows over the last two axes, joined by an operation; what is added at the edges counts for
    nothing."""
    edges = [p for p in padding for _ in range(2)]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    if any(n + 2 * p < r for n, p, r in zip(x.shape[-2:], padding, reach)):
        raise invalid(f"a window of {reach} does not lie on {x._text()}")
    return _shoal.reduce_window(x, op, kernel, stride, edges, dilation)


def _same(kernel, stride, dilation):
    if any(s != 1 for s in stride):
        raise invalid(f"conv: padding 'same' goes with stride 1, not {list(stride)}")
    total = [d * (k - 1) for k, d in zip(kernel, dilation)]
    return [t // 2 for t in total], [t - t // 2 for t in total]


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of (N, C, H, W) with a weight (O, C / groups, kh, kw), plus bias (O).

    padding: a number, two, "valid" or "same".
    """
    one = input.ndim == 3
    x = input.unsqueeze(0) if one else input
    stride, dilation = _pair(stride), _pair(dilation)
    if x.ndim != 4 or weight.ndim != 4:
        raise invalid(f"conv2d: {input._text()} and weight {weight._text()}; 4 axes are needed")
    out, channels, *kernel = weight.shape
    if channels * groups != x.shape[1] or out % groups:
        raise invalid(f"conv2d: {x.shape[1]} channels of {input._text()} do not go with weight "
                      f"{weight._text()} in {groups} groups")
    if padding == "same":
        edges = [p for ends in zip(*_same(kernel, stride, dilation)) for p in ends]
    else:
        edges = [p for p in ((0, 0) if padding == "valid" else _pair(padding)) for _ in range(2)]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    room = [n + sum(edges[2 * i:2 * i + 2]) for i, n in enumerate(x.shape[-2:])]
    if any(n < r for n, r in zip(room, reach)):
        raise invalid(f"conv2d: a window of {reach} does not lie on {x._text()}")
    made = _shoal.convolve(x, weight, stride, edges, dilation, groups)
    if bias is not None:
        made = made + bias.reshape(-1, 1, 1)
    return made.squeeze(0) if one else made


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of (N, C, L) with a weight (O, C / groups, k), plus bias; as conv2d."""
    stride, dilation = _single(stride), _single(dilation)
    if not isinstance(padding, str):
        padding = (0, _single(padding))
    wide = conv2d(input.unsqueeze(-2), weight.unsqueeze(-2), bias, (1, stride), padding,
                  (1, dilation), groups)
    return wide.squeeze(-2)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1):
    """The largest in each window over the last two axes; stride None: the window's size."""
    kernel = _pair(kernel_size)
    stride = kernel if stride is None else _pair(stride)
    padding, dilation = _pair(padding), _pair(dilation)
    if dilation == (1, 1):
        return _windows(input, "maximum", kernel, stride, padding, dilation)
    # Windows with gaps: place by place, since the gradient of such windows is not there.
    edge = (0,) * (input.ndim - 2) + padding
    x = input.pad(edge, edge, -math.inf if is_floating(input.dtype) else -2**31)
    counts = [(n - d * (k - 1) - 1) // s + 1
              for n, k, s, d in zip(x.shape[-2:], kernel, stride, dilation)]
    made = None
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            part = x[..., i * dilation[0]:, j * dilation[1]:]
            part = part[..., :(counts[0] - 1) * stride[0] + 1:stride[0],
                        :(counts[1] - 1) * stride[1] + 1:stride[1]]
            made = part if made is None else made.maximum(part)
    return made


def avg_pool2d(input, kernel_size, stride=None, padding=0, count_include_pad=True):
    """The mean of each window over the last two axes; stride None: the window's size."""
    kernel = _pair(kernel_size)
    stride, padding = kernel if stride is None else _pair(stride), _pair(padding)

    def total(x):
        return _windows(x, "add", kernel, stride, padding, (1, 1))
    if count_include_pad or padding == (0, 0):
        return total(input) * (1 / (kernel[0] * kernel[1]))
    return total(input) / total(full(input.shape[-2:], 1, input.dtype))


def adaptive_avg_pool2d(input, output_size):
    """Means over windows that divide the last two axes evenly into output_size."""
    size = _pair(output_size)
    n, m = input.shape[-2:]
    if n % size[0] or m % size[1]:
        raise invalid(f"adaptive_avg_pool2d: {list(size)} does not divide the last axes of "
                      f"{input._text()}")
    return avg_pool2d(input, (n // size[0], m // size[1]))


def pad(input, pad, mode="constant", value=0.0):
    """More elements at the edges; pad: (before, after) of the last axis, of the one before, …

    mode: "constant", "reflect", "replicate" or "circular".
    """
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise invalid(f"pad: {list(pad)} for {input._text()}; two numbers per axis, the last first")
    if mode == "constant":
        low, high = [0] * input.ndim, [0] * input.ndim
        for i in range(len(pad) // 2):
            low[-1 - i], high[-1 - i] = pad[2 * i], pad[2 * i + 1]
        return input.pad(low, high, value)
    for i in range(len(pad) // 2):
        n, places = input.shape[-1 - i], range(-pad[2 * i], input.shape[-1 - i] + pad[2 * i + 1])
        if mode == "replicate":
            at = [min(max(p, 0), n - 1) for p in places]
        elif mode == "circular":
            at = [p % n for p in places]
        elif mode == "reflect":
            at = [n - 1 - abs(n - 1 - abs(p)) for p in places]
        else:
            raise invalid(f"pad: mode '{mode}' is none of constant, reflect, replicate, circular")
        input = input.take(at, -1 - i)
    return input


# ---- distances ----

@torch_words
def normalize(input, p=2.0, axis=1, eps=1e-12):
    """x over its p-norm along an axis, which counts as eps at least."""
    return input / input.norm(p, axis, True).clamp(min=eps)


@torch_words
def cosine_similarity(x1, x2, axis=1, eps=1e-8):
    """The cosine of the angle between vectors along an axis; their lengths count as eps at least."""
    lengths = x1.norm(2, axis).clamp(min=eps) * x2.norm(2, axis).clamp(min=eps)
    return (x1 * x2).sum(axis) / lengths


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of x1 - x2 + eps along the last axis."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


# ---- losses ----

def _reduced(loss, reduction, what, weight=None):
    """weight: what a mean divides by the sum of; None: the number of losses."""
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    if reduction != "mean":
        raise invalid(f"{what}: reduction '{reduction}' is none of none, sum, mean")
    return loss.mean() if weight is None else loss.sum() / weight.sum()


def _same_shape(input, target, what):
    if input.shape != target.shape:
        raise invalid(f"{what}: {input._text()} and target {target._text()} differ in shape")


def cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean",
                  label_smoothing=0.0):
    """-log_softmax of logits (N, C, …) at the target: integers (N, …), or probabilities (N, C, …).

    weight: one per class. ignore_index: the label that counts for nothing. label_smoothing: what
    share of each target is spread evenly over the classes.
    """
    axis = 0 if input.ndim == 1 else 1
    if is_floating(target.dtype):
        _same_shape(input, target, "cross_entropy")
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing, axis)
    if target.shape != input.shape[:axis] + input.shape[axis + 1:]:
        raise invalid(f"cross_entropy: labels {target._text()} do not go with logits "
                      f"{input._text()}")
    if weight is None and not label_smoothing:
        loss = input.cross_entropy(target, axis, ignore_index, "none")
        counted = None if reduction != "mean" else (target != ignore_index).astype(input.dtype)
        return _reduced(loss, reduction, "cross_entropy", counted)
    logs = input.log_softmax(axis)
    hard = nll_loss(logs, target, weight, ignore_index, reduction)
    if not label_smoothing:
        return hard
    kept = target != ignore_index
    if weight is None:
        spread, counted = -logs.sum(axis), kept.astype(input.dtype)
    else:
        spread = -(logs * _per_class(weight, input.ndim, axis)).sum(axis)
        counted = where(kept, weight.take(target, 0), 0)
    soft = _reduced(where(kept, spread, 0), reduction, "cross_entropy", counted)
    share = label_smoothing / input.shape[axis]
    return hard * (1 - label_smoothing) + soft * share


def _per_class(weight, rank, axis):
    return weight.reshape((1,) * axis + (-1,) + (1,) * (rank - axis - 1))


def _soft_cross_entropy(input, target, weight, reduction, label_smoothing, axis):
    logs = input.log_softmax(axis)
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / input.shape[axis]
    if weight is not None:
        logs = logs * _per_class(weight, input.ndim, axis)
    return _reduced(-(logs * target).sum(axis), reduction, "cross_entropy")


def nll_loss(input, target, weight=None, ignore_index=-100, reduction="mean"):
    """-x at integer targets, x being logarithms of probabilities (N, C, …); as cross_entropy."""
    axis = 0 if input.ndim == 1 else 1
    kept = target != ignore_index
    at = where(kept, target, 0)
    loss = -input.take_along(at.unsqueeze(axis), axis).squeeze(axis)
    weights = kept.astype(input.dtype)
    if weight is not None:
        weights = where(kept, weight.take(at, 0), 0)
    return _reduced(where(kept, loss * weights, 0), reduction, "nll_loss", weights)


def mse_loss(input, target, reduction="mean"):
    """(x - target)^2"""
    _same_shape(input, target, "mse_loss")
    apart = input - target
    return _reduced(apart * apart, reduction, "mse_loss")


def l1_loss(input, target, reduction="mean"):
    """|x - target|"""
    _same_shape(input, target, "l1_loss")
    return _reduced(abs(input - target), reduction, "l1_loss")


def smooth_l1_loss(input, target, reduction="mean", beta=1.0):
    """d^2 / (2 beta) where d = |x - target| is below beta, else d - beta / 2."""
    _same_shape(input, target, "smooth_l1_loss")
    if beta == 0:
        return l1_loss(input, target, reduction)
    d = abs(input - target)
    return _reduced(where(d < beta, d * d * (0.5 / beta), d - 0.5 * beta), reduction,
                    "smooth_l1_loss")


def huber_loss(input, target, reduction="mean", delta=1.0):
    """d^2 / 2 where d = |x - target| is below delta, else delta (d - delta / 2)."""
    _same_shape(input, target, "huber_loss")
    d = abs(input - target)
    return _reduced(where(d < delta, d * d * 0.5, (d - 0.5 * delta) * delta), reduction,
                    "huber_loss")


def binary_cross_entropy(input, target, weight=None, reduction="mean"):
    """-(target log x + (1 - target) log(1 - x)); logarithms count as -100 at least, as in torch."""
    _same_shape(input, target, "binary_cross_entropy")
    loss = -(target * input.log().clamp(min=-100) +
             (1 - target) * (-input).log1p().clamp(min=-100))
    return _reduced(loss if weight is None else loss * weight, reduction, "binary_cross_entropy")


def binary_cross_entropy_with_logits(input, target, weight=None, reduction="mean", pos_weight=None):
    """binary_cross_entropy of sigmoid(x), exact for large |x|."""
    _same_shape(input, target, "binary_cross_entropy_with_logits")
    tail = (-abs(input)).exp().log1p() + (-input).relu()  # -log sigmoid(x)
    factor = 1 if pos_weight is None else (pos_weight - 1) * target + 1
    loss = (1 - target) * input + factor * tail
    return _reduced(loss if weight is None else loss * weight, reduction,
                    "binary_cross_entropy_with_logits")


def kl_div(input, target, reduction="mean", log_target=False):
    """target (log target - x), x being logarithms; reduction "batchmean" divides by the first axis."""
    if log_target:
        loss = target.exp() * (target - input)
    else:
        positive = target > 0
        loss = where(positive, target * where(positive, target, 1).log(), 0) - target * input
    if reduction == "batchmean":
        return loss.sum() / float(input.shape[0])
    return _reduced(loss, reduction, "kl_div")


def hinge_embedding_loss(input, target, margin=1.0, reduction="mean"):
    """x where the target is 1, max(0, margin - x) where it is -1."""
    return _reduced(where(target > 0, input, (margin - input).relu()), reduction,
                    "hinge_embedding_loss")


def soft_margin_loss(input, target, reduction="mean"):
    """log(1 + e^(-target x))"""
    return _reduced(-logsigmoid(input * target), reduction, "soft_margin_loss")


def margin_ranking_loss(input1, input2, target, margin=0.0, reduction="mean"):
    """max(0, margin - target (x1 - x2))"""
    return _reduced((margin - target * (input1 - input2)).relu(), reduction, "margin_ranking_loss")


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, reduction="mean"):
    """max(0, margin + |anchor - positive| - |anchor - negative|)"""
    near, far = pairwise_distance(anchor, positive, p), pairwise_distance(anchor, negative, p)
    return _reduced((near - far + margin).relu(), reduction, "triplet_margin_loss")


def poisson_nll_loss(input, target, log_input=True, reduction="mean", eps=1e-8):
    """e^x - target x, x being logarithms; with log_input=False x - target log(x + eps)."""
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    return _reduced(loss, reduction, "poisson_nll_loss")
