"""Many operations and many clients: memory stays flat, nobody is wrong, nobody waits for long."""
import json
import os
import subprocess
import sys
import threading
import time

import numpy as np

import shoal
from pool_test import Pool
from slack import UNFAIR

CHAIN = 1000


def resident(pid):
    """Bytes of a process's own memory. Rings between processes are of a fixed size, and count as
    their pages are first touched: they are left out."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) << 10


def test_memory_is_flat_over_a_million_operations():
    pool = Pool(1)
    try:
        operands = [shoal.tensor(np.full((10, 10), i % 7, np.float32)) for i in range(CHAIN)]
        zero = shoal.tensor(np.zeros((10, 10), np.float32))

        def run(chains):
            for _ in range(chains):
                x = zero
                for operand in operands:
                    x = x + operand
                x.start()
            return x.numpy()

        def state():
            processes = [os.getpid(), *(process.pid for process in pool.processes)]
            return shoal.status(), sum(map(resident, processes))
        run(1000)  # programs are known, memory that is kept for reuse is there
        # Memory of a client is as large as its longest backlog of programs was, and that grows
        # whenever the worker is late as it was not before. What leaks grows in each round.
        for _ in range(5):
            before, bytes_before = state()
            result = run(1000)
            shoal.sync()
            after, bytes_after = state()
            assert (result == sum(i % 7 for i in range(CHAIN))).all()
            done = sum(slot.nodes for slot in after.slots) - sum(slot.nodes for slot in before.slots)
            print(f"{done} operations; values {before.values} -> {after.values}; resident "
                  f"{bytes_before >> 20} -> {bytes_after >> 20} MiB")
            assert done >= 1_000_000
            assert after.values <= before.values + 4
            if bytes_after - bytes_before < 2 << 20:
                break
        assert bytes_after - bytes_before < 2 << 20
    finally:
        pool.close()


CLIENT = """
import json, sys, time
import numpy as np, shoal
shoal.connect(sys.argv[1])
seed = int(sys.argv[2])
rng = np.random.default_rng(seed)
start = rng.integers(-9, 9, (7, 13)).astype(np.float32)
terms = [rng.integers(-9, 9, (7, 13)).astype(np.float32) for _ in range(100)]
there, operands = shoal.tensor(start), [shoal.tensor(term) for term in terms]
want, wrong = start + sum(terms), 0
for _ in range(2): (there + operands[0]).numpy()
print("ready", flush=True)
sys.stdin.readline()
began = time.monotonic()
for _ in range(1000):
    x = there
    for operand in operands:
        x = x + operand
    wrong += not (x.numpy() == want).all()
print(json.dumps({"wrong": wrong, "seconds": time.monotonic() - began}), flush=True)
"""


def test_ten_clients_of_a_hundred_thousand_operations():
    pool = Pool(2)
    clients = []
    try:
        clients = [subprocess.Popen([sys.executable, "-c", CLIENT, pool.address, str(i)],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                   for i in range(10)]
        for client in clients:
            assert client.stdout.readline() == "ready\n"
        for client in clients:
            client.stdin.write("go\n")
            client.stdin.flush()
        results = [json.loads(client.stdout.readline()) for client in clients]
        seconds = sorted(result["seconds"] for result in results)
        print("10 clients:", " ".join(f"{s:.2f}" for s in seconds))
        assert [result["wrong"] for result in results] == [0] * 10
        assert [client.wait(60) for client in clients] == [0] * 10
        assert seconds[-1] <= UNFAIR * seconds[0]
    finally:
        for client in clients:
            client.kill()
            client.communicate()
        pool.close()


def test_threads_of_one_client():
    pool = Pool(2)
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        a = rng.integers(-9, 9, (5, 6)).astype(np.float32)
        b = rng.integers(-9, 9, (6, 4)).astype(np.float32)
        deadline = time.monotonic() + 60
        for _ in range(200):
            if not np.array_equal((shoal.tensor(a) @ shoal.tensor(b)).numpy(), a @ b):
                wrong.append(seed)
            assert time.monotonic() < deadline
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in threads) and not wrong
    finally:
        pool.close()
