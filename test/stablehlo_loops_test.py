"""Gradients through loops of StableHLO whose rounds are counted: those of JAX."""
import numpy as np
import pytest

import quick_xla  # noqa: F401

jax = pytest.importorskip("jax")
jax.config.update("jax_platforms", "cpu")
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

import shoal  # noqa: E402

shoal.init(workers=1, backend="cpu")


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


X, W, V = numbers(4, 6), numbers(6, 6, seed=1) / 3, numbers(6, seed=2)
SHORT = numbers(3, 6, seed=3)


def rnn(h, xs, w):
    h, ys = lax.scan(lambda h, x: (jnp.tanh(h @ w + x), (h * x).sum()), h, xs)
    return (h ** 2).sum() + (ys ** 3).sum()


def tuples(a, b, w):
    """Carried tuples: of floats, of a bool, of an integer, and one that stays."""
    def body(i, c):
        a, (b, n, sign) = c
        return jnp.sin(a @ w) + b, (a * jnp.where(sign, 0.5, 0.25) * n, n + 2, ~sign)
    a, (b, _, _) = lax.fori_loop(0, 5, body, (a, (b, jnp.int32(1), True)))
    return (a * b).sum()


def nested(x, w):
    def outer(i, x):
        y = lax.fori_loop(0, 3, lambda j, y: jnp.tanh(y @ w) + 0.1 * (i + j), x)
        return lax.cond(i % 2 == 0, lambda y: y * 1.5, lambda y: y - x, y)
    return lax.fori_loop(1, 4, outer, x).sum()


def scan_in_scan(xs, w):
    def inner(c, x):
        c, ys = lax.scan(lambda c, v: (c * v + x.sum(), c), jnp.float32(0.5), x)
        return c, ys.mean()
    return sum((y ** 2).sum() for y in lax.scan(lambda c, x: inner(c, x @ w), jnp.float32(0), xs))


def adam(p, x):
    """Three steps of an optimizer, through which the gradient of its start passes: gradients inside, by JAX."""
    def loss(p):
        return ((x @ p) ** 2).mean()

    def step(i, c):
        p, m, v = c
        g = jax.grad(loss)(p)
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        return p - 0.05 * m / (jnp.sqrt(v) + 1e-3), m, v
    return loss(lax.fori_loop(0, 3, step, (p, jnp.zeros_like(p), jnp.zeros_like(p)))[0])


CASES = {
    "scan": (rnn, V, X, W),
    "scan from the end": (lambda h, xs: lax.scan(lambda h, x: (h * x, h), h, xs, reverse=True)[1].sum(), V, X),
    "scan with many": (lambda h, xs, w: lax.scan(lambda h, x: ({"a": h["b"] * x, "b": h["a"] @ w}, None),
                                                 {"a": h, "b": h * 2}, xs)[0]["a"].sum(), V, X, W),
    "scan that is a power": (lambda h, xs: lax.scan(lambda h, x: (h * x, ()), h, xs)[0].prod(), V, X),
    "tuples": (tuples, SHORT, SHORT + 1, W),
    "nested": (nested, SHORT, W),
    "scan in scan": (scan_in_scan, X, W),
    "steps of an optimizer": (adam, V, X),
    "downwards": (lambda x: lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 2, jnp.sin(c[1]) * c[0]), (7, x))[1].sum(), SHORT),
    "at least": (lambda x: lax.while_loop(lambda c: 5 >= c[0], lambda c: (c[0] + 2, c[1] * x + c[0]), (0, x))[1].sum(), SHORT),
    "until": (lambda x: lax.while_loop(lambda c: c[0] != 9, lambda c: (3 + c[0], c[1] * x), (jnp.uint8(0), x))[1].sum(), SHORT),
    "not once": (lambda x: lax.while_loop(lambda c: c[0] < 0, lambda c: (c[0] + 1, c[1] * x), (3, x))[1].sum(), SHORT),
    "once": (lambda x: lax.fori_loop(4, 5, lambda i, y: jnp.exp(y * x) + i, x).sum(), SHORT),
    "a result that is not used": (lambda x: lax.fori_loop(0, 3, lambda i, c: (c[0] * x, c[1] + c[0]), (x, x))[0].sum(), SHORT),
    "what counts is a bound, too": (lambda x: lax.while_loop(lambda c: c[0] < c[2], lambda c: (c[0] + 1, jnp.sin(c[1]), c[2]),
                                                             (0, x, 4))[1].sum(), SHORT),
    "many rounds": (lambda x: lax.fori_loop(0, 200, lambda i, y: y - 0.01 * jnp.sin(y) * x, x).sum(), SHORT),
}


def expected(function, arguments):
    """JAX has no gradients of loops that it cannot turn into a scan: then by the same loop, written out."""
    try:
        return jax.jit(jax.grad(function, tuple(range(len(arguments)))))(*arguments)
    except ValueError:
        was, lax.while_loop = lax.while_loop, written_out
        try:
            return jax.grad(function, tuple(range(len(arguments))))(*arguments)
        finally:
            lax.while_loop = was


def written_out(condition, body, carried):
    while condition(carried):
        carried = body(carried)
    return carried


