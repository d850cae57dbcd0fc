"""Operations of tensors beside arithmetic and shapes, under the names that torch and NumPy give them.

Each method has a function of the same name in `shoal`: `x.softmax(-1)` is `shoal.softmax(x, -1)`.
"floating" means float16, bfloat16, float32, float64; an error is a `shoal.ShoalError` that names the
operation, the shapes and what would be right, and it is raised at the call.
"""
from . import _shoal

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


def _axis(axis, rank):
    return axis + rank if axis < 0 else axis


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

    def __rshift__(self, other):
        unsigned = self.dtype.startswith("u")
        return self._binary("shift_right_logical" if unsigned else "shift_right_arithmetic", other)

    def __invert__(self):
        return _shoal.unary(_NUMBERS["not"], self)

    def __floordiv__(self, other):
        """The quotient rounded down, as Python does; integers and floating types."""
        if self.dtype.startswith(("float", "bfloat")):
            return (self / other).floor()
        other = self._coerce(other)
        if other is None:
            return NotImplemented
        quotient = self._binary("divide", other)
        rest = self._binary("remainder", other)
        wrong = (rest != 0) & ((rest < 0) != (other < 0))
        return quotient - wrong.astype(self.dtype)

    def __mod__(self, other):
        """What the quotient rounded down leaves, with the sign of `other`, as Python does."""
        other = self._coerce(other)
        if other is None:
            return NotImplemented
        rest = self._binary("remainder", other)
        wrong = (rest != 0) & ((rest < 0) != (other < 0))
        return _shoal.select(wrong, rest + other, rest)

    def bitcast(self, dtype):
        """The same bytes as another element type (torch's view(dtype)).

        A smaller type adds a last axis for the parts of an element; a larger one takes the last axis,
        which must have just as many. Not for bool.
        """
        from .tensor import dtype_name
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

    # ---- places ----

    def flip(self, axis=None):
        """The axes (an int, a tuple, None: all) from their end to their beginning."""
        axes = tuple(_axis(a, self.ndim) for a in self._axes(axis))
        return self._apply("reverse", dimensions=axes)

    def pad(self, low, high, value=0, interior=None):
        """More elements of `value` at the edges, fewer where negative, and between elements.

        low, high, interior: one number per axis.
        """
        interior = (0,) * self.ndim if interior is None else interior
        return self._apply("pad", (self._coerce(value),), edge_padding_low=low,
                           edge_padding_high=high, interior_padding=interior)

    def dynamic_slice(self, starts, sizes):
        """A box of `sizes` at `starts` (per axis a number or an integer scalar), moved inside."""
        return self._apply("dynamic_slice", self._starts(starts), slice_sizes=sizes)

    def dynamic_update_slice(self, update, starts):
        """A copy with `update`, of this element type, at `starts`; the box is moved inside."""
        return self._apply("dynamic_update_slice", (update, *self._starts(starts)))

    def _starts(self, starts):
        return tuple(s if hasattr(s, "shape") else self.session.tensor(int(s), "int64")
                     for s in starts)

    def take(self, indices, axis=None):
        """What lies at integer `indices` along an axis (None: of all elements in order).

        The indices' axes take the axis' place. Indices outside are moved inside.
        """
        if axis is None:
            return self.flatten().take(indices, 0)
        if not hasattr(indices, "session"):
            indices = self.session.tensor(indices, "int64")
        return _shoal.take(self, indices, axis)

    def index_select(self, axis, index):
        """torch's order of arguments for `take`."""
        return self.take(index, axis)

    def scatter(self, indices, updates, axis=0, op="set"):
        """A copy with `updates` joined in at `indices`, a vector, along an axis.

        op: "set", "add", "multiply", "maximum", "minimum". Indices outside are left out.
        """
        if not hasattr(indices, "session"):
            indices = self.session.tensor(indices, "int64")
        return _shoal.scatter(self, indices, self._coerce(updates), axis, op)

    def index_add(self, axis, index, source):
        """torch's index_add: rows of `source` added at `index` along an axis."""
        return self.scatter(index, source, axis, "add")

    # ---- order ----

    def sort(self, axis=-1, descending=False):
        """(values, indices) along an axis; stable, NaN as the largest; indices are int64."""
        return _shoal.sort(self, axis, descending)

    def argsort(self, axis=-1, descending=False):
        """The indices, int64, that `sort` gives."""
        return _shoal.sort(self, axis, descending)[1]

    def topk(self, k):
        """(values, indices) of the largest k along the last axis, falling; indices are int32."""
        return self._apply("top_k", n_outputs=2, k=k)

    def argmax(self, axis=None):
        """The index, int64, of the largest along an axis (None: of all); NaN is the largest."""
        return self._arg("argmax", axis)

    def argmin(self, axis=None):
        """The index, int64, of the smallest along an axis (None: of all); NaN is the smallest."""
        return self._arg("argmin", axis)

    def _arg(self, op, axis):
        if axis is None:
            return self.flatten()._arg(op, 0)
        return self._apply(op, dimension=_axis(axis, self.ndim), dtype="int64")

    def cumsum(self, axis):
        """Sums of all elements up to each, along an axis."""
        return _shoal.cumulate(self, "add", axis)

    def cumprod(self, axis):
        """Products of all elements up to each, along an axis."""
        return _shoal.cumulate(self, "multiply", axis)

    def cummax(self, axis):
        """The largest of all elements up to each, along an axis (values alone)."""
        return _shoal.cumulate(self, "maximum", axis)

    def cummin(self, axis):
        """The smallest of all elements up to each, along an axis (values alone)."""
        return _shoal.cumulate(self, "minimum", axis)

    # ---- reductions ----

    def all(self, axis=None, keepdims=False):
        """Whether all elements are true (not 0), over axes."""
        return self.astype("bool")._reduce("multiply", axis, keepdims)

    def any(self, axis=None, keepdims=False):
        """Whether an element is true (not 0), over axes."""
        return self.astype("bool")._reduce("add", axis, keepdims)

    def var(self, axis=None, keepdims=False, correction=0):
        """Variances over axes, dividing by the count less `correction` (NumPy's 0; torch has 1)."""
        x = self._floating()
        moved = x - x.mean(axis, True)
        total = (moved * moved).sum(axis, keepdims)
        count = x.size // (total.size or 1)
        return total / float(count - correction)

    def std(self, axis=None, keepdims=False, correction=0):
        """Standard deviations over axes: roots of `var`."""
        return self.var(axis, keepdims, correction).sqrt()

    # ---- composites ----

    def gelu(self, approximate="none"):
        """x Phi(x); approximate="tanh" takes the formula with tanh. Floating types."""
        return self._apply("gelu", approximate=approximate)

    def softmax(self, axis=-1):
        """e^x over its sum along an axis. Floating types; the shape stays."""
        return self._apply("softmax", dimension=_axis(axis, self.ndim))

    def log_softmax(self, axis=-1):
        """The logarithm of softmax along an axis. Floating types; the shape stays."""
        return self._apply("log_softmax", dimension=_axis(axis, self.ndim))

    def rms_norm(self, scale=None, axis=-1, epsilon=1e-6):
        """x / sqrt(mean(x^2) + epsilon) along an axis, times `scale`, a vector along it."""
        return self._apply("rms_norm", () if scale is None else (scale,),
                           dimension=_axis(axis, self.ndim), epsilon=epsilon)

    def layer_norm(self, scale=None, bias=None, axis=-1, epsilon=1e-5):
        """(x - mean) / sqrt(variance + epsilon) along an axis, times `scale`, plus `bias`."""
        if bias is not None and scale is None:
            scale = self.session.full(bias.shape, 1, self.dtype)
        others = tuple(t for t in (scale, bias) if t is not None)
        return self._apply("layer_norm", others, dimension=_axis(axis, self.ndim),
                           epsilon=epsilon)

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
            from .tensor import _shoal_error
            raise _shoal_error("INVALID", f"cross_entropy: reduction '{reduction}' is none of "
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
FUNCTIONS = tuple(METHODS.values()) + tuple(BINARY_METHODS.values()) + (
    "bitcast", "reduce_precision", "isnan", "isinf", "clamp", "clip", "flip", "pad",
    "dynamic_slice", "dynamic_update_slice", "take", "index_select", "scatter", "index_add", "sort",
    "argsort", "topk", "argmax", "argmin", "cumsum", "cumprod", "cummax", "cummin", "all", "any",
    "var", "std", "gelu", "softmax", "log_softmax", "rms_norm", "layer_norm", "cross_entropy",
    "attention", "rope")


def function_of(name):
    """The function that calls the method of that name."""
    method = getattr(Operations, name)

    def function(x, *args, **keywords):
        return getattr(x, name)(*args, **keywords)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = method.__doc__
    function.__wrapped__ = method
    return function


def random(session, shape, distribution, dtype, seed, stream=0):
    """A tensor of random numbers; see `shoal.rand`."""
    scalars = tuple(s if hasattr(s, "shape") else session.tensor(s, "int64")
                    for s in (seed, stream))
    return _shoal.apply(session, "random", scalars, {
        "shape": shape, "dtype": dtype, "rng_distribution": distribution}, 1)[0]
