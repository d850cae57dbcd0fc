"""Types of `shoal.pool`. Written by tools/stubs.py."""
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from .tensor import Axes, DType, Operand, Shape, Sorted, Tensor

class Counts:
    programs: int
    fresh: int

class Pool:
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
    slots: list

class Session:
    def __init__(
        self, hub: Any = ..., workers: int = ..., threads: int = ..., backend: Any = ...,
        timeout_ms: int = ..., name: str | None = ..., spare: Any = ...
    ) -> None: ...
    def close(self, *args: Any) -> None: ...
    def compute_slots(self) -> list[int]: ...
    def counts(self) -> Counts: ...
    def from_numpy(self, array: Any, copy: Any = ...) -> Tensor: ...
    def full(self, shape: Shape, value: Any, dtype: DType = ...) -> Tensor: ...
    def status(self) -> Pool: ...
    def sync(self, *args: Any) -> None: ...
    def tape(self) -> Tensor: ...
    def tensor(self, data: Any, dtype: DType | None = ...) -> Tensor: ...

class Slot:
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
    sent: int
    received: int
    queued: int
    relayed: int

def connect(
    address: Any, timeout_ms: int = ..., name: str | None = ..., spare: Any = ...
) -> Session: ...
def disconnect() -> None: ...
def explain(value: Any, json: bool = ...) -> str: ...
def init(workers: int = ..., threads: int = ..., backend: Any = ...) -> Session: ...
def operations() -> list[tuple[str, str, str]]: ...
def session() -> Session: ...
def status() -> Pool: ...
def sync() -> None: ...
