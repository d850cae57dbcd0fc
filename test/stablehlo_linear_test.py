"""What JAX calls libraries for: linear algebra and the largest elements, run by Shoal and by JAX; their gradients; what is
called else is an error that says what to do."""
import numpy as np
import pytest

import quick_xla  # noqa: F401

jax = pytest.importorskip("jax")
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

import shoal  # noqa: E402
from shoal.errors import FormatError  # noqa: E402

shoal.init(workers=1, backend="cpu")


def numbers(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def positive(*shape, dtype=np.float32, seed=0):
    """Matrices that have a factor of Cholesky."""
    x = numbers(*shape, seed=seed, dtype=np.float64)
    return (x @ x.swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1])).astype(dtype)


def text_of(function, *arguments):
    return jax.jit(function, keep_unused=True).lower(*arguments).as_text()


def flat(outputs):
    return [np.asarray(x.numpy() if isinstance(x, shoal.Tensor) else x) for x in jax.tree.leaves(outputs, is_leaf=lambda x: isinstance(x, shoal.Tensor))]


def compared(got, want, tolerance):
    for i, (a, b) in enumerate(zip(flat(got), flat(want), strict=True)):
        assert a.dtype == b.dtype and a.shape == b.shape
        size = np.abs(b[np.isfinite(b)]).max(initial=1)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * size, err_msg=f"result {i}")


A, B, S, MANY = numbers(5, 5), numbers(5, 3, seed=1), positive(5, 5), positive(2, 3, 4, 4)
WIDE, TALL, STACK = numbers(3, 5), numbers(5, 3), numbers(2, 3, 4, 4)
LU, ZEROS = numbers(4, 6, seed=3), np.array([[0, 1, 2], [0, 0, 3], [0, 0, 0]], np.float32)
NEEDS_PIVOT = np.array([[0, 2, 1], [1, 0, 0], [3, 0, 1]], np.float32)
solve = jax.scipy.linalg.solve_triangular

