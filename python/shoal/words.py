"""What the modules of this package share: errors, names of element types, axes, torch's words."""
from __future__ import annotations

import functools

from .dtypes import ALIASES, DTYPES, TYPE_CHECKING, dtype
from .errors import CLASSES, AxisError, ShoalError

if TYPE_CHECKING:
    import inspect
    from collections.abc import Sequence
    from typing import Any

_FLOATING = frozenset(DTYPES[name] for name in ("float16", "bfloat16", "float32", "float64"))
_PLAIN = {float: "float32", int: "int64", bool: "bool"}
UNSET = object()  # a word that was not given, where None means something
# Which element type two of a kind become; a later kind takes over.
_KINDS = ("bool", "uint", "int", "bfloat", "float")


def invalid(text: str) -> ShoalError:
    """The error of an argument with a wrong value, shape or type."""
    return CLASSES["INVALID"](text)


def check_tensor(value: Any, what: str, name: str = "the input") -> None:
    """Fails where a function is given something else than a tensor."""
    if not hasattr(value, "session"):
        raise TypeError(f"{what}: {name} is of type {type(value).__name__}; it must be a Tensor")


def tensors_of(values: Any, what: str) -> list[Any]:
    """What a function takes a list of tensors in, as a list. Fails where it is no list, or something else is in it."""
    if not hasattr(values, "__iter__"):
        raise TypeError(f"{what}: the tensors come as a list or a tuple, not as a value of type {type(values).__name__}")
    found = list(values)
    for i, value in enumerate(found):
        check_tensor(value, what, f"element {i} of the tensors")
    return found


def check_number(value: Any, what: str, name: str) -> None:
    """Fails where a function is given something else than a number, or a tensor that is one."""
    if not (isinstance(value, (int, float)) or getattr(value, "shape", None) == ()):
        raise TypeError(f"{what}: {name} is {value!r}, of type {type(value).__name__}; it must be a number")


def check_integer(value: Any, what: str, name: str) -> None:
    """Fails where a function is given something else than an integer."""
    if not hasattr(value, "__index__"):
        raise TypeError(f"{what}: {name} is {value!r}, of type {type(value).__name__}; it must be an integer")


def check_bounds(low: Any, to: Any, what: str) -> None:
    """Fails where two numbers are no interval."""
    if not low <= to:
        raise invalid(f"{what}: from {low} to {to}: the second must not be less")


def check_probability(p: Any, what: str) -> None:
    """Fails where a number is no probability."""
    if not 0 <= p <= 1:
        raise invalid(f"{what}: p is {p}; a probability lies between 0 and 1")


def check_padding_idx(padding_idx: int | None, rows: int, what: str) -> None:
    """Fails where an index is none of a table's rows."""
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise invalid(f"{what}: padding_idx is {padding_idx}; the table has {rows} rows")


def dtype_name(kind: Any) -> str:
    """The name of an element type given as one, by its name, a NumPy dtype or a Python type."""
    if kind.__class__ is dtype:
        return kind.name
    name = kind if isinstance(kind, str) else _PLAIN.get(kind) or getattr(kind, "name", None) or \
        getattr(kind, "__name__", None) or str(kind)
    return ALIASES.get(name, name)


def is_dtype(value: object) -> bool:
    """Whether a value names an element type."""
    return value.__class__ is dtype or (
        isinstance(value, (str, type)) or hasattr(value, "name")) and dtype_name(value) in DTYPES


def is_floating(dtype: str) -> bool:
    """Whether an element type, given by its name, is float16, bfloat16, float32 or float64."""
    return dtype in _FLOATING


def _bits(dtype: str) -> int:
    return int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz") or 0)


def promoted(a: str, b: str) -> str:
    """The element type that two become together, by torch's rules.

    A floating type takes over from integers, integers from bool; of a kind the wider one. float16
    with bfloat16 gives float32; signed with unsigned the signed type that holds both, at most int64.
    """
    if a == b:
        return a
    kind_a, kind_b = (d.rstrip("0123456789") for d in (a, b))
    if kind_a == kind_b:
        return a if _bits(a) >= _bits(b) else b
    if is_floating(a) and is_floating(b):
        wider = a if _bits(a) > _bits(b) else b
        return wider if _bits(wider) > 16 else "float32"
    low, high = sorted((a, b), key=lambda d: _KINDS.index(d.rstrip("0123456789")))
    if low == "bool" or is_floating(high):
        return high
    return f"int{min(64, max(_bits(high), 2 * _bits(low)))}"  # uint with int


