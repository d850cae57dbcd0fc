"""Workers that die, stop or are cut off: the call returns the right answer, or one clear error.

SHOAL_ROUNDS: how many random losses (9, with links that are cut 12: each fault in each kind of work; over `lag` 6). With SHOAL_TRANSPORT=zmq links are cut as well, by a proxy
between a worker and the hub. With SHOAL_BACKEND=lag matrices are smaller: it multiplies by the
reference's kernels. The times that recovery took are printed: pytest -s.
"""
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import pytest

import shoal
from cluster import Pool, near, random_array
from proxy import Proxy
from slack import SLACK

LAG = os.environ.get("SHOAL_BACKEND") == "lag"
ENCRYPTED = os.environ.get("SHOAL_TRANSPORT") == "zmq"
ROUNDS = int(os.environ.get("SHOAL_ROUNDS", "6" if LAG else "12" if ENCRYPTED else "9"))
NOTICED = 2.0 * SLACK  # seconds until a loss is known
ERROR = 3.0 * SLACK    # seconds until a call that cannot go on has failed


def side(length):
    """Of a matrix whose product takes about as long on any device."""
    return length // 6 if LAG else length


@pytest.fixture
def three():
    p = Pool(3)
    yield p
    p.close()


def test_idle(three):
    rng = np.random.default_rng(1)
    a = random_array(rng, 300, 200)
    rows = shoal.tensor(a).place(axis=0)
    made = rows * 3 + 1
    assert np.array_equal(rows.numpy(), a)
    shoal.sync()
    three.worker(1).kill()
    assert np.array_equal((rows + rows).numpy(), a + a)
    assert np.array_equal(made.numpy(), a * 3 + 1)
    status = shoal.status()
    assert status.losses == 1 and status.reruns >= 1
    assert "run again" in three.log(three.processes[0])


@pytest.mark.parametrize("donate", [(), 0])
def test_a_loop(three, donate):
    """It is run again from its first round; what was brought before is not brought twice."""
    rng = np.random.default_rng(3)
    a = rng.integers(-1, 2, (96, 96)).astype("f4")
    w, rows = shoal.tensor(a).place(axis=1), shoal.tensor(rng.integers(-1, 2, (4000, 96)).astype("f4"))

    @shoal.compile(replay=True, donate=donate)
    def step(x, row):
        x = shoal.remainder(x @ w + row, 7)  # small integers, which are exact
        return x, x.sum()

    def run(n):
        start = shoal.tensor(np.ones((1, 96), "f4")) * 1
        return step.repeat(n, start, rows, carry={0: 0}, feed=[1], stream=1)

    want, sums = np.ones((1, 96), "f4"), []
    for row in rows.numpy():
        want = (want @ a + row) % 7
        sums.append(want.sum())
    assert [float(value) for value in run(200)] == sums[:200]
    for kill in (2, 1):
        loop, got = run(4000), []
        for value in loop:
            got.append(float(value))
            if len(got) == 300:
                three.worker(kill).kill()
        assert got == sums and loop.rounds == 4000
        assert np.array_equal(loop.result[0].numpy(), want)
    status = shoal.status()
    assert status.losses == 2 and status.reruns >= 2
    assert "not its own" not in three.log(three.processes[0])  # who was in time is not blamed for it


def test_bound(three):
    """What is bound to a slot is computed there alone, and lost with it; what is not goes on elsewhere."""
    slots, a = shoal.session().compute_slots(), np.arange(90_000, dtype="f4").reshape(300, 300) % 7
    free = shoal.tensor(a).place(axis=0)
    shoal.sync()
    here = shoal.tensor(a).place(slots=slots[:1], bound=True)
    kept = here @ here
    shoal.sync()
    there = shoal.tensor(a).place(slots=slots[1:2], bound=True)
    made = there @ there + 1
    assert np.array_equal(made.numpy(), a @ a + 1)
    assert {slot for slot, _, _ in made.times()} <= {slots[1]}  # though a product pays on several
    both = shoal.tensor(a) @ free  # unbound, on all three
    shoal.sync()
    pid = next(slot.pid for slot in shoal.status().slots if slot.slot == slots[1])
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    for lost in (there, made, made * 2):
        with pytest.raises(shoal.LostError, match=r"was bound to where it lay: worker w\d"):
            lost.numpy()
    with pytest.raises(shoal.LostError, match="it is bound to a slot that has left: worker"):
        shoal.tensor(a).place(slots=slots[1:2], bound=True).numpy()
    for slot in (-1, 1 << 32, (1 << 32) + slots[0]):  # which are other slots in 32 bits
        with pytest.raises(shoal.InvalidError, match=f"place: slot {slot} does not exist"):
            shoal.tensor(a).place(slots=[slot], bound=True)
    assert time.monotonic() - began < ERROR
    assert np.array_equal(kept.numpy(), a @ a) and np.array_equal((free + both).numpy(), a + a @ a)
    with pytest.raises(shoal.LostError):
        shoal.sync()


