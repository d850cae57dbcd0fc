"""Types of `shoal.optim.optimizer`. Written by tools/stubs.py."""
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..tensor import Axes, DType, Operand, Shape, Sorted, Tensor

class Adam(Optimizer):
    def __init__(
        self, params: Any, lr: float = ..., betas: Any = ..., eps: float = ...,
        weight_decay: float = ..., amsgrad: bool = ..., *, maximize: bool = ..., **switches: Any
    ) -> None: ...
    decoupled: Any

class AdamW(Adam):
    def __init__(
        self, params: Any, lr: float = ..., betas: Any = ..., eps: float = ...,
        weight_decay: float = ..., amsgrad: bool = ..., *, maximize: bool = ..., **switches: Any
    ) -> None: ...
    decoupled: Any

class Numbers:
    def __init__(self) -> None: ...
    def like(self, tensor: Any, group: Any, name: str, number: Any) -> Tensor: ...
    def settings(self, tensor: Any, group: Any) -> Tensor: ...

class Optimizer:
    def __init__(self, params: Any, defaults: Any, switches: Any = ...) -> None: ...
    def __repr__(self) -> str: ...
    def add_param_group(self, group: Any, *, param_group: Any = ...) -> None: ...
    def load_state_dict(self, state_dict: Any) -> Any: ...
    def state_dict(self) -> Any: ...
    def step(self, closure: Any = ...) -> Tensor: ...
    def zero_grad(self, set_to_none: bool = ...) -> None: ...

class RMSprop(Optimizer):
    def __init__(
        self, params: Any, lr: float = ..., alpha: float = ..., eps: float = ...,
        weight_decay: float = ..., momentum: float = ..., centered: Any = ..., *,
        maximize: bool = ..., **switches: Any
    ) -> None: ...

class SGD(Optimizer):
    def __init__(
        self, params: Any, lr: float = ..., momentum: float = ..., dampening: float = ...,
        weight_decay: float = ..., nesterov: bool = ..., *, maximize: bool = ..., **switches: Any
    ) -> None: ...

