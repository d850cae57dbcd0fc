"""Workers that lend the devices of libggml, beside others: shares, results, and one that ends.

Needs libggml: SHOAL_GGML names it, or a folder of it, such as the one in the wheel of pywhispercpp (tools/install.sh test).
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import shoal
from cluster import Pool, SHOAL, near, random_array


FUNCTIONS = re.findall(r"^    XX\([^(]*?(\w+), \(", (pathlib.Path(__file__).parent.parent / "src/backend/ggml/device.h")
                       .read_text(encoding="utf-8"), re.M)


def compiled(folder, source, *options, name="libggml.so"):
    """A shared library."""
    (folder / "made.c").write_text(source + "\n", encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / name, folder / "made.c", *options], check=True)
    return str(folder / name)


def fake(folder, **functions):
    """A library with all functions that are used, which do nothing but what is given here."""
    bodies = {name: "() { return 0; }" for name in FUNCTIONS} | functions
    return compiled(folder, "#include <stdlib.h>\n#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\n"
                    "static char told[512];\n"
                    + "".join(f"long ggml_{name}{body}\n" for name, body in bodies.items()))


def around(folder, source):
    """A library that has these functions, and all others of the one that is there."""
    named = pathlib.Path(os.environ.get("SHOAL_GGML", "/usr/lib"))
    paths = sorted(named.glob("libggml.so*")) + sorted(named.glob("libggml-*.so*")) if named.is_dir() else [named]
    path = next(p for p in paths if re.match(r"libggml(-[0-9a-f]{8})?\.so", p.name))
    return compiled(folder, source, "-Wl,--no-as-needed", path, f"-Wl,-rpath,{path.parent}", name="around.so")


# What it is told to load becomes the name of a device.
LOADS = {"backend_dev_count": "() { return *told != 0; }", "backend_dev_get": "() { return 1; }",
         "backend_dev_name": "() { return (long)told; }", "backend_dev_description": '() { return (long)"fake"; }',
         "backend_load_all_from_path": '(const char *all) { strcpy(told, all ? strrchr(all, \'/\') + 1 : "nowhere"); return 0; }',
         "backend_load": '(const char *one) { strncat(told, strrchr(one, \'/\'), 12); return 0; }'}


def doctor(**variables):
    """What `shoal doctor` finds of the backend: its state and a line about it."""
    done = subprocess.run([SHOAL, "doctor", "--json"], text=True, capture_output=True, timeout=120, check=False,
                          env={**os.environ, **variables})
    return next((found["state"], found["detail"]) for found in json.loads(done.stdout)["findings"]
                if found["what"] == "backend ggml")


@pytest.fixture
def library():
    state, detail = doctor()
    if state != "ok":
        pytest.skip(f"no libggml ({detail}); tools/install.sh test gets one")


class Mixed(Pool):
    """A hub and a worker for each device that is named."""

    def __init__(self, *devices):
        self.devices = dict(zip((f"w{i + 1}" for i in range(len(devices))), devices))
        super().__init__(len(devices))

    def add(self, name, hub=None):
        worker = self.start("worker", "--once", "--hub", hub or self.address, "--name", name, "--threads", "1",
                            "--device", self.devices[name])
        self.processes.append(worker)
        return worker


@pytest.fixture
def pool(library):
    p = Mixed("cpu", "ggml")
    yield p
    p.close()


def slots():
    return sorted(f"{s.worker}/{s.name}" for s in shoal.status().slots if s.compute)


def test_its_devices_are_lent_by_name_alone(library):
    variables = {name: value for name, value in os.environ.items() if name != "SHOAL_BACKEND"}
    program = ("import shoal; (shoal.tensor([1.0, 2.0]) @ shoal.tensor([3.0, 4.0])).item();"
               "print('libggml' in open('/proc/self/maps').read())")
    for device, opened in (None, "False"), ("ggml", "True"):
        done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, timeout=60, check=False,
                              env={**variables, **({"SHOAL_BACKEND": device} if device else {})})
        assert done.stdout.strip() == opened, done.stderr


@pytest.mark.parametrize("m, k, n", [(300, 301, 298), (1, 257, 513), (513, 1, 7), (67, 4, 1), (0, 3, 5), (3, 0, 5)])
def test_a_product_is_split_over_a_processor_and_ggml(pool, m, k, n):
    rng = np.random.default_rng(m + k + n)
    a, b = random_array(rng, m, k), random_array(rng, k, n)
    left = shoal.tensor(a)
    near((left @ shoal.tensor(b)).numpy(), a, b)
    if m > 1:
        near((left.place(axis=0) @ shoal.tensor(b)).numpy(), a, b)
    assert slots() == ["w1/cpu", "w2/ggml"]


@pytest.mark.parametrize("shape, axis", [((37, 41), 1), ((5, 7, 9), 1), ((5, 7, 9), 2), ((3, 4, 5, 6), 1), ((1, 9), 1)])
def test_parts_that_lie_scattered_in_a_tensor_are_moved(pool, shape, axis):
    a = random_array(np.random.default_rng(len(shape)), *shape)
    parts = shoal.tensor(a).place(axis=axis)
    assert np.array_equal(parts.numpy(), a)
    doubled = parts + parts
    assert np.array_equal(doubled.numpy(), a + a)
    assert np.array_equal(doubled.place(axis=0).numpy(), a + a)
    assert np.array_equal(doubled.to("ggml").transpose(0, axis).numpy(), (a + a).swapaxes(0, axis))


def test_what_ggml_has_no_form_for_is_done_beside_it(pool):
    a = np.random.default_rng(7).integers(-2, 3, (64, 48)).astype("f4")  # small integers, which are exact
    x = shoal.tensor(a).place(axis=0)
    y = shoal.softmax((x @ x.T).cumsum(1), 1).argmax(1)
    assert np.array_equal(y.numpy(), np.cumsum(a @ a.T, 1).argmax(1))
    whole = np.arange(7 * 5, dtype=np.int64).reshape(7, 5)
    assert np.array_equal((shoal.tensor(whole).place(axis=0) * 3 % 4).sum(0).numpy(), (whole * 3 % 4).sum(0))


def test_a_worker_that_is_killed_is_recovered_from(pool):
    rng = np.random.default_rng(8)
    a, b = random_array(rng, 256, 256), random_array(rng, 256, 256)
    rows = shoal.tensor(a).place(axis=0)
    made = rows @ shoal.tensor(b)
    near(made.numpy(), a, b)
    pool.worker(1).send_signal(signal.SIGABRT)  # as ggml does, where it finds something wrong
    near((rows @ shoal.tensor(b)).numpy(), a, b)
    near(made.numpy(), a, b)
    status = shoal.status()
    assert status.losses == 1 and slots() == ["w1/cpu"]


def test_without_the_library_doctor_and_workers_say_what_to_install(tmp_path):
    lacks = tmp_path / "lacks"
    lacks.mkdir()
    nowhere = compiled(lacks, "void nowhere(void) {}", "-Wl,-soname,libnowhere.so", name="libnowhere.so")
    compiled(lacks, "void nowhere(void); void other(void) { nowhere(); }", nowhere)
    os.remove(nowhere)
    for path, message in (("/nowhere/libggml.so", "library not found: /nowhere/libggml.so"),
                          (str(tmp_path), f"SHOAL_GGML: there is no libggml in {tmp_path}"),
                          (__file__, f"library not found: {__file__}: invalid ELF header"),
                          (str(lacks), "library not found: libnowhere.so: cannot open shared object file")):
        state, detail = doctor(SHOAL_GGML=path)
        assert state == "none" and message in detail and "install ggml" in detail
        done = subprocess.run([SHOAL, "worker", "--device", "ggml"], capture_output=True, text=True, timeout=60,
                              check=False, env={**os.environ, "SHOAL_GGML": path})
        assert done.returncode == 1 and "backend ggml: " in done.stderr and message in done.stderr


@pytest.mark.parametrize("source, message", [
    ("void ggml_log_set(void) {}", "has no 'ggml_init': install a newer one"),
    ('const char *ggml_version(void) { return "1.0.3"; }', "libggml 1.0.3 is none of the versions 0.x that are known"),
])
def test_a_library_that_will_not_do_is_refused(tmp_path, source, message):
    compiled(tmp_path, source)
    state, detail = doctor(SHOAL_GGML=str(tmp_path))
    assert state == "none" and message in detail


def test_devices_that_are_libraries_of_their_own_are_loaded(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    path = fake(folder, **LOADS)
    for name in ("libggml-vulkan-0a1b2c3d.so", "libggml-cuda.so", "libggml-sycl-0a1b2c3d.so.0.12", "libggml-rpc-0a1b2c3d.so"):
        (folder / name).touch()
    # ggml itself finds those without a number in their names.
    assert doctor(SHOAL_GGML=str(folder)) == ("ok", "own/libggml-vul/libggml-syc: fake, ggml ?")
    assert doctor(SHOAL_GGML=path) == ("ok", "nowhere: fake, ggml ?")
    state, detail = doctor(SHOAL_GGML=fake(tmp_path))
    assert state == "none" and detail.endswith("libggml ? has no device: install one of its backends")


def test_doctor_tells_the_device_and_the_version(library):
    state, detail = doctor()
    assert state == "ok" and ", ggml 0." in detail and "CPU" in detail


# ---- a library that ends its process, or hangs: nobody else is to notice ----

def test_a_library_that_aborts_is_a_line_of_the_list(tmp_path):
    path = fake(tmp_path, backend_dev_count='() { fputs("ggml.c:1: GGML_ASSERT(false) failed\\n", stderr); abort(); }')
    state, detail = doctor(SHOAL_GGML=path)
    assert state == "none" and re.search(
        r"the process that opened it was ended by signal 6 \(Aborted\): .*GGML_ASSERT\(false\) failed$", detail), detail
    named = subprocess.run([SHOAL, "backends", "ggml"], capture_output=True, text=True, timeout=60, check=False,
                           env={**os.environ, "SHOAL_GGML": path})
    assert named.returncode == -signal.SIGABRT  # who names it, opens it


def test_a_library_that_exits_is_a_line_of_the_list(tmp_path):
    state, detail = doctor(SHOAL_GGML=fake(tmp_path, backend_dev_count="() { _exit(3); }"))
    assert state == "none" and detail.endswith("the process that opened it ended with code 3"), detail


def test_a_library_that_hangs_is_left_alone(tmp_path):
    path = fake(tmp_path, backend_dev_count="() { for (;;) sleep(1000); }")
    found = json.loads(subprocess.run([SHOAL, "backends", "--json"], capture_output=True, text=True, timeout=100, check=True,
                                      env={**os.environ, "SHOAL_GGML": path}).stdout)
    assert [(f["device"], f["reason"]) for f in found if f["backend"] == "ggml"] == \
        [(None, "it did not answer within 20 s")]
    assert {"cpu", "ref", "null"} <= {f["backend"] for f in found if f["device"]}


def test_python_opens_it_where_it_is_named_alone(tmp_path):
    program = ("from shoal import kernels; import sys; found = [d for d in kernels.devices(*sys.argv[1:])"
               " if d.backend == 'ggml']; print(len(found), found[0].name, found[0].reason)")
    path = fake(tmp_path, backend_dev_count="() { abort(); }")
    listed, named = (subprocess.run([sys.executable, "-c", program, *name], capture_output=True, text=True, timeout=60,
                                    check=False, env={**os.environ, "SHOAL_GGML": path}) for name in ([], ["ggml"]))
    assert listed.stdout == ("1 None not asked, as its library may end the process that opens it: "
                             "'shoal backends ggml' does\n"), listed.stderr
    assert named.returncode == -signal.SIGABRT


ABORTS = """#include <stddef.h>
void ggml_abort(const char *file, int line, const char *format, ...);
int ggml_backend_graph_compute(void *engine, void *graph) {
    ggml_abort("ops.c", 7, "GGML_ASSERT(%s) failed", "a < b");
    return 0;
}"""


def test_a_worker_whose_library_aborts_is_recovered_from(library, tmp_path, monkeypatch):
    monkeypatch.setenv("SHOAL_GGML", around(tmp_path, ABORTS))
    pool = Mixed("cpu", "ggml")
    try:
        rng = np.random.default_rng(9)
        a, b = random_array(rng, 257, 129), random_array(rng, 129, 65)
        assert slots() == ["w1/cpu", "w2/ggml"]
        near((shoal.tensor(a).place(axis=0) @ shoal.tensor(b)).numpy(), a, b)
        assert pool.worker(1).wait(60) == -signal.SIGABRT
        assert shoal.status().losses == 1 and slots() == ["w1/cpu"]
        told = [line for line in pool.log(pool.worker(1)).splitlines() if "GGML_ASSERT" in line]
        assert len(told) == 1 and told[0].endswith(
            "error ggml: libggml ends this process: ops.c:7: GGML_ASSERT(a < b) failed"), pool.report()
        assert pool.log(pool.processes[0]).count(" warn hub: w2 left ") == 1, pool.report()
    finally:
        pool.close()


@pytest.mark.parametrize("source", [
    "void *ggml_init(long a, void *b, long c) { return NULL; }",
    "int ggml_backend_graph_compute(void *engine, void *graph) { return 1; }",
    "int ggml_backend_tensor_alloc(void *buffer, void *tensor, void *at) { return -1; }",
    "void *ggml_backend_buft_alloc_buffer(void *kind, size_t bytes) { return NULL; }",
    "int ggml_backend_dev_supports_op(void *dev, void *op) { return 0; }",
], ids=["init", "compute", "tensor", "buffer", "supports"])
def test_what_a_device_fails_in_is_done_beside_it(library, tmp_path, monkeypatch, source):
    monkeypatch.setenv("SHOAL_GGML", around(tmp_path, "#include <stddef.h>\n" + source))
    pool = Mixed("cpu", "ggml")
    try:
        rng = np.random.default_rng(10)
        a, b = random_array(rng, 33, 65), random_array(rng, 65, 17)
        x = shoal.tensor(a).place(axis=0)
        near((x @ shoal.tensor(b)).numpy(), a, b)
        assert np.array_equal((x + x).numpy(), a + a)
    finally:
        pool.close()
