"""GT2's client: tensors and modules."""
from shoal import Tensor

from . import nn

__all__ = ["Tensor", "nn"]
