"""Special functions under torch.special's names."""
import math

from . import methods
from .words import torch_words

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


def entr(input):
    """-x log x; 0 at 0, -inf below."""
    made = -input.xlogy(input)
    return made.masked_fill(input < 0, -math.inf)


def ndtr(input):
    """The distribution function of the normal distribution."""
    return ((input * math.sqrt(0.5)).erf() + 1) * 0.5


def ndtri(input):
    """Its inverse."""
    return (input * 2 - 1).erfinv() * math.sqrt(2)


@torch_words(x="input", y="other")
def xlog1py(input, other):
    """x log(1 + y); 0 where x is 0."""
    made = input * other.log1p()
    return made.masked_fill((input == 0) & (other == other), 0)
