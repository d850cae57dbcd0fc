"""Tensors in files: .npy, .gguf and .bin of Cluster Matrix through the library; .safetensors and torch's (`torchfile`)
here, as they hold more than tensors. Of all of them `File` gives the tensors, which stay in the file.

A .safetensors is the length of a JSON header, the header, and the elements
(https://github.com/huggingface/safetensors, "Format"). A dict of tensors is written as such a file that
anything can read. Nested dicts, lists, numbers and strings beside the tensors, as checkpoints have,
are kept as JSON in the header's metadata under the key "shoal".
"""
import contextlib
import errno
import json
import os
import pathlib
import struct
import tempfile

from . import _shoal, torchfile
from .dtypes import device
from .errors import FormatError, InvalidError, NotFoundError
from .pool import session
from .tensor import Tensor
from .words import torch_words

_CODES = {"bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64",
          "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64", "float16": "F16",
          "bfloat16": "BF16", "float32": "F32", "float64": "F64"}
_DTYPES = {code: (dtype, int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz") or 8) // 8)
           for dtype, code in _CODES.items()}
_MOST_HEADER = 100 << 20


# How metadata is read, by its type.
_META = {f"{sign}int{bits}": int for sign in ("", "u") for bits in (8, 16, 32, 64)} | {
    "float32": float, "float64": float, "string": str, "bool": lambda text: text == "true"}


class File(_shoal.File):
    """An open .npy, .safetensors, .gguf, .pt or .bin file, mapped into memory: `tensors()`, `meta(key, index=0)`,
    `metadata()`, `load(name)`."""

    def __init__(self, path):
        super().__init__(path)
        self._path = path

    def tensors(self):
        """(name, shape, dtype, how it is stored) of each tensor, in the order of the file."""
        return super().tensors()

    def meta(self, key, index=0):
        """A value of the metadata of a .gguf or .safetensors as text; of a list the one at `index`."""
        return super().meta(key, index)

    def load(self, name=None, in_session=None, packed=False):
        """A tensor of the file; name None: the only one. `file[name]` is the same. In a .pt names are made of the keys
        and positions that lead to a tensor: "model.layers.0.weight".

        Nothing is read: each program that uses the tensor reads it on the machines where it is needed, from
        their own disks, mapped into memory; a worker that lacks the file fetches it once from a member of the
        pool that has it. So it takes no memory, and the file has to stay as it is. Of quantised blocks it is
        their `dequantize` to float32; packed: the bytes themselves, uint8.
        """
        return self._load(in_session or session(), name, packed)

    def __getitem__(self, name):
        return self.load(name)

    def metadata(self):
        """What a .gguf or .safetensors says about itself: a dict of numbers, strings, and lists of them."""
        made = {}
        for key, kind, count in self._facts():
            read = _META[kind]
            made[key] = read(self.meta(key)) if count is None else [
                read(self.meta(key, i)) for i in range(count)]
        return made

    def digest(self):
        """What tells the file from any other, in hexadecimal: BLAKE2b of all its bytes, 256 bits."""
        return _shoal.file_digest(self._path).hex()


@torch_words(obj="value", f="path")
def save(value, path, pickle_protocol=2):
    """Writes a tensor to a .npy, or anything made of dicts, lists, numbers, strings and tensors to a
    .safetensors, or to a checkpoint that torch reads: a file named .pt, .pth, .ckpt or .bin, or an open
    one. The file appears whole or not at all. The arguments may stand in either order.
    """
    if isinstance(value, (str, os.PathLike)):
        value, path = path, value
    if hasattr(path, "write"):
        torchfile.write(value, path)
        return
    path = os.fspath(path)
    if path.endswith(torchfile.SUFFIXES):
        with _whole(path) as file:
            torchfile.write(value, file, torchfile.folder_of(path))
        return
    if isinstance(value, Tensor) and not path.endswith(".safetensors"):
        value = value._detach()
        data = bytearray(value.nbytes)
        value._read(data)
        _shoal.write_npy(path, value.dtype, value.shape, data)
        return
    if path.endswith(".npy"):
        raise InvalidError(f"save: {path}: a .npy holds one tensor, not a {type(value).__name__}; "
                           "name the file .safetensors")
    tensors = {}
    tree = _planted(value, "", tensors)
    flat = isinstance(value, dict) and all(
        isinstance(k, str) and isinstance(v, Tensor) for k, v in value.items())
    _write(path, tensors, None if flat else tree)


@torch_words(f="path")
def load(path, map_location=None, pickle_module=None, *, weights_only=True, mmap=None, name=None, packed=False):
    """What `save` or torch.save has written; or a tensor of a .npy, .gguf or .bin file, name None: the only one;
    packed: the bytes of its quantised blocks.

    Of a .safetensors all, as a dict, or the tensor of a name. Of a checkpoint of torch all, or the tensor of a name
    as `File` has it. map_location: a device that the tensors go to,
    as `Tensor.to`. Nothing in a file is executed: a checkpoint of torch that holds more than data is a
    FormatError, whatever weights_only says.
    """
    place = map_location if isinstance(map_location, (str, device, int)) else None
    if hasattr(path, "read"):
        return torchfile.read(path, getattr(path, "name", "the file"), session(), place)
    path = os.fspath(path)
    try:
        with open(path, "rb") as file:
            start = file.read(4)
            file.seek(0)
            if torchfile.is_checkpoint(start) and name is None:
                return torchfile.read(file, path, session(), place)
            if not _is_safetensors(file):
                return File(path).load(name, packed=packed)
            tensors, tree = _read(file, path, name)
    except FileNotFoundError:
        raise NotFoundError(f"{path}: there is no such file") from None
    if name is not None:
        return tensors[name]
    return tensors if tree is None else _harvested(tree, tensors, path)


# ---- structure ----

def _planted(value, name, tensors):
    """A value as JSON, its tensors set aside under names made of the keys that lead to them."""
    if isinstance(value, Tensor):
        key = name or "value"
        while key in tensors:
            key += "_"
        tensors[key] = value._detach()
        return {"tensor": key}
    below = f"{name}." if name else ""
    if isinstance(value, dict):
        for k in value:
            if not isinstance(k, (str, int)) or isinstance(k, bool):
                raise InvalidError(f"save: the key {k!r} is neither a string nor an integer")
        return {"dict": [[k, _planted(v, f"{below}{k}", tensors)] for k, v in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"tuple" if isinstance(value, tuple) else "list":
                [_planted(v, f"{below}{i}", tensors) for i, v in enumerate(value)]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    raise InvalidError(f"save: {name or 'the value'} is a {type(value).__name__}; dicts, lists, "
                       "numbers, strings and tensors can be saved")


def _harvested(tree, tensors, path):
    kind, inner = next(iter(tree.items())) if isinstance(tree, dict) and len(tree) == 1 else \
        (None, None)
    if kind == "tensor" and isinstance(inner, str) and inner in tensors:
        return tensors[inner]
    if kind == "value":
        return inner
    if kind == "dict" and isinstance(inner, list):
        return {k: _harvested(v, tensors, path) for k, v in inner}
    if kind in ("list", "tuple") and isinstance(inner, list):
        made = [_harvested(v, tensors, path) for v in inner]
        return tuple(made) if kind == "tuple" else made
    raise FormatError(f"{path}: its metadata 'shoal' is malformed")


# ---- the format ----

def _write(path, tensors, tree):
    header, at = {}, 0
    if tree is not None:
        header["__metadata__"] = {"shoal": json.dumps(tree)}
    for name, t in tensors.items():
        header[name] = {"dtype": _CODES[t.dtype], "shape": list(t.shape),
                        "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with _whole(path) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            data = bytearray(t.nbytes)
            t._read(data)
            file.write(data)


def _cache_folder(name):
    """Where the user keeps what can be made again, of this kind."""
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "shoal", name)


@contextlib.contextmanager
def _whole(path):
    """A file to be written that appears under its name at the end, or not at all."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "there is no folder to write into", folder)
    try:
        handle, draft = tempfile.mkstemp(dir=folder, prefix=os.path.basename(path) + ".")
    except OSError as error:  # it names the draft
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with open(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except BaseException as error:
        os.unlink(draft)
        # Of a full disk Python names no file, of a folder in its place the draft.
        if isinstance(error, OSError) and error.errno and error.filename in (None, draft):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise
    folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)  # its new name, too, is to outlast a loss of power
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _is_safetensors(file):
    start = file.read(9)
    file.seek(0)
    return len(start) == 9 and start[8:] == b"{" and \
        struct.unpack("<Q", start[:8])[0] <= _MOST_HEADER


def _read(file, path, only):
    size = os.fstat(file.fileno()).st_size
    length = struct.unpack("<Q", file.read(8))[0]
    if length > size - 8:
        raise FormatError(f"{path} is cut off inside its header")
    try:
        header = json.loads(file.read(length))
        metadata = header.pop("__metadata__", {})
        tree = json.loads(metadata["shoal"]) if "shoal" in metadata else None
    except (ValueError, TypeError, AttributeError) as error:
        raise FormatError(f"{path}: the header is malformed: {error}") from None
    if only is not None and only not in header:
        raise NotFoundError(f"{path} has no tensor '{only}'; it has "
                            + ", ".join(list(header)[:8]))
    tensors = {}
    for name, row in header.items():
        if only is not None and name != only:
            continue
        dtype, shape, begin, end = _row(row, name, path)
        if end > size - 8 - length:
            raise FormatError(f"{path} is cut off: '{name}' ends at byte {end} of "
                              f"{size - 8 - length}")
        file.seek(8 + length + begin)
        tensors[name] = session()._from_bytes(file.read(end - begin), dtype, shape)
    return tensors, tree


def _row(row, name, path):
    """Element type, shape and place of a tensor, believed only when they agree."""
    try:
        dtype, item = _DTYPES[row["dtype"]]
        shape, (begin, end) = tuple(row["shape"]), row["data_offsets"]
        count = 1
        for n in (*shape, begin, end):
            if not isinstance(n, int) or isinstance(n, bool) or n < 0:
                raise ValueError(f"{n!r} is no length")
        for n in shape:
            count *= n
        if end - begin != count * item:
            raise ValueError(f"{end - begin} bytes for {dtype}{list(shape)}")
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: the row of '{name}' is malformed: {error}") from None
    return dtype, shape, begin, end
