"""A language model trained over OpenCL or CUDA, and what such a process does besides. SHOAL_BACKEND says which.

OpenCL needs a driver: PoCL compiles for the processor (apt-get install ocl-icd-libopencl1 pocl-opencl-icd), and
OPENCL_FAULTS is the loader that counts launches (test/backend/opencl_faults.c). CUDA has a stand-in that counts, too
(test/backend/cuda_standin.h).
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BACKEND = os.environ.get("SHOAL_BACKEND")
LIBRARY = {"opencl": "SHOAL_OPENCL_LIBRARY", "cuda": "SHOAL_CUDA_LIBRARY"}.get(BACKEND)

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
                if found["what"] == f"backend {BACKEND}")


@pytest.fixture(scope="module", autouse=True)
def driver():
    state, detail = doctor()
    if state != "ok":
        pytest.skip(f"no device of {BACKEND}: {detail}")


def counting(path):
    """The variables by which launches are counted in a file; on an NVIDIA device nobody counts."""
    if BACKEND == "cuda":
        return {"STANDIN_COUNT": str(path)}
    return {"SHOAL_OPENCL_COUNT": str(path), "SHOAL_OPENCL_LIBRARY": os.environ["OPENCL_FAULTS"]}


def losses(steps, **variables):
    done = run(TRAIN, ROOT / "examples", steps, **variables)
    assert done.returncode == 0, done.stderr
    # Checks of indices and random numbers alone are the processor's: no tensor leaves the device for it.
    assert set(re.findall(r"hands work to cpu: (.*)", done.stderr)) <= {"it has no random", "it has no in_range"}
    return [float(line) for line in done.stdout.split()]


def test_a_language_model_trains_as_on_the_processor(tmp_path, capsys):
    expected = losses(4, SHOAL_BACKEND="cpu")
    launches = []
    for steps in (2, 4):
        counts = tmp_path / f"launches{steps}"
        found = losses(steps, **counting(counts))
        assert found == pytest.approx(expected[:steps], rel=1e-4)
        launches.append(sum(map(int, counts.read_text().split())) if counts.exists() else None)
    assert expected[-1] < expected[0]
    if BACKEND == "cuda" and "STANDIN" not in os.environ:
        return
    each = (launches[1] - launches[0]) / 2
    with capsys.disabled():
        print(f"launches: {each:g} for each training step of 2 layers")
    assert each == int(each) and 0 < each < 250


PICTURES = """
import numpy as np
import shoal
from shoal import functional, nn, optim
rng = np.random.default_rng(0)
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1), nn.Conv2d(8, 8, 3, groups=8),
                    nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(8 * 4, 10))
net.load_state_dict({name: shoal.tensor((0.2 * rng.standard_normal(tuple(value.shape))).astype("f4"))
                     for name, value in net.state_dict().items()})
optimizer = optim.SGD(net.parameters(), lr=0.05)
x, y = rng.standard_normal((5, 3, 12, 13)).astype("f4"), rng.integers(0, 10, 5)
for _ in range(4):
    optimizer.zero_grad()
    loss = functional.cross_entropy(net(shoal.tensor(x)), shoal.tensor(y))
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


@pytest.mark.skipif(BACKEND != "cuda", reason="of devices with many lanes; opencl is a processor here, which cpu serves better")
def test_a_convolutional_net_trains_as_on_the_processor():
    on_processor = run(PICTURES, SHOAL_BACKEND="cpu")
    found = run(PICTURES)
    assert found.returncode == 0, found.stderr
    expected = [float(line) for line in on_processor.stdout.split()]
    assert [float(line) for line in found.stdout.split()] == pytest.approx(expected, rel=1e-4)
    assert len(expected) == 4 and expected[-1] < expected[0]
    assert set(re.findall(r"hands work to cpu: (.*)", found.stderr)) <= {"it has no random", "it has no in_range"}


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
    done = run(program)
    assert done.stdout == f"True\nTrue\nTrue\n['{BACKEND}']\n", done.stderr


def test_random_programs_whose_checks_fail():
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "embedded",
                           ROOT / "test" / "failing_programs_test.py"], text=True, capture_output=True, timeout=280,
                          env=os.environ)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout


