"""Indexing: what `x[key]` and `x[key] = value` mean, and the operations that pick by indices.

A key is NumPy's: integers, slices, `...`, None, and integer or bool arrays, lists and tensors. Integers,
slices and None become one slice and a reshape; arrays of indices one gather, or one scatter. What is
known here (lists, arrays) is checked here: an index out of range is an error at the call. The values of a
tensor are not known: they are checked where they are computed, and an index out of range is an
OutOfRangeError, with the line of the program, where something that derives from it is read. A bool
tensor is read first, since the result's shape depends on it; but not in `x[mask] = value` where the
value is repeated over the places.
"""
from . import _shoal, views
from .errors import AxisError, OutOfRangeError
from .recording import current
from .words import axis_of, check_tensor, common_shape, dtype_name, invalid, torch_words


class Key:
    """A key taken apart, for a tensor x of a certain shape.

    start, limit, stride, flipped: one slice of every axis, first. items: what becomes of the axes
    of that slice, in order: ("axis", a) kept, ("drop", a) of length 1 and dropped, ("new",) a new
    axis, ("index", a, tensor) picked from by indices.
    """

    def __init__(self, x, key):
        self.x = x
        self.start, self.limit, self.stride = [], [], []
        self.items, self.flipped = [], []
        keys = _expanded(x, key if isinstance(key, tuple) else (key,))
        if any(kind == "array" for kind, _ in keys):
            # A number beside arrays is picked by them, as an array without axes.
            keys = [("array", _index_array(value)) if kind == "int" else (kind, value)
                    for kind, value in keys]
        for kind, value in keys:
            getattr(self, "_" + kind)(value)

    def _axis(self, start, limit, stride=1):
        self.start.append(start)
        self.limit.append(limit)
        self.stride.append(stride)
        return len(self.start) - 1

    def _new(self, _):
        self.items.append(("new",))

    def _int(self, value):
        at = _checked(self.x, len(self.start), value)
        self.items.append(("drop", self._axis(at, at + 1)))

    def _slice(self, value):
        axis = len(self.start)
        places = range(*value.indices(self.x.shape[axis]))
        if places.step < 0:
            places = places[::-1]
            self.flipped.append(axis)
        count = len(places)
        self._axis(places[0] if count else 0, places[-1] + 1 if count else 0, places.step)
        self.items.append(("axis", axis))

    def _array(self, value):
        axis = len(self.start)
        n = self.x.shape[axis]
        self._axis(0, n)
        self.items.append(("index", axis, _indices(self.x, axis, value)))

    @property
    def box(self):
        """The shape of the slice."""
        return tuple(len(range(*part)) for part in zip(self.start, self.limit, self.stride))

    @property
    def whole(self):
        """Whether the slice is everything."""
        return self.box == self.x.shape and not self.flipped

    def sliced(self):
        """The slice, with all its axes."""
        part = self.x
        if self.box != self.x.shape:
            part = _shoal.apply(self.x.session, "slice", (self.x,), {
                "start_indices": self.start, "limit_indices": self.limit, "strides": self.stride}, 1)[0]
        return part.flip(tuple(self.flipped)) if self.flipped else part

    # ---- arrays of indices ----

    @property
    def picks(self):
        """(axis, indices) of each axis that is picked from."""
        return [(item[1], item[2]) for item in self.items if item[0] == "index"]

    def points(self):
        """The indices as one tensor, a point along its last axis; and the shape without it."""
        tensors = [indices for _, indices in self.picks]
        shape = _common_shape([t.shape for t in tensors])
        columns = [t.broadcast_to(shape).unsqueeze(-1) for t in tensors]
        return (columns[0] if len(columns) == 1 else _shoal.apply(
            self.x.session, "concatenate", columns, {"dimension": len(shape)}, 1)[0]), shape

    def order(self):
        """How the result's axes stand: (items before the picked axes, items after them). As in torch, a number takes
        its axis away first: in `x[0, :, [1, 2]]` the picked axis stays the last one (NumPy: the first)."""
        items = [item for item in self.items if item[0] != "index" or item[2].ndim]
        at = [i for i, item in enumerate(items) if item[0] == "index"] or [0]
        rest = [item for item in items if item[0] != "index"]
        together = at == list(range(at[0], at[0] + len(at)))
        return (rest[:at[0]], rest[at[0]:]) if together else ([], rest)

    def shape(self):
        """The result's shape."""
        box = self.box

        def lengths(items):
            return tuple(1 if item[0] == "new" else box[item[1]] for item in items if item[0] != "drop")
        if not self.picks:
            return lengths(self.items)
        picked = _common_shape([t.shape for _, t in self.picks])
        before, after = self.order()
        return lengths(before) + picked + lengths(after)


