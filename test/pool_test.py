"""A hub and workers as real processes, driven through the Python package and the command.

Products and operations by every layout over 1 to 5 workers equal NumPy's; several clients work at
once; a hub that is killed is a clear error in seconds; the errors of joining are clear.
"""
import json
import pathlib
import subprocess
import sys
import threading
import time

import gguf
import numpy as np
import pytest

import shoal
from cluster import SHOAL, Pool, near, random_array
from slack import SLACK

@pytest.fixture(params=[1, 2, 3, 5])
def pool(request):
    p = Pool(request.param)
    p.workers = request.param
    yield p
    p.close()


@pytest.fixture
def three():
    p = Pool(3)
    yield p
    p.close()


SHAPES = [(1, 1, 1), (5, 7, 3), (64, 64, 64), (129, 65, 33), (0, 5, 4), (4, 0, 3), (3, 4, 0),
          (1000, 3, 2), (2, 3, 1000), (257, 511, 129)]


def test_products(pool):
    rng = np.random.default_rng(1)
    n = pool.workers
    shares = [50, 30, 20, 7, 0][:n]
    for m, k, p in SHAPES:
        a, b = random_array(rng, m, k), random_array(rng, k, p)
        near((shoal.tensor(a) @ shoal.tensor(b)).numpy(), a, b)
        rows = shoal.tensor(a).place(axis=0, shares=shares)
        near((rows @ shoal.tensor(b)).numpy(), a, b)
        columns = shoal.tensor(b).place(axis=1, shares=shares)
        near((shoal.tensor(a) @ columns).numpy(), a, b)
        near((rows @ columns).numpy(), a, b)
        inner = shoal.tensor(a).place(axis=1, shares=shares) @ shoal.tensor(b).place(
            axis=0, shares=shares)
        near(inner.numpy(), a, b)
        near((shoal.tensor(a).replicate() @ shoal.tensor(b).replicate()).numpy(), a, b)


def test_quantised_bytes_travel(three):
    """Between slots go the bytes of quantised blocks, 34 for 32 numbers, and not the numbers."""
    kind, blocks = gguf.GGMLQuantizationType.Q8_0, 32
    data = gguf.quants.quantize(np.random.default_rng(3).standard_normal((512, 32 * blocks), np.float32), kind)
    want = gguf.quants.dequantize(data, kind)
    slots = [s.slot for s in shoal.status().slots if s.compute]

    def received(work, least):
        """What workers have received, once they have told the hub of at least so much, and the result."""
        def now():
            return sum(s.received for s in shoal.status().slots if s.compute)
        before, made, deadline = now(), work(), time.monotonic() + 60
        shoal.sync()
        got = made.numpy()
        while now() < before + least and time.monotonic() < deadline:
            time.sleep(0.01)
        return now() - before, got
    # Copies of the numbers on every slot: the bytes travel, and the numbers are made on each.
    on_one = shoal.tensor(data).place(slots=slots[:1])
    went, _ = received(lambda: on_one, data.nbytes)
    assert went == data.nbytes
    went, got = received(lambda: shoal.dequantize(on_one, "q8_0").place(slots=slots), 2 * data.nbytes)
    assert went == 2 * data.nbytes and np.array_equal(got, want), went
    # From rows to columns, in whole blocks: what each slot lacks of its columns.
    rows = shoal.tensor(data).place(axis=0, shares=[50, 30, 20])
    received(lambda: rows, data.nbytes)
    columns = [(256, 16), (154, 10), (102, 6)]  # rows that lie on each slot, and blocks of a row that it is to have
    lacking = sum((512 - own) * 34 * n for own, n in columns)
    went, got = received(lambda: shoal.dequantize(rows.place(axis=1, shares=[50, 30, 20]), "q8_0"), lacking)
    assert went == lacking and np.array_equal(got, want), (went, lacking)
    # Rows of a table that is cut by rows: the numbers alone would be more than all of its bytes.
    picked = np.arange(0, 512, 2)
    ids = shoal.tensor(picked)
    went, got = received(lambda: shoal.dequantize(rows.take(ids, axis=0), "q8_0").place(slots=slots), data.nbytes)
    assert went <= 3 * (data.nbytes + picked.nbytes) and np.array_equal(got, want[picked]), went
    assert went < 2 * want[picked].nbytes, went


