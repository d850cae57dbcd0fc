"""Checkpoints: whole or not there, checked when they are read, and written while training goes on.

A checkpoint is one .safetensors that anything can read. Its metadata hold the state as JSON, a checksum of each tensor, and one of
the header itself, so that no byte of the file is unchecked. It appears under its name when it is on the disk.
"""
import fcntl
import json
import math
import os
import queue
import re
import struct
import sys
import threading
import zlib

import numpy as np

from ..errors import DeadlineError, FormatError, InvalidError, IOFailedError
from ..files import _CODES, _DTYPES, _MOST_HEADER, _whole

_NAME = re.compile(r"step-(\d{12})\.safetensors")
_DRAFT = re.compile(r"step-\d{12}\.safetensors\..+")
_CHUNK = 16 << 20
_OPEN = "00000000"  # stands for the checksum of the header while that is computed
_PATIENCE = 600  # seconds that a disk may take for one checkpoint


def _say(text):
    print(f"shoal: {text}", file=sys.stderr)


class Checkpoints:
    """The checkpoints in a folder, which is this training's alone until `close`. keep: so many of the newest stay; keep_every:
    also those of steps that are its multiples; say: called with a line of text where something is wrong that does not end the
    training."""

    def __init__(self, folder, keep=3, keep_every=0, say=_say):
        self.folder, self.keep, self.keep_every, self.say = os.fspath(folder), keep, keep_every, say
        try:
            os.makedirs(self.folder, exist_ok=True)
            self._owned = _own(self.folder)
            for name in os.listdir(self.folder):
                if _DRAFT.fullmatch(name):  # of a process that was killed
                    os.unlink(os.path.join(self.folder, name))
        except OSError as error:
            raise IOFailedError(f"checkpoint_dir {self.folder}: {error.strerror}; name a folder that can be written") from None
        if not os.access(self.folder, os.W_OK):
            raise IOFailedError(f"checkpoint_dir {self.folder}: it cannot be written; name a folder that can be")
        self._queue, self._failure, self._thread = queue.Queue(1), None, None

    def path(self, step):
        """That of the checkpoint of a step."""
        return os.path.join(self.folder, f"step-{step:012}.safetensors")

    def save(self, step, arrays, state):
        """Hands a checkpoint to the thread that writes it; the arrays are copied. At most one waits while another is written,
        then this call waits, too. Raises what went wrong with an earlier one."""
        self._raise()
        copies = {name: np.array(array, order="C", copy=True) for name, array in arrays.items()}
        for name, array in copies.items():
            if array.dtype.name not in _CODES:
                raise InvalidError(f"checkpoint: '{name}' is {array.dtype.name}, which a .safetensors cannot hold")
        text = json.dumps(state)
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="checkpoints", daemon=True)
            self._thread.start()
        self._put((step, copies, text))

    def close(self):
        """Waits for what is being written. Raises what went wrong."""
        if self._thread is not None:
            self._put(None)
            self._thread.join(_PATIENCE)
            if self._thread.is_alive():
                raise DeadlineError(f"{self.folder}: a checkpoint is not written after {_PATIENCE} s")
            self._thread = None
        if self._owned is not None:
            os.close(self._owned)
            self._owned = None
        self._raise()

    def begin(self):
        """A training begins anew here: InvalidError if there are checkpoints. Those of a higher step would push the new ones out,
        and be what a resumed training goes on with."""
        if found := self.steps():
            raise InvalidError(f"checkpoint_dir {self.folder}: there is a training of {max(found)} rounds; --resume goes on with it; to "
                               "begin anew, name another folder, or remove its checkpoints")

    def latest(self):
        """(step, arrays, state) of the newest that is whole; None if there are no checkpoints. Damaged ones are told; FormatError
        if all are, as what is left of them may be worth more than a training that begins anew in their place."""
        found = sorted(self.steps(), reverse=True)
        for step in found:
            try:
                arrays, state = read(self.path(step))
            except (FormatError, OSError) as error:
                self.say(f"{error}; trying the one before")
                continue
            return step, arrays, state
        if found:
            raise FormatError(f"checkpoint_dir {self.folder}: none of its checkpoints can be used; remove them to begin anew")
        return None

    def steps(self):
        """The steps of which there are checkpoints, damaged or not."""
        return [int(match[1]) for match in map(_NAME.fullmatch, os.listdir(self.folder)) if match]

    # ---- the thread ----

    def _put(self, job):
        try:
            self._queue.put(job, timeout=_PATIENCE)
        except queue.Full:
            raise DeadlineError(f"{self.folder}: a checkpoint is not written after {_PATIENCE} s") from None

    def _raise(self):
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _write_all(self):
        while True:
            job = self._queue.get()
            if job is None:
                return
            step, arrays, text = job
            path = self.path(step)
            try:
                write(path, step, arrays, text)
                self._prune()
            except OSError as error:
                self._failure = IOFailedError(f"{path}: the checkpoint cannot be written: {error.strerror}; the last good one stays. "
                                              "Make room, or name another checkpoint_dir")
            except Exception as error:  # noqa: BLE001 - told by the next call
                self._failure = error

    def _prune(self):
        """Removes all but the newest, and those that are kept for good."""
        for step in sorted(self.steps())[:-self.keep]:
            if not self.keep_every or step % self.keep_every:
                os.unlink(self.path(step))


