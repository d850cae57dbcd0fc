"""`shoal top`: as text, and as a screen in a terminal of tmux."""
import os
import re
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from home import SHOAL, home, until  # noqa: F401 (a fixture)


@pytest.fixture
def work(home, tmp_path):
    """A pool of two workers; work() keeps them busy and returns the process."""
    home.shoal("hub", "--daemon")
    for name in "left", "right":
        home.shoal("worker", "--daemon", "--name", name, "--threads", "1")
    np.save(tmp_path / "a.npy", np.ones((3000, 2000), np.float32))
    np.save(tmp_path / "b.npy", np.ones((2000, 2000), np.float32))

    def start():
        process = subprocess.Popen(
            [SHOAL, "matmul", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "c.npy",
             "--panel", "20", "--force", "--quiet"], env=home.environment | {"SHOAL_HUB": "shm:hub"})
        home.processes.append(process)
        return process
    return start


def test_pictures_as_text(home, work):
    process = work()
    text = ""
    while process.poll() is None:
        text += home.shoal("top", "--count", "2", "--interval", "0.3", "--smooth", "0.5")
    assert process.returncode == 0
    pictures = re.findall(r"pool shm:hub, version \S+, up [\d:]+, epoch \d+\n2 devices, .*\n"
                          r"(\S+) operations/s, (\S+) programs/s, (.*)/s moved, (\d+) % busy\n\n"
                          r"WORKER .*\nleft .*\nright .*\n", text)
    assert pictures and any(int(busy) > 0 for *_, busy in pictures)
    assert any(operations != "0" and moved != "0 B" for operations, _, moved, _ in pictures)


def test_what_is_wrong_is_told(home):
    assert home.shoal("top", code=1).startswith("shoal: no hub answers at shm:hub")
    assert home.shoal("top", "--interval", "0", code=2).startswith("shoal: --interval '0': ")
    assert home.shoal("top", "--smooth", "2", code=2).startswith("shoal: --smooth '2': must be above 0 and at most 1")
    assert home.shoal("top", "--count", "0", code=2).startswith("shoal: --count '0': ")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_it_ends_when_it_cannot_write(home, form):
    home.shoal("hub", "--daemon")
    with open("/dev/full", "w") as full:
        done = subprocess.run([SHOAL, "top", "--interval", "0.1", *form], stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=60, env=home.environment)
    assert (done.returncode, done.stderr) == (1, "shoal: writing the output: No space left on device\n")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux")
def test_the_screen(home, work):
    name = f"shoal-top-{os.getpid()}"

    def tmux(*words):
        return subprocess.run(["tmux", "-L", name, *words], capture_output=True, text=True,
                              check=True, env=home.environment).stdout

    def screen():
        return tmux("capture-pane", "-p", "-t", name)
    tmux("-f", "/dev/null", "new-session", "-d", "-s", name, "-x", "140", "-y", "12",
         f"{SHOAL} top --interval 0.2; echo ended with $?; sleep 60")
    try:
        until(lambda: "q: quit" in screen())
        work()
        until(lambda: re.search(r"^left .*#", screen(), re.M))
        lines = screen().splitlines()
        assert lines[0].startswith("pool shm:hub") and lines[4].startswith("WORKER")
        assert lines[5].startswith("left") and lines[6].startswith("right") and lines[11] == "q: quit"
        tmux("resize-window", "-t", name, "-x", "60", "-y", "12")
        until(lambda: max(map(len, screen().splitlines())) <= 60 and "q: quit" in screen())
        # The hub goes, and comes back.
        os.kill(home.pid("hub"), signal.SIGKILL)
        until(lambda: "no hub answers" in screen() or "gone" in screen())
        home.shoal("hub", "--daemon")
        until(lambda: re.search(r"^right", screen(), re.M))
        tmux("send-keys", "-t", name, "q")
        until(lambda: "ended with 0" in screen())
    finally:
        subprocess.run(["tmux", "-L", name, "kill-server"], capture_output=True)
        time.sleep(0.1)
