"""What a training tells: the log, the curve, metrics, pictures, Weights & Biases' package, the screen as text and in a terminal."""
import errno
import fcntl
import json
import math
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import types
import urllib.error
import urllib.request

import numpy as np
import pytest

import shoal
from shoal.train import metrics, monitor, screen
from shoal.train.experiment import Experiment
from shoal.train.monitor import Curve, Monitor, Summary

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from exposition import parse  # noqa: E402


def rounds(made, count, first=1, **more):
    made.summary.max_epochs = 2.0
    made.event("start", model="models/gpt.mlir", rounds=count, round=first - 1)
    for i in range(first, first + count):
        made.event("round", round=i, loss=5 / i, tokens=1000, seconds=2.0, compute_seconds=1.9, bytes_up=2048, bytes_down=4096,
                   epoch=0.01 * i, islands=[{"island": n, "worker": f"w{n}", "steps": 50 + n, "loss": 5 / i + n,
                                             "tokens_per_second": 300.0 / (1 + n), "state": "done"} for n in range(3)], **more)


# ---- curve ----

@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100, 1000, 12345])
def test_a_curve_keeps_the_whole(count):
    numbers = np.random.default_rng(count).standard_normal(count)
    curve = Curve(8)
    for number in numbers:
        curve.add(number)
    points = curve.points()
    assert len(points) <= 9 and curve.count == count
    at = 0
    for x, mean in points:
        assert math.isclose(mean, numbers[at:x].mean(), abs_tol=1e-12)
        at = x
    assert at == count


# ---- the log ----

