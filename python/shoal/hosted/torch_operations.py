"""What each operation is in PyTorch: functions of tensors, with the attributes by their StableHLO names.

float16 and bfloat16 are computed in float32 and rounded once. Operations that are not listed (random numbers, control
flow, quantised blocks) are done by the processor beside, or taken apart.
"""
from __future__ import annotations

import functools
import math

import torch
from torch.nn import functional

from . import Operation
from .torch_index import CUMULATING, JOINING, MOVES, maximum, minimum
from .torch_window import WINDOWS

KINDS = {name: getattr(torch, name) for name in (
    "bool", "int8", "int16", "int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64")}
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
NUMBERS = INTEGERS + FLOATS
ALL = ("bool", *NUMBERS)
SMALL = (torch.float16, torch.bfloat16)


def wide(function):
    """The function on float32 where operands are float16 or bfloat16; the result is rounded back."""
    @functools.wraps(function)
    def call(*operands, **attributes):
        kind = next((x.dtype for x in operands if x.is_floating_point()), None)
        if kind not in SMALL:
            return function(*operands, **attributes)
        made = function(*(x.float() if x.dtype in SMALL else x for x in operands), **attributes)
        return [x.to(kind) for x in made] if isinstance(made, list) else made.to(kind)
    return call


def direct(function):
    """The same of a function that may be given `out`."""
    widened = wide(lambda *operands: function(*operands))

    @functools.wraps(function)
    def call(*operands, out=None):
        return widened(*operands) if operands[0].dtype in SMALL else function(*operands, out=out)
    return call


# ---- element by element ----

def sign(x):
    return torch.where((x == 0) | (x != x), x, torch.sign(x))


def round_away(x):
    whole = torch.trunc(x)
    return torch.where((x - whole).abs() >= 0.5, whole + torch.copysign(torch.ones_like(x), x), whole)


def cbrt(x):
    """From the power in float64, by one step of Newton; of the fraction and a third of the exponent."""
    fraction, exponent = torch.frexp(x.double().abs())
    thirds = torch.div(exponent, 3, rounding_mode="floor")
    y = fraction * torch.exp2((exponent - 3 * thirds).double())
    root = y ** (1 / 3)
    better = (root - (root * root * root - y) / (3 * root * root)) * torch.exp2(thirds.double())
    good = torch.isfinite(x) & (x != 0)
    return torch.where(good, torch.copysign(better, x.double()), x.double()).to(x.dtype)


def bits_of(x):
    return 8 * x.element_size()


def popcnt(x):
    count = torch.zeros_like(x)
    for i in range(bits_of(x)):
        count += torch.bitwise_right_shift(x, i) & 1
    return count


def count_leading_zeros(x):
    zeros, above = torch.zeros_like(x), torch.ones_like(x, dtype=torch.bool)
    for i in reversed(range(bits_of(x))):
        above = above & ((torch.bitwise_right_shift(x, i) & 1) == 0)
        zeros += above
    return zeros


def add(a, b, out=None):
    return a | b if a.dtype == torch.bool else plain_add(a, b, out=out)


def multiply(a, b, out=None):
    return a & b if a.dtype == torch.bool else plain_multiply(a, b, out=out)


plain_add, plain_multiply = direct(torch.add), direct(torch.mul)
plain_divide = direct(torch.div)


def whole(a, b, function):
    """The function of integers where it is defined; a / -1 could be too large."""
    wrong = (b == 0) if a.dtype == torch.uint8 else (b == 0) | (b == -1)
    return function(a, torch.where(wrong, torch.ones_like(b), b))


def divide(a, b, out=None):
    if a.is_floating_point():
        return plain_divide(a, b, out=out)
    made = whole(a, b, lambda a, b: torch.div(a, b, rounding_mode="trunc"))
    if a.dtype != torch.uint8:
        made = torch.where(b == -1, -a, made)
    return torch.where(b == 0, torch.full_like(a, 255 if a.dtype == torch.uint8 else -1), made)


def remainder(a, b):
    made = whole(a, b, torch.fmod)
    if a.dtype != torch.uint8:
        made = torch.where(b == -1, torch.zeros_like(a), made)
    return torch.where(b == 0, a, made)


def log_plus_one(x):
    """PyTorch's vectors overflow near the largest numbers."""
    return torch.where(x > 1e30, torch.log(x), torch.log1p(x))


