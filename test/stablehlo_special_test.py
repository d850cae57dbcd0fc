"""CHLO's functions that take a series, and those of the bits of integers: values and slopes are SciPy's, programs JAX's."""
import contextlib

import numpy as np
import pytest
import scipy.special as special

import quick_xla  # noqa: F401

jax = pytest.importorskip("jax")
jax.config.update("jax_platforms", "cpu")
import jax.numpy as jnp  # noqa: E402

import shoal  # noqa: E402

shoal.init(workers=1, backend="cpu")
KINDS = {"float16": "f16", "float32": "f32", "float64": "f64", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
         "uint8": "ui8", "uint16": "ui16", "uint32": "ui32", "uint64": "ui64"}
# float32: ten steps of its last digit. What is below the least normal number may be 0.
TOLERANCE = {np.float32: 2e-6, np.float64: 2e-13}


def model(name, *arguments):
    kinds = ["tensor<" + "".join(f"{n}x" for n in x.shape) + KINDS[str(x.dtype)] + ">" for x in arguments]
    given = ", ".join(f"%{i}: {kind}" for i, kind in enumerate(kinds))
    operands = ", ".join(f"%{i}" for i in range(len(kinds)))
    return shoal.stablehlo.load(f"""func.func @main({given}) -> {kinds[0]} {{
      %r = "chlo.{name}"({operands}) : ({", ".join(kinds)}) -> {kinds[0]}
      return %r : {kinds[0]}
    }}""")


def agrees(got, want, dtype, tolerance=None):
    """want is of float64."""
    limits = np.finfo(dtype)
    with np.errstate(over="ignore"):
        want = np.where(np.abs(want) < limits.tiny, 0, want).astype(dtype).astype(np.float64)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=tolerance or TOLERANCE[dtype], atol=2 * float(limits.tiny))


def grid(a, b, dtype):
    return tuple(x.ravel() for x in np.meshgrid(np.asarray(a, dtype), np.asarray(b, dtype)))


SIZES = np.concatenate([np.logspace(-30, 30, 200), np.linspace(0.01, 50, 400), [0, 8, np.inf]])
PLACES = np.concatenate([np.logspace(-6, 6, 80), np.linspace(0.1, 30, 60)])
BELOW = np.array([-0.0009765625, -0.5, -2.125, -5.5, -9.5, -11.75, -20.25, -25.5, -100.5])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values(dtype):
    x = np.append(np.concatenate([SIZES, -SIZES]), np.nan).astype(dtype)
    agrees(model("bessel_i1e", x)(x).numpy(), special.i1e(x.astype(np.float64)), dtype)
    s, q = grid([1.01, 1.5, 2, 2.5, 3, 4, 5, 8, 10, 20, 33], PLACES, dtype)
    agrees(model("zeta", s, q)(s, q).numpy(), special.zeta(s.astype(np.float64), q.astype(np.float64)), dtype)
    n, x = grid(np.arange(1, 26), PLACES, dtype)
    agrees(model("polygamma", n, x)(n, x).numpy(), special.polygamma(n.astype(int), x.astype(np.float64)), dtype)
    x = PLACES.astype(dtype)
    zero = np.zeros_like(x)
    agrees(model("polygamma", zero, x)(zero, x).numpy(), special.digamma(x.astype(np.float64)), dtype, 1e-5 if dtype == np.float32 else 1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_below_0(dtype):
    s, q = grid([2, 3, 4, 5, 8, 11], BELOW, dtype)
    got, want = model("zeta", s, q)(s, q).numpy().astype(np.float64), special.zeta(s.astype(np.float64), q.astype(np.float64))
    # SciPy adds up terms of both signs, as large as those nearest to 0.
    size = np.abs(q - np.round(q)).astype(np.float64) ** -s.astype(np.float64)
    assert (np.abs(got - want) <= TOLERANCE[dtype] * np.maximum(np.abs(want), size)).all()
    # Half way between two poles all terms below 0 have their like above it, with the other sign.
    s, q = grid([3, 5, 7], [-25.5, -9.5, -100.5], dtype)
    agrees(model("zeta", s, q)(s, q).numpy(), special.zeta(s.astype(np.float64), 1 - q.astype(np.float64)), dtype)
    n = s - 1
    agrees(model("polygamma", n, q)(n, q).numpy(), special.polygamma(n.astype(int), 1 - q.astype(np.float64)), dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_at_edges(dtype):
    """Where SciPy and JAX differ: between the two sides of an odd pole nothing is, and far away is 0."""
    inf, nan = np.inf, np.nan
    s, q, want = np.array([
        (1, 3, inf), (1, -3, inf), (1, 0, inf), (0.5, 3, nan), (-1, 3, nan), (-inf, 3, nan), (nan, 3, nan), (3, nan, nan),
        (2, 0, inf), (2, -0., inf), (2, -3, inf), (4, -inf, inf), (3, 0, nan), (3, -3, nan), (2.5, -0.5, nan), (2.5, -3, nan),
        (2, inf, 0), (1.5, inf, 0), (inf, 1, 1), (inf, 2, 0), (inf, 0.5, inf), (100, 1, 1), (1000, 1, 1), (1e30, 1, 1), (1e30, 2, 0),
        (2, 1e-30, inf if dtype == np.float32 else 1e60)], dtype).T
    np.testing.assert_allclose(model("zeta", s, q)(s, q).numpy(), want, rtol=1e-12)
    n, x, want = np.array([
        (-1, 2, nan), (0.5, 2, nan), (nan, 2, nan), (1, nan, nan), (0, nan, nan), (1, 0, inf), (1, -3, inf), (2, 0, nan), (2, -3, nan),
        (0, 0, nan), (0, inf, inf), (1, inf, 0), (2, inf, 0), (3, -inf, inf), (1, 1e-30, inf if dtype == np.float32 else 1e60)], dtype).T
    np.testing.assert_allclose(model("polygamma", n, x)(n, x).numpy(), want, rtol=1e-12)
    x = np.array([0, -0., inf, -inf], dtype)
    got = model("bessel_i1e", x)(x).numpy()
    np.testing.assert_array_equal(got, [0, 0, 0, 0])
    assert list(np.signbit(got)) == [False, True, False, True]


@pytest.mark.parametrize("backend", ["cpu", "ref"])
def test_half_precision(backend):
    """Within one step: they are computed in float32."""
    x = np.array([0.125, 0.5, 1, 2.5, 7, 8, 30], np.float16)
    n = np.array([1, 2, 3, 1, 2, 3, 1], np.float16)
    wide, orders = x.astype(np.float64), n.astype(np.float64)
    with contextlib.closing(shoal.Session("embedded", workers=1, backend=backend)) as session:
        for name, arguments, want in (("bessel_i1e", (x,), special.i1e(wide)), ("zeta", (n + 1, x), special.zeta(orders + 1, wide)),
                                      ("polygamma", (n, x), special.polygamma(n.astype(int), wide))):
            got = model(name, *arguments)(*map(session.tensor, arguments)).numpy()
            np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float16).astype(np.float64), rtol=1e-3)


