"""`repeat` of compiled functions: rounds on the workers, compared with the same rounds in NumPy.

SHOAL_LOOP_POOL: workers of a pool of processes to use instead of one inside (with SHOAL_TRANSPORT).
"""
import os
import select
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
import safetensors.numpy

import shoal
from cluster import Pool

WIDE = 24


@pytest.fixture(scope="module", autouse=True)
def pool():
    workers = int(os.environ.get("SHOAL_LOOP_POOL", "0"))
    made = Pool(workers) if workers else None
    yield made
    if made:
        made.close()


def weights(rng, n=3):
    return [rng.standard_normal((WIDE, WIDE), dtype="f4") / np.float32(WIDE) ** 0.5 for _ in range(n)]


def layers(x, ws):
    for w in ws:
        x = shoal.tanh(x @ w)
    return x


def layers_by_numpy(x, ws):
    for w in ws:
        x = np.tanh(x @ w)
    return x


def placed(ws, how):
    """Weights copied, cut by columns, or cut unevenly by rows."""
    n = sum(slot.compute for slot in shoal.status().slots)
    if how == "whole" or n < 2:
        return [shoal.tensor(w) for w in ws]
    shares = [10 + 30 * i for i in range(n)] if how == "uneven" else None
    return [shoal.tensor(w).place(axis=1 if how == "columns" else 0, shares=shares) for w in ws]


@pytest.mark.parametrize("how", ["whole", "columns", "uneven"])
def test_decoding(how):
    """A cache that is updated, a token that is carried and brought, a limit that stops."""
    rng = np.random.default_rng(1)
    arrays = weights(rng)
    ws = placed(arrays, how)

    @shoal.compile(replay=True, donate=1)
    def step(x, cache, at, limit):
        cache = cache.dynamic_update_slice(x, (at, 0))
        y = layers(x + cache.mean(0), ws)
        return y, cache, at + 1, at + 1 >= limit, y.abs().max()

    def by_numpy(x, cache, at):
        cache = cache.copy()
        cache[at] = x
        y = layers_by_numpy(x + cache.mean(0), arrays)
        return y, cache, at + 1, np.abs(y).max()

    first = rng.standard_normal((1, WIDE), dtype="f4")
    for n, limit in ((0, 9), (1, 9), (2, 9), (3, 9), (40, 9), (40, 1), (40, 2), (40, 3), (9, 9), (60, 100)):
        loop = step.repeat(n, first, np.zeros((64, WIDE), "f4"), np.int64(0), np.int64(limit),
                           carry={0: 0, 1: 1, 2: 2}, until=3, stream=[0, 4])
        x, cache, at = first, np.zeros((64, WIDE), "f4"), 0
        rounds = 0
        for y, top in loop:
            x, cache, at, most = by_numpy(x, cache, at)
            assert np.allclose(y, x, atol=1e-5) and np.allclose(top, most, atol=1e-5)
            rounds += 1
        assert rounds == loop.rounds == min(n, limit)
        if n:
            result = loop.result
            assert np.allclose(result[1].numpy(), cache, atol=1e-5) and result[2].item() == at
            assert bool(result[3]) == (at >= limit)
        else:
            assert loop.result is None and np.array_equal(loop.arguments[0].numpy(), first)
    assert step.programs == 1


def test_state_that_changes_in_place():
    rng = np.random.default_rng(2)
    state = shoal.tensor(rng.standard_normal((5, 7), dtype="f4"))
    want, rows = state.numpy(), rng.standard_normal((50, 7), dtype="f4")

    @shoal.compile(replay=True)
    def step(row):
        with shoal.no_grad():
            state.mul_(0.5)
            state.add_(row)
        return state.sum()

    got = list(step.repeat(50, rows, feed=[0], stream=0))
    assert len(got) == 50 and step.programs == 1
    for row, total in zip(rows, got):
        want = want * np.float32(0.5) + row
        assert np.allclose(total, want.sum(), atol=1e-3)
    assert np.allclose(state.numpy(), want, atol=1e-5)
    loop = step.repeat(20, rows, feed=[0])
    for row in rows[:20]:
        want = want * np.float32(0.5) + row
    assert loop.result is not None and np.allclose(state.numpy(), want, atol=1e-5)


