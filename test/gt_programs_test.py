"""Programs as GT2's tests and examples write them: its classes in threads, four workers, tensors that are
divided by themselves, attention, a small language model. The truth is NumPy's.
"""
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import gt
import shoal

PORT = 23000 + hash(__file__) % 1000


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.delenv("GT_AUTO_SHARD", raising=False)
    monkeypatch.delenv("SHOAL_HUB", raising=False)
    gt.pool.disconnect()
    gt.pool._workers = None
    shoal.signal.clear()
    yield
    gt.pool.disconnect()


def system(port, workers, backend):
    """A dispatcher and workers, each in a thread, as GT2's tests start them."""
    from gt.dispatcher.dispatcher import Dispatcher
    from gt.worker.worker import Worker
    dispatcher = Dispatcher(host="localhost", port=port, console_log=False)
    made = [Worker(worker_id=f"test_worker_{i}", backend=backend) for i in range(workers)]
    threads = [threading.Thread(target=dispatcher.start, daemon=True)]
    threads += [threading.Thread(target=w.connect_to_dispatcher, daemon=True,
                                 kwargs={"dispatcher_host": "localhost", "dispatcher_port": port}) for w in made]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    while True:
        try:
            session = shoal.Session(f"shm:gt-{port}")
            there = len(session.compute_slots())
            session.close()
        except shoal.ShoalError:
            there = 0
        if there == workers:
            return dispatcher, threads
        assert time.monotonic() < deadline, f"{there} of {workers} workers"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def four():
    dispatcher, threads = system(PORT, 4, "pytorch")
    yield PORT
    dispatcher.stop()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


@pytest.fixture
def client(four):
    from gt.client.client import Client
    client = Client(dispatcher_host="localhost", dispatcher_port=four)
    client.connect()
    yield client
    client.disconnect()
    assert client.connection is None and gt._client is None


# ---- connecting ----

def test_a_dispatcher_and_a_worker_in_threads():
    from gt.client.client import Client
    from gt.client.tensor import from_numpy, randn
    dispatcher, threads = system(PORT + 1, 1, "numpy")
    assert dispatcher.running
    with pytest.raises(RuntimeError, match="runs already"):
        dispatcher.start()
    client = Client(dispatcher_host="localhost", dispatcher_port=PORT + 1)
    assert client.connection is None
    client.connect()
    assert client.connection is not None and client.workers() == ["test_worker_0"]
    a = np.arange(6, dtype="float32").reshape(2, 3)
    assert (from_numpy(a) @ from_numpy(a).T).data.numpy().tolist() == (a @ a.T).tolist()
    assert randn(4, 3).data.numpy().shape == (4, 3)
    client.disconnect()
    dispatcher.stop()
    for thread in threads:  # the worker ends with its dispatcher
        thread.join(60)
        assert not thread.is_alive()
    with pytest.raises(ConnectionError, match="no dispatcher answers at localhost:9"):
        from gt.worker.worker import Worker
        Worker("w", "numpy").connect_to_dispatcher("localhost", 9, wait=0.2)


def test_a_dispatcher_that_answers_is_running(monkeypatch):
    from gt.dispatcher import dispatcher as module

    def made_slowly(*words):
        process = shoal.program.Process(*words)
        time.sleep(0.5)  # the thread that starts it is late; its hub answers meanwhile
        return process
    monkeypatch.setattr(module, "Process", made_slowly)
    dispatcher, threads = system(PORT + 2, 1, "numpy")
    assert dispatcher.running
    dispatcher.stop()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_client_of_the_package(four):
    assert gt._client is None and not gt._connected
    gt.connect(f"localhost:{four}")
    assert gt._client is not None and gt._connected and len(gt._client.workers()) == 4
    with pytest.raises(RuntimeError, match="already"):
        gt.connect(f"localhost:{four}")
    gt._client, gt._connected = None, False  # what GT2's tests do to begin anew
    gt.connect(f"localhost:{four}")
    stats = gt.debug.get_worker_stats()
    assert sorted(stats) == [f"test_worker_{i}" for i in range(4)]
    (gt.ones(8, 8) @ gt.ones(8, 8)).data.numpy()
    assert sum(s["operations"]["total"] for s in gt.debug.get_worker_stats().values()) > 0


