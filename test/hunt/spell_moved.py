"""How PyTorch spells operations that move elements, or sum them into places.

It has few of them in the standard's form. What each result is made of is found by running the reference
of the conformance suite on the numbers of the elements instead of the elements.
"""
import numpy as np

import golden_index
import golden_window

SMALL = ("float16", "bfloat16")


def are_close(rows):
    """Whether two that follow each other in a row differ by no more than rounding."""
    with np.errstate(invalid="ignore"):
        return bool((np.abs(np.diff(rows)) <= 1e-2 * np.abs(rows[..., 1:])).any())


def copied(n):
    """torch's, of what only moves elements: where each comes from is what the reference of the
    conformance suite makes of their numbers."""
    if n.op == "top_k":
        largest, places = golden_index.top_k(n.attrs, n.values[n.numbers[0]])
        if n.is_float and are_close(largest.astype(np.float64)):
            return []  # rounded in another way, they are in another order
        return [f"{{y}} = {n.x[0]}.gather(-1, t.tensor({places.tolist()}).reshape({n.shape})), "
                f"t.tensor({places.tolist()}, dtype=t.int32).reshape({n.shape})"]
    many = {"pad": 2, "dynamic_update_slice": 2}.get(n.op, 1)
    operands, at = [], 0
    for k, v in enumerate(n.numbers):
        size = n.values[v].size
        operands.append(np.arange(at, at + size).reshape(n.kinds[k][1]) if k < many else n.values[v])
        at += size
    origin = getattr(golden_index, n.op)(n.attrs, *operands)
    return [f"{flat(n.x[:many])}[{listed(origin)}].reshape({n.shape})"]


def summed(n):
    """torch's, of sums into places that an index or a window names: which numbers meet in each place
    is found by running the reference of the conformance suite with sets of numbers as elements."""
    if len(n.results) != 1 or n.only() != "add" or not n.is_float or n.dtype in SMALL:
        return []
    x, last = n.values[n.numbers[0]], n.values[n.numbers[-1]]
    if n.op == "scatter":
        source, start = n.x[2], f"{n.x[0]}.reshape(-1)"
        met = golden_index.scatter(n.attrs, sets, none(x.shape), n.values[n.numbers[1]], numbered(last.shape))[0]
    else:
        if not (last == 0).all():
            return []  # how often the first value is counted is left open
        source, start = n.x[0], f"{n.x[1]}.expand({int(np.prod(n.shape))})"
        met = golden_window.reduce_window(n.attrs, sets, numbered(x.shape), none(()))[0]
    places = [(to, k) for to, group in enumerate(met.ravel()) for k in group]
    to, of = ([pair[side] for pair in places] for side in (0, 1))
    return [f"{start}.index_add(0, {listed(to)}, {source}.reshape(-1)[{listed(of)}]).reshape({n.shape})"]


def sets(left, right):
    """What a body makes of elements that are tuples of numbers: both."""
    return [left[0] + right[0]]


def none(shape):
    """An array of empty tuples."""
    made = np.empty(shape, object)
    for at in np.ndindex(*shape):
        made[at] = ()
    return made


def numbered(shape):
    """An array of tuples, of each element's number."""
    made = np.empty(shape, object)
    for k, at in enumerate(np.ndindex(*shape)):
        made[at] = (k,)
    return made


def flat(names):
    """The elements of tensors, one after the other."""
    made = [f"{x}.reshape(-1)" for x in names]
    return made[0] if len(made) == 1 else f"t.cat([{', '.join(made)}])"


def listed(numbers):
    """An index, as an argument."""
    return f"t.tensor({np.asarray(numbers).ravel().tolist()}, dtype=t.int64)"
