"""Composites in NumPy, from their formulas; operands are float64."""
import math

import gguf
import numpy as np

erf = np.vectorize(math.erf, otypes=[np.float64])


def logistic(x):
    """1 / (1 + exp(-x)), exact also where that is nearly 0; NaN stay."""
    small = np.exp(-np.abs(x))
    return np.where(x > 0, 1 / (1 + small), np.where(x <= 0, small / (1 + small), x))


def silu(attrs, x):
    return x * logistic(x)


def rising(x):
    """(1 + tanh(u)) / 2 of gelu's formula with tanh, exact also where that is nearly 0."""
    return 1 / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def gelu(attrs, x):
    if attrs.get("approximate") == "tanh":
        return x * rising(x)
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def softmax(attrs, x):
    axis = attrs["dimension"]
    e = np.exp(x - np.max(x, axis, keepdims=True, initial=-np.inf))
    return e / np.sum(e, axis, keepdims=True)


def log_softmax(attrs, x):
    axis = attrs["dimension"]
    x = x - np.max(x, axis, keepdims=True, initial=-np.inf)
    return x - np.log(np.sum(np.exp(x), axis, keepdims=True))


def along(row, x, axis):
    return row.reshape([-1 if i == axis else 1 for i in range(x.ndim)])


def rms_norm(attrs, x, scale=None):
    axis = attrs["dimension"]
    if not x.size:
        return x
    y = x / np.sqrt(np.mean(x * x, axis, keepdims=True) + attrs["epsilon"])
    return y if scale is None else y * along(scale, x, axis)


def layer_norm(attrs, x, scale=None, bias=None):
    if not x.size:
        return x
    axis = attrs["dimension"]
    y = rms_norm(attrs, x - np.mean(x, axis, keepdims=True), scale)
    return y if bias is None else y + along(bias, x, axis)


def cross_entropy(attrs, x, labels):
    axis = attrs["dimension"]
    logs = np.moveaxis(log_softmax(attrs, x), axis, -1)
    out = np.full(labels.shape, np.nan)
    for at in np.ndindex(labels.shape):
        if 0 <= labels[at] < logs.shape[-1]:
            out[at] = -logs[at + (labels[at],)]
        if labels[at] == attrs.get("ignore_index"):
            out[at] = 0
    return out


def cross_entropy_gradient(attrs, gradient, x, labels):
    axis = attrs["dimension"]
    out = np.moveaxis(np.array(softmax(attrs, x)), axis, -1)
    for at in np.ndindex(labels.shape):
        if 0 <= labels[at] < out.shape[-1]:
            out[at + (labels[at],)] -= 1
        out[at] *= 0 if labels[at] == attrs.get("ignore_index") else gradient[at]
        if labels[at] == attrs.get("ignore_index"):
            out[at] = 0
    return np.moveaxis(out, -1, axis)


def silu_gradient(attrs, gradient, x):
    return gradient * logistic(x) * (1 + x * logistic(-x))


def gelu_gradient(attrs, gradient, x):
    if attrs.get("approximate") == "tanh":
        inner = 2 * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
        return gradient * (rising(x) + x * rising(x) * rising(-x) * inner)
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return gradient * (0.5 * (1 + erf(x / math.sqrt(2))) + x * density)


def attention_weights(attrs, q, k, *rest):
    """softmax(scale * q k^T + mask), and which keys are seen."""
    scores = q @ np.swapaxes(k, -1, -2) * attrs.get("scale", 1 / math.sqrt(q.shape[-1] or 1))
    queries, keys = np.indices(scores.shape[-2:])
    end, seen = keys.shape[1], np.ones(scores.shape, bool)
    for x in rest:
        if not x.ndim:
            end = max(-2 ** 31, min(int(x), 2 ** 31))  # far outside either way
            seen = seen & (keys < end)
        elif x.dtype == bool:
            seen = seen & x
        else:
            scores = scores + x
    if "causal" in attrs:
        seen = seen & (keys <= queries + end - keys.shape[0] + attrs["causal"])
    scores = np.where(seen, scores, -np.inf)
    return softmax({"dimension": scores.ndim - 1}, scores), seen


def attention(attrs, q, k, v, *rest):
    if q.ndim > k.ndim:
        k, v = np.expand_dims(k, -3), np.expand_dims(v, -3)
    return attention_weights(attrs, q, k, *rest)[0] @ v


