"""The array API standard, 2024.12, over tensors: what `Tensor.__array_namespace__` gives.

All functions but those of complex numbers and the extension `fft`, with the standard's arguments and rules of
element types; `linalg` is the extension of that name. Default types: float32 and int64.
"""
import builtins as _builtins
import math
from collections import namedtuple

import shoal as _shoal

from . import _shoal as _core
from . import linalg as _linalg
from .dtypes import DTYPES, POOL, finfo, iinfo
from .tensor import Tensor
from .words import axis_of as _axis_of
from .words import dtype_name as _dtype_name
from .words import invalid as _invalid
from .words import promoted as _promoted

__array_api_version__ = "2024.12"
e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi
bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64 = (DTYPES[_n] for _n in (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"))
float32, float64 = DTYPES["float32"], DTYPES["float64"]

_KINDS = {
    "bool": ("bool",), "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float16", "bfloat16", "float32", "float64"), "complex floating": ()}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"]
_FLOATS = _KINDS["real floating"]


def checked(version):
    """This module, if it is of a version that is asked for."""
    import sys
    if version is not None and version not in ("2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"version {version!r} of the array API is not supported; 2024.12 is")
    return sys.modules[__name__]


# ---- inspection ----

class _Info:
    """`__array_namespace_info__`"""

    def capabilities(self):
        """What may depend on values is there; 64 axes are not."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self):
        """The pool."""
        return POOL

    def default_dtypes(self, *, device=None):
        """The element types where none is said."""
        return {"real floating": float32, "complex floating": None, "integral": int64, "indexing": int64}

    def devices(self):
        """The pool: the planner chooses among its slots."""
        return [POOL]

    def dtypes(self, *, device=None, kind=None):
        """The element types of a kind."""
        named = {n: DTYPES[n] for n in DTYPES if n not in ("float16", "bfloat16")}
        if kind is None:
            return named
        kinds = kind if isinstance(kind, tuple) else (kind,)
        return {n: d for n, d in named.items() if _builtins.any(n in _KINDS[k] for k in kinds)}


def __array_namespace_info__():
    return _Info()


# ---- element types ----

def astype(x, dtype, /, *, copy=True, device=None):
    """The elements as another type; copy=False: itself where it is of that type."""
    made = x.astype(dtype)
    return made.clone() if made is x and copy else made


def can_cast(from_, to, /):
    """Whether an element type may become another by promotion."""
    a, b = _dtype_name(getattr(from_, "dtype", from_)), _dtype_name(to)
    both = _both(a, b)
    return both == b


def _both(a, b):
    kinds = ["b" if n == "bool" else "f" if n in _FLOATS else "i" for n in (a, b)]
    if kinds[0] != kinds[1] or "uint64" in (a, b) and a[0] != b[0]:
        return None
    return _promoted(a, b)


def isdtype(dtype, kind):
    """Whether an element type is another one, or of a kind, or any of several."""
    if isinstance(kind, tuple):
        return _builtins.any(isdtype(dtype, k) for k in kind)
    name = _dtype_name(dtype)
    if isinstance(kind, str) and kind in _KINDS and not hasattr(kind, "itemsize"):
        return name in _KINDS[kind]
    if _dtype_name(kind) not in DTYPES:
        raise ValueError(f"isdtype: there is no kind {kind!r}")
    return name == _dtype_name(kind)


def result_type(*arrays_and_dtypes):
    """The element type that arrays, types and numbers become together."""
    names = [_dtype_name(getattr(a, "dtype", a)) for a in arrays_and_dtypes
             if not isinstance(a, (int, float)) or hasattr(a, "dtype")]
    if not names:
        raise ValueError("result_type: give an array or an element type")
    made = names[0]
    for name in names[1:]:
        made = _promoted(made, name)
    for number in arrays_and_dtypes:
        if isinstance(number, float) and made not in _FLOATS and not hasattr(number, "dtype"):
            made = "float32"
        elif type(number) is int and made == "bool":
            made = "int64"
    return DTYPES[made]


# ---- creation ----

def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """A tensor of an array, nested lists or a number; copy=True: never itself."""
    if isinstance(obj, Tensor):
        made = obj if dtype is None else obj.astype(dtype)
        return made.clone() if made is obj and copy else made
    if copy is False and not isinstance(obj, Tensor):
        raise ValueError("asarray: what is no tensor has to be copied")
    if isinstance(obj, (list, tuple)) and _holds_tensors(obj):
        obj = _lists(obj)
    return _shoal.tensor(obj, dtype, device)


def _holds_tensors(value):
    return isinstance(value, Tensor) or isinstance(value, (list, tuple)) and _builtins.any(
        _holds_tensors(v) for v in value)


def _lists(value):
    return value.tolist() if isinstance(value, Tensor) else [_lists(v) for v in value] \
        if isinstance(value, (list, tuple)) else value


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """start, start + step, … below stop; nothing if the step leads away from it."""
    start, stop = (0, start) if stop is None else (start, stop)
    if step and (stop - start) * step < 0:
        stop = start
    return _shoal.arange(start, stop, step, dtype=dtype, device=device)


def empty(shape, *, dtype=None, device=None):
    """Zeros."""
    return zeros(shape, dtype=dtype, device=device)


def empty_like(x, /, *, dtype=None, device=None):
    """Zeros."""
    return _shoal.zeros_like(x, dtype)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """Ones on a diagonal of a matrix of zeros."""
    columns = n_rows if n_cols is None else n_cols
    rows = _shoal.arange(n_rows).reshape(-1, 1)
    return (_shoal.arange(columns).reshape(1, -1) - rows == k).astype(dtype or float32)


def from_dlpack(x, /, *, device=None, copy=None):
    """A tensor of anything with `__dlpack__`."""
    return x if isinstance(x, Tensor) and not copy else _shoal.from_dlpack(x)


def full(shape, fill_value, *, dtype=None, device=None):
    """A tensor of one value."""
    return _shoal.full(shape, fill_value, dtype, device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """One value in x's shape."""
    return _shoal.full_like(x, fill_value, dtype)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """num evenly spaced numbers from start to stop."""
    made = _shoal.linspace(start, stop, num if endpoint else num + 1, dtype="float64")
    return (made if endpoint else made[:-1]).astype(dtype or float32)


def meshgrid(*arrays, indexing="xy"):
    """Per vector a tensor of its values over the grid that all span."""
    return list(_shoal.meshgrid(*arrays, indexing=indexing))


def ones(shape, *, dtype=None, device=None):
    """Ones."""
    return _shoal.full(shape, 1, dtype or float32, device)


def ones_like(x, /, *, dtype=None, device=None):
    """Ones in x's shape."""
    return _shoal.ones_like(x, dtype)


def zeros(shape, *, dtype=None, device=None):
    """Zeros."""
    return _shoal.full(shape, 0, dtype or float32, device)


def zeros_like(x, /, *, dtype=None, device=None):
    """Zeros in x's shape."""
    return _shoal.zeros_like(x, dtype)


def tril(x, /, *, k=0):
    """The lower triangle."""
    return x.tril(k)


def triu(x, /, *, k=0):
    """The upper triangle."""
    return x.triu(k)


# ---- element by element ----

def _unary(name, method=None):
    def function(x, /):
        return getattr(x, method or name)()
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`Tensor.{method or name}`."
    return function


def _binary(name, method=None):
    def function(x1, x2, /):
        if not isinstance(x1, Tensor):
            x1 = x2._coerce(x1)
        return getattr(x1, method or name)(x2)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`Tensor.{method or name}`."
    return function


for _name in """abs acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor isfinite isinf isnan log
        log1p log2 log10 logical_not reciprocal round signbit sin sinh square sqrt tan tanh trunc""".split():
    globals()[_name] = _unary(_name)
for _name in """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign
        floor_divide hypot logaddexp logical_and logical_or logical_xor maximum minimum nextafter
        remainder""".split():
    globals()[_name] = _binary(_name)
bitwise_invert, negative = _unary("bitwise_invert", "bitwise_not"), _unary("negative", "neg")
divide, multiply, subtract, pow = (_binary(n, m) for n, m in (
    ("divide", "div"), ("multiply", "mul"), ("subtract", "sub"), ("pow", "pow")))
equal, not_equal, less, less_equal, greater, greater_equal = (_binary(n, m) for n, m in (
    ("equal", "eq"), ("not_equal", "ne"), ("less", "lt"), ("less_equal", "le"), ("greater", "gt"),
    ("greater_equal", "ge")))
del _name


def abs(x, /):
    """The absolute value; unsigned numbers are their own."""
    return x.abs()


def clip(x, /, min=None, max=None):
    """x, not below min and not above max; of x's element type."""
    if min is None and max is None:
        return x.clone()
    return x.clamp(min, max).astype(x.dtype)


def positive(x, /):
    """x"""
    return x.clone()


def real(x, /):
    """x"""
    return x


def conj(x, /):
    """x"""
    return x


def sign(x, /):
    """-1, 0 or 1; NaN for NaN."""
    return x._unary("sign") if x.dtype in _FLOATS else x.sign()


# ---- indexing, searching, sorting, sets ----

def take(x, indices, /, *, axis=None):
    """What lies at a vector of indices along an axis."""
    if axis is None and x.ndim != 1:
        raise ValueError(f"take: {x._text()} needs an axis")
    return x.take(indices, 0 if axis is None else axis)


def take_along_axis(x, indices, /, *, axis=-1):
    """What lies at indices along an axis, of the same number of axes."""
    return x.take_along(indices, axis)


def argmax(x, /, *, axis=None, keepdims=False):
    """The index of the largest."""
    return x.argmax(axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    """The index of the smallest."""
    return x.argmin(axis, keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many elements are not 0."""
    return _over((x != 0).astype("int64"), axis, keepdims, lambda y, axes: y._reduce("add", axes, keepdims))


def nonzero(x, /):
    """The indices of the elements that are not 0, a vector per axis."""
    if not x.ndim:
        raise ValueError("nonzero: of an array without axes")
    return x.nonzero(as_tuple=True)


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where in ascending numbers others would be put."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side {side!r} is neither left nor right")
    return x1.searchsorted(x2, side=side, sorter=sorter)


def where(condition, x1, x2, /):
    """x1 where the condition is true, else x2."""
    return _shoal.where(condition, x1, x2)


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """The indices that sort along an axis."""
    return x.argsort(axis, descending)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """Sorted along an axis."""
    return x.sort(axis, descending).values


UniqueAll = namedtuple("unique_all", "values indices inverse_indices counts")
UniqueCounts = namedtuple("unique_counts", "values counts")
UniqueInverse = namedtuple("unique_inverse", "values inverse_indices")


def unique_all(x, /):
    """(distinct values, where each is first, where each element's value stands, how often)."""
    import numpy
    values, first, inverse, counts = numpy.unique(x.numpy(), return_index=True, return_inverse=True,
                                                  return_counts=True, equal_nan=False)
    rest = (x.session.tensor(a.astype("int64")) for a in (first, inverse.reshape(x.shape), counts))
    return UniqueAll(x.session.tensor(values), *rest)


def unique_counts(x, /):
    """(distinct values, how often each is there)."""
    return UniqueCounts(*x.unique(return_counts=True))


def unique_inverse(x, /):
    """(distinct values, where each element's value stands)."""
    return UniqueInverse(*x.unique(return_inverse=True))


def unique_values(x, /):
    """The distinct values."""
    return x.unique()


# ---- shapes ----

def broadcast_arrays(*arrays):
    """All at their common shape."""
    return list(_shoal.broadcast_tensors(*arrays))


def broadcast_to(x, /, shape):
    """Repeated to a shape."""
    return x.broadcast_to(shape)


def concat(arrays, /, *, axis=0):
    """One after another along an axis; None: all elements of all."""
    arrays = list(arrays)
    return _shoal.cat([a.ravel() for a in arrays]) if axis is None else _shoal.cat(arrays, axis)


def expand_dims(x, /, *, axis=0):
    """With a new axis of length 1."""
    return x.unsqueeze(axis)


def flip(x, /, *, axis=None):
    """Axes from their end to their beginning."""
    return x.flip(axis) if axis is not None else x.flip()


def matrix_transpose(x, /):
    """The last two axes swapped."""
    return x.mT


def moveaxis(x, source, destination, /):
    """Axes moved to other places."""
    return x.movedim(source, destination)


def permute_dims(x, /, axes):
    """The axes in another order."""
    return x.permute(*axes)


def repeat(x, repeats, /, *, axis=None):
    """Each element repeated."""
    if isinstance(repeats, Tensor) and repeats.ndim == 0:
        repeats = int(repeats)
    if axis is None:
        x, axis = x.ravel(), 0
    return x.repeat_interleave(repeats, axis)


def reshape(x, /, shape, *, copy=None):
    """The same elements in another shape."""
    return (x.clone() if copy else x).reshape(shape)


def roll(x, /, shift, *, axis=None):
    """The elements moved on along axes."""
    return x.roll(shift, axis)


def squeeze(x, /, axis):
    """Without axes, which must be of length 1."""
    return x.squeeze(axis=axis)


def stack(arrays, /, *, axis=0):
    """Along a new axis."""
    return _shoal.stack(list(arrays), axis)


def tile(x, repetitions, /):
    """The whole repeated along each axis."""
    return x.tile(repetitions)


def unstack(x, /, *, axis=0):
    """The parts along an axis, without it."""
    return x.unbind(axis)


# ---- statistics ----

def _wide(x, dtype):
    """The type in which integers are added up: of 64 bits, signed or not."""
    if dtype is not None:
        return x.astype(dtype)
    if x.dtype in _FLOATS:
        return x
    return x.astype("uint64" if x.dtype.startswith("uint") else "int64")


def all(x, /, *, axis=None, keepdims=False):
    """Whether all elements are true."""
    return _over(x, axis, keepdims, lambda y, axes: (y != 0).all(axes, keepdims))


def any(x, /, *, axis=None, keepdims=False):
    """Whether an element is true."""
    return _over(x, axis, keepdims, lambda y, axes: (y != 0).any(axes, keepdims))


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """Sums up to each element along an axis."""
    return _cumulated(x, "add", axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """Products up to each element along an axis."""
    return _cumulated(x, "multiply", axis, dtype, include_initial)


def _cumulated(x, op, axis, dtype, initial):
    if axis is None and x.ndim != 1:
        raise ValueError(f"{x._text()} needs an axis")
    axis = _axis_of(0 if axis is None else axis, x.ndim)
    made = _core.cumulate(_wide(x, dtype), op, axis)
    if initial:
        shape = made.shape[:axis] + (1,) + made.shape[axis + 1:]
        made = _shoal.cat([_shoal.full(shape, int(op == "multiply"), made.dtype), made], axis)
    return made


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Differences of neighbours."""
    return x.diff(n, axis, prepend, append)


def max(x, /, *, axis=None, keepdims=False):
    """The largest."""
    return x.max(axis=axis, keepdims=keepdims)


def min(x, /, *, axis=None, keepdims=False):
    """The smallest."""
    return x.min(axis=axis, keepdims=keepdims)


def mean(x, /, *, axis=None, keepdims=False):
    """The mean."""
    return _over(x, axis, keepdims, lambda y, axes: y.mean(axes, keepdims))


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """The product."""
    return _over(_wide(x, dtype), axis, keepdims, lambda y, axes: y._reduce("multiply", axes, keepdims))


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """The sum."""
    return _over(_wide(x, dtype), axis, keepdims, lambda y, axes: y._reduce("add", axes, keepdims))


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The standard deviation."""
    return var(x, axis=axis, correction=correction, keepdims=keepdims).sqrt()


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The variance."""
    return _over(x, axis, keepdims, lambda y, axes: y._var_mean(axes, correction, keepdims)[0])


def _over(x, axis, keepdims, reduce):
    """A reduction; over no axes of what stands alone."""
    if axis == ():
        return reduce(x.unsqueeze(0), (0,)).reshape(x.shape)
    return reduce(x, axis)


# ---- products ----

def matmul(x1, x2, /):
    """The product of matrices."""
    if not x1.ndim or not x2.ndim:
        raise ValueError("matmul: of an array without axes")
    a, b = x1._alike(x2)
    return a @ b


def tensordot(x1, x2, /, *, axes=2):
    """Sums of products over axes."""
    return x1.tensordot(x2, axes)


def vecdot(x1, x2, /, *, axis=-1):
    """Sums of products along an axis."""
    a, b = x1._alike(x2)
    n, m = a.shape[axis], b.shape[axis]
    if n != m:
        raise ValueError(f"vecdot: {x1._text()} and {x2._text()} differ along axis {axis}")
    return _over(a * b, axis, False, lambda y, axes: y._reduce("add", axes, False))


class linalg:
    """The extension for linear algebra."""

    cholesky = staticmethod(lambda x, /, *, upper=False: _linalg.cholesky(x, upper=upper))
    cross = staticmethod(lambda x1, x2, /, *, axis=-1: x1.cross(x2, axis))
    det = staticmethod(lambda x, /: _linalg.det(x))
    diagonal = staticmethod(lambda x, /, *, offset=0: x.diagonal(offset, -2, -1))
    eigh = staticmethod(lambda x, /: _linalg.eigh(x))
    eigvalsh = staticmethod(lambda x, /: _linalg.eigvalsh(x))
    inv = staticmethod(lambda x, /: _linalg.inv(x))
    matmul = staticmethod(matmul)
    matrix_norm = staticmethod(
        lambda x, /, *, keepdims=False, ord="fro": _linalg.matrix_norm(x, ord, keepdim=keepdims))
    matrix_power = staticmethod(lambda x, n, /: x.matrix_power(n))
    matrix_rank = staticmethod(lambda x, /, *, rtol=None: _linalg.matrix_rank(x, rtol=rtol))
    matrix_transpose = staticmethod(matrix_transpose)
    outer = staticmethod(lambda x1, x2, /: x1.outer(x2))
    pinv = staticmethod(lambda x, /, *, rtol=None: _linalg.pinv(x, rtol=rtol))
    qr = staticmethod(lambda x, /, *, mode="reduced": _linalg.qr(x, mode))
    slogdet = staticmethod(lambda x, /: _linalg.slogdet(x))
    svd = staticmethod(lambda x, /, *, full_matrices=True: _linalg.svd(x, full_matrices))
    svdvals = staticmethod(lambda x, /: _linalg.svdvals(x))
    tensordot = staticmethod(tensordot)
    vecdot = staticmethod(vecdot)

    @staticmethod
    def solve(x1, x2, /):
        """X with x1 X = x2; a vector alone is one."""
        return _linalg.solve(x1, x2.unsqueeze(-1)).squeeze(-1) if x2.ndim == 1 else _linalg._Solve.apply(x1, x2)

    @staticmethod
    def trace(x, /, *, offset=0, dtype=None):
        """The sum of a diagonal."""
        return sum(x.diagonal(offset, -2, -1), axis=-1, dtype=dtype)

    @staticmethod
    def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
        """The ord-norm over axes."""
        return x.norm(ord, axis, keepdims)


def _refused(name):
    def function(*args, **keywords):
        """Not here: there are no complex numbers."""
        raise _invalid(f"{name}: there are no complex numbers")
    function.__name__ = name
    return function


imag = _refused("imag")
