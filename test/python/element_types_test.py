"""Element types and values of functions of elements, reductions and operators, for every element type and pair of them,
with tensors without axes and numbers: as torch's."""
import warnings

import ml_dtypes
import numpy as np
import pytest
from peer import numpy_of, torch, torch_of

import shoal

warnings.filterwarnings("ignore")
TYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()
X, Y = np.array([[0, 1, 2], [3, 1, 0]]), np.array([[1, 2, 1], [2, 1, 3]])
ELEMENTS = """abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac
    i0 lgamma log log10 log1p log2 logit neg rad2deg reciprocal round rsqrt sgn sigmoid sign sin sinc sinh sqrt square tan
    tanh trunc nan_to_num logical_not bitwise_not isnan isinf isfinite signbit relu"""
REDUCTIONS = """sum prod mean max min amax amin argmax argmin all any std var median mode cumsum cumprod cummax cummin
    logsumexp norm sort argsort count_nonzero aminmax nansum diff flip tril msort nonzero softmax kthvalue topk"""
MORE = """-x; x ** 2; x ** 3; x ** 0; x ** 1; x ** 0.5; 2 ** x; 2.0 ** x; x.pow(2.0); t.pow(2.5, x); x.float_power(2);
    x.clamp(0, 1); x.clamp(0.5, 1.5); x.clamp(max=1.5); x // 2; x % 2; x / 2; x * 2; x + 1; x - 1; x * 2.5; x + True;
    2 / x; x // 2.0; x % 2.5; x << 1; x >> 1; x & 1; x ^ 1; x == 1; x < 1.5; t.where(x > 0, x, 1); t.where(x > 0, x, 1.5);
    x.masked_fill(x > 0, 2); x.add_(1); x.mul_(2.5); x.div_(2); x.xlogy(2); x.copysign(1); x.ldexp(x); F.hardtanh(x);
    t.full_like(x, 1.5); t.vander(x[0]); t.add(x, x, alpha=2); x.sum(dtype=t.float64); x.prod(0, dtype=t.int32);
    t.floor_divide(x, 2); t.div(x, 2, rounding_mode="trunc"); t.rsub(x, 1); t.linspace(0, 1, 3, dtype=x.dtype); x.dist(x);
    x.scatter_add(0, t.tensor([[0, 0, 0]]), x); t.polygamma(1, x); x.new_full((2,), 2); x.cumsum(0, dtype=t.float32)"""
PAIRS = """x + y; x - y; x * y; x / y; x // y; x % y; x ** y; x & y; x ^ y; x << y; x == y; x < y; t.maximum(x, y);
    t.fmax(x, y); t.where(x > 0, x, y); x.fmod(y); x.atan2(y); x.hypot(y); x.copysign(y); x.logaddexp(y); x.xlogy(y);
    x.gcd(y); x.heaviside(y); x.float_power(y); x.div(y, rounding_mode="floor"); x.add_(y); x.mul_(y); x.div_(y);
    x.clamp(y); x.lerp(y, 0.5); x.addcmul(y, y); x.copy_(y); x.nextafter(y); x.add(y, alpha=2); x.add(y, alpha=1.5);
    t.cat([x.reshape(-1), y.reshape(-1)]); t.can_cast(x.dtype, y.dtype)"""


def plain(value):
    """Element types and arrays."""
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, torch.Tensor):
        return str(value.dtype)[6:], numpy_of(value.float() if value.dtype == torch.bfloat16 else value)
    if isinstance(value, shoal.Tensor):
        return value.dtype.name, (value.float() if value.dtype == "bfloat16" else value).numpy()
    return value


def same(got, want, what):
    if isinstance(want, list):
        assert len(got) == len(want), what
        for g, w in zip(got, want):
            same(g, w, what)
    elif isinstance(want, tuple):
        assert got[0] == want[0], f"{what}: {got[0]}, not {want[0]}"
        bound = {"float16": 3e-3, "bfloat16": 2e-2}.get(want[0], 2e-5)
        np.testing.assert_allclose(got[1].astype("float64"), want[1].astype("float64"), bound, bound, err_msg=what)
    else:
        assert got == want, what


def compared(call, **operands):
    """Whether torch can do a call, and then that both agree."""
    def names(lib, make):
        made = {name: make(np.array(values)).to(getattr(lib, kind)) for name, (values, kind) in operands.items()}
        return {"t": lib, "F": lib.nn.functional, **made}
    try:
        want = plain(eval(call, names(torch, torch_of)))
    except (RuntimeError, TypeError, ValueError):
        return False
    same(plain(eval(call, names(shoal, shoal.tensor))), want, f"{call} of {operands}")
    return True


@pytest.mark.parametrize("kind", TYPES)
def test_one(kind):
    x = X > 0 if kind == "bool" else X
    calls = [f"x.{n}()" for n in ELEMENTS.split()] + [f"x.{n}({a})" for n in REDUCTIONS.split() for a in ("", "1")]
    assert sum(compared(" ".join(call.split()), x=(x, kind)) for call in calls + MORE.split(";")) > 90


@pytest.mark.parametrize("kind", TYPES)
def test_two(kind):
    done = 0
    # With the five types that come next in the circle every pair is met once; two of them without axes, too.
    for i, other in enumerate((TYPES * 2)[TYPES.index(kind):][:6]):
        for x, y in ((X, Y), (X, 2), (2, Y)) if i in (2, 5) else ((X, Y),):
            done += sum(compared(" ".join(call.split()), x=(x, kind), y=(y, other)) for call in PAIRS.split(";"))
    print(f"{kind}: {done} calls compared")
    assert done > 200


def test_arrays_of_types_that_others_added_to_numpy():
    x = np.arange(6, dtype="float32").reshape(2, 3) / 3
    narrow = x.astype(ml_dtypes.bfloat16)
    for given in (narrow, np.asfortranarray(narrow), narrow.T.copy().T, narrow[:, ::-1][:, ::-1]):
        made = shoal.tensor(given)
        assert made.dtype == shoal.bfloat16 and made.tolist() == narrow.astype("float32").tolist()
    assert shoal.tensor(narrow[0, 1]).tolist() == float(narrow[0, 1])
    assert shoal.tensor(narrow, dtype="float64").dtype == shoal.float64
    with pytest.raises(TypeError, match="float8_e4m3fn.* is a ndarray; numbers, nested lists"):
        shoal.tensor(x.astype(ml_dtypes.float8_e4m3fn))
