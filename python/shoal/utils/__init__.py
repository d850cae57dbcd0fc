"""What torch has under torch.utils: `data`, and `checkpoint`."""
import importlib
import types

from .. import autograd as _autograd

checkpoint = types.SimpleNamespace(checkpoint=_autograd.checkpoint)

__all__ = ["checkpoint", "data"]


def __getattr__(name):
    if name != "data":
        raise AttributeError(f"module 'shoal.utils' has no attribute '{name}'")
    return importlib.import_module(".data", __name__)
