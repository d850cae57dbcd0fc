"""Random numbers of distributions that no formula makes of uniform ones: proposals of which the first that fits is taken.

How many are made is fixed, so that a draw is a program like any other; that none of them fits has a probability below
1e-10. All is computed in float64.
"""
import math

from . import _shoal
from .custom import Function
from .indexing import required
from .random import draw


def uniform(shape, generator=None):
    """Numbers from 0, exclusively, to 1."""
    return draw((tuple(shape),), "UNIFORM", "float64", generator=generator) + 2.0 ** -54


def _normal(shape, generator=None):
    return draw((tuple(shape),), "NORMAL", "float64", generator=generator)


def _first(proposals, fits):
    """Along axis 0 the first proposal that fits."""
    at = fits.to("uint8").argmax(0, True)
    return proposals.take_along(at, 0).squeeze(0)


# ---- the gamma distribution ----

def _gamma(a, generator):
    """Marsaglia and Tsang, 2000."""
    raised = a < 1
    d = _shoal.select(raised, a + 1, a) - 1 / 3
    c = 1 / (9 * d).sqrt()
    made, found = d, None
    for _ in range(8):  # of which each fits with 0.95 at least
        z, u = _normal(a.shape, generator), uniform(a.shape, generator)
        v = (1 + c * z) ** 3
        fits = (v > 0) & (u.log() < 0.5 * z * z + d - d * v + d * _shoal.select(v > 0, v, v * 0 + 1).log())
        made = _shoal.select(fits if found is None else fits & ~found, d * v, made)
        found = fits if found is None else found | fits
    made = made * _shoal.select(raised, uniform(a.shape, generator).log() / a, a * 0).exp()
    return made.clamp(min=1e-300)


def _gamma_slope(a, x):
    """dx / da where the probability of less than x stays the same: what the draw becomes as its parameter moves."""
    from .autograd import enable_grad, grad
    from .gamma import fraction, series
    large = a > 100
    b, y = a.where(~large, 1.0), x.where(~large, 1.0)
    below = y < b + 1
    with enable_grad():
        leaf = b.detach().requires_grad_()
        front = (leaf * y.log() - y - leaf.lgamma()).exp()
        lower, upper = series(leaf, y.where(below, 1.0)) / leaf, fraction(leaf, y.where(~below, 200.0))
        slope = grad((front * _shoal.select(below, lower, -upper)).sum(), leaf)[0]
    density = ((b - 1) * y.log() - y - b.lgamma()).exp()
    made = _shoal.select(y < 1e-10, y * ((b + 1).digamma() - y.log()) / b, -slope / density)  # near 0: x^a / gamma(a + 1)
    return _shoal.select(large, _large_slope(a.where(large, 200.0), x.where(large, 200.0)), made)


def _large_slope(a, x):
    """That by the expansion of Cornish and Fisher (1938): x from a and the normal number z of the same probability."""
    root = a.sqrt()
    z = 3 * root * ((x / a).pow(1 / 3) - 1 + 1 / (9 * a))  # Wilson and Hilferty; then Newton
    for _ in range(2):
        off = a + root * z + (z * z - 1) / 3 + (z ** 3 - 7 * z) / (36 * root) \
            - (3 * z ** 4 + 7 * z * z - 16) / (810 * a) + (9 * z ** 5 + 256 * z ** 3 - 433 * z) / (38880 * a * root) - x
        z = z - off / (root + z * 2 / 3)
    return 1 + z / (2 * root) - (z ** 3 - 7 * z) / (72 * a * root) + (3 * z ** 4 + 7 * z * z - 16) / (810 * a * a) \
        - (9 * z ** 5 + 256 * z ** 3 - 433 * z) * 1.5 / (38880 * a * a * root)


class _StandardGamma(Function):
    """Draws of the gamma distribution with rate 1, with implicit gradients (Figurnov et al., 2018)."""

    @staticmethod
    def forward(ctx, a, generator):
        made = _gamma(a.astype("float64"), generator)
        ctx.save_for_backward(a, made)
        return made

    @staticmethod
    def backward(ctx, g):
        a, made = ctx.saved_tensors
        return (g * _gamma_slope(a.astype("float64"), made)).astype(a.dtype), None


