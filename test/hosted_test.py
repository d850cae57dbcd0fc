"""Backends in Python: one of a few lines, what goes wrong in them, and PyTorch beside the processor."""
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import shoal
from cluster import SHOAL, Pool, near, random_array
from gpu_test import TRAIN
from shoal import hosted

ROOT = Path(__file__).resolve().parent.parent
MINE = '''
import numpy as np
from shoal import hosted

def dot_general(a, b, lhs_batching_dimensions, rhs_batching_dimensions, lhs_contracting_dimensions,
                rhs_contracting_dimensions):
    if lhs_batching_dimensions:
        raise ValueError("no batches today")
    return np.tensordot(a, b, (lhs_contracting_dimensions, rhs_contracting_dimensions))

def cut(x, start_indices, limit_indices, strides):
    return np.ascontiguousarray(x[tuple(map(slice, start_indices, limit_indices, strides))])

class Mine(hosted.Backend):
    name = "mine"
    summary = "NumPy's arrays"
    operations = {"add": np.add, "multiply": np.multiply, "negate": lambda x: x[..., :-1], "dot_general": dot_general, "slice": cut,
                  "reduce.add": lambda x, initial, dimensions: x.sum(tuple(dimensions), x.dtype) + initial,
                  "tanh": lambda x: 1 / 0, "sine": lambda x: np.sin(x, dtype=np.float64)}
'''


def has_torch():
    return subprocess.run([os.environ["SHOAL_PYTHON"], "-c", "import torch"], capture_output=True,
                          check=False).returncode == 0


needs_torch = pytest.mark.skipif(not has_torch(), reason="PyTorch is not here: apt-get install python3-torch, or pip install torch")


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def run(program, *arguments, **variables):
    return subprocess.run([sys.executable, "-c", program, *map(str, arguments)], text=True, timeout=280,
                          capture_output=True, env=dict(os.environ, **variables), check=False)


def doctor(**variables):
    done = subprocess.run([SHOAL, "doctor", "--json"], text=True, capture_output=True, timeout=120,
                          env=dict(os.environ, **variables), check=False)
    return {found["what"]: (found["state"], found["detail"]) for found in json.loads(done.stdout)["findings"]}


class Hosts(Pool):
    """A hub, and workers with variables of their own."""

    def lend(self, name, devices, **variables):
        before = dict(os.environ)
        os.environ.update(variables)
        try:
            worker = self.start("worker", "--hub", self.address, "--name", name, "--threads", "1", "--backend", devices)
        finally:
            os.environ.clear()
            os.environ.update(before)
        self.processes.append(worker)
        return worker


@pytest.fixture
def pool():
    p = Hosts(0)
    yield p
    p.close()


# ---- a backend of a few lines ----

def test_a_worker_of_a_file(pool, mine):
    worker = pool.lend("w", "mine", SHOAL_BACKENDS=str(mine))
    pool.await_workers(1)
    rng = np.random.default_rng(1)
    a, b = random_array(rng, 70, 80), random_array(rng, 80, 33)
    near((shoal.tensor(a) @ shoal.tensor(b)).numpy(), a, b)
    x = shoal.tensor(a)
    assert np.array_equal((x * x + x).numpy(), a * a + a)
    assert not Pool.log(worker)
    assert np.allclose(shoal.exp(x).numpy(), np.exp(a), rtol=1e-6)  # which it does not list
    slots = [s for s in shoal.status().slots if s.compute]
    assert [(s.backend, s.device) for s in slots] == [("mine", "NumPy's arrays")]


@pytest.mark.parametrize("expression, message", [
    ("shoal.tanh(x)", "tanh of float32[3]: ZeroDivisionError: division by zero (mine.py:19)"),
    ("-x", "negate of float32[3]: TypeError: the result is float32[2], not float32[3]"),
    ("shoal.sin(x)", "sine of float32[3]: TypeError: the result is float64[3], not float32[3]"),
    ("shoal.tensor([[[1.0]]]) @ shoal.tensor([[[2.0]]])", "ValueError: no batches today (mine.py:8)"),
])
def test_what_raises_is_done_by_the_processor_and_told(mine, expression, message):
    program = f"import shoal; x = shoal.tensor([1.0, 2.0, 3.0]); print(({expression}).numpy().tolist())"
    done = run(program, SHOAL_BACKENDS=str(mine), SHOAL_BACKEND="mine")
    expected = run(program, SHOAL_BACKENDS="", SHOAL_BACKEND="cpu")
    assert done.stdout == expected.stdout and expected.stdout
    assert message in done.stderr and "mine hands work to cpu" in done.stderr