def _expanded(x, keys):
    """(kind, value) of each part of a key, with the ellipsis and bool arrays written out."""
    parts, named, dots = [], 0, None
    for k in keys:
        if k is None:
            parts.append(("new", None))
        elif k is Ellipsis:
            if dots is not None:
                raise IndexError("an index can only have one ellipsis (...)")
            dots = len(parts)
        elif isinstance(k, slice):
            parts.append(("slice", k))
            named += 1
        elif isinstance(k, bool):
            raise TypeError("an index is a single bool; use where, or a bool tensor")
        elif hasattr(k, "__index__") and not hasattr(k, "shape"):
            parts.append(("int", k.__index__()))
            named += 1
        elif hasattr(k, "shape") or isinstance(k, (list, tuple, range)):
            arrays = _arrays(x, k, named)
            parts += [("array", array) for array in arrays]
            named += len(arrays)
        else:
            raise IndexError(f"an index of type {type(k).__name__}; known: int, slice, Ellipsis, None, and lists, arrays "
                             "and tensors of integers or bools")
    if named > x.ndim:
        raise IndexError(f"{named} indices for {x._text()}")
    dots = len(parts) if dots is None else dots
    return parts[:dots] + [("slice", slice(None))] * (x.ndim - named) + parts[dots:]


def _index_array(value):
    import numpy
    return numpy.asarray(value, "int64")


def _arrays(x, k, axis):
    """An array in a key as arrays of indices: one, or for bools one per axis of theirs."""
    import numpy
    if hasattr(k, "session"):
        if k.dtype != "bool":
            if not k.dtype.startswith(("int", "uint")):
                raise IndexError(f"an index of {dtype_name(k.dtype)}{list(k.shape)}; integers or bools pick "
                                 "elements")
            return [k]
        k = k.numpy()
    k = numpy.asarray(k)
    if not k.size and not isinstance(k.dtype.type(0), numpy.integer):
        k = k.astype("int64") if k.dtype != bool else k
    if k.dtype == bool:
        if k.shape != x.shape[axis:axis + k.ndim] or not k.ndim:
            raise IndexError(f"a mask of shape {list(k.shape)} does not fit axes {axis} and up of {x._text()}")
        return list(k.nonzero())
    if k.dtype.kind not in "iu":
        raise IndexError(f"an index of {dtype_name(k.dtype)}{list(k.shape)}; integers or bools pick elements")
    return [k.astype("int64")]


def _checked(x, axis, at):
    n = x.shape[axis]
    if not -n <= at < n:
        raise IndexError(f"index {at} is out of range for axis {axis} of {x._text()}")
    return at % n


def _indices(x, axis, value):
    """Indices along an axis as a tensor of numbers from 0 on."""
    n = x.shape[axis]
    if hasattr(value, "session"):
        return from_the_front(value, n)
    if value.size:
        _checked(x, axis, int(value.min()))
        _checked(x, axis, int(value.max()))
    return x.session.tensor(value % n if n else value)


def _known(indices):
    """The least and the largest of indices, if this process knows them and no replay will have others."""
    known = indices._known
    return known[1:] if known is not None and known[0] == indices._value and current() is None else None


def lacks(indices, number):
    """Whether it is known that a number is not among indices."""
    known = _known(indices)
    return known is not None and not known[0] <= number <= known[1]


def in_range(indices, start, limit, ignored=None, error=None):
    """The indices, of which each must lie from start to before the limit, or be `ignored`: an error here, if
    they are known here, else of what derives from them. error: what it says, where they stand for other things."""
    known = _known(indices)
    if known is not None:
        for index in known:
            if not start <= index < limit and index != ignored:
                raise OutOfRangeError(
                    error or f"index {index} is out of range: " +
                    (f"it must be from {start} to {limit - 1}" if limit > start else "there are no elements"))
        if ignored is None or start <= ignored < limit:
            return indices
    attrs = {} if ignored is None else {"ignore_index": ignored}
    if error is not None:
        attrs["name"] = error
    return _shoal.apply(indices.session, "in_range", (indices,), {
        "start_indices": (start,), "limit_indices": (limit,), **attrs}, 1)[0]


