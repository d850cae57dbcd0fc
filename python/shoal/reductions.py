"""Reductions, cumulative ones, and order.

`axis` and `keepdims` are NumPy's words and mean what NumPy means; `dim` and `keepdim` are torch's.
They differ in three places, where the word decides: with `dim`, `max` and `min` give (values,
indices), and `var` and `std` divide by one less than the count.
"""
from collections import namedtuple

from . import _shoal
from .words import axis_of, invalid, torch_words

Extreme = namedtuple("Extreme", "values indices")
Sorted = namedtuple("Sorted", "values indices")


class Reductions:
    """What `Tensor` has from here."""

    __slots__ = ()

    def _axes(self, axis):
        if axis is None:
            return tuple(range(self.ndim))
        return (axis,) if isinstance(axis, int) else tuple(axis)

    def _reduce(self, op, axis, keepdims):
        axes = self._axes(axis)
        if not axes:
            return self  # an empty tuple reduces nothing
        return _shoal.reduce(self, op, axes, bool(keepdims))

    def _countable(self):
        """bool counts, as int64."""
        return self.astype("int64") if self.dtype == "bool" else self

    @torch_words
    def sum(self, axis=None, keepdims=False, dtype=None):
        """Sums over axes (None: all; an int or a tuple). bool counts, as int64."""
        source = self._countable() if dtype is None else self.astype(dtype)
        return source._reduce("add", axis, keepdims)

    @torch_words
    def prod(self, axis=None, keepdims=False):
        """Products over axes."""
        return self._countable()._reduce("multiply", axis, keepdims)

    @torch_words
    def mean(self, axis=None, keepdims=False):
        """Means over axes; floating types, others as float32."""
        source = self._floating()
        total = source._reduce("add", axis, keepdims)
        count = source.size // (total.size or 1) if total.size else 1
        return total / float(count) if count else total / total

    def max(self, axis=None, keepdims=False, *, dim=None, keepdim=False):
        """The largest over axes; an error when there are no elements.

        With `dim`, an int, as torch: (values, indices). With a tensor in the place of the axis:
        `maximum`.
        """
        return self._largest("max", axis, keepdims, dim, keepdim)

    def min(self, axis=None, keepdims=False, *, dim=None, keepdim=False):
        """The smallest over axes; as `max`."""
        return self._largest("min", axis, keepdims, dim, keepdim)

    def _largest(self, name, axis, keepdims, dim, keepdim):
        if hasattr(axis, "session"):
            return self._binary(name + "imum", axis)
        if dim is None:
            return self._extreme(name + "imum", axis, keepdims or keepdim)
        dim = axis_of(dim, self.ndim, name)
        self._need_elements(name, dim)
        at = (self.argmax if name == "max" else self.argmin)(dim, True)
        values = self.take_along(at, dim)
        if not keepdim:
            values, at = values.squeeze(dim), at.squeeze(dim)
        return Extreme(values, at)

    @torch_words
    def amax(self, axis=None, keepdims=False):
        """The largest over axes (an int or a tuple)."""
        return self._extreme("maximum", axis, keepdims)

    @torch_words
    def amin(self, axis=None, keepdims=False):
        """The smallest over axes (an int or a tuple)."""
        return self._extreme("minimum", axis, keepdims)

    def _need_elements(self, what, axis):
        if any(self.shape[a] == 0 for a in self._axes(axis) if -self.ndim <= a < self.ndim):
            raise invalid(f"{what} over no elements: {self.dtype}{list(self.shape)}")

    def _extreme(self, op, axis, keepdims):
        self._need_elements(op, axis)
        return self._reduce(op, axis, keepdims)

    @torch_words
    def all(self, axis=None, keepdims=False):
        """Whether all elements are true (not 0), over axes."""
        return self.astype("bool")._reduce("multiply", axis, keepdims)

    @torch_words
    def any(self, axis=None, keepdims=False):
        """Whether an element is true (not 0), over axes."""
        return self.astype("bool")._reduce("add", axis, keepdims)

    @torch_words
    def count_nonzero(self, axis=None, keepdims=False):
        """How many elements are not 0, over axes."""
        return (self != 0).sum(axis, keepdims)

    def var(self, axis=None, keepdims=False, correction=None, *, dim=None, keepdim=False,
            unbiased=None):
        """Variances over axes, dividing by the count less `correction`.

        The correction is NumPy's 0; with torch's words `dim` or `unbiased` it is torch's 1.
        """
        if correction is None:
            torch = dim is not None if unbiased is None else unbiased
            correction = 1 if torch else 0
        axis, keepdims = (axis if dim is None else dim), keepdims or keepdim
        x = self._floating()
        moved = x - x.mean(axis, True)
        total = (moved * moved).sum(axis, keepdims)
        count = x.size // (total.size or 1)
        return total / float(count - correction)

    def std(self, axis=None, keepdims=False, correction=None, *, dim=None, keepdim=False,
            unbiased=None):
        """Standard deviations over axes: roots of `var`."""
        return self.var(axis, keepdims, correction, dim=dim, keepdim=keepdim,
                        unbiased=unbiased).sqrt()

    @torch_words
    def logsumexp(self, axis=None, keepdims=False):
        """The logarithm of the sum of e^x over axes; e^x itself may overflow."""
        x = self._floating()
        top = x.amax(axis, True).detach()
        top = _shoal.select(top.isfinite(), top, top._coerce(0))
        total = (x - top).exp().sum(axis, True).log() + top
        return total if keepdims else total.squeeze(self._axes(axis))

    @torch_words
    def norm(self, p=2, axis=None, keepdims=False):
        """The p-norm over axes (None: of all elements): (sum |x|^p)^(1/p); p may be infinite, 0
        or "fro", which is 2."""
        x = self._floating()
        p = 2 if p in (None, "fro") else p
        if p == float("inf"):
            return abs(x).amax(axis, keepdims)
        if p == -float("inf"):
            return abs(x).amin(axis, keepdims)
        if p == 0:
            return (x != 0).sum(axis, keepdims).astype(x.dtype)
        if p == 1:
            return abs(x).sum(axis, keepdims)
        if p == 2:
            total = (x * x).sum(axis, keepdims)
            some = total > 0  # at 0 the gradient is 0
            root = _shoal.select(some, total, total._coerce(1)).sqrt()
            return _shoal.select(some, root, total)
        return abs(x).pow(float(p)).sum(axis, keepdims).pow(1.0 / p)

    @torch_words
    def argmax(self, axis=None, keepdims=False):
        """The index, int64, of the largest along an axis (None: of all); NaN is the largest."""
        return self._arg("argmax", axis, keepdims)

    @torch_words
    def argmin(self, axis=None, keepdims=False):
        """The index, int64, of the smallest along an axis (None: of all); NaN is the smallest."""
        return self._arg("argmin", axis, keepdims)

    def _arg(self, op, axis, keepdims):
        if axis is None:
            found = self.ravel()._arg(op, 0, False)
            return found.reshape((1,) * self.ndim) if keepdims else found
        axis = axis_of(axis, self.ndim, op)
        found = self._apply(op, dimension=axis, dtype="int64")
        return found.unsqueeze(axis) if keepdims else found

    # ---- cumulative ----

    @torch_words
    def cumsum(self, axis):
        """Sums of all elements up to each, along an axis. bool counts, as int64."""
        return _shoal.cumulate(self._countable(), "add", axis)

    @torch_words
    def cumprod(self, axis):
        """Products of all elements up to each, along an axis."""
        return _shoal.cumulate(self._countable(), "multiply", axis)

    @torch_words
    def cummax(self, axis):
        """The largest of all elements up to each, along an axis (values alone)."""
        return _shoal.cumulate(self, "maximum", axis)

    @torch_words
    def cummin(self, axis):
        """The smallest of all elements up to each, along an axis (values alone)."""
        return _shoal.cumulate(self, "minimum", axis)

    # ---- order ----

    @torch_words
    def sort(self, axis=-1, descending=False):
        """(values, indices) along an axis; stable, NaN as the largest; indices are int64."""
        return Sorted(*_shoal.sort(self, axis, descending))

    @torch_words
    def argsort(self, axis=-1, descending=False):
        """The indices, int64, that `sort` gives."""
        return _shoal.sort(self, axis, descending)[1]

    @torch_words
    def topk(self, k, axis=-1, largest=True):
        """(values, indices) of the largest, or smallest, k along an axis, in falling or rising
        order; NaN is the largest; indices are int64."""
        axis = axis_of(axis, self.ndim, "topk")
        if not 0 <= k <= self.shape[axis]:
            raise invalid(f"topk: {k} of the {self.shape[axis]} along axis {axis} of "
                          f"{self.dtype}{list(self.shape)}")
        if not largest:
            values, at = _shoal.sort(self, axis, False)
            return Sorted(values.narrow(axis, 0, k), at.narrow(axis, 0, k))
        values, at = self.transpose(axis, -1)._apply("top_k", n_outputs=2, k=k)
        return Sorted(values.transpose(axis, -1), at.astype("int64").transpose(axis, -1))

    @torch_words
    def median(self, axis=None, keepdims=False):
        """The median over an axis (None: of all), the mean of the middle two where the count is
        even (NumPy's)."""
        x = self._floating()
        if axis is None:
            middle = x.ravel().median(0)
            return middle.reshape((1,) * self.ndim) if keepdims else middle
        axis = axis_of(axis, self.ndim, "median")
        self._need_elements("median", axis)
        n, order = self.shape[axis], x.sort(axis).values
        low, high = order.narrow(axis, (n - 1) // 2, 1), order.narrow(axis, n // 2, 1)
        middle = (low + high) * 0.5
        return middle if keepdims else middle.squeeze(axis)
