"""Windows over the last axes: convolutions, pools, padding, resampling. Part of `shoal.functional`.

Of an input (N, C, …) or (C, …) the axes after C are the ones that windows lie on; a setting is one number for
all of them or one per axis.
"""
import itertools
import math

from . import _shoal
from .amp import cast, cast_type
from .creation import cat, full, stack, tensor
from .reductions import _root
from .views import owned
from .words import check_tensor, invalid, is_floating


def _each(value, n):
    """One number per axis."""
    for number in (value,) if isinstance(value, str) or not hasattr(value, "__iter__") else value:
        if not hasattr(number, "__index__"):
            raise TypeError(f"an integer, or one per axis, is needed; {number!r} is of type {type(number).__name__}")
    return (value,) * n if isinstance(value, int) else tuple(value) * (n if len(value) == 1 else 1)


def _positive(what, **settings):
    for name, numbers in settings.items():
        if any(m < 1 for m in numbers):
            raise invalid(f"{what}: {name} is {list(numbers)}; each number must be at least 1")


def _pair(value):
    return _each(value, 2)


def _batched(input, n, what):
    """The input with an axis N, and whether it had none."""
    check_tensor(input, what)
    if input.ndim not in (n + 1, n + 2):
        raise invalid(f"{what}: {input._text()}; {n + 1} or {n + 2} axes are needed")
    return (input.unsqueeze(0), True) if input.ndim == n + 1 else (input, False)


# ---- convolutions ----

def check_padding(padding, stride, what):
    """Fails where a padding is a word that does not fit."""
    if padding == "same" and any(s != 1 for s in stride):
        raise invalid(f"{what}: padding 'same' goes with stride 1, not {list(stride)}")
    if isinstance(padding, str) and padding not in ("same", "valid"):
        raise invalid(f"{what}: padding '{padding}' is none of 'same', 'valid' and numbers")


