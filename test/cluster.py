"""What tests of pools share: a hub and workers as real processes, and arrays to compute with."""
import contextlib
import os
import random
import signal
import subprocess
import tempfile
import time

import numpy as np

import shoal

SHOAL = os.environ["SHOAL"]
TOLERANCE = 1e-5  # of the largest sum of absolute products, f32


class Pool:
    """A hub, with more options if there are any, and n one-thread workers at an address of their own."""

    def __init__(self, workers, hub=(), **options):
        self.address = f"shm:test-{os.getpid()}-{random.randrange(1 << 30)}"
        self.processes = [self.start("hub", "--address", self.address, *hub)]
        for i in range(workers):
            self.add(f"w{i + 1}")
        self.session = shoal.connect(self.address, **options)
        self.await_workers(workers)

    def add(self, name, hub=None, command=(SHOAL,)):
        worker = self.start("worker", "--once", "--hub", hub or self.address, "--name", name,
                            "--threads", "1", command=command)
        self.processes.append(worker)
        return worker

    def await_workers(self, workers):
        deadline = time.monotonic() + 60
        while len({s.worker for s in self.session.status().slots if s.compute}) != workers:
            assert time.monotonic() < deadline, f"there are not {workers} workers\n{self.report()}"
            time.sleep(0.01)

    def await_losses(self, n):
        """Until the hub knows of so many. That a process is killed shows a moment later, and what is computed meanwhile may
        have no part of it."""
        deadline = time.monotonic() + 60
        while self.session.status().losses < n:
            assert time.monotonic() < deadline, self.report()
            time.sleep(0.01)
        assert self.session.status().losses == n

    def start(self, *arguments, command=(SHOAL,)):
        log = tempfile.TemporaryFile("w+", encoding="utf-8")
        process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=log, text=True)
        process.log = log
        line = process.stdout.readline()  # "ready"
        assert line, self.log(process)
        return process

    @staticmethod
    def log(process):
        process.log.seek(0)
        return process.log.read()

    def report(self):
        """Who is there, and what the processes that live or ended by themselves have said last."""
        rows = [str([slot.worker for slot in shoal.status().slots if slot.compute])]
        for process in self.processes[:1] + self.processes[-6:]:
            rows.append(f"{' '.join(process.args[1:])}: {process.poll()}")
            rows += ["    " + line for line in self.log(process).splitlines()[-12:]]
        return "\n".join(rows)

    def worker(self, i):
        return self.processes[1 + i]

    def close(self):
        shoal.disconnect()
        for process in reversed(self.processes):
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                raise AssertionError(f"{process.args} did not end") from None
            process.stdout.close()
            log = self.log(process)
            process.log.close()
            assert "Sanitizer" not in log and "runtime error" not in log, log


def near(got, a, b, tolerance=TOLERANCE):
    want = a.astype(np.float64) @ b.astype(np.float64)
    scale = (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)).max(initial=1e-30)
    assert got.shape == want.shape
    assert np.abs(got - want).max(initial=0) <= tolerance * scale


def random_array(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


@contextlib.contextmanager
def closing_all(kind, *first):
    """A function that makes pools of a kind, whose first arguments are these; they are closed at the end."""
    made = []

    def make(*args, **options):
        made.append(kind(*first, *args, **options))
        return made[-1]
    try:
        yield make
    finally:
        for pool in made:
            pool.close()
