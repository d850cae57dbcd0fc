"""GT2's modules and losses. Weights are (in, out), and begin small, as there."""
import shoal
from shoal import functional as F
from shoal.nn import Module, Parameter, Sequential

__all__ = ["Linear", "Module", "Parameter", "Sequential", "binary_cross_entropy", "cross_entropy_loss",
           "mse_loss", "relu", "sigmoid", "tanh"]


class Linear(Module):
    """x weight + bias; weight: (in_features, out_features), of deviation 0.01."""

    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        from .. import pool
        pool.session()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(shoal.randn(in_features, out_features) * 0.01)
        self.register_parameter("bias", Parameter(shoal.zeros(out_features)) if bias else None)

    def forward(self, x):
        made = x @ self.weight
        return made if self.bias is None else made + self.bias

    def extra_repr(self):
        return f"in_features={self.in_features}, out_features={self.out_features}"


def mse_loss(pred, target):
    """The mean of (pred - target)^2."""
    return ((pred - target) ** 2).mean()


def binary_cross_entropy(pred, target):
    """The mean of -(target log pred + (1 - target) log(1 - pred))."""
    return F.binary_cross_entropy(pred, target)


def cross_entropy_loss(logits, target):
    """binary_cross_entropy of sigmoid(logits), exact for large ones. For classes use
    `shoal.functional.cross_entropy`."""
    return F.binary_cross_entropy_with_logits(logits, target)


def relu(x):
    """max(x, 0)"""
    return x.relu()


def sigmoid(x):
    """1 / (1 + e^-x)"""
    return x.sigmoid()


def tanh(x):
    """The hyperbolic tangent."""
    return x.tanh()
