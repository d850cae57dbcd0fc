"""Tensor operations on the first OpenCL device; ImportError, saying why, where there is none."""
from tensor_ops_python import on_device

_device = on_device("opencl", "the OpenCL driver of a GPU (intel-opencl-icd, mesa-opencl-icd or the vendor's own)")
backend = _device.backend
rms_norm, silu, gelu, matmul = _device.rms_norm, _device.silu, _device.gelu, _device.matmul


def get_opencl_info():
    """The device, its memory and its number of compute units, as text."""
    return _device.info("OpenCL Device Info")
