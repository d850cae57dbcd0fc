"""Reductions and cumulative ones.

`dim` and `keepdim` mean what torch means, by position and by keyword; `axis` and `keepdims` are NumPy's
words and mean what NumPy means; so are `where`, which elements count, and `initial`, one more. Where the two differ, the word decides: with `axis`, `max`, `min` and
`median` give no indices, `var` and `std` divide by the count, and the median of an even count is the
mean of the middle two.
"""
from . import _shoal, return_types
from .dtypes import DTYPES
from .errors import AxisError
from .words import UNSET, axis_of, invalid, is_floating, torch_words

_NARROW = frozenset((DTYPES["float16"], DTYPES["bfloat16"]))


class Reductions:
    """What `Tensor` has from here."""

    __slots__ = ()

    def _axes(self, axis):
        if axis is None:
            return tuple(range(self.ndim))
        axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
        if not self.ndim and all(a in (0, -1) for a in axes):
            return ()  # torch: a scalar may be spoken of as if it had one axis
        return axes

    def _reduce(self, op, axis, keepdims):
        rank = self.ndim
        axes = tuple(range(rank)) if axis is None else self._axes(axis)
        if not axes:
            return self.clone()  # an empty tuple reduces nothing
        if axis is not None and not all([a.__class__ is int and 0 <= a < rank for a in axes]):
            axes = tuple(axis_of(a, rank, f"{op} of {self._text()}") for a in axes)
        return _shoal.reduce(self, op, axes, bool(keepdims))

    def _countable(self, dtype=None):
        """As another element type; None: bool and integers as int64, so that sums have room."""
        if dtype is not None:
            return self.astype(dtype)
        return self if is_floating(self.dtype) or self.dtype is DTYPES["uint64"] else self.astype("int64")

    def _wide(self):
        """Small floating types as float32, for what is rounded once, at the end, as in torch: in the types
        themselves sums overflow and lose digits."""
        return self.astype("float32") if self.dtype in _NARROW else self

    @torch_words
    def sum(self, axis=None, keepdims=False, dtype=None, out=None, *, initial=None, where=None):
        """Sums over axes (None or (): all; an int or a tuple); integers and bool as int64."""
        made = _among(self, where, 0)._countable(dtype)._reduce("add", _some(axis), keepdims)
        return _into(out, made if initial is None else made + initial)

    @torch_words
    def nansum(self, axis=None, keepdims=False, dtype=None):
        """`sum`, where NaN counts as 0."""
        return (self.masked_fill(self != self, 0) if is_floating(self.dtype) else self).sum(axis, keepdims, dtype)

    @torch_words
    def prod(self, axis=None, keepdims=False, dtype=None, out=None, *, initial=None, where=None):
        """Products over axes; integers and bool as int64."""
        made = _among(self, where, 1)._countable(dtype)._reduce("multiply", axis, keepdims)
        return _into(out, made if initial is None else made * initial)

    @torch_words
    def mean(self, axis=None, keepdims=False, dtype=None, out=None, *, where=None):
        """Means over axes; floating types, others as float32."""
        source = self._floating() if dtype is None else self.astype(dtype)
        if where is not None:
            total = source._wide().sum(axis, keepdims, where=where)
            return _into(out, (total / self._count(axis, keepdims, where)).astype(source.dtype))
        total = source._wide()._reduce("add", _some(axis), keepdims)
        results = total.numel()
        count = source.numel() // results if results else 1
        return _into(out, (total / float(count) if count else total / total).astype(source.dtype))

    @torch_words
    def nanmean(self, axis=None, keepdims=False, dtype=None):
        """Means over axes of what is not NaN."""
        kept, x = (self == self)._reduce_count(axis, keepdims), self._wide()
        return (x.nansum(axis, keepdims, dtype) / kept.astype(x.dtype)).astype(dtype or self.dtype)

    def _count(self, axis, keepdims, where):
        """How many elements count, over axes, of those where a condition is true."""
        return _condition(self, where).broadcast_to(self.shape)._reduce_count(_some(axis), keepdims)

    def _reduce_count(self, axis, keepdims):
        return self.astype("int64")._reduce("add", axis, keepdims)

    def max(self, dim=None, keepdim=False, *, axis=UNSET, keepdims=False, other=None, out=None, initial=None,
            where=None):
        """The largest of all; with `dim` (values, indices) along it; with a tensor `maximum`.

        axis: NumPy's, over one axis or several without indices. An error when there are no elements.
        """
        if initial is not None or where is not None:
            return _into(out, self._bounded("maximum", dim if axis is UNSET else axis, keepdim or keepdims, initial,
                                            where))
        return self._largest("max", dim, keepdim, axis, keepdims, other)

    def min(self, dim=None, keepdim=False, *, axis=UNSET, keepdims=False, other=None, out=None, initial=None,
            where=None):
        """The smallest; as `max`."""
        if initial is not None or where is not None:
            return _into(out, self._bounded("minimum", dim if axis is UNSET else axis, keepdim or keepdims, initial,
                                            where))
        return self._largest("min", dim, keepdim, axis, keepdims, other)

    def _bounded(self, op, axis, keepdims, initial, where):
        """NumPy's extreme of some elements and an initial value."""
        if initial is None:
            raise invalid(f"{op[:3]}: with where, initial is needed: it counts where no element does")
        return _among(self, where, initial)._reduce(op, axis, keepdims)._binary(op, initial)

    def _largest(self, name, dim, keepdim, axis, keepdims, other):
        other = dim if hasattr(dim, "session") else other
        if other is not None:
            return self._binary(name + "imum", other)
        if axis is not UNSET:
            return self._extreme(name + "imum", axis, keepdims)
        if dim is None or isinstance(dim, (tuple, list)):
            return self._extreme(name + "imum", dim, keepdim or keepdims)
        if not self.ndim:
            return getattr(return_types, name)(self.clone(), self.session.full((), 0, "int64"))
        dim = axis_of(dim, self.ndim, name)
        self._need_elements(name, dim)
        at = (self.argmax if name == "max" else self.argmin)(dim, True)
        values = self._along(at, dim)
        return getattr(return_types, name)(*_kept((values, at), dim, keepdim or keepdims))

    @torch_words
    def amax(self, axis=None, keepdims=False):
        """The largest over axes (an int or a tuple)."""
        return self._extreme("maximum", _some(axis), keepdims)

    @torch_words
    def amin(self, axis=None, keepdims=False):
        """The smallest over axes (an int or a tuple)."""
        return self._extreme("minimum", _some(axis), keepdims)

    @torch_words
    def aminmax(self, axis=None, keepdims=False):
        """(min, max) over an axis, or of all."""
        return return_types.aminmax(self.amin(axis, keepdims), self.amax(axis, keepdims))

    def _need_elements(self, what, axis):
        if any(self.shape[a] == 0 for a in self._axes(axis) if -self.ndim <= a < self.ndim):
            raise AxisError(f"{what} over no elements: {self._text()}")

    def _extreme(self, op, axis, keepdims):
        self._need_elements(op, axis)
        return self._reduce(op, axis, keepdims)

    @torch_words
    def all(self, axis=None, keepdims=False, out=None, *, where=None):
        """Whether all elements are true (not 0), over axes: bool, or uint8 where the elements are that, as in torch."""
        made = _among(self.astype("bool"), where, True)._reduce("multiply", axis, keepdims)
        return _into(out, made.astype("uint8") if self.dtype is DTYPES["uint8"] else made)

    @torch_words
    def any(self, axis=None, keepdims=False, out=None, *, where=None):
        """Whether an element is true (not 0), over axes: bool, or uint8 where the elements are that, as in torch."""
        made = _among(self.astype("bool"), where, False)._reduce("add", axis, keepdims)
        return _into(out, made.astype("uint8") if self.dtype is DTYPES["uint8"] else made)

    @torch_words
    def count_nonzero(self, axis=None, keepdims=False):
        """How many elements are not 0, over axes."""
        return (self != 0).sum(axis, keepdims)

    def var(self, dim=None, unbiased=None, keepdim=False, *, correction=None, axis=UNSET, keepdims=False,
            ddof=None, dtype=None, out=None, where=None):
        """Variances over axes, dividing by the count less `correction`: 1, or 0 with unbiased=False.

        With NumPy's words `axis` or `ddof` the correction is `ddof`, which is 0 then.
        """
        dim, keepdims, correction = _spread(dim, unbiased, keepdim or keepdims, correction, axis, ddof)
        if where is not None:
            x = self._floating() if dtype is None else self.astype(dtype)
            moved = x - x.mean(dim, True, where=where)
            count = (x._count(dim, keepdims, where) - correction).clamp(min=0)
            return _into(out, ((moved * moved).sum(dim, keepdims, where=where) / count).astype(x.dtype))
        return _into(out, self._var_mean(dim, correction, keepdims, dtype)[0])

    def std(self, dim=None, unbiased=None, keepdim=False, *, correction=None, axis=UNSET, keepdims=False,
            ddof=None, dtype=None, out=None, where=None):
        """Standard deviations over axes: roots of `var`."""
        return _into(out, _root(self.var(dim, unbiased, keepdim, correction=correction, axis=axis,
                                         keepdims=keepdims, ddof=ddof, dtype=dtype, where=where)))

    def var_mean(self, dim=None, unbiased=None, keepdim=False, *, correction=None):
        """(variance, mean) over axes."""
        dim, keepdim, correction = _spread(dim, unbiased, keepdim, correction)
        return self._var_mean(dim, correction, keepdim)

    def std_mean(self, dim=None, unbiased=None, keepdim=False, *, correction=None):
        """(standard deviation, mean) over axes."""
        var, mean = self.var_mean(dim, unbiased, keepdim, correction=correction)
        return _root(var), mean

    def _var_mean(self, axis, correction, keepdims, dtype=None):
        small = self._floating() if dtype is None else self.astype(dtype)
        x, axis = small._wide(), _some(axis)
        mean = x.mean(axis, True)
        moved = x - mean
        total = (moved * moved).sum(axis, keepdims)
        count = x.size // (total.size or 1)
        mean = mean if keepdims else mean.reshape(total.shape)
        return (total / float(max(0, count - correction))).astype(small.dtype), mean.astype(small.dtype)

    @torch_words
    def logsumexp(self, axis=None, keepdims=False):
        """The logarithm of the sum of e^x over axes; e^x itself may overflow."""
        small = self._floating()
        x = small._wide()
        if not x.size:
            return small.exp().sum(axis, keepdims).log()
        top = x.amax(axis, True)._detach()
        top = _shoal.select(top.isfinite(), top, top._coerce(0))
        total = ((x - top).exp().sum(axis, True).log() + top).astype(small.dtype)
        return total if keepdims else total.squeeze(self._axes(axis))

    @torch_words
    def norm(self, p=2, axis=None, keepdims=False, out=None, dtype=None):
        """The p-norm over axes (None: of all elements): (sum |x|^p)^(1/p); p may be infinite, 0
        or "fro", which is 2."""
        x = self._floating() if dtype is None else self.astype(dtype)
        return _into(out, x._wide()._norm(2 if p in (None, "fro") else p, axis, keepdims).astype(x.dtype))

    def _norm(self, p, axis, keepdims):
        if p == float("inf"):
            return abs(self).amax(axis, keepdims)
        if p == -float("inf"):
            return abs(self).amin(axis, keepdims)
        if p == 0:
            return (self != 0).sum(axis, keepdims).astype(self.dtype)
        if p == 1:
            return abs(self).sum(axis, keepdims)
        if p == 2:
            return _root((self * self).sum(axis, keepdims))
        some = self != 0 if p < 1 else None  # the slope of a small power is infinite at 0
        size = abs(self if some is None else self.where(some, 1.0)).pow(float(p))
        return _root((size if some is None else size.where(some, 0.0)).sum(axis, keepdims), p)

    def dist(self, other, p=2):
        """The p-norm of x - y."""
        return (self - other).norm(p)

    def renorm(self, p, dim, maxnorm):
        """Each part along an axis scaled so that its p-norm is at most maxnorm."""
        dim = axis_of(dim, self.ndim, "renorm")
        if not p > 0 or not maxnorm >= 0:
            raise invalid(f"renorm: p is {p}, maxnorm {maxnorm}: p must be above 0, maxnorm not negative")
        others = tuple(a for a in range(self.ndim) if a != dim)
        size = self.norm(p, others, True)
        return _shoal.select((size > maxnorm).broadcast_to(self.shape),
                             self * (maxnorm / (size + 1e-7)), self)

    @torch_words
    def argmax(self, axis=None, keepdims=False, out=None):
        """The index, int64, of the largest along an axis (None: of all); NaN is the largest."""
        return _into(out, self._arg("argmax", axis, keepdims))

    @torch_words
    def argmin(self, axis=None, keepdims=False, out=None):
        """The index, int64, of the smallest along an axis (None: of all); NaN is the smallest."""
        return _into(out, self._arg("argmin", axis, keepdims))

    def _arg(self, op, axis, keepdims):
        if axis is None or not self.ndim:
            found = self.ravel()._apply(op, dimension=0, dtype="int64")
            return found.reshape((1,) * self.ndim) if keepdims else found
        axis = axis_of(axis, self.ndim, op)
        found = self._apply(op, dimension=axis, dtype="int64")
        return found.unsqueeze(axis) if keepdims else found

    # ---- cumulative ----

    @torch_words
    def cumsum(self, axis=None, dtype=None, out=None):
        """Sums of all elements up to each, along an axis (None: of all in order); integers and bool as
        int64."""
        return _into(out, self._cumulated("add", axis, dtype))

    @torch_words
    def cumprod(self, axis=None, dtype=None, out=None):
        """Products of all elements up to each, along an axis (None: of all in order)."""
        return _into(out, self._cumulated("multiply", axis, dtype))

    def _cumulated(self, op, axis, dtype=None):
        if axis is None:
            return self.ravel()._cumulated(op, 0, dtype)
        x = self._countable(dtype)
        return _shoal.cumulate(x._wide(), op, axis).astype(x.dtype) if self.ndim else x.clone()

    @torch_words
    def cummax(self, axis):
        """(values, indices): the largest of all elements up to each along an axis, and the last place
        of it."""
        return self._extreme_so_far("cummax", "maximum", axis)

    @torch_words
    def cummin(self, axis):
        """(values, indices) of the smallest; as `cummax`."""
        return self._extreme_so_far("cummin", "minimum", axis)

    def _extreme_so_far(self, name, op, axis):
        if not self.ndim:
            return getattr(return_types, name)(self.clone(), self.session.full((), 0, "int64"))
        axis = axis_of(axis, self.ndim, name)
        x = self._detach()
        reached = _shoal.cumulate(x.astype("uint8") if x.dtype == "bool" else x, op, axis).astype(x.dtype)
        places = _shoal.apply(self.session, "iota", (), {
            "shape": self.shape, "iota_dimension": axis, "dtype": "int64"}, 1)[0]
        here = (x == reached) | (x != x)
        at = _shoal.cumulate(_shoal.select(here, places, places * 0), "maximum", axis)
        return getattr(return_types, name)(self._along(at, axis), at)

    @torch_words
    def logcumsumexp(self, axis):
        """The logarithm of the sums of e^x up to each, along an axis."""
        x = self._floating()
        if not x.size:
            return x
        top = x._detach().amax(axis, True)
        top = _shoal.select(top.isfinite(), top, top._coerce(0))
        return (x - top).exp().cumsum(axis).log() + top


