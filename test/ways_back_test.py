"""How values can be made again in pools where that is long, or of what is let go of meanwhile. The truth is NumPy's."""
import signal
import time

import numpy as np

import shoal
from cluster import Pool


def owners(pool):
    return {s.slot: s.worker for s in pool.session.status().slots}


def process_of(pool, worker):
    return next(p for p in pool.processes[1:] if worker in p.args)


def test_a_long_loop_of_many_small_results():
    """Records of how small tensors were made count on the user's share of the hub: they are forgotten before that is full."""
    pool = Pool(2)
    tensors = [shoal.tensor(np.full(4, i, "f4")) for i in range(300)]
    step = shoal.compile(lambda *xs: tuple(x * 0.5 + 1 for x in xs), replay=True, donate=tuple(range(300)))
    for _ in range(800):
        tensors = list(step(*tensors))
    for x in tensors:
        np.testing.assert_allclose(x.numpy(), 2, rtol=1e-6)
    pool.close()


def test_what_is_held_can_be_made_again_after_its_neighbour_was_let_go_of():
    pool = Pool(2)
    first, second = pool.session.compute_slots()
    x, w = shoal.tensor(np.ones((64, 64), "f4")), shoal.tensor(np.eye(64, dtype="f4"))
    step = shoal.compile(lambda x: (shoal.remainder(x @ w + 1, 97), x.sum()), replay=True)
    for _ in step.repeat(5, x, carry={0: 0}, stream=1):  # it is planned: what the loop takes is known
        pass
    rounds = 12000
    v = step.repeat(rounds, x, carry={0: 0}, stream=[]).result[0]
    a, b = (v * 2).place(slots=[first]), (v * 3).place(slots=[second])
    a.start(), b.start(), shoal.sync()
    del v
    pool.add("w3")
    pool.await_workers(3)
    owner = owners(pool)
    process_of(pool, owner[first]).kill()
    pool.await_losses(1)
    c = a + 1
    c.start()  # the loop is made again for it
    time.sleep(0.2)
    del c, a
    time.sleep(0.3)
    shoal.status()
    process_of(pool, owner[second]).kill()
    pool.await_losses(2)
    np.testing.assert_array_equal(b.numpy(), np.full((64, 64), (1 + rounds) % 97 * 3, "f4"))
    pool.close()


def test_who_reads_what_a_dead_worker_did_not_send_is_run_again():
    """Also where the dead has no part in it, and the hub hears of the end only later."""
    pool = Pool(2)
    first, second = pool.session.compute_slots()
    n = 1500
    a = np.random.default_rng(0).integers(-2, 3, (n, n)).astype("f4")
    x = shoal.tensor(a).place(slots=[second])
    x.start(), shoal.sync()
    for slot in (first, second):  # the links between the two are there
        (x + 1).place(slots=[slot]).start(), shoal.sync()
    owner = owners(pool)
    moved = (x @ x).place(slots=[second]).place(slots=[first])
    moved.start()
    z = moved * 2
    z.start()
    u = z + 1
    u.start()
    time.sleep(0.02)
    hub, worker = pool.processes[0], process_of(pool, owner[second])
    hub.send_signal(signal.SIGSTOP)
    worker.kill()
    worker.wait()
    time.sleep(0.6)
    hub.send_signal(signal.SIGCONT)
    begin = time.monotonic()
    for value, truth in ((z, a @ a * 2), (u, a @ a * 2 + 1), (moved, a @ a)):
        np.testing.assert_array_equal(value.numpy(), truth)
    assert time.monotonic() - begin < 60  # it took 200 s, and then failed
    pool.close()


def test_a_way_back_of_more_programs_than_a_client_may_have_waiting():
    """What the hub makes again is not the client's flood: it goes on submitting meanwhile."""
    pool = Pool(3)
    w = shoal.tensor(np.eye(64, dtype="f4")) * 1
    x = shoal.tensor(np.ones((300, 64), "f4")).place(axis=0) * 1
    step = shoal.compile(lambda x, w: x @ w, replay=True)
    for _ in range(1500):
        x = step(x, w)
    shoal.sync()
    pool.worker(1).kill()
    pool.await_losses(1)
    for _ in range(6):
        x = step(x, w)
    np.testing.assert_array_equal(x.numpy(), np.ones((300, 64), "f4"))
    assert shoal.status().reruns > 1000
    pool.close()
