"""`shoal run` and `shoal grad`: programs of StableHLO from the command line, against JAX and NumPy."""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import quick_xla  # noqa: F401

jax = pytest.importorskip("jax")

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHOAL = os.environ.get("SHOAL", str(ROOT / "build/cmd/shoal"))
SMALL = """
module {
  func.func @main(%a: tensor<2x3xf32>, %i: tensor<3xi32>, %b: tensor<2xi1>) -> (tensor<f32>, tensor<3xi32>, tensor<2xi1>) {
    %0 = stablehlo.multiply %a, %a : tensor<2x3xf32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
    %2 = stablehlo.add %i, %i : tensor<3xi32>
    return %1, %2, %b : tensor<f32>, tensor<3xi32>, tensor<2xi1>
  }
  func.func @half(%a: tensor<40xf64>) -> tensor<40xf64> {
    %0 = stablehlo.constant dense<0.5> : tensor<40xf64>
    %1 = stablehlo.multiply %a, %0 : tensor<40xf64>
    return %1 : tensor<40xf64>
  }
  func.func @narrow(%a: tensor<3xbf16>, %b: tensor<2xui8>, %c: tensor<f16>) -> (tensor<3xbf16>, tensor<2xui8>, tensor<f16>) {
    return %a, %b, %c : tensor<3xbf16>, tensor<2xui8>, tensor<f16>
  }
}
"""


@pytest.fixture
def shoal(tmp_path):
    (tmp_path / "small.mlir").write_text(SMALL)

    def run(*args, code=0):
        done = subprocess.run([SHOAL, *map(str, args)], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                              env=os.environ | {"SHOAL_HUB": "embedded"})
        assert done.returncode == code, (args, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr
    return run


def test_results_are_printed(shoal):
    lines = shoal("run", "small.mlir", "--", "0.5", "-3", "1").splitlines()
    assert lines[:3] == ["result 0: float32[] 1.5", "result 1: int32[3] -6 -6 -6", "result 2: bool[2] true true"]
    assert lines[3].startswith("it took ")
    told = json.loads(shoal("run", "small.mlir", "--function", "@half", "random:4", "--json"))["results"][0]
    assert told["type"] == "float64[40]" and len(told["values"]) == 32 and told["all"] is False
    assert shoal("run", "small.mlir", "--function", "half", "nan").splitlines()[0].endswith("nan nan ...")
    narrow = shoal("run", "small.mlir", "--function", "narrow", "--fill", "2")
    assert narrow.splitlines()[:3] == ["result 0: bfloat16[3] 2 2 2", "result 1: uint8[2] 2 2", "result 2: float16[] 2"]


def test_random_inputs_are_the_same_for_a_seed(shoal):
    def values(*given):
        return [r["values"] for r in json.loads(shoal("run", "small.mlir", *given, "--json"))["results"]]
    once = values("random:7", "random:7", "random")
    assert once == values("random:7", "random:7", "random", "--workers", "3") != values("random:8", "random:8", "random")
    assert all(value % 2 == 0 and 0 <= value <= 18 for value in once[1])


def test_files(shoal, tmp_path):
    a, i, b = np.arange(6, dtype="float32").reshape(2, 3), np.array([1, 2, 3], "int32"), np.array([True, False])
    for name, array in (("a", a), ("i", i), ("b", b)):
        np.save(tmp_path / f"{name}.npy", array)
    out = shoal("run", "small.mlir", "a.npy", "i.npy", "b.npy", "-o", "sum.npy", "-o", "twice.npy", "--workers", "2")
    assert np.load(tmp_path / "sum.npy") == (a * a).sum() and "sum.npy: 4 B" in out
    np.testing.assert_array_equal(np.load(tmp_path / "twice.npy"), 2 * i)
    assert "sum.npy: exists already; --force overwrites it" in shoal("run", "small.mlir", "a.npy", "i.npy", "b.npy", "-o",
                                                                    "sum.npy", code=1)
    assert "must be" in shoal("run", "small.mlir", "i.npy", "--fill", "1", code=1)
    shoal("run", "small.mlir", "--function", "narrow", "1.5", "2", "3", "-o", "wide.npy")
    assert np.load(tmp_path / "wide.npy").dtype == np.float32


def test_a_model_of_jax_and_its_gradients(shoal, tmp_path):
    def loss(w, b, x, y):
        return ((jax.numpy.tanh(x @ w + b) - y) ** 2).mean()
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape, np.float32) for shape in ((5, 3), (3,), (8, 5), (8, 3))]
    (tmp_path / "loss.mlir").write_text(jax.jit(loss).lower(*arrays).as_text())
    for name, array in zip("wbxy", arrays):
        np.save(tmp_path / f"{name}.npy", array)
    files = [f"{name}.npy" for name in "wbxy"]
    shoal("run", "loss.mlir", *files, "-o", "loss.npy")
    np.testing.assert_allclose(np.load(tmp_path / "loss.npy"), loss(*arrays), rtol=1e-5)
    assert shoal("grad", "loss.mlir", "--wrt", "0,1", "-o", "grad.mlir") == "grad.mlir: 1 result, then 2 gradients\n"
    shoal("run", "grad.mlir", *files, "-o", "l.npy", "-o", "dw.npy", "-o", "db.npy")
    for name, want in zip(("dw", "db"), jax.grad(loss, (0, 1))(*arrays)):
        np.testing.assert_allclose(np.load(tmp_path / f"{name}.npy"), want, rtol=1e-4, atol=1e-6)
    assert "func.func public @main" in shoal("grad", "loss.mlir")
    assert "@main" in json.loads(shoal("grad", "loss.mlir", "--json"))["text"]


