"""What NumPy's functions do with tensors: its universal functions, computed in the pool."""

from .words import invalid

# NumPy's name -> the method; the others are called alike.
_NAMES = {"absolute": "abs", "power": "pow", "float_power": "float_power", "negative": "neg",
          "conjugate": "clone", "invert": "bitwise_not", "bitwise_invert": "bitwise_not", "rint": "round",
          "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift", "degrees": "rad2deg",
          "radians": "deg2rad", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
          "equal": "eq", "not_equal": "ne", "floor_divide": "floor_divide", "mod": "remainder",
          "fabs": "abs", "pow": "pow"}
_REDUCE = {"add": "sum", "multiply": "prod", "maximum": "amax", "minimum": "amin", "logical_and": "all",
           "logical_or": "any"}
_NEUTRAL = {"add": 0, "multiply": 1, "logical_and": True, "logical_or": False}
_ACCUMULATE = {"add": "cumsum", "multiply": "cumprod"}
_AT = {"add": "add", "subtract": "add", "multiply": "multiply", "maximum": "maximum", "minimum": "minimum"}


def ufunc_of(ufunc, method, inputs, keywords):
    """What `Tensor.__array_ufunc__` is asked for."""
    from .indexing import put
    from .tensor import Tensor
    out = keywords.pop("out", None)
    where = keywords.pop("where", True)
    if keywords.keys() - {"axis", "keepdims", "dtype"}:
        return NotImplemented
    like = next((x for x in (*inputs, *(out or ()), where) if isinstance(x, Tensor)))
    name = ufunc.__name__
    if method in ("__call__", "outer"):
        operands = [x if isinstance(x, Tensor) else like._coerce(x) for x in inputs]
        if any(x is None for x in operands):
            return NotImplemented
        if method == "outer":
            first, second = operands
            operands[0] = first.reshape(*first.shape, *(1,) * second.ndim)
        if name == "matmul":
            made = inputs[0] @ inputs[1] if isinstance(inputs[0], Tensor) else operands[1].__rmatmul__(inputs[0])
        elif name == "divmod":
            made = divmod(*operands)
        else:
            call = getattr(operands[0], _NAMES.get(name, name), None)
            if call is None or ufunc.nin != len(operands):
                return NotImplemented
            made = call(*operands[1:])
        if keywords.get("dtype") is not None:
            made = made.astype(keywords["dtype"])
        if where is not True:  # elsewhere the result is what `out` has, and anything without it
            made = made.where(where, like._coerce(out[0]).astype(made.dtype)) if out else made
    elif method == "reduce" and name in _REDUCE and (where is True or name in _NEUTRAL):
        if where is not True:
            like = like.where(where, like._coerce(_NEUTRAL[name]))
        made = getattr(like, _REDUCE[name])(axis=keywords.get("axis", 0),
                                            keepdims=keywords.get("keepdims", False))
    elif method == "at" and name in _AT and inputs[0] is like:
        x, key, value = inputs
        value = like._coerce(value)
        like._become(put(x, key, -value if name == "subtract" else value, _AT[name]), f"{name}.at")
        return None
    elif method == "accumulate" and name in _ACCUMULATE and where is True:
        made = getattr(like, _ACCUMULATE[name])(axis=keywords.get("axis", 0))
    else:
        return NotImplemented
    if out is None:
        return made
    target, = out
    if isinstance(target, Tensor):
        return target._take(made)
    if target.shape != made.shape:
        raise invalid(f"out is {target.dtype}{list(target.shape)} for {made._text()}")
    target[...] = made.numpy()
    return target

