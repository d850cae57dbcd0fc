"""Figures of an NVIDIA device, where this machine has one."""
import ctypes
import os
import sys

import device
import lib
from lib import BenchError, Peer, race

SHARED = ["fused", "gelu", "gelu_bf16", "silu", "exp", "add", "softmax", "softmax_bf16", "softmax_columns", "layer_norm", "sum",
          "sum_rows", "sum_columns", "max_rows", "transpose", "gather", "cross_entropy", "matvec", "vecmat"]
PRODUCTS = [name for name in device.CASES if name.startswith("gemm.")]
BARS = {"fused": 0.8}


def is_here():
    """Whether there is a driver; SHOAL_CUDA_LIBRARY names another, as for the backend."""
    try:
        ctypes.CDLL(os.environ.get("SHOAL_CUDA_LIBRARY") or "libcuda.so.1")
    except OSError:
        return False
    return True


def ours(name):
    return Peer([sys.executable, lib.ROOT / "bench/device.py", "shoal", name], SHOAL_BACKEND="cuda")


def torch(python, name):
    return Peer([python(), lib.ROOT / "bench/device.py", "torch", name])


def same(name, mine, theirs):
    """Both results add up to about the same; a result has no speed otherwise."""
    (total, *_), (other, *_) = mine.said, theirs.said
    if abs(float(total) - float(other)) > 2e-2 * abs(float(other)) + 20:
        raise BenchError(f"cuda.{name}: the numbers add up to {total}, not {other}")


def each(peer, times):
    return [seconds / int(peer.said[1]) for seconds in times]


def shared(name, python):
    """Rows: of the bytes that are read and written at least, against a copy, and against PyTorch."""
    def run():
        with ours(name) as mine, torch(python, name) as theirs, Peer([lib.program("cuda"), "copy", device.SIDE]) as copy:
            same(name, mine, theirs)
            times = race({"ours": mine, "torch": theirs, "copy": copy})
        size = 2 if name.endswith("bf16") else 4
        work = 1e-9 * size * device.SIDE ** 2 * device.CASES[name][1]
        best = [seconds * work / (8e-9 * device.SIDE ** 2) for seconds in times["copy"]]
        bar = {"ratio": BARS[name]} if name in BARS else {}
        return [lib.versus(f"cuda.{name}.share", work, "GB/s", "a copy within the device", each(mine, times["ours"]), best, bar),
                lib.versus(f"cuda.{name}.vs_torch", work, "GB/s", " ".join(theirs.said[2:]), each(mine, times["ours"]),
                           each(theirs, times["torch"]), {})]
    run.__doc__ = f"{device.CASES[name][0]} on {device.SIDE} x {device.SIDE} on an NVIDIA device, against a copy and PyTorch."
    return run


def product(name):
    def run():
        _, dtype, size = name.split(".")
        side = lib.scaled(int(size))
        with ours(name) as mine, Peer([lib.program("cuda"), "product", dtype, side, side, side]) as cublas:
            times = race({"ours": mine, "cublas": cublas})
        return [lib.versus(f"cuda.{name}.vs_cublas", 2e-12 * side ** 3, "TFLOP/s", "cuBLAS, called directly",
                           each(mine, times["ours"]), times["cublas"], {"ratio": 0.95} if side > 1024 else {})]
    run.__doc__ = f"{name} on an NVIDIA device, product after product, against cuBLAS called directly."
    return run


def attention(python):
    def run():
        with ours("attention") as mine, torch(python, "attention") as theirs:
            same("attention", mine, theirs)
            times = race({"ours": mine, "torch": theirs})
        return [lib.versus("cuda.attention.vs_torch", 1, "per s", " ".join(theirs.said[2:]), each(mine, times["ours"]),
                           each(theirs, times["torch"]), {})]
    run.__doc__ = "Causal attention of 8 x 16 heads, 1,024 tokens of 64, f32, on an NVIDIA device, against PyTorch."
    return run


def training(python, same_losses, size):
    def run():
        steps, words = lib.scaled(32 if size else 160), [size] if size else []
        with Peer([sys.executable, lib.ROOT / "bench/gpt.py", "embedded", steps, *words], SHOAL_BACKEND="cuda") as mine, \
                Peer([python(), lib.ROOT / "bench/gpt_torch.py", "cuda", steps, *words]) as theirs:
            same_losses(mine, theirs)
            times = race({"ours": mine, "torch": theirs})
        return [lib.versus(f"cuda.{size or 'gpt'}.vs_torch", steps, "steps/s", " ".join(theirs.said[2:]), times["ours"],
                           times["torch"], {})]
    run.__doc__ = f"The training step of {size or 'gpt'}.vs_torch on an NVIDIA device, against PyTorch on it."
    return run


def table(python, same_losses):
    """Names and functions, as figures.TABLE has them; none where there is no such device."""
    if not is_here():
        return []
    return [*(([f"cuda.{name}.vs_cublas"], product(name)) for name in PRODUCTS),
            *(([f"cuda.{name}.share", f"cuda.{name}.vs_torch"], shared(name, python)) for name in SHARED),
            (["cuda.attention.vs_torch"], attention(python)),
            (["cuda.gpt.vs_torch"], training(python, same_losses, "")),
            (["cuda.gpt2.vs_torch"], training(python, same_losses, "gpt2"))]