# ---- tensors ----

def test_t_swaps_the_last_two_axes():
    for shape in ((2, 3), (2, 3, 4), (2, 3, 4, 5)):
        x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        np.testing.assert_array_equal(gt.from_numpy(x).T.data.numpy(), x.swapaxes(-1, -2))
    assert gt.ones(3).T.shape == (3,) and gt.tensor(1.0).T.shape == ()
    assert shoal.from_numpy(np.ones((2, 3), "float32")).mT.shape == (3, 2)  # torch's own name stays


def test_results_keep_their_gradients():
    a = np.array([[1.0, -2.0], [3.0, 4.0]], "float32")
    x = gt.from_numpy(a, requires_grad=True)
    h = x * 3
    y = h.relu()
    (y * y).sum().backward()
    np.testing.assert_allclose(y.grad.data.numpy(), 2 * np.maximum(3 * a, 0))
    np.testing.assert_allclose(h.grad.data.numpy(), 2 * np.maximum(3 * a, 0))
    np.testing.assert_allclose(x.grad.data.numpy(), 6 * np.maximum(3 * a, 0))


def test_parameters_change_in_place_outside_no_grad():
    p = gt.tensor([1.0, 2.0], requires_grad=True)
    (p * p).sum().backward()
    before = p.id
    p -= 0.5 * p.grad
    assert p.data.numpy().tolist() == [0, 0] and p.requires_grad and p.is_leaf and p.id != before
    seen = {before, p.id}
    p += 1.0
    p *= 3.0
    p /= 2.0
    assert p.data.numpy().tolist() == [1.5, 1.5] and p.id not in seen
    p.grad = None
    (p * 2).sum().backward()
    assert p.grad.data.numpy().tolist() == [2, 2]
    a, b = gt.zeros(2), gt.zeros(2)
    assert a.id != b.id and a.id == a.id
    number = a.id
    a.zero_()
    assert a.id != number
    with gt.no_grad():
        p -= 1.0
    assert p.data.numpy().tolist() == [0.5, 0.5]


def test_element_types_are_equal_to_numpys():
    for name in ("float32", "float64", "int32", "int64"):
        kind = gt.zeros(2, dtype=getattr(gt, name)).dtype
        assert kind == getattr(np, name) and getattr(np, name) == kind and kind == np.dtype(name)
        assert kind == name and kind == getattr(gt, name) and hash(kind) == hash(name)
        assert kind != np.uint8 and kind != "uint8" and kind.name == name
    assert gt.ones(2).data.numpy().dtype == gt.ones(2).dtype
    assert (gt.ones(2) > 0).dtype == gt.bool


def test_split_and_mean():
    x = np.arange(10, dtype="float32").reshape(5, 2)
    for words in ({"split_size": 2, "dim": 0}, {"split_size": 2, "axis": 0}, {"split_size": 2}):
        parts = gt.from_numpy(x).split(**words)
        assert [p.data.numpy().tolist() for p in parts] == [x[:2].tolist(), x[2:4].tolist(), x[4:].tolist()]
    assert [p.shape for p in gt.from_numpy(x).split([1, 4], 0)] == [(1, 2), (4, 2)]
    whole = gt.tensor([1, 2, 4], dtype="int64")
    assert whole.mean(dtype="float64").dtype == "float64" and whole.mean(dtype="float64").item() == 7 / 3
    assert gt.from_numpy(x).mean(axis=0, keepdims=True).data.numpy().tolist() == [[4, 5]]
    assert gt.from_numpy(x).mean(0).shape == (2,)


# ---- modules ----

def test_parameters_are_a_list():
    net = gt.nn.Sequential(gt.nn.Linear(3, 4), gt.nn.Linear(4, 1, bias=False))
    found = net.parameters()
    assert isinstance(found, list) and [p.shape for p in found] == [(3, 4), (4,), (4, 1)]
    assert found[0] is net.parameters()[0] and all(p.requires_grad for p in found)