def test_a_bound_loop(three):
    """Of a loop, whose counter of rounds is a small value, others have no part either: it goes on when they die."""
    slots, rows = shoal.session().compute_slots(), np.ones((4000, 96), "f4")
    x, w, rows = (shoal.tensor(a).place(slots=slots[:1], bound=True)
                  for a in (np.zeros((1, 96), "f4"), np.eye(96, dtype="f4"), rows))

    @shoal.compile(replay=True)
    def step(x, row):
        x = x @ w + row
        return x, x[0, 0]

    def run(n):
        return step.repeat(n, x, rows, carry={0: 0}, feed=[1], stream=1)
    assert [float(value) for value in run(9)] == list(range(1, 10))
    loop, got = run(4000), []
    for value in loop:
        got.append(float(value))
        if len(got) == 300:
            for slot in shoal.status().slots:
                if slot.compute and slot.slot != slots[0]:
                    os.kill(slot.pid, signal.SIGKILL)
    assert got == list(range(1, 4001)) and shoal.status().reruns == 0


ENDLESS = """
import signal, sys
import shoal
signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored in what a shell has put into the background
shoal.connect(sys.argv[1])
x, w = shoal.zeros((90, 40)).place(axis=0), shoal.zeros((40, 40))

@shoal.compile(replay=True, donate=0)
def step(x, w):
    return shoal.tanh(x @ w) + 1

loop = step.repeat(10 ** 6, x, w, carry={0: 0})
print("runs", flush=True)
loop.result[0].numpy()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_client_leaves_its_loop(three, how):
    """Rounds for minutes, which nobody needs any more, end with their client; others are not held up."""
    x = shoal.tensor(np.ones((90, 40), "f4")).place(axis=0)
    assert (x + 1).sum().item() == 7200
    client = subprocess.Popen([sys.executable, "-c", ENDLESS, three.address], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL)
    with client:
        assert client.stdout.readline() == "runs\n"
        time.sleep(0.5)
        assert client.poll() is None
        client.send_signal(how)
        try:
            assert client.wait(60) != 0
        finally:
            client.kill()
    began = time.monotonic()
    assert (x + 2).sum().item() == 10800
    assert time.monotonic() - began < 30
    deadline = time.monotonic() + 30
    while any(slot.queued for slot in shoal.status().slots):
        assert time.monotonic() < deadline, shoal.status()
        time.sleep(0.02)
    assert shoal.status().losses == 0


def test_donated(three):
    """What was written over is made again by its record."""
    rng = np.random.default_rng(4)
    want = rng.integers(-9, 9, (90, 40)).astype("f4")
    cache = shoal.tensor(want).place(axis=0)

    @shoal.compile(replay=True, donate=0)
    def update(cache, row, at):
        return cache.dynamic_update_slice(row, (at, 0)) + 1

    for i in range(60):
        row, at = rng.integers(-9, 9, (1, 40)).astype("f4"), int(rng.integers(90))
        cache = update(cache, row, np.int64(at))
        want[at] = row
        want = want + 1
        if i in (20, 40):
            three.worker(i // 20).kill()
        if i % 7 == 0:
            assert np.array_equal((cache + 0).numpy(), want)
    assert np.array_equal(cache.numpy(), want)
    three.await_losses(2)  # all may be done before it shows that the second one died


def test_released_inputs_are_remade(three):
    """What a value was made of has gone long since."""
    rng = np.random.default_rng(2)
    a, b = random_array(rng, 200, 100), random_array(rng, 100, 50)
    x = shoal.tensor(a).place(axis=0) @ shoal.tensor(b)
    for _ in range(20):
        x = x * 0.5 + 1
        shoal.sync()
    held = shoal.status().values
    three.worker(0).kill()
    want = a @ b
    for _ in range(20):
        want = want * 0.5 + 1
    assert np.allclose(x.numpy(), want, atol=1e-5)
    assert held <= 3, "what was released holds no memory"
    del x
    shoal.sync()
    assert shoal.status().values <= 1


def test_one_upload_for_two(three):
    """A function that was recorded with two is given one twice; its copy in the client's memory is there after a loss."""
    rng = np.random.default_rng(7)
    a = rng.integers(-2, 3, (300, 300)).astype("f4")

    @shoal.compile(replay=True)
    def step(x, y):
        return x @ y - x
    u, v = shoal.tensor(a), shoal.tensor(a)
    for _ in range(2):
        assert np.array_equal(step(u, v).numpy(), a @ a - a)
    x = shoal.tensor(a)
    made = step(x, x)
    assert np.array_equal(made.numpy(), a @ a - a)
    three.worker(1).kill()
    three.await_losses(1)
    assert np.array_equal(x.numpy(), a) and np.array_equal((made + x).numpy(), a @ a)