def test_registered_in_a_program_and_used_by_many_threads():
    """Workers ask for the interpreter while threads of Python record, read and let go."""
    seen = []

    class Counted(hosted.Backend):
        name = "counted"
        operations = {"add": lambda a, b, out: seen.append(out) or np.add(a, b, out=out), "multiply": np.multiply}
        operations["add"] = hosted.Operation(operations["add"], out=True)

    hosted.register(Counted())
    with pytest.raises(shoal.InvalidError, match="'counted' exists already"):
        hosted.register(Counted())
    with contextlib.closing(shoal.Session(backend="counted", workers=2)) as session:
        wrong = []

        def work(seed):
            for i in range(40):
                a = np.arange(1000, dtype=np.float32) + seed + i
                x = session.tensor(a)
                if not np.array_equal((x * x + x).numpy(), a * a + a):
                    wrong.append((seed, i))
                del x
                gc.collect(0)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads) and not wrong and seen
        kept = seen[-1]
        value = kept.copy()
    gc.collect()
    assert np.array_equal(kept, value) or kept.shape == value.shape  # its memory outlives the session


def test_results_are_written_where_they_lie():
    """No copy is made of inputs or outputs: the arrays are the device's memory."""
    addresses = {}

    class Looks(hosted.Backend):
        name = "looks"
        operations = {"add": np.add}

        def array(self, buffer, dtype, shape):
            made = super().array(buffer, dtype, shape)
            assert not made.flags.owndata and made.__array_interface__["data"][0] % 64 == 0
            addresses[shape] = made.flags.writeable
            return made

        def store(self, target, result):
            raise AssertionError("a result was not where it belongs")

    hosted.register(Looks())
    with contextlib.closing(shoal.Session(backend="looks")) as session:
        x = session.tensor(np.arange(5000, dtype=np.float32))
        assert (x + x).numpy()[-1] == 9998
    assert addresses == {(5000,): True}  # the output's, which comes last


@pytest.mark.parametrize("text, message", [
    ("x = 1", "defines no subclass of shoal.hosted.Backend that has a name"),
    ("raise OSError('no licence')", "OSError: no licence"),
    ("from shoal import hosted\nclass A(hosted.Backend):\n    name = 'cpu'", "backend 'cpu' exists already"),
    ("from shoal import hosted\nclass A(hosted.Backend):\n    name = 'a'\n    dtypes = ['float31']", "float31"),
    ("from shoal import hosted\nclass A(hosted.Backend):\n    name = 'a'\n    operations = {'add': 3}", "'add' is no function"),
    ("from shoal import hosted\nclass A(hosted.Backend):\n    name = 'a' * 99", "its name must have 1 to 47 bytes"),
])
def test_files_that_are_wrong(tmp_path, text, message):
    path = tmp_path / "wrong.py"
    path.write_text(text)
    done = subprocess.run([SHOAL, "worker", "--backend", "a"], capture_output=True, text=True, timeout=60, check=False,
                          env=dict(os.environ, SHOAL_BACKENDS=str(path)))
    assert done.returncode == 1
    assert message in done.stderr and "unknown backend 'a'; known: cpu" in done.stderr


def test_no_devices_and_devices_that_cannot_be_opened(tmp_path):
    path = tmp_path / "none.py"
    path.write_text("""
from shoal import hosted
class None_(hosted.Backend):
    name = "none"
    def devices(self):
        raise RuntimeError("the driver is too old: install version 7")
class Closed(hosted.Backend):
    name = "closed"
    def open(self, index, threads):
        raise PermissionError("/dev/closed")
""")
    found = doctor(SHOAL_BACKENDS=str(path))
    assert found["backend none"] == ("none", "a backend in Python: RuntimeError: the driver is too old: install version 7")
    for name, message in {"none": "install version 7", "closed": "closed: PermissionError: /dev/closed"}.items():
        done = subprocess.run([SHOAL, "worker", "--backend", name], capture_output=True, text=True, timeout=60, check=False,
                              env=dict(os.environ, SHOAL_BACKENDS=str(path), SHOAL_HUB="shm:nobody"))
        assert done.returncode == 1 and message in done.stderr


@pytest.mark.parametrize("python, message", [
    ("/nowhere/python3", "cannot run '/nowhere/python3': No such file or directory"),
    ("/bin/false", "'/bin/false' ended with an error"),
    ("/bin/true", "gave no answer"),
])
def test_interpreters_that_are_none(python, message):
    state, detail = doctor(SHOAL_PYTHON=python)["backend torch"]
    assert state == "none" and message in detail
    done = subprocess.run([SHOAL, "worker", "--backend", "torch"], capture_output=True, text=True, timeout=60, check=False,
                          env=dict(os.environ, SHOAL_PYTHON=python))
    assert done.returncode == 1 and message in done.stderr


