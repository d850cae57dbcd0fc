"""Figures of single kernels: rows of bench/kernels.c, of the kernel library, and of quantised weights."""
import sys

import numpy as np

import ggml_peer
import lib
from lib import BenchError, Peer, race, timed

SIDE = 4096
ERF_TANH = "NumPy, the tanh form of gelu in place, as it has no erf"


def numpy_softmax(x, out):
    np.subtract(x, x.max(axis=1, keepdims=True), out=out)
    np.exp(out, out=out)
    np.divide(out, out.sum(axis=1, keepdims=True), out=out)


def numpy_rms_norm(x, out, scale):
    square = np.einsum("ij,ij->i", x, x) / np.float32(x.shape[1]) + np.float32(1e-6)
    np.multiply(x, (1 / np.sqrt(square))[:, None], out=out)
    np.multiply(out, scale, out=out)


def numpy_silu(x, out):
    np.negative(x, out=out)
    np.exp(out, out=out)
    np.add(out, np.float32(1), out=out)
    np.divide(x, out, out=out)


def numpy_gelu(x, out):
    np.multiply(x, x, out=out)
    np.multiply(out, np.float32(0.044715 * 0.7978845608), out=out)
    np.add(out, np.float32(0.7978845608), out=out)
    np.multiply(out, x, out=out)
    np.tanh(out, out=out)
    np.add(out, np.float32(1), out=out)
    np.multiply(out, x, out=out)
    np.multiply(out, np.float32(0.5), out=out)


def kernel(name, figure, bar, expression, said, bars=None):
    """Rows of bench/kernels.c: share of memcpy on as many threads, and the ratio to NumPy."""
    side = lib.scaled(SIDE)
    x = np.random.default_rng(1).standard_normal((side, side), dtype=np.float32)
    out = np.empty_like(x)
    program = lib.program("kernels")
    with Peer([program, name, side, 2]) as ours, Peer([program, "memcpy", side, 2]) as copy:
        times = race({"ours": ours, "copy": copy, "numpy": timed(lambda: expression(x, out))},
                     runs=3 * lib.RUNS, warm=2)
    work = 2e-9 * x.nbytes
    return [lib.versus(f"{figure}.share", work, "GB/s", "memcpy, 2 threads", times["ours"],
                       times["copy"], {"ratio": bar}),
            lib.versus(f"{figure}.vs_numpy", work, "GB/s", said, times["ours"], times["numpy"],
                       bars or {})]


def fused():
    """gelu(x * w + b) on 4096 x 4096 f32 as one pass, against memcpy and NumPy."""
    w, b = np.ones(lib.scaled(SIDE), np.float32), np.ones(lib.scaled(SIDE), np.float32)
    both = np.empty((len(w), len(w)), np.float32)

    def expression(x, out):
        np.multiply(x, w, out=both)
        np.add(both, b, out=both)
        numpy_gelu(both, out)
    return kernel("fused", "fused", 0.55, expression, ERF_TANH, {"ratio": 6})


def kernel_rms_norm():
    """rms_norm of 4096 x 4096 f32 along rows, with a scale, against memcpy and NumPy."""
    scale = np.ones(lib.scaled(SIDE), np.float32)
    return kernel("rms_norm", "kernel.rms_norm", 0.7,
                  lambda x, out: numpy_rms_norm(x, out, scale), "NumPy, einsum and in place")


def kernel_softmax():
    """softmax of 4096 x 4096 f32 along rows, against memcpy and NumPy."""
    return kernel("softmax", "kernel.softmax", 0.6, numpy_softmax, "NumPy, in place")


def kernel_silu():
    """silu of 4096 x 4096 f32, against memcpy and NumPy."""
    return kernel("silu", "kernel.silu", 0.6, numpy_silu, "NumPy, in place")


def kernel_gelu():
    """gelu (by erf) of 4096 x 4096 f32, against memcpy and NumPy."""
    return kernel("gelu", "kernel.gelu", 0.55, numpy_gelu, ERF_TANH)


