"""Types of `shoal.distributions.kl`. Written by tools/stubs.py."""
from collections.abc import Callable
from typing import Any
from ..tensor import Tensor
from .distribution import Distribution
def kl_divergence(p: Distribution, q: Distribution) -> Tensor: ...
def register_kl(
    type_p: type, type_q: type
) -> Callable[[Callable[[Any, Any], Tensor]], Callable[[Any, Any], Tensor]]: ...

__all__ = [
    "kl_divergence", "register_kl"
]
