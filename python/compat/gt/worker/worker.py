"""GT2's `Worker`: a worker as a process of its own, for as long as `connect_to_dispatcher` runs."""
import time

from shoal.program import Process

from ..pool import address_of
from . import BACKENDS


class Worker:
    """Lends this machine to a pool."""

    def __init__(self, worker_id=None, backend=None):
        self.worker_id, self.backend = worker_id, backend
        self._process = None

    def connect_to_dispatcher(self, dispatcher_host="localhost", dispatcher_port=9000, wait=10.0):
        """Works until the dispatcher ends, or `stop`; so it runs in a thread. ConnectionError when there is no
        dispatcher within `wait` seconds."""
        words = ["worker", "--once", "--hub", address_of(f"{dispatcher_host}:{dispatcher_port}")]
        if self.worker_id is not None:
            words += ["--name", self.worker_id]
        if self.backend is not None:
            words += ["--device", BACKENDS.get(self.backend, self.backend)]
        end = time.monotonic() + wait
        while True:
            self._process = Process(words)
            if self._process.first:
                break
            if time.monotonic() > end:
                raise ConnectionError(f"no dispatcher answers at {dispatcher_host}:{dispatcher_port}")
            time.sleep(0.1)
        self._process.wait()

    def stop(self):
        """Ends it."""
        if self._process is not None:
            self._process.stop()
