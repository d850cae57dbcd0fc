"""Shoal: one tensor computer out of whatever machines you have.

    import shoal

    a = shoal.tensor([[1.0, 2.0], [3.0, 4.0]])
    print((a @ a).tolist())

Without an address everything runs inside this process; `shoal.connect("shm:hub")`, or the variable
SHOAL_HUB, uses a pool. Operations are recorded and run when a value is read.

What is called as in torch means what it means in torch, so that `import shoal as torch` runs programs
written for it. `shoal.nn`, `shoal.functional` and `shoal.optim` have what models are made of and trained
with, `shoal.utils.data` what feeds them; these and others are loaded when they are first used.
"""
import builtins
import importlib
import math
import os

from . import _shoal
from .dtypes import ALIASES as _ALIASES
from .dtypes import DTYPES as _DTYPES
from .dtypes import NAMES as DTYPES
from .dtypes import Size, device, dtype, finfo, iinfo
from .errors import CLASSES as _CLASSES
from .errors import (AxisError, BusyError, ClosedError, DeadlineError, DeniedError, FormatError,
                     InternalError, InvalidError, IOFailedError, LostError, NotFoundError,
                     OutOfMemoryError, OutOfRangeError, ShoalError, UnsupportedError, VersionError)
from .conversions import CLASSES as _NAMED
from .tensor import Tensor

__version__, _statuses, _ = _shoal.names()
_shoal.setup(tuple(_CLASSES[name] for name in _statuses), Tensor, Size, _DTYPES,
             os.path.dirname(os.path.abspath(__file__)))

from . import autograd, creation, inplace, moved, random
from . import methods as _methods
from .autograd import (backward, checkpoint, enable_grad, grad, inference_mode, is_grad_enabled, no_grad,
                       set_grad_enabled)
from .creation import (arange, as_tensor, asarray, atleast_1d, atleast_2d, atleast_3d, bartlett_window,
                       blackman_window, block_diag, broadcast_shapes, broadcast_tensors, cartesian_prod, cat,
                       column_stack, combinations, concat, concatenate, dstack, embedding, empty, empty_like,
                       eye, from_dlpack, from_numpy, frombuffer, full, full_like, get_default_dtype,
                       hamming_window, hann_window, hstack, linspace, logspace, matmul, meshgrid, ones,
                       ones_like, range, row_stack, scalar_tensor, set_default_dtype, stack, tensor,
                       tril_indices, triu_indices, vander, vstack, where, zeros, zeros_like)
from .pool import (Path, Pool, Session, Slot, connect, disconnect, explain, init, operations, session,
                   status, sync)
from .random import (Generator, bernoulli, default_generator, get_rng_state, initial_seed, manual_seed,
                     multinomial, normal, poisson, rand, rand_like, randbits, randint, randint_like, randn,
                     randn_like, randperm, seed, set_rng_state)

pi, inf, nan, e, newaxis = math.pi, math.inf, math.nan, math.e, None
strided, contiguous_format, preserve_format, channels_last = (
    "strided", "contiguous_format", "preserve_format", "channels_last")

# Where the rest comes from when it is first used: a module, or a name in one.
_LATER = {name: (f".{name}", None) for name in (
    "array_api", "debug", "distributions", "functional", "linalg", "nn", "optim", "signal", "special", "train", "utils",
    "amp", "func", "kernels", "stablehlo")} | {
    "backends": (".places", "backends"), "version": (".places", "version"), "cuda": (".places", "cuda"), "compile": (".signal", "compile"),
    "einsum": (".einsum", "einsum"), "File": (".files", "File"), "load": (".files", "load"),
    "save": (".files", "save"), "set_printoptions": (".printing", "set_printoptions"),
    "dequantize": (".packed", "dequantize"), "block_formats": (".packed", "block_formats"),
    "vmap": (".func", "vmap"), "polygamma": (".special", "polygamma"), "autocast": (".amp", "autocast"),
    "is_autocast_enabled": (".amp", "is_autocast_enabled"),
} | {name: (".numerics", name) for name in """binomial fill gradient histogram histogramdd kaiser_window lobpcg
    pca_lowrank svd_lowrank trapz""".split()} | {name: (".functional", name) for name in """adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout
    avg_pool1d batch_norm bilinear binary_cross_entropy_with_logits celu celu_ channel_shuffle conv1d conv2d
    conv3d conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss cosine_similarity
    ctc_loss dropout embedding_bag feature_alpha_dropout group_norm hardshrink hinge_embedding_loss
    instance_norm kl_div margin_ranking_loss max_pool1d max_pool2d max_pool3d pairwise_distance pdist
    pixel_shuffle pixel_unshuffle poisson_nll_loss prelu relu_ rrelu rrelu_ selu selu_ threshold threshold_
    triplet_margin_loss""".split()} | {name: (".linalg", name) for name in (
        "lu_solve", "matrix_rank", "solve_triangular")} | {"chain_matmul": (".linalg", "chain_matmul")}