def required(x, fine, error):
    """x, if `fine`, a bool for each of its elements, is true for all; else `error`, of what derives from it."""
    outside = in_range(fine.logical_not().astype("uint8"), 0, 1, error=error)
    return x + outside.astype(x.dtype)


def readable(x, axes):
    """x, with one element along those of the axes that have none: a box of one lies in it. No index that is right
    reads that element."""
    if all(x.shape[axis] for axis in axes):
        return x
    return x.pad([0] * x.ndim, [int(axis in axes and not n) for axis, n in enumerate(x.shape)])


def from_the_front(indices, n):
    """Indices of which negative ones count from the end, as numbers from 0 on; checked."""
    if indices.dtype.startswith("uint"):
        return in_range(indices, 0, n)
    indices = in_range(indices.astype("int64") if n > 127 and indices.dtype in ("int8", "int16") else indices, -n, n)
    known = _known(indices)
    if known is not None and known[0] >= 0:
        return indices
    return _shoal.select(indices < 0, indices + n, indices)


def _common_shape(shapes):
    return common_shape(shapes, "the shapes of the indices", IndexError)


def _is_plain(key):
    """Whether a key has integers, slices, None and an ellipsis alone: what it names is a view."""
    for part in key if key.__class__ is tuple else (key,):
        if part.__class__ not in _PLAIN:
            if part.__class__ is bool or not hasattr(part, "__index__") or hasattr(part, "shape"):
                return False
    return True


def _is_one_bool(key):
    """Whether a key is a single bool, a mask without axes: it picks all, as the one part of a new first axis, or none."""
    return key.__class__ is bool or getattr(key, "ndim", None) == 0 and key.dtype == "bool"


_PLAIN = {int, slice, type(None), type(Ellipsis)}


# ---- reading ----

def box_of(shape, key):
    """(start, limit, stride, lengths) where a key has nothing but slices that go forward; else None."""
    parts = key if key.__class__ is tuple else (key,)
    if len(parts) > len(shape):
        return None
    start, limit, stride, lengths = [], [], [], []
    for n, part in zip(shape, parts):
        if part.__class__ is not slice:
            return None
        places = range(n)[part]
        step, count = places.step, len(places)
        if step < 0:
            return None
        start.append(places.start if count else 0)
        limit.append(places[-1] + 1 if count else 0)
        stride.append(step)
        lengths.append(count)
    rest = shape[len(parts):]
    return (start + [0] * len(rest), limit + list(rest), stride + [1] * len(rest), (*lengths, *rest))


def get(x, key):
    """x[key]"""
    shape = x.shape
    if key.__class__ is x.__class__ and shape and key.shape and key.dtype.startswith(("int", "uint")):
        return x._take_rows(_indices(x, 0, key), 0)
    if _is_one_bool(key):
        return get(x.reshape(1, *shape), slice(int(bool(key))))
    box = box_of(shape, key)
    if box is not None:
        start, limit, stride, lengths = box
        if lengths == shape:
            return _shoal.apply(x.session, "reshape", (x,), {"shape": shape}, 1)[0]
        return _shoal.apply(x.session, "slice", (x,), {
            "start_indices": start, "limit_indices": limit, "strides": stride}, 1)[0]
    key = Key(x, key)
    part = key.sliced()
    if key.picks:
        points, picked = key.points()
        axes = [axis for axis, _ in key.picks]
        part = readable(part, axes)
        before, after = key.order()
        kept = [item[1] for item in before + after if item[0] == "axis"]
        lead = sum(item[0] == "axis" for item in before)
        offset = list(range(lead)) + [i + len(picked) for i in range(lead, len(kept))]
        part = _shoal.apply(x.session, "gather", (part, points), {
            "offset_dims": offset, "collapsed_slice_dims": axes, "operand_batching_dims": (),
            "start_indices_batching_dims": (), "start_index_map": axes,
            "index_vector_dim": len(picked),
            "slice_sizes": [1 if a in axes else n for a, n in enumerate(part.shape)]}, 1)[0]
        if part.shape == key.shape():
            return part
    return _shoal.apply(x.session, "reshape", (part,), {"shape": key.shape()}, 1)[0]


# ---- writing ----

