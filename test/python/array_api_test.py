"""The array API standard against array-api-strict: values and element types of every function; SciPy and
scikit-learn computing on tensors."""
import inspect
import math
import os
import subprocess
import sys

import numpy as np
import pytest

import shoal

xp = shoal.zeros(1).__array_namespace__()
strict = pytest.importorskip("array_api_strict", reason="pip install array-api-strict")
strict.set_array_api_strict_flags(api_version="2024.12")

RNG = np.random.default_rng(7)
FLOATS, INTS = ["float32", "float64"], ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
ALL = ["bool", *INTS, *FLOATS]
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, math.nan, math.inf, -math.inf, 3e-8, 1e8]


def sample(dtype, shape=(3, 4), low=-3, high=4):
    if dtype == "bool":
        return RNG.integers(0, 2, shape).astype(bool)
    if dtype in FLOATS:
        return RNG.uniform(low, high, shape).astype(dtype)
    return RNG.integers(0 if dtype[0] == "u" else low, high, shape).astype(dtype)


def ours(a):
    return shoal.tensor(a) if isinstance(a, np.ndarray) else a


def theirs(a):
    return strict.asarray(a) if isinstance(a, np.ndarray) else a


def converted(value, make):
    if isinstance(value, (list, tuple)):
        return type(value)(converted(v, make) for v in value)
    if isinstance(value, dict):
        return {k: converted(v, make) for k, v in value.items()}
    return make(value)


def same(got, want, what, tolerance):
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want), what
        if hasattr(want, "_fields"):
            assert got._fields == want._fields, what
        for g, w in zip(got, want):
            same(g, w, what, tolerance)
        return
    if not hasattr(want, "dtype"):
        assert got == want, what
        return
    assert isinstance(got, shoal.Tensor), what
    name = str(want.dtype).rpartition(".")[2]
    assert (tuple(got.shape), got.dtype.name) == (want.shape, name), (what, got.shape, got.dtype, want.shape, name)
    array = np.asarray(want._array)
    bound = tolerance * (1 if name != "float64" else 1e-6)
    np.testing.assert_allclose(got.numpy(), array, rtol=bound, atol=bound, err_msg=what)


def compare(name, *args, dtypes="", tolerance=2e-6, home=None, **keywords):
    mine, its = (getattr(m, home) if home else m for m in (xp, strict))
    what = f"{name} {dtypes} {keywords}"
    with np.errstate(all="ignore"):
        want = getattr(its, name)(*converted(args, theirs), **converted(keywords, theirs))
    got = getattr(mine, name)(*converted(args, ours), **converted(keywords, ours))
    same(got, want, what, tolerance)
    DONE.add((home, name))


