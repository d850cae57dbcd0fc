"""Values and gradients against PyTorch, property-based: shapes that broadcast, odd ones and empty ones,
float32 and float64. The expressions are the same text on both sides. Skipped without PyTorch."""
import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import shoal
import shoal.functional

from peer import numpy_of, torch, torch_of

SETTINGS = settings(max_examples=25, deadline=None, derandomize=True)
TOLERANCE = {"float32": 2e-5, "float64": 1e-9}


def ask(expression, arrays, weights):
    """torch's value of an expression, and the gradients of value * weights."""
    names = {name: torch_of(array) for name, array in arrays.items()}
    for tensor in names.values():
        tensor.requires_grad_(tensor.is_floating_point())
    value = eval(expression, {"torch": torch, "lib": torch, "F": torch.nn.functional, **names})
    value.backward(torch_of(weights))
    zeros = {name: torch.zeros_like(t) if t.grad is None else t.grad
             for name, t in names.items() if t.requires_grad}
    return numpy_of(value), {name: numpy_of(g) for name, g in zeros.items()}


def check(expression, arrays, data, tolerance=None, theirs=None):
    """The expression (torch's may be another) on both sides, with weights drawn from `data`."""
    tensors = {name: shoal.tensor(array) for name, array in arrays.items()}
    for tensor in tensors.values():
        if tensor.dtype.startswith("float"):
            tensor.requires_grad_()
    value = eval(expression, {"lib": shoal, "F": shoal.functional, **tensors})
    weights = np.asarray(np.random.default_rng(data).uniform(-1, 1, value.shape), value.dtype)
    want, gradients = ask(theirs or expression, arrays, weights)
    limit = tolerance or TOLERANCE[value.dtype]

    def near(got, expected, what):
        scale = max(1.0, float(np.abs(expected).max(initial=0)))
        np.testing.assert_allclose(got, expected, rtol=limit, atol=limit * scale,
                                   err_msg=f"{what} of {expression}")
    near(value.detach().numpy(), want, "value")
    if not value.requires_grad:
        assert not any(g.any() for g in gradients.values())
        return
    value.backward(shoal.tensor(weights))
    for name, gradient in gradients.items():
        got = tensors[name].grad
        near(np.zeros_like(gradient) if got is None else got.numpy(), gradient, f"d{name}")


DTYPES = st.sampled_from(["float32", "float64"])
SEEDS = st.integers(0, 2**32 - 1)


def draw(seed, shape, dtype, low, high):
    """Numbers apart from each other, so that maxima and orders are not by chance."""
    n = int(np.prod(shape))
    rng = np.random.default_rng(seed)
    places = (np.arange(n) + rng.uniform(0.1, 0.9, n)) / max(n, 1)
    return (low + (high - low) * rng.permutation(places)).reshape(shape).astype(dtype)


# ---- element by element ----

UNARY = {"x.exp()": (-2, 2), "x.log()": (0.2, 3), "x.sqrt()": (0.2, 3), "x.rsqrt()": (0.2, 3),
         "x.tanh()": (-2, 2), "x.sigmoid()": (-3, 3), "x.erf()": (-2, 2), "x.sin()": (-4, 4),
         "x.cos()": (-4, 4), "x.tan()": (-1, 1), "x.expm1()": (-2, 2), "x.log1p()": (-0.6, 3),
         "x.abs()": (-2, 2), "-x": (-2, 2), "x ** 3": (-2, 2), "x.relu()": (-2, 2),
         "x.floor() + x": (-2, 2), "x.clamp(-0.5, 0.7)": (-2, 2), "F.silu(x)": (-3, 3),
         "F.gelu(x)": (-3, 3), "F.softplus(x)": (-3, 3), "F.leaky_relu(x, 0.1)": (-2, 2),
         "F.elu(x)": (-2, 2), "1 / x": (0.3, 2), "2 - x": (-1, 1), "x * x.detach()": (-1, 1),
         "F.gelu(x, approximate='tanh')": (-3, 3), "x.reciprocal()": (0.4, 2)}


@pytest.mark.parametrize("expression", UNARY)
@settings(SETTINGS, max_examples=8)
@given(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5), DTYPES, SEEDS)
def test_unary(expression, shape, dtype, seed):
    check(expression, {"x": draw(seed, shape, dtype, *UNARY[expression])}, seed)


BINARY = {"a + b": (-2, 2), "a - b": (-2, 2), "a * b": (-2, 2), "a / b": (0.4, 2), "a ** b": (0.4, 2),
          "lib.maximum(a, b)": (-2, 2), "lib.minimum(a, b)": (-2, 2), "lib.arctan2(a, b)": (0.3, 2),
          "lib.where(a > b, a * 2, b)": (-2, 2), "(a + b) * (a - b)": (-1, 1),
          "lib.where(a > 0, a, a * b)": (-1, 1)}


