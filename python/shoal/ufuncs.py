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
_ACCUMULATE = {"add": "cumsum", "multiply": "cumprod"}

def ufunc_of(ufunc, method, inputs, keywords):
    """What `Tensor.__array_ufunc__` is asked for."""
    from .tensor import Tensor
    out = keywords.pop("out", None)
    where = keywords.pop("where", True)
    if where is not True or keywords.keys() - {"axis", "keepdims", "dtype"}:
        return NotImplemented
    like = next(x for x in (*inputs, *(out or ())) if isinstance(x, Tensor))
    name = ufunc.__name__
    if method == "__call__":
        operands = [x if isinstance(x, Tensor) else like._coerce(x) for x in inputs]
        if any(x is None for x in operands):
            return NotImplemented
        if name == "matmul":
            made = operands[0] @ operands[1]
        elif name == "divmod":
            made = divmod(*operands)
        else:
            call = getattr(operands[0], _NAMES.get(name, name), None)
            if call is None or ufunc.nin != len(operands):
                return NotImplemented
            made = call(*operands[1:])
        if keywords.get("dtype") is not None:
            made = made.astype(keywords["dtype"])
    elif method == "reduce" and name in _REDUCE:
        made = getattr(like, _REDUCE[name])(axis=keywords.get("axis", 0),
                                            keepdims=keywords.get("keepdims", False))
    elif method == "accumulate" and name in _ACCUMULATE:
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

