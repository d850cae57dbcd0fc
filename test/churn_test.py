"""Workers come and go by the hundred under one long session, by signals and kills: values are right, and
the memory of the hub, of a worker that stays and of the client is flat.

SHOAL_CHURN says how many come and go (60).
"""
import os
import random
import signal
import statistics
import subprocess
import time

import numpy as np

import shoal
from cluster import SHOAL, Pool
from load_test import resident

CHURN = int(os.environ.get("SHOAL_CHURN", "60"))
AT_ONCE = 3
FLAT = 8 << 20  # that a process may grow by: four of the buffers that are kept for reuse, of huge pages


def comes(pool, number):
    return subprocess.Popen([SHOAL, "worker", "--once", "--hub", pool.address, "--name", f"c{number}",
                             "--threads", "1", "--memory", "64MiB"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def await_slots(pool, n):
    deadline = time.monotonic() + 60
    while len(pool.session.compute_slots()) != n:
        assert time.monotonic() < deadline, pool.report()
        time.sleep(0.005)


def test_comings_and_goings():
    dice, pool = random.Random(1), Pool(1)
    rng = np.random.default_rng(1)
    a = rng.integers(-3, 4, (700, 600)).astype(np.float32)
    b = rng.integers(-3, 4, (600, 40)).astype(np.float32)
    lasting = shoal.tensor(b)

    def work(turn):
        # Over a mebibyte from here, so that speeds are learnt, from all that are there.
        x = (shoal.tensor(a) + float(turn % 5)).place(axis=0)
        y = (x @ lasting).place(axis=turn % 2)
        assert np.array_equal(y.numpy(), (a + np.float32(turn % 5)) @ b)

    def memory():
        shoal.sync()
        return [resident(pid) for pid in (pool.processes[0].pid, pool.processes[1].pid, os.getpid())]
    try:
        samples, rounds = [], max(CHURN // AT_ONCE, 8)
        for turn in range(rounds):
            guests = [comes(pool, turn * AT_ONCE + i) for i in range(AT_ONCE)]
            await_slots(pool, 1 + AT_ONCE)
            work(turn)
            for guest in guests:
                guest.send_signal(dice.choice([signal.SIGTERM, signal.SIGKILL]))
            work(turn)
            for guest in guests:
                guest.wait(60)
            await_slots(pool, 1)
            # By then there are the buffers that are kept for reuse, and 256 programs (two a turn, as
            # each names slots that were never there before), the most that are.
            if turn >= min(rounds // 2, 300) and turn % max(rounds // 60, 1) == 0:
                samples.append(memory())
        # Buffers come and go in a busy process, and its heap has holes: what counts is where it is for most of the time.
        third = max(len(samples) // 3, 1)
        before, after = ([statistics.median(column) for column in zip(*part)] for part in (samples[:third], samples[-third:]))
        status = shoal.status()
        print(f"{rounds * AT_ONCE} came and went; resident KiB of hub, worker, client "
              f"{[int(n) >> 10 for n in before]} -> {[int(n) >> 10 for n in after]}; {status.losses} losses, "
              f"{status.reruns} programs run again")
        assert status.losses >= rounds
        for what, was, now in zip(("hub", "worker", "client"), before, after):
            assert now - was < FLAT, f"the {what} has grown from {was:.0f} to {now:.0f} bytes"
    finally:
        pool.close()
