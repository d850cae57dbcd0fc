"""Kernels on NumPy arrays, computed at once on this process's cores: no session, no pool.

    from shoal import kernels
    y = kernels.rms_norm(x, scale)
    kernels.silu(y, out=y)                      # in place

Arrays may be anything with the buffer protocol, in any strides: NumPy's (also ml_dtypes' bfloat16), torch's
on the CPU by `.numpy()`, `array.array`, `memoryview`. Results are new NumPy arrays, or `out`, which may be an
operand or overlap one. What a kernel needs for a combination of shapes and types is compiled at its first
call and kept. The gradients of these, and pools, are tensors' (`shoal.functional`).

Raises what `shoal` raises: InvalidError, a ValueError, for shapes and types, with the fix.
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _shoal
from .errors import InvalidError
from .packed import block_formats
from .pool import _record

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def _pair(array: NDArray[Any]) -> tuple[Any, str | None]:
    """What the extension takes: a buffer, and the name of an element type that buffers have no name for.

    NumPy makes a type's name anew each time, which takes longer than to call a kernel.
    """
    foreign = array.dtype.isbuiltin != 1 and array.dtype.name == "bfloat16"
    return (array.view("uint16"), "bfloat16") if foreign else (array, None)


def _result(out: Any) -> NDArray[Any]:
    if not isinstance(out, np.ndarray):
        raise InvalidError(f"out: {out!r} is no array of NumPy's, into which the result could go")
    return out


def _run(name: str, operands: tuple[NDArray[Any], ...], shape: tuple[int, ...], dtype: Any, out: NDArray[Any] | None,
         attrs: dict[str, Any] | None = None) -> NDArray[Any]:
    out = np.empty(shape, dtype) if out is None else _result(out)
    _shoal.kernel(name, tuple(map(_pair, operands)), attrs, (_pair(out),))
    return out


def _operands(*arrays: ArrayLike | None) -> tuple[NDArray[Any], ...]:
    """Up to the first that is None; one behind that is an error of the kernel's."""
    found = tuple(np.asarray(x) for x in arrays if x is not None)
    if any(x is not None for x in arrays[len(found):]):
        raise InvalidError("an operand is given without the one before it")
    return found


def _axis(x: NDArray[Any], axis: int) -> int:
    found = axis + x.ndim if axis < 0 else axis
    if not 0 <= found < x.ndim:
        raise InvalidError(f"an array of {x.ndim} axes has no axis {axis}")
    return found


def set_num_threads(count: int) -> None:
    """How many threads kernels use; 0: as the variable OMP_NUM_THREADS says, else one per core."""
    if not 0 <= count <= 1024:
        raise InvalidError(f"{count} threads; 0 to 1024 are possible")
    _shoal.kernel_threads(count)


def get_num_threads() -> int:
    """How many threads kernels use."""
    return _shoal.kernel_threads()


def instructions() -> str:
    """The instruction set of kernels on "cpu": on x86-64 "avx2" or "avx512", on aarch64 "neon"; "base", plain C on
    every processor; "avx512_vnni" and "neon_dot" with instructions for products of bytes, too; "avx512_bf16" and
    "neon_i8mm" with those, and with others for products of bfloat16.

    It is the best here, or the one that the variable SHOAL_CPU names.
    """
    return _shoal.kernel_instructions()


@_record
class Device:
    """A device that was found here, or a backend that found none: then `name` is None, and `reason` says why."""
    backend: str
    number: int  # which of the backend's devices
    name: str | None
    reason: str | None
    memory: int  # bytes; 0: unknown
    threads: int  # compute threads or units
    same_cores: bool  # it computes on the cores that "cpu" has


def devices(backend: str | None = None) -> list[Device]:
    """The devices that backends find on this machine, and the backends that find none; or those of one backend.

    A backend whose library may end the process that opens it ("ggml") is only asked where it is named.
    Raises NotFoundError for a name that no backend has.
    """
    return [Device(*found) for found in _shoal.backends(backend)]


@contextlib.contextmanager
def on(backend: str | None) -> Iterator[None]:
    """Kernels of this thread run on a backend's first device inside: `with kernels.on("opencl"): ...`.

    `devices` lists them. Operands are copied to a device with memory of its own, and results back.
    Raises NotFoundError, saying why, where there is no such device.
    """
    before = _shoal.kernel_use()
    _shoal.kernel_use(backend)
    try:
        yield
    finally:
        _shoal.kernel_use(before)


def backend() -> str:
    """Where kernels of this thread run: "cpu", or as `on` says."""
    return _shoal.kernel_use()


