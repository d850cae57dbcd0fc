"""The shapes of tensors: other ones for the same elements, parts, repetitions.

Where torch and NumPy differ, arguments are torch's; `axis` may be written `dim`. Nothing is copied
on the caller's side, and nothing is a view: a tensor's value never changes.
"""
import math

from . import _shoal
from .words import axis_of, invalid, shape_of, torch_words


class Shapes:
    """What `Tensor` has from here."""

    __slots__ = ()

    def _text(self):
        return f"{self.dtype}{list(self.shape)}"

    def reshape(self, *shape):
        """The same elements in another shape; one length may be -1."""
        shape = shape_of(shape)
        if shape.count(-1) == 1:
            known = -math.prod(shape)
            if not known or self.size % known:
                raise invalid(f"reshape: {self._text()} does not fit {list(shape)}")
            shape = tuple(self.size // known if n == -1 else n for n in shape)
        return _shoal.apply(self.session, "reshape", (self,), {"shape": shape}, 1)[0]

    def view(self, *shape):
        """`reshape`; or, given an element type, `bitcast`."""
        if len(shape) == 1 and isinstance(shape[0], (str, type)):
            return self.bitcast(shape[0])
        return self.reshape(*shape)

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
        return self.reshape(self.size)

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

    def transpose(self, a=None, b=None):
        """Two axes swapped; without arguments, all reversed."""
        if a is None:
            return self.T
        if b is None:
            raise invalid("transpose: takes two axes, or none; permute takes them all")
        a, b = (axis_of(i, self.ndim, f"transpose of {self._text()}") for i in (a, b))
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self.permute(*order)

    swapaxes = transpose

    def permute(self, *axes):
        """The axes in the given order; negative ones count from the end."""
        axes = tuple(a + self.ndim if a < 0 else a for a in shape_of(axes))
        return _shoal.apply(self.session, "transpose", (self,), {"permutation": axes}, 1)[0]

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

    @torch_words
    def squeeze(self, axis=None):
        """Without the axes of length 1, or without the given ones, which must be of length 1."""
        if axis is None:
            return self.reshape(tuple(n for n in self.shape if n != 1))
        axes = {axis_of(a, self.ndim, "squeeze")
                for a in ((axis,) if isinstance(axis, int) else axis)}
        for a in axes:
            if self.shape[a] != 1:
                raise invalid(f"squeeze: axis {a} of {self._text()} is not of length 1")
        return self.reshape(tuple(n for a, n in enumerate(self.shape) if a not in axes))

    @torch_words
    def unsqueeze(self, axis):
        """With a new axis of length 1 before the given one."""
        axis = axis_of(axis, self.ndim + 1, f"unsqueeze of {self._text()}")
        return self.reshape(self.shape[:axis] + (1,) + self.shape[axis:])

    expand_dims = unsqueeze

    def broadcast_to(self, *shape):
        """Repeated to a shape by NumPy's rules."""
        return _shoal.broadcast(self, shape_of(shape))

    def expand(self, *shape):
        """Repeated to a shape by NumPy's rules; -1 keeps a length."""
        shape = shape_of(shape)
        new = len(shape) - self.ndim
        if new < 0 or -1 in shape[:new]:
            raise invalid(f"expand: {self._text()} does not expand to {list(shape)}")
        return self.broadcast_to(tuple(self.shape[i - new] if n == -1 else n
                                       for i, n in enumerate(shape)))

    def expand_as(self, other):
        """Broadcast to the other's shape."""
        return self.broadcast_to(other.shape)

    def repeat(self, *counts):
        """The whole tensor repeated along each axis (torch's repeat, NumPy's tile)."""
        counts = shape_of(counts)
        if len(counts) < self.ndim:
            raise invalid(f"repeat: {len(counts)} counts for the {self.ndim} axes of "
                          f"{self._text()}")
        return self.tile(counts)

    def tile(self, *counts):
        """The whole tensor repeated along each axis; missing counts, at the front, are 1."""
        counts = shape_of(counts)
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

    @torch_words
    def repeat_interleave(self, repeats, axis=None):
        """Each element repeated so many times along an axis (None: of all elements in order)."""
        if axis is None:
            return self.ravel().repeat_interleave(repeats, 0)
        return _repeat_axis(self, axis_of(axis, self.ndim, "repeat_interleave"), repeats,
                            whole=False)

    @torch_words
    def flip(self, axis=None):
        """The axes (an int, a tuple, None: all) from their end to their beginning."""
        axes = tuple(axis_of(a, self.ndim, "flip") for a in self._axes(axis))
        return self._apply("reverse", dimensions=axes)

    @torch_words
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
            raise invalid(f"narrow: {start} to {start + length} do not lie on axis {axis} of "
                          f"{self._text()}")
        return self[(slice(None),) * axis + (slice(begin, begin + length),)]

    @torch_words
    def select(self, axis, index):
        """What lies at one index of an axis, without that axis."""
        return self[(slice(None),) * axis_of(axis, self.ndim, "select") + (index,)]

    @torch_words
    def split(self, size, axis=0):
        """Parts of `size` along an axis, the last one perhaps shorter; or of the sizes in a list."""
        axis = axis_of(axis, self.ndim, "split")
        n = self.shape[axis]
        if isinstance(size, int):
            if size <= 0:
                raise invalid(f"split: parts of {size}; at least 1")
            size = [min(size, n - at) for at in range(0, n, size)] or [0]
        if sum(size) != n:
            raise invalid(f"split: the sizes {list(size)} add up to {sum(size)}, not to {n}, axis "
                          f"{axis} of {self._text()}")
        parts, at = [], 0
        for length in size:
            parts.append(self.narrow(axis, at, length))
            at += length
        return tuple(parts)

    @torch_words
    def chunk(self, chunks, axis=0):
        """At most so many parts of equal size along an axis, the last one perhaps shorter."""
        if chunks <= 0:
            raise invalid(f"chunk: {chunks} parts; at least 1")
        n = self.shape[axis_of(axis, self.ndim, "chunk")]
        return self.split(max(1, -(-n // chunks)), axis)

    @torch_words
    def unbind(self, axis=0):
        """The parts of length 1 along an axis, without that axis."""
        axis = axis_of(axis, self.ndim, "unbind")
        return tuple(self.select(axis, i) for i in range(self.shape[axis]))

    def unfold(self, axis, size, step):
        """Windows of `size` every `step` along an axis; their elements form a new last axis."""
        axis = axis_of(axis, self.ndim, "unfold")
        n = self.shape[axis]
        if not 0 < size <= n or step <= 0:
            raise invalid(f"unfold: windows of {size} every {step} do not lie on axis {axis} of "
                          f"{self._text()}")
        count = (n - size) // step + 1
        lead = (slice(None),) * axis
        parts = [self[lead + (slice(i, i + (count - 1) * step + 1, step),)].unsqueeze(-1)
                 for i in range(size)]
        return _cat(parts, self.ndim)

    # ---- diagonals and triangles ----

    def diagonal(self, offset=0, axis1=0, axis2=1):
        """The diagonal of two axes, as a new last axis; offset: so many to the right."""
        axis1, axis2 = (axis_of(a, self.ndim, "diagonal") for a in (axis1, axis2))
        if axis1 == axis2:
            raise invalid(f"diagonal: axis {axis1} is named twice")
        x = self.movedim((axis1, axis2), (-2, -1))
        n, m = x.shape[-2:]
        start = offset if offset >= 0 else -offset * m
        count = max(0, min(n, m - offset) if offset >= 0 else min(n + offset, m))
        stop = start + (count - 1) * (m + 1) + 1 if count else start
        return x.reshape(*x.shape[:-2], n * m)[..., start:stop:m + 1]

    def diag(self, diagonal=0):
        """The diagonal of a matrix; of a vector, the matrix that has it as its diagonal."""
        if self.ndim == 2:
            return self.diagonal(diagonal)
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
        """The sum of a matrix' diagonal."""
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
