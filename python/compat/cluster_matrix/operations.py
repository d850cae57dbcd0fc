"""What the operations of Cluster Matrix mean, on Shoal's tensors; where they run is the placing's affair.

Transposes mean what they say: the last two axes of that operand are exchanged first. Raises ValueError that names the
operation and the shapes.
"""
import math

import shoal

BINARY = ("mul", "add", "sub")
UNARY = {
    "soft_max": lambda x: shoal.softmax(x, axis=-1),
    "silu": shoal.silu,
    "gelu": lambda x: shoal.gelu(x, approximate="tanh"),
    "gelu_quick": lambda x: x * shoal.sigmoid(x * 1.702),
    "gelu_erf": shoal.gelu,
    "rms_norm": lambda x: shoal.rms_norm(x, None, -1, 1e-6),
}
_RANKS = ("bfloat16", "float16", "float32", "float64")  # a result has the narrowest type of its operands


def turned(x, transposed):
    """A matrix, or its transpose."""
    return x.swapaxes(-1, -2) if transposed else x


def _shapes(op, a, b):
    return f"{op}: {a.dtype.name}{list(a.shape)} and {b.dtype.name}{list(b.shape)}"


def binary(a, b, op="mul", transpose_a=False, transpose_b=False):
    """a·b (over the last two axes), a+b or a−b. Of mixed types the result has bfloat16 before float16 before float32;
    it is computed in the widest and rounded once."""
    if op not in BINARY:
        raise ValueError(f"no operation '{op}'; there are {', '.join(BINARY)}")
    kind = min(a.dtype.name, b.dtype.name, key=_RANKS.index)
    wide = max(a.dtype.name, b.dtype.name, key=_RANKS.index)
    if {kind, wide} == {"bfloat16", "float16"}:
        wide = "float32"
    a, b = turned(a, transpose_a), turned(b, transpose_b)
    if op == "mul":
        if a.shape[-1] != b.shape[-2]:
            raise ValueError(f"Matrix dimension mismatch: {_shapes('mul', a, b)} after transposes: the columns of the first "
                             f"({a.shape[-1]}) must be the rows of the second ({b.shape[-2]})")
        _fit(a.shape[:-2], b.shape[:-2], _shapes(op, a, b))
    else:
        _fit(a.shape, b.shape, _shapes(op, a, b))
    if kind != wide:
        a, b = a.astype(wide), b.astype(wide)
    made = a @ b if op == "mul" else a + b if op == "add" else a - b
    return made if kind == wide else made.astype(kind)


def _fit(a, b, what):
    """Whether two shapes can be laid over each other; lengths of 1 are repeated."""
    for m, n in zip(reversed(a), reversed(b)):
        if m != n and 1 not in (m, n):
            raise ValueError(f"Matrix dimension mismatch: {what} after transposes: {m} and {n} differ")


def unary(x, op="soft_max", transpose=False):
    """One of UNARY, over the last axis where it is over one."""
    if op not in UNARY:
        raise ValueError(f"no operation '{op}'; there are {', '.join(UNARY)}")
    return UNARY[op](turned(x, transpose))


