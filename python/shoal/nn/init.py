"""Initial values of parameters. All work in place, note no gradients, and return the tensor."""
import math

from ..creation import eye, where
from ..random import checked_std, draw, fractions, rand_like, randn_like
from ..words import check_bounds, invalid
from .module import replace

_GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75,
          "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "conv_transpose1d": 1.0, "conv_transpose2d": 1.0,
          "conv_transpose3d": 1.0}


def calculate_gain(nonlinearity, param=None):
    """What the standard deviation of weights before a nonlinearity is multiplied by, so that it stays from layer to
    layer: sqrt(2) for relu. param: the negative slope of leaky_relu."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise invalid(f"calculate_gain: '{nonlinearity}' is none of leaky_relu, "
                      + ", ".join(_GAINS))
    return _GAINS[nonlinearity]


def _set(tensor, value):
    replace(tensor, value.astype(tensor.dtype).broadcast_to(tensor.shape))
    return tensor


def constant_(tensor, val):
    """One number everywhere."""
    return _set(tensor, tensor.session.full(tensor.shape, val, tensor.dtype))


def zeros_(tensor):
    """Zeros."""
    return constant_(tensor, 0)


def ones_(tensor):
    """Ones."""
    return constant_(tensor, 1)


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Uniformly distributed over [a, b)."""
    check_bounds(a, b, "uniform_")
    return _set(tensor, rand_like(tensor, generator=generator) * (b - a) + a)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Normally distributed, of mean `mean` and standard deviation `std`."""
    return _set(tensor, randn_like(tensor, generator=generator) * checked_std(std, "normal_") + mean)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Of the truncated normal distribution: normally distributed, of mean `mean` and standard deviation `std`, within
    [a, b]; drawn by the inverse of the distribution function."""
    check_bounds(a, b, "trunc_normal_")
    low, high = (0.5 * (1 + math.erf((x - mean) / std / math.sqrt(2))) for x in (a, b))
    u = fractions(tensor.shape, tensor.dtype, generator) * (high - low) + low
    return _set(tensor, (_inverse_normal(u) * std + mean).clamp(a, b))


def _inverse_normal(u):
    """Where the normal distribution function has the value u (Giles, 2012)."""
    y = u * 2 - 1
    w = -((1 - y) * (1 + y)).clamp(min=1e-30).log()
    t = w - 2.5
    near = 2.81022636e-08
    for c in (3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
              -0.00417768164, 0.246640727, 1.50140941):
        near = c + t * near
    t = w.clamp(min=5).sqrt() - 3
    far = -0.000200214257
    for c in (0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
              0.00943887047, 1.00167406, 2.83297682):
        far = c + t * far
    return where(w < 5, near, far) * y * math.sqrt(2)


def eye_(tensor):
    """The identity, of a matrix."""
    return _set(tensor, eye(*tensor.shape, dtype=tensor.dtype))


def dirac_(tensor, groups=1):
    """Of kernels, those that pass each channel on as it is."""
    if tensor.ndim < 3 or tensor.shape[0] % groups:
        raise invalid(f"dirac_: {tensor._text()} in {groups} groups")
    made = tensor.session.full(tensor.shape, 0, tensor.dtype)
    per = tensor.shape[0] // groups
    for g in range(groups):
        for i in range(min(per, tensor.shape[1])):
            made[(g * per + i, i, *(n // 2 for n in tensor.shape[2:]))] = 1
    return _set(tensor, made)


def orthogonal_(tensor, gain=1.0, generator=None):
    """Orthonormal rows, or columns where there are more rows, times gain (Saxe et al., 2013)."""
    from ..linalg import qr
    if tensor.ndim < 2:
        raise invalid(f"orthogonal_: {tensor._text()}; two axes are needed")
    rows = tensor.shape[0]
    flat = draw(((rows, tensor.numel() // max(rows, 1)),), "NORMAL", "float64", generator=generator)
    tall = flat.mT if rows < flat.shape[1] else flat
    Q, R = qr(tall)
    Q = Q * R.diagonal().sign()
    return _set(tensor, ((Q.mT if rows < flat.shape[1] else Q) * gain).reshape(tensor.shape))


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Normally distributed, with a share of zeros in each column, of a matrix."""
    if tensor.ndim != 2:
        raise invalid(f"sparse_: {tensor._text()} is no matrix")
    zeros = math.ceil(sparsity * tensor.shape[0])
    order = draw((tensor.shape,), "UNIFORM", "float32", generator=generator).argsort(0).argsort(0)
    made = randn_like(tensor, generator=generator) * std
    return _set(tensor, where(order < zeros, 0, made))


def _fans(tensor):
    if tensor.ndim < 2:
        raise invalid(f"init: {tensor._text()} has no fan-in and fan-out; two axes are needed")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Uniformly distributed over +-gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010)."""
    bound = gain * math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Normally distributed, of standard deviation gain sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio, 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans(tensor))), generator)


def _kaiming(tensor, a, mode, nonlinearity):
    fan = _fans(tensor)[("fan_in", "fan_out").index(mode)]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Uniformly distributed over +-gain sqrt(3 / fan) (He et al., 2015)."""
    bound = math.sqrt(3) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Normally distributed, of standard deviation gain / sqrt(fan) (He et al., 2015)."""
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity), generator)
