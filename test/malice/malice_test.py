"""Members that mean harm, in a pool at work: nobody else's process ends, no program of others fails or
hangs, no value of others changes, hub and workers stay small, and the log names the key.

MALICE names the attacker (test/malice/malice.c). SHOAL_MALICE_SECONDS says how long each attack goes
on (0.4), SHOAL_FLOOD_SECONDS how long those do whose effect on the speed of others is measured (1.5), and
SHOAL_SLOWDOWN by how much others may be slower meanwhile (not looked at: the machine may be busy, and the
honest client then pauses between its rounds, so that it leaves room for other tests).
"""
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from slack import SLACK  # noqa: E402
from trust_test import SHOAL, Site, await_true, memory_of  # noqa: E402

MALICE = os.environ.get("MALICE", "build/test/malice/malice")
SECONDS = os.environ.get("SHOAL_MALICE_SECONDS", "0.4")
ATTACKS = ["outcomes", "values", "kinds", "flood", "boxes", "early", "orders", "numbers", "relay", "artifacts"]
BUDGET = 256 << 20  # that a process may grow by
# And the hub, while one user takes all that it may: what is held, has begun, and waits.
HUB_BUDGET = (512 + 192 + 192) << 20
FLOOD_SECONDS = float(os.environ.get("SHOAL_FLOOD_SECONDS", "1.5"))
SLOWDOWN = float(os.environ.get("SHOAL_SLOWDOWN", "inf"))
PAUSE = "0.02" if SLOWDOWN == float("inf") else "0"

HONEST = """
import sys, time, numpy as np, shoal
session = shoal.connect(sys.argv[1], timeout_ms=20000)
slots = session.compute_slots()[:2]
a = np.random.default_rng(0).integers(-3, 4, (200, 200)).astype(np.float32)
x = shoal.tensor(a).place(axis=0, slots=slots)
y = shoal.tensor(a).place(axis=1, slots=slots)
product, rounds = a @ a, 0
print("ready", flush=True)
while True:
    z = (x @ y + float(rounds % 5)).place(axis=0, slots=slots[::-1])
    if not np.array_equal(z.numpy(), product + rounds % 5):
        print("wrong", flush=True)
        sys.exit(1)
    rounds += 1
    print(rounds, flush=True)
    time.sleep(float(sys.argv[2]))
"""


class Pool(Site):
    """A hub, two honest workers, an honest client at work, and mallory, who has enrolled."""

    def __init__(self, root, patience=None):
        os.environ.setdefault("SHOAL_PYTHON", sys.executable)  # of who keeps artifacts
        super().__init__(root, hub=("--artifacts", "kept"))
        await_true(lambda: "keeps artifacts for the pool" in self.hub_log(), 60, self.hub_log)
        self.workers_ = []
        for name in "ann", "bob":
            machine = self.joined(name)
            if patience:
                machine.environment["SHOAL_MEMBER_PATIENCE"] = str(patience)
            self.workers_.append((machine, machine.start(
                "worker", "--hub", self.address, "--name", name, "--threads", "1", "--listen",
                "127.0.0.1:0")))
        self.client_machine = self.joined("carol")
        self.mallory = self.joined("mallory")
        self.client = self.start_client()
        self.pids = [self.hub.pid, *(process.pid for _, process in self.workers_)]
        self.before = [memory_of(pid) for pid in self.pids]

    def start_client(self, machine=None):
        machine = machine or self.client_machine
        log = open(machine.root / "client", "w", encoding="utf-8")
        client = subprocess.Popen([sys.executable, "-c", HONEST, self.address, PAUSE], stdout=log, stderr=log,
                                  env=machine.environment)
        await_true(lambda: self.rounds(machine) > 0 or client.poll() is not None, 60,
                   lambda: self.client_log(machine))
        return client

    def client_log(self, machine=None):
        return ((machine or self.client_machine).root / "client").read_text()

    def rounds(self, machine=None):
        return int((re.findall(r"^\d+$", self.client_log(machine), re.M) or ["0"])[-1])

    def attack(self, role, attack, seconds=SECONDS):
        """What the attacker counted."""
        done = subprocess.run([MALICE, self.address, role, attack, seconds], capture_output=True,
                              text=True, timeout=120,
                              env=self.mallory.environment | {"SHOAL_LOG": "error"})
        assert done.returncode == 0, done.stdout + done.stderr
        return {name: int(n) for name, n in re.findall(r"(\w+) (\d+)", done.stdout)}

    def check(self):
        """All live, and the client gets on with right results."""
        assert self.hub.poll() is None, self.hub_log()
        for machine, worker in self.workers_:
            assert worker.poll() is None, machine.log(worker)
        rounds = self.rounds()
        await_true(lambda: self.rounds() > rounds or self.client.poll() is not None, 60,
                   lambda: self.client_log() + self.hub_log())
        assert self.client.poll() is None, self.client_log() + self.hub_log()
        # Those who have just gone may still be on their way out; what the hub has at most is looked at
        # while they are there.
        await_true(lambda: all(memory_of(pid) - before < BUDGET
                               for pid, before in zip(self.pids, self.before)), 60,
                   lambda: str([memory_of(pid) >> 20 for pid in self.pids]))

    def close(self):
        self.client.kill()
        self.client.wait()
        super().close()