def standard_gamma(a, generator=None):
    """Numbers, float64, of the gamma distributions of shape a and rate 1."""
    return _StandardGamma.apply(a, generator)


# ---- counts ----

def _few(limit, p, ratio, u):
    """The inverse of a distribution of counts: p is the probability of 0, ratio(k) that of k + 1 over that of k."""
    count, total = u * 0, p
    for k in range(limit):
        count = count + (u > total).astype("float64")
        p = p * ratio(k)
        total = total + p
    return count


def poisson(rate, generator=None):
    """Numbers, float64, of Poisson distributions: below a rate of 10 by the inverse of the distribution, above by
    transformed rejection (Hörmann, 1993)."""
    rate = rate.astype("float64")
    small = rate.clamp(max=10.0)
    few = _few(60, (-small).exp(), lambda k: small / (k + 1.0), uniform(rate.shape, generator))
    mean = rate.clamp(min=10.0)
    b = 0.931 + 2.53 * mean.sqrt()
    a = -0.059 + 0.02483 * b
    shape = (16, *rate.shape)
    u, v = uniform(shape, generator) - 0.5, uniform(shape, generator)
    size = 0.5 - abs(u)
    k = ((2 * a / size + b) * u + mean + 0.43).floor()
    inside = k.clamp(min=0)
    height = (v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (size * size) + b)).log()
    fits = (k >= 0) & (height <= inside * mean.log() - mean - (inside + 1).lgamma())
    return _shoal.select(rate < 10, few, _first(inside, fits))


def binomial(count, prob, generator=None):
    """How many of `count` trials succeed with probability `prob`, float64: below a mean of 10 by the inverse of the
    distribution, above by transformed rejection (Hörmann, 1993)."""
    n, p = count.astype("float64"), prob.astype("float64")
    n = required(n, n >= 0, "binomial: a count is negative")
    n, p = n + p * 0, p + n * 0
    q = p.minimum(1 - p)  # of what is less probable, success or failure
    odds = q / (1 - q)
    mean = n * q
    few = _few(72, ((-q).log1p() * n).exp(), lambda k: ((n - k) / (k + 1.0)).clamp(min=0) * odds,
               uniform(n.shape, generator))
    large = mean >= 10
    m, r = _shoal.select(large, n, n * 0 + 40), _shoal.select(large, q, q * 0 + 0.5)
    wide = (m * r * (1 - r)).sqrt()
    b = 1.15 + 2.53 * wide
    a = -0.0873 + 0.0248 * b + 0.01 * r
    shape = (24, *n.shape)
    u, v = uniform(shape, generator) - 0.5, uniform(shape, generator)
    size = 0.5 - abs(u)
    k = ((2 * a / size + b) * u + m * r + 0.5).floor()
    inside = k.clamp(min=0).minimum(m)
    mode = ((m + 1) * r).floor()
    height = (v * (2.83 + 5.1 / b) * wide / (a / (size * size) + b)).log()
    least = (mode + 1).lgamma() + (m - mode + 1).lgamma() - (inside + 1).lgamma() - (m - inside + 1).lgamma() \
        + (inside - mode) * (r / (1 - r)).log()
    made = _shoal.select(large, _first(inside, (k == inside) & (height <= least)), few)
    return _shoal.select(p == q, made, n - made)


def von_mises(concentration, generator=None):
    """Angles, float64, around 0 (Best and Fisher, 1979)."""
    kappa = concentration.astype("float64").clamp(min=1e-8)
    tau = 1 + (1 + 4 * kappa * kappa).sqrt()
    rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
    r = (1 + rho * rho) / (2 * rho)
    # Nearly uniform ones have no digits left in that.
    r = _shoal.select(kappa < 1e-4, 1 / kappa + kappa, r)
    shape = (28, *kappa.shape)
    z = (math.pi * uniform(shape, generator)).cos()
    f = ((1 + r * z) / (r + z)).clamp(-1, 1)
    c = kappa * (r - f)
    u = uniform(shape, generator)
    f = _first(f, (c * (2 - c) - u > 0) | ((c / u).log() + 1 - c >= 0))
    return (uniform(kappa.shape, generator) - 0.5).sign() * f.acos()
