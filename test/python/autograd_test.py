"""Gradients: torch's semantics, values against closed forms in NumPy. With SHOAL_HUB set, on a pool."""
import gc

import numpy as np
import pytest

import shoal

RNG = np.random.default_rng(5)


def leaf(*shape, dtype="float64"):
    return shoal.tensor(RNG.standard_normal(shape).astype(dtype)).requires_grad_()


def near(got, want, tolerance=1e-9):
    np.testing.assert_allclose(got.numpy(), want, rtol=tolerance, atol=tolerance)


# ---- values ----

def test_a_layer():
    x, w, b = RNG.standard_normal((5, 3)), leaf(3, 4), leaf(4)
    loss = (shoal.tensor(x) @ w + b).tanh().sum()
    assert repr(loss).endswith("grad_fn=<reduce>)") and not loss.is_leaf and loss.requires_grad
    loss.backward()
    slope = 1 - np.tanh(x @ w.numpy() + b.numpy()) ** 2
    near(w.grad, x.T @ slope)
    near(b.grad, slope.sum(0))


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_linear_model(outputs):
    """The gradient of a sum is one element repeated, which reaches the product as a view."""
    x = np.array([[1, 2], [3, 4], [5, 6]], "float32")
    w = shoal.ones(2, outputs).requires_grad_()
    (shoal.tensor(x) @ w).sum().backward()
    assert w.grad.tolist() == [[9] * outputs, [12] * outputs]


def test_a_column_of_a_matrix_times_a_matrix():
    """A column lies with a stride, which a product with a vector has to heed."""
    x, w = RNG.standard_normal((33, 40)), RNG.standard_normal((40, 5))
    near(shoal.tensor(x) @ shoal.tensor(w)[:, 2:3], x @ w[:, 2:3])
    near(shoal.tensor(w).T[2:3] @ shoal.tensor(x).T, w.T[2:3] @ x.T)
    near(shoal.tensor(x)[:, 3] @ shoal.tensor(x), x[:, 3] @ x)


def test_broadcasting_sums():
    a, b = leaf(3, 1, 4), leaf(2, 1)
    (a * b).sum().backward()
    near(a.grad, np.broadcast_to(b.numpy().sum(), (3, 1, 4)))
    near(b.grad, np.broadcast_to(a.numpy().sum(), (2, 1)))


def test_several_uses_and_accumulation():
    x = leaf(4)
    (x * x + x).sum().backward()
    near(x.grad, 2 * x.numpy() + 1)
    kept = x.grad
    (3 * x).sum().backward()
    near(x.grad, 2 * x.numpy() + 4)
    assert x.grad is kept  # whoever holds the gradient sees the sum
    x.grad = None
    assert x.grad is None


def test_seeds():
    x, seed = leaf(2, 3), RNG.standard_normal((2, 3))
    x.exp().backward(shoal.tensor(seed))
    near(x.grad, np.exp(x.numpy()) * seed)
    (gradient,) = shoal.grad(x.exp(), x, seed)
    near(gradient, np.exp(x.numpy()) * seed)
    a, b = shoal.grad((x * 2, x * 3), (x, x), (shoal.tensor(seed), shoal.ones_like(x)))
    near(a, 2 * seed + 3)
    near(b, 2 * seed + 3)


def test_higher_orders():
    x = leaf(3)
    y, want = (x ** 5).sum(), 5 * x.numpy() ** 4
    for order in (4, 3, 2, 1):
        (gradient,) = shoal.grad(y, x, create_graph=True)
        near(gradient, want, 1e-6)
        y, want = gradient.sum(), want / x.numpy() * order
    w, ones = leaf(2, 2), np.ones((2, 2))
    (first,) = shoal.grad((w @ w).sum(), w, create_graph=True)
    near(first, ones @ w.numpy().T + w.numpy().T @ ones)
    (first * first).sum().backward()
    seed = 2 * first.numpy()
    near(w.grad, (ones.T @ seed).T + (seed @ ones.T).T)


def test_intermediate_and_watched_results():
    x = leaf(3)
    middle = x * 2
    middle.retain_grad()
    out = middle ** 2
    (of_middle,) = shoal.grad(out.sum(), middle, retain_graph=True)
    near(of_middle, 4 * x.numpy())
    out.sum().backward()
    near(middle.grad, 4 * x.numpy())
    near(x.grad, 8 * x.numpy())
    assert middle.retains_grad and not x.retains_grad


# ---- semantics ----

def test_requires_grad_spreads():
    x, y = leaf(2), shoal.ones(2, dtype="float64")
    assert x.is_leaf and x.requires_grad and y.is_leaf and not y.requires_grad
    assert (x + y).requires_grad and not (y + y).requires_grad
    assert x.grad_fn is None and (x + y).grad_fn.name() == "add"
    assert not (x > 0).requires_grad and not x.argmax().requires_grad
    assert not x.detach().requires_grad and not x.data.requires_grad
    assert x.floor().requires_grad  # its gradient is 0, as in torch
    y.requires_grad = True
    assert y.requires_grad
    y.requires_grad = False
    assert not y.requires_grad
    near(x.detach(), x.numpy())