DONE = set()
UNARY = {
    "abs": [*INTS, *FLOATS], "acos": FLOATS, "acosh": FLOATS, "asin": FLOATS, "asinh": FLOATS, "atan": FLOATS,
    "atanh": FLOATS, "bitwise_invert": ["bool", *INTS], "ceil": [*INTS, *FLOATS], "cos": FLOATS, "cosh": FLOATS,
    "exp": FLOATS, "expm1": FLOATS, "floor": [*INTS, *FLOATS], "isfinite": [*INTS, *FLOATS],
    "isinf": [*INTS, *FLOATS], "isnan": [*INTS, *FLOATS], "log": FLOATS, "log1p": FLOATS, "log2": FLOATS,
    "log10": FLOATS, "logical_not": ["bool"], "negative": ["int8", "int64", *FLOATS],
    "positive": [*INTS, *FLOATS], "real": [], "reciprocal": FLOATS, "round": [*INTS, *FLOATS],
    "sign": [*INTS, *FLOATS], "signbit": FLOATS, "sin": FLOATS, "sinh": FLOATS, "square": [*INTS, *FLOATS],
    "sqrt": FLOATS, "tan": FLOATS, "tanh": FLOATS, "trunc": [*INTS, *FLOATS],
}
ARITHMETIC = [*INTS, *FLOATS]
BINARY = {
    "add": ARITHMETIC, "atan2": FLOATS, "bitwise_and": ["bool", *INTS], "bitwise_or": ["bool", *INTS],
    "bitwise_xor": ["bool", *INTS], "bitwise_left_shift": INTS, "bitwise_right_shift": INTS, "copysign": FLOATS,
    "divide": FLOATS, "equal": ALL, "floor_divide": ARITHMETIC, "greater": ARITHMETIC,
    "greater_equal": ARITHMETIC, "hypot": FLOATS, "less": ARITHMETIC, "less_equal": ARITHMETIC,
    "logaddexp": FLOATS, "logical_and": ["bool"], "logical_or": ["bool"], "logical_xor": ["bool"],
    "maximum": ARITHMETIC, "minimum": ARITHMETIC, "multiply": ARITHMETIC, "nextafter": FLOATS,
    "not_equal": ALL, "pow": ARITHMETIC, "remainder": ARITHMETIC, "subtract": ARITHMETIC,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    for dtype in UNARY[name]:
        compare(name, sample(dtype), dtypes=dtype)
        compare(name, sample(dtype, ()), dtypes=dtype)
        compare(name, sample(dtype, (0, 2)), dtypes=dtype)
        if dtype in FLOATS:
            compare(name, np.array(EDGES, dtype), dtypes=dtype + " edges")


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    least = 0 if "shift" in name or name == "pow" else -3
    for dtype in BINARY[name]:
        b = sample(dtype, (3, 4), least)
        if name in ("floor_divide", "remainder") and dtype in INTS:
            b = np.where(b == 0, np.array(2, dtype), b)
        compare(name, sample(dtype), b, dtypes=dtype)
        compare(name, sample(dtype, (2, 1, 4)), b, dtypes=dtype)
        if dtype in FLOATS:
            x, y = np.meshgrid(np.array(EDGES[:-2], dtype), np.array(EDGES[:-2], dtype))
            compare(name, x, y, dtypes=dtype + " edges")
        elif dtype in INTS and dtype != "uint64":
            for other in INTS:
                if other != "uint64" and "shift" not in name and name not in ("pow", "floor_divide", "remainder"):
                    compare(name, sample(dtype), sample(other), dtypes=f"{dtype} {other}")


def test_numbers_and_operators():
    for dtype in FLOATS + INTS:
        a = sample(dtype, (3,), 1)
        for op in ("__add__", "__mul__", "__sub__", "__rsub__", "__pow__", "__eq__", "__lt__"):
            same(getattr(ours(a), op)(2), getattr(theirs(a), op)(2), f"{op} {dtype}", 2e-6)
    x = shoal.tensor(3)
    assert int(x) == 3 and float(x) == 3.0 and bool(x) and [1, 2, 3, 4][x] == 4
    assert x.to_device(x.device) is not None and x.size == 1 and xp.__array_api_version__ == "2024.12"
    with pytest.raises(ValueError, match="2099.12"):
        x.__array_namespace__(api_version="2099.12")


def test_creation():
    for dtype in (None, *FLOATS, *INTS):
        kind = {} if dtype is None else {"dtype": dtype}
        for name, args in (("arange", (5,)), ("arange", (2, 9, 3)), ("eye", (3, 4)), ("full", ((2, 3), 7)),
                           ("linspace", (0, 8, 5)), ("ones", ((2, 3),)), ("zeros", (3,))):
            want = getattr(strict, name)(*args, **{k: getattr(strict, v) for k, v in kind.items()})
            got = getattr(xp, name)(*args, **kind)
            if dtype is None and name in ("linspace", "ones", "zeros", "eye"):
                assert got.dtype == "float32"  # the default floating type is the namespace's choice
                want = strict.astype(want, strict.float32)
            same(got, want, f"{name} {dtype}", 2e-6)
            DONE.add((None, name))
    a = sample("float32")
    for name in ("ones_like", "zeros_like", "empty_like"):
        assert getattr(xp, name)(ours(a)).shape == (3, 4)
        DONE.add((None, name))
    compare("full_like", a, 3.5)
    same(xp.eye(3, 5, k=-1, dtype=xp.int8), strict.eye(3, 5, k=-1, dtype=strict.int8), "eye", 0)
    same(xp.linspace(1, 2, 4, endpoint=False, dtype=xp.float64),
         strict.linspace(1, 2, 4, endpoint=False), "linspace", 1e-6)
    compare("meshgrid", np.arange(3), np.arange(2))
    compare("meshgrid", np.arange(3), np.arange(2), indexing="ij")
    compare("tril", a, k=1)
    compare("triu", a, k=-1)
    compare("asarray", a)
    assert xp.asarray([[1, 2], [3, 4]]).dtype == "int64" and xp.asarray(2.5).dtype == "float32"
    x = ours(a)
    assert xp.asarray(x) is x and xp.asarray(x, copy=True) is not x
    assert xp.empty((2, 3)).shape == (2, 3) and xp.from_dlpack(np.arange(3)).tolist() == [0, 1, 2]
    DONE.update({(None, "empty"), (None, "from_dlpack")})


def test_element_types():
    for a in ALL:
        for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating", "numeric",
                     ("bool", "integral")):
            assert xp.isdtype(getattr(xp, a), kind) == strict.isdtype(getattr(strict, a), kind), (a, kind)
        for b in ALL:
            mine, its = (getattr(m, a) for m in (xp, strict)), (getattr(m, b) for m in (xp, strict))
            (x, s), (y, t) = mine, its
            try:
                want = strict.result_type(s, t)
            except TypeError:
                continue
            assert xp.result_type(x, y) == str(want).rpartition(".")[2]
            assert xp.can_cast(x, y) == strict.can_cast(s, t), (a, b)
    same(xp.astype(ours(sample("bool")), xp.int8), strict.astype(theirs(sample("bool")), strict.int8), "", 9)
    for name in ("float32", "float64"):
        mine, its = xp.finfo(getattr(xp, name)), strict.finfo(getattr(strict, name))
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(mine, field) == getattr(its, field), (name, field)
    for name in INTS:
        mine, its = xp.iinfo(getattr(xp, name)), strict.iinfo(getattr(strict, name))
        assert (mine.bits, mine.max, mine.min) == (its.bits, its.max, its.min)
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["integral"] == "int64" and info.devices() == [info.default_device()]
    assert set(info.dtypes(kind="integral")) == set(INTS) and len(info.dtypes()) == 11
    DONE.update((None, n) for n in ("isdtype", "result_type", "can_cast", "finfo", "iinfo", "astype",
                                    "__array_namespace_info__"))


