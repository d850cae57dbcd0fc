"""Gradients of programs of JAX are those that JAX itself has; what has none says where it stands in the text."""
import subprocess
import os

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jax.config.update("jax_platforms", "cpu")
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

import shoal  # noqa: E402

shoal.init(workers=1, backend="cpu")


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


X = numbers(4, 8)


def compared(function, *arguments, tolerance=1e-5, static=()):
    """The gradients of a function's sum, by JAX and by Shoal of the text."""
    floating = [i for i, x in enumerate(arguments) if np.asarray(x).dtype.kind == "f"]
    text = jax.jit(function, keep_unused=True).lower(*arguments).as_text()
    value, *gradients = shoal.stablehlo.load(text).gradient()(*arguments)
    np.testing.assert_allclose(value.numpy(), function(*arguments), rtol=tolerance)
    for got, want in zip(gradients, jax.grad(function, floating)(*arguments), strict=True):
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
