"""Gradients of programs of JAX are those that JAX itself has; what has none says where it stands in the text."""
import subprocess
import os

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


X = numbers(4, 8)


def compared(function, *arguments, tolerance=1e-5, like=None):
    """A function's value and gradients, by JAX and by Shoal of the text. like: a function with the same ones for JAX."""
    floating = [i for i, x in enumerate(arguments) if np.asarray(x).dtype.kind == "f"]
    text = jax.jit(function, keep_unused=True).lower(*arguments).as_text()
    value, *gradients = shoal.stablehlo.load(text).gradient()(*arguments)
    np.testing.assert_allclose(value.numpy(), function(*arguments), rtol=tolerance)
    for got, want in zip(gradients, jax.jit(jax.grad(like or function, floating))(*arguments), strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=tolerance, atol=tolerance * max(1, np.abs(want).max(initial=0)))


# ---- where gradients are refused ----

REFUSED = """module {
  func.func @main(%x: tensor<4xf32>) -> tensor<f32> {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.negate %x : tensor<4xf32>
    %1 =
         stablehlo.bitcast_convert %0 : (tensor<4xf32>) -> tensor<4xf32>
    %2 = stablehlo.reduce(%1 init: %c) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    return %2 : tensor<f32>
  }
}
"""
INSIDE = """module {
  func.func @main(%x: tensor<f32>) -> tensor<f32> {
    %p = stablehlo.constant dense<true> : tensor<i1>
    %0 = "stablehlo.if"(%p) ({
      %1 = stablehlo.bitcast_convert %x : (tensor<f32>) -> tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }, {
      stablehlo.return %x : tensor<f32>
    }) : (tensor<i1>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}
"""


@pytest.mark.parametrize("text, message", [
    (REFUSED, r"bitcast_convert (line 6, column 10FILE) has no gradient"),
    (INSIDE, r"the gradient of if (line 4, column 10FILE): bitcast_convert (line 5, column 12FILE) has no gradient")])
def test_refusals_name_the_place(text, message, tmp_path):
    with pytest.raises(shoal.ShoalError) as raised:
        shoal.stablehlo.load(text).gradient()
    assert str(raised.value) == message.replace("FILE", "")
    model = shoal.stablehlo.load(text)
    x = shoal.tensor(np.ones(model.inputs[0].shape, np.float32), requires_grad=True)
    with pytest.raises(shoal.ShoalError) as raised:
        model(x).backward()
    assert str(raised.value) == message.replace("FILE", "")
    path = tmp_path / "model.mlir"
    path.write_text(text)
    ran = subprocess.run([os.environ["SHOAL"], "grad", path], stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert ran.returncode == 1 and ran.stderr == f"shoal: {message.replace('FILE', ' of model.mlir')}\n"


def test_a_model_may_be_gone_before_its_operations_run():
    """The bodies of what it has recorded stay."""
    text = jax.jit(lambda x: (x.max(1) * lax.fori_loop(0, 3, lambda i, y: y * x.sum(1), x[:, 0])).sum()).lower(X).as_text()
    for i in range(5):
        x = shoal.tensor(X + i, requires_grad=True)
        y = shoal.stablehlo.load(text)(x)
        others = [shoal.stablehlo.load(text) for _ in range(20)]  # where it was
        y.backward()
        want = jax.grad(lambda x: (x.max(1) * x[:, 0] * x.sum(1) ** 3).sum())(jnp.asarray(X + i))
        np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-4, atol=1e-3 * np.abs(want).max())
        assert len(others) == 20


# ---- reductions by a body of one's own ----

POSITIVE = np.abs(numbers(3, 7, 5, seed=4)) + np.float32(0.1)


def reduced(body, *initial):
    return lambda axes, *xs: lax.reduce(xs, tuple(np.float32(i) for i in initial), body, axes)


def folded(body, *initial):
    """The same from one element to the next, whose derivative JAX has as it is written."""
    def function(axes, *xs):
        kept = [a for a in range(xs[0].ndim) if a not in axes]
        rows = [x.transpose(*axes, *kept).reshape(-1, *(x.shape[a] for a in kept)) for x in xs]
        first = tuple(jnp.full(rows[0].shape[1:], i, np.float32) for i in initial)
        return lax.scan(lambda c, x: (tuple(body(c, x)), None), first, tuple(rows))[0]
    return function