@pytest.mark.parametrize("dtype", ALL)
def test_statistics(dtype):
    a = sample(dtype, (2, 3, 4))
    for axis in (None, 0, -1, (0, 2), ()):
        for keepdims in (False, True):
            how = {"axis": axis, "keepdims": keepdims}
            for name in ("all", "any", "count_nonzero"):
                compare(name, a, dtypes=dtype, **how)
            if dtype == "bool":
                continue
            for name in ("sum", "prod", "max", "min"):
                if axis == () and name in ("max", "min"):
                    continue
                if dtype != "float32" or name != "sum":
                    compare(name, a, dtypes=dtype, tolerance=1e-5, **how)
            if dtype in FLOATS:
                for name in ("mean", "std", "var"):
                    compare(name, a, dtypes=dtype, tolerance=1e-5, **how)
                compare("var", a, dtypes=dtype, tolerance=1e-5, correction=1, axis=0)
            if axis is None or isinstance(axis, int):
                compare("argmax", a, dtypes=dtype, **how)
                compare("argmin", a, dtypes=dtype, **how)
    if dtype != "bool":
        for how in ({"axis": 1}, {"axis": -1, "include_initial": True}):
            compare("cumulative_sum", a, dtypes=dtype, tolerance=1e-5, **how)
            compare("cumulative_prod", a, dtypes=dtype, tolerance=1e-5, **how)
        compare("diff", a, dtypes=dtype, axis=1)
        compare("diff", a, dtypes=dtype, n=2)
        for how in ({}, {"axis": 0}, {"descending": True}):
            compare("sort", a, dtypes=dtype, **how)
            compare("argsort", a, dtypes=dtype, **how)
        compare("clip", a, 0, 2, dtypes=dtype)
        compare("searchsorted", np.sort(a[0, 0]), a[1, 1], dtypes=dtype)
        compare("searchsorted", np.sort(a[0, 0]), a[1, 1], dtypes=dtype, side="right")
    compare("nonzero", a, dtypes=dtype)
    compare("where", a > 0 if dtype != "bool" else a, a, a[::-1].copy(), dtypes=dtype)
    for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
        compare(name, a, dtypes=dtype)


