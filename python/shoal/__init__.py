"""Shoal: one tensor computer out of whatever machines you have.

    import shoal

    a = shoal.tensor([[1.0, 2.0], [3.0, 4.0]])
    print((a @ a).tolist())

Without an address everything runs inside this process; `shoal.connect("shm:hub")`, or the variable
SHOAL_HUB, uses a pool. Operations are recorded and run when a value is read.

`shoal.nn`, `shoal.functional` and `shoal.optim` have what models are made of and trained with.
"""
import os

from . import _shoal
from .errors import (BusyError, ClosedError, DeadlineError, DeniedError, FormatError,
                     InternalError, InvalidError, IOFailedError, LostError, NotFoundError,
                     OutOfMemoryError, ShoalError, UnsupportedError, VersionError)
from .errors import CLASSES as _CLASSES
from .tensor import Tensor

__version__, _statuses, _ = _shoal.names()
_shoal.setup(tuple(_CLASSES[name] for name in _statuses), Tensor,
             os.path.dirname(os.path.abspath(__file__)))

from .pool import (Pool, Session, Slot, connect, disconnect, explain, init, operations, session,
                   status, sync)
from .autograd import (backward, checkpoint, enable_grad, grad, inference_mode, is_grad_enabled, no_grad,
                       set_grad_enabled)
from .creation import (arange, as_tensor, broadcast_tensors, cat, concat, embedding, empty,
                       empty_like, eye, from_dlpack, from_numpy, full, full_like, hstack, linspace,
                       matmul, meshgrid, ones, ones_like, stack, tensor, vstack, where, zeros,
                       zeros_like)
from .einsum import einsum
from .files import File, load, save
from .random import (Generator, bernoulli, get_rng_state, manual_seed, multinomial, normal, rand,
                     rand_like, randbits, randint, randn, randn_like, randperm, set_rng_state)
from . import debug, functional, nn, optim, signal
from .signal import compile
from . import methods as _methods

# Element types go by their names; these are for those who write shoal.float32.
DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "bfloat16", "float32", "float64")
int8, int16, int32, int64, uint8, uint16, uint32, uint64 = DTYPES[1:9]
float16, bfloat16, float32, float64 = DTYPES[9:]

__all__ = [
    "Session", "Tensor", "File", "Slot", "Pool", "Generator", "arange", "as_tensor", "bernoulli",
    "broadcast_tensors", "cat", "compile", "concat", "connect", "disconnect", "einsum", "embedding", "empty",
    "empty_like", "explain", "eye", "from_dlpack", "from_numpy", "full", "full_like",
    "get_rng_state", "hstack", "init", "linspace", "load", "manual_seed", "matmul", "meshgrid",
    "multinomial", "normal", "ones", "ones_like", "operations", "rand", "rand_like", "randbits",
    "randint", "randn", "randn_like", "randperm", "save", "session", "set_rng_state", "stack",
    "status", "sync", "tensor", "vstack", "where", "zeros", "zeros_like", "ShoalError",
    "InvalidError", "UnsupportedError", "OutOfMemoryError", "NotFoundError", "FormatError",
    "IOFailedError", "DeadlineError", "LostError", "ClosedError", "VersionError", "DeniedError",
    "BusyError", "InternalError", "backward", "checkpoint", "enable_grad", "grad", "inference_mode",
    "is_grad_enabled", "no_grad", "set_grad_enabled",
]

for _name in _methods.FUNCTIONS:
    globals()[_name] = _methods.function_of(_name)
__all__ += _methods.FUNCTIONS
