"""Quantised tensors against ggml's own package: every format, from random bytes (so that scales are zero,
negative, subnormal, infinite and NaN), sliced, cut by rows and by columns, gathered, moved between layouts,
dequantised and multiplied, over 1 to 5 slots in uneven shares. Dequantised values are equal down to the bit."""
import json
import re

import gguf
import numpy as np
import pytest

import shoal

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of infinite scales
FORMATS = sorted(shoal.block_formats)
SHARES = [50, 30, 20, 7, 3]


def packed(name, rows, blocks, seed=0):
    """Random blocks, some scales of each special kind among them."""
    size = shoal.block_formats[name].bytes
    made = np.random.default_rng(seed).integers(0, 256, (rows, blocks, size), np.uint8)
    edges = np.array([0, 0x8000, 1, 0x83FF, 0x3FF, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7BFF], "<u2").view(np.uint8)
    for i in range(min(rows, 10)):  # in the last block of a row, where each format has its scale
        at = size - 2 if name == "q6_k" else 0
        made[i, -1, at:at + 2] = edges[2 * i:2 * i + 2]
    return made.reshape(rows, blocks * size)


def tame(name, rows, blocks, seed=0):
    """Blocks of numbers around 1, for products."""
    made = packed(name, rows, blocks, seed).reshape(rows * blocks, -1)
    scales = np.random.default_rng(seed + 1).uniform(-0.1, 0.1, (len(made), 2)).astype("<f2").view(np.uint8)
    if name == "q6_k":
        made[:, -2:] = scales[:, :2]
    else:
        n = 4 if name in ("q4_1", "q4_k") else 2
        made[:, :n] = scales[:, :n]
    return made.reshape(rows, -1)


def truth(data, name):
    return gguf.quants.dequantize(np.ascontiguousarray(data), getattr(gguf.GGMLQuantizationType, name.upper()))


def same(got, want):
    """Equal bits; NaN is NaN."""
    got = got.numpy()
    assert got.shape == want.shape and got.dtype == want.dtype, (got.shape, got.dtype, want.shape)
    nan = np.isnan(want)
    assert np.array_equal(np.isnan(got), nan)
    assert got[~nan].tobytes() == want[~nan].tobytes()


@pytest.fixture(scope="module", params=[1, 2, 3, 4, 5])
def pool(request):
    shoal.init(workers=request.param, threads=1)
    yield request.param
    shoal.disconnect()


def test_table():
    for name, row in shoal.block_formats.items():
        kind = getattr(gguf.GGMLQuantizationType, name.upper())
        assert gguf.GGML_QUANT_SIZES[kind] == (row.values, row.bytes), name
        assert "d" in row.fields and repr(row.bytes) in repr(row)


@pytest.mark.parametrize("name", FORMATS)
def test_layouts(pool, name):
    data = packed(name, 23, 7)
    want, size, values = truth(data, name), *shoal.block_formats[name][1::-1]
    x, shares = shoal.tensor(data), SHARES[:pool]
    layouts = [x, x.replicate(), x.place(axis=0, shares=shares), x.place(axis=1, shares=shares),
               x.place(axis=0, shares=shares).place(axis=1, shares=shares[::-1]),
               x.place(parts=(1, pool), cuts=[0, 23, 0] + [11] * (pool - 1) + [7 * size])]  # inside of a block
    for laid in layouts:
        same(shoal.dequantize(laid, name), want)
        same(shoal.dequantize(laid[3:19:2], name), want[3:19:2])
        same(shoal.dequantize(laid[:, 2 * size:5 * size], name), want[:, 2 * values:5 * values])
        same(shoal.dequantize(laid.take([5, 22, 0, 5], axis=0), name), want[[5, 22, 0, 5]])
        same(shoal.dequantize(laid, name)[4:9, values + 3:], want[4:9, values + 3:])
    same(shoal.dequantize(x.reshape(23, 7, size), name), want.reshape(23, 7, values))
    same(shoal.dequantize(x.reshape(-1), name), want.reshape(-1))
    same(shoal.dequantize(x, name).place(axis=1, shares=shares), want)


@pytest.mark.parametrize("name", FORMATS)
def test_other_types(pool, name):
    data = packed(name, 5, 3)
    want = truth(data, name)
    x = shoal.tensor(data).place(axis=0, shares=SHARES[:pool])
    with np.errstate(all="ignore"):
        same(shoal.dequantize(x, name, "float16"), want.astype("float16"))
    rounded = shoal.dequantize(x, name, dtype=shoal.bfloat16)
    assert rounded.dtype == "bfloat16"
    same(rounded.float(), shoal.tensor(want).to("bfloat16").float().numpy())