BODIES = {
    "hypotenuse": (lambda a, b: (jnp.sqrt(a[0] * a[0] + b[0] * b[0]),), 0.5),
    "sum of logarithms": (lambda a, b: (jnp.logaddexp(a[0], b[0]),), -3.),
    "sum and product": (lambda a, b: (a[0] + b[0] + a[0] * b[0] / 2,), 0.25),
    "maximum, written out": (lambda a, b: (jnp.where(a[0] > b[0], a[0], b[0]),), -1.),
    "clamped": (lambda a, b: (jnp.clip(a[0] + b[0], -50., 2.),), 0.),
    "affine maps": (lambda a, b: (a[0] * b[0], a[0] * b[1] + a[1]), 1., 0.5),
    "mean and weight": (lambda a, b: ((a[0] * a[1] + b[0] * b[1]) / (a[1] + b[1]), a[1] + b[1]), 0.7, 0.3),
    "largest with what is beside it": (lambda a, b: (jnp.where(a[0] >= b[0], a[0], b[0]), jnp.where(a[0] >= b[0], a[1], b[1])), -1., 3.),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("axes", [(1,), (0, 2), (0, 1, 2), (2,), (0,)])
def test_reductions(name, axes):
    """From the first to the last, whatever is before them; JAX's own rule takes it that the order is open, and that
    initial values change nothing."""
    body, *initial = BODIES[name]
    xs = tuple(POSITIVE * (i + 1) if i else POSITIVE for i in range(len(initial)))

    def loss(function):
        return lambda *xs: sum((jnp.sin(y) * (i + 1)).sum() for i, y in enumerate(function(axes, *xs)))
    compared(loss(reduced(body, *initial)), *xs, tolerance=2e-4, like=loss(folded(body, *initial)))


def test_reductions_as_jax_has_them():
    for name, initial in (("hypotenuse", 0.), ("sum of logarithms", -np.inf), ("sum and product", 0.)):
        for axes in ((1,), (0, 2)):
            compared(lambda x: (reduced(BODIES[name][0], initial)(axes, x)[0] ** 2).sum(), POSITIVE, tolerance=1e-4)


def test_initial_values_of_reductions():
    body, *_ = BODIES["affine maps"]

    def loss(fold):
        def function(x, y, a, b):
            if not fold:
                return sum(v.sum() for v in lax.reduce((x, y), (a, b), body, (1,)))
            first = jnp.full((3, 5), 1.) * a, jnp.full((3, 5), 1.) * b
            return sum(v.sum() for v in lax.scan(lambda c, x: (body(c, x), None), first, (x.swapaxes(0, 1), y.swapaxes(0, 1)))[0])
        return function
    compared(loss(False), POSITIVE, POSITIVE * 2, np.float32(0.5), np.float32(1.5), tolerance=2e-4, like=loss(True))


@pytest.mark.parametrize("most", [True, False])
def test_pairs_of_a_number_and_its_index(most):
    """The gradient is that of the element itself; indices have none. (JAX's rule fails where they are not used.)"""
    def pairs(x, axis):
        def body(a, b):
            first = (a[0] > b[0]) if most else (a[0] < b[0])
            first = first | ((a[0] == b[0]) & (a[1] < b[1]))
            return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])
        return lax.reduce((x, lax.broadcasted_iota(np.int32, x.shape, axis)), (np.float32(-np.inf if most else np.inf), np.int32(0)), body, (axis,))

    for axis in (0, 1, 2):
        def loss(x):
            values, at = pairs(x, axis)
            return (values ** 2 * (1 + at)).sum()

        def picked(x):
            at = jnp.argmax(x, axis) if most else jnp.argmin(x, axis)
            return (jnp.take_along_axis(x, jnp.expand_dims(at, axis), axis).squeeze(axis) ** 2 * (1 + at)).sum()
        compared(loss, POSITIVE, like=picked)
        compared(loss, np.round(POSITIVE * 2), like=picked)


def test_reductions_within_others():
    hypotenuse = reduced(BODIES["hypotenuse"][0], 0.)
    compared(lambda x: jax.vmap(lambda row: hypotenuse((0,), row)[0])(x).sum(), POSITIVE, tolerance=1e-4)
    compared(lambda x: lax.scan(lambda c, row: (hypotenuse((0, 1), row * c)[0], c), np.float32(1), x)[0], POSITIVE, tolerance=1e-4)
    compared(lambda x: hypotenuse((0,), x[:, :0])[0].sum() + hypotenuse((1,), x[:, :0])[0].sum() + x.sum(), POSITIVE)
    # Along no axis at all, where XLA forgets the initial value.
    text = jax.jit(lambda x: lax.reduce(x, np.float32(1), lambda a, b: a + 2 * a * b + b, ()).sum()).lower(POSITIVE).as_text()
    value, gradient = shoal.stablehlo.load(text).gradient()(POSITIVE)
    np.testing.assert_allclose(value.numpy(), (1 + 3 * POSITIVE).sum(), rtol=1e-5)
    np.testing.assert_array_equal(gradient.numpy(), np.full(POSITIVE.shape, 3, np.float32))
    # Second derivatives.
    text = jax.jit(lambda x: (hypotenuse((1,), x)[0] ** 3).sum()).lower(POSITIVE).as_text()
    first = shoal.stablehlo.export(lambda x, w: (shoal.stablehlo.load(text).gradient()(x)[1] * w).sum(), POSITIVE, POSITIVE)
    want = jax.grad(lambda x: (jax.grad(lambda x: (hypotenuse((1,), x)[0] ** 3).sum())(x) * POSITIVE).sum())(POSITIVE)
    np.testing.assert_allclose(first.gradient([0])(POSITIVE, POSITIVE)[1].numpy(), want, rtol=2e-3, atol=2e-3)


