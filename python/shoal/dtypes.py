"""Element types, shapes and devices as objects: they print, compare and convert as torch's.

A `dtype` is the name of the element type as well, a `Size` is a tuple, and a `Count` an int: what takes
those takes these.
"""
from __future__ import annotations

import math
from collections import namedtuple

TYPE_CHECKING = False  # type checkers take it for true; `typing` itself is an eighth of what starting takes
if TYPE_CHECKING:
    from typing import Any, NamedTuple, SupportsIndex, overload


class dtype(str):
    """An element type: `shoal.float32`, `x.dtype`. Equal to its name and to NumPy's of that name."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name, such as "float32"."""
        return str.__str__(self)

    @property
    def is_floating_point(self) -> bool:
        """Whether it is float16, bfloat16, float32 or float64."""
        return self.startswith(("float", "bfloat"))

    @property
    def is_complex(self) -> bool:
        """False: there are no complex numbers."""
        return False

    @property
    def is_signed(self) -> bool:
        """Whether it has negative numbers."""
        return self.startswith(("int", "float", "bfloat"))

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        digits = self.name.lstrip("abcdefghijklmnopqrstuvwxyz")
        return int(digits) // 8 if digits else 1

    def to_real(self) -> dtype:
        """Itself."""
        return self

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str.__eq__(self, other)
        name = other.__name__ if isinstance(other, type) else getattr(other, "name", None)
        return str.__eq__(self, name) if isinstance(name, str) else NotImplemented

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return NotImplemented if equal is NotImplemented else not equal

    __hash__ = str.__hash__

    def __repr__(self) -> str:
        return "shoal." + self.name

    __str__ = __repr__

    def __format__(self, form: str) -> str:
        return format(repr(self), form)

    def __reduce__(self) -> tuple[Any, ...]:
        return _named, (self.name,)


NAMES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
         "float16", "bfloat16", "float32", "float64")
DTYPES = {name: dtype(name) for name in NAMES}
# torch's other names of them.
ALIASES = {"float": "float32", "double": "float64", "half": "float16", "short": "int16", "int": "int32",
           "long": "int64"}


def _named(name: str) -> dtype:
    return DTYPES[name]


if TYPE_CHECKING:
    _Lengths = tuple[int, ...]
else:
    from ._shoal import Lengths as _Lengths


class Size(_Lengths):
    """The lengths of a tensor's axes."""

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self)

    if TYPE_CHECKING:
        @overload
        def __getitem__(self, key: SupportsIndex, /) -> int: ...

        @overload
        def __getitem__(self, key: slice, /) -> Size: ...

        def __getitem__(self, key: Any, /) -> Any: ...

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, tuple(other)))

    def __repr__(self) -> str:
        return f"shoal.Size({list(self)})"


class Count(int):
    """`x.size`: the number of elements, as NumPy's; called, the shape or a length of it, as torch's."""

    _shape: Size

    def __new__(cls, shape: Size) -> Count:
        made = int.__new__(cls, math.prod(shape))
        made._shape = shape
        return made

    if TYPE_CHECKING:
        @overload
        def __call__(self, dim: None = None) -> Size: ...

        @overload
        def __call__(self, dim: int) -> int: ...

    def __call__(self, dim: int | None = None) -> Size | int:
        """The shape; dim: the length of one axis."""
        if dim is None:
            return self._shape
        from .words import axis_of
        return self._shape[axis_of(dim, len(self._shape), "size")]


class device:
    """Where a tensor is to lie: a backend, and perhaps which of its slots.

    "pool" and "cpu", without a number, leave it to the planner; "cpu:1" is the pool's second slot of
    that backend. Made from such a text, (backend, number), or another device.
    """

    __slots__ = ("type", "index")

    type: str
    index: int | None

    def __init__(self, type: str | int | device, index: int | None = None) -> None:
        kind, number = type, index
        if isinstance(type, device):
            kind, number = type.type, type.index
        elif isinstance(type, int):
            kind, number = "slot", type
        elif isinstance(type, str) and ":" in type:
            kind, _, digits = type.partition(":")
            if index is not None or not digits.isdigit():
                from .words import invalid
                raise invalid(f"device: '{type}' is not of the form BACKEND or BACKEND:NUMBER")
            number = int(digits)
        elif not isinstance(type, str):
            raise TypeError(f"device: {type!r} is neither a text, a number nor a device")
        if number is not None and number < 0:
            from .words import invalid
            raise invalid(f"device: the number is {number}; it must not be negative")
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "index", number)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"device: '{name}' cannot be changed")

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + (")" if self.index is None else f", index={self.index})")

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, (device, str)) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.type, self.index)


POOL = device("pool")

_FLOATS = {"float16": (10, 5), "bfloat16": (7, 8), "float32": (23, 8), "float64": (52, 11)}


if TYPE_CHECKING:
    class _Floats(NamedTuple):
        dtype: dtype
        bits: int
        eps: float
        max: float
        min: float
        tiny: float
        smallest_normal: float
        resolution: float

    class _Integers(NamedTuple):
        dtype: dtype
        bits: int
        max: int
        min: int
else:
    _Floats = namedtuple("_Floats", "dtype bits eps max min tiny smallest_normal resolution")
    _Integers = namedtuple("_Integers", "dtype bits max min")


class finfo(_Floats):
    """The limits of a floating type: eps, max, min, tiny, smallest_normal, resolution, bits."""

    __slots__ = ()

    def __repr__(self) -> str:
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.tiny:g}, tiny={self.tiny:g}, dtype={self.dtype.name})")

    def __new__(cls, type: Any = None) -> finfo:
        from .words import dtype_name
        name = dtype_name("float32" if type is None else getattr(type, "dtype", type))
        if name not in _FLOATS:
            raise TypeError(f"finfo: {name} is no floating type; iinfo tells of integers")
        mantissa, exponent = _FLOATS[name]
        most = 2.0 ** (2 ** (exponent - 1) - 1) * (2 - 2.0 ** -mantissa)
        least = 2.0 ** (2 - 2 ** (exponent - 1))
        digits = int(mantissa * math.log10(2))
        return super().__new__(cls, DTYPES[name], 1 + mantissa + exponent, 2.0 ** -mantissa, most, -most,
                               least, least, 10.0 ** -digits)


class iinfo(_Integers):
    """The limits of an integer type: max, min, bits."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype.name})"

    def __new__(cls, type: Any) -> iinfo:
        from .words import dtype_name
        name = dtype_name(getattr(type, "dtype", type))
        if not name.startswith(("int", "uint")):
            raise TypeError(f"iinfo: {name} is no integer type; finfo tells of floating ones")
        bits = DTYPES[name].itemsize * 8
        low = 0 if name.startswith("u") else -2 ** (bits - 1)
        return super().__new__(cls, DTYPES[name], bits, low + 2 ** bits - 1, low)
