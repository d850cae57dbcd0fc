"""Functions that are replayed do what calling them does, bit for bit, or say why they are called."""
import collections
import gc
import threading
import warnings

import numpy as np
import pytest

import shoal
from shoal import functional as F
from shoal import nn, optim


@pytest.fixture(autouse=True, scope="module")
def pool():
    shoal.init(workers=2, threads=1)
    yield
    shoal.disconnect()


@pytest.fixture(autouse=True)
def strict():
    """What is not replayed warns: an error here, where a test does not expect it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def batch(rng, rows=8):
    return rng.standard_normal((rows, 20)).astype("f4"), rng.integers(0, 5, rows)


class Net(nn.Module):
    def __init__(self, drop=0.0):
        super().__init__()
        self.first, self.norm = nn.Linear(20, 30), nn.BatchNorm1d(30)
        self.drop, self.last = nn.Dropout(drop), nn.Linear(30, 5)

    def forward(self, x):
        return self.last(self.drop(F.relu(self.norm(self.first(x)))))


def trained(make, replay, steps=10, drop=0.3, change=None, schedule=True):
    """Losses, and the parameters and buffers in the end. change(i, model, optimizer): before step i."""
    shoal.manual_seed(3)
    rng = np.random.default_rng(0)
    model = Net(drop)
    optimizer = make(model.parameters())
    rate = optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    calls = 0

    def step(x, y):
        nonlocal calls
        calls += 1
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if schedule:
            rate.step()
        return loss
    run = shoal.compile(step, replay=True) if replay else step
    losses = []
    for i in range(steps):
        if change:
            change(i, model, optimizer)
        losses.append(run(*(shoal.tensor(part) for part in batch(rng))).item())
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    grads = [p.grad.numpy() for p in model.parameters() if p.grad is not None]
    return losses, state, grads, calls, getattr(run, "programs", 0), optimizer


OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "dampening": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, maximize=True),
    "adam": lambda p: optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training(name):
    called = trained(OPTIMIZERS[name], False)
    replayed = trained(OPTIMIZERS[name], True)
    assert replayed[3:5] == (2, 1)  # called twice, recorded once
    assert called[0] == replayed[0] and len(set(called[0])) == len(called[0])
    for key, value in called[1].items():
        assert np.array_equal(value, replayed[1][key]), key
    assert all(np.array_equal(a, b) for a, b in zip(called[2], replayed[2]))


def test_groups_with_their_own_rates():
    def make(params):
        params = list(params)
        return optim.AdamW([{"params": params[:2]}, {"params": params[2:], "lr": 0.05}], lr=0.01)

    def change(i, model, optimizer):
        optimizer.param_groups[1]["lr"] = 0.05 / (i + 1)
    called = trained(make, False, change=change, schedule=False)
    replayed = trained(make, True, change=change, schedule=False)
    assert called[0] == replayed[0] and replayed[4] == 1


def test_modes_states_and_parameters_change():
    saved = {}

    def change(i, model, optimizer):
        if i == 4:
            saved.update(model=model.state_dict(), optimizer=optimizer.state_dict())
            model.eval()
        if i == 7:
            model.train()
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
        if i == 10:
            with shoal.no_grad():
                model.last.weight.copy_(model.last.weight * 2)
        if i == 12:
            model.last.bias.requires_grad_(False)
            model.last.bias.grad = shoal.zeros(5)
        if i == 14:
            optimizer.param_groups[0]["weight_decay"] = 0.5
    called = trained(OPTIMIZERS["adamw"], False, 18, change=change)
    replayed = trained(OPTIMIZERS["adamw"], True, 18, change=change)
    assert called[0] == replayed[0]
    assert all(np.array_equal(value, replayed[1][key]) for key, value in called[1].items())
    assert 3 <= replayed[4] <= 8 and replayed[3] < 14


def test_arguments_and_results():
    Pair = collections.namedtuple("Pair", "left right")
    calls = []

    @shoal.compile(replay=True)
    def f(x, scale, more=None, *, way="up"):
        calls.append(scale)
        y = x * scale + (more["a"][0] if more else 0)
        return Pair(y.sum(), {"same": x, "number": 7, "all": [y if way == "up" else -y, None]})
    for rows in (3, 4, 3, 3, 4, 4):
        for scale in (2, 3, 2.0, 2):
            x = np.arange(rows * 2, dtype="f4").reshape(rows, 2) + len(calls)
            for way in ("up", "down"):
                got = f(x, scale, {"a": (shoal.tensor([1.0, -1.0]),)}, way=way)
                y = x * np.float32(scale) + np.float32([1, -1])
                assert isinstance(got, Pair) and got.right["number"] == 7
                assert got.left.item() == y.sum()
                assert np.array_equal(got.right["same"].numpy(), x)
                assert np.array_equal(got.right["all"][0].numpy(), y if way == "up" else -y)
                assert got.right["all"][1] is None
    assert len(calls) == 2 * f.programs == 2 * 2 * 3 * 2
    assert f.__name__ == "f"


def test_arguments_of_another_session():
    other = shoal.Session(workers=1)
    step = shoal.compile(lambda x, y: x + y, replay=True)
    x, y = other.full((2,), 1.0), other.full((2,), 2.0)
    assert step(x, y).tolist() == [3, 3]
    with pytest.warns(UserWarning, match="of another session than the default one"):
        assert step(x, y).tolist() == [3, 3]
    other.close()


def test_it_is_not_called_any_more_and_numbers_stay():
    half = [0.5]

    @shoal.compile(replay=True)
    def f(x):
        return x * half[0] + shoal.tensor(np.full(3, half[0], "f4"))
    x = shoal.tensor([1.0, 2.0, 3.0])
    for value, want in ((0.5, 0.5), (0.25, 0.25), (4.0, 0.25), (5.0, 0.25)):
        half[0] = value
        assert f(x).tolist() == [want * i + want for i in (1, 2, 3)]


def test_objects_in_place():
    total, last = shoal.zeros(3), shoal.zeros(3)

    @shoal.compile(replay=True)
    def add(x):
        nonlocal_sum = total + x
        total.copy_(nonlocal_sum)
        last.copy_(x)
        x *= 2
        return total
    for i in range(6):
        x = shoal.tensor([float(i), 1.0, 2.0])
        assert add(x) is total
        assert total.tolist() == [sum(range(i + 1)), i + 1, 2 * (i + 1)]
        assert last.tolist() == [i, 1, 2]
        assert x.tolist() == [2 * i, 2, 4]
    total.copy_(shoal.tensor([10.0, 20.0, 30.0]))  # changed outside
    add(shoal.tensor([1.0, 1.0, 1.0]))
    assert total.tolist() == [11, 21, 31]
    assert add.programs == 1


def test_gradients_that_gather():
    for reset in (None, 3):
        found = []
        for replay in (False, True):
            w = shoal.tensor([1.0, 2.0], requires_grad=True)

            def backward(x):
                ((w * x) ** 2).sum().backward()
            run = shoal.compile(backward, replay=True) if replay else backward
            for i in range(7):
                if i == reset:
                    w.grad = None
                assert run(shoal.tensor([float(i), 1.0])) is None
            found.append(w.grad.tolist())
            assert not replay or run.programs <= 3
        assert found[0] == found[1]


def test_results_pass_no_gradients_on():
    w = shoal.tensor([1.0, 2.0], requires_grad=True)
    f = shoal.compile(lambda x: w * x, replay=True)
    for _ in range(4):
        y = f(shoal.tensor([3.0, 4.0]))
        assert not y.requires_grad and y.tolist() == [3, 8]
    with shoal.no_grad():
        assert f(shoal.tensor([1.0, 1.0])).tolist() == [1, 2]


def test_inside_of_each_other():
    calls = []

    @shoal.compile(replay=True)
    def inner(x):
        calls.append("inner")
        return x + 1

    @shoal.compile(replay=True)
    def outer(x):
        calls.append("outer")
        return inner(x) * 2
    assert [outer(shoal.tensor([float(i)])).item() for i in range(4)] == [2, 4, 6, 8]
    assert calls.count("outer") == 2
    assert inner(shoal.tensor([5.0])).item() == 6


def not_replayed(function, arguments, why, want):
    """It is called each time, and says so once."""
    f = shoal.compile(function, replay=True)
    for i in range(4):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            got = f(*arguments(i))
        assert got.tolist() == want(i)
        texts = [str(w.message) for w in said]
        assert len(texts) == (i == 1), texts
        if texts:
            assert why in texts[0] and "is not replayed, but called each time" in texts[0]
            assert said[0].filename == __file__
    assert f.programs == 0


def test_what_cannot_be_replayed():
    kept = []

    def keeps(x):
        kept.append(x * 3)
        return x + 1
    not_replayed(keeps, lambda i: (shoal.tensor([float(i)]),), "replay_test.py:", lambda i: [i + 1])
    assert [x.item() for x in kept] == [0, 3, 6, 9]

    def reads(x):
        return x + 1 if x.sum().item() > 2 else x - 1
    not_replayed(reads, lambda i: (shoal.tensor([float(i)]),), "a value is read at replay_test.py:",
                 lambda i: [i + 1 if i > 2 else i - 1])

    def twice(x, y):
        return x + y
    one = shoal.tensor([1.0])
    not_replayed(twice, lambda i: (one, one), "an argument is the same tensor", lambda i: [2])

    base = shoal.tensor([1.0])

    def known(x):
        return x + base
    not_replayed(known, lambda i: (base,), "an argument is the same tensor", lambda i: [2])

    part = nn.Parameter(shoal.tensor([1.0]))
    not_replayed(lambda x: x * 2, lambda i: (part,), "an argument is a parameter", lambda i: [2])

    w = shoal.tensor([2.0], requires_grad=True)
    state = shoal.tensor([1.0])

    def through(x):
        nonlocal state
        state.mul_(w)
        return x + 1
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        f = shoal.compile(through, replay=True)
        for _ in range(3):
            f(one)
    assert len(said) == 1 and "under no_grad" in str(said[0].message)
    assert state.tolist() == [8]


def test_a_cycle_is_no_holder():
    def f(x):
        class Holder:
            pass
        holder = Holder()
        holder.self, holder.y = holder, x * 2
        return holder.y + 1
    run = shoal.compile(f, replay=True)
    gc.disable()
    try:
        assert [run(shoal.tensor([float(i)])).item() for i in range(4)] == [1, 3, 5, 7]
    finally:
        gc.enable()
    assert run.programs == 1


def test_an_error_in_it():
    def f(x):
        if x.shape[0] == 2:
            raise ValueError("two")
        return x @ shoal.zeros(3, 3)
    run = shoal.compile(f, replay=True)
    for _ in range(3):
        with pytest.raises(ValueError, match="two"):
            run(shoal.zeros(2))
        with pytest.raises(shoal.ShoalError, match="matmul"):
            run(shoal.zeros(4, 4))
        assert run(shoal.ones(1, 3)).tolist() == [[0, 0, 0]]


def test_threads_have_their_own():
    wrong = []

    def work(number):
        f = shoal.compile(lambda x: (x * number).sum(), replay=True)
        for i in range(50):
            if f(shoal.tensor([float(i), 1.0])).item() != number * (i + 1):
                wrong.append((number, i))
        if not 1 <= f.programs <= 5:  # the others' signals are described meanwhile
            wrong.append(f.programs)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


def test_it_leaves_nothing_behind():
    state = shoal.zeros(10)

    @shoal.compile(replay=True)
    def step(x):
        state.copy_(state + x)
        return state.sum()
    counts = []
    for i in range(300):
        step(np.ones(10, "f4"))
        if i in (50, 299):
            shoal.sync()
            counts.append(shoal.status().values)
    assert counts[0] == counts[1] and state.tolist() == [300] * 10


def test_placed():
    weights = shoal.tensor(np.arange(6, dtype="f4"))

    @shoal.compile(replay=True)
    def f(x):
        return (x.place(axis=0) * weights.place(axis=0)).sum()
    for i in range(4):
        x = np.arange(6, dtype="f4") + i
        assert f(x).item() == (x * np.arange(6)).sum()
    assert f.programs == 1


def test_signals():
    losses = []
    for signal, replay in ((None, False), ("rows", False), ("rows", True)):
        shoal.signal.describe(shoal.signal.Signal("rows", shard=True))
        shoal.manual_seed(4)
        model = nn.Sequential(nn.Linear(20, 30), nn.GELU(), nn.Linear(30, 5))
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        rng = np.random.default_rng(5)

        def step(x, y):
            optimizer.zero_grad()
            with shoal.signal.context(signal or "plain"):
                loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss
        run = shoal.compile(step, replay=True) if replay else step
        losses.append([run(*(shoal.tensor(part) for part in batch(rng, 11))).item() for _ in range(8)])
        assert not replay or run.programs == 1
    assert losses[1] == losses[2] and np.allclose(losses[0], losses[1], atol=1e-4)
    shoal.signal.clear()


# ---- donation ----

@pytest.mark.parametrize("rows", [1, 3])
def test_a_donated_cache_is_written_over(rows):
    @shoal.compile(replay=True, donate=0)
    def update(cache, row, at):
        return cache.dynamic_update_slice(row, (at, 0))

    want = np.zeros((64, 300), "f4")
    cache = shoal.tensor(want)
    for i in range(12):
        row, at = np.full((rows, 300), i + 1, "f4"), min(i * rows, 64 - rows)
        given = cache
        cache = update(given, row, np.int64(at))
        want[at:at + rows] = row
        with pytest.raises(shoal.ShoalError, match="was donated to a function"):
            given.numpy()
    assert np.array_equal(cache.numpy(), want)


def test_what_others_hold_is_not_written_over():
    state = shoal.tensor(np.arange(1000, dtype="f4"))

    @shoal.compile(replay=True)
    def step():
        with shoal.no_grad():
            state.mul_(2)
            state.add_(1)

    held = []
    want = np.arange(1000, dtype="f4")
    for i in range(10):
        step()
        want = want * 2 + 1
        if i % 2:
            held.append((state + 0, state.clone(), want))
    for moved, copied, was in held:
        assert np.array_equal(moved.numpy(), was)
        assert np.array_equal(copied.numpy(), was)


def test_updates_from_the_tensor_itself():
    @shoal.compile(replay=True, donate=0)
    def step(x, at):
        for i in range(3):
            x = x.dynamic_update_slice(x[i + 1:i + 3] * 2 if i % 2 else x[i + 1:i + 3], (at, i))
        return x

    want = np.arange(30, dtype="f4").reshape(6, 5)[:, :3].copy()
    x = shoal.tensor(want)
    for at in (3, 0, 4, 1, 9, -1):
        x = step(x, np.int64(at))
        for i in range(3):
            box = want[i + 1:i + 3].copy() * (2 if i % 2 else 1)
            row = min(max(at, 0), 4)
            want[row:row + 2] = box
    assert np.array_equal(x.numpy(), want)


def test_donating_needs_a_replay():
    with pytest.raises(shoal.ShoalError, match="replay=True"):
        shoal.compile(lambda x: x, donate=0)


@pytest.mark.parametrize("replay", [False, True])
def test_a_failure_leaves_what_came_with_it(replay):
    """Weights move to the workers with the first program that reads them. It fails; those behind it, which read them
    where they were to lie, are under way by then."""
    weights = shoal.tensor(np.arange(600, dtype="f4").reshape(100, 6))

    def loss(labels):
        return weights.cross_entropy((labels * 1).to(shoal.int32), reduction="none") * 2

    step = shoal.compile(loss, replay=True) if replay else loss
    good = np.arange(100, dtype="f4") % 6
    wrong = [np.full(100, 7, "f4")] * 3
    results = []
    for labels in [*wrong, good, *wrong, good]:
        results.append(step(shoal.tensor(labels)))
        results[-1].start()  # what is recorded together is one program
    want = 2 * (np.log(np.exp(np.arange(6) - 5.0).sum()) + 5 - good)
    for at, result in enumerate(results):
        if at % 4 == 3:
            np.testing.assert_allclose(result.numpy(), want, rtol=1e-5)
        else:
            with pytest.raises(shoal.OutOfRangeError, match="index 7"):
                result.numpy()
    with pytest.raises(shoal.OutOfRangeError):
        shoal.sync()


def test_one_upload_for_two():
    """It is where it was when the program fails, and its copy in the client's memory goes with it."""
    a, good = np.arange(90_000, dtype="f4").reshape(300, 300) % 7, np.arange(300, dtype="f4")

    @shoal.compile(replay=True)
    def step(x, y, labels):
        return (x + y).cross_entropy((labels * 1).to(shoal.int32), reduction="none") * 2

    def at_client():
        return sum(slot.bytes for slot in shoal.status().slots if not slot.compute)

    u, v = shoal.tensor(a), shoal.tensor(a)
    want = step(u, v, shoal.tensor(good)).numpy()
    assert np.array_equal(step(u, v, shoal.tensor(good)).numpy(), want)
    before = at_client()
    for _ in range(3):
        x = shoal.tensor(a)
        with pytest.raises(shoal.OutOfRangeError, match="index 300"):
            step(x, x, shoal.tensor(good + 1)).numpy()
        assert np.array_equal(x.numpy(), a) and np.array_equal((x + x).numpy(), a + a)
        x = shoal.tensor(a)
        assert np.array_equal(step(x, x, shoal.tensor(good)).numpy(), want)
    del x
    with pytest.raises(shoal.OutOfRangeError):
        shoal.sync()
    assert at_client() <= before
