"""linalg against NumPy, in float32 to 1e-5 and float64 to 1e-10; gradients by finite differences; errors."""

import numpy as np
import pytest

import shoal

L = shoal.linalg
RNG = np.random.default_rng(3)


def matrices(*shape):
    return RNG.standard_normal(shape)


SQUARE = matrices(2, 5, 5) + 3 * np.eye(5)
POSITIVE = SQUARE @ SQUARE.swapaxes(-1, -2) / 5 + np.eye(5)
VALUES = {
    "inv": (lambda x: L.inv(x), np.linalg.inv, SQUARE), "det": (lambda x: L.det(x), np.linalg.det, SQUARE / 3),
    "cholesky": (lambda x: L.cholesky(x), np.linalg.cholesky, POSITIVE),
    "slogdet": (lambda x: L.slogdet(x).logabsdet, lambda a: np.linalg.slogdet(a)[1], SQUARE),
    "eigvalsh": (lambda x: L.eigvalsh(x), np.linalg.eigvalsh, POSITIVE),
    "svdvals": (lambda x: L.svdvals(x), lambda a: np.linalg.svd(a, compute_uv=False), matrices(2, 4, 3)),
    "pinv": (lambda x: L.pinv(x), np.linalg.pinv, matrices(2, 4, 3)),
    "solve": (lambda x: L.solve(x, x[..., :2] * 2), lambda a: np.linalg.solve(a, a[..., :2] * 2), SQUARE),
    "lstsq": (lambda x: L.lstsq(x, x[:, :2]).solution, lambda a: np.linalg.lstsq(a, a[:, :2], rcond=None)[0], matrices(6, 3)),
    "matrix_power": (lambda x: L.matrix_power(x, -2), lambda a: np.linalg.matrix_power(a, -2), SQUARE),
    "norm": (lambda x: L.norm(x), np.linalg.norm, matrices(4, 3)),
    "norm nuc": (lambda x: L.norm(x, "nuc"), lambda a: np.linalg.norm(a, "nuc"), matrices(4, 3)),
    "norm 2": (lambda x: L.norm(x, 2), lambda a: np.linalg.norm(a, 2), matrices(4, 3)),
    "norm -1": (lambda x: L.norm(x, -1), lambda a: np.linalg.norm(a, -1), matrices(4, 3)),
    "vector norm": (lambda x: L.vector_norm(x, 3, 1), lambda a: np.linalg.norm(a, 3, 1), matrices(4, 3)),
    "cond": (lambda x: L.cond(x), np.linalg.cond, SQUARE[0]), "cond 1": (lambda x: L.cond(x, 1), lambda a: np.linalg.cond(a, 1), SQUARE[0]),
    "multi_dot": (lambda x: L.multi_dot([x, x.mT, x]), lambda a: a @ a.T @ a, matrices(4, 3) / 2),
    "tensorinv": (lambda x: L.tensorinv(x.reshape(2, 2, 4), 2), lambda a: np.linalg.tensorinv(a.reshape(2, 2, 4)), SQUARE[0, :4, :4]),
    "tensorsolve": (lambda x: L.tensorsolve(x.reshape(2, 2, 4), x[:2, :2]), lambda a: np.linalg.tensorsolve(a.reshape(2, 2, 4), a[:2, :2]), SQUARE[0, :4, :4]),
}


def near(got, want, bound, scale=1.0):
    """Within a bound of the largest number that there is, or of a scale: of what was multiplied to get there."""
    want = np.asarray(want)
    np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=bound * max(scale, np.abs(want).max(initial=0)))


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("dtype,bound", [("float32", 1e-5), ("float64", 1e-10)])
def test_values(name, dtype, bound):
    ours, numpys, a = VALUES[name]
    a = a.astype(dtype)
    got, want = ours(shoal.tensor(a)), numpys(a.astype("float64"))
    assert got.dtype == dtype and got.shape == np.shape(want)
    near(got, want, bound)