PROGRAMS = {
    "cholesky": (jnp.linalg.cholesky, S),
    "cholesky upper": (lambda a: jnp.linalg.cholesky(a, upper=True), S),
    "cholesky of many": (jnp.linalg.cholesky, MANY),
    "cholesky of what is not symmetric": (lambda a: lax.linalg.cholesky(a, symmetrize_input=False), S + np.triu(A, 1)),
    "cholesky scipy": (lambda a: jax.scipy.linalg.cholesky(a, lower=True), S),
    "triangular": (lambda a, b: solve(a, b, lower=True), A, B),
    "triangular upper": (lambda a, b: solve(a, b), A, B),
    "triangular transposed": (lambda a, b: (solve(a, b, trans=1), solve(a, b, trans="C", lower=True)), A, B),
    "triangular unit": (lambda a, b: (solve(a, b, unit_diagonal=True), solve(a, b, lower=True, unit_diagonal=True)), A, B),
    "triangular right": (lambda a, b: lax.linalg.triangular_solve(a, b, left_side=False, lower=True, transpose_a=True), A, B.T.copy()),
    "triangular of many": (lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True), MANY, STACK),
    "triangular vector": (lambda a, b: solve(a, b, lower=True), A, B[:, 0]),
    "cho_solve": (lambda a, b: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor((a + a.T) / 2), b), S, B),
    "solve": (jnp.linalg.solve, A, B),
    "solve a vector": (jnp.linalg.solve, A, B[:, 0]),
    "solve many": (jnp.linalg.solve, STACK, STACK[..., :2]),
    "solve pos": (lambda a, b: jax.scipy.linalg.solve(a, b, assume_a="pos"), S, B),
    "inverse": (jnp.linalg.inv, A),
    "inverse of many": (jnp.linalg.inv, STACK),
    "determinants": (lambda a: (jnp.linalg.det(a), jnp.linalg.slogdet(a)), A),
    "determinant of zeros": (lambda a: (jnp.linalg.det(a), jnp.linalg.slogdet(a)), ZEROS),
    "lu": (lax.linalg.lu, A),
    "lu that needs a pivot": (lax.linalg.lu, NEEDS_PIVOT),
    "lu of zeros": (lax.linalg.lu, ZEROS),
    "lu wide": (lax.linalg.lu, LU),
    "lu tall": (lax.linalg.lu, LU.T.copy()),
    "lu of many": (lax.linalg.lu, STACK),
    "lu scipy": (jax.scipy.linalg.lu, A),
    "qr": (jnp.linalg.qr, A),
    "qr wide": (jnp.linalg.qr, WIDE),
    "qr tall": (jnp.linalg.qr, TALL),
    "qr complete": (lambda a: jnp.linalg.qr(a, mode="complete"), TALL),
    "qr raw": (lambda a: jnp.linalg.qr(a, mode="raw"), TALL),
    "qr of many": (jnp.linalg.qr, STACK),
    "qr of zeros": (jnp.linalg.qr, ZEROS),
    "qr of large numbers": (jnp.linalg.qr, A * np.float32(1e25)),
    "expm": (jax.scipy.linalg.expm, A / 4),
    "matrix power": (lambda a: jnp.linalg.matrix_power(a, -2), A),
    "multivariate normal": (lambda x, c: jax.scipy.stats.multivariate_normal.logpdf(x, jnp.zeros(5, x.dtype), c), B.T.copy(), S),
    "1 by 1": (lambda a: (jnp.linalg.qr(a), jnp.linalg.inv(a), jnp.linalg.cholesky(a)), S[:1, :1]),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_linear_algebra(name, dtype):
    function, *arguments = PROGRAMS[name]
    arguments = [x.astype(dtype) for x in arguments]
    model = shoal.stablehlo.load(text_of(function, *arguments))
    compared(model(*arguments), jax.jit(function)(*arguments), 2e-4 if dtype == np.float32 else 1e-11)
    compared(shoal.stablehlo.load(model.text())(*arguments), model(*arguments), 1e-6)


GRADIENTS = ["cholesky", "cholesky upper", "cholesky of many", "triangular", "triangular upper", "triangular transposed", "triangular unit",
             "triangular right", "triangular of many", "cho_solve", "solve", "solve a vector", "solve many", "inverse",
             "determinants", "qr", "qr tall", "expm", "multivariate normal", "1 by 1"]


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    function, *arguments = PROGRAMS[name]
    arguments = [x.astype(np.float64) for x in arguments]

    def loss(*arguments):
        return sum((jnp.sin(x) * jnp.arange(1., 1. + x.size).reshape(x.shape)).sum() for x in jax.tree.leaves(function(*arguments)))
    want = jax.jit(jax.value_and_grad(loss, tuple(range(len(arguments)))))(*arguments)
    compared(shoal.stablehlo.load(text_of(loss, *arguments)).gradient()(*arguments), want, 1e-8)
    # And JAX's own gradient, as a program.
    text = text_of(jax.value_and_grad(loss, tuple(range(len(arguments)))), *arguments)
    compared(shoal.stablehlo.load(text)(*arguments), want, 1e-8)


def test_what_is_not_positive_is_nan():
    for wrong in (np.diag([1., -1., 1.]), np.diag([1., 1., 0.]), np.array([[1., 2.], [2., 1.]]), np.full((2, 2), np.nan)):
        model = shoal.stablehlo.load(text_of(jnp.linalg.cholesky, wrong))
        np.testing.assert_array_equal(model(wrong).numpy(), jnp.linalg.cholesky(wrong))
    both = np.stack([np.eye(3), np.diag([1., -1., 1.])])
    np.testing.assert_array_equal(shoal.stablehlo.load(text_of(jnp.linalg.cholesky, both))(both).numpy(), jnp.linalg.cholesky(both))