def test_reductions_of_one_tensor_twice():
    def loss(x):
        values = lax.reduce((x, x), (np.float32(1), np.float32(2)), BODIES["affine maps"][0], (1,))
        return values[0].sum() + 2 * values[1].sum()
    compared(loss, POSITIVE, tolerance=2e-4,
             like=lambda x: (lambda v: v[0].sum() + 2 * v[1].sum())(folded(BODIES["affine maps"][0], 1., 2.)((1,), x, x)))


# ---- indices outside ----

IDS = np.array([0, 7, 8, 9, -1, -8, -9, -20, 2, 2], np.int32)
TABLE, WEIGHTS = numbers(8, 3, seed=2), jnp.arange(1., 31.).reshape(10, 3)
WINDOWS = lax.GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0, 1))


def windows(x, i, mode):
    return lax.gather(x, jnp.stack([i, i], 1), WINDOWS, (2, 2), mode=mode).reshape(10, 4)[:, :3]


PICKED = {
    "get": lambda x, i, mode: x.at[i].get(mode=mode),
    "get by two": lambda x, i, mode: x.at[i, i].get(mode=mode)[:, None],
    "get columns": lambda x, i, mode: x.at[:, i].get(mode=mode)[:3].T,
    "windows": windows,
    "vmapped": lambda x, i, mode: jax.vmap(lambda v, j: v.at[j].get(mode=mode))(x.T, i[:9].reshape(3, 3)).reshape(9, 1).repeat(2, 0)[:10],
    "add": lambda x, i, mode: x.at[i].add(WEIGHTS, mode=mode)[:5].repeat(2, 0) ** 2,
    "set": lambda x, i, mode: x.at[i].set(x[0] * WEIGHTS, mode=mode)[:5].repeat(2, 0) ** 2,
    "multiply": lambda x, i, mode: x.at[i].mul(WEIGHTS, mode=mode)[:5].repeat(2, 0) ** 2,
    "max": lambda x, i, mode: x.at[i].max(WEIGHTS / 10 - 1, mode=mode)[:5].repeat(2, 0) ** 2,
}
TAKEN = {
    "rows": lambda x, i, mode: jnp.take(x, i, axis=0, mode=mode),
    "columns": lambda x, i, mode: jnp.take(x, i, axis=1, mode=mode)[:3].T,
    "of all": lambda x, i, mode: jnp.take(x, i * 3, mode=mode)[:, None],
}


def loss(function, mode):
    return lambda x, i: (jnp.nan_to_num(function(jnp.asarray(x), i, mode)) * WEIGHTS).sum()


@pytest.mark.parametrize("name", PICKED)
@pytest.mark.parametrize("mode", ["fill", "clip", "drop"])
def test_indices_outside(name, mode):
    compared(loss(PICKED[name], mode), TABLE, IDS)


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("mode", [None, "fill", "clip", "wrap"])
def test_taken_from_outside(name, mode):
    compared(loss(TAKEN[name], mode), TABLE, IDS)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32])
def test_kinds_of_indices_outside(dtype):
    compared(loss(PICKED["get"], "clip"), TABLE, IDS.astype(dtype))
    compared(loss(PICKED["windows"], "clip"), TABLE, IDS.astype(dtype))


@pytest.mark.parametrize("name", ["get", "get by two", "get columns", "windows", "vmapped"])
@pytest.mark.parametrize("mode", [None, "promise_in_bounds"])
def test_indices_that_are_promised_to_be_inside(name, mode):
    """Their program is that of clip, to the letter, so that their gradient is, too; JAX's own leaves out those outside."""
    def text(mode):
        return jax.jit(loss(PICKED[name], mode)).lower(TABLE, IDS).as_text()
    if name == "windows":
        mode = "promise_in_bounds"
    assert text(mode) == text("clip")
    compared(loss(PICKED[name], mode), TABLE, IDS, like=loss(PICKED[name], "clip"))


def test_boxes_outside():
    for at in (0, 5, 20, -3, -30):
        compared(lambda x, i: (lax.dynamic_slice(x, (i, i), (4, 2)) * WEIGHTS[:4, :2]).sum(), TABLE, np.int32(at))
        compared(lambda x, i: (lax.dynamic_update_slice(x, x[:4, :2] * 3, (i, i)) ** 2).sum(), TABLE, np.int32(at))
        compared(lambda x, i: (lax.dynamic_index_in_dim(x, i) ** 2).sum(), TABLE, np.int32(at))


def test_segments_outside():
    for function in (jax.ops.segment_sum, jax.ops.segment_max):
        compared(lambda x, i: (jnp.nan_to_num(function(x, i[:8], num_segments=4), neginf=0) ** 2).sum(), TABLE, IDS)