def test_made_again_by_the_last(three):
    """Several values of one upload that has gone are lost, and one worker is left: all are made again, one after another."""
    a = np.random.default_rng(8).integers(-2, 3, (600, 600)).astype("f4")
    x, made = shoal.tensor(a), []
    for k in range(4):
        made.append(x * (k + 1) + 1)
        made[-1].start()  # what is recorded together is one program
    shoal.sync()
    del x
    for i in (0, 2):
        three.worker(i).kill()
    three.await_losses(2)
    for k, value in enumerate(made):
        assert np.array_equal(value.numpy(), a * (k + 1) + 1)


def test_a_layout_that_names_the_lost(three):
    """Programs go on that were recorded for slots which are gone; shares stay what they were."""
    rng = np.random.default_rng(3)
    a, b = random_array(rng, 90, 40), random_array(rng, 40, 30)

    def step():
        return (shoal.tensor(a).place(axis=0, slots=[0, 1, 2], shares=[1, 2, 3]) @ shoal.tensor(b)
                ).numpy()
    near(step(), a, b)
    three.worker(1).kill()
    near(step(), a, b)
    three.worker(0).kill()
    near(step(), a, b)


def test_two_of_three(three):
    rng = np.random.default_rng(4)
    a = random_array(rng, side(1000), side(1000))
    t = shoal.tensor(a).place(axis=0)
    u = t @ t
    shoal.sync()
    product = u @ t

    def kill():
        for i in (0, 2):
            three.worker(i).kill()
    timer = threading.Timer(0.05, kill)
    timer.start()
    got = product.numpy()
    timer.join()
    near(got, (a.astype(np.float64) @ a).astype(np.float32), a)
    near((u @ t).numpy(), (a.astype(np.float64) @ a).astype(np.float32), a)


def test_between_panels():
    """Operands of the client's memory come in panels, and so does the result: some are there."""
    rng = np.random.default_rng(8)
    a, b = (rng.integers(-3, 4, shape).astype("f4") for shape in ((side(1201), side(1100)), (side(1100), side(1303))))
    true = np.maximum(a @ b, 0)  # small integers, which are exact
    pool = Pool(3, hub=("--panels", "6"))
    try:
        def product():
            return shoal.maximum(shoal.tensor(a) @ shoal.tensor(b), 0)
        assert "6 panels" in shoal.explain(product())
        assert np.array_equal(product().numpy(), true)
        for worker, after in (1, 0.01), (0, 0.03):
            timer = threading.Timer(after, pool.worker(worker).kill)
            timer.start()
            assert np.array_equal(product().numpy(), true)
            timer.join()
        assert np.array_equal(product().numpy(), true)
        pool.await_workers(1)
    finally:
        pool.close()


