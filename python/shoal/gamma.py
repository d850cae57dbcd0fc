"""The regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P (DLMF 8.2.4, 8.7.1, 8.9.2), in float64.

Up to a = 100: for x < a + 1 the power series, beyond it the continued fraction of Q, both from the last of TERMS
terms inwards; with so many the rest is below the last digit. Above a = 100: the integral of t^(a-1) e^-t from x to
where nothing is left of it, by Gauss's quadrature.
"""
import math

from . import _shoal
from .custom import Function
from .errors import CLASSES

TERMS = 100
POINTS = 48


def series(a, x):
    """P divided by x^a e^-x / gamma(a + 1)."""
    total = x * 0 + 1
    for n in range(TERMS, 0, -1):
        total = 1 + total * (x / (a + n))
    return total


def fraction(a, x):
    """Q divided by x^a e^-x / gamma(a)."""
    below = x + (2 * TERMS + 1) - a
    for n in range(TERMS, 0, -1):
        below = x + (2 * n - 1) - a - n * (n - a) / below
    return 1 / below


def _quadrature(a, x):
    """(whether it is Q, P or Q) for large a."""
    import numpy
    places, weights = numpy.polynomial.legendre.leggauss(POINTS)
    top = a - 1  # where the integrand is largest; it is sqrt(top) wide
    wide = top.sqrt()
    upper = x > top
    high = _shoal.select(top + 12 * wide > x + 6 * wide, top + 12 * wide, x + 6 * wide)
    low = _shoal.select(top - 8 * wide < x - 5 * wide, top - 8 * wide, x - 5 * wide).clamp(min=0)
    end = _shoal.select(upper, high, low)
    t = x.unsqueeze(-1) + (end - x).unsqueeze(-1) * x.session.tensor(places * 0.5 + 0.5, "float64")
    top = top.unsqueeze(-1)
    off = t - top
    parts = (top * (off / top).log1p() - off).exp() * x.session.tensor(weights * 0.5, "float64")
    # What is left of gamma(top + 1) by Stirling's series (DLMF 5.11.1): the powers of top are in `parts`.
    top = top.squeeze(-1)
    rest = 1 / (12 * top) - 1 / (360 * top ** 3) + 1 / (1260 * top ** 5)
    return upper, parts.sum(-1) * abs(end - x) * (-rest).exp() / (2 * math.pi * top).sqrt()


def _both(a, x):
    """P and Q."""
    near, far = (a > 0) & (a <= 100), a > 100
    inside = (x > 0) & (x < math.inf)
    b, y = a.where(near & inside, 1.0), x.where(near & inside, 1.0)
    below = y < b + 1
    front = (b * y.log() - y - b.lgamma()).exp()
    p = front / b * series(b, y.where(below, 1.0))
    q = front * fraction(b, y.where(~below, 200.0))
    p, q = _shoal.select(below, p, 1 - q), _shoal.select(below, 1 - p, q)
    upper, found = _quadrature(a.where(far & inside, 200.0), x.where(far & inside, 200.0))
    p = _shoal.select(far, _shoal.select(upper, 1 - found, found), p)
    q = _shoal.select(far, _shoal.select(upper, found, 1 - found), q)
    # At the edges: all lies above x = 0 and below infinity, and for a = 0 at 0, for an infinite a nowhere.
    none = (x == 0) | (a == math.inf)
    all_of_it = (x == math.inf) | (a == 0)
    wrong = (none & all_of_it) | (x < 0) | (a < 0) | (x != x) | (a != a)
    return tuple(made.masked_fill(none, 0.0 if i == 0 else 1.0).masked_fill(
        all_of_it, 1.0 if i == 0 else 0.0).masked_fill(wrong, math.nan) for i, made in enumerate((p, q)))


class _Incomplete(Function):
    """P, or Q if `upper`. There is a gradient with respect to x alone, as in torch."""

    @staticmethod
    def forward(ctx, a, x, upper):
        ctx.save_for_backward(a, x)
        ctx.sign = -1 if upper else 1
        return _both(a.astype("float64"), x.astype("float64"))[int(upper)].astype(x.dtype)

    @staticmethod
    def backward(ctx, g):
        if ctx.needs_input_grad[0]:
            raise CLASSES["UNSUPPORTED"]("igamma: there is no gradient with respect to its first operand")
        a, x = ctx.saved_tensors
        return None, g * (ctx.sign * ((a - 1) * x.log() - x - a.lgamma()).exp()), None


def incomplete(a, x, upper):
    """P(a, x), or Q if `upper`, of two tensors that broadcast."""
    a, x = a._pair(x)
    a, x = a._floating(), x._floating()
    shape = (a._detach() + x._detach()).shape
    return _Incomplete.apply(a.broadcast_to(shape), x.broadcast_to(shape), upper)
