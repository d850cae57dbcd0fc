"""GT2's `Dispatcher`: a hub as a process of its own, for as long as `start` runs."""
import threading

from shoal.program import Process

from ..pool import address_of


class Dispatcher:
    """Coordinates a pool. `start` returns when `stop` is called, so that it runs in a thread."""

    def __init__(self, host="localhost", port=9000, console_log=True):
        self.host, self.port, self.console_log = host, port, console_log
        self.running = False
        self._process, self._guard = None, threading.Lock()

    def start(self):
        """Runs the hub until `stop`. RuntimeError when it cannot, or ends by itself."""
        words = ["hub", "--address", address_of(f"localhost:{self.port}"),
                 "--log", "info" if self.console_log else "error"]
        if self.host not in ("localhost", "127.0.0.1", "0.0.0.0"):
            words += ["--listen", f"{self.host}:{self.port}"]
        with self._guard:
            if self.running:
                raise RuntimeError(f"the dispatcher at {self.host}:{self.port} runs already")
            self.running = True  # before the hub answers: whoever reaches it finds this true
            try:
                self._process = process = Process(words, print if self.console_log else None)
            except BaseException:
                self.running = False
                raise
        code = process.wait()
        with self._guard:
            stopped, self.running = not self.running, False
        if code and not stopped:
            raise RuntimeError(f"the dispatcher at {self.host}:{self.port} ended with code {code}")

    def stop(self):
        """Ends it; workers and clients lose their pool."""
        with self._guard:
            self.running = False
            process, self._process = self._process, None
        if process is not None:
            process.stop()
