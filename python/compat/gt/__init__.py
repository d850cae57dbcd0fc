"""GT2's names over Shoal: programs written for `gt` run unchanged.

    import gt

    a = gt.randn(1000, 1000)
    result = (a @ a).data.numpy()

Without `gt.connect` a pool inside this process is started when it is first needed, with one worker, or as
many as `gt.gpu_workers` says. Tensors are Shoal's, with all that these can do. What differs from GT2:
mistakes are errors at the call, gradients accumulate as in torch, and nothing on the network is trusted.
"""
import os

import shoal
from shoal import (enable_grad, is_grad_enabled, load, manual_seed, no_grad, save, set_grad_enabled,
                   stack, where)

from . import client, config, debug, nn, pool, signals
from . import signals as signal
from .client.tensor import Tensor
from .config import (ShardConfig, SignalConfig, get_config, get_signal_config, load_config,
                     register_config)
from .pool import connect, gpu_workers

__version__ = shoal.__version__
float16, float32, float64 = shoal.float16, shoal.float32, shoal.float64
int32, int64, bool = shoal.int32, shoal.int64, shoal.bool

# What is connected: GT2's programs look here, and set both anew to connect elsewhere.
_client, _connected = None, False


def _begun(make, *args, requires_grad=False, **keywords):
    """What a function of shoal makes, once there is a pool; divided between its workers by GT_AUTO_SHARD."""
    slots = pool.session().compute_slots() if pool.sharded() else ()
    pool.session()
    made = make(*args, **keywords)
    if len(slots) > 1 and made.ndim and signals.current_signal() is None:
        made = made.place(axis=0)
    return made.requires_grad_() if requires_grad else made


def tensor(data, dtype=None, requires_grad=False):
    """A tensor of data; numbers become float32 unless a dtype is given, an array keeps its own."""
    if dtype is None and not hasattr(data, "dtype"):
        dtype = "float32"
    return _begun(shoal.tensor, data, dtype, requires_grad=requires_grad)


def from_numpy(array, requires_grad=False):
    """A tensor of an array's elements."""
    return _begun(shoal.tensor, array, requires_grad=requires_grad)


def randn(*shape, dtype="float32", requires_grad=False):
    """Numbers of the normal distribution: randn(2, 3) or randn((2, 3))."""
    return _begun(shoal.randn, *shape, dtype=dtype, requires_grad=requires_grad)


def rand(*shape, dtype="float32", requires_grad=False):
    """Numbers of the uniform distribution over [0, 1)."""
    return _begun(shoal.rand, *shape, dtype=dtype, requires_grad=requires_grad)


def zeros(*shape, dtype="float32", requires_grad=False):
    """Zeros."""
    return _begun(shoal.zeros, *shape, dtype=dtype, requires_grad=requires_grad)


def ones(*shape, dtype="float32", requires_grad=False):
    """Ones."""
    return _begun(shoal.ones, *shape, dtype=dtype, requires_grad=requires_grad)


def arange(*args, dtype=None, requires_grad=False):
    """Numbers at equal distances; as `shoal.arange`."""
    return _begun(shoal.arange, *args, dtype=dtype, requires_grad=requires_grad)


def cat(tensors, axis=0):
    """Tensors one after another along an axis."""
    return shoal.cat(tensors, axis)


if os.environ.get("GT_CONFIG"):
    load_config(os.environ["GT_CONFIG"])
