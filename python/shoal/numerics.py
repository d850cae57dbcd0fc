"""Functions of torch that are used now and then: numerical differences, histograms, factors of low rank. Loaded
when one of them is first used."""
import math
from collections import namedtuple

from .creation import arange, cat, default_dtype, full, linspace, placed, where
from .random import randn
from .words import axis_of, invalid, is_floating

Histogram = namedtuple("Histogram", "hist bin_edges")
LowRank = namedtuple("LowRank", "U S V")


# ---- differences ----

def gradient(input, *, spacing=1, dim=None, edge_order=1):
    """The derivatives along axes by differences of the second order, a tuple of tensors of the input's shape.

    spacing: the distance of neighbours, or one per axis, or per axis a vector of coordinates. dim: an axis or
    several; None: all. edge_order: 1 or 2, of the differences at the ends.
    """
    if edge_order not in (1, 2):
        raise invalid(f"gradient: edge_order is {edge_order}; it is 1 or 2")
    dims = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    dims = [axis_of(d, input.ndim, "gradient") for d in dims]
    spacings = list(spacing) if isinstance(spacing, (tuple, list)) else [spacing] * len(dims)
    if len(spacings) != len(dims):
        raise invalid(f"gradient: {len(spacings)} spacings for {len(dims)} axes")
    return tuple(_slope(input, step, axis, edge_order) for step, axis in zip(spacings, dims))


def _slope(x, step, axis, edge_order):
    n = x.shape[axis]
    if n < edge_order + 1:
        raise invalid(f"gradient: axis {axis} of {x._text()} is shorter than {edge_order + 1}, which edge_order "
                      f"{edge_order} needs")
    f = x._floating().movedim(axis, -1)
    if hasattr(step, "session"):
        if step.shape != (n,):
            raise invalid(f"gradient: coordinates {step._text()} for an axis of length {n}")
        d = (step[1:] - step[:-1]).astype(f.dtype)
    else:
        d = full((n - 1,), float(step), f.dtype)
    ends = [(f[..., 1:2] - f[..., :1]) / d[:1], (f[..., -1:] - f[..., -2:-1]) / d[-1:]]
    if edge_order == 2:
        for end, (a, b), (p, q, r), sign in ((0, (d[:1], d[1:2]), (0, 1, 2), 1),
                                             (1, (d[-1:], d[-2:-1]), (n - 1, n - 2, n - 3), -1)):
            ends[end] = sign * (-(2 * a + b) / (a * (a + b)) * f[..., p:p + 1] + (a + b) / (a * b) * f[..., q:q + 1]
                                - a / (b * (a + b)) * f[..., r:r + 1])
    a, b = d[:-1], d[1:]
    inner = [] if n < 3 else [-b / (a * (a + b)) * f[..., :-2] + (b - a) / (a * b) * f[..., 1:-1]
                              + a / (b * (a + b)) * f[..., 2:]]
    return cat([ends[0], *inner, ends[1]], -1).movedim(-1, axis)


def fill(input, value):
    """A tensor of the input's shape and element type, one number everywhere."""
    return input._detach().fill_(value)


def trapz(y, x=None, *, dx=1.0, dim=-1):
    """`trapezoid`."""
    return y.trapezoid(x, dx=dx, axis=dim)


# ---- histograms ----

def _edges(x, bins, low, high):
    """The edges of a count of bins between two bounds, or as they are given; equal bounds are moved apart."""
    if hasattr(bins, "session"):
        return bins
    if bins < 1:
        raise invalid(f"histogram: {bins} bins; at least 1")
    if low > high or not (math.isfinite(low) and math.isfinite(high)):
        raise invalid(f"histogram: the range is from {low} to {high}")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return linspace(low, high, bins + 1, dtype=x.dtype)


def _bounds(x, range):
    if range is not None:
        return float(range[0]), float(range[1])
    return (float(x.min().item()), float(x.max().item())) if x.numel() else (0.0, 1.0)


def _bins(x, edges):
    """Of each element the number of its bin, and whether it lies in any; the last bin has its upper edge."""
    n = edges.shape[0] - 1
    at = (edges.searchsorted(x.contiguous(), right=True) - 1).clamp(0, n - 1)
    return at, (x >= edges[0]) & (x <= edges[-1])


def _counted(at, inside, count, weight, dtype):
    ones = full(at.shape, 1, dtype) if weight is None else weight.ravel().astype(dtype)
    return full((count,), 0, dtype).scatter_add(0, at, where(inside, ones, 0))


def histogram(input, bins, *, range=None, weight=None, density=False):
    """(hist, bin_edges): how many elements lie in each bin; elements outside are left out.

    bins: how many of equal width, between `range` or else the extremes of the elements, which are read; or an
    ascending vector of edges. weight: added up instead. density: over the sum and the widths.
    """
    x = input.ravel()
    if weight is not None and weight.shape != input.shape:
        raise invalid(f"histogram: weight {weight._text()} for {input._text()}")
    edges = _edges(x, bins, *(_bounds(x, range) if not hasattr(bins, "session") else (0, 0)))
    hist = _counted(*_bins(x, edges), edges.shape[0] - 1, weight, input.dtype)
    return Histogram(hist / (hist.sum() * (edges[1:] - edges[:-1])) if density else hist, edges)


