"""Values and gradients of functions of elements at special points (zeros of both signs, ends of ranges, poles, infinities,
NaN), of functions of two numbers at all pairs of those, and of reductions where elements are equal: against torch."""
import itertools
import math
import warnings

import numpy as np
import pytest
from peer import numpy_of, torch, torch_of

import shoal

warnings.filterwarnings("ignore")
INF, NAN = math.inf, math.nan
POINTS = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 6, 0.01, -0.01, INF, -INF, NAN, 20, -20, 25, 100, -100, 1e-30,
                   1e-20, -1e-20, 1e30, 0.25, 12, 4, -4])
PAIRS = np.array(list(itertools.product([0.0, -0.0, 1, -1, 2, -2, 0.5, 3, INF, -INF, NAN], repeat=2))).T
# In the calls `t` is torch or shoal, `F` its functional. What follows "but at" are points where torch's is another number:
# of sgn it gives the gradient 1, of abs 0 at NaN; others are those of its approximations near poles, of inf - inf, or where
# there is no value.
ONE = """x.abs() but at nan; x.acos(); x.acosh() but at -inf -1 -2 -3 -4 -20 -100; x.asin(); x.asinh(); x.atan(); x.atanh(); x.ceil(); x.cos(); x.cosh();
    x.deg2rad(); x.digamma() but at -1 -2 -3 -4 -20 -100; x.erf(); x.erfc(); x.erfinv(); x.exp(); x.exp2(); x.expm1();
    x.floor(); x.frac(); x.i0(); x.lgamma() but at -inf -1 -2 -3 -4 -20 -100; x.log(); x.log10(); x.log1p(); x.log2(); x.logit(); x.logit(0.1);
    x.reciprocal(); x.relu(); x.round(); x.rsqrt(); x.sigmoid(); x.sign(); x.sin(); x.sinc(); x.sinh(); x.sqrt();
    x.square(); x.tan(); x.tanh(); x.trunc(); x.nan_to_num(); t.special.entr(x); t.special.ndtr(x); t.special.ndtri(x);
    t.special.erfcx(x); t.special.log_ndtr(x) but at -inf; t.special.i0e(x); t.special.i1(x) but at nan;
    t.special.i1e(x) but at nan; x ** 0; x ** 1; x ** 2; x ** 3; x ** 0.5; x ** -1; x ** 4; x ** -2; 2.0 ** x; 0.0 ** x;
    x ** 1.5 but at -inf; x.clamp(-1, 1); x.clamp(min=0); x.clamp(max=0); F.relu(x); F.relu6(x); F.leaky_relu(x);
    F.elu(x); F.selu(x); F.celu(x, 0.5); F.gelu(x); F.gelu(x, approximate="tanh"); F.silu(x); F.mish(x); F.softplus(x);
    F.softplus(x, 2.0, 5.0); F.logsigmoid(x); F.softsign(x); F.hardtanh(x); F.hardswish(x) but at 3; F.threshold(x, 1.0, 7.0);
    F.hardshrink(x); F.softshrink(x) but at nan; F.tanhshrink(x); F.rrelu(x); x.polygamma(1) but at inf -inf -1 -2 -3 -4 -20 -100;
    x.xlogy(2.0); x.xlogy(0.0); x.copysign(-1.0) but at inf -inf nan; x / 0.0; 1 / x; 0 / x; x.nan_to_num(1.0, 2.0, 3.0)"""
TWO = """x.atan2(y); x.hypot(y); x.fmax(y); x.fmin(y); x.pow(y); x.logaddexp(y); x.fmod(y); x / y; x * y; x.lerp(y, 0.5);
    x.lerp(y, 0.7); x.clamp(y); x.clamp(max=y); F.huber_loss(x, y, reduction="none");
    F.smooth_l1_loss(x, y, reduction="none"); F.mse_loss(x, y, reduction="none");
    F.kl_div(x, y, reduction="none", log_target=True); F.hinge_embedding_loss(x, y.sign().detach(), reduction="none");
    x.xlogy(y.detach().clamp(max=1e300)); t.special.xlog1py(x, y.detach().clamp(max=1e300));
    F.kl_div(x, y.detach(), reduction="none")"""
TIES = [[[1.0, 1, 2, 2, 0, 0], [3, 3, 3, 3, 3, 3], [-1, 0, -0.0, 0, 2, 2], [0, 0, 0, 0, 0, 0], [5, 1, 5, 1, 5, 1]],
        [[0.0, 2, 3], [0, 0, 2], [1, 2, 3], [0, 0, 0]]]
