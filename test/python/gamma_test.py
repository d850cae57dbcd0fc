"""The incomplete gamma functions against SciPy, over thirteen powers of ten, and their gradients against torch."""
import numpy as np
import pytest
from peer import numpy_of, torch, torch_of
from scipy import special as scipy_special

import shoal


def operands():
    """a, and x around it and far from it."""
    pairs = [(a, x) for a in 10 ** np.linspace(-8, 5, 150)
             for x in (*a * np.array([1e-6, 0.01, 0.3, 0.9, 0.99, 1, 1.01, 1.1, 3, 30]), 1e-3, 0.5, 1, 1.1, 20, 300)]
    return np.array(pairs).T.copy()


@pytest.mark.parametrize("dtype, limit", [("float64", 1e-12), ("float32", 2e-7)])
@pytest.mark.parametrize("name, of", [("igamma", "gammainc"), ("igammac", "gammaincc")])
def test_values(name, of, dtype, limit):
    a, x = operands().astype(dtype)
    want = getattr(scipy_special, of)(a.astype("float64"), x.astype("float64"))
    got = getattr(shoal, name)(shoal.tensor(a), shoal.tensor(x))
    assert got.dtype == dtype and np.abs(got.numpy() - want).max() < limit
    np.testing.assert_array_equal(getattr(shoal.special, of)(shoal.tensor(a), shoal.tensor(x)).numpy(), got.numpy())


def test_edges():
    edges = np.array([0, 1.0, -1.0, np.inf, 50, 150, np.nan])
    a, x = (m.ravel() for m in np.meshgrid(edges, edges))
    for name, of in (("igamma", "gammainc"), ("igammac", "gammaincc")):
        np.testing.assert_allclose(getattr(shoal.tensor(a), name)(shoal.tensor(x)).numpy(),
                                   getattr(scipy_special, of)(a, x), 1e-10)


def test_gradients():
    a, x = np.array([[1.5], [3.0], [20.0], [150.0]]), np.array([0.5, 2.0, 30.0, 160.0])
    for name in ("igamma", "igammac"):
        mine, its = shoal.tensor(x).requires_grad_(), torch_of(x, True)
        (getattr(shoal, name)(shoal.tensor(a), mine) * shoal.tensor(a)).sum().backward()
        (getattr(torch, name)(torch_of(a), its) * torch_of(a)).sum().backward()
        np.testing.assert_allclose(mine.grad.numpy(), numpy_of(its.grad), 1e-9, 1e-12)
    a = shoal.tensor([2.0], requires_grad=True)
    with pytest.raises(shoal.UnsupportedError, match="igamma: there is no gradient with respect to its first operand"):
        shoal.igamma(a, shoal.tensor([1.0])).sum().backward()