def _own(folder):
    """A lock on a folder, which ends with this process: a file's number, or None where file systems have none."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(held)
        if isinstance(error, BlockingIOError):
            raise InvalidError(f"checkpoint_dir {folder}: another training that runs has its checkpoints there; name another "
                               "folder") from None
        return None
    return held


# ---- the file ----

def write(path, step, arrays, state):
    """Writes one checkpoint: arrays by name, and the state, which is JSON already."""
    rows, at, sums = {}, 0, {}
    for name, array in arrays.items():
        rows[name] = {"dtype": _CODES[array.dtype.name], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
        sums[name] = zlib.crc32(_bytes(array))
    facts = {"format": "shoal", "step": str(step), "state": state, "crc32": json.dumps(sums), "header_crc32": _OPEN}
    header = json.dumps({"__metadata__": facts} | rows).encode()
    header += b" " * (-len(header) % 8)
    start = struct.pack("<Q", len(header))
    place = header.index(f'"header_crc32": "{_OPEN}"'.encode()) + len('"header_crc32": "')
    told = f"{zlib.crc32(start + header):08x}".encode()
    header = header[:place] + told + header[place + len(told):]
    with _whole(path) as file:
        file.write(start + header)
        for array in arrays.values():
            data = _bytes(array)
            for begin in range(0, len(data), _CHUNK):
                file.write(data[begin:begin + _CHUNK])


def read(path):
    """(arrays, state) of a checkpoint. FormatError if a byte of it is not as it was written."""
    def bad(why):
        return FormatError(f"{path}: the checkpoint is damaged: {why}")
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else _MOST_HEADER + 1
        if length > min(_MOST_HEADER, size - 8):
            raise bad("its header is cut off")
        header = file.read(length)
        try:
            rows = json.loads(header)
            facts = rows.pop("__metadata__")
            told, sums, state = facts["header_crc32"], json.loads(facts["crc32"]), json.loads(facts["state"])
            plain = header.replace(f'"header_crc32": "{told}"'.encode(), f'"header_crc32": "{_OPEN}"'.encode(), 1)
            good = told == f"{zlib.crc32(start + plain):08x}"
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            good = False
        if not good:
            raise bad("its header is not as it was written")
        arrays, at = {}, 0
        for name, row in rows.items():
            try:  # whoever can write the file can write its checksums
                begin, end = row["data_offsets"]
                told, dtype, shape = sums[name], _dtype(row["dtype"]), tuple(row["shape"])
                fits = all(type(n) is int and n >= 0 for n in (begin, end, *shape)) and begin == at
                fits = fits and math.prod(shape) * dtype.itemsize == end - begin
            except (KeyError, TypeError, ValueError):
                fits = False
            if not fits:
                raise bad(f"'{name[:80]}' is no tensor")
            data = file.read(end - begin) if end <= size - 8 - length else b""
            if len(data) != end - begin or zlib.crc32(data) != told:
                raise bad(f"'{name[:80]}' is {'cut off' if len(data) != end - begin else 'not as it was written'}")
            arrays[name] = np.frombuffer(bytearray(data), dtype).reshape(shape)
            at = end
        if 8 + length + at != size:
            raise bad("there is more behind its end")
    return arrays, state


def _bytes(array):
    return memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _dtype(code):
    if code == "BF16":
        from ml_dtypes import bfloat16
        return np.dtype(bfloat16)
    return np.dtype(_DTYPES[code][0])
