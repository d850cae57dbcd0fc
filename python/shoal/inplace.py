"""What changes tensors in place: a method with an underscore for each that computes, random numbers, shapes.

Tensors get these methods when the package is loaded.
"""
import math

from .elementwise import NAMES as ELEMENTWISE
from .indexing import required
from .methods import BINARY_METHODS, METHODS, SYNONYMS
from .tensor import Tensor
from .words import check_bounds, check_probability, invalid, is_floating

def _other_shape(name, of):
    def method(self, *args, **keywords):
        return self._reform(getattr(self, of)(*args, **keywords))
    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"`{of}` in place: this object has the result's shape then."
    method.__wrapped__ = getattr(Tensor, of)  # for who shows the signature
    return method


for _name in ("squeeze", "unsqueeze", "t", "transpose", "swapaxes", "swapdims"):
    setattr(Tensor, _name + "_", _other_shape(_name + "_", _name))


def _in_place(name, of):
    def method(self, *args, **keywords):
        return self._become(getattr(self, of)(*args, **keywords), name)
    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"`{of.strip('_')}` in place: this object stands for the result then."
    method.__wrapped__ = getattr(Tensor, of)
    return method


# The operators and methods that change a tensor in place, and what they compute.
IN_PLACE = {f"__i{_op}__": f"__{_op}__" for _op in (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor",
    "lshift", "rshift")}
IN_PLACE |= {f"{_name}_": _name for _name in (
    *METHODS.values(), *BINARY_METHODS.values(), *SYNONYMS, *ELEMENTWISE, *"""add sub subtract mul multiply
    div divide true_divide floor_divide remainder neg negative abs absolute relu clamp clamp_min clamp_max
    clip eq ne lt le gt ge logical_not logical_and logical_or logical_xor masked_fill masked_scatter scatter
    scatter_add scatter_reduce index_reduce index_add index_copy index_fill index_put put lerp addcmul addcdiv addmm
    addmv addr baddbmm addbmm tril triu cumsum cumprod renorm polygamma""".split())}
for _name, _of in IN_PLACE.items():
    setattr(Tensor, _name, _in_place(_name, _of))


def _in_place_function(name):
    def function(input, *args, **keywords):
        return getattr(input, name)(*args, **keywords)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = getattr(Tensor, name).__doc__
    function.__wrapped__ = getattr(Tensor, name)
    function._first = "input"
    return function


# Those that torch has as functions, too.
FUNCTIONS = {f"{_name}_": _in_place_function(f"{_name}_") for _name in """abs acos acosh addmv arccos arccosh
    arcsin arcsinh arctan arctanh asin asinh atan atanh ceil clamp clamp_max clamp_min clip cos cosh deg2rad
    erf erfc exp exp2 expm1 fill fix floor frac gcd i0 index_put lcm ldexp log log10 log1p log2 logit
    nan_to_num neg negative rad2deg reciprocal relu round rsqrt sigmoid sin sinc sinh sqrt square tan tanh
    trunc xlogy zero detach""".split()}


def _drawn(name, doc, make):
    def method(self, *args, generator=None, **keywords):
        return self._become(make(self, generator, *args, **keywords).astype(self.dtype), name)
    method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", doc
    setattr(Tensor, name, method)


def _uniform(x, generator):
    from .random import fractions
    return fractions(x.shape, x.dtype, generator)


def _need_floating(x, what):
    if not is_floating(x.dtype):
        raise invalid(f"{what}: {x._text()} cannot hold what is drawn; a floating type can")


def _within(x, generator, low=0.0, to=1.0, **keywords):
    low = keywords.get("from", low)
    _need_floating(x, "uniform_")
    from .random import draw
    check_bounds(low, to, "uniform_")
    return draw((x.shape,), "UNIFORM", x.dtype, generator=generator) * (to - low) + low


def _normal(x, generator, mean=0.0, std=1.0, what="normal_"):
    from .random import checked_std, draw
    return draw((x.shape,), "NORMAL", x.dtype, generator=generator) * checked_std(std, what) + mean


def _waits(x, generator, lambd=1.0):
    _need_floating(x, "exponential_")
    if not lambd >= 0:
        raise invalid(f"exponential_: lambd is {lambd}; it must not be negative")
    return -(-_uniform(x, generator)).log1p() / lambd


def _trials(x, generator, p):
    if not 0 < p < 1:
        raise invalid(f"geometric_: p is {p}; it must lie between 0 and 1, and be neither")
    return ((-_uniform(x, generator)).log1p() / math.log1p(-p)).ceil().clamp(min=1)


def _cauchy(x, generator, median=0.0, sigma=1.0):
    _need_floating(x, "cauchy_")
    if not sigma > 0:
        raise invalid(f"cauchy_: sigma is {sigma}; it must be above 0")
    return ((_uniform(x, generator) - 0.5) * math.pi).tan() * sigma + median


def _log_normal(x, generator, mean=1.0, std=2.0):
    _need_floating(x, "log_normal_")
    if not std > 0:
        raise invalid(f"log_normal_: std is {std}; it must be above 0")
    return _normal(x, generator, mean, std).exp()


def _between(x, generator, low=0, to=None, **keywords):
    from .random import randint
    low = keywords.get("from", low)
    low, to = (0, low) if to is None and low else (low, to)
    most = 2 ** 24 if is_floating(x.dtype) else 2 ** min(62, 8 * x.dtype.itemsize - 1)
    return randint(low, most if to is None else to, tuple(x.shape), generator=generator)


def _either(x, generator, p=0.5):
    if hasattr(p, "session"):
        p = required(p, (p >= 0) & (p <= 1), "bernoulli_: a probability is not between 0 and 1")
    else:
        check_probability(p, "bernoulli_")
    return _uniform(x, generator) < p


for _name, _doc, _make in (
        ("uniform_", "In place: uniformly distributed over [from, to), else [0, 1).",
         _within),
        ("normal_", "In place: normally distributed, of mean `mean` and standard deviation `std`.", _normal),
        ("random_", "In place: integers, uniformly distributed from `from` to `to` - 1.", _between),
        ("bernoulli_", "In place: 1 with probability p, else 0.", _either),
        ("exponential_", "In place: exponentially distributed, of rate lambd.", _waits),
        ("geometric_", "In place: geometrically distributed: the trials of probability p until one succeeds.",
         _trials),
        ("cauchy_", "In place: of the Cauchy distribution around `median`, of scale sigma.", _cauchy),
        ("log_normal_", "In place: e to the power of normally distributed numbers of this mean and std.",
         _log_normal)):
    _drawn(_name, _doc, _make)
