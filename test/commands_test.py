"""What holds for all commands of `shoal`: letters, JSON, overwriting, the manual, completions, and
what runs in the background. Files in .safetensors, too, which others' library writes and reads.
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess

import numpy as np
import pytest

from home import ROOT, SHOAL, home, until  # noqa: F401 (a fixture)

LISTED = json.loads(subprocess.check_output([SHOAL, "help", "--json"], text=True))
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build"))
# Those that need no pool, and what to give them.
EVERYWHERE = {"version": [], "ps": [], "backends": [], "doctor": ["--hub", "embedded"], "help": [], "peers": []}


def run(*args, code=0, **options):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == code, (args, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def test_one_letter_has_one_meaning():
    letters, words = {}, {}
    for command in LISTED:
        for option in command["options"]:
            words.setdefault(option["name"], set()).add(option["letter"])
            if option["letter"]:
                letters.setdefault(option["letter"], set()).add(option["name"])
    assert {letter: names for letter, names in letters.items() if len(names) > 1} == {}
    assert {name: found for name, found in words.items() if len(found) > 1} == {}
    for command in LISTED:  # what every command has
        assert {"help", "log", "json"} <= {option["name"] for option in command["options"]}, command["name"]


def test_the_list_is_one():
    names = [command["name"] for command in LISTED]
    help_ = run(SHOAL, "--help")
    assert re.findall(r"^  (\S+) ", help_, re.M) == names
    assert [line for line in help_.splitlines() if len(line) > 80] == []
    text = (ROOT / "cmd/manual/meson.build").read_text()
    assert re.findall(r"'(\w+)'", re.search(r"names = \[(.*?)\]", text, re.S)[1]) == names
    groups = [command["group"] for command in LISTED]
    assert groups == sorted(groups, key=groups.index)  # each group stands together
    assert run(SHOAL, "-V") == run(SHOAL, "--version") == run(SHOAL, "version")


@pytest.mark.parametrize("name", EVERYWHERE)
def test_json_without_a_pool(home, name):
    json.loads(home.shoal(name, "--json", *EVERYWHERE[name]))


def test_json_of_a_pool(home, tmp_path):
    lines = [json.loads(line) for line in home.shoal("hub", "--daemon", "--json").splitlines()]
    assert [line["event"] for line in lines] == ["listening", "background"]
    assert lines[1]["name"] == "hub" and lines[1]["pid"] == home.pid("hub")
    lines = [json.loads(line) for line in home.shoal("worker", "--daemon", "--name", "w", "--threads", "1",
                                                     "--json").splitlines()]
    assert lines[0] == {"event": "joined", "name": "w"}
    assert json.loads(home.shoal("status", "--json"))["slots"][0]["worker"] == "w"
    top = home.shoal("top", "--count", "2", "--interval", "0.1", "--json").splitlines()
    assert [json.loads(line)["slots"][0]["worker"] for line in top] == ["w", "w"]
    assert json.loads(home.shoal("trace", "0.1", "--json"))["workers"][0]["worker"] == "w"
    picture = json.loads(home.shoal("timeline", "0.1", "--json", "-o", str(tmp_path / "t.svg")))
    assert picture["output"] == str(tmp_path / "t.svg")
    log = [json.loads(line) for line in home.shoal("logs", "hub", "--json").splitlines()]
    assert log[0]["level"] == "info" and log[0]["message"].startswith("listening at shm:hub")
    rows = json.loads(home.shoal("ps", "--json"))
    assert [row["name"] for row in rows] == ["worker-w", "hub"] and rows[1]["memory"] > 1 << 20
    assert json.loads(home.shoal("stop", "--all", "--json")) == {"ended": ["worker-w", "hub"]}
    assert json.loads(home.shoal("ps", "--json")) == []


def test_ps_logs_and_stop(home):
    assert home.shoal("ps") == "nothing runs in the background\n"
    assert "stop needs names, or --all; what runs: nothing" in home.shoal("stop", code=2)
    assert "what runs in the background: nothing" in home.shoal("logs", "hub", code=1)
    home.shoal("hub", "--daemon")
    head, row = home.shoal("ps").splitlines()
    assert head.split() == ["NAME", "PID", "UP", "MEMORY"] and row.split()[:2] == ["hub", str(home.pid("hub"))]
    assert str(home.logs / "hub.log") in home.shoal("ps", "--wide")
    assert home.shoal("logs", "hub") == home.log("hub")
    for i in range(30):
        home.shoal("status")
    until(lambda: home.log("hub").count("has ended") == 30)
    lines = home.log("hub").splitlines()
    assert len(lines) > 30
    for n in (1, 7, len(lines), len(lines) + 5):
        assert home.shoal("logs", "hub", "--lines", n).splitlines() == lines[-n:]
    assert "a name, as 'shoal ps' lists them" in home.shoal("logs", "../hub", code=2)
    with subprocess.Popen([SHOAL, "logs", "hub", "--follow", "--lines", "1"], stdout=subprocess.PIPE,
                          text=True, env=home.environment) as following:
        assert following.stdout.readline() == lines[-1] + "\n"
        (home.logs / "hub.log").rename(home.logs / "hub.log.1")
        (home.logs / "hub.log").write_text("another\n")
        assert following.stdout.readline() == "another\n"
        following.terminate()
    assert "what runs: hub" in home.shoal("stop", code=2)
    assert "names, or --all" in home.shoal("stop", "hub", "--all", code=2)
    assert home.shoal("stop", "hub") == "hub: ended\n"


@pytest.mark.parametrize("args, why", [
    (["explain", "a", "b", "-o", "c.npy"], "invalid option"),
    (["explain", "a", "b", "--check"], "unrecognized option '--check'"),
    (["matmul", "a", "b", "--run"], "unrecognized option '--run'"),
    (["matmul", "a", "b", "-o", "c.npy", "--quiet", "--wide"], "--wide: --quiet prints no table"),
    (["hub", "--beacon", "7400"], "--beacon: there is nothing to announce"),
    (["timeline", "t.json", "--hub", "shm:x"], "--hub only applies to a live recording"),
    (["timeline", "t.json", "-q"], "--quiet only applies to a live recording"),
    (["timeline", "1", "-o", "t.svg", "--scale", "2"], "--scale is for a PNG"),
    (["trace", "1", "--force"], "there is no --output to overwrite"),
    (["status", "--json", "--wide"], "JSON always has all columns"),
    (["top", "--json", "--smooth", "0.5"], "--smooth: JSON contains sums"),
    (["completion", "bash", "--json"], "shells do not read JSON"),
    (["completion", "tcsh"], "must be bash, zsh or fish"),
    (["help", "--json", "matmul"], "covers all commands"),
])
def test_what_would_do_nothing_is_an_error(args, why):
    assert why in run(SHOAL, *args, code=2)


def test_nothing_is_overwritten_unasked(home, tmp_path):
    home.shoal("hub", "--daemon")
    home.shoal("worker", "--daemon", "--threads", "1")
    np.save(tmp_path / "a.npy", np.ones((4, 4), np.float32))
    here = tmp_path / "here"
    here.mkdir()
    for words, name in ((["matmul", tmp_path / "a.npy", tmp_path / "a.npy"], "c.npy"),
                        (["trace", "0.1"], "t.json"), (["timeline", "0.1"], "t.svg")):
        path = here / name
        home.shoal(*words, "-o", path)
        first = path.read_bytes()
        path.write_text("mine")
        assert home.shoal(*words, "-o", path, code=1) == f"shoal: {path}: exists already; --force overwrites it\n"
        assert path.read_text() == "mine"
        home.shoal(*words, "-o", path, "--force")
        assert path.read_bytes()[:8] == first[:8]
    assert "is not a regular file" in home.shoal("trace", "0.1", "--force", "-o", here, code=1)
    assert sorted(p.name for p in here.iterdir()) == ["c.npy", "t.json", "t.svg"]


def safetensors(path, tensors):
    """A file as its format's description says."""
    header, data = {"__metadata__": {"format": "np"}}, b""
    for name, array in tensors.items():
        code = {"float32": "F32", "float64": "F64", "int64": "I64"}[array.dtype.name]
        header[name] = {"dtype": code, "shape": array.shape, "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_products_of_safetensors(tmp_path):
    random = np.random.default_rng(0)
    a, b = random.standard_normal((50, 30), np.float32), random.standard_normal((30, 20), np.float32)
    safetensors(tmp_path / "ab.safetensors", {"layer.a": a, "b": b, "whole": np.arange(4)})
    safetensors(tmp_path / "b.safetensors", {"b": b})
    for second in (tmp_path / "b.safetensors", f"{tmp_path}/ab.safetensors:b"):
        out = tmp_path / "c.safetensors"
        run(SHOAL, "matmul", f"{tmp_path}/ab.safetensors:layer.a", second, "-o", out, "--workers", "2", "--force")
        content = out.read_bytes()
        length = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:8 + length])
        assert header == {"value": {"dtype": "F32", "shape": [50, 20], "data_offsets": [0, 4000]}}
        assert length % 8 == 0
        got = np.frombuffer(content[8 + length:], np.float32).reshape(50, 20)
        assert np.abs(got - a @ b).max() < 1e-4
    why = run(SHOAL, "matmul", f"{tmp_path}/ab.safetensors:c", tmp_path / "b.safetensors", "-o", tmp_path / "d.npy",
              "--workers", "1", code=1)
    assert "has no tensor among its 3 called 'c'; there are layer.a, b, whole" in why
    np.save(tmp_path / "a.npy", a)
    why = run(SHOAL, "matmul", f"{tmp_path}/a.npy:c", tmp_path / "b.safetensors", "-o", tmp_path / "d.npy", code=1)
    assert "has no tensor among its 1 called 'c'; there are (unnamed)" in why


