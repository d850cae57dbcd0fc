"""Tensors out of nothing, out of data, and out of several others.

device: what `Tensor.to` takes, None for the planner's choice. requires_grad: whether gradients are
wanted. Shapes are numbers or one tuple: zeros(2, 3) or zeros((2, 3)).
"""
import builtins
import functools
import math

from . import _shoal
from .dtypes import DTYPES, Size
from .pool import session
from .tensor import Tensor
from .tensor import default as _defaults
from .words import (axis_of, check_tensor, common_shape, dtype_name, invalid, is_floating, promoted, shape_of, tensors_of,
                    torch_words, with_out)


def placed(x, device=None, requires_grad=False):
    """x on a device, or where the signal around says, wanting gradients or not."""
    x = _shoal.signal_adopt(x) if device is None else x.to(device)
    return x.requires_grad_() if requires_grad else x


def tensor(data, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A tensor from an array, any buffer, nested lists or a number; the data is copied.

    Without dtype: that of the array; the default one for floats, int64 for integers, bool for bools.
    """
    made = session().tensor(data, dtype)
    return placed(made._detach() if made is data else made, device, requires_grad)


def as_tensor(data, dtype=None, device=None):
    """A tensor as it is, or one from data."""
    if isinstance(data, Tensor):
        made = data if dtype is None else data.astype(dtype)
        return made if device is None else made.to(device)
    return tensor(data, dtype, device)


asarray = as_tensor


def scalar_tensor(value, dtype=None, device=None, requires_grad=False):
    """A tensor without axes, of the default type."""
    return tensor(value, dtype or default_dtype(), device, requires_grad)


def from_numpy(ndarray, copy=True):
    """A tensor of an array's elements, taken at the call: later changes of the array do not reach it.

    copy=False: the array's memory is used as it is; see `Session.from_numpy`.
    """
    return session().from_numpy(ndarray, copy)


def from_dlpack(ext_tensor):
    """A tensor of the elements of anything with `__dlpack__` on the CPU (torch, JAX, NumPy, …)."""
    import numpy
    return session().tensor(numpy.from_dlpack(ext_tensor))


def of_type(dtype, data):
    """What torch's old constructors make of their arguments: lengths are a shape, all else is data."""
    if len(data) == 1 and not isinstance(data[0], (int, Size)):
        return tensor(data[0], dtype)
    return zeros(*(data or (0,)), dtype=dtype)


def constructor(dtype, name):
    """torch's old constructor of an element type, such as LongTensor."""
    def make(*data):
        return of_type(dtype, data)
    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A tensor of {dtype}, of numbers or, given lengths, of zeros: an old way to write `tensor` and `zeros`."
    return make


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A vector of what lies in a buffer of bytes, from an offset on."""
    import numpy
    return placed(session().tensor(numpy.frombuffer(buffer, dtype_name(dtype), count, offset)), None,
                  requires_grad)


def default_dtype():
    """The element type of floating numbers where none is said."""
    return _defaults[0]


def get_default_dtype():
    """The element type of floating numbers where none is said: float32, unless set otherwise."""
    return DTYPES[_defaults[0]]


def set_default_dtype(d):
    """Sets the element type of floating numbers where none is said."""
    name = dtype_name(d)
    if not is_floating(name):
        raise TypeError(f"set_default_dtype: {name} is no floating type")
    _defaults[0] = name


@torch_words(size="shape", value="fill_value")
def full(shape, fill_value, dtype=None, device=None, requires_grad=False):
    """A tensor of one value; of the default type unless the value is an integer or a bool."""
    if dtype is None:
        dtype = "bool" if isinstance(fill_value, bool) else "int64" if isinstance(fill_value, int) else \
            getattr(fill_value, "dtype", None) or default_dtype()
    return placed(session().full(shape, fill_value, dtype), device, requires_grad)


def _filled(shape, size, value, dtype, device, requires_grad):
    shape = shape_of(shape) if size is None else shape_of((size,))
    return full(shape, value, dtype or default_dtype(), device, requires_grad)


def zeros(*shape, size=None, dtype=None, device=None, requires_grad=False, layout=None,
          pin_memory=False):
    """A tensor of zeros: zeros(2, 3) or zeros((2, 3))."""
    return _filled(shape, size, 0, dtype, device, requires_grad)


def ones(*shape, size=None, dtype=None, device=None, requires_grad=False, layout=None,
         pin_memory=False):
    """A tensor of ones: ones(2, 3) or ones((2, 3))."""
    return _filled(shape, size, 1, dtype, device, requires_grad)


def empty(*shape, size=None, dtype=None, device=None, requires_grad=False, layout=None,
          pin_memory=False, memory_format=None):
    """Zeros: memory is never left as it was."""
    return _filled(shape, size, 0, dtype, device, requires_grad)


def zeros_like(input, dtype=None, device=None, requires_grad=False, layout=None, memory_format=None):
    """Zeros of a tensor's shape, and of its element type unless another is given."""
    check_tensor(input, "zeros_like")
    return full_like(input, 0, dtype, device, requires_grad)


def ones_like(input, dtype=None, device=None, requires_grad=False, layout=None, memory_format=None):
    """Ones of a tensor's shape, and of its element type unless another is given."""
    check_tensor(input, "ones_like")
    return full_like(input, 1, dtype, device, requires_grad)


def empty_like(input, dtype=None, device=None, requires_grad=False, layout=None, memory_format=None):
    """`zeros_like`: memory is never left as it was."""
    check_tensor(input, "empty_like")
    return full_like(input, 0, dtype, device, requires_grad)


@torch_words(value="fill_value")
def full_like(input, fill_value, dtype=None, device=None, requires_grad=False, layout=None,
              memory_format=None):
    """One value in a tensor's shape, and of its element type unless another is given."""
    check_tensor(input, "full_like")
    return placed(input.session.full(input.shape, fill_value, dtype or input.dtype), device, requires_grad)


def _iota(shape, axis, dtype="int64"):
    return _shoal.apply(session(), "iota", (), {"shape": shape, "iota_dimension": axis,
                                                "dtype": dtype_name(dtype)}, 1)[0]


@torch_words(stop="end")
def arange(start, end=None, step=1, dtype=None, device=None, requires_grad=False, layout=None):
    """start, start + step, … below end: arange(end), arange(start, end), arange(start, end, step).

    Without dtype: int64 when all are integers, else the default one. InvalidError if the step leads away from end.
    """
    start, end, step = (n.item() if hasattr(n, "item") else n for n in (start, end, step))
    if end is None:
        start, end = 0, start
    if not step:
        raise invalid("arange: the step is 0")
    if (end - start) * step < 0:
        raise invalid(f"arange: from {start} a step of {step} never reaches {end}")
    whole = all(isinstance(n, int) for n in (start, end, step))
    dtype = dtype_name(dtype or ("int64" if whole else default_dtype()))
    count = max(0, -((start - end) // step) if whole else math.ceil((end - start) / step))
    wide = "float64" if not whole and is_floating(dtype) else dtype
    made = _iota((count,), 0, wide)
    if step != 1:
        made = made * step
    made = made + start if start else made
    return placed(made.astype(dtype), device, requires_grad)


def range(start, end, step=1, dtype=None, device=None, requires_grad=False):
    """start, start + step, … up to end, included, as floating numbers."""
    if not step or (end - start) / step < 0:
        raise invalid(f"range: from {start} to {end} in steps of {step}")
    count = int((end - start) // step) + 1
    return placed((_iota((count,), 0, "float64") * step + start).astype(dtype or default_dtype()), device,
                  requires_grad)


@torch_words(stop="end", n="steps", num="steps")
def linspace(start, end, steps, dtype=None, device=None, requires_grad=False, layout=None):
    """`steps` evenly spaced numbers from start to end, both included."""
    return placed(_line(start, end, steps).astype(dtype or default_dtype()), device, requires_grad)


def _line(start, end, steps):
    start, end = (n.item() if hasattr(n, "item") else n for n in (start, end))
    at = _iota((steps,), 0, "float64")
    if steps < 2:
        return at + start
    step = (end - start) / (steps - 1)
    # From the nearer end, so that both ends are exact.
    return _shoal.select(at < steps / 2, at * step + start, (at - (steps - 1)) * step + end)


def logspace(start, end, steps, base=10.0, dtype=None, device=None, requires_grad=False):
    """base to the powers that `linspace` gives: evenly spaced on a logarithmic scale."""
    made = (_line(start, end, steps) * math.log(base)).exp()
    return placed(made.astype(dtype or default_dtype()), device, requires_grad)


def eye(n, m=None, dtype=None, device=None, requires_grad=False, layout=None):
    """Ones on the diagonal of an n by m (None: n) matrix of zeros."""
    shape = (n, n if m is None else m)
    made = (_iota(shape, 0) == _iota(shape, 1)).astype(dtype or default_dtype())
    return placed(made, device, requires_grad)


def tril_indices(row, col, offset=0, dtype="int64", device=None):
    """The rows and columns of a matrix's lower triangle, up to a diagonal: (2, count)."""
    return _triangle(row, col, dtype, lambda i, j: j - i <= offset)


def triu_indices(row, col, offset=0, dtype="int64", device=None):
    """The rows and columns of a matrix's upper triangle, from a diagonal on: (2, count)."""
    return _triangle(row, col, dtype, lambda i, j: j - i >= offset)


def _triangle(row, col, dtype, inside):
    if row < 0 or col < 0:
        raise invalid(f"a triangle of {row} rows and {col} columns: neither may be negative")
    pairs = [(i, j) for i in builtins.range(row) for j in builtins.range(col) if inside(i, j)]
    return session().tensor([[i for i, _ in pairs], [j for _, j in pairs]], dtype)


def _window(window_length, periodic, dtype, requires_grad, make):
    n = window_length if periodic else window_length - 1
    turn = _iota((window_length,), 0, "float64") * (2 * math.pi / max(n, 1))
    made = make(turn, n) if window_length > 1 else turn + 1
    return placed(made.astype(dtype or default_dtype()), None, requires_grad)


def hann_window(window_length, periodic=True, dtype=None, requires_grad=False):
    """(1 - cos) / 2 over a period."""
    return _window(window_length, periodic, dtype, requires_grad, lambda t, n: 0.5 - t.cos() * 0.5)


def hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, dtype=None, requires_grad=False):
    """alpha - beta cos over a period."""
    return _window(window_length, periodic, dtype, requires_grad, lambda t, n: alpha - t.cos() * beta)


def blackman_window(window_length, periodic=True, dtype=None, requires_grad=False):
    """0.42 - 0.5 cos + 0.08 cos of the double angle over a period."""
    return _window(window_length, periodic, dtype, requires_grad,
                   lambda t, n: 0.42 - t.cos() * 0.5 + (t * 2).cos() * 0.08)


def bartlett_window(window_length, periodic=True, dtype=None, requires_grad=False):
    """A triangle over a period."""
    return _window(window_length, periodic, dtype, requires_grad,
                   lambda t, n: 1 - abs(t * (1 / math.pi) - 1))


# ---- several as one ----

@torch_words
def cat(tensors, axis=0):
    """Tensors one after another along an axis; the other axes must agree."""
    tensors = tensors_of(tensors, "cat")
    if not tensors:
        raise invalid("cat: no tensors were given")
    if len({t.ndim for t in tensors}) > 1:  # torch: an empty vector is left out
        tensors = [t for t in tensors if t.shape != (0,)] or tensors
    axis = axis_of(axis, tensors[0].ndim, "cat")
    kinds = {t.dtype for t in tensors}
    if len(kinds) > 1:
        kind = functools.reduce(promoted, kinds)
        tensors = [t.astype(kind) for t in tensors]
    return _shoal.apply(tensors[0].session, "concatenate", tensors, {"dimension": axis}, 1)[0]


concat = concatenate = cat


@torch_words
def stack(tensors, axis=0):
    """Tensors of one shape along a new axis."""
    tensors = tensors_of(tensors, "stack")
    if not tensors:
        raise invalid("stack: no tensors were given")
    shape = tensors[0].shape
    wrong = next((t for t in tensors if t.shape != shape), None)
    if wrong is not None:
        raise invalid(f"stack: {tensors[0]._text()} and {wrong._text()} differ in shape")
    axis = axis_of(axis, len(shape) + 1, "stack")
    # Not by `unsqueeze`: each would be noted as a view, and nobody but `cat` sees it.
    attributes = {"shape": (*shape[:axis], 1, *shape[axis:])}
    return cat([_shoal.apply(t.session, "reshape", (t,), attributes, 1)[0] for t in tensors], axis)


def _atleast(tensors, change):
    tensors = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    made = tuple(change(t) for t in tensors)
    return made


def atleast_1d(*tensors):
    """A tensor, or several, with one axis at least."""
    made = _atleast(tensors, lambda t: t if t.ndim else t.reshape(1))
    return made[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else made


def atleast_2d(*tensors):
    """A tensor, or several, with two axes at least: a vector is a row."""
    made = _atleast(tensors, lambda t: t if t.ndim > 1 else t.reshape(1, -1))
    return made[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else made


def atleast_3d(*tensors):
    """A tensor, or several, with three axes at least: a matrix has a new last axis."""
    def wide(t):
        return t if t.ndim > 2 else t.unsqueeze(-1) if t.ndim == 2 else t.reshape(1, -1, 1)
    made = _atleast(tensors, wide)
    return made[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else made


def hstack(tensors):
    """One after another along the second axis; vectors along the first."""
    tensors = atleast_1d(tensors_of(tensors, "hstack"))
    return cat(tensors, 0 if tensors and tensors[0].ndim == 1 else 1)


def vstack(tensors):
    """One below another; a vector is a row."""
    return cat(atleast_2d(tensors_of(tensors, "vstack")))


row_stack = vstack


def dstack(tensors):
    """One behind another, along the third axis."""
    return cat(atleast_3d(tensors_of(tensors, "dstack")), 2)


def column_stack(tensors):
    """One beside another; a vector is a column."""
    return cat([t.reshape(-1, 1) if t.ndim < 2 else t for t in tensors_of(tensors, "column_stack")], 1)


def block_diag(*tensors):
    """Matrices on the diagonal of a large one, zeros beside."""
    blocks = atleast_2d(tensors_of(tensors, "block_diag"))
    width, rows, left = sum(b.shape[1] for b in blocks), [], 0
    for b in blocks:
        rows.append(b.pad((0, left), (0, width - left - b.shape[1])))
        left += b.shape[1]
    return cat(rows)


def cartesian_prod(*tensors):
    """All combinations of elements of vectors, one row each."""
    for t in tensors:
        _need_vector(t, "cartesian_prod")
    if len(tensors) == 1:
        return tensors[0]
    return stack([t.ravel() for t in meshgrid(*tensors)], 1)


def _need_vector(x, what):
    if x.ndim != 1:
        raise invalid(f"{what}: {x._text()} is no vector")


def combinations(input, r=2, with_replacement=False):
    """All choices of r elements of a vector, one row each."""
    import itertools
    _need_vector(input, "combinations")
    if r < 0:
        raise invalid(f"combinations: of {r} elements; it must not be negative")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    at = list(choose(builtins.range(input.shape[0]), r))
    if not at:
        return input.session.full((0, r), 0, input.dtype)
    return input.take(session().tensor(at, "int64"), 0)


def vander(x, N=None, increasing=False):
    """Rows of the powers of each element: N of them, descending unless increasing."""
    n = x.shape[-1] if N is None else N
    x = x._countable()
    powers = [x ** k for k in builtins.range(n)]
    return stack(powers if increasing else powers[::-1], -1)


@torch_words(x="input", y="other", yes="input", no="other")
def where(condition, input=None, other=None):
    """`input` where the condition is true, else `other`; broadcast. The condition alone: the indices where
    it is true, a vector per axis."""
    if input is None and other is None:
        check_tensor(condition, "where", "the condition")
        return condition.nonzero(as_tuple=True)
    like = input if isinstance(input, Tensor) else other if isinstance(other, Tensor) else condition
    if not isinstance(like, Tensor):
        raise TypeError("where: one of the three must be a Tensor")
    if like is condition:  # two numbers
        kinds = (type(input), type(other))
        like = like.astype(default_dtype() if float in kinds else "bool" if kinds == (bool, bool) else
                           "int64")
    a, b = like._coerce(input, "where")._alike(like._coerce(other, "where"))
    return _shoal.select(like._coerce(condition, "where").astype("bool"), a, b)


def matmul(input, other):
    """The product of matrices, as NumPy's matmul: (…, N, M) by (…, M, P) gives (…, N, P); a vector is a row on the
    left, a column on the right."""
    return input @ other


def embedding(indices, weight):
    """Rows of `weight` at integer `indices`: the shape of the indices, then the row's length."""
    return weight.take(indices, 0)


def broadcast_shapes(*shapes):
    """The shape that several broadcast to."""
    return Size(common_shape([(s,) if isinstance(s, int) else tuple(s) for s in shapes], "broadcast_shapes: the shapes"))


def broadcast_tensors(*tensors):
    """The tensors, all broadcast to their common shape."""
    tensors = tensors_of(tensors, "broadcast_tensors")
    shape = common_shape([t.shape for t in tensors], "broadcast_tensors: the shapes")
    return tuple(t.broadcast_to(shape) for t in tensors)


def meshgrid(*tensors, indexing="ij"):
    """Per vector a tensor of its values over the grid that all of them span."""
    if indexing not in ("ij", "xy"):
        raise invalid(f"meshgrid: indexing '{indexing}' is neither 'ij' nor 'xy'")
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    if not tensors:
        raise invalid("meshgrid: give at least one vector")
    for t in tensors:
        if t.ndim > 1:
            raise invalid(f"meshgrid: {t._text()} is no vector")
    n, shape = len(tensors), tuple(t.numel() for t in tensors)
    made = [t.reshape((1,) * i + (t.numel(),) + (1,) * (n - i - 1)).broadcast_to(shape)
            for i, t in enumerate(tensors)]
    return tuple(t.transpose(0, 1) for t in made) if indexing == "xy" and n > 1 else tuple(made)


for _name in """arange cat concat concatenate eye empty full hstack linspace logspace matmul ones stack vstack
        where zeros""".split():
    globals()[_name] = with_out(globals()[_name])