def test_nested_results_and_bfloat16():
    @shoal.compile(replay=True)
    def step(pair):
        a, b = pair["a"] + 1, pair["b"] * 2
        return {"a": a, "b": b}, a.astype("bfloat16"), "text"

    one = shoal.ones((3,))
    loop = step.repeat(7, {"a": one, "b": one * 1}, carry={0: 0}, stream=(1, 0, 2))
    for i, (half, both, text) in enumerate(loop, 1):
        assert half.tolist() == [i + 1] * 3 and both["a"].tolist() == [i + 1] * 3
        assert both["b"].tolist() == [2 ** i] * 3 and text == "text"
    assert loop.arguments[0]["b"].numpy().tolist() == [128] * 3


def test_files(tmp_path):
    """Weights, what is fed and what is carried at first may be tensors of a file."""
    rng = np.random.default_rng(8)
    given = {"w": weights(rng, 1)[0], "rows": rng.standard_normal((9, WIDE), dtype="f4"),
             "first": rng.standard_normal(WIDE, dtype="f4")}
    safetensors.numpy.save_file(given, tmp_path / "all.safetensors")
    have = shoal.load(tmp_path / "all.safetensors")
    step = shoal.compile(lambda x, row: shoal.tanh(x @ have["w"] + row), replay=True)
    for times in (1, 2):  # recorded by then
        loop = step.repeat(9, have["first"], have["rows"], carry={0: 0}, feed=1, stream=0)
        x = given["first"]
        for row, got in zip(given["rows"], loop, strict=True):
            x = np.tanh(x @ given["w"] + row)
            np.testing.assert_allclose(got, x, rtol=2e-5, atol=2e-6, err_msg=f"time {times}")


