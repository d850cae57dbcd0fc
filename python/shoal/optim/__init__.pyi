"""Types of `shoal.optim`. Written by tools/stubs.py."""
from .optimizer import Adam as Adam
from .optimizer import AdamW as AdamW
from .optimizer import Optimizer as Optimizer
from .optimizer import RMSprop as RMSprop
from .optimizer import SGD as SGD
from ..nn.utils import clip_grad_norm_ as clip_grad_norm_
from ..nn.utils import clip_grad_value_ as clip_grad_value_
from . import lr_scheduler as lr_scheduler

__all__: list[str]