def equal(got, want):
    want = np.asarray(want)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4 * max(1, np.abs(want).max(initial=0)))


def exported(function, arguments):
    return shoal.stablehlo.load(jax.jit(function, keep_unused=True).lower(*arguments).as_text())


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    function, *arguments = CASES[name]
    model = exported(function, arguments)
    want = expected(function, arguments)
    both = model.gradient()
    value, *got = both(*arguments)
    np.testing.assert_allclose(value.numpy(), jax.jit(function)(*arguments), rtol=1e-5)
    for x, y in zip(got, want, strict=True):
        equal(x, y)
    # Written and read again, and through tensors that require gradients.
    for x, y in zip(shoal.stablehlo.load(both.text())(*arguments)[1:], want, strict=True):
        equal(x, y)
    tensors = [shoal.tensor(x, requires_grad=True) for x in arguments]
    model(*tensors).backward()
    for x, y in zip(tensors, want):
        equal(x.grad, y)


@pytest.mark.parametrize("name", ["scan", "nested", "tuples"])
def test_second_derivatives(name):
    function, *arguments = CASES[name]
    n = len(arguments)
    model = exported(function, arguments).gradient()

    def weighted(*arguments):
        return sum(jnp.sin(g).sum() for g in jax.grad(function, tuple(range(n)))(*arguments))
    want = jax.jit(jax.grad(weighted, tuple(range(n))))(*arguments)
    tensors = [shoal.tensor(x, requires_grad=True) for x in arguments]
    sum(g.sin().sum() for g in model(*tensors)[1:]).backward()
    for x, y in zip(tensors, want):
        equal(x.grad, y)


def test_accumulators_are_not_kept():
    """What a scan stacks up is not read on the way back: keeping it for each round would take 4 GB here."""
    def function(h, xs):
        return lax.scan(lambda h, x: (jnp.tanh(h + x), h), h, xs)[1].sum()
    h, xs = numbers(1000), numbers(1000, 1000, seed=1)
    value, *got = exported(function, (h, xs)).gradient()(h, xs)
    for x, y in zip(got, jax.jit(jax.grad(function, (0, 1)))(h, xs)):
        equal(x, y)


@pytest.mark.parametrize("function", [
    lambda x: lax.while_loop(lambda c: c[0] < 3., lambda c: (c[0] + 1, c[1] * x), (0., x))[1].sum(),
    lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c * x, x + 1).sum(),
    lambda x: lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] * 2, c[1] * x), (1, x))[1].sum(),
    lambda x: lax.fori_loop(0, x.argmax(), lambda i, y: y * x, x).sum(),
    lambda x: lax.while_loop(lambda c: c[0] < 250, lambda c: (c[0] + 20, c[1] * x), (jnp.uint8(0), x))[1].sum(),
    lambda x: lax.while_loop(lambda c: c[0] != 5, lambda c: (c[0] + 2, c[1] * x), (0, x))[1].sum()])
def test_what_is_not_counted(function):
    with pytest.raises(shoal.ShoalError, match="the gradient of while.*: how often it goes round does not follow from constants; what counts "
                                               "in equal steps from one whole number to another has a gradient"):
        exported(function, (SHORT[0],)).gradient()


def test_factors_have_gradients():
    """cholesky and triangular_solve are loops."""
    n = 5
    text = f"""func.func @main(%a: tensor<{n}x{n}xf64>, %b: tensor<{n}x2xf64>) -> tensor<f64> {{
      %zero = stablehlo.constant dense<0.0> : tensor<f64>
      %l = stablehlo.cholesky %a, lower = true : tensor<{n}x{n}xf64>
      %x = "stablehlo.triangular_solve"(%l, %b) <{{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>,
        unit_diagonal = false}}> : (tensor<{n}x{n}xf64>, tensor<{n}x2xf64>) -> tensor<{n}x2xf64>
      %s = stablehlo.sine %x : tensor<{n}x2xf64>
      %r = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<{n}x2xf64>, tensor<f64>) -> tensor<f64>
      return %r : tensor<f64>
    }}"""
    a, b = numbers(n, n).astype(np.float64), numbers(n, 2, seed=1).astype(np.float64)
    a = a @ a.T + n * np.eye(n)
    loss = lambda a, b: np.sin(np.linalg.solve(np.linalg.cholesky(a).T, b)).sum()  # noqa: E731
    value, da, db = shoal.stablehlo.load(text).gradient()(a, b)
    np.testing.assert_allclose(value.numpy(), loss(a, b), rtol=1e-10)
    for i in range(n):
        for k in range(i + 1):  # what stands above the diagonal is not read by either
            step = np.zeros((n, n))
            step[i, k] = 1e-6
            np.testing.assert_allclose(da.numpy()[i, k], (loss(a + step, b) - loss(a - step, b)) / 2e-6, rtol=1e-4, atol=1e-7)
        step = np.zeros((n, 2))
        step[i, 0] = 1e-6
        np.testing.assert_allclose(db.numpy()[i, 0], (loss(a, b + step) - loss(a, b - step)) / 2e-6, rtol=1e-4, atol=1e-7)
