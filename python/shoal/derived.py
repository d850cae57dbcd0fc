"""Functions of each element whose gradients have formulas of their own, which hold at the ends of ranges, too: there the
gradient of how a value is computed is NaN where that of the function is infinite, or 0.
"""
import math

from . import _shoal
from .custom import Function

# erfcx(x) / t over t = 2 / (2 + x), from 0 to 1, as a sum of Chebyshev's polynomials of 2 t - 1: fitted to SciPy's
# erfcx; the rest is below the last digit of float64.
_ERFCX = (0.5770337386164701, 0.35543692127049853, 0.06509515882878647, 0.0036711423958366266, -0.001112844743352598,
          -0.00016075829915374515, 3.278031574186884e-05, 5.442441645566575e-06, -1.515466555180205e-06,
          -1.4297608189058267e-07, 8.234608818161174e-08, -1.2962846533265838e-09, -4.15472154186265e-09,
          6.347057720990875e-10, 1.4320829158655852e-10, -6.160371425964129e-11, 2.0612406654470197e-12,
          3.5714893157679848e-12, -8.58495154559115e-13, -6.145734406402969e-14, 7.421827052198209e-14,
          -1.2749150764512261e-14, -2.2609331405046375e-15, 1.6225924252710149e-15, -2.198129442157287e-16)


class _Derived(Function):
    """`value(x)`, whose gradient is `slope(x)`."""

    @staticmethod
    def forward(ctx, x, value, slope):
        ctx.save_for_backward(x)
        ctx.slope = slope
        return value(x)

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * ctx.slope(x), None, None


def derived(x, value, slope):
    """A function of each element, and how its derivative is computed; that may be differentiated further."""
    def rounded(x):
        return value(x._wide()).astype(x.dtype)  # of small types once, at the end
    return _Derived.apply(x, rounded, slope) if x.requires_grad else rounded(x)


# ---- powers and logarithms of whole bases ----

_BITS = {"float32": ("int32", 23, 127), "float64": ("int64", 52, 1023)}


def exp2(x):
    """2 to the power x; that of integers is exact."""
    kind, shift, bias = _BITS[x.dtype.name]
    fixed = x._detach()
    whole = fixed.clamp(-2 * bias + 2, 2 * bias).round()
    half = (whole * 0.5).floor()

    def power(n):
        return _shoal.select(n == n, n + bias, n._coerce(bias)).astype(kind).__lshift__(shift).bitcast(x.dtype)
    rest = _shoal.select(fixed.isinf(), fixed._coerce(0), fixed - whole)
    exact = (rest * math.log(2)).exp() * power(half) * power(whole - half)
    return _corrected((x * math.log(2)).exp(), exact)


def _corrected(made, exact):
    """A value as it is exactly, with the gradient of what is nearly the same."""
    off = exact - made._detach()
    return made + _shoal.select(off.isfinite(), off, off._coerce(0))


def logarithm(x, base):
    """The logarithm to a base, an integer; that of its powers is exact."""
    made = x.log() * (1 / math.log(base))
    fixed = made._detach()
    near = fixed.round()
    least = 2.0 ** -23 if x.dtype == "float32" else 2.0 ** -52
    return _corrected(made, _shoal.select(abs(fixed - near) <= abs(near) * least, near, fixed))


# ---- the error function far out ----

def _scaled(x):
    """e^(x^2) erfc(x) for x >= 0."""
    t = 2 / (x + 2)
    u = 2 * t - 1
    last = before = u * 0
    for c in _ERFCX[:0:-1]:  # Clenshaw
        last, before = 2 * u * last - before + c, last
    return t * (u * last - before + _ERFCX[0])


def erfc(x):
    """1 - erf(x), without its loss of digits where that is small."""
    far = x.clamp(0.5, 30)  # beyond that it is 0
    return _shoal.select(x < 0.5, 1 - x.erf(), (-far * far).exp() * _scaled(far))


def _erfcx(x):
    size = abs(x)
    return _shoal.select(x < 0, 2 * (x * x).exp() - _scaled(size), _scaled(size))


def erfcx(x):
    """e^(x^2) erfc(x)"""
    return derived(x, _erfcx, lambda x: 2 * x * erfcx(x) - 2 / math.sqrt(math.pi))