def test_large_transfer(three):
    rng = np.random.default_rng(2)
    a = random_array(rng, 3001, 2003)
    t = shoal.tensor(a).place(axis=0, shares=[1, 2, 3])
    assert np.array_equal(t.numpy(), a)
    assert np.array_equal(t.place(axis=1).numpy(), a)
    assert np.array_equal(t.place(axis=1).T.numpy(), a.T)
    assert np.array_equal(t.numpy(), a)


def test_values_go_when_released(three):
    rng = np.random.default_rng(3)
    for _ in range(50):
        a = shoal.tensor(random_array(rng, 100, 100)).place(axis=0)
        (a @ a).numpy()
    del a
    shoal.sync()
    status = shoal.status()
    assert status.values <= 3, status


def test_failures_at_run_time_name_their_line():
    """A worker that may have less memory than it says: what fails there is known only when it runs."""
    p = Pool(0)
    worker = subprocess.Popen(["prlimit", "--as=2000000000", SHOAL, "worker", "--once", "--hub", p.address,
                               "--name", "small", "--threads", "1", "--memory", "64GiB"],
                              stdout=subprocess.DEVNULL)
    try:
        p.await_workers(1)
        x = shoal.tensor(np.ones((40000, 1), np.float32))
        for _ in range(2):
            with pytest.raises(shoal.OutOfMemoryError) as caught:
                product = x @ x.T  # this one
                (product * 2.0).sum().numpy()
            line = next(number for number, text in enumerate(
                pathlib.Path(__file__).read_text(encoding="utf-8").splitlines(), 1)
                if text.endswith("# this one"))
            assert f"worker small: dot_general at pool_test.py:{line}: 6400000000 bytes" in str(caught.value)
        assert (x + x).sum().item() == 80000
    finally:
        worker.terminate()
        worker.wait(60)
        p.close()


def expect_lost(call, within=3.0 * SLACK):
    started = time.monotonic()
    with pytest.raises(shoal.LostError) as caught:
        call()
    took = time.monotonic() - started
    assert took <= within, f"the error came after {took:.1f} s"
    return str(caught.value)


def test_clients_at_once(three):
    errors = []

    def work(seed):
        try:
            rng = np.random.default_rng(seed)
            session = shoal.Session(three.address)
            for _ in range(20):
                a, b = random_array(rng, 40, 30), random_array(rng, 30, 20)
                near((session.tensor(a) @ session.tensor(b)).numpy(), a, b)
            session.close()
        except Exception as error:  # noqa: BLE001: reported by the assertion below
            errors.append(repr(error))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not errors


def test_hub_gone(three):
    t = shoal.tensor([1.0, 2.0])
    three.processes[0].kill()
    expect_lost(lambda: (t + t).numpy())
    for worker in three.processes[1:]:
        assert worker.wait(60) == 1
        assert "hub" in three.log(worker)
    three.processes = []


def until_it_works(call, within=60.0):
    """What a program that goes on after a loss does: tries again until the pool is there."""
    deadline = time.monotonic() + within
    while True:
        try:
            return call()
        except shoal.LostError:
            assert time.monotonic() < deadline, "the session did not join the new hub"
            time.sleep(0.05)
        except shoal.ShoalError as error:  # there is a hub, but no worker yet
            assert time.monotonic() < deadline and "worker" in str(error), error
            time.sleep(0.05)


def kill(process):
    process.kill()
    process.wait(60)


def new_hub(pool, workers):
    """A hub at the old one's address; its workers are new as well."""
    pool.processes = [pool.start("hub", "--address", pool.address)]
    for i in range(workers):
        pool.add(f"n{i + 1}")