def kernels_small():
    """Single kernels on 128 x 4096 float32, two threads, against the best of several NumPy expressions."""
    lib.product()
    from shoal import kernels
    rng, calls = np.random.default_rng(0), 40
    x, w = rng.standard_normal((128, 4096), np.float32), rng.standard_normal(4096, np.float32)
    out, theirs = np.empty_like(x), np.empty_like(x)
    root = np.float32((2 / np.pi) ** 0.5)
    kernels.set_num_threads(2)
    cases = {  # ours, and NumPy's as one expression and in place
        "rms_norm": (lambda: kernels.rms_norm(x, w, out=out),
                     lambda: x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-6)) * w,
                     lambda: numpy_rms_norm(x, theirs, w)),
        "silu": (lambda: kernels.silu(x, out=out), lambda: x / (1 + np.exp(-x)), lambda: numpy_silu(x, theirs)),
        "gelu": (lambda: kernels.gelu(x, "tanh", out=out),
                 lambda: 0.5 * x * (1 + np.tanh(root * (x + np.float32(0.044715) * x * x * x))),
                 lambda: numpy_gelu(x, theirs)),
    }
    rows = []
    for name, (ours, expression, in_place) in cases.items():
        in_place()
        if not np.allclose(expression(), ours(), atol=1e-5) or not np.allclose(theirs, out, atol=1e-5):
            raise BenchError(f"kernel.{name}: NumPy has other numbers")

        def often(call):
            return timed(lambda: [call() for _ in range(calls)])
        times = race({"ours": often(ours), "expression": often(expression), "in place": often(in_place)})
        best = min(times["expression"], times["in place"], key=np.median)
        rows.append(lib.versus(f"kernel.{name}.small_vs_numpy", calls * x.size / 1e9, "Gelements/s",
                               "the best NumPy expression", times["ours"], best, {"ratio": 5}))
    return rows


# Along rows of the same matrix: what NumPy computes, and how it is named.
ALONG_ROWS = {"sum": (lambda x: np.einsum("ij,ij->", x, x), "NumPy, sum of squares by einsum"),
              "argmax": (lambda x: x.argmax(axis=1), "NumPy"),
              "cumulate": (lambda x: x.cumsum(axis=1), "NumPy, cumsum"),
              "sort": (lambda x: np.sort(x, axis=1), "NumPy")}


def kernel_along_rows(name):
    def run():
        side, (expression, said) = lib.scaled(SIDE), ALONG_ROWS[name]
        x = np.random.default_rng(1).standard_normal((side, side), dtype=np.float32)
        with Peer([lib.program("kernels"), name, side, 2]) as ours:
            times = race({"ours": ours, "numpy": timed(lambda: expression(x))}, warm=2)
        return [lib.versus(f"kernel.{name}.vs_numpy", 1e-9 * x.size, "G/s", said, times["ours"],
                           times["numpy"], {})]
    run.__doc__ = f"{name} along rows of 4096 x 4096 f32, against NumPy."
    return run


PACKED = ("q8_0", "q4_0", "q4_1", "q4_k", "q6_k")


def packed(name):
    """A row: one row of x times quantised weights beyond the caches, two threads, against reading them."""
    n, k = lib.scaled(32768), 4096
    program = lib.program("packed")
    with Peer([program, "ours", name, 1, n, k, 2]) as ours, Peer([program, "read", name, 1, n, k, 2]) as reads:
        times = race({"ours": ours, "read": reads}, runs=None if lib.QUICK else 3 * lib.RUNS)
    return lib.versus(f"qgemv.{name}.share", 1e-9 * int(ours.said[0]), "GB/s", "reading, 2 threads",
                      times["ours"], times["read"], {"ratio": 0.75})


def packed_all():
    """Products of one row with quantised weights, against reading as many bytes."""
    return [packed(name) for name in PACKED]


# What the instructions of a set multiply by groups, and then the least ratio to our own f32.
GROUPED = {"bf16": ({"avx512_bf16", "neon_i8mm"}, 1.8),
           "int8": ({"avx512_vnni", "avx512_bf16", "neon_dot", "neon_i8mm"}, 3.5)}