def test_shapes():
    a, b = sample("float32", (2, 3, 4)), sample("float32", (2, 1, 4))
    compare("broadcast_arrays", a, b)
    compare("broadcast_to", b, (2, 3, 4))
    compare("concat", [a, b], axis=1)
    compare("concat", [a, b], axis=None)
    compare("stack", [a, a + 1], axis=-1)
    for axis in (0, 2, -1):
        compare("expand_dims", a, axis=axis)
        compare("flip", a, axis=axis)
        compare("repeat", a, 2, axis=axis)
        compare("unstack", a, axis=axis)
        compare("take", a, np.array([1, 0]), axis=axis)
        compare("take_along_axis", a, np.argsort(a, axis), axis=axis)
    compare("repeat", a, np.array([1, 0, 2]), axis=1)
    compare("repeat", a, 3)
    compare("flip", a)
    compare("matrix_transpose", a)
    compare("moveaxis", a, 0, -1)
    compare("permute_dims", a, (2, 0, 1))
    compare("reshape", a, (4, -1))
    compare("roll", a, 2)
    compare("roll", a, (1, -2), axis=(0, 2))
    compare("squeeze", b, 1)
    compare("tile", a, (2, 1))
    with pytest.raises(ValueError):
        xp.squeeze(ours(a), 1)