@pytest.mark.skipif(shutil.which("man") is None, reason="there is no man: apt-get install man-db")
def test_the_manual():
    for name in ["shoal", *(f"shoal-{command['name']}" for command in LISTED)]:
        page = BUILD / f"cmd/manual/{name}.1"
        done = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True, timeout=60,
                              env=os.environ | {"MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
        assert done.returncode == 0 and done.stderr == "", (name, done.stderr)
        assert done.stdout.lstrip().startswith(f"{name.upper()}(1)")
    for command in LISTED:
        page = (BUILD / f"cmd/manual/shoal-{command['name']}.1").read_text()
        for option in command["options"]:
            assert f"\\fB\\-\\-{option['name']}\\fR".replace("-", "\\-").replace("\\\\-", "\\-") in page, option


BASH = """. {file}; COMP_WORDS=(shoal {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _shoal
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """autoload -U compinit; compinit -D; . {file}; print -r -- $_comps[shoal]
"""


def completed(shell, words):
    file = BUILD / "cmd/manual" / {"bash": "shoal", "fish": "shoal.fish"}[shell]
    if shell == "bash":
        return run("bash", "--norc", "-c", BASH.format(file=file, words=words)).split()
    out = run("fish", "--no-config", "-c", f"source {file}; complete -C 'shoal {words}'")
    return [line.split("\t")[0] for line in out.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_completions(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}: apt-get install {shell}")
    assert completed(shell, "ti") == ["timeline"]
    assert completed(shell, "matmul --sh") == ["--share"]
    for command in LISTED:
        got = {word.split("=")[0] for word in completed(shell, f"{command['name']} --")}
        assert {f"--{option['name']}" for option in command["options"]} <= got, command["name"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh: apt-get install zsh")
def test_completions_of_zsh(tmp_path):
    run("zsh", "-f", "-n", BUILD / "cmd/manual/_shoal")
    told = run("zsh", "-f", "-c", ZSH.format(file=BUILD / "cmd/manual/_shoal"), cwd=tmp_path,
               env=os.environ | {"HOME": str(tmp_path)})
    assert told.strip() == "_shoal"
    text = (BUILD / "cmd/manual/_shoal").read_text()
    for command in LISTED:
        part = re.search(rf"^    {command['name']}\) options=\((.*?)^    \) ;;", text, re.M | re.S)[1]
        assert re.findall(r"'--([\w-]+)", part) == [option["name"] for option in command["options"]]
