"""Operations of tensors beside arithmetic and shapes, under the names that torch and NumPy give them.

Each method has a function of the same name in `shoal`: `x.softmax(-1)` is `shoal.softmax(x, -1)`.
"floating" means float16, bfloat16, float32, float64; an error is a `shoal.ShoalError` that names the
operation, the shapes and what would be right, and it is raised at the call.
"""
import math

from . import _shoal
from .words import axis_of as _axis
from .words import dtype_name, invalid, is_floating, torch_words

_, _, (_UNARY, _BINARY) = _shoal.names()
_NUMBERS = {name: number for number, name in enumerate(_UNARY)}

# What torch and NumPy call the table's operations; the others keep their names.
METHODS = {
    "exponential": "exp", "log": "log", "sqrt": "sqrt", "tanh": "tanh", "logistic": "sigmoid",
    "erf": "erf", "rsqrt": "rsqrt", "cosine": "cos", "sine": "sin", "tan": "tan", "cbrt": "cbrt",
    "ceil": "ceil", "floor": "floor", "exponential_minus_one": "expm1", "log_plus_one": "log1p",
    "round_nearest_even": "round", "round_nearest_afz": "round_away", "sign": "sign",
    "popcnt": "popcount", "count_leading_zeros": "count_leading_zeros", "is_finite": "isfinite",
    "silu": "silu",
}
BINARY_METHODS = {
    "maximum": "maximum", "minimum": "minimum", "power": "pow", "atan2": "arctan2",
    "remainder": "fmod", "shift_right_logical": "shift_right_logical",
}
_TYPES = {
    "abs": "signed and floating", "sign": "signed and floating", "popcnt": "integers",
    "count_leading_zeros": "integers",
}


def _unary_method(op, name, summary):
    number = _NUMBERS[op]

    def method(self):
        return _shoal.unary(number, self)
    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    method.__doc__ = f"{summary}, of each element: {_TYPES.get(op, 'floating')} types; the shape stays."
    return method


def _binary_method(op, name, summary):
    def method(self, other):
        return self._binary(op, other)
    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    method.__doc__ = (f"{summary}; element by element, with NumPy's broadcasting, of two tensors of "
                      "one element type or a tensor and a number.")
    return method