def test_a_session_joins_a_new_hub(three):
    """Twice: the hub is killed and another begins. Calls that wait meanwhile end; what was computed
    there is lost, and says so; everything else goes on in the same session."""
    rng = np.random.default_rng(9)
    for round in range(2):
        array = random_array(rng, 50, 40)
        x = shoal.tensor(array, requires_grad=True)
        y = x * 2
        y.start()
        pending = x + 1
        big = shoal.tensor(random_array(rng, 1500, 1500))
        waiting, errors = [], []

        def wait():
            try:
                for _ in range(1000):
                    (big @ big).numpy()
            except shoal.LostError as error:
                errors.append(str(error))

        for _ in range(2):
            waiting.append(threading.Thread(target=wait))
            waiting[-1].start()
        time.sleep(0.3)
        for process in three.processes:
            kill(process)
        for thread in waiting:
            thread.join(3 * SLACK)
            assert not thread.is_alive(), "a call still waits for a hub that is gone"
        assert len(errors) == 2
        expect_lost(lambda: shoal.tensor([1.0]) + 1)
        deadline = time.monotonic() + 60
        while "joining it again" not in (text := expect_lost(shoal.status)):  # once it has tried
            assert time.monotonic() < deadline, text
        assert "the hub is gone" in text and "shoal hub" in text
        new_hub(three, 2 + round)
        assert until_it_works(lambda: (shoal.tensor([1.0, 2.0]) + 1).tolist()) == [2.0, 3.0]
        for lost in (x, y, pending):
            for use in (lambda: lost.numpy(), lambda: lost + 1, lambda: lost.start(),
                        lambda: (lost * lost).sum().backward()):
                text = expect_lost(use)
                assert "was lost with its session at" in text and "the hub is gone" in text, text
        three.await_workers(2 + round)
        z = shoal.tensor(array, requires_grad=True)
        near((z @ z.T).numpy(), array, array.T)
        (z * z).sum().backward()
        np.testing.assert_allclose(z.grad.numpy(), 2 * array, rtol=1e-6)
        del x, y, pending, lost, use
        shoal.sync()
        status = shoal.status()
        assert status.sessions == 1 and status.values <= 8, status


def test_closing_while_the_hub_is_gone(three):
    session = shoal.Session(three.address)
    t = session.tensor([1.0])
    kill(three.processes[0])
    expect_lost(lambda: (t + 1).numpy())
    started = time.monotonic()
    session.close()
    assert time.monotonic() - started < 3 * SLACK
    with pytest.raises(shoal.ClosedError):
        t + 1
    for worker in three.processes[1:]:
        worker.wait(60)
    three.processes = []


def test_port_in_use(three):
    second = subprocess.run([SHOAL, "hub", "--address", three.address], capture_output=True,
                            text=True, timeout=60)
    assert second.returncode == 1
    assert three.address.split(":")[1] in second.stderr and "another address" in second.stderr


def test_no_hub():
    lonely = subprocess.run([SHOAL, "worker", "--hub", "shm:nobody-here"], capture_output=True,
                            text=True, timeout=60)
    assert lonely.returncode == 1
    assert "nobody-here" in lonely.stderr and "shoal hub" in lonely.stderr


if __name__ == "__main__":
    sys.exit(pytest.main([str(pathlib.Path(__file__)), "-q", *sys.argv[1:]]))


def shares_of(value):
    plan = json.loads(value.explain(json=True))
    return {slot["name"]: round(slot["share"], 3) for slot in plan["slots"] if slot["share"]}


def test_given_shares_bind(three):
    rng = np.random.default_rng(5)
    a, b = random_array(rng, 1000, 400), random_array(rng, 400, 300)
    x, y = shoal.tensor(a), shoal.tensor(b)
    rows = x.place(axis=0, shares=[70, 30, 0])
    assert shares_of(rows @ y) == {"w1/cpu": 0.7, "w2/cpu": 0.3}
    near((rows @ y).numpy(), a, b)
    inner = x.place(axis=1, shares=[10, 40, 50])
    assert shares_of(inner @ y) == {"w1/cpu": 0.1, "w2/cpu": 0.4, "w3/cpu": 0.5}
    near((inner @ y).numpy(), a, b)
    assert shares_of(x.place(slots=[1]) @ y) == {"w2/cpu": 1}
    # Where every operand was placed, the result is: the next operation follows, too.
    both = rows + rows
    assert shares_of(both @ y)["w1/cpu"] == pytest.approx(0.7, abs=0.005)
    near((both @ y).numpy(), 2 * a, b)
    # Placed evenly by nobody but the hub, nothing is bound.
    assert shares_of(x @ y) != {"w1/cpu": 0.7, "w2/cpu": 0.3}