def test_parameters_to_extend():
    class Scale(gt.client.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = gt.client.nn.Linear(2, 2)
            self.a = gt.tensor([1.0, 1.0], requires_grad=True)
            self.b = gt.tensor([0.0, 0.0], requires_grad=True)
            self._parameters.extend([self.a, self.b])
            self._parameters.append(self.a)  # it is there already
            self._parameters += [gt.tensor([5.0], requires_grad=True)]

        def forward(self, x):
            return self.inner(x) * self.a + self.b

    model = Scale()
    assert len(model.parameters()) == 5 and len(model._parameters) == 3
    assert model._parameters[0] is model.a and [p.shape for p in model._parameters] == [(2,), (2,), (1,)]
    assert list(model.state_dict()) == ["0", "1", "2", "inner.weight", "inner.bias"]
    assert "inner" in dir(model)
    x, y = np.random.default_rng(0).standard_normal((2, 16, 2)).astype("float32")
    optimizer = gt.nn.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(60):
        loss = gt.client.nn.mse_loss(model(gt.from_numpy(x)), gt.from_numpy(y))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] and abs(model.b.data.numpy()).max() > 0


def test_tensors_assigned_to_weights():
    random = np.random.default_rng(0)
    w, x = random.standard_normal((3, 2), "float32"), random.standard_normal((4, 3), "float32")
    layer = gt.client.nn.Linear(3, 2, bias=False)
    layer.weight = gt.from_numpy(w)
    np.testing.assert_allclose(layer(gt.from_numpy(x)).data.numpy(), x @ w, atol=1e-5)
    layer.weight = gt.from_numpy(2 * w, requires_grad=True)
    layer(gt.from_numpy(x)).sum().backward()
    np.testing.assert_allclose(layer.parameters()[0].grad.data.numpy(), x.sum(0)[:, None] * np.ones((1, 2)), atol=1e-5)


# ---- four workers ----

def test_products_on_four_workers(client, monkeypatch):
    monkeypatch.setenv("GT_AUTO_SHARD", "1")
    a, b, c = gt.randn(128, 64), gt.randn(64, 32), gt.randn(32, 8)
    assert len({slot for slot, *_ in a.times()}) == 4  # each worker made its part
    temporary = a @ b
    np.testing.assert_allclose(temporary.data.numpy(), a.data.numpy() @ b.data.numpy(), atol=1e-3)
    np.testing.assert_allclose((temporary @ c).data.numpy(), a.data.numpy() @ b.data.numpy() @ c.data.numpy(),
                               atol=1e-2)
    weight = np.random.default_rng(0).standard_normal((64, 16)).astype("float32")
    hidden = (a @ gt.from_numpy(weight)).relu() * 2.0 + 1.0
    np.testing.assert_allclose(hidden.data.numpy(), np.maximum(a.data.numpy() @ weight, 0) * 2 + 1, atol=1e-3)


def test_tensors_that_divide_themselves(client, monkeypatch):
    plain = gt.ones(128, 64)
    monkeypatch.setenv("GT_AUTO_SHARD", "1")
    data = np.arange(256, dtype="float32").reshape(128, 2)
    for rows in (128, 13, 3, 1):  # evenly, unevenly, fewer than workers
        np.testing.assert_array_equal(gt.from_numpy(data[:rows]).data.numpy(), data[:rows])
    x = gt.from_numpy(data, requires_grad=True)
    assert x.is_leaf and x.requires_grad
    for key in (np.s_[:32], np.s_[64:96, :], np.s_[:, :1], np.s_[::2]):
        np.testing.assert_array_equal(x[key].data.numpy(), data[key])
    assert x[:64].sum().data.numpy().shape == ()
    np.testing.assert_allclose(x.sum(axis=1).data.numpy(), data.sum(1))
    (x.reshape(64, 4) * 2).sum().backward()
    np.testing.assert_array_equal(x.grad.data.numpy(), np.full((128, 2), 2))
    monkeypatch.setenv("GT_AUTO_SHARD", "0")
    assert (plain + gt.zeros(128, 64)).data.numpy().sum() == 128 * 64


def program(text, tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(text))
    done = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr


def test_auto_shard_starts_as_many_workers_as_there_are_cores(tmp_path):
    import os
    head = """
        import os
        os.environ['GT_AUTO_SHARD'] = '1'
        import gt
        {}
        a = gt.randn(128, 64)
        print(a.data.numpy().shape, len(gt.debug.get_worker_stats()))
    """
    cores = len(os.sched_getaffinity(0))
    assert program(head.format(""), tmp_path) == (f"(128, 64) {cores}\n", "")
    assert program(head.format("gt.gpu_workers(3)"), tmp_path) == ("(128, 64) 3\n", "")


