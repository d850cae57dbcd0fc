"""A check that fails while a program runs (an index out of range that is computed there) takes with it what
derives from it, and nothing else: embedded, with one worker and with two."""
import inspect
import os

import numpy as np
import pytest

import shoal
from cluster import Pool


@pytest.fixture(params=["embedded", 1, 2])
def pool(request):
    if request.param == "embedded":
        shoal.connect("embedded")
        yield None
        shoal.disconnect()
        return
    own = Pool(request.param)
    yield own
    own.close()


def here():
    """The line of the caller."""
    return inspect.currentframe().f_back.f_lineno


def table():
    return shoal.tensor(np.arange(8, dtype="f4").reshape(4, 2))


def number(n, size=3):
    """An index that is not known before the program runs."""
    return shoal.ones(size, dtype=shoal.int64) * n


def fails(tensor, index, line=None):
    with pytest.raises(IndexError) as caught:
        tensor.numpy()
    text = str(caught.value)
    assert f"index {index} is out of range: it must be from -4 to 3" in text, text
    assert text.count("failed_check_test.py:") == 1 and (line is None or f"_test.py:{line}:" in text), text


def sync_fails(index):
    """Once, with the first failure."""
    with pytest.raises(IndexError, match=f"index {index} is out of range"):
        shoal.sync()
    shoal.sync()


@pytest.mark.parametrize("order", ["bad", "good", "sync"])
def test_one_of_each(pool, order):
    good = shoal.ones(3, 2) * 2
    bad, line = table()[number(9)], here()
    also = (good + 1).sum()
    if order == "sync":
        sync_fails(9)
    for what in ([bad, good] if order == "bad" else [good, bad]):
        if what is bad:
            fails(bad, 9, line)
        else:
            assert np.array_equal(good.numpy(), np.full((3, 2), 2, "f4"))
    fails(bad, 9, line)
    assert also.item() == 18
    if order != "sync":
        sync_fails(9)
    assert good.sum().item() == 12 and (table()[number(3)] * 1).numpy().tolist() == [[6, 7]] * 3


def test_shared_parts(pool):
    """What both are computed from is no part of the failure, nor is what uses only the index before its check."""
    w = table()
    index = number(5)
    shared = w.sum() + index.sum()
    bad = w[index] * shared
    good = shared * 2
    fails(bad, 5)
    assert good.item() == 2 * (28 + 15) and shared.item() == 28 + 15 and index.numpy().tolist() == [5, 5, 5]


def test_later_programs(pool):
    """They are on their way when it fails: one reads both, one the good alone, one what failed."""
    good = shoal.ones(3, 2) * 2
    bad, line = table()[number(7)], here()
    good.start()
    for _ in range(20):
        mixed, fine = bad + good, good + 1
        after = fine * 2
        good, bad = fine, mixed
        shoal.ones(2).sum().item()  # ends a program
    fails(mixed, 7, line)
    assert np.array_equal(after.numpy(), np.full((3, 2), 44, "f4"))
    assert np.array_equal(good.numpy(), np.full((3, 2), 22, "f4"))
    fails(bad, 7, line)
    fails(bad.sum(), 7, line)
    sync_fails(7)


def test_two_checks(pool):
    """Each fails what derives from it with its own line; what derives from both, with one of them."""
    w = table()
    one, first = w[number(4)], here()
    good = w * 3
    two, second = w[number(-5)], here()
    both = one + two
    tail = good.sum()
    fails(one, 4, first)
    fails(two, -5, second)
    with pytest.raises(IndexError):
        both.numpy()
    assert tail.item() == 84 and np.array_equal(good.numpy(), np.arange(0, 24, 3, "f4").reshape(4, 2))
    one, two = w[number(6)] * 2, w[number(8)] * 2
    joined = (one * 2, two * 2, w + 1)
    fails(joined[1], 8)
    fails(joined[0], 6)
    assert joined[2].sum().item() == 36


def test_the_same_line(pool):
    """Only one of those that the line made has failed."""
    w = table()
    picked = [w[number(i)] for i in (1, 9, 2)]
    fails(picked[1], 9)
    assert picked[0].numpy().tolist() == [[2, 3]] * 3 and picked[2].numpy().tolist() == [[4, 5]] * 3


