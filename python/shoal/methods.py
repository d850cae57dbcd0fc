"""Operations of tensors beside arithmetic and shapes, under the names that torch and NumPy give them.

Each method has a function of the same name in `shoal`: `x.softmax(-1)` is `shoal.softmax(x, -1)`.
"floating" means float16, bfloat16, float32, float64; an error is a `shoal.ShoalError` that names the
operation, the shapes and what would be right, and it is raised at the call.
"""
from . import _shoal, elementwise, products
from .indexing import in_range
from .words import axis_of as _axis
from .words import check_tensor, common_type, dtype_name, into, invalid, is_floating, torch_words

_, _, (_UNARY, _BINARY) = _shoal.names()
_NUMBERS = {name: number for number, name in enumerate(_UNARY)}

# What torch and NumPy call the table's operations; the others keep their names.
METHODS = {
    "exponential": "exp", "log": "log", "sqrt": "sqrt", "tanh": "tanh", "logistic": "sigmoid",
    "erf": "erf", "rsqrt": "rsqrt", "cosine": "cos", "sine": "sin", "tan": "tan", "cbrt": "cbrt",
    "exponential_minus_one": "expm1", "log_plus_one": "log1p",
    "round_nearest_afz": "round_away",
    "popcnt": "popcount", "count_leading_zeros": "count_leading_zeros", "silu": "silu",
}
BINARY_METHODS = {
    "maximum": "maximum", "minimum": "minimum", "power": "pow", "atan2": "arctan2",
    "remainder": "fmod", "shift_right_logical": "shift_right_logical",
}
_TYPES = {"popcnt": "integers", "count_leading_zeros": "integers"}


def _unary_method(op, name, summary):
    number = _NUMBERS[op]

    def whole(self):
        return _shoal.unary(number, self)

    def floating(self):
        return _shoal.unary(number, self._floating())
    method = whole if op in _TYPES else floating
    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    method.__doc__ = f"{summary}, of each element: " + (
        f"{_TYPES[op]}; the shape stays." if op in _TYPES else
        "floating types, others as float32; the shape stays.")
    return method