def test_an_interpreter_without_the_package(tmp_path):
    state, detail = doctor(PYTHONPATH=str(tmp_path))["backend torch"]
    assert state == "none" and "cannot import shoal" in detail and "SHOAL_PYTHON" in detail


def test_without_pytorch_one_message_says_what_to_install(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('not today')")
    path = f"{tmp_path}:{os.environ['PYTHONPATH']}"
    state, detail = doctor(PYTHONPATH=path)["backend torch"]
    assert state == "none" and "PyTorch cannot be imported (not today): install torch" in detail
    done = subprocess.run([SHOAL, "worker", "--backend", "torch"], capture_output=True, text=True, timeout=60, check=False,
                          env=dict(os.environ, PYTHONPATH=path))
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "python3-torch" in done.stderr


# ---- PyTorch ----

@needs_torch
def test_doctor_shows_torch():
    state, detail = doctor()["backend torch"]
    assert state == "ok" and detail.startswith("PyTorch ") and "on the processor" in detail


@needs_torch
def test_a_product_over_the_processor_and_torch(pool, mine):
    pool.lend("w1", "cpu")
    pool.lend("w2", "torch")
    pool.lend("w3", "mine", SHOAL_BACKENDS=str(mine))
    pool.await_workers(3)
    rng = np.random.default_rng(2)
    for n in (7, 301, 640):
        a, b = random_array(rng, n, n + 1), random_array(rng, n + 1, n - 2)
        x = shoal.tensor(a).place(axis=0, slots=pool.session.compute_slots())
        near((x @ shoal.tensor(b)).numpy(), a, b)
    for worker in pool.processes[1:]:
        assert "hands work" not in Pool.log(worker)


@needs_torch
def test_a_language_model_trains_as_on_the_processor():
    made = [run(TRAIN, ROOT / "examples", 4, SHOAL_BACKEND=name) for name in ("cpu", "torch")]
    expected, found = ([float(line) for line in done.stdout.split()] for done in made)
    assert len(expected) == 4 and found == pytest.approx(expected, rel=1e-4), made[1].stderr


@needs_torch
def test_stopped_while_it_starts():
    """Opening PyTorch takes seconds: a signal meanwhile ends the worker all the same."""
    worker = subprocess.Popen([SHOAL, "worker", "--backend", "torch", "--hub", "shm:nobody"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    while "torch" not in Path(f"/proc/{worker.pid}/maps").read_text() and worker.poll() is None:  # it is being opened
        time.sleep(0.01)
    began = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    said, _ = worker.communicate(timeout=120)
    assert worker.returncode in (0, 1) and time.monotonic() - began < 60, said


needs_iree = pytest.mark.skipif(subprocess.run([os.environ["SHOAL_PYTHON"], "-c", "import iree.compiler, iree.runtime"],
                                               capture_output=True, check=False).returncode != 0,
                                reason="IREE is not here: pip install iree-base-compiler iree-base-runtime")
ARTIFACTS = """if True:
    import numpy as np, shoal
    shoal.init(backend="iree")
    a, b = (np.random.default_rng(i).standard_normal(s, np.float32) for i, s in enumerate([(40, 30), (30, 20)]))
    x, w = shoal.from_numpy(a), shoal.from_numpy(b).requires_grad_()
    y = ((x @ w).tanh() * 2 + 1).sum(0)
    (y * y).sum().backward()
    t = np.tanh(a @ b)
    right = (2 * t + 1).sum(0)
    assert np.allclose(y.numpy(), right, 1e-4, 1e-4)
    assert np.allclose(w.grad.numpy(), a.T @ (4 * right * (1 - t * t)), 1e-3, 1e-3)
    assert np.allclose(shoal.from_numpy(a).sin().numpy(), np.sin(a), 1e-5, 1e-6)  # the processor beside it does that
    print([slot.device for slot in shoal.status().slots if slot.compute])"""


@needs_iree
def test_iree_and_its_artifacts(tmp_path):
    def told():
        done = run(ARTIFACTS, XDG_CACHE_HOME=str(tmp_path), SHOAL_LOG="info")
        assert done.returncode == 0, done.stderr
        assert "on the processor" in done.stdout and "iree: " not in done.stderr, done.stderr
        return sorted((tmp_path / "shoal" / "iree").glob("*.vmfb"))
    kept = told()
    assert kept and (tmp_path / "shoal" / "iree").stat().st_mode & 0o77 == 0
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in kept]
    kept[0].write_bytes(before[0][0][:-1] + b"x")  # damaged: made again, the others are used as they are
    assert told() == kept
    assert kept[0].read_bytes()[-1:] != b"x"
    assert [path.stat().st_mtime_ns for path in kept[1:]] == [when for _, when in before[1:]]