def test_many(pool):
    w = table()
    picked = [w[number(i % 5, 2)] + i for i in range(23)]
    sums = [p.sum() for p in picked]
    for i in reversed(range(23)):
        if i % 5 == 4:
            fails(sums[i], 4)
            fails(picked[i], 4)
        else:
            assert sums[i].item() == 2 * (4 * (i % 5) + 1) + 4 * i
    sync_fails(4)


def test_too_many(pool):
    """After 64 failures of one program nothing is made any more that derives from a check."""
    w = table()
    good, fine = w * 2, w[number(1)]
    picked = [w[number(i + 10, 2)] for i in range(90)]
    fails(picked[0], 10)
    for i in (1, 63, 64, 70, 89):
        with pytest.raises(IndexError) as caught:
            picked[i].numpy()
        text = str(caught.value)
        assert f": index {min(i, 64) + 10} is out of range" in text, text
        assert ("more than 64 checks of one program have failed" in text) == (i >= 64), text
    with pytest.raises(IndexError, match="more than 64 checks .* failed_check_test.py:"):
        fine.numpy()
    assert good.numpy().tolist() == (np.arange(8).reshape(4, 2) * 2).tolist()
    sync_fails(10)


def test_divided(pool):
    """Over rows that several workers have, of which one fails."""
    rows = shoal.tensor(np.arange(4000, dtype="i8").reshape(1000, 4)).place(axis=0)
    index = rows[:, 0] // 4 // 250  # from 0 to 3
    index = shoal.where(rows[:, 0] == 3996, index + 1, index)
    bad = table()[index]
    good = rows * 2
    total = bad.sum()
    fails(total, 4)
    assert np.array_equal(good.numpy(), np.arange(0, 8000, 2).reshape(1000, 4))
    assert good.sum().item() == 3999 * 4000 and index.sum().item() == 250 * 6 + 1
    fails(bad, 4)


def test_reads_behind_a_failure(pool):
    """They are on their way when it fails, and ask the device for no work of their own."""
    values = [shoal.ones(1000) * i for i in range(8)]
    shoal.sync()
    for i, value in enumerate(values):
        bad = table()[number(9)] * i
        bad.start()
        value.start()
        assert np.array_equal(value.numpy(), np.full(1000, i, "f4"))
        fails(bad, 9)


def test_values_at_rest_between_failures(pool):
    """Values that a device made between programs that failed on it are well, however many these are."""
    kept = []
    for i in range(30):
        kept.append(shoal.ones(10) * i)
        shoal.sync()
        fails(table()[number(9)], 9)
        sync_fails(9)
    assert [int(x[3].item()) for x in kept] == list(range(30))
    assert all(np.array_equal(x.numpy(), np.full(10, i, "f4")) for i, x in enumerate(kept))


def test_nothing_is_left(pool):
    """Empty results, and a program of which all has failed."""
    bad = table()[number(9)]
    twice = bad * 2
    fails(twice, 9)
    fails(bad, 9)
    nothing = shoal.ones(0, 3) * 2
    bad = table()[number(9)]
    fails(bad, 9)
    assert nothing.numpy().shape == (0, 3)
    fine = table()[number(9, 0)]
    assert fine.numpy().shape == (0, 2)


def test_random_numbers(pool):
    """They are the same as without a failure, and those after them too."""
    def draw(n):
        shoal.manual_seed(5)
        kept = shoal.rand(4, 3)
        dropped = shoal.nn.functional.dropout(shoal.ones(40), 0.5)
        picked = table()[number(n)]
        before = shoal.rand(2)
        if n > 3:
            fails(picked, n)
        else:
            picked.numpy()
        return [x.numpy() for x in (kept, dropped, before, shoal.rand(5))]

    for with_failure, without in zip(draw(4), draw(3)):
        assert np.array_equal(with_failure, without)


