"""Special functions under torch.special's names."""
import math

from . import _shoal, derived, methods
from .words import check_tensor, torch_words

for _name, _of in {"erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "expit": "sigmoid", "exp2": "exp2",
                   "expm1": "expm1", "gammainc": "igamma", "gammaincc": "igammac", "gammaln": "lgamma", "digamma": "digamma", "psi": "digamma",
                   "i0": "i0", "log1p": "log1p", "logit": "logit", "logsumexp": "logsumexp",
                   "log_softmax": "log_softmax", "multigammaln": "mvlgamma", "round": "round",
                   "sinc": "sinc", "softmax": "softmax", "xlogy": "xlogy"}.items():
    globals()[_name] = methods.function_of(_of)
del _name, _of


def polygamma(n, input):
    """The n-th derivative of digamma."""
    return input.polygamma(n)


def _floated(function):
    """A function of `derived` as it is called: integers count as floating."""
    def either(input):
        check_tensor(input, function.__name__)
        return function(input._floating())
    either.__name__ = either.__qualname__ = function.__name__
    either.__doc__ = function.__doc__
    return either


for _of in (derived.entr, derived.erfcx, derived.i0e, derived.i1, derived.i1e, derived.log_ndtr, derived.ndtr, derived.ndtri):
    globals()[_of.__name__] = _floated(_of)
del _of


@torch_words(x="input", y="other")
def xlog1py(input, other):
    """x log(1 + y); 0 where x is 0."""
    x, y = input._floating_pair(other)
    # Above -1 the product is 0 by itself, and has the gradient log (1 + y).
    nothing = (x == 0) & ((y <= -1) | (y == math.inf))
    return _shoal.select(nothing, x * 0, x * _shoal.select(nothing, y._coerce(0.0), y).log1p())
