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
from slack import SLACK
from trust_test import SOON, Machine, await_true

# Ethernet and WiFi; rates in Mb/s, so that a transfer takes its time.
NETWORKS = ("10.77.0", "10.78.0")
RATES = (300, 100)
MIB = 27
WORKERS = ("w1", "w2", "w3")

CLIENT = """
import sys, time, numpy as np, shoal
session = shoal.connect(sys.argv[1], timeout_ms=60000)
dice, rows = np.random.default_rng(0), int(sys.argv[2]) * 4
noise = dice.random((rows, 1 << 16), np.float32)
all = {"noise": noise, "ids": dice.integers(0, 50000, (rows, 1 << 15)),
       "sparse": np.where(dice.random(noise.shape) < 0.01, noise, np.float32(0))}
print("ready", flush=True)
for line in sys.stdin:
    what, *where = line.split()
    start = time.monotonic()
    if what == "file":
        data, x = np.load(where[0]), shoal.load(where[0]).place(slots=where[1:]) * 2
    else:
        data, x = all[what], shoal.tensor(all[what]).place(axis=0, slots=session.compute_slots()) * 2
    print(np.array_equal(x.numpy(), data * 2), time.monotonic() - start, flush=True)
"""


def status(hub):
    return json.loads(hub.run("status", "--hub", "shm:hub", "--json")[0])


def paths(hub):
    return {slot["worker"]: slot["paths"] for slot in status(hub)["slots"]}


class House:
    """A hub, three workers and a client, each with a cable to both networks."""

    def __init__(self, folder):
        python = os.environ.get("PYTHONPATH")
        if not python:
            pytest.skip("the Python package is not built")
        self.network, self.machines = Network(len(NETWORKS)), {}
        for host, name in (1, "hub"), *enumerate(WORKERS, 11), (20, "client"):
            own = [f"{net}.{host}" for net in NETWORKS]
            self.machines[name] = Machine(folder, name, self.network.plug(name, *own))
            for i, rate in enumerate(RATES):
                if not self.network.shape(name, "tbf", "rate", f"{rate}mbit", "burst", "64kb",
                                          "latency", "100ms", cable=i):
                    pytest.skip("this kernel has no tc tbf")
        self.hub, self.client = self.machines["hub"], self.machines["client"]
        words = [word for net in NETWORKS for word in ("--listen", f"{net}.1:7400")]
        self.hub.process = self.hub.start("hub", *words)
        for name in *WORKERS, "client":
            self.machines[name].run("join", self.hub.run("invite")[0].strip())
        for name in WORKERS:
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
        await_true(lambda: paths(self.hub) == dict.fromkeys(WORKERS, 2), 45, lambda: str(status(self.hub)))

    def begin(self, what="noise"):
        self.session.stdin.write(what + "\n")
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
    for tries in range(5, 0, -1):  # what is measured on a busy machine may be its processors
        before = {name: house.received(name) for name in WORKERS}
        house.begin()
        seconds = house.end()
        came = {name: house.received(name) - then for name, then in before.items()}
        print(came, f"{seconds:.2f} s")
        assert all(row.sum() > MIB / len(WORKERS) * (1 << 20) for row in came.values())
        # 3 to 1 by their rates; chunks are large for these.
        if all(0.07 < row[1] / row.sum() < 0.5 for row in came.values()):
            break
        assert tries > 1, came


def test_what_gets_smaller_is_compressed(house):
    """On cables as slow as these, both ways; what does not get smaller goes as it is."""
    took = {}
    for what in "noise", "ids", "sparse":
        house.begin(what)
        house.end()
        before = {name: house.received(name).sum() for name in (*WORKERS, "client")}
        house.begin(what)
        house.end()
        took[what] = {name: (house.received(name).sum() - then) / (1 << 20) for name, then in before.items()}
    print(took)
    sent, got = ({what: sum(by[name] for name in names) for what, by in took.items()}
                 for names in (WORKERS, ("client",)))
    for bytes_of in sent, got:
        assert bytes_of["noise"] > MIB
        assert bytes_of["ids"] < 0.75 * MIB
        assert bytes_of["sparse"] < 0.3 * MIB

    def told():
        """Of each worker, its paths to the client, as the worker tells of them."""
        rows = status(house.hub)["paths"]
        own = {name: [row for row in rows if row["worker"] == name and
                      row["other"] not in (*WORKERS, "hub")] for name in WORKERS}
        return all(len(of) == 2 and all(row["sent_bytes"] and row["bytes_per_second"] for row in of)
                   and {row["address"].removeprefix("tcp://").rsplit(".", 1)[0] for row in of} == set(NETWORKS)
                   and sum(row["saved_bytes"] for row in of) > MIB << 17 for of in own.values())
    await_true(told, 60, lambda: str(status(house.hub)["paths"]))
    text = house.hub.run("status", "--hub", "shm:hub", "--wide")[0]
    assert re.search(r"FROM +TO +PATH +PER SECOND +SENT +SAVED", text), text
    top = house.hub.run("top", "--hub", "shm:hub", "--wide", "--count", "1")[0]
    assert re.search(rf"w1 +to \S+ +by tcp://{NETWORKS[0]}\.\S+ +\S+ MiB/s  sent +\S+ MiB, +\S+ MiB less", top), top