def _binary_method(op, name, summary):
    if op == "power":
        def method(self, exponent):
            return self ** exponent
    elif op == "atan2":
        def method(self, other):
            x, y = self._floating_pair(other)
            return x._binary(op, y)
    elif op == "remainder":
        def method(self, other):
            x, y = self._dividing(other, name)
            return x._binary(op, x._coerce(other, name) if y is None else y)
    else:
        def method(self, other):
            return self._binary(op, self._coerce(other, name))
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

    def _dividing(self, other, sign):
        """Dividend and divisor of one element type; (self, None) if `other` is no operand. A number 0 divides no
        integers; among the elements of a tensor it is not looked for."""
        if other.__class__ is int and not other and not is_floating(self.dtype):
            raise invalid(f"{self._text()} {sign} 0: integers cannot be divided by zero")
        made = self._coerce(other)
        return (self, None) if made is None else self._alike(made)

    def __floordiv__(self, other):
        """The quotient rounded down, as Python does; integers and floating types."""
        x, y = self._dividing(other, "//")
        if y is None:
            return NotImplemented
        if is_floating(x.dtype):
            # From the exact rest: x / y itself may round up to a whole number.
            rest = x._binary("remainder", y)
            wrong = ((rest != 0) & ((rest < 0) != (y < 0))).astype(x.dtype)
            whole = ((x - rest) / y - wrong).round()
            return _shoal.select(y == 0, x / y, whole)
        quotient = x._binary("divide", y)
        rest = x._binary("remainder", y)
        wrong = (rest != 0) & ((rest < 0) != (y < 0))
        return quotient - wrong.astype(x.dtype)

    def __rfloordiv__(self, other):
        other = self._coerce(other)
        return NotImplemented if other is None else other // self

    def __mod__(self, other):
        """What the quotient rounded down leaves, with the sign of `other`, as Python does."""
        x, y = self._dividing(other, "%")
        if y is None:
            return NotImplemented
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
        return self + (other if alpha == 1 else self._scaled_operand(other, alpha))

    def sub(self, other, alpha=1):
        """x - alpha y."""
        return self - (other if alpha == 1 else self._scaled_operand(other, alpha))

    def _scaled_operand(self, other, alpha):
        """Another operand times a number, of the element type of both operands."""
        other = self._coerce(other)
        kind = common_type(self, other)
        return (other.astype(kind) * alpha).astype(kind)

    def rsub(self, other, alpha=1):
        """y - alpha x."""
        return self._coerce(other) - (self if alpha == 1 else self * alpha)

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

    subtract, multiply, divide = sub, mul, div

    def true_divide(self, other):
        """x / y."""
        return self / other

    def floor_divide(self, other):
        """x // y."""
        return self // other

    def remainder(self, other):
        """x % y, with the sign of y."""
        return self % other

    def neg(self):
        """-x; of unsigned integers modulo two to the number of their bits."""
        return -self

    negative = neg

    def abs(self):
        """The absolute value of each element."""
        return abs(self)

    absolute = abs

    def relu(self):
        """x where it is positive, else 0; the gradient at 0 is 0."""
        zero = self._coerce(0).astype(self.dtype)
        return _shoal.select(_shoal.compare("LE", self, zero), zero, self)

    def prelu(self, weight):
        """See `shoal.functional.prelu`."""
        from .functional import prelu
        return prelu(self, weight)

    def hardshrink(self, lambd=0.5):
        """See `shoal.functional.hardshrink`."""
        from .functional import hardshrink
        return hardshrink(self, lambd)

    def lerp(self, end, weight):
        """x + weight (end - x)."""
        end = self._coerce(end, "lerp")
        apart = end - self
        if not hasattr(weight, "session"):
            return self + apart * weight if abs(weight) < 0.5 else end - apart * (1 - weight)
        # From the nearer side, so that a weight of 1 gives the end itself.
        near = abs(weight) < 0.5
        return _shoal.select(near, self, end) + apart * _shoal.select(near, weight, weight - 1)

    @torch_words(tensor1="a", tensor2="b")
    def addcmul(self, a, b, value=1):
        """x + value a b."""
        return self + (a * b if value == 1 else a * b * value)

    @torch_words(tensor1="a", tensor2="b")
    def addcdiv(self, a, b, value=1):
        """x + value a / b."""
        return self + (a / b if value == 1 else a / b * value)

    # ---- comparison under torch's names ----

    def eq(self, other):
        """x == y, element by element."""
        return self == self._coerce(other, "eq")

    def ne(self, other):
        """x != y, element by element."""
        return self != self._coerce(other, "ne")

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
        return self.astype("bool") & self._coerce(other, "logical_and").astype("bool")

    def logical_or(self, other):
        """Whether either is not 0."""
        return self.astype("bool") | self._coerce(other, "logical_or").astype("bool")

    def logical_xor(self, other):
        """Whether just one is not 0."""
        return self.astype("bool") ^ self._coerce(other, "logical_xor").astype("bool")

    def isclose(self, other, rtol=1e-5, atol=1e-8, equal_nan=False):
        """Whether |x - y| <= atol + rtol |y|, element by element."""
        for name, bound in (("rtol", rtol), ("atol", atol)):
            if not bound >= 0:
                raise invalid(f"isclose: {name} is {bound}; it must not be negative")
        x, y = self._floating()._alike(self._coerce(other, "isclose")._floating())
        close = (x == y) | (abs(x - y) <= atol + rtol * abs(y)) & y.isfinite() & x.isfinite()
        return close | x.isnan() & y.isnan() if equal_nan else close

    def allclose(self, other, rtol=1e-5, atol=1e-8, equal_nan=False):
        """Whether `isclose` holds everywhere, as a Python bool."""
        return self.isclose(other, rtol, atol, equal_nan).all().item()

    def equal(self, other):
        """Whether shape and all elements are equal, as a Python bool."""
        check_tensor(other, "equal")
        return self.shape == other.shape and (self == other).all().item()

    # ---- bits of numbers ----

    def bitcast(self, dtype):
        """The same bytes as another element type (torch's view(dtype)).

        A smaller type adds a last axis for the parts of an element; a larger one takes the last axis,
        which must have just as many. Not for bool.
        """
        return self._apply("bitcast_convert", dtype=dtype_name(dtype))

    def reduce_precision(self, exponent_bits, mantissa_bits):
        """Rounded to a floating-point format of that many bits of exponent and mantissa; the element type stays."""
        return self._apply("reduce_precision", exponent_bits=exponent_bits,
                           mantissa_bits=mantissa_bits)

    @torch_words(a_min="min", a_max="max")
    def clamp(self, min=None, max=None, out=None):
        """x, not below min and not above max: numbers, tensors, or None."""
        if min is None and max is None:
            raise invalid("clamp: give min, max, or both")
        x = _shoal.select(self == self, self, self._detach()) if self.requires_grad else self  # NaN has no gradient
        for bound, below in ((min, True), (max, False)):
            if bound is not None:
                number = isinstance(bound, (int, float)) and bound == bound
                x, bound = x._alike(x._coerce(bound, "clamp"))
                beyond = x < bound if below else x > bound
                if not number and is_floating(x.dtype):
                    absent = bound != bound
                    beyond = beyond | absent  # a bound that is NaN is what comes out
                    bound = _shoal.select(absent, bound._detach(), bound) if bound.requires_grad else bound
                x = _shoal.select(beyond, bound, x)
        return x if out is None else out._take(x)

    def clamp_min(self, min):
        """x, not below min."""
        return self.clamp(min)

    def clamp_max(self, max):
        """x, not above max."""
        return self.clamp(max=max)

    clip = clamp

    def pad(self, low, high=None, value=0, interior=None):
        """More elements of `value` at the edges, fewer where negative, and between elements.

        low, high, interior: one number per axis.
        """
        interior = (0,) * self.ndim if interior is None else interior
        value = self._coerce(value, "pad").astype(self.dtype)
        return self._apply("pad", (value,), edge_padding_low=low,
                           edge_padding_high=low if high is None else high,
                           interior_padding=interior)

    # ---- composites ----

    def gelu(self, approximate="none"):
        """x Phi(x); approximate="tanh" takes the formula with tanh. Floating types."""
        return self._apply("gelu", approximate=approximate)

    @torch_words
    def softmax(self, axis=-1, dtype=None):
        """e^x over its sum along an axis. Floating types; the shape stays."""
        x = self if dtype is None else self.astype(dtype)
        return x._apply("softmax", dimension=_axis(axis, self.ndim)) if self.ndim else x * 0 + 1

    @torch_words
    def log_softmax(self, axis=-1, dtype=None):
        """The logarithm of softmax along an axis. Floating types; the shape stays."""
        x = self if dtype is None else self.astype(dtype)
        return x._apply("log_softmax", dimension=_axis(axis, self.ndim)) if self.ndim else x * 0

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

        ignore_index: the label whose loss is 0 and which a mean leaves out; any other label has to be a
        class: an OutOfRangeError here, or where the loss is read. reduction: "none" (one loss per label), "sum" or "mean".
        """
        attrs = {} if ignore_index is None else {"ignore_index": ignore_index}
        axis = _axis(axis, self.ndim)
        labels = in_range(labels, 0, self.shape[axis], ignore_index)
        loss = self._apply("cross_entropy", (labels,), dimension=axis, **attrs)
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

# torch's other names of methods.
SYNONYMS = {"atan2": "arctan2", "expit": "sigmoid", "greater": "gt", "greater_equal": "ge", "less": "lt",
            "less_equal": "le", "not_equal": "ne"}
for _new, _old in SYNONYMS.items():
    setattr(Operations, _new, getattr(Operations, _old))

# Methods that are functions of `shoal`, too.
FUNCTIONS = tuple(METHODS.values()) + tuple(BINARY_METHODS.values()) + tuple(SYNONYMS) + tuple("""
    bitcast reduce_precision clamp clamp_min clamp_max clip add sub subtract mul multiply div divide rsub
    true_divide floor_divide remainder neg negative abs absolute relu lerp addcmul addcdiv
    eq ne lt le gt ge logical_not logical_and logical_or logical_xor isclose allclose equal
    sum nansum prod mean nanmean max min amax amin aminmax all any count_nonzero var std var_mean std_mean
    logsumexp norm dist renorm argmax argmin cumsum cumprod cummax cummin logcumsumexp
    sort argsort msort topk kthvalue median nanmedian mode quantile nanquantile unique unique_consecutive
    bincount histc isin searchsorted bucketize
    dynamic_slice dynamic_update_slice take index_select take_along take_along_dim gather scatter
    scatter_add scatter_reduce index_put index_add index_copy index_fill masked_fill masked_select
    masked_scatter select_scatter slice_scatter diagonal_scatter nonzero argwhere
    reshape flatten ravel unflatten transpose swapaxes swapdims permute movedim moveaxis squeeze unsqueeze
    expand_dims broadcast_to tile repeat_interleave flip fliplr flipud rot90 roll narrow select split chunk
    unbind diagonal diag trace tril triu adjoint t narrow_copy split_with_sizes unsafe_split unsafe_chunk tensor_split hsplit vsplit dsplit
    gelu softmax log_softmax rms_norm layer_norm cross_entropy attention rope
    as_strided conj conj_physical get_device is_conj is_inference is_neg is_signed put resolve_conj
    resolve_neg unsafe_split_with_sizes index_reduce
    is_floating_point is_complex is_nonzero is_same_size numel clone detach""".split()) + tuple(
        elementwise.NAMES + elementwise.MORE + products.NAMES)


# What torch calls the first argument of functions, where that is not `input`.
_FIRST = {"isin": "elements", "searchsorted": "sorted_sequence", "split": "tensor", "tensordot": "a",
          "trapezoid": "y", "cumulative_trapezoid": "y", "cdist": "x1", "triangular_solve": "b",
          "matrix_exp": "A"}


def function_of(name):
    """The function that calls the method of that name."""
    from .tensor import Tensor
    method = getattr(Tensor, name)
    first = _FIRST.get(name, "input")

    def function(*args, **keywords):
        if args:
            input, *args = args
        elif first in keywords:
            input = keywords.pop(first)
        else:
            raise TypeError(f"{name}: the argument '{first}' is missing")
        if not isinstance(input, Tensor):
            input = _operand(input, args, name)
        if "out" in keywords:
            out = keywords.pop("out")
            made = getattr(input, name)(*args, **keywords)
            return made if out is None else into(out, made)
        return getattr(input, name)(*args, **keywords)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = method.__doc__
    function.__wrapped__ = method
    function._first = first  # for who shows the signature
    return function


def _operand(value, args, name):
    """What a function is given in the place of a tensor, as one: a number beside a tensor, or an array."""
    from .creation import as_tensor
    from .tensor import Tensor
    beside = next((a for a in args if isinstance(a, Tensor)), None)
    if beside is not None:
        return beside._coerce(value)
    if isinstance(value, (bool, int, float)) or value is None:
        raise TypeError(f"{name}: the first argument is a {type(value).__name__}; it must be a Tensor")
    return as_tensor(value)