def put(x, key, value, op="set"):
    """x with what `x[key]` names replaced by a value that broadcasts to it; or joined with it."""
    if op == "set" and _is_mask(key):
        covered = _masked(x, key, value)
        if covered is not None:
            return covered
    if _is_one_bool(key):
        return put(x, Ellipsis, value, op) if key else x
    key = Key(x, key)
    shape, given = key.shape(), value
    value = x._coerce(given)
    if value is None:
        raise TypeError(f"assignment: a {type(given).__name__} cannot be assigned to {x._text()}; a tensor, a number "
                        "or a list of numbers can")
    if value.dtype != x.dtype:
        value = value.astype(x.dtype)
    if value.ndim > len(shape) and all(n == 1 for n in value.shape[:value.ndim - len(shape)]):
        value = value.reshape(value.shape[value.ndim - len(shape):])
    try:
        value = value.broadcast_to(shape)
    except ValueError as error:
        raise invalid(f"assignment: {value._text()} does not broadcast to "
                      f"{list(shape)}, which the index names of {x._text()}") from error
    if 0 in shape:
        return x
    part = key.sliced()
    if key.picks:
        points, picked = key.points()
        before, after = key.order()
        lead = sum(item[0] != "drop" for item in before)
        # The picked axes go to the front, the new ones are dropped.
        order = (*range(lead, lead + len(picked)), *range(lead),
                 *range(lead + len(picked), value.ndim))
        box = tuple(key.box[item[1]] for item in before + after if item[0] == "axis")
        updates = value.permute(*order).reshape(picked + box)
        part = _shoal.scatter_points(part, [a for a, _ in key.picks], points, updates, op)
    else:
        value = value.reshape(key.box)
        part = value if op == "set" else part._binary(op, value)
    if key.whole:
        return part
    return _with_box(x, key, part.flip(tuple(key.flipped)) if key.flipped else part)


def _is_mask(key):
    return getattr(key, "dtype", None) == "bool" and hasattr(key, "session")


def _masked(x, mask, value):
    """x with a value at a mask's places, if it is repeated over them, else None."""
    if mask.shape != x.shape[:mask.ndim]:
        raise IndexError(f"a mask of shape {list(mask.shape)} does not fit {x._text()}")
    value = x._coerce(value)
    rest = x.shape[mask.ndim:]
    if value.ndim > len(rest) or any(
            n not in (1, m) for n, m in zip(value.shape[::-1], rest[::-1])):
        return None
    mask = mask.reshape(mask.shape + (1,) * len(rest))
    return _shoal.select(mask, value.astype(x.dtype), x)


def _with_box(x, key, part):
    """x with the slice of a key replaced."""
    if all(s == 1 for s in key.stride):
        return x.dynamic_update_slice(part, key.start)
    # Broadcast to x's shape, under a mask that is broadcast alike.
    low = key.start
    inner = [s - 1 for s in key.stride]
    high = [n - (start + (count - 1) * stride + 1) for n, start, count, stride in
            zip(x.shape, key.start, key.box, key.stride)]
    mask = x.session.full(key.box, True, "bool").pad(low, high, False, inner)
    return _shoal.select(mask, part.pad(low, high, 0, inner), x)


# ---- methods ----