def silu(x: ArrayLike, *, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """x / (1 + e^-x)."""
    x = np.asarray(x)
    return _run("silu", (x,), x.shape, x.dtype, out)


def gelu(x: ArrayLike, approximate: str = "none", *, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """x * Phi(x), by erf or, with approximate="tanh", by the formula of arXiv:1606.08415."""
    x = np.asarray(x)
    return _run("gelu", (x,), x.shape, x.dtype, out, {"approximate": approximate})


def softmax(x: ArrayLike, axis: int = -1, *, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """e^x over its sum along an axis."""
    x = np.asarray(x)
    return _run("softmax", (x,), x.shape, x.dtype, out, {"dimension": _axis(x, axis)})


def rms_norm(x: ArrayLike, scale: ArrayLike | None = None, eps: float = 1e-6, axis: int = -1, *,
             out: NDArray[Any] | None = None) -> NDArray[Any]:
    """x / sqrt(mean(x^2) + eps) along an axis, times scale [x.shape[axis]]."""
    operands = _operands(x, scale)
    x = operands[0]
    return _run("rms_norm", operands, x.shape, x.dtype, out, {"dimension": _axis(x, axis), "epsilon": eps})


def layer_norm(x: ArrayLike, scale: ArrayLike | None = None, bias: ArrayLike | None = None, eps: float = 1e-5,
               axis: int = -1, *, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """(x - mean) / sqrt(variance + eps) along an axis, times scale, plus bias, each [x.shape[axis]]."""
    operands = _operands(x, scale, bias)
    x = operands[0]
    return _run("layer_norm", operands, x.shape, x.dtype, out, {"dimension": _axis(x, axis), "epsilon": eps})


def rope(x: ArrayLike, positions: ArrayLike, frequencies: ArrayLike | None = None, axis: int = -2,
         theta: float = 10000.0, interleaved: bool = False, *, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """The pairs of the last axis turned by position * frequency (rotary embedding, arXiv:2104.09864).

    positions: integers, one per index of `axis`. frequencies: float32, one per pair; else theta^(-2i/D).
    interleaved: pairs are neighbours, not halves.
    """
    operands = _operands(x, positions, frequencies)
    x = operands[0]
    return _run("rope", operands, x.shape, x.dtype, out,
                {"dimension": _axis(x, axis), "theta": theta, "interleaved": interleaved})


def attention(q: ArrayLike, k: ArrayLike, v: ArrayLike, mask: ArrayLike | None = None, *,
              scale: float | None = None, causal: bool = False, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """softmax(scale * q k^T + mask) v: q [..., M, D], k [..., N, D], v [..., N, E] to [..., M, E].

    mask: [..., M, N], what is added, or bool: where to look. scale: 1 / sqrt(D) if not given. causal: row i
    looks at columns up to i + N - M.
    """
    operands = _operands(q, k, v, mask)
    q, v = operands[0], operands[2]
    attrs: dict[str, Any] = {} if scale is None else {"scale": scale}
    if causal:
        attrs["causal"] = 0
    return _run("attention", operands, (*q.shape[:-1], *v.shape[-1:]), q.dtype, out, attrs)


def matmul(a: ArrayLike, b: ArrayLike, *, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """numpy.matmul, of one element type. Of bytes, `out` may be int32: then no sum wraps at 8 bits. That of int8 and uint8 is int32."""
    a, b = np.asarray(a), np.asarray(b)
    shape: tuple[int, ...] = ()
    kind = np.dtype("int32") if {a.dtype.name, b.dtype.name} == {"int8", "uint8"} else a.dtype
    if out is None:
        try:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ValueError:
            batch = ()  # the kernel has the message
        shape = batch + a.shape[:-1][-1:] + (b.shape[-1:] if b.ndim > 1 else ())
    return _run("matmul", (a, b), shape, kind, out)


def _format(name: str) -> Any:
    if name not in block_formats:
        raise InvalidError(f"unknown block format '{name}'; known: {' '.join(block_formats)}")
    return block_formats[name]


def quantize(x: ArrayLike, format: str, *, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Numbers as ggml's quantised blocks: float32 [..., n] to uint8 [..., n / values * bytes].

    format: a name of `shoal.block_formats`. q8_0, q4_0 and q4_1 are those of the package gguf, bit by bit; of
    q4_k and q6_k, which it does not make, the scales of least squared error are searched for.
    """
    x, block = np.asarray(x), _format(format)
    last = x.shape[-1] // block.values * block.bytes if x.ndim else 0
    return _run("quantize", (x,), (*x.shape[:-1], last), "uint8", out, {"format": format})


def dequantize(bytes: ArrayLike, format: str, dtype: Any = "float32", *, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """The numbers of quantised blocks: uint8 [..., blocks * bytes] to [..., blocks * values]."""
    bytes, block = np.asarray(bytes), _format(format)
    kind = np.dtype(dtype) if out is None else _result(out).dtype
    last = bytes.shape[-1] // block.bytes * block.values if bytes.ndim else 0
    return _run("dequantize", (bytes,), (*bytes.shape[:-1], last), kind, out,
                {"format": format, "dtype": kind.name})


def matmul_packed(x: ArrayLike, weights: ArrayLike, format: str, *, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """float32 x [..., K] times the transpose of quantised weights [N, K], as bytes, to [..., N]."""
    x, weights = np.asarray(x), np.asarray(weights)
    _format(format)
    return _run("matmul_packed", (x, weights), (*x.shape[:-1], *weights.shape[:1]), "float32", out,
                {"format": format})


def apply(name: str, *operands: ArrayLike, out: NDArray[Any] | tuple[NDArray[Any], ...], **attrs: Any) -> Any:
    """Any operation of the table without bodies (`shoal.operations()`), with its attributes, into `out`."""
    outs = out if isinstance(out, tuple) else (out,)
    _shoal.kernel(name, tuple(_pair(np.asarray(x)) for x in operands), attrs, tuple(_pair(_result(x)) for x in outs))
    return out
