"""Tensor operations on the first CUDA device; ImportError, saying why, where there is none."""
from tensor_ops_python import on_device

_device = on_device("cuda", "an NVIDIA GPU, its driver and NVRTC")
backend = _device.backend
rms_norm, silu, gelu, matmul = _device.rms_norm, _device.silu, _device.gelu, _device.matmul


def get_cuda_info():
    """The device, its memory and its number of multiprocessors, as text."""
    return _device.info("CUDA Device Info")
