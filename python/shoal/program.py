"""The command `shoal`, whose hub and workers a program may start, or become."""
import atexit
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from .errors import NotFoundError


def find():
    """The path of the command: SHOAL, else beside the package (in a build), else on the PATH. Raises NotFoundError."""
    package = pathlib.Path(__file__).resolve().parent
    for path in (os.environ.get("SHOAL"), package.parents[1] / "cmd" / "shoal",
                 pathlib.Path(sys.prefix) / "bin" / "shoal", shutil.which("shoal")):
        if path and os.access(path, os.X_OK) and not os.path.isdir(path):
            return str(path)
    raise NotFoundError("the command `shoal` is not here; put it on the PATH, or its path into SHOAL")


def become(*args):
    """Runs the command in the place of this process."""
    command = [find(), *map(str, args)]
    sys.stdout.flush()
    os.execv(command[0], command)


_PR_SET_PDEATHSIG = 1  # of linux/prctl.h


class Process:
    """The command `shoal` with some words, which is to work until it is stopped: `first` is the first line that it prints, "" if
    it has ended. Its output goes through `say`, its messages into the file `errors` if there is one, and it ends with this process;
    tied: also when this is killed, and with the thread that made it; but Ctrl-C in a terminal is this process's matter alone."""

    def __init__(self, words, say=None, errors=None, tied=False):
        libc, parent = ctypes.CDLL(None), os.getpid()

        def tie():
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)
        self.process = subprocess.Popen([find(), *map(str, words)], text=True, stdout=subprocess.PIPE,
                                        stdin=subprocess.DEVNULL, stderr=errors, preexec_fn=tie if tied else None, start_new_session=tied)
        atexit.register(self.stop)
        self.first = self.process.stdout.readline().strip()  # it is ready, or has ended
        self.say = say or (lambda line: None)
        if self.first:
            self.say(self.first)

    def wait(self):
        """Until it ends; its exit code."""
        for line in self.process.stdout:
            self.say(line.rstrip())
        return self.process.wait()

    def stop(self):
        """Ends it."""
        atexit.unregister(self.stop)
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
