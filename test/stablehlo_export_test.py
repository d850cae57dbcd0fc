"""What Shoal writes as StableHLO, of every operation of its own table: XLA computes from it what Shoal does, and iree-compile
takes it in."""
import pathlib
import re

import numpy as np
import pytest

import stablehlo_loops_test as loops
import stablehlo_ops_test as ops

import shoal

compiler = pytest.importorskip("iree.compiler")
F = shoal.functional
X, IDS, GAIN = ops.numbers(4, 6), np.array([1, 2, 0, 3]), np.ones(6, np.float32)
Q, K, V = (ops.numbers(1, 2, 4, 8, seed=seed) for seed in (1, 2, 3))
# Shoal's own operations, and their gradients, in the standard's words.
COMPOSITES = {
    "silu": (F.silu, X), "gelu": (F.gelu, X), "gelu of tanh": (lambda x: F.gelu(x, approximate="tanh"), X),
    "softmax": (lambda x: F.softmax(x, 1), X), "log_softmax": (lambda x: F.log_softmax(x, 1), X),
    "rms_norm": (lambda x, g: F.rms_norm(x, (6,), g), X, GAIN), "layer_norm": (lambda x, g: F.layer_norm(x, (6,), g, g), X, GAIN),
    "cross_entropy": (F.cross_entropy, X, IDS), "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), Q, K, V),
    "cumulate": (lambda x: x.cumsum(1), X), "argmax": (lambda x: x.argmax(1), X), "argmin": (lambda x: x.argmin(0), X),
    "top_k": (lambda x: x.topk(3)[0], X), "erf": (lambda x: x.erf(), X), "in_range": (lambda x, i: x[i], X, IDS),
}
# Of what iree-compile has no lowering, whoever writes it.
NOT_OF_IREE = {"select_and_scatter"}


def check(name, model, arguments):
    text = model.text()
    results = model(*arguments)
    for got, want in zip(ops.by_xla(text, arguments), results if isinstance(results, tuple) else (results,), strict=True):
        want = want.numpy()
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=1e-5, atol=1e-5)
    if name not in NOT_OF_IREE:
        compiler.compile_str(text, target_backends=["llvm-cpu"], input_type="stablehlo",
                             extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-input-demote-f64-to-f32=false", "--compile-to=input"])
    return set(re.findall(r'"(?:stablehlo|chlo)\.(\w+)"', text))


def test_every_operation_of_the_standard():
    seen = set()
    for name, (lines, results, *arguments) in ops.CASES.items():
        text = ops.program(lines, results, arguments)
        if name == "composite":
            text = text.replace("module {", "module {" + ops.FUNCTION)
        seen |= check(name, shoal.stablehlo.load(text), arguments)
    seen |= check("top_k", shoal.stablehlo.export(*COMPOSITES["top_k"]), [X]) | check("erf", shoal.stablehlo.export(*COMPOSITES["erf"]), [X])
    table = (pathlib.Path(__file__).parent.parent / "src/graph/ops.def").read_text()
    categories = dict(re.findall(r'^OP\((\w+),\s*\w+,\s*"(\w+)"', table, re.MULTILINE))
    own = {"argmax", "argmin", "cumulate", "in_range", "random"}
    assert seen >= {name for name, category in categories.items() if category not in ("composite", "shoal")} - own


@pytest.mark.parametrize("name", COMPOSITES)
def test_operations_of_shoal(name):
    function, *arguments = COMPOSITES[name]
    check(name, shoal.stablehlo.export(function, *arguments), arguments)
    model = shoal.stablehlo.export(lambda *x: function(*x).sum(), *arguments)
    if name not in ("argmax", "argmin"):
        check(name, model.gradient(), arguments)


@pytest.mark.parametrize("name", ["nested", "until"])
def test_gradients_of_loops(name):
    ops.jax.config.update("jax_enable_x64", False)
    try:
        function, *arguments = loops.CASES[name]
        check(name, loops.exported(function, arguments).gradient(), arguments)
    finally:
        ops.jax.config.update("jax_enable_x64", True)
