"""Normalisation over batches, groups and instances."""
from .. import functional as F
from ..creation import ones, tensor, zeros
from ..words import invalid
from .module import Module, Parameter


class _Norm(Module):
    """What batch and instance norms hold: a scale and a shift per channel, and what has been seen."""

    _axes = ()  # numbers of axes that an input may have

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True,
                 device=None, dtype=None):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        for name, made in (("weight", ones), ("bias", zeros)):
            self.register_parameter(name, Parameter(made(num_features, dtype=dtype)) if affine else None)
        seen = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, dtype=dtype) if seen else None)
        self.register_buffer("running_var", ones(num_features, dtype=dtype) if seen else None)
        self.register_buffer("num_batches_tracked", tensor(0, dtype="int64") if seen else None)

    def reset_running_stats(self):
        """Forgets what has been seen."""
        if self.running_mean is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self):
        """Begins anew."""
        self.reset_running_stats()
        if self.weight is not None:
            from . import init
            init.ones_(self.weight)
            init.zeros_(self.bias)

    def _checked(self, input):
        if self._axes and input.ndim not in self._axes:
            raise invalid(f"{type(self).__name__}: {input._text()}; "
                          + " or ".join(str(n) for n in self._axes) + " axes are needed")

    def _share(self):
        """Of a batch's mean, what becomes part of the running one."""
        if not self.training or self.num_batches_tracked is None:
            return self.momentum or 0.0
        self.num_batches_tracked += 1
        if self.momentum is None:  # the mean of all batches
            return 1.0 / self.num_batches_tracked.astype(self.running_mean.dtype)
        return self.momentum

    def extra_repr(self):
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"track_running_stats={self.track_running_stats}")


class _BatchNorm(_Norm):
    def forward(self, input):
        self._checked(input)
        return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias,
                            self.training or self.running_mean is None, self._share(), self.eps)


class BatchNorm1d(_BatchNorm):
    """Normalised over all axes but axis 1 of (N, C) or (N, C, L), by the batch in training, else by what has
    been seen."""
    _axes = (2, 3)


class BatchNorm2d(_BatchNorm):
    """As BatchNorm1d, of (N, C, H, W)."""
    _axes = (4,)


class BatchNorm3d(_BatchNorm):
    """As BatchNorm1d, of (N, C, D, H, W)."""
    _axes = (5,)


class SyncBatchNorm(_BatchNorm):
    """As BatchNorm1d, of any number of axes: a batch is one tensor, however many slots it lies on."""


class _InstanceNorm(_Norm):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False,
                 device=None, dtype=None):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)

    def forward(self, input):
        self._checked(input)
        one = input.ndim == self._axes[0]
        x = input.unsqueeze(0) if one else input
        made = F.instance_norm(x, self.running_mean, self.running_var, self.weight, self.bias,
                               self.training or self.running_mean is None, self.momentum, self.eps)
        return made.squeeze(0) if one else made


class InstanceNorm1d(_InstanceNorm):
    """Normalised over the axes after the channels, of each input: (N, C, L) or (C, L)."""
    _axes = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """As InstanceNorm1d, of (N, C, H, W) or (C, H, W)."""
    _axes = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """As InstanceNorm1d, of (N, C, D, H, W) or (C, D, H, W)."""
    _axes = (4, 5)


class GroupNorm(Module):
    """Normalised over groups of channels, axis 1."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None):
        super().__init__()
        if num_channels % num_groups:
            raise invalid(f"GroupNorm: {num_groups} groups do not divide {num_channels} channels")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        for name, made in (("weight", ones), ("bias", zeros)):
            self.register_parameter(name, Parameter(made(num_channels, dtype=dtype)) if affine else None)

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"
