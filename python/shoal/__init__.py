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

__version__, _statuses, _ = _shoal.names()
_shoal.setup(tuple(_CLASSES[name] for name in _statuses), Tensor,
             os.path.dirname(os.path.abspath(__file__)))

__all__ = [
    "Session", "Tensor", "File", "Slot", "Pool", "arange", "cat", "connect", "disconnect",
    "explain", "from_dlpack", "from_numpy", "full", "init", "load", "maximum", "matmul", "minimum",
    "ones", "save", "session", "status", "sync", "tensor", "where", "zeros", "ShoalError",
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
    """A tensor from anything with `__dlpack__` on the CPU."""
    import numpy
    return tensor(numpy.from_dlpack(data))


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


def where(condition, yes, no):
    """`yes` where the condition is true, else `no`; broadcast."""
    like = yes if isinstance(yes, Tensor) else no
    if not isinstance(like, Tensor):
        raise TypeError("where: one of the two must be a Tensor")
    return _shoal.select(condition, like._coerce(yes), like._coerce(no))


def matmul(a, b):
    """NumPy's matmul."""
    return a @ b


def maximum(a, b):
    """The larger of two, element by element."""
    return a.maximum(b)


def minimum(a, b):
    """The smaller of two, element by element."""
    return a.minimum(b)


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