def histogramdd(input, bins, *, range=None, weight=None, density=False):
    """(hist, bin_edges) of points, the last axis of `input`: a bin count, or edges, per coordinate; range: the
    bounds of all coordinates one after another. As `histogram`."""
    rank = input.shape[-1]
    points = input.reshape(-1, rank)
    bins = [bins] * rank if isinstance(bins, int) else list(bins)
    if len(bins) != rank:
        raise invalid(f"histogramdd: {len(bins)} bins for points of {rank} coordinates")
    at, inside, edges = None, None, []
    for i, own in enumerate(bins):
        x = points[:, i].clone()
        given = (0, 0) if hasattr(own, "session") else _bounds(x, range and range[2 * i:2 * i + 2])
        edges.append(_edges(x, own, *given))
        place, fits = _bins(x, edges[-1])
        at = place if at is None else at * (edges[-1].shape[0] - 1) + place
        inside = fits if inside is None else inside & fits
    shape = tuple(e.shape[0] - 1 for e in edges)
    hist = _counted(at, inside, math.prod(shape), weight, input.dtype).reshape(shape)
    if density:
        hist = hist / hist.sum()
        for i, e in enumerate(edges):
            hist = hist / (e[1:] - e[:-1]).reshape((-1,) + (1,) * (rank - 1 - i))
    return namedtuple("Histogramdd", "hist bin_edges")(hist, tuple(edges))


# ---- random numbers and windows ----

def binomial(count, prob, generator=None):
    """How many of `count` trials succeed with probability `prob`, element by element; both of a floating type. A
    negative count is an error, of what derives from the result."""
    for given in (count, prob):
        if not is_floating(given.dtype):
            raise invalid(f"binomial: {given._text()}: counts and probabilities are of a floating type")
    from . import draws
    return draws.binomial(count, prob, generator).astype(count.dtype)


def kaiser_window(window_length, periodic=True, beta=12.0, *, dtype=None, requires_grad=False):
    """I0(beta sqrt(1 - t^2)) / I0(beta), t from -1 to 1 over a period."""
    n = window_length if periodic else window_length - 1
    if window_length < 2:
        made = full((window_length,), 1.0, "float64")
    else:
        t = arange(window_length, dtype="float64") * (2 / n) - 1
        from .derived import i0e
        size = beta * (1 - t * t).clamp(min=0).sqrt()
        made = i0e(size) * (size - beta).exp() / i0e(t[:1] * 0 + beta)
    return placed(made.astype(dtype or default_dtype()), None, requires_grad)


# ---- factors of low rank ----

def _range_of(A, q, niter):
    """An orthogonal basis of nearly the range of matrices (Halko, Martinsson and Tropp, 2011)."""
    from .linalg import qr
    Q = qr(A @ randn(*A.shape[:-2], A.shape[-1], q, dtype=A.dtype))[0]
    for _ in range(niter):
        Q = qr(A.mT @ Q)[0]
        Q = qr(A @ Q)[0]
    return Q


def svd_lowrank(A, q=6, niter=2, M=None):
    """(U, S, V): the q largest singular values of A, or A - M, and their vectors, nearly: A = U diag(S) V^T."""
    from .linalg import svd
    q = 6 if q is None else q
    if M is not None:
        A = A - M.broadcast_to(A.shape)
    if not 0 <= q <= min(A.shape[-2:]):
        raise invalid(f"svd_lowrank: q is {q}; {A._text()} has {min(A.shape[-2:])} singular values")
    Q = _range_of(A, q, niter)
    U, S, Vh = svd(Q.mT @ A, False)
    return LowRank(Q @ U, S, Vh.mT)


def pca_lowrank(A, q=None, center=True, niter=2):
    """(U, S, V) of `svd_lowrank`, of the rows less their mean: V's columns are the principal directions."""
    q = min(6, *A.shape[-2:]) if q is None else q
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


def lobpcg(A, k=None, B=None, X=None, n=None, iK=None, niter=None, tol=None, largest=None, method=None,
           tracker=None, ortho_iparams=None, ortho_fparams=None, ortho_bparams=None):
    """(eigenvalues, eigenvectors): the k largest, or smallest, of a symmetric A, or of A x = l B x. A tensor is no
    operator whose products alone are known: they come from the whole decomposition, `linalg.eigh`, and what says
    how to iterate (iK, niter, tol, method, …) has nothing to say."""
    from .linalg import cholesky, eigh, solve_triangular
    k = k or (1 if X is None else X.shape[-1])
    if not 0 < k <= A.shape[-1]:
        raise invalid(f"lobpcg: k is {k}; {A._text()} has {A.shape[-1]} eigenvalues")
    L = None if B is None else cholesky(B)
    if L is not None:
        A = solve_triangular(L, solve_triangular(L, A, upper=False).mT, upper=False)
    values, vectors = eigh(A)
    if L is not None:
        vectors = solve_triangular(L.mT, vectors, upper=True)
    if largest is None or largest:
        return values.flip(-1)[..., :k], vectors.flip(-1)[..., :k]
    return values[..., :k], vectors[..., :k]
