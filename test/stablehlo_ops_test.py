"""Every operation of the StableHLO specification: a small program of its own, in pretty and in generic form, against what
XLA makes of the same text; what cannot be imported is an error that names line, column, operation and reason."""
import re

import numpy as np
import pytest

import quick_xla  # noqa: F401

jax = pytest.importorskip("jax")
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)
from jax._src import xla_bridge  # noqa: E402
from jax._src.interpreters import mlir as jax_mlir  # noqa: E402
from jax._src.lib import xla_client  # noqa: E402
from jaxlib.mlir import ir  # noqa: E402

import shoal  # noqa: E402

shoal.init(workers=1, backend="cpu")

DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32,
          "i64": np.int64, "ui8": np.uint8, "ui16": np.uint16, "ui32": np.uint32, "ui64": np.uint64}


def numbers(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def kind(array):
    name = next(name for name, dtype in DTYPES.items() if array.dtype == dtype)
    return "tensor<" + "".join(f"{n}x" for n in array.shape) + name + ">"


def program(lines, results, arguments):
    """A module whose function takes %0, %1, ... and whose last line says what it returns."""
    given = ", ".join(f"%arg{i}: {kind(np.asarray(x))}" for i, x in enumerate(arguments))
    stated = ", ".join(f"tensor<{r}>" for r in results.split())
    text = re.sub(r"\bt<", "tensor<", re.sub(r"%(\d+)\b(?!#)", r"%arg\1", lines))
    *lines, last = (line.strip() for line in text.strip().split("\n"))
    return f"module {{\n  func.func @main({given}) -> ({stated}) {{\n    " + "\n    ".join([*lines, f"return {last} : {stated}"]) + "\n  }\n}\n"


def forms(text):
    """As it is, as MLIR prints it, and in MLIR's generic form."""
    with jax_mlir.make_ir_context():
        module = ir.Module.parse(text).operation
        return text, str(module), module.get_asm(print_generic_op_form=True)


def by_xla(text, arguments):
    client = xla_bridge.get_backend("cpu")
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    executable = client.compile_and_load(text, devices, xla_client.CompileOptions())
    results = executable.execute_sharded([jax.device_put(np.asarray(x), devices[0]) for x in arguments])
    return [np.asarray(x[0]) for x in results.disassemble_into_single_device_arrays()]


def run(text, arguments):
    outputs = shoal.stablehlo.load(text)(*arguments)
    return [x.numpy() for x in (outputs if isinstance(outputs, tuple) else (outputs,))]


def check(text, arguments, tolerance=1e-5, same=None):
    """same: what means the same, where XLA does not take the text itself."""
    expected = by_xla(same or text, arguments)
    for form in forms(text):
        got = run(form, arguments)
        assert len(got) == len(expected)
        for x, want in zip(got, expected):
            assert x.dtype == want.dtype and x.shape == want.shape
            if want.dtype.kind == "f":
                scale = np.abs(want[np.isfinite(want)]).max(initial=1).astype(np.float64)
                np.testing.assert_allclose(x.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance * scale)
            else:
                np.testing.assert_array_equal(x, want)


X, Y = numbers(2, 3), numbers(2, 3, seed=1)
I, J = np.array([[-7, 5, 0], [3, 100, -1]], np.int32), np.array([[2, -3, 1], [31, 7, 40]], np.int32)
B, C = np.array([True, True, False, False]), np.array([True, False, True, False])
SPECIAL = np.array([0., -0., 1.5, -2.5, 2.5, np.inf, -np.inf, np.nan], np.float32)
SQUARE = numbers(3, 3)
POSITIVE = (SQUARE @ SQUARE.T + np.eye(3)).astype(np.float32)
IMAGE, KERNEL = numbers(1, 4, 4, 2), numbers(3, 3, 2, 3, seed=1)


def unary(name, *arguments):
    return {name: (f"%r = stablehlo.{name} %0 : {kind(x)}\n%r", kind(x)[7:-1], x) for x in arguments[:1]}


def binary(name, x, y):
    return {name + " of " + kind(x)[7:-1]: (f"%r = stablehlo.{name} %0, %1 : {kind(x)}\n%r", kind(x)[7:-1], x, y)}


CASES = {}
for name in ("abs", "cbrt", "ceil", "cosine", "exponential", "exponential_minus_one", "floor", "logistic", "negate",
             "round_nearest_afz", "round_nearest_even", "sign", "sine", "tan", "tanh", "optimization_barrier"):
    CASES |= unary(name, X)
for name in ("log", "log_plus_one", "rsqrt", "sqrt"):
    CASES |= unary(name, np.abs(X))
for name in ("count_leading_zeros", "popcnt", "not"):
    CASES |= unary(name, I)
for name in ("add", "atan2", "divide", "maximum", "minimum", "multiply", "remainder", "subtract"):
    CASES |= binary(name, X, Y)
for name in ("add", "and", "divide", "maximum", "minimum", "multiply", "or", "remainder", "shift_left", "shift_right_arithmetic",
             "shift_right_logical", "subtract", "xor"):
    CASES |= binary(name, I, J)
for name in ("and", "or", "xor", "maximum", "minimum", "add", "multiply"):
    CASES |= binary(name, B, C)
CASES |= binary("power", np.abs(X), Y)

REDUCER = """({
    ^bb0(%a: t<f32>, %b: t<f32>):
      %s = stablehlo.BODY %a, %b : t<f32>
      stablehlo.return %s : t<f32>
    })"""
ADDER, LARGER = REDUCER.replace("BODY", "add"), REDUCER.replace("BODY", "maximum")
GREATER = """({
    ^bb0(%a: t<f32>, %b: t<f32>):
      %s = stablehlo.compare GE, %a, %b : (t<f32>, t<f32>) -> t<i1>
      stablehlo.return %s : t<i1>
    }, """ + ADDER[1:]
NORM = "<{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> :"
CONV = "dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"

CASES |= {
    "not of bool": ("%r = stablehlo.not %0 : t<4xi1>\n%r", "4xi1", B),
    "is_finite": ("%r = stablehlo.is_finite %0 : (t<8xf32>) -> t<8xi1>\n%r", "8xi1", SPECIAL),
    "real": ("%r = stablehlo.real %0 : t<2x3xf32>\n%r", "2x3xf32", X),
    "imag": ("%r = stablehlo.imag %0 : t<2x3xf32>\n%r", "2x3xf32", X),
    "reduce_precision": ("%r = stablehlo.reduce_precision %0, format = e5m10 : t<8xf32>\n%r", "8xf32", SPECIAL * np.float32(1.0001)),
    "convert": ("%r = stablehlo.convert %0 : (t<2x3xf32>) -> t<2x3xi32>\n%r", "2x3xi32", X * 9),
    "bitcast_convert": ("%r = stablehlo.bitcast_convert %0 : (t<2x3xf32>) -> t<2x3x2xi16>\n%r", "2x3x2xi16", X),
    "constant": ("%r = stablehlo.constant dense<[[1.5, -2.0], [0x7F800000, 4.0e+2]]> : t<2x2xf32>\n%r", "2x2xf32"),
    "compare": ("%r = stablehlo.compare LT, %0, %1, FLOAT : (t<8xf32>, t<8xf32>) -> t<8xi1>\n%r", "8xi1", SPECIAL, SPECIAL[::-1].copy()),
    "compare in total order": ("%r = stablehlo.compare LE, %0, %1, TOTALORDER : (t<8xf32>, t<8xf32>) -> t<8xi1>\n%r", "8xi1", SPECIAL,
                               SPECIAL[::-1].copy()),
    "select": ("%r = stablehlo.select %0, %1, %2 : t<4xi1>, t<4xf32>\n%r", "4xf32", B, numbers(4), numbers(4, seed=1)),
    "clamp": ("%r = stablehlo.clamp %0, %1, %2 : (t<f32>, t<2x3xf32>, t<f32>) -> t<2x3xf32>\n%r", "2x3xf32", np.float32(-.5), X, np.float32(.5)),
    "iota": ("%r = stablehlo.iota dim = 1 : t<2x3xi32>\n%r", "2x3xi32"),
    "broadcast_in_dim": ("%r = stablehlo.broadcast_in_dim %0, dims = [2, 0] : (t<1x3xf32>) -> t<3x2x4xf32>\n%r", "3x2x4xf32", X[:1]),
    "reshape": ("%r = stablehlo.reshape %0 : (t<2x3xf32>) -> t<3x2xf32>\n%r", "3x2xf32", X),
    "transpose": ("%r = stablehlo.transpose %0, dims = [1, 0] : (t<2x3xf32>) -> t<3x2xf32>\n%r", "3x2xf32", X),
    "reverse": ("%r = stablehlo.reverse %0, dims = [1] : t<2x3xf32>\n%r", "2x3xf32", X),
    "slice": ("%r = stablehlo.slice %0 [1:2, 0:3:2] : (t<2x3xf32>) -> t<1x2xf32>\n%r", "1x2xf32", X),
    "concatenate": ("%r = stablehlo.concatenate %0, %1, dim = 1 : (t<2x3xf32>, t<2x3xf32>) -> t<2x6xf32>\n%r", "2x6xf32", X, Y),
    "pad": ("%r = stablehlo.pad %0, %1, low = [0, -1], high = [2, 1], interior = [1, 0] : (t<2x3xf32>, t<f32>) -> t<5x3xf32>\n%r",
            "5x3xf32", X, np.float32(7)),
    "dynamic_slice": ("%r = stablehlo.dynamic_slice %0, %1, %2, sizes = [2, 2] : (t<2x3xf32>, t<i64>, t<i64>) -> t<2x2xf32>\n%r",
                      "2x2xf32", X, np.int64(-1), np.int64(3)),
    "dynamic_update_slice": ("%r = stablehlo.dynamic_update_slice %0, %1, %2, %3 : (t<2x3xf32>, t<1x2xf32>, t<i64>, t<i64>) -> t<2x3xf32>\n%r",
                             "2x3xf32", X, Y[:1, :2], np.int64(5), np.int64(1)),
    "dot_general": ("%r = stablehlo.dot_general %0, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : "
                    "(t<2x2x3xf32>, t<2x3x2xf32>) -> t<2x2x2xf32>\n%r", "2x2x2xf32", numbers(2, 2, 3), numbers(2, 3, 2)),
    "reduce": ("%r = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [1] : (t<2x3xf32>, t<f32>) -> t<2xf32>\n%r",
               "2xf32", X, np.float32(1)),
    "reduce with a body": (f'%r = "stablehlo.reduce"(%0, %1) {LARGER} '.replace("({", "<{dimensions = array<i64: 0>}> ({") +
                           ": (t<2x3xf32>, t<f32>) -> t<3xf32>\n%r", "3xf32", X, np.float32(-1)),
    "reduce_window": ('%r = "stablehlo.reduce_window"(%0, %1) <{window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 4, 1>, '
                      "base_dilations = array<i64: 2, 1>, window_dilations = array<i64: 3, 1>, padding = dense<[[2, 1], [0, 0]]> : "
                      f"t<2x2xi64>}}> {ADDER} : (t<3x2xf32>, t<f32>) -> t<2x2xf32>\n%r", "2x2xf32", numbers(3, 2), np.float32(0)),
    "select_and_scatter": ('%r = "stablehlo.select_and_scatter"(%0, %1, %2) <{window_dimensions = array<i64: 3, 1>, '
                           "window_strides = array<i64: 2, 1>, padding = dense<[[0, 1], [0, 0]]> : t<2x2xi64>}> "
                           f"{GREATER} : (t<4x2xf32>, t<2x2xf32>, t<f32>) -> t<4x2xf32>\n%r", "4x2xf32", numbers(4, 2), X[:, :2].copy(), np.float32(0)),
    "sort": ("""%r:2 = "stablehlo.sort"(%0, %1) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: t<f32>, %b: t<f32>, %c: t<i32>, %d: t<i32>):
      %s = stablehlo.compare GT, %a, %b : (t<f32>, t<f32>) -> t<i1>
      stablehlo.return %s : t<i1>
    }) : (t<2x3xf32>, t<2x3xi32>) -> (t<2x3xf32>, t<2x3xi32>)\n%r#0, %r#1""", "2x3xf32 2x3xi32", X, I),
    "gather": ('%r = "stablehlo.gather"(%0, %1) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], '
               "start_index_map = [0, 1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2>, indices_are_sorted = false}> : "
               "(t<2x3xf32>, t<2x2x2xi64>) -> t<2x2x2xf32>\n%r", "2x2x2xf32", X, np.array([[[0, 0], [1, 1]], [[1, 0], [5, 2]]])),
    "scatter": (f"""%r = "stablehlo.scatter"(%0, %1, %2) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false,
      unique_indices = false}}> {ADDER} : (t<2x3xf32>, t<4x1xi64>, t<4x3xf32>) -> t<2x3xf32>\n%r""", "2x3xf32", X,
                np.array([[1], [0], [1], [7]]), numbers(4, 3)),
    "map": ("""%k = stablehlo.constant dense<2.0> : t<f32>
    %r = "stablehlo.map"(%0, %1) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%a: t<f32>, %b: t<f32>):
      %one = stablehlo.constant dense<1.0> : t<f32>
      %p = stablehlo.multiply %a, %b : t<f32>
      %q = stablehlo.add %p, %one : t<f32>
      %s = stablehlo.multiply %q, %k : t<f32>
      stablehlo.return %s : t<f32>
    }) : (t<2x3xf32>, t<2x3xf32>) -> t<2x3xf32>\n%r""", "2x3xf32", X, Y),
    "if": ("""%r = "stablehlo.if"(%0) ({
      stablehlo.return %1 : t<2x3xf32>
    }, {
      stablehlo.return %2 : t<2x3xf32>
    }) : (t<i1>) -> t<2x3xf32>\n%r""", "2x3xf32", np.bool_(False), X, Y),
    "case": ("""%r:2 = "stablehlo.case"(%0) ({
      stablehlo.return %1, %1 : t<2x3xf32>, t<2x3xf32>
    }, {
      stablehlo.return %2, %1 : t<2x3xf32>, t<2x3xf32>
    }) : (t<i32>) -> (t<2x3xf32>, t<2x3xf32>)\n%r#0, %r#1""", "2x3xf32 2x3xf32", np.int32(-1), X, Y),
    "while": ("""%zero = stablehlo.constant dense<0> : t<i64>
    %one = stablehlo.constant dense<1> : t<i64>
    %r:2 = stablehlo.while(%i = %zero, %x = %0) : t<i64>, t<2x3xf32>
    cond {
      %m = stablehlo.compare LT, %i, %1 : (t<i64>, t<i64>) -> t<i1>
      stablehlo.return %m : t<i1>
    } do {
      %n = stablehlo.add %i, %one : t<i64>
      %y = stablehlo.sine %x : t<2x3xf32>
      stablehlo.return %n, %y : t<i64>, t<2x3xf32>
    }\n%r#0, %r#1""", "i64 2x3xf32", X, np.int64(3)),
    "tuple": ("""%a = stablehlo.tuple %0, %1 : tuple<t<2x3xf32>, t<2x3xi32>>
    %b = stablehlo.tuple %a, %0 : tuple<tuple<t<2x3xf32>, t<2x3xi32>>, t<2x3xf32>>
    %c = stablehlo.get_tuple_element %b[0] : (tuple<tuple<t<2x3xf32>, t<2x3xi32>>, t<2x3xf32>>) -> tuple<t<2x3xf32>, t<2x3xi32>>
    %d = stablehlo.get_tuple_element %c[1] : (tuple<t<2x3xf32>, t<2x3xi32>>) -> t<2x3xi32>
    %e = stablehlo.get_tuple_element %b[1] : (tuple<tuple<t<2x3xf32>, t<2x3xi32>>, t<2x3xf32>>) -> t<2x3xf32>
    %d, %e""", "2x3xi32 2x3xf32", X, I),
    "optimization_barrier of two": ("%r:2 = stablehlo.optimization_barrier %0, %1 : t<2x3xf32>, t<2x3xi32>\n%r#0, %r#1", "2x3xf32 2x3xi32", X, I),
    "convolution": (f"%r = stablehlo.convolution(%0, %1) {CONV}, window = {{stride = [2, 1], pad = [[1, 1], [0, 1]], rhs_dilate = [1, 1]}} "
                    "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (t<1x4x4x2xf32>, t<3x3x2x3xf32>) -> t<1x2x3x3xf32>\n%r",
                    "1x2x3x3xf32", IMAGE, KERNEL),
    "batch_norm_inference": (f'%r = "stablehlo.batch_norm_inference"(%0, %1, %2, %3, %4) {NORM} '
                             "(t<2x3xf32>, t<3xf32>, t<3xf32>, t<3xf32>, t<3xf32>) -> t<2x3xf32>\n%r", "2x3xf32", X, *numbers(3, 3), np.abs(numbers(3))),
    "batch_norm_training": (f'%r:3 = "stablehlo.batch_norm_training"(%0, %1, %2) {NORM} '
                            "(t<4x3x5xf32>, t<3xf32>, t<3xf32>) -> (t<4x3x5xf32>, t<3xf32>, t<3xf32>)\n%r#0, %r#1, %r#2",
                            "4x3x5xf32 3xf32 3xf32", numbers(4, 3, 5), *numbers(2, 3)),
    "batch_norm_grad": (f'%r:3 = "stablehlo.batch_norm_grad"(%0, %1, %2, %3, %4) {NORM} '
                        "(t<4x3xf32>, t<3xf32>, t<3xf32>, t<3xf32>, t<4x3xf32>) -> (t<4x3xf32>, t<3xf32>, t<3xf32>)\n%r#0, %r#1, %r#2",
                        "4x3xf32 3xf32 3xf32", numbers(4, 3), *numbers(2, 3), np.abs(numbers(3)), numbers(4, 3, seed=5)),
    "partition_id": ("%r = stablehlo.partition_id : t<ui32>\n%r", "ui32"),
    "replica_id": ("%r = stablehlo.replica_id : t<ui32>\n%r", "ui32"),
    "get_dimension_size": ("%r = stablehlo.get_dimension_size %0, dim = 1 : (t<2x3xf32>) -> t<i32>\n%r", "i32", X),
    # Shapes and the like that follow from constants.
    "dynamic_iota": ("%s = stablehlo.constant dense<[2, 3]> : t<2xi64>\n"
                     "%r = stablehlo.dynamic_iota %s, dim = 0 : (t<2xi64>) -> t<2x3xi32>\n%r", "2x3xi32"),
    "dynamic_reshape": ("%s = stablehlo.constant dense<[3, 2]> : t<2xi64>\n"
                        "%r = stablehlo.dynamic_reshape %0, %s : (t<2x3xf32>, t<2xi64>) -> t<3x2xf32>\n%r", "3x2xf32", X),
    "dynamic_broadcast_in_dim": ("%s = stablehlo.constant dense<[2, 3, 2]> : t<3xi64>\n"
                                 "%r = stablehlo.dynamic_broadcast_in_dim %0, %s, dims = [2, 1] : (t<1x3xf32>, t<3xi64>) -> t<2x3x2xf32>\n%r",
                                 "2x3x2xf32", X[:1]),
    "dynamic_pad": ("%l = stablehlo.constant dense<[0, 1]> : t<2xi64>\n%h = stablehlo.constant dense<[2, 1]> : t<2xi64>\n"
                    "%i = stablehlo.constant dense<[1, 2]> : t<2xi64>\n"
                    "%r = stablehlo.dynamic_pad %0, %1, %l, %h, %i : (t<2x3xf32>, t<f32>, t<2xi64>, t<2xi64>, t<2xi64>) -> t<5x9xf32>\n%r",
                    "5x9xf32", X, np.float32(7)),
    "real_dynamic_slice": ("%l = stablehlo.constant dense<[0, 1]> : t<2xi64>\n%h = stablehlo.constant dense<[2, 3]> : t<2xi64>\n"
                           "%i = stablehlo.constant dense<[1, 2]> : t<2xi64>\n"
                           "%r = stablehlo.real_dynamic_slice %0, %l, %h, %i : (t<2x3xf32>, t<2xi64>, t<2xi64>, t<2xi64>) -> t<2x1xf32>\n%r",
                           "2x1xf32", X),
    "dynamic_gather": ("%s = stablehlo.constant dense<[1, 2]> : t<2xi64>\n"
                       '%r = "stablehlo.dynamic_gather"(%0, %1, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], '
                       "collapsed_slice_dims = [0], start_index_map = [0, 1], index_vector_dim = 2>, indices_are_sorted = false}> : "
                       "(t<2x3xf32>, t<2x2x2xi64>, t<2xi64>) -> t<2x2x2xf32>\n%r", "2x2x2xf32", X, np.array([[[0, 0], [1, 1]], [[1, 0], [5, 2]]])),
    "composite": ("%r = stablehlo.composite \"my.op\" %0 {decomposition = @main_of_it} : (t<2x3xf32>) -> t<2x3xf32>\n%r", "2x3xf32", X),
}
FUNCTION = """
  func.func private @main_of_it(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %r = stablehlo.sine %x : tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
"""


@pytest.mark.parametrize("name", CASES)
def test_operation(name):
    lines, results, *arguments = CASES[name]
    text = program(lines, results, arguments)
    if name == "composite":
        text = text.replace("module {", "module {" + FUNCTION)
    check(text, arguments)


def test_dynamic_conv():
    """XLA itself knows the one whose padding is written out."""
    lines, results, *arguments = CASES["convolution"]
    types = "(t<1x4x4x2xf32>, t<3x3x2x3xf32>, t<2x2xi64>)"
    dynamic = ("%p = stablehlo.constant dense<[[1, 1], [0, 1]]> : t<2x2xi64>\n"
               '%r = "stablehlo.dynamic_conv"(%0, %1, %p) <{batch_group_count = 1 : i64, feature_group_count = 1 : i64, '
               "dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, window_strides = array<i64: 2, 1>}> : "
               f"{types} -> t<1x2x3x3xf32>\n%r")
    check(program(dynamic, results, arguments), arguments, same=program(lines, results, arguments))
    with pytest.raises(shoal.ShoalError, match="'stablehlo.dynamic_conv': operand 2, %arg2, does not follow from constants"):
        shoal.stablehlo.load(program(dynamic.replace("%p)", "%2)"), results, [*arguments, np.zeros((2, 2), np.int64)]))


# ---- triangles ----

def triangle(a, b, left, lower, transpose, unit):
    lines = (f'%r = "stablehlo.triangular_solve"(%0, %1) <{{left_side = {left}, lower = {lower}, '
             f"transpose_a = #stablehlo<transpose {transpose}>, unit_diagonal = {unit}}}> : ({kind(a)}, {kind(b)}) -> {kind(b)}\n%r")
    return program(lines.replace("True", "true").replace("False", "false"), kind(b)[7:-1], [a, b])


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_triangular_solve(left, lower, transpose):
    for batch, n, m, dtype in (((), 1, 1, np.float32), ((2, 3), 5, 2, np.float32), ((), 4, 0, np.float32), ((2,), 0, 3, np.float32),
                               ((1,), 7, 3, np.float64)):
        for unit in (True, False) if n == 5 else (False,):
            a = numbers(*batch, n, n, dtype=dtype) / 4 + np.eye(n, dtype=dtype)
            b = numbers(*batch, *((n, m) if left else (m, n)), seed=1, dtype=dtype)
            check(triangle(a, b, left, lower, transpose, unit), [a, b])


def test_triangular_solve_reads_one_triangle():
    a, b = np.eye(3, dtype=np.float32), numbers(3, 2)
    a[0, 2] = np.nan
    np.testing.assert_array_equal(run(triangle(a, b, True, True, "NO_TRANSPOSE", False), [a, b])[0], b)


def root(a, lower):
    return program(f"%r = stablehlo.cholesky %0, lower = {str(lower).lower()} : {kind(a)}\n%r", kind(a)[7:-1], [a])


@pytest.mark.parametrize("lower", [True, False])
def test_cholesky(lower):
    for batch, n, dtype in (((), 1, np.float32), ((2, 3), 5, np.float32), ((), 64, np.float32), ((2,), 0, np.float32), ((3,), 16, np.float64)):
        a = numbers(*batch, n, n, dtype=dtype)
        a = a @ a.swapaxes(-1, -2) + n * np.eye(n, dtype=dtype)
        expected = np.linalg.cholesky(a)
        for form in forms(root(a, lower)):
            got, = run(form, [a])
            np.testing.assert_allclose(got, expected if lower else expected.swapaxes(-1, -2), rtol=1e-4, atol=1e-5 * max(1, n))
    half = np.array([[4, 2], [2, 5]], np.float16)
    np.testing.assert_allclose(run(root(half, True), [half])[0], [[2, 0], [1, 2]], atol=2e-3)
    assert np.isnan(run(root(-np.eye(2, dtype=np.float32), lower), [-np.eye(2, dtype=np.float32)])[0]).any()


# ---- random numbers ----

@pytest.mark.parametrize("algorithm, words", [("THREE_FRY", 2), ("PHILOX", 2), ("PHILOX", 3)])
def test_rng_bit_generator(algorithm, words):
    """The bits, and the next state, are XLA's."""
    for shape, dtype in (((), "ui32"), ((7,), "ui32"), ((3, 5), "ui32"), ((4, 3), "ui8"), ((3, 2), "ui16"), ((5,), "ui64"),
                         ((0, 2), "ui32")):
        state = np.array([123456789012345, 2**64 - 1, 2**64 - 1][:words], np.uint64)
        result = "x".join([*map(str, shape), dtype])
        text = program(f"%s, %r = stablehlo.rng_bit_generator %0, algorithm = {algorithm} : (t<{words}xui64>) -> (t<{words}xui64>, t<{result}>)\n"
                       "%s, %r", f"{words}xui64 {result}", [state])
        check(text, [state])


def test_rng_bit_generator_of_signed_numbers():
    state, results = np.array([1, 2], np.uint64), []
    for dtype in ("ui32", "i32"):
        line = f"%s, %r = stablehlo.rng_bit_generator %0, algorithm = PHILOX : (t<2xui64>) -> (t<2xui64>, t<5x{dtype}>)\n%r"
        results += run(program(line, "5x" + dtype, [state]), [state])
    np.testing.assert_array_equal(results[0].view(np.int32), results[1])


@pytest.mark.parametrize("shape, dtype", [("", "ui32"), ("7", "ui32"), ("3x5", "i32"), ("4x3", "ui8"), ("3x2", "i16"), ("5", "ui64"),
                                          ("1", "i64"), ("0x2", "ui32")])
@pytest.mark.parametrize("words", [1, 2, 3])
def test_default_bits_are_written_out(shape, dtype, words):
    """Whoever reads what Shoal writes, XLA too, makes Shoal's bits of them, and the same next state."""
    state, result = np.array([2**64 - 1, 5, 123456789012345][:words], np.uint64), (shape and shape + "x") + dtype
    text = program(f"%s, %r = stablehlo.rng_bit_generator %0, algorithm = DEFAULT : (t<{words}xui64>) -> (t<{words}xui64>, t<{result}>)\n"
                   "%s, %r", f"{words}xui64 {result}", [state])
    first = run(text, [state])
    written = shoal.stablehlo.load(text).text()
    for results in (run(written, [state]), by_xla(written, [state])):
        for got, want in zip(results, first, strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
    assert first[0].tolist() == (state + np.uint64(1)).tolist()


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64", "i32", "i64"])
@pytest.mark.parametrize("how", ["UNIFORM", "NORMAL"])
def test_rng_is_written_out(how, dtype):
    if how == "NORMAL" and dtype[0] == "i":
        return
    number = "{}.0" if dtype[0] == "f" else "{}"
    lines = (f"%a = stablehlo.constant dense<{number.format(-3)}> : t<{dtype}>\n%b = stablehlo.constant dense<{number.format(7)}> : t<{dtype}>\n"
             f"%s = stablehlo.constant dense<[3, 333]> : t<2xi64>\n"
             f"%r = stablehlo.rng %a, %b, %s, distribution = {how} : (t<{dtype}>, t<{dtype}>, t<2xi64>) -> t<3x333x{dtype}>\n%r")
    text = program(lines, f"3x333x{dtype}", [])
    want, written = run(text, [])[0], shoal.stablehlo.load(text).text()
    # Sines and logarithms may have another last digit, and products with sums one rounding instead of two.
    tolerance = {"f16": 1e-3, "f32": 1e-6, "f64": 1e-14}.get(dtype, 0)
    for exact, got in ((how == "UNIFORM", run(written, [])), (False, by_xla(written, []))):
        np.testing.assert_allclose(got[0], want, rtol=0 if exact else tolerance, atol=0 if exact else 7 * tolerance)


def test_rng():
    def sample(how, a, b, dtype="f32", n=20000):
        text = program(f"%a = stablehlo.constant dense<{a}> : t<{dtype}>\n%b = stablehlo.constant dense<{b}> : t<{dtype}>\n"
                       f"%s = stablehlo.constant dense<[{n}]> : t<1xi64>\n"
                       f"%r = stablehlo.rng %a, %b, %s, distribution = {how} : (t<{dtype}>, t<{dtype}>, t<1xi64>) -> t<{n}xDTYPE>\n"
                       f"%q = stablehlo.rng %a, %b, %s, distribution = {how} : (t<{dtype}>, t<{dtype}>, t<1xi64>) -> t<{n}xDTYPE>\n"
                       "%r, %q".replace("DTYPE", dtype), f"{n}x{dtype} {n}x{dtype}", [])
        _, pretty, generic = forms(text)
        first, second = run(pretty, [])
        np.testing.assert_array_equal(first, run(generic, [])[0])  # and a program gives the same whenever it runs
        assert (first != second).mean() > 0.5
        return first
    x = sample("UNIFORM", -2.0, 6.0)
    assert x.min() >= -2 and x.max() < 6 and abs(x.mean() - 2) < 0.1 and abs(x.std() - 8 / 12 ** .5) < 0.1
    x = sample("NORMAL", 3.0, 0.5)
    assert abs(x.mean() - 3) < 0.02 and abs(x.std() - 0.5) < 0.02
    for dtype, low, high in (("i32", -3, 4), ("ui8", 250, 255), ("i64", -2, 1)):
        values, counts = np.unique(sample("UNIFORM", low, high, dtype), return_counts=True)
        assert list(values) == list(range(low, high)) and counts.min() > 0.8 * counts.max()


# ---- what cannot be imported ----

COLLECTIVE = r"Shoal divides programs itself; hand it the one that is not divided"
GROUPS = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
REFUSED = {
    "all_gather": (f'"stablehlo.all_gather"(%0) <{{all_gather_dim = 0 : i64, {GROUPS}}}> : (t<2x3xf32>) -> t<4x3xf32>', COLLECTIVE),
    "all_reduce": (f'"stablehlo.all_reduce"(%0) <{{{GROUPS}}}> {ADDER} : (t<2x3xf32>) -> t<2x3xf32>', COLLECTIVE),
    "all_to_all": (f'"stablehlo.all_to_all"(%0) <{{split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 2 : i64, {GROUPS}}}> '
                   ": (t<2x3xf32>) -> t<1x6xf32>", COLLECTIVE),
    "reduce_scatter": (f'"stablehlo.reduce_scatter"(%0) <{{scatter_dimension = 0 : i64, {GROUPS}}}> {ADDER} : (t<2x3xf32>) -> t<1x3xf32>', COLLECTIVE),
    "collective_broadcast": (f'"stablehlo.collective_broadcast"(%0) <{{{GROUPS}}}> : (t<2x3xf32>) -> t<2x3xf32>', COLLECTIVE),
    "collective_permute": ('"stablehlo.collective_permute"(%0) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> '
                           ": (t<2x3xf32>) -> t<2x3xf32>", COLLECTIVE),
    "after_all": ("stablehlo.after_all : !stablehlo.token", "tokens order what programs do to the world outside"),
    "create_token": ("stablehlo.create_token : !stablehlo.token", "tokens order what programs do to the world outside"),
    "complex": ("stablehlo.complex %0, %0 : t<2x3xcomplex<f32>>", "there are no complex numbers; carry the two parts as two tensors"),
    "fft": ("stablehlo.fft %0, type = RFFT, length = [3] : (t<2x3xf32>) -> t<2x2xcomplex<f32>>", "there are no complex numbers"),
    "uniform_quantize": ("stablehlo.uniform_quantize %0 : (t<2x3xf32>) -> t<2x3x!quant.uniform<i8:f32, 0.5:-20>>",
                         "there are no quantized types of MLIR"),
    "custom_call": ("stablehlo.custom_call @lapack(%0) : (t<2x3xf32>) -> t<2x3xf32>", "what it computes is not in the text"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    line, message = REFUSED[name]
    text = program(f"%r = {line}\n%0", "2x3xf32", [X])
    texts = [text] if "quant" in text else forms(text)[1:]
    for form in texts:
        number = next(i for i, line in enumerate(form.split("\n"), 1) if f"stablehlo.{name}" in line)
        with pytest.raises(shoal.ShoalError, match=rf"line {number}, column \d+: 'stablehlo.{name}': .*{message}"):
            shoal.stablehlo.load(form)


@pytest.mark.parametrize("names, line, message", [
    (["outfeed"], '"stablehlo.outfeed"(%0, %0) : (t<2x3xf32>, t<2x3xf32>) -> !stablehlo.token', "programs hand over what they make as results"),
    (["infeed", "send", "recv", "async_start", "async_done"], '"stablehlo.NAME"(%0) : (t<2x3xf32>) -> t<2x3xf32>', "programs "),
    (["uniform_dequantize"], "stablehlo.uniform_dequantize %0 : (t<2x3xf32>) -> t<2x3xf32>", "there are no quantized types of MLIR"),
    (["unheard_of"], "stablehlo.unheard_of %0 : t<2x3xf32>", "this operation cannot be imported"),
    (["cholesky"], "stablehlo.cholesky %0, lower = true : t<2x3xf32>", r"operand 0 is float32\[2, ?3\], which is no square matrix"),
    (["rng_bit_generator"], "stablehlo.rng_bit_generator %0, algorithm = PHILOX : (t<2x3xf32>) -> (t<2x3xf32>, t<2xui32>)",
     r"it has 1 results and 2 types of them"),
    (["get_tuple_element"], "stablehlo.get_tuple_element %0[0] : (t<2x3xf32>) -> t<2x3xf32>", "the name %arg0 is no tuple"),
    (["batch_norm_training"], f'"stablehlo.batch_norm_inference"(%0, %0, %0, %0, %0) {NORM} (t<2x3xf32>, t<2x3xf32>, t<2x3xf32>, t<2x3xf32>, t<2x3xf32>)'
                              " -> t<2x3xf32>", r"operand 1 is float32\[2, ?3\]; it does not fit the first operand"),
])
def test_wrong(names, line, message):
    for name in names:
        text = program(f"%r = {line.replace('NAME', name)}\n%0", "2x3xf32", [X])
        with pytest.raises(shoal.ShoalError, match=f"line 3, column .*{message}"):
            shoal.stablehlo.load(text)


@pytest.mark.parametrize("lines, message", [
    ("%t = stablehlo.tuple %0, %0 : tuple<t<2x3xf32>, t<2x3xf32>>\n"
     "%r = stablehlo.get_tuple_element %t[2] : (tuple<t<2x3xf32>, t<2x3xf32>>) -> t<2x3xf32>\n%r", "there is no element 2, only 2"),
    ("%t = stablehlo.tuple %0 : tuple<t<2x3xf32>>\n%t", "%t is a tuple; get_tuple_element takes from it"),
    ("%s = stablehlo.constant dense<[1, 2, 3]> : t<3xui64>\n"
     "%r:2 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (t<3xui64>) -> (t<3xui64>, t<2xui32>)\n%0",
     r"the state of THREE_FRY is uint64\[2\], not uint64\[3\]"),
])
def test_wrong_values(lines, message):
    with pytest.raises(shoal.ShoalError, match=message):
        shoal.stablehlo.load(program(lines, "2x3xf32", [X]))
