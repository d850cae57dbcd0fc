"""GT2's client: tensors, modules, the connection."""
from . import client, nn, tensor
from .client import Client
from .tensor import Tensor

__all__ = ["Client", "Tensor", "client", "nn", "tensor"]
