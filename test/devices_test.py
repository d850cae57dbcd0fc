"""Workers with several devices: what they lend, what becomes of one that is lost or too small, and workers that are slow."""
import os
import signal
import subprocess
import threading
import time

import numpy as np
import pytest

import shoal
from cluster import Pool, SHOAL, near, random_array
from slack import SLACK

SECONDS = float(os.environ.get("SHOAL_SLOW_SECONDS", "4"))  # of the program under slow workers; `make soak`: 180


class Devices(Pool):
    """A hub, and workers as they are added: the devices that one lends, and what `lag` is told in it."""

    def __init__(self):
        super().__init__(0)

    def lend(self, name, devices, lag="", *options, ready=True):
        environment = {**os.environ, "SHOAL_LAG": "delay=20," + lag}
        environment.pop("SHOAL_BACKEND", None)
        saved = dict(os.environ)
        os.environ.clear()
        os.environ.update(environment)
        try:
            words = ["--device", devices] if devices else []
            worker = self.start("worker", "--hub", self.address, "--name", name, "--threads", "1", *words, *options)
        finally:
            os.environ.clear()
            os.environ.update(saved)
        self.processes.append(worker)
        return worker

    def slots(self):
        return [f"{s.worker}/{s.name}" for s in self.session.status().slots if s.compute]

    def await_slots(self, *names):
        deadline = time.monotonic() + 60
        while sorted(self.slots()) != sorted(names):
            assert time.monotonic() < deadline, f"there are {self.slots()}, not {names}\n{self.report()}"
            time.sleep(0.02)


@pytest.fixture
def pool():
    p = Devices()
    yield p
    p.close()


def product(seed=1, n=300, everywhere=False):
    rng = np.random.default_rng(seed)
    a, b = random_array(rng, n, n + 1), random_array(rng, n + 1, n - 2)
    x = shoal.tensor(a).place(axis=0) if everywhere else shoal.tensor(a)
    near((x @ shoal.tensor(b)).numpy(), a, b)


def test_devices_by_name(pool):
    pool.lend("all", None, "devices=2")  # what is found: not `ref`, nor OpenCL on the same cores
    pool.await_slots("all/cpu", "all/lag:0", "all/lag:1")
    pool.lend("named", "ref,lag:1,cpu", "devices=2")
    pool.await_slots("all/cpu", "all/lag:0", "all/lag:1", "named/ref", "named/lag:1", "named/cpu")
    for seed in range(4):
        product(seed)
    table = subprocess.run([SHOAL, "status", "--hub", pool.address], capture_output=True, text=True, check=True).stdout
    assert "lag:1" in table
    x = shoal.tensor(np.arange(12.0, dtype=np.float32)).to("lag:1")
    assert (x * 2).numpy().tolist() == [2.0 * i for i in range(12)]


