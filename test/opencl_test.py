"""A language model trained over OpenCL, and what an OpenCL process does besides.

Needs an OpenCL driver: PoCL compiles for the processor (apt-get install ocl-icd-libopencl1 pocl-opencl-icd).
OPENCL_FAULTS is the loader that counts launches (test/backend/opencl_faults.c).
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

TRAIN = """
import sys
import numpy as np
import shoal
from shoal import functional, optim
sys.path.insert(0, sys.argv[1])
import gpt
steps = int(sys.argv[2])
rng = np.random.default_rng(5)
model = gpt.GPT(17, 8, 32, 2, 2)
model.load_state_dict({name: shoal.tensor((0.1 * rng.standard_normal(tuple(p.shape))).astype(np.float32))
                       for name, p in model.named_parameters()})
optimizer = optim.AdamW(model.parameters(), lr=1e-2)
text = rng.integers(0, 17, (4, 9))
def train(before, after):
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(before).flatten(0, 1), after.flatten())
    loss.backward()
    optimizer.step()
    return loss
trained = shoal.compile(train, replay=True)
for _ in range(steps):
    print(trained(shoal.tensor(text[:, :-1].copy()), shoal.tensor(text[:, 1:].copy())).item())
"""


def run(program, *arguments, **variables):
    return subprocess.run([sys.executable, "-c", program, *map(str, arguments)], text=True, timeout=280,
                          capture_output=True, env=dict(os.environ, **variables))


def doctor(**variables):
    """What `shoal doctor` finds of the backend: its state and a line about it."""
    done = subprocess.run([os.environ["SHOAL"], "doctor", "--json"], text=True, capture_output=True, timeout=120,
                          env=dict(os.environ, **variables))
    return next((found["state"], found["detail"]) for found in json.loads(done.stdout)["findings"]
                if found["what"] == "backend opencl")


@pytest.fixture(scope="module", autouse=True)
def driver():
    state, detail = doctor()
    if state != "ok":
        pytest.skip(f"no OpenCL device: {detail}")


def losses(steps, **variables):
    done = run(TRAIN, ROOT / "examples", steps, **variables)
    assert done.returncode == 0, done.stderr
    return [float(line) for line in done.stdout.split()]


def test_a_language_model_trains_as_on_the_processor(tmp_path, capsys):
    expected = losses(4, SHOAL_BACKEND="cpu")
    launches = []
    for steps in (2, 4):
        counts = tmp_path / f"launches{steps}"
        found = losses(steps, SHOAL_BACKEND="opencl", SHOAL_OPENCL_COUNT=str(counts),
                       SHOAL_OPENCL_LIBRARY=os.environ["OPENCL_FAULTS"])
        assert found == pytest.approx(expected[:steps], rel=1e-4)
        launches.append(sum(map(int, counts.read_text().split())))
    assert expected[-1] < expected[0]
    each = (launches[1] - launches[0]) / 2
    with capsys.disabled():
        print(f"launches: {each:g} for each training step of 2 layers")
    assert each == int(each) and 0 < each < 250


def test_a_language_model_trains_likewise_on_a_device_that_is_late():
    expected = losses(2, SHOAL_BACKEND="cpu")
    assert losses(2, SHOAL_BACKEND="lag") == pytest.approx(expected, rel=1e-4)


def test_a_value_is_copied_beside_itself():
    """PoCL 3.1 takes a copy of one row within a buffer for an overlap when it is asked for as a rectangle."""
    program = """
import numpy as np
import shoal
shoal.connect("embedded")
for n in (9, 1000, 4099):
    x = shoal.tensor(np.arange(n))
    a = x * 3
    before = a + 1
    a[5:n - 3] = before[:n - 8]
    print(np.array_equal((a + before).numpy(), np.r_[:5, 0:n - 8, n - 3:n] * 3 + np.r_[[0] * 5, [1] * (n - 8), [0] * 3]
                         + np.arange(n) * 3 + 1))
