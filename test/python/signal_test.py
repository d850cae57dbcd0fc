"""Signals: training under every layout gives the losses of one worker, with the same model code."""
import threading

import numpy as np
import pytest

import shoal
from shoal import nn

STEPS, RATE = 12, 0.1


@pytest.fixture(autouse=True)
def clean():
    yield
    shoal.signal.clear()
    shoal.disconnect()


class Model(nn.Module):
    """Two layers, each in a scope of its own, made and run there."""

    def __init__(self, rng, make_inside):
        super().__init__()
        shapes = {"first": (10, 16), "second": (16, 4)}
        for name, shape in shapes.items():
            weight = rng.standard_normal(shape).astype(np.float32) * 0.4
            bias = rng.standard_normal(shape[1]).astype(np.float32) * 0.1
            if make_inside:
                with shoal.signal.context(name):
                    self.add(name, weight, bias)
            else:
                self.add(name, weight, bias)

    def add(self, name, weight, bias):
        setattr(self, name + "_weight", nn.Parameter(shoal.tensor(weight)))
        setattr(self, name + "_bias", nn.Parameter(shoal.tensor(bias)))

    def forward(self, x):
        with shoal.signal.context("first"):
            x = (x @ self.first_weight + self.first_bias).tanh()
        with shoal.signal.context("second"):
            return x @ self.second_weight + self.second_bias


def train(make_inside=False):
    """The losses, and the parameters at the end."""
    rng = np.random.default_rng(5)
    model = Model(rng, make_inside)
    x = rng.standard_normal((27, 10)).astype(np.float32)
    y = rng.standard_normal((27, 4)).astype(np.float32)
    losses = []
    for _ in range(STEPS):
        loss = ((model(shoal.tensor(x)) - shoal.tensor(y)) ** 2).mean()
        loss.backward()
        with shoal.no_grad():
            for p in model.parameters():
                p -= RATE * p.grad
                p.grad = None
        losses.append(loss.item())
    return losses, [p.numpy() for p in model.parameters()]


@pytest.fixture(scope="module")
def truth():
    """The same in NumPy, in float64."""
    rng = np.random.default_rng(5)
    w1, b1 = rng.standard_normal((10, 16)) * 0.4, rng.standard_normal(16) * 0.1
    w2, b2 = rng.standard_normal((16, 4)) * 0.4, rng.standard_normal(4) * 0.1
    x, y = rng.standard_normal((27, 10)), rng.standard_normal((27, 4))
    losses = []
    for _ in range(STEPS):
        h = np.tanh(x @ w1 + b1)
        out = h @ w2 + b2
        losses.append(((out - y) ** 2).mean())
        d = 2 * (out - y) / y.size
        dh = d @ w2.T * (1 - h * h)
        w2, b2 = w2 - RATE * h.T @ d, b2 - RATE * d.sum(0)
        w1, b1 = w1 - RATE * x.T @ dh, b1 - RATE * dh.sum(0)
    return losses


WAYS = {
    "none": "",
    "replicated": """
        first: {shard: {replicated: true}}
        second: {shard: {replicated: true}}""",
    "data": """
        first: {shard: {axis: 0}}
        second: {shard: {axis: 0}}""",
    "column": """
        first: {shard: {axis: -1}}
        second: {shard: {axis: -1}}""",
    "column, row": """
        first: {shard: {axis: -1}}
        second: {shard: {axis: 0}}""",
    "pipeline": """
        first: {shard: {workers: [0]}}
        second: {shard: {workers: [LAST]}}""",
    "pipeline, backward elsewhere": """
        first: {shard: {workers: [0]}, backward: third}
        second: {shard: {workers: [LAST]}, backward: third}
        third: {shard: {axis: 0}}""",
    "uneven": """
        first: {shard: {axis: 0, shares: SHARES}}
        second: {shard: {axis: 1, shares: SHARES}}""",
    "compiled": """
        first: {shard: {axis: 0}, compile: true}
        second: {compile: true}""",
}


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_training(workers, way, inside, truth):
    shoal.init(workers=workers)
    text = WAYS[way].replace("LAST", str(workers - 1)).replace("SHARES", str([5, 3, 2][:workers]))
    shoal.signal.parse(text)
    losses, _ = train(inside)
    assert np.allclose(losses, truth, rtol=1e-4, atol=1e-5), (losses, truth)
    assert losses[-1] < losses[0]


