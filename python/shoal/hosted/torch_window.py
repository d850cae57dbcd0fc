"""Windows and convolutions in PyTorch."""
from __future__ import annotations

import itertools
import math

import torch
from torch.nn import functional

from .torch_index import JOINS, spread


def widened(x, value, low, high, gaps):
    """x with gaps - 1 elements between its own and `low`, `high` ones beside them."""
    shape = [max(((n - 1) * g + 1 if n else 0) + a + b, 0) for n, g, a, b in zip(x.shape, gaps, low, high)]
    if shape == list(x.shape) and not any(low):
        return x
    return spread(x, value, shape, low, gaps)


def places(shape, window, strides, gaps):
    spans = [(n - 1) * g + 1 for n, g in zip(window, gaps)]
    return [max(0, (n - s) // t + 1) if n > 0 else 0 for n, s, t in zip(shape, spans, strides)]


def views(x, window, strides, gaps):
    """For each element of the window, in row-major order, what lies there at all places."""
    count = places(x.shape, window, strides, gaps)
    for at in itertools.product(*map(range, window)):
        yield at, x[tuple(slice(k * g, k * g + (n - 1) * s + 1 if n else k * g, s)
                          for k, g, n, s in zip(at, gaps, count, strides))]


def reducing(name):
    two = JOINS[name][0]

    def reduce_window(x, initial, window_dimensions, window_strides, base_dilations, window_dilations, padding):
        wide = widened(x, initial, padding[::2], padding[1::2], base_dilations)
        count = places(wide.shape, window_dimensions, window_strides, window_dilations)
        out = initial.expand(count)
        if math.prod(count):
            for _, elements in views(wide, window_dimensions, window_strides, window_dilations):
                out = two(out, elements)
        return out.clone()
    return reduce_window


CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


def by_positions(x, kernel, strides, gaps, count):
    """Sums over the elements of the kernel: any rank, any element type."""
    out = x.new_zeros([x.shape[0], kernel.shape[1], *count])
    for at, seen in views(x, [1, 1, *kernel.shape[2:]], [1, 1, *strides], [1, 1, *gaps]):
        weights = kernel[(slice(None), slice(None), *at[2:])]
        rows = seen.movedim(1, -1)
        out += torch.matmul(rows.reshape(-1, rows.shape[-1]), weights).view(*rows.shape[:-1], -1).movedim(-1, 1)
    return out


def group(x, kernel, strides, gaps, groups):
    """x [batch, features, ...], kernel [features of a group, output features, ...]."""
    count = places(x.shape[2:], kernel.shape[2:], strides, gaps)
    shape = [x.shape[0], kernel.shape[1], *count]
    if not math.prod(shape) or not kernel.numel():
        return x.new_zeros(shape)
    if len(count) in CONVOLUTIONS and x.is_floating_point():
        return CONVOLUTIONS[len(count)](x, kernel.transpose(0, 1), None, strides, 0, gaps, groups)
    parts = zip(x.chunk(groups, 1), kernel.chunk(groups, 1))
    return torch.cat([by_positions(a, b, strides, gaps, count) for a, b in parts], 1)


def convolution(x, kernel, window_strides, padding, lhs_dilation, rhs_dilation, window_reversal,
                convolution_dimensions, feature_group_count, batch_group_count):
    rank = x.dim()
    at_x, at_kernel = convolution_dimensions[:rank], convolution_dimensions[rank:2 * rank]
    x, kernel = x.permute(at_x), kernel.permute(at_kernel)
    is_bool = x.dtype == torch.bool
    if is_bool:
        x, kernel = x.int(), kernel.int()
    zero = x.new_zeros(())
    x = widened(x, zero, [0, 0, *padding[::2]], [0, 0, *padding[1::2]], [1, 1, *lhs_dilation])
    flipped = [2 + i for i, flips in enumerate(window_reversal) if flips]
    kernel = torch.flip(kernel, flipped) if flipped else kernel
    strides, gaps = list(window_strides), list(rhs_dilation)
    if batch_group_count == 1:
        out = group(x, kernel, strides, gaps, feature_group_count)
    else:
        parts = zip(x.chunk(batch_group_count, 0), kernel.chunk(batch_group_count, 1))
        out = torch.cat([group(a, b, strides, gaps, 1) for a, b in parts], 1)
    order = [0] * rank
    for i, axis in enumerate(convolution_dimensions[2 * rank:]):
        order[axis] = i
    out = out.permute(order)
    return out > 0 if is_bool else out


WINDOWS = {"convolution": convolution} | {"reduce_window." + name: reducing(name) for name in JOINS}
