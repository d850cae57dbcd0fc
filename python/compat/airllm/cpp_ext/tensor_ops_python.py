"""Tensor operations by the package `shoal`, on a device of one of its backends: what needs no building.

As a module it computes on the processor; `tensor_ops_cuda` and `tensor_ops_opencl` are `Operations` elsewhere.
"""
import platform

from shoal import ShoalError, kernels


class Operations:
    """rms_norm, silu, gelu and matmul on the first device of a backend, on NumPy arrays of any strides.

    Results are new arrays, of the element type of `x` (float16, bfloat16, float32 or float64). Wrong shapes and
    types raise shoal.InvalidError, a ValueError.
    """

    def __init__(self, backend):
        """Raises ShoalError, saying why, where there is no such device."""
        self.backend = backend
        with kernels.on(backend):
            pass

    def rms_norm(self, x, weight, eps=1e-6):
        """x / sqrt(mean(x^2) + eps) along the last axis, times weight [x.shape[-1]]."""
        with kernels.on(self.backend):
            return kernels.rms_norm(x, weight, eps)

    def silu(self, x):
        """x / (1 + e^-x)."""
        with kernels.on(self.backend):
            return kernels.silu(x)

    def gelu(self, x):
        """x * Phi(x) by the tanh formula of arXiv:1606.08415."""
        with kernels.on(self.backend):
            return kernels.gelu(x, "tanh")

    def matmul(self, a, b):
        """numpy.matmul, of one element type."""
        with kernels.on(self.backend):
            return kernels.matmul(a, b)

    def device(self):
        """The shoal.kernels.Device that computes."""
        return next(d for d in kernels.devices(self.backend) if d.name)

    def info(self, title):
        """The device as text, under a title."""
        device = self.device()
        memory = f"{device.memory / 2**30:.1f} GiB" if device.memory else "unknown"
        place = "\n  Note: computes on the processor's cores; cpp is faster" if device.same_cores else ""
        return f"{title}:\n  Device: {device.name}\n  Memory: {memory}\n  Compute Units: {device.threads}{place}"


def on_device(backend, needs):
    """Operations for a module of a backend's own: raises ImportError with the reason, and what it needs."""
    try:
        return Operations(backend)
    except ShoalError as error:
        raise ImportError(f"no {backend} device can compute here: {error}. It needs {needs}; "
                          "`shoal doctor` shows what was found") from error


_here = Operations("cpu")
backend = "python"
has_simd = kernels.instructions() != "base" or platform.machine() == "aarch64"  # there every processor has NEON
rms_norm, silu, gelu, matmul = _here.rms_norm, _here.silu, _here.gelu, _here.matmul
