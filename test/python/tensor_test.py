"""Tensors against NumPy: values, shapes, element types, errors; in this process or, with SHOAL_HUB
set, on a pool."""
import pathlib
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import shoal

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "float32", "float64"]
FLOATS = st.floats(-1e3, 1e3, width=32)
SETTINGS = settings(max_examples=60, deadline=None, derandomize=True)


def same(got, want, tolerance=0):
    got = got.numpy() if isinstance(got, shoal.Tensor) else got
    want = np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype, (got.dtype, want.dtype)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def arrays(shape):
    return hnp.arrays("float32", shape, elements=FLOATS)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4), (1,) * 8])
def test_there_and_back(dtype, shape):
    a = (np.arange(int(np.prod(shape))) % 2).reshape(shape).astype(dtype)
    t = shoal.tensor(a)
    assert t.shape == shape and t.dtype == dtype and t.nbytes == a.nbytes
    same(t, a)
    assert t.tolist() == a.tolist()


def test_layouts_of_memory():
    a = np.arange(24, dtype="float64").reshape(2, 3, 4)
    for view in (a.T, a[:, ::2], a[::-1], np.asfortranarray(a), a[..., 1]):
        same(shoal.tensor(view), view)
        same(shoal.from_numpy(view), view)


def test_numbers_of_numpy():
    """They keep their element type, as in torch; float64 is a Python float as well."""
    for number in (np.float64(1e300), np.float32(0.1), np.float16(2), np.int64(-3), np.uint8(7), np.bool_(True)):
        tensor = shoal.tensor(number)
        assert tensor.dtype == number.dtype.name and tensor.shape == () and tensor.item() == number.item()
    assert shoal.tensor(0.5).dtype == "float32"


def test_nested_lists():
    assert shoal.tensor([[1, 2], [3, 4]]).dtype == "int64"
    assert shoal.tensor([1, 2.5]).dtype == "float32"
    assert shoal.tensor([True, False]).dtype == "bool"
    assert shoal.tensor(3.0).shape == ()
    assert shoal.tensor([1.5, -2.25], dtype="bfloat16").tolist() == [1.5, -2.25]
    with pytest.raises(shoal.InvalidError, match="ragged"):
        shoal.tensor([[1, 2], [3]])
    with pytest.raises(shoal.InvalidError, match="does not fit int8"):
        shoal.tensor([300], dtype="int8")


def test_other_buffers():
    assert shoal.tensor(memoryview(b"\x01\x02")).tolist() == [1, 2]
    assert shoal.tensor(struct.pack("2B", 7, 8)).dtype == "uint8"
    big = np.array([1, 2], dtype=">f4")
    with pytest.raises(shoal.InvalidError, match="byte order"):
        shoal.tensor(big)
    same(np.from_dlpack(shoal.tensor([1.0, 2.0])), np.array([1, 2], "float32"))


@SETTINGS
@given(st.data())
def test_broadcasting(data):
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=5,
                                                         min_side=0))
    a, b = (data.draw(arrays(s)) for s in shapes.input_shapes)
    x, y = shoal.tensor(a), shoal.tensor(b)
    same(x + y, a + b)
    same(x - y, a - b)
    same(x * y, a * b, 1e-6)
    same(x.maximum(y), np.maximum(a, b))
    same(x < y, a < b)
    same(x == y, a == b)
    same(shoal.where(x < y, x, y), np.where(a < b, a, b))


@SETTINGS
@given(st.data())
def test_reductions(data):
    a = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=5).flatmap(arrays))
    axes = tuple(data.draw(st.sets(st.integers(0, a.ndim - 1), min_size=1)))
    keep = data.draw(st.booleans())
    x = shoal.tensor(a)
    scale = max(1.0, float(np.abs(a).sum()))
    assert np.abs(x.sum(axes, keep).numpy() - a.astype("f8").sum(axes, keepdims=keep)).max() \
        <= 1e-6 * scale
    same(x.max(axes, keep), a.max(axes, keepdims=keep))
    same(x.min(axes, keep), a.min(axes, keepdims=keep))
    assert np.abs(x.mean(axes, keep).numpy() - a.astype("f8").mean(axes, keepdims=keep)).max() \
        <= 1e-6 * scale


@SETTINGS
@given(st.data())
def test_indexing(data):
    a = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=5).flatmap(arrays))
    key = data.draw(hnp.basic_indices(a.shape, allow_newaxis=True))
    same(shoal.tensor(a)[key], a[key])


@SETTINGS
@given(st.data())
def test_matmul_of_every_rank(data):
    batch = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3))
    m, k, n = (data.draw(st.integers(0, 6)) for _ in range(3))
    left = data.draw(st.booleans()) or bool(batch.result_shape)
    right = data.draw(st.booleans()) or bool(batch.result_shape)
    a = data.draw(arrays(batch.input_shapes[0] + ((m, k) if left else (k,))))
    b = data.draw(arrays(batch.input_shapes[1] + ((k, n) if right else (k,))))
    want = a.astype("f8") @ b.astype("f8")
    got = (shoal.tensor(a) @ shoal.tensor(b)).numpy()
    assert got.shape == want.shape
    bound = np.abs(a).max(initial=0) * np.abs(b).max(initial=0) * max(k, 1)
    assert np.abs(got - want).max(initial=0) <= 1e-5 * max(float(bound), 1e-30)


