"""Functions of functions: `vmap`, gradients and Jacobians, as torch.func.

`vmap` calls the function once, with tensors that stand for one index of the batch each; what is done to them is
done to all indices at once, by the batch rules of the operations (src/graph/batch.c).
"""
import warnings

from . import _shoal
from .batches import batches, inside, level
from .creation import cat, eye, stack, zeros_like
from .errors import UnsupportedError
from .nested import mapped
from .random import default_generator
from .words import axis_of, invalid


def _leaves(value, axes, what):
    """(tensor or other value, its axis or None) of each leaf of nested tuples, lists and dicts."""
    if isinstance(value, (tuple, list)):
        axes = axes if isinstance(axes, (tuple, list)) else (axes,) * len(value)
        if len(axes) != len(value):
            raise invalid(f"{what}: {len(axes)} axes for {len(value)} values")
        return [leaf for v, a in zip(value, axes) for leaf in _leaves(v, a, what)]
    if isinstance(value, dict):
        return [leaf for k, v in value.items()
                for leaf in _leaves(v, axes[k] if isinstance(axes, dict) else axes, what)]
    return [(value, axes if hasattr(value, "session") else None)]


def _joined(rows, axis):
    """Results of calls as one: their tensors stacked, in the tuples and dicts that they stand in."""
    first = rows[0]
    if isinstance(first, (tuple, list)):
        places = axis if isinstance(axis, (tuple, list)) else (axis,) * len(first)
        return type(first)(_joined(list(column), p) for column, p in zip(zip(*rows), places))
    if isinstance(first, dict):
        return {k: _joined([r[k] for r in rows], axis) for k in first}
    return first if axis is None else stack(rows, axis)


def _taken_out(value, axis, number, n):
    """A result of all indices: its tensors with the batch as the axis."""
    if isinstance(value, (tuple, list)):
        places = axis if isinstance(axis, (tuple, list)) else (axis,) * len(value)
        return type(value)(_taken_out(v, p, number, n) for v, p in zip(value, places))
    if isinstance(value, dict):
        return {k: _taken_out(v, axis, number, n) for k, v in value.items()}
    if not hasattr(value, "session"):
        raise TypeError(f"vmap: the function returned {value!r}; tensors are possible")
    found = inside(value, number)
    whole, each = (value, False) if found is None else (found[0], found[2])
    if axis is None:
        if each:
            raise invalid("vmap: a result that differs from index to index needs an axis in out_dims, not None")
        return whole
    whole = whole if each else whole.broadcast_to((n, *whole.shape))
    return whole.movedim(0, axis)


def _at_once(call, leaves, n, out_dims, randomness):
    """All indices by one call, with tensors that stand for each."""
    number, outside = len(batches.now) + 1, batches.now
    given = [a if axis is None else _shoal.batch(a.movedim(axis, 0), number, True) for a, axis in leaves]
    were = [None if axis is None else _shoal.whole(g)[3] for g, (_, axis) in zip(given, leaves)]
    batches.now = (*outside, (n, randomness))
    try:
        made = call(given)
    finally:
        batches.now = outside
    result = _taken_out(made, out_dims, number, n)
    for g, was, (a, axis) in zip(given, were, leaves):
        if was is not None and _shoal.whole(g)[3] != was:  # changed in place
            a.copy_(_taken_out(g, axis, number, n))
    return result


def _one_by_one(call, leaves, n, out_dims, randomness):
    """A call for each index."""
    if not n:
        raise invalid("vmap: there is nothing along the axis: it has the length 0")
    columns = [(a,) * n if axis is None else a.unbind(axis) for a, axis in leaves]
    outside, state = batches.now, default_generator.get_state()
    batches.now = (*outside, (None, randomness))
    try:
        results = []
        for row in zip(*columns):
            if randomness == "same":
                default_generator.set_state(state)
            results.append(call(row))
    finally:
        batches.now = outside
    return _joined(results, out_dims)