def __getattr__(name):
    if name not in _LATER:
        raise AttributeError(f"module 'shoal' has no attribute '{name}'")
    module, own = _LATER[name]
    found = importlib.import_module(module, __name__)
    found = found if own is None else getattr(found, own)
    globals()[name] = found
    return found


def __dir__():
    return sorted({*globals(), *_LATER})


def is_tensor(obj):
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)


def real(input):
    """The tensor itself: there are no complex numbers."""
    return input.real


def promote_types(type1, type2):
    """The element type that two become together."""
    from .words import dtype_name, is_dtype, promoted
    for given in (type1, type2):
        if not is_dtype(given):
            raise TypeError(f"promote_types: {given!r} is no element type")
    return _DTYPES[promoted(dtype_name(type1), dtype_name(type2))]


def result_type(tensor1, tensor2):
    """The element type of the sum of two, tensors or numbers."""
    like = tensor1 if is_tensor(tensor1) else tensor2 if is_tensor(tensor2) else tensor(tensor1)
    from .words import common_type
    return _DTYPES[common_type(like._coerce(tensor1, "result_type"), like._coerce(tensor2, "result_type"))]


def can_cast(from_, to):
    """Whether one element type may become another in place: in the order bool, integers, floating types."""
    from .words import category, dtype_name, is_dtype
    for given in (from_, to):
        if not is_dtype(given):
            raise TypeError(f"can_cast: {given!r} is no element type")
    return category(dtype_name(from_)) <= category(dtype_name(to))


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Nothing: the same program on the same slots gives the same result anyway."""


def set_num_threads(count):
    """Nothing: how many threads a worker has is said where it is started."""


def get_num_threads():
    """The threads of all slots that compute."""
    return builtins.sum(s.threads for s in status().slots if s.compute)


for _name in DTYPES:
    globals()[_name] = _DTYPES[_name]
for _name, _kind in _ALIASES.items():
    globals()[_name] = _DTYPES[_kind]
for _name in _methods.FUNCTIONS:
    globals()[_name] = _methods.function_of(_name)
globals().update(inplace.FUNCTIONS)
for _kind, _name in _NAMED.items():
    globals()[_name + "Tensor"] = creation.constructor(_kind, _name + "Tensor")

__all__ = [
    "Session", "Tensor", "File", "Slot", "Pool", "Path", "Generator", "Size", "device", "dtype", "finfo", "iinfo",
    "arange", "as_tensor", "asarray", "atleast_1d", "atleast_2d", "atleast_3d", "bartlett_window",
    "bernoulli", "blackman_window", "block_diag", "broadcast_shapes", "broadcast_tensors", "can_cast",
    "cartesian_prod", "cat", "column_stack", "combinations", "compile", "concat", "concatenate", "connect",
    "dequantize", "disconnect", "dstack", "einsum", "embedding", "empty", "empty_like", "explain", "eye",
    "from_dlpack", "from_numpy", "frombuffer", "full", "full_like", "get_default_dtype", "get_num_threads",
    "get_rng_state", "hamming_window", "hann_window", "hstack", "init", "initial_seed", "is_tensor",
    "linspace", "load", "logspace", "manual_seed", "matmul", "meshgrid", "multinomial", "normal", "ones",
    "ones_like", "operations", "poisson", "promote_types", "rand", "rand_like", "randbits", "randint",
    "randint_like", "randn", "randn_like", "randperm", "range", "real", "result_type", "row_stack", "save",
    "scalar_tensor", "seed", "session", "set_default_dtype", "set_num_threads", "set_printoptions",
    "set_rng_state", "stack", "status", "sync", "tensor", "tril_indices", "triu_indices",
    "use_deterministic_algorithms", "vander", "vmap", "vstack", "where", "zeros", "zeros_like",
    "ShoalError", "AxisError", "InvalidError", "UnsupportedError", "OutOfMemoryError", "OutOfRangeError",
    "NotFoundError", "FormatError", "IOFailedError", "DeadlineError", "LostError", "ClosedError", "VersionError",
    "DeniedError", "BusyError", "InternalError", "autocast", "backward", "checkpoint", "enable_grad",
    "grad", "inference_mode", "is_grad_enabled", "no_grad", "set_grad_enabled", *_methods.FUNCTIONS,
]
