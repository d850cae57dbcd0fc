"""Types of `shoal.nn.norms`. Written by tools/stubs.py."""
from typing import Any
from ..tensor import Tensor, _DType, _Device
from .module import Module

class GroupNorm(Module):
    num_groups: Any
    num_channels: Any
    eps: Any
    affine: Any
    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-05, affine: bool = True,
        device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...
    def forward(self, input: Tensor) -> Any: ...


class _Norm(Module):
    num_batches_tracked: Any
    num_features: Any
    eps: Any
    momentum: Any
    affine: Any
    track_running_stats: Any
    def __init__(
        self, num_features: int, eps: float = 1e-05, momentum: float = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...
    def reset_parameters(self) -> None: ...
    def reset_running_stats(self) -> None: ...


class _BatchNorm(_Norm):
    def forward(self, input: Tensor) -> Any: ...


class _InstanceNorm(_Norm):
    def __init__(
        self, num_features: int, eps: float = 1e-05, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def forward(self, input: Tensor) -> Any: ...


class BatchNorm1d(_BatchNorm):
    ...


class BatchNorm2d(_BatchNorm):
    ...


class BatchNorm3d(_BatchNorm):
    ...


class InstanceNorm1d(_InstanceNorm):
    ...


class InstanceNorm2d(_InstanceNorm):
    ...


class InstanceNorm3d(_InstanceNorm):
    ...


class SyncBatchNorm(_BatchNorm):
    ...

