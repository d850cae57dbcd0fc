"""hunt.py as people use it; the programs that it prints, run."""
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "conformance")]

import golden  # noqa: E402
import ways  # noqa: E402

HUNT = pathlib.Path(os.environ["HUNT"])
CORPUS = sorted((HERE / "corpus").glob("*.mlir"))
OTHER_RESULTS = ("gradient", "nearly", "out_of_range", "infinite_rate", "far_places")  # files whose results are of another kind, or any


def run(*arguments, status=0):
    done = subprocess.run([sys.executable, HERE / "hunt.py", "--hunt", HUNT, *map(str, arguments)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def test_table(tmp_path):
    lines = run("cpu", "numpy", "--count", 50, "--seed", 1, "--keep", tmp_path).stdout.splitlines()
    assert lines[1] == "seed 1" and lines[2].split()[:2] == ["way", "programs"]
    assert [line.split()[:2] for line in lines[3:]] == [["cpu", "50"], ["numpy", "50"]]
    assert [line.split()[5] for line in lines[3:]] == ["0", "0"]  # wrong


def test_json(tmp_path):
    row = json.loads(run("api", "--count", 50, "--seed", 1, "--json", "--keep", tmp_path).stdout)
    assert row["way"] == "api" and row["programs"] == 50 and row["wrong"] == 0
    assert sum(row["operations"].values()) == row["nodes"] and row["layouts"]["whole, 1 slot"] > 0 and 0 < row["views"] < row["possible_views"]


def test_an_unknown_way():
    assert "there is no way 'gpu'; there are: cpu fuse render api" in run("gpu", status=2).stderr


@pytest.mark.parametrize("arguments, says", [
    (("cpu", "--count", "x"), "--count: 'x' is no whole number from 1 on"),
    (("cpu", "--count", "0"), "--count: '0' is no whole number from 1 on"),
    (("cpu", "--seed", "-1"), "--seed: '-1' is no whole number from 0 on"),
    (("cpu", "--seconds", "0"), "--seconds: '0' is no time in seconds"),
    (("cpu", "more"), "cpu takes no file"),
    (("replay",), "replay: which file?"),
    (("replay", "/dev/null"), "hunt: /dev/null: line 1, column 1: expected 'func.func'"),
    (("cpu", "--keep", "/dev/null/x"), "--keep: /dev/null/x is no folder that can be written to"),
])
def test_what_is_no_hunt(arguments, says):
    """Nothing ends well that has not hunted."""
    done = subprocess.run([HUNT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode in (2, 64) and says in done.stderr and not done.stdout


def catches(process, number):
    """Whether a process has a handler for a signal."""
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"SigCgt:\s+(\w+)", text)[1], 16) >> (number - 1) & 1


@pytest.mark.parametrize("way", ["cpu", "numpy"])
def test_interrupted(way):
    """Ctrl-C ends it with what was counted."""
    process = subprocess.Popen([HUNT, way, "--json"], stdout=subprocess.PIPE, text=True, start_new_session=True)
    while not catches(process, signal.SIGINT):  # until then it would just end
        time.sleep(0.01)
    time.sleep(2)
    os.killpg(process.pid, signal.SIGINT)
    last = process.communicate(timeout=60)[0].splitlines()[-1]
    assert process.returncode == 130 and json.loads(last)["wrong"] == 0


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_crash_that_is_not_seen_again(number):
    """What no program does by itself, as a race or damage that one before it did, is a failure all the same."""
    process = subprocess.Popen([HUNT, "cpu"], stdout=subprocess.PIPE, text=True)
    while not catches(process, number):
        time.sleep(0.01)
    time.sleep(0.5)
    process.send_signal(number)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 1 and re.search(rf"^WRONG: cpu, seed \d+: ended by signal {int(number)} \(.*\), but not by "
                                                 r"itself$", said, re.M), said


def test_nothing_to_compare():
    """What was not compared is counted, and not among the programs."""
    done = subprocess.run([HUNT, "gradient", "--most", "1", "--count", "400", "--json"], stdout=subprocess.PIPE, text=True)
    row = json.loads(done.stdout.splitlines()[-1])
    assert row["programs"] + row["without"] == 400 and row["without"] > 0


def test_the_corpus_is_replayed():
    """Every file of the folder is named where the test that replays them is."""
    listed = set(re.findall(r"'corpus/(\w+)\.mlir'", (HERE / "meson.build").read_text()))
    assert listed == {file.stem for file in CORPUS}


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_show(file, tmp_path):
    """A failure as Python is a program that runs, and gives what NumPy gives for the same graph."""
    text = run("show", file).stdout
    script = text[text.index("# as Python"):]
    if file == CORPUS[0]:
        place = tmp_path / "program.py"
        place.write_text(script)
        subprocess.run([sys.executable, place], check=True, stdout=subprocess.DEVNULL)
    results = []  # in this process, which has begun already
    exec(script.replace("print(result)", "results.append(result.numpy()); print(result)"), {"results": results})
    if any(word in file.stem for word in OTHER_RESULTS):
        return
    told = subprocess.run([HUNT, "tell", file], stdout=subprocess.PIPE, check=True).stdout
    program = ways.Program(io.BytesIO(told))
    for result, must in zip(results, golden.run(program.graph, program.inputs), strict=True):
        np.testing.assert_allclose(result, must, rtol=1e-5, atol=1e-6)
