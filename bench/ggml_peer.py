"""Products of a few rows with quantised weights by ggml, beside packed.c.

    ggml_peer.py plain|repack FORMAT ROWS N K THREADS

plain: the weights lie as in a file. repack: interleaved by rows, as ggml prefers where it has kernels for that, which depends on
format and processor; `ready none` says that it has none. Speaks the protocol of lib.Peer otherwise: after `ready` come the bytes
of the weights and ggml's version. The first result is checked against the numbers before they were quantised.

ggml is called by its functions alone, since its structures differ between versions.
"""
import ctypes
import importlib.util
import os
import sys
from ctypes import c_bool, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path

import numpy as np

import lib

F32 = 0
# Per format: its number, as in GGUF, and how far a result may be off, in parts of what results are like on average: six times
# what rounding the weights does to random numbers, and at 8 bits rounding x, too.
FORMATS = {"q4_0": (2, 0.4), "q4_1": (3, 0.4), "q8_0": (8, 0.04), "q4_k": (12, 0.4), "q6_k": (14, 0.1)}
CPU = 0  # a kind of device
MADE = 16  # so many rows of weights are made, and then again and again


SAID = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)


class Params(ctypes.Structure):
    _fields_ = [("mem_size", c_size_t), ("mem_buffer", c_void_p), ("no_alloc", c_bool)]


# What is called: the type of the result, and those of the arguments.
FUNCTIONS = {
    "ggml_version": [c_char_p],
    "ggml_log_set": [None, SAID, c_void_p],
    "ggml_row_size": [c_size_t, c_int, c_int64],
    "ggml_quantize_chunk": [c_size_t, c_int, c_void_p, c_void_p, c_int64, c_int64, c_int64, c_void_p],
    "ggml_tensor_overhead": [c_size_t],
    "ggml_graph_overhead": [c_size_t],
    "ggml_init": [c_void_p, Params],
    "ggml_new_tensor_2d": [c_void_p, c_void_p, c_int, c_int64, c_int64],
    "ggml_mul_mat": [c_void_p, c_void_p, c_void_p, c_void_p],
    "ggml_new_graph": [c_void_p, c_void_p],
    "ggml_build_forward_expand": [None, c_void_p, c_void_p],
    "ggml_backend_dev_by_type": [c_void_p, c_int],
    "ggml_backend_dev_init": [c_void_p, c_void_p, c_char_p],
    "ggml_backend_dev_backend_reg": [c_void_p, c_void_p],
    "ggml_backend_dev_buffer_type": [c_void_p, c_void_p],
    "ggml_backend_dev_supports_op": [c_bool, c_void_p, c_void_p],
    "ggml_backend_reg_get_proc_address": [c_void_p, c_void_p, c_char_p],
    "ggml_backend_buft_name": [c_char_p, c_void_p],
    "ggml_backend_cpu_set_n_threads": [None, c_void_p, c_int],
    "ggml_backend_alloc_ctx_tensors_from_buft": [c_void_p, c_void_p, c_void_p],
    "ggml_backend_tensor_set": [None, c_void_p, c_void_p, c_size_t, c_size_t],
    "ggml_backend_tensor_get": [None, c_void_p, c_void_p, c_size_t, c_size_t],
    "ggml_backend_graph_compute": [c_int, c_void_p, c_void_p],
}


def folder():
    """Where the libraries are: the folder that SHOAL_BENCH_GGML names, or that of llama-cpp-python, which stays unimported."""
    chosen, spec = os.environ.get("SHOAL_BENCH_GGML"), importlib.util.find_spec("llama_cpp")
    found = Path(chosen) if chosen else Path(spec.submodule_search_locations[0], "lib") if spec else None
    if found is None or not (found / "libggml-base.so").exists():
        raise lib.Absent(f"no libggml-base.so{f' in {found}' if found else ''}; `make ggml` builds ggml for this processor, or "
                         "name a folder of it in SHOAL_BENCH_GGML")
    return found


