"""Composites in NumPy, from their formulas; operands are float64."""
import math

import numpy as np

erf = np.vectorize(math.erf, otypes=[np.float64])


def silu(attrs, x):
    return x * np.where(x > 0, 1 / (1 + np.exp(-np.abs(x))),
                        np.where(x <= 0, np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))), x))


def gelu(attrs, x):
    if attrs.get("approximate") == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
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


def attention(attrs, q, k, v, *rest):
    if q.ndim > k.ndim:
        k, v = np.expand_dims(k, -3), np.expand_dims(v, -3)
    scores = q @ np.swapaxes(k, -1, -2) * attrs.get("scale", 1 / math.sqrt(q.shape[-1]))
    queries, keys = np.indices(scores.shape[-2:])
    end = keys.shape[1]
    for x in rest:
        if x.ndim:
            scores = np.where(x, scores, -np.inf) if x.dtype == bool else scores + x
        else:
            end = int(x)
            scores = np.where(keys < end, scores, -np.inf)
    if "causal" in attrs:
        seen = keys <= queries + end - keys.shape[0] + attrs["causal"]
        scores = np.where(seen, scores, -np.inf)
    return softmax({"dimension": scores.ndim - 1}, scores) @ v


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


def rms_norm_gradient(attrs, gradient, x):
    return by_jacobian(attrs, gradient, x, lambda row: norm_jacobian(attrs, row))


def layer_norm_gradient(attrs, gradient, x):
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


COMPOSITES = {f.__name__: f for f in (silu, gelu, softmax, log_softmax, rms_norm, layer_norm,
                                      cross_entropy, attention, rope, softmax_gradient,
                                      rms_norm_gradient, layer_norm_gradient)}
