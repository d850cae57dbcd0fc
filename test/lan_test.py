"""Hubs that announce themselves, and workers that find them, lose them and join again. All of it on
loopback: a beacon of a hub at 127.0.0.1 goes to 127.255.255.255, which is this machine.
"""
import pathlib
import random
import re
import select
import signal
import socket
import struct
import subprocess
import time

import numpy as np
import pytest

from slack import SLACK
from trust_test import GONE, Machine, await_true

EVERYBODY = "127.255.255.255"


@pytest.fixture
def port():
    """A UDP port that nobody else's tests use."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def lan(tmp_path, port):
    import subprocess
    folder = pathlib.Path(subprocess.check_output(["mktemp", "-d", "/tmp/shoal-XXXXXX"],
                                                  text=True).strip())
    machines = {name: Machine(folder, name) for name in ("here", "there")}
    for machine in machines.values():
        machine.environment["SHOAL_BEACON"] = str(port)
    yield machines["here"], machines["there"]
    for machine in machines.values():
        machine.close()
    subprocess.run(["rm", "-rf", folder], check=True)


def start_hub(machine, *options, at="127.0.0.1:0"):
    """(process, its TCP address)"""
    hub = machine.start("hub", "--listen", at, *options)
    return hub, re.search(r"tcp://[\d.:]+", hub.first)[0]


def end(machine, process, number=signal.SIGTERM):
    process.send_signal(number)
    process.wait(60)
    machine.processes.remove(process)
    process.stdout.close()
    process.log.close()


def enrol(hub_machine, guest):
    guest.run("join", hub_machine.run("invite")[0].strip())


def names(machine, address):
    return re.findall(r"^ +\d+ +(\S+)", machine.run("status", "--hub", address)[0], re.M)


def send(port, *datagrams):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        for datagram in datagrams:
            out.sendto(datagram, (EVERYBODY, port))


def hear(port, seconds, least=0):
    """What is announced in so many seconds, and for as long as it takes to hear so many."""
    heard = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        ear.bind(("", port))
        ear.settimeout(0.1)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline or len(heard) < least:
            assert time.monotonic() < deadline + 60, heard
            try:
                heard.append(ear.recv(2000))
            except TimeoutError:
                pass
    return heard


def test_a_worker_finds_its_hub_at_a_new_address(lan):
    here, there = lan
    hub, old = start_hub(here)
    enrol(here, there)
    end(here, hub)
    hub, new = start_hub(here)
    assert new != old
    start = time.monotonic()
    worker = there.start("worker", "--name", "w", "--threads", "1")
    assert worker.first == f"worker: w joined {new}\n"
    assert time.monotonic() - start < 4 * SLACK
    assert names(here, "shm:hub") == ["w"]


def test_what_a_beacon_says(lan, port):
    here, there = lan
    _, address = start_hub(here)
    start = time.monotonic()
    heard = hear(port, 3.3, 3)
    assert 3 <= len(heard) <= time.monotonic() - start + 1 and len(set(heard)) == 1  # one a second
    text = address.encode()
    assert heard[0][:12] == b"SHOALHUB" + struct.pack(">HH", 1, len(text))
    assert heard[0][20:] == text  # and no more than that: neither keys nor names


@pytest.mark.parametrize("how", ["option", "variable", "no --listen"])
def test_a_hub_may_be_silent(lan, port, how):
    here, there = lan
    if how == "variable":
        here.environment["SHOAL_BEACON"] = "off"
    hub, _ = start_hub(here)
    if how == "no --listen":
        enrol(here, there)
        end(here, hub)
        here.start("hub")
    elif how == "option":
        enrol(here, there)
        end(here, hub)
        start_hub(here, "--beacon", "off")
    else:
        enrol(here, there)
    assert hear(port, 1.3) == []
    text, seconds = there.run("worker", code=1)
    assert text.startswith("shoal: no hub answers at shm:hub") and seconds < 4 * SLACK
    assert text.endswith("; and elsewhere: no hub that this user has joined announces itself on the "
                         f"network (UDP port {port})\n")
    # And a worker need not listen for any.
    text, seconds = there.run("worker", "--beacon", "off", code=1)
    joined = r"set SHOAL_HUB=tcp://[0-9.:]+, or start one here with `shoal hub`\n"
    assert re.fullmatch("shoal: no hub answers at shm:hub; for the one that this user has joined " + joined, text)
    assert seconds < SLACK


def test_strangers_do_not_listen(lan, port):
    here, there = lan
    start_hub(here)
    text, seconds = there.run("worker", code=1)
    assert text == ("shoal: no hub answers at shm:hub: start one with `shoal hub`, or check the "
                    "address\n") and seconds < SLACK


def test_what_is_no_beacon_or_a_false_one_does_no_harm(lan, port):
    here, there = lan
    hub, address = start_hub(here)
    enrol(here, there)
    real = hear(port, 0, 1)[0]
    end(here, hub)
    # From here on its beacon is what this test sends: the worker listens for seconds, and a hub may take long to start.
    start_hub(here, "--beacon", "off", at=address.removeprefix("tcp://"))
    with socket.create_server(("127.0.0.1", 0)) as trap:
        # The right fingerprint at a wrong address: whoever is there cannot prove the key.
        text = f"tcp://127.0.0.1:{trap.getsockname()[1]}".encode()
        false = real[:10] + struct.pack(">H", len(text)) + real[12:20] + text
        dice = random.Random(3)
        junk = [b"", b"\0", b"SHOALHUB", real[:-1], real + b"\0", real[:20],
                false.replace(b"127.0.0.1", b"localhost"), bytes(65000)]
        junk += [bytes([*real[:at], real[at] ^ 1 << dice.randrange(8), *real[at + 1:]])
                 for at in range(12)]
        junk += [dice.randbytes(dice.randrange(600)) for _ in range(100)]
        worker = there.start_quietly("worker", "--name", "w", "--threads", "1")
        trap.settimeout(10)
        caught = None
        while not caught:
            send(port, *junk, false)
            trap.settimeout(0.3)
            try:
                caught = trap.accept()[0]
            except TimeoutError:
                assert worker.poll() is None
        caught.close()
        while not select.select([worker.stdout], [], [], 0.1)[0]:
            send(port, real)
        assert worker.stdout.readline() == f"worker: w joined {address}\n"
    assert worker.poll() is None


# ---- joining again ----

@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("how", ["shm", "tcp"])
def test_a_worker_joins_again(lan, tmp_path, how, number):
    here, there = lan
    hub, address = start_hub(here)
    enrol(here, there)
    machine = here if how == "shm" else there
    where = "shm:hub" if how == "shm" else address
    worker = machine.start("worker", "--hub", where, "--name", "w", "--threads", "1")
    a, b = (np.random.default_rng(0).standard_normal((50, 50)).astype(np.float32) for _ in range(2))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    for outage in 0.0, 2.5:
        start = time.monotonic()
        end(here, hub, number)
        await_true(lambda: "tries to join again" in machine.log(worker), GONE,
                   lambda: machine.log(worker))
        assert time.monotonic() - start < GONE
        time.sleep(outage)
        hub, _ = start_hub(here, at=address.removeprefix("tcp://"))
        start = time.monotonic()
        assert worker.stdout.readline() == f"worker: w joined {where}\n"
        assert time.monotonic() - start < 6 * SLACK
        assert names(here, "shm:hub") == ["w"]
        here.run("matmul", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "c.npy",
                 "--hub", "shm:hub", "--force")
        assert np.allclose(np.load(tmp_path / "c.npy"), a @ b, atol=1e-4)
    # It says so once per outage, not with every attempt.
    assert machine.log(worker).count("tries to join again") == 2
    assert machine.log(worker).count(" again\n") == 2


def test_somebody_else_has_the_port_for_a_while(lan):
    """Which must not send the worker away for good."""
    here, there = lan
    hub, address = start_hub(here)
    enrol(here, there)
    worker = there.start("worker", "--hub", address, "--name", "w", "--threads", "1", "--log", "debug")
    end(here, hub, signal.SIGKILL)
    with socket.create_server(("127.0.0.1", int(address.rpartition(":")[2]))) as other:
        other.settimeout(60)
        other.accept()[0].close()
        await_true(lambda: "is no hub with the key" in there.log(worker), 60,
                   lambda: there.log(worker))
    start_hub(here, at=address.removeprefix("tcp://"))
    assert worker.stdout.readline() == f"worker: w joined {address}\n"


def test_a_name_of_the_dead_whose_port_is_another_s(lan):
    here, _ = lan
    here.environment["SHOAL_TRANSPORT"] = "zmq"
    hub = here.start("hub")
    file = here.root / "run/shoal/hub.lock"
    port = int(file.read_text().split("/")[2].rpartition(":")[2])
    end(here, hub, signal.SIGKILL)
    assert file.exists()
    with socket.create_server(("127.0.0.1", port)):
        text, seconds = here.run("status", "--hub", "shm:hub", code=1)
    assert "no hub answers at shm:hub" in text and seconds < GONE


def test_a_worker_that_waits_ends_when_it_is_told(lan):
    here, _ = lan
    hub, _ = start_hub(here)
    worker = here.start("worker", "--threads", "1")
    end(here, hub, signal.SIGKILL)
    await_true(lambda: "tries to join again" in here.log(worker), GONE, lambda: here.log(worker))
    start = time.monotonic()
    worker.terminate()
    assert worker.wait(60) == 0
    assert time.monotonic() - start < 2 * SLACK
    assert worker.stdout.read() == "worker: ended\n"


def test_a_worker_that_is_to_work_once(lan):
    here, _ = lan
    hub, _ = start_hub(here)
    worker = here.start("worker", "--threads", "1", "--once")
    start = time.monotonic()
    end(here, hub, signal.SIGKILL)
    assert worker.wait(60) == 1
    assert time.monotonic() - start < GONE


def test_who_was_shut_out_asks_again_then_ends(lan):
    """Slowly and a few times: it may have been a mistake, which its owner mends."""
    here, there = lan
    _, address = start_hub(here)
    enrol(here, there)
    worker = there.start("worker", "--hub", address, "--threads", "1")
    name = here.run("peers")[0].split()[0]
    here.run("revoke", name)
    with pytest.raises(subprocess.TimeoutExpired):
        worker.wait(4)
    assert worker.wait(120) == 1
    assert "revoked" in there.log(worker)


def test_the_first_time_must_succeed(lan):
    here, _ = lan
    text, seconds = here.run("worker", "--hub", "shm:nobody", code=1)
    assert "no hub answers at shm:nobody" in text and seconds < GONE