def test_products():
    for dtype in ("float32", "float64", "int32"):
        a, b = sample(dtype, (2, 3, 4)), sample(dtype, (4, 5))
        compare("matmul", a, b, tolerance=1e-5)
        compare("tensordot", a, b, axes=1, tolerance=1e-5)
        compare("tensordot", a, a, axes=((0, 2), (0, 2)), tolerance=1e-5)
        compare("vecdot", a, a, axis=-2, tolerance=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
def test_linalg(dtype):
    a = sample(dtype, (2, 4, 4))
    spd = (a @ a.swapaxes(-1, -2) + 4 * np.eye(4)).astype(dtype)

    def check(name, *args, **keywords):
        compare(name, *args, home="linalg", tolerance=2e-4, **keywords)
    check("cholesky", spd)
    check("cholesky", spd, upper=True)
    check("cross", a[..., :3].copy(), a[..., 1:].copy())
    for name in ("det", "inv", "slogdet", "svdvals", "matrix_transpose", "pinv", "trace", "diagonal"):
        check(name, a)
    check("eigvalsh", spd)
    check("matrix_norm", a)
    check("matrix_norm", a, ord="nuc")
    check("matrix_power", a, 3)
    check("matrix_rank", a)
    check("outer", a[0, 0], a[0, 1])
    check("solve", a, sample(dtype, (2, 4, 3)))
    check("solve", a[0], sample(dtype, (4,)))
    check("matmul", a, a)
    check("tensordot", a, a, axes=((0, 2), (0, 2)))
    check("vecdot", a, a)
    for ord in (1, 2, 3, math.inf):
        check("vector_norm", a, ord=ord, axis=-1)
    w, v = xp.linalg.eigh(ours(spd))
    np.testing.assert_allclose((v @ (w.unsqueeze(-1) * v.mT)).numpy(), spd, rtol=1e-4, atol=1e-4)
    for full in (False, True):
        u, s, vh = xp.linalg.svd(ours(a[:, :3]), full_matrices=full)
        np.testing.assert_allclose(((u * s.unsqueeze(-2)) @ vh[:, :3]).numpy(), a[:, :3], rtol=1e-4, atol=1e-4)
    q, r = xp.linalg.qr(ours(a))
    np.testing.assert_allclose((q @ r).numpy(), a, rtol=1e-4, atol=1e-4)
    DONE.update(("linalg", n) for n in ("eigh", "svd", "qr"))


OUT_OF_SCOPE = {"imag": "complex numbers", "conj": "complex numbers", "real": "complex numbers",
                "complex64": "complex numbers", "complex128": "complex numbers"}


def test_every_function_was_compared():
    """Runs last: what the standard has and no test above has looked at."""
    public = [n for n in strict.__all__ if inspect.isfunction(getattr(strict, n)) and "flags" not in n.lower()
              and n not in ("set_array_api_strict_flags", "get_array_api_strict_flags",
                            "reset_array_api_strict_flags", "ArrayAPIStrictFlags")
              and n not in ("isin", "broadcast_shapes")]  # of the draft after 2024.12
    extension = [n for n in strict.linalg.__all__ if inspect.isfunction(getattr(strict.linalg, n))]
    left = [n for n in public if (None, n) not in DONE and n not in OUT_OF_SCOPE]
    left += [f"linalg.{n}" for n in extension if ("linalg", n) not in DONE]
    assert not [n for n in public if not hasattr(xp, n)]
    print(f"array API: {len(public) + len(extension) - len(left) - 3} functions compared, "
          f"{len(OUT_OF_SCOPE)} names out of scope (complex numbers)")
    assert not left, left


def test_numpys_functions():
    a = sample("float32", (3, 4), 1)
    x = shoal.tensor(a)
    for f in (np.exp, np.sqrt, np.negative, np.abs, np.floor, np.log1p, np.tanh):
        got = f(x)
        assert isinstance(got, shoal.Tensor)
        np.testing.assert_allclose(got.numpy(), f(a), rtol=1e-5)
    for f in (np.add, np.multiply, np.maximum, np.power, np.greater, np.arctan2, np.hypot):
        for left, right in ((x, a), (a, x), (x, x)):
            got = f(left, right)
            assert isinstance(got, shoal.Tensor)
            np.testing.assert_allclose(got.numpy(), f(a, a), rtol=1e-5)
    assert isinstance(a + x, shoal.Tensor) and isinstance(a @ x.T, shoal.Tensor)
    for f in (np.sum, np.prod, np.max, np.min, np.mean, np.std, np.var, np.any, np.all, np.argmax, np.cumsum):
        for axis in (None, 0, 1):
            got = f(x, axis=axis)
            np.testing.assert_allclose(np.asarray(got), f(a, axis=axis), rtol=1e-5)
    out = np.zeros((3, 4), "float32")
    assert np.add(x, 1, out=out) is out and np.allclose(out, a + 1)
    np.testing.assert_allclose(np.add.reduce(x).numpy(), np.add.reduce(a), rtol=1e-5)


SCIPY = """
import numpy as np, scipy.special, scipy.stats, scipy.cluster.vq as vq, shoal
a = np.random.default_rng(0).standard_normal((20, 4))
x = shoal.tensor(a)
for f, keywords in ((scipy.special.logsumexp, {"axis": 1}), (scipy.special.softmax, {"axis": 1}),
                    (scipy.special.log_softmax, {"axis": 0}), (vq.whiten, {"check_finite": False}),
                    (scipy.stats.zscore, {"axis": 0}), (scipy.stats.skew, {"axis": 0}),
                    (scipy.stats.kurtosis, {"axis": 0}), (scipy.stats.sem, {"axis": 0})):
    got = f(x, **keywords)
    assert isinstance(got, shoal.Tensor), f
    np.testing.assert_allclose(got.numpy(), f(a, **keywords), rtol=1e-6, atol=1e-9)
print("scipy ok")
"""
SKLEARN = """
import numpy as np, sklearn, shoal
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, mean_squared_error, r2_score
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
sklearn.set_config(array_api_dispatch=True)
rng = np.random.default_rng(0)
a = rng.standard_normal((60, 5)); y = (a @ [1.0, -2, 0.5, 0, 1] > 0).astype("int64"); t = a @ [1.0, -2, 0.5, 0, 1]
x, labels, target = shoal.tensor(a), shoal.tensor(y), shoal.tensor(t)
def close(got, want):
    assert isinstance(got, shoal.Tensor), type(got)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, atol=1e-8)
for made in (StandardScaler(), MinMaxScaler(), MaxAbsScaler(), PCA(3, svd_solver="full")):
    want = made.fit(a).transform(a)
    got = sklearn.clone(made).fit(x).transform(x)
    close(abs(got), abs(want)) if isinstance(made, PCA) else close(got, want)
close(LinearDiscriminantAnalysis().fit(x, labels).predict_proba(x), LinearDiscriminantAnalysis().fit(a, y).predict_proba(a))
close(Ridge(solver="svd").fit(x, target).predict(x), Ridge(solver="svd").fit(a, t).predict(a))
assert abs(r2_score(target, target * 0.9) - r2_score(t, t * 0.9)) < 1e-9
assert abs(mean_squared_error(target, target * 0.9) - mean_squared_error(t, t * 0.9)) < 1e-9
assert accuracy_score(labels, labels) == 1.0
print("sklearn ok")
"""


@pytest.mark.parametrize("at", [
    lambda x: np.add.at(x, [0, 0], 1.0), lambda x: np.subtract.at(x, ([0, 1], [1, 1]), [1.0, 2.0]),
    lambda x: np.multiply.at(x, [1, 1], 2), lambda x: np.maximum.at(x, (0,), 1.5),
    lambda x: np.minimum.at(x, (slice(None), [0, 0]), np.ones((2, 2), "float32"))], ids=range(5))
def test_ufuncs_in_place_at_indices(at):
    array = np.arange(6, dtype="float32").reshape(2, 3)
    x = shoal.tensor(array)
    assert at(x) is at(array) is None
    np.testing.assert_allclose(x.numpy(), array)


@pytest.mark.parametrize("package,code", [("scipy", SCIPY), ("sklearn", SKLEARN)])
def test_packages_compute_on_tensors(package, code):
    pytest.importorskip(package, reason="pip install scipy scikit-learn")
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "SCIPY_ARRAY_API": "1"},
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.endswith("ok\n"), done.stderr


