"""Tensors: handles to values in a pool, with NumPy's operators and torch's defaults.

An operation checks shapes and element types at once and records itself; work starts when a value is
read (`numpy`, `tolist`, `item`, printing), or at `shoal.sync`.
"""
import math
import re
import struct

from . import _shoal
from .methods import Operations

_, _, (_UNARY, _BINARY) = _shoal.names()
_UNARY = {name: number for number, name in enumerate(_UNARY)}
_BINARY = {name: number for number, name in enumerate(_BINARY)}

# Element types: code of `struct`, and what a Python number must be to become one.
_FORMATS = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B",
    "uint16": "H", "uint32": "I", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d",
}


def dtype_name(dtype):
    """The name of an element type given as a name, a NumPy dtype or a Python type."""
    if isinstance(dtype, str):
        return dtype
    plain = {float: "float32", int: "int64", bool: "bool"}.get(dtype)
    if plain:
        return plain
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    return name or str(dtype)


def _pack(flat, dtype):
    if dtype == "bfloat16":
        words = struct.unpack(f"={len(flat)}I", struct.pack(f"={len(flat)}f", *flat))
        rounded = [(w + 0x7FFF + (w >> 16 & 1)) >> 16 if w & 0x7FFFFFFF <= 0x7F800000
                   else w >> 16 | 0x40 for w in words]
        return struct.pack(f"={len(flat)}H", *rounded)
    code = _FORMATS.get(dtype)
    if code is None:
        raise _shoal_error("INVALID", f"unknown element type '{dtype}'; known: bfloat16, "
                           + ", ".join(_FORMATS))
    try:
        return struct.pack(f"={len(flat)}{code}", *flat)
    except (struct.error, OverflowError) as error:
        raise _shoal_error("INVALID", f"a value does not fit {dtype}: {error}") from None


def _shoal_error(status, text):
    from .errors import CLASSES
    return CLASSES[status](text)


def _flatten(data):
    """Shape and elements of nested lists of numbers."""
    shape = []
    level = data
    while isinstance(level, (list, tuple)):
        shape.append(len(level))
        if not level:
            break
        level = level[0]
    flat = []

    def walk(item, depth):
        if depth == len(shape):
            if isinstance(item, (list, tuple)):
                raise _shoal_error("INVALID", f"nested lists are ragged at depth {depth}")
            flat.append(item)
            return
        if not isinstance(item, (list, tuple)) or len(item) != shape[depth]:
            raise _shoal_error("INVALID", f"nested lists are ragged at depth {depth}: "
                               f"{shape[depth]} items were expected")
        for inner in item:
            walk(inner, depth + 1)

    walk(data, 0)
    return tuple(shape), flat