def clamp(low, x, high):
    return minimum(maximum(x, low), high)


def shifted(x, y, inside, outside):
    fine = (y >= 0) & (y < bits_of(x))
    return torch.where(fine, inside(x, torch.where(fine, y, torch.zeros_like(y))), outside(x))


def shift_left(x, y):
    return shifted(x, y, torch.bitwise_left_shift, torch.zeros_like)


def shift_right_arithmetic(x, y):
    """The highest bit is the sign, also of what has none."""
    if x.dtype == torch.uint8:
        return shifted(x, y, lambda x, y: torch.bitwise_right_shift(x.view(torch.int8), y.view(torch.int8)).view(x.dtype),
                       lambda x: torch.bitwise_right_shift(x.view(torch.int8), 7).view(x.dtype))
    last = bits_of(x) - 1
    return shifted(x, y, torch.bitwise_right_shift, lambda x: torch.bitwise_right_shift(x, last))


def shift_right_logical(x, y):
    if x.dtype == torch.uint8:
        return shifted(x, y, torch.bitwise_right_shift, torch.zeros_like)

    def without_sign(x, y):
        moved = torch.bitwise_right_shift(x, y)
        ones = torch.bitwise_left_shift(torch.full_like(x, -2), bits_of(x) - 1 - y)
        return torch.where(y == 0, x, moved & ~ones)
    return shifted(x, y, without_sign, torch.zeros_like)


COMPARISONS = {"EQ": torch.eq, "NE": torch.ne, "LT": torch.lt, "LE": torch.le, "GT": torch.gt, "GE": torch.ge}


def compare(a, b, comparison_direction):
    return COMPARISONS[comparison_direction](a, b)


def select(where, a, b):
    return torch.where(where, a, b)


# ---- element types ----

def to_odd(x):
    """float64 to float32, so that rounding again to fewer digits is right: what is lost shows in the last bit."""
    near = x.float()
    back = near.double()
    bits = near.view(torch.int32)
    even, inexact = (bits & 1) == 0, (back != x) & torch.isfinite(back)
    other = torch.where(back.abs() > x.abs(), bits - 1, bits + 1)
    over = torch.isinf(back) & torch.isfinite(x)
    largest = torch.copysign(torch.full_like(near, torch.finfo(torch.float32).max), near)
    return torch.where(over, largest, torch.where(inexact & even, other, bits).view(torch.float32))


def to_integer(x, kind):
    limits = torch.iinfo(kind)
    x = torch.where(x != x, torch.zeros_like(x), x).double().trunc()
    high, low = x >= float(limits.max), x <= float(limits.min)
    made = torch.where(high | low, torch.zeros_like(x), x).to(torch.int64)
    made = torch.where(high, torch.full_like(made, limits.max), made)
    return torch.where(low, torch.full_like(made, limits.min), made).to(kind)


def convert(x, dtype):
    kind = KINDS[dtype]
    if kind == torch.bool:
        return x != 0
    if x.is_floating_point() and not kind.is_floating_point:
        return to_integer(x, kind)
    if kind in SMALL and x.dtype == torch.int64:
        large = x.double().abs() >= 2.0 ** 53  # float64 would round first: keep that lower bits are set
        kept = (x & ~0x7FF) | torch.where((x & 0x7FF) != 0, 0x800, 0)
        x = torch.where(large, kept, x).double()
    if kind in SMALL and x.dtype in (torch.int32, torch.float64):
        return to_odd(x.double()).to(kind)
    return x.to(kind)