print([slot.backend for slot in shoal.status().slots if slot.compute])
"""
    done = run(program, SHOAL_BACKEND="opencl")
    assert done.stdout == "True\nTrue\nTrue\n['opencl']\n", done.stderr


def test_random_programs_whose_checks_fail():
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "embedded",
                           ROOT / "test" / "failing_programs_test.py"], text=True, capture_output=True, timeout=280,
                          env=dict(os.environ, SHOAL_BACKEND="opencl"))
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout


def test_what_was_built_is_found_again_and_broken_files_are_made_again(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    program = "import shoal; x = shoal.tensor([1.0, 2.0, 3.0]); print((x * x + 1).numpy().tolist())"
    variables = {"SHOAL_BACKEND": "opencl", "XDG_CACHE_HOME": str(cache), "HOME": str(tmp_path)}
    for turn in range(3):
        done = run(program, **variables)
        assert done.stdout.strip() == "[2.0, 5.0, 10.0]", done.stderr
        entries = sorted((cache / "shoal" / "opencl").iterdir())
        assert entries and all(entry.stat().st_size > 100 for entry in entries)
        if turn == 0:  # half of one, and another's in its place
            for i, entry in enumerate(entries):
                whole = entry.read_bytes()
                entry.write_bytes(whole[:len(whole) // 2] if i % 2 else bytes(len(whole)))
        if turn == 1:
            assert all(entry.read_bytes().startswith(b"shoal opencl 1") for entry in entries)


def test_without_a_loader_doctor_says_what_to_install():
    state, detail = doctor(SHOAL_OPENCL_LIBRARY="/nowhere/libOpenCL.so.1")
    assert state == "none" and "/nowhere/libOpenCL.so.1" in detail
    assert "install an OpenCL loader and a driver" in detail


OWN = '''
import os
import numpy as np
from shoal import hosted

SWISH = """
float half_of(float x) { return x / 2; }
void operation(long item, const __global x0_t *x0, __global y0_t *y0) {
    y0[item] = half_of(x0[item]) + 1000;  // which tells it from the function of NumPy
}
"""
TABLE = """
void operation(long item, const __global x0_t *x0, const __global x1_t *x1, __global y0_t *y0) {
    y0[item] = (y0_t)x0[item / y0_dims[1]] * 1000 + x1[item % x1_dims[0]] + 100000 * (x0_rank + y0_rank);
}
"""
hosted.register_op("half", lambda x: x / 2, opencl=SWISH)
hosted.register_op("other", lambda x: x / 2, opencl=SWISH.replace("+ 1000", "+ 2000"))
hosted.register_op("table", lambda a, b: np.add.outer(a * 1000, b), opencl=TABLE)
hosted.register_op("broken", lambda x: x + 1, opencl="void operation(long item) { nothing_like_that(); }")
'''
USE = """
import sys
import numpy as np
import shoal
import own
from shoal.hosted import Op
x = np.linspace(-3, 3, 35, dtype="f4").reshape(5, 7)
half, other, table = Op("half"), Op("other"), Op("table")
y = (half(shoal.tensor(x).T * 2) - other(shoal.tensor(x).T)).numpy()  # one program, one helper's name twice
assert np.allclose(y, x.T / 2 - 1000, atol=1e-3), y
for dtype in ("float64", "int32"):
    a, b = np.arange(5).astype(dtype), np.arange(3)
    made = table(shoal.tensor(a), shoal.tensor(b), shape=(5, 3)).numpy()
    assert np.array_equal(made, np.add.outer(a * 1000, b) + 300000), made
assert half(shoal.tensor(np.zeros((0, 4), "f4"))).shape == (0, 4)
assert half(shoal.tensor(np.float32(3))).item() == 1001.5
assert half(shoal.tensor(x).half()).numpy()[0, 0] == -1.5  # of half precision: NumPy's function
above = Op("above_mean", axis=1)(shoal.tensor(x), shoal.tensor(x[::-1].copy())).numpy()
assert np.allclose(above, np.maximum(x, x[::-1].mean(1, keepdims=True)), atol=1e-6)
assert np.array_equal(Op("broken")(shoal.tensor(x)).numpy(), x + 1)
print("right")
"""


def test_operations_of_ones_own_have_source(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    done = run(USE, SHOAL_BACKEND="opencl", SHOAL_BACKENDS=os.environ["OWN"],
               PYTHONPATH=f"{tmp_path}:{os.environ['PYTHONPATH']}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "right\n"
    print(done.stderr)
    assert re.search("broken: .*nothing_like_that", done.stderr, re.S)  # whose work NumPy did
