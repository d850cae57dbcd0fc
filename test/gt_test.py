"""python/compat/gt: GT2's surface, its commands, and every program of its document (the seed 003, beside
the checkout), unchanged."""
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

import documents
import gt
import shoal


@pytest.fixture(autouse=True)
def fresh():
    gt.pool.disconnect()
    gt.pool._workers = None
    shoal.signal.clear()
    yield
    gt.pool.disconnect()


# ---- the surface ----

def test_tensors():
    a = gt.tensor([1, 2, 3, 4])
    assert a.dtype == gt.float32 and (a + gt.tensor([5, 6, 7, 8])).data.numpy().tolist() == [6, 8, 10, 12]
    assert gt.tensor(np.arange(3)).dtype == gt.int64
    assert gt.tensor([1, 2], dtype="float64").dtype == "float64"
    for made in (gt.zeros(2, 3), gt.ones((2, 3)), gt.randn(2, 3), gt.from_numpy(np.ones((2, 3)))):
        assert made.shape == (2, 3) and made.data.shape == (2, 3)
    x = gt.randn(4, 6, requires_grad=True)
    assert isinstance(x.id, int) and x.T.shape == (6, 4) and x.requires_grad
    np.testing.assert_allclose(np.asarray(x.data), x.data.numpy())
    for name in ("exp", "relu", "sigmoid", "tanh", "sum", "mean", "max"):
        assert np.isfinite(getattr(x, name)().data.numpy()).all()
    assert [p.shape for p in x.chunk(2, 1)] == [(4, 3)] * 2 and x[1:3, 0].shape == (2,)
    assert gt.cat([x, x], axis=1).shape == (4, 12) and x.unsqueeze(0).squeeze().shape == (4, 6)
    np.testing.assert_allclose((1 - x).data.numpy(), 1 - x.data.numpy())
    assert (np.ones((4, 6), "float32") * x).shape == (4, 6)
    with pytest.raises(ValueError, match="matmul"):
        x @ x
    with pytest.raises(ValueError):
        gt.cat([])
    with pytest.raises(ValueError, match="not one"):
        x.item()


def test_gradients_as_they_should_be():
    w = gt.tensor([1.0], requires_grad=True)
    optimizer = gt.nn.SGD([w], lr=0.0)
    for _ in range(3):
        (w * 3).sum().backward()
        assert w.grad.data.numpy().tolist() == [3]
        optimizer.step()
        optimizer.zero_grad()
    y = (w * 2)[0:1]
    y.backward()
    (w * 3).backward()
    assert w.grad.data.numpy().tolist() == [5]
    with gt.no_grad():
        w -= 0.5
        assert not (w * 2).requires_grad
    assert (w * 0 + 1).zero_().item() == 0


