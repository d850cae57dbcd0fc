"""Sessions: connections to a pool, at an address or inside this process, and what a pool tells."""
import atexit
import itertools
import weakref
from collections import namedtuple

from . import _shoal
from .tensor import from_data


def _record(shown):
    """A named tuple of what a class annotates. A dataclass would need `inspect`, a tenth of what starting takes."""
    made = namedtuple(shown.__name__, shown.__annotations__, module=shown.__module__)
    made.__doc__, made.__annotations__ = shown.__doc__, shown.__annotations__
    return made


@_record
class Slot:
    """A device that can hold parts of tensors; `compute` is false for a client's memory."""
    slot: int
    pid: int
    worker: str
    host: str
    backend: str
    name: str  # of the device, as `shoal worker --device` takes it: "opencl:1"
    device: str  # what it is
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
    queued: int  # programs handed out to it that are not through
    relayed: int  # bytes that its process received through the hub
    paths: int  # connections that its process has with the hub, used together
    paths_lost: int  # such that ended while others went on
    fetching: int  # bytes of a file that its process fetches from another; 0: none
    fetched: int  # and of these, that are there
    maps: bool  # it is of this user on this machine, and computes with files where they lie
    machine: int  # bytes of its machine's memory, or of what its control group may take of it; 0: unknown
    weighted: bool  # its weight was given (`shoal worker --weight`), not measured


@_record
class Path:
    """A connection of a process with another, which may have several, each by a network of its own."""
    worker: str  # whose it is: each end tells of what it has sent
    other: str  # with whom: "hub" or a name
    address: str
    speed: float  # bytes a second that went out while there was enough to send; 0: not measured
    sent: int  # bytes
    saved: int  # bytes that did not have to go out, as they were compressed


@_record
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
    losses: int
    reruns: int
    pool: int  # random, of this hub: one that takes its place has another
    slots: "list[Slot]"
    paths: "list[Path]"  # as their ends have told in the last seconds


@_record
class Counts:
    """What a session has sent: programs run, and how many of these were new, not replayed."""
    programs: int
    fresh: int


_open_sessions = weakref.WeakSet()
_serials = itertools.count()


class Session(_shoal.Session):
    """A connection to a pool: at an address, or of its own inside this process.

    hub: the address; None: the variable SHOAL_HUB, else embedded. workers, threads, backend: of an
    embedded pool. timeout_ms: of every wait. spare: most bytes of this process's memory for copies
    of what workers hold, so that losing one loses nothing; 0: a quarter of the machine's. Raises
    NotFoundError when no hub answers.
    """

    def __init__(self, hub=None, workers=0, threads=0, backend=None, timeout_ms=0, name=None,
                 spare=0):
        super().__init__(hub=hub, workers=workers, threads=threads, backend=backend,
                         timeout_ms=timeout_ms, name=name, spare=spare)
        self.serial = next(_serials)  # tells what is numbered within a session from that of another
        _open_sessions.add(self)

    def tensor(self, data, dtype=None):
        """A tensor from an array, any buffer, nested lists or a number; the data is copied."""
        return from_data(self, data, dtype)

    def from_numpy(self, array, copy=True):
        """A tensor of an array's elements, taken at the call.

        copy=False: the array's memory is used as it is, which saves a copy of large ones. Leave the array
        unchanged then while the tensor lives, or what was computed from it: should a worker be lost,
        that is computed from the array again.
        """
        return from_data(self, array, borrow=not copy)

    def full(self, shape, value, dtype="float32"):
        """A tensor of one value."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        scalar = from_data(self, value, dtype)
        return _shoal.broadcast(scalar, shape) if shape else scalar

    def status(self):
        """The state of the pool and its slots."""
        rows = self._status()
        rows["slots"] = [Slot(**row) for row in rows["slots"]]
        rows["paths"] = [Path(**row) for row in self._paths()]
        return Pool(**rows)

    def counts(self):
        """What has been sent since the session was opened."""
        return Counts(*self._counts())

    def tape(self):
        """The operations that gradients would pass through, the oldest first: (number of the result,
        operation, numbers of operands, shape, dtype, line of the program) of each."""
        return self._tape()

    def compute_slots(self):
        """The numbers of the slots that compute, in ascending order."""
        return [slot.slot for slot in self.status().slots if slot.compute]

    def find_slots(self, names):
        """The numbers of slots by their names: "desk", "desk/opencl", "/opencl:1", or numbers.

        Each name takes the first slot that fits and that no earlier one has taken, so that a machine may be named
        once for each of its devices. NotFoundError lists what there is.
        """
        return self._find([str(name) for name in names])

    def weigh_slots(self, slots=None, dtype="float32"):
        """In proportion to which slots get work of a type when nobody says how much: by the weights that workers
        were given, or else by their speeds, which are measured if they have not been."""
        slots = self.compute_slots() if slots is None else self.find_slots(slots)
        return self._weigh(str(dtype), slots)


_default = None


def session():
    """The default session, opened when it is first needed."""
    global _default
    if _default is None:
        _default = Session()
    return _default


def connect(address, timeout_ms=0, name=None, spare=0):
    """Makes the pool at `address` the default; see `Session`."""
    global _default
    disconnect()
    _default = Session(hub=address, timeout_ms=timeout_ms, name=name, spare=spare)
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
    # Buffers that sessions borrow are released while there is an interpreter to do it.
    for open_session in list(_open_sessions):
        open_session.close()


def sync():
    """Waits until everything recorded has run; raises the first failure since the last sync."""
    session().sync()


def status():
    """The state of the pool and its slots."""
    return session().status()


def explain(value, json=False):
    """The plan for computing and reading a value; nothing runs."""
    return value.explain(json)


def operations():
    """The table of operations: (name, category, summary) of each."""
    return _shoal.operations()
