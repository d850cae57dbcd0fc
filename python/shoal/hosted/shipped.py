"""Artifacts for a backend: those that are kept here, those of the pool, and those that it makes itself.

A worker takes machine code from nobody but its own user and, where its owner has said so, from the user who runs its hub: the
hub tells its members, on the link that it has proven itself on, by which key that user signs. Who sends the bytes is of no matter.
"""
from __future__ import annotations

import contextlib
import pathlib
import sys
import threading
import time
from typing import TYPE_CHECKING

from . import artifacts
from .. import _shoal
from ..errors import BusyError, ClosedError, DeniedError, FormatError, LostError, NotFoundError, ShoalError

if TYPE_CHECKING:
    from .artifacts import Recipe

_PATIENCE = 60.0  # seconds for which one that cannot compile asks a keeper again that is busy,
_AGAIN = 30.0     # and after which an artifact that was not to be had is asked for again
_told: set[str] = set()
_failed: dict[str, tuple[float, str]] = {}
_lock = threading.Lock()


def obtain(text: str, target: str) -> bytes:
    """The artifact of a program for IREE's runtime here; NotFoundError where there is none and it cannot be made."""
    from importlib.metadata import version
    wanted = artifacts.recipe(text, target, None, version("iree-base-runtime"))
    own = artifacts.key()[0].hex()
    hub, why = _hub_key(own)
    if (found := artifacts.find(wanted.made_of, {own, hub} if hub else {own})) is not None:
        return found.data
    can_compile = _can_compile()
    if hub and (before := _failed_before(wanted.made_of)) is None:
        try:
            return _from_pool(wanted, hub, 0 if can_compile else _PATIENCE)
        except (ShoalError, OSError) as error:
            why = str(error)
            if not isinstance(error, (LostError, ClosedError)):  # another hub may have it
                _note_failure(wanted.made_of, why, isinstance(error, (DeniedError, FormatError)))
    elif hub:
        why = before or ""
    if can_compile:
        return artifacts.build(text, target).data
    device = f"{wanted.target}:{wanted.device}" if wanted.device else wanted.target
    raise NotFoundError(f"there is no compiler here (pip install iree-base-compiler=={wanted.compiler}), and the hub gives no artifact "
                        f"({why}): {wanted.made_of} for {device}")


def _can_compile() -> bool:
    with contextlib.suppress(NotFoundError):
        artifacts.iree_compiler()
        return True
    return False


def _hub_key(own: str) -> tuple[str | None, str]:
    """The key of the hub, if what it signs is taken here; None: and why not."""
    try:
        key, trusted = _shoal.artifact_key()
    except NotFoundError as error:
        return None, f"{error}: shoal hub --artifacts compile"
    if trusted or key.hex() == own:
        return key.hex(), ""
    return None, (f"this worker runs what its own user has signed alone, not {key.hex()}, who runs the hub: shoal worker --artifacts hub, "
                  "if you would let that user run programs here")


def _failed_before(made_of: str) -> str | None:
    """Why the pool did not give it a moment ago; None: it may be asked."""
    with _lock:
        at, why = _failed.get(made_of, (-_AGAIN, ""))
        if time.monotonic() - at < _AGAIN:
            return why
        _failed.pop(made_of, None)
        return None


def _note_failure(made_of: str, why: str, wrong: bool) -> None:
    with _lock:
        if len(_failed) >= 1024:
            _failed.clear()
        _failed[made_of] = time.monotonic(), why
        if not wrong or made_of in _told:
            return
        _told.add(made_of)
    print(f"shoal: an artifact of the pool is not used: {why}", file=sys.stderr, flush=True)


def _from_pool(wanted: Recipe, hub: str, patience: float) -> bytes:
    """Asks the hub; what comes is used and kept only when the hub's key has signed it as just this. DeniedError else."""
    until = time.monotonic() + patience
    while True:
        try:
            path, note = _shoal.artifact_fetch(bytes.fromhex(wanted.made_of), wanted.target, wanted.device or "", wanted.compiler, wanted.text)
            break
        except BusyError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.5)
    data = pathlib.Path(path).read_bytes()
    kept = artifacts.place(wanted.made_of)
    signed = artifacts.verify(kept, data, note, [hub])
    for name in ("made_of", "target", "device", "compiler"):
        if signed[name] != (getattr(wanted, name) or ""):
            raise DeniedError(f"{kept}: was signed as of {name} {signed[name]}, not {getattr(wanted, name) or 'none'}")
    with contextlib.suppress(OSError):  # a full disk is no failure: it comes again the next time
        artifacts.keep_as_signed(kept, data, note)
    return data