@pytest.mark.parametrize("dtype,bound", [("float32", 1e-5), ("float64", 1e-10)])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3), (0, 3, 3)])
def test_factors_make_the_matrix(shape, dtype, bound):
    a = matrices(*shape).astype(dtype)
    x, k = shoal.tensor(a), min(shape[-2:])

    def same(made):
        near(made, a, bound)
    for full in (True, False):
        U, S, Vh = L.svd(x, full)
        same(U[..., :k] @ (S.unsqueeze(-1) * Vh[..., :k, :]))
    for mode in ("reduced", "complete"):
        Q, R = L.qr(x, mode)
        same(Q @ R)
        near(Q.mT @ Q, np.broadcast_to(np.eye(Q.shape[-1]), (Q.mT @ Q).shape), bound)
    P, lower, U = L.lu(x)
    same(P @ lower @ U)
    if shape[-1] == shape[-2] and shape[0]:
        w, V = L.eigh(x @ x.mT)
        near(V @ (w.unsqueeze(-1) * V.mT), a @ a.swapaxes(-1, -2), bound)
        b = matrices(*shape[:-1], 2).astype(dtype)
        for upper in (False, True):
            triangle = np.triu(a) if upper else np.tril(a)
            solved = L.solve_triangular(x, shoal.tensor(b), upper=upper)
            near(shoal.tensor(triangle) @ solved, b, bound, (np.abs(triangle) @ np.abs(solved.numpy())).max())
        LU, pivots = L.lu_factor(x)
        solved = L.lu_solve(LU, pivots, shoal.tensor(b))
        near(x @ solved, b, bound, (np.abs(a) @ np.abs(solved.numpy())).max())


def symmetric(x):
    return (x + x.mT) / 2


