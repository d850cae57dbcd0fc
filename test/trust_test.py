"""Who gets in, and what happens to links: enrolment, refusals, stopped and cut-off peers, over real
processes with configuration folders of their own. All addresses are on loopback.
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

from proxy import Proxy
from slack import SLACK

SHOAL = os.environ["SHOAL"]
SOON = 2.0 * SLACK   # a refusal, a lost peer
GONE = 3.0 * SLACK   # a hub that is gone


class Machine:
    """A user on a machine: folders of its own, so that nothing is shared but the network."""

    def __init__(self, root, name, prefix=()):
        self.root, self.name, self.prefix = pathlib.Path(root) / name, name, prefix
        for part in ("run", "config", "cache"):
            (self.root / part).mkdir(parents=True, mode=0o700)
        self.environment = dict(os.environ, XDG_RUNTIME_DIR=str(self.root / "run"),
                                XDG_CONFIG_HOME=str(self.root / "config"),
                                XDG_CACHE_HOME=str(self.root / "cache"), USER=name)
        for variable in ("SHOAL_TRANSPORT", "SHOAL_HUB", "SHOAL_LISTEN"):
            self.environment.pop(variable, None)
        self.processes, self.started = [], 0

    def run(self, *arguments, code=0):
        """(output, seconds)"""
        start = time.monotonic()
        done = subprocess.run([*self.prefix, SHOAL, *arguments], capture_output=True, text=True,
                              timeout=60, env=self.environment)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr, time.monotonic() - start

    def start(self, *arguments):
        """A process that has said its first line."""
        process = self.start_quietly(*arguments)
        process.first = process.stdout.readline()
        assert process.first, self.log(process)
        return process

    def start_quietly(self, command, *arguments):
        self.started += 1
        log = open(self.root / f"log-{self.started}", "w+", encoding="utf-8")
        process = subprocess.Popen([*self.prefix, SHOAL, command, "--log", "info", *arguments],
                                   stderr=log, stdout=subprocess.PIPE, text=True,
                                   env=self.environment)
        process.log = log
        self.processes.append(process)
        return process

    def log(self, process):
        process.log.flush()
        return pathlib.Path(process.log.name).read_text(encoding="utf-8")

    def file(self, name):
        return self.root / "config" / "shoal" / name

    def close(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes:
            try:
                process.wait(60)
            finally:
                process.kill()
                process.stdout.close()
                process.log.close()


def await_true(condition, seconds, what):
    """Seconds that it took."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < seconds, what() if callable(what) else what
        time.sleep(0.01)
    return time.monotonic() - start


class Site:
    """A hub that listens on TCP, and other machines. prefix: before the hub's command. hub: more words of it."""

    def __init__(self, root, prefix=(), hub=()):
        self.root, self.machines = root, {}
        self.hub_machine = self.machine("home", prefix)
        self.hub = self.hub_machine.start("hub", "--listen", "127.0.0.1:0", *hub)
        self.address = re.search(r"tcp://127\.0\.0\.1:(\d+)", self.hub.first)[0]
        self.port = int(self.address.rsplit(":", 1)[1])
        self.token = self.hub_machine.run("invite")[0].strip()

    def machine(self, name, prefix=()):
        self.machines[name] = Machine(self.root, name, prefix)
        return self.machines[name]

    def joined(self, name):
        machine = self.machine(name)
        token, _ = self.hub_machine.run("invite")
        machine.run("join", token.strip(), "--name", name)
        return machine

    def key(self):
        machine = next(m for m in self.machines.values() if m.file("hubs").exists())
        return machine.file("hubs").read_text().split()[1]

    def hub_log(self):
        return self.hub_machine.log(self.hub)

    def workers(self):
        return self.hub_machine.run("status")[0]

    def close(self):
        for machine in reversed(list(self.machines.values())):
            machine.close()