MANY = """x.max(); x.min(); x.max(1).values; x.min(1).values; x.amax(1); x.amin(); x.amax((0, 1)); x.median();
    x.median(1).values; x.nanmedian(); x.nanmedian(1).values; x.sort(1).values; x.sort(1, descending=True).values;
    x.mode(1).values; x.cummax(1).values; x.cummin(1).values; x.std(1); x.var(1); x.std(); x.prod(); x.prod(1); x.cumprod(1);
    x.norm(); x.norm(2, 1); x.norm(1, 1); x.norm(3, 1); x.norm(0.5, 1); x.norm(INF, 1); x.norm(-INF, 1); x.logsumexp(1);
    x.quantile(0.5, 1); x.quantile(0.3, 1); x.nansum(1); x.nanmean(1); t.linalg.norm(x); t.linalg.norm(x, INF);
    F.normalize(x, dim=1); F.cosine_similarity(x, x.flip(0), dim=1); F.pairwise_distance(x, x.flip(0), eps=0.0);
    t.cdist(x, x); t.cdist(x, x.detach(), p=1.0); t.cdist(x, x.detach(), p=3.0); F.pdist(x); x.dist(x.detach());
    x.renorm(2, 0, 1.0); F.max_pool1d(x[None], 2); F.max_pool1d(x[None], 3, 1, 1); F.max_pool2d(x[None], 3, 1, 1);
    F.lp_pool1d(x[None], 2, 2); F.lp_pool2d(x[None], 2.0, 2); t.maximum(x, x.flip(0)); t.fmax(x, x.flip(1));
    t.fmin(x, x.flip(1)); x.clamp(1, 3); x.clamp(x.detach(), x.detach())"""
SYMMETRIC = np.array([[2.0, 1], [1, 3]])


def calls(text):
    return [" ".join(call.split()) for call in text.split(";")]


def results(call, arrays):
    """Per library the value, and the gradients of the operands."""
    found = []
    for lib, make in ((torch, torch_of), (shoal, shoal.tensor)):
        leaves = [make(a).requires_grad_() for a in arrays]
        made = eval(call, {"t": lib, "F": lib.nn.functional, "x": leaves[0], "y": leaves[-1], "INF": INF})
        made = made[0] if isinstance(made, tuple) else made
        weights = np.random.default_rng(0).uniform(0.5, 1.5, tuple(made.shape)) if len(arrays) < 2 else \
            np.ones(tuple(made.shape))
        made.backward(make(weights))
        # An operand that has no part in the result may have None or zeros.
        found.append([made.detach()] + [leaf.detach() * 0 if leaf.grad is None else leaf.grad for leaf in leaves])
    return [[numpy_of(t) for t in found[0]], [t.numpy() for t in found[1]]]


@pytest.mark.parametrize("call", calls(ONE))
def test_one(call):
    call, _, other = call.partition(" but at ")
    theirs, ours = results(call, [POINTS])
    kept = ~np.isin(POINTS, [float(p) for p in other.split()]) & (~np.isnan(POINTS) | ("nan" not in other.split()))
    for want, got in zip(theirs, ours):
        np.testing.assert_allclose(got[kept], want[kept], 1e-9, 1e-12, err_msg=str(POINTS[kept]))


@pytest.mark.parametrize("call", calls(TWO))
def test_two(call):
    theirs, ours = results(call, PAIRS)
    for want, got in zip(theirs, ours):
        np.testing.assert_allclose(got, want, 1e-9, 1e-12)


@pytest.mark.parametrize("call", calls(MANY))
def test_equal_elements(call):
    for ties in TIES:
        theirs, ours = results(call, [np.array(ties)])
        for want, got in zip(theirs, ours):
            np.testing.assert_allclose(got, want, 1e-9, 1e-9)


def test_what_is_infinite_has_parts_in_sums():
    theirs, ours = results("x.nansum(1)", [np.array([[INF, 1, NAN], [-INF, 2, 3]])])
    for want, got in zip(theirs, ours):
        np.testing.assert_array_equal(got, want)


def test_logdet_and_second_derivatives():
    theirs, ours = results("x.logdet()", [SYMMETRIC])
    for want, got in zip(theirs, ours):
        np.testing.assert_allclose(got, want, 1e-12)
    for function in ("acosh", "sinh", "cosh", "erfinv", "lgamma", "digamma", "erfc", "exp2", "log2", "i0", "atanh", "logit"):
        x = shoal.tensor([1.3] if function == "acosh" else [0.3], dtype="float64", requires_grad=True)
        assert shoal.autograd.gradcheck(getattr(shoal, function), x), function
        assert shoal.autograd.gradgradcheck(getattr(shoal, function), x), function


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_are_exact(dtype):
    whole = np.arange(-160, 160).astype(dtype)
    np.testing.assert_array_equal(shoal.tensor(whole).exp2().numpy(), (2 ** whole.astype("float64")).astype(dtype))
    places = np.arange(-30, 30).astype(dtype)
    np.testing.assert_array_equal(shoal.tensor(2 ** places).log2().numpy(), places)
    np.testing.assert_allclose(shoal.tensor(10.0 ** places).log10().numpy(), places, 2.5e-16 if dtype == "float64" else 1.2e-7)
    assert shoal.tensor([1.0, 2.0], dtype=dtype).lgamma().tolist() == [0, 0]


def test_tails():
    """Where 1 - erf has lost all its digits."""
    from scipy import special
    x = np.linspace(-3, 26, 300)
    for name in ("erfc", "erfcx", "i0e", "i1e", "log_ndtr"):
        np.testing.assert_allclose(getattr(shoal.special, name)(shoal.tensor(x)).numpy(), getattr(special, name)(x), 2e-12)
    p = 10.0 ** np.linspace(-300, -0.31, 200)
    np.testing.assert_allclose(shoal.special.ndtri(shoal.tensor(p)).numpy(), special.ndtri(p), 1e-12, 1e-12)