@pytest.mark.parametrize("expression", BINARY)
@settings(SETTINGS, max_examples=12)
@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4, min_side=0), DTYPES,
       SEEDS)
def test_binary(expression, shapes, dtype, seed):
    a, b = shapes.input_shapes
    low, high = BINARY[expression]
    check(expression, {"a": draw(seed, a, dtype, low, high),
                              "b": draw(seed + 1, b, dtype, low, high)}, seed)


# ---- joins, orders, shapes ----

JOINS = ["x.sum()", "x.sum(0)", "x.sum((0, 2))", "x.sum(-1, keepdim=True)", "x.mean()",
         "x.mean(1)", "x.prod()", "x.prod(1)", "x.amax(1)", "x.amax((0, 2))", "x.amin(-1)",
         "x.var(1, unbiased=False)", "x.std(2, unbiased=False)", "x.norm()", "x.logsumexp(1)", "x.cumsum(1)",
         "x.cumprod(2)", "x.softmax(1)", "x.log_softmax(-1)", "x.sort(1)[0]",
         "x.sort(0, descending=True)[0]", "x.topk(2)[0]", "F.normalize(x, dim=1)"]
SHAPES = ["x.reshape(-1)", "x.permute(2, 0, 1)", "x.transpose(0, 2)", "x.flatten(1)",
          "x.unsqueeze(1) * 2", "x[1:, ::2]", "x[0]", "x[:, -1]", "x[..., None]", "x.flip((0, 2))",
          "x[:, [1, 0, 1]]", "lib.cat([x, x * 2], 1)", "lib.stack([x, x.exp()], 2)",
          "x.split(1, 0)[0] * 3", "x.chunk(2, 2)[1]", "x.roll(1, 1)", "x.tril()", "x.triu(1)",
          "x.expand(2, *x.shape)", "x.repeat(2, 1, 2)", "F.pad(x, (1, 2, 0, 1))",
          "x.diagonal(0, 0, 1)", "x.masked_fill(x > 0, 1.5)", "x.narrow(1, 0, 1)", "x.swapaxes(0, 1)"]


@pytest.mark.parametrize("expression", JOINS + SHAPES)
@settings(SETTINGS, max_examples=6)
@given(st.tuples(*[st.integers(2, 5)] * 3), DTYPES, SEEDS)
def test_joins_and_shapes(expression, shape, dtype, seed):
    check(expression, {"x": draw(seed, shape, dtype, -2, 2)}, seed)


@SETTINGS
@given(st.tuples(*[st.integers(1, 5)] * 3), DTYPES, SEEDS)
def test_running_extremes(shape, dtype, seed):
    x = np.round(draw(seed, shape, dtype, -2, 2), 0 if seed % 2 else 9)  # with equal ones
    check("x.cummax(1)[0]", {"x": x}, seed)
    check("x.cummin(2)[0]", {"x": x}, seed)


def test_products_with_zeros():
    x = np.array([[1.5, 0, 2, -1], [0, 3, 0, 1], [1, 2, 3, 4]], "float64")
    for expression in ("x.prod(1)", "x.prod()", "x.prod(0)", "x.cumprod(1)", "x.cumprod(0)"):
        check(expression, {"x": x}, 3)


INDEXED = ["x[i]", "x.index_select(0, i)", "x.index_add(0, i, u)", "x.gather(0, j)", "x[i] * x[i].sum(0)",
           "x.scatter_add(0, j, u)", "F.embedding(i, x)"]


@pytest.mark.parametrize("expression", INDEXED)
@settings(SETTINGS, max_examples=10)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 6), DTYPES, SEEDS)
def test_indices(expression, rows, columns, n, dtype, seed):
    rng = np.random.default_rng(seed)
    arrays = {"x": draw(seed, (rows, columns), dtype, -1, 1), "i": rng.integers(0, rows, n),
              "j": rng.integers(0, rows, (n, columns)), "u": draw(seed + 1, (n, columns), dtype, -1, 1)}
    used = {name: a for name, a in arrays.items() if name in expression}
    check(expression, used, seed)


# ---- products ----

@st.composite
def factors(draw_):
    batch = draw_(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3))
    m, k, n = (draw_(st.integers(1, 5)) for _ in range(3))
    a, b = ((*batch.input_shapes[0], m, k), (*batch.input_shapes[1], k, n))
    if draw_(st.booleans()) and len(a) == 2:
        a = (k,)
    if draw_(st.booleans()) and len(b) == 2:
        b = (k,)
    return a, b


