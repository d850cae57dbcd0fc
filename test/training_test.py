"""Training on pools: memory stays flat, and clients that train at once do not disturb each other.

SHOAL_STEPS: how many steps memory is watched over (3,000).
"""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import shoal
from cluster import Pool
from shoal import nn
from slack import UNFAIR

STEPS = int(os.environ.get("SHOAL_STEPS", "3000"))
CLIENTS = 8
ROOM = 48 << 20  # what may come and go: buffers of programs on their way


def anonymous(pid):
    """Bytes of memory of a process, without what it shares with others."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines()
                       if line.startswith("RssAnon"))


@pytest.mark.parametrize("workers", [1, 2])
def test_memory_is_flat(workers):
    pool = Pool(workers, spare=32 << 20)
    try:
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((64, 200), dtype=np.float32), rng.integers(0, 10, 64)
        model = nn.Sequential(nn.Linear(200, 128), nn.ReLU(), nn.Linear(128, 10))
        optimizer = shoal.optim.Adam(model.parameters(), lr=0.001)
        processes = [os.getpid(), *(process.pid for process in pool.processes)]
        peaks, values = [[0] * len(processes) for _ in range(2)], []
        for step in range(STEPS):
            loss = nn.functional.cross_entropy(model(shoal.tensor(x)), shoal.tensor(y))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 50 == 49:
                loss.item()
                half = int(step >= STEPS // 2)
                peaks[half] = [max(a, anonymous(pid)) for a, pid in zip(peaks[half], processes)]
                del loss
                shoal.sync()
                values.append(shoal.status().values)
        print(f"{STEPS} steps: peaks of memory in MiB, first and second half: "
              f"{[[n >> 20 for n in half] for half in peaks]}; values: {min(values)}")
        for first, second in zip(*peaks):
            assert second <= first + ROOM, "memory grows"
        assert min(values[len(values) // 2:]) <= min(values[:len(values) // 2])
    finally:
        pool.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_step_is_one_message_per_worker(workers):
    """Forward, backward and update are one program, which is handed out whole. The batch is divided, so
    that all workers take part however fast they are measured to be."""
    # Copies for recovery, which are made by programs of their own, have no room.
    pool = Pool(workers, spare=1)
    try:
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((64, 784), dtype=np.float32), rng.integers(0, 10, 64)
        x, y = shoal.tensor(x).place(axis=0), shoal.tensor(y).place(axis=0)
        model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
        optimizer = shoal.optim.AdamW(model.parameters(), lr=0.001)

        def train(steps):
            for _ in range(steps):
                loss = nn.functional.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            shoal.sync()
            status = shoal.status()
            return [status.instances, *(slot.instances for slot in status.slots if slot.compute)]
        before = train(20)
        after = train(100)
        counts = [(b - a) / 100 for a, b in zip(before, after)]
        print(f"{workers} workers: programs per step {counts[0]:g}, messages {counts[1:]}")
        assert counts == [1.0] * (1 + workers)
    finally:
        pool.close()


CLIENT = """
import json, sys, time
import numpy as np
import shoal
from shoal import nn
address, seed, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
shoal.connect(address) if address else shoal.init(workers=1)
shoal.manual_seed(seed)
rng = np.random.default_rng(seed)
x, y = rng.standard_normal((50, 40), dtype=np.float32), rng.integers(0, 5, 50)
model = nn.Sequential(nn.Linear(40, 64), nn.Tanh(), nn.Linear(64, 5))
optimizer = shoal.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
def train(steps):
    losses = []
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(shoal.tensor(x)), shoal.tensor(y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
print("ready", flush=True)
sys.stdin.readline()
started = time.monotonic()
losses = train(steps)
print(json.dumps([losses, time.monotonic() - started]), flush=True)
sys.stdin.readline()
"""


def start(address, seed, steps):
    process = subprocess.Popen([sys.executable, "-c", CLIENT, address, str(seed), str(steps)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def go(process):
    process.stdin.write("\n")
    process.stdin.flush()


def result(process):
    return json.loads(process.stdout.readline())


def test_clients_train_at_once():
    """Losses are those of a client alone, and nobody is served much faster than another."""
    pool, steps = Pool(2), 150
    clients = []
    try:
        clients = [start(pool.address, seed, steps) for seed in range(CLIENTS)]
        for client in clients:
            go(client)
        got = [result(client) for client in clients]
        times = [seconds for _, seconds in got]
        print(f"{CLIENTS} clients of {steps} steps: {min(times):.2f} to {max(times):.2f} s")
        for seed, (losses, _) in enumerate(got):
            alone = start("", seed, steps)
            clients.append(alone)
            go(alone)
            want, _ = result(alone)
            assert np.allclose(losses, want, rtol=1e-4, atol=1e-5), seed
        assert max(times) <= UNFAIR * min(times), times
    finally:
        for client in clients:
            client.communicate("\n", timeout=60)
        pool.close()
