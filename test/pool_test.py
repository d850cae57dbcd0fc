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

import numpy as np
import pytest

import shoal
from cluster import SHOAL, Pool, near, random_array

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


def expect_lost(call, within=3.0):
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
        assert worker.wait(5) == 1
        assert "hub" in three.log(worker)
    three.processes = []


def test_port_in_use(three):
    second = subprocess.run([SHOAL, "hub", "--address", three.address], capture_output=True,
                            text=True, timeout=10)
    assert second.returncode == 1
    assert three.address.split(":")[1] in second.stderr and "another address" in second.stderr


def test_no_hub():
    lonely = subprocess.run([SHOAL, "worker", "--hub", "shm:nobody-here"], capture_output=True,
                            text=True, timeout=10)
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