class Operations:
    """What `Tensor` has from here."""

    __slots__ = ()

    def _apply(self, op, others=(), n_outputs=1, **attrs):
        made = _shoal.apply(self.session, op, (self, *others), attrs, n_outputs)
        return made[0] if n_outputs == 1 else made

    # ---- bits and logic ----

    def __and__(self, other):
        return self._binary("and", other)

    def __rand__(self, other):
        return self._binary("and", other, True)

    def __or__(self, other):
        return self._binary("or", other)

    def __ror__(self, other):
        return self._binary("or", other, True)

    def __xor__(self, other):
        return self._binary("xor", other)

    def __rxor__(self, other):
        return self._binary("xor", other, True)

    def __lshift__(self, other):
        return self._binary("shift_left", other)

    def __rlshift__(self, other):
        return self._binary("shift_left", other, True)

    def __rshift__(self, other):
        return self._binary(self._shift_right(), other)

    def __rrshift__(self, other):
        return self._binary(self._shift_right(), other, True)

    def _shift_right(self):
        return "shift_right_logical" if self.dtype.startswith("u") else "shift_right_arithmetic"

    def __invert__(self):
        return _shoal.unary(_NUMBERS["not"], self)

    def __floordiv__(self, other):
        """The quotient rounded down, as Python does; integers and floating types."""
        other = self._coerce(other)
        if other is None:
            return NotImplemented
        x, y = self._alike(other)
        if is_floating(x.dtype):
            return (x / y).floor()
        quotient = x._binary("divide", y)
        rest = x._binary("remainder", y)
        wrong = (rest != 0) & ((rest < 0) != (y < 0))
        return quotient - wrong.astype(x.dtype)

    def __rfloordiv__(self, other):
        other = self._coerce(other)
        return NotImplemented if other is None else other // self

    def __mod__(self, other):
        """What the quotient rounded down leaves, with the sign of `other`, as Python does."""
        other = self._coerce(other)
        if other is None:
            return NotImplemented
        x, y = self._alike(other)
        rest = x._binary("remainder", y)
        wrong = (rest != 0) & ((rest < 0) != (y < 0))
        return _shoal.select(wrong, rest + y, rest)

    def __rmod__(self, other):
        other = self._coerce(other)
        return NotImplemented if other is None else other % self

    def __divmod__(self, other):
        return self // other, self % other

    # ---- arithmetic under torch's names ----

    def add(self, other, alpha=1):
        """x + alpha y."""
        return self + (other if alpha == 1 else self._coerce(other) * alpha)

    def sub(self, other, alpha=1):
        """x - alpha y."""
        return self - (other if alpha == 1 else self._coerce(other) * alpha)

    def mul(self, other):
        """x y."""
        return self * other

    def div(self, other, rounding_mode=None):
        """x / y; rounding_mode "floor" or "trunc" rounds the quotient."""
        if rounding_mode is None:
            return self / other
        if rounding_mode == "floor":
            return self // other
        if rounding_mode != "trunc":
            raise invalid(f"div: rounding_mode '{rounding_mode}' is none of None, floor, trunc")
        other = self._coerce(other)
        x, y = self._alike(other)
        quotient = x._binary("divide", y)
        return quotient.trunc() if is_floating(quotient.dtype) else quotient

    def floor_divide(self, other):
        """x // y."""
        return self // other

    def remainder(self, other):
        """x % y, with the sign of y."""
        return self % other

    def neg(self):
        """-x; signed and floating types."""
        return -self

    def abs(self):
        """The absolute value of each element; signed and floating types."""
        return abs(self)

    def relu(self):
        """The larger of each element and 0."""
        return self.maximum(0)

    def square(self):
        """x x."""
        return self * self

    def reciprocal(self):
        """1 / x."""
        return 1 / self

    def trunc(self):
        """The whole part, towards 0. Floating types."""
        return _shoal.select(self < 0, self.ceil(), self.floor())

    def frac(self):
        """What `trunc` takes off."""
        return self - self.trunc()

    def log2(self):
        """The logarithm to base 2."""
        return self._floating().log() * (1 / math.log(2))

    def log10(self):
        """The logarithm to base 10."""
        return self._floating().log() * (1 / math.log(10))

    def exp2(self):
        """2 to the power x."""
        return (self._floating() * math.log(2)).exp()

    def sinh(self):
        """The hyperbolic sine."""
        grown = self._floating().expm1()
        return (grown + grown / (grown + 1)) * 0.5

    def cosh(self):
        """The hyperbolic cosine."""
        grown = abs(self._floating()).exp()
        return (grown + 1 / grown) * 0.5

    def arctan(self):
        """The angle whose tangent is x."""
        return self.arctan2(1)

    def lerp(self, end, weight):
        """x + weight (end - x)."""
        return self + (self._coerce(end) - self) * weight

    def addcmul(self, a, b, value=1):
        """x + value a b."""
        return self + (a * b if value == 1 else a * b * value)

    def addcdiv(self, a, b, value=1):
        """x + value a / b."""
        return self + (a / b if value == 1 else a / b * value)

    def logaddexp(self, other):
        """log(e^x + e^y), where e^x itself may overflow."""
        other = self._coerce(other)
        return self.maximum(other) + (-abs(self - other)).exp().log1p()

    # ---- products ----

    def matmul(self, other):
        """NumPy's matmul: the last axis of this against the last but one of `other`."""
        return self @ other

    def mm(self, other):
        """The product of two matrices."""
        return self._ranked("mm", other, 2, 2)

    def bmm(self, other):
        """The products of two equally long rows of matrices."""
        return self._ranked("bmm", other, 3, 3)

    def mv(self, vector):
        """A matrix by a vector."""
        return self._ranked("mv", vector, 2, 1)

    def dot(self, other):
        """The sum of the products of two vectors."""
        return self._ranked("dot", other, 1, 1)

    def _ranked(self, name, other, mine, its):
        if (self.ndim, other.ndim) != (mine, its):
            raise invalid(f"{name}: {self._text()} and {other._text()}; {mine} and {its} axes are "
                          "needed (matmul takes any)")
        return self @ other

    def outer(self, other):
        """The products of all elements of a vector with all of another."""
        return self.unsqueeze(1) * other.unsqueeze(0)

    def addmm(self, a, b, beta=1, alpha=1):
        """beta x + alpha a @ b."""
        product = a @ b
        return (self if beta == 1 else self * beta) + (product if alpha == 1 else product * alpha)

    # ---- comparison under torch's names ----

    def eq(self, other):
        """x == y, element by element."""
        return self == other

    def ne(self, other):
        """x != y, element by element."""
        return self != other

    def lt(self, other):
        """x < y, element by element."""
        return self < other

    def le(self, other):
        """x <= y, element by element."""
        return self <= other

    def gt(self, other):
        """x > y, element by element."""
        return self > other

    def ge(self, other):
        """x >= y, element by element."""
        return self >= other

    def logical_not(self):
        """Whether an element is 0."""
        return ~self.astype("bool")

    def logical_and(self, other):
        """Whether both are not 0."""
        return self.astype("bool") & self._coerce(other).astype("bool")

    def logical_or(self, other):
        """Whether either is not 0."""
        return self.astype("bool") | self._coerce(other).astype("bool")

    def logical_xor(self, other):
        """Whether just one is not 0."""
        return self.astype("bool") ^ self._coerce(other).astype("bool")

    def isclose(self, other, rtol=1e-5, atol=1e-8, equal_nan=False):
        """Whether |x - y| <= atol + rtol |y|, element by element."""
        x, y = self._floating()._alike(self._coerce(other)._floating())
        close = (x == y) | (abs(x - y) <= atol + rtol * abs(y)) & y.isfinite() & x.isfinite()
        return close | x.isnan() & y.isnan() if equal_nan else close

    def allclose(self, other, rtol=1e-5, atol=1e-8, equal_nan=False):
        """Whether `isclose` holds everywhere, as a Python bool."""
        return self.isclose(other, rtol, atol, equal_nan).all().item()

    def equal(self, other):
        """Whether shape and all elements are equal, as a Python bool."""
        return self.shape == other.shape and (self == other).all().item()

    # ---- bits of numbers ----

    def bitcast(self, dtype):
        """The same bytes as another element type (torch's view(dtype)).

        A smaller type adds a last axis for the parts of an element; a larger one takes the last axis,
        which must have just as many. Not for bool.
        """
        return self._apply("bitcast_convert", dtype=dtype_name(dtype))

    def reduce_precision(self, exponent_bits, mantissa_bits):
        """Rounded to a floating-point format of so many bits; the element type stays."""
        return self._apply("reduce_precision", exponent_bits=exponent_bits,
                           mantissa_bits=mantissa_bits)

    def isnan(self):
        """Where an element is NaN, as bool; floating types."""
        return self != self

    def isinf(self):
        """Where an element is infinite, as bool; floating types."""
        return ~(self.isfinite() | self.isnan())

    def clamp(self, min=None, max=None):
        """Not below `min` and not above `max`: numbers or tensors that broadcast to this shape."""
        x = self
        if min is not None:
            x = x.maximum(min)
        return x if max is None else x.minimum(max)

    clip = clamp

    def pad(self, low, high=None, value=0, interior=None):
        """More elements of `value` at the edges, fewer where negative, and between elements.

        low, high, interior: one number per axis.
        """
        interior = (0,) * self.ndim if interior is None else interior
        value = self._coerce(value).astype(self.dtype)
        return self._apply("pad", (value,), edge_padding_low=low,
                           edge_padding_high=low if high is None else high,
                           interior_padding=interior)

    # ---- composites ----

    def gelu(self, approximate="none"):
        """x Phi(x); approximate="tanh" takes the formula with tanh. Floating types."""
        return self._apply("gelu", approximate=approximate)

    @torch_words
    def softmax(self, axis=-1):
        """e^x over its sum along an axis. Floating types; the shape stays."""
        return self._apply("softmax", dimension=_axis(axis, self.ndim))

    @torch_words
    def log_softmax(self, axis=-1):
        """The logarithm of softmax along an axis. Floating types; the shape stays."""
        return self._apply("log_softmax", dimension=_axis(axis, self.ndim))

    @torch_words
    def rms_norm(self, scale=None, axis=-1, epsilon=1e-6):
        """x / sqrt(mean(x^2) + epsilon) along an axis, times `scale`, a vector along it."""
        return self._apply("rms_norm", () if scale is None else (scale,),
                           dimension=_axis(axis, self.ndim), epsilon=epsilon)

    @torch_words
    def layer_norm(self, scale=None, bias=None, axis=-1, epsilon=1e-5):
        """(x - mean) / sqrt(variance + epsilon) along an axis, times `scale`, plus `bias`."""
        if bias is not None and scale is None:
            scale = self.session.full(bias.shape, 1, self.dtype)
        others = tuple(t for t in (scale, bias) if t is not None)
        return self._apply("layer_norm", others, dimension=_axis(axis, self.ndim),
                           epsilon=epsilon)

    @torch_words
    def cross_entropy(self, labels, axis=-1, ignore_index=None, reduction="mean"):
        """-log_softmax of these logits at integer labels, of the shape without the axis.

        ignore_index: the label whose loss is 0 and which a mean leaves out; any other label that is
        no class gives NaN. reduction: "none" (one loss per label), "sum" or "mean".
        """
        attrs = {} if ignore_index is None else {"ignore_index": ignore_index}
        loss = self._apply("cross_entropy", (labels,), dimension=_axis(axis, self.ndim), **attrs)
        if reduction == "none":
            return loss
        if reduction == "sum":
            return loss.sum()
        if reduction != "mean":
            raise invalid(f"cross_entropy: reduction '{reduction}' is none of "
                               "none, sum, mean")
        if ignore_index is None:
            return loss.mean()
        return loss.sum() / (labels != ignore_index).sum().astype(loss.dtype)

    def attention(self, key, value, mask=None, length=None, causal=False, scale=None):
        """softmax(scale q k^T) v, this being q: [..., S, D]; key [..., T, D], value [..., T, E].

        q may have one axis more just before S: heads that share key and value. mask: bool (true is
        seen) or of q's type (added), its axes the last of [..., S, T] or 1. length: an integer
        scalar, hides the keys from there on. causal: query i sees the keys up to
        i + (length or T) - S. scale: 1 / sqrt(D) when None. A query that sees nothing has NaN.
        """
        if isinstance(length, int):
            length = self.session.tensor(length, "int64")
        others = tuple(t for t in (key, value, mask, length) if t is not None)
        attrs = {} if scale is None else {"scale": scale}
        if causal:
            attrs["causal"] = 0
        return self._apply("attention", others, **attrs)

    def rope(self, positions, frequencies=None, axis=-2, theta=10000.0, interleaved=False):
        """The pairs of the last axis turned by position * frequency (rotary embedding).

        positions: one integer per index of `axis`. frequencies: float32, one per pair; None:
        theta^(-2i/D). interleaved: pairs are neighbours, not halves.
        """
        if not hasattr(positions, "session"):
            positions = self.session.tensor(positions, "int64")
        others = (positions,) if frequencies is None else (positions, frequencies)
        return self._apply("rope", others, dimension=_axis(axis, self.ndim), theta=theta,
                           interleaved=interleaved)


