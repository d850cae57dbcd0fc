"""Shoal: one tensor computer out of whatever machines you have.

    import shoal

    a = shoal.tensor([[1.0, 2.0], [3.0, 4.0]])
    print((a @ a).tolist())

Without an address everything runs inside this process; `shoal.connect("shm:hub")`, or the variable
SHOAL_HUB, uses a pool. Operations are recorded and run when a value is read.
"""
import atexit
import os
import weakref
from dataclasses import dataclass, field

from . import _shoal
from .errors import (BusyError, ClosedError, DeadlineError, DeniedError, FormatError,
                     InternalError, InvalidError, IOFailedError, LostError, NotFoundError,
                     OutOfMemoryError, ShoalError, UnsupportedError, VersionError)
from .errors import CLASSES as _CLASSES
from .tensor import Tensor, dtype_name, from_data
from . import methods as _methods

__version__, _statuses, _ = _shoal.names()
_shoal.setup(tuple(_CLASSES[name] for name in _statuses), Tensor,
             os.path.dirname(os.path.abspath(__file__)))

__all__ = [
    "Session", "Tensor", "File", "Slot", "Pool", "arange", "cat", "connect", "disconnect",
    "embedding", "explain", "eye", "from_dlpack", "from_numpy", "full", "full_like", "init",
    "linspace", "load", "matmul", "ones", "ones_like", "operations", "rand", "randbits", "randint", "randn",
    "save", "session", "stack", "status", "sync", "tensor", "tril", "triu",
    "where", "zeros", "zeros_like", "ShoalError",
    "InvalidError", "UnsupportedError", "OutOfMemoryError", "NotFoundError", "FormatError",
    "IOFailedError", "DeadlineError", "LostError", "ClosedError", "VersionError", "DeniedError",
    "BusyError", "InternalError",
]


@dataclass(frozen=True)
class Slot:
    """A device that can hold parts of tensors; `compute` is false for a client's memory."""
    slot: int
    pid: int
    worker: str
    host: str
    backend: str
    device: str
    threads: int
    compute: bool
    weight: float
    memory: int
    bytes: int
    instances: int
    busy_ns: int
    nodes: int
    sent: int  # bytes that went to other slots, and came from them
    received: int


@dataclass(frozen=True)
class Pool:
    """The state of a pool."""
    version: str
    address: str
    epoch: int
    instances: int
    uptime_ms: int
    values: int
    bytes: int
    sessions: int
    slots: list = field(default_factory=list)


_open_sessions = weakref.WeakSet()


class Session(_shoal.Session):
    """A connection to a pool: at an address, or of its own inside this process.

    hub: the address; None: the variable SHOAL_HUB, else embedded. workers, threads, backend: of an
    embedded pool. timeout_ms: of every wait. Raises NotFoundError when no hub answers.
    """

    def __init__(self, hub=None, workers=0, threads=0, backend=None, timeout_ms=0, name=None):
        super().__init__(hub=hub, workers=workers, threads=threads, backend=backend,
                         timeout_ms=timeout_ms, name=name)
        _open_sessions.add(self)

    def tensor(self, data, dtype=None):
        """A tensor from an array, any buffer, nested lists or a number; the data is copied."""
        return from_data(self, data, dtype)

    def from_numpy(self, array):
        """A tensor that shares the array's memory: leave it unchanged until it has been used."""
        return from_data(self, array, borrow=True)

    def full(self, shape, value, dtype="float32"):
        """A tensor of one value."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        scalar = from_data(self, value, dtype)
        return scalar.broadcast_to(shape) if shape else scalar

    def status(self):
        """The state of the pool and its slots."""
        rows = self._status()
        rows["slots"] = [Slot(**row) for row in rows["slots"]]
        return Pool(**rows)

    def compute_slots(self):
        """The number of slots that compute."""
        return sum(slot.compute for slot in self.status().slots)


class File(_shoal.File):
    """An open .npy or .gguf file: `tensors()`, `meta(key, index=0)`, `load(name)`."""

    def load(self, name=None, in_session=None):
        """A tensor of the file; name None: the only one."""
        return self._load(in_session or session(), name)


_default = None


def session():
    """The default session, opened when it is first needed."""
    global _default
    if _default is None:
        _default = Session()
    return _default


def connect(address, timeout_ms=0, name=None):
    """Makes the pool at `address` the default."""
    global _default
    disconnect()
    _default = Session(hub=address, timeout_ms=timeout_ms, name=name)
    return _default


def init(workers=0, threads=0, backend=None):
    """Makes a pool inside this process the default."""
    global _default
    disconnect()
    _default = Session(hub="embedded", workers=workers, threads=threads, backend=backend)
    return _default


def disconnect():
    """Closes the default session; its tensors can no longer be read."""
    global _default
    if _default is not None:
        _default.close()
        _default = None


@atexit.register
def _close_all():
    # Buffers that sessions borrow are given back while there is an interpreter to do it.
    for open_session in list(_open_sessions):
        open_session.close()


def tensor(data, dtype=None):
    """A tensor from an array, any buffer, nested lists or a number; the data is copied.

    Without dtype: that of the array; float32 for floats, int64 for integers, bool for bools.
    """
    return session().tensor(data, dtype)


def from_numpy(array):
    """A tensor that shares the array's memory: leave it unchanged until it has been used."""
    return session().from_numpy(array)


def from_dlpack(data):
    """A tensor from anything with `__dlpack__` on the CPU (torch, JAX, NumPy, …).

    The memory is shared: leave it unchanged until the tensor has been used.
    """
    import numpy
    array = numpy.from_dlpack(data)
    return session().from_numpy(numpy.ascontiguousarray(array))


