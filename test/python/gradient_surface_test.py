"""Gradients through the surface of tensors, by finite differences in float64."""
import itertools

import numpy as np
import pytest

import shoal

RNG = np.random.default_rng(9)


def normal(*shape):
    return RNG.standard_normal(shape)


def weighted(value, weights):
    return (value * shoal.tensor(weights)).sum()


def check(function, *arrays, step=1e-6, tolerance=1e-6):
    """The gradient of a weighted sum of the results against differences quotients, all arguments."""
    leaves = [shoal.tensor(a).requires_grad_() for a in arrays]
    made = function(*leaves)
    weights = RNG.standard_normal(made.shape)
    weighted(made, weights).backward()

    def value(at):
        with shoal.no_grad():
            return weighted(function(*map(shoal.tensor, at)), weights).item()
    for i, (leaf, a) in enumerate(zip(leaves, arrays)):
        got = leaf.grad.numpy() if leaf.grad is not None else np.zeros_like(a)
        places = list(np.ndindex(a.shape))
        for at in places if len(places) < 13 else [places[k] for k in RNG.choice(
                len(places), 12, replace=False)]:
            ends = []
            for sign in (1, -1):
                moved = [b.copy() for b in arrays]
                moved[i][at] += sign * step
                ends.append(value(moved))
            want = (ends[0] - ends[1]) / (2 * step)
            assert abs(got[at] - want) <= tolerance * max(1, abs(want)), (i, at, got[at], want)


INDEX = np.array([[2, 0, 1, 1], [0, 0, 2, 1], [1, 2, 2, 0]])


def set_item(key, op=None):
    def function(x, v):
        y = x * 1
        if op:
            y[key] += v
        else:
            y[key] = v
        return y * y
    return function


FUNCTIONS = {
    "slices": (lambda x: x[1:, ::-2] * x[0, ::-2], (3, 4)),
    "array": (lambda x: x[[0, 2, 2]] * x[:, [1]], (3, 4)),
    "arrays": (lambda x: x[[0, 2, 1], [1, 1, 3]], (3, 4)),
    "new axes": (lambda x: x[None, ..., None, 1], (3, 4)),
    "mask": (lambda x: x[np.eye(3, 4, dtype=bool)], (3, 4)),
    "set slice": (set_item(np.s_[1:, 2]), (3, 4), (2,)),
    "set strided": (set_item(np.s_[::2, ::-1]), (3, 4), (2, 4)),
    "set array": (set_item(([0, 2], [1, 3])), (3, 4), (2,)),
    "set row": (set_item(1), (3, 4), (4,)),
    "add to slice": (set_item(np.s_[:, 1:3], "add"), (3, 4), (3, 2)),
    "masked fill": (lambda x: x.masked_fill(shoal.tensor(INDEX > 1), 2) * x, (3, 4)),
    "where": (lambda x, y: shoal.where(shoal.tensor(INDEX > 1), x, y * y), (3, 4), (1, 4)),
    "take along": (lambda x: x.take_along(INDEX, 0), (3, 4)),
    "gather": (lambda x: x.gather(0, INDEX[:2, :3]), (3, 4)),
    "scatter": (lambda x, y: x.scatter(1, [[0, 3], [1, 2], [2, 0]], y) ** 2, (3, 4), (3, 2)),
    "scatter add": (lambda x, y: x.scatter_add(0, INDEX, y) ** 2, (3, 4), (3, 4)),
    "index add": (lambda x, y: x.index_add(1, [1, 1], y) ** 2, (3, 4), (3, 2)),
    "shapes": (lambda x: x.unsqueeze(1).expand(-1, 2, -1).transpose(0, 2).flatten(1) ** 2, (3, 4)),
    "repeat": (lambda x: x.repeat(2, 1, 2).roll(1, 1) * x.repeat_interleave(2, 1), (3, 4)),
    "cat": (lambda x, y: shoal.cat([x, y[:, :1], x], 1) ** 2, (3, 4), (3, 2)),
    "stack and split": (lambda x: shoal.stack(x.split([1, 3], 1)[1].unbind(0), 1) ** 2, (3, 4)),
    "diagonal": (lambda x: x.diagonal(1) * x.diag(), (3, 4)),
    "diag": (lambda x: x.diag(-1) ** 2, (4,)),
    "tril": (lambda x: x.tril() @ x.triu(1).mT, (3, 4)),
    "unfold": (lambda x: x.unfold(1, 3, 1) ** 2, (3, 4)),
    "var": (lambda x: x.var(dim=1) + x.std(0, True).sum(), (3, 4)),
    "extremes": (lambda x: x.max(dim=1).values * x.amin(1) + x.max() * x.min(), (3, 4)),
    "prod": (lambda x: x.prod(1), (3, 4)),
    "logsumexp": (lambda x: x.logsumexp((0, 1)) + x.logsumexp(0).sum(), (3, 4)),
    "norms": (lambda x: x.norm() + x.norm(3, 1).sum() + x.norm(1) + x.norm(float("inf")), (3, 4)),
    "cumulative": (lambda x: x.cumsum(1) * x.cumprod(0), (3, 4)),
    "sort": (lambda x: x.sort(1).values * x.topk(4).values, (3, 4)),
    "median": (lambda x: x.median(axis=1) + x.median(axis=None), (3, 4)),
    "matmul": (lambda x, y: x @ y, (2, 1, 3, 4), (5, 4, 2)),
    "vectors": (lambda x, y: x @ y + y @ x, (4,), (4,)),
    "einsum": (lambda x, y: shoal.einsum("bij,jk,bk->i", x, y, x[:, 0, :2]), (2, 3, 4), (4, 2)),
    "einsum trace": (lambda x: shoal.einsum("ii", x) * shoal.einsum("ij->j", x), (4, 4)),
    "powers": (lambda x: x ** 2 + x ** 3 + 2.0 ** x + (x * x + 1) ** -0.5, (3, 4)),
    "arithmetic": (lambda x, y: (1 - x) / (y * y + 2) + x % 1 + (x - y).abs(), (3, 4), (4,)),
    "names": (lambda x, y: x.lerp(y, 0.3) + x.logaddexp(y) + x.sinh() * y.cosh() + x.exp2(),
              (3, 4), (3, 4)),
    "in place": (lambda x: (x * 2).add_(1).mul_(x).clamp_(min=-1), (3, 4)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient(name):
    function, *shapes = FUNCTIONS[name]
    check(function, *(normal(*shape) for shape in shapes))


def test_norm_at_zero_has_no_gradient():
    x = shoal.zeros(3).requires_grad_()
    x.norm().backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_in_place_on_a_leaf():
    x = shoal.ones(3).requires_grad_()
    for change in (lambda: x.add_(1), lambda: x.__setitem__(0, 2.0)):
        with pytest.raises(shoal.InvalidError, match="leaf"):
            change()
    with shoal.no_grad():
        x.add_(1)
        x[0] = 5.0
    assert x.is_leaf and x.requires_grad and x.tolist() == [5, 2, 2]
    (x * x).sum().backward()
    assert x.grad.tolist() == [10, 4, 4]


@pytest.mark.parametrize("shapes", itertools.product([(), (1,), (3, 1)], [(4,), (3, 4)]))
def test_broadcasting(shapes):
    check(lambda x, y: x * y + x - y / (x * x + 1), *(normal(*s) for s in shapes))