def common_type(x: Any, y: Any) -> str:
    """The element type that two tensors become together, by torch's rules: `promoted`, but one without axes
    counts, as a number does, only if its kind (bool, integer, floating) is higher than the other's."""
    a, b = x.dtype, y.dtype
    if bool(x.ndim) == bool(y.ndim):
        return promoted(a, b)
    full, lone = (a, b) if x.ndim else (b, a)
    return full if category(full) >= category(lone) else promoted(full, lone)


def category(dtype: str) -> int:
    """bool, integers, floating types as 0, 1, 2."""
    return 2 if is_floating(dtype) else int(dtype != "bool")


def axis_of(axis: int, rank: int, what: str = "an axis") -> int:
    """An axis counted from 0; negative ones count from the end. IndexError when there is none."""
    if not hasattr(axis, "__index__"):
        raise TypeError(f"{what}: an axis is an integer, not {axis!r}")
    found = axis + rank if axis < 0 else axis
    if not 0 <= found < rank:
        raise AxisError(f"{what}: there is no axis {axis} among {rank}")
    return found


def common_shape(shapes: Sequence[Sequence[int]], what: str, error: Any = invalid) -> tuple[int, ...]:
    """The shape that several broadcast to; `error` when there is none."""
    rank = max((len(s) for s in shapes), default=0)
    wide = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    common = tuple(next((n for n in column if n != 1), 1) for column in zip(*wide))
    if any(n not in (1, c) for s in wide for n, c in zip(s, common)):
        raise error(f"{what} do not broadcast: " + ", ".join(str(list(s)) for s in shapes))
    return common


def shape_of(lengths: Sequence[Any]) -> tuple[int, ...]:
    """A shape given as numbers or as one sequence of them."""
    if len(lengths) == 1 and not hasattr(lengths[0], "__index__"):
        if not hasattr(lengths[0], "__iter__") or isinstance(lengths[0], str):
            raise TypeError(f"a shape is made of integers; {lengths[0]!r} is of type {type(lengths[0]).__name__}")
        return tuple(lengths[0])
    return tuple(lengths)


def torch_words(function: Any = None, **more: str) -> Any:
    """Lets a function take torch's `dim` and `keepdim` for `axis` and `keepdims`; and `more`: other words
    for its parameters."""
    if function is None:
        return functools.partial(torch_words, **more)
    own = function.__code__.co_varnames[:function.__code__.co_argcount + function.__code__.co_kwonlyargcount]
    words = {new: old for new, old in (("dim", "axis"), ("keepdim", "keepdims"))
             if old in own and new not in own} | more

    @functools.wraps(function)
    def either(*args: Any, **keywords: Any) -> Any:
        if keywords:
            for new, old in words.items():
                if new in keywords:
                    if old in keywords:
                        raise TypeError(f"{function.__name__}: {new} and {old} are the same")
                    keywords[old] = keywords.pop(new)
        return function(*args, **keywords)
    setattr(either, "_words", words)  # for who shows the signature
    return either


def with_out(function: Any) -> Any:
    """Lets a function take `out`: a tensor, or a tuple of them, that becomes the result in place."""
    @functools.wraps(function)
    def either(*args: Any, out: Any = None, **keywords: Any) -> Any:
        made = function(*args, **keywords)
        return made if out is None else into(out, made)
    setattr(either, "_words", getattr(function, "_words", {}))
    return either


def into(out: Any, made: Any) -> Any:
    """The result, put into `out`."""
    if isinstance(made, tuple):
        for target, value in zip(out, made):
            target._take(value)
        return type(made)(*out) if hasattr(made, "_fields") else tuple(out)
    return out._take(made)


def signature_of(function: Any) -> inspect.Signature:
    """The signature of a function, with the words that `torch_words` has it take."""
    import inspect
    parameters = list(inspect.signature(function).parameters.values())
    if hasattr(function, "_first") and parameters[0].name == "self":  # a function made of a method
        parameters[0] = parameters[0].replace(name=function._first)
    words: dict[str, str] = {}
    below = function
    while below is not None:
        words = getattr(below, "_words", {}) | words
        below = getattr(below, "__wrapped__", None)
    known = {p.name for p in parameters}
    rest = [p for p in parameters if p.kind is p.VAR_KEYWORD]
    own = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
    more = [inspect.Parameter(new, inspect.Parameter.KEYWORD_ONLY, default=None) for new in words
            if new not in known]
    return inspect.signature(function).replace(parameters=[*own, *more, *rest])