# ---- whole models ----

def softmax(x):
    e = (x - x.max(axis=-1, keepdims=True)).exp()
    return e / e.sum(axis=-1, keepdims=True)


def softmax_of(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_attention(client):
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 5, 8)).astype("float32")
    weights = [0.3 * random.standard_normal((8, 8)).astype("float32") for _ in range(4)]
    q, k, v, o = (gt.from_numpy(w, requires_grad=True) for w in weights)

    def heads(t):
        return t.reshape(2, 5, 2, 4).permute(0, 2, 1, 3)
    tokens = gt.from_numpy(x)
    scores = heads(tokens @ q) @ heads(tokens @ k).T / np.sqrt(4).item()
    mixed = (softmax(scores) @ heads(tokens @ v)).permute(0, 2, 1, 3).reshape(2, 5, 8) @ o

    def heads_of(a):
        return a.reshape(2, 5, 2, 4).transpose(0, 2, 1, 3)
    wq, wk, wv, wo = (w.astype("float64") for w in weights)
    want = softmax_of(heads_of(x @ wq) @ heads_of(x @ wk).swapaxes(-1, -2) / 2) @ heads_of(x @ wv)
    want = want.transpose(0, 2, 1, 3).reshape(2, 5, 8) @ wo
    np.testing.assert_allclose(mixed.data.numpy(), want, atol=1e-4)
    mixed.sum().backward()
    assert scores.grad.shape == (2, 2, 5, 5)  # of a result, too
    # One element's gradient by differences.
    step = 1e-3

    def loss_of(change):
        other = wq.copy()
        other[3, 2] += change
        p = softmax_of(heads_of(x @ other) @ heads_of(x @ wk).swapaxes(-1, -2) / 2) @ heads_of(x @ wv)
        return (p.transpose(0, 2, 1, 3).reshape(2, 5, 8) @ wo).sum()
    assert abs(q.grad.data.numpy()[3, 2] - (loss_of(step) - loss_of(-step)) / (2 * step)) < 1e-3


class Norm:
    """A norm as programs without modules write it."""

    def __init__(self, width):
        self.weight = gt.from_numpy(np.ones(width, "float32"), requires_grad=True)

    def __call__(self, x):
        return x / ((x * x).mean(axis=-1, keepdims=True) + 1e-6).sqrt() * self.weight


class Language:
    """A language model without modules: one-hot tokens, mixing by the mean of what was before, a head."""

    def __init__(self, words, width, random):
        def made(*shape):
            return gt.from_numpy(random.standard_normal(shape).astype("float32") * 0.3, requires_grad=True)
        self.table, self.up, self.down = made(words, width), made(width, 2 * width), made(2 * width, width)
        self.norm, self.head = Norm(width), made(width, words)

    def parameters(self):
        return [self.table, self.up, self.down, self.norm.weight, self.head]

    def __call__(self, tokens, mean):
        x = mean @ (tokens @ self.table)
        x = x + (self.norm(x) @ self.up).relu() @ self.down
        return self.norm(x) @ self.head


@pytest.mark.parametrize("sharded", ["0", "1"])
def test_a_language_model(client, monkeypatch, sharded):
    monkeypatch.setenv("GT_AUTO_SHARD", sharded)
    random = np.random.default_rng(0)
    words, length = 7, 24
    text = np.arange(length + 1) * 3 % words
    tokens = gt.from_numpy(np.eye(words, dtype="float32")[text[:-1]])
    target = gt.from_numpy(np.eye(words, dtype="float32")[text[1:]])
    mean = gt.from_numpy(np.eye(length, dtype="float32"))
    model = Language(words, 16, random)
    losses = []
    for _ in range(40):
        p = softmax(model(tokens, mean))
        loss = -(target * (p + 1e-9).log()).sum() / length
        loss.backward()
        for parameter in model.parameters():
            parameter -= 0.3 * parameter.grad
            parameter.grad = None
        losses.append(loss.item())
    assert losses[0] > 1.5 and losses[-1] < 0.2 * losses[0], losses