def test_all_die(three):
    rng = np.random.default_rng(5)
    a = random_array(rng, side(1000), side(1000))
    t = shoal.tensor(a).place(axis=0)
    product = t @ t @ t @ t
    shoal.sync()
    again = product @ t @ t @ t
    for worker in three.processes[1:]:
        worker.kill()
    started = time.monotonic()
    with pytest.raises(shoal.LostError) as caught:
        again.numpy()
    assert time.monotonic() - started <= ERROR
    text = str(caught.value)
    assert "no worker is left" in text and "shoal worker" in text and "pid" in text, text
    # What the values were made of is still there: a new worker makes them again.
    three.add("w4")
    three.await_workers(1)
    want = a.astype(np.float64) @ a
    near((product @ t).numpy(), (want @ a @ a).astype(np.float32), a)


def test_no_copies(three):
    """A client that has no memory to spare is told what it has lost."""
    shoal.disconnect()
    three.session = shoal.connect(three.address, spare=1)
    rng = np.random.default_rng(6)
    a = random_array(rng, 600, 300)
    x = shoal.tensor(a)
    rows = x + 1
    shoal.sync()
    three.worker(1).kill()
    with pytest.raises(shoal.LostError) as caught:
        (rows + rows).numpy()
    text = str(caught.value)
    assert "float32[600, 300]" in text and "w2" in text and "no room for a copy" in text, text
    near((shoal.tensor(a) @ shoal.tensor(a.T)).numpy(), a, a.T)


def alone_then_two(pool, make):
    """What is made while there is one worker, which is lost once another has joined and copies are made."""
    for i in range(2):
        pool.worker(i).kill()
    pool.await_workers(1)
    made = make()
    pool.add("w4")
    pool.await_workers(2)
    return made


def await_copies(least):
    deadline = time.monotonic() + 60
    while sum(slot.bytes for slot in shoal.status().slots if not slot.compute) < least:
        assert time.monotonic() < deadline, shoal.status()
        time.sleep(0.01)


def test_made_while_there_was_one_worker(three):
    """Who joins makes those values safe as well: what is held has a copy from then on, and what is let go of is
    there for what derives from it."""
    rng = np.random.default_rng(11)
    a = random_array(rng, 300, 400)

    def make():
        x, y, failed = shoal.tensor(a) + 1, shoal.tensor(a) * 2, shoal.tensor(a) - 1
        assert x.sum().shape == () and y.sum().item() is not None
        shoal.sync()
        return x, y, failed

    x, y, third = alone_then_two(three, make)
    derived = y * 3
    shoal.sync()
    del y
    await_copies(2 * a.nbytes)
    shoal.sync()
    three.worker(2).kill()
    assert np.array_equal(x.numpy(), a + 1) and np.array_equal(third.numpy(), a - 1)
    assert np.array_equal(derived.numpy(), a * 2 * 3)
    # The one that is left is alone again, and what it makes is copied when the next joins.
    later = x * 5
    assert later.sum().shape == ()
    shoal.sync()
    three.add("w5")
    three.await_workers(2)
    await_copies(3 * a.nbytes)
    three.worker(3).kill()
    assert np.array_equal(later.numpy(), (a + 1) * 5)


def test_training_of_one_worker_goes_on_by_two(three):
    """Weights and moments that replayed steps give on, from one worker to the next that joins."""
    def at_step(i):
        if i == 0:
            for k in range(2):
                three.worker(k).kill()
            three.await_workers(1)
        if i in (4, 10):
            three.add(f"n{i}")
            three.await_workers(2)
        if i in (7, 13):
            three.worker(2 if i == 7 else 3).kill()
    got = training_losses(16, at_step, replay=True)
    three.await_losses(4)
    shoal.disconnect()
    three.session = shoal.connect(three.address)
    assert np.allclose(got, training_losses(16, replay=True), rtol=1e-3, atol=1e-5)


def test_one_worker_and_no_room(three):
    """As many as there is room for: of the others the error says so."""
    shoal.disconnect()
    three.session = shoal.connect(three.address, spare=1 << 20)

    def make():
        values = [shoal.tensor(np.full((300, 400), i, np.float32)) + 1 for i in range(4)]
        shoal.sync()
        return values

    values = alone_then_two(three, make)
    await_copies(2 * 480_000)
    time.sleep(0.1)
    three.worker(2).kill()
    saved = 0
    for i, value in enumerate(values):
        try:
            assert value.sum().item() == (i + 1) * value.numel()
            saved += 1
        except shoal.LostError as error:
            assert re.search(r"float32\[300, 400\] was lost, .* only one worker when it was made", str(error))
    assert saved == 2
    assert (shoal.ones((5,)) + 1).sum().item() == 10