def _among(x, where, neutral):
    """What counts: elements where the condition is not true become the neutral one."""
    return x if where is None or where is True else x.where(_condition(x, where), x._coerce(neutral).astype(x.dtype))


def _condition(x, where):
    return where if hasattr(where, "session") else x.session.tensor(where)


def _root(total, p=2):
    """The p-th root, whose gradient at 0 is no more than its operand's."""
    some = total != 0
    inner = _shoal.select(some, total, total._coerce(1))
    return _shoal.select(some, inner.sqrt() if p == 2 else inner.pow(1.0 / p), total)


def _some(axis):
    """torch: no axes are all of them."""
    return None if isinstance(axis, (tuple, list)) and not axis else axis


def _into(out, value):
    """The value; or `out`, which takes it."""
    return value if out is None else out._take(value)


def _kept(tensors, dim, keepdim):
    return tensors if keepdim else tuple(t.squeeze(dim) for t in tensors)


def _spread(dim, unbiased, keepdims, correction, axis=UNSET, ddof=None):
    """(axes, whether they are kept, correction) of what `var` is given."""
    if isinstance(dim, bool):  # torch: var(unbiased)
        dim, unbiased = None, dim
    numpy = axis is not UNSET or ddof is not None
    if correction is None:
        correction = ddof or 0 if numpy else 1 if unbiased is None else int(unbiased)
    return dim if axis is UNSET else axis, keepdims, correction