@pytest.fixture
def site():
    root = tempfile.mkdtemp(prefix="shoal-trust-")
    s = Site(root)
    yield s
    ended = s.hub.poll()
    s.close()
    assert ended in (None, -signal.SIGKILL), "nothing that a peer does ends the hub"
    shutil.rmtree(root)


# ---- enrolment ----

def test_join_and_work(site):
    ann = site.machine("ann")
    out, _ = ann.run("join", site.token, "--name", "ann's laptop")
    assert site.address in out
    worker = ann.start("worker", "--once", "--hub", site.address, "--name", "w1", "--threads", "1")
    assert "w1 joined" in worker.first
    assert "w1" in site.workers()
    assert "ann-s-laptop" in site.hub_machine.run("peers")[0]
    for name, mode in (("", 0o700), ("key", 0o600), ("hubs", 0o600)):
        assert ann.file(name).stat().st_mode & 0o777 == mode
    for name in ("peers", "tokens", "hub", "key"):
        assert site.hub_machine.file(name).stat().st_mode & 0o777 == 0o600


def test_two_users_exchange(site):
    """Workers of two users and a client of a third: keys reach members by way of the hub."""
    numpy = pytest.importorskip("numpy")
    for name in ("ann", "bob"):
        site.joined(name).start("worker", "--once", "--hub", site.address, "--name", name, "--threads", "1")
    eve = site.joined("eve")
    a = numpy.random.default_rng(1).random((300, 300), numpy.float32)
    numpy.save(eve.root / "a.npy", a)
    path = str(eve.root / "a.npy")
    for split in ("rows", "inner", "columns"):
        out = str(eve.root / "c.npy")
        eve.run("matmul", path, path, "-o", out, "--force", "--hub", site.address, "--split", split)
        assert numpy.abs(numpy.load(out) - a @ a).max() < 1e-2
    # Clients that end in order are nothing to tell of, but that they joined and left.
    for name in ("ann", "bob"):
        machine = site.machines[name]
        assert not re.search("lost|closed|warn", machine.log(machine.processes[0]), re.I)
    assert not re.search("lost|closed|warn", site.hub_log(), re.I), site.hub_log()


def test_only_the_hub_listens(site):
    """Workers and a client that name no address to be reached at, nor can be told one: their data goes by
    way of the hub, which cannot read it."""
    numpy = pytest.importorskip("numpy")
    machines = [site.joined(name) for name in ("ann", "bob", "eve")]
    # This machine by a name that is not known to be it: as if it were another one.
    there = f"tcp://0:{site.port}/{site.key()}"
    workers = [(machine, machine.start("worker", "--hub", there, "--name", machine.name,
                                       "--threads", "1")) for machine in machines[:2]]
    eve = machines[2]
    a = numpy.random.default_rng(1).integers(-9, 9, (700, 700)).astype(numpy.float32)
    numpy.save(eve.root / "a.npy", a)
    path, out = str(eve.root / "a.npy"), str(eve.root / "c.npy")
    for split in ("rows", "inner", "columns"):
        _, seconds = eve.run("matmul", path, path, "-o", out, "--force", "--hub", there, "--split", split)
        assert numpy.array_equal(numpy.load(out), a @ a) and seconds < 10 * SLACK
    assert "ann reaches bob by way of the hub only" in site.hub_log()
    status = json.loads(site.hub_machine.run("status", "--json")[0])
    assert all(slot["relayed_bytes"] > 0 for slot in status["slots"])
    # One goes: the other does the rest.
    workers[0][1].kill()
    workers[0][1].wait()
    _, seconds = eve.run("matmul", path, path, "-o", out, "--force", "--hub", there)
    assert numpy.array_equal(numpy.load(out), a @ a) and seconds < 10 * SLACK