def grouped(name):
    """Names of the rows, and the function that measures them."""
    sides = [1024, 2048]

    def run():
        rows, (sets, bar) = [], GROUPED[name]
        for side in sides:
            size, program = lib.scaled(side), lib.program("products")
            words = [size, 2]
            with Peer([program, "ours", name, *words]) as ours, Peer([program, "ours", "f32", *words]) as single:
                here = ours.said[0] in sets
                racers = {"ours": ours, "f32": single}
                # oneDNN has no product of bfloat16 where the processor has no AVX-512.
                if here or name != "bf16":
                    with Peer([program, "onednn", name, *words], OMP_NUM_THREADS="2") as onednn:
                        times = race(racers | {"onednn": onednn})
                else:
                    times = race(racers)
            work, said = 2e-9 * size ** 3, f", 2 threads, {ours.said[0]}"
            rows.append(lib.versus(f"gemm.{name}.{side}.vs_f32", work, "GOP/s", f"our f32{said}", times["ours"], times["f32"],
                                   {"ratio": bar} if here else {}))
            if "onednn" in times:
                rows.append(lib.versus(f"gemm.{name}.{side}.vs_onednn", work, "GOP/s", f"oneDNN{said}", times["ours"],
                                       times["onednn"], {"ratio": 0.97} if here else {}))
        return rows
    run.__doc__ = (f"{name} products of square matrices, against our own f32 and oneDNN. Bars hold where the processor has "
                   "instructions for such products.")
    return [f"gemm.{name}.{side}.vs_{peer}" for side in sides for peer in ("f32", "onednn")], run


def beside_ggml(name, rows, n):
    """Bytes of the weights; seconds of ours and of ggml's kernels; the name of the better one of these; ggml's version."""
    ggml_peer.folder()  # raises where there is none
    words = [name, rows, n, 4096, 2]
    peer = [sys.executable, lib.ROOT / "bench" / "ggml_peer.py"]
    with Peer([lib.program("packed"), "ours", *words]) as ours, Peer([*peer, "plain", *words]) as plain, \
            Peer([*peer, "repack", *words]) as repack:
        theirs = {"plain": plain} if repack.said == ["none"] else {"plain": plain, "repacked": repack}
        times = race({"ours": ours} | theirs, runs=None if lib.QUICK else 3 * lib.RUNS)
        return int(ours.said[0]), times, min(theirs, key=lambda kernel: lib.median(times[kernel])), plain.said[1]


def qgemv_ggml(name):
    def run():
        size, times, better, version = beside_ggml(name, 1, lib.scaled(32768))
        bars = {"": (better, 1.0)} | ({"_plain": ("plain", 1.2)} if name == "q4_0" else {})
        return [lib.versus(f"qgemv.{name}.vs_ggml{end}", 1e-9 * size, "GB/s", f"ggml {version}, {kernel}, 2 threads",
                           times["ours"], times[kernel], {"ratio": bar}) for end, (kernel, bar) in bars.items()]
    run.__doc__ = (f"One row times {name} weights beyond the caches, two threads, against the better of ggml's plain and repacked kernels"
                   f"{', and its plain one' if name == 'q4_0' else ''}. ggml rounds the row to 8 bits; ours stays float32.")
    return run


def qgemm_ggml(name):
    def run():
        rows, n = 128, lib.scaled(4096)
        _, times, better, version = beside_ggml(name, rows, n)
        return [lib.versus(f"qgemm.{name}.vs_ggml", 2e-9 * rows * n * 4096, "GFLOP/s", f"ggml {version}, {better}, 2 threads",
                           times["ours"], times[better], {"ratio": 1.5})]
    run.__doc__ = (f"128 rows times 4096 x 4096 {name} weights, two threads, against the better of ggml's plain and repacked kernels. "
                   "ggml rounds the rows to 8 bits; ours stay float32.")
    return run