def full(shape, value, dtype="float32"):
    """A tensor of one value."""
    return session().full(shape, value, dtype)


def zeros(*shape, dtype="float32"):
    """A tensor of zeros: zeros(2, 3) or zeros((2, 3))."""
    return full(shape[0] if len(shape) == 1 else shape, 0, dtype)


def ones(*shape, dtype="float32"):
    """A tensor of ones: ones(2, 3) or ones((2, 3))."""
    return full(shape[0] if len(shape) == 1 else shape, 1, dtype)


def arange(stop, dtype="int64"):
    """0, 1, …, stop - 1."""
    return _shoal.apply(session(), "iota", (), {"shape": (stop,), "iota_dimension": 0,
                                                "dtype": dtype_name(dtype)}, 1)[0]


def cat(tensors, axis=0):
    """Tensors one after another along an axis; the other axes must agree."""
    tensors = list(tensors)
    if not tensors:
        raise InvalidError("cat: no tensors were given")
    first = tensors[0]
    axis = axis + first.ndim if axis < 0 else axis
    return _shoal.apply(first.session, "concatenate", tensors, {"dimension": axis}, 1)[0]


def stack(tensors, axis=0):
    """Tensors of one shape along a new axis."""
    return cat([t.unsqueeze(axis) for t in tensors], axis)


def zeros_like(x, dtype=None):
    """Zeros of x's shape, and of its element type unless another is given."""
    return x.session.full(x.shape, 0, dtype or x.dtype)


def ones_like(x, dtype=None):
    """Ones of x's shape, and of its element type unless another is given."""
    return x.session.full(x.shape, 1, dtype or x.dtype)


def full_like(x, value, dtype=None):
    """One value in x's shape, and of its element type unless another is given."""
    return x.session.full(x.shape, value, dtype or x.dtype)


def _iota(shape, axis):
    return _shoal.apply(session(), "iota", (), {"shape": shape, "iota_dimension": axis,
                                                "dtype": "int64"}, 1)[0]


def eye(n, m=None, dtype="float32"):
    """Ones on the diagonal of an n by m (None: n) matrix of zeros."""
    shape = (n, n if m is None else m)
    return (_iota(shape, 0) == _iota(shape, 1)).astype(dtype)


def linspace(start, stop, n, dtype="float32"):
    """n numbers from start to stop, both included, at equal distances."""
    step = (stop - start) / (n - 1) if n > 1 else 0.0
    return arange(n, dtype) * step + start


def _triangle(x, diagonal, lower):
    shape = x.shape[-2:]
    distance = _iota(shape, 1) - _iota(shape, 0)
    keep = distance <= diagonal if lower else distance >= diagonal
    return _shoal.select(keep, x, x._coerce(0))


def tril(x, diagonal=0):
    """The last two axes' lower triangle, up to a diagonal; zeros above."""
    return _triangle(x, diagonal, True)


def triu(x, diagonal=0):
    """The last two axes' upper triangle, from a diagonal on; zeros below."""
    return _triangle(x, diagonal, False)


def embedding(indices, weight):
    """Rows of `weight` at integer `indices`: the shape of the indices, then the row's length."""
    return weight.take(indices, 0)


def rand(*shape, dtype="float32", seed=0, stream=0):
    """Numbers evenly spread over [0, 1): rand(2, 3, seed=7) or rand((2, 3), seed=7).

    They depend on seed, stream (integers or integer scalars) and an element's place alone: not on
    how the tensor is spread. Philox4x32-10 (Salmon et al., 2011).
    """
    shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    return _methods.random(session(), shape, "UNIFORM", dtype_name(dtype), seed, stream)


def randn(*shape, dtype="float32", seed=0, stream=0):
    """Numbers of the normal distribution with mean 0 and variance 1; as `rand`."""
    shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    return _methods.random(session(), shape, "NORMAL", dtype_name(dtype), seed, stream)


def randbits(*shape, dtype="uint32", seed=0, stream=0):
    """Integers or bools of random bits; as `rand`."""
    shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    return _methods.random(session(), shape, "BITS", dtype_name(dtype), seed, stream)


def randint(low, high, shape, dtype="int64", seed=0, stream=0):
    """Integers from low to high - 1; as `rand`. The remainder of 64 bits: nearly even."""
    bits = _methods.random(session(), shape, "BITS", "uint64", seed, stream)
    return bits.fmod(high - low).astype(dtype) + low


def operations():
    """The table of operations: (name, category, summary) of each."""
    return _shoal.operations()


def where(condition, yes, no):
    """`yes` where the condition is true, else `no`; broadcast."""
    like = yes if isinstance(yes, Tensor) else no
    if not isinstance(like, Tensor):
        raise TypeError("where: one of the two must be a Tensor")
    return _shoal.select(condition, like._coerce(yes), like._coerce(no))


def matmul(a, b):
    """NumPy's matmul."""
    return a @ b


def sync():
    """Waits until everything recorded has run; raises the first failure since the last sync."""
    session().sync()


def status():
    """The state of the pool and its slots."""
    return session().status()


def explain(value, json=False):
    """The plan for computing and reading a value; nothing runs."""
    return value.explain(json)


def load(path, name=None):
    """A tensor from a .npy or .gguf file; name None: the only one."""
    return File(path).load(name)


def save(path, value):
    """Writes a .npy."""
    data = bytearray(value.nbytes)
    value._read(data)
    _shoal.write_npy(path, value.dtype, value.shape, data)


for _name in _methods.FUNCTIONS:
    globals()[_name] = _methods.function_of(_name)
__all__ += _methods.FUNCTIONS