@pytest.mark.parametrize("f", [
    lambda x: np.multiply.outer(x, x), lambda x: np.add.outer(np.arange(2, dtype="float32"), x),
    lambda x: np.ones(2) @ x, lambda x: x @ np.ones(3), lambda x: np.matmul(np.ones((4, 2)), x),
    lambda x: np.add(x, 1, out=x, where=x > 2), lambda x: np.add.reduce(x, where=x > 2),
    lambda x: np.multiply.reduce(x + 1, axis=1, where=x > 2), lambda x: np.sum(x, where=x > 2),
    lambda x: np.mean(x, axis=1, keepdims=True, where=x < 4), lambda x: np.std(x, where=x > 1, ddof=1),
    lambda x: np.var(x, axis=0, where=[True, False, True]), lambda x: np.prod(x, axis=1, where=x > 1, initial=3),
    lambda x: np.max(x, axis=0, where=x < 4, initial=-1), lambda x: np.min(x, initial=-5),
    lambda x: np.all(x > 1, axis=1, where=x > 3), lambda x: np.any(x > 1, where=x < 1)], ids=range(17))
def test_ufuncs_of_numpy(f):
    array = np.arange(6, dtype="float32").reshape(2, 3)
    want, got = f(array.copy()), f(shoal.tensor(array))
    assert isinstance(got, shoal.Tensor) and got.dtype == want.dtype
    np.testing.assert_allclose(got.numpy(), want)