def test_token_once(site):
    ann, bob = site.machine("ann"), site.machine("bob")
    ann.run("join", site.token)
    text, seconds = bob.run("join", site.token, code=1)
    assert "refuses the token: it has been used or has expired" in text and seconds < SOON
    await_true(lambda: "a token that has been used" in site.hub_log(), SOON, site.hub_log)
    assert not bob.file("hubs").exists()


def test_token_expired(site):
    tokens = site.hub_machine.file("tokens")
    key, _, state, role = tokens.read_text().split()
    tokens.write_text(f"{key} 1000 {state} {role}\n")
    text, seconds = site.machine("ann").run("join", site.token, code=1)
    assert "refuses the token" in text and seconds < SOON
    await_true(lambda: "an expired token" in site.hub_log(), SOON, site.hub_log)
    # It is not listed, and gone when the file is next written.
    assert key[:16] not in site.hub_machine.run("invite", "--list")[0]
    site.hub_machine.run("invite")
    assert key not in tokens.read_text() and len(tokens.read_text().splitlines()) == 1


def test_token_wrong(site):
    ann = site.machine("ann")
    middle = site.token[20:30]
    for token in (site.token[:-1], site.token + "A", site.token.replace(middle, middle[::-1]),
                  "shoal-", "x", site.token.upper()):
        text, seconds = ann.run("join", token, code=1)
        assert "token" in text and seconds < SOON, text
    # The token of another hub, whose key this one does not have.
    other = Site(site.root + "/other")
    try:
        other.hub.kill()
        other.hub.wait()
        tokens = site.token
        text, seconds = ann.run("join", other.token, code=1)
        assert "no hub answers" in text and seconds < SOON
        assert tokens
    finally:
        other.close()


def test_never_joined(site):
    text, seconds = site.machine("eve").run("worker", "--hub", site.address, code=1)
    assert "run `shoal join` with a token" in text and seconds < SOON
    await_true(lambda: "refused a connection" in site.hub_log(), SOON, site.hub_log)


def test_unknown_key(site):
    """The hub's key is known, but not ours."""
    site.joined("ann")
    text, seconds = site.machine("eve").run("worker", "--hub", f"{site.address}/{site.key()}", code=1)
    assert "refuses the key of this user" in text and seconds < SOON
    await_true(lambda: "127.0.0.1: unknown key" in site.hub_log(), SOON, site.hub_log)


def test_wrong_hub_key(site):
    ann = site.joined("ann")
    wrong = site.key()[:-2] + ("00" if site.key()[-2:] != "00" else "11")
    text, seconds = ann.run("worker", "--hub", f"{site.address}/{wrong}", code=1)
    assert "is no hub with the key that was expected" in text and seconds < SOON
    await_true(lambda: "no handshake with the right keys" in site.hub_log(), SOON, site.hub_log)


def test_revoked(site):
    ann = site.joined("ann")
    worker = ann.start("worker", "--once", "--hub", site.address, "--name", "w1", "--threads", "1")
    assert "no user 'bob' is enrolled here" in site.hub_machine.run("revoke", "bob", code=1)[0]
    site.hub_machine.run("revoke", "ann")
    start = time.monotonic()
    assert worker.wait(SOON) == 1
    assert time.monotonic() - start < SOON
    assert "the key of this user was revoked" in ann.log(worker)
    await_true(lambda: "w1 left" in site.hub_log(), SOON, site.hub_log)
    text, seconds = ann.run("worker", "--hub", site.address, code=1)
    assert "refuses the key of this user" in text and seconds < SOON


def test_files_open_to_others(site):
    ann = site.joined("ann")
    ann.file("key").chmod(0o644)
    assert "open to others (mode 644): chmod 600" in ann.run(
        "worker", "--hub", site.address, code=1)[0]
    ann.file("key").chmod(0o600)
    ann.file("").chmod(0o755)
    assert "chmod 700" in ann.run("worker", "--hub", site.address, code=1)[0]
    ann.file("").chmod(0o700)