_SUMMARIES = {name: summary for name, _, summary in _shoal.operations()}
for _op, _name in METHODS.items():
    setattr(Operations, _name, _unary_method(_op, _name, _SUMMARIES[_op]))
for _op, _name in BINARY_METHODS.items():
    setattr(Operations, _name, _binary_method(_op, _name, _SUMMARIES[_op]))

# Methods that are functions of `shoal`, too.
FUNCTIONS = tuple(METHODS.values()) + tuple(BINARY_METHODS.values()) + tuple("""
    bitcast reduce_precision isnan isinf clamp clip pad add sub mul div floor_divide remainder neg abs
    relu square reciprocal trunc frac log2 log10 exp2 sinh cosh arctan lerp addcmul addcdiv logaddexp
    mm bmm mv dot outer addmm eq ne lt le gt ge logical_not logical_and logical_or logical_xor isclose
    allclose equal
    sum prod mean max min amax amin all any count_nonzero var std logsumexp norm argmax argmin cumsum
    cumprod cummax cummin sort argsort topk median
    dynamic_slice dynamic_update_slice take index_select take_along gather scatter scatter_add index_put
    index_add index_copy index_fill masked_fill masked_select nonzero
    reshape flatten ravel unflatten transpose swapaxes permute movedim moveaxis squeeze unsqueeze
    expand_dims broadcast_to tile repeat_interleave flip roll narrow select split chunk unbind diagonal
    diag trace tril triu
    gelu softmax log_softmax rms_norm layer_norm cross_entropy attention rope""".split())


def function_of(name):
    """The function that calls the method of that name."""
    from .tensor import Tensor
    method = getattr(Tensor, name)

    def function(x, *args, **keywords):
        return getattr(x, name)(*args, **keywords)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = method.__doc__
    function.__wrapped__ = method
    return function
