"""A user's folders, and the command `shoal` as that user runs it: shared by tests of daemons.

The variable SHOAL names the command (default: build/cmd/shoal).
"""
import json
import os
import pathlib
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHOAL = os.environ.get("SHOAL", str(ROOT / "build/cmd/shoal"))


class Home:
    """A user's folders, and the command as that user runs it."""

    def __init__(self, folder):
        self.folder = folder
        self.runtime = folder / "shoal"
        self.logs = folder / ".local/state/shoal"
        self.processes = []
        self.environment = {name: value for name, value in os.environ.items()
                            if name not in ("SHOAL_HUB", "SHOAL_LOG") and not name.startswith("XDG_")}
        self.environment |= {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}

    def shoal(self, *args, code=0, **variables):
        done = subprocess.run([SHOAL, *map(str, args)], capture_output=True, text=True, timeout=90,
                              env=self.environment | variables)
        assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def pid(self, name):
        return int((self.runtime / f"{name}.pid").read_text())

    def log(self, name):
        return (self.logs / f"{name}.log").read_text()

    def status(self):
        return json.loads(self.shoal("status", "--json"))


@pytest.fixture
def home(tmp_path):
    # The names of sockets are short, so their folder has to be.
    folder = pathlib.Path(subprocess.check_output(["mktemp", "-d", "/tmp/shoal-XXXXXX"],
                                                  text=True).strip())
    made = Home(folder)
    yield made
    made.shoal("stop", "--all")
    for process in reversed(made.processes):
        process.terminate()
        process.wait(20)
    subprocess.run(["rm", "-rf", folder], check=True)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z" or len(threads) > 1


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