def bitcast_convert(x, dtype):
    kind, size = KINDS[dtype], x.element_size()
    to = torch.empty((), dtype=kind).element_size()
    shape = x.shape if to == size else (*x.shape, size // to) if to < size else x.shape[:-1]
    if not x.numel():
        return x.new_empty(shape, dtype=kind)
    return x.contiguous().view(-1).view(kind).view(shape)


# ---- moving ----

def iota(dtype, shape, iota_dimension, start_indices=None):
    start = start_indices[iota_dimension] if start_indices else 0
    line = convert(torch.arange(start, start + shape[iota_dimension]), dtype)
    return line.view([-1 if i == iota_dimension else 1 for i in range(len(shape))]).expand(shape)


def broadcast_in_dim(x, broadcast_dimensions, shape):
    order = sorted(range(x.dim()), key=lambda i: broadcast_dimensions[i])
    extents = {broadcast_dimensions[i]: x.shape[i] for i in order}
    return x.permute(order).reshape([extents.get(i, 1) for i in range(len(shape))]).expand(shape)


def cut(x, start_indices, limit_indices, strides):
    return x[tuple(map(slice, start_indices, limit_indices, strides))]


# ---- products ----

def dot_general(a, b, lhs_batching_dimensions, rhs_batching_dimensions, lhs_contracting_dimensions,
                rhs_contracting_dimensions, out=None):
    if a.dtype == torch.bool:
        return product(a.int(), b.int(), lhs_batching_dimensions, rhs_batching_dimensions,
                       lhs_contracting_dimensions, rhs_contracting_dimensions, None) > 0
    if a.dtype in SMALL:
        out = None
    return wide_product(a, b, batch_a=lhs_batching_dimensions, batch_b=rhs_batching_dimensions,
                        along_a=lhs_contracting_dimensions, along_b=rhs_contracting_dimensions, out=out)


def product(a, b, batch_a, batch_b, along_a, along_b, out):
    free_a = [i for i in range(a.dim()) if i not in batch_a and i not in along_a]
    free_b = [i for i in range(b.dim()) if i not in batch_b and i not in along_b]
    batch = [a.shape[i] for i in batch_a]
    rows, columns = [a.shape[i] for i in free_a], [b.shape[i] for i in free_b]
    depth = math.prod(a.shape[i] for i in along_a)
    left = a.permute([*batch_a, *free_a, *along_a]).reshape([math.prod(batch), math.prod(rows), depth])
    right = b.permute([*batch_b, *along_b, *free_b]).reshape([math.prod(batch), depth, math.prod(columns)])
    shape = batch + rows + columns
    if not batch_a:
        left, right = left[0], right[0]
    if left.device.type != "cpu" and not left.is_floating_point():  # GPUs have no products of integers there
        return torch.matmul(left.cpu(), right.cpu()).to(left.device).reshape(shape)
    if out is None or out.shape != tuple(shape):
        return torch.matmul(left, right).reshape(shape)
    torch.matmul(left, right, out=out.view(left.shape[:-1] + right.shape[-1:]))
    return out


wide_product = wide(product)


# ---- composites ----

def along(row, x, axis):
    return row.view([-1 if i == axis else 1 for i in range(x.dim())])


def rms_norm(x, scale=None, *, dimension, epsilon):
    y = x * torch.rsqrt((x * x).mean(dimension, keepdim=True) + epsilon)
    return y if scale is None else y * along(scale, x, dimension)


def layer_norm(x, scale=None, bias=None, *, dimension, epsilon):
    if dimension == x.dim() - 1:
        return functional.layer_norm(x, x.shape[-1:], scale, bias, epsilon)
    y = rms_norm(x - x.mean(dimension, keepdim=True), scale, dimension=dimension, epsilon=epsilon)
    return y if bias is None else y + along(bias, x, dimension)


def gelu(x, approximate="none"):
    return functional.gelu(x, approximate=approximate)


def softmax_gradient(gradient, y, dimension):
    return y * (gradient - (gradient * y).sum(dimension, keepdim=True))


def silu_gradient(gradient, x):
    s = torch.sigmoid(x)
    return gradient * s * (1 + x * (1 - s))


def rope(x, positions, frequencies=None, *, dimension, theta=10000.0, interleaved=False):
    pairs = x.shape[-1] // 2
    if frequencies is None:
        frequencies = theta ** (-torch.arange(pairs, dtype=torch.float64, device=x.device) / max(pairs, 1))
    angle = along(positions.to(x.dtype), x, dimension) * frequencies.to(x.dtype)
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :pairs], x[..., pairs:])
    turned = a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()
    return torch.stack(turned, -1).reshape(x.shape) if interleaved else torch.cat(turned, -1)