@pytest.mark.parametrize("name", FORMATS)
def test_products(pool, name):
    """y = x W^T, as a linear layer has it; and W x with W's blocks cut along the sum."""
    values = shoal.block_formats[name].values
    blocks = 2048 // values
    data = tame(name, 96, blocks, 3)
    w, shares = truth(data, name).astype(np.float64), SHARES[:pool]
    a = np.random.default_rng(5).standard_normal((9, blocks * values), np.float32)
    want = a.astype(np.float64) @ w.T
    scale = np.abs(a.astype(np.float64)) @ np.abs(w).T
    x = shoal.tensor(data)
    for laid in (x, x.replicate(), x.place(axis=0, shares=shares), x.place(axis=1, shares=shares)):
        # Nothing holds the dequantised numbers: products read the blocks.
        for got in (shoal.tensor(a) @ shoal.dequantize(laid, name).T, (shoal.dequantize(laid, name) @ shoal.tensor(a.T)).T,
                    shoal.tensor(a[:1]) @ shoal.dequantize(laid, name).T):
            rows = len(got)
            assert (np.abs(got.numpy() - want[:rows]) <= 1e-6 * scale[:rows] + 1e-30).all(), name


def cuts_of(layouts):
    """The inner cut points of columns in the texts of layouts."""
    return [int(point) for text in layouts for cuts in re.findall(r"(?:columns|axis 1) ([0-9.]+) on", text)
            for point in cuts.split("..")[1:-1]]


def test_column_cuts_fall_between_blocks_and_heads(pool):
    if pool == 1:
        return
    name, shares = "q4_k", SHARES[:pool]
    size = shoal.block_formats[name].bytes
    x = shoal.tensor(packed(name, 64, 11)).place(axis=1, shares=shares)
    steps = json.loads(shoal.explain(shoal.dequantize(x, name), json=True))["steps"]
    cuts = cuts_of(step["to"] for step in steps if step["kind"] == "exchange")
    assert cuts and any(c % size == 0 for c in cuts)
    assert all(c % size == 0 or c % 256 == 0 for c in cuts), cuts
    divided = cuts_of(step["division"] for step in steps if step.get("operation") == "dequantize")
    assert divided and all(c % 256 == 0 for c in divided), divided
    # Seven heads of 48, in shares that would cut through them.
    a, w = (np.random.default_rng(i).standard_normal(shape, np.float32) for i, shape in enumerate([(64, 96), (96, 336)]))
    heads = (shoal.tensor(a) @ shoal.tensor(w).place(axis=1, shares=shares)).reshape(64, 7, 48)
    steps = json.loads(shoal.explain(heads, json=True))["steps"]
    divided = cuts_of(step["division"] for step in steps if step.get("operation") == "dot_general")
    assert divided and all(c % 48 == 0 for c in divided), divided
    np.testing.assert_allclose(heads.numpy(), (a @ w).reshape(64, 7, 48), rtol=1e-4, atol=1e-4)


def test_arrays_and_errors():
    shoal.init(workers=1, threads=1)
    data = packed("q4_0", 3, 2)
    same(shoal.dequantize(data, "q4_0"), truth(data, "q4_0"))
    x = shoal.tensor(data)
    with pytest.raises(shoal.InvalidError, match="unknown block format 'q4_9'; known: q8_0 q4_0 q4_1 q4_k q6_k"):
        shoal.dequantize(x, "q4_9")
    with pytest.raises(shoal.InvalidError, match=r"uint8\[3, 36\] holds no whole blocks of q8_0, which take 34"):
        shoal.dequantize(x, "q8_0")
    with pytest.raises(shoal.InvalidError, match=r"bytes of blocks, uint8 with an axis of them, not float32\[3, 36\]"):
        shoal.dequantize(x.float(), "q4_0")
    with pytest.raises(shoal.InvalidError, match="gives float32, float16 or bfloat16, not float64"):
        shoal.dequantize(x, "q4_0", "float64")
    with pytest.raises(shoal.InvalidError, match="float"):  # bytes are integers
        x.requires_grad_()
    empty = shoal.dequantize(np.zeros((0, 18), np.uint8), "q4_0")
    assert empty.shape == (0, 32)
    # Gradients go past the packed side to the other.
    a = shoal.tensor(np.ones((2, 64), "float32")).requires_grad_()
    w = shoal.dequantize(tame("q4_0", 5, 2), "q4_0")
    (a @ w.T).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), np.tile(w.numpy().sum(0), (2, 1)), rtol=1e-5)
    shoal.disconnect()