def _edges(padding, kernel, stride, dilation, n, what):
    """Elements added before and after, per axis."""
    check_padding(padding, stride, what)
    if padding == "same":
        total = [d * (k - 1) for k, d in zip(kernel, dilation)]
        return [p for t in total for p in (t // 2, t - t // 2)]
    padding = (0,) * n if padding == "valid" else _each(padding, n)
    _not_negative(what, padding=padding)
    return [p for p in padding for _ in range(2)]


def _convolution(n, input, weight, bias, stride, padding, dilation, groups):
    what = f"conv{n}d"
    if cast_type() is not None:
        input, weight, bias = cast(input, weight, bias)
    x, one = _batched(input, n, what)
    stride, dilation = _each(stride, n), _each(dilation, n)
    _positive(what, stride=stride, dilation=dilation, groups=(groups,))
    if weight.ndim != n + 2:
        raise invalid(f"{what}: weight {weight._text()}; {n + 2} axes are needed")
    out, channels, *kernel = weight.shape
    _positive(what, kernel_size=kernel)
    if channels * groups != x.shape[1] or out % groups:
        raise invalid(f"{what}: {input._text()} has {x.shape[1]} channels; the weight, {weight._text()}, takes "
                      f"{channels * groups} in {groups} groups" + (
                          f", which do not divide its {out} outputs" if out % groups else ""))
    edges = _edges(padding, kernel, stride, dilation, n, what)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    room = [m + sum(edges[2 * i:2 * i + 2]) for i, m in enumerate(x.shape[2:])]
    if any(m < r for m, r in zip(room, reach)):
        raise invalid(f"{what}: a window of {reach} does not lie on {x._text()}")
    made = _shoal.convolve(x, weight, stride, edges, dilation, groups)
    if bias is not None:
        made = made + bias.reshape((-1,) + (1,) * n)
    return made.squeeze(0) if one else made


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of (N, C, L) with a weight (O, C / groups, k), plus bias; as conv2d."""
    return _convolution(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of (N, C, H, W) with a weight (O, C / groups, kh, kw), plus bias (O).

    padding: a number, one per axis, "valid" or "same".
    """
    return _convolution(2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of (N, C, D, H, W) with a weight (O, C / groups, kd, kh, kw); as conv2d."""
    return _convolution(3, input, weight, bias, stride, padding, dilation, groups)


def _transposed(n, input, weight, bias, stride, padding, output_padding, groups, dilation):
    what = f"conv_transpose{n}d"
    x, one = _batched(input, n, what)
    stride, padding, more, dilation = (_each(v, n) for v in (stride, padding, output_padding, dilation))
    if weight.ndim != n + 2:
        raise invalid(f"{what}: weight {weight._text()}; {n + 2} axes are needed")
    channels, out, *kernel = weight.shape
    _positive(what, kernel_size=kernel, stride=stride, dilation=dilation)
    if channels != x.shape[1]:
        raise invalid(f"{what}: {input._text()} has {x.shape[1]} channels; the weight, {weight._text()}, takes {channels}")
    if any(m >= max(s, d) for m, s, d in zip(more, stride, dilation)):
        raise invalid(f"{what}: output_padding {list(more)} must be less than stride or dilation")
    # From (C, O / groups) to (C / groups, O): nothing to do for one group, or one channel in each.
    weight = weight.reshape(groups, channels // groups, out, *kernel).transpose(0, 1)
    weight = weight.reshape(channels // groups, groups * out, *kernel)
    low = [d * (k - 1) - p for k, d, p in zip(kernel, dilation, padding)]
    axes = tuple(range(2, n + 2))
    made = x._apply("convolution", (weight,), window_strides=(1,) * n,
                    padding=tuple(edge for a, m in zip(low, more) for edge in (a, a + m)), lhs_dilation=stride,
                    rhs_dilation=dilation, window_reversal=(1,) * n,
                    convolution_dimensions=(0, 1, *axes, 0, 1, *axes, 0, 1, *axes), feature_group_count=groups,
                    batch_group_count=1)
    if bias is not None:
        made = made + bias.reshape((-1,) + (1,) * n)
    return made.squeeze(0) if one else made


def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The gradient of conv1d with respect to its input, as a layer; as conv_transpose2d."""
    return _transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The gradient of conv2d with respect to its input, as a layer: (N, C, H, W) by (C, O / groups, kh, kw)."""
    return _transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The gradient of conv3d with respect to its input, as a layer; as conv_transpose2d."""
    return _transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


# ---- pools ----

def _not_negative(what, **settings):
    for name, numbers in settings.items():
        if any(m < 0 for m in numbers):
            raise invalid(f"{what}: {name} is {list(numbers)}; no number may be negative")


def _settings(what, n, kernel_size, stride, padding, dilation=1):
    kernel, dilation = _each(kernel_size, n), _each(dilation, n)
    stride = kernel if stride is None or stride == () else _each(stride, n)
    padding = _each(padding, n)
    _positive(what, kernel_size=kernel, stride=stride, dilation=dilation)
    _not_negative(what, padding=padding)
    return kernel, stride, padding, dilation


def _more(shape, kernel, stride, padding, dilation, ceil_mode):
    """What has to be added at the end, per axis, for a last window that is not whole."""
    added = []
    for n, k, s, p, d in zip(shape, kernel, stride, padding, dilation):
        over = n + 2 * p - d * (k - 1) - 1
        count = -(-over // s) if ceil_mode else over // s
        if ceil_mode and count * s >= n + p:
            count -= 1
        added.append(max(0, count * s - over))
    return added


def _pooled(x, op, n, kernel, stride, padding, dilation, ceil_mode, what):
    shape = x.shape[-n:]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    if any(m + 2 * p < r for m, p, r in zip(shape, padding, reach)):
        raise invalid(f"{what}: a window of {reach} does not lie on {x._text()}")
    if any(2 * p > k for p, k in zip(padding, kernel)):
        raise invalid(f"{what}: padding {list(padding)} is more than half of the window {list(kernel)}")
    more = _more(shape, kernel, stride, padding, dilation, ceil_mode)
    edges = [e for p, m in zip(padding, more) for e in (p, p + m)]
    return _shoal.reduce_window(x, op, kernel, stride, edges, dilation)


def _max_pool(n, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
    what = f"max_pool{n}d"
    kernel, stride, padding, dilation = _settings(what, n, kernel_size, stride, padding, dilation)
    x, one = _batched(input, n, what)
    if return_indices:
        made, at = _largest_of(x, n, kernel, stride, padding, dilation, ceil_mode)
        return (made.squeeze(0), at.squeeze(0)) if one else (made, at)
    if dilation == (1,) * n:
        made = _pooled(x, "maximum", n, kernel, stride, padding, dilation, ceil_mode, what)
    else:  # windows with gaps have no gradient of their own: they are picked place by place
        made = _largest_of(x, n, kernel, stride, padding, dilation, ceil_mode)[0]
    return made.squeeze(0) if one else made


def _largest_of(x, n, kernel, stride, padding, dilation, ceil_mode):
    """(largest, its index among all elements of the axes) of each window."""
    shape = x.shape[-n:]
    more = _more(shape, kernel, stride, padding, dilation, ceil_mode)
    counts = [(m + 2 * p + e - d * (k - 1) - 1) // s + 1
              for m, p, e, d, k, s in zip(shape, padding, more, dilation, kernel, stride)]
    places = []  # per axis: (window, place in it) -> index, or -1
    for m, p, c, s, k, d in zip(shape, padding, counts, stride, kernel, dilation):
        places.append([[i * s - p + j * d if 0 <= i * s - p + j * d < m else -1 for j in range(k)]
                       for i in range(c)])
    rows = []
    for window in itertools.product(*(range(c) for c in counts)):
        row = []
        for inside in itertools.product(*(range(k) for k in kernel)):
            at = [places[a][w][i] for a, (w, i) in enumerate(zip(window, inside))]
            flat = 0
            for index, m in zip(at, shape):
                flat = flat * m + index
            row.append(-1 if min(at) < 0 else flat)
        first = next((at for at in row if at >= 0), None)
        if first is None:
            raise invalid(f"max_pool{n}d: with padding {list(padding)} and dilation {list(dilation)} a window has "
                          f"no element of {x._text()}")
        rows.append([first if at < 0 else at for at in row])  # an element twice changes no maximum
    index = tensor(rows, "int64")
    flat = x.flatten(-n)
    picked = flat._take_rows(index, flat.ndim - 1)
    best = picked.argmax(-1, True)
    values = picked._along(best, picked.ndim - 1).squeeze(-1)
    at = index.broadcast_to(picked.shape)._along(best, -1).squeeze(-1)
    out = (*x.shape[:-n], *counts)
    return values.reshape(out), at.reshape(out)


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest in each window over the last axis; as max_pool2d."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest in each window over the last two axes; stride None: the window's size.

    return_indices: (largest, its index among the axes' elements in order).
    """
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest in each window over the last three axes; as max_pool2d."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _avg_pool(n, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override=None):
    what = f"avg_pool{n}d"
    kernel, stride, padding, dilation = _settings(what, n, kernel_size, stride, padding)
    x, one = _batched(input._wide(), n, what)
    made = _pooled(x, "add", n, kernel, stride, padding, dilation, ceil_mode, what)
    more = _more(x.shape[-n:], kernel, stride, padding, dilation, ceil_mode)
    if divisor_override == 0:
        raise invalid(f"{what}: divisor_override is 0")
    if divisor_override is not None:
        made = made / divisor_override
    elif not any(more) and (count_include_pad or not any(padding)):
        made = made * (1 / math.prod(kernel))
    else:
        ones = full(x.shape[-n:], 1, x.dtype)
        if count_include_pad:  # what is added for ceil_mode counts for nothing all the same
            ones = ones.pad(padding, padding, 1)
            edges = [e for m in more for e in (0, m)]
            made = made / _shoal.reduce_window(ones, "add", kernel, stride, edges, dilation)
        else:
            made = made / _pooled(ones, "add", n, kernel, stride, padding, dilation, ceil_mode, what)
    made = made.astype(input.dtype)
    return made.squeeze(0) if one else made


def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """The mean of each window over the last axis; as avg_pool2d."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
               divisor_override=None):
    """The mean of each window over the last two axes; stride None: the window's size."""
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
               divisor_override=None):
    """The mean of each window over the last three axes; as avg_pool2d."""
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _lp_pool(n, input, norm_type, kernel_size, stride, ceil_mode):
    kernel = _each(kernel_size, n)
    powers = abs(input) ** float(norm_type) if norm_type % 2 else input ** norm_type
    total = _avg_pool(n, powers, kernel, stride, 0, ceil_mode, True, 1)
    return total.sign() * _root(abs(total), norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The norm of each window over the last axis."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The norm of each window over the last two axes."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def _adaptive(n, input, output_size, what):
    """(begin, end) of each window, per axis."""
    size = (output_size,) * n if isinstance(output_size, int) else tuple(output_size)
    if len(size) != n:
        raise invalid(f"{what}: output_size {list(size)}; {n} numbers are needed")
    _not_negative(what, output_size=[m for m in size if m is not None])
    parts = []
    for length, count in zip(input.shape[-n:], size):
        count = length if count is None else count
        parts.append([(i * length // count, -(-(i + 1) * length // count)) for i in range(count)])
    return parts


def _adaptive_avg(n, input, output_size):
    parts = _adaptive(n, input, output_size, f"adaptive_avg_pool{n}d")
    if all(len({b - a for a, b in p}) == 1 and input.shape[-n + i] == len(p) * (p[0][1] - p[0][0])
           for i, p in enumerate(parts)):
        kernel = [p[0][1] - p[0][0] for p in parts]
        return _avg_pool(n, input, kernel, None, 0, False, True)
    x = input._wide()
    for i, windows in enumerate(parts):  # the mean over a box is the mean of means
        rows = [[1 / (b - a) if a <= j < b else 0.0 for a, b in windows] for j in range(x.shape[-n + i])]
        share = tensor(rows, x.dtype)
        x = (x.transpose(-n + i, -1) @ share).transpose(-n + i, -1)
    return x.astype(input.dtype)


def adaptive_avg_pool1d(input, output_size):
    """Means over `output_size` windows that cover the last axis."""
    return _adaptive_avg(1, input, output_size)


def adaptive_avg_pool2d(input, output_size):
    """Means over windows that cover the last two axes: output_size windows along each; None keeps a length."""
    return _adaptive_avg(2, input, output_size)


def adaptive_avg_pool3d(input, output_size):
    """Means over windows that cover the last three axes: output_size windows along each; None keeps a length."""
    return _adaptive_avg(3, input, output_size)


def _adaptive_max(n, input, output_size, return_indices):
    parts = _adaptive(n, input, output_size, f"adaptive_max_pool{n}d")
    at = None
    if return_indices:
        flat = math.prod(input.shape[-n:])
        from .creation import arange
        at = arange(flat).reshape(input.shape[-n:]).broadcast_to(input.shape)
    # The first of those that are the largest: of the last axis, then of the one before it.
    for axis, windows in reversed(list(enumerate(parts, input.ndim - n))):
        pieces = [input.narrow(axis, a, b - a) for a, b in windows]
        best = [p.argmax(axis, True) for p in pieces]
        if return_indices:
            at = cat([at.narrow(axis, a, b - a)._along(w, axis) for (a, b), w in zip(windows, best)], axis)
        input = cat([p._along(w, axis) for p, w in zip(pieces, best)], axis)
    return (input, at) if return_indices else input


def adaptive_max_pool1d(input, output_size, return_indices=False):
    """The largest in each of `output_size` windows that cover the last axis."""
    return _adaptive_max(1, input, output_size, return_indices)


def adaptive_max_pool2d(input, output_size, return_indices=False):
    """The largest in each window; output_size windows along each of the last two axes cover it."""
    return _adaptive_max(2, input, output_size, return_indices)


def adaptive_max_pool3d(input, output_size, return_indices=False):
    """The largest in each window; output_size windows along each of the last three axes cover it."""
    return _adaptive_max(3, input, output_size, return_indices)


def _unpooled(n, input, indices, kernel_size, stride, padding, output_size):
    kernel, stride, padding, _ = _settings(f"max_unpool{n}d", n, kernel_size, stride, padding)
    lengths = [(m - 1) * s - 2 * p + k for m, s, p, k in zip(input.shape[-n:], stride, padding, kernel)]
    lengths = lengths if output_size is None else list(output_size)[-n:]
    flat = full((*input.shape[:-n], math.prod(lengths)), 0, input.dtype)
    made = flat.scatter(-1, indices.flatten(-n), input.flatten(-n))
    return made.reshape(*input.shape[:-n], *lengths)


def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """What max_pool1d has taken, at the places that it gave, zeros elsewhere."""
    return _unpooled(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """What max_pool2d has taken, at the places that it gave, zeros elsewhere."""
    return _unpooled(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """What max_pool3d has taken, at the places that it gave, zeros elsewhere."""
    return _unpooled(3, input, indices, kernel_size, stride, padding, output_size)


# ---- edges ----

def pad(input, pad, mode="constant", value=None):
    """More elements at the edges; pad: (before, after) of the last axis, of the one before, …

    mode: "constant", "reflect", "replicate" or "circular".
    """
    check_tensor(input, "pad")
    if not isinstance(pad, (tuple, list)) or not all(hasattr(m, "__index__") for m in pad):
        raise TypeError(f"pad: {pad!r}; it must be a tuple of integers, two per axis, the last axis first")
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise invalid(f"pad: {list(pad)} for {input._text()}; two numbers per axis, the last first")
    if mode == "constant":
        low, high = [0] * input.ndim, [0] * input.ndim
        for i in range(len(pad) // 2):
            low[-1 - i], high[-1 - i] = pad[2 * i], pad[2 * i + 1]
        return input.pad(low, high, 0.0 if value is None else value)
    if input.ndim - len(pad) // 2 not in (1, 2):
        raise invalid(f"pad: mode '{mode}' takes the last {len(pad) // 2} axes of batches of channels, or of "
                      f"channels; {input._text()} has {input.ndim} axes")
    for i in range(len(pad) // 2):
        n, places = input.shape[-1 - i], range(-pad[2 * i], input.shape[-1 - i] + pad[2 * i + 1])
        if not n or not places:
            raise invalid(f"pad: of axis {input.ndim - 1 - i} of {input._text()} {n + sum(pad[2 * i:2 * i + 2])} elements "
                          f"would be left by {tuple(pad)}; mode '{mode}' needs one at least")
        if mode == "replicate":
            at = [min(max(p, 0), n - 1) for p in places]
        elif mode == "circular":
            if max(pad[2 * i:2 * i + 2]) > n:
                raise invalid(f"pad: {max(pad[2 * i:2 * i + 2])} elements around an axis of length {n}")
            at = [p % n for p in places]
        elif mode == "reflect":
            if max(pad[2 * i:2 * i + 2]) >= n:
                raise invalid(f"pad: {max(pad[2 * i:2 * i + 2])} reflected elements of an axis of length {n}")
            at = [n - 1 - abs(n - 1 - abs(p)) for p in places]
        else:
            raise invalid(f"pad: mode '{mode}' is none of constant, reflect, replicate, circular")
        input = input.take(at, -1 - i)
    return input


# ---- windows as columns ----

def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The windows of (N, C, H, W) as columns: (N, C kh kw, number of windows)."""
    x, one = _batched(input, 2, "unfold")
    kernel, dilation, padding, stride = (_pair(v) for v in (kernel_size, dilation, padding, stride))
    x = x.pad((0, 0, *padding), (0, 0, *padding))
    _positive("unfold", kernel_size=kernel, dilation=dilation, stride=stride)
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation)]
    if min(counts) < 1:
        raise invalid(f"unfold: windows of {list(kernel)} do not lie on {x._text()}")
    parts = []
    for i, j in itertools.product(range(kernel[0]), range(kernel[1])):
        part = x[:, :, i * dilation[0]:, j * dilation[1]:]
        parts.append(part[:, :, :(counts[0] - 1) * stride[0] + 1:stride[0],
                          :(counts[1] - 1) * stride[1] + 1:stride[1]].flatten(2))
    made = stack(parts, 2).flatten(1, 2)
    return made.squeeze(0) if one else made


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Columns, as unfold gives them, added up where the windows lie: (N, C, H, W)."""
    one = input.ndim == 2
    x = input.unsqueeze(0) if one else input
    size, kernel, dilation, padding, stride = (
        _pair(v) for v in (output_size, kernel_size, dilation, padding, stride))
    wide = [n + 2 * p for n, p in zip(size, padding)]
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(wide, kernel, stride, dilation)]
    if x.shape[-1] != math.prod(counts) or x.shape[1] % math.prod(kernel):
        raise invalid(f"fold: {input._text()} are not columns of {math.prod(counts)} windows of {list(kernel)}")
    x = x.reshape(x.shape[0], -1, math.prod(kernel), *counts)
    made = None
    for at, (i, j) in enumerate(itertools.product(range(kernel[0]), range(kernel[1]))):
        low = (i * dilation[0], j * dilation[1])
        used = [(c - 1) * s + 1 for c, s in zip(counts, stride)]
        high = [n - lo - u for n, lo, u in zip(wide, low, used)]
        part = x[:, :, at].pad((0, 0, *low), (0, 0, *high), 0, (0, 0, stride[0] - 1, stride[1] - 1))
        made = part if made is None else made + part
    made = made.pad((0, 0, *(-p for p in padding)), (0, 0, *(-p for p in padding)))
    return made.squeeze(0) if one else made


# ---- resampling ----

def _sources(n, count, scale, mode, align_corners):
    """Per place of an axis the places that it is made of, with their shares."""
    if mode == "nearest":
        return [[(min(int(i * scale), n - 1), 1.0)] for i in range(count)]
    if mode == "nearest-exact":
        return [[(min(int((i + 0.5) * scale), n - 1), 1.0)] for i in range(count)]
    rows = []
    for i in range(count):
        if align_corners:
            at = i * (n - 1) / (count - 1) if count > 1 else 0.0
        else:
            at = (i + 0.5) * scale - 0.5
        if mode == "cubic":
            low = math.floor(at)
            t, a = at - low, -0.75
            near = [((a + 2) * u - (a + 3)) * u * u + 1 for u in (t, 1 - t)]
            far = [((a * u - 5 * a) * u + 8 * a) * u - 4 * a for u in (t + 1, 2 - t)]
            shares = (far[0], near[0], near[1], far[1])
            rows.append([(min(max(low + k - 1, 0), n - 1), w) for k, w in enumerate(shares)])
        else:
            at = max(at, 0.0)
            low = min(int(at), n - 1)
            rows.append([(low, 1 - (at - low)), (min(low + 1, n - 1), at - low)])
    return rows


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None,
                recompute_scale_factor=None, antialias=False):
    """(N, C, …) with other lengths of the last axes: `size`, or scale_factor times.

    mode: "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic" or "area".
    """
    n = input.ndim - 2
    axes = {"nearest": n, "nearest-exact": n, "area": n, "linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}
    if mode not in axes or axes[mode] != n or antialias:
        raise invalid(f"interpolate: mode '{mode}' of {input._text()}"
                      + (" with antialias" if antialias else ""))
    if (size is None) == (scale_factor is None):
        raise invalid("interpolate: give size or scale_factor")
    if size is None:
        factors = (scale_factor,) * n if isinstance(scale_factor, (int, float)) else tuple(scale_factor)
        size = tuple(int(m * f) for m, f in zip(input.shape[2:], factors))
        scales = None if recompute_scale_factor else [1 / f if f else f for f in factors]
    else:
        size, scales = (size,) * n if isinstance(size, int) else tuple(size), None
    if len(size) != n or min(size) < 1:
        raise invalid(f"interpolate: lengths {list(size)} for the last {n} axes of {input._text()}; each must be at "
                      "least 1")
    if scales is None:
        scales = [m / c for m, c in zip(input.shape[2:], size)]
    if mode == "area":
        return _adaptive_avg(n, input, size)
    kind = mode if mode.startswith("nearest") else "cubic" if mode == "bicubic" else "linear"
    for axis, (count, scale) in enumerate(zip(size, scales), 2):
        length = input.shape[axis]
        rows = _sources(length, count, scale, kind, bool(align_corners))
        if kind.startswith("nearest"):
            input = input.take([row[0][0] for row in rows], axis)
            continue
        share = [[0.0] * count for _ in range(length)]
        for i, row in enumerate(rows):
            for at, weight in row:
                share[at][i] += weight
        input = (input.transpose(axis, -1) @ tensor(share, input.dtype)).transpose(axis, -1)
    return input


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """`interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """`interpolate` by the nearest."""
    return interpolate(input, size, scale_factor)


def upsample_bilinear(input, size=None, scale_factor=None):
    """`interpolate` by lines, corners on corners."""
    return interpolate(input, size, scale_factor, "bilinear", True)


@owned
def pixel_shuffle(input, upscale_factor):
    """(…, C r r, H, W) as (…, C, H r, W r)."""
    r = upscale_factor
    *lead, channels, h, w = input.shape
    _positive("pixel_shuffle", upscale_factor=(r,))
    if channels % (r * r):
        raise invalid(f"pixel_shuffle: {channels} channels are no multiple of {r * r}")
    x = input.reshape(*lead, channels // (r * r), r, r, h, w)
    k = len(lead)
    return x.permute(*range(k + 1), k + 3, k + 1, k + 4, k + 2).reshape(*lead, -1, h * r, w * r)


@owned
def pixel_unshuffle(input, downscale_factor):
    """(…, C, H r, W r) as (…, C r r, H, W)."""
    r = downscale_factor
    *lead, channels, h, w = input.shape
    if h % r or w % r:
        raise invalid(f"pixel_unshuffle: {r} does not divide the last axes of {input._text()}")
    x = input.reshape(*lead, channels, h // r, r, w // r, r)
    k = len(lead)
    return x.permute(*range(k + 1), k + 2, k + 4, k + 1, k + 3).reshape(*lead, -1, h // r, w // r)


@owned
def channel_shuffle(input, groups):
    """The channels of groups, one of each in turn."""
    x = input.unflatten(1, (groups, -1))
    return x.transpose(1, 2).flatten(1, 2)


def affine_grid(theta, size, align_corners=None):
    """The points (N, H, W, 2) that maps (N, 2, 3) send those of an image of a size to."""
    n, _, h, w = size
    lines = []
    for count in (w, h):
        step = [2 * i / (count - 1) - 1 if align_corners and count > 1 else
                0.0 if align_corners else (2 * i + 1) / count - 1 for i in range(count)]
        lines.append(tensor(step, theta.dtype))
    x = lines[0].broadcast_to(h, w)
    y = lines[1].unsqueeze(1).broadcast_to(h, w)
    points = stack([x, y, x * 0 + 1], -1).reshape(1, h * w, 3)
    return (points @ theta.mT).reshape(n, h, w, 2)


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """The image (N, C, H, W) at points (N, h, w, 2), each from -1 to 1: x, then y.

    mode: "bilinear" or "nearest"; padding_mode: "zeros", "border" or "reflection".
    """
    if mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border", "reflection"):
        raise invalid(f"grid_sample: mode '{mode}' with padding_mode '{padding_mode}'")
    if input.ndim != 4 or grid.ndim != 4 or grid.shape[0] != input.shape[0] or grid.shape[-1] != 2:
        raise invalid(f"grid_sample: points {grid._text()} for images {input._text()}: they must be (N, h, w, 2) and "
                      "(N, C, H, W)")
    n, channels, h, w = input.shape
    flat = input.reshape(n, channels, h * w)

    def placed(at, length):
        at = (at + 1) * ((length - 1) / 2) if align_corners else ((at + 1) * length - 1) * 0.5
        if padding_mode == "reflection":
            low, span = (0.0, float(length - 1)) if align_corners else (-0.5, float(length))
            away = abs(at - low) if span else at * 0
            turn = (away / span).floor() if span else away
            rest = away - turn * span
            at = _shoal.select(turn % 2 == 0, rest + low, span - rest + low)
        return at if padding_mode == "zeros" else at.clamp(0, length - 1)
    x, y = placed(grid[..., 0], w), placed(grid[..., 1], h)

    def at(column, row):
        inside = (column >= 0) & (column <= w - 1) & (row >= 0) & (row <= h - 1)
        index = (row.clamp(0, h - 1) * w + column.clamp(0, w - 1)).astype("int64").reshape(n, 1, -1)
        found = flat.take_along(index.broadcast_to(n, channels, index.shape[-1]), -1)
        return found.reshape(n, channels, *grid.shape[1:3]) * inside.astype(input.dtype).unsqueeze(1)
    if mode == "nearest":
        return at(x._detach().round(), y._detach().round())
    left, top = x._detach().floor(), y._detach().floor()
    across, down = (x - left).unsqueeze(1), (y - top).unsqueeze(1)
    return (at(left, top) * (1 - across) * (1 - down) + at(left + 1, top) * across * (1 - down)
            + at(left, top + 1) * (1 - across) * down + at(left + 1, top + 1) * across * down)
