"""Types of `shoal.optim.optimizer`. Written by tools/stubs.py."""
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from ..tensor import Tensor

class Numbers:
    def __init__(self) -> None: ...
    def like(self, tensor: Any, group: Any, name: str, number: Any) -> Tensor: ...
    def settings(self, tensor: Any, group: Any) -> Any: ...


class Optimizer:
    defaults: dict[str, Any]
    state: dict[Tensor, Any]
    param_groups: list[dict[str, Any]]
    def __init__(
        self, params: Iterable[Tensor | dict[str, Any]], defaults: Any, switches: Any = None
    ) -> None: ...
    def __repr__(self) -> str: ...
    def add_param_group(self, group: Any, *, param_group: Any = None) -> None: ...
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any: ...
    def zero_grad(self, set_to_none: bool = True) -> None: ...


class Adam(Optimizer):
    def __init__(
        self, params: Iterable[Tensor | dict[str, Any]], lr: float = 0.001,
        betas: tuple[float, float] = ..., eps: float = 1e-08, weight_decay: float = 0.0,
        amsgrad: bool = False, *, maximize: bool = False, **switches: Any
    ) -> None: ...
    decoupled: bool


class RMSprop(Optimizer):
    def __init__(
        self, params: Iterable[Tensor | dict[str, Any]], lr: float = 0.01, alpha: float | Tensor = 0.99,
        eps: float = 1e-08, weight_decay: float = 0.0, momentum: float = 0.0, centered: bool = False, *,
        maximize: bool = False, **switches: Any
    ) -> None: ...


class SGD(Optimizer):
    def __init__(
        self, params: Iterable[Tensor | dict[str, Any]], lr: float = 0.001, momentum: float = 0.0,
        dampening: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False, *,
        maximize: bool = False, **switches: Any
    ) -> None: ...


class AdamW(Adam):
    def __init__(
        self, params: Iterable[Tensor | dict[str, Any]], lr: float = 0.001,
        betas: tuple[float, float] = ..., eps: float = 1e-08, weight_decay: float = 0.01,
        amsgrad: bool = False, *, maximize: bool = False, **switches: Any
    ) -> None: ...
    decoupled: bool