GRADIENTS = {
    "inv": (lambda x: L.inv(x), (2, 4, 4)), "det": (lambda x: L.det(x), (2, 4, 4)), "slogdet": (lambda x: L.slogdet(x).logabsdet, (4, 4)),
    "solve": (lambda x: L.solve(x[:, :4], x[:, 4:]), (4, 6)), "solve vector": (lambda x: L.solve(x[:, :4], x[:, 4]), (4, 5)),
    "solve broadcast": (lambda x: L.solve(x[:, :, :3], x[0, :, 3:]), (2, 3, 5)),
    "cholesky": (lambda x: L.cholesky(x @ x.mT + shoal.eye(4, dtype="float64")), (4, 4)),
    "triangular": (lambda x: L.solve_triangular(x[:, :3], x[:, 3:], upper=True), (3, 5)),
    "triangular unit": (lambda x: L.solve_triangular(x[:, :3], x[:, 3:], upper=False, unitriangular=True), (3, 5)),
    "qr tall": (lambda x: tuple(L.qr(x)), (5, 3)), "qr wide": (lambda x: tuple(L.qr(x)), (3, 5)), "qr": (lambda x: tuple(L.qr(x)), (2, 3, 3)),
    "eigh": (lambda x: (L.eigh(symmetric(x)).eigenvalues, L.eigh(symmetric(x)).eigenvectors ** 2), (4, 4)),
    "svd": (lambda x: (L.svd(x, False).S, L.svd(x, False).U ** 2, L.svd(x, False).Vh ** 2), (4, 4)),
    "svd tall": (lambda x: (L.svd(x, False).S, L.svd(x, False).U ** 2, L.svd(x, False).Vh ** 2), (5, 3)),
    "svd wide": (lambda x: (L.svd(x, False).S, L.svd(x, False).U ** 2, L.svd(x, False).Vh ** 2), (3, 5)),
    "pinv": (lambda x: L.pinv(x), (4, 3)), "lstsq": (lambda x: L.lstsq(x[:, :3], x[:, 3:]).solution, (6, 5)),
    "lu": (lambda x: tuple(L.lu(x))[1:], (4, 4)), "matrix_exp": (lambda x: L.matrix_exp(x / 3), (3, 3)),
    "norms": (lambda x: (L.norm(x, "nuc"), L.norm(x, 2), L.norm(x, 1)), (4, 3)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    function, shape = GRADIENTS[name]
    x = shoal.tensor(matrices(*shape)).requires_grad_()
    assert shoal.autograd.gradcheck(function, (x,), eps=1e-6, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", ["inv", "det", "cholesky", "solve"])
def test_gradients_of_gradients(name):
    function, shape = GRADIENTS[name]
    x = shoal.tensor(matrices(*shape)[..., :4, :] if len(shape) < 3 else matrices(2, 3, 3)).requires_grad_()
    assert shoal.autograd.gradgradcheck(function, (x,), atol=1e-4, rtol=1e-4)


def test_a_singular_matrix_has_a_gradient_of_its_determinant():
    x = shoal.tensor([[1.0, 2.0], [2.0, 4.0]], dtype="float64").requires_grad_()
    L.det(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), [[4, -2], [-2, 1]], atol=1e-9)


def test_errors():
    singular = shoal.tensor([[1.0, 2.0], [2.0, 4.0]])
    for call in (L.inv, lambda x: L.solve(x, x), lambda x: L.cholesky(-x)):
        with pytest.raises(L.LinAlgError, match=r"float32\[2, 2\]"):
            call(singular)
    assert issubclass(L.LinAlgError, RuntimeError)
    with pytest.raises(L.LinAlgError, match=r"^inv: float32\[2, 2\]: a matrix is singular"):
        L.inv(singular)
    with pytest.raises(shoal.InvalidError, match=r"inv: float32\[2, 3\]; square matrices are needed"):
        L.inv(shoal.zeros(2, 3))
    with pytest.raises(shoal.InvalidError, match="float32 or float64 is needed"):
        L.qr(shoal.zeros(2, 2, dtype="int64"))
    assert L.inv_ex(singular).info.item() == 1 and L.cholesky_ex(-singular).info.item() == 1
    assert L.matrix_rank(singular).item() == 1


def test_low_rank():
    rng = np.random.default_rng(8)
    a = (rng.standard_normal((12, 4)) @ rng.standard_normal((4, 9))).astype("float32")
    x = shoal.tensor(a)
    shoal.manual_seed(3)
    for q in (4, 6):
        u, s, v = shoal.svd_lowrank(x, q)
        assert u.shape == (12, q) and s.shape == (q,) and v.shape == (9, q)
        np.testing.assert_allclose(((u * s) @ v.T).numpy(), a, atol=2e-4)
        np.testing.assert_allclose(s.numpy()[:4], np.linalg.svd(a)[1][:4], rtol=1e-4)
    u, s, v = shoal.pca_lowrank(x, 4)
    centered = a - a.mean(0)
    np.testing.assert_allclose(((u * s) @ v.T).numpy(), centered, atol=2e-4)
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(centered)[1][:4], rtol=1e-4)
    with pytest.raises(shoal.ShoalError, match="svd_lowrank: q is 10; float32.12, 9. has 9 singular values"):
        shoal.svd_lowrank(x, 10)


def test_lobpcg():
    rng = np.random.default_rng(9)
    a, b = rng.standard_normal((2, 7, 7))
    a, b = a + a.T, b @ b.T + 7 * np.eye(7)
    values = np.sort(np.linalg.eigvals(np.linalg.solve(b, a)).real)
    for largest, want in ((True, values[::-1][:2]), (False, values[:2])):
        found, vectors = shoal.lobpcg(shoal.tensor(a), 2, shoal.tensor(b), largest=largest)
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-9)
        np.testing.assert_allclose(a @ vectors.numpy(), b @ vectors.numpy() * found.numpy(), atol=1e-9)
    found, _ = shoal.lobpcg(shoal.tensor(a))
    np.testing.assert_allclose(found.numpy(), np.linalg.eigvalsh(a)[-1:], rtol=1e-9)


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_triangular_solve(upper, transpose):
    a, b = SQUARE[0], matrices(5, 2)
    found = shoal.triangular_solve(shoal.tensor(b), shoal.tensor(a), upper=upper, transpose=transpose)
    read = np.triu(a) if upper else np.tril(a)
    near(found.solution, np.linalg.solve(read.T if transpose else read, b), 1e-10)
    np.testing.assert_array_equal(found.cloned_coefficient.numpy(), a)
