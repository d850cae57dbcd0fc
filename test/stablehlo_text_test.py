"""MLIR's text: aliases of types and attributes, and where errors are said to be."""
import time

import numpy as np
import pytest

import shoal

shoal.init(workers=1, backend="cpu")
X = np.array([1, -2], np.float32)


def body(lines, arguments="%x: tensor<2xf32>", result="tensor<2xf32>", before=""):
    """The arguments are on line 2, the lines begin on line 3, where nothing comes before."""
    return f"{before}module {{\n  func.func @main({arguments}) -> {result} {{\n{lines}\n  }}\n}}\n"


# ---- aliases ----

ALIASES = """!element = f32
!same = !element
!wide = tensor<2x!same>
!t = !wide
!of = (!t) -> !t
#two = 2.0
#two_of = dense<2.0> : !t
#numbers = array<i64: 0>
#again = #numbers
#way = #stablehlo<comparison_direction GT>
#product = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>
#map = affine_map<(d0) -> (d0)>
"""
ALIASED = body("""
    %two = stablehlo.constant #two_of
    %zero = stablehlo.constant dense<0.0> : !t
    %nought = stablehlo.constant dense<0.0> : tensor<!element>
    %large = "stablehlo.compare"(%x, %zero) {comparison_direction = #way} : (!t, !t) -> tensor<2xi1>
    %0 = stablehlo.select %large, %two, %zero : tensor<2xi1>, !t
    %1 = func.call @twice(%0) : (!t) -> !t
    %2 = "stablehlo.reverse"(%1) {dimensions = #again} : (!t) -> !t
    %3 = "stablehlo.dot_general"(%2, %x) {dot_dimension_numbers = #product} : (!t, !t) -> tensor<f32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<!same>) -> !t
    return %4 : !t
  }
  func.func private @twice(%y: !t) -> !t {
    %0 = stablehlo.add %y, %y : !t
    return %0 : !t""", "%x: !t", "!t", ALIASES)


def test_aliases():
    texts = [ALIASED]
    try:
        from jax._src.interpreters import mlir
        from jaxlib.mlir import ir
    except ImportError:
        pass
    else:
        with mlir.make_ir_context():  # its own parser takes the text
            texts.append(str(ir.Module.parse(ALIASED)))
    for text in texts:
        model = shoal.stablehlo.load(text)
        assert [(kind.dtype, kind.shape) for kind in model.inputs] == [("float32", (2,))]
        np.testing.assert_array_equal(model(X).numpy(), [-8, -8])


@pytest.mark.parametrize("before, lines, message", [
    ("", "%0 = stablehlo.add %x, %x : !t\nreturn %x : tensor<2xf32>", "line 3, column 29: the type !t is not defined before"),
    ("!t = tensor<2xf32>\n!t = f32\n", "return %x : tensor<2xf32>", "line 2, column 1: the alias !t is defined twice"),
    ("#t = 1\n!t = f32\n#t = 1\n", "return %x : tensor<2xf32>", "line 3, column 1: the alias #t is defined twice"),
    ("!t = !t\n", "return %x : tensor<2xf32>", "line 1, column 6: the type !t is not defined before"),
    ("!t = tensor<3xf32>\n", "%0 = stablehlo.add %x, %x : !t\nreturn %0 : !t",
     r"line 4, column 6: 'stablehlo.add': the type of result 0 is stated as tensor<3xf32>, but is float32\[2\]"),
    # Lists of aliases of lists of aliases are no list of numbers, however many they would be.
    ("#a = [0]\n" + "".join(f"#{b} = [#{a}, #{a}]\n" for a, b in zip("abcdefgh", "bcdefghi")),
     '%0 = "stablehlo.transpose"(%x) {permutation = #i} : (tensor<2xf32>) -> tensor<2xf32>\nreturn %0 : tensor<2xf32>',
     "line 12, column 6: 'stablehlo.transpose': 'h' is no whole number"),
])
def test_wrong_aliases(before, lines, message):
    with pytest.raises(shoal.ShoalError, match=message):
        shoal.stablehlo.load(body(lines, before=before))


# ---- where errors are ----

def refused(text):
    with pytest.raises(shoal.ShoalError) as error:
        shoal.stablehlo.load(text)
    return str(error.value)


