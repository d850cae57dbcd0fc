"""Matrices in files and messages: reading what may be given for a matrix, and the .bin format.

A .bin is 32-bit integers, then elements in row-major order, little-endian. Version 1: the number of axes, their lengths,
float32. Version 2: -1, -2 or -3 for float32, float16 or bfloat16, and four lengths. Axes of length 1 in front, down to
two axes, are those that were added when it was written.
"""
import functools
import hashlib
import math
import os
import re
import struct
import tempfile

import numpy as np
import shoal

from . import config

TAGS = {-1: "float32", -2: "float16", -3: "bfloat16"}
_TAGS = {dtype: tag for tag, dtype in TAGS.items()}
_STORED = {"float32": "<f4", "float16": "<f2", "bfloat16": "<u2"}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=-]{0,199}")
TOLERANCES = {"float16": 1e-2, "bfloat16": 1e-2, "float32": 1e-3, "float64": 1e-6}


# ---- the format ----

def decode(data, what):
    """(dtype, shape, where the elements begin) of a .bin's bytes. ValueError with `what` when they are none."""
    if len(data) < 4:
        raise ValueError(f"{what}: {len(data)} bytes are no matrix")
    first = struct.unpack_from("<i", data)[0]
    if first not in TAGS and not 1 <= first <= 4:
        raise ValueError(f"{what}: it begins with {first}; a matrix begins with 1 to 4, its number of axes, or with "
                         "-1, -2 or -3 for its type")
    dtype, axes = TAGS.get(first, "float32"), 4 if first in TAGS else first
    begin = 4 * (axes + 1)
    if len(data) < begin:
        raise ValueError(f"{what}: cut off inside its header")
    shape = list(struct.unpack_from(f"<{axes}i", data, 4))
    if min(shape) < 0:
        raise ValueError(f"{what}: a negative length in {shape}")
    while len(shape) > 2 and shape[0] == 1:
        del shape[0]
    need = math.prod(shape) * np.dtype(_STORED[dtype]).itemsize
    if need != len(data) - begin:
        raise ValueError(f"{what}: damaged: {len(data) - begin} bytes of elements are there, {need} are needed for "
                         f"{dtype}{shape}; have it sent again")
    return dtype, tuple(shape), begin


def tensor_of(data, what, session):
    """The tensor of a .bin's bytes. ValueError as from `decode`."""
    dtype, shape, begin = decode(data, what)
    made = session.from_numpy(np.frombuffer(data, _STORED[dtype], offset=begin).reshape(shape))
    return made.view("bfloat16") if dtype == "bfloat16" else made


def bits(tensor):
    """The elements of a tensor as an array; those of bfloat16 as 16-bit integers."""
    return (tensor.view("uint16") if tensor.dtype == "bfloat16" else tensor).numpy()


def encode(tensor, version=1):
    """The bytes of a .bin: in version 1 if they can be, for readers of both and of that alone; 2: always in version 2.
    ValueError for what a .bin does not hold."""
    dtype, shape = tensor.dtype.name, tuple(tensor.shape)
    if dtype not in _TAGS:
        raise ValueError(f"a .bin holds float32, float16 or bfloat16, not {dtype}; convert it first")
    if not 2 <= len(shape) <= 4:
        raise ValueError(f"a .bin holds 2 to 4 axes, not {len(shape)}; reshape it first")
    if max(shape) > 0x7fffffff:
        raise ValueError(f"a .bin has no axis of length {max(shape)}")
    first = 4 if version == 1 and dtype == "float32" else _TAGS[dtype]
    return struct.pack("<5i", first, *(1,) * (4 - len(shape)), *shape) + \
        np.ascontiguousarray(bits(tensor)).astype(_STORED[dtype], copy=False).tobytes()


# ---- files ----

