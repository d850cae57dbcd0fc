"""Types of `shoal.nn.convolutions`. Written by tools/stubs.py."""
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..tensor import Axes, DType, Operand, Shape, Sorted, Tensor
from .module import Module, Parameter

class CircularPad1d(_Pad):
    ...

class CircularPad2d(_Pad):
    ...

class CircularPad3d(_Pad):
    ...

class ConstantPad1d(_ConstantPad):
    ...

class ConstantPad2d(_ConstantPad):
    ...

class ConstantPad3d(_ConstantPad):
    ...

class Conv1d(_Convolution):
    ...

class Conv2d(_Convolution):
    ...

class Conv3d(_Convolution):
    ...

class ConvTranspose1d(_Transposed):
    ...

class ConvTranspose2d(_Transposed):
    ...

class ConvTranspose3d(_Transposed):
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

