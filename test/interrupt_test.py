"""Ctrl-C at any moment, and threads that share a session: the session lives, and values are right.

SHOAL_INTERRUPTIONS says how many moments (24), SHOAL_THREAD_SECONDS how long threads work (2).
"""
import contextlib
import os
import random
import signal
import subprocess
import threading
import time

import numpy as np
import pytest

import shoal
from cluster import SHOAL, Pool
from shoal import hosted

MOMENTS = int(os.environ.get("SHOAL_INTERRUPTIONS", "24"))
SECONDS = float(os.environ.get("SHOAL_THREAD_SECONDS", "2"))
SIZE = 700


def interrupted(dice, call):
    """Calls; an interruption comes at a random moment. Whether it came before the end."""
    def stop(*_):
        raise KeyboardInterrupt
    before = signal.signal(signal.SIGALRM, stop)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, dice.uniform(1e-4, 0.25))
            call()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)  # until here it may still come
        return False
    except KeyboardInterrupt:
        return True
    finally:
        signal.signal(signal.SIGALRM, before)


def test_interrupted_anywhere():
    dice = random.Random(0)
    a = np.random.default_rng(0).integers(-2, 3, (SIZE, SIZE)).astype("float32")
    x, other = shoal.tensor(a), shoal.tensor(a)
    want = a @ a

    @shoal.compile(replay=True)
    def step(y):
        return y @ x - y

    hits = 0
    for moment in range(MOMENTS):
        shift = float(moment)

        def work(kind=moment % 4, shift=shift):
            y = x @ x + shift
            if kind == 0:
                for _ in range(40):
                    y = y * 1.0
                    (y @ x).sum().numpy()
            elif kind == 1:
                for _ in range(90):  # more than may be on their way
                    y = step(other)
                shoal.sync()
            elif kind == 2:
                for _ in range(30):
                    shoal.explain(y @ shoal.tensor(a))
                    y = y + 1.0
            else:
                for _ in range(90):
                    shoal.tensor(a[:8]).sum().numpy()
                    step(y)

        hits += interrupted(dice, work)
        again = x @ x + shift
        np.testing.assert_array_equal(again.numpy(), want + shift)
        np.testing.assert_array_equal(step(other).numpy(), want - a)
        assert "dot_general" in str(shoal.explain(x @ shoal.tensor(a)))
    print(f"{MOMENTS} moments, {hits} of them before the end of what was called; all right after each")
    assert hits > MOMENTS / 4


def test_an_answer_comes_with_the_interruption():
    """Who is interrupted gets no answer, even if it comes before the wait has ended."""
    shoal.disconnect()
    pool = Pool(1)
    a = np.arange(64 * 64, dtype="float32").reshape(64, 64) % 7
    hub = pool.processes[0]

    def stop(*_):
        hub.send_signal(signal.SIGCONT)
        time.sleep(0.5)  # the answer comes to the thread that receives
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        x = shoal.tensor(a)
        np.testing.assert_array_equal((x @ x).numpy(), a @ a)
        for call in (shoal.explain, lambda y: y.numpy(), shoal.Tensor.item, lambda y: shoal.sync(),
                     lambda y: shoal.status()):
            y = (x @ x).sum()
            hub.send_signal(signal.SIGSTOP)
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                call(y)
            call(y)
            assert y.item() == (a @ a).sum()
    finally:
        signal.signal(signal.SIGALRM, before)
        pool.close()


def test_threads_share_a_session():
    a = np.arange(64 * 64, dtype="float32").reshape(64, 64) % 7
    x, other, wrong, rounds = shoal.tensor(a), shoal.tensor(a), [], [0] * 4
    end = time.monotonic() + SECONDS

    @shoal.compile(replay=True)
    def step(y):
        return y @ x

    def work(number):
        try:
            while time.monotonic() < end or not rounds[number]:
                shift = rounds[number] + 1000 * number
                y = x @ x + float(shift)
                if rounds[number] % 7 == number:
                    shoal.explain(y)
                if rounds[number] % 5 == number:
                    shoal.sync()
                if not np.array_equal(y.numpy(), a @ a + np.float32(shift)):
                    wrong.append((number, rounds[number]))
                if rounds[number] % 3 == 0 and not np.array_equal(step(other).numpy(), a @ a):
                    wrong.append((number, "step"))
                rounds[number] += 1
        except Exception as error:  # told to the main thread
            wrong.append((number, error))

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + 60)
        assert not thread.is_alive(), "threads wait for each other"
    print(f"4 threads, {SECONDS:g} s: {rounds} rounds")
    assert not wrong and min(rounds) > 0, (wrong[:3], rounds)