@pytest.mark.parametrize("lines, arguments, message", [
    ("return %x : tensor<2xf32>", "%x: tensor<2xf32>,\n  %y: tensor<2xcomplex<f32>>",
     "line 3, column 7: 'func.func': tensor<2xcomplex<f32>> is no type of Shoal's: there are no complex numbers; "
     "carry the two parts as two tensors"),
    ("return %x : tensor<2xf32>", "%x: tensor<2xf32>, %y: tensor<?xf32>",
     "line 2, column 42: 'func.func': dimension 0 of argument 1 is not known; shapes are static"),
    ("return %x : tensor<2xf32>", "%x: tensor<2xf32>, %y: tensor<*xf32>",
     "line 2, column 42: 'func.func': tensor<*xf32> is no type of Shoal's: its rank has to be known"),
    ("return %x : tensor<2xf32>", "%x: tensor<2xf32>, %y: !stablehlo.token",
     "line 2, column 42: 'func.func': !stablehlo.token is no type of Shoal's: it is no tensor"),
    ("%0 = stablehlo.add %x, %y : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>\nreturn %0 : tensor<2xf32>",
     "%x: tensor<2xf32>, %y: tensor<3xf32>",
     "line 3, column 6: 'stablehlo.add': the type of operand 1, %y, is stated as tensor<2xf32>, but is float32[3]"),
    ("%0 = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>\nreturn %0 : tensor<2xf32>\n}\n"
     "func.func @f(%z: tensor<3xf32>) -> tensor<2xf32> {\nreturn %z : tensor<3xf32>", "%x: tensor<2xf32>",
     "line 3, column 6: 'call': the type of argument 0, %z, is stated as tensor<3xf32>, but is float32[2]"),
    ("%0 = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>\nreturn %0 : tensor<2xf32>\n}\n"
     "func.func @f(%z: tensor<2xf32>) -> tensor<3xf32> {\nreturn %z : tensor<2xf32>", "%x: tensor<2xf32>",
     "line 7, column 1: 'return': it returns float32[2]; @f states tensor<3xf32> as its result 0"),
    ("%r:2 = stablehlo.while(%i = %n, %z = %x) : tensor<i1>, tensor<3xf32>\n cond { stablehlo.return %i : tensor<i1> }\n"
     " do { stablehlo.return %i, %z : tensor<i1>, tensor<3xf32> }\nreturn %x : tensor<2xf32>", "%x: tensor<2xf32>, %n: tensor<i1>",
     "line 3, column 8: 'stablehlo.while': the type of operand 1, %x, is stated as tensor<3xf32>, but is float32[2]"),
])
def test_types_that_are_wrong(lines, arguments, message):
    assert message in refused(body(lines, arguments))


INTEGERS = "integers have 8, 16, 32 or 64 bits"


@pytest.mark.parametrize("element", ["i4", "ui4", "i2", "ui2"])
def test_integers_of_few_bits(element):
    """They would wrap elsewhere than wider ones do."""
    kind = f"tensor<2x{element}>"
    reason = f"{kind} is no type of Shoal's: {INTEGERS}"
    assert f"line 2, column 23: 'func.func': {reason}" in refused(body("return %x : tensor<2xf32>", f"%x: {kind}"))
    constant = f"%0 = stablehlo.constant dense<1> : {kind}\n%1 = stablehlo.add %0, %0 : {kind}\nreturn %x : tensor<2xf32>"
    assert f"line 3, column 6: 'stablehlo.constant': {reason}" in refused(body(constant))
    converted = f"\n%1 = stablehlo.convert %x : (tensor<2xf32>) -> {kind}\nreturn %x : tensor<2xf32>"
    assert f"line 4, column 6: 'stablehlo.convert': {reason}" in refused(body(converted))


def test_nine_dimensions():
    kind = "tensor<2x1x1x1x1x1x1x1x1xf32>"
    message = "a tensor of Shoal's has at most 8 dimensions"
    assert f"line 2, column 46: {message}" in refused(body("return %x : tensor<2xf32>", f"%x: {kind}"))
    assert f"line 3, column 71: {message}" in refused(body(f"%0 = stablehlo.reshape %x : (tensor<2xf32>) -> {kind}\nreturn %x : tensor<2xf32>"))


FOREIGN = "this is no operation of StableHLO; only programs of StableHLO, CHLO and func are imported"