def seen_keys(scores, rest, causal):
    """Which keys each query sees, and the mask that is added, or None."""
    queries, keys = scores.shape[-2:]
    end, seen, added = keys, None, None
    at = torch.arange(keys, device=scores.device)
    for x in rest:
        if x.dim() == 0 and not x.is_floating_point() and x.dtype != torch.bool:
            end = int(x)
            seen = at < end
        elif x.dtype == torch.bool:
            seen = x if seen is None else seen & x
        else:
            added = x
    if causal is not None:
        rows = torch.arange(queries, device=scores.device)[:, None]
        before = at <= rows + end - queries + causal
        seen = before if seen is None else seen & before
    return seen, added


def attention(q, k, v, *rest, scale=None, causal=None):
    if q.dim() > k.dim():
        k, v = k.unsqueeze(-3), v.unsqueeze(-3)
    scores = torch.matmul(q, k.transpose(-1, -2)) * (1 / math.sqrt(q.shape[-1] or 1) if scale is None else scale)
    seen, added = seen_keys(scores, rest, causal)
    if added is not None:
        scores = scores + added
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)
    return torch.matmul(torch.softmax(scores, -1), v)


# ---- the table ----

def table():
    made = {}

    def row(dtypes, functions, out=False):
        for name, function in functions.items():
            made[name] = Operation(function, dtypes, out)

    row(FLOATS, {
        "exponential": direct(torch.exp), "log": direct(torch.log), "sqrt": direct(torch.sqrt),
        "tanh": direct(torch.tanh), "logistic": direct(torch.sigmoid), "erf": direct(torch.erf),
        "rsqrt": direct(torch.rsqrt), "cosine": direct(torch.cos), "sine": direct(torch.sin), "tan": direct(torch.tan),
        "ceil": direct(torch.ceil), "floor": direct(torch.floor), "exponential_minus_one": direct(torch.expm1),
        "round_nearest_even": direct(torch.round), "atan2": direct(torch.atan2),
        "power": direct(torch.pow)}, out=True)
    row(FLOATS, {"cbrt": wide(cbrt), "round_nearest_afz": wide(round_away), "log_plus_one": wide(log_plus_one)})
    row(("bool", *FLOATS), {"is_finite": torch.isfinite})
    signed = tuple(name for name in NUMBERS if name != "uint8")
    row(signed, {"negate": direct(torch.neg), "abs": direct(torch.abs)}, out=True)
    row(signed, {"sign": sign})
    row(NUMBERS, {"subtract": direct(torch.sub), "divide": divide}, out=True)
    row(ALL, {"add": add, "multiply": multiply}, out=True)
    row(INTEGERS, {"remainder": remainder})  # PyTorch's of numbers with a point is wrong where x / y is large
    row(ALL, {"maximum": wide(maximum), "minimum": wide(minimum), "clamp": wide(clamp), "compare": compare,
              "select": select, "convert": convert, "bitcast_convert": bitcast_convert, "iota": iota,
              "broadcast_in_dim": broadcast_in_dim, "reshape": lambda x, shape: x.reshape(shape),
              "transpose": lambda x, permutation: x.permute(permutation), "slice": cut,
              "concatenate": lambda *parts, dimension: torch.cat(parts, dimension),
              "reverse": lambda x, dimensions: torch.flip(x, dimensions)})
    row(("bool", *INTEGERS), {"not": torch.bitwise_not, "and": torch.bitwise_and, "or": torch.bitwise_or,
                              "xor": torch.bitwise_xor})
    row(INTEGERS, {"popcnt": popcnt, "count_leading_zeros": count_leading_zeros, "shift_left": shift_left,
                   "shift_right_arithmetic": shift_right_arithmetic, "shift_right_logical": shift_right_logical})
    row(ALL, {"dot_general": dot_general}, out=True)
    row(FLOATS, {"silu": wide(functional.silu), "gelu": wide(gelu),
                 "softmax": wide(lambda x, dimension: torch.softmax(x, dimension)),
                 "log_softmax": wide(lambda x, dimension: torch.log_softmax(x, dimension)),
                 "rms_norm": wide(rms_norm), "layer_norm": wide(layer_norm),
                 "softmax_gradient": wide(softmax_gradient), "silu_gradient": wide(silu_gradient)})
    row(ALL, {"rope": wide(rope), "attention": wide(attention)})
    row(ALL, MOVES)
    row(INTEGERS, CUMULATING)  # sums of numbers with a point are to be rounded in the order of the elements
    row(ALL, {name: wide(function) for name, function in (JOINING | WINDOWS).items()})
    return made


OPERATIONS = table()