@pytest.mark.parametrize("names, message", [
    ("lag:7", "backend lag has 1 device, numbered from 0; there is no number 7"),
    ("cpu,cpu", "device cpu:0 is named twice"),
    ("cpu,", "device ''; name one as cpu or opencl:0"),
    ("lag:x", "device 'lag:x': 'x' is no number"),
    ("nope", "unknown backend 'nope'; known: cpu"),
])
def test_bad_names(names, message):
    done = subprocess.run([SHOAL, "worker", "--device", names], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and message in done.stderr


def test_a_lost_device_is_done_without(pool):
    """Whatever the call is at which it is lost: the worker goes on with the other."""
    for call in (3, 9, 20):
        name = f"w{call}"
        worker = pool.lend(name, "cpu,lag", f"fail={call},how=lost")
        pool.await_slots(f"{name}/cpu", f"{name}/lag")
        began = time.monotonic()
        x = shoal.tensor(np.arange(64.0, dtype=np.float32)).place(axis=0)
        for step in range(10):
            y = shoal.tensor(np.full(64, step, np.float32)).place(axis=0)
            x = x + y
            assert (x - y).numpy()[:2].tolist() == [step * (step - 1) / 2, 1 + step * (step - 1) / 2]
        assert x.numpy().tolist() == [i + 45.0 for i in range(64)]
        pool.await_slots(f"{name}/cpu")
        assert time.monotonic() - began < 10 * SLACK
        assert worker.poll() is None
        worker.terminate()
        assert worker.wait(60) == 0
        pool.await_slots()


def test_the_last_device_is_lost(pool):
    """The worker leaves with it, and joins again when it can be opened again."""
    pool.lend("one", "lag", "fail=9,how=lost")
    pool.lend("two", "lag")
    pool.await_slots("one/lag", "two/lag")
    for seed in range(6):
        product(seed, 40, everywhere=True)  # by speeds alone the one might never be used
    pool.await_slots("one/lag", "two/lag")
    assert pool.session.status().losses >= 1


def test_more_than_a_device_holds(pool):
    """Operands and result of three times the device's memory: what does not fit lies in the machine's."""
    pool.lend("small", "lag", "memory=64")
    pool.await_slots("small/lag")
    n = 4096
    rng = np.random.default_rng(5)
    a, b = random_array(rng, n, n), random_array(rng, n, n)
    c = (shoal.tensor(a) @ shoal.tensor(b)).numpy()
    v = rng.standard_normal((n, 2))
    want = a @ (b @ v)
    assert np.abs(c.astype(np.float64) @ v - want).max() < 1e-4 * np.abs(want).max()
    product()  # and it goes on, also with what fits


def test_a_loop_that_a_device_has_no_memory_for(pool):
    """Rounds whose operands and results fit a device in part: what does not is beside it, in each round."""
    pool.lend("small", "lag", "memory=1")
    pool.await_slots("small/lag")
    rng = np.random.default_rng(6)
    x, w = rng.integers(-1, 2, (300, 400)).astype("f4"), rng.integers(-1, 2, (400, 400)).astype("f4")

    @shoal.compile(replay=True, donate=0)
    def step(x, w):
        x = shoal.remainder(x @ w, 5)  # small integers, which are exact
        return x, x.sum()

    loop = step.repeat(6, shoal.tensor(x) * 1, shoal.tensor(w), carry={0: 0}, stream=1)
    for value in loop:
        x = np.remainder(x @ w, 5)
        assert value == x.sum()
    assert loop.rounds == 6 and np.array_equal(loop.result[0].numpy(), x)
    product()


def test_what_is_beside_a_small_device_is_cut(pool):
    """Memory is part of the plan: no slot is given what its device cannot hold while others have room."""
    pool.lend("small", "lag", "memory=1")
    pool.lend("large", "cpu")
    pool.await_slots("small/lag", "large/cpu")
    x = shoal.tensor(np.ones((2048, 512), np.float32))  # 4 MiB
    assert (x + 1).sum().item() == 2 * x.size
    held = {s.name: s.bytes for s in pool.session.status().slots if s.compute}
    assert held["lag"] <= 1 << 20


def sums(seconds):
    """A program of many steps, each checked."""
    rng = np.random.default_rng(3)
    a = random_array(rng, 64, 64) / 16
    x = shoal.tensor(a).place(axis=0)
    want, y, steps = a.astype(np.float64), x, 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        y, want = (y @ x) * 0.5 + x, (want @ a) * 0.5 + a
        assert np.abs(y.numpy() - want).max() < 1e-3
        steps += 1
    return steps


def test_slowed_workers(pool):
    """Stopped in turns for 19 of 20 parts of the time, below what counts as dead: nobody is declared dead."""
    workers = [pool.lend(f"w{i}", "cpu") for i in (1, 2)]
    pool.await_slots("w1/cpu", "w2/cpu")
    over = threading.Event()

    def slow():
        turn = 0
        while not over.is_set():
            turn += 1
            worker = workers[turn % 2]
            worker.send_signal(signal.SIGSTOP)
            over.wait(0.38)
            worker.send_signal(signal.SIGCONT)
            over.wait(0.02)

    thread = threading.Thread(target=slow)
    thread.start()
    try:
        steps = sums(SECONDS)
    finally:
        over.set()
        thread.join()
    status = pool.session.status()
    print(f"{steps} steps in {SECONDS} s")
    assert steps > 0 and status.losses == 0 and status.reruns == 0


def test_a_very_slow_device(pool):
    pool.lend("fast", "cpu")
    pool.lend("slow", "lag", "delay=200000")
    pool.await_slots("fast/cpu", "slow/lag")
    assert sums(min(SECONDS, 20)) > 0
    assert pool.session.status().losses == 0
