"""vmap at once: many functions of one index against PyTorch's, called for each; and that nothing is called
or recorded once per index where rules apply."""
import warnings

import numpy as np
import pytest
from peer import numpy_of, torch, torch_of

import shoal
from shoal import nn
from shoal.func import functional_call, grad, hessian, jacrev, vmap

RNG = np.random.default_rng(11)
N = 4
X, Y = (RNG.standard_normal((N, 3, 5)).astype("float32") for _ in range(2))
IMAGES = RNG.standard_normal((N, 2, 3, 6, 6)).astype("float32")
INDEX = RNG.integers(0, 5, (N, 3))

# Functions of (module, x, y), where x and y are [3, 5].
FUNCTIONS = {
    "elementwise": lambda t, x, y: (x.sin() * y.exp() + 2.0 - x / (y * y + 1)).tanh(),
    "broadcast": lambda t, x, y: x + y[0] * y[:, :1] + y.sum(),
    "compare": lambda t, x, y: t.where(x > y, x, -y) + (x < 0).float(),
    "clamp": lambda t, x, y: x.clamp(-0.5, 0.5) + t.clamp(y, min=0.1),
    "reduce": lambda t, x, y: x.sum(1) * y.mean(1) + x.amax(1) + y.prod(1) + x.std(1),
    "reduce all": lambda t, x, y: x.max() - y.min() + x.norm(),
    "argmax": lambda t, x, y: x.argmax(1) + y.argmin(1) + x.flatten().argmax(),
    "sort": lambda t, x, y: t.sort(x, dim=1).values + t.sort(y, dim=0, descending=True).values,
    "argsort": lambda t, x, y: x.argsort(1),
    "topk": lambda t, x, y: x.topk(2, dim=1).values + y.topk(2, dim=1).indices,
    "cumsum": lambda t, x, y: x.cumsum(0) + y.cumprod(1),
    "matmul": lambda t, x, y: x @ y.T,
    "matvec": lambda t, x, y: x @ y[0],
    "bmm": lambda t, x, y: t.matmul(x.reshape(3, 1, 5), y.reshape(3, 5, 1)),
    "einsum": lambda t, x, y: t.einsum("ij,kj->ik", x, y),
    "outer": lambda t, x, y: t.outer(x[0], y[1]),
    "transpose": lambda t, x, y: x.T.reshape(-1) - y.permute(1, 0).flatten(),
    "views": lambda t, x, y: x.unsqueeze(0).expand(2, 3, 5).reshape(6, 5).flip(0)[::2, 1:4],
    "cat": lambda t, x, y: t.cat([x, y[:1]], 0),
    "stack": lambda t, x, y: t.stack([x, y], -1),
    "roll": lambda t, x, y: t.roll(x, 1, 0) + y.tril(),
    "pad": lambda t, x, y: t.nn.functional.pad(x, (1, 2, 0, 1), value=3.0),
    "softmax": lambda t, x, y: t.softmax(x, -1) + t.log_softmax(y, 0),
    "layer_norm": lambda t, x, y: t.nn.functional.layer_norm(x, (5,), y[0], y[1]),
    "gelu": lambda t, x, y: t.nn.functional.gelu(x) + t.nn.functional.silu(y),
    "gather": lambda t, x, y: x.gather(1, (y.abs() * 2).long().clamp(0, 4)),
    "index": lambda t, x, y: x[:, (y[0] > 0).long()],
    "index_select": lambda t, x, y: x.index_select(0, t.tensor([2, 0])),
    "assign": lambda t, x, y: assigned(x.clone(), y),
    "scatter": lambda t, x, y: x.scatter_add(1, (y.abs() * 2).long().clamp(0, 4), y),
    "attention": lambda t, x, y: t.nn.functional.scaled_dot_product_attention(x[None], y[None], y[None])
    if hasattr(t.nn.functional, "scaled_dot_product_attention") else
    (x[None] @ y[None].transpose(1, 2) / 5 ** 0.5).softmax(-1) @ y[None],
    "cross_entropy": lambda t, x, y: t.nn.functional.cross_entropy(x, y.argmax(1)),
    "losses": lambda t, x, y: t.nn.functional.mse_loss(x, y) + t.nn.functional.smooth_l1_loss(x, y),
    "outside": lambda t, x, y: t.ones(3, 5) * 2 + x,
    "constant": lambda t, x, y: t.ones(3),
    "int": lambda t, x, y: (x * 10).long() // 3 + (y * 5).long() % 4,
    "bool": lambda t, x, y: (x > 0).any(1) & (y > 0).all(0)[:3],
    "linalg": lambda t, x, y: (x @ x.T + t.eye(3) * 9).trace() + t.linalg.vector_norm(y),
    "nan": lambda t, x, y: t.nan_to_num(x.log()) + y.isnan().float(),
}


