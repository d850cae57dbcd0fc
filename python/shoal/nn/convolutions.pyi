"""Types of `shoal.nn.convolutions`. Written by tools/stubs.py."""
from typing import Any
from ..tensor import Tensor, _DType, _Device, _Operand, _Shape
from .module import Module

class _Convolution(Module):
    weight: Any
    padding: Any
    padding_mode: Any
    in_channels: Any
    out_channels: Any
    groups: Any
    kernel_size: Any
    stride: Any
    dilation: Any
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: _Shape, stride: _Shape = 1,
        padding: _Shape = 0, dilation: _Shape = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = 'zeros', device: _Device | None = None, dtype: _DType | None = None
    ) -> None: ...
    def extra_repr(self) -> str: ...
    def forward(self, input: Tensor) -> Any: ...
    def reset_parameters(self) -> None: ...


class _Pad(Module):
    padding: Any
    def __init__(self, padding: _Shape) -> None: ...
    def extra_repr(self) -> str: ...
    def forward(self, input: Tensor) -> Any: ...


class CircularPad1d(_Pad):
    ...


class CircularPad2d(_Pad):
    ...


class CircularPad3d(_Pad):
    ...


class Conv1d(_Convolution):
    ...


class Conv2d(_Convolution):
    ...


class Conv3d(_Convolution):
    ...


class ReflectionPad1d(_Pad):
    ...


class ReflectionPad2d(_Pad):
    ...


class ReflectionPad3d(_Pad):
    ...


class ReplicationPad1d(_Pad):
    ...


class ReplicationPad2d(_Pad):
    ...


class ReplicationPad3d(_Pad):
    ...


class ZeroPad1d(_Pad):
    ...


class ZeroPad2d(_Pad):
    ...


class ZeroPad3d(_Pad):
    ...


class _ConstantPad(_Pad):
    value: Any
    def __init__(self, padding: _Shape, value: _Operand) -> None: ...
    def extra_repr(self) -> str: ...
    def forward(self, input: Tensor) -> Any: ...


class _Transposed(_Convolution):
    output_padding: Any
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: _Shape, stride: _Shape = 1,
        padding: _Shape = 0, output_padding: _Shape = 0, groups: int = 1, bias: bool = True,
        dilation: _Shape = 1, padding_mode: str = 'zeros', device: _Device | None = None,
        dtype: _DType | None = None
    ) -> None: ...
    def forward(self, input: Tensor, output_size: _Shape | None = None) -> Any: ...


class ConstantPad1d(_ConstantPad):
    ...


class ConstantPad2d(_ConstantPad):
    ...


class ConstantPad3d(_ConstantPad):
    ...


class ConvTranspose1d(_Transposed):
    ...


class ConvTranspose2d(_Transposed):
    ...


class ConvTranspose3d(_Transposed):
    ...

PADS: dict[str, Any]
