"""Tensors out of nothing, out of data, and out of several others.

device: what `Tensor.to` takes, None for the planner's choice. requires_grad: whether gradients are
wanted. Shapes are numbers or one tuple: zeros(2, 3) or zeros((2, 3)).
"""
from . import _shoal
from .pool import session
from .tensor import Tensor
from .words import axis_of, dtype_name, invalid, shape_of, torch_words


def placed(x, device=None, requires_grad=False):
    """x on a device, or where the signal around says, wanting gradients or not."""
    x = _shoal.signal_adopt(x) if device is None else x.to(device)
    return x.requires_grad_() if requires_grad else x


def tensor(data, dtype=None, device=None, requires_grad=False):
    """A tensor from an array, any buffer, nested lists or a number; the data is copied.

    Without dtype: that of the array; float32 for floats, int64 for integers, bool for bools.
    """
    return placed(session().tensor(data, dtype), device, requires_grad)


def as_tensor(data, dtype=None):
    """A tensor as it is, or one from data."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.astype(dtype)
    return session().tensor(data, dtype)


def from_numpy(array):
    """A tensor that shares the array's memory; see `Session.from_numpy`."""
    return session().from_numpy(array)


def from_dlpack(data):
    """A tensor from anything with `__dlpack__` on the CPU (torch, JAX, NumPy, …).

    The memory is shared: see `Session.from_numpy`.
    """
    import numpy
    array = numpy.from_dlpack(data)
    return session().from_numpy(numpy.ascontiguousarray(array))


def full(shape, value, dtype=None, device=None, requires_grad=False):
    """A tensor of one value; of float32 unless the value is an integer or a bool."""
    if dtype is None:
        dtype = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else \
            "float32"
    return placed(session().full(shape, value, dtype), device, requires_grad)


def zeros(*shape, dtype="float32", device=None, requires_grad=False):
    """A tensor of zeros: zeros(2, 3) or zeros((2, 3))."""
    return full(shape_of(shape), 0, dtype or "float32", device, requires_grad)


def ones(*shape, dtype="float32", device=None, requires_grad=False):
    """A tensor of ones: ones(2, 3) or ones((2, 3))."""
    return full(shape_of(shape), 1, dtype or "float32", device, requires_grad)


def empty(*shape, dtype="float32", device=None, requires_grad=False):
    """Zeros: memory is never left as it was."""
    return zeros(*shape, dtype=dtype, device=device, requires_grad=requires_grad)


def zeros_like(x, dtype=None, requires_grad=False):
    """Zeros of x's shape, and of its element type unless another is given."""
    return full_like(x, 0, dtype, requires_grad)


def ones_like(x, dtype=None, requires_grad=False):
    """Ones of x's shape, and of its element type unless another is given."""
    return full_like(x, 1, dtype, requires_grad)


def empty_like(x, dtype=None, requires_grad=False):
    """`zeros_like`."""
    return full_like(x, 0, dtype, requires_grad)


def full_like(x, value, dtype=None, requires_grad=False):
    """One value in x's shape, and of its element type unless another is given."""
    return placed(x.session.full(x.shape, value, dtype or x.dtype), None, requires_grad)


def _iota(shape, axis, dtype="int64"):
    return _shoal.apply(session(), "iota", (), {"shape": shape, "iota_dimension": axis,
                                                "dtype": dtype_name(dtype)}, 1)[0]