def test_beyond_loopback_by_flag_only(site):
    text, _ = site.machine("ann").run("hub", "--address", "tcp://0.0.0.0:0", code=1)
    assert "--listen" in text
    text, _ = site.machine("bob").run("hub", "--listen", "0.0.0.0:7400", code=1)
    assert "name one interface" in text


def test_addresses_that_cannot_be_had(site):
    run = site.machine("bob").run
    text, _ = run("hub", "--address", "shm:elsewhere", "--listen", "192.0.2.77:7400", code=1)
    assert "tcp://192.0.2.77:7400: listening: Cannot assign requested address; give an address of this machine" in text
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        text, _ = run("hub", "--address", "shm:elsewhere", "--listen", at, code=1)
    assert f"tcp://{at}: listening: Address already in use; choose another port" in text


def memory_of(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) << 10


def test_plain_bytes(site):
    """Strangers on TCP: turned away in time, with little memory, and the hub serves on."""
    # A greeting of ZMTP 3.1 with CURVE, then a command that claims 1 MiB; others claim more.
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)
    claims = [b"\x06" + size.to_bytes(8, "big") for size in (1 << 20, 1 << 30, 1 << 62)]
    inputs = [b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100, random.randbytes(5000), b"\xff", b"",
              *[greeting + claim + random.randbytes(2000) for claim in claims]]
    before = memory_of(site.hub.pid)
    for _ in range(8):
        sockets = []
        for data in inputs:
            end = socket.create_connection(("127.0.0.1", site.port))
            end.sendall(data)
            sockets.append(end)
        assert memory_of(site.hub.pid) - before < 16 << 20
    start = time.monotonic()
    for end in sockets:
        end.settimeout(60)
        try:
            while end.recv(4096):
                pass
        except ConnectionError:
            pass
        end.close()
    assert time.monotonic() - start < SOON
    await_true(lambda: "refused a connection" in site.hub_log(), SOON, site.hub_log)
    ann = site.joined("ann")
    assert "w1 joined" in ann.start("worker", "--once", "--hub", site.address, "--name", "w1").first


# ---- peers that are lost ----

def lost_in(site, name, seconds=SOON):
    return await_true(lambda: f"{name} left" in site.hub_log(), seconds, site.hub_log)


