"""Tensors: handles to values in a pool, with NumPy's operators and torch's methods.

An operation checks shapes and element types at once and records itself; work starts when a value is
read (`numpy`, `tolist`, `item`, printing), or at `shoal.sync`. A value never changes: `x += y` computes
a new one, for which the object x stands from then on.
"""
import functools
import math
import struct

from . import _shoal, views
from .amp import cast, cast_type
from .autograd import Gradients
from .conversions import Conversions
from .dtypes import POOL, Count
from .elementwise import Elementwise
from .indexing import Indexing
from .methods import Operations
from .order import Order
from .products import Products
from .reductions import Reductions
from .return_types import Extreme, MinMax, Sorted
from .shapes import Shapes
from .words import (category, check_number, common_type, dtype_name, invalid, is_dtype, is_floating, promoted,
                    torch_words)

__all__ = ["Extreme", "MinMax", "Sorted", "Tensor"]

_, _, (_UNARY, _BINARY) = _shoal.names()
_UNARY = {name: number for number, name in enumerate(_UNARY)}
_BINARY = {name: number for number, name in enumerate(_BINARY)}
_MATMUL = _BINARY["matmul"]

# The element type of floating numbers where none is said.
default = ["float32"]

# Element types: code of `struct`, and what a Python number must be to become one.
_FORMATS = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B",
    "uint16": "H", "uint32": "I", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d",
}


def _pack(flat, dtype):
    if dtype == "bfloat16":
        words = struct.unpack(f"={len(flat)}I", struct.pack(f"={len(flat)}f", *flat))
        rounded = [(w + 0x7FFF + (w >> 16 & 1)) >> 16 if w & 0x7FFFFFFF <= 0x7F800000
                   else w >> 16 | 0x40 for w in words]
        return struct.pack(f"={len(flat)}H", *rounded)
    code = _FORMATS.get(dtype)
    if code is None:
        raise invalid(f"unknown element type '{dtype}'; known: bfloat16, "
                           + ", ".join(_FORMATS))
    try:
        return struct.pack(f"={len(flat)}{code}", *flat)
    except (struct.error, OverflowError) as error:
        raise invalid(f"a value does not fit {dtype}: {error}") from None


# Python's numbers, and the element types that they become; None: the default one. A bool is an int, too.
_NUMBERS = {bool: "bool", int: "int64", float: None}


def _flatten(data):
    """Shape and elements of nested lists of numbers, and the element type that these have together, by torch's rules."""
    shape = []
    level = data
    while hasattr(level, "tolist") and getattr(level, "ndim", 0) or \
            isinstance(level, (list, tuple)):
        level = level if isinstance(level, (list, tuple)) else level.tolist()
        shape.append(len(level))
        if not level:
            break
        level = level[0]
    flat, kinds = [], set()  # kinds: classes of Python's numbers, names of the types of all else

    def walk(item, depth, typed=False):
        if is_dtype(getattr(item, "dtype", None)):  # an array, a tensor or a number of NumPy's in a list
            kinds.add(dtype_name(item.dtype))
            typed = True
        if getattr(item, "ndim", 0):
            item = item.tolist()
        if depth == len(shape):
            if isinstance(item, (list, tuple)):
                raise invalid(f"nested lists are ragged at depth {depth}")
            item = item.item() if hasattr(item, "item") else item
            if not isinstance(item, (bool, int, float)):
                raise TypeError(f"tensor: {item!r} is a {type(item).__name__}; elements are numbers or bools"
                                + (" (complex numbers are not supported)" if isinstance(item, complex) else ""))
            flat.append(item)
            if not typed:
                kinds.add(next(kind for kind in _NUMBERS if isinstance(item, kind)))
            return
        if not isinstance(item, (list, tuple)) or len(item) != shape[depth]:
            raise invalid(f"nested lists are ragged at depth {depth}: {shape[depth]} items were "
                          "expected")
        if depth == len(shape) - 1 and _NUMBERS.keys() >= (classes := set(map(type, item))):
            flat.extend(item)
            if not typed:
                kinds.update(classes)
            return
        for inner in item:
            walk(inner, depth + 1, typed)

    walk(data, 0)
    names = [_NUMBERS.get(kind, kind) or default[0] for kind in kinds]
    return tuple(shape), flat, functools.reduce(promoted, names) if names else default[0]


