"""GT2's modules and losses. Weights are (in, out), and begin small, as there."""
import shoal
from shoal import functional as F
from shoal import nn as _nn
from shoal.nn import Parameter
from shoal.recording import restructured

from .tensor import Tensor

__all__ = ["Linear", "Module", "Parameter", "Sequential", "binary_cross_entropy", "cross_entropy_loss",
           "mse_loss", "relu", "sigmoid", "tanh"]


class Parameters(dict):
    """A module's parameters by their names, to be used as the list that GT2 has: what is appended gets
    the next number as its name."""

    def append(self, parameter):
        """One more; each stands once."""
        if not any(parameter is known for known in self.values()):
            self[str(len(self))] = parameter
            restructured()

    def extend(self, parameters):
        """Several more."""
        for parameter in parameters:
            self.append(parameter)

    def __iadd__(self, parameters):
        self.extend(parameters)
        return self

    def __iter__(self):
        return iter(self.values())

    def __getitem__(self, key):
        return list(self.values())[key] if isinstance(key, (int, slice)) else super().__getitem__(key)


class Module(_nn.Module):
    """A part of a model. `_parameters` may be extended as a list, and any tensor stand for a parameter."""

    def __init__(self):
        super().__init__()
        object.__setattr__(self, "_parameters", Parameters())

    def __setattr__(self, name, value):
        if isinstance(value, Tensor) and not isinstance(value, Parameter) and \
                self.__dict__.get("_parameters", {}).get(name) is not None:
            self._parameters[name] = value
            restructured()
        elif name == "_parameters" and isinstance(value, (list, tuple)):
            table = Parameters()
            table.extend(value)
            object.__setattr__(self, name, table)
        else:
            super().__setattr__(name, value)

    def __dir__(self):
        return sorted({*object.__dir__(self), *self._parameters.keys(), *self._buffers, *self._modules})

    def parameters(self, recurse=True):
        """All parameters, each once, as a list."""
        return list(super().parameters(recurse))


class Sequential(Module, _nn.Sequential):
    """Modules one after another."""

    def __init__(self, *modules):
        _nn.Sequential.__init__(self, *modules)


class Linear(Module):
    """x weight + bias; weight: (in_features, out_features), of deviation 0.01."""

    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        from .. import pool
        pool.session()
        self.in_features, self.out_features = in_features, out_features
        self._parameters["weight"] = (shoal.randn(in_features, out_features) * 0.01).requires_grad_()
        self._parameters["bias"] = shoal.zeros(out_features).requires_grad_() if bias else None

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