def assigned(x, y):
    x[1] = y[0]
    x[:, 2] += 1
    x.mul_(2)
    return x


def close(got, want):
    got = got.detach()
    assert got.numpy().dtype == want.dtype, (got.dtype, want.dtype)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-5)


@pytest.fixture(autouse=True)
def quiet():
    """A function that is called for each index warns: an error here."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def rows(f, *arrays):
    """What PyTorch makes of each index, stacked."""
    return np.stack([numpy_of(f(torch, *(torch_of(a[i]) for a in arrays))) for i in range(len(arrays[0]))])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    f = FUNCTIONS[name]
    calls = []

    def counted(x, y):
        calls.append(x.shape)
        return f(shoal, x, y)
    x, y = shoal.tensor(X), shoal.tensor(Y)
    close(vmap(counted)(x, y), rows(f, X, Y))
    close(vmap(counted, in_dims=(0, None))(x, y[1]), rows(lambda t, a: f(t, a, torch_of(Y[1])), X))
    if name == "assign":  # as torch: what is the same for all does not become different
        with pytest.raises(RuntimeError, match="same for all"):
            vmap(counted, in_dims=(None, 0))(x[2], y)
    else:
        close(vmap(counted, in_dims=(None, 0))(x[2], y), rows(lambda t, b: f(t, torch_of(X[2]), b), Y))
    close(vmap(counted, in_dims=(1, 2), out_dims=-1)(x.movedim(0, 1), y.movedim(0, 2)),
          np.moveaxis(rows(f, X, Y), 0, -1))
    close(vmap(vmap(counted))(x.reshape(2, 2, 3, 5), y.reshape(2, 2, 3, 5)),
          rows(f, X, Y).reshape(2, 2, *rows(f, X, Y).shape[1:]))
    close(vmap(vmap(counted, (0, None)), (None, 0))(x, y[:2]), np.stack(
        [rows(lambda t, a, b=b: f(t, a, torch_of(b)), X) for b in Y[:2]]))
    assert calls == [(3, 5)] * 6


SMOOTH = [name for name in FUNCTIONS if name not in (
    "argmax", "argsort", "outside", "constant", "int", "bool", "nan", "compare", "index")]


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients(name):
    f = FUNCTIONS[name]

    def ours(x, y):
        return (f(shoal, x, y) ** 2).sum()

    def theirs(x, y):
        x, y = torch_of(x, True), torch_of(y, True)
        found = torch.autograd.grad((f(torch, x, y) ** 2).sum(), (x, y), allow_unused=True)
        return [np.zeros((3, 5), "float32") if g is None else numpy_of(g) for g in found]
    x, y = shoal.tensor(X), shoal.tensor(Y)
    uses_y = name not in ("views", "pad", "index_select")
    # Of an argument that differs, of one that is the same for all, and around the whole.
    close(vmap(grad(ours))(x, y), np.stack([theirs(a, b)[0] for a, b in zip(X, Y)]))
    close(vmap(grad(ours), in_dims=(None, 0))(x[0], y), np.stack([theirs(X[0], b)[0] for b in Y]))
    close(grad(lambda x: vmap(ours, in_dims=(0, None))(x, y[0]).sum())(x), np.stack([theirs(a, Y[0])[0] for a in X]))
    if uses_y:
        close(grad(lambda y: vmap(ours, in_dims=(0, None))(x, y).sum())(y[0]), sum(theirs(a, Y[0])[1] for a in X))


def net(t, x, k):
    F = t.nn.functional
    h = F.relu(F.conv2d(x, k, padding=1))
    h = F.max_pool2d(h, 2) + F.avg_pool2d(h, 2)
    return F.conv2d(h, k[:, :1].expand(4, 4, 3, 3), groups=1).flatten(1)


def test_convolutions():
    kernels = RNG.standard_normal((N, 4, 3, 3, 3)).astype("float32")
    images, k = shoal.tensor(IMAGES), shoal.tensor(kernels)

    def loss(t):
        return lambda k, x: (net(t, x, k) ** 2).mean()
    close(vmap(lambda x, k: net(shoal, x, k))(images, k), rows(net, IMAGES, kernels))
    close(vmap(lambda x: net(shoal, x, k[0]))(images), rows(lambda t, x: net(t, x, torch_of(kernels[0])), IMAGES))
    close(vmap(lambda k: net(shoal, images[0], k))(k), rows(lambda t, k: net(t, torch_of(IMAGES[0]), k), kernels))
    for ks in (k[0], k):
        found = vmap(grad(loss(shoal)), in_dims=(None if ks.ndim == 4 else 0, 0))(ks, images)
        for i in range(N):
            leaf = torch_of(kernels[0 if ks.ndim == 4 else i], True)
            loss(torch)(leaf, torch_of(IMAGES[i])).backward()
            close(found[i], numpy_of(leaf.grad))


def test_embedding_and_labels():
    table, rows_ = RNG.standard_normal((7, 5)).astype("float32"), INDEX
    w = shoal.tensor(table)
    found = vmap(grad(lambda w, i: nn.functional.embedding(i, w).pow(2).sum()), (None, 0))(w, shoal.tensor(rows_))
    for i in range(N):
        leaf = torch_of(table, True)
        torch.nn.functional.embedding(torch_of(rows_[i]), leaf).pow(2).sum().backward()
        close(found[i], numpy_of(leaf.grad))


def nodes_of(n):
    """How many operations the per-sample gradients of a network take for a batch of n."""
    shoal.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
    weights = {k: p.detach() for k, p in model.named_parameters()}

    def loss(p, x, label):
        return nn.functional.cross_entropy(functional_call(model, p, (x.unsqueeze(0),)), label.unsqueeze(0))
    each = vmap(grad(loss), in_dims=(None, 0, 0))(weights, shoal.ones(n, 5), shoal.zeros(n, dtype=shoal.int64))
    total = sum(g.sum() for g in each.values())
    return total.explain().count("node ")


def test_nodes_do_not_grow():
    few, many = nodes_of(2), nodes_of(512)
    assert few > 10 and many == few


def test_per_sample_gradients():
    shoal.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
    weights = {k: p.detach() for k, p in model.named_parameters()}
    labels = shoal.tensor([0, 2, 1])

    def loss(p, x, label):
        return nn.functional.cross_entropy(functional_call(model, p, (x.unsqueeze(0),)), label.unsqueeze(0))
    each = vmap(grad(loss), in_dims=(None, 0, 0))(weights, shoal.tensor(X[0]), labels)
    for i in range(3):
        model.zero_grad()
        nn.functional.cross_entropy(model(shoal.tensor(X[0, i:i + 1])), labels[i:i + 1]).backward()
        for name, p in model.named_parameters():
            assert not each[name].requires_grad
            close(each[name][i], p.grad.numpy())


def test_derivatives_around():
    """Derivatives of what vmap gives, through gradients within."""
    w, x = RNG.standard_normal(5).astype("float32"), X[0]

    def f(t):
        return lambda w, x: (w * x).sin().sum() ** 2
    ours = shoal.tensor(w, requires_grad=True)
    found = vmap(grad(f(shoal)), in_dims=(None, 0))(ours, shoal.tensor(x))
    assert found.requires_grad
    found.pow(2).sum().backward()
    theirs = torch_of(w, True)
    total = sum(torch.autograd.grad(f(torch)(theirs, torch_of(row)), theirs, create_graph=True)[0].pow(2).sum()
                for row in x)
    total.backward()
    close(ours.grad, numpy_of(theirs.grad))
    again = vmap(grad(lambda a: grad(lambda b: (b ** 3).sum())(a).sum()))(shoal.tensor(x))
    close(again, 6 * x)
    full = hessian(lambda w: f(shoal)(w, shoal.tensor(x[0])))(ours.detach())
    close(full, numpy_of(torch.autograd.functional.hessian(lambda w: f(torch)(w, torch_of(x[0])), torch_of(w))))
    each = vmap(jacrev(lambda a: a.sin().cumsum(0)))(shoal.tensor(x))
    close(each, np.stack([numpy_of(torch.autograd.functional.jacobian(lambda a: a.sin().cumsum(0), torch_of(row)))
                          for row in x]))
    cut = shoal.tensor(x, requires_grad=True)
    assert not vmap(lambda a: a.detach() * 2)(cut).requires_grad and vmap(lambda a: a * 2)(cut).requires_grad


def test_randomness():
    x = shoal.zeros(N, 50)

    def drawn(a):
        return a + shoal.rand(50)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(drawn)(x)
    same, different = vmap(drawn, randomness="same")(x).numpy(), vmap(drawn, randomness="different")(x).numpy()
    assert (same == same[0]).all() and len(np.unique(different)) > 150
    mask = vmap(lambda a: nn.functional.dropout(a + 1, 0.5), randomness="different")(x).numpy()
    assert 0.3 < (mask == 0).mean() < 0.7 and (mask != mask[0]).any()
    both = vmap(vmap(lambda a: a + shoal.rand(()), randomness="different"), randomness="same")(x[:2, :3]).numpy()
    assert (both[0] == both[1]).all() and len(np.unique(both)) == 3
    with pytest.raises(ValueError, match="randomness"):
        vmap(drawn, randomness="some")


def test_without_a_rule():
    """Values that are read, and operations without a rule: a call for each index, and a warning."""
    x = shoal.tensor(X)
    with pytest.warns(UserWarning, match="called for each of 4"):
        made = vmap(lambda a: a * 2 if a.sum() > 0 else -a)(x)
    close(made, np.stack([a * 2 if a.sum() > 0 else -a for a in X]))
    with pytest.warns(UserWarning, match="called for each of 4"):
        made = vmap(lambda a: a + shoal.rand(()) + a[0, 0].item() * 0, randomness="same")(x)
    made = made.numpy() - X
    assert np.ptp(made) < 1e-5


def test_arguments():
    x = shoal.tensor(X)
    close(vmap(lambda a: a.sum(), chunk_size=3)(x), X.sum((1, 2)))
    close(vmap(lambda a: (a, {"b": a + 1}), chunk_size=1, out_dims=1)(x)[1]["b"], np.moveaxis(X + 1, 0, 1))
    assert vmap(shoal.relu)(x[:0]).shape == (0, 3, 5)
    same = vmap(lambda a: shoal.ones(2), out_dims=None)(x)
    assert same.shape == (2,)
    with pytest.raises(ValueError, match="out_dims"):
        vmap(lambda a: a, out_dims=None)(x)
    with pytest.raises(TypeError, match="tensors are possible"):
        vmap(lambda a: 3.0)(x)
    kept = []
    vmap(lambda a: kept.append(a) or a)(x)
    with pytest.raises(shoal.UnsupportedError, match="one index of a batch"):
        kept[0].numpy()
    # In place: what differs is written to; what is the same for all cannot become different.
    changed = shoal.tensor(X)
    vmap(lambda a: a.add_(1))(changed)
    close(changed, X + 1)
    total = shoal.zeros(3, 5)
    with pytest.raises(RuntimeError, match="same for all indices"):
        vmap(lambda a: total.add_(a))(x)
    close(total, np.zeros((3, 5), "float32"))


def test_compiled():
    f = shoal.compile(lambda w, x: vmap(grad(lambda w, a: (w * a).sum() ** 2), (None, 0))(w, x))
    w = RNG.standard_normal(5).astype("float32")
    for row in X:
        close(f(shoal.tensor(w), shoal.tensor(row)), 2 * (w * row).sum(1, keepdims=True) * row)
