"""Types of `shoal.optim`. Written by tools/stubs.py."""
from .more import ASGD as ASGD
from .more import Adadelta as Adadelta
from .more import Adafactor as Adafactor
from .more import Adagrad as Adagrad
from .optimizer import Adam as Adam
from .optimizer import AdamW as AdamW
from .more import Adamax as Adamax
from .more import LBFGS as LBFGS
from .more import Lion as Lion
from .more import NAdam as NAdam
from .optimizer import Optimizer as Optimizer
from .more import RAdam as RAdam
from .optimizer import RMSprop as RMSprop
from .more import Rprop as Rprop
from .optimizer import SGD as SGD
from ..nn.utils import clip_grad_norm_ as clip_grad_norm_
from ..nn.utils import clip_grad_value_ as clip_grad_value_
from . import lr_scheduler as lr_scheduler

__all__: list[str]
