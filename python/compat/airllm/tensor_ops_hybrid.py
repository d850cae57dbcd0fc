"""Tensor operations on the processor: by the extension tensor_ops_cpp if it is built, else by the package shoal."""
from shoal import kernels as _kernels

from ._cpp_ext import load as _load

try:
    _module, _missing = _load("tensor_ops_cpp"), None
except ImportError as error:
    _module, _missing = _load("tensor_ops_python"), str(error)

rms_norm, silu, gelu, matmul = _module.rms_norm, _module.silu, _module.gelu, _module.matmul


def get_backend_info():
    """Who computes each operation, and by which instructions."""
    return {"has_cpp_ext": _missing is None, "backend": _module.backend, "has_simd": _module.has_simd,
            "instructions": _kernels.instructions(), "threads": _kernels.get_num_threads(),
            **dict.fromkeys(("rms_norm", "silu", "gelu", "matmul"), _module.backend)}


def print_backend_info():
    """Prints this."""
    info = get_backend_info()
    if _missing:
        print(f"C++ extension: no ({_missing})")
    else:
        print("C++ extension: yes")
    print(f"Instructions: {info['instructions']}, threads: {info['threads']}")
    for name in ("rms_norm", "silu", "gelu", "matmul"):
        print(f"  {name}: {info[name]}")
