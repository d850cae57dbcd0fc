"""The shapes of tensors: other ones for the same elements, parts, repetitions.

Where torch and NumPy differ, arguments are torch's; `axis` may be written `dim`. What is a view in torch
is one here: see `views`.
"""
import math

from . import _shoal, views
from .dtypes import DTYPES
from .errors import AxisError
from .indexing import get
from .views import noted, owned, window_keys
from .words import UNSET, axis_of, dtype_name, invalid, is_dtype, shape_of, torch_words


class Shapes:
    """What `Tensor` has from here."""

    __slots__ = ()

    def _text(self):
        return f"{self.dtype.name}{list(self.shape)}"

    def reshape(self, *shape, **keywords):
        """The same elements in another shape; one length may be -1."""
        shape = shape_of(shape or (keywords.pop("shape"),))
        if keywords.pop("copy", False):
            return self.clone().reshape(shape)
        if shape.count(-1) == 1:
            known = -math.prod(shape)
            if not known or self.numel() % known:
                raise invalid(f"reshape: {self._text()} does not fit {list(shape)}")
            shape = tuple(self.numel() // known if n == -1 else n for n in shape)
        made = _shoal.apply(self.session, "reshape", (self,), {"shape": shape}, 1)[0]
        if views.is_dense(self) or views.reshaped(self.shape, views.layout(self)[1], shape) is not None:
            noted(self, made, "shape", shape)
        return made

    def view(self, *shape, size=None, dtype=None):
        """The same elements in another shape, which shares them; an error where it cannot, as in most shapes of
        a transposed matrix: `reshape` then copies. Or, given an element type, the same bytes as that, the last
        axis as much longer or shorter."""
        shape = shape or ((dtype,) if size is None else (size,))
        if len(shape) != 1 or not is_dtype(shape[0]):
            made = self.reshape(*shape)
            if made._view is None:
                raise invalid(f"view: view size is not compatible with input tensor's size and stride: {self._text()} "
                              f"does not lie in memory so that {list(made.shape)} could share it; use .reshape(...)")
            return made
        kind = dtype_name(shape[0])
        return noted(self, self._bits(kind), "bits", (self.dtype.name, kind))

    def _bits(self, kind):
        mine, its = self.dtype.itemsize, DTYPES[kind].itemsize
        if its < mine:
            return self.bitcast(kind).flatten(-2)
        if its > mine:
            return self.unflatten(-1, (-1, its // mine)).bitcast(kind)
        return self.bitcast(kind)

    def stride(self, dim=None):
        """How many elements of its root lie between two neighbours along each axis, or along one."""
        found = views.layout(self)[1]
        return found if dim is None else found[axis_of(dim, self.ndim, "stride")]

    def storage_offset(self):
        """At which element of its root it begins."""
        return views.layout(self)[0]

    def is_contiguous(self, memory_format=None):
        """Whether it is whole rows of its root, one after another."""
        return views.is_dense(self)

    def contiguous(self, memory_format=None):
        """Itself; a copy of a view that is not contiguous."""
        return self if views.is_dense(self) else self.clone()

    @property
    def _base(self):
        return views.root_of(self)

    def reshape_as(self, other):
        """Reshaped to the other's shape."""
        return self.reshape(other.shape)

    view_as = reshape_as

    def flatten(self, start_dim=0, end_dim=-1):
        """The axes from start_dim to end_dim, both included, as one."""
        if not self.ndim:
            return self.reshape(1)
        first, last = (axis_of(a, self.ndim, "flatten") for a in (start_dim, end_dim))
        if first > last:
            raise invalid(f"flatten: start_dim {start_dim} lies after end_dim {end_dim}")
        return self.reshape(self.shape[:first] + (math.prod(self.shape[first:last + 1]),)
                            + self.shape[last + 1:])

    def ravel(self):
        """All elements along one axis."""
        return self.reshape(self.numel())

    @torch_words(sizes="shape", unflattened_size="shape")
    def unflatten(self, axis, shape):
        """One axis as several; one of their lengths may be -1."""
        axis, shape = axis_of(axis, self.ndim, "unflatten"), tuple(shape)
        if shape.count(-1) == 1:
            known = -math.prod(shape) or 1
            shape = tuple(self.shape[axis] // known if n == -1 else n for n in shape)
        if math.prod(shape) != self.shape[axis]:
            raise invalid(f"unflatten: axis {axis} of {self._text()} does not fit {list(shape)}")
        return self.reshape(self.shape[:axis] + shape + self.shape[axis + 1:])

    @property
    def T(self):
        """The axes in reverse order."""
        return self.permute(*reversed(range(self.ndim)))

    @property
    def mT(self):
        """The last two axes swapped."""
        if self.ndim < 2:
            raise invalid(f"mT: {self._text()} has no two axes to swap")
        return self.transpose(-2, -1)

    def t(self):
        """A matrix transposed; a vector or a scalar as it is."""
        if self.ndim > 2:
            raise invalid(f"t: {self._text()} has more than two axes; use mT or permute")
        return self.T

    @torch_words(dim0="a", dim1="b", axis0="a", axis1="b")
    def transpose(self, a=None, b=None):
        """Two axes swapped; without arguments, or with a tuple of all, as NumPy's."""
        if a is None:
            return self.T
        if b is None:
            if not isinstance(a, int):
                return self.permute(*a)
            raise invalid("transpose: takes two axes, or none; permute takes them all")
        if not self.ndim and {a, b} <= {0, -1}:
            return noted(self, self.clone(), "shape", ())
        a, b = (axis_of(i, self.ndim, f"transpose of {self._text()}") for i in (a, b))
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self.permute(*order)

    swapaxes = swapdims = transpose

    def adjoint(self):
        """`mT`."""
        return self.mT

    @property
    def H(self):
        """`T`."""
        return self.T

    @property
    def mH(self):
        """`mT`."""
        return self.mT

    def permute(self, *axes, dims=None):
        """The axes in the given order; negative ones count from the end."""
        axes = tuple(a + self.ndim if a < 0 else a for a in (shape_of(axes) if dims is None else dims))
        made = _shoal.apply(self.session, "transpose", (self,), {"permutation": axes}, 1)[0]
        return noted(self, made, "axes", axes)

    def movedim(self, source, destination):
        """Axes (numbers or sequences) moved to other places; the others keep their order."""
        source, destination = (
            [axis_of(a, self.ndim, "movedim") for a in ((s,) if isinstance(s, int) else s)]
            for s in (source, destination))
        if len(source) != len(destination) or len({*source}) != len({*destination}):
            raise invalid(f"movedim: {source} and {destination} do not go together")
        order = [a for a in range(self.ndim) if a not in source]
        for to, a in sorted(zip(destination, source)):
            order.insert(to, a)
        return self.permute(*order)

    moveaxis = movedim

    def squeeze(self, dim=None, *, axis=UNSET):
        """Without the axes of length 1, or without those of the given ones that are of length 1.

        axis: NumPy's; it is an error if one is not of length 1.
        """
        strict = axis is not UNSET
        axis = axis if strict else dim
        if axis is None:
            return self.reshape(tuple(n for n in self.shape if n != 1))
        axes = {axis_of(a, self.ndim, "squeeze") for a in self._axes(axis)}
        for a in axes if strict else ():
            if self.shape[a] != 1:
                raise invalid(f"squeeze: axis {a} of {self._text()} is not of length 1")
        return self.reshape(tuple(n for a, n in enumerate(self.shape) if a not in axes or n != 1))

    @torch_words
    def unsqueeze(self, axis):
        """With a new axis of length 1 before the given one."""
        axis = axis_of(axis, self.ndim + 1, f"unsqueeze of {self._text()}")
        return self.reshape(self.shape[:axis] + (1,) + self.shape[axis:])

    expand_dims = unsqueeze

    def broadcast_to(self, *shape, size=None):
        """Repeated to a shape by NumPy's rules."""
        shape = shape_of(shape) if size is None else tuple(size)
        return noted(self, _shoal.broadcast(self, shape), "expand", shape)

    def expand(self, *shape, size=None):
        """Repeated to a shape by NumPy's rules; -1 keeps a length."""
        shape = shape_of(shape) if size is None else tuple(size)
        new = len(shape) - self.ndim
        if new < 0 or -1 in shape[:new]:
            raise invalid(f"expand: {self._text()} does not expand to {list(shape)}")
        return self.broadcast_to(tuple(self.shape[i - new] if n == -1 else n
                                       for i, n in enumerate(shape)))

    def expand_as(self, other):
        """Broadcast to the other's shape."""
        return self.broadcast_to(other.shape)

    def repeat(self, *counts, repeats=None):
        """The whole tensor repeated along each axis (torch's repeat, NumPy's tile)."""
        counts = shape_of(counts) if repeats is None else tuple(repeats)
        if len(counts) < self.ndim:
            raise invalid(f"repeat: {len(counts)} counts for the {self.ndim} axes of "
                          f"{self._text()}")
        return self.tile(counts)

    @owned
    def tile(self, *counts, dims=None):
        """The whole tensor repeated along each axis; missing counts, at the front, are 1."""
        counts = shape_of(counts) if dims is None else tuple(dims)
        rank = max(len(counts), self.ndim)
        counts = (1,) * (rank - len(counts)) + counts
        shape = (1,) * (rank - self.ndim) + self.shape
        if any(c < 0 for c in counts):
            raise invalid(f"tile: the counts {list(counts)} must not be negative")
        out = self.reshape(shape)
        for axis, count in enumerate(counts):
            if count != 1:
                out = _repeat_axis(out, axis, count, whole=True)
        return out

    @owned
    @torch_words
    def repeat_interleave(self, repeats, axis=None):
        """Each element repeated along an axis (None: of all elements in order): `repeats` times, or as often as a vector
        says."""
        if axis is None:
            return self.ravel().repeat_interleave(repeats, 0)
        if hasattr(repeats, "tolist") or isinstance(repeats, (list, tuple)):
            counts = repeats.tolist() if hasattr(repeats, "tolist") else list(repeats)
            counts = counts if isinstance(counts, list) else [counts]
            if len(counts) > 1 or self.shape[axis_of(axis, self.ndim, "repeat_interleave")] == 1:
                at = [i for i, n in enumerate(counts) for _ in range(n)]
                return self.index_select(axis, self.session.tensor(at, "int64"))
            repeats = counts[0]
        return _repeat_axis(self, axis_of(axis, self.ndim, "repeat_interleave"), repeats,
                            whole=False)

    def flip(self, *axes, dims=None, axis=None):
        """The axes (numbers, a tuple, none: all) from their end to their beginning."""
        axes = shape_of(axes) if axes and axes != (None,) else axis if dims is None else dims
        axes = tuple(axis_of(a, self.ndim, "flip") for a in self._axes(axes))
        return self._apply("reverse", dimensions=axes)

    def fliplr(self):
        """The second axis from its end to its beginning."""
        return self.flip(1)

    def flipud(self):
        """The first axis from its end to its beginning."""
        return self.flip(0)

    def rot90(self, k=1, dims=(0, 1)):
        """Turned k times by a right angle, from the first towards the second axis."""
        if len(dims) != 2 or self.ndim < 2:
            raise invalid(f"rot90: axes {list(dims)} of {self._text()}; two are needed")
        a, b = (axis_of(d, self.ndim, "rot90") for d in dims)
        if a == b:
            raise invalid(f"rot90: axis {a} is named twice")
        turned = {0: self.clone, 1: lambda: self.flip(b).transpose(a, b), 2: lambda: self.flip(a, b),
                  3: lambda: self.flip(a).transpose(a, b)}
        return turned[k % 4]()

    @owned
    @torch_words(dims="axis")
    def roll(self, shifts, axis=None):
        """The elements moved on by `shifts` along axes; those past the end enter at the beginning."""
        if axis is None:
            return self.ravel().roll(shifts, 0).reshape(self.shape)
        out = self
        axes = (axis,) if isinstance(axis, int) else tuple(axis)
        shifts = (shifts,) * len(axes) if isinstance(shifts, int) else tuple(shifts)
        if len(axes) != len(shifts):
            raise invalid(f"roll: {len(shifts)} shifts for {len(axes)} axes")
        for shift, a in zip(shifts, axes):
            a = axis_of(a, self.ndim, "roll")
            n = out.shape[a]
            shift = shift % n if n else 0
            if shift:
                out = _cat([out.narrow(a, n - shift, shift), out.narrow(a, 0, n - shift)], a)
        return out

    # ---- parts ----

    @torch_words
    def narrow(self, axis, start, length):
        """`length` indices from `start` on along an axis."""
        axis = axis_of(axis, self.ndim, "narrow")
        begin = start + self.shape[axis] if start < 0 else start
        if not 0 <= begin <= begin + length <= self.shape[axis]:
            raise AxisError(f"narrow: {start} to {start + length} do not lie on axis {axis} of "
                          f"{self._text()}")
        return self[(slice(None),) * axis + (slice(begin, begin + length),)]

    @torch_words
    def select(self, axis, index):
        """What lies at one index of an axis, without that axis."""
        return self[(slice(None),) * axis_of(axis, self.ndim, "select") + (index,)]

    @torch_words(split_size="size", split_size_or_sections="size")
    def split(self, size, axis=0):
        """Parts of `size` along an axis, the last one perhaps shorter; or of the sizes in a list."""
        axis = axis_of(axis, self.ndim, "split")
        n = self.shape[axis]
        if isinstance(size, int):
            if size <= 0:
                raise invalid(f"split: parts of {size}; at least 1")
            size = [min(size, n - at) for at in range(0, n, size)] or [0]
        size = list(size)
        if any(length < 0 for length in size):
            raise invalid(f"split: the sizes {size}: none may be negative")
        if sum(size) != n:
            raise invalid(f"split: the sizes {list(size)} add up to {sum(size)}, not to {n}, axis "
                          f"{axis} of {self._text()}")
        parts, at = [], 0
        for length in size:
            key = (slice(None),) * axis + (slice(at, at + length),)
            parts.append(noted(self, get(self, key), "key", key, True))
            at += length
        return tuple(parts)

    @torch_words(split_sizes="size")
    def split_with_sizes(self, size, axis=0):
        """`split` into parts of given sizes."""
        return self.split(list(size), axis)

    def narrow_copy(self, dim, start, length):
        """`narrow`, as a copy."""
        return self.narrow(dim, start, length).clone()

    def sum_to_size(self, *size):
        """Added up over the axes that a tensor of that size would be broadcast along."""
        size = shape_of(size)
        lead = self.ndim - len(size)
        axes = tuple(range(lead)) + tuple(a + lead for a, n in enumerate(size)
                                          if n == 1 and self.shape[a + lead] != 1)
        return (self.sum(axes, True) if axes else self).reshape(size)

    def as_strided(self, size, stride, storage_offset=None):
        """The elements that strides name, counted in this tensor's own elements; a view."""
        place = tuple(size), tuple(stride), storage_offset or 0
        return noted(self, views.strided(self, *place), "strided", place)

    @torch_words
    def chunk(self, chunks, axis=0):
        """At most `chunks` parts of equal size along an axis, the last one perhaps shorter."""
        if chunks <= 0:
            raise invalid(f"chunk: {chunks} parts; at least 1")
        n = self.shape[axis_of(axis, self.ndim, "chunk")]
        return self.split(max(1, -(-n // chunks)), axis)

    @torch_words(indices_or_sections="parts")
    def tensor_split(self, parts, axis=0):
        """`parts` parts of nearly equal size along an axis, the first ones longer; or cut before each of a list of
        indices."""
        axis = axis_of(axis, self.ndim, "tensor_split")
        n = self.shape[axis]
        if hasattr(parts, "tolist"):
            parts = parts.tolist()
        if isinstance(parts, int):
            sizes = [n // parts + (i < n % parts) for i in range(parts)]
        else:
            cuts = [0, *(range(n)[:c].stop for c in parts), n]
            sizes = [max(0, b - a) for a, b in zip(cuts, cuts[1:])]
            keys = [(slice(None),) * axis + (slice(a, max(a, b)),) for a, b in zip(cuts, cuts[1:])]
            return tuple(noted(self, get(self, key), "key", key, True) for key in keys)
        return self.split(sizes, axis)

    def hsplit(self, parts):
        """`tensor_split` along the second axis; of a vector along the first."""
        return self.tensor_split(parts, 0 if self.ndim == 1 else 1)

    def vsplit(self, parts):
        """`tensor_split` along the first axis."""
        return self.tensor_split(parts, 0)

    def dsplit(self, parts):
        """`tensor_split` along the third axis."""
        return self.tensor_split(parts, 2)

    @torch_words
    def unbind(self, axis=0):
        """The parts of length 1 along an axis, without that axis."""
        keys = [(slice(None),) * axis_of(axis, self.ndim, "unbind") + (i,) for i in
                range(self.shape[axis])]
        return tuple(noted(self, get(self, key), "key", key, True) for key in keys)

    @torch_words(dimension="axis")
    def unfold(self, axis, size, step):
        """Windows of `size` every `step` along an axis; their elements form a new last axis."""
        axis = axis_of(axis, self.ndim, "unfold")
        n = self.shape[axis]
        if not 0 < size <= n or step <= 0:
            raise invalid(f"unfold: windows of {size} every {step} do not lie on axis {axis} of "
                          f"{self._text()}")
        return noted(self, self._windows(axis, size, step), "windows", (axis, size, step))

    def _windows(self, axis, size, step):
        parts = [get(self, key).unsqueeze(-1) for key in window_keys(self, axis, size, step)]
        return _cat(parts, self.ndim)

    unsafe_split, unsafe_chunk, unsafe_split_with_sizes = split, chunk, split_with_sizes

    # ---- diagonals and triangles ----

    @torch_words(dim1="axis1", dim2="axis2")
    def diagonal(self, offset=0, axis1=0, axis2=1):
        """The diagonal of two axes, as a new last axis; offset: how far to the right of the main one."""
        axis1, axis2 = (axis_of(a, self.ndim, "diagonal") for a in (axis1, axis2))
        if axis1 == axis2:
            raise invalid(f"diagonal: axis {axis1} is named twice")
        x = self.movedim((axis1, axis2), (-2, -1))
        n, m = x.shape[-2:]
        start = offset if offset >= 0 else -offset * m
        count = max(0, min(n, m - offset) if offset >= 0 else min(n + offset, m))
        stop = start + (count - 1) * (m + 1) + 1 if count else start
        # The diagonal's elements lie m + 1 apart on the line of all.
        rows = x.shape[:-2]
        line = _shoal.apply(self.session, "reshape", (x,), {"shape": (*rows, n * m)}, 1)[0]
        noted(x, line, "shape", (*rows, n * m))
        return line[..., start:stop:m + 1]

    def diag(self, diagonal=0):
        """The diagonal of a matrix; of a vector, the matrix that has it as its diagonal."""
        if self.ndim == 2:
            return self.diagonal(diagonal).clone()
        if self.ndim != 1:
            raise invalid(f"diag: {self._text()} is neither a vector nor a matrix")
        n = self.shape[0] + abs(diagonal)
        # On a line of n * n elements the diagonal's lie n + 1 apart.
        first = diagonal if diagonal >= 0 else -diagonal * n
        if not self.shape[0]:
            return self.session.full((n, n), 0, self.dtype)
        used = first + (self.shape[0] - 1) * (n + 1) + 1
        line = self.pad((first,), (n * n - used,), 0, (n,))
        return line.reshape(n, n)

    def trace(self):
        """The sum of a matrix's diagonal."""
        if self.ndim != 2:
            raise invalid(f"trace: {self._text()} is no matrix")
        return self.diagonal().sum()

    def tril(self, diagonal=0):
        """The last two axes' lower triangle, up to a diagonal; zeros above."""
        return self._triangle(diagonal, True)

    def triu(self, diagonal=0):
        """The last two axes' upper triangle, from a diagonal on; zeros below."""
        return self._triangle(diagonal, False)

    def _triangle(self, diagonal, lower):
        if self.ndim < 2:
            raise invalid(f"{'tril' if lower else 'triu'}: {self._text()} has no two axes")
        shape = self.shape[-2:]
        row, column = (_shoal.apply(self.session, "iota", (), {
            "shape": shape, "iota_dimension": a, "dtype": "int64"}, 1)[0] for a in (0, 1))
        distance = column - row
        keep = distance <= diagonal if lower else distance >= diagonal
        return _shoal.select(keep, self, self._coerce(0).astype(self.dtype))


def _cat(tensors, axis):
    return _shoal.apply(tensors[0].session, "concatenate", tensors, {"dimension": axis}, 1)[0]


def _repeat_axis(x, axis, count, whole):
    """An axis repeated: as a whole, or each element of it."""
    new = axis if whole else axis + 1
    shape = x.shape[:new] + (count,) + x.shape[new:]
    wide = x.reshape(x.shape[:new] + (1,) + x.shape[new:]).broadcast_to(shape)
    return wide.reshape(x.shape[:axis] + (x.shape[axis] * count,) + x.shape[axis + 1:])
