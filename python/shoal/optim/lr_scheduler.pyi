"""Types of `shoal.optim.lr_scheduler`. Written by tools/stubs.py."""
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from ..tensor import Extreme
from .optimizer import Optimizer

class ChainedScheduler:
    optimizer: Any
    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None: ...
    def get_last_lr(self) -> list[float]: ...
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def step(self) -> None: ...


class LRScheduler:
    optimizer: Optimizer
    base_lrs: list[float]
    last_epoch: int
    def __init__(self, optimizer: Optimizer, last_epoch: int = -1, verbose: bool = False) -> None: ...
    chains: bool
    def get_last_lr(self) -> list[float]: ...
    def get_lr(self) -> list[float]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...
    def rate(self, base: Any, group: Any, epoch: Any) -> Any: ...
    def state_dict(self) -> dict[str, Any]: ...
    def step(self, epoch: Any = None) -> None: ...


class ReduceLROnPlateau:
    min_lrs: list[float]
    best: Any
    num_bad_epochs: Any
    cooldown_counter: Any
    last_epoch: Any
    optimizer: Any
    mode: Extreme
    factor: Any
    patience: Any
    threshold: Any
    threshold_mode: Any
    cooldown: Any
    eps: Any
    def __init__(
        self, optimizer: Optimizer, mode: str = 'min', factor: float = 0.1, patience: int = 10,
        threshold: float = 0.0001, threshold_mode: str = 'rel', cooldown: int = 0, min_lr: float = 0.0,
        eps: float = 1e-08, verbose: bool = False
    ) -> None: ...
    def get_last_lr(self) -> list[float]: ...
    def is_better(self, a: Any, best: Any) -> bool: ...
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def step(self, metrics: Any, epoch: Any = None) -> None: ...


class SequentialLR:
    last_epoch: Any
    optimizer: Any
    schedulers: Any
    milestones: Any
    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int],
        last_epoch: int = -1, verbose: bool = False
    ) -> None: ...
    def get_last_lr(self) -> list[float]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def step(self) -> None: ...


class ConstantLR(LRScheduler):
    factor: Any
    total_iters: Any
    def __init__(
        self, optimizer: Optimizer, factor: float = 0.3333333333333333, total_iters: int = 5,
        last_epoch: int = -1, verbose: bool = False
    ) -> None: ...
    chains: bool
    def rate(self, base: Any, group: Any, epoch: Any) -> Any: ...


class CosineAnnealingLR(LRScheduler):
    T_max: Any
    eta_min: Any
    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1,
        verbose: bool = False
    ) -> None: ...
    chains: bool
    def rate(self, base: Any, group: Any, epoch: Any) -> Any: ...


class CosineAnnealingWarmRestarts(LRScheduler):
    T_0: Any
    T_mult: Any
    eta_min: Any
    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0,
        last_epoch: int = -1, verbose: bool = False
    ) -> None: ...
    def rate(self, base: Any, group: Any, epoch: Any) -> Any: ...
    def step(self, epoch: Any = None) -> None: ...


class CyclicLR(LRScheduler):
    lows: Any
    highs: Any
    momenta: Any
    up: Any
    down: Any
    scale_fn: Any
    scale_mode: Any
    def __init__(
        self, optimizer: Optimizer, base_lr: float, max_lr: float, step_size_up: Any = 2000,
        step_size_down: Any = None, mode: str = 'triangular', gamma: float = 1.0,
        scale_fn: Callable[..., Any] | None = None, scale_mode: str = 'cycle',
        cycle_momentum: bool = True, base_momentum: float = 0.8, max_momentum: float = 0.9,
        last_epoch: int = -1, verbose: bool = False
    ) -> None: ...
    def rate(self, base: Any, group: Any, epoch: Any) -> Any: ...


class ExponentialLR(LRScheduler):
    gamma: Any
    def __init__(
        self, optimizer: Optimizer, gamma: float, last_epoch: int = -1, verbose: bool = False
    ) -> None: ...
    chains: bool
    def rate(self, base: Any, group: Any, epoch: Any) -> Any: ...


class LambdaLR(LRScheduler):
    lr_lambdas: Any
    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1, verbose: bool = False
    ) -> None: ...
    def rate(self, base: Any, group: Any, epoch: Any) -> Any: ...


class LinearLR(LRScheduler):
    total_iters: Any
    start_factor: Any
    end_factor: Any
    def __init__(
        self, optimizer: Optimizer, start_factor: float = 0.3333333333333333, end_factor: float = 1.0,
        total_iters: int = 5, last_epoch: int = -1, verbose: bool = False
    ) -> None: ...
    chains: bool
    def rate(self, base: Any, group: Any, epoch: Any) -> Any: ...


class MultiStepLR(LRScheduler):
    milestones: Any
    gamma: Any
    def __init__(
        self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1,
        verbose: bool = False
    ) -> None: ...
    chains: bool
    def rate(self, base: Any, group: Any, epoch: Any) -> Any: ...


class MultiplicativeLR(LRScheduler):
    lr_lambdas: Any
    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1, verbose: bool = False
    ) -> None: ...
    chains: bool
    def rate(self, base: Any, group: Any, epoch: Any) -> Any: ...


class OneCycleLR(LRScheduler):
    max_lrs: Any
    total_steps: Any
    ends: Any
    momenta: Any
    final: Any
    strategy: Any
    three_phase: Any
    def __init__(
        self, optimizer: Optimizer, max_lr: float, total_steps: int | None = None,
        epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
        anneal_strategy: str = 'cos', cycle_momentum: bool = True, base_momentum: float = 0.85,
        max_momentum: float = 0.95, div_factor: float = 25.0, final_div_factor: float = 10000.0,
        three_phase: bool = False, last_epoch: int = -1, verbose: bool = False
    ) -> None: ...
    def rate(self, base: Any, group: Any, epoch: Any) -> Any: ...


class PolynomialLR(LRScheduler):
    total_iters: Any
    power: Any
    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1,
        verbose: bool = False
    ) -> None: ...
    chains: bool
    def rate(self, base: Any, group: Any, epoch: Any) -> Any: ...


class StepLR(LRScheduler):
    step_size: Any
    gamma: Any
    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1,
        verbose: bool = False
    ) -> None: ...
    chains: bool
    def rate(self, base: Any, group: Any, epoch: Any) -> Any: ...


class WarmupCosineLR(LRScheduler):
    warmup_steps: Any
    total_steps: Any
    eta_min: Any
    def __init__(
        self, optimizer: Optimizer, warmup_steps: int, total_steps: int, eta_min: float = 0.0,
        last_epoch: int = -1, verbose: bool = False
    ) -> None: ...
    def rate(self, base: Any, group: Any, epoch: Any) -> Any: ...

