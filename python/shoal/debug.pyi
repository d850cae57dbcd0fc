"""Types of `shoal.debug`. Written by tools/stubs.py."""
from typing import Any, NamedTuple, Self
from .pool import Session

class Listener:
    lost: Any
    complete: Any
    most: Any
    clocks: Any
    def __init__(self, session: Session | None = None) -> None: ...
    def batches(self) -> Any: ...
    def fetch(self) -> Any: ...


class Recording:
    lost: Any
    events: Any
    def __enter__(self) -> Self: ...
    def __exit__(self, *unused: Any) -> None: ...
    def __init__(self, session: Session | None = None, limit: int = 1000000) -> None: ...
    @property
    def clocks(self) -> Any: ...
    def of(self, *kinds: Any) -> Any: ...
    def print(self, *kinds: Any) -> None: ...
    def spans(self, *kinds: Any) -> Any: ...


class Event(NamedTuple):
    at: Any
    process: Any
    kind: Any
    phase: Any
    slot: Any
    peer: Any
    instance: Any
    bytes: Any
    key: Any
    label: Any

KINDS: dict[str, Any]
def print_tape(session: Session | None = None) -> None: ...
def print_workers(session: Session | None = None) -> None: ...
def record(session: Session | None = None, limit: int = 1000000) -> Recording: ...

__all__ = [
    "Event", "KINDS", "Listener", "Recording", "print_tape", "print_workers", "record"
]