def arange(start, stop=None, step=1, dtype=None, device=None, requires_grad=False):
    """start, start + step, … below stop: arange(stop), arange(start, stop), arange(start, stop, step).

    Without dtype: int64 when all are integers, else float32.
    """
    if stop is None:
        start, stop = 0, start
    if not step:
        raise invalid("arange: the step is 0")
    whole = all(isinstance(n, int) for n in (start, stop, step))
    dtype = dtype_name(dtype or ("int64" if whole else "float32"))
    count = max(0, -((start - stop) // step) if whole else _ceil((stop - start) / step))
    made = _iota((count,), 0, dtype)
    if step != 1:
        made = made * step
    return placed(made + start if start else made, device, requires_grad)


def _ceil(x):
    import math
    return math.ceil(x)


def linspace(start, stop, n, dtype="float32", device=None, requires_grad=False):
    """n numbers from start to stop, both included, at equal distances."""
    step = (stop - start) / (n - 1) if n > 1 else 0.0
    return placed(_iota((n,), 0, dtype) * step + start, device, requires_grad)


def eye(n, m=None, dtype="float32", device=None, requires_grad=False):
    """Ones on the diagonal of an n by m (None: n) matrix of zeros."""
    shape = (n, n if m is None else m)
    return placed((_iota(shape, 0) == _iota(shape, 1)).astype(dtype), device, requires_grad)


# ---- several as one ----

@torch_words
def cat(tensors, axis=0):
    """Tensors one after another along an axis; the other axes must agree."""
    tensors = list(tensors)
    if not tensors:
        raise invalid("cat: no tensors were given")
    axis = axis_of(axis, tensors[0].ndim, "cat")
    while len({t.dtype for t in tensors}) > 1:
        for i in range(1, len(tensors)):
            tensors[i - 1], tensors[i] = tensors[i - 1]._alike(tensors[i])
    return _shoal.apply(tensors[0].session, "concatenate", tensors, {"dimension": axis}, 1)[0]


concat = cat


@torch_words
def stack(tensors, axis=0):
    """Tensors of one shape along a new axis."""
    tensors = list(tensors)
    if not tensors:
        raise invalid("stack: no tensors were given")
    wrong = next((t for t in tensors if t.shape != tensors[0].shape), None)
    if wrong is not None:
        raise invalid(f"stack: {tensors[0]._text()} and {wrong._text()} differ in shape")
    return cat([t.unsqueeze(axis) for t in tensors], axis_of(axis, tensors[0].ndim + 1, "stack"))


def hstack(tensors):
    """One after another along the second axis; vectors along the first."""
    tensors = list(tensors)
    return cat(tensors, 0 if tensors and tensors[0].ndim == 1 else 1)


def vstack(tensors):
    """One below another; a vector is a row."""
    return cat([t.unsqueeze(0) if t.ndim == 1 else t for t in tensors])


def where(condition, yes, no):
    """`yes` where the condition is true, else `no`; broadcast."""
    like = yes if isinstance(yes, Tensor) else no if isinstance(no, Tensor) else condition
    if not isinstance(like, Tensor):
        raise TypeError("where: one of the three must be a Tensor")
    if like is condition:  # two numbers
        like = like.astype("float32" if float in (type(yes), type(no)) else "int64")
    a, b = like._coerce(yes)._alike(like._coerce(no))
    return _shoal.select(like._coerce(condition), a, b)


def matmul(a, b):
    """NumPy's matmul."""
    return a @ b


def embedding(indices, weight):
    """Rows of `weight` at integer `indices`: the shape of the indices, then the row's length."""
    return weight.take(indices, 0)


def broadcast_tensors(*tensors):
    """The tensors, all broadcast to their common shape."""
    from .indexing import _common_shape
    shape = _common_shape([t.shape for t in tensors])
    return tuple(t.broadcast_to(shape) for t in tensors)


def meshgrid(*tensors, indexing="ij"):
    """Per vector a tensor of its values over the grid that all of them span."""
    if indexing not in ("ij", "xy"):
        raise invalid(f"meshgrid: indexing '{indexing}' is neither 'ij' nor 'xy'")
    n, shape = len(tensors), tuple(t.size for t in tensors)
    made = [t.reshape((1,) * i + (t.size,) + (1,) * (n - i - 1)).broadcast_to(shape)
            for i, t in enumerate(tensors)]
    return tuple(t.transpose(0, 1) for t in made) if indexing == "xy" and n > 1 else tuple(made)
