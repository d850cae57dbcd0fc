"""A hub or worker that belongs to this process, for the classes that GT2 runs in a thread."""
import atexit
import subprocess

from . import _command


class Process:
    """The command `shoal` with some words; its output goes through `say`, and it ends with this process."""

    def __init__(self, words, say=None):
        self.process = subprocess.Popen([_command.find(), *map(str, words)], text=True,
                                        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
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
