"""Pools over windows whose places are drawn (Graham, 2014). Part of `shoal.functional`."""
import math

from . import _shoal
from .random import rand
from .words import invalid


def _starts(samples, length, size, count):
    """Where windows of a size begin along an axis: (N, C, count), steps of which the mean is the ratio wanted."""
    if count == 1:
        return (samples * 0).astype("int64").unsqueeze(-1) + (length - size)
    alpha = (length - size) / (count - 1)
    u = samples.unsqueeze(-1)
    steps = u.session.tensor([float(i) for i in range(count - 1)], u.dtype)
    inner = ((u + steps) * alpha).floor() - (u * alpha).floor()
    last = u * 0 + float(length - size)
    return _shoal.apply(u.session, "concatenate", (inner, last), {"dimension": 2}, 1)[0].astype("int64")


def _pooled(n, input, kernel_size, output_size, output_ratio, return_indices, samples):
    what = f"fractional_max_pool{n}d"
    if (output_size is None) == (output_ratio is None):
        raise invalid(f"{what}: just one of output_size and output_ratio is needed")
    if input.ndim not in (n + 1, n + 2):
        raise invalid(f"{what}: {input._text()} has neither {n + 1} nor {n + 2} axes")
    x = input if input.ndim == n + 2 else input.unsqueeze(0)
    lengths = x.shape[2:]
    kernel = (kernel_size,) * n if isinstance(kernel_size, int) else tuple(kernel_size)
    if output_size is None:
        ratios = (output_ratio,) * n if isinstance(output_ratio, float) else tuple(output_ratio)
        output_size = tuple(int(length * ratio) for length, ratio in zip(lengths, ratios))
    counts = (output_size,) * n if isinstance(output_size, int) else tuple(output_size)
    if any(c < 1 or c + k - 1 > length for c, k, length in zip(counts, kernel, lengths)):
        raise invalid(f"{what}: {list(counts)} windows of {list(kernel)} do not fit {input._text()}")
    if samples is None:
        samples = rand(*x.shape[:2], n, dtype=x.dtype)
    at = None  # of each element of each window, its place among those of the axes
    for axis, (length, size, count) in enumerate(zip(lengths, kernel, counts)):
        # torch: of two axes the first number is the last one's, of three the first one's.
        own = samples[:, :, n - 1 - axis if n == 2 else axis]
        inside = x.session.tensor(list(range(size)), "int64")
        places = (_starts(own, length, size, count).unsqueeze(-1) + inside).reshape(*x.shape[:2], -1)
        at = places if at is None else at.unsqueeze(-1) * length + places.reshape(
            *x.shape[:2], *(1,) * (at.ndim - 2), -1)
    split = [part for pair in zip(counts, kernel) for part in pair]
    order = (0, 1, *(2 + 2 * i for i in range(n)), *(3 + 2 * i for i in range(n)))
    at = at.reshape(*x.shape[:2], *split).permute(*order).reshape(*x.shape[:2], math.prod(counts), -1)
    flat = at.reshape(*x.shape[:2], -1)
    values = x.reshape(*x.shape[:2], -1).gather(2, flat).reshape(at.shape)
    best = values._detach().argmax(-1, True)
    made, index = (t.gather(3, best).reshape(*x.shape[:2], *counts) for t in (values, at))
    if input.ndim == n + 1:
        made, index = made.squeeze(0), index.squeeze(0)
    return (made, index) if return_indices else made


def fractional_max_pool2d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                          _random_samples=None):
    """The largest in windows of (N, C, H, W) whose places are drawn, so many that the output has a size, or a
    ratio of the input's. return_indices: (largest, its index among the axes' elements in order)."""
    return _pooled(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool3d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                          _random_samples=None):
    """The largest in windows of (N, C, D, H, W) whose places are drawn; as fractional_max_pool2d."""
    return _pooled(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)