class Library:
    """ggml's functions, by their names without `ggml_`."""

    def __init__(self, where):
        for name in ("ggml-base", "ggml-cpu", "ggml"):  # each needs those before it
            ctypes.CDLL(where / f"lib{name}.so", ctypes.RTLD_GLOBAL)
        every = ctypes.CDLL(None)
        for name, (result, *arguments) in FUNCTIONS.items():
            function = getattr(every, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name.removeprefix("ggml_"), function)
        self.quiet = SAID(lambda *_: None)  # it tells of every tensor that it interleaves; kept as long as it may be called
        self.log_set(self.quiet, None)

    def context(self):
        """Room for a graph and its tensors, but not for their numbers."""
        return self.init(Params(self.graph_overhead() + 8 * self.tensor_overhead(), None, True))

    def repacked(self, device):
        """The type of buffers in which weights are interleaved, or None."""
        get = self.backend_reg_get_proc_address(self.backend_dev_backend_reg(device), b"ggml_backend_dev_get_extra_bufts")
        kinds = ctypes.CFUNCTYPE(ctypes.POINTER(c_void_p), c_void_p)(get)(device) if get else None
        for kind in kinds or ():
            if kind is None:  # the last one
                return None
            if self.backend_buft_name(kind) == b"CPU_REPACK":
                return kind
        return None


def main():
    how, name, *sizes = sys.argv[1:]
    (number, most), (rows, n, k, threads) = FORMATS[name], map(int, sizes)
    ggml = Library(folder())
    device = ggml.backend_dev_by_type(CPU)
    usual = ggml.backend_dev_buffer_type(device)
    kind = usual if how == "plain" else ggml.repacked(device)
    if kind is None:
        return print("ready none")
    context, weights = ggml.context(), ggml.context()
    w = ggml.new_tensor_2d(weights, number, k, n)
    x = ggml.new_tensor_2d(context, F32, k, rows)
    y = ggml.mul_mat(context, w, x)
    if not all(map(ggml.backend_alloc_ctx_tensors_from_buft, (weights, context), (kind, usual))):
        sys.exit("ggml_peer: no memory")
    # Asked before anything is written: where there is no kernel, writing ends the process.
    if not ggml.backend_dev_supports_op(device, y):
        return print("ready none")

    random = np.random.default_rng(1)
    source = random.uniform(-1, 1, (MADE, k)).astype(np.float32)
    blocks = np.empty(MADE * ggml.row_size(number, k), np.uint8)
    ggml.quantize_chunk(number, source.ctypes.data, blocks.ctypes.data, 0, MADE, k, None)
    packed = np.resize(blocks, n * ggml.row_size(number, k))
    factors = random.uniform(-1, 1, (rows, k)).astype(np.float32)
    ggml.backend_tensor_set(w, packed.ctypes.data, 0, packed.nbytes)
    ggml.backend_tensor_set(x, factors.ctypes.data, 0, factors.nbytes)
    backend, graph = ggml.backend_dev_init(device, None), ggml.new_graph(context)
    ggml.backend_cpu_set_n_threads(backend, threads)
    ggml.build_forward_expand(graph, y)

    def multiply():
        if ggml.backend_graph_compute(backend, graph):
            sys.exit("ggml_peer: the graph was not computed")
    multiply()
    result = np.empty((rows, n), np.float32)
    ggml.backend_tensor_get(y, result.ctypes.data, 0, result.nbytes)
    right = factors.astype(np.float64) @ source.T.astype(np.float64)
    off = np.abs(result - right[:, np.arange(n) % MADE]).max() / right.std()
    if not off <= most:
        sys.exit(f"ggml_peer: {how} {name}: results are up to {off:.3g} of their deviation off, not {most}")
    return lib.serve(multiply, packed.nbytes, ggml.version().decode())


if __name__ == "__main__":
    main()