@SETTINGS
@given(factors(), DTYPES, SEEDS)
def test_matmul(shapes, dtype, seed):
    check("a @ b", {"a": draw(seed, shapes[0], dtype, -1, 1),
                           "b": draw(seed + 1, shapes[1], dtype, -1, 1)}, seed)


@pytest.mark.parametrize("equation,a,b", [
    ("ij,jk->ik", (2, 3), (3, 4)), ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)), ("ij,ij->", (2, 3), (2, 3)),
    ("i,j->ij", (3,), (4,)), ("bhsd,bhtd->bhst", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("ijk,kj->i", (2, 3, 4), (4, 3))])
def test_einsum(equation, a, b):
    for dtype in ("float32", "float64"):
        check(f"lib.einsum('{equation}', a, b)",
              {"a": draw(1, a, dtype, -1, 1), "b": draw(2, b, dtype, -1, 1)}, 3)


# ---- layers and losses ----

@SETTINGS
@given(st.integers(1, 4), st.integers(2, 6), DTYPES, SEEDS)
def test_norms(rows, n, dtype, seed):
    arrays = {"x": draw(seed, (rows, 3, n), dtype, -2, 2), "w": draw(seed + 1, (n,), dtype, 0.5, 2),
              "b": draw(seed + 2, (n,), dtype, -1, 1)}
    check(f"F.layer_norm(x, ({n},), w, b)", arrays, seed, 1e-4 if dtype == "float32" else 1e-8)


LOSSES = ["F.mse_loss(x, y)", "F.l1_loss(x, y)", "F.smooth_l1_loss(x, y)",
          "F.binary_cross_entropy_with_logits(x, y.sigmoid())", "F.huber_loss(x, y, delta=0.5)",
          "F.kl_div(x.log_softmax(1), y.softmax(1), reduction='batchmean')"]


@pytest.mark.parametrize("expression", LOSSES)
@settings(SETTINGS, max_examples=8)
@given(st.integers(1, 4), st.integers(2, 6), DTYPES, SEEDS)
def test_losses(expression, rows, n, dtype, seed):
    check(expression, {"x": draw(seed, (rows, n), dtype, -2, 2),
                              "y": draw(seed + 1, (rows, n), dtype, -2, 2)}, seed)


@SETTINGS
@given(st.integers(1, 6), st.integers(2, 6), DTYPES, SEEDS, st.sampled_from(["mean", "sum", "none"]))
def test_cross_entropy(rows, classes, dtype, seed, reduction):
    labels = np.random.default_rng(seed).integers(0, classes, rows)
    if rows > 1:
        labels[0] = -100
    check(f"F.cross_entropy(x, y, reduction='{reduction}')",
          {"x": draw(seed, (rows, classes), dtype, -3, 3), "y": labels}, seed)


@SETTINGS
@given(st.integers(1, 3), st.integers(1, 6), st.integers(1, 6), DTYPES, SEEDS)
def test_attention(heads, s, t, dtype, seed):
    """Against its formula: torch 1.13 has no function for it."""
    arrays = {"q": draw(seed, (2, heads, s, 4), dtype, -1, 1),
              "k": draw(seed + 1, (2, heads, t, 4), dtype, -1, 1),
              "v": draw(seed + 2, (2, heads, t, 5), dtype, -1, 1)}
    weights = "((q @ k.transpose(-1, -2)) / 2)"
    check("F.scaled_dot_product_attention(q, k, v)", arrays, seed,
          theirs=f"{weights}.softmax(-1) @ v")
    arrays |= {name: draw(seed + 1, (2, heads, s, 4), dtype, -1, 1) for name in "kv"}
    hidden = f"torch.ones({s}, {s}).triu(1).bool()"
    check("F.scaled_dot_product_attention(q, k, v, is_causal=True)", arrays, seed,
          theirs=f"{weights}.masked_fill({hidden}, float('-inf')).softmax(-1) @ v")