def made(patience=None):
    pytest.importorskip("numpy")
    if not os.environ.get("PYTHONPATH"):
        pytest.skip("the Python package is not built: PYTHONPATH is not set")
    folder = subprocess.check_output(["mktemp", "-d", "/tmp/shoal-XXXXXX"], text=True).strip()
    pool = Pool(folder, patience)
    yield pool
    pool.close()
    subprocess.run(["rm", "-rf", folder], check=True)


@pytest.fixture(scope="module")
def pool():
    yield from made()


@pytest.mark.parametrize("role", ["client", "worker", "both"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_attack(pool, role, attack):
    for seconds in (SECONDS, "3", "10"):  # on a busy machine links take longer than that
        counts = pool.attack(role, attack, seconds)
        print(attack, role, counts)
        pool.check()
        if counts["linked"] or attack not in ("boxes", "orders"):
            break
    if attack == "artifacts":  # it says that it keeps some: the one of the hub's own user does
        assert pool.hub_log().count("keeps artifacts for the pool") == 1
    if attack == "numbers":
        assert not counts["linked"]
    if attack in ("boxes", "orders"):
        assert counts["linked"]


FLOOD = """
import collections, socket, sys, time
port, seconds, rate = int(sys.argv[1]), float(sys.argv[2]), 2000
sockets, opened, failed, start = collections.deque(), 0, 0, time.monotonic()
while (now := time.monotonic() - start) < seconds:
    while opened + failed < rate * now:
        end = socket.socket()
        end.setblocking(False)
        failed += end.connect_ex(("127.0.0.1", port)) not in (0, 115)
        sockets.append(end)
        opened += 1
        if len(sockets) > 6000: sockets.popleft().close()
    time.sleep(0.005)
print(round(opened / seconds), failed)
"""


def slowdown(pool, name, attack):
    """Rounds of the honest client while others' processes, of the lowest priority so that they do not
    win by taking the processors away, do their worst; as a factor of what it does without them."""
    def rate(seconds):
        rounds, start = pool.rounds(), time.monotonic()
        time.sleep(seconds)
        return (pool.rounds() - rounds) / (time.monotonic() - start)
    before = rate(FLOOD_SECONDS / 2)
    process = attack()
    during = rate(FLOOD_SECONDS)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    pool.check()
    alone = (before + rate(FLOOD_SECONDS / 2)) / 2
    print(f"{name}: {alone:.1f} rounds a second alone, {during:.1f} meanwhile: slower by a factor of "
          f"{alone / max(during, 1e-9):.2f}; {out.strip()}")
    assert during > 0
    assert alone / during < SLOWDOWN


def start_nicely(arguments, environment=None):
    return subprocess.Popen(["nice", "-n", "19", *arguments], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=environment)


def test_connections_without_a_key(pool):
    """Two thousand a second: members stay, programs go on, the log says it once in a while."""
    before = pool.hub_log()
    slowdown(pool, "connections without a key", lambda: start_nicely(
        [sys.executable, "-c", FLOOD, str(pool.port), str(FLOOD_SECONDS)]))
    news = pool.hub_log()[len(before):]
    assert not re.search(r"(ann|bob)\S* left", news), news
    assert news.count("refused a connection") <= 2 + FLOOD_SECONDS / 10, news


@pytest.mark.parametrize("attack", ["greedy", "pieces", "hoard", "come_and_go"])
def test_a_greedy_member(pool, attack):
    """It has all the links that it may, and queues, begins or stores all that it may, or comes and goes."""
    before = pool.hub_log()
    peaks = []

    def begin():
        process = start_nicely([MALICE, pool.address, "client", attack, str(FLOOD_SECONDS)],
                               pool.mallory.environment | {"SHOAL_LOG": "error"})
        thread = threading.Thread(target=lambda: peaks.append(peak_while(process, pool.hub.pid)))
        thread.start()
        return process
    slowdown(pool, "a greedy member: " + attack, begin)
    news = pool.hub_log()[len(before):]
    print(f"the hub grew by {(peaks[0] - pool.before[0]) >> 20} MiB")
    assert peaks[0] - pool.before[0] < HUB_BUDGET
    assert not re.search(r"(ann|bob|carol)\S* left", news), news
    assert news.count("no room for another link of") <= 2, news
    assert news.count("than may wait there") <= 300, news


def peak_while(process, pid):
    peak = 0
    while process.poll() is None:
        peak = max(peak, memory_of(pid))
        time.sleep(0.1)
    return peak


@pytest.fixture(scope="module")
def impatient():
    """Its workers wait for a client in vain for a second instead of a minute."""
    yield from made(1)


@pytest.mark.parametrize("attack, seconds", [("owe", 5), ("leave_unread", 14), ("leave_home", 6), ("deny", 6)])
def test_who_is_waited_for_in_vain(impatient, attack, seconds):
    """A client that announces data and never sends it, one that never takes what its loop brings, one that
    takes no results, and one that says besides that it has them: its programs fail, by its name, others' go
    on behind them, and workers hold no more than what is under way."""
    rounds = impatient.rounds()
    done = subprocess.run([MALICE, impatient.address, "client", attack, str(seconds)], capture_output=True,
                          text=True, timeout=120,
                          env=impatient.mallory.environment | {"SHOAL_LOG": "error"})
    print(attack, done.stdout, impatient.rounds() - rounds, "rounds of another meanwhile")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"failed [1-9]", done.stdout), done.stdout + impatient.hub_log()
    assert "client mallory?? has brought next to nothing" in done.stdout
    assert impatient.rounds() > rounds, impatient.client_log()
    impatient.check()


@pytest.fixture
def fresh():
    """What earlier attacks left in a worker, boxes that come before their program, may stay there for two minutes."""
    yield from made()


def test_all_at_once(fresh):
    attackers = [subprocess.Popen([MALICE, fresh.address, role, "all", "3"], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True,
                                  env=fresh.mallory.environment | {"SHOAL_LOG": "error"})
                 for role in ("client", "worker", "both") for _ in range(2)]
    for attacker in attackers:
        out, err = attacker.communicate(timeout=120)
        assert attacker.returncode == 0, f"exit status {attacker.returncode}: {out}{err}"
    fresh.check()


def test_the_log_names_the_key(pool):
    key = re.search(r"^mallory  (\w+)", pool.hub_machine.run("peers")[0], re.M)[1]
    assert re.search(rf"\(mallory, key {key}; pid \d+ on \S+\) sent .+: dropped", pool.hub_log())
    logs = "".join(machine.log(worker) for machine, worker in pool.workers_)
    assert re.search(r"\(member \d+, key \w+\) sent an order, as only the hub may: dropped", logs), logs
    assert len(pool.hub_log()) < 1 << 20


def test_what_it_calls_itself(pool):
    """Its name is of bytes that would drive a screen: nobody's screen sees them."""
    await_true(lambda: "mallory??" not in pool.hub_machine.run("status")[0], 60, pool.hub_log)
    process = start_nicely([MALICE, pool.address, "worker", "flood", "60"], pool.mallory.environment)
    await_true(lambda: "mallory??" in pool.hub_machine.run("status")[0], 60, pool.hub_log)
    done = subprocess.run([sys.executable, "-c", "import shoal, sys; s = shoal.connect(sys.argv[1]); "
                           "print([slot.worker for slot in s.status().slots])", pool.address],
                          capture_output=True, text=True, env=pool.client_machine.environment, timeout=60)
    assert "mallory??" in done.stdout, done.stdout + done.stderr
    process.terminate()
    process.communicate(timeout=30)


def test_made_up_events(pool):
    """Who tells nonsense of events is left out, with a line of the log; those of others are told."""
    # The one of an earlier test may not have left yet.
    await_true(lambda: "mallory??" not in pool.hub_machine.run("status")[0], 60, pool.hub_log)
    process = start_nicely([MALICE, pool.address, "worker", "numbers", "60"], pool.mallory.environment)
    await_true(lambda: "mallory??" in pool.hub_machine.run("status")[0], 60, pool.hub_log)
    done = subprocess.run([sys.executable, "-c", "import shoal, sys; s = shoal.connect(sys.argv[1])\n"
                           "for i in range(5): print(sorted((told[1], told[2]) for told in s._events(1000)))",
                           pool.address], capture_output=True, text=True,
                          env=pool.client_machine.environment, timeout=60)
    process.terminate()
    process.communicate(timeout=30)
    assert done.returncode == 0 and done.stdout.count("('mallory??', False)") == 5, done.stdout + done.stderr
    assert done.stdout.count("('ann', True)") == 5, done.stdout
    assert "what mallory?? (member" in done.stderr and "tells of events is left out" in done.stderr
    pool.check()


def test_roles_bind(pool):
    """Who is enrolled as a client lends nothing, and who is a worker runs nothing."""
    for role, other in ("client", "worker"), ("worker", "client"):
        pool.hub_machine.run("peers", "mallory", "--role", role)
        for asked in other, "both":
            done = subprocess.run([MALICE, pool.address, asked, "kinds", "1"], capture_output=True,
                                  text=True, timeout=60, env=pool.mallory.environment)
            assert done.returncode == 1, done.stdout + done.stderr
        assert pool.attack(role, "flood", "0.3")["joined"]
    assert "mallory is enrolled as both" in pool.hub_machine.run("peers", "mallory", "--role", "both")[0]
    pool.check()


def test_a_busy_user_is_revoked(pool):
    """Its links end within a second, its program with one message, its worker with one; others go on."""
    dave = pool.joined("dave")
    worker = dave.start("worker", "--hub", pool.address, "--name", "dave-w", "--threads", "1",
                        "--listen", "127.0.0.1:0")
    client = pool.start_client(dave)
    rounds = pool.rounds(dave)
    await_true(lambda: pool.rounds(dave) > rounds, 60, lambda: pool.client_log(dave))
    before = len(pool.hub_log())
    pool.hub_machine.run("revoke", "dave")

    def gone():
        return [line for line in pool.hub_log()[before:].splitlines()
                if " left (" in line and "the key of this user was revoked" in line]
    print(f"links closed after {await_true(lambda: len(gone()) == 2, SLACK, pool.hub_log):.2f} s")
    # The program ends where it waits, and says why; it is refused when it comes again.
    assert client.wait(60) == 1
    said = [line for line in pool.client_log(dave).splitlines() if "shoal.errors." in line]
    assert len(said) == 1 and "DeniedError" in said[0] and "revoked" in said[0], pool.client_log(dave)
    worker.terminate()
    assert worker.wait(60) is not None
    assert dave.log(worker).count("was revoked") == 1, dave.log(worker)
    pool.check()


def test_revoked_while_busy(pool):
    """Its links are closed within a second, others go on."""
    attacker = subprocess.Popen([MALICE, pool.address, "both", "boxes", "60"], stdout=subprocess.PIPE,
                                text=True, env=pool.mallory.environment | {"SHOAL_LOG": "error"})
    await_true(lambda: "mallory" in pool.hub_machine.run("status")[0], 20, pool.hub_log)
    before = len(pool.hub_log())
    pool.hub_machine.run("revoke", "mallory")
    await_true(lambda: re.search(r"mallory\S* left .+ revoked", pool.hub_log()[before:]), SLACK, pool.hub_log)
    attacker.terminate()
    attacker.communicate(timeout=60)
    pool.check()
