"""Kernels on NumPy arrays against NumPy in float64, torch-like formulas and ggml's own package: every kernel, float32,
float16, bfloat16 and float64, in any strides, in place, with NaN and infinities. Tolerances: 1e-5 in float32 for
norms and activations, 1e-4 for products, relative to the largest magnitude; one unit for 16 bits."""
import os
import subprocess
import sys

import gguf
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import shoal
from shoal import kernels as K

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of infinities
DTYPES = {"float32": (np.float32, 1e-5), "float64": (np.float64, 1e-12), "float16": (np.float16, 2e-3),
          "bfloat16": (ml_dtypes.bfloat16, 2e-2)}
rng = np.random.default_rng(0)


def erf(x):
    from math import erf
    return np.vectorize(erf, otypes=[np.float64])(x)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def rms_norm(x, w=1.0, eps=1e-6):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def layer_norm(x, w=1.0, b=0.0, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * w + b


TRUTH = {
    "silu": (K.silu, lambda x: x / (1 + np.exp(-x))),
    "gelu": (K.gelu, lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2)))),
    "gelu_tanh": (lambda x, out=None: K.gelu(x, "tanh", out=out),
                  lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))),
    "softmax": (K.softmax, softmax),
    "rms_norm": (K.rms_norm, rms_norm),
    "layer_norm": (K.layer_norm, layer_norm),
}


def near(got, want, tolerance):
    got = np.asarray(got, np.float64)
    assert got.shape == want.shape
    assert np.abs(got - want).max(initial=0) <= tolerance * max(1, np.abs(want).max(initial=0))


@pytest.mark.parametrize("name", TRUTH)
@pytest.mark.parametrize("dtype", DTYPES)
def test_of_one_operand(name, dtype):
    kind, tolerance = DTYPES[dtype]
    kernel, truth = TRUTH[name]
    for shape in [(128, 4096), (1, 1), (3, 5, 7), (33,), (0, 4), (2, 0), (17, 1000)]:
        x = (rng.standard_normal(shape) * 3).astype(kind)
        want = truth(x.astype(np.float64)) if x.size else np.zeros(shape)
        got = kernel(x)
        assert got.dtype == x.dtype
        near(got, want, tolerance)
        near(kernel(x, out=x), want, tolerance)  # in place
        near(x, want, tolerance)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_strides(data):
    """A view of a larger array: axes in any order, cut, with steps of either sign, repeated."""
    rank = data.draw(st.integers(1, 4))
    base = rng.standard_normal(data.draw(st.tuples(*[st.integers(1, 9)] * rank))).astype(np.float32)
    view = base.transpose(data.draw(st.permutations(range(rank))))
    cuts = tuple(slice(None, None, data.draw(st.sampled_from([1, 1, 2, -1, -3]))) for _ in range(rank))
    view = view[cuts]
    if data.draw(st.booleans()):
        view = np.broadcast_to(view, (3, *view.shape))
    axis = data.draw(st.integers(-view.ndim, view.ndim - 1))
    out = np.full(tuple(2 * n for n in view.shape), 7, np.float32)
    into = out[tuple(slice(None, None, data.draw(st.sampled_from([2, -2]))) for _ in view.shape)]
    K.softmax(view, axis, out=into)
    near(into, softmax(view.astype(np.float64), axis), 1e-5)
    assert (out == 7).sum() == out.size - into.size  # and nothing else was written


def test_edges_that_are_no_numbers():
    x = np.array([[np.nan, 1, 2], [np.inf, 1, 2], [-np.inf, -np.inf, 0], [0, -0.0, 3e38]], np.float32)
    for kernel, truth in TRUTH.values():
        want = truth(x.astype(np.float64)).astype(np.float32)
        assert np.array_equal(np.isnan(kernel(x)), np.isnan(want))
    assert np.isnan(K.matmul(x, np.ones((3, 2), np.float32))[0]).all()


def test_scales_and_biases():
    x = rng.standard_normal((6, 40)).astype(np.float32)
    w, b = rng.standard_normal((2, 40)).astype(np.float32)
    near(K.rms_norm(x, w, 1e-3), rms_norm(x.astype(np.float64), w, 1e-3), 1e-5)
    near(K.layer_norm(x, w, b, 1e-3), layer_norm(x.astype(np.float64), w, b, 1e-3), 1e-5)
    near(K.layer_norm(x.T, w, b, axis=0), layer_norm(x.astype(np.float64), w, b).T, 1e-5)
    near(K.rms_norm(x, w[::-1]), rms_norm(x.astype(np.float64), w[::-1]), 1e-5)