def _log_ndtr(x):
    low = x < -1
    tail = -_shoal.select(low, x, x * 0 - 1)  # where erfc is small
    lower = (_scaled(tail * math.sqrt(0.5)) * 0.5).log() - tail * tail * 0.5
    inner = _shoal.select(low, x * 0, x)
    return _shoal.select(low, lower, (erfc(inner * math.sqrt(0.5)) * -0.5).log1p())


def log_ndtr(x):
    """The logarithm of the normal distribution function."""
    return derived(x, _log_ndtr, lambda x: math.sqrt(2 / math.pi) / erfcx(-x * math.sqrt(0.5)))


def ndtr(x):
    """The distribution function of the normal distribution."""
    return erfc(x * -math.sqrt(0.5)) * 0.5


def _ndtri(p):
    inside = (p > 0) & (p < 1)
    lower = p < 0.5
    q = _shoal.select(inside, _shoal.select(lower, p, 1 - p), p * 0 + 0.5)
    t = (q.log() * -2).sqrt()
    # Abramowitz and Stegun 26.2.23, then Newton on the logarithm.
    x = -(t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))))
    for _ in range(3):
        at = _log_ndtr(x)
        x = x - (at - q.log()) * (at + x * x * 0.5).exp() * math.sqrt(2 * math.pi)
    x = _shoal.select(lower, x, -x)
    ends = _shoal.select((p == 0) | (p == 1), _shoal.select(p == 0, p * 0 - math.inf, p * 0 + math.inf), p * math.nan)
    return _shoal.select(inside, x, ends)


def ndtri(p):
    """The inverse of `ndtr`."""
    return derived(p, _ndtri, lambda p: (ndtri(p).square() * 0.5).exp() * math.sqrt(2 * math.pi))


def entr(x):
    """-x log x; 0 at 0, -inf below."""
    return derived(x, lambda x: (-x.xlogy(x)).masked_fill(x < 0, -math.inf), lambda x: -x.log() - 1)


# ---- Bessel's functions ----

def _bessel(x, order):
    """e^-x I(x) of order 0 or 1 for x >= 0: the power series (DLMF 10.25.2), and that of large x (10.40.1)."""
    limit, terms, far_terms = (20, 60, 24) if x.dtype == "float64" else (9, 36, 10)
    near = x.clamp(max=limit)
    square, total = near * near * 0.25, near * 0 + 1
    for k in range(terms, 0, -1):
        total = 1 + total * square * (1 / (k * (k + order)))
    lower = total * (near * 0.5 if order else 1) * (-near).exp()
    far = x.clamp(min=limit)
    turned, total = 1 / far, near * 0 + 1
    for k in range(far_terms, 0, -1):
        total = 1 - total * turned * ((4 * order - (2 * k - 1) ** 2) / (8 * k))
    return _shoal.select(x <= limit, lower, total * (turned * (1 / (2 * math.pi))).sqrt())


def i0e(x):
    """e^-|x| I0(x)"""
    return derived(x, lambda x: _bessel(abs(x), 0), lambda x: i1e(x) - x.sign() * i0e(x))


def i1e(x):
    """e^-|x| I1(x)"""
    def slope(x):
        ratio = _shoal.select(x == 0, x * 0 + 0.5, i1e(x) / _shoal.select(x == 0, x * 0 + 1, x))
        return i0e(x) - ratio - x.sign() * i1e(x)
    return derived(x, lambda x: _bessel(abs(x), 1) * x.sign(), slope)


def i0(x):
    """The modified Bessel function of the first kind, of order 0."""
    return derived(x, lambda x: _grown(x, i0e(x)), i1)


def i1(x):
    """The modified Bessel function of the first kind, of order 1."""
    def slope(x):
        ratio = _shoal.select(x == 0, x * 0 + 0.5, i1(x) / _shoal.select(x == 0, x * 0 + 1, x))
        return i0(x) - ratio
    return derived(x, lambda x: _grown(x, i1e(x)), slope)


def _grown(x, scaled):
    half = (abs(x) * 0.5).exp()  # whose square may overflow
    return _shoal.select(x.isinf(), x * scaled.sign() * x.sign(), half * scaled * half)