def i1e_slope(x):
    """I1' = I0 - I1 / x"""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(x == 0, 0.5, special.i0e(x) - special.i1e(x) * (np.sign(x) + 1 / x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_slopes(dtype):
    def check(name, arguments, want, size=1):
        given = model(name, *arguments).text()
        tensors = [shoal.tensor(x, requires_grad=i == len(arguments) - 1) for i, x in enumerate(arguments)]
        shoal.stablehlo.load(given)(*tensors).sum().backward()
        got = tensors[-1].grad.numpy().astype(np.float64)
        eps = float(np.finfo(dtype).eps)
        np.testing.assert_allclose(got, want, rtol=1e-5 if dtype == np.float32 else 1e-11, atol=2 * eps * size)
    x = np.concatenate([-np.linspace(0.01, 40, 200), [0, 1e-20, 7.9999, 8.0001, 1e4], np.linspace(0.01, 40, 200)]).astype(dtype)
    check("bessel_i1e", (x,), i1e_slope(x.astype(np.float64)))
    s, q = grid([1.5, 2, 3, 7.5], [0.25, 0.5, 1, 3.5, 40], dtype)
    check("zeta", (s, q), -s.astype(np.float64) * special.zeta(s.astype(np.float64) + 1, q.astype(np.float64)))
    n, x = grid([0, 1, 2, 3, 6], [0.25, 0.75, 1, 3.5, 5, 40], dtype)
    check("polygamma", (n, x), special.polygamma(n.astype(int) + 1, x.astype(np.float64)))
    s, q = grid([2, 3, 4], BELOW[1:5], dtype)
    check("zeta", (s, q), -s.astype(np.float64) * special.zeta(s.astype(np.float64) + 1, q.astype(np.float64)), 100)  # parts of that size cancel


X = np.array([[0.3, 1.5, 9], [-0.7, 2.5, -12]], np.float32)
N = np.array([1, 2, 3], np.float32)
PROGRAMS = {
    "i1e": (jax.scipy.special.i1e, X), "i1": (jax.scipy.special.i1, X / 4), "i0e": (jax.scipy.special.i0e, X),
    "polygamma": (lambda x: jax.scipy.special.polygamma(2, x), np.abs(X)), "trigamma": (jax.grad(lambda x: jax.scipy.special.digamma(x).sum()), np.abs(X)),
    "zeta": (lambda q: jax.scipy.special.zeta(N + 1, q), np.abs(X)), "slope of i0e": (jax.grad(lambda x: jax.scipy.special.i0e(x).sum()), X),
    "slope of lgamma": (jax.grad(lambda x: jax.lax.lgamma(x).sum()), np.abs(X)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_jax(name):
    function, x = PROGRAMS[name]
    text = jax.jit(function).lower(x).as_text()
    loaded = shoal.stablehlo.load(text)
    want = np.asarray(jax.jit(function)(x))
    np.testing.assert_allclose(loaded(x).numpy(), want, rtol=1e-5)
    np.testing.assert_array_equal(shoal.stablehlo.load(loaded.text())(x).numpy(), loaded(x).numpy())
    slopes = np.asarray(jax.jit(jax.grad(lambda x: function(x).sum()))(x))
    tensor = shoal.tensor(x, requires_grad=True)
    loaded(tensor).sum().backward()
    np.testing.assert_allclose(tensor.grad.numpy(), slopes, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["zeta", "polygamma"])
def test_what_broadcasts(name):
    n, x = np.array([2, 3, 5], np.float32), np.abs(X)
    text = f"""func.func @main(%n: tensor<3xf32>, %x: tensor<2x3xf32>) -> tensor<2x3xf32> {{
      %r = "chlo.broadcast_{name}"(%n, %x) : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
      return %r : tensor<2x3xf32>
    }}"""
    want = special.zeta(n, x) if name == "zeta" else special.polygamma(n.astype(int), x)
    np.testing.assert_allclose(shoal.stablehlo.load(text)(n, x).numpy(), want, rtol=1e-5)


def test_select_broadcasts():
    flags, x, one = np.array([[True], [False]]), np.arange(6, dtype=np.float32).reshape(2, 3), np.float32(-1)
    text = """func.func @main(%p: tensor<2x1xi1>, %x: tensor<2x3xf32>, %y: tensor<f32>) -> tensor<2x3xf32> {
      %r = "chlo.broadcast_select"(%p, %x, %y) : (tensor<2x1xi1>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
      return %r : tensor<2x3xf32>
    }"""
    np.testing.assert_array_equal(shoal.stablehlo.load(text)(flags, x, one).numpy(), np.where(flags, x, one))
    wrong = text.replace("tensor<2x1xi1>", "tensor<4x1xi1>")
    with pytest.raises(shoal.ShoalError, match="line 2, column 12: 'chlo.broadcast_select': "):
        shoal.stablehlo.load(wrong)


def test_tan_and_conj():
    x = np.linspace(-1, 1, 7, dtype=np.float32)
    np.testing.assert_allclose(model("tan", x)(x).numpy(), np.tan(x), rtol=1e-6)
    np.testing.assert_array_equal(model("conj", x)(x).numpy(), x)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_mulhi(dtype):
    limits = np.iinfo(dtype)
    some = np.random.default_rng(0).integers(limits.min, limits.max, 200, dtype=dtype, endpoint=True)
    edges = np.array([limits.min, limits.min + 1, 0, 1, limits.max - 1, limits.max, limits.max // 2, limits.max // 3], dtype)
    x, y = grid(edges, edges, dtype)
    x, y = np.append(x, some), np.append(y, some[::-1])
    want = [int(a) * int(b) >> limits.bits for a, b in zip(x, y)]
    got = model("mulhi", x, y)(x, y).numpy()
    assert got.dtype == dtype and got.tolist() == want
    if limits.bits == 32:
        program = jax.jit(jax.lax.mulhi).lower(jnp.asarray(x), jnp.asarray(y)).as_text()
        assert "chlo.mulhi" in program and shoal.stablehlo.load(program)(x, y).numpy().tolist() == want


def test_what_they_do_not_take():
    i = np.array([1], np.int32)
    for name, arguments, message in (("zeta", (i, i), "'chlo.zeta': it works on floating types, not on int32"),
                                     ("bessel_i1e", (i,), "'chlo.bessel_i1e': it works on floating types, not on int32"),
                                     ("mulhi", (N, N), "'chlo.mulhi': it works on integers"),
                                     ("polygamma", (N,), "'chlo.polygamma': it has 1 operands, not 2")):
        with pytest.raises(shoal.ShoalError, match=f"line 2, column 12: {message}"):
            model(name, *arguments)
