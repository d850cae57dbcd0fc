"""Pools with workers on two kinds of processors, this machine's own and aarch64, which qemu emulates: products that
are split over both equal NumPy's, over encrypted links and over rings in memory that both map. When the emulated
worker is killed, the other takes its part over.

The variable SHOAL_ARM is the command for aarch64, with the emulator before it. `make arm` runs this.
"""
import os
import shlex

import ml_dtypes
import numpy as np
import pytest
from cluster import Pool, near

import shoal

SLOTS = ["own", "arm"]
SHAPES = [(129, 65, 33), (5, 300, 7), (64, 1, 200), (200, 257, 96)]


@pytest.fixture(params=["shm", "zmq"])
def pool(request, monkeypatch, tmp_path):
    if request.param == "zmq":
        monkeypatch.setenv("SHOAL_TRANSPORT", "zmq")
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    p = Pool(0)
    p.add("own")
    p.add("arm", command=shlex.split(os.environ["SHOAL_ARM"]))
    p.await_workers(2)
    yield p
    p.close()


def numbers(rng, dtype, *shape):
    """Of an integer type all that it has, so that sums wrap."""
    if dtype.kind == "i":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)


def check(got, a, b):
    if a.dtype.kind == "i":
        np.testing.assert_array_equal(got, a @ b)
    elif a.dtype.itemsize > 2:
        near(got, a, b, 1e-5 if a.dtype.itemsize == 4 else 1e-13)
    else:
        # bfloat16: sums in float32, each part of them rounded to half a unit in the last of 8 bits.
        a, b = a.astype("f8"), b.astype("f8")
        terms = np.abs(a) @ np.abs(b)
        assert (np.abs(got - a @ b) <= 2.0**-8 * np.abs(a @ b) + 1e-5 * terms).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32", "int8"])
def test_products(pool, dtype):
    rng = np.random.default_rng(1)
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    for m, k, n in SHAPES:
        a, b = numbers(rng, kind, m, k), numbers(rng, kind, k, n)
        # NumPy's arrays of bfloat16 show no memory to others: the same numbers go as float32.
        x, y = (shoal.tensor(z.astype("f4")).to(dtype) if dtype == "bfloat16" else shoal.tensor(z) for z in (a, b))
        for shares in ([70, 30], [20, 80]):
            def split(z, axis):
                return z.place(axis=axis, slots=SLOTS, shares=shares)
            made = [split(x, 0) @ y, x @ split(y, 1)]
            if dtype != "bfloat16":  # whose parts of sums are rounded
                made.append(split(x, 1) @ split(y, 0))
            for c in made:
                check((c.float() if dtype == "bfloat16" else c).numpy(), a, b)
    assert all(slot.instances and slot.nodes for slot in shoal.status().slots if slot.compute)


def test_operations(pool):
    """What is exact is equal on both; functions agree within the units in the last place that each may be off."""
    x = np.random.default_rng(2).standard_normal((64, 300), np.float32)
    t = shoal.tensor(x).place(axis=0, slots=SLOTS, shares=[40, 60])
    np.testing.assert_array_equal((t * 3 - t / 7).numpy(), x * np.float32(3) - x / np.float32(7))
    np.testing.assert_array_equal(t.sort(-1)[0].numpy(), np.sort(x))
    np.testing.assert_array_equal(t.astype("float16").astype("float32").numpy(), x.astype("f2").astype("f4"))
    np.testing.assert_allclose(t.exp().numpy(), np.exp(x.astype("f8")), rtol=5e-7)
    e = np.exp(x.astype("f8") - x.max(-1, keepdims=True))
    np.testing.assert_allclose(t.softmax(-1).numpy(), e / e.sum(-1, keepdims=True), rtol=2e-6)
    np.testing.assert_allclose(t.sum().item(), x.astype("f8").sum(), rtol=1e-5)


def test_the_emulated_one_is_lost(pool):
    rng = np.random.default_rng(3)
    a, b = numbers(rng, np.dtype("f4"), 300, 200), numbers(rng, np.dtype("f4"), 200, 100)
    rows = shoal.tensor(a).place(axis=0, slots=SLOTS, shares=[50, 50])
    product = rows @ shoal.tensor(b)
    shoal.sync()
    pool.worker(1).kill()
    near(product.numpy(), a, b)
    near((product * 2).numpy(), a, 2 * b)