def checked_name(name):
    """A file's name that leads nowhere else. ValueError for any other."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a matrix here: letters, digits and _ . + = - (200 of them at most, not "
                         "beginning with a point), and no folders")
    return name


def result_name(name):
    """The name of a result, made of those of its operands: shortened, with a digest of the whole, where it is long."""
    return name if len(name) <= 150 else f"{name[:133]}_{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"


def write_whole(folder, name, data):
    """Writes a file that appears whole or not at all, whatever lies there (a link is replaced, not followed)."""
    path = os.path.join(folder, checked_name(name))
    handle, draft = tempfile.mkstemp(dir=folder, prefix=".draft-")
    try:
        with open(handle, "wb") as file:
            file.write(data)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
    config.tell("MATRIX_LOADING", f"{path}: {len(data)} bytes written")
    return path


def _of_dict(found, key, path):
    """A tensor in what a file holds, by the keys that lead to it with points between."""
    if not isinstance(found, dict):
        if key is None:
            return found
        raise ValueError(f"{path}: it holds one tensor, and none called '{key}'")
    names = list(_names(found))
    if key is None and len(names) == 1:
        key = names[0]
    if key not in names:
        raise ValueError(f"{path} holds {len(names)} tensors" + ("" if key is None else f", none called '{key}'")
                         + f"; name one, as '{path}:KEY': {', '.join(names[:12])}" + ", …" * (len(names) > 12))
    for name, tensor in _pairs(found):
        if name == key:
            return tensor
    raise AssertionError(key)


def _pairs(found, before=""):
    for key, inner in found.items():
        if isinstance(inner, shoal.Tensor):
            yield f"{before}{key}", inner
        elif isinstance(inner, dict):
            yield from _pairs(inner, f"{before}{key}.")


def _names(found):
    return (name for name, _ in _pairs(found))


def _read(path):
    """What lies at "file" or "file:KEY"."""
    file, key = path, None
    if not os.path.exists(path) and ":" in path:
        file, _, key = path.rpartition(":")
    if not os.path.exists(file):
        raise FileNotFoundError(f"{path}: there is no such file")
    if file.endswith((".gguf", ".npy")):
        return shoal.load(file, name=key)
    return _of_dict(shoal.load(file), key, file)


def tensor(matrix):
    """The tensor of what may be given for a matrix: a path (.pt, .bin, .npy, .safetensors, .gguf; "file.pt:key" where a
    file holds several), a tensor of torch or Shoal, or an array. Integers and booleans become float32.

    Raises FileNotFoundError, ValueError with the names that a file holds, TypeError.
    """
    if isinstance(matrix, (str, os.PathLike)):
        made = _read(os.fspath(matrix))
        config.tell("MATRIX_LOADING", f"{matrix}: {made.dtype.name}{list(made.shape)}")
    elif isinstance(matrix, shoal.Tensor):
        made = matrix
    elif type(matrix).__module__.partition(".")[0] == "torch":
        # By DLPack, as a torch without NumPy has it, too; it has no bfloat16 here.
        matrix = matrix.detach().cpu().contiguous()
        half = matrix.dtype == _torch().bfloat16
        made = shoal.from_dlpack(matrix.view(_torch().int16) if half else matrix)
        made = made.view("bfloat16") if half else made
    else:
        array = np.asarray(matrix)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"a {type(matrix).__name__} is no matrix: give a path, a tensor or an array of numbers")
        made = shoal.from_numpy(array)
    if not isinstance(made, shoal.Tensor):
        raise ValueError(f"{matrix}: it holds a {type(made).__name__}, no tensor")
    if not 2 <= made.ndim <= 4:
        raise ValueError(f"a matrix has 2 to 4 axes; this one has the shape {list(made.shape)}")
    return made if made.dtype.is_floating_point else made.astype("float32")


def result(tensor):
    """What programs are given: a torch.Tensor where torch can be imported, else an array (float32 for bfloat16)."""
    torch = _torch()
    if torch is None:
        return tensor.numpy()
    if tensor.dtype == "bfloat16":
        return torch.from_dlpack(tensor.view("int16")).view(torch.bfloat16)
    return torch.from_dlpack(tensor)


@functools.cache
def _torch():
    """The module torch, or None where it cannot be imported."""
    try:
        import torch
        return torch
    except ImportError:
        return None


def convert_bin_matrix_to_pt(path, force_2d=True):
    """The matrix of a .bin; force_2d: leading axes become rows."""
    made = tensor(path)
    return result(made.reshape(-1, made.shape[-1]) if force_2d else made)


def check_combined_result_values(expected, combined):
    """Prints whether a result is as expected within what its type allows (f16, bf16: 1e-2, f32: 1e-3, f64: 1e-6), and by
    how much it is off. Returns whether it is."""
    expected, combined = tensor(expected), tensor(combined)
    if math.prod(expected.shape) != math.prod(combined.shape):
        print(f"the shapes differ: {list(expected.shape)} expected, {list(combined.shape)} there")
        return False
    most = TOLERANCES[combined.dtype.name]
    want = expected.astype("float64").numpy().reshape(-1)
    have = combined.astype("float64").numpy().reshape(-1)
    right = bool(np.allclose(have, want, rtol=most, atol=most))
    print(f"{'as expected' if right else 'NOT as expected'} within {most:g}: the largest difference is "
          f"{np.abs(have - want).max() if want.size else 0:.3g}")
    return right