def attention_gradient(attrs, gradient, result, q, k, v, *rest):
    """By the chain rule; the sum of weights * (gradient v^T) is that of gradient * result."""
    grouped = q.ndim > k.ndim
    if grouped:
        k, v = np.expand_dims(k, -3), np.expand_dims(v, -3)
    weights, seen = attention_weights(attrs, q, k, *rest)
    weights = np.where(seen, weights, 0)
    of = gradient @ np.swapaxes(v, -1, -2) - np.sum(gradient * result, -1, keepdims=True)
    of = np.where(seen, weights * of, 0) * attrs.get("scale", 1 / math.sqrt(q.shape[-1] or 1))
    for_k, for_v = np.swapaxes(of, -1, -2) @ q, np.swapaxes(weights, -1, -2) @ gradient
    if grouped:
        for_k, for_v = np.sum(for_k, -3), np.sum(for_v, -3)
    return [of @ k, for_k, for_v]


def by_jacobian(attrs, gradient, x, jacobian):
    """gradient times the matrix of derivatives that `jacobian` gives for a row."""
    axis = attrs["dimension"]
    if not x.size:
        return x
    rows, seeds = np.moveaxis(x, axis, -1), np.moveaxis(gradient, axis, -1)
    out = np.empty(rows.shape)
    for at in np.ndindex(rows.shape[:-1]):
        out[at] = seeds[at] @ jacobian(rows[at])
    return np.moveaxis(out, -1, axis)


def softmax_gradient(attrs, gradient, y):
    return by_jacobian(attrs, gradient, y, lambda row: np.diag(row) - np.outer(row, row))


def norm_jacobian(attrs, row):
    root = np.sqrt(np.mean(row * row) + attrs["epsilon"])
    return np.eye(len(row)) / root - np.outer(row, row) / (len(row) * root ** 3)


def scaled(attrs, gradient, scale):
    return gradient if scale is None else gradient * along(scale, gradient, attrs["dimension"])


def rms_norm_gradient(attrs, gradient, x, scale=None):
    return by_jacobian(attrs, scaled(attrs, gradient, scale), x,
                       lambda row: norm_jacobian(attrs, row))


def over_others(attrs, x):
    return np.sum(x, tuple(i for i in range(x.ndim) if i != attrs["dimension"]))


def rms_norm_scale_gradient(attrs, gradient, x):
    return over_others(attrs, gradient * rms_norm(attrs, x))


def layer_norm_scale_gradient(attrs, gradient, x):
    return over_others(attrs, gradient * layer_norm(attrs, x))


def layer_norm_gradient(attrs, gradient, x, scale=None):
    gradient = scaled(attrs, gradient, scale)

    def jacobian(row):
        centre = np.eye(len(row)) - 1 / len(row)
        return norm_jacobian(attrs, centre @ row) @ centre
    return by_jacobian(attrs, gradient, x, jacobian)


def rope(attrs, x, positions, frequencies=None):
    depth, axis = x.shape[-1], attrs["dimension"]
    if frequencies is None:
        frequencies = attrs.get("theta", 10000.0) ** (-2 * np.arange(depth // 2) / max(depth, 1))
    angle = np.multiply.outer(positions.astype(np.float64), frequencies)
    angle = angle.reshape([x.shape[i] if i == axis else 1 for i in range(x.ndim - 1)]
                          + [depth // 2])
    turns = attrs.get("interleaved", False)
    a, b = (x[..., 0::2], x[..., 1::2]) if turns else (x[..., :depth // 2], x[..., depth // 2:])
    a, b = a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)
    if not turns:
        return np.concatenate([a, b], -1)
    return np.stack([a, b], -1).reshape(x.shape)


def adam(_, p, gradient, mean, square, numbers, *largest):
    keep, beta1, rest1, beta2, rest2, root, epsilon, rate = numbers
    mean = beta1 * mean + rest1 * gradient
    square = beta2 * square + rest2 * gradient ** 2
    largest = [np.maximum(x, square) for x in largest]
    with np.errstate(invalid="ignore"):
        p = keep * p - rate * mean / (root * np.sqrt((largest or [square])[0]) + epsilon)
    return [p, mean, square, *largest]


def dequantize(attrs, x):
    """By ggml's own package."""
    kind = getattr(gguf.GGMLQuantizationType, attrs["format"].upper())
    if x.size == 0:
        values, size = gguf.GGML_QUANT_SIZES[kind]
        return np.zeros((*x.shape[:-1], x.shape[-1] // size * values), np.float32)
    return gguf.quants.dequantize(np.ascontiguousarray(x), kind)


COMPOSITES = {f.__name__: f for f in (
    silu, gelu, softmax, log_softmax, rms_norm, layer_norm, cross_entropy, attention, rope,
    silu_gradient, gelu_gradient, softmax_gradient, cross_entropy_gradient, rms_norm_gradient,
    rms_norm_scale_gradient, layer_norm_gradient, layer_norm_scale_gradient,
    attention_gradient, adam, dequantize)}
