"""Types of `shoal.optim.more`. Written by tools/stubs.py."""
from collections.abc import Callable, Iterable
from typing import Any
from ..tensor import Tensor
from .optimizer import Optimizer

class LBFGS(Optimizer):
    def __init__(
        self, params: Iterable[Tensor | dict[str, Any]], lr: float = 1.0, max_iter: int = 20,
        max_eval: int | None = None, tolerance_grad: float = 1e-07, tolerance_change: float = 1e-09,
        history_size: int = 100, line_search_fn: str | None = None
    ) -> None: ...
    def step(self, closure: Callable[[], Any] | None) -> Any: ...  # type: ignore[override]


class _Counted(Optimizer):
    ...


class ASGD(_Counted):
    def __init__(
        self, params: Iterable[Tensor | dict[str, Any]], lr: float = 0.01, lambd: float = 0.0001,
        alpha: float | Tensor = 0.75, t0: float = 1000000.0, weight_decay: float = 0.0,
        foreach: bool | None = None, *, maximize: bool = False, **switches: Any
    ) -> None: ...


class Adadelta(_Counted):
    def __init__(
        self, params: Iterable[Tensor | dict[str, Any]], lr: float = 1.0, rho: float = 0.9,
        eps: float = 1e-06, weight_decay: float = 0.0, foreach: bool | None = None, *,
        maximize: bool = False, **switches: Any
    ) -> None: ...


class Adafactor(_Counted):
    def __init__(
        self, params: Iterable[Tensor | dict[str, Any]], lr: float = 0.01, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = ..., d: float = 1.0, weight_decay: float = 0.0, *,
        foreach: bool | None = None, maximize: bool = False
    ) -> None: ...


class Adagrad(_Counted):
    def __init__(
        self, params: Iterable[Tensor | dict[str, Any]], lr: float = 0.01, lr_decay: float = 0.0,
        weight_decay: float = 0.0, initial_accumulator_value: float = 0.0, eps: float = 1e-10,
        foreach: bool | None = None, *, maximize: bool = False, **switches: Any
    ) -> None: ...


class Adamax(_Counted):
    def __init__(
        self, params: Iterable[Tensor | dict[str, Any]], lr: float = 0.002,
        betas: tuple[float, float] = ..., eps: float = 1e-08, weight_decay: float = 0.0,
        foreach: bool | None = None, *, maximize: bool = False, **switches: Any
    ) -> None: ...


class Lion(_Counted):
    def __init__(
        self, params: Iterable[Tensor | dict[str, Any]], lr: float = 0.0001,
        betas: tuple[float, float] = ..., weight_decay: float = 0.0, *, maximize: bool = False,
        **switches: Any
    ) -> None: ...


class NAdam(_Counted):
    def __init__(
        self, params: Iterable[Tensor | dict[str, Any]], lr: float = 0.002,
        betas: tuple[float, float] = ..., eps: float = 1e-08, weight_decay: float = 0.0,
        momentum_decay: float = 0.004, decoupled_weight_decay: bool = False, *, maximize: bool = False,
        **switches: Any
    ) -> None: ...


class RAdam(_Counted):
    def __init__(
        self, params: Iterable[Tensor | dict[str, Any]], lr: float = 0.001,
        betas: tuple[float, float] = ..., eps: float = 1e-08, weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False, *, maximize: bool = False, **switches: Any
    ) -> None: ...


class Rprop(_Counted):
    def __init__(
        self, params: Iterable[Tensor | dict[str, Any]], lr: float = 0.01,
        etas: tuple[float, float] = ..., step_sizes: tuple[float, float] = ...,
        foreach: bool | None = None, *, maximize: bool = False, **switches: Any
    ) -> None: ...

