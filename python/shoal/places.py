"""What programs ask of `torch.cuda`, `torch.backends` and their like, answered for a pool.

A pool's slots are its devices; those whose backend is "cuda" are what `cuda` speaks of. Switches that have
nothing to switch here can be set and read.
"""
import types

from .amp import GradScaler, autocast
from .pool import session
from .random import manual_seed
from .words import invalid


def _gpus():
    return [s for s in session().status().slots if s.compute and s.backend == "cuda"]


def _module(name, doc, **members):
    made = types.ModuleType(f"shoal.{name}", doc)
    made.__path__ = []  # others may be in it: moved.py
    for key, value in members.items():
        setattr(made, key, value)
    return made


def is_available():
    """Whether the pool has a slot of backend "cuda"."""
    return bool(_gpus())


def device_count():
    """How many slots of backend "cuda" the pool has."""
    return len(_gpus())


def get_device_name(device=None):
    """What a GPU of the pool is called. InvalidError when there is none of that number."""
    found, number = _gpus(), int(getattr(device, "index", device) or 0)
    if not 0 <= number < len(found):
        raise invalid(f"get_device_name: there is no GPU {number}; the pool has {len(found)}")
    return found[number].device


def current_device():
    """0: there is no other to be chosen."""
    return 0


def synchronize(device=None):
    """Waits until everything recorded has run."""
    session().sync()


def _nothing(*args, **keywords):
    """Does nothing: memory is the workers' own."""


def _zero(*args, **keywords):
    """0: `shoal.status()` tells of memory."""
    return 0


class _Autocast(autocast):
    """torch.cuda.amp.autocast: `autocast("cuda", …)`."""

    def __init__(self, enabled=True, dtype="float16", cache_enabled=None):
        super().__init__("cuda", dtype, enabled, cache_enabled)


amp = _module("cuda.amp", "Mixed precision.", autocast=_Autocast, GradScaler=GradScaler)
cuda = _module("cuda", "The GPUs of the pool.", is_available=is_available, device_count=device_count,
               get_device_name=get_device_name, current_device=current_device, synchronize=synchronize,
               set_device=_nothing, empty_cache=_nothing, memory_allocated=_zero, max_memory_allocated=_zero,
               reset_peak_memory_stats=_nothing, manual_seed=manual_seed, manual_seed_all=manual_seed,
               is_initialized=is_available,
               amp=amp)
cudnn = _module("backends.cudnn", "Switches without effect.", deterministic=True, benchmark=False,
                enabled=False, is_available=lambda: False)
mps = _module("backends.mps", "Apple's GPUs, of which a pool has none.", is_available=lambda: False,
              is_built=lambda: False)
version = _module("version", "Of Shoal, and of what else torch names here.", cuda=None, hip=None, debug=False)
backends = _module("backends", "Switches without effect.", cudnn=cudnn, mps=mps)
