"""Machines with two networks between them: both are used at once, and one alone while the other fails,
in the middle of a transfer, whichever it is and however it fails.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest

from netns_test import Network
from proxy import Proxy
from trust_test import Machine, await_true

# Ethernet and WiFi; rates in Mb/s, so that a transfer takes its time.
NETWORKS = ("10.77.0", "10.78.0")
RATES = (300, 100)
MIB = 24

CLIENT = """
import sys, time, numpy as np, shoal
session = shoal.connect(sys.argv[1], timeout_ms=60000)
data = np.random.default_rng(0).random((int(sys.argv[2]) * 4, 1 << 16), np.float32)
print("ready", flush=True)
for line in sys.stdin:
    start = time.monotonic()
    x = shoal.tensor(data).place(axis=0, slots=session.compute_slots()) * 2
    print(np.array_equal(x.numpy(), data * 2), time.monotonic() - start, flush=True)
"""


def status(hub):
    return json.loads(hub.run("status", "--hub", "shm:hub", "--json")[0])


def paths(hub):
    return {slot["worker"]: slot["paths"] for slot in status(hub)["slots"]}


class House:
    """A hub, two workers and a client, each with a cable to both networks."""

    def __init__(self, folder):
        python = os.environ.get("PYTHONPATH")
        if not python:
            pytest.skip("the Python package is not built")
        self.network, self.machines = Network(len(NETWORKS)), {}
        for host, name in (1, "hub"), (11, "w1"), (12, "w2"), (20, "client"):
            own = [f"{net}.{host}" for net in NETWORKS]
            self.machines[name] = Machine(folder, name, self.network.plug(name, *own))
            for i, rate in enumerate(RATES):
                if not self.network.shape(name, "tbf", "rate", f"{rate}mbit", "burst", "64kb",
                                          "latency", "100ms", cable=i):
                    pytest.skip("this kernel has no tc tbf")
        self.hub, self.client = self.machines["hub"], self.machines["client"]
        words = [word for net in NETWORKS for word in ("--listen", f"{net}.1:7400")]
        self.hub.process = self.hub.start("hub", *words)
        for name in "w1", "w2", "client":
            self.machines[name].run("join", self.hub.run("invite")[0].strip())
        for name in "w1", "w2":
            machine = self.machines[name]
            machine.process = machine.start("worker", "--name", name, "--threads", "1")
        where = ",".join(f"tcp://{net}.1:7400" for net in NETWORKS)
        own = ",".join(f"{net}.20" for net in NETWORKS)
        self.session = subprocess.Popen(
            [*self.client.prefix, sys.executable, "-c", CLIENT, where, str(MIB)], text=True,
            env=self.client.environment | {"PYTHONPATH": python, "SHOAL_LISTEN": own},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.session.stdout.readline() == "ready\n"
        self.whole()

    def whole(self):
        await_true(lambda: paths(self.hub) == {"w1": 2, "w2": 2}, 45, lambda: str(status(self.hub)))

    def begin(self):
        self.session.stdin.write("\n")
        self.session.stdin.flush()

    def end(self):
        right, seconds = self.session.stdout.readline().split()
        assert right == "True"
        return float(seconds)

    def received(self, name):
        """Bytes that came to a machine, by network."""
        files = [f"/sys/class/net/eth{i}/statistics/rx_bytes" for i in range(len(NETWORKS))]
        return np.array(subprocess.check_output([*self.machines[name].prefix, "cat", *files]).split(),
                        dtype=np.int64)

    def close(self):
        if hasattr(self, "session"):
            self.session.kill()
            self.session.communicate()
        for machine in reversed(self.machines.values()):
            machine.close()
        self.network.close()


@pytest.fixture(scope="module")
def house():
    with tempfile.TemporaryDirectory(prefix="shoal-") as folder:
        h = House(folder)
        yield h
        h.close()


def test_both_are_used_in_proportion(house):
    for _ in range(3):  # the links are made, and measured
        house.begin()
        house.end()
    before = {name: house.received(name) for name in ("w1", "w2")}
    house.begin()
    seconds = house.end()
    for name, then in before.items():
        came = house.received(name) - then
        print(name, came, f"{seconds:.2f} s")
        assert came.sum() > MIB / 2 * (1 << 20)
        # 3 to 1 by their rates; chunks are large for these.
        assert 0.07 < came[1] / came.sum() < 0.5, came


@pytest.mark.parametrize("how,cable", [("cable", 0), ("cable", 1), ("firewall", 0)])
def test_one_is_cut_in_the_middle(house, how, cable):
    """Of one worker: all its links lose a path, and no byte is wrong, nor is anybody lost."""
    losses = status(house.hub)["losses"]
    machine = house.machines["w1"]
    before = len(machine.log(machine.process))
    wall = [*machine.prefix, "nft"]
    house.begin()
    time.sleep(0.3)
    if how == "cable":
        house.network.cable("w1", False, cable)
    else:
        rules = "add table inet wall; add chain inet wall in { type filter hook input priority 0; }; " \
                "add chain inet wall out { type filter hook output priority 0; }; " \
                f"add rule inet wall in iifname eth{cable} drop; add rule inet wall out oifname eth{cable} drop"
        try:
            subprocess.run([*wall, rules], check=True, capture_output=True)
        except (subprocess.CalledProcessError, FileNotFoundError):
            house.end()
            pytest.skip("no nft here")
    try:
        house.end()
        await_true(lambda: paths(house.hub)["w1"] == 1, 5, lambda: str(status(house.hub)))
        log = machine.log(machine.process)[before:]
        assert re.search(rf"has lost its path \S*{NETWORKS[cable]}", log), log
        assert status(house.hub)["losses"] == losses
    finally:
        if how == "cable":
            house.network.cable("w1", True, cable)
        else:
            subprocess.run([*wall, "delete", "table", "inet", "wall"], check=True)
    house.whole()
    then = house.received("w1")

    def used():
        house.begin()
        house.end()
        return (house.received("w1") - then)[cable] > 2 << 20
    await_true(used, 30, "it is used again")


def test_both_are_cut(house):
    hub, machine = house.hub, house.machines["w2"]
    before = len(hub.log(hub.process))
    joined = hub.log(hub.process).count("w2 joined")
    for cable in range(len(NETWORKS)):
        house.network.cable("w2", False, cable)
    await_true(lambda: "w2 left" in hub.log(hub.process)[before:], 4, lambda: hub.log(hub.process))
    house.begin()
    house.end()  # without it
    for cable in range(len(NETWORKS)):
        house.network.cable("w2", True, cable)
    await_true(lambda: hub.log(hub.process).count("w2 joined") > joined, 20,
               lambda: machine.log(machine.process))
    house.whole()


@pytest.mark.parametrize("fault", ["flip", "drop", "cut"])
def test_changed_on_the_way(tmp_path, fault):
    """A path on which bytes are changed, or nothing comes, is given up, said to be, and tried again;
    what was on it goes by others."""
    hub = Machine(tmp_path, "home")
    worker, proxy = None, None
    try:
        process = hub.start("hub", "--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0")
        port = int(re.search(r"tcp://127\.0\.0\.1:(\d+)", process.first)[1])
        worker = Machine(tmp_path, "ann")
        worker.run("join", hub.run("invite")[0].strip())
        key = worker.file("hubs").read_text().split()[1]
        proxy = Proxy(port)
        own = worker.start("worker", "--once", "--hub", f"tcp://127.0.0.1:{proxy.port}/{key}", "--name",
                           "w1", "--threads", "1")
        await_true(lambda: paths(hub) == {"w1": 3}, 5, lambda: str(status(hub)))
        dice = np.random.default_rng(1)
        a, b = (dice.integers(-8, 8, shape).astype(np.float32) for shape in ((900, 700), (700, 600)))
        np.save(tmp_path / "a.npy", a)
        np.save(tmp_path / "b.npy", b)

        def product():
            hub.run("matmul", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "c.npy", "--force",
                    "--hub", "shm:hub")
            assert np.array_equal(np.load(tmp_path / "c.npy"), a @ b)
        product()
        if fault == "cut":
            proxy.cut()
        else:
            setattr(proxy, fault, True)
        product()
        await_true(lambda: status(hub)["slots"][0]["paths_lost"] > 0, 8, lambda: str(status(hub)))
        product()
        assert status(hub)["losses"] == 0 and own.poll() is None
        assert f"has lost its path tcp://127.0.0.1:{proxy.port}" in worker.log(own)
        assert re.search(r"w1 has \d paths? to the hub; one was lost \d+ times?", hub.run("status")[0])
        proxy.flip = proxy.drop = False
        await_true(lambda: paths(hub) == {"w1": 3}, 40, lambda: str(status(hub)))
        product()
    finally:
        if worker:
            worker.close()
        hub.close()
        if proxy:
            proxy.close()