def drafts(machine):
    return list((machine.root / "cache/shoal/models").glob("*.part"))


def test_files_go_by_both_and_go_on(house, tmp_path):
    """A worker fetches a file by both networks, is killed in the middle, and goes on where it was."""
    name, mib = "w1", 144
    machine = house.machines[name]
    for tries in range(5, 0, -1):  # what is measured on a busy machine may be its processors
        path, before = tmp_path / f"{tries}.npy", house.received(name)
        np.save(path, np.random.default_rng(tries).random((mib, 1 << 18), np.float32))
        house.begin(f"file {path} {name}")
        await_true(lambda: any(slot["worker"] == name and 0 < slot["fetched_bytes"] < slot["fetching_bytes"]
                               for slot in status(house.hub)["slots"]), 60, lambda: str(status(house.hub)))
        assert re.search(rf"{name} fetches a file: \S+ MiB of 144 MiB are there", house.hub.run("status")[0])
        # By both, and more than is looked for below: what has come is counted in whole parts.
        while drafts(machine) and ((came := house.received(name) - before).min() < 2 << 20 or came.sum() < 32 << 20):
            time.sleep(0.01)
        if drafts(machine):
            break
        house.end()  # it is there, by one network alone or nearly so
        assert tries > 1, came
    machine.process.kill()
    machine.process.wait()
    print("killed after", house.received(name) - before)
    house.end()  # another one fetches it
    assert len(drafts(machine)) == 1
    machine.process = machine.start("worker", "--name", name, "--threads", "1")
    house.whole()
    before = house.received(name)
    house.begin(f"file {path} {name}")
    house.end()
    log, came = machine.log(machine.process), house.received(name) - before
    there, all_of_it = map(float, re.search(r"\.npy: (\S+) of (\S+) MB are there from before", log).groups())
    print("were there", there, "of", all_of_it, "came", came)
    assert there > 10 and came.sum() < (all_of_it - there + 6) * 1.1e6
    files = machine.root / "cache/shoal/models"
    assert not drafts(machine)
    assert path.read_bytes() in [file.read_bytes() for file in files.iterdir()]


class Wall:
    """A firewall on a machine that throws away what a network brings, and what goes there."""

    def __init__(self, machine, cable):
        self.nft = [*machine.prefix, "nft"]
        rules = "add table inet wall; add chain inet wall in { type filter hook input priority 0; }; " \
                "add chain inet wall out { type filter hook output priority 0; }; " \
                f"add rule inet wall in iifname eth{cable} drop; add rule inet wall out oifname eth{cable} drop"
        subprocess.run([*self.nft, rules], check=True, capture_output=True)

    def end(self):
        subprocess.run([*self.nft, "delete", "table", "inet", "wall"], check=True)


def test_one_is_cut_in_the_middle(house):
    """Of one worker the first cable, of another the second, of the third a firewall stands before the
    first: all their links lose a path, and no byte is wrong, nor is anybody lost."""
    losses = status(house.hub)["losses"]
    lost = {"w1": 0, "w2": 1, "w3": 0}
    before = {name: len(house.machines[name].log(house.machines[name].process)) for name in WORKERS}
    house.begin()
    time.sleep(0.2)
    house.network.cable("w1", False, 0)
    house.network.cable("w2", False, 1)
    try:
        wall = Wall(house.machines["w3"], 0)
    except (subprocess.CalledProcessError, FileNotFoundError):
        wall = None  # no nft here
        del lost["w3"]
    try:
        house.end()
        await_true(lambda: all(paths(house.hub)[name] == 1 for name in lost), 5 * SLACK,
                   lambda: str(status(house.hub)))
        for name, cable in lost.items():
            log = house.machines[name].log(house.machines[name].process)[before[name]:]
            assert re.search(rf"has lost its path \S*{NETWORKS[cable]}", log), log
        assert status(house.hub)["losses"] == losses
    finally:
        house.network.cable("w1", True, 0)
        house.network.cable("w2", True, 1)
        if wall:
            wall.end()
    house.whole()
    then = {name: house.received(name) for name in lost}

    def used():
        house.begin()
        house.end()
        return all((house.received(name) - then[name])[cable] > 1 << 19 for name, cable in lost.items())
    await_true(used, 60, "they are used again")