def attention(q, k, v, scale=0.0, max_bias=0.0, softcap=0.0, mask=None):
    """softmax(q·kᵀ·scale + mask)·v over [batch, heads, positions, width]. scale 0 or less: 1/√width. max_bias: each head
    multiplies the mask by a slope of its own (ALiBi). softcap: scores go through softcap·tanh(scores/softcap). Keys and
    values may have fewer heads, each for several of the queries'. Two or three axes get ones in front."""
    q, k, v = (x.reshape(*(1,) * (4 - x.ndim), *x.shape) for x in (q, k, v))
    heads, groups = q.shape[1], k.shape[1]
    if k.shape[:3] != v.shape[:3] or q.shape[3] != k.shape[3] or q.shape[0] != k.shape[0] or not groups or heads % groups:
        raise ValueError(f"flash_attn_ext: queries {list(q.shape)}, keys {list(k.shape)}, values {list(v.shape)}: "
                         "[batch, heads, positions, width] with like widths, and heads of the queries a multiple of the keys'")
    kind = q.dtype.name
    q, k, v = (x.astype("float32") if x.dtype.name != "float64" else x for x in (q, k, v))
    if groups != heads:
        k, v = (x.repeat_interleave(heads // groups, axis=1) for x in (k, v))
    scores = (q @ k.swapaxes(-1, -2)) * (scale if scale > 0 else 1 / math.sqrt(q.shape[3]))
    if softcap > 0:
        scores = shoal.tanh(scores * (1 / softcap)) * softcap
    if mask is not None:
        lacking = scores.ndim - mask.ndim
        if lacking < 0 or any(m not in (1, n) for m, n in zip(mask.shape, scores.shape[lacking:])):
            raise ValueError(f"flash_attn_ext: the mask's shape {list(mask.shape)} must fit the scores', {list(scores.shape)}")
        mask = mask.astype(scores.dtype.name)
        if max_bias > 0:
            mask = mask * shoal.tensor(slopes(heads, max_bias), dtype=scores.dtype.name).reshape(1, heads, 1, 1)
        scores = scores + mask
    elif max_bias > 0:
        raise ValueError(f"flash_attn_ext: max_bias {max_bias:g} scales a mask, and there is none")
    made = shoal.softmax(scores, axis=-1) @ v
    return made.astype(kind)


def slopes(heads, max_bias):
    """The slope of each head (Press et al., "Train Short, Test Long", with ggml's way for counts between powers of 2)."""
    whole = 1 << (heads.bit_length() - 1)
    first, second = 2 ** (-max_bias / whole), 2 ** (-max_bias / 2 / whole)
    return [first ** (h + 1) if h < whole else second ** (2 * (h - whole) + 1) for h in range(heads)]


def rope(x, kind=0, parameters=()):
    """Rotary positions over [batch, heads, positions, width] (fewer axes: [positions, width]).

    kind: 0: neighbours are a pair; 1, 2: the halves are (NeoX). parameters, as far as given: how many of the width are
    turned (0: all), the base (0: 10000), the first position, and a factor of positions (0: 1).
    """
    if kind not in (0, 1, 2):
        raise ValueError(f"rope: no type {kind}; there are 0 (neighbours), 1 and 2 (halves)")
    turn, base, first, factor = (*parameters, *(0,) * 4)[:4]
    width, turn = x.shape[-1], int(turn) or x.shape[-1]
    if len(parameters) > 4 or turn % 2 or not 0 < turn <= width or base < 0 or not 0 <= first < 1 << 30 or factor < 0:
        raise ValueError(f"rope: parameters {list(parameters)} for a width of {width}: [even width, base, first position, "
                         "factor of positions], none negative")
    at = shoal.arange(x.shape[-2]) + int(first)
    rates = shoal.tensor([(base or 10000.0) ** (-2 * i / turn) * (factor or 1.0) for i in range(turn // 2)])
    made = x[..., :turn].rope(at, rates, axis=-2, interleaved=kind == 0)
    return made if turn == width else shoal.cat([made, x[..., turn:]], -1)


def reshape(x, dims):
    """The same elements in another shape, which is told outermost axis first."""
    dims = [int(n) for n in dims]
    if not dims or min(dims) < 1 or math.prod(dims) != math.prod(x.shape):
        raise ValueError(f"reshape: {list(x.shape)} has {math.prod(x.shape)} elements, {dims} would have {math.prod(dims)}")
    return x.reshape(*dims)


def repeat(x, dims):
    """Copies beside each other: how many along each axis, told innermost axis first, as ggml does."""
    dims = [int(n) for n in dims]
    counts = list(reversed(dims))
    while len(counts) > x.ndim and counts[0] == 1:
        del counts[0]
    if not counts or min(counts) < 1:
        raise ValueError(f"repeat: {dims}: how often along [columns, rows, depth, batch], each at least 1")
    return x.tile(*counts)
