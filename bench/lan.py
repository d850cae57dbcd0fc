"""A product of operands in a client's memory, whose result goes back there: the client's part.

    lan.py HUB SIZE RUNS
    lan.py HUB SIZE RUNS noise|ids

With a word: only the seconds in which a value of SIZE MiB of one worker comes to the client, of numbers
that do not get smaller by compression, or of token numbers, which do.

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

HOSTS = {"hub": 1, "client": 2, "w1": 11, "w2": 12}
GIGABIT = 1000
# Of 1 Gb/s, what is left for the bytes in Ethernet's frames.
PAYLOAD = 1e9 / 8 * 1448 / 1514


def addresses(name, rates):
    """Of a machine, in each of the networks."""
    return [f"10.{77 + i}.0.{HOSTS[name]}" for i in range(len(rates))]


@contextlib.contextmanager
def network(rates, prepare=None):
    """{name: machine}: a hub, a client and two workers of one thread, each with a cable to a network for
    each rate, in Mb/s. prepare(net): does more to the cables before anything is on them."""
    os.environ.setdefault("SHOAL", str(lib.BUILD / "cmd" / "shoal"))
    sys.path.insert(0, str(lib.ROOT / "test"))
    import pytest
    from netns_test import Network
    from trust_test import Machine
    try:
        net = Network(len(rates))
    except pytest.skip.Exception as reason:
        raise lib.BenchError(str(reason)) from reason
    machines = {}
    with tempfile.TemporaryDirectory(prefix="shoal-") as folder:
        try:
            for name in HOSTS:
                machines[name] = Machine(folder, name, net.plug(name, *addresses(name, rates)))
                for i, rate in enumerate(rates):
                    if not net.shape(name, "tbf", "rate", f"{rate}mbit", "burst", "128kb", "latency", "50ms",
                                     cable=i):
                        raise lib.BenchError("this kernel has no tc tbf")
            if prepare:
                prepare(net)
            machines["hub"].start("hub", *(word for address in addresses("hub", rates)
                                           for word in ("--listen", f"{address}:7400")))
            for name in ("client", "w1", "w2"):
                machines[name].run("join", machines["hub"].run("invite")[0].strip())
            for name in ("w1", "w2"):
                machines[name].start("worker", "--name", name, "--threads", "1")
            yield machines
        finally:
            for machine in reversed(machines.values()):
                machine.close()
            net.close()


def measure(size, runs, *what, rates=(GIGABIT,)):
    """What the client prints."""
    hub = ",".join(f"tcp://{address}:7400" for address in addresses("hub", rates))
    with network(rates) as machines:
        client = machines["client"]
        done = subprocess.run(
            [*client.prefix, sys.executable, __file__, hub, str(size), str(runs), *what],
            env={**lib.environment(), **client.environment,
                 "SHOAL_LISTEN": ",".join(addresses("client", rates)),
                 "PYTHONPATH": str(lib.BUILD / "python")},
            capture_output=True, text=True, timeout=lib.SECONDS, check=False)
    if done.returncode:
        raise lib.BenchError(f"lan.py ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def fetch(shoal, session, mib, runs, what):
    """The worker has it already when the clock starts."""
    times = []
    for i in range(runs + 2):  # the first two measure the paths
        made = shoal.rand(mib, 1 << 18, seed=i) if what == "noise" else \
            shoal.randint(0, 50000, (mib, 1 << 17), seed=i)
        made = made.place(slots=session.compute_slots()[:1]) + 1
        shoal.sync()
        times.append(lib.timed(made.numpy)())
    print(json.dumps({"times": times[2:]}))


def main():
    shoal = lib.product()
    size, runs = int(sys.argv[2]), int(sys.argv[3])
    session = shoal.connect(sys.argv[1])
    if sys.argv[4:]:
        fetch(shoal, session, size, runs, sys.argv[4])
        return
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
