"""What donated operands save: the memory of workers, as the system tells it."""
import contextlib
import pathlib

import numpy as np
import pytest

import shoal
from cluster import Pool


def most_of(pid):
    """MiB that a process has held at most."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


@pytest.mark.parametrize("how, buffers", [("donated", 1), ("given", 2), ("eager", 1), ("kept", 2)])
def test_buffers_of_a_chain(how, buffers):
    """What a worker has held at most over x = x * a + b, fifty times on 32 MiB, a program each: one buffer where
    nobody needs the old x (it is donated, or was let go of), and two where it is still had, or the first one is."""
    def step(x):
        return x * a + b

    own = Pool(1)
    try:
        replayed = shoal.compile(step, replay=True, donate=0 if how == "donated" else ())
        update = replayed if how in ("donated", "given") else step
        a, b = shoal.tensor(np.float32(0.5)), shoal.tensor(np.float32(1))
        small = shoal.zeros((64, 64))
        for _ in range(4):  # what a worker needs in any case
            small = update(small)
            shoal.sync()
        before = most_of(own.worker(0).pid)
        x = shoal.zeros((2048, 4096))
        shoal.sync()
        first = x if how == "kept" else None
        for _ in range(50):
            x = update(x)
            shoal.sync()
        assert first is None or first[0, 0].item() == 0
        assert x[0, 0].item() == 2
        assert abs((most_of(own.worker(0).pid) - before) / 32 - buffers) < 0.3
    finally:
        own.close()


def test_buffers_beside_a_check():
    """Values that are made anew from themselves and from rows at indices, which are checked and come with each program, as the
    state of an optimizer is from the gradient of an embedding: all of them are donated."""
    own = Pool(1)
    try:
        a = shoal.tensor(np.float32(0.5))
        table = shoal.ones((8, 2))

        def step(index, x, y):
            row = shoal.nn.functional.embedding(index, table).mean()
            return x * a + row, y * a + row
        update = shoal.compile(step, replay=True, donate=(1, 2))

        def indices(turn):
            return shoal.tensor(np.arange(turn, turn + 3000) % 8)
        small = shoal.zeros((64, 64)), shoal.zeros((64, 64))
        for turn in range(4):  # what a worker needs in any case
            small = update(indices(turn), *small)
            shoal.sync()
        before = most_of(own.worker(0).pid)
        x, y = shoal.zeros((2048, 4096)), shoal.zeros((2048, 4096))
        shoal.sync()
        for turn in range(50):
            x, y = update(indices(turn), x, y)
            shoal.sync()
        assert x[0, 0].item() == y[0, 0].item() == 2
        # A call that is not recorded yet has one more. Four: neither was donated.
        assert (most_of(own.worker(0).pid) - before) / 32 < 3.3
    finally:
        own.close()


@pytest.mark.parametrize("donate, buffers", [(0, 2), ((), 3)])
def test_buffers_of_a_loop(donate, buffers):
    """The same rounds as one loop: it begins in the memory of what it begins with, if that is donated. The calls before the
    program is recorded have one buffer more, as long as nothing has let go of what they began with."""
    own = Pool(1)
    try:
        a, b = shoal.tensor(np.float32(0.5)), shoal.tensor(np.float32(1))
        update = shoal.compile(lambda x: x * a + b, replay=True, donate=donate)

        def run(x):
            return update.repeat(50, x, carry={0: 0}, stream=[]).result
        for _ in range(3):  # what a worker needs in any case
            assert run(shoal.zeros((64, 64)))[0, 0].item() == 2
        shape, before = (2048, 4096), most_of(own.worker(0).pid)
        for _ in range(2):  # calls, until it is recorded
            assert update(shoal.zeros(shape) if donate == 0 else shoal.zeros(shape) * 1)[0, 0].item() == 1
        x = shoal.zeros(shape)
        shoal.sync()
        assert run(x)[0, 0].item() == 2
        with contextlib.nullcontext() if donate == () else pytest.raises(shoal.ShoalError, match="was donated"):
            assert x[0, 0].item() == 0
        used = (most_of(own.worker(0).pid) - before) / 32
        assert buffers - 1.3 < used < buffers + 0.3
    finally:
        own.close()


def test_a_donated_argument_that_is_returned_as_it_is():
    x, y = shoal.ones(2) * 1, shoal.ones(2) * 2
    step = shoal.compile(lambda x, y: (x, x + y), replay=True, donate=(0, 1))
    for _ in range(5):
        given = y
        x, y = step(x, y)
    assert x.tolist() == [1, 1] and y.tolist() == [7, 7] and step.programs == 1
    with pytest.raises(shoal.InvalidError, match="donated"):
        given.tolist()
    swap = shoal.compile(lambda x, y: (y, x + y), replay=True, donate=(0, 1))
    x, y = shoal.ones(2) * 1, shoal.ones(2) * 2
    for _ in range(9):
        x, y = swap(x, y)
    assert x.tolist() == [89, 89] and y.tolist() == [144, 144]