def test_modes():
    x = leaf(2)
    with shoal.no_grad():
        assert not (x * 2).requires_grad and not shoal.is_grad_enabled()
        with shoal.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert shoal.is_grad_enabled()

    @shoal.no_grad()
    def inside(t):
        return t * 2

    @shoal.no_grad
    def also(t):
        return t * 2
    assert not inside(x).requires_grad and not also(x).requires_grad
    with shoal.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_in_place():
    x = leaf(3)
    with pytest.raises(shoal.InvalidError, match="leaf that requires gradients"):
        x += 1
    with pytest.raises(shoal.InvalidError, match="leaf that requires gradients"):
        x.zero_()
    before, same = x.numpy(), x
    loss = (x * x).sum()
    with shoal.no_grad():
        x -= 0.5 * x
    assert x is same and x.is_leaf and x.requires_grad
    loss.backward()  # of the value that x had then
    near(x.grad, 2 * before)
    near(x, before / 2)
    y = x * 1
    y *= 3
    y += x
    y.sum().backward()
    near(x.grad, 2 * before + 4)


def test_a_leaf_changed_between_two_uses():
    x = leaf(2)
    first = x.numpy()
    a = (x ** 2).sum()
    with shoal.no_grad():
        x.mul_(10)
    (a + (x ** 3).sum()).backward()
    near(x.grad, 2 * first + 3 * (10 * first) ** 2)


def test_detach():
    x = leaf(3)
    y = (x * 2).detach() * x
    y.sum().backward()
    near(x.grad, 2 * x.numpy())
    z = x * 2
    assert z.detach_() is z and z.is_leaf and not z.requires_grad
    x.detach_()
    assert not x.requires_grad


# ---- errors ----

def test_errors():
    x = leaf(2, 3)
    with pytest.raises(shoal.InvalidError, match=r"float64\[2, 3\]; a gradient of it must be given"):
        (x * 2).backward()
    with pytest.raises(shoal.InvalidError, match=r"the seed is float64\[3\]; the output is float64\[2"):
        (x * 2).backward(shoal.ones(3, dtype="float64"))
    with pytest.raises(shoal.InvalidError, match="does not derive from a tensor that requires"):
        shoal.ones(2).sum().backward()
    with pytest.raises(shoal.InvalidError, match="floating-point types have gradients, not int64"):
        shoal.tensor([1, 2]).requires_grad_()
    y = (x * x).sum()
    y.backward()
    with pytest.raises(shoal.InvalidError, match="retain_graph"):
        y.backward()
    z = (x * x).sum()
    z.backward(retain_graph=True)
    z.backward()
    other = leaf(2)
    with pytest.raises(shoal.InvalidError, match="no output derives from input 1"):
        shoal.grad((x * x).sum(), (x, other))
    gradient, none = shoal.grad((x * x).sum(), (x, other), allow_unused=True)
    assert none is None
    near(gradient, 2 * x.numpy())
    with pytest.raises(shoal.InvalidError, match="does not require gradients"):
        shoal.grad((x * x).sum(), shoal.ones(2))
    with pytest.raises(shoal.InvalidError, match="only of leaves"):
        (x * 2).requires_grad_(False)
    with pytest.raises(shoal.InvalidError, match="grad: float64"):
        x.grad = shoal.ones(7, dtype="float64")


def test_a_missing_gradient_names_operation_and_line():
    x = leaf(4, dtype="float32")
    y = x.bitcast("float32").sum()
    with pytest.raises(shoal.UnsupportedError, match=r"bitcast_convert \(autograd_test.py:\d+\)"):
        y.backward()


# ---- cost ----

def test_forward_values_are_used():
    """What was computed and read before backward is not computed again."""
    x = leaf(64, 64, dtype="float32")
    y = (x @ x).exp()
    loss = y.sum()
    loss.item()
    nodes = sum(slot.nodes for slot in shoal.status().slots)
    loss.backward()
    x.grad.numpy()
    assert sum(slot.nodes for slot in shoal.status().slots) - nodes <= 8


def test_checkpoint():
    x, w = leaf(8, 8), leaf(8, 8)

    def block(t):
        return ((t @ w).tanh() @ w).sigmoid()
    want = shoal.grad(block(block(x)).sum(), (x, w))
    for read in (False, True):
        y = shoal.checkpoint(block, shoal.checkpoint(block, x)).sum()
        if read:
            y.item()
        for got, expected in zip(shoal.grad(y, (x, w)), want):
            near(got, expected.numpy())


def test_steps_are_one_program_each():
    x = shoal.tensor(RNG.standard_normal((16, 8)).astype("float32"))
    y = shoal.tensor(RNG.standard_normal((16, 1)).astype("float32"))
    w, b = leaf(8, 1, dtype="float32"), leaf(1, dtype="float32")
    instances, losses = [], []
    for step in range(30):
        loss = ((x @ w + b - y) ** 2).mean()
        for p in (w, b):
            p.grad = None
        loss.backward()
        with shoal.no_grad():
            for p in (w, b):
                p -= 0.05 * p.grad
        losses.append(loss.item())
        instances.append(shoal.status().instances)
    assert set(np.diff(instances[3:])) == {1}
    assert losses[-1] < 0.5 * losses[0]


def test_nothing_is_left():
    x = leaf(32, 32)
    for _ in range(3):
        ((x @ x).tanh().sum()).backward()
        x.grad = None
    gc.collect()
    shoal.sync()
    values = shoal.status().values
    for _ in range(20):
        ((x @ x).tanh().sum()).backward()
        x.grad = None
        shoal.sync()
    assert shoal.status().values <= values + 1