def from_data(session, data, dtype=None, borrow=False):
    """A tensor in `session` from an array, another buffer, nested lists or a number."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.astype(dtype)
    if isinstance(data, range):
        data = list(data)
    if isinstance(data, (bool, int, float, list, tuple)):
        shape, flat = _flatten(data)
        if dtype is None:
            if flat and all(isinstance(x, bool) for x in flat):
                dtype = "bool"
            elif flat and all(isinstance(x, int) for x in flat):
                dtype = "int64"
            else:
                dtype = "float32"
        dtype = dtype_name(dtype)
        if dtype.startswith(("int", "uint")):
            wrong = [x for x in flat if not isinstance(x, int)]
            if wrong:
                raise _shoal_error("INVALID", f"{wrong[0]!r} is not an integer, for {dtype}")
        return session._from_bytes(_pack(flat, dtype), dtype, shape)
    if not _has_buffer(data) and hasattr(data, "__array__"):
        data = data.__array__()
    tensor = session._from_buffer(data, borrow)
    return tensor if dtype is None else tensor.astype(dtype)


def _has_buffer(data):
    try:
        memoryview(data).release()
        return True
    except (TypeError, BufferError):
        return False


class Tensor(Operations, _shoal.Tensor):
    """A value in a pool. Made by `shoal.tensor` and by operations, never directly."""

    __slots__ = ()
    __array_ufunc__ = None  # an ndarray on the left leaves operators to us

    # ---- what it is ----

    @property
    def ndim(self):
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self):
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self):
        """Bytes of one element."""
        return 2 if self.dtype == "bfloat16" else struct.calcsize("=" + _FORMATS[self.dtype])

    @property
    def nbytes(self):
        """Bytes of all elements."""
        return self.size * self.itemsize

    def __len__(self):
        if not self.shape:
            raise TypeError("a tensor without axes has no length")
        return self.shape[0]

    def __hash__(self):
        return id(self)

    def __repr__(self):
        shape = ", ".join(map(str, self.shape))
        if self.size <= 1000:
            values = repr(self.numpy())
            inside = values[values.index("(") + 1:values.rindex(")")]
            inside = re.split(r",\s+(dtype|shape)=", inside)[0]
            return f"tensor({inside}, dtype={self.dtype})"
        return f"<tensor {self.dtype}[{shape}]>"

    # ---- its elements ----

    def numpy(self, out=None):
        """The elements as a NumPy array (float32 for bfloat16); `out`: an array to write to."""
        import numpy
        source = self.astype("float32") if self.dtype == "bfloat16" else self
        if out is None:
            out = numpy.empty(source.shape, source.dtype)
        elif out.shape != source.shape or out.dtype != source.dtype:
            raise _shoal_error("INVALID", f"out is {out.dtype}{list(out.shape)}; "
                               f"{source.dtype}{list(source.shape)} is needed")
        source._read(out)
        return out

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A DLPack capsule of a copy of the elements in this process's memory.

        Raises BufferError for another device than the CPU, for copy=False, and for bfloat16, which
        NumPy has not.
        """
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"a tensor is exported to the CPU, (1, 0), not to {dl_device}")
        if copy is False:
            raise BufferError("a tensor lies in a pool: it can only be exported as a copy")
        if self.dtype == "bfloat16":
            raise BufferError("bfloat16 cannot be exported; astype('float32') can")
        keywords = {} if max_version is None else {"max_version": max_version}
        return self.numpy().__dlpack__(**keywords)

    def __dlpack_device__(self):
        """(1, 0): the CPU."""
        return (1, 0)

    def _flat(self):
        source = self.astype("float32") if self.dtype == "bfloat16" else self
        data = bytearray(source.nbytes)
        source._read(data)
        return struct.unpack(f"={source.size}{_FORMATS[source.dtype]}", data)

    def tolist(self):
        """The elements as nested lists; a number when there are no axes."""
        flat = self._flat()

        def nest(shape, offset, stride):
            if not shape:
                return flat[offset]
            stride //= shape[0] or 1
            return [nest(shape[1:], offset + i * stride, stride) for i in range(shape[0])]

        return nest(self.shape, 0, self.size)

    def item(self):
        """The only element as a Python number. ValueError when there is not just one."""
        if self.size != 1:
            raise _shoal_error("INVALID", f"item: {self.dtype}{list(self.shape)} has {self.size} "
                               "elements, not one")
        return self._flat()[0]

    def __bool__(self):
        return bool(self.item())

    def __int__(self):
        return int(self.item())

    def __float__(self):
        return float(self.item())

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    # ---- arithmetic ----

    def _coerce(self, other):
        """`other` as a tensor of this one's session; a Python number takes this element type."""
        if isinstance(other, Tensor):
            return other
        if isinstance(other, (bool, int, float)):
            if isinstance(other, float) and not self.dtype.startswith(("float", "bfloat")):
                raise _shoal_error("INVALID", f"{other!r} with {self.dtype}: convert the tensor "
                                   "with astype('float32') first")
            value = other if self.dtype.startswith(("float", "bfloat")) else int(other)
            # An input, not a constant: a step that is repeated with another number is the same.
            return self.session._from_bytes(_pack([value], self.dtype), self.dtype, ())
        if isinstance(other, (list, tuple)) or hasattr(other, "__array__") or _has_buffer(other):
            return from_data(self.session, other,
                             self.dtype if isinstance(other, (list, tuple)) else None)
        return None

    def _binary(self, name, other, reflected=False):
        other = self._coerce(other)
        if other is None:
            return NotImplemented
        a, b = (other, self) if reflected else (self, other)
        return _shoal.binary(_BINARY[name], a, b)

    def __add__(self, other):
        return self._binary("add", other)

    def __radd__(self, other):
        return self._binary("add", other, True)

    def __sub__(self, other):
        return self._binary("subtract", other)

    def __rsub__(self, other):
        return self._binary("subtract", other, True)

    def __mul__(self, other):
        return self._binary("multiply", other)

    def __rmul__(self, other):
        return self._binary("multiply", other, True)

    def __truediv__(self, other):
        return self._floating()._binary("divide", other)

    def __rtruediv__(self, other):
        return self._floating()._binary("divide", other, True)

    def __pow__(self, other):
        return self._binary("power", other)

    def __rpow__(self, other):
        return self._binary("power", other, True)

    def __matmul__(self, other):
        return self._binary("matmul", other)

    def __rmatmul__(self, other):
        return self._binary("matmul", other, True)

    def __neg__(self):
        return _shoal.unary(_UNARY["negate"], self)

    def __pos__(self):
        return self

    def __abs__(self):
        return _shoal.unary(_UNARY["abs"], self)

    def _floating(self):
        return self if self.dtype.startswith(("float", "bfloat")) else self.astype("float32")

    def _compare(self, direction, other):
        other = self._coerce(other)
        return NotImplemented if other is None else _shoal.compare(self, other, direction)

    def __eq__(self, other):
        return self._compare("EQ", other)

    def __ne__(self, other):
        return self._compare("NE", other)

    def __lt__(self, other):
        return self._compare("LT", other)

    def __le__(self, other):
        return self._compare("LE", other)

    def __gt__(self, other):
        return self._compare("GT", other)

    def __ge__(self, other):
        return self._compare("GE", other)

    def abs(self):
        """The absolute value of each element; signed and floating types."""
        return abs(self)

    def relu(self):
        """The larger of each element and 0."""
        return self.maximum(0)

    def matmul(self, other):
        """NumPy's matmul: the last axis of this against the last but one of `other`."""
        return self @ other

    def astype(self, dtype):
        """The elements as another type; itself when it is of that type."""
        dtype = dtype_name(dtype)
        if dtype == self.dtype:
            return self
        return _shoal.apply(self.session, "convert", (self,), {"dtype": dtype}, 1)[0]

    # ---- reductions ----

    def _axes(self, axis):
        if axis is None:
            return tuple(range(self.ndim))
        return (axis,) if isinstance(axis, int) else tuple(axis)

    def _reduce(self, op, axis, keepdims):
        axes = self._axes(axis)
        if not axes:
            return self  # an empty tuple reduces nothing
        return _shoal.reduce(self, op, axes, keepdims)

    def sum(self, axis=None, keepdims=False):
        """Sums over axes (None: all; an int or a tuple). bool counts, as int64."""
        source = self.astype("int64") if self.dtype == "bool" else self
        return source._reduce("add", axis, keepdims)

    def prod(self, axis=None, keepdims=False):
        """Products over axes."""
        return self._reduce("multiply", axis, keepdims)

    def max(self, axis=None, keepdims=False):
        """The largest over axes; an error when there are no elements."""
        return self._extreme("maximum", axis, keepdims)

    def min(self, axis=None, keepdims=False):
        """The smallest over axes; an error when there are no elements."""
        return self._extreme("minimum", axis, keepdims)

    def _extreme(self, op, axis, keepdims):
        if any(self.shape[a] == 0 for a in self._axes(axis) if -self.ndim <= a < self.ndim):
            raise _shoal_error("INVALID", f"{op} over no elements: {self.dtype}{list(self.shape)}")
        return self._reduce(op, axis, keepdims)

    def mean(self, axis=None, keepdims=False):
        """Means over axes; floating types, others as float32."""
        source = self._floating()
        total = source._reduce("add", axis, keepdims)
        count = source.size // (total.size or 1) if total.size else 1
        return total / float(count) if count else total / total

    # ---- shapes ----

    def reshape(self, *shape):
        """The same elements in another shape; one length may be -1."""
        shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        if shape.count(-1) == 1:
            known = -math.prod(shape)
            if not known or self.size % known:
                raise _shoal_error("INVALID", f"reshape: {self.dtype}{list(self.shape)} does not "
                                   f"fit {list(shape)}")
            shape = tuple(self.size // known if n == -1 else n for n in shape)
        return _shoal.apply(self.session, "reshape", (self,), {"shape": shape}, 1)[0]

    view = reshape

    def flatten(self):
        """All elements along one axis."""
        return self.reshape(self.size)

    @property
    def T(self):
        """The axes in reverse order."""
        return self.permute(*reversed(range(self.ndim)))

    def transpose(self, a=None, b=None):
        """Two axes swapped; without arguments, all reversed."""
        if a is None:
            return self.T
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self.permute(*order)

    def permute(self, *axes):
        """The axes in the given order; negative ones count from the end."""
        axes = tuple(axes[0]) if len(axes) == 1 and not isinstance(axes[0], int) else axes
        axes = tuple(a + self.ndim if a < 0 else a for a in axes)
        return _shoal.apply(self.session, "transpose", (self,), {"permutation": axes}, 1)[0]

    def squeeze(self, axis=None):
        """Without the axes of length 1, or without the given one."""
        if axis is None:
            return self.reshape(tuple(n for n in self.shape if n != 1))
        axis = axis + self.ndim if axis < 0 else axis
        if not 0 <= axis < self.ndim or self.shape[axis] != 1:
            raise _shoal_error("INVALID", f"squeeze: axis {axis} of {self.dtype}"
                               f"{list(self.shape)} is not of length 1")
        return self.reshape(self.shape[:axis] + self.shape[axis + 1:])

    def unsqueeze(self, axis):
        """With a new axis of length 1 before the given one."""
        axis = axis + self.ndim + 1 if axis < 0 else axis
        return self.reshape(self.shape[:axis] + (1,) + self.shape[axis:])

    def broadcast_to(self, *shape):
        """Repeated to a shape by NumPy's rules."""
        shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return _shoal.broadcast(self, shape)

    def __getitem__(self, key):
        """Basic indexing (integers, slices, `...`, None), or a tensor of integers: `take`.

        A slice may go backwards. Only a tensor alone is taken, along the first axis.
        """
        if isinstance(key, Tensor):
            return self.take(key, 0)
        keys = key if isinstance(key, tuple) else (key,)
        named = sum(k is not None and k is not Ellipsis for k in keys)
        if named > self.ndim:
            raise IndexError(f"{named} indices for {self.dtype}{list(self.shape)}")
        if Ellipsis not in [k for k in keys if not isinstance(k, Tensor)]:
            keys += (Ellipsis,)
        start, limit, stride, shape, axis, flipped = [], [], [], [], 0, []
        for k in keys:
            if k is None:
                shape.append(1)
            elif k is Ellipsis:
                for n in self.shape[axis:axis + self.ndim - named]:
                    start.append(0), limit.append(n), stride.append(1), shape.append(n)
                axis += self.ndim - named
            elif isinstance(k, slice):
                places = range(*k.indices(self.shape[axis]))
                if places.step < 0:
                    places = places[::-1]
                    flipped.append(axis)
                count = len(places)
                start.append(places[0] if count else 0), stride.append(places.step)
                limit.append(places[-1] + 1 if count else 0), shape.append(count)
                axis += 1
            elif hasattr(k, "__index__"):
                n, at = self.shape[axis], k.__index__()
                if not -n <= at < n:
                    raise IndexError(f"index {at} is out of range for axis {axis} of "
                                     f"{self.dtype}{list(self.shape)}")
                start.append(at % n), limit.append(at % n + 1), stride.append(1)
                axis += 1
            else:
                raise TypeError(f"an index of type {type(k).__name__}; known: int, slice, "
                                "Ellipsis, None")
        part = _shoal.apply(self.session, "slice", (self,), {
            "start_indices": start, "limit_indices": limit, "strides": stride}, 1)[0]
        if flipped:
            part = part.flip(tuple(flipped))
        return part if part.shape == tuple(shape) else part.reshape(tuple(shape))

    # ---- where it lies ----

    def place(self, axis=None, shares=None, slots=None, parts=None, cuts=None, copies=0):
        """The same value, spread over slots.

        axis, shares: one axis cut between the slots in proportion (equal ones when None).
        parts: parts per axis, a grid laid over the slots in row-major order, with `copies` slots
        each (0: as many as there are). cuts: per axis its cut points instead of shares.
        slots: numbers of slots (None: all that compute). Without anything: whole on every slot.
        """
        if axis is not None:
            axis = axis + self.ndim if axis < 0 else axis
            if not 0 <= axis < self.ndim:
                raise _shoal_error("INVALID", f"place: {self.dtype}{list(self.shape)} has no axis "
                                   f"{axis}")
            n = len(shares) if shares is not None else (
                len(slots) if slots is not None else self.session.compute_slots())
            parts = tuple(n if a == axis else 1 for a in range(self.ndim))
            if shares is not None:
                shares = [w for a in range(self.ndim) for w in (shares if a == axis else (1,))]
            copies = copies or 1
        elif parts is None:
            parts = (1,) * self.ndim
        return self._place(parts, shares, cuts, copies, slots)

    def replicate(self, slots=None):
        """The same value, whole on every slot."""
        return self.place(slots=slots)

    def explain(self, json=False):
        """The plan for computing and reading the value, as text or JSON; nothing runs."""
        return self._explain(json)

    def times(self):
        """(slot, nanoseconds, nodes) of the program that computed the value; waits for it."""
        return self._times()