def test_both_are_cut(house):
    hub, machine = house.hub, house.machines["w2"]
    before = len(hub.log(hub.process))
    joined = hub.log(hub.process).count("w2 joined")
    for cable in range(len(NETWORKS)):
        house.network.cable("w2", False, cable)
    await_true(lambda: "w2 left" in hub.log(hub.process)[before:], 4 * SLACK, lambda: hub.log(hub.process))
    house.begin()
    house.end()  # without it
    for cable in range(len(NETWORKS)):
        house.network.cable("w2", True, cable)
    await_true(lambda: hub.log(hub.process).count("w2 joined") > joined, 60,
               lambda: machine.log(machine.process))
    house.whole()


FAULTS = ("flip", "drop", "cut")


def test_changed_on_the_way(tmp_path):
    """A path on which bytes are changed, or nothing comes, or that is cut, is given up, said to be, and
    tried again; what was on it goes by others. A worker for each, of a user of its own."""
    hub = Machine(tmp_path, "home")
    machines, proxies, workers = {}, {}, {}
    try:
        process = hub.start("hub", "--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0")
        port = int(re.search(r"tcp://127\.0\.0\.1:(\d+)", process.first)[1])
        for fault in FAULTS:
            machine, proxy = Machine(tmp_path, fault), Proxy(port)
            machines[fault], proxies[fault] = machine, proxy
            machine.run("join", hub.run("invite")[0].strip(), "--name", fault)
            key = machine.file("hubs").read_text().split()[1]
            workers[fault] = machine.start("worker", "--once", "--hub",
                                           f"tcp://127.0.0.1:{proxy.port}/{key}", "--name", fault,
                                           "--threads", "1")
        whole = dict.fromkeys(FAULTS, 3)
        await_true(lambda: paths(hub) == whole, 60, lambda: str(status(hub)))
        dice = np.random.default_rng(1)
        a, b = (dice.integers(-8, 8, shape).astype(np.float32) for shape in ((900, 700), (700, 600)))
        np.save(tmp_path / "a.npy", a)
        np.save(tmp_path / "b.npy", b)

        def product():
            hub.run("matmul", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "c.npy", "--force",
                    "--hub", "shm:hub")
            assert np.array_equal(np.load(tmp_path / "c.npy"), a @ b)
        product()
        proxies["cut"].cut()
        proxies["flip"].flip = proxies["drop"].drop = True
        product()
        await_true(lambda: all(slot["paths_lost"] for slot in status(hub)["slots"]), 8 * SLACK,
                   lambda: str(status(hub)))
        product()
        assert status(hub)["losses"] == 0 and all(own.poll() is None for own in workers.values())
        text = hub.run("status")[0]
        for fault, own in workers.items():  # each side finds out by itself
            await_true(lambda: f"has lost its path tcp://127.0.0.1:{proxies[fault].port}" in machines[fault].log(own), 8 * SLACK,
                       lambda: machines[fault].log(own))
            assert re.search(rf"{fault} has \d paths? to the hub; one was lost \d+ times?", text), text
        proxies["flip"].flip = proxies["drop"].drop = False
        await_true(lambda: paths(hub) == whole, 60, lambda: str(status(hub)))
        product()
        # A user whose key is revoked loses all of them at once.
        del whole["cut"]
        hub.run("revoke", "cut")
        await_true(lambda: paths(hub) == whole, SLACK, lambda: str(status(hub)))
        workers["cut"].wait(SOON)
        assert "the key of this user was revoked" in machines["cut"].log(workers["cut"])
    finally:
        for machine in machines.values():
            machine.close()
        hub.close()
        for proxy in proxies.values():
            proxy.close()