@pytest.mark.parametrize("transport", ["shm", "zmq"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_worker_lost(site, transport, number):
    machine = site.hub_machine if transport == "shm" else site.joined("ann")
    hub = "shm:hub" if transport == "shm" else site.address
    worker = machine.start("worker", "--once", "--hub", hub, "--name", "w1", "--threads", "1")
    time.sleep(0.5)
    worker.send_signal(number)
    lost_in(site, "w1")
    if number == signal.SIGSTOP:  # what wakes again does no harm, and says what happened
        worker.send_signal(signal.SIGCONT)
        assert worker.wait(GONE) == 1
        assert "the hub is gone" in machine.log(worker)


@pytest.mark.parametrize("transport", ["shm", "zmq"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_hub_lost(site, transport, number):
    machine = site.hub_machine if transport == "shm" else site.joined("ann")
    hub = "shm:hub" if transport == "shm" else site.address
    worker = machine.start("worker", "--once", "--hub", hub, "--name", "w1", "--threads", "1")
    start = time.monotonic()
    site.hub.send_signal(number)
    assert worker.wait(GONE) == 1
    assert time.monotonic() - start < GONE
    assert "the hub is gone" in machine.log(worker)


def behind_proxy(site):
    ann = site.joined("ann")
    proxy = Proxy(site.port)
    hub = f"tcp://127.0.0.1:{proxy.port}/{site.key()}"
    worker = ann.start("worker", "--once", "--hub", hub, "--name", "w1", "--threads", "1")
    time.sleep(0.5)
    return ann, proxy, worker


@pytest.mark.parametrize("fault", ["drop", "cut", "flip"])
def test_link_fails(site, fault):
    """A link that is silent, cut or changed on its way: both sides know in time, and say so."""
    ann, proxy, worker = behind_proxy(site)
    try:
        if fault == "cut":
            proxy.cut()
        else:
            setattr(proxy, fault, True)
        # Garbled bytes may look like the start of a long frame for a while.
        lost_in(site, "w1", 20 if fault == "flip" else SOON)
        assert worker.wait(20 if fault == "flip" else SOON) == 1
        assert "the hub is gone" in ann.log(worker)
    finally:
        proxy.close()


@pytest.mark.parametrize("fault", [("delay", 0.1), ("rate", 200_000)])
def test_slow_link_stays(site, fault):
    """A slow link is no dead one, though seconds' worth of bytes are on their way."""
    numpy = pytest.importorskip("numpy")
    ann = site.joined("ann")
    worker = ann.start("worker", "--once", "--hub", site.address, "--name", "w1", "--threads", "1", "--listen",
                       "127.0.0.1:0")
    a = numpy.random.default_rng(1).random((500, 500), numpy.float32)
    path = str(site.hub_machine.root / "a.npy")
    numpy.save(path, a)
    proxy = Proxy(site.port)
    try:
        setattr(proxy, *fault)
        eve = site.joined("eve")
        hub = f"tcp://127.0.0.1:{proxy.port}/{site.key()}"
        slow = eve.start("worker", "--once", "--hub", hub, "--name", "w2", "--threads", "1")
        time.sleep(4)
        assert worker.poll() is None and slow.poll() is None
        assert "left" not in site.hub_log()
    finally:
        proxy.close()


def test_in_the_middle(site):
    """Who carries the bytes between a member and the hub reads nothing of them, and what was said once
    brings nothing when it is said again."""
    numpy = pytest.importorskip("numpy")
    proxy = Proxy(site.port)
    proxy.seen = []
    worker = eve = None
    try:
        # All of a worker's links go by way of its link with the hub: see test_only_the_hub_listens.
        worker = site.joined("ann").start("worker", "--hub", f"tcp://0:{proxy.port}/{site.key()}", "--name",
                                          "ann-behind-the-proxy", "--threads", "1")
        eve = site.joined("eve")
        secret = b"what nobody else may read 123456"
        a = numpy.frombuffer(secret * 8192, dtype=numpy.float32).reshape(256, 256)
        for name, array in ("a", a), ("one", numpy.eye(256, dtype=numpy.float32)):
            numpy.save(eve.root / f"{name}.npy", array)
        out = eve.root / "c.npy"
        eve.run("matmul", str(eve.root / "a.npy"), str(eve.root / "one.npy"), "-o", str(out), "--force",
                "--hub", f"tcp://0:{site.port}/{site.key()}")
        assert numpy.array_equal(numpy.load(out), a)
        carried = b"".join(b"".join(chunks) for _, chunks in proxy.seen)
        assert len(carried) > 2 * a.nbytes
        for what in secret, b"ann-behind-the-proxy", b"dot_general", site.token.encode():
            assert what not in carried, what
        # The first bytes of the handshake say that the key is hidden, too.
        assert b"CURVE" in carried
        # Said again, to a hub that still serves: nobody comes of it.
        for connection, chunks in proxy.seen:
            if connection != "near":
                continue
            again = socket.create_connection(("127.0.0.1", site.port), 2)
            again.settimeout(4)
            heard = b""
            try:
                again.sendall(b"".join(chunks))
                while data := again.recv(4096):
                    heard += data
            except (ConnectionError, TimeoutError):
                pass
            again.close()
            assert secret not in heard
        assert [slot["worker"] for slot in json.loads(site.hub_machine.run("status", "--json")[0])["slots"]
                ] == ["ann-behind-the-proxy"]
        assert worker.poll() is None
    finally:
        proxy.close()


def test_load_is_no_death(site):
    """Both cores busy twice over, and products that take a while: nobody is declared dead."""
    numpy = pytest.importorskip("numpy")
    ann = site.joined("ann")
    workers = [ann.start("worker", "--hub", site.address, "--name", "w1"),
               site.hub_machine.start("worker", "--name", "w2")]
    a = numpy.random.default_rng(1).random((1500, 1500), numpy.float32)
    path = str(site.hub_machine.root / "a.npy")
    numpy.save(path, a)
    spinners = [subprocess.Popen(["sh", "-c", "while :; do :; done"])
                for _ in range(2 * len(os.sched_getaffinity(0)))]
    try:
        end = time.monotonic() + float(os.environ.get("SHOAL_LOAD_SECONDS", "4"))
        while time.monotonic() < end:
            subprocess.run([SHOAL, "matmul", path, path, "-o", path.replace("a.", "c."), "--force"],
                           check=True, capture_output=True, timeout=120,
                           env=site.hub_machine.environment)
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
    assert all(worker.poll() is None for worker in workers)
    assert "w1 left" not in site.hub_log() and "w2 left" not in site.hub_log()


# ---- the files of keys, tokens and roles ----

def test_tokens_are_listed_and_cancelled(site):
    """And read from standard input or a file: as an argument they would show in `ps`."""
    token = site.hub_machine.run("invite", "--role", "worker", "--hours", "2")[0].strip()
    rows = site.hub_machine.run("invite", "--list")[0].splitlines()
    assert len(rows) == 2 and re.match(r"[0-9a-f]{16}  worker, for (2 h 00|1 h 59) min", rows[1]), rows
    assert "no open token" in site.hub_machine.run("invite", "--cancel", "xyz", code=1)[0]
    ann = site.machine("ann")
    done = subprocess.run([SHOAL, "join", "--name", "ann"], input=token + "\n", capture_output=True,
                          text=True, timeout=60, env=ann.environment)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert re.search(r"^ann  \w{16}…  worker$", site.hub_machine.run("peers")[0], re.M)
    # Enrolled as a worker: it may not run programs.
    text, _ = ann.run("status", "--hub", site.address, code=1)
    assert "is enrolled as worker" in text
    site.hub_machine.run("invite", "--cancel", rows[0].split()[0])
    path = site.root + "/token"
    pathlib.Path(path).write_text(site.token + "\n", encoding="utf-8")
    text, _ = site.machine("bob").run("join", "--file", path, code=1)
    assert "refuses the token" in text
    text, _ = site.machine("eve").run("join", site.hub_machine.run("invite")[0].strip())
    assert "is visible in the list of processes" in text


def strings_in(pid, texts):
    """Which of these stand in the memory of a process."""
    found = set()
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            if line.split()[1][0] != "r" or "[v" in line:
                continue
            try:
                memory.seek(start)
                data = memory.read(end - start)
            except (OSError, ValueError, OverflowError):
                continue
            found |= {text for text in texts if text in data}
    return found


def test_secrets_do_not_stay_in_memory(site):
    """What was read of key files, and tokens: the one key that a link needs is there in its binary form."""
    ann = site.joined("ann")
    worker = ann.start("worker", "--hub", site.address, "--name", "w1", "--threads", "1")
    for machine, process in (site.hub_machine, site.hub), (ann, worker):
        secret = re.search(r"^secret (\w+)", machine.file("key").read_text(), re.M)[1]
        public = re.search(r"^public (\w+)", machine.file("key").read_text(), re.M)[1]
        texts = [secret.encode(), secret.upper().encode(), site.token.encode(), site.token[-30:].encode()]
        try:
            there = strings_in(process.pid, [*texts, b"shoal-door", public.encode()])
        except PermissionError as error:
            pytest.skip(f"the memory of another process cannot be read here ({error}): run as root")
        assert b"shoal-door" in there  # it is looked at, indeed
        assert not there & set(texts)


def test_a_damaged_line_hides_nobody(site):
    """It is told of with its number."""
    ann, bob = site.joined("ann"), site.joined("bob")
    peers = site.hub_machine.file("peers")
    lines = peers.read_text().splitlines()
    peers.write_text("\n".join([lines[0], "carol 12", "x", lines[1]]) + "\n")
    for machine in ann, bob:
        machine.start("worker", "--hub", site.address, "--name", machine.name, "--threads", "1")
    await_true(lambda: all(f"line {n} of the file 'peers'" in site.hub_log() for n in (2, 3)), SOON, site.hub_log)
    assert len(json.loads(site.hub_machine.run("status", "--json")[0])["slots"]) == 2


def test_unread_files_make_no_strangers(site):
    """While the files of keys cannot be read, who is in stays in."""
    worker = site.joined("ann").start("worker", "--hub", site.address, "--name", "w1", "--threads", "1")
    site.hub_machine.file("peers").chmod(0o644)
    await_true(lambda: "who was known stays so" in site.hub_log(), SOON, site.hub_log)
    time.sleep(0.5)
    assert worker.poll() is None and "w1" in site.workers()
    site.hub_machine.file("peers").chmod(0o600)
    assert "w1" in site.workers()


def test_half_open_connections(site):
    """Thousands without a key: known members stay, and the log says so once in a while."""
    worker = site.joined("ann").start("worker", "--hub", site.address, "--name", "w1", "--threads", "1")
    end = time.monotonic() + float(os.environ.get("SHOAL_FLOOD_SECONDS", "2"))
    sockets, opened = [], 0
    while time.monotonic() < end or opened <= 1000:  # as a busy machine is slow to let in
        assert time.monotonic() < end + 60, opened
        for _ in range(100):
            try:
                sockets.append(socket.create_connection(("127.0.0.1", site.port), 1))
                opened += 1
            except OSError:
                break
        while len(sockets) > 3000:
            sockets.pop(0).close()
        time.sleep(0.05)
    assert worker.poll() is None and "w1" in site.workers()
    for end in sockets:
        end.close()
    assert site.hub_log().count("refused a connection") <= 5
    assert "w1 left" not in site.hub_log()


def test_descriptors_run_out():
    """With a few descriptors, all of them taken by connections without a key: who is known stays, and is
    no stranger when there is room again. The hub takes as many as it may."""
    folder = tempfile.mkdtemp(prefix="shoal-trust-")
    few = Site(folder, ("prlimit", "--nofile=40:80"))
    sockets = []
    try:
        limits = pathlib.Path(f"/proc/{few.hub.pid}/limits").read_text()
        assert re.search(r"Max open files\s+80\s+80", limits), limits
        ann, bob = few.joined("ann"), few.joined("bob")
        worker = ann.start("worker", "--hub", few.address, "--name", "w1", "--threads", "1")
        end = time.monotonic() + 4
        full = 0
        while time.monotonic() < end:
            while len(sockets) < 200:
                sockets.append(socket.socket())
                sockets[-1].setblocking(False)
                sockets[-1].connect_ex(("127.0.0.1", few.port))
            full = max(full, len(os.listdir(f"/proc/{few.hub.pid}/fd")))
            time.sleep(0.1)
            sockets.pop(0).close()
        assert full >= 78, full
        assert worker.poll() is None and "w1 left" not in few.hub_log(), few.hub_log()
        while sockets:
            sockets.pop().close()
        await_true(lambda: len(os.listdir(f"/proc/{few.hub.pid}/fd")) < 70, 60, few.hub_log)
        bob.start("worker", "--hub", few.address, "--name", "w2", "--threads", "1")
        assert len(json.loads(few.hub_machine.run("status", "--json")[0])["slots"]) == 2
        assert "unknown key" not in few.hub_log() and "revoked" not in few.hub_log() + ann.log(worker)
    finally:
        for end in sockets:
            end.close()
        few.close()
        shutil.rmtree(folder)