# Where a function bends, has ties, or is defined by pieces: (function of a library and a tensor, points).
EDGES = {
    "hardtanh": (lambda lib, x: lib.nn.functional.hardtanh(x, -2, 1), [-2, 1, 0, 3.0]),
    "relu6": (lambda lib, x: lib.nn.functional.relu6(x), [0, 6, 3, 7.0]),
    "hardsigmoid": (lambda lib, x: lib.nn.functional.hardsigmoid(x), [-3, 3, 0, 4.0]),
    "hardswish": (lambda lib, x: lib.nn.functional.hardswish(x), [-3, 3, 0, 4.0]),
    "clamp": (lambda lib, x: x.clamp(-1, 1), [-1, 1, 0, 4.0]),
    "rrelu": (lambda lib, x: lib.nn.functional.rrelu(x), [0, 1, -1.0]),
    "binary_cross_entropy": (lambda lib, x: lib.nn.functional.binary_cross_entropy(
        x, lib.tensor([0, 1, 1, 0, 0.25, 0.5], dtype=x.dtype), reduction="none"), [0, 1, 0, 1, 0.5, 1e-13]),
    "saturated sigmoid": (lambda lib, x: lib.nn.functional.binary_cross_entropy(
        x.sigmoid(), lib.tensor([0, 1, 1, 0, 0.25], dtype=x.dtype)), [-900, 900, -900, 900, 0.5]),
    "multi_margin_loss": (lambda lib, x: lib.nn.functional.multi_margin_loss(x[None], lib.tensor([1])), [0, 1, 2, 0.5]),
    "multilabel_margin_loss": (lambda lib, x: lib.nn.functional.multilabel_margin_loss(
        x[None], lib.tensor([[1, -1, 0, 0]])), [0, 1, 2, 0.5]),
    "adaptive_max_pool2d": (lambda lib, x: lib.nn.functional.adaptive_max_pool2d(
        x.reshape(1, 4, 4), 2), [0, 3, 0, 0, 3, 0, 0, 0, 1, 2, 2, 2, 2, 1, 2, 0.0]),
    "adaptive_max_pool1d": (lambda lib, x: lib.nn.functional.adaptive_max_pool1d(x[None], 2), [1, 1, 0, 0, 0.0]),
    "asinh": (lambda lib, x: x.asinh(), [0, 1e-5, -1e-5, 1e-4, 0.3, -2, 1e11, -1e120]),
    "erfinv": (lambda lib, x: x.erfinv(), [0, 0.3, -0.99, 1e-8]),
    "ndtri": (lambda lib, x: importlib.import_module(lib.__name__ + ".special").ndtri(x), [0.5, 0.01, 0.999]),
    "digamma": (lambda lib, x: x.digamma(), [-2.7, -0.3, 1e-3, 0.5, 1, 2, 3.5, 40]),
    "polygamma 1": (lambda lib, x: x.polygamma(1), [-2.7, -1.3, -0.3, 1e-3, 0.5, 1, 3.5, 40]),
    "polygamma 2": (lambda lib, x: x.polygamma(2), [-2.7, -1.3, -0.3, 1e-3, 0.5, 1, 3.5, 40]),
    "polygamma 3": (lambda lib, x: x.polygamma(3), [-2.7, -1.3, -0.3, 1e-3, 0.5, 1, 3.5, 40]),
}


@pytest.mark.parametrize("name", EDGES)
def test_edges(name):
    function, points = EDGES[name]
    got = []
    for lib in (torch, shoal):
        x = lib.tensor(points, dtype=lib.float64, requires_grad=True)
        made = function(lib, x)
        (made * lib.arange(1.0, made.numel() + 1, dtype=lib.float64).reshape(made.shape)).sum().backward()
        got.append((np.array(made.detach().tolist()), np.array(x.grad.tolist())))
    for theirs, ours in zip(*got):
        np.testing.assert_allclose(ours, theirs, 1e-8, 1e-8)


def test_the_first_of_equal_ones_is_pooled():
    points = np.random.default_rng(3).integers(0, 3, (2, 3, 7, 5)).astype("float32").tolist()
    for n, shape in ((1, (6, 7, 5)), (2, (2, 3, 7, 5)), (3, (1, 2, 3, 7, 5))):
        name, size = f"adaptive_max_pool{n}d", (2, 3, 2)[-n:]
        theirs, ours = (getattr(lib.nn.functional, name)(lib.tensor(points).reshape(shape), size, return_indices=True)
                        for lib in (torch, shoal))
        assert [t.tolist() for t in ours] == [t.tolist() for t in theirs]


def test_poles():
    """Gradients are infinite at 0."""
    x = shoal.tensor([0.0, -1, 2], requires_grad=True)
    x.digamma().sum().backward()
    assert x.grad.tolist()[::2] == pytest.approx([float("inf"), torch.tensor(2.0).polygamma(1).item()])
    assert shoal.tensor([0.0, -3]).polygamma(1).tolist() == [float("inf")] * 2


@pytest.mark.parametrize("name", ["round", "floor", "ceil", "trunc", "sign", "fix", "frac"])
def test_steps_have_gradients_of_zeros(name):
    got = []
    for lib in (torch, shoal):
        x = lib.tensor([1.5, -2.5, 0.0, -0.3, float("inf")], requires_grad=True)
        y = getattr(x, name)()
        y.sum().backward()
        got.append((y.detach().tolist(), x.grad.tolist()))
    np.testing.assert_array_equal(*got)
