"""The same operations in NumPy, to compare results and times with."""
import numpy as np

TOLERANCE = 1e-5  # of float32, relative to the largest magnitude


def rms_norm(x, weight, eps=1e-6):
    """x / sqrt(mean(x^2) + eps) along the last axis, times weight."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.asarray(eps, x.dtype)) * weight


def silu(x):
    """x / (1 + e^-x)."""
    return x / (1 + np.exp(-x))


def gelu(x):
    """x * Phi(x) by the tanh formula."""
    return 0.5 * x * (1 + np.tanh(np.asarray(np.sqrt(2 / np.pi), x.dtype) * (x + 0.044715 * x * x * x)))


def arguments(operation, x, weight):
    """What an operation is called with."""
    return (x, weight) if operation == "rms_norm" else (x,)


def errors(module, shapes=((1, 1), (3, 7), (32, 512), (128, 4096), (2, 3, 33), (0, 5))):
    """(what, largest error) of each operation of a module on float32 of each shape, against float64, relative to the
    largest magnitude."""
    rng = np.random.default_rng(0)
    for shape in shapes:
        x = rng.standard_normal(shape).astype(np.float32) * 3
        weight = rng.standard_normal(shape[-1]).astype(np.float32)
        for operation, truth in (("rms_norm", rms_norm), ("silu", silu), ("gelu", gelu)):
            got = getattr(module, operation)(*arguments(operation, x, weight))
            assert got.shape == x.shape and got.dtype == x.dtype, f"{operation} of {x.dtype}{shape}: {got.dtype}{got.shape}"
            want = truth(*arguments(operation, x.astype(np.float64), weight.astype(np.float64)))
            yield f"{operation} of {shape}", np.abs(got - want).max(initial=0) / max(1, np.abs(want).max(initial=0))
