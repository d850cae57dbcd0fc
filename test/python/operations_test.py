"""The methods of python/shoal/methods.py against NumPy; documents against what is there. With SHOAL_HUB set, on a pool."""
import inspect
import math
import pathlib

import numpy as np
import pytest

import shoal
from shoal import methods

ROOT = pathlib.Path(__file__).resolve().parents[2]
RNG = np.random.default_rng(7)


def floats(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


def same(got, want, tolerance=1e-6):
    got, want = got.numpy(), np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype, (got.dtype, want.dtype)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


# ---- element by element ----

UNARY = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "cos": np.cos, "sin": np.sin,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "rsqrt": lambda x: 1 / np.sqrt(x), "tan": np.tan,
    "erf": np.vectorize(math.erf, otypes=["float32"]), "cbrt": np.cbrt,
    "expm1": np.expm1, "log1p": np.log1p,
    "round_away": lambda x: np.trunc(x + np.copysign(0.5, x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


@pytest.mark.parametrize("name", [n for n in methods.METHODS.values()
                                  if n not in ("popcount", "count_leading_zeros")])
def test_unary(name):
    a = np.abs(floats(3, 4)) + np.float32(0.25)
    want = UNARY[name](a).astype("float32")
    same(getattr(shoal.tensor(a), name)(), want, 1e-5)
    same(getattr(shoal, name)(shoal.tensor(a)), want, 1e-5)
    same(getattr(shoal.tensor([1, 2]), name)(), UNARY[name](np.array([1, 2], "float32")).astype("float32"),
         1e-5)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint64", "float16", "float64"])
def test_a_product_within_a_sum(dtype):
    a = np.arange(7).astype(dtype)
    t = shoal.tensor(a)
    same(t * 3 + 10, a * a.dtype.type(3) + a.dtype.type(10))
    same(t * t + t, a * a + a)


def test_bits():
    a, b = RNG.integers(-100, 100, (2, 5, 3)).astype("int32")
    t, u = shoal.tensor(a), shoal.tensor(b)
    same(t & u, a & b)
    same(t | 7, a | 7)
    same(3 ^ t, a ^ 3)
    same(~t, ~a)
    same(~(t > u), ~(a > b))
    same(t << 3, a << 3)
    same(t >> 2, a >> 2)
    same(shoal.tensor(a.view("uint32")) >> 2, a.view("uint32") >> 2)
    same(t.popcount(), [[bin(int(x) & 0xFFFFFFFF).count("1") for x in row] for row in a]
         and np.array([[bin(int(x) & 0xFFFFFFFF).count("1") for x in row] for row in a], "int32"))
    same(t.bitcast("int16"), a.view("int16").reshape(5, 3, 2))
    same(shoal.tensor(floats(4)).bitcast("int32").bitcast("float32").isnan(), np.zeros(4, bool))
    with pytest.raises(shoal.InvalidError, match="and: works on bool and integers"):
        shoal.tensor([1.0]) & shoal.tensor([2.0])


def test_quotients():
    a = np.array([7, -7, 7, -7, 0, 9], "int64")
    b = np.array([3, 3, -3, -3, 5, 3], "int64")
    same(shoal.tensor(a) // shoal.tensor(b), a // b)
    same(shoal.tensor(a) % shoal.tensor(b), a % b)
    same(shoal.tensor(a).fmod(shoal.tensor(b)), np.fmod(a, b))
    x = floats(8) * 5
    same(shoal.tensor(x) // 2.0, x // np.float32(2))
    same(shoal.tensor(x).arctan2(shoal.tensor(a[:1]).astype("float32")),
         np.arctan2(x, np.float32(7)))


def test_bounds():
    a = floats(4, 5)
    t = shoal.tensor(a)
    same(t.clamp(-0.5, 0.5), np.clip(a, -0.5, 0.5))
    same(t.clip(max=0), np.minimum(a, 0))
    same(t.reduce_precision(8, 7), a.view("uint32").astype("uint64").__add__(
        0x7FFF + (a.view("uint32") >> 16 & 1)).astype("uint32").__and__(0xFFFF0000).view("float32"))
    b = np.array([np.nan, np.inf, -np.inf, 1], "float32")
    same(shoal.tensor(b).isinf(), np.isinf(b))
    same(shoal.tensor(b).isnan(), np.isnan(b))


# ---- places ----

def test_places():
    a = floats(4, 5)
    t = shoal.tensor(a)
    same(t.flip(0), a[::-1])
    same(t.flip(), a[::-1, ::-1])
    same(t[::-2, 3:0:-1], a[::-2, 3:0:-1])
    same(t.pad((1, 0), (0, 2), 9), np.pad(a, ((1, 0), (0, 2)), constant_values=9))
    same(t.pad((-1, 0), (0, -2)), a[1:, :3])
    same(t.dynamic_slice((9, 1), (2, 3)), a[2:4, 1:4])
    update = a.copy()
    update[1:3, 0:2] = 0
    same(t.dynamic_update_slice(shoal.zeros(2, 2), (1, 0)), update)
    one = [kind(1) for kind in (np.int32, np.int64, lambda i: shoal.tensor(np.int32(i)), lambda i: shoal.tensor(np.uint8(i)))]
    for start in one:  # of whatever type, beside a number
        same(t.dynamic_update_slice(shoal.zeros(2, 2), (start, 0)), update)
        same(t.dynamic_slice((9, start), (2, 3)), a[2:4, 1:4])
    with pytest.raises(shoal.InvalidError, match="indices are integer scalars"):
        t.dynamic_slice((shoal.tensor(1.0), 0), (2, 3))
    index = np.array([[3, 0], [1, 1]])
    same(t.take(index, 0), np.take(a, index, 0))
    same(t.take(index, -1), np.take(a, index, -1))
    same(t.take([1, 19]), np.take(a, [1, 19]))
    same(t[shoal.tensor([2, 2, 0])], a[[2, 2, 0]])
    same(shoal.embedding(shoal.tensor(index), t), a[index])
    with pytest.raises(shoal.InvalidError, match="take: there is no axis 2 among 2"):
        t.take([0], 2)


def test_scatter():
    a, rows = floats(4, 3), floats(3, 3)
    index = [2, 0, 2]
    added, put = a.copy(), a.copy()
    np.add.at(added, index, rows)
    put[index] = rows
    t, updates = shoal.tensor(a), shoal.tensor(rows)
    same(t.index_add(0, index, updates), added)
    same(t.index_put(index, updates), put)
    same(t.index_put([3, -4, 1], updates), np.stack([rows[1], rows[2], a[2], rows[0]]))
    with pytest.raises(IndexError, match="index 7 is out of range: it must be from -4 to 3"):
        t.index_put([7, -1, 1], updates)
    with pytest.raises(shoal.InvalidError, match="scatter: 'divide' joins nothing"):
        t.index_put(index, updates, op="divide")


# ---- order ----

@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint64"])
def test_order(dtype):
    a = (floats(5, 6) * 3).astype(dtype) if dtype[0] == "f" \
        else RNG.integers(0, 9, (5, 6)).astype(dtype)
    t = shoal.tensor(a)
    for axis in (0, -1):
        values, indices = t.sort(axis)
        same(values, np.sort(a, axis, kind="stable"))
        same(indices, np.argsort(a, axis, kind="stable"))
        same(t.argmax(axis), np.argmax(a, axis))
        same(t.argmin(axis), np.argmin(a, axis))
    same(t.sort(1, descending=True)[0], np.sort(a, 1)[:, ::-1])
    values, indices = t.topk(3)
    same(values, np.sort(a, 1)[:, :2:-1])
    same(shoal.tensor(np.take_along_axis(a, indices.numpy(), 1)), values.numpy())
    same(t.argmax(), np.argmax(a))


def test_order_of_nan():
    a = np.array([1, np.nan, -2, np.nan, 3], "float32")
    t = shoal.tensor(a)
    same(t.sort()[0], np.sort(a))
    same(t.argsort(), np.argsort(a, kind="stable"))
    same(t.sort(descending=True)[0], np.sort(a)[::-1])
    same(t.argmax(), np.argmax(a))
    same(t.topk(3)[1], np.array([1, 3, 4]))


def test_cumulative_and_reductions():
    a = floats(3, 7)
    t = shoal.tensor(a)
    same(t.cumsum(1), np.cumsum(a, 1), 1e-5)
    same(t.cumprod(0), np.cumprod(a, 0), 1e-5)
    same(t.cummax(1).values, np.maximum.accumulate(a, 1))
    same(t.cummin(-1).values, np.minimum.accumulate(a, 1))
    same((t > 0).all(1), (a > 0).all(1))
    same((t > 0).any(), (a > 0).any())
    same(t.var(1), a.var(1, ddof=1), 1e-5)
    same(t.var(axis=1), a.var(1), 1e-5)
    same(t.std(0, True, True), a.std(0, keepdims=True, ddof=1), 1e-5)
    same(t.std(axis=0, ddof=2), a.std(0, ddof=2), 1e-5)


# ---- creation ----

def test_creation():
    same(shoal.eye(3, 4), np.eye(3, 4, dtype="float32"))
    same(shoal.linspace(-1, 1, 5), np.linspace(-1, 1, 5, dtype="float32"))
    a = floats(4, 4)
    same(shoal.tril(shoal.tensor(a), 1), np.tril(a, 1))
    same(shoal.triu(shoal.tensor(a), -1), np.triu(a, -1))
    same(shoal.stack([shoal.tensor(a), shoal.tensor(a)], 1), np.stack([a, a], 1))
    same(shoal.stack([shoal.tensor(a), shoal.tensor(a)], -1), np.stack([a, a], -1))
    same(shoal.full_like(shoal.tensor(a), 3, "int8"), np.full_like(a, 3, "int8"))


def test_random():
    a = shoal.rand(300, 40, seed=3)
    same(a, shoal.rand((300, 40), seed=3).numpy())
    same(a.place(axis=0), a.numpy())
    x = a.numpy()
    assert 0 <= x.min() and x.max() < 1 and abs(x.mean() - 0.5) < 0.01
    assert abs(x.var() - 1 / 12) < 0.002
    n = shoal.randn(300, 40, dtype="float64", seed=shoal.tensor(5)).numpy()
    assert abs(n.mean()) < 0.03 and abs(n.var() - 1) < 0.04
    assert (shoal.rand(4, seed=1).numpy() != shoal.rand(4, seed=2).numpy()).all()
    assert (shoal.rand(4, stream=1).numpy() != shoal.rand(4, stream=2).numpy()).all()
    words = shoal.randbits(4, dtype="uint32", seed=0).numpy()
    assert [hex(w) for w in words] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    dice = shoal.randint(1, 7, (1000,)).numpy()
    assert set(dice) == set(range(1, 7))


# ---- composites ----

def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return (e / e.sum(axis, keepdims=True)).astype(x.dtype)


def test_composites():
    a = floats(4, 6)
    t = shoal.tensor(a)
    same(t.softmax(0), softmax(a, 0))
    same(shoal.log_softmax(t), np.log(softmax(a)), 1e-5)
    erf = np.vectorize(math.erf)
    same(t.gelu(), (a * (1 + erf(a / math.sqrt(2))) / 2).astype("float32"), 1e-5)
    same(t.gelu("tanh"), (a / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a ** 3)))
                          ).astype("float32"), 1e-5)
    scale, bias = floats(6), floats(6)
    norm = a / np.sqrt((a * a).mean(1, keepdims=True) + np.float32(1e-6))
    same(t.rms_norm(), norm, 1e-5)
    same(t.rms_norm(shoal.tensor(scale)), norm * scale, 1e-5)
    moved = a - a.mean(1, keepdims=True)
    norm = moved / np.sqrt((moved * moved).mean(1, keepdims=True) + np.float32(1e-5))
    same(t.layer_norm(shoal.tensor(scale), shoal.tensor(bias)), norm * scale + bias, 1e-5)
    same(t.layer_norm(bias=shoal.tensor(bias)), norm + bias, 1e-5)
    labels = np.array([5, 0, 2, 2])
    losses = -np.log(softmax(a))[np.arange(4), labels]
    same(t.cross_entropy(shoal.tensor(labels)), losses.mean(), 1e-5)
    same(t.cross_entropy(shoal.tensor(labels), reduction="none"), losses, 1e-5)
    same(t.cross_entropy(shoal.tensor(labels), ignore_index=2), losses[:2].mean(), 1e-5)
    with pytest.raises(shoal.InvalidError, match="reduction 'max' is none of"):
        t.cross_entropy(shoal.tensor(labels), reduction="max")


def test_attention():
    q, k, v = floats(2, 3, 5, 8), floats(2, 3, 7, 8), floats(2, 3, 7, 4)
    t = [shoal.tensor(x) for x in (q, k, v)]
    scores = q @ np.swapaxes(k, -1, -2) / np.float32(math.sqrt(8))
    same(shoal.attention(*t), softmax(scores) @ v, 1e-5)
    seen = np.arange(7) <= np.arange(5)[:, None] + 2
    same(shoal.attention(*t, causal=True), softmax(np.where(seen, scores, -np.inf)) @ v, 1e-5)
    same(shoal.attention(*t, mask=shoal.tensor(seen)),
         softmax(np.where(seen, scores, -np.inf)) @ v, 1e-5)
    same(shoal.attention(*t, length=4), softmax(scores[..., :4]) @ v[:, :, :4], 1e-5)
    same(shoal.attention(*t, scale=0.5), softmax(q @ np.swapaxes(k, -1, -2) / 2) @ v, 1e-5)


def test_rope():
    a = floats(2, 5, 6)
    angle = np.multiply.outer(np.arange(3, 8), 100.0 ** (-np.arange(3) / 3))
    left, right = a[..., :3], a[..., 3:]
    want = np.concatenate([left * np.cos(angle) - right * np.sin(angle),
                           left * np.sin(angle) + right * np.cos(angle)], -1)
    same(shoal.rope(shoal.tensor(a), range(3, 8), theta=100.0), want.astype("float32"), 1e-5)


# ---- exchange with others ----

def test_dlpack():
    a = floats(3, 4)
    t = shoal.tensor(a)
    assert t.__dlpack_device__() == (1, 0)
    same(shoal.from_dlpack(np.from_dlpack(t)), a)
    same(shoal.from_dlpack(a.T), a.T)
    assert np.from_dlpack(shoal.tensor(a.astype("float16"))).dtype == np.float16
    with pytest.raises(BufferError, match="not to"):
        t.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="only be exported as a copy"):
        t.__dlpack__(copy=False)
    with pytest.raises(BufferError, match="bfloat16"):
        t.astype("bfloat16").__dlpack__()


# ---- what is written down ----

# Operations that users do not call by themselves, or call by another way.
ELSEWHERE = {"constant", "exchange", "select", "reduce", "dot_general", "compare", "place", "iota", "in_range",
             "convert", "slice", "transpose", "reshape", "broadcast_in_dim", "concatenate", "abs",
             "add", "subtract", "multiply", "divide", "negate", "and", "or", "xor", "not",
             "shift_left", "shift_right_arithmetic", "gather", "reverse", "cumulate", "random",
             "bitcast_convert", "top_k", "adam", "dequantize", "source", "custom"}


def test_every_operation_has_a_name():
    names = {**methods.METHODS, **methods.BINARY_METHODS, "round_nearest_even": "round",
             "is_finite": "isfinite"}
    for op, category, _ in shoal.operations():
        if category in ("control", "window") or op in ELSEWHERE or op.endswith("_gradient"):
            continue  # gradients are what backward is made of
        assert hasattr(shoal.Tensor, names.get(op, op)), op


def test_every_function_has_a_docstring():
    for name in shoal.__all__:
        assert inspect.getdoc(getattr(shoal, name)), name
    for name, member in inspect.getmembers(shoal.Tensor):
        if not name.startswith("_") and callable(member):
            assert inspect.getdoc(member), name


def test_document_lists_the_table():
    text = (ROOT / "doc" / "operations.md").read_text()
    rows = [tuple(c.strip().strip("`").replace(r"\|", "|") for c in line.split(" | "))
            for line in text.splitlines() if line.startswith("`")]
    assert rows == [(op, category, summary) for op, category, summary in shoal.operations()]


def test_many_numbers_beside_many_tensors():
    """What counts is an operand of a region as what lies in memory is: more of them than one has room for."""
    tensors = [shoal.tensor(np.full(100, k, "int64")) for k in range(38)]
    total = sum(tensors[1:], tensors[0])
    for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        total = total + shoal.arange(100, dtype=dtype).astype("int64")
    assert total.tolist() == [sum(range(38)) + 8 * k for k in range(100)]
