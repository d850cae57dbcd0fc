"""StableHLO read and written: what JAX prints, run by Shoal, gives JAX's own results; what Shoal prints, JAX's parser
reads; texts in the manner of torch-mlir."""
import contextlib
import importlib.util
import io
import sys
import threading
import time

import numpy as np
import pytest
import scipy.special

import quick_xla  # noqa: F401

jax = pytest.importorskip("jax")
jax.config.update("jax_platforms", "cpu")
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax._src.interpreters import mlir as jax_mlir  # noqa: E402
from jaxlib.mlir import ir  # noqa: E402

import shoal  # noqa: E402

shoal.init(workers=1, backend="cpu")


def numbers(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


X, W, IMAGE = numbers(4, 8), numbers(8, 8, seed=1), numbers(2, 8, 8, 3, seed=2)
KERNEL, INDEX = numbers(3, 3, 3, 4, seed=3), np.array([2, 0, 3, 1], np.int32)


def mlp(parameters, x):
    for weight, bias in parameters:
        x = jax.nn.relu(x @ weight + bias)
    return (x ** 2).mean()


LAYERS = [(numbers(8, 16), numbers(16)), (numbers(16, 4), numbers(4))]


def block(p, ids):
    """A block of a GPT, and the loss of its next tokens."""
    x = p["table"][ids] + p["place"]
    b, t, d = x.shape

    def norm(x, g):
        return g * (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    q, k, v = (part.reshape(b, t, 2, d // 2).transpose(0, 2, 1, 3) for part in jnp.split(norm(x, p["g"]) @ p["qkv"], 3, -1))
    weights = jnp.where(jnp.tril(jnp.ones((t, t), bool)), q @ k.swapaxes(-1, -2) / np.sqrt(d // 2), -jnp.inf)
    x = x + (jax.nn.softmax(weights) @ v).transpose(0, 2, 1, 3).reshape(b, t, d) @ p["o"]
    x = x + jax.nn.gelu(norm(x, p["h"]) @ p["up"]) @ p["down"]
    logits = jax.nn.log_softmax(x @ p["table"].T)[:, :-1]
    return -jnp.take_along_axis(logits, ids[:, 1:, None], -1).mean()


GPT = {"table": numbers(11, 8), "place": numbers(6, 8, seed=1), "g": np.ones(8, np.float32), "qkv": numbers(8, 24, seed=2),
       "o": numbers(8, 8, seed=3), "h": np.ones(8, np.float32), "up": numbers(8, 32, seed=4), "down": numbers(32, 8, seed=5)}
IDS = np.random.default_rng(6).integers(0, 11, (2, 6), dtype=np.int32)


def conv(x, k, **how):
    how = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": ("NHWC", "HWIO", "NHWC")} | how
    return lax.conv_general_dilated(x, k, **how)


def net(k, x):
    x = jax.nn.relu(conv(x, k))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return lax.reduce_window(x, 0., lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "SAME").sum((1, 2)).mean()


def adam(parameters, means, squares, gradients, step):
    outputs = []
    for p, m, v, g in zip(parameters, means, squares, gradients):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        outputs += [p - 0.01 * (m / (1 - 0.9 ** step)) / (jnp.sqrt(v / (1 - 0.999 ** step)) + 1e-8), m, v]
    return outputs


MANY = [numbers(3, 1 + i % 29, seed=i) for i in range(50)]
POSITIVE = np.abs(X) + 0.1

CASES = {
    "mlp": (mlp, LAYERS, X),
    "gpt": (block, GPT, IDS),
    "net": (net, KERNEL, IMAGE),
    "adam": (adam, MANY, MANY, [x ** 2 for x in MANY], [x + 1 for x in MANY], np.float32(3)),
    "scan": (lambda c, xs, w: lax.scan(lambda c, x: (jnp.tanh(c @ w + x), c.sum()), c, xs), X[0], X, W),
    "scan of nothing": (lambda c, xs: lax.scan(lambda c, x: (c + x, c), c, xs), X[0], X[:0]),
    "many carried": (lambda xs: lax.fori_loop(0, 3, lambda i, xs: [x * 2 + i for x in xs], xs), MANY),
    "cond": (lambda p, x: lax.cond(p, lambda x: x + 1, lambda x: x * 2, x), np.bool_(True), X),
    "switch": (lambda p, x: lax.switch(p, [lambda x: x + 1, lambda x: x * 2, lambda x: x @ W], x), np.int32(2), X),
    "while": (lambda x: lax.while_loop(lambda c: c[0] < 3., lambda c: (c[0] + 1, c[1] @ W), (0., x)), X),
    "nested": (lambda x: lax.fori_loop(0, 3, lambda i, x: lax.cond(i > 1, lambda x: lax.fori_loop(0, i, lambda j, x: x + j, x),
                                                                   lambda x: x * 2, x), x), X),
    "sort": (lambda x, y: lax.sort((x, y), num_keys=1), X, np.arange(32, dtype=np.int32).reshape(4, 8)),
    "sort by two": (lambda x, y: lax.sort((y % 3, x, y), num_keys=2, dimension=0), X, np.arange(32, dtype=np.int32).reshape(4, 8)),
    "argsort": (lambda x: (jnp.argsort(x, 1), jnp.argmax(x, 1), jnp.argmin(x, 0)), X),
    "top_k": (lambda x: lax.top_k(x, 3), X),
    "cumulative": (lambda x: (jnp.cumsum(x, 1), lax.cumsum(x, 0, reverse=True), lax.cummax(x, 1), lax.cumlogsumexp(x, 1),
                              jnp.cumprod(x, 0)), X),
    "gather": (lambda x, i: (x[i], x[i, i], x[:, i], x.at[i].add(1.), x.at[i, i].set(2.), x.at[i].mul(3.),
                             jnp.take_along_axis(x, i[:, None], 1), x[i[0]], lax.dynamic_slice(x, (i[0], i[1]), (2, 3)),
                             lax.dynamic_update_slice(x, x[:2, :3], (i[1], i[2]))), X, INDEX),
    "conv strided": (lambda x, k: conv(x, k, window_strides=(2, 1), rhs_dilation=(1, 2)), IMAGE, KERNEL),
    "conv transposed": (lambda x, k: conv(x, k, padding=((1, 1), (1, 2)), lhs_dilation=(2, 1)), IMAGE, KERNEL),
    "conv NCHW": (lambda x, k: conv(x, k, dimension_numbers=("NCHW", "OIHW", "NCHW")), IMAGE.transpose(0, 3, 1, 2),
                  KERNEL.transpose(3, 2, 0, 1)),
    "conv groups": (lambda x, k: conv(x, k, feature_group_count=3), IMAGE, numbers(3, 3, 1, 6)),
    "conv 1d": (lambda x, k: conv(x, k, window_strides=(1,), dimension_numbers=("NWC", "WIO", "NWC")), IMAGE[0], KERNEL[0]),
    "functions": (lambda x: (lax.erf(x), lax.erfc(x * 3), lax.lgamma(x), lax.digamma(x), lax.erf_inv(jnp.tanh(x)), jnp.sinh(x),
                             jnp.cosh(x), jnp.arcsinh(x), jnp.square(x), lax.nextafter(x, -x), jnp.arctanh(jnp.tanh(x)),
                             jnp.arccos(jnp.tanh(x)), jnp.arcsin(jnp.tanh(x)), jnp.arctan(x), jnp.tan(x), jax.nn.gelu(x),
                             jax.nn.silu(x), jnp.sinc(x), jnp.expm1(x), jnp.log1p(jnp.abs(x)), jnp.cbrt(x), jnp.round(x),
                             jnp.sign(x), x ** 3, jnp.isinf(x), jnp.signbit(x)), X),
    "positive": (lambda x: (jnp.sqrt(x), lax.rsqrt(x), jnp.log(x), x ** 2.5, jnp.arccosh(x + 1), lax.lgamma(x), jnp.logaddexp(x, x)),
                 POSITIVE),
    "integers": (lambda i: (i // 3, i % 3, i << 2, i >> 1, i & 3, ~i, lax.population_count(i), lax.clz(i), i.astype(np.int8),
                            i.astype(np.uint16), i.astype(np.float32), i > 1, -i), INDEX - 2),
    "unsigned": (lambda i: (-i, i // 3, i % 3, i >> 1, i > 7, i.max(), jnp.sort(i)), np.array([0, 1, 128, 255], np.uint8)),
    "random": (lambda k: (jax.random.normal(k, (3, 5)), jax.random.randint(k, (7,), 0, 9), jax.random.permutation(k, 6)),
               np.array([3, 5], np.uint32)),
    "remat": (jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x @ W)).sum())), X),
    "shapes": (lambda x: (x.T, x.reshape(2, 16), x[::-1], x[1:3, ::2], jnp.pad(x, 2), jnp.concatenate([x, x]), jnp.tile(x, (2, 1)),
                          lax.pad(x, 0., ((1, -1, 1), (0, 2, 0))), jnp.clip(x, -1, 1), jnp.where(x > 0, x, 0), x[:0]), X),
    "bfloat16": (lambda x: jnp.matmul(x.astype(jnp.bfloat16), W.astype(jnp.bfloat16), preferred_element_type=np.float32), X),
    "int8": (lambda i: jnp.matmul(i[None].astype(np.int8), i[:, None].astype(np.int8), preferred_element_type=np.int32), INDEX),
    "reductions": (lambda x: (x.sum(), x.max(1), x.min(0), x.prod(1), jnp.any(x > 1), jnp.all(x < 9, 0), x.var(0), jnp.median(x)), X),
    "logarithms of sums": (lambda x: (lax.cumlogsumexp(x, 1), lax.cumlogsumexp(x, 0, reverse=True)), X),
    "factors": (lambda x, u, i: (x.at[i].mul(u, unique_indices=True), x.at[i].mul(u)), X, numbers(4, 8, seed=7), INDEX),
    "vmapped": (jax.vmap(lambda x, i: x[i] + jnp.sort(x)), X, INDEX),
    "custom": (lambda x: lax.reduce(x, np.float32(0), lambda a, b: jnp.sqrt(a * a + b * b), (1,)), X),
    "second": (jax.grad(lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID") ** 2).sum()), X),
}


def lowered(name):
    function, *arguments = CASES[name]
    jitted = jax.jit(function, keep_unused=True)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(arguments)]
    return jitted.lower(*arguments), leaves, [np.asarray(leaf) for leaf in jax.tree.leaves(jitted(*arguments))]


def compared(model, leaves, expected, tolerance=1e-5):
    outputs = model(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    assert len(outputs) == len(expected)
    for i, (got, want) in enumerate(zip(outputs, expected)):
        assert str(got.dtype).split(".")[-1] == str(want.dtype) and tuple(got.shape) == want.shape
        np.testing.assert_allclose(got.numpy(), want, rtol=tolerance, atol=tolerance * max(1, np.abs(want[np.isfinite(want)]).max(initial=0)),
                                   err_msg=f"result {i}")


def generic(text):
    """The same in MLIR's generic form; and with that its own parser has taken the text."""
    with jax_mlir.make_ir_context():
        return str(ir.Module.parse(text).operation.get_asm(print_generic_op_form=True))


@pytest.mark.parametrize("name", CASES)
def test_jax(name):
    program, leaves, expected = lowered(name)
    text = program.as_text()
    model = shoal.stablehlo.load(text)
    compared(model, leaves, expected)
    compared(shoal.stablehlo.load(program.as_text(debug_info=True)), leaves, expected)
    compared(shoal.stablehlo.load(generic(text)), leaves, expected)
    again = generic(model.text())
    compared(shoal.stablehlo.load(model.text()), leaves, expected)
    compared(shoal.stablehlo.load(again), leaves, expected)


# ---- gradients ----

GRADIENTS = {"mlp": mlp, "gpt": block, "net": net,
             "switch": lambda p, x: lax.switch(p, [lambda x: x + 1, lambda x: x * 2, lambda x: x @ W], x).sum(),
             "cumulative": lambda x: (jnp.cumsum(x, 1) ** 2).sum() + lax.cummax(x, 0).sum(),
             "gather": lambda x, i: (x[i] * x[i, i][:, None] + jnp.asarray(x).at[i].add(3.)).sum(),
             "functions": lambda x: sum(jnp.sin(f(x)).sum() for f in (
                 lax.erf, jnp.sinh, jnp.cosh, jnp.arcsinh, jnp.square, jnp.arctan, jax.nn.gelu, jax.nn.silu, jnp.expm1)),
             "top_k": lambda x: (lax.top_k(x, 3)[0] ** 2).sum(),
             "logarithms of sums": lambda x: (lax.cumlogsumexp(x, 1) ** 2).sum() + (lax.cumlogsumexp(x, 0, reverse=True) ** 3).sum(),
             "factors": lambda x, u, i: (jnp.asarray(x).at[i].mul(u, unique_indices=True) ** 2).sum() + (jnp.asarray(x).at[i].mul(3.) ** 2).sum()}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    function, arguments = GRADIENTS[name], CASES[name][1:]
    leaves = jax.tree.leaves(arguments)
    floating = [i for i, leaf in enumerate(leaves) if np.asarray(leaf).dtype == np.float32]
    shape = jax.tree.structure(arguments)

    def flat(*leaves):
        return function(*jax.tree.unflatten(shape, leaves))
    expected = [np.asarray(x) for x in jax.jit(jax.value_and_grad(flat, floating))(*leaves)[1]]
    model = shoal.stablehlo.load(jax.jit(flat, keep_unused=True).lower(*leaves).as_text())
    both = model.gradient()
    value, *gradients = both(*leaves)
    np.testing.assert_allclose(value.numpy(), flat(*leaves), rtol=1e-5)
    for got, want in zip(gradients, expected):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4 * max(1, np.abs(want).max()))
    # The graph of loss and gradients, written and read again.
    for got, want in zip(shoal.stablehlo.load(generic(both.text()))(*leaves), [value, *gradients]):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-5)
    # And through tensors that require gradients.
    tensors = [shoal.tensor(np.asarray(leaf), requires_grad=i in floating) for i, leaf in enumerate(leaves)]
    model(*tensors).backward()
    for i, want in zip(floating, expected):
        np.testing.assert_allclose(tensors[i].grad.numpy(), want, rtol=1e-4, atol=1e-4 * max(1, np.abs(want).max()))


def test_several_factors_of_one_element():
    """JAX has no gradient where indices may be there twice; each factor has the product of the others, also where one is 0."""
    x, i = np.array([2, 3, 5], np.float32), np.array([0, 0, 2, 2, 1, 2, 7], np.int32)
    u = np.array([7, 0, 2, 3, 0, 4, 9], np.float32)
    text = jax.jit(lambda x, u: x.at[i].mul(u).sum()).lower(x, u).as_text()
    _, of_x, of_u = shoal.stablehlo.load(text).gradient()(x, u)
    assert of_x.tolist() == [0, 0, 24] and of_u.tolist() == [0, 14, 5 * 12, 5 * 8, 3, 5 * 6, 0]
    both = np.array([0, 0, 2, 3, 1, 4, 9], np.float32)  # two zeros: no factor has a gradient
    assert shoal.stablehlo.load(text).gradient()(x, both)[2].tolist()[:2] == [0, 0]


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, np.float32])
@pytest.mark.parametrize("function", [jax.nn.sigmoid, jax.nn.silu, lambda x: 1 / (jnp.exp(-x) + 1)])
def test_slope_of_the_sigmoid_far_below_0(function, dtype):
    """JAX writes it out, and e^-x is beyond the type there: by the rules of what is written the slope is no number."""
    x = np.array([-1e4, -100, -90, -89, -20, -12, -11, -8, -1, 0, 3, 20, 100], np.float32).astype(dtype)
    text = jax.jit(lambda x: (function(x), function(x).astype(np.float32).sum())).lower(x).as_text()
    assert "logistic" not in text
    wide = x.astype(np.float32)
    model, (y, slope) = shoal.stablehlo.load(text), jax.jvp(function if "lambda" not in function.__name__ else jax.nn.sigmoid,
                                                             (wide,), (np.ones_like(wide),))
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5}[np.dtype(dtype).name]
    least = 1e-7 if dtype == np.float16 else 1e-30
    np.testing.assert_allclose(model(x)[0].numpy().astype(np.float32), y, rtol=tolerance, atol=least)
    np.testing.assert_allclose(model.gradient(output=1)(x)[-1].numpy().astype(np.float32), slope, rtol=tolerance, atol=least + tolerance * 1e-3)


def test_slope_of_relu_at_0():
    """0, as JAX and PyTorch have it; of two that are equal each has half, as JAX and PyTorch have that."""
    x = np.array([-1, -0.0, 0, 2, np.nan], np.float32)
    for function in (jax.nn.relu, jax.nn.relu6, lambda x: lax.max(jnp.zeros_like(x), x)):
        model = shoal.stablehlo.load(jax.jit(lambda x, f=function: (f(x), f(x[:4]).sum())).lower(x).as_text())
        np.testing.assert_array_equal(model(x)[0].numpy(), function(x))
        assert model.gradient(output=1)(x)[-1].tolist() == [0, 0, 0, 1, 0]
    text = jax.jit(lambda x, y: lax.max(x, y).sum()).lower(x[:4], x[:4]).as_text()
    assert [g.tolist() for g in shoal.stablehlo.load(text).gradient()(x[:4], x[:4])[1:]] == [[0.5] * 4] * 2
    whole = np.array([-1, 0, 3], np.int32)
    assert shoal.stablehlo.load(jax.jit(lambda x: lax.max(x, 0)).lower(whole).as_text())(whole).tolist() == [0, 0, 3]


FAR = np.array([0, 1e-20, 0.5, 3, 30, 80, 1e9, 3e9, 1e15, 3e19, 1e25, 3e38])
SLOPES = {  # function, its values and its slopes in float64, where
    "arcsinh": (jnp.arcsinh, np.arcsinh, lambda x: 1 / np.hypot(1, x), np.concatenate([-FAR, FAR])),
    "arccosh": (jnp.arccosh, np.arccosh, lambda x: 1 / np.sqrt(x - 1) / np.sqrt(x + 1), np.append(FAR[3:], 1)),
    "sinh": (jnp.sinh, np.sinh, np.cosh, np.concatenate([-FAR[:6], FAR[:6]])),
    "erf_inv": (lax.erf_inv, scipy.special.erfinv, lambda x: np.sqrt(np.pi) / 2 * np.exp(scipy.special.erfinv(x) ** 2),
                np.array([-1, -0.999, -0.5, -1e-3, 0, 0.01, 0.1, 0.5, 0.9, 0.9999, 1]))}


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_of_functions_made_of_two(name):
    """One way near 0, another far from it: what is not chosen is computed too, and must not be seen in the slope."""
    function, value, slope, x = SLOPES[name]
    x = x.astype(np.float32)
    text = jax.jit(lambda x: (function(x), function(x).sum())).lower(x).as_text()
    model = shoal.stablehlo.load(text)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(model(x)[0].numpy(), value(wide).astype(np.float32), rtol=1e-5, atol=1e-30)
    got = model.gradient(output=1)(x)[-1].numpy()
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(got, slope(wide).astype(np.float32), rtol=1e-4)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("backend", ["cpu", "ref"])
def test_digits_of_inverse_functions(backend, dtype):
    """Of asinh from the smallest number to the largest, and of acosh from 1 on; with signs, of zeros too."""
    numpy_type = jnp.dtype({"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}[dtype])
    limits = jnp.finfo(numpy_type)
    least, most = (np.log10(float(limit)) for limit in (limits.smallest_normal, limits.max))
    size = np.append(0, 10 ** np.concatenate([np.linspace(least - 2, most - 0.1, 2000), np.linspace(-1, 1, 500)]))
    size = np.append(size, np.inf).astype(numpy_type).astype("float64")
    above = (1 + np.concatenate([size, 10.0 ** np.linspace(-17, 0, 500)])).astype(numpy_type).astype("float64")
    with contextlib.closing(shoal.Session("embedded", workers=1, backend=backend)) as session:
        for name, function, x in (("asinh", np.arcsinh, np.concatenate([size, -size, [np.nan]])),
                                  ("acosh", np.arccosh, np.append(above, [0.5, -1, -np.inf, np.nan]))):
            kind = f"tensor<{x.size}x{dtype}>"
            model = shoal.stablehlo.load(f"""func.func @main(%x: {kind}) -> {kind} {{
              %0 = "chlo.{name}"(%x) : ({kind}) -> {kind}
              return %0 : {kind}
            }}""")
            given = session.tensor(x.astype(numpy_type))
            with np.errstate(invalid="ignore"):
                want = function(x.astype(np.longdouble))
            for got in (model(given).numpy(), getattr(given, name)().numpy()):
                got, eps = got.astype(np.longdouble), float(limits.eps)
                np.testing.assert_allclose(got, want, rtol=2 * eps, atol=float(limits.smallest_subnormal))
                assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


def test_what_has_no_value_is_nan():
    x = np.array([-np.inf, -3e38, -1e30, -1e19, -1e18, -1e9, -100, -1.1, 0, 0.9, np.nan], np.float32)
    for dtype in (jnp.float32, jnp.bfloat16):
        model = shoal.stablehlo.load(jax.jit(jnp.arccosh).lower(x.astype(dtype)).as_text())
        assert np.isnan(model(x.astype(dtype)).numpy().astype(np.float32)).all()


def test_a_function_is_there_once():
    function = "func.func @{}(%x: tensor<f32>) -> tensor<f32> {{ return %x : tensor<f32> }}\n"
    with pytest.raises(shoal.ShoalError, match="line 3, column 1: 'func.func': there is a function @main already"):
        shoal.stablehlo.load("".join(function.format(name) for name in ("main", "half", "main")))
    shoal.stablehlo.load(function.format("main") + "module @inner { " + function.format("main") + "}")


def test_unused_parameters_have_the_gradient_zero():
    model = shoal.stablehlo.load(jax.jit(lambda x, y: x.sum(), keep_unused=True).lower(X, X).as_text())
    assert not model.gradient()(X, X)[2].numpy().any()


def test_export_of_a_function():
    def function(x, w):
        y = shoal.functional.gelu(x @ w)
        return shoal.functional.softmax(y, 1), y.cumsum(1), y.argmax(1), y.var(0), y.sort(1)[0]
    text = shoal.stablehlo.export(function, X, W).text()
    with jax_mlir.make_ir_context():
        ir.Module.parse(text)
    expected = function(shoal.tensor(X), shoal.tensor(W))
    for got, want in zip(shoal.stablehlo.load(text)(X, W), expected):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-6)


def choice_of(n, several):
    """`if` of n operands, with one result or as many: their sines, or the sum."""
    xs = ", ".join(f"%x{i}: tensor<2xf32>" for i in range(n))
    last = [f"%y{i}" for i in range(n)] if several else [f"%t{n - 1}"]
    lines = [f"%y{i} = stablehlo.sine %x{i} : tensor<2xf32>" for i in range(n)]
    lines += [f"%t{i} = stablehlo.add {f'%t{i - 1}' if i else '%y0'}, %y{i} : tensor<2xf32>" for i in range(n) if not several]
    types = ", ".join(["tensor<2xf32>"] * len(last))
    others = ", ".join(f"%x{i}" for i in range(len(last)))
    sums = [f"%s{i} = stablehlo.add {f'%s{i - 1}' if i else '%zero'}, %r#{i} : tensor<2xf32>" for i in range(len(last))]
    return f"""func.func @main(%c: tensor<i1>, {xs}) -> tensor<f32> {{
      %zero = stablehlo.constant dense<0.0> : tensor<2xf32>
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %r:{len(last)} = "stablehlo.if"(%c) ({{
        {chr(10).join(lines)}
        stablehlo.return {", ".join(last)} : {types}
      }}, {{
        stablehlo.return {others} : {types}
      }}) : (tensor<i1>) -> ({types})
      {chr(10).join(sums)}
      %s = stablehlo.reduce(%s{len(last) - 1} init: %z) applies stablehlo.add across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
      return %s : tensor<f32>
    }}"""


def test_export_of_a_function_that_runs_a_model():
    square = shoal.stablehlo.load(jax.jit(lambda x: (x ** 2).sum()).lower(X).as_text())
    model = shoal.stablehlo.export(lambda x: square(x * 2) + 1, X)
    np.testing.assert_allclose(model(X + 1).numpy(), (4 * (X + 1) ** 2).sum() + 1, rtol=1e-5)
    np.testing.assert_allclose(model.gradient()(X + 1)[1].numpy(), 8 * (X + 1), rtol=1e-5)
    traced = shoal.compile(lambda x: square(x) * 3, replay=True)
    for i in range(4):
        np.testing.assert_allclose(traced(shoal.tensor(X + i)).numpy(), 3 * ((X + i) ** 2).sum(), rtol=1e-5)


def test_choices_of_many_operands():
    """Operands and results of the gradient are three times as many: more than the room that there was for them."""
    xs = [np.full(2, i / 2000, np.float32) for i in range(2000)]
    for several in (False, True):
        _, *got = shoal.stablehlo.load(choice_of(2000, several)).gradient()(True, *xs)
        expected = np.cos(np.array(xs)) * np.array([2 if i == 0 and not several else 1 for i in range(2000)])[:, None]
        np.testing.assert_allclose([g.numpy() for g in got], expected, rtol=1e-5)
    assert shoal.stablehlo.load(choice_of(4000, False))(True, *xs, *xs).numpy() > 0
    with pytest.raises(shoal.ShoalError, match="if: its gradients are those of 8193 operands; there may be 8192 of them"):
        shoal.stablehlo.load(choice_of(8193, False)).gradient()


def test_loops_of_many_operands():
    """An optimizer's step of some thousand tensors within a loop, and as many that it reads from around it."""
    xs = [np.full(2, i, np.float32) for i in range(2500)]

    def loop(*xs):
        return lax.fori_loop(0, 3, lambda i, carried: tuple(x + y for x, y in zip(carried, xs)), xs)
    got = shoal.stablehlo.load(jax.jit(loop).lower(*xs).as_text())(*xs)
    np.testing.assert_array_equal([g.numpy() for g in got], 4 * np.array(xs))
    lines = "".join(f"%a{i}, " for i in range(3)) + "%b:9000"
    with pytest.raises(shoal.ShoalError, match="line 3, column .*: an operation of 9000 results, where 0 to 8192 are possible"):
        shoal.stablehlo.load(f"module {{\n func.func @main(%x: tensor<f32>) -> tensor<f32> {{\n {lines} = stablehlo.while(%i = %x) : tensor<f32>\n }}}}")


# ---- as torch-mlir writes, by hand ----

TORCH = """
module {
  func.func @main(%arg0: tensor<4x8xf32>, %arg1: tensor<2x3xi64>, %arg2: tensor<2xi64>) -> tensor<f32> {
    %0 = arith.constant dense<4> : tensor<1xi64>
    %cst = arith.constant dense<1.000000e-05> : tensor<1xf64>
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %scale = stablehlo.constant dense_resource<torch_tensor_8_torch.float32> : tensor<8xf32>
    %flags = stablehlo.constant dense<"0x0001"> : tensor<2xi1>
    %1 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0],
      start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 8>}> : (tensor<4x8xf32>, tensor<2x3xi64>) -> tensor<2x3x8xf32>
    %2 = stablehlo.broadcast_in_dim %scale, dims = [2] : (tensor<8xf32>) -> tensor<2x3x8xf32>
    %3 = stablehlo.multiply %1, %2 : tensor<2x3x8xf32>
    %4 = stablehlo.convert %3 : tensor<2x3x8xf32>
    %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<2x3x8xf32>, tensor<f32>) -> tensor<2x3xf32>
    %6 = stablehlo.reduce(%5 init: %low) across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
     reducer(%a: tensor<f32>, %b: tensor<f32>)  {
      %m = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }
    %7 = stablehlo.dynamic_iota %0, dim = 0 : (tensor<1xi64>) -> tensor<?xi64>
    %8 = stablehlo.slice %7 [0:4:2] : (tensor<?xi64>) -> tensor<2xi64>
    %9 = stablehlo.compare NE, %arg2, %8, SIGNED : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
    %10 = stablehlo.and %9, %flags : tensor<2xi1>
    %11 = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %12 = stablehlo.select %10, %6, %11 : tensor<2xi1>, tensor<2xf32>
    %13 = stablehlo.convert %12 : (tensor<2xf32>) -> tensor<2xf64>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [0] : (tensor<1xf64>) -> tensor<2xf64>
    %15 = stablehlo.add %13, %14 : tensor<2xf64>
    %16 = stablehlo.convert %15 : (tensor<2xf64>) -> tensor<2xf32>
    %17 = stablehlo.reduce(%16 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
    return %17 : tensor<f32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_8_torch.float32: "0x04000000RESOURCE"
    }
  }
#-}
"""


def test_torch_mlir():
    scale, ids, targets = numbers(8, seed=9), np.array([[0, 1, 3], [2, 2, 0]]), np.array([0, 0])
    model = shoal.stablehlo.load(TORCH.replace("RESOURCE", scale.tobytes().hex().upper()))
    best = (X[ids] * scale).sum(2).max(1)
    flags = (targets != np.array([0, 2])) & np.array([False, True])
    expected = (np.where(flags, best, 0).astype(np.float64) + 1e-5).sum()
    np.testing.assert_allclose(model(X, ids, targets).numpy(), expected, rtol=1e-5)
    assert [(kind.dtype, kind.shape) for kind in model.inputs][1] == ("int64", (2, 3))
    assert model.gradient([0]).outputs[1].shape == (4, 8)


def body(lines, result="tensor<2xf32>"):
    return "module {\n  func.func @main(%x: tensor<2xf32>, %n: tensor<1xi64>) -> " + result + " {\n" + lines + "\n  }\n}\n"


@pytest.mark.parametrize("lines, message", [
    ("%0 = stablehlo.fft %x, type = FFT, length = [2] : (tensor<2xf32>) -> tensor<2xcomplex<f32>>\n return %0 : tensor<2xf32>",
     r"line 3, column 6: 'stablehlo.fft': this operation cannot be imported"),
    ("%0 = stablehlo.add %x, %y : tensor<2xf32>\n return %0 : tensor<2xf32>", "line 3, column 25: the name %y is not defined"),
    ("%0 = stablehlo.add %x, %x : tensor<3xf32>\n return %0 : tensor<3xf32>",
     r"line 3, column 6: 'stablehlo.add': the type of result 0 is stated as tensor<3xf32>, but is float32\[2\]"),
    ("%0 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi64>) -> tensor<?xf32>\n return %0 : tensor<?xf32>",
     "line 3, column 6: 'stablehlo.dynamic_iota': operand 0, %n, does not follow from constants"),
    ("%0 = stablehlo.custom_call @lapack(%x) : (tensor<2xf32>) -> tensor<2xf32>\n return %0 : tensor<2xf32>",
     "'stablehlo.custom_call': @lapack cannot be imported: what it computes is not in the text"),
    ("%0 = call @main(%x, %n) : (tensor<2xf32>, tensor<1xi64>) -> tensor<2xf32>\n return %0 : tensor<2xf32>",
     "line 3, column 6: 'call': @main calls itself"),
    ("%0 = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>\n return %0 : tensor<2xf32>", "there is no function @f"),
    ("%0 = stablehlo.transpose %x, dims = [1] : (tensor<2xf32>) -> tensor<2xf32>\n return %0 : tensor<2xf32>",
     "line 3, column 6: 'stablehlo.transpose': transpose: "),
    ("%c = stablehlo.constant dense_resource<w> : tensor<2xf32>\n return %c : tensor<2xf32>", "dense_resource<w> is not among"),
    ("%0 = stablehlo.convert %x : (tensor<2xf32>) -> tensor<2xf8E4M3FN>\n return %0 : tensor<2xf32>",
     "line 3, column 6: 'stablehlo.convert': tensor<2xf8E4M3FN> is no type of Shoal's: floating types are f16, bf16, f32 and f64"),
    ("return %x, %x : tensor<2xf32>, tensor<2xf32>", "line 3, column 1: 'return': it returns 2 values; @main states 1 results"),
    ("return %n : tensor<1xi64>", r"line 3, column 1: 'return': it returns int64\[1\]; @main states tensor<2xf32> as its result 0"),
    ("return %x : tensor<3xf32>", r"line 3, column 1: 'return': the type of operand 0, %x, is stated as tensor<3xf32>, but is float32\[2\]"),
    ("return %x : tensor<2xf32>, tensor<2xf32>", "'return': it returns 1 values, and states 2 types"),
    ("return %x", None),
    ("", "a body ends with its one return"),
    ("%0 = stablehlo.add %x, %x : tensor<2xf32", "line "),
])
def test_errors(lines, message):
    if message is None:
        assert (shoal.stablehlo.load(body(lines))(X[0, :2], [1]).numpy() == X[0, :2]).all()
        return
    with pytest.raises(shoal.ShoalError, match=message):
        shoal.stablehlo.load(body(lines))


def test_many_calls_behind_a_large_constant(tmp_path):
    """Lines are counted once, not for each operation of a function that is called: this took half a minute."""
    large = 'stablehlo.constant dense<"0x' + "3F800000" * (2 << 20) + f'"> : tensor<{2 << 20}xf32>'
    calls = "\n".join(f"%{i} = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>" for i in range(5000))
    path = tmp_path / "model.mlir"
    path.write_text(body(f"%c = {large}\n{calls}\nreturn %0 : tensor<2xf32>") + """
func.func private @f(%x: tensor<2xf32>) -> (tensor<2xf32> {jax.result_info = ""}) {
  %0 = stablehlo.add %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}""")
    start = time.monotonic()
    assert (shoal.stablehlo.load(path)(X[0, :2], [1]).numpy() == 2 * X[0, :2]).all()
    assert time.monotonic() - start < 20


def test_a_model_runs_in_two_sessions_at_once():
    """Each thread freed the function that the other one was running."""
    n = 600
    xs = ", ".join(f"%x{i}: tensor<2xf32>" for i in range(n))
    lines = [f"%s{i} = stablehlo.add {f'%s{i - 1}' if i else '%x0'}, %x{i} : tensor<2xf32>" for i in range(n)]
    model = shoal.stablehlo.load(f"func.func @main({xs}) -> tensor<2xf32> {{\n" + "\n".join(lines) + f"\nreturn %s{n - 1} : tensor<2xf32>\n}}")
    results = []

    def work(session, value):
        given = [session.tensor(np.full(2, value, np.float32))] * n
        results.extend((model(*given).numpy() == (n + 1) * value).all() for _ in range(50))
    threads = [threading.Thread(target=work, args=(shoal.Session("embedded", 1, 1, "cpu"), i)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 100 and all(results)


def test_bytecode(tmp_path, monkeypatch):
    """Plain, as MLIR writes it, and portable, as jax.export does."""
    function = jax.jit(lambda x: jnp.sin(x) @ W)
    portable = jax.export.export(function)(jax.ShapeDtypeStruct(X.shape, X.dtype)).mlir_module_serialized
    with jax_mlir.make_ir_context():
        plain = io.BytesIO()
        ir.Module.parse(function.lower(X).as_text()).operation.write_bytecode(plain)
    path = tmp_path / "model.mlirbc"
    for data in (portable, plain.getvalue()):
        path.write_bytes(data)
        for source in (path, data):
            np.testing.assert_allclose(shoal.stablehlo.load(source)(X).numpy(), np.asarray(function(X)), rtol=1e-5, atol=1e-6)
    monkeypatch.setitem(sys.modules, "jaxlib.mlir.dialects", None)
    if importlib.util.find_spec("iree"):
        text = shoal.stablehlo._read(plain.getvalue())
        np.testing.assert_allclose(shoal.stablehlo.load(text)(X).numpy(), np.asarray(function(X)), rtol=1e-5, atol=1e-6)
        with pytest.raises(shoal.ShoalError, match="JAX is not here .*; IREE's package reads only bytecode that is not the portable form"):
            shoal.stablehlo._read(portable)
    monkeypatch.setitem(sys.modules, "iree.compiler", None)
    with pytest.raises(shoal.ShoalError, match="JAX is not here .*; IREE is not here"):
        shoal.stablehlo._read(portable)


def damaged(data, seed):
    """Cut off, or with some bits the other way round."""
    random = np.random.default_rng(seed)
    if seed % 3 == 0:
        return data[:random.integers(4, len(data))]
    changed = bytearray(data)
    for _ in range(random.integers(1, 4)):
        changed[random.integers(4, len(data))] ^= 1 << random.integers(8)
    return bytes(changed)


@pytest.mark.parametrize("form", ["plain", "portable", "plain of IREE"])
def test_damaged_bytecode(form, monkeypatch):
    """One line, whatever MLIR's reader does: it may end its process, and look for the end for ever."""
    monkeypatch.setattr(shoal.stablehlo, "_LONGEST", 10)
    function = jax.jit(lambda x: jnp.sin(x) @ x.T)
    if form == "portable":
        data = jax.export.export(function)(jax.ShapeDtypeStruct(X.shape, X.dtype)).mlir_module_serialized
    else:
        if form != "plain":
            iree_ir = pytest.importorskip("iree.compiler.ir")
            context = iree_ir.Context()
        else:
            iree_ir, context = ir, jax_mlir.make_ir_context()
        with context:
            written = io.BytesIO()
            iree_ir.Module.parse(function.lower(X).as_text()).operation.write_bytecode(written)
        data = written.getvalue()
    failed = 0
    for seed in range(6):
        try:
            shoal.stablehlo.load(damaged(data, seed))
        except shoal.ShoalError as error:
            failed += 1
            assert str(error).startswith("load: this is MLIR's bytecode, ") or str(error).startswith("line "), error
            assert "\n" not in str(error)
    assert failed >= 2  # all that are cut off


@pytest.mark.parametrize("what, message", [("os.abort()", "reading it has ended JAX or IREE with signal 6"),
                                           ("os._exit(3)", "reading it has ended JAX or IREE with exit code 3"),
                                           ("time.sleep(60)", "JAX or IREE has read it for 2 s")])
def test_readers_of_bytecode_that_end(what, message, tmp_path, monkeypatch):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax/__init__.py").write_text(f"import os, time\n{what}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(shoal.stablehlo, "_LONGEST", 2)
    with pytest.raises(shoal.FormatError, match=f"^load: this is MLIR's bytecode, and is damaged: {message}$"):
        shoal.stablehlo.load(b"ML\xefR" + bytes(16))


def test_other_sources(tmp_path):
    with pytest.raises(shoal.ShoalError, match="this is XLA's HLO; what is read here is StableHLO"):
        shoal.stablehlo.load(jax.jit(jnp.sin).lower(X).as_text(dialect="hlo"))
    with pytest.raises(shoal.ShoalError, match="there is no function: this is no module of StableHLO"):
        shoal.stablehlo.load("import jax\n")
    with pytest.raises(shoal.ShoalError, match="load: this is MLIR's bytecode, which others have to read: JAX says: .*; IREE (says|is not here)"):
        shoal.stablehlo.load(b"ML\xefR" + bytes(16))
    with pytest.raises(shoal.ShoalError, match="there is no function @other, but for example @main"):
        shoal.stablehlo.load(body("return %x : tensor<2xf32>"), function="other")
    path = tmp_path / "model.mlir"
    shoal.stablehlo.load(body("return %x : tensor<2xf32>")).save(path)
    assert shoal.stablehlo.load(path).outputs[0].shape == (2,)
    with pytest.raises(shoal.ShoalError, match="1 arguments; it takes 2"):
        shoal.stablehlo.load(path)(X)
    with pytest.raises(shoal.ShoalError, match="there is no result 1, only 1"):
        shoal.stablehlo.load(path).gradient(output=1)
    with pytest.raises(shoal.ShoalError, match="there is no result -1, only 1"):
        shoal.stablehlo.load(path).gradient(output=-1)
    two = shoal.stablehlo.export(lambda x, y: (x * y).sum(), X, X)
    for wrong in ([0, 0], [1, 0, 1], [2], [-1], [2 ** 32]):
        with pytest.raises(shoal.ShoalError, match="gradient: there are 2 inputs, from 0 on, each named once"):
            two.gradient(wrong)
    with pytest.raises(TypeError, match=r"a Lowered is neither a path nor a text; of JAX, jax.jit\(f\).lower\(...\).as_text\(\)"):
        shoal.stablehlo.load(jax.jit(jnp.sin).lower(X))
    for wrong, kind in ((lambda x: 5, "int"), (lambda x: {"a": x}, "dict"), (lambda x: (x, None), "NoneType")):
        with pytest.raises(TypeError, match=f"export: the function returned a {kind}; a tensor, or a tuple or list"):
            shoal.stablehlo.export(wrong, X)
    with pytest.raises(shoal.ShoalError, match=r"result 0 is float32\[2\]; it must have one element"):
        shoal.stablehlo.load(path).gradient()
    # Random numbers are written out.
    model = shoal.stablehlo.export(lambda x: x + shoal.rand(2), [0., 0.])
    zero = np.zeros(2, np.float32)
    np.testing.assert_array_equal(shoal.stablehlo.load(model.text())(zero).numpy(), model(zero).numpy())