@pytest.mark.parametrize("replay", [False, True])
def test_functions(pool, replay):
    """One that is recorded once fails when it is called for the second time, and goes on afterwards."""
    w = table()

    @shoal.compile(replay=replay)
    def step(index, x):
        return w[index], x * 2

    x = shoal.ones(3)
    for n in (1, 6, 2, 5):
        picked, x = step(number(n), x)
        if n < 4:
            assert picked.numpy().tolist() == [[2 * n, 2 * n + 1]] * 3
        else:
            fails(picked, n)
    assert x.numpy().tolist() == [16, 16, 16]
    sync_fails(6)


def test_loops(pool):
    """A loop fails as a whole; what was made beside it, and after it, does not."""
    w = table()

    @shoal.compile(replay=True)
    def step(i, x):
        return i + 1, x + w[i][:, 0]

    beside = shoal.ones(3) * 7
    loop = step.repeat(10, number(0), shoal.zeros(3), carry={0: 0, 1: 1}, stream=0)
    after, rows = beside + 1, []
    with pytest.raises(IndexError, match="index 4 is out of range"):
        for value in loop:
            rows.append(value.tolist())
    assert rows == [[row + 1] * 3 for row in range(4)][:len(rows)]
    assert after.numpy().tolist() == [8, 8, 8] and beside.numpy().tolist() == [7, 7, 7]


def test_what_was_let_go_of(pool):
    """Operands that nobody else needs are not used up by the program that fails, where the rest of it needs them,
    nor by one that waits for the rest."""
    x = shoal.ones(1 << 16) * 3
    y = shoal.ones(1 << 16) * 5
    shoal.sync()
    x, bad = x + 1, table()[number(9)]
    x.start()
    x = x * y
    y = x + bad.sum()
    x.start()
    fails(bad, 9)
    assert np.array_equal(x.numpy(), np.full(1 << 16, 20, "f4"))
    fails(y, 9)


def late():
    """Zero, once programs behind this one have been handed out."""
    side = 200 if os.environ.get("SHOAL_BACKEND") == "lag" else 700  # which is slow
    product = shoal.ones(side, side)
    for _ in range(4):
        product = (product @ product) % 3
    return product.sum().to(shoal.int64) * 0


def at_rest():
    x = shoal.ones(1 << 16) * 3
    shoal.sync()
    return x


def is_all(tensor, value):
    assert np.array_equal(tensor.numpy(), np.full(1 << 16, value, "f4"))


def test_let_go_of_beside_another_check(pool):
    """What derives from a check that is passed, and from an operand that nobody else needs."""
    x = at_rest()
    fine, bad = x[number(1, 1 << 16)], table()[number(9)]
    x = x + fine
    x.start()
    is_all(x, 6)
    is_all(fine, 3)
    fails(bad, 9)


def test_let_go_of_beside_more_checks_than_are_told_apart(pool):
    x = at_rest()
    picked = [table()[number(i % 4)].sum() for i in range(66)]
    bad = table()[number(9)]
    x = x + sum(picked)
    x.start()
    is_all(x, 3 + 3 * sum(4 * (i % 4) + 1 for i in range(66)))
    fails(bad, 9)


def test_let_go_of_beside_what_is_under_way(pool):
    """An operand that is made by another program than the one that fails, both of them under way."""
    x = at_rest()
    bad = table()[number(9) + late()]
    bad.start()
    x = x + 1
    x.start()
    good, mixed = x * 2, x[:3] + bad.sum()
    del x
    good.start()
    is_all(good, 8)
    fails(mixed, 9)


def test_let_go_of_behind_two_programs(pool):
    """The program before it has no check, and waits for one that has."""
    x = at_rest()
    bad = table()[number(9) + late()]
    bad.start()
    total = bad.sum()
    total.start()
    good, mixed = x * 2, x[:3] + total
    del x
    good.start()
    is_all(good, 6)
    fails(mixed, 9)


def test_let_go_of_behind_a_loop(pool):
    w, x = table(), at_rest()

    @shoal.compile(replay=True)
    def step(i, y):
        return i + 1, y + w[i][:, 0]

    y = step.repeat(10, number(0), shoal.zeros(3) + late(), carry={0: 0, 1: 1}).result[1]
    good, mixed = x * 2, x[:3] + y
    del x
    good.start()
    is_all(good, 6)
    fails(mixed, 4)