def test_shapes():
    a = np.arange(24, dtype="float32").reshape(2, 3, 4)
    x = shoal.tensor(a)
    same(x.reshape(4, -1), a.reshape(4, -1))
    same(x.view((6, 4)), a.reshape(6, 4))
    same(x.T, a.T)
    same(x.transpose(0, -1), a.swapaxes(0, -1))
    same(x.permute(1, -1, 0), a.transpose(1, 2, 0))
    same(x[:, :1].squeeze(1), a[:, 0])
    same(x.unsqueeze(-1), a[..., None])
    same(x[0, 0].broadcast_to(3, 4), np.broadcast_to(a[0, 0], (3, 4)))
    same(shoal.cat([x, x], 1), np.concatenate([a, a], 1))
    same(x.flatten(), a.ravel())
    assert len(x) == 2 and [row.shape for row in x] == [(3, 4), (3, 4)]


def test_numbers_and_reflections():
    a = np.array([1, 2, 4], dtype="float32")
    x = shoal.tensor(a)
    same(1 - x, 1 - a)
    same(2 / x, 2 / a)
    same(2 ** x, 2 ** a)
    same(x ** 2, a ** 2)
    same(-x, -a)
    same(abs(-x), a)
    same(a + x, a + a)  # the array leaves the operator to the tensor
    same(shoal.tensor([1, 2]) / 2, np.array([0.5, 1], "float32"))
    for f, g in [("exp", np.exp), ("log", np.log), ("sqrt", np.sqrt), ("tanh", np.tanh)]:
        same(getattr(x, f)(), g(a), 1e-6)
    same(shoal.tensor([-1.0, 2.0]).relu(), np.array([0, 2], "float32"))
    assert x.sum().item() == 7 and float(x[0]) == 1.0 and bool(x[0] == 1)
    with pytest.raises(shoal.InvalidError, match=r"bool: .* has \d elements, .*: use any\(\) or all"):
        bool(x == a)


def test_creation():
    same(shoal.zeros(2, 3), np.zeros((2, 3), "float32"))
    same(shoal.ones((2,), dtype="int32"), np.ones(2, "int32"))
    same(shoal.full((2, 2), 2.5), np.full((2, 2), 2.5, "float32"))
    same(shoal.arange(5), np.arange(5))


def test_errors_name_what_is_wrong():
    x, y = shoal.zeros(2, 3), shoal.zeros(4, 5)
    for call, words in [
            (lambda: x + y, r"float32\[2, 3\] and float32\[4, 5\] do not broadcast"),
            (lambda: x @ y, r"float32\[2, 3\] @ float32\[4, 5\]"),
            (lambda: x @ x.T.astype("int32"), r"int32\[3, 2\]"),
            (lambda: x.reshape(7), "reshape"),
            (lambda: x.sum(5), "no axis 5"),
            (lambda: x.astype("float31"), "float31"),
            (lambda: x.place(axis=0, shares=[-1, 2]), "weight|share"),
            (lambda: x.place(axis=2), "no axis 2"),
            (lambda: shoal.cat([]), "no tensors"),
            (lambda: shoal.zeros(2).item(), "not one")]:
        with pytest.raises(shoal.InvalidError, match=words):
            call()
    with pytest.raises(IndexError, match="out of range"):
        x[2]
    with pytest.raises(shoal.NotFoundError, match="nobody-here"):
        shoal.Session("shm:nobody-here")


def test_files(tmp_path):
    a = np.arange(12, dtype="float64").reshape(3, 4)
    shoal.save(tmp_path / "a.npy", shoal.tensor(a))
    same(np.load(tmp_path / "a.npy"), a)
    same(shoal.load(tmp_path / "a.npy"), a)
    np.save(tmp_path / "f.npy", np.asfortranarray(a))
    same(shoal.load(tmp_path / "f.npy"), a)
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f4'")
    with pytest.raises(shoal.FormatError, match="bad.npy"):
        shoal.load(tmp_path / "bad.npy")
    with pytest.raises(shoal.NotFoundError, match="none.npy"):
        shoal.load(tmp_path / "none.npy")


def test_import_is_light():
    code = "import shoal, sys; print(shoal.tensor([1.0]).tolist(), 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[1.0] False\n", done.stderr


if __name__ == "__main__":
    sys.exit(pytest.main([str(pathlib.Path(__file__)), "-q", *sys.argv[1:]]))


def test_lists_have_the_type_of_what_is_in_them():
    """As in torch: NumPy's numbers, arrays and tensors bring their element types, Python's numbers the default ones."""
    for data, want in (
            ([np.float64(1.5)], "float64"), ([np.float32(1.5), 2], "float32"), ([np.int32(1)], "int32"),
            ([np.zeros(2), np.zeros(2)], "float64"), ([np.zeros(2, np.float32)], "float32"), ([np.int32(1), 2.5], "float32"),
            ([np.zeros(2, np.int32), np.zeros(2)], "float64"), ([shoal.tensor(1.0, dtype="float64")], "float64"),
            ([shoal.tensor(1), 2.5], "float32"), ([np.bool_(True)], "bool"), ([np.float16(1)], "float16"),
            ([True, 1.5], "float32"), ([True, 2], "int64"), ([np.float32(1), np.int64(3)], "float32"),
            ([[np.float64(1)], [2]], "float64"), ([np.uint8(3), 4], "int64"), ([np.float16(1), 2.5], "float32"),
            ([np.array([1, 2], np.uint8)], "uint8"), ([], "float32"), ([[], []], "float32"),
            ([shoal.tensor(1, dtype="int32"), np.float64(2)], "float64"), ([np.array([1, 2], object)], "int64")):
        made = shoal.tensor(data)
        assert made.dtype == want and made.tolist() == np.array(data).tolist(), data