ENDLESS = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.while(%a = %x) : tensor<4xf32>
  cond {
    %true = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %true : tensor<i1>
  } do {
    stablehlo.return %a : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
"""


@pytest.mark.parametrize("backend", ["cpu", "ref"])
def test_a_program_without_end_ends_when_nobody_holds_what_it_makes(backend):
    with contextlib.closing(shoal.init(workers=2, backend=backend)):
        x = shoal.tensor([1., 2., 3., 4.])
        endless = shoal.stablehlo.load(ENDLESS)
        for _ in range(2):
            y = endless(x)
            assert interrupted(random.Random(0), y.numpy)
            y = None
            assert (x + x).tolist() == [2, 4, 6, 8]
        y = endless(x)  # neither does it keep a session, or a process, from ending


DEADLINE_MS = 30000
FULL = 64  # programs that may be on their way before the next waits


@pytest.fixture(params=["cpu", "ref"])
def session(request, monkeypatch):
    """Waits end by a deadline, with an error."""
    monkeypatch.setenv("SHOAL_BACKEND", request.param)
    yield shoal.connect("embedded", timeout_ms=DEADLINE_MS)
    shoal.disconnect()


@pytest.fixture
def endless():
    return shoal.stablehlo.load(ENDLESS)


@pytest.mark.parametrize("first", ["value", "made"])
def test_what_is_made_of_it_and_let_go_is_not_awaited(session, endless, first):
    x = session.tensor([1., 2., 3., 4.])
    held = {"value": (y := endless(x)), "made": y * 2}
    del y, held[first]
    held.clear()
    assert (x + x).tolist() == [2, 4, 6, 8]


def test_only_what_is_read_is_an_input(session, endless):
    """Of three values the second is read by nothing that is held; a program is the same with it and without."""
    x = session.tensor([1., 2., 3., 4.])
    a, b = x + 10, x * 100
    session.sync()
    fresh = []
    for others in (0, 1, 2, 1):
        ys = [endless(x) for _ in range(others)]
        first, others, last = a * 2, [y * 3 for y in ys], b * 4
        del ys, others
        assert (first + last).tolist() == [422, 824, 1226, 1628]
        fresh.append(session.counts().fresh)
    assert fresh == [fresh[0], fresh[0] + 1, fresh[0] + 1, fresh[0] + 1]  # of the one that has no end


def test_what_is_not_read_does_not_fail_others(session):
    def late(x):
        time.sleep(0.5)  # until then the others are on their way
        return 1 / 0

    late = hosted.register_op(f"late_{session.serial}", late)
    x = session.tensor([1., 2., 3., 4.])
    y = late(x)
    y.start()
    made = y * 2
    del made
    total = x + x
    total.start()
    with pytest.raises(shoal.ShoalError, match="division by zero"):
        y.numpy()
    assert total.tolist() == [2, 4, 6, 8]


@pytest.mark.parametrize("behind", [False, True])
def test_what_was_sent_with_it_is_not_awaited(session, endless, behind):
    """What is let go of went in one program with something that is held, which does not read it."""
    x = session.tensor([1., 2., 3., 4.])
    y = endless(x)
    y.start()
    made, total = y * 2, x + x
    total.start()
    if behind:
        made, total = made + total, total * 2
        total.start()
    del y, made
    assert total.tolist() == ([4, 8, 12, 16] if behind else [2, 4, 6, 8])
    session.sync()


def test_what_was_sent_with_a_failure_does_not_fail(session):
    def late(x):
        time.sleep(0.5)  # until then the others are on their way
        return 1 / 0

    late = hosted.register_op(f"late_with_{session.serial}", late)
    x = session.tensor([1., 2., 3., 4.])
    y = late(x)
    y.start()
    made, total = y * 2, x + x
    total.start()
    more, doubled = made + total, total * 2
    doubled.start()
    assert (total.tolist(), doubled.tolist()) == ([2, 4, 6, 8], [4, 8, 12, 16])
    for failed in (y, made, more):
        with pytest.raises(shoal.ShoalError, match="division by zero"):
            failed.numpy()


def test_what_is_not_read_goes(session):
    """An upload that is let go of before the hub has heard of it, or later."""
    def lie():
        status = session.status()
        return status.values, [slot.bytes for slot in status.slots]

    def calm(n):
        """Until the hub has heard of all that was let go of."""
        deadline = time.monotonic() + 60
        while (found := lie())[0] != n:
            assert time.monotonic() < deadline, found
            time.sleep(0.01)
        return found

    x = session.tensor([1., 2., 3., 4.])
    assert (x + x).tolist() == [2, 4, 6, 8]
    before = calm(1)
    for later in (False, True):
        large = session.tensor(np.ones(100000, "float32"))
        made = large * 2
        held = large if later else None
        del made, large
        assert (x * 3).tolist() == [3, 6, 9, 12]
        if held is not None:
            assert calm(2) != before
        del held
        assert calm(1) == before


def test_what_is_not_read_is_not_made_again():
    with contextlib.closing(Pool(2)) as pool:
        x = pool.session.tensor(np.arange(4, dtype="float32"))
        y = (x * 7).place(slots=["w2"])
        assert y.tolist() == [0, 7, 14, 21]
        z = (x + 1).place(slots=["w1"])
        pool.session.sync()
        pool.worker(1).kill()
        pool.await_losses(1)
        made = y * 2
        del y, made
        assert (z + z).tolist() == [2, 4, 6, 8]
        assert pool.session.status().reruns == 0


@pytest.mark.parametrize("way", ["before", "recorded", "upload", "meanwhile", "function", "donate", "sync"])
def test_who_waits_for_room_lets_go(session, endless, way):
    """So many programs are on their way that the next one waits; none of them ends but by being let go of."""
    x = session.tensor([1., 2., 3., 4.])
    double = shoal.compile(lambda x: x + x, replay=True)
    assert double(x).tolist() == double(x).tolist() == [2, 4, 6, 8]
    mine = x * 1
    session.sync()
    many = [endless(x) for _ in range(FULL)]
    total = x + x
    if way == "recorded":
        made = many[40] * 2
        del made
    other = session.tensor([1., 1., 1., 1.]) if way == "upload" else None
    later = threading.Timer(0.5, many.clear)
    if way in ("before", "recorded", "upload"):
        many.clear()
    else:
        later.start()
    if way == "upload":
        assert (total - other).tolist() == [1, 3, 5, 7]
    elif way == "function":
        assert double(x).tolist() == [2, 4, 6, 8]
    elif way == "donate":
        mine._donate()
        with pytest.raises(shoal.InvalidError, match="was donated"):
            mine.numpy()
    elif way == "sync":
        session.sync()
    assert total.tolist() == [2, 4, 6, 8]


def test_who_waits_is_helped_by_who_records(session, endless):
    """What one thread lets go of is told while another waits, also while something is recorded that was not sent."""
    x = session.tensor([1., 2., 3., 4.])
    y = endless(x)
    y.start()
    sent, read = session.counts().programs, []
    reader = threading.Thread(target=lambda: read.append((x + x).tolist()), daemon=True)
    reader.start()
    deadline = time.monotonic() + 60
    while session.counts().programs == sent:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    kept = x * 3
    del y
    reader.join(60)
    assert read == [[2, 4, 6, 8]]
    assert kept.tolist() == [3, 6, 9, 12]


@pytest.mark.parametrize("end", ["client", "interrupted", "worker"])
def test_a_program_without_end_holds_nobody_up(tmp_path, end):
    """Its client ends, or is told to; or the worker is, which goes at once."""
    model = tmp_path / "endless.mlir"
    model.write_text(ENDLESS)
    with contextlib.closing(Pool(1)) as pool:
        client = subprocess.Popen([SHOAL, "run", str(model), "--fill", "ones", "--hub", pool.address],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while not pool.session.status().instances:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        if end == "worker":
            pool.processes[1].terminate()
            assert pool.processes[1].wait(30) == 0
            client.kill()
        else:
            client.send_signal(signal.SIGKILL if end == "client" else signal.SIGINT)
            assert client.wait(30) == -(signal.SIGKILL if end == "client" else signal.SIGINT)
            assert (pool.session.tensor([1., 2.]) * 2).tolist() == [2, 4]
        client.communicate()
