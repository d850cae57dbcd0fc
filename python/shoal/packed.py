"""Quantised tensors: bytes of blocks, and the numbers that they stand for."""
from typing import NamedTuple

from . import _shoal
from .tensor import Tensor
from .words import dtype_name


class BlockFormat(NamedTuple):
    """How numbers are packed: a block of `bytes` bytes holds `values` of them; `fields` says how."""
    values: int
    bytes: int
    fields: str


block_formats = {name: BlockFormat(*row) for name, *row in _shoal.block_formats()}


def dequantize(bytes, format, dtype="float32"):
    """The numbers of quantised blocks, as ggml packs them: what a .gguf file holds.

    bytes: uint8, whole blocks of the format along the last axis; a tensor (`File.load(name, packed=True)`),
    or an array, such as the `data` of a tensor of the package gguf. format: a name of `block_formats`.
    The result has the blocks' values along the last axis, as float32, or rounded to float16 or bfloat16.
    The bytes are what is cut, sliced, gathered and sent; the numbers are made where they are needed. They
    are integers, so that no gradient leads to them.
    """
    from .pool import session
    if not isinstance(bytes, Tensor):
        bytes = session().tensor(bytes)
    return bytes._apply("dequantize", (), dtype=dtype_name(dtype), format=format)