def from_data(session, data, dtype=None, borrow=False):
    """A tensor in `session` from an array, another buffer, nested lists or a number."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.astype(dtype)
    if isinstance(data, range):
        data = list(data)
    if isinstance(data, (bool, int, float, list, tuple)) and not hasattr(data, "dtype"):
        shape, flat, common = _flatten(data)
        dtype = common if dtype is None else dtype_name(dtype)
        if dtype.startswith(("int", "uint")):
            if not {int}.issuperset(map(type, flat)):
                flat = [_whole(x, dtype) for x in flat]
            tensor = session._from_bytes(_pack(flat, dtype), dtype, shape)
            if flat:
                tensor._known = tensor._value, min(flat), max(flat)
            return tensor
        return session._from_bytes(_pack(flat, dtype), dtype, shape)
    if not _has_buffer(data) and hasattr(data, "__array__"):
        data = data.__array__()
    # An array of ml_dtypes' bfloat16, as JAX's become: Python's buffers have no such type.
    if str(getattr(data, "dtype", None)) == "bfloat16" and hasattr(data, "tobytes"):
        tensor = session._from_bytes(data.tobytes(), "bfloat16", data.shape)
        return tensor if dtype is None else tensor.astype(dtype)
    if not _has_buffer(data):
        raise TypeError(f"tensor: {data!r} is a {type(data).__name__}; numbers, nested lists of them, arrays and "
                        "buffers are possible" + (" (complex numbers are not)" if isinstance(data, complex) else ""))
    tensor = session._from_buffer(data, borrow)
    return tensor if dtype is None else tensor.astype(dtype)


def _whole(x, dtype):
    if isinstance(x, int):
        return x
    if not math.isfinite(x):
        raise invalid(f"{x!r} is not an integer, for {dtype}")
    return int(x)


def _slices(parts, weights, copies):
    """The weights of each axis' parts: of all slots in them, in a grid laid over slots in row-major order."""
    boxes = math.prod(parts)
    copies = copies or len(weights) // max(boxes, 1)
    sums, step = [], boxes
    for n in parts:
        step //= max(n, 1)
        sums += [sum(w for i, w in enumerate(weights) if i // max(copies, 1) // max(step, 1) % n == part)
                 for part in range(n)]
    return sums


def _has_buffer(data):
    try:
        memoryview(data).release()
        return True
    except (TypeError, ValueError, BufferError):  # ValueError: NumPy's, of types that others added
        return False


class Tensor(Gradients, Operations, Elementwise, Products, Reductions, Order, Indexing, Shapes, Conversions,
             _shoal.Tensor):
    """A value in a pool. Made by `shoal.tensor` and by operations. `Tensor([1, 2])` and `Tensor(2, 3)` are torch's old
    way: these numbers, or a tensor of that shape, of zeros, in the default floating type."""

    __slots__ = ("__weakref__",)
    __array_priority__ = 1000

    def __new__(cls, *data):
        from .creation import of_type
        return of_type(default[0], data)

    # ---- what it is ----

    @property
    def size(self):
        """The number of elements, an int; called, as torch's: `x.size()` the shape, `x.size(0)` a length."""
        return Count(self.shape)

    @property
    def itemsize(self):
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self):
        """Bytes of all elements."""
        return self.numel() * self.itemsize

    @property
    def device(self):
        """What `to` and the functions that make tensors take: always device("pool"), the planner's choice.

        Where a tensor lies changes with what is computed of it: `place`, `replicate`, `to` and
        signals say where a result is to lie, `shoal.status()` shows what lies on each device.
        """
        return POOL

    def __len__(self):
        if not self.shape:
            raise TypeError("a tensor without axes has no length")
        return self.shape[0]

    def __hash__(self):
        return id(self)

    def __repr__(self):
        """torch's form; of a long axis the first and last three, and only these are read."""
        from .printing import shown
        return shown(self)

    def __format__(self, form):
        plain = not self.ndim and type(self) is Tensor or form and self.size == 1  # torch: a number prints as one
        return format(self.item() if plain else str(self), form)

    # ---- its elements ----

    def numpy(self, out=None, *, force=False):
        """The elements as a NumPy array, a copy (float32 for bfloat16); `out`: an array to write to."""
        import numpy
        source = self.astype("float32") if self.dtype == "bfloat16" else self
        if out is None:
            out = numpy.empty(source.shape, source.dtype)
        elif out.shape != source.shape or out.dtype != source.dtype:
            raise invalid(f"out is {out.dtype}{list(out.shape)}; {source._text()} is needed")
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
            if len(shape) == 1:
                return list(flat[offset:offset + shape[0]])
            stride //= shape[0] or 1
            return [nest(shape[1:], offset + i * stride, stride) for i in range(shape[0])]

        return nest(self.shape, 0, self.size) if self.shape else flat[0]

    def item(self):
        """The only element as a Python number. ValueError when there is not just one."""
        if self.size != 1:
            raise invalid(f"item: {self._text()} has {self.size} elements, not one")
        return self._flat()[0]

    def __bool__(self):
        if self.size != 1:
            raise invalid(f"bool: {self._text()} has {self.size} elements, of which "
                          "each is true or not: use any() or all()")
        return bool(self.item())

    def __int__(self):
        return int(self.item())

    def __index__(self):
        if is_floating(self.dtype):
            raise TypeError(f"{self._text()} is no integer: it cannot be an index")
        return int(self.item())

    def __float__(self):
        return float(self.item())

    def __contains__(self, element):
        """Whether some element equals a number, or a tensor broadcast against this one; reads."""
        if not isinstance(element, (bool, int, float, Tensor)) and getattr(element, "shape", None) != ():
            raise invalid(f"in: only a number or a tensor can be in a tensor, not a {type(element).__name__}")
        return bool((self == element).any())

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    # ---- arithmetic ----

    def _coerce(self, other, what=None):
        """`other` as a tensor of this one's session, or None; what: who needs it, and fails otherwise.

        A Python number takes this element type, if that can hold a number of its kind.
        """
        if isinstance(other, Tensor):
            return other
        if other.__class__ is float or other.__class__ is int:
            # An input, not a constant: a step that is repeated with another number is the same.
            made = _shoal.number(self, other)
            if made is not None:
                return made
        if hasattr(other, "item") and getattr(other, "shape", None) == ():
            other = other.item()  # NumPy's scalars are numbers
        if isinstance(other, (bool, int, float)):
            dtype = self.dtype
            if isinstance(other, float) and not is_floating(dtype):
                dtype = default[0]
            elif dtype == "bool" and not isinstance(other, bool):
                dtype = "int64"
            return self.session._from_bytes(
                _pack([other if is_floating(dtype) else int(other)], dtype), dtype, ())
        if isinstance(other, (list, tuple)) or hasattr(other, "__array__") or _has_buffer(other):
            return from_data(self.session, other,
                             self.dtype if isinstance(other, (list, tuple)) else None)
        if what is not None:
            raise TypeError(f"{what}: {other!r} is a {type(other).__name__}; it must be a tensor, an array or a number")
        return None

    def _alike(self, other):
        """This and another tensor, both of the element type they become together."""
        mine, its = self.dtype, other.dtype
        if mine is its:
            return self, other
        common = common_type(self, other)
        return self.astype(common), other.astype(common)

    def _binary(self, name, other, reflected=False):
        if other.__class__ is not Tensor:
            other = self._coerce(other)
            if other is None:
                return NotImplemented
        a, b = (other, self) if reflected else (self, other)
        made = _shoal.binary(_BINARY[name], a, b)
        return _shoal.binary(_BINARY[name], *a._alike(b)) if made is None else made

    def _operated(self, name, other, reflected):
        """What +, -, * and / give where the handle's own operators do not serve."""
        whole = not is_floating(self.dtype) and not (isinstance(other, Tensor) and is_floating(other.dtype))
        return (self._floating() if name == "divide" and whole else self)._binary(name, other, reflected)

    def __pow__(self, other):
        if other.__class__ is int and self.dtype == "bool":
            return self.astype("int64") ** other
        if other.__class__ is int and other in (1, 2, 3) or \
                other.__class__ is float and other in (1.0, 2.0, 3.0) and is_floating(self.dtype):
            return self.clone() if other == 1 else self * self if other == 2 else self * self * self
        if other.__class__ is float and other in (0.5, -0.5) and is_floating(self.dtype):
            return self.sqrt() if other > 0 else self.rsqrt()
        if isinstance(other, int) and other < 0 and not is_floating(self.dtype):
            raise invalid(f"power: {self._text()} to the power {other}: integers have no negative powers; "
                          "convert to a floating type first")
        return self._binary("power", other)

    def __rpow__(self, other):
        return self._binary("power", other, True)

    def __matmul__(self, other):
        if isinstance(other, Tensor) and cast_type() is None:
            return _shoal.binary(_MATMUL, self, other)
        return self._product(other, False)

    def __rmatmul__(self, other):
        return self._product(other, True)

    def _product(self, other, reflected):
        given, other = other, self._coerce(other)
        if other is None:
            return NotImplemented
        # Tensors are not converted, as in torch; arrays are, as in NumPy.
        a, b = (self, other) if isinstance(given, Tensor) else self._alike(other)
        a, b = (b, a) if reflected else (a, b)
        if cast_type() is not None:
            a, b = cast(a, b)
        return _shoal.binary(_MATMUL, a, b)

    def __neg__(self):
        if self.dtype.startswith("uint"):
            return 0 - self
        return _shoal.unary(_UNARY["negate"], self)

    def __pos__(self):
        return self

    def __abs__(self):
        if self.dtype.startswith("uint"):
            return self.clone()
        return _shoal.unary(_UNARY["abs"], self)

    def _floating(self):
        return self if is_floating(self.dtype) else self.astype(default[0])

    def _compare(self, direction, other):
        if other.__class__ is not Tensor:
            other = self._coerce(other)
            if other is None:
                return NotImplemented
        made = _shoal.compare(direction, self, other)
        return _shoal.compare(direction, *self._alike(other)) if made is None else made

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

    def astype(self, dtype):
        """The elements as another type; itself when it is of that type."""
        dtype = dtype_name(dtype)
        if dtype == self.dtype:
            return self
        return _shoal.apply(self.session, "convert", (self,), {"dtype": dtype}, 1)[0]

    # ---- in place ----

    def _become(self, value, what):
        """This object stands for another value from now on, of the same shape and element type."""
        if value is NotImplemented:
            return value
        if value.shape != self.shape:
            raise invalid(f"{what}: in place, {self._text()} cannot become {value._text()}")
        if value.dtype != self.dtype:
            if category(value.dtype) > category(self.dtype):
                raise invalid(f"{what}: in place, {self._text()} cannot hold {value.dtype.name}; convert "
                              "it first")
            value = value.astype(self.dtype)
        self._rebind(value)
        return self

    def _written(self, value):
        """`_rebind` where others share the elements."""
        views.written(self, value)

    def _reform(self, made):
        """This object has another shape in place: that of `made`, a view of it."""
        (kind, argument), shape = made._view.steps[-1], self.shape
        back = ("shape", shape) if kind == "shape" else \
            ("axes", tuple(sorted(range(self.ndim), key=argument.__getitem__)))
        for ref in self._views or ():
            view = ref()
            if view is not None and view is not made:
                view._view.steps, view._view.placed = (back, *view._view.steps), None
        if views.root_of(self) is not None:
            self._view.steps, self._view.placed = made._view.steps, made._view.placed
        made._view = None
        self._swap(made)
        return self

    def _take(self, value):
        """This becomes a result that it was given as `out` for."""
        return self._become(value, "out")

    def detach(self):
        """The same value, through which no gradients pass: a view."""
        return views.noted(self, self._detach(), "detach")

    @torch_words(src="source")
    def copy_(self, source, non_blocking=False):
        """In place: the source's values, broadcast and converted."""
        value = self._coerce(source, "copy_").astype(self.dtype)
        return self._become(value.broadcast_to(self.shape), "copy_")

    def fill_(self, value):
        """In place: one number everywhere."""
        return self.copy_(value)

    def zero_(self):
        """In place: zeros."""
        return self.copy_(0)

    def fill_diagonal_(self, fill_value, wrap=False):
        """In place: one number on the diagonal; wrap: of a tall matrix, again below it."""
        if self.ndim < 2:
            raise invalid(f"fill_diagonal_: {self._text()} has no diagonal; two axes at least are needed")
        if self.ndim != 2 and len(set(self.shape)) != 1:
            raise invalid(f"fill_diagonal_: the axes of {self._text()} differ in length")
        check_number(fill_value, "fill_diagonal_", "fill_value")
        n, step = min(self.shape), sum(views.dense(self.shape))
        line = self.reshape(self.numel())
        end = self.numel() if wrap else (n - 1) * step + 1
        line[:end:step] = fill_value
        return self._become(line.reshape(self.shape), "fill_diagonal_")

    def bernoulli(self, p=None, *, generator=None):
        """See `shoal.bernoulli`."""
        from .random import bernoulli
        return bernoulli(self, p, generator)

    def multinomial(self, num_samples, replacement=False, *, generator=None):
        """See `shoal.multinomial`."""
        from .random import multinomial
        return multinomial(self, num_samples, replacement, generator)

    # ---- where it lies ----

    def place(self, axis=None, shares=None, slots=None, parts=None, cuts=None, copies=0, bound=False):
        """The same value, distributed over slots.

        axis, shares: one axis cut between the slots in proportion: numbers, one for each slot; "speed": as fast as
        they are (`weigh_slots`); None: equally.
        parts: parts per axis, a grid laid over the slots in row-major order, with `copies` slots
        each (0: as many as there are). cuts: per axis its cut points instead of shares.
        slots: numbers or names of slots, as `find_slots` takes them (None: all that compute). Without anything:
        whole on every slot.
        bound: on these slots or nowhere. What is computed of it, or recorded together with it until a read or a sync,
        is computed on bound slots alone, and bound as well. What was on a slot that has left the pool fails with
        LostError then, and is not made again elsewhere.
        """
        if slots is not None and any(isinstance(name, str) for name in slots):
            slots = self.session.find_slots(slots)
        for slot in () if slots is None else slots:
            if not 0 <= slot < 1 << 32:  # it would be another one in the message
                raise invalid(f"place: slot {slot} does not exist; compute_slots() has those that compute")
        by_speed = isinstance(shares, str)
        if by_speed:
            if shares != "speed":
                raise invalid(f"place: shares={shares!r}; give numbers, one for each slot, or 'speed'")
            slots = self.session.compute_slots() if slots is None else slots
            shares = self.session._weigh(self.dtype.name, slots)
        if axis is not None:
            axis = axis + self.ndim if axis < 0 else axis
            if not 0 <= axis < self.ndim:
                raise invalid(f"place: {self._text()} has no axis {axis}")
            if shares is None and slots is None:
                slots = self.session.compute_slots()  # those that are counted
            n = len(shares if shares is not None else slots)
            parts = tuple(n if a == axis else 1 for a in range(self.ndim))
            if shares is not None:
                shares = [w for a in range(self.ndim) for w in (shares if a == axis else (1,))]
            copies = copies or 1
        elif parts is None:
            parts = (1,) * self.ndim
            shares = None if by_speed else shares
        elif by_speed:
            shares = _slices(parts, shares, copies)
        return self._place(parts, shares, cuts, copies, slots, bound)

    def replicate(self, slots=None):
        """The same value, whole on every slot."""
        return self.place(slots=slots)

    def explain(self, json=False):
        """The plan for computing and reading the value, as text or JSON; nothing runs."""
        return self._explain(json)

    def times(self):
        """(slot, nanoseconds, nodes) of the program that computed the value; waits for it."""
        return self._times()

    # ---- NumPy's protocols ----

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        """NumPy's functions of elements, and operators with an array on the left, computed here."""
        from .ufuncs import ufunc_of
        return ufunc_of(ufunc, method, inputs, keywords)

    def __array_namespace__(self, api_version=None):
        """The array API standard's functions: `shoal.array_api`."""
        from . import array_api
        return array_api.checked(api_version)
