"""GT2's `gt.nn`: modules, losses and optimizers, and all of Shoal's beside."""
from shoal.nn import *  # noqa: F401,F403
from shoal.optim import SGD, Adam, AdamW

from ..client.nn import (Linear, Module, Parameter, Sequential, binary_cross_entropy,
                         cross_entropy_loss, mse_loss, relu, sigmoid, tanh)

__all__ = ["Adam", "AdamW", "Linear", "Module", "Parameter", "SGD", "Sequential",
           "binary_cross_entropy", "cross_entropy_loss", "mse_loss", "relu", "sigmoid", "tanh"]
