"""Convolutions, and padding at the edges."""
import math

from .. import functional as F
from ..windows import _each, _positive, check_padding
from ..words import invalid
from . import init
from .layers import _empty
from .module import Module

_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "replicate", "circular": "circular"}


class _Convolution(Module):
    """What convolutions over n axes share."""

    _n, _turned = 2, False

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1,
                 bias=True, padding_mode="zeros", device=None, dtype=None):
        super().__init__()
        self._hold(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode)
        shape = (in_channels, out_channels // groups) if self._turned else \
            (out_channels, in_channels // groups)
        self.weight = _empty(*shape, *self.kernel_size, dtype=dtype)
        self.register_parameter("bias", _empty(out_channels, dtype=dtype) if bias else None)
        self.reset_parameters()

    def _hold(self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode):
        what, n = type(self).__name__, self._n
        if groups < 1:
            raise invalid(f"{what}: groups is {groups}; it must be at least 1")
        if in_channels % groups or out_channels % groups:
            raise invalid(f"{what}: {groups} groups do not divide {in_channels} and {out_channels} channels")
        if padding_mode not in _MODES:
            raise invalid(f"{what}: padding_mode '{padding_mode}' is none of " + ", ".join(_MODES))
        check_padding(padding, _each(stride, n), what)
        _positive(what, kernel_size=_each(kernel_size, n), stride=_each(stride, n), dilation=_each(dilation, n))
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = (_each(v, n) for v in (kernel_size, stride, dilation))
        self.padding = padding if isinstance(padding, str) else _each(padding, n)
        self.padding_mode = padding_mode

    def reset_parameters(self):
        """Draws the initial values."""
        init.kaiming_uniform_(self.weight, math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(max(1, math.prod(self.weight.shape[1:])))
            init.uniform_(self.bias, -bound, bound)

    def _padded(self, input):
        if isinstance(self.padding, str):
            total = [d * (k - 1) if self.padding == "same" else 0
                     for k, d in zip(self.kernel_size, self.dilation)]
            edges = [(t // 2, t - t // 2) for t in total]
        else:
            edges = [(p, p) for p in self.padding]
        return F.pad(input, [e for pair in reversed(edges) for e in pair], _MODES[self.padding_mode])

    def forward(self, input):
        call, padding = getattr(F, f"conv{self._n}d"), self.padding
        if self.padding_mode != "zeros":
            input, padding = self._padded(input), 0
        return call(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self):
        text = (f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
                f"stride={self.stride}")
        none = (0,) * self._n
        text += "" if self.padding == none else f", padding={self.padding}"
        text += "" if self.dilation == (1,) * self._n else f", dilation={self.dilation}"
        text += "" if getattr(self, "output_padding", none) == none else \
            f", output_padding={self.output_padding}"
        text += "" if self.groups == 1 else f", groups={self.groups}"
        text += "" if self.bias is not None else ", bias=False"
        return text + ("" if self.padding_mode == "zeros" else f", padding_mode={self.padding_mode}")


class Conv1d(_Convolution):
    """Cross-correlation of (N, C, L) with learned kernels; padding numbers, "same" or "valid"."""
    _n = 1


class Conv2d(_Convolution):
    """Cross-correlation of (N, C, H, W) with learned kernels; padding numbers, "same" or "valid"."""
    _n = 2


class Conv3d(_Convolution):
    """Cross-correlation of (N, C, D, H, W) with learned kernels; padding numbers, "same" or "valid"."""
    _n = 3


class _Transposed(_Convolution):
    _turned = True

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0,
                 groups=1, bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None):
        if padding_mode != "zeros":
            raise invalid(f"{type(self).__name__}: padding_mode '{padding_mode}'; only zeros can be added")
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
                         padding_mode, device, dtype)
        self.output_padding = _each(output_padding, self._n)

    def forward(self, input, output_size=None):
        more = self.output_padding
        if output_size is not None:
            wanted = tuple(output_size)[-self._n:]
            least = [(m - 1) * s - 2 * p + d * (k - 1) + 1 for m, s, p, d, k in zip(
                input.shape[-self._n:], self.stride, self.padding, self.dilation, self.kernel_size)]
            more = tuple(w - m for w, m in zip(wanted, least))
            if any(not 0 <= e < s for e, s in zip(more, self.stride)):
                raise invalid(f"{type(self).__name__}: output_size {list(wanted)} is not from {least} to "
                              f"{[m + s - 1 for m, s in zip(least, self.stride)]}")
        call = getattr(F, f"conv_transpose{self._n}d")
        return call(input, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation)


class ConvTranspose1d(_Transposed):
    """The gradient of Conv1d with respect to its input, as a layer."""
    _n = 1


class ConvTranspose2d(_Transposed):
    """The gradient of Conv2d with respect to its input, as a layer."""
    _n = 2


class ConvTranspose3d(_Transposed):
    """The gradient of Conv3d with respect to its input, as a layer."""
    _n = 3


class _Pad(Module):
    """More elements at the edges of the last n axes; padding: one number, or (before, after) of the last, …"""

    _n, _mode = 2, "constant"

    def __init__(self, padding):
        super().__init__()
        self.padding = (padding,) * 2 * self._n if isinstance(padding, int) else tuple(padding)

    def forward(self, input):
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self):
        return str(self.padding)


class _ConstantPad(_Pad):
    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


def _pads():
    """A class per mode and number of axes."""
    for mode, kind, base in (("constant", "Constant", _ConstantPad), ("constant", "Zero", _Pad),
                             ("reflect", "Reflection", _Pad), ("replicate", "Replication", _Pad),
                             ("circular", "Circular", _Pad)):
        for n in (1, 2, 3):
            name = f"{kind}Pad{n}d"
            yield name, type(name, (base,), {"_n": n, "_mode": mode, "__module__": __name__,
                                             "__doc__": _Pad.__doc__})


PADS = dict(_pads())
globals().update(PADS)