def test_cut(three):
    """A long computation is not made again from its beginning, and what is not needed is freed."""
    rng = np.random.default_rng(7)
    a = random_array(rng, side(1000), side(1000))
    a /= np.abs(np.linalg.eigvals(a.astype(np.float64))).max()
    t = shoal.tensor(a)
    x, steps, busy, reruns = t, 0, 0, 0

    def more(products):
        nonlocal x, steps
        for _ in range(products):
            x = x @ t
        steps += products
        largest = x.max().item()  # what is read is the reader's, and nothing to be copied
        assert np.isfinite(largest)
        return shoal.status()

    # More than twice what may be made again, in at least as many programs as tell.
    while busy < 4.5e9 or steps < 200:
        busy = max(slot.busy_ns for slot in more(10).slots)
    # Nothing is run again when the last value is one that was just copied; that cannot be so twice, as one product takes
    # far less than what may be made again.
    for _ in range(2):
        before = more(1)
        holder = max((slot for slot in before.slots if slot.compute), key=lambda slot: slot.bytes)
        os.kill(holder.pid, signal.SIGKILL)
        started = time.monotonic()
        got = x.numpy()
        took = time.monotonic() - started
        reruns = shoal.status().reruns - before.reruns
        print(f"{steps} products; {reruns} programs run again in {took:.2f} s")
        want = np.linalg.matrix_power(a.astype(np.float64), steps + 1)
        assert np.abs(got - want).max() <= 1e-3 * max(np.abs(want).max(), 1e-6)
        if reruns:
            break
    assert 0 < reruns < steps / 10 * 0.8


def test_a_stopped_worker_wakes(three):
    rng = np.random.default_rng(8)
    a = random_array(rng, side(600), side(600))
    t = shoal.tensor(a).place(axis=0)
    shoal.sync()
    product = t @ t @ t
    three.worker(2).send_signal(signal.SIGSTOP)
    want = a.astype(np.float64) @ a
    near(product.numpy(), want.astype(np.float32), a)
    three.worker(2).send_signal(signal.SIGCONT)
    for _ in range(10):
        near((t @ t).numpy(), a, a)
    assert three.worker(2).wait(60) == 1
    assert "hub" in three.log(three.worker(2))
    near(product.numpy(), want.astype(np.float32), a)


def training_losses(steps, at_step=None, replay=False):
    """Losses of a small net under Adam; at_step(i) is called before each step."""
    from shoal import nn
    rng = np.random.default_rng(9)
    shoal.manual_seed(9)
    x = random_array(rng, 120, 64)
    y = rng.integers(0, 10, 120)
    hidden = 64 if LAG else 256
    model = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))
    optimizer = shoal.optim.Adam(model.parameters(), lr=0.01)
    losses = []

    def train(x, y):
        with shoal.signal.context("everywhere"):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
        return loss
    if replay:
        train = shoal.compile(train, replay=True)
    for step in range(steps):
        if at_step:
            at_step(step)
        losses.append(train(shoal.tensor(x), shoal.tensor(y)).item())
    return losses


@pytest.mark.parametrize("replay", [True] if LAG else [False, True])  # there, what is not replayed takes longest
@pytest.mark.parametrize("way", ["", "everywhere: {shard: {axis: 0}}",
                                 "everywhere: {shard: {axis: -1, workers: [0, 1, 2]}}"])
def test_training_goes_on(three, way, replay):
    """Two workers are lost on the way, one comes: the losses are those of an undisturbed run."""
    shoal.signal.parse(way)

    def lose(step):
        if step == 10:
            three.worker(2).kill()
        if step == 20:
            three.add("w4")
        if step == 30:
            three.worker(0).kill()
    try:
        got = training_losses(40, lose, replay)
        three.await_losses(2)
        assert np.allclose(got, training_losses(40), rtol=1e-3, atol=1e-5)
        assert got[-1] < got[0] / 4
    finally:
        shoal.signal.clear()


