"""Types of `shoal.pool`. Written by tools/stubs.py."""
from typing import Any, NamedTuple
from .tensor import Tensor, _DType, _Operand, _Shape

class Counts(NamedTuple):
    programs: int
    fresh: int


class Path(NamedTuple):
    worker: str
    other: str
    address: str
    speed: float
    sent: int
    saved: int


class Pool(NamedTuple):
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
    pool: int
    slots: list[Slot]
    paths: list[Path]


class Session:
    serial: Any
    def __init__(
        self, hub: str | None = None, workers: int = 0, threads: int = 0, backend: str | None = None,
        timeout_ms: int = 0, name: str | None = None, spare: int = 0
    ) -> None: ...
    def close(self) -> None: ...
    def compute_slots(self) -> list[int]: ...
    def counts(self) -> Counts: ...
    def find_slots(self, names: Any) -> list[int]: ...
    def from_numpy(self, array: Any, copy: bool = True) -> Tensor: ...
    def full(self, shape: _Shape, value: _Operand, dtype: _DType = 'float32') -> Tensor: ...
    def status(self) -> Pool: ...
    def sync(self) -> None: ...
    def tape(self) -> list[tuple[int, str, tuple[int, ...], tuple[int, ...], str, str]]: ...
    def tensor(self, data: _Operand, dtype: _DType | None = None) -> Tensor: ...
    def weigh_slots(self, slots: Any = None, dtype: _DType = 'float32') -> list[float]: ...


class Slot(NamedTuple):
    slot: int
    pid: int
    worker: str
    host: str
    backend: str
    name: str
    device: str
    threads: int
    compute: bool
    weight: float
    memory: int
    bytes: int
    instances: int
    busy_ns: int
    nodes: int
    sent: int
    received: int
    queued: int
    relayed: int
    paths: int
    paths_lost: int
    fetching: int
    fetched: int
    maps: bool
    machine: int
    weighted: bool

def connect(address: str, timeout_ms: int = 0, name: str | None = None, spare: int = 0) -> Session: ...
def disconnect() -> None: ...
def explain(value: _Operand, json: bool = False) -> str: ...
def init(workers: int = 0, threads: int = 0, backend: str | None = None) -> Session: ...
def operations() -> list[tuple[str, str, str]]: ...
def session() -> Session: ...
def status() -> Pool: ...
def sync() -> None: ...