def test_what_was_built_is_found_again_and_broken_files_are_made_again(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    program = "import shoal; x = shoal.tensor([1.0, 2.0, 3.0]); print((x * x + 1).numpy().tolist())"
    variables = {"XDG_CACHE_HOME": str(cache), "HOME": str(tmp_path)}
    for turn in range(3):
        done = run(program, **variables)
        assert done.stdout.strip() == "[2.0, 5.0, 10.0]", done.stderr
        entries = sorted((cache / "shoal" / BACKEND).iterdir())
        assert entries and all(entry.stat().st_size > 100 for entry in entries)
        if turn == 0:  # half of one, and another's in its place
            for i, entry in enumerate(entries):
                whole = entry.read_bytes()
                entry.write_bytes(whole[:len(whole) // 2] if i % 2 else bytes(len(whole)))
        if turn == 1:
            assert all(entry.read_bytes().startswith(f"shoal {BACKEND} 1".encode()) for entry in entries)


def test_without_a_loader_doctor_says_what_to_install():
    state, detail = doctor(**{LIBRARY: "/nowhere/lib.so.1"})
    assert state == "none" and "/nowhere/lib.so.1" in detail
    assert {"opencl": "install an OpenCL loader and a driver", "cuda": "install NVIDIA's driver"}[BACKEND] in detail


@pytest.mark.skipif(BACKEND != "cuda", reason="of CUDA's libraries")
def test_what_cuda_lacks_is_told():
    state, detail = doctor(SHOAL_CUDA_NVRTC="/nowhere/libnvrtc.so.12")
    assert state == "none" and "NVRTC" in detail and "install the CUDA toolkit" in detail and "/nowhere/libnvrtc.so.12" in detail
    state, detail = doctor(SHOAL_CUDA_CUBLAS="/nowhere/libcublas.so.12")
    assert state == "ok" and "without cuBLAS" in detail
    assert "without cuBLAS" not in doctor()[1]


PRODUCT = """
import numpy as np
import shoal
rng = np.random.default_rng(3)
for shape in ((), (3,)):
    a, b = (rng.standard_normal((*shape, 65, 67)).astype("f4") for _ in range(2))
    for x, y in ((a, b.swapaxes(-1, -2)), (a.swapaxes(-1, -2), b)):
        product = (shoal.tensor(a) @ shoal.tensor(b).mT if x is a else shoal.tensor(a).mT @ shoal.tensor(b)).numpy()
        print(np.abs(product - x.astype("f8") @ y).max())
"""


@pytest.mark.skipif("STANDIN" not in os.environ, reason="of the stand-in, which counts")
@pytest.mark.parametrize(("variables", "least", "most", "products"), [
    ({}, 0, 2e-5, True), ({"SHOAL_CUDA_TF32": "1"}, 1e-3, 2e-2, True), ({"SHOAL_CUDA_CUBLAS": "/nowhere"}, 0, 2e-5, False)])
def test_products_are_by_cublas_and_in_tf32_where_it_is_asked_for(tmp_path, variables, least, most, products):
    counts = tmp_path / "counts"
    done = run(PRODUCT, STANDIN_COUNT=str(counts), **variables)
    assert done.returncode == 0, done.stderr
    errors = [float(line) for line in done.stdout.split()]
    assert len(errors) == 4 and all(least <= error <= most for error in errors)
    assert (sum(int(line.split()[1]) for line in counts.read_text().splitlines()) >= 4) == products


@pytest.mark.skipif("STANDIN" not in os.environ, reason="of the stand-in, which is any device")
@pytest.mark.parametrize("variables", [{"STANDIN_CAPABILITY": "120"}, {"STANDIN_PITCH": "64"}, {"STANDIN_DEVICES": "2"}])
def test_other_devices(tmp_path, variables):
    """One that the compiler does not know, one whose copies have short rows, and two."""
    program = """
import numpy as np
import shoal
x = np.arange(40 * 50 * 3, dtype="f4").reshape(40, 50, 3)
t = shoal.tensor(x)
t[3:9, 5:] = t[13:19, 5:] * 2
x[3:9, 5:] = x[13:19, 5:] * 2
slots = [slot for slot in shoal.status().slots if slot.compute]
big = np.arange(3001 * 1703, dtype="f4").reshape(3001, 1703)  # more than is moved at once
print(len(slots), np.array_equal((t + 1).numpy()[2:, ::3], (x + 1)[2:, ::3]),
      np.array_equal((shoal.tensor(big).place(parts=(1, len(slots))) * 2).numpy(), big * 2))
"""
    done = run(program, XDG_CACHE_HOME=str(tmp_path), **variables)
    assert done.stdout == f"{variables.get('STANDIN_DEVICES', 1)} True True\n", done.stderr


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
def both(source):
    """OpenCL C, and the same as CUDA C++."""
    cuda = source.replace("float half_of", "__device__ float half_of").replace("void op", "__device__ void op")
    return {"opencl": source, "cuda": cuda.replace("const __global", "const").replace("__global", "").replace("long item", "long long item")}
hosted.register_op("half", lambda x: x / 2, **both(SWISH))
hosted.register_op("other", lambda x: x / 2, **both(SWISH.replace("+ 1000", "+ 2000")))
hosted.register_op("table", lambda a, b: np.add.outer(a * 1000, b), **both(TABLE))
hosted.register_op("broken", lambda x: x + 1, **both("void operation(long item) { nothing_like_that(); }"))
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
assert half(shoal.tensor(np.float32(3))).item() == 1001.5  # the device goes on
print("right")
"""


def test_operations_of_ones_own_have_source(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    done = run(USE, SHOAL_BACKENDS=os.environ["OWN"],
               PYTHONPATH=f"{tmp_path}:{os.environ['PYTHONPATH']}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "right\n"
    print(done.stderr)
    assert re.search("broken: .*nothing_like_that", done.stderr, re.S)  # whose work NumPy did
