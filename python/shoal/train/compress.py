"""Vectors in few bytes, both ways: float32, bfloat16, or blocks of 8 or 4 bits with a scale each.

Islands work by operations of their programs, the shepherd by NumPy. What rounding has left out, who has encoded keeps
and adds to what it encodes next (error feedback), so that nothing is lost, only late.
"""
import numpy as np

from .. import _shoal
from ..creation import concatenate
from ..errors import InvalidError
from .rules import constant

BLOCK = 128  # numbers with one scale, a float32
KINDS = ("none", "bf16", "int8", "int4")
_MOST = {"int8": 127, "int4": 7}
_TINY = np.float32(2.0 ** -100)  # a block of smaller numbers waits until it is larger: some devices take subnormals for 0


def check(kind):
    """InvalidError if there is no such way."""
    if kind not in KINDS:
        raise InvalidError(f"compression {kind!r}; there are {', '.join(KINDS)}")


def payload_bytes(kind, size):
    """How many bytes a vector of `size` numbers, whole blocks, takes on its way."""
    return {"none": 4 * size, "bf16": 2 * size, "int8": size + 4 * (size // BLOCK),
            "int4": size // 2 + 4 * (size // BLOCK)}[kind]


def arrays_of(kind):
    """Of how many arrays an encoded vector is."""
    return 2 if kind in _MOST else 1


def encode(kind, x):
    """Records what a float32 vector of whole blocks becomes: (list of tensors, what is left out or None)."""
    if kind == "none":
        return [x], None
    if kind == "bf16":
        short = x.astype("bfloat16")
        return [short], x - short.astype("float32")
    inside = x.session
    most = constant(inside, _MOST[kind])
    blocks = x.reshape((-1, BLOCK))
    top = blocks.abs().amax(1)
    scale = top / most
    zero = constant(inside, 0.0)
    divisor = _shoal.select(scale > zero, scale, constant(inside, 1.0)).reshape((-1, 1))
    codes = _shoal.apply(inside, "round_nearest_even", (blocks / divisor,), {}, 1)[0]
    codes = codes.maximum(constant(inside, -_MOST[kind])).minimum(most)
    left = (blocks - codes * scale.reshape((-1, 1))).reshape((-1,))
    if kind == "int8":
        return [codes.astype("int8"), scale], left
    pairs = (codes + constant(inside, 8.0)).reshape((-1, 2))
    packed = pairs[:, 0] + pairs[:, 1] * constant(inside, 16.0)
    return [packed.astype("uint8"), scale], left


def decode(kind, arrays):
    """The float32 vector of what `encode` gave, read as arrays."""
    if kind in ("none", "bf16"):
        return np.asarray(arrays[0], np.float32).reshape(-1)
    codes, scale = arrays
    if kind == "int4":
        codes = np.stack([codes & 15, codes >> 4], -1).astype(np.int16) - 8
    return (codes.reshape(-1, BLOCK).astype(np.float32) * scale[:, None]).reshape(-1)


def encode_change(kind, x):
    """What a float32 vector of whole blocks becomes on its way to islands: (arrays, the vector that they will have).

    A scale has 8 significant bits, rounded up, so that its product with a code is exact: whether a device rounds before
    it adds, or multiplies and adds at once, all islands come to the same bits.
    """
    if kind == "bf16":
        bits = _bf16(x, 0x7FFF)
        return [bits.astype(np.uint16)], (bits << 16).view(np.float32)
    most = np.float32(_MOST[kind])
    blocks = x.reshape(-1, BLOCK)
    scale = (_bf16(np.abs(blocks).max(1) / most, 0xFFFF) << 16).view(np.float32)
    scale[scale < _TINY] = 0
    codes = np.rint(blocks / np.where(scale > 0, scale, np.float32(1))[:, None])
    codes = np.clip(codes, -most, most) * (scale > 0)[:, None]
    moved = (codes * scale[:, None]).reshape(-1)
    if kind == "int8":
        return [codes.astype(np.int8), scale], moved
    pairs = (codes + 8).astype(np.uint8).reshape(-1, 2)
    return [pairs[:, 0] | pairs[:, 1] << 4, scale], moved


def _bf16(x, half):
    """The upper 16 bits of float32 numbers, as uint32: to nearest even with half=0x7FFF; 0xFFFF: away from 0."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    odd = bits >> 16 & 1 if half == 0x7FFF else np.uint32(0)
    return (bits + np.uint32(half) + odd) >> np.uint32(16)


def decode_change(kind, tensors):
    """Records the float32 vector of what `encode_change` gave."""
    if kind == "bf16":
        return tensors[0].view("bfloat16").astype("float32")
    codes, scale = tensors[0].astype("float32"), tensors[1]
    if kind == "int4":
        inside = codes.session
        high = (codes * constant(inside, 1 / 16)).floor()
        low = codes - high * constant(inside, 16.0)
        codes = concatenate([low.reshape((-1, 1)), high.reshape((-1, 1))], 1) - constant(inside, 8.0)
    return (codes.reshape((-1, BLOCK)) * scale.reshape((-1, 1))).reshape((-1,))


class Vector:
    """Where the parameters lie in one float32 vector: each from a whole block on, with zeros behind it.

    spans: [(begin, count)] per parameter; `size` in all.
    """

    def __init__(self, shapes):
        self.shapes, self.spans, at = list(shapes), [], 0
        for shape in self.shapes:
            count = int(np.prod(shape))
            self.spans.append((at, count))
            at += -(-count // BLOCK) * BLOCK
        self.size = at

    def join(self, arrays):
        """The vector of arrays."""
        out = np.zeros(self.size, np.float32)
        for array, (at, count) in zip(arrays, self.spans):
            out[at:at + count] = np.asarray(array, np.float32).reshape(-1)
        return out

    def split(self, vector):
        """The arrays of a vector, as views; of a tensor, records the tensors."""
        return [vector[at:at + count].reshape(shape) for (at, count), shape in zip(self.spans, self.shapes)]

    def record_join(self, tensors):
        """Records the vector of tensors."""
        parts = []
        for tensor, (_, count) in zip(tensors, self.spans):
            parts.append(tensor.reshape((-1,)))
            if count % BLOCK:
                parts.append(constant(tensor.session, np.zeros(BLOCK - count % BLOCK, np.float32)))
        return concatenate(parts) if len(parts) > 1 else parts[0]
