"""Optimizers, schedules and the clipping of gradients, under torch's names.

    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    for x, y in batches:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
from ..nn.utils import clip_grad_norm_, clip_grad_value_
from . import lr_scheduler
from .more import ASGD, LBFGS, Adadelta, Adafactor, Adagrad, Adamax, Lion, NAdam, RAdam, Rprop
from .optimizer import SGD, Adam, AdamW, Optimizer, RMSprop

__all__ = ["ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Lion", "NAdam",
           "Optimizer", "RAdam", "RMSprop", "Rprop", "SGD", "clip_grad_norm_", "clip_grad_value_",
           "lr_scheduler", "swa_utils"]


def __getattr__(name):  # loaded when it is used
    if name != "swa_utils":
        raise AttributeError(f"module 'shoal.optim' has no attribute '{name}'")
    import importlib
    return importlib.import_module(".swa_utils", __name__)