@pytest.mark.parametrize("line", [
    '%0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<2xf32>) '
    "outs(%x : tensor<2xf32>) {\n^bb0(%in: f32, %out: f32):\n  linalg.yield %in : f32\n} -> tensor<2xf32>",
    "%0 = linalg.add ins(%x, %x : tensor<2xf32>, tensor<2xf32>) outs(%x : tensor<2xf32>) -> tensor<2xf32>",
    "%0 = scf.for %i = %x to %x step %x iter_args(%a = %x) -> (tensor<2xf32>) {\n  scf.yield %a : tensor<2xf32>\n}",
    "%0 = affine.apply affine_map<(d0)[s0] -> (d0 + s0)>(%x)[%x]", "%0 = tensor.extract %x[%x] : tensor<2xf32>",
    "%0 = tosa.add %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>", "%0 = arith.addf %x, %x : tensor<2xf32>",
    "%0 = torch.aten.add.Tensor %x, %x, %int1 : !torch.vtensor<[2],f32>, !torch.vtensor<[2],f32>, !torch.int -> !torch.vtensor<[2],f32>",
    "%0 = arith.index_cast %x : index to i64", "%0 = tensor.pad %x low[0] high[1] {\n^bb0(%i: index):\n  tensor.yield %c : f32\n} : t to u",
    "memref.store %x, %a[%i] : memref<?xf32>", "cf.br ^bb1\n^bb1:", '%0 = "linalg.fill"(%x) : (tensor<2xf32>) -> tensor<2xf32>',
])
def test_operations_of_others(line):
    """Whatever form theirs has: one error, of the operation."""
    name = line.split()[0 if line[0] != "%" else 2].split("(")[0].strip('"')
    column = 1 if line[0] != "%" else 6
    assert f"line 4, column {column}: '{name}': {FOREIGN}" in refused(body(f"%c = stablehlo.negate %x : tensor<2xf32>\n{line}\nreturn %x : tensor<2xf32>"))


def test_truth_has_no_type():
    text = body("%a = arith.constant true\n%b = arith.constant false\n%0 = stablehlo.select %a, %x, %x : tensor<i1>, tensor<2xf32>\nreturn %0 : tensor<2xf32>")
    assert shoal.stablehlo.load(text)([1., 2.]).tolist() == [1, 2]
    error = refused(body('%t = arith.constant true\ncf.assert %t, "sizes differ"\nreturn %x : tensor<2xf32>'))
    assert f"line 4, column 1: 'cf.assert': {FOREIGN}" in error


def test_an_error_behind_an_operation_of_others_is_its_own():
    error = refused(body("%0 = tensor.empty() : tensor<2xf32>\n%1 = stablehlo.add %x, %# : tensor<2xf32>\nreturn %x : tensor<2xf32>"))
    assert "line 4, column 25: expected a name" in error


def test_the_limit_of_memory_has_a_place():
    """Functions that each call the one before twice: half a line of text more doubles them."""
    kind, lines = "tensor<2xf32>", []
    for i in range(1, 40):
        calls = [f"%{k} = call @f{i - 1}(%{x}) : ({kind}) -> {kind}" for k, x in ((0, "x"), (1, "0"))]
        lines += [f"func.func private @f{i}(%x: {kind}) -> {kind} {{", *calls, f"return %1 : {kind}", "}"]
    text = "\n".join([f"func.func private @f0(%x: {kind}) -> {kind} {{", f"%0 = stablehlo.negate %x : {kind}", f"return %0 : {kind}", "}",
                      *lines, f"func.func @main(%x: {kind}) -> {kind} {{", f"%0 = call @f39(%x) : ({kind}) -> {kind}", f"return %0 : {kind}", "}"])
    assert "line 2, column 6: 'stablehlo.negate': over the limit of " in refused(text) or "over 1048576 operations" in refused(text)


def test_many_of_everything():
    """Functions and resources are looked up by their names: each of these took half a minute."""
    n, kind = 60000, "tensor<f32>"
    functions = "\n".join(f"func.func private @f{i}(%x: {kind}) -> {kind} {{\nreturn %x : {kind}\n}}" for i in range(n))
    calls = "\n".join(f"%{i} = call @f{i}(%x) : ({kind}) -> {kind}" for i in range(n))
    constants = "\n".join(f"%c{i} = stablehlo.constant dense_resource<r{i}> : {kind}" for i in range(n))
    resources = ",\n".join(f'r{i}: "0x04000000{np.float32(i).tobytes().hex()}"' for i in range(n))
    arguments = ", ".join(f'%y{i}: {kind} {{jax.result_info = "y{i}"}}' for i in range(n))
    start = time.monotonic()
    model = shoal.stablehlo.load(f"{functions}\nfunc.func @main(%x: {kind}, {arguments}) -> ({kind}, {kind}) {{\n{calls}\n{constants}\n"
                                 f"return %{n - 1}, %c{n - 1} : {kind}, {kind}\n}}\n"
                                 f"{{-#\ndialect_resources: {{\nbuiltin: {{\n{resources}\n}}\n}}\n#-}}\n")
    assert len(model.inputs) == n + 1 and time.monotonic() - start < 20
    model = shoal.stablehlo.load(f'func.func @main() -> {kind} {{\n%c = stablehlo.constant dense_resource<r> : {kind}\nreturn %c : {kind}\n}}\n'
                                 '{-# dialect_resources: { builtin: { r: "0x0400000000000040", s: "0x0400000000000041" } } #-}\n')
    assert model().item() == 2
