"""Operations of users' own: in C and in Python, over distributed tensors, on mixed devices, with gradients; and that a
client can name what a worker's owner has added to it, and nothing else."""
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from cluster import Pool

import shoal
from shoal import hosted

OWN = os.environ["OWN"]  # the plug-in of test/backend/own.c
FILE = '''
import numpy as np
from shoal import hosted


def swish(x):
    return x / (1 + np.exp(-x))


def slope(x, g):
    s = 1 / (1 + np.exp(-x))
    return g * s * (1 + x * (1 - s))


hosted.register_op("swish", swish, gradients=[slope])
hosted.register_op("backwards", lambda x: x[..., ::-1], axis=-1)
hosted.register_op("outer", np.outer, gradients=[lambda a, b, g: g @ b, lambda a, b, g: a @ g])
hosted.register_op("count", lambda x: np.full(x.shape, x.size))
hosted.register_op("wrong", lambda x: x[:1])
hosted.register_op("raises", lambda x: 1 / 0)
'''
X = np.linspace(-4, 4, 120, dtype="f4").reshape(10, 12)


def swish(x):
    return x / (1 + np.exp(-x))


def above_mean(x, y):
    return np.maximum(x, y.mean(-1, keepdims=True))


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """Two workers with these operations, one of them with a device of its own besides, whose work is done beside it."""
    path = tmp_path_factory.mktemp("own") / "mine.py"
    path.write_text(FILE)

    class Owned(Pool):
        def add(self, name, hub=None):
            os.environ["SHOAL_BACKENDS"] = {"w3": ""}.get(name, f"{os.environ['LAG']}:{OWN}:{path}")
            options = ["--device", {"w1": "cpu,lag", "w2": "ref", "w3": "cpu"}[name]]
            try:
                worker = self.start("worker", "--once", "--hub", self.address, "--name", name, "--threads", "1", *options)
            finally:
                del os.environ["SHOAL_BACKENDS"]
            self.processes.append(worker)

    made = Owned(2)
    yield made
    shoal.disconnect()
    for process in reversed(made.processes):
        process.terminate()
        process.wait(60)


def placed(x, axis=0, slots=("w1/cpu", "w1/lag", "w2")):
    return shoal.from_numpy(x).place(axis=axis, slots=slots)


def test_element_by_element(pool):
    for axis in (0, 1):
        assert np.allclose(hosted.Op("swish")(placed(X, axis)).numpy(), swish(X), rtol=1e-6)
    y = hosted.Op("swish")(placed(X) * 2 + 1) @ placed(X.T, 1)  # among others
    assert np.allclose(y.numpy(), swish(X * 2 + 1) @ X.T, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "float32"])
def test_element_types(pool, dtype):
    made = hosted.Op("swish")(placed(X).astype(dtype))
    assert made.dtype == dtype
    assert np.allclose(made.float().numpy(), swish(X), atol={"bfloat16": 2e-2, "float16": 1e-2}.get(dtype, 1e-6))
    counted = hosted.Op("count")(placed(X), dtype="int64")
    assert counted.dtype == "int64" and set(counted.numpy().ravel().tolist()) <= {36, 48}  # parts of ten rows on three


def test_along_an_axis(pool):
    for axis in (0, 1):
        assert np.array_equal(hosted.Op("backwards", axis=-1)(placed(X, axis)).numpy(), X[:, ::-1])
        made = hosted.Op("above_mean", axis=1)(placed(X, axis), placed(X[::-1].copy()))
        assert np.allclose(made.numpy(), above_mean(X, X[::-1]), atol=1e-6)


def test_of_all(pool):
    a, b = X[0], X[:, 1].copy()
    made = hosted.Op("outer")(placed(a), placed(b), shape=(12, 10))
    assert np.array_equal(made.numpy(), np.outer(a, b))


def test_gradients(pool):
    x = shoal.from_numpy(X).requires_grad_()
    (hosted.Op("swish")(x.place(axis=0, slots=["w1/cpu", "w2"])) * 3).sum().backward()
    s = 1 / (1 + np.exp(-X))
    assert np.allclose(x.grad.numpy(), 3 * s * (1 + X * (1 - s)), atol=1e-5)
    a, b = (shoal.from_numpy(x).place(slots=["w2"]).requires_grad_() for x in (X[0], X[:, 1].copy()))
    weights = shoal.from_numpy(X.T.copy())
    (hosted.Op("outer")(a, b, shape=(12, 10)) * weights).sum().backward()
    assert np.allclose(a.grad.numpy(), X.T @ X[:, 1], atol=1e-4)
    assert np.allclose(b.grad.numpy(), X[0] @ X.T, atol=1e-4)


