"""Types of `shoal.files`. Written by tools/stubs.py."""
from os import PathLike
from typing import Any
from .pool import Session

class File:
    def __init__(self, /, *args: Any, **kwargs: Any) -> None: ...
    def load(self, name: str | None = None, in_session: Session | None = None) -> Any: ...
    def meta(self) -> None: ...
    def tensors(self) -> None: ...

def load(
    path: str | PathLike[str], map_location: Any = None, pickle_module: Any = None, *,
    weights_only: bool = True, mmap: bool | None = None, name: str | None = None,
    f: str | PathLike[str] | None = None
) -> Any: ...
def save(
    value: Any, path: str | PathLike[str], pickle_protocol: Any = 2, *, obj: Any = None,
    f: str | PathLike[str] | None = None
) -> None: ...
