"""A product of operands in a client's memory, whose result goes back there: the client's part.

    lan.py HUB SIZE RUNS

Prints, as JSON, the seconds of each run, those that the plan expects at the end, and those of computing
alone, when the operands lie with the workers.
"""
import contextlib
import json
import os
import subprocess
import sys
import tempfile

import lib

HUB = "10.77.0.1"
ADDRESSES = {"hub": HUB, "client": "10.77.0.2", "w1": "10.77.0.11", "w2": "10.77.0.12"}
# Of 1 Gb/s, what is left for the bytes in Ethernet's frames.
PAYLOAD = 1e9 / 8 * 1448 / 1514


@contextlib.contextmanager
def network():
    """{name: machine}: a hub, a client and two workers of one thread, each with a cable of 1 Gb/s."""
    os.environ.setdefault("SHOAL", str(lib.BUILD / "cmd" / "shoal"))
    sys.path.insert(0, str(lib.ROOT / "test"))
    import pytest
    from netns_test import Network
    from trust_test import Machine
    try:
        net = Network()
    except pytest.skip.Exception as reason:
        raise lib.BenchError(str(reason)) from reason
    machines = {}
    with tempfile.TemporaryDirectory(prefix="shoal-") as folder:
        try:
            for name, address in ADDRESSES.items():
                machines[name] = Machine(folder, name, net.plug(name, address))
                if not net.shape(name, "tbf", "rate", "1gbit", "burst", "128kb", "latency", "50ms"):
                    raise lib.BenchError("this kernel has no tc tbf")
            machines["hub"].start("hub", "--listen", f"{HUB}:7400")
            for name in ("client", "w1", "w2"):
                machines[name].run("join", machines["hub"].run("invite")[0].strip())
            for name in ("w1", "w2"):
                machines[name].start("worker", "--name", name, "--threads", "1")
            yield machines
        finally:
            for machine in reversed(machines.values()):
                machine.close()
            net.close()


def measure(size, runs):
    """What the client prints."""
    with network() as machines:
        client = machines["client"]
        done = subprocess.run(
            [*client.prefix, sys.executable, __file__, f"tcp://{HUB}:7400", str(size), str(runs)],
            env={**lib.environment(), **client.environment, "SHOAL_LISTEN": ADDRESSES["client"],
                 "PYTHONPATH": str(lib.BUILD / "python")},
            capture_output=True, text=True, timeout=lib.SECONDS, check=False)
    if done.returncode:
        raise lib.BenchError(f"lan.py ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def main():
    shoal = lib.product()
    size, runs = int(sys.argv[2]), int(sys.argv[3])
    shoal.connect(sys.argv[1])
    a, b = lib.operands(size, size, size)

    def product():
        return shoal.tensor(a) @ shoal.tensor(b)
    times = []
    for _ in range(runs + 2):  # the first two measure devices and links
        results = []
        times.append(lib.timed(lambda: results.append(product().numpy()))())
        lib.check(results[0], a, b)
    expected = json.loads(shoal.explain(product(), json=True))["seconds"]
    rows, whole = shoal.tensor(a).place(axis=0), shoal.tensor(b).place()
    shoal.sync()

    def compute():
        made = rows @ whole  # held until it is there
        shoal.sync()
        return made
    computing = [lib.timed(compute)() for _ in range(runs + 1)][1:]
    print(json.dumps({"times": times[2:], "expected": expected, "computing": lib.median(computing)}))


if __name__ == "__main__":
    main()