@pytest.mark.parametrize("call, words", [
    (lambda: hosted.Op("os.system")(placed(X)), "there is no operation 'os.system' here"),
    (lambda: hosted.Op("backwards.gradient0", axis=1)(placed(X)), "no operation 'backwards.gradient0'"),
    (lambda: hosted.Op("import os")(placed(X)), "the name 'import os' must have 1 to 63 letters"),
    (lambda: hosted.Op("x" * 64)(placed(X)), "must have 1 to 63 letters"),
    (lambda: hosted.Op("swish")(placed(X), placed(X[0])), r"swish: operand 1 is float32\[12\], operand 0 float32\[10, 12\]"),
    (lambda: hosted.Op("swish")(), "swish: needs an operand"),
    (lambda: hosted.Op("swish", axis=2)(placed(X)), "custom: dimension"),
    (lambda: hosted.Op("wrong")(placed(X, slots=["w2"])), r"wrong: the kernel gave an array of the shape \[1, 12\], not \[10, 12\]"),
    (lambda: hosted.Op("raises")(placed(X, slots=["w2"])), "raises: ZeroDivisionError: division by zero"),
    (lambda: hosted.Op("above_mean", axis=1)(placed(X), placed(X).double()), "above_mean: it takes two tensors of float32"),
    (lambda: hosted.Op("count")(placed(X, slots=["w2"]), dtype="bool"), "Cannot cast"),
])
def test_what_is_wrong(pool, call, words):
    with pytest.raises(shoal.ShoalError, match=words):
        call().numpy()
    assert np.array_equal((placed(X) + 1).numpy(), X + 1)  # the pool goes on


def test_a_worker_without_it(pool):
    """What is placed on others goes on; what comes to it is an error that says what to do."""
    pool.add("w3")
    pool.await_workers(3)
    assert np.allclose(hosted.Op("swish")(placed(X)).numpy(), swish(X), rtol=1e-6)
    with pytest.raises(shoal.UnsupportedError, match="worker w3: .*there is no operation 'swish' here: list the plug-in"):
        hosted.Op("swish")(placed(X, slots=["w3"])).numpy()


def test_in_this_process():
    """Without a pool; and what is registered wrongly."""
    done = subprocess.run([sys.executable, "-c", FILE + '''
import shoal
for workers in (1, 3):
    shoal.init(workers=workers, threads=1)
    x = shoal.arange(24, dtype="float32").reshape(4, 6).place(axis=0)
    print(np.allclose(hosted.Op("swish")(x).numpy(), swish(np.arange(24.0).reshape(4, 6))))
twice = hosted.register_op("twice", lambda x: 2 * x)
print(twice(x).sum().item(), shoal.vmap(twice)(x).sum().item())
for name, kernel in (("twice", abs), ("", abs), ("x", 3)):
    try:
        hosted.register_op(name, kernel)
    except Exception as error:
        print(type(error).__name__, error)
'''], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "True", "True", "552.0 552.0", "InvalidError operation 'twice' exists already",
        "InvalidError operation '': its name must have 1 to 63 letters of a-z, A-Z, 0-9, '_', '.' and '-'",
        "ValueError operation x: what computes it is no function"]


if __name__ == "__main__":
    sys.exit(pytest.main([str(pathlib.Path(__file__)), "-q", *sys.argv[1:]]))


def test_all_of_an_operation_is_added_or_nothing():
    """Long names were cut off, so that two gradients had one name; what came before a mistake stayed."""
    for name in ("", "a b", "n" * 64, 5):
        with pytest.raises(shoal.InvalidError, match="its name must have 1 to 63 letters of a-z"):
            hosted.register_op(name, swish)
    with pytest.raises(shoal.InvalidError, match="gradient0': its name must have 1 to 63 letters"):
        hosted.register_op("n" * 60, swish, gradients=[swish, swish])
    with pytest.raises(ValueError, match="operation halves.gradient0: what computes it is no function"):
        hosted.register_op("halves", lambda x: x / 2, gradients=[None])
    assert hosted.register_op("halves", lambda x: x / 2)(shoal.Session("embedded", 1).tensor([4.])).tolist() == [2]