# ---- random losses ----

class Chaos:
    """A pool of three workers of which one is lost in every round and replaced."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.pool = Pool(0)
        self.names, self.workers, self.proxies = 0, [], {}
        while len(self.workers) < 3:
            self.start()
        self.pool.await_workers(3)

    def start(self):
        self.names += 1
        hub = None
        if ENCRYPTED:
            folder = pathlib.Path(os.environ["XDG_RUNTIME_DIR"]) / "shoal"
            name = self.pool.address.removeprefix("shm:")
            address = (folder / f"{name}.lock").read_text(encoding="utf-8").strip()
            port, key = address.removeprefix("tcp://127.0.0.1:").split("/")
            proxy = Proxy(int(port))
            hub = f"tcp://127.0.0.1:{proxy.port}/{key}"
        worker = self.pool.add(f"n{self.names}", hub)
        self.workers.append(worker)
        if ENCRYPTED:
            self.proxies[worker] = proxy

    def strike(self, fault, worker):
        if fault == "kill":
            worker.kill()
        elif fault == "stop":
            worker.send_signal(signal.SIGSTOP)
        elif fault == "end":
            worker.terminate()
        else:
            self.proxies[worker].cut()

    def replace(self, worker):
        worker.send_signal(signal.SIGCONT)
        worker.terminate()
        worker.wait(60)
        self.workers.remove(worker)
        if worker in self.proxies:
            self.proxies.pop(worker).close()
        self.start()
        self.pool.await_workers(3)

    def close(self):
        for proxy in self.proxies.values():
            proxy.close()
        self.pool.close()


@pytest.fixture
def chaos(monkeypatch):
    with tempfile.TemporaryDirectory(prefix="shoal-chaos-") as folder:
        if ENCRYPTED:
            monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        c = Chaos(int(os.environ.get("SHOAL_SEED", "1")))
        yield c
        c.close()


def product_job(rng, size):
    """One product, as everything is new: uploads, the exchange and the way home are in it."""
    a, b = random_array(rng, size, size), random_array(rng, size, size)
    x, y = shoal.tensor(a), shoal.tensor(b)
    return lambda: (x @ y).numpy(), a.astype(np.float64) @ b


def chain_job(rng, size):
    """Many programs, one after another, on values that stay on the workers."""
    a = random_array(rng, size, size) / np.float32(np.sqrt(size))
    t = shoal.tensor(a).place(axis=0)
    shoal.sync()

    def run():
        x = t
        for _ in range(12):
            x = shoal.tanh(x @ t) + t
            shoal.sync()
        return x.numpy()
    want = w = a.astype(np.float64)
    for _ in range(12):
        w = np.tanh(w @ want) + want
    return run, w


def training_job(rng, size):
    """Steps of a net: small programs that repeat, and values that each step replaces."""
    want = np.array(training_losses(40))
    return lambda: np.array(training_losses(40)), want


def test_random_losses(chaos):
    rng = np.random.default_rng(chaos.random.randrange(1 << 30))
    faults = ["kill", "stop", "end"] + (["cut"] if ENCRYPTED else [])
    took = {fault: [] for fault in faults}
    for number in range(ROUNDS):
        fault = faults[number % len(faults)]
        job = (product_job, chain_job, training_job)[number // len(faults) % 3]
        run, want = job(rng, side(900))
        worker = chaos.random.choice(chaos.workers)
        timer = threading.Timer(chaos.random.uniform(0, 0.12), chaos.strike, (fault, worker))
        timer.start()
        started = time.monotonic()
        got = run()
        seconds = time.monotonic() - started
        timer.join()
        error = np.abs(got - want).max() / np.abs(want).max()
        assert error <= 1e-3, f"round {number}: {fault} in {job.__name__}: wrong by {error:g}"
        assert seconds <= NOTICED + 6 * SLACK, f"round {number}: {fault} in {job.__name__}: {seconds:.1f} s"
        took[fault].append(seconds)
        chaos.replace(worker)
    for fault, times in took.items():
        print(f"{fault}: {len(times)} rounds, median {statistics.median(times):.2f} s, "
              f"longest {max(times):.2f} s")