def test_tensors_of_a_file_that_are_arguments(tmp_path):
    """They may be carried and fed, before and after the function has been recorded, and be arguments of calls."""
    rows = np.random.default_rng(9).integers(-9, 9, (9, 4)).astype("f4")
    safetensors.numpy.save_file({"first": rows[3], "rows": rows}, tmp_path / "all.safetensors")
    file = shoal.File(tmp_path / "all.safetensors")
    step = shoal.compile(lambda x, row: (x + row, (x - row).sum()), replay=True, donate=0)
    for first in (file["first"], shoal.tensor(rows[3]) * 1, file["first"]):
        x = rows[3]
        loop = step.repeat(9, first, file["rows"], carry={0: 0}, feed=1, stream=1)
        for row, got in zip(rows, loop, strict=True):
            assert got == (x - row).sum()
            x = x + row
        assert np.array_equal(loop.result[0].numpy(), x) and loop.rounds == 9
    assert np.array_equal(file["first"].numpy(), rows[3])
    plain = shoal.compile(lambda x: x * 2, replay=True)
    for _ in range(3):
        assert np.array_equal(plain(shoal.tensor(rows)).numpy(), rows * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that the function is called
        for _ in range(3):
            assert np.array_equal(plain(file["rows"]).numpy(), rows * 2)
    assert np.array_equal(plain(shoal.tensor(rows)).numpy(), rows * 2) and plain.programs == 1


def test_all_is_alike_before_and_after_recording():
    """What the first rounds, which are calls, bring and are given."""
    donates = shoal.compile(lambda x: (x + 1, x.sum()), replay=True, donate=0)
    table = shoal.tensor(np.arange(30, dtype="f4").reshape(10, 3))
    twice = shoal.compile(lambda row, whole: row * 2 + whole.sum(), replay=True)
    stops = shoal.compile(lambda x: (x + 1, x[0] >= 3), replay=True)
    silent = shoal.compile(lambda x: (x + 1,), replay=True)
    for _ in range(3):
        brought = donates.repeat(4, shoal.zeros(2), carry={0: 0}, stream=0)
        assert [one.tolist() for one in brought] == [[n, n] for n in (1, 2, 3, 4)]
        brought = twice.repeat(4, table, table, feed=0)
        assert [one.tolist() for one, in brought] == (table.numpy()[:4] * 2 + 435).tolist()
        loop = stops.repeat(10, shoal.zeros(2), carry={0: 0}, until=1)
        assert list(loop) == [()] * 4 and loop.rounds == 4
        assert list(silent.repeat(5, shoal.zeros(2), carry={0: 0})) == []  # there is nothing to wait for


def test_what_does_not_fit():
    @shoal.compile(replay=True)
    def step(x, y):
        return x @ y, x.sum() > 0, x.sum()

    x, y = np.ones((2, 3), "f4"), np.ones((3, 4), "f4")
    for message, options in (
            ("result 0 .* cannot be argument 0", {"carry": {0: 0}}),
            ("argument 5 is carried or fed", {"carry": {0: 5}}),
            ("result 7 is carried", {"carry": {7: 0}}),
            ("result 2 cannot say whether", {"until": 2}),
            ("fed from .* 9 rounds need", {"feed": [1]}),
            ("'a' is carried, fed, streamed", {"feed": "a"}),
            ("'a' is carried, fed, streamed", {"until": "a"}),
            ("'0' is carried, fed, streamed", {"carry": {"0": 0}}),
            ("carried again or fed", {"carry": {0: 0}, "feed": [0]})):
        with pytest.raises(shoal.InvalidError, match=message):
            step.repeat(9, x, y, **options)
    for n in (-1, 2.0, 2 ** 40, 2 ** 70):
        with pytest.raises(shoal.InvalidError, match="rounds; a number"):
            step.repeat(n, x, y)
    for rows in ([1.0, 2.0, 3.0], 1.0):  # each round would have had all of them
        with pytest.raises(shoal.InvalidError, match="argument 1 is fed, and holds no tensor"):
            step.repeat(3, x, rows, feed=1)


def test_what_cannot_be_recorded_is_called():
    seen = []

    @shoal.compile(replay=True)
    def step(x):
        seen.append(x.sum().item())
        return x + 1, x * 2

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = [double.tolist() for double in step.repeat(6, np.zeros(2, "f4"), carry={0: 0}, stream=1)]
    assert "is not replayed" in str(caught[0].message)
    assert got == [[2 * i] * 2 for i in range(6)] and seen == [2 * i for i in range(6)]


def counting(n):
    w = shoal.tensor(np.eye(n, dtype="f4"))

    @shoal.compile(replay=True)
    def step(x):
        x = x @ w + 1
        return x, x[0, 0]

    for i, value in enumerate(step.repeat(5, np.zeros((n, n), "f4"), carry={0: 0}, stream=1)):
        assert value == i + 1
    return step


def test_leaving_early_cancels():
    step, zeros = counting(100), shoal.zeros((100, 100))
    loop = step.repeat(10 ** 8, zeros, carry={0: 0}, stream=1)
    for i, value in enumerate(loop):
        assert value == i + 1
        if i == 20:
            break
    began = time.monotonic()
    assert (zeros + 1).sum().item() == 10000  # behind the loop, which ends
    assert time.monotonic() - began < 20
    with pytest.raises(shoal.ShoalError, match="was cancelled"):
        loop.result[0].numpy()


def test_a_loop_that_brings_nothing_is_cancelled():
    """It goes on after `result` has returned, with tensors that have no value yet, and can still be ended."""
    step, zeros = counting(100), shoal.zeros((100, 100))
    loop = step.repeat(10 ** 9, zeros, carry={0: 0}, stream=[])
    last = loop.result
    time.sleep(0.1)
    loop.cancel()
    began = time.monotonic()
    assert (zeros + 1).sum().item() == 10000
    assert time.monotonic() - began < 20
    with pytest.raises(shoal.ShoalError, match="was cancelled"):
        last[0].numpy()
    assert not list(loop)
    loop = step.repeat(7, zeros, carry={0: 0}, stream=[])
    assert not list(loop) and loop.result[1].item() == 7
    loop.cancel()  # it is over
    assert loop.result[0][0, 0].item() == 7


def calm():
    """What tests before have failed is not told again."""
    try:
        shoal.sync()
    except shoal.ShoalError:
        pass


def soon(zeros, seconds=20):
    """What is behind a loop on its slots is not held up by it, and nobody is told of its end."""
    began = time.monotonic()
    assert (zeros + 1).sum().item() == zeros.numel()
    shoal.sync()
    assert time.monotonic() - began < seconds


@pytest.mark.parametrize("stream", [1, [], [0, 1]])
def test_a_loop_that_nobody_holds_ends(stream):
    calm()
    step, zeros = counting(100), shoal.zeros((100, 100))
    loop = step.repeat(10 ** 9, zeros, carry={0: 0}, stream=stream)
    time.sleep(0.2)
    del loop
    soon(zeros)
    # Neither does what nobody reads, of a stream that is full, nor what was made of a result.
    loop = step.repeat(10 ** 9, zeros, carry={0: 0}, stream=[])
    made = loop.result[0] * 2 + 1
    behind = shoal.sqrt(made)
    behind.start()
    del loop, made, behind
    soon(zeros)
    # Nor what was only recorded of one.
    loop = step.repeat(10 ** 9, zeros, carry={0: 0}, stream=[])
    made = loop.result[0] * 2 + 1
    del loop, made
    soon(zeros)


def test_a_chain_of_loops_that_nobody_holds_ends():
    calm()
    step, zeros = counting(64), shoal.zeros((64, 64))
    x = zeros
    for _ in range(5):
        x = step.repeat(10 ** 9, x, carry={0: 0}, stream=[]).result[0]
    time.sleep(0.1)
    del x
    soon(zeros)


def test_what_is_held_of_a_loop_keeps_it():
    step, zeros = counting(32), shoal.zeros((32, 32))
    for keep in ("result", "made", "both", "next"):
        loop = step.repeat(1000, zeros, carry={0: 0}, stream=1)
        result = loop._result[0]  # while nothing of the stream is read
        del loop
        if keep == "made":
            result = result * 2
            shoal.sync()
        if keep == "both":
            other = result + 1
            other.start()
            del other
        if keep == "next":
            result = step.repeat(1000, result, carry={0: 0}, stream=[]).result[0]
        assert result[0, 0].item() == (1000 if keep in ("result", "both") else 2000)


def test_state_keeps_a_loop():
    """What a loop changes in place is held by who has the state."""
    state = shoal.zeros((16, 16))

    @shoal.compile(replay=True)
    def step():
        with shoal.no_grad():
            state.add_(1)
        return state.sum()

    for value in step.repeat(2, stream=0):
        assert value
    began = time.monotonic()
    step.repeat(2000, stream=[])
    (state * 1).start()
    assert state[0, 0].item() == 2002
    assert time.monotonic() - began < 60  # a device with a queue is not looked at twice a second


LOOPING = """if True:
    import sys, time, numpy as np, shoal
    shoal.connect(sys.argv[1])
    @shoal.compile(replay=True)
    def step(x):
        x = x @ x * 0 + x + 1
        return x, x[0, 0]
    slots = sys.argv[2].split(",")
    x = shoal.tensor(np.zeros((64, 64), "f4")).place(axis=0, slots=[int(n) for n in slots])
    for i, value in enumerate(step.repeat(10 ** 9, x, carry={0: 0}, stream=1)):
        assert value == i + 1
        print(i, flush=True)
    """


def rounds(process):
    """The last that it has printed since this was asked last; None: nothing."""
    data, pipe = b"", process.stdout.fileno()
    while select.select([pipe], [], [], 0)[0] and (more := os.read(pipe, 1 << 16)):
        data += more
    lines = data.split(b"\n")[1:-1]  # whole ones
    return int(lines[-1]) if lines else None


@pytest.mark.parametrize("slots", [1, 2])
def test_others_have_a_turn_between_rounds(slots):
    """Reads, programs on one slot and on both, and loops of another session go on beside a loop, which goes on as well."""
    made = Pool(slots)
    mine = made.session.compute_slots()
    kept = shoal.tensor(np.arange(12, dtype="f4").reshape(4, 3)).place(axis=0, slots=mine)
    shoal.sync()
    other = subprocess.Popen([sys.executable, "-c", LOOPING, made.address, ",".join(map(str, mine))],
                             stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "0\n"
        began = time.monotonic()
        assert kept.tolist() == np.arange(12).reshape(4, 3).tolist()
        for n in range(20):
            on = [mine[n % slots]]
            x = shoal.tensor(np.full((5, 7), n, "f4")).place(slots=on)
            assert (x * 2 + 1).place(slots=on).sum().item() == 35 * (2 * n + 1)
        step = counting(6)
        ones = shoal.tensor(np.ones((6, 6), "f4")).place(slots=mine[:1])
        rounds(other)
        got = list(step.repeat(300, ones, carry={0: 0}, stream=1))
        assert [float(value) for value in got] == [i + 2 for i in range(300)]
        assert time.monotonic() - began < 60
        deadline = time.monotonic() + 60
        while rounds(other) is None:  # it goes on
            assert time.monotonic() < deadline and other.poll() is None
            time.sleep(0.02)
    finally:
        other.kill()
        other.wait()
        made.close()


def test_others_do_not_wait_for_a_loop_that_nobody_holds():
    """Though its client calls nothing any more."""
    code = """if True:
        import sys, time, numpy as np, shoal
        shoal.connect(sys.argv[1])
        @shoal.compile(replay=True)
        def step(x):
            x = x @ x * 0 + x + 1
            return x, x[0, 0]
        loop = step.repeat(10 ** 9, np.zeros((64, 64), "f4"), carry={0: 0}, stream=1)
        print("begun", flush=True)
        sys.stdin.readline()
        del loop
        print("dropped", flush=True)
        sys.stdin.readline()
        """
    made = Pool(1)
    other = subprocess.Popen([sys.executable, "-c", code, made.address], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True)
    try:
        assert other.stdout.readline() == "begun\n"
        other.stdin.write("\n")
        other.stdin.flush()
        assert other.stdout.readline() == "dropped\n"
        began = time.monotonic()
        assert (shoal.ones((4,)) + 1).sum().item() == 8
        assert time.monotonic() - began < 30
    finally:
        other.kill()
        other.wait()
        made.close()


def test_interrupt():
    step, zeros = counting(100), shoal.zeros((100, 100))
    rounds = 0
    with pytest.raises(KeyboardInterrupt):
        for value in step.repeat(10 ** 8, zeros, carry={0: 0}, stream=1):
            rounds += 1
            assert value == rounds
            if rounds == 1:
                threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    assert rounds and (zeros + 2).sum().item() == 20000


def test_a_slow_reader():
    """The workers wait for it, and it misses nothing."""
    step = counting(8)
    small = shoal.zeros((8, 8))
    loop = step.repeat(6000, small, carry={0: 0}, stream=1)
    got = []
    for value in loop:
        got.append(float(value))
        if len(got) == 3:
            time.sleep(1)
    assert got == [i + 1 for i in range(6000)]


@pytest.mark.parametrize("donate", [(), 0])
def test_a_round_fails(donate):
    """Those before it bring what they make, all of them, also the first, which are calls; then it is said why."""
    calm()
    table = placed([np.arange(40, dtype="f4").reshape(10, 4)], "columns")[0]
    step = None

    def add(x, at):
        x = x + table[at.sum()]
        return x, x.sum()

    for attempt in range(60):
        bad = attempt % 20
        if attempt < 4:  # yet to be recorded
            step = shoal.compile(add, replay=True, donate=donate)
        ats = np.full((40, 3), 1, "i8")
        ats[bad] = 100
        got = []
        with pytest.raises(IndexError, match="index 300 is out of range"):
            for value in step.repeat(40, shoal.zeros(4), ats, carry={0: 0}, feed=1, stream=1):
                got.append(float(value))
        assert got[:bad] == [54.0 * (n + 1) for n in range(bad)] and len(got) >= bad
        calm()
        assert (table * 1)[1].sum().item() == 22  # and nothing waits


def test_memory():
    """A loop needs what a round does and what is carried to it, which is in the place of an operand that it is given."""
    made = Pool(0)
    try:
        made.processes.append(made.start("worker", "--once", "--hub", made.address, "--name", "small", "--threads", "1",
                                         "--memory", "10M"))
        made.await_workers(1)
        for tenths, donate in ((24, ()), (32, 0)):
            step = shoal.compile(lambda x: (x * 0.5 + 1,), replay=True, donate=donate)
            x = shoal.zeros(tenths * 25_000) + 4
            loop = step.repeat(30, x, carry={0: 0}, stream=[])
            if donate == 0:
                del x
            assert loop.result[0][7].item() == pytest.approx(2, abs=1e-6)
            x = loop = None
    finally:
        made.close()