def test_the_log(tmp_path):
    made = Monitor(tmp_path / "log")
    rounds(made, 2, note=float("nan"), speed=np.float32(0.5), shape=(1, np.int64(2)))
    made.event("lost", island=1, worker="w1", reason="it ended")
    made.event("end", reason="done")
    made.close()
    lines = [json.loads(line) for line in (tmp_path / "log/run.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["start", "round", "round", "lost", "end"]
    assert lines[1]["note"] is None and lines[1]["speed"] == 0.5 and lines[1]["shape"] == [1, 2]
    assert abs(lines[0]["time"] - time.time()) < 60
    assert made.summary.islands[1]["state"] == "lost" and made.summary.lost == 1 and made.summary.state == "ended"
    # A process that was killed leaves half a line; the next one begins its own.
    with open(tmp_path / "log/run.jsonl", "a") as file:
        file.write('{"time": 12')
    made = Monitor(tmp_path / "log")
    made.event("start")
    made.close()
    assert json.loads((tmp_path / "log/run.jsonl").read_text().splitlines()[-1])["kind"] == "start"
    with open(tmp_path / "log/loss.png", "rb") as file:
        assert file.read(8) == b"\x89PNG\r\n\x1a\n"


def test_a_log_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(shoal.IOFailedError, match="log_dir .*/file: File exists; name a folder that can be written"):
        Monitor(tmp_path / "file")
    made, said = Monitor(tmp_path / "log"), []
    made.observers.append(lambda kind, fields: said.append(fields["text"]) if kind == "message" else None)
    made._file.close()
    made._file = open("/dev/full", "w")  # noqa: SIM115
    made.event("start")
    made.event("start")
    assert said == ["/dev/full: No space left on device; training goes on without this log"]


def test_an_output_that_fails():
    """A terminal that is gone, or a full disk behind standard output, ends no training; a pipe without a reader does."""
    def gone(kind, fields):
        raise OSError(errno.EIO, "Input/output error")

    def full(text):
        raise OSError(errno.ENOSPC, "No space left on device")
    said = []
    made = Monitor(stream=types.SimpleNamespace(write=full), wandb=types.SimpleNamespace(log=lambda fields: 1 / 0))
    made.observers += [gone, lambda *given: gone(*given), lambda kind, fields: said.append(fields["text"]) if kind == "message" else None]
    for number in (1, 2):
        made.event("round", round=number, loss=1.0)
    made.close()
    assert sorted(said) == [f"{what}; training goes on without this log" for what in (
        "Weights & Biases: division by zero", *["standard output: Input/output error"] * 2, "standard output: No space left on device")]
    made.observers.append(lambda kind, fields: (_ for _ in ()).throw(BrokenPipeError))
    with pytest.raises(BrokenPipeError):
        made.event("round", round=3, loss=1.0)


def test_pictures_need_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    made, said = Monitor(tmp_path, plot_every=1), []
    made.observers.append(lambda kind, fields: said.append(fields["text"]) if kind == "message" else None)
    rounds(made, 3)
    assert said == ["there will be no loss.png: pictures need the package matplotlib: pip install matplotlib"]


def test_what_an_event_costs_does_not_grow():
    made = Monitor()

    def cost():
        start = time.process_time()
        rounds(made, 2000)
        return time.process_time() - start
    cost()
    assert min(cost() for _ in range(2)) < 3 * min(cost() for _ in range(2))
    assert len(made.summary.curve.points()) <= 1025 and len(made.summary.log) <= 500


def test_weights_and_biases(tmp_path, monkeypatch):
    told = []
    run = types.SimpleNamespace(log=lambda fields, step: told.append((step, fields)), finish=lambda: told.append("finish"))
    fake = types.SimpleNamespace(init=lambda **options: told.append(options) or run)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    made = Experiment(model_path="a", data_path="b", wandb_project="p", wandb_run_name="r", wandb_api_key="secret", log_dir=str(tmp_path))
    watching = Monitor(wandb=monitor.WandbLog(made))
    rounds(watching, 1)
    watching.close()
    assert told[0]["mode"] == "offline" and told[0]["project"] == "p" and told[0]["config"]["tau"] == 100
    assert not any("secret" in repr(one) for one in told)
    assert told[1][0] == 1 and told[1][1]["loss"] == 5 and "islands" not in told[1][1] and told[2] == "finish"
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(shoal.UnsupportedError, match="wandb_project needs the package wandb: pip install wandb; or leave it out"):
        monitor.WandbLog(made)


# ---- metrics ----

def test_metrics():
    made = Monitor()
    assert parse(metrics.render(made.summary).encode())["shoal_train_loss"][2] == {}
    rounds(made, 4)
    made.event("joined", island=3, worker='odd "name"\\\n')
    server = metrics.Server(made, "0")
    page = parse(urllib.request.urlopen(f"http://{server.address}/metrics", timeout=60).read())
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://{server.address}/other", timeout=60)
    with pytest.raises(shoal.IOFailedError, match="Address already in use; name another port"):
        metrics.Server(made, server.address)
    server.close()
    value = {name: family[2] for name, family in page.items()}
    assert value["shoal_train_rounds_total"] == {(): 4} and value["shoal_train_tokens_total"] == {(): 4000}
    assert value["shoal_train_loss"] == {(): 1.25} and value["shoal_train_computing_ratio"] == {(): 0.95}
    assert value["shoal_train_island_steps"][("island", "1"), ("worker", "w1")] == 51
    assert value["shoal_train_island_up"][("island", "3"), ("worker", 'odd "name"\\\n')] == 1
    made.event("round", round=5, loss=float("inf"), seconds=0)
    assert math.isinf(parse(metrics.render(made.summary).encode())["shoal_train_loss"][2][()])


@pytest.mark.parametrize("text", ["x", "70000", "0.0.0.0:80", "192.168.1.1:80", "127.0.0.1", ":80", ""])
def test_addresses_of_metrics(text):
    with pytest.raises(shoal.InvalidError) as caught:
        metrics.read_address(text)
    assert str(caught.value) == \
        f"--metrics '{text}': must be PORT or 127.0.0.1:PORT; other machines reach it through an SSH tunnel"


# ---- the screen as text ----

def test_numbers():
    assert [screen.short(n) for n in (0, 7, 999, 1234, 5.6e7, 1e12)] == ["0", "7", "999", "1.23k", "56M", "1T"]
    assert [screen.size(n) for n in (0, 1023, 1536, 1 << 40)] == ["0 B", "1023 B", "1.5 KiB", "1 TiB"]
    assert [screen.span(s) for s in (0.25, 9.9, 59, 60, 3661)] == ["0.25 s", "9.9 s", "59 s", "0:01:00", "1:01:01"]


@pytest.mark.parametrize("width, height", [(80, 24), (40, 24), (140, 50), (80, 8), (20, 5), (5, 2), (1, 1), (300, 3)])
@pytest.mark.parametrize("view", ["workers", "log", "help"])
def test_the_picture_fits(width, height, view):
    for count in (0, 1, 2, 500):
        made = Monitor()
        if count:
            rounds(made, count)
        for braille in (True, False):
            lines = screen.picture(made.summary, width, height, view, {"w0": ("opencl", "2 paths")}, False, braille)
            assert len(lines) <= height and max(map(len, lines), default=0) <= width


def test_the_picture_at_80_columns():
    made = Monitor()
    rounds(made, 100)
    made.event("checkpoint", round=100, path="x")
    made.event("lost", island=1, worker="w1", reason="it ended")
    text = "\n".join(screen.picture(made.summary, 80, 24, slots={"w0": ("opencl", "2 paths"), "w2": ("cpu", "ok")}))
    for piece in ("shoal train gpt.mlir   training   round 100/100   epoch 1/2", "loss 0.0500", "500 tokens/s", "2 s a round", "95% computing",
                  "down 400 KiB, up 200 KiB", "checkpoint 100", "lost 1, joined 0", "q: stop   p: pause   l: show the log"):
        assert piece in text, text
    assert re.search(r"^ +5 [│].*⡇|^ +5 \|", text, re.M) and "⠤" in text or "⣀" in text
    assert re.search(r"^WORKER  STATE +KIND +LINK", text, re.M) or re.search(r"^WORKER  STATE +TOKENS/S +STEPS +LOSS +KIND +LINK$", text, re.M)
    assert re.search(r"^w0 +done +300 +50 +0\.0500 +opencl +2 paths$", text, re.M)
    assert re.search(r"^w1 +lost", text, re.M)
    small = "\n".join(screen.picture(made.summary, 40, 24))
    assert "WORKER  STATE  TOKENS/S  STEPS" in small and "q: stop" in small


def test_stragglers_and_the_time_that_is_left():
    made = Monitor()
    rounds(made, 10)
    s = made.summary
    assert s.stragglers() == []  # 300, 150, 100: the middle one is 150
    made.event("island", island=2, worker="w2", tokens_per_second=60.0, state="done", steps=10, loss=1.0)
    assert s.stragglers() == [2]
    s.rounds = 40
    assert s.left() == pytest.approx(30 * 2.0)
    s.rounds, s.max_epochs = 1_000_000, 0.2  # epochs end it first: 0.01 a round
    assert s.left() == pytest.approx(10 * 2.0)
    assert Summary().left() is None


@pytest.mark.parametrize("braille", [True, False])
def test_the_curve_shows_the_first_and_the_last(braille):
    points = [(i, 10.0 - i / 100) for i in range(1, 1001)]
    lines = screen.curve(points, 60, 8, braille)
    assert len(lines) == 8 and lines[0].startswith("9.99 ") and lines[-1].startswith("   0 ")
    assert len(lines[-1]) > 55 and len(lines[0]) < 20  # it falls from the left to the right
    assert len(screen.curve([(1, 3.0)], 60, 4, braille)) == 4


# ---- in a terminal ----

WATCHED = [sys.executable, os.path.join(HERE, "train_fake.py")]


class Terminal:
    """A program in a pseudo-terminal."""

    def __init__(self, words, width=80, height=24, **variables):
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm", "LC_ALL": "C.UTF-8"} | variables)
            os.execv(words[0], words)
        self.resize(width, height)
        self.text = ""

    def resize(self, width, height):
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def until(self, pattern, seconds=60):
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.text):
            assert time.monotonic() < deadline, (pattern, self.text[-3000:])
            if select.select([self.end], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.end, 65536).decode("utf-8", "replace")
                except OSError:
                    assert re.search(pattern, self.text), (pattern, self.text[-3000:])

    def press(self, keys):
        self.text = ""
        os.write(self.end, keys.encode())

    def ended(self):
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def job(tmp_path):
    (tmp_path / "m.mlir").write_text("")
    (tmp_path / "t.txt").write_text("some text " * 2000)
    return [f"model_path={tmp_path}/m.mlir", f"data_path={tmp_path}/t.txt", "max_epochs=1000", "outer_loop_steps=100000",
            f"log_dir={tmp_path}/log"]


def test_keys_in_a_terminal(job):
    terminal = Terminal([*WATCHED, *job], FAKE_SECONDS="0.05")
    terminal.until(r"q: stop")
    terminal.until("fake0")
    terminal.press("?")
    terminal.until("pause after the round, and go on")
    terminal.press("?l")
    terminal.until(r"\d\d:\d\d:\d\d round \d+: loss")
    terminal.press("lp")
    terminal.until("paused")
    terminal.press("p")
    terminal.until("training")
    terminal.resize(40, 20)
    os.kill(terminal.pid, signal.SIGWINCH)
    terminal.press("q")
    terminal.until(r"ended after round \d+: loss .*, .* tokens in ")
    assert terminal.ended() == 0


def test_signals_in_a_terminal(job):
    terminal = Terminal([*WATCHED, *job, "--no-dashboard"], FAKE_SECONDS="0.05")
    terminal.until(r"round \d+/100000, loss \d\.\d+, .* tokens/s, .* computing, .* left")
    os.kill(terminal.pid, signal.SIGINT)
    terminal.until("stopping after this round; again ends it at once")
    terminal.until("ended after round")
    assert terminal.ended() == 0
    terminal = Terminal([*WATCHED, *job], FAKE_SECONDS="0.05", TERM="nobody-knows-it")
    terminal.until(r"round \d+/100000, loss")
    os.kill(terminal.pid, signal.SIGTERM)
    terminal.until("ended after round")
    assert terminal.ended() == 0
    terminal = Terminal([*WATCHED, *job, "--no-dashboard"], FAKE_SECONDS="600")  # a round that does not end
    terminal.until("start: ")
    os.kill(terminal.pid, signal.SIGINT)
    terminal.until("again ends it at once")
    os.kill(terminal.pid, signal.SIGINT)
    assert terminal.ended() == -signal.SIGINT


@pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux")
def test_the_screen_in_tmux(job):
    name = f"shoal-train-{os.getpid()}"

    def tmux(*words):
        return subprocess.run(["tmux", "-L", name, *words], capture_output=True, text=True, check=True).stdout

    def until(pattern, seconds=60):
        deadline = time.monotonic() + seconds
        while True:
            shown = tmux("capture-pane", "-p", "-t", name)
            if re.search(pattern, shown, re.M):
                return shown.splitlines()
            assert time.monotonic() < deadline, (pattern, shown)
            time.sleep(0.1)
    tmux("-f", "/dev/null", "new-session", "-d", "-s", name, "-x", "100", "-y", "24", "-e", "FAKE_SECONDS=0.05", "-e", "LC_ALL=C.UTF-8",
         " ".join([*WATCHED, *job]) + "; echo code $?; sleep 60")
    try:
        lines = until(r"^fake1 +done")
        assert lines[0].startswith("shoal train m.mlir   training   round ") and lines[-1].startswith("q: stop")
        tmux("resize-window", "-t", name, "-x", "40", "-y", "16")
        lines = until(r"^WORKER  STATE  TOKENS/S  STEPS")
        assert len(lines) == 16 and max(map(len, lines)) <= 40
        tmux("send-keys", "-t", name, "q")
        until(r"^code 0")
    finally:
        tmux("kill-server")