def test_what_is_infinite_or_nan():
    """Only what is read is computed with: as LAPACK does."""
    inf, nan = np.inf, np.nan
    cases = [(lambda a, b: solve(a, b, lower=True, unit_diagonal=True), [[nan, 0], [2, inf]], [1, 5]),
             (lambda a, b: solve(a, b, unit_diagonal=True), [[inf, 2], [0, nan]], [1, 5]),
             (lambda a, b: solve(a, b, lower=True), [[inf, nan], [1, 2]], [1, 1]),
             (lambda a, b: solve(a, b), [[2, 1], [nan, inf]], [1, 1]),
             (lambda a, b: (jnp.linalg.inv(a), jnp.linalg.solve(a, b)), [[inf, 0], [0, 2]], [3, 4]),
             (lambda a, b: jnp.linalg.cholesky(a), [[inf, 0], [0, 4]], [1, 1]),
             (lambda a, b: jnp.linalg.cholesky(a), [[4, 0], [0, inf]], [1, 1]),
             (lambda a, b: jnp.linalg.cholesky(a), [[1e308, 0], [0, 1]], [1, 1])]
    for function, *arguments in cases:
        arguments = [np.array(x) for x in arguments]
        got = shoal.stablehlo.load(text_of(function, *arguments))(*arguments)
        for a, b in zip(flat(got), flat(function(*arguments)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-15)


@pytest.mark.parametrize("scale", [1e-307, 1e-200, 1e-160, 1e-155, 1e155, 1e200, 1e307])
def test_qr_of_any_size(scale):
    a = numbers(5, 3, dtype=np.float64)
    q, r = shoal.stablehlo.load(text_of(jnp.linalg.qr, a))(a * scale)
    want = jnp.linalg.qr(a)
    compared((q, r.numpy() / scale), want, 1e-13)
    mixed = a * [[1], [scale], [1], [scale], [1]]
    compared(shoal.stablehlo.load(text_of(jnp.linalg.qr, a))(mixed / max(1, scale)), jnp.linalg.qr(mixed / max(1, scale)), 1e-13)


FLAT = {"eye": np.eye(3), "minus": -np.eye(3), "diagonal": np.diag([2., -3., 4.]), "upper": np.triu(numbers(4, 4, dtype=np.float64)) + 3 * np.eye(4),
        "tall": np.eye(6, 3), "wide": np.eye(3, 5) + np.triu(np.ones((3, 5)), 1), "one column": np.array([[2., 1, 3], [0, 4, 1], [0, 1, 5]]),
        "last column": np.array([[1., 2, 3], [1, 5, 6], [1, 2, 9]]), "many": np.stack([np.eye(3), numbers(3, 3, dtype=np.float64)])}


@pytest.mark.parametrize("name", FLAT)
def test_gradient_of_qr_where_nothing_has_to_go(name):
    """A column that has nothing below its diagonal is not reflected, and those nearby are."""
    a, c = FLAT[name], numbers(64, dtype=np.float64, seed=7)

    def loss(a):
        q, r = jnp.linalg.qr(a)
        return (jnp.resize(c, q.shape) * jnp.sin(q)).sum() + (jnp.resize(c[::-1], r.shape) * jnp.cos(r)).sum()
    want = jax.value_and_grad(loss)(a)
    compared(shoal.stablehlo.load(text_of(loss, a)).gradient()(a), want, 1e-10)
    twice = jax.grad(lambda a: (jax.grad(loss)(a) * jnp.resize(c[5:], a.shape)).sum())(a)
    once = shoal.stablehlo.load(shoal.stablehlo.load(text_of(lambda a: (jax.grad(loss)(a) * jnp.resize(c[5:], a.shape)).sum(), a)).text())
    compared(once.gradient()(a)[-1], twice, 1e-9)


def test_what_is_done_stays():
    """NaN and inf in one column or row reach no other that LAPACK does not compute with them."""
    inf, nan = np.inf, np.nan
    for function, a in ((lax.linalg.lu, [[2, 1, 1], [1, 1, inf], [.5, 0, 1]]), (lax.linalg.lu, [[4, 1, 3], [0, 2, inf], [0, 0, 5]]),
                        (jnp.linalg.qr, [[1, 0, 5], [0, 1, inf], [0, 0, 1]]), (jnp.linalg.qr, [[1, 2, 5], [0, 1, 2], [0, 0, nan]])):
        a = np.array(a, np.float64)
        model = shoal.stablehlo.load(text_of(function, a))
        for got, want in zip(flat(model(a)), flat(jax.jit(function)(a)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)


def test_gradients_beside_what_is_not_read():
    s = positive(3, 3, dtype=np.float64)
    for wrong in (np.nan, np.inf, 1e308):
        unread = s.copy()
        unread[0, 2] = wrong

        def loss(a):
            return jnp.sin(lax.linalg.cholesky(a, symmetrize_input=False)).sum()
        got = shoal.stablehlo.load(text_of(loss, unread)).gradient()(unread)[-1].numpy()
        full = shoal.stablehlo.load(text_of(loss, s)).gradient()(s)[-1].numpy()
        np.testing.assert_allclose(got, full, rtol=1e-12)
    for small, large, dtype in ((1e-20, 1e20, np.float32), (1e-150, 1e200, np.float64)):
        a = np.array([[1, large], [0, small]], dtype)

        def of_lu(a):
            return lax.linalg.lu(a)[0].sum() + jnp.diag(lax.linalg.lu(a)[0]).sum()
        compared(shoal.stablehlo.load(text_of(of_lu, a)).gradient()(a), jax.value_and_grad(of_lu)(a), 1e-6)


INFO = """module {{
  func.func @main(%x: tensor<4x3x3xf32>) -> tensor<4xi32> {{
    {line}
    return %0#{number} : tensor<4xi32>
  }}
}}
"""


@pytest.mark.parametrize("name, line, number, expected", [
    ("spotrf", "{uplo = 76 : ui8}} : (tensor<4x3x3xf32>) -> (tensor<4x3x3xf32>, tensor<4xi32>)", 1, [0, 2, 3, 1]),
    ("spotrf", "{uplo = 85 : ui8}} : (tensor<4x3x3xf32>) -> (tensor<4x3x3xf32>, tensor<4xi32>)", 1, [0, 2, 3, 1]),
    ("sgetrf", "{}} : (tensor<4x3x3xf32>) -> (tensor<4x3x3xf32>, tensor<4x3xi32>, tensor<4xi32>)", 2, [0, 0, 3, 0])])
def test_what_the_library_says(name, line, number, expected):
    """Of each matrix 0, or where it went wrong."""
    outputs = 3 if number == 2 else 2
    line = f"%0:{outputs} = stablehlo.custom_call @lapack_{name}_ffi(%x) {{mhlo.backend_config = {line}"
    x = np.stack([np.eye(3), np.diag([1, -1, 1]), np.diag([1, 1, 0]), np.diag([np.nan, 1, 1])]).astype(np.float32)
    got = shoal.stablehlo.load(INFO.format(line=line, number=number))(x).numpy()
    np.testing.assert_array_equal(got, expected)


# ---- other platforms ----

@pytest.mark.parametrize("name", ["cholesky", "cholesky upper", "triangular", "solve", "solve many", "inverse", "determinants", "lu",
                                  "lu wide", "lu tall", "qr", "qr tall", "qr of many"])
@pytest.mark.parametrize("platform", ["cuda", "rocm", "tpu"])
def test_programs_for_other_platforms(name, platform):
    function, *arguments = PROGRAMS[name]
    program = jax.export.export(jax.jit(function, keep_unused=True), platforms=[platform])(*arguments)
    compared(shoal.stablehlo.load(str(program.mlir_module()))(*arguments), jax.jit(function)(*arguments), 2e-4)


def test_a_tridiagonal_system_as_for_a_tpu():
    arguments = np.r_[0, numbers(5)].astype(np.float32), numbers(6, seed=1) + 5, np.r_[numbers(5, seed=2), 0].astype(np.float32), numbers(6, 2)
    with pytest.raises(shoal.ShoalError, match=r"line \d+, column \d+: 'stablehlo.custom_call': @lapack_sgtsv_ffi cannot be imported: of this "
                                               r"function JAX writes plain operations for TPUs: jax.export.export\(jax.jit\(f\), platforms=\['tpu'\]\)"):
        shoal.stablehlo.load(text_of(lax.linalg.tridiagonal_solve, *arguments))
    program = jax.export.export(jax.jit(lax.linalg.tridiagonal_solve), platforms=["tpu"])(*arguments)
    compared(shoal.stablehlo.load(str(program.mlir_module()))(*arguments), lax.linalg.tridiagonal_solve(*arguments), 1e-5)


# ---- CHLO's operations as functions ----

NAMED = """module {{
  func.func @main(%x: tensor<3x7xf32>) -> {kind} {{
    %0{outputs} = stablehlo.custom_call @mhlo.{name}(%x) {{mhlo.attributes = {{{attributes}}}, mhlo.version = 1 : i64}} : (tensor<3x7xf32>) -> {kind}
    return %0{result} : {kind}
  }}
}}
"""


def named(name, attributes="", many=False):
    kinds = "tensor<3x2xf32>, tensor<3x2xi32>" if many else "tensor<3x7xf32>"
    text = NAMED.format(name=name, attributes=attributes, kind="KIND", outputs=":2" if many else "", result="#0, %0#1" if many else "")
    return text.replace("return %0#0, %0#1 : KIND", f"return %0#0, %0#1 : {kinds}").replace("KIND", f"({kinds})" if many else kinds)


@pytest.mark.parametrize("name, function", [("erf", lax.erf), ("tan", jnp.tan), ("erf_inv", lax.erf_inv), ("sinh", jnp.sinh), ("acos", jnp.arccos)])
def test_operations_as_functions(name, function):
    x = np.tanh(numbers(3, 7))
    compared(shoal.stablehlo.load(named(name))(x), function(x), 1e-6)


def test_largest_as_a_function():
    x = numbers(3, 7)
    values, indices = lax.top_k(-x, 2)
    compared(shoal.stablehlo.load(named("topk", "k = 2 : i64, largest = true", True))(x), lax.top_k(x, 2), 0)
    compared(shoal.stablehlo.load(named("topk", "k = 2 : i64, largest = false", True))(x), (-values, indices), 0)
    for wrong, message in ((named("topk", "k = 2 : i64"), "the type of result 0 is stated as tensor<3x7xf32>"),
                           (named("unheard_of"), "@mhlo.unheard_of cannot be imported: there is no such operation"),
                           (named("topk", "k = 9 : i64, largest = false", True), "k is 9; the last axis of .* has 7")):
        with pytest.raises(shoal.ShoalError, match=f"line 3, column .*'stablehlo.custom_call': .*{message}"):
            shoal.stablehlo.load(wrong)


# ---- what is not known ----

@pytest.mark.parametrize("function, name", [
    (jnp.linalg.eigh, "lapack_ssyevd_ffi"), (jnp.linalg.svd, "lapack_sgesdd_ffi"), (lambda a: lax.linalg.hessenberg(a), "lapack_sgehrd_ffi"),
    (lambda a: lax.linalg.schur(a), "lapack_sgees_ffi"), (lambda a: lax.linalg.tridiagonal(a)[0], "lapack_ssytrd_ffi")])
def test_refused(function, name):
    text = text_of(function, A)
    line = next(i for i, line in enumerate(text.split("\n"), 1) if name in line)
    with pytest.raises(shoal.ShoalError, match=rf"^line {line}, column \d+: 'stablehlo.custom_call': @{name} cannot be imported: eigenvalues and "
                                               "singular values are not computed here; compute them outside, and hand them over as arguments$"):
        shoal.stablehlo.load(text)


CALL = "module {{\n  func.func @main(%a: tensor<3x3xf32>, %b: tensor<2x3xf32>) -> {kind} {{\n    {line}\n    return %0 : {kind}\n  }}\n}}\n"


@pytest.mark.parametrize("line, kind, message", [
    ("%0 = stablehlo.custom_call @lapack_strsm_ffi(%a, %b) {mhlo.backend_config = {diag = 78 : ui8, side = 76 : ui8, trans_x = 78 : ui8, "
     "uplo = 76 : ui8}} : (tensor<3x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>", "tensor<2x3xf32>", "do not fit each other on the left side"),
    ("%0 = stablehlo.custom_call @lapack_strsm_ffi(%a, %b) {mhlo.backend_config = {diag = 78 : ui8, side = 77 : ui8}} "
     ": (tensor<3x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>", "tensor<2x3xf32>", "side is none of the letters LR"),
    ("%0, %1 = stablehlo.custom_call @lapack_spotrf_ffi(%b) {mhlo.backend_config = {uplo = 76 : ui8}} : (tensor<2x3xf32>) -> (tensor<2x3xf32>, "
     "tensor<i32>)", "tensor<2x3xf32>", r"operand 0 is float32\[2, ?3\], which is no square matrix"),
    ("%0, %1 = stablehlo.custom_call @lapack_spotrf_ffi(%a) : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<i32>)", "tensor<3x3xf32>",
     "uplo is none of the letters LU"),
    ("%0, %1 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {mhlo.backend_config = {uplo = 76 : ui8}} : (tensor<3x3xf32>) -> (tensor<3x3xf32>, "
     "tensor<i64>)", "tensor<3x3xf32>", "the type of result 1 is stated as tensor<i64>, but is int32"),
    ("%0 = stablehlo.custom_call @lapack_sorgqr_ffi(%a, %b) : (tensor<3x3xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>", "tensor<3x3xf32>",
     "operand 1 has no factor for each reflection of operand 0"),
    ("%0 = stablehlo.custom_call @cu_lu_pivots_to_permutation(%a) : (tensor<3x3xf32>) -> tensor<3x3xi32>", "tensor<3x3xi32>",
     "its operand has no int32 for each of the first rows"),
    ("%0 = stablehlo.custom_call @lapack_sgetrf_ffi(%a) : (tensor<3x3xf32>) -> tensor<3x3xf32>", "tensor<3x3xf32>", "it has 1 results, not 3"),
    ("%0 = stablehlo.custom_call @ApproxTopK(%a) : (tensor<3x3xf32>) -> tensor<3x3xf32>", "tensor<3x3xf32>", "it has 1 operands, not 2"),
    ("%0 = stablehlo.custom_call @ApproxTopK(%a, %b) : (tensor<3x3xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>", "tensor<3x3xf32>",
     "its reduction_dim is none of an operand"),
    ("%0 = stablehlo.custom_call @ApproxTopK(%a, %b) {mhlo.backend_config = {reduction_dim = 0 : i64}} : (tensor<3x3xf32>, tensor<2x3xf32>) -> "
     "tensor<3x3xf32>", "tensor<3x3xf32>", "it does not say by which function elements are compared"),
    ("%0 = stablehlo.custom_call @ApproxTopK(%a, %b) {called_computations = [@f], mhlo.backend_config = {reduction_dim = 0 : i64}} : "
     "(tensor<3x3xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>", "tensor<3x3xf32>", "there is no function @f"),
    ("%0 = stablehlo.custom_call @ApproxTopK(%a, %b) {called_computations = [@main, @main], mhlo.backend_config = {reduction_dim = 0 : i64}} : "
     "(tensor<3x3xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>", "tensor<3x3xf32>", "it does not say by which function elements are compared"),
    ("%0 = stablehlo.custom_call @ApproxTopK(%a, %b) {called_computations = [@main], mhlo.backend_config = {reduction_dim = 0 : i64}} : "
     "(tensor<3x3xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>", "tensor<3x3xf32>", "@main calls itself, which has no end here"),
    ("%0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%a) : (tensor<3x3xf32>) -> tensor<3x3xf32>", "tensor<3x3xf32>",
     "it calls Python, as jax.debug.print and jax.pure_callback do; leave that out of what is exported"),
    ("%0 = stablehlo.custom_call @other(%a) : (tensor<3x3xf32>) -> tensor<3x3xf32>", "tensor<3x3xf32>",
     "@other cannot be imported: what it computes is not in the text"),
])
def test_wrong(line, kind, message):
    with pytest.raises(shoal.ShoalError, match=f"^line 3, column .*'stablehlo.custom_call': .*{message}"):
        shoal.stablehlo.load(CALL.format(line=line, kind=kind))


def test_a_comparator_that_names_itself():
    text = """module {
  func.func @main(%a: tensor<4xf32>, %b: tensor<f32>) -> tensor<2xf32> {
    %0 = stablehlo.custom_call @ApproxTopK(%a, %b) {called_computations = [@f], mhlo.backend_config = {reduction_dim = 0 : i64}}
      : (tensor<4xf32>, tensor<f32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func private @f(%x: tensor<f32>, %y: tensor<f32>) -> tensor<i1> {
    %0 = stablehlo.compare GT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    return %0 : tensor<i1>
  }
}"""
    assert shoal.stablehlo.load(text)(np.float32([3, 1, 4, 1]), np.float32(0)).numpy().tolist() == [4, 3]
    wrong = text.replace("%0 = stablehlo.compare GT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>", """
    %1 = stablehlo.reshape %x : (tensor<f32>) -> tensor<1xf32>
    %2 = stablehlo.custom_call @ApproxTopK(%1, %y) {called_computations = [@f], mhlo.backend_config = {reduction_dim = 0 : i64}}
      : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
    %0 = stablehlo.compare GT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>""")
    with pytest.raises(shoal.ShoalError, match="@f calls itself, which has no end here"):
        shoal.stablehlo.load(wrong)
    for bad in (text.replace("%y: tensor<f32>) -> tensor<i1>", "%y: tensor<f32>, %z: tensor<f32>) -> tensor<i1>"),
                text.replace("-> tensor<i1> {", "-> (tensor<i1>, tensor<i1>) {").replace("return %0 : tensor<i1>", "return %0, %0 : tensor<i1>, tensor<i1>"),
                text.replace("return %0 : tensor<i1>", "return %x : tensor<f32>").replace("tensor<i1> {", "tensor<f32> {")):
        with pytest.raises(FormatError, match="^line 3, column .*@f does not take two numbers of each operand and return one i1"):
            shoal.stablehlo.load(bad)
    with pytest.raises(FormatError, match="%k"):
        shoal.stablehlo.load(text.replace("    %0 = stablehlo.custom_call", "    %k = stablehlo.constant dense<1.0> : tensor<f32>\n"
                                                                           "    %0 = stablehlo.custom_call").replace("GT, %x, %y", "GT, %x, %k"))
    with pytest.raises(shoal.ShoalError, match=r"operand 1 is no number of operand 0's type"):
        shoal.stablehlo.load(text.replace("%b: tensor<f32>", "%b: tensor<1xf32>").replace("(tensor<4xf32>, tensor<f32>)", "(tensor<4xf32>, tensor<1xf32>)"))


# ---- the largest elements ----

ROWS = numbers(3, 400, seed=5)
LARGEST = {
    "max": lambda x: lax.approx_max_k(x, 5),
    "min": lambda x: lax.approx_min_k(x, 5),
    "along another axis": lambda x: lax.approx_max_k(x, 2, reduction_dimension=0),
    "many": lambda x: lax.approx_max_k(x, 3, aggregate_to_topk=False),
    "less recall": lambda x: lax.approx_min_k(x, 3, recall_target=0.5),
    "float64": lambda x: lax.approx_max_k(x.astype(np.float64), 4),
    "bfloat16": lambda x: lax.approx_max_k((jnp.arange(400) % 97).astype(jnp.bfloat16)[None] + x[:1, :1].astype(jnp.bfloat16) * 0, 4)[0].astype(np.float32),
    "vmapped": jax.vmap(lambda x: lax.approx_max_k(x, 5)),
    "equal numbers": lambda x: (lax.approx_max_k(jnp.round(x), 20)[0], lax.approx_min_k(jnp.round(x), 20)[0]),  # whose order is open
}


@pytest.mark.parametrize("name", LARGEST)
def test_largest(name):
    program = jax.jit(LARGEST[name]).lower(ROWS)
    compared(shoal.stablehlo.load(program.as_text())(ROWS), jax.jit(LARGEST[name])(ROWS), 0)
    bytecode = jax.export.export(jax.jit(LARGEST[name]))(ROWS).mlir_module_serialized
    compared(shoal.stablehlo.load(bytes(bytecode))(ROWS), jax.jit(LARGEST[name])(ROWS), 0)


BY_ANOTHER = """module {
  func.func @by_size(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i64>, %d: tensor<i64>) -> tensor<i1> {
    %0 = stablehlo.abs %a : tensor<f32>
    %1 = stablehlo.abs %b : tensor<f32>
    %2 = stablehlo.compare GT, %0, %1 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    return %2 : tensor<i1>
  }
  func.func @main(%x: tensor<3x400xf32>, %y: tensor<3x400xi64>) -> (tensor<3x7xf32>, tensor<3x7xi64>) {
    %c = stablehlo.constant dense<-1> : tensor<i64>
    %f = stablehlo.constant dense<0.0> : tensor<f32>
    %0:2 = stablehlo.custom_call @ApproxTopK(%x, %y, %f, %c) {called_computations = [@by_size], mhlo.backend_config = {reduction_dim = 1 : i64}}
      : (tensor<3x400xf32>, tensor<3x400xi64>, tensor<f32>, tensor<i64>) -> (tensor<3x7xf32>, tensor<3x7xi64>)
    return %0#0, %0#1 : tensor<3x7xf32>, tensor<3x7xi64>
  }
}
"""


def test_largest_by_another_order():
    others = np.arange(1200).reshape(3, 400) * 7
    order = np.argsort(-np.abs(ROWS), 1, kind="stable")[:, :7]
    compared(shoal.stablehlo.load(BY_ANOTHER)(ROWS, others), (np.take_along_axis(ROWS, order, 1), np.take_along_axis(others, order, 1)), 0)
    with pytest.raises(shoal.ShoalError, match="line 11, column .*: result 1 is not some of operand 1"):
        shoal.stablehlo.load(BY_ANOTHER.replace("(tensor<3x7xf32>, tensor<3x7xi64>)\n    return", "(tensor<3x7xf32>, tensor<3x401xi64>)\n    return"))


@pytest.mark.parametrize("name", ["max", "min", "along another axis", "many", "vmapped"])
def test_gradients_of_the_largest(name):
    def loss(x):
        values, _ = LARGEST[name](x)
        return (values ** 3 * jnp.arange(values.size, dtype=np.float32).reshape(values.shape)).sum()
    want = jax.jit(jax.value_and_grad(loss))(ROWS)
    compared(shoal.stablehlo.load(text_of(loss, ROWS)).gradient()(ROWS), want, 1e-5)
    compared(shoal.stablehlo.load(text_of(jax.value_and_grad(loss), ROWS))(ROWS), want, 1e-5)