def _in_chunks(call, leaves, n, out_dims, randomness, size):
    parts = []
    for start in range(0, n, size):
        length = min(size, n - start)
        parts.append(_mapped_over(call, [
            (a if axis is None else a.narrow(axis, start, length), axis) for a, axis in leaves],
            length, out_dims, randomness))

    def joined(values, axis):
        first = values[0]
        if isinstance(first, (tuple, list)):
            places = axis if isinstance(axis, (tuple, list)) else (axis,) * len(first)
            return type(first)(joined(column, p) for column, p in zip(zip(*values), places))
        if isinstance(first, dict):
            return {k: joined([v[k] for v in values], axis) for k in first}
        return first if axis is None else cat(list(values), axis)
    return joined(parts, out_dims)


def _mapped_over(call, leaves, n, out_dims, randomness):
    state = default_generator.get_state()
    try:
        return _at_once(call, leaves, n, out_dims, randomness)
    except UnsupportedError as why:
        reason = str(why)
    default_generator.set_state(state)
    result = _one_by_one(call, leaves, n, out_dims, randomness)
    warnings.warn(f"the function is called for each of {n} indices: {reason}", stacklevel=4)
    return result


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """A function that does for each index along an axis of its arguments what `func` does for one.

    `func` is called once, with tensors that have no such axis, and computes for all indices at once. Where it
    reads values, or an operation has no rule for that, it is called anew for each index, with a warning.
    in_dims: the axis, None for an argument that is the same for all, or one per argument; arguments may be nested
    tuples, lists and dicts, and their axes likewise. out_dims: the axis of the results, likewise. randomness:
    "error", "same" numbers for all indices, or "different" ones. chunk_size: most indices at once.
    """
    if randomness not in ("error", "different", "same"):
        raise invalid(f"vmap: randomness {randomness!r}; it is 'error', 'different' or 'same'")
    if chunk_size is not None and chunk_size < 1:
        raise invalid(f"vmap: chunk_size {chunk_size}; it is at least 1")

    def batched(*args, **keywords):
        leaves = _leaves(args, tuple(in_dims) if isinstance(in_dims, list) else in_dims, "vmap")
        leaves += _leaves(keywords, 0, "vmap")
        lengths = {a.shape[axis_of(axis, a.ndim, "vmap")] for a, axis in leaves if axis is not None}
        if len(lengths) != 1:
            raise invalid(f"vmap: the axes have the lengths {sorted(lengths)}; one is needed")
        n, = lengths

        def call(row):
            parts = iter(row)
            given = mapped(args, lambda _: next(parts))
            return func(*given, **mapped(keywords, lambda _: next(parts)))
        if chunk_size is not None and n > chunk_size:
            return _in_chunks(call, leaves, n, out_dims, randomness, chunk_size)
        return _mapped_over(call, leaves, n, out_dims, randomness)
    return batched


def stack_module_state(models):
    """(parameters, buffers) of modules of one kind, stacked, by name: for `vmap` of `functional_call`."""
    def stacked(tables):
        return {name: stack([t[name].detach() for t in tables]) for name in tables[0]}
    parameters = stacked([dict(m.named_parameters()) for m in models])
    for made in parameters.values():
        made.requires_grad_()
    return parameters, stacked([dict(m.named_buffers()) for m in models])


def _wanting(args, argnums):
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def leaf(t):
        if not hasattr(t, "session"):
            return t
        number = level()
        if number:  # a leaf of this batch, which derivatives outside of it do not see
            found = inside(t, number)
            if found is not None and t.requires_grad:
                return t.clone()
            whole, each = (t, False) if found is None else (found[0], found[2])
            return _shoal.batch(whole, number, each).requires_grad_()
        # What a derivative is taken of already, outside, goes on to be part of that.
        return t.clone() if t.requires_grad else t.detach().requires_grad_()
    given = [mapped(a, leaf) if i in numbers else a for i, a in enumerate(args)]
    return given, numbers