def test_bytecode(shoal, tmp_path, monkeypatch):
    """That of jax.export, turned into text by the interpreter that has JAX; and what cannot be."""
    function = jax.jit(lambda x: (jax.numpy.sin(x) ** 2).sum())
    x = np.arange(6, dtype="float32").reshape(2, 3)
    exported = jax.export.export(function)(jax.ShapeDtypeStruct(x.shape, x.dtype))
    (tmp_path / "model.mlirbc").write_bytes(exported.mlir_module_serialized)
    np.save(tmp_path / "x.npy", x)
    monkeypatch.setenv("SHOAL_PYTHON", sys.executable)
    shown = shoal("run", "model.mlirbc", "x.npy").split()
    assert shown[:3] == ["result", "0:", "float32[]"] and float(shown[3]) == pytest.approx(float(function(x)), rel=1e-5)
    shoal("grad", "model.mlirbc", "-o", "grad.mlir")
    shoal("run", "grad.mlir", "x.npy", "-o", "y.npy", "-o", "dx.npy")
    np.testing.assert_allclose(np.load(tmp_path / "dx.npy"), np.sin(2 * x), rtol=1e-4, atol=1e-6)
    error = shoal("run", "model.mlirbc", "--function", "no", "x.npy", code=1)
    assert error.startswith("shoal: model.mlirbc: there is no function @no") and error.count("\n") == 1
    (tmp_path / "bad.mlirbc").write_bytes(b"ML\xefR" + bytes(16))
    for command in ("run", "grad"):
        error = shoal(command, "bad.mlirbc", code=1)
        assert error.startswith("shoal: bad.mlirbc: this is MLIR's bytecode, which others have to read: JAX says: "), error
        assert error.count("\n") == 1
    monkeypatch.setenv("SHOAL_PYTHON", "/nowhere/python")
    assert shoal("run", "model.mlirbc", "x.npy", code=1) == (
        "shoal: run: cannot run /nowhere/python: No such file or directory; install Python 3.11 or later and the "
        "package shoal, or name another interpreter by SHOAL_PYTHON\n")


@pytest.mark.parametrize("args, code, text", [
    (["run"], 2, "run needs a model: run MODEL.mlir [INPUT...]"),
    (["run", "none.mlir"], 1, "none.mlir: No such file or directory"),
    (["run", "small.mlir", "1"], 1, "small.mlir: takes 3 inputs; 1 is given, and input 1 is int32[3]; --fill says what the "
     "others are"),
    (["run", "small.mlir", "1", "1", "1", "1"], 1, "small.mlir: takes 3 inputs; 4 are given"),
    (["run", "small.mlir", "1", "0.5", "1"], 1, "input 1 is int32; '0.5' is no such number"),
    (["run", "small.mlir", "1", "1e10", "1"], 1, "input 1 is int32; '1e10' is no such number"),
    (["run", "small.mlir", "1", "1", "2"], 1, "input 2 is bool; '2' is no such number"),
    (["run", "small.mlir", "--fill", "1", "-o", "a.txt"], 1, "a.txt: a result is written as .npy, .safetensors or .bin; name it so"),
    (["run", "small.mlir", "--fill", "1", *(f"-o{i}.npy" for i in range(4))], 1, "small.mlir: has 3 results; 4 files are named"),
    (["run", "small.mlir", "--fill", "1", "-o", "a.npy", "-o", "b.npy", "-o", "a.npy"], 1,
     "a.npy: is named for results 0 and 2; name another for one of them"),
    (["run", "small.mlir", "--fill", "random:x"], 2, "random 'x': must be a whole number"),
    (["run", "small.mlir", "--function", "no", "--fill", "1"], 1, "small.mlir: "),
    (["run", "small.mlir", "none.npy", "1", "1"], 1, "opening none.npy: No such file or directory"),
    (["run", "small.mlir", "--fill", "1", "--force"], 2, "--force: there is no --output to overwrite"),
    (["run", "small.mlir", "0.5", "-1", "1"], 2, "run: '-1' would be an option; values that begin with '-' go after '--': "
     "shoal run ... -- -1"),
    (["run", "small.mlir", "--json", "-.5e3"], 2, "run: '-.5e3' would be an option; values that begin with '-' go after '--'"),
    (["run", "small.mlir", "-q", "--", "-1"], 2, "invalid option -- 'q'"),
    (["run", "small.mlir", "--workers", "-1"], 2, "--workers '-1': must be a whole number from 1 to 256"),
    (["grad"], 2, "grad needs one model: grad MODEL.mlir"),
    (["grad", "small.mlir", "--result", "1"], 1, "gradient: result 1 is"),
    (["grad", "small.mlir", "--result", "9"], 1, "gradient: there is no result 9, only 3"),
    (["grad", "small.mlir", "--wrt", "0,3"], 1, "--wrt '0,3': there are 3 inputs, from 0 on, each named once"),
    (["grad", "small.mlir", "--wrt", "2,0,2"], 1, "--wrt '2,0,2': there are 3 inputs, from 0 on, each named once"),
    (["grad", "small.mlir", "--wrt", "0;1"], 1, "--wrt '0;1': must be numbers of inputs, as 0,2,5"),
    (["grad", "small.mlir", "--wrt", "1"], 1, "gradient: "),
])
def test_errors(shoal, args, code, text):
    error = shoal(*args, code=code)
    assert error.startswith(f"shoal: {text}") and error.count("\n") == 1, error