def test_rope():
    x = rng.standard_normal((2, 5, 8)).astype(np.float32)
    positions = np.array([0, 1, 5, 100, 3])
    angles = positions[:, None] * 10000.0 ** (-2 * np.arange(4) / 8)
    c, s = np.cos(angles), np.sin(angles)
    for interleaved in (False, True):
        a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :4], x[..., 4:])
        turned = [a * c - b * s, a * s + b * c]
        want = np.stack(turned, -1).reshape(x.shape) if interleaved else np.concatenate(turned, -1)
        near(K.rope(x, positions, interleaved=interleaved), want, 1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    q, k = rng.standard_normal((3, 4, 16)), rng.standard_normal((3, 7, 16))
    v = rng.standard_normal((3, 7, 5))
    mask = rng.standard_normal((3, 4, 7))
    q, k, v, mask = (x.astype(np.float32) for x in (q, k, v, mask))
    scores = q @ k.transpose(0, 2, 1) / 4 + mask
    if causal:
        scores = np.where(np.tri(4, 7, 3, bool), scores, -np.inf)
    near(K.attention(q, k, v, mask, causal=causal), softmax(scores.astype(np.float64)) @ v, 1e-5)
    heads = q.transpose(1, 0, 2)  # [tokens, heads, depth], as models have them
    near(K.attention(heads.transpose(1, 0, 2), k, v, mask, causal=causal),
         softmax(scores.astype(np.float64)) @ v, 1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("a, b", [
    ((5, 7), (7, 3)), ((128, 300), (300, 65)), ((7,), (7,)), ((7,), (7, 3)), ((5, 7), (7,)), ((2, 1, 3, 4), (5, 4, 2)),
    ((4, 7), (3, 7, 2)), ((3, 0), (0, 2)), ((0, 3), (3, 2)), ((1, 1), (1, 1)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3))])
def test_matmul(a, b, dtype):
    kind, tolerance = DTYPES[dtype]
    x, y = rng.standard_normal(a).astype(kind), rng.standard_normal(b).astype(kind)
    want = np.matmul(x.astype(np.float64), y.astype(np.float64))
    near(K.matmul(x, y), want, max(tolerance, 1e-12) * 10)
    near(K.matmul(x.T.copy().T, y[..., ::-1].copy()[..., ::-1]), want, max(tolerance, 1e-12) * 10)
    near(K.matmul(x, y, out=np.empty(want.shape[::-1], kind).T), want, max(tolerance, 1e-12) * 10)


@pytest.mark.parametrize("left", [np.int8, np.uint8])
@pytest.mark.parametrize("right", [np.int8, np.uint8])
def test_matmul_of_bytes(left, right):
    """Exact in 32 bits; of one type alone they wrap at 8, as NumPy's do."""
    x, y = rng.integers(0, 256, (13, 301)).astype(left), rng.integers(0, 256, (301, 35)).astype(right)
    want = x.astype(np.int64) @ y.astype(np.int64)
    assert np.array_equal(K.matmul(x, y, out=np.empty(want.shape, np.int32)), want)
    got = K.matmul(x, y)
    assert got.dtype == (left if left == right else np.int32)
    assert np.array_equal(got, want.astype(got.dtype))


@pytest.mark.parametrize("name", ["q8_0", "q4_0", "q4_1"])
def test_quantised_as_ggml_does(name):
    kind = getattr(gguf.GGMLQuantizationType, name.upper())
    x = np.concatenate([rng.standard_normal((20, 256)), rng.standard_normal((4, 256)) * 1e-4, np.zeros((1, 256)),
                        rng.integers(-8, 8, (10, 256)), np.full((1, 256), -3)]).astype(np.float32)
    got = K.quantize(x, name)
    assert np.array_equal(got, gguf.quants.quantize(x, kind))
    assert np.array_equal(K.dequantize(got, name), gguf.quants.dequantize(got, kind))
    assert np.array_equal(K.quantize(x[::-1, :].T.copy().T, name), got[::-1])


@pytest.mark.parametrize("name, most", [("q4_k", 0.075), ("q6_k", 0.019), ("q8_0", 0.006), ("q4_0", 0.09), ("q4_1", 0.08)])
def test_the_error_of_quantised_numbers(name, most):
    """Of normally distributed numbers, relative, as a root of mean squares; smaller than by ggml's rounding to the
    obvious scale. ggml's own decoder reads the blocks."""
    x = rng.standard_normal((64, 1024)).astype(np.float32)
    back = gguf.quants.dequantize(K.quantize(x, name), getattr(gguf.GGMLQuantizationType, name.upper()))
    error = np.sqrt(((back - x) ** 2).mean() / (x ** 2).mean())
    print(f"{name}: relative error {error:.4f}")
    assert error < most


@pytest.mark.parametrize("name", sorted(shoal.block_formats))
def test_products_of_packed_weights(name):
    w = rng.standard_normal((48, 512)).astype(np.float32)
    packed = K.quantize(w, name)
    plain = K.dequantize(packed, name).astype(np.float64)
    for shape in [(512,), (1, 512), (33, 512), (2, 3, 512), (0, 512)]:
        x = rng.standard_normal(shape).astype(np.float32)
        near(K.matmul_packed(x, packed, name), x.astype(np.float64) @ plain.T, 1e-4)


def test_any_operation():
    x = rng.standard_normal((4, 9)).astype(np.float32)
    values, indices = np.empty((4, 3), np.float32), np.empty((4, 3), np.int32)
    K.apply("top_k", x, out=(values, indices), k=3)
    assert np.array_equal(values, -np.sort(-x, -1)[:, :3])
    assert np.array_equal(np.take_along_axis(x, indices.astype(np.int64), -1), values)
    assert np.array_equal(K.apply("convert", x, out=np.empty((4, 9), np.int8), dtype="int8"), x.astype(np.int8))


def test_what_is_wrong():
    x = np.zeros((4, 8), np.float32)
    for call, text in [
        (lambda: K.softmax(x, 2), "an array of 2 axes has no axis 2"),
        (lambda: K.silu(x, out=np.empty((8, 4), np.float32)), r"silu: result 0 is float32\[8, 4\]; give an array of float32\[4, 8\]"),
        (lambda: K.silu(x.astype(int)), "silu"),
        (lambda: K.silu(x, out=np.float32), "out: .* is no array"),
        (lambda: K.dequantize(np.zeros(34, "u1"), "q8_0", out=bytearray(128)), "out: .* is no array"),
        (lambda: K.apply("negate", x, out=None), "out: None is no array"),
        (lambda: K.silu(x, out=np.broadcast_to(x[:1], (4, 8))), "read-only|not writable"),
        (lambda: K.matmul(x, x), r"matmul: the last axis of the first operand \(8\) must equal axis 0 of the second \(4\)"),
        (lambda: K.matmul(np.zeros((2, 3, 4), "f"), np.zeros((5, 4, 2), "f")), "cannot be broadcast"),
        (lambda: K.matmul(x, x.T.astype("f8")), "float64"),
        (lambda: K.rms_norm(x, np.ones(7, "f")), "rms_norm"),
        (lambda: K.layer_norm(x, None, x[0]), "without the one before it"),
        (lambda: K.quantize(x, "q8_0"), "whole blocks of 32"),
        (lambda: K.quantize(np.full(32, np.nan, "f"), "q8_0"), "number 0 is nan"),
        (lambda: K.quantize(np.full(32, 1e38, "f"), "q8_0"), "too large"),
        (lambda: K.quantize(np.zeros(32), "q9"), "unknown block format 'q9'; known: "),
        (lambda: K.dequantize(np.zeros(33, "u1"), "q8_0"), "no whole blocks"),
        (lambda: K.matmul_packed(np.zeros(31, "f"), np.zeros((4, 34), "u1"), "q8_0"), "31"),
        (lambda: K.matmul_packed(np.zeros(32, "f"), np.zeros((4, 35), "u1"), "q8_0"), "no whole blocks"),
        (lambda: K.apply("nothing", x, out=x), "nothing"),
        (lambda: K.apply("reduce", x, x, out=x, dimensions=[0]), "bodies"),
        (lambda: K.silu(np.zeros((2, 2), "c8")), "element type|format"),
        (lambda: K.set_num_threads(-1), "0 to 1024"),
    ]:
        with pytest.raises((ValueError, TypeError, BufferError, shoal.ShoalError), match=text):
            call()


def test_on_another_backend():
    x = rng.standard_normal((5, 33)).astype(np.float32)
    with pytest.raises(shoal.NotFoundError, match="nowhere"):
        with K.on("nowhere"):
            pass
    for name in ("ref", "opencl"):
        try:
            with K.on(name):
                assert K.backend() == name
                near(K.rms_norm(x.T, axis=0), rms_norm(x.astype(np.float64)).T, 1e-5)
                near(K.matmul(x, x.T), x.astype(np.float64) @ x.T, 1e-4)
                turned = x.copy()
                K.silu(turned[:, ::-1], out=turned)
                near(turned, TRUTH["silu"][1](x.astype(np.float64))[:, ::-1], 1e-5)
        except shoal.NotFoundError as e:
            assert name == "opencl"
            print(f"SKIP: {e}; apt-get install pocl-opencl-icd")
        assert K.backend() == "cpu"


@pytest.mark.parametrize("name", ["cpu", "ref"] + (["lag"] if os.environ.get("SHOAL_BACKENDS") else []))
def test_after_a_failure(name):
    """A call that fails while it runs spoils none that come after it; lag does its work later, as a GPU does."""
    x = np.arange(5, dtype=np.int32)
    with K.on(name):
        for limit in (9, 3, 9, 4, 9):
            if limit == 9:
                assert np.array_equal(K.apply("in_range", x, out=np.empty_like(x), start_indices=[0], limit_indices=[9]), x)
                continue
            with pytest.raises(shoal.OutOfRangeError, match=f"index {limit} is out of range"):
                K.apply("in_range", x, out=np.empty_like(x), start_indices=[0], limit_indices=[limit])


def test_threads_by_the_variable():
    code = "from shoal import kernels as K; K.silu([1.0]); print(K.get_num_threads())"
    for value, wanted in [("3", 3), ("2,1", 2)]:
        said = subprocess.run([sys.executable, "-c", code], env={"OMP_NUM_THREADS": value, "PYTHONPATH": ":".join(sys.path)},
                              capture_output=True, text=True)
        assert said.stdout.strip() == str(wanted), said.stderr