class Indexing:
    """What `Tensor` has from here."""

    __slots__ = ()

    def __getitem__(self, key):
        """NumPy's indexing: integers, slices, `...`, None, and lists, arrays and tensors of integers or
        bools. A slice may go backwards."""
        if not _is_plain(key):
            return get(self, key)
        return views.noted(self, get(self, key), "key", key)

    def __setitem__(self, key, value):
        """Replaces what the key names; this object stands for the new value then."""
        if _is_plain(key) and views.root_of(self) is not None:
            self._rebind(put(self, key, value))
        else:
            self._become(put(self, key, value), "x[...] = value")

    def _index(self, indices):
        return indices if hasattr(indices, "session") else self.session.tensor(indices, "int64")

    def _rows(self, indices, axis, what):
        """Indices along an axis that count from 0 on, as torch's functions take them."""
        n = self.shape[axis]
        if hasattr(indices, "session"):
            return in_range(indices, 0, n)
        import numpy
        known = numpy.asarray(indices, "int64")
        wrong = known[(known < 0) | (known >= n)]
        if wrong.size:
            raise IndexError(f"{what}: index {wrong[0]} is out of range for axis {axis} of {self._text()}")
        return self.session.tensor(known)

    @torch_words
    def take(self, indices, axis=None):
        """What lies at integer `indices` along an axis (None: of all elements in order).

        The indices' axes take the axis' place. Negative ones count from the end.
        """
        if axis is None:
            return self.ravel().take(indices, 0)
        axis = axis_of(axis, self.ndim, "take")
        if not hasattr(indices, "session"):
            return self._take_rows(_indices(self, axis, _index_array(indices)), axis)
        return self._take_rows(from_the_front(indices, self.shape[axis]), axis)

    def _take_rows(self, indices, axis):
        return _shoal.take(readable(self, [axis % self.ndim]), indices, axis)

    @torch_words
    def index_select(self, axis, index):
        """torch's order of arguments for `take`; the index is a vector of numbers from 0 on."""
        axis = axis_of(axis, self.ndim, "index_select")
        rows = self._rows(index, axis, "index_select")
        if rows.ndim > 1:
            raise AxisError(f"index_select: the index {rows._text()} is no vector")
        return self._take_rows(rows.ravel(), axis)

    @torch_words
    def take_along_dim(self, indices, axis=None):
        """torch's name of `take_along`."""
        return self.take_along(indices, axis)

    @torch_words(index="indices")
    def take_along(self, indices, axis=None):
        """What lies at integer `indices`, of the same rank, along an axis (NumPy's take_along_axis).

        The other axes of both broadcast. None: of all elements in order, at a vector of indices.
        """
        if axis is None:
            return self.ravel().take_along(self._index(indices).ravel(), 0)
        axis = axis_of(axis, self.ndim, "take_along")
        return self._along(from_the_front(self._index(indices), self.shape[axis]), axis)

    def _along(self, at, axis):
        """`take_along` at indices that are known to be right."""
        x, axis = self, axis % self.ndim
        if at.ndim != x.ndim:
            raise invalid(f"take_along: the indices are {at._text()}; they must have "
                          f"{x._text()}'s number of axes")
        common = _common_shape([s[:axis] + (1,) + s[axis + 1:] for s in (x.shape, at.shape)])
        x = x.broadcast_to(common[:axis] + x.shape[axis:axis + 1] + common[axis + 1:])
        at = at.broadcast_to(common[:axis] + at.shape[axis:axis + 1] + common[axis + 1:])
        if not x.size and not at.size:
            return x.reshape(at.shape).clone()  # there is no element that a box of one could be
        others = [a for a in range(x.ndim) if a != axis]
        return x._apply("gather", (at,), offset_dims=(),
                        collapsed_slice_dims=(axis,), operand_batching_dims=others,
                        start_indices_batching_dims=others, start_index_map=(axis,),
                        index_vector_dim=x.ndim, slice_sizes=(1,) * x.ndim)

    @torch_words
    def gather(self, axis, index, sparse_grad=False):
        """torch's gather: `take_along`, where the index may be shorter along the other axes."""
        if not self.ndim:
            return self.broadcast_to(index.shape).clone()
        axis = axis_of(axis, self.ndim, "gather")
        index = self._rows(index, axis, "gather")
        return self._covered(axis, index, "gather")._along(index, axis)

    def _covered(self, axis, index, what):
        """The part whose other axes are as long as those of an index."""
        if index.ndim != self.ndim or any(
                n > m for a, (n, m) in enumerate(zip(index.shape, self.shape)) if a != axis):
            raise invalid(f"{what}: an index of {index._text()} does not lie within "
                          f"{self._text()} beside axis {axis}")
        return self[tuple(slice(None) if a == axis else slice(n)
                          for a, n in enumerate(index.shape))]

    @torch_words(src="source", value="source")
    def scatter(self, axis, index, source, reduce=None):
        """A copy with `source` (a tensor or a number) put at `index` along an axis, as torch.

        reduce: None to replace (of equal indices the last one counts), "add", "multiply",
        "maximum" or "minimum" to join.
        """
        axis = axis_of(axis, self.ndim, "scatter")
        op = reduce or "set"
        if not self.ndim:
            return self.reshape(1).scatter(0, self._index(index).reshape(-1), self._coerce(source, "scatter").reshape(-1),
                                           reduce).reshape(())
        index = self._rows(index, axis, "scatter")
        if not hasattr(source, "session"):
            source = self._coerce(source, "scatter").astype(self.dtype)
        if source.dtype != self.dtype:
            raise invalid(f"scatter: a source of {source.dtype.name} for {self._text()}: convert one of them")
        if not source.ndim:
            source = source.broadcast_to(index.shape)
        if source.shape != index.shape:
            source = source._covered(-1, index, "scatter")
        part = self._covered(axis, index, "scatter")
        made = _shoal.scatter_along(part, index, source, axis, op)
        if made.shape == self.shape:
            return made
        return self.dynamic_update_slice(made, (0,) * self.ndim)

    @torch_words(src="source")
    def scatter_add(self, axis, index, source):
        """A copy with `source` added at `index` along an axis, as torch."""
        return self.scatter(axis, index, source, "add")

    @torch_words(src="source")
    def scatter_reduce(self, axis, index, source, reduce, include_self=True):
        """A copy with `source` combined with it at `index` along an axis: reduce "sum", "prod", "mean", "amax"
        or "amin"; include_self: with what is there."""
        axis, index = axis_of(axis, self.ndim, "scatter_reduce"), self._index(index)
        ops = {"sum": "add", "mean": "add", "prod": "multiply", "amax": "maximum", "amin": "minimum"}
        if reduce not in ops:
            raise invalid(f"scatter_reduce: reduce '{reduce}' is none of " + ", ".join(ops))
        ones = self.session.full(index.shape, 1, "int64")
        zeros = self.session.full(self.shape, 0, "int64")
        met = zeros.scatter_add(axis, index, ones)
        start = self
        if not include_self:
            from .dtypes import finfo, iinfo
            limits = finfo(self.dtype) if self.dtype.is_floating_point else iinfo(self.dtype)
            low, high = (-float("inf"), float("inf")) if self.dtype.is_floating_point else \
                (limits.min, limits.max)
            begin = {"sum": 0, "mean": 0, "prod": 1, "amax": low, "amin": high}[reduce]
            start = _shoal.select(met > 0, self._coerce(begin).astype(self.dtype), self)
        made = start.scatter(axis, index, source, ops[reduce])
        if reduce != "mean":
            return made
        count = (met + int(bool(include_self))).clamp(min=1)
        return made / count.astype(made.dtype) if made.dtype.is_floating_point else made // count

    @torch_words
    def index_reduce(self, axis, index, source, reduce, *, include_self=True):
        """A copy with rows of `source` combined with it at `index` along an axis; as `scatter_reduce`."""
        axis = axis_of(axis, self.ndim, "index_reduce")
        shape = [1] * self.ndim
        shape[axis] = -1
        at = self._rows(index, axis, "index_reduce").reshape(shape).broadcast_to(source.shape)
        return self.scatter_reduce(axis, at, source, reduce, include_self)

    @torch_words(indices="index")
    def index_put(self, index, values, axis=0, op="set", accumulate=False):
        """A copy with `values` where indices name: `index` a tuple of tensors, one per axis, as torch
        (accumulate: added), or a vector of rows along an axis.

        op: "set", "add", "multiply", "maximum", "minimum".
        """
        if axis is True or axis is False:
            accumulate, axis = axis, 0
        if accumulate:
            op = "add"
        if isinstance(index, (tuple, list)) and any(hasattr(i, "session") for i in index):
            return put(self, tuple(index), values, op)
        index = from_the_front(self._index(index), self.shape[axis_of(axis, self.ndim, "index_put")])
        return _shoal.scatter(self, index, self._coerce(values, "scatter"), axis, op)

    @torch_words
    def index_add(self, axis, index, source, alpha=1):
        """A copy with rows of `source`, times alpha, added at `index` along an axis, as torch."""
        axis = axis_of(axis, self.ndim, "index_add")
        return _shoal.scatter(self, self._rows(index, axis, "index_add"),
                              source if alpha == 1 else source * alpha, axis, "add")

    @torch_words
    def index_copy(self, axis, index, source):
        """A copy with rows of `source` put at `index` along an axis, as torch."""
        axis = axis_of(axis, self.ndim, "index_copy")
        if source.ndim and source.shape[:axis] + source.shape[axis + 1:] != self.shape[:axis] + self.shape[axis + 1:]:
            raise invalid(f"index_copy: the rows of {source._text()} along axis {axis} have not the shape of those of "
                          f"{self._text()}")
        return _shoal.scatter(self, self._rows(index, axis, "index_copy"), source, axis, "set")

    @torch_words
    def index_fill(self, axis, index, value):
        """A copy with rows at `index` along an axis filled with a number, as torch."""
        axis, index = axis_of(axis, self.ndim, "index_fill"), self._index(index)
        shape = self.shape[:axis] + index.shape + self.shape[axis + 1:]
        return _shoal.scatter(self, from_the_front(index, self.shape[axis]),
                              self._coerce(value, "index_fill").astype(self.dtype).broadcast_to(shape), axis, "set")

    def masked_fill(self, mask, value):
        """A copy with `value`, a number or a scalar, where the mask (bool, broadcast) is true."""
        return _shoal.select(self._coerce(mask, "masked_fill"), self._coerce(value, "masked_fill").astype(self.dtype), self)

    def masked_scatter(self, mask, source):
        """A copy with the elements of `source`, in order, where the mask (bool, broadcast) is true."""
        mask = mask.broadcast_to(self.shape)
        at = (mask.ravel().cumsum(0) - 1).clamp(min=0)
        at = in_range(at, 0, max(source.numel(), 1), error="masked_scatter: the mask has more true elements than the "
                      f"source, {source._text()}, has elements")
        return _shoal.select(mask, source.ravel()._take_rows(at, 0).reshape(self.shape).astype(self.dtype),
                             self)

    def put(self, index, source, accumulate=False):
        """A copy with `source` at places of all elements in order; accumulate: added there."""
        flat, index = self.ravel(), self._index(index).ravel()
        made = _shoal.scatter(flat, from_the_front(index, self.numel()), source.ravel().astype(self.dtype),
                              0, "add" if accumulate else "set")
        return made.reshape(self.shape)

    @torch_words
    def select_scatter(self, src, axis, index):
        """A copy with `src` at one index of an axis."""
        key = (slice(None),) * axis_of(axis, self.ndim, "select_scatter") + (index,)
        return put(self, key, src).clone()

    @torch_words
    def slice_scatter(self, src, axis=0, start=None, end=None, step=1):
        """A copy with `src` at a slice of an axis."""
        key = (slice(None),) * axis_of(axis, self.ndim, "slice_scatter") + (slice(start, end, step),)
        return put(self, key, src).clone()

    def diagonal_scatter(self, src, offset=0, dim1=0, dim2=1):
        """A copy with `src` on the diagonal of two axes."""
        made = self.clone()
        made.diagonal(offset, dim1, dim2).copy_(src)
        return made

    def masked_select(self, mask):
        """The elements where the mask (bool, broadcast) is true, in order; reads the mask."""
        check_tensor(mask, "masked_select", "the mask")
        shape = common_shape([self.shape, mask.shape], "masked_select: the shapes of tensor and mask")
        return self.broadcast_to(shape)[mask.broadcast_to(shape)]

    def where(self, condition, other):
        """This where the condition is true, else `other`; broadcast."""
        condition, other = self._coerce(condition, "where"), self._coerce(other, "where")
        a, b = self._alike(other)
        return _shoal.select(condition, a, b)

    def argwhere(self):
        """The indices of the elements that are not 0, one row each; reads the tensor."""
        return self.nonzero()

    def nonzero(self, *, as_tuple=False):
        """The indices of the elements that are not 0, one row each; reads the tensor. as_tuple: a vector
        per axis, as NumPy's."""
        import numpy
        if as_tuple:
            x = self if self.ndim else self.reshape(1)
            return tuple(self.session.tensor(at.astype("int64")) for at in numpy.nonzero(x.numpy()))
        return self.session.tensor(numpy.argwhere(self.numpy()).astype("int64"))

    def dynamic_slice(self, starts, sizes):
        """A box of `sizes` at `starts` (per axis a number or an integer scalar), moved inside."""
        return self._apply("dynamic_slice", self._starts(starts), slice_sizes=sizes)

    def dynamic_update_slice(self, update, starts):
        """A copy with `update`, of this element type, at `starts`; the box is moved inside."""
        return self._apply("dynamic_update_slice", (update, *self._starts(starts)))

    def _starts(self, starts):
        made = [s if hasattr(s, "session") else self.session.tensor(s) if hasattr(s, "shape")
                else self.session.tensor(int(s), "int64") for s in starts]
        alike = len({str(s.dtype) for s in made}) < 2  # as the operation takes them
        return tuple(s if alike or "int" not in str(s.dtype) else s.astype("int64") for s in made)
