"""Random programs in which checks fail: what derives from a failed one fails with its line, all else has its value,
whatever joins, stops and dies meanwhile. SHOAL_FAILING_SECONDS of each kind (1.5), from seed SHOAL_FAILING_SEED (1) on."""
import gc
import os
import random
import signal
import threading
import time

import pytest

import shoal
from cluster import Pool
from failing_programs import Program

SECONDS = float(os.environ.get("SHOAL_FAILING_SECONDS", "1.5"))
SEED = int(os.environ.get("SHOAL_FAILING_SEED", "1"))


def run(seed, disturb=lambda rng: None):
    rng, other = random.Random(seed), random.Random(seed)
    program = Program(rng)
    try:
        for _ in range(rng.randrange(5, 60)):
            disturb(other)
            program.step()
        program.end()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}\n" + "\n".join(program.log)) from error


def run_for(seconds, **how):
    end, seed = time.monotonic() + seconds, SEED
    while time.monotonic() < end:
        run(seed, **how)
        seed += 1


def nothing_is_left():
    """Of what nobody holds any more."""
    gc.collect()
    end = time.monotonic() + 60
    while shoal.status().values and time.monotonic() < end:
        shoal.sync()
        time.sleep(0.01)
    assert shoal.status().values == 0


def test_embedded():
    shoal.connect("embedded")
    run_for(SECONDS)
    nothing_is_left()
    shoal.disconnect()


class Disturbed(Pool):
    """Its workers are killed, stopped for a moment and joined by others, now and then."""

    def __init__(self, n):
        super().__init__(n)
        self.joined = n

    def disturb(self, rng):
        workers = [w for w in self.processes[1:] if w.poll() is None]
        if len(workers) > 2 and rng.random() < 0.03:
            worker = rng.choice(workers)
            worker.kill()
            worker.wait()
        if len(workers) < 4 and rng.random() < 0.05:
            self.joined += 1
            self.add(f"w{self.joined}")
        if rng.random() < 0.05:
            worker = rng.choice(workers)
            if worker.poll() is None:
                worker.send_signal(signal.SIGSTOP)
                threading.Timer(rng.random() / 5, worker.send_signal, [signal.SIGCONT]).start()


@pytest.mark.parametrize("workers", [1, 3])
def test_pool(workers):
    pool = Pool(workers)
    run_for(SECONDS)
    nothing_is_left()
    pool.close()


def test_disturbed_pool():
    pool = Disturbed(3)
    run_for(2 * SECONDS, disturb=pool.disturb)
    nothing_is_left()
    pool.close()
