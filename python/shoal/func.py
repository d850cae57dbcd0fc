"""Functions of functions: `vmap`, gradients and Jacobians, as torch.func.

`vmap` calls the function for each index of the batch and stacks what comes out: the calls are recorded, and
one program runs them all.
"""
from .creation import stack
from .words import axis_of, invalid


def _mapped(value, change):
    if isinstance(value, (tuple, list)):
        return type(value)(_mapped(v, change) for v in value)
    if isinstance(value, dict):
        return {k: _mapped(v, change) for k, v in value.items()}
    return change(value)


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """A function that calls `func` along an axis of its arguments and stacks the results.

    in_dims: the axis, None for an argument that is the same for all, or one per argument.
    """
    def batched(*args, **keywords):
        axes = in_dims if isinstance(in_dims, (tuple, list)) else (in_dims,) * len(args)
        if len(axes) != len(args):
            raise invalid(f"vmap: {len(axes)} axes for {len(args)} arguments")
        lengths = {a.shape[axis_of(axis, a.ndim, "vmap")] for a, axis in zip(args, axes)
                   if axis is not None and hasattr(a, "session")}
        if len(lengths) != 1:
            raise invalid(f"vmap: the axes have the lengths {sorted(lengths)}; one is needed")
        n, = lengths
        parts = [(a,) * n if axis is None or not hasattr(a, "session") else a.unbind(axis)
                 for a, axis in zip(args, axes)]
        results = [func(*row, **keywords) for row in zip(*parts)]

        def joined(rows, axis):
            if isinstance(rows[0], (tuple, list)):
                places = axis if isinstance(axis, (tuple, list)) else (axis,) * len(rows[0])
                return type(rows[0])(joined(list(column), p) for column, p in zip(zip(*rows), places))
            if isinstance(rows[0], dict):
                return {k: joined([r[k] for r in rows], axis) for k in rows[0]}
            return stack(rows, axis)
        return joined(results, out_dims)
    return batched


def _wanting(args, argnums):
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    given = [_mapped(a, lambda t: t.detach().requires_grad_() if hasattr(t, "session") else t)
             if i in numbers else a for i, a in enumerate(args)]
    return given, numbers


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that gives (gradients, value) of `func`, whose result is one number."""
    from .autograd import enable_grad, grad

    def both(*args, **keywords):
        with enable_grad():
            given, numbers = _wanting(args, argnums)
            made = func(*given, **keywords)
            value = made[0] if has_aux else made
            leaves = []
            for n in numbers:
                _mapped(given[n], leaves.append)
            found = iter(grad(value, leaves, create_graph=value.requires_grad))
            grads = tuple(_mapped(given[n], lambda t: next(found)) for n in numbers)
            grads = grads[0] if isinstance(argnums, int) else grads
        return (grads, (value, made[1])) if has_aux else (grads, value)
    return both


def grad(func, argnums=0, has_aux=False):
    """A function that gives the gradients of `func` with respect to its arguments."""
    def of(*args, **keywords):
        grads, value = grad_and_value(func, argnums, has_aux)(*args, **keywords)
        return (grads, value[1]) if has_aux else grads
    return of


def vjp(func, *primals):
    """(value, function from weights of it to gradients of the arguments)."""
    from .autograd import grad as gradients
    given, _ = _wanting(primals, range(len(primals)))
    value = func(*given)

    def back(cotangent):
        found = gradients(value, given, cotangent, retain_graph=True, allow_unused=True)
        return tuple(p * 0 if g is None else g for g, p in zip(found, given))
    return value, back


def jacrev(func, argnums=0):
    """A function that gives the Jacobian of `func`: the result's axes, then the argument's."""
    def of(*args):
        from .autograd import grad as gradients
        given, numbers = _wanting(args, argnums)
        value = func(*given)
        flat = value.reshape(-1)
        rows = [gradients(flat[i], [given[n] for n in numbers], retain_graph=True, create_graph=True,
                          allow_unused=True) for i in range(flat.numel())]
        made = tuple(stack([given[n] * 0 if r[k] is None else r[k] for r in rows]).reshape(
            (*value.shape, *given[n].shape)) for k, n in enumerate(numbers))
        return made[0] if isinstance(argnums, int) else made
    return of


jacfwd = jacrev


def hessian(func, argnums=0):
    """A function that gives the second derivatives of `func`, whose result is one number."""
    return jacrev(jacrev(func, argnums), argnums)


def functional_call(module, parameters, args=(), kwargs=None):
    """A module called with other tensors in the places of its parameters and buffers, by their names."""
    args = args if isinstance(args, tuple) else (args,)
    kept = []
    try:
        for name, value in parameters.items():
            path, _, own = name.rpartition(".")
            owner = module.get_submodule(path)
            table = owner._parameters if own in owner._parameters else owner._buffers
            kept.append((table, own, table[own]))
            table[own] = value
        return module(*args, **(kwargs or {}))
    finally:
        for table, own, value in reversed(kept):
            table[own] = value


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False):
    """torch.autograd.functional.jacobian: of a function at its inputs."""
    if isinstance(inputs, (tuple, list)):
        return jacrev(func, tuple(range(len(inputs))))(*inputs)
    return jacrev(func)(inputs)
