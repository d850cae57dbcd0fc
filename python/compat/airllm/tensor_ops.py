"""Tensor operations on the best backend that is here: cuda, opencl, cpp (if built) or python.

The order, a preference and whether it is forced are in cpp_ext/backend.json (`python setup.py configure_backend`).
An OpenCL device that computes on the processor's own cores is used only where it is preferred. When a device fails
or has no memory left, the next backend computes instead, with a warning; not where a backend is forced.

x: an array of float16, bfloat16, float32 or float64, of any strides; results are new arrays of its type. Wrong
shapes and types raise shoal.InvalidError, a ValueError.
"""
import warnings

from shoal import InvalidError, ShoalError, UnsupportedError

from ._cpp_ext import config as _config
from ._cpp_ext import load as _load


def _module(name, chosen):
    """A backend's module. Raises ImportError, saying why it is not used."""
    module = _load(_config.BACKENDS[name])
    if name != chosen and name in ("cuda", "opencl") and module._device.device().same_cores:
        raise ImportError(f"{name} has only the processor here, for which there is cpp")
    return module


def _find():
    """The configuration, the modules of the backends that are here, and why others are not."""
    found, missing = {}, {}
    settings = _config.read()
    for name in _config.order(settings):
        try:
            found[name] = _module(name, settings["preferred_backend"])
        except ImportError as error:
            missing[name] = str(error)
    if not found:
        reasons = "; ".join(f"{name}: {why}" for name, why in missing.items())
        raise ImportError(f"no backend of {_config.path()} can be used here: {reasons}")
    return settings, found, missing


_settings, _backends, _missing = _find()


def _compute(operation, *operands):
    """An operation by the first backend that does it."""
    while True:
        name = next(iter(_backends))
        try:
            return getattr(_backends[name], operation)(*operands)
        except (InvalidError, UnsupportedError):
            raise
        except ShoalError as error:
            if len(_backends) == 1:
                raise
            _missing[name] = str(error)
            del _backends[name]
            warnings.warn(f"{operation}: {name} has failed ({error}); {next(iter(_backends))} goes on", RuntimeWarning,
                          stacklevel=3)


def rms_norm(x, weight, eps=1e-6):
    """x / sqrt(mean(x^2) + eps) along the last axis, times weight [x.shape[-1]]."""
    return _compute("rms_norm", x, weight, eps)


def silu(x):
    """x / (1 + e^-x)."""
    return _compute("silu", x)


def gelu(x):
    """x * Phi(x) by the tanh formula of arXiv:1606.08415."""
    return _compute("gelu", x)


def matmul(a, b):
    """numpy.matmul, of one element type."""
    return _compute("matmul", a, b)


def get_backend():
    """The name of the backend that computes: "cuda", "opencl", "cpp" or "python"."""
    return next(iter(_backends))


def get_backend_info():
    """The backend, those that are available, why others are not, the configuration, and what each says of itself."""
    info = {"backend": get_backend(), "available_backends": list(_backends), "unavailable_backends": dict(_missing),
            "config": dict(_settings)}
    for name, tell in (("cuda", "get_cuda_info"), ("opencl", "get_opencl_info"), ("cpp", "get_optimization_info")):
        if name in _backends:
            info[f"{name}_info"] = getattr(_backends[name], tell)()
    return info
