"""Types of `shoal.optim`. Written by tools/stubs.py."""
from . import lr_scheduler as lr_scheduler, swa_utils as swa_utils
from ..nn.utils import clip_grad_norm_ as clip_grad_norm_, clip_grad_value_ as clip_grad_value_
from .more import (
    ASGD as ASGD, Adadelta as Adadelta, Adafactor as Adafactor, Adagrad as Adagrad, Adamax as Adamax,
    LBFGS as LBFGS, Lion as Lion, NAdam as NAdam, RAdam as RAdam, Rprop as Rprop)
from .optimizer import Adam as Adam, AdamW as AdamW, Optimizer as Optimizer, RMSprop as RMSprop, SGD as SGD

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Lion", "NAdam",
    "Optimizer", "RAdam", "RMSprop", "Rprop", "SGD", "clip_grad_norm_", "clip_grad_value_",
    "lr_scheduler", "swa_utils"
]