def _settled(results, given, numbers):
    """Results of derivatives, which want gradients themselves only if they derive from more than the arguments that
    the derivative was taken of: from what a derivative outside is taken of, or from parameters."""
    from .autograd import _leaves
    own = []
    for n in numbers:
        mapped(given[n], lambda t: own.append(id(t)))

    def settle(t):
        if not t.requires_grad or not all(id(leaf) in own for leaf in _leaves((t,))):
            return t
        found = inside(t, level())
        return t.detach() if found is None else _shoal.batch(found[0], found[1], found[2])
    return mapped(results, settle)


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
                mapped(given[n], leaves.append)
            found = grad(value, leaves, create_graph=True, allow_unused=True) if value.requires_grad else \
                (None,) * len(leaves)
            found = iter([zeros_like(leaf) if g is None else g for leaf, g in zip(leaves, found)])
            grads = tuple(mapped(given[n], lambda t: next(found)) for n in numbers)
            grads, value = _settled((grads, value), given, numbers)
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
        return tuple(zeros_like(p) if g is None else g for g, p in zip(found, given))
    return value, back


def jvp(func, primals, tangents):
    """(value, its derivative along tangents): the gradient, for weights of the result, of what `vjp` gives."""
    from .autograd import grad as gradients
    given, _ = _wanting(primals, range(len(primals)))
    value = func(*given)
    (weights,), _ = _wanting((zeros_like(value),), (0,))
    back = gradients(value, given, weights, create_graph=True, allow_unused=True)
    total = sum((g * t).sum() for g, t in zip(back, tangents) if g is not None)
    return value.detach(), gradients(total, weights)[0]


def jacrev(func, argnums=0):
    """A function that gives the Jacobian of `func`: the result's axes, then the argument's."""
    def of(*args):
        from .autograd import grad as gradients
        given, numbers = _wanting(args, argnums)
        value = func(*given)
        leaves = [given[n] for n in numbers]

        def row(seed):
            found = gradients(value, leaves, seed, retain_graph=True, create_graph=True, allow_unused=True)
            return tuple(zeros_like(leaf) if g is None else g for g, leaf in zip(found, leaves))
        seeds = eye(value.numel(), dtype=value.dtype).reshape(value.numel(), *value.shape)
        made = tuple(r.reshape(*value.shape, *leaf.shape) for r, leaf in zip(vmap(row)(seeds), leaves))
        made = _settled(made, given, numbers)
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


# ---- torch.autograd.functional: at given inputs ----

def _at(inputs):
    return inputs if isinstance(inputs, (tuple, list)) else (inputs,)


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False):
    """The Jacobian of a function at its inputs."""
    if isinstance(inputs, (tuple, list)):
        return jacrev(func, tuple(range(len(inputs))))(*inputs)
    return jacrev(func)(inputs)


def hessian_at(func, inputs, create_graph=False, strict=False, vectorize=False):
    """The second derivatives at its inputs of a function whose result is one number."""
    if isinstance(inputs, (tuple, list)):
        return hessian(func, tuple(range(len(inputs))))(*inputs)
    return hessian(func)(inputs)


def vjp_at(func, inputs, v=None, create_graph=False, strict=False):
    """(value, gradients at the inputs of the value times v)."""
    value, back = vjp(func, *_at(inputs))
    found = back(value * 0 + 1 if v is None else v)
    return value.detach(), found if isinstance(inputs, (tuple, list)) else found[0]


def jvp_at(func, inputs, v=None, create_graph=False, strict=False):
    """(value, its derivative at the inputs along v)."""
    return jvp(func, _at(inputs), _at(v))


def hvp_at(func, inputs, v=None, create_graph=False, strict=False):
    """(value, second derivatives at the inputs times v) of a function whose result is one number."""
    from .autograd import grad as gradients
    given, _ = _wanting(_at(inputs), range(len(_at(inputs))))
    value = func(*given)
    slopes = gradients(value, given, create_graph=True)
    found = gradients(sum((s * t).sum() for s, t in zip(slopes, _at(v))), given)
    return value.detach(), found if isinstance(inputs, (tuple, list)) else found[0]
