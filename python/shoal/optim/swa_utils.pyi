"""Types of `shoal.optim.swa_utils`. Written by tools/stubs.py."""
from typing import Any
from ..nn.module import Module
from ..tensor import _Device
from .lr_scheduler import LRScheduler
from .optimizer import Optimizer

class AveragedModel(Module):
    module: Any
    avg_fn: Any
    multi_avg_fn: Any
    use_buffers: Any
    n_averaged: Any
    def __init__(
        self, model: Any, device: _Device | None = None, avg_fn: Any = None, multi_avg_fn: Any = None,
        use_buffers: bool = False
    ) -> None: ...
    def forward(self, *args: Any, **kwargs: Any) -> Any: ...
    def update_parameters(self, model: Any) -> None: ...


class SWALR(LRScheduler):
    anneal_epochs: Any
    anneal_strategy: Any
    def __init__(
        self, optimizer: Optimizer, swa_lr: Any, anneal_epochs: Any = 10, anneal_strategy: str = 'cos',
        last_epoch: int = -1
    ) -> None: ...
    def get_lr(self) -> list[float]: ...

def get_ema_avg_fn(decay: float = 0.999) -> Any: ...
def get_ema_multi_avg_fn(decay: float = 0.999) -> Any: ...
def get_swa_avg_fn() -> Any: ...
def get_swa_multi_avg_fn() -> Any: ...
def update_bn(loader: Any, model: Any, device: _Device | None = None) -> None: ...
