"""Types of `shoal.nn.lazy`. Written by tools/stubs.py."""
from typing import Any
from ..tensor import Tensor, _DType, _Device, _Shape
from .convolutions import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .layers import Linear
from .module import Parameter
from .norms import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d

class LazyLinear(Linear):
    def __call__(self, input: Tensor, *args: Any, **keywords: Any) -> Any: ...
    def __init__(
        self, out_features: int, bias: bool = True, device: _Device | None = None,
        dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...


class LazyConv1d(Conv1d):
    def __call__(self, input: Tensor, *args: Any, **keywords: Any) -> Any: ...
    def __init__(
        self, out_channels: int, kernel_size: _Shape, stride: _Shape = 1, padding: _Shape = 0,
        dilation: _Shape = 1, groups: int = 1, bias: bool = True, padding_mode: str = 'zeros',
        device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...


class LazyConv2d(Conv2d):
    def __call__(self, input: Tensor, *args: Any, **keywords: Any) -> Any: ...
    def __init__(
        self, out_channels: int, kernel_size: _Shape, stride: _Shape = 1, padding: _Shape = 0,
        dilation: _Shape = 1, groups: int = 1, bias: bool = True, padding_mode: str = 'zeros',
        device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...


class LazyConv3d(Conv3d):
    def __call__(self, input: Tensor, *args: Any, **keywords: Any) -> Any: ...
    def __init__(
        self, out_channels: int, kernel_size: _Shape, stride: _Shape = 1, padding: _Shape = 0,
        dilation: _Shape = 1, groups: int = 1, bias: bool = True, padding_mode: str = 'zeros',
        device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...


class LazyBatchNorm1d(BatchNorm1d):
    def __call__(self, input: Tensor, *args: Any, **keywords: Any) -> Any: ...
    def __init__(
        self, eps: float = 1e-05, momentum: float = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...


class LazyBatchNorm2d(BatchNorm2d):
    def __call__(self, input: Tensor, *args: Any, **keywords: Any) -> Any: ...
    def __init__(
        self, eps: float = 1e-05, momentum: float = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...


class LazyBatchNorm3d(BatchNorm3d):
    def __call__(self, input: Tensor, *args: Any, **keywords: Any) -> Any: ...
    def __init__(
        self, eps: float = 1e-05, momentum: float = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...


class LazyConvTranspose1d(ConvTranspose1d):
    def __call__(self, input: Tensor, *args: Any, **keywords: Any) -> Any: ...
    def __init__(
        self, out_channels: int, kernel_size: _Shape, stride: _Shape = 1, padding: _Shape = 0,
        output_padding: _Shape = 0, groups: int = 1, bias: bool = True, dilation: _Shape = 1,
        padding_mode: str = 'zeros', device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...


class LazyConvTranspose2d(ConvTranspose2d):
    def __call__(self, input: Tensor, *args: Any, **keywords: Any) -> Any: ...
    def __init__(
        self, out_channels: int, kernel_size: _Shape, stride: _Shape = 1, padding: _Shape = 0,
        output_padding: _Shape = 0, groups: int = 1, bias: bool = True, dilation: _Shape = 1,
        padding_mode: str = 'zeros', device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...


class LazyConvTranspose3d(ConvTranspose3d):
    def __call__(self, input: Tensor, *args: Any, **keywords: Any) -> Any: ...
    def __init__(
        self, out_channels: int, kernel_size: _Shape, stride: _Shape = 1, padding: _Shape = 0,
        output_padding: _Shape = 0, groups: int = 1, bias: bool = True, dilation: _Shape = 1,
        padding_mode: str = 'zeros', device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...


class LazyInstanceNorm1d(InstanceNorm1d):
    def __call__(self, input: Tensor, *args: Any, **keywords: Any) -> Any: ...
    def __init__(
        self, eps: float = 1e-05, momentum: float = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...


class LazyInstanceNorm2d(InstanceNorm2d):
    def __call__(self, input: Tensor, *args: Any, **keywords: Any) -> Any: ...
    def __init__(
        self, eps: float = 1e-05, momentum: float = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...


class LazyInstanceNorm3d(InstanceNorm3d):
    def __call__(self, input: Tensor, *args: Any, **keywords: Any) -> Any: ...
    def __init__(
        self, eps: float = 1e-05, momentum: float = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...


class UninitializedParameter(Parameter):
    @staticmethod
    def __new__(
        cls: Any, requires_grad: bool = True, device: _Device | None = None, dtype: _DType | None = None
    ) -> Any: ...
    def __repr__(self) -> str: ...

LAZY: dict[str, Any]
