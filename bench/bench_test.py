"""The harness against a stand-in for the product: a package and a command that NumPy computes."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import lib  # noqa: E402

PACKAGE = '''
import numpy as np
class Tensor:
    def __init__(self, array): self.array = array
    def place(self, axis=None, shares=None, slots=None): return Tensor(self.array.copy())
    def __matmul__(self, other): return Tensor(self.array @ other.array + ERROR)
    def numpy(self): return self.array.copy()
ERROR = 0
def connect(address): assert address.startswith("shm:/")
def from_numpy(array, copy=True): return Tensor(array)
def sync(): pass
'''
COMMAND = '''#!{python}
import pathlib, sys, time
words = [word for word in sys.argv[1:] if word != "--once"]
options = dict(zip(words[1::2], words[2::2]))
folder = pathlib.Path(options.get("--address", options.get("--hub"))[4:] + ".workers")
if words[0] == "status":
    if not folder.exists(): sys.exit("no hub")
    print("workers", *(path.name for path in sorted(folder.iterdir())))
    sys.exit(0)
if words[0] == "hub":
    folder.mkdir()
else:
    assert options["--threads"] == "1"
    (folder / options["--name"]).touch()
time.sleep(60)
'''


@pytest.fixture(name="build")
def make_build(tmp_path):
    for name in ("python", "cmd", "bench"):
        (tmp_path / name).mkdir()
    (tmp_path / "python" / "shoal.py").write_text(PACKAGE)
    programs = {"cmd/shoal": COMMAND.format(python=sys.executable), "bench/start": "#!/bin/sh\n",
                "bench/blas": "#!/bin/sh\necho ready\nwhile read x; do echo 0.001; done\n"}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def run(build, *words):
    variables = dict(os.environ, SHOAL_BENCH_BUILD=str(build), SHOAL_BENCH_OPENBLAS="none",
                     VIRTUAL_ENV=sys.prefix)
    done = subprocess.run([sys.executable, str(ROOT / "bench" / "run"), "--quick", *words],
                          capture_output=True, text=True, env=variables, timeout=120, check=False)
    path = build / "bench.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return done, {row["name"]: row for row in rows}


def test_rows(build):
    done, rows = run(build, "pool.matmul.vs_blas", "pool.table", "bytes", "start.c_ms", "start.python_ms")
    assert done.returncode == 0, done.stderr
    assert list(rows) == ["pool.matmul.vs_blas", "pool.matmul.vs_one", "pool.table.50_50",
                          "pool.table.70_30", "pool.table.three", "cm.table.vs_blas", "bytes.up",
                          "bytes.down", "start.c_ms", "start.python_ms"]
    for row in rows.values():
        assert {"name", "value", "unit", "peer", "ratio", "runs", "spread"} <= set(row)
        assert row["value"] > 0 and row["ratio"] > 0 and row["runs"] >= 2 and row["quick"]
    assert rows["start.c_ms"]["ratio"] == pytest.approx(20 / rows["start.c_ms"]["value"])
    document = build / "B.md"
    document.write_text("before\n<!-- figures: made by tools/bench_table.py -->\nold\n"
                        "<!-- end of figures -->\nafter\n")
    command = [sys.executable, str(ROOT / "tools" / "bench_table.py"), str(build / "bench.json"),
               str(document)]
    for _ in range(2):  # the second time over its own work
        subprocess.run(command, check=True)
    text = document.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert text.count("| bytes.up |") == 1 and "`bench/run bytes.up`" in text
    assert "quick run, not a figure" in text
    # Single rows that are measured later replace those of their names; the others stay.
    sys.path.insert(0, str(ROOT / "tools"))
    import bench_table
    content = json.loads((build / "bench.json").read_text())
    up, start = (next(row for row in content["rows"] if row["name"] == name) for name in ("bytes.up", "start.c_ms"))
    for n, some in enumerate([[up | {"value": 77}], [up | {"value": 78}, start | {"name": "new.row"}]]):
        later = content | {"rows": some, "machine": content["machine"] | {"date": f"2099-0{n + 1}"}}
        text = bench_table.put(text, bench_table.BEGIN, bench_table.merged(text, later))
    assert text.count("| bytes.up | 78 GB/s |") == text.count("| bytes.up |") == 1
    assert "| new.row |" in text.splitlines()[-3] and text.count("| bytes.down |") == 1
    assert "Later, bytes.up, new.row: 2099-02" in text and "2099-01" not in text and "\n\n\n" not in text


def test_one_row_leaves_the_others(build):
    (build / "bench.json").write_text(json.dumps({"rows": [{"name": "bytes.up", "value": 7}]}))
    done, rows = run(build, "start.c_ms")
    assert done.returncode == 0, done.stderr
    assert rows["bytes.up"]["value"] == 7 and "start.c_ms" in rows


def test_failures_are_told(build):
    done, _ = run(build, "nothing")
    assert done.returncode == 2 and "no figure begins with 'nothing'" in done.stderr
    (build / "bench" / "start").write_text("#!/bin/sh\necho because >&2\nexit 3\n")
    done, rows = run(build, "start.c_ms", "start.python_ms")
    assert done.returncode == 1 and "ended with code 3: because" in done.stderr
    assert list(rows) == ["start.python_ms"]  # the other one was measured all the same


def test_a_peer_with_a_verb_of_its_own(build, monkeypatch):
    monkeypatch.setenv("SHOAL_BENCH_GGML", str(build))
    done, _ = run(build, "qgemv.q4_0.vs_ggml")
    assert done.returncode == 1 and f"Absent: no libggml-base.so in {build}; `make ggml` builds" in done.stderr
    # Where all are run, of which there is but this one here, it is no failure.
    code = ("import runpy, sys; sys.path.insert(0, 'bench'); sys.argv = ['bench/run', '--quick', '--json', sys.argv[1]]; "
            "import figures, kernels; figures.TABLE = [(['qgemm.q4_0.vs_ggml'], kernels.qgemm_ggml('q4_0'))]; "
            "runpy.run_path('bench/run', run_name='__main__')")
    done = subprocess.run([sys.executable, "-c", code, build / "all.json"], cwd=ROOT, capture_output=True, text=True,
                          env=dict(os.environ, SHOAL_BENCH_BUILD=str(build), VIRTUAL_ENV=sys.prefix), check=False)
    assert done.returncode == 0 and "qgemm.q4_0.vs_ggml: skipped: no libggml-base.so" in done.stderr


def test_a_wrong_product_has_no_figure(build):
    package = build / "python" / "shoal.py"
    package.write_text(package.read_text().replace("ERROR = 0", "ERROR = 1"))
    done, rows = run(build, "pool.matmul.vs_one")
    assert done.returncode == 1 and not rows and "the product is wrong" in done.stderr


def test_a_hub_that_does_not_start_is_told(build):
    (build / "cmd" / "shoal").write_text("#!/bin/sh\necho the address is taken >&2\nexit 1\n")
    done, _ = run(build, "bytes")
    assert done.returncode == 1 and "the address is taken" in done.stderr


def test_a_race_alternates():
    order = []
    times = lib.race({"a": lambda: order.append("a") or 2.0, "b": lambda: order.append("b") or 4.0},
                     runs=3, warm=1)
    assert order == ["a", "b", "b", "a", "a", "b", "b", "a"]
    assert times == {"a": [2.0] * 3, "b": [4.0] * 3}


def test_the_meaning_of_a_row():
    row = lib.versus("x", 8, "GB/s", "p", [2.0, 4.0, 3.0], [6.0, 6.0], {"ratio": 1.8})
    assert (row["value"], row["peer_value"], row["ratio"]) == (8 / 3, 8 / 6, 2.0)
    assert row["spread"] == pytest.approx(2 / 3) and row["met"] and not row["lost"]
    row = lib.versus("x", 8, "GB/s", "p", [4.0], [2.0], {"value": 3.0})
    assert row["lost"] and not row["met"]
    row = lib.against_bar("x", [0.04], 20)
    assert row["ratio"] == 0.5 and not row["met"] and not row["lost"]


def test_the_readme_shows_these_figures():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "bench_table.py"), "--check"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