def shares_of(x):
    """Elements that each worker holds of a value, from the pool's own count of bytes."""
    shoal.sync()
    x.numpy()
    return [slot.bytes // 4 for slot in shoal.status().slots if slot.compute]


def test_where_values_lie():
    shoal.init(workers=3)
    shoal.signal.parse("rows: {shard: {axis: 0, shares: [1, 2, 3]}}\n"
                       "columns: {shard: {axis: 1, workers: [0, 2]}}\n"
                       "copies: {shard: {replicated: true, workers: [1, 2]}}")
    data = np.arange(60.0).reshape(6, 10).astype(np.float32)
    for name, want in (("rows", [10, 20, 30]), ("columns", [30, 0, 30]), ("copies", [0, 60, 60])):
        with shoal.signal.context(name):
            x = shoal.tensor(data)
        assert shares_of(x) == want, name
        assert np.array_equal(x.numpy(), data)
        del x
        shoal.sync()
        with shoal.signal.context(name):
            x = shoal.randn(6, 10, seed=3)
        assert shares_of(x) == want, name
        expected = shoal.randn(6, 10, seed=3).numpy()
        assert np.array_equal(x.numpy(), expected), "numbers do not depend on the split"
        del x
        y = shoal.signal.tensor(shoal.tensor(data), name)
        assert shares_of(y) == want, name
        # What is computed from it stays there, in the scope and after it.
        with shoal.signal.context(name):
            z = y * 2 + 1
        w = z + z
        del y, z
        assert shares_of(w) == want, name
        assert np.array_equal(w.numpy(), (data * 2 + 1) * 2)
        del w
        shoal.sync()


def test_computing_moves_with_the_scope():
    """What comes from outside is brought into a scope's workers."""
    shoal.init(workers=2)
    shoal.signal.parse("one: {shard: {workers: [0]}}\ntwo: {shard: {workers: [1]}}")
    a = np.arange(12.0).reshape(3, 4).astype(np.float32)
    with shoal.signal.context("one"):
        x = shoal.tensor(a) + 1
    with shoal.signal.context("two"):
        y = x * 3
    del x
    assert shares_of(y) == [0, 12]
    assert np.array_equal(y.numpy(), (a + 1) * 3)


def test_scopes():
    shoal.init(workers=2)
    signal = shoal.signal
    signal.parse("outer: {backward: inner}\ninner:\n")
    assert signal.current_signal() is None and signal.get_signal_stack() == []
    with signal.context("outer"):
        assert (signal.current_signal(), signal.current_backward_signal()) == ("outer", "inner")
        with signal.context("inner", backward="other"):
            assert signal.get_signal_stack() == ["outer", "inner"]
            assert signal.current_backward_signal() == "other"
        assert signal.current_signal() == "outer"
        seen = []
        thread = threading.Thread(target=lambda: seen.append(signal.get_signal_stack()))
        thread.start()
        thread.join()
        assert seen == [[]], "scopes are a thread's own"
        signal.enter("again")
        with pytest.raises(shoal.InvalidError, match="leaving 'outer' while 'again' is the innermost"):
            signal.exit("outer")
        signal.exit("again")
    with pytest.raises(shoal.InvalidError, match="no scope is open"):
        signal.exit("outer")
    with pytest.raises(ValueError):
        with signal.context("outer"):
            raise ValueError("through")
    assert signal.get_signal_stack() == []

    @signal.context("outer")
    def inside():
        return signal.current_signal()
    assert inside() == "outer"
    with pytest.raises(shoal.InvalidError, match="more than 64 scopes"):
        for _ in range(65):
            signal.enter("deep")
    for _ in range(64):
        signal.exit("deep")


def test_descriptions(tmp_path, monkeypatch):
    shoal.init(workers=2)
    signal = shoal.signal
    path = tmp_path / "signals.yaml"
    path.write_text("a:\n  shard:\n    axis: 1\n    workers: [0, 1]\n  backward: b\nb:\n")
    signal.load(path)
    assert signal.described()["a"] == signal.Signal("a", True, 1, False, [0, 1], None, "b", False)
    signal.describe(signal.Signal("a", axis=0, shares=[1, 2]))
    assert signal.described()["a"].shares == [1, 2] and signal.described()["a"].workers is None
    with pytest.raises(shoal.ShoalError, match="nothing.yaml"):
        signal.load(tmp_path / "nothing.yaml")
    path.write_text("a:\n  shard:\n    axes: 1\n")
    with pytest.raises(shoal.FormatError, match=r"signals.yaml:3:5: 'axes' is no key of shard"):
        signal.load(path)
    assert signal.described()["a"].shares == [1, 2], "a file with a mistake changes nothing"
    with pytest.raises(shoal.InvalidError, match="worker 1 twice"):
        signal.describe(signal.Signal("c", workers=[1, 1]))
    path.write_text("from_variable:\n")
    monkeypatch.setenv("SHOAL_CONFIG", str(path))
    shoal.init(workers=1)
    assert "from_variable" in signal.described()


def test_impossible():
    shoal.init(workers=2)
    signal = shoal.signal
    signal.parse("far:\n  shard:\n    workers: [0, 7]\n"
                 "third:\n  shard:\n    axis: 2\n"
                 "mute:\n  compile: false\n", "some.yaml")
    x = shoal.ones(4, 4)
    with pytest.raises(shoal.InvalidError,
                       match=r"some.yaml:3:14: signal 'far' names worker 7; the pool has 2"):
        signal.tensor(x, "far")
    with pytest.raises(shoal.InvalidError, match="names worker 7"):
        with signal.context("far"):
            x + 1
    assert signal.get_signal_stack() == []
    with pytest.raises(shoal.InvalidError,
                       match=r"some.yaml:6:11: signal 'third' cuts axis 2; the tensor is float32"):
        signal.tensor(x, "third")
    with pytest.raises(shoal.NotFoundError, match="'unheard' has not been described"):
        signal.tensor(x, "unheard")
    with pytest.raises(shoal.NotFoundError, match="'mute' does not say where values lie"):
        signal.tensor(x, "mute")
    with signal.context("third"):  # fewer axes than the one that is cut: copies
        assert np.array_equal((x + 1).numpy(), np.full((4, 4), 2, np.float32))
    with signal.context("unheard"):
        assert np.array_equal((x + 1).numpy(), np.full((4, 4), 2, np.float32))


def test_compile_is_one_program():
    shoal.init(workers=1)

    @shoal.compile
    def many(x):
        for _ in range(5000):  # more than a program has otherwise
            x = x + 1
        return x
    x = shoal.zeros(3)
    shoal.sync()
    before = shoal.status().instances
    y = many(x)
    shoal.sync()
    assert shoal.status().instances == before + 1
    assert y.tolist() == [5000.0] * 3
