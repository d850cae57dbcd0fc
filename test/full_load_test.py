"""A pool under full load for SHOAL_LOAD_SECONDS (4; an hour in `make soak`): 100 clients with small
programs, and products of seconds on every worker (of 5 s alone in soak). Nobody is taken for dead who is not, nobody
waits for ever, nothing is wrong. With SHOAL_TRANSPORT=zmq it is the heartbeats that are tried.
"""
import json
import os
import subprocess
import sys
import time

import shoal
from cluster import Pool

SECONDS = float(os.environ.get("SHOAL_LOAD_SECONDS", 4))
PROCESSES, CLIENTS_EACH, WORKERS = 4, 25, 2
SIDE = 8000 if SECONDS > 60 else 4500  # 1.02e12 or 1.8e11 operations: many heartbeats, which are 0.3 s apart

CLIENTS = """
import json, sys, time
import numpy as np, shoal
address, first, count, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
clients = []
for number in range(first, first + count):
    session = shoal.Session(hub=address, timeout_ms=120000)
    data = np.random.default_rng(number).integers(-9, 9, (20, 20)).astype(np.float32)
    clients.append((session, session.tensor(data), data))
print("ready", flush=True)
sys.stdin.readline()
end, rounds, wrong, longest = time.monotonic() + seconds, 0, 0, 0
while time.monotonic() < end:
    for session, there, data in clients:
        start = time.monotonic()
        wrong += not np.array_equal((there @ there + there).numpy(), data @ data + data)
        longest = max(longest, time.monotonic() - start)
        rounds += 1
print(json.dumps({"wrong": wrong, "rounds": rounds, "longest": longest}), flush=True)
"""

PRODUCTS = """
import json, sys, time
import shoal
address, seconds, side = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
shares = json.loads(sys.argv[4])
session = shoal.connect(address, timeout_ms=600000)
ones = shoal.full((side, side), 1.0).place(axis=0, shares=shares)
twos = shoal.full((side, side), 2.0).place(axis=0, shares=shares)
shoal.sync()
print("ready", flush=True)
sys.stdin.readline()
end, times, wrong = time.monotonic() + seconds, [], 0
while time.monotonic() < end or not times:
    start = time.monotonic()
    product = ones @ twos
    wrong += float(product.min().numpy()) != 2 * side or float(product.max().numpy()) != 2 * side
    times.append(time.monotonic() - start)
    del product
print(json.dumps({"wrong": wrong, "times": times}), flush=True)
"""


def start(code, *arguments):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_nobody_is_taken_for_dead():
    pool = Pool(WORKERS)
    others = []
    try:
        alone = [[int(i == worker) for i in range(WORKERS)] for worker in range(WORKERS)]
        others = [start(PRODUCTS, pool.address, SECONDS, SIDE, json.dumps(shares))
                  for shares in alone]
        others += [start(CLIENTS, pool.address, i * CLIENTS_EACH, CLIENTS_EACH, SECONDS)
                   for i in range(PROCESSES)]
        for other in others:
            assert other.stdout.readline() == "ready\n"
        for other in others:
            other.stdin.write("go\n")
            other.stdin.flush()
        sessions = shoal.status().sessions
        assert sessions >= PROCESSES * CLIENTS_EACH + WORKERS
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:  # it answers all the time
            before = time.monotonic()
            assert shoal.status().losses == 0
            assert time.monotonic() - before < 10
            time.sleep(0.5)
        results = [json.loads(other.stdout.readline()) for other in others]
        assert [other.wait(60) for other in others] == [0] * len(others)
        products, clients = results[:WORKERS], results[WORKERS:]
        print(f"{sum(len(r['times']) for r in products)} products of "
              f"{min(min(r['times']) for r in products):.1f} to "
              f"{max(max(r['times']) for r in products):.1f} s; "
              f"{sum(r['rounds'] for r in clients)} programs of {PROCESSES * CLIENTS_EACH} clients, the "
              f"slowest {max(r['longest'] for r in clients):.2f} s")
        assert [r["wrong"] for r in results] == [0] * len(results)
        assert all(r["rounds"] >= CLIENTS_EACH for r in clients)
        status = shoal.status()
        assert status.losses == 0 and status.reruns == 0
        assert sum(slot.compute for slot in status.slots) == WORKERS
    finally:
        for other in others:
            other.kill()
            other.communicate()
        pool.close()