def test_let_go_of_beside_what_moves_in(pool):
    """An operand that comes from the client with the program that fails."""
    x = at_rest()
    sent = shoal.tensor(np.ones(1 << 16, "f4"))
    bad = table()[number(9) + late() + (sent.sum() * 0).to(shoal.int64)]
    bad.start()
    good = x * sent
    del x
    good.start()
    is_all(good, 3)
    fails(bad, 9)


def test_let_go_of_while_it_moves_in(pool):
    """Its copy in the client's memory is kept while it may have to come again."""
    x = shoal.tensor(np.ones(1 << 16, "f4"))
    shoal.sync()
    total = x.sum() + late()
    total.start()
    good, bad = x * 2, table()[number(9)]
    del x
    good.start()
    is_all(good, 2)
    fails(bad, 9)
    assert total.item() == 1 << 16


def test_let_go_of_by_a_later_program(pool):
    """It is the later one's only once the rest of the earlier one is made."""
    x = at_rest()
    good, bad = x * 2, table()[number(9) + late()]
    good.start()
    after = x + 1
    del x
    after.start()
    is_all(good, 6)
    is_all(after, 4)
    fails(bad, 9)


def test_let_go_of_behind_a_failure(pool):
    """A check fails when what an earlier program reads has been given to a later one, and neither has ended."""
    for _ in range(5):
        x, bad = at_rest(), table()[number(9) + late()]
        bad.start()
        first = x * 2
        first.start()
        second = x + 1
        del x
        second.start()
        is_all(first, 6)
        is_all(second, 4)
        fails(bad, 9)
        sync_fails(9)


def test_steps_behind_a_failure(pool):
    """They run, where a device has a line, on what was never made: nobody is to see what comes of it."""
    for i in range(20):
        bad = table()[number(9)]
        for _ in range(i):
            bad = bad * 2
            bad.start()
        good = shoal.ones(3) + i
        total = (bad + 1).sum()
        total.start()
        assert np.array_equal(good.numpy(), np.full(3, 1 + i, "f4"))
        fails(total, 9)
        fails(bad, 9)


def test_gradients(pool):
    """A backward pass with a target out of range: the loss and all gradients fail, the outputs of the model do not."""
    w = table().requires_grad_()
    out = shoal.ones(3, 4) @ w
    loss = shoal.nn.functional.cross_entropy(out, number(2))
    loss.backward()
    with pytest.raises(IndexError):
        loss.item()
    with pytest.raises(IndexError):
        w.grad.numpy()
    assert out.numpy().tolist() == [[12, 16]] * 3 and w.numpy().sum() == 28


def test_a_loss_meanwhile(pool):
    """A worker dies while the rest is made: all that has not failed is there all the same."""
    if not pool or len(pool.processes) < 3:
        pytest.skip("the only worker")
    rng = np.random.default_rng(7)
    n = 250 if os.environ.get("SHOAL_BACKEND") == "lag" else 700  # which takes plain loops as long
    a = rng.integers(-2, 3, (n, n)).astype("f4")
    for worker in ("w3", "w4"):
        x = shoal.tensor(a).place(axis=0)
        bad, line = table()[number(9)], here()
        product, want = x, a
        for _ in range(3):
            product, want = (product @ x) % 5, (want @ a) % 5
        fails(bad, 9, line)
        pool.worker(1).kill()
        assert np.array_equal(product.numpy(), want)
        assert (product + 1).sum().item() == want.sum() + want.size
        fails(bad * 2, 9, line)
        pool.processes.pop(2)
        pool.add(worker)
        pool.await_workers(2)


def test_given_on_before_it_came(pool):
    """An operand comes from the client with a program that fails, and was given to a later one that does not."""
    @shoal.compile(replay=True, donate=0)
    def twice(x):
        return x * 2

    for n in range(10):
        x = shoal.tensor(np.full((300, 300), n, "f4"))
        bad = table()[number(9, 300)].sum() + x.sum()
        bad.start()
        y = twice(x)
        y.start()
        del x
        fails(bad, 9)
        assert np.array_equal(y.numpy(), np.full((300, 300), 2 * n, "f4"))
