"""Types of `shoal.utils`. Written by tools/stubs.py."""
from typing import Any
from . import data as data
checkpoint: Any

__all__ = [
    "checkpoint", "data"
]