def test_modules_and_losses():
    class Net(gt.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = gt.nn.Linear(4, 8), gt.client.nn.Linear(8, 1, bias=False)

        def forward(self, x):
            return self.fc2(gt.client.nn.tanh(self.fc1(x)))
    net = Net()
    assert net.fc1.weight.shape == (4, 8) and len(list(net.parameters())) == 3
    x, y = gt.randn(32, 4), gt.rand(32, 1)
    optimizer = gt.nn.SGD(net.parameters(), lr=0.5, momentum=0.5)
    losses = []
    for _ in range(40):
        loss = gt.client.nn.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        net.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    p = gt.client.nn.sigmoid(net(x))
    np.testing.assert_allclose(gt.client.nn.cross_entropy_loss(net(x), y).item(),
                               gt.client.nn.binary_cross_entropy(p, y).item(), rtol=1e-5)


def test_one_connection():
    gt.gpu_workers(2)
    gt.zeros(1)
    assert len([s for s in shoal.status().slots if s.compute]) == 2
    with pytest.raises(RuntimeError, match="call gpu_workers before the first tensor"):
        gt.gpu_workers(3)
    with pytest.raises(RuntimeError, match="connected to a pool of this process already"):
        gt.connect("localhost:1")


def test_other_machines_need_enrolment(monkeypatch):
    monkeypatch.delenv("SHOAL_HUB", raising=False)
    with pytest.raises(ConnectionError, match="run `python -m gt.server -p 99 -H far.away`.*shoal join"):
        gt.connect("far.away:99")
    monkeypatch.setenv("SHOAL_HUB", "tcp://far.away:99/abc")
    assert gt.pool.address_of("far.away:99") == "tcp://far.away:99/abc"
    with pytest.raises(ValueError, match="'nowhere' is not HOST:PORT"):
        gt.connect("nowhere")


def test_debug(capsys):
    gt.manual_seed(1)
    a = gt.randn(4, 3, requires_grad=True)
    loss = (a @ gt.ones(3, 2)).relu().sum()
    gt.debug.print_tape()
    out = capsys.readouterr().out
    assert out.startswith("Autograd Tape (3 operations):\n" + "-" * 60 + "\n0: Tensor[")
    assert "= dot_general(Tensor[" in out and "shape=(4, 2) requires_grad=True" in out
    assert [e["op"] for e in gt.debug.get_tape()] == ["dot_general", "select", "reduce"]
    loss.backward()
    assert gt.debug.get_tape() == []
    assert loss.item() > 0 and a.grad is not None
    gt.debug.print_worker_stats()
    assert "Workers (1):" in capsys.readouterr().out
    stats = gt.debug.get_worker_stats()
    assert all(s["operations"]["total"] > 0 for s in stats.values())


# ---- signals ----

YAML = """
rows:
  shard:
    axis: 0
    workers: [0, 1]
  backward: rows_backward
rows_backward:
  shard:
    axis: 0
    workers: null
copies:
  shard:
    replicated: true
  compile: true
"""


def test_signals(tmp_path):
    path = tmp_path / "signals.yaml"
    path.write_text(YAML)
    gt.load_config(str(path))
    gt.register_config("columns", gt.SignalConfig(gt.ShardConfig(axis=1, workers=[1, 0])))
    config = gt.get_signal_config("rows")
    assert config.shard == gt.ShardConfig(0, [0, 1], False)
    assert config.backward_signal == "rows_backward" and not config.compile
    assert gt.get_config()["copies"].compile and gt.get_config()["copies"].shard.replicated
    assert gt.get_signal_config("none") is None
    w = gt.randn(6, 3, requires_grad=True)
    assert len([s for s in shoal.status().slots if s.compute]) == 2
    want = None
    for name in (None, "rows", "copies", "columns"):
        x = gt.tensor(np.arange(24).reshape(4, 6) / 24)
        if name is None:
            loss = (x.float() @ w).tanh().sum()
        else:
            with gt.signal.context(name, backward="rows_backward"):
                assert gt.signal.current_signal() == name
                with gt.signal.signal("rows"):
                    assert gt.signal.get_signal_stack() == [name, "rows"]
                loss = (gt.signal.tensor(x, name=name).float() @ w).tanh().sum()
                assert gt.signal.current_backward_signal() == "rows_backward"
        loss.backward()
        got = loss.item(), w.grad.numpy()
        w.grad = None
        want = want or got
        assert got[0] == pytest.approx(want[0], abs=1e-5)
        np.testing.assert_allclose(got[1], want[1], atol=1e-5)
    gt.signal.enter("rows")
    with pytest.raises(RuntimeError, match="the innermost scope is 'rows'"):
        gt.signal.exit("copies")
    gt.signal.exit("rows")
    assert gt.signal.current_signal() is None
    with pytest.raises(FileNotFoundError):
        gt.load_config(str(tmp_path / "none.yaml"))
    path.write_text("rows:\n  shard:\n    axes: 0\n")
    with pytest.raises(shoal.FormatError, match="signals.yaml:3:5.*axes"):
        gt.load_config(str(path))


# ---- the document ----

# What the document's programs take for granted.
GIVEN = '''
import numpy
import numpy as np
class np(type(numpy)):  # the document writes np.array(...)
    array = staticmethod(lambda data: numpy.ones((3, 4), "float32") if data is ... else numpy.array(data))
def given():
    import gt
    class Model(gt.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = gt.nn.Linear(64, 8)
        def forward(self, x):
            return (self.layer(x) ** 2).mean()
    return Model(), gt.randn(100, 64), gt.randn(64, 32)
input_size, hidden_size, output_size = 8, 16, 2
'''


def run(code, folder):
    return documents.run(code, folder, GT_WORKER_BATCH_SIZE="10")


@documents.needs("003")
@pytest.mark.parametrize("line,code", documents.blocks("003", "python"), ids=lambda v: v if isinstance(v, int) else "")
def test_program_of_the_document(line, code, tmp_path, server):
    """Each block, byte for byte, after a preface with the names that it takes for granted."""
    yaml = next(text for _, text in documents.blocks("003", "yaml") if "forward_layer1" in text)
    (tmp_path / "config.yaml").write_text(yaml)
    (tmp_path / "sharding.yaml").write_text("layer1:\n  shard:\n    axis: 0\n")
    preface = GIVEN
    if "12345" in code:
        server(12345)
    elif re.search(r"\b(w|model|input|X_train|loss)\b", code):
        if "GT_CONFIG" in code:
            preface += "import os\nos.environ['GT_CONFIG'] = 'config.yaml'\n"
        preface += ("import gt\nmodel, input, w = given()\n"
                    "X_train, y_train = gt.randn(32, 784), gt.randn(32, 10)\n")
    elif "gt." in code and "import gt" not in code:
        preface += "import gt\n"
    after = "\nif 'result' in globals(): print('result', result.shape)\n" \
        "if 'data' in globals(): print('data', data.tolist())\n"
    out = run(preface + code + after, tmp_path)
    if "data = c.data.numpy()" in code:
        assert "data [6.0, 8.0, 10.0, 12.0]" in out
    if "a.grad.data.numpy()" in code:
        assert "[[2. 2. 2. 2.]" in out
    if "print_tape" in code:
        assert "Autograd Tape (2 operations):" in out and "Workers (1):" in out


@pytest.fixture
def server():
    """server(port): the document's commands, `python -m gt.server` and two workers."""
    started = []

    def start(port):
        started.append(subprocess.Popen([sys.executable, "-m", "gt.server", "-p", str(port)]))
        for i in range(2):
            started.append(subprocess.Popen(
                [sys.executable, "-m", "gt.worker", "--host", "localhost", "-p", str(port)],
                env={**os.environ, "CUDA_VISIBLE_DEVICES": str(i)}))
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                with_pool = shoal.Session(f"shm:gt-{port}")
                slots = len(with_pool.compute_slots())
                with_pool.close()
                if slots == 2:
                    return
            except shoal.ShoalError:
                pass
            time.sleep(0.1)
        pytest.fail("no server with two workers within 60 s")
    yield start
    for process in started[::-1]:
        process.terminate()
    for process in started:
        process.wait(60)


def test_server_and_workers(server, tmp_path):
    server(54321)
    out = run("import gt, shoal\ngt.connect('localhost:54321')\na = gt.ones(100, 50)\n"
              "print((a @ a.T).sum().item(), len(gt.debug.get_worker_stats()))\n", tmp_path)
    assert out == "500000.0 2\n"


def test_two_programs_at_once(tmp_path):
    """Each has its own pool, and its own numbers."""
    code = ("import gt, sys\nx = gt.ones(20, 20) * float(sys.argv[1])\n"
            "print((x @ x).sum().item())\n")
    (tmp_path / "p.py").write_text(code)
    running = [subprocess.Popen([sys.executable, tmp_path / "p.py", str(n)], stdout=subprocess.PIPE,
                                text=True) for n in (1, 2, 3)]
    assert [float(p.communicate(timeout=60)[0]) for p in running] == [8000.0, 32000.0, 72000.0]
