"""Order: sorting, ranks, medians and quantiles, sets, counts and searching.

What has a result whose shape depends on values (`unique`, `bincount`, `nonzero`) reads them; all else is
recorded.
"""
import math

from . import _shoal, return_types
from .indexing import required
from .reductions import _kept
from .words import UNSET, axis_of, invalid, is_floating, torch_words


def places(x, axis):
    """The index along an axis of each of x's elements, int64."""
    return _shoal.apply(x.session, "iota", (), {"shape": x.shape, "iota_dimension": axis,
                                                "dtype": "int64"}, 1)[0]


class Order:
    """What `Tensor` has from here."""

    __slots__ = ()

    @torch_words
    def sort(self, axis=-1, descending=False, stable=True):
        """(values, indices) along an axis; always stable, NaN as the largest; indices are int64."""
        if not self.ndim:
            return return_types.sort(self.clone(), self.session.full((), 0, "int64"))
        return return_types.sort(*_shoal.sort(self, axis_of(axis, self.ndim, "sort"), bool(descending)))

    @torch_words
    def argsort(self, axis=-1, descending=False, stable=True):
        """The indices, int64, that `sort` gives."""
        return self.sort(axis, descending).indices

    def msort(self):
        """The values sorted along the first axis."""
        return self.sort(0).values

    @torch_words
    def topk(self, k, axis=-1, largest=True, sorted=True):
        """(values, indices) of the largest, or smallest, k along an axis, in descending or ascending
        order; NaN is the largest; indices are int64."""
        axis = axis_of(axis, self.ndim, "topk")
        if not 0 <= k <= self.shape[axis]:
            raise invalid(f"topk: {k} of the {self.shape[axis]} along axis {axis} of {self._text()}")
        if not largest:
            values, at = _shoal.sort(self, axis, False)
            return return_types.topk(values.narrow(axis, 0, k).clone(), at.narrow(axis, 0, k).clone())
        values, at = self.transpose(axis, -1)._apply("top_k", n_outputs=2, k=k)
        return return_types.topk(values.transpose(axis, -1).clone(), at.astype("int64").transpose(axis, -1).clone())

    @torch_words
    def kthvalue(self, k, axis=-1, keepdims=False):
        """(value, index) of the k-th smallest along an axis, k from 1."""
        if not self.ndim:
            return return_types.kthvalue(self.clone(), self.session.full((), 0, "int64"))
        axis = axis_of(axis, self.ndim, "kthvalue")
        if not 1 <= k <= self.shape[axis]:
            raise invalid(f"kthvalue: the {k}-th of {self.shape[axis]} along axis {axis} of {self._text()}")
        order = self.sort(axis)
        return return_types.kthvalue(*_kept([t.narrow(axis, k - 1, 1).clone() for t in order], axis, keepdims))

    def median(self, dim=None, keepdim=False, *, axis=UNSET, keepdims=False):
        """The lower median of all; with `dim` (values, indices) along it. NaN where one is.

        axis: NumPy's median, the mean of the middle two where the count is even, without indices.
        """
        if axis is not UNSET:
            return self._numpy_median(axis, keepdims)
        if dim is None:
            return self._median_of_all(False)
        return self._median(dim, keepdim or keepdims, False)

    def nanmedian(self, dim=None, keepdim=False):
        """`median` of what is not NaN."""
        if dim is None:
            return self._median_of_all(True)
        return self._median(dim, keepdim, True)

    def _median_of_all(self, skip):
        x = self.ravel()
        found = x._detach()._median(0, False, skip).values
        if not x.requires_grad:
            return found
        # Equal ones have equal parts in the gradient, as that of `amax` gives them.
        equal = (x == found) | (x != x) & (found != found)
        return _shoal.select(equal, x, x._coerce(-math.inf)).amax()

    def _median(self, dim, keepdim, skip):
        made = return_types.nanmedian if skip else return_types.median
        if not self.ndim:
            return made(self.clone(), self.session.full((), 0, "int64"))
        dim = axis_of(dim, self.ndim, "median")
        self._need_elements("median", dim)
        n, order = self.shape[dim], self._detach().sort(dim).indices
        absent = self != self
        if skip:
            kept = n - absent.sum(dim, True)
            at = order._along(((kept - 1).clamp(min=0)) // 2, dim)
        else:
            at = order.narrow(dim, (n - 1) // 2, 1)
            at = _shoal.select(absent.any(dim, True), absent.astype("uint8").argmax(dim, True), at)
        return made(*_kept((self._along(at, dim), at), dim, keepdim))

    def _numpy_median(self, axis, keepdims):
        x = self._floating()
        if axis is None:
            middle = x.ravel()._numpy_median(0, False)
            return middle.reshape((1,) * self.ndim) if keepdims else middle
        axis = axis_of(axis, self.ndim, "median")
        self._need_elements("median", axis)
        n, order = self.shape[axis], x.sort(axis).values
        low, high = order.narrow(axis, (n - 1) // 2, 1), order.narrow(axis, n // 2, 1)
        middle = _shoal.select((x != x).any(axis, True), x.amax(axis, True), (low + high) * 0.5)
        return middle if keepdims else middle.squeeze(axis)

    @torch_words
    def mode(self, axis=-1, keepdims=False):
        """(values, indices) of the most frequent along an axis, of equally frequent ones the smallest."""
        if not self.ndim:
            return return_types.mode(self.clone(), self.session.full((), 0, "int64"))
        axis = axis_of(axis, self.ndim, "mode")
        self._need_elements("mode", axis)
        values, order = self.sort(axis)
        count = places(self, axis)
        if self.shape[axis] > 1:
            n = self.shape[axis]
            new = (values.narrow(axis, 1, n - 1) != values.narrow(axis, 0, n - 1)).astype("int64")
            low = [int(a == axis) for a in range(self.ndim)]
            starts = new.pad(low, [0] * self.ndim, 1) * count
            count = count - _shoal.cumulate(starts, "maximum", axis)
        best = count.argmax(axis, True)
        return return_types.mode(*_kept((values._along(best, axis), order._along(best, axis)), axis, keepdims))

    @torch_words
    def quantile(self, q, axis=None, keepdims=False, interpolation="linear"):
        """The value below which a share q lies, along an axis (None: of all); q: a number, or a vector of
        them, which gives a new first axis. interpolation: linear, lower, higher, midpoint or nearest."""
        return self._quantile(q, axis, keepdims, interpolation, False)

    @torch_words
    def nanquantile(self, q, axis=None, keepdims=False, interpolation="linear"):
        """`quantile` of what is not NaN."""
        return self._quantile(q, axis, keepdims, interpolation, True)

    def _quantile(self, q, axis, keepdims, interpolation, skip):
        if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
            raise invalid(f"quantile: interpolation '{interpolation}' is none of linear, lower, higher, "
                          "midpoint, nearest")
        x = self.ravel() if axis is None else self
        at = 0 if axis is None else axis_of(axis, self.ndim, "quantile")
        x._need_elements("quantile", at)
        known = None if hasattr(q, "session") else [q] if isinstance(q, (int, float)) else list(q)
        if known is not None and not all(0 <= share <= 1 for share in known):
            raise invalid(f"quantile: q is {q}; a share lies between 0 and 1")
        q = q if known is None else self.session.tensor(q, self.dtype)
        if q.ndim > 1:
            raise invalid(f"quantile: q is {q._text()}; it must be a number or a vector")
        if known is None:
            q = required(q, (q >= 0) & (q <= 1), "quantile: a share q is not between 0 and 1")
        shares = q.ravel().reshape((-1,) + (1,) * x.ndim)
        values, n = x.sort(at).values.unsqueeze(0), x.shape[at]
        absent = (x != x)
        count = n - absent.sum(at, True) if skip else None
        last = ((count - 1).clamp(min=0) if skip else self.session.tensor(n - 1, "int64")).astype(x.dtype)
        rank = shares * last
        rank = rank.broadcast_to((shares.shape[0],) + x.shape[:at] + (1,) + x.shape[at + 1:])
        low, high = rank.floor(), rank.ceil()
        if interpolation == "nearest":
            low = high = rank.round()
        a, b = (values.broadcast_to((shares.shape[0],) + x.shape).take_along(r.astype("int64"), at + 1)
                for r in (low, high))
        share = {"linear": rank - low, "midpoint": 0.5, "lower": 0.0, "higher": 1.0,
                 "nearest": 0.0}[interpolation]
        made = a + (b - a) * share
        if not skip:
            made = _shoal.select(absent.any(at, True).broadcast_to(made.shape), made._coerce(math.nan), made)
        if keepdims and axis is None:
            made = made.reshape((shares.shape[0],) + (1,) * self.ndim)
        elif not keepdims:
            made = made.squeeze(at + 1)
        return made if q.ndim else made.squeeze(0)

    # ---- sets and counts ----

    def unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
        """The distinct values, ascending; along an axis the distinct parts. Reads the tensor.

        With return_inverse and return_counts a tuple: where each element's value stands, and how
        often each value is there.
        """
        import numpy
        keywords = {"equal_nan": False} if numpy.lib.NumpyVersion(numpy.__version__) >= "1.24.0" else {}
        found = numpy.unique(self._detach().numpy(), return_inverse=True, return_counts=True,
                             axis=dim, **keywords)
        values, inverse, counts = found
        inverse = inverse.reshape(self.shape if dim is None else (self.shape[dim],))
        return _asked(self, values, inverse, counts, return_inverse, return_counts)

    def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
        """The values, or the parts along an axis, that differ from the one before. Reads the tensor."""
        import numpy
        data = self._detach().numpy()
        rows = data.reshape(-1) if dim is None else numpy.moveaxis(data, dim, 0)
        flat = rows.reshape(len(rows), -1)
        new = numpy.ones(len(rows), bool)
        new[1:] = (flat[1:] != flat[:-1]).any(1)
        at = numpy.flatnonzero(new)
        values = rows[at] if dim is None else numpy.moveaxis(rows[at], 0, dim)
        inverse = (numpy.cumsum(new) - 1).reshape(data.shape if dim is None else -1)
        counts = numpy.diff(numpy.append(at, len(rows)))
        return _asked(self, values, inverse, counts, return_inverse, return_counts)

    def bincount(self, weights=None, minlength=0):
        """How often 0, 1, 2, … stand in a vector of integers; weights are added up instead. Reads it."""
        if self.ndim != 1 or is_floating(self.dtype):
            raise invalid(f"bincount: {self._text()} is no vector of integers")
        if minlength < 0:
            raise invalid(f"bincount: minlength is {minlength}; it must not be negative")
        n = max(minlength, int(self.max().item()) + 1 if self.size else 0)
        if self.size and self.min().item() < 0:
            raise invalid("bincount: there is a negative number")
        kind = "int64" if weights is None else weights.dtype if is_floating(weights.dtype) else "float64"
        added = self.session.full(self.shape, 1, kind) if weights is None else weights.astype(kind)
        return self.session.full((n,), 0, kind).scatter_add(0, self.astype("int64"), added)

    def histc(self, bins=100, min=0, max=0):
        """How many elements lie in each of `bins` intervals of equal length from min to max (equal:
        those of the elements); others are left out."""
        if bins <= 0 or min > max:
            raise invalid(f"histc: {bins} intervals from {min} to {max}: give at least one, and min <= max")
        low, high = (min, max) if min != max else (self.min(), self.max())
        if min == max and self.size and bool(low == high):
            low, high = low - 1, high + 1
        x = self.ravel()
        at = ((x - low) * bins / (high - low)).floor().clamp(max=bins - 1)
        inside = (x >= low) & (x <= high)
        at = _shoal.select(inside, at.astype("int64"), self.session.tensor(bins, "int64"))
        ones = self.session.full(x.shape, 1, self.dtype)
        return self.session.full((bins + 1,), 0, self.dtype).scatter_add(0, at, ones)[:bins]

    def histogram(self, bins, *, range=None, weight=None, density=False):
        """See `shoal.histogram`."""
        from .numerics import histogram
        return histogram(self, bins, range=range, weight=weight, density=density)

    def isin(self, test_elements, assume_unique=False, invert=False):
        """Whether each element is among others."""
        others = self._coerce(test_elements, "isin").ravel()
        x, others = self._alike(others)
        if not others.size:
            found = self.session.full(self.shape, False, "bool")
        else:
            others = others.sort(0).values
            at = others.searchsorted(x).clamp(max=others.size - 1)
            found = others.take(at, 0) == x
        return ~found if invert else found

    def searchsorted(self, input, *, out_int32=False, right=False, side=None, sorter=None):
        """Where in this ascending sequence (along the last axis) each element would be put so that it stays
        ascending: before equal ones, or after them with right."""
        if side not in (None, "left", "right") or right and side == "left":
            raise invalid(f"searchsorted: side '{side}' with right={right}; it is 'left' or 'right'")
        right = right or side == "right"
        number = not hasattr(input, "session") and not hasattr(input, "shape") and \
            not isinstance(input, (list, tuple))
        wanted = self._coerce(input, "searchsorted")
        sequence = self if sorter is None else self.take_along(sorter, -1)
        sequence, wanted = sequence._alike(wanted)
        n, shape = sequence.shape[-1], wanted.shape
        if sequence.ndim > 1:
            if shape[:-1] != sequence.shape[:-1]:
                raise invalid(f"searchsorted: {wanted._text()} does not go with {self._text()}")
        else:
            wanted = wanted.ravel()
        low = self.session.full(wanted.shape, 0, "int64")
        high = low + n
        for _ in range(n.bit_length()):
            middle = (low + high) // 2
            at = sequence._along(middle.clamp(max=max(n - 1, 0)), -1) if n else wanted
            before = (at <= wanted) | (wanted != wanted) if right else at < wanted
            before = before & (low < high)
            low, high = _shoal.select(before, middle + 1, low), _shoal.select(before, high, middle)
        made = low.reshape(() if number else shape)
        return made.astype("int32") if out_int32 else made

    def bucketize(self, boundaries, *, out_int32=False, right=False):
        """Between which boundaries, an ascending vector, each element lies: `boundaries.searchsorted(x)`."""
        boundaries = self._coerce(boundaries, "bucketize")
        if boundaries.ndim != 1:
            raise invalid(f"bucketize: the boundaries {boundaries._text()} are no vector")
        return boundaries.searchsorted(self, out_int32=out_int32, right=right)


def _asked(x, values, inverse, counts, return_inverse, return_counts):
    made = [x.session.tensor(values, x.dtype)]
    if return_inverse:
        made.append(x.session.tensor(inverse.astype("int64")))
    if return_counts:
        made.append(x.session.tensor(counts.astype("int64")))
    return tuple(made) if len(made) > 1 else made[0]
