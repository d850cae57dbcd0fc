"""Views: what a tensor remembers of the one that it is a part or another shape of.

A value never changes, so nothing is shared. A view notes its root, the tensor that others are views of, and
the steps that lead from it. A change in place of a view is written through to the root, and a change of
the root is brought to its living views at once; a program that changes nothing in place pays for the notes
alone. A root that nobody holds any more is let go while one view of it is left: that is a tensor of its
own from then on.

A step is (kind, argument): "shape" and a shape, "axes" and a permutation, "key" and what stood in the
brackets, "detach", "expand" and a shape, "windows" and (axis, size, step), "strided" and (shape, strides, offset), "bits"
and the element types before and after.
"""
import functools
import math
import operator
import weakref

from . import _shoal, indexing
from .dtypes import DTYPES
from .words import invalid


class View:
    """The root of a tensor, weakly unless siblings may reach it, and the steps from there.

    shape, below: of the root, for its strides, also when it is gone. repeats: whether an element of the
    root may be several of the view's. placed: (n, offset, shape, strides) after the first n steps, of which it
    is known, or None.
    """

    __slots__ = ("root", "steps", "held", "shape", "below", "repeats", "placed")

    def __init__(self, root, steps, repeats):
        self.root, self.steps, self.held, self.repeats = weakref.ref(root), steps, None, repeats
        self.placed = None
        self.shape, self.below = root.shape, root._view


def root_of(x):
    """What x is a view of, or None."""
    view = x._view
    return None if view is None else view.root()


def noted(x, made, kind, argument=None, part=False):
    """`made`, which is x after a step, as a view of x. part: one of several that do not overlap."""
    root = root_of(x)
    repeats = kind in ("expand", "strided") or (kind == "windows" and argument[1] > argument[2])
    if root is None:
        root, steps = x, ((kind, argument),)
    else:
        steps = x._view.steps + ((kind, argument),)
        repeats = repeats or x._view.repeats
    view = made._view = View(root, steps, repeats)
    if root is not x:
        view.placed = x._view.placed
    others = root._views
    if others:
        others = [ref for ref in others if ref() is not None]
        if others and not part:
            # Siblings reach each other by the root.
            view.held = root
            for ref in others:
                sibling = ref()
                if sibling is not None and sibling._view is not None:
                    sibling._view.held = root
    root._views = [*others, weakref.ref(made)] if others else [weakref.ref(made)]
    return made


def owned(function):
    """Of a function whose result shares nothing with its first argument, also where there is nothing to
    do: then it is a copy."""
    @functools.wraps(function)
    def own(x, *args, **keywords):
        made = function(x, *args, **keywords)
        return made.clone() if made is x or root_of(made) is not None else made
    own._words = getattr(function, "_words", {})
    return own


def window_keys(x, axis, size, step):
    """What stands in the brackets for the first elements of all windows, the second ones, and so on."""
    reach = (x.shape[axis] - size) // step * step + 1
    return [(slice(None),) * axis + (slice(i, i + reach, step),) for i in range(size)]


def _places(x, size, stride, offset):
    """The numbers of the elements that strides name, in a vector of all of x's."""
    at = x.session.tensor(offset, "int64")
    for n, s in zip(size, stride):
        steps = _shoal.apply(x.session, "iota", (), {"shape": (n,), "iota_dimension": 0, "dtype": "int64"}, 1)[0]
        at = at.unsqueeze(-1) + steps * s
    return at.reshape(size)


def strided(x, size, stride, offset):
    """The elements of x that strides name, counted in its own elements."""
    return _shoal.apply(x.session, "reshape", (x,), {"shape": (x.size,)}, 1)[0].take(
        _places(x, size, stride, offset), 0)


def _step(x, kind, argument):
    if kind == "shape":
        return _shoal.apply(x.session, "reshape", (x,), {"shape": argument}, 1)[0]
    if kind == "axes":
        return _shoal.apply(x.session, "transpose", (x,), {"permutation": argument}, 1)[0]
    if kind == "key":
        return indexing.get(x, argument)
    if kind == "expand":
        return _shoal.broadcast(x, argument)
    if kind == "windows":
        return x._windows(*argument)
    if kind == "strided":
        return strided(x, *argument)
    if kind == "bits":
        return x._bits(argument[1])
    return x._detach()


def _undone(x, kind, argument, value):
    """x after the result of a step on it has become `value`."""
    if kind == "shape":
        return _shoal.apply(x.session, "reshape", (value,), {"shape": x.shape}, 1)[0]
    if kind == "axes":
        order = sorted(range(len(argument)), key=argument.__getitem__)
        return _shoal.apply(x.session, "transpose", (value,), {"permutation": order}, 1)[0]
    if kind == "key":
        return indexing.put(x, argument, value)
    if kind == "windows":
        for i, key in enumerate(window_keys(x, *argument)):
            x = indexing.put(x, key, indexing.get(value, (Ellipsis, i)))
        return x
    if kind == "expand":
        return value.reshape(x.shape)
    if kind == "strided":
        flat = indexing.put(x.reshape(-1), _places(x, *argument).reshape(-1), value.reshape(-1))
        return flat.reshape(x.shape)
    if kind == "bits":
        return value._bits(argument[0])
    return value


def _meet(size, stride, offset):
    """Whether strides name an element more than once."""
    reach = 0
    for s, n in sorted(zip(stride, size)):
        if n > 1 and s <= reach:
            break
        reach += (n - 1) * s
    else:
        return False  # each axis steps beyond those with smaller strides
    places = {offset}
    for n, s in zip(size, stride):
        places = {at + i * s for at in places for i in range(n)}
    return len(places) < math.prod(size)


def _overlaps(x, steps):
    """Whether elements of a view may be one and the same."""
    if any(kind == "strided" and _meet(*argument) for kind, argument in steps):
        return True
    if any(kind == "windows" and argument[1] > argument[2] for kind, argument in steps):
        return True
    return any(kind == "expand" for kind, _ in steps) and \
        any(n > 1 and not s for n, s in zip(x.shape, layout(x)[1]))


def written(x, value):
    """x becomes a value in place, and with it all that shares its elements."""
    if 0 in x.shape:
        x._assign(value)  # it has none
        return
    view, root = x._view, root_of(x)
    if view is not None and view.repeats and _overlaps(x, view.steps):
        raise invalid(f"in place: several elements of {x._text()}, which was expanded, are one; clone() it "
                      "first")
    if root is None:
        if view is not None and is_dense(x):
            x._view = None  # it is a tensor of its own by now
        x._assign(value)
        root = x
    else:
        steps, bases, new = x._view.steps, [root], value
        for kind, argument in steps[:-1]:
            bases.append(_step(bases[-1], kind, argument))
        for base, (kind, argument) in zip(reversed(bases), reversed(steps)):
            new = _undone(base, kind, argument, new)
        if any(kind == "detach" for kind, _ in steps):
            _assigned(root, new)
        else:
            root._assign(new)
        x._assign(value)
    if root._views is None:
        return
    root._views = [ref for ref in root._views if ref() is not None] or None
    for ref in root._views or ():
        view = ref()
        if view is None or view is x or view._view is None:
            continue
        now = root
        for kind, argument in view._view.steps:
            now = _step(now, kind, argument)
        if view._is_leaf:
            _assigned(view, now)
        else:
            view._assign(now)


def _assigned(x, value):
    """x stands for a value, gradients aside."""
    was = _shoal.set_gradients(0)
    try:
        x._assign(value)
    finally:
        _shoal.set_gradients(was)


# ---- strides, as they would be in memory ----

def dense(shape):
    """The strides of a tensor of its own."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def layout(x):
    """(offset, strides) within the root, in elements."""
    return _layout(x._view, x.shape)


def _layout(view, shape):
    if view is None:
        return 0, dense(shape)
    if view.placed is None:
        offset, strides = _layout(view.below, view.shape)
        view.placed = 0, offset, view.shape, strides
    done, offset, shape, strides = view.placed
    for kind, argument in view.steps[done:]:
        if kind == "shape":
            strides = reshaped(shape, strides, argument) or dense(argument)
            shape = argument
        elif kind == "axes":
            shape, strides = (tuple(part[a] for a in argument) for part in (shape, strides))
        elif kind == "expand":
            new = len(argument) - len(shape)
            strides = (0,) * new + tuple(0 if n != m else s for n, m, s in zip(argument[new:], shape, strides))
            shape = argument
        elif kind == "key":
            offset, shape, strides = _cut(argument, offset, shape, strides)
        elif kind == "strided":
            at, wanted, steps = argument[2], *argument[:2]
            offset, strides = (offset + at, steps) if strides == dense(shape) else (0, dense(wanted))
            shape = wanted
        elif kind == "bits":
            was, now = (DTYPES[name].itemsize for name in argument)
            shape = (*shape[:-1], shape[-1] * was // now) if shape else ()
            offset, strides = offset * was // now, dense(shape)
        elif kind == "windows":
            axis, size, step = argument
            strides = (*strides[:axis], strides[axis] * step, *strides[axis + 1:], strides[axis])
            shape = (*shape[:axis], (shape[axis] - size) // step + 1, *shape[axis + 1:], size)
    view.placed = len(view.steps), offset, shape, strides
    return offset, strides


def _cut(argument, offset, shape, strides):
    box = indexing.box_of(shape, argument)
    if box is not None:
        start, _, step, lengths = box
        return (offset + sum(map(operator.mul, start, strides)), lengths,
                tuple(map(operator.mul, strides, step)))
    key = indexing.Key(_Shaped(shape), argument)
    at = [start + (len(range(start, limit, step)) - 1) * step if a in key.flipped else start
          for a, (start, limit, step) in enumerate(zip(key.start, key.limit, key.stride))]
    offset += sum(a * s for a, s in zip(at, strides))
    strides = [-s * step if a in key.flipped else s * step
               for a, (s, step) in enumerate(zip(strides, key.stride))]
    kept = [item for item in key.items if item[0] != "drop"]
    return offset, key.shape(), tuple(0 if item[0] == "new" else strides[item[1]] for item in kept)


class _Shaped:
    """As much of a tensor as a key asks for."""

    dtype = "float32"

    def __init__(self, shape):
        self.shape, self.ndim = shape, len(shape)


def reshaped(shape, strides, wanted):
    """The strides of another shape of the same elements where they lie; None: they have to move."""
    if not math.prod(shape):
        return dense(wanted)
    pieces = [(n, s) for n, s in zip(shape, strides) if n != 1]
    made, at = [], 0
    lengths = list(wanted)
    i = 0
    while i < len(lengths):
        if lengths[i] == 1:
            made.append(None)
            i += 1
            continue
        have, want, start = pieces[at][0], lengths[i], i
        at += 1
        while have != want:
            if have < want:
                n, s = pieces[at]
                if pieces[at - 1][1] != n * s:
                    return None
                have, at = have * n, at + 1
            else:
                i += 1
                want *= lengths[i]
        step, group = pieces[at - 1][1], []
        for n in reversed(lengths[start:i + 1]):
            group.append(step)
            step *= n
        made += reversed(group)
        i += 1
    for j in reversed(range(len(made))):
        if made[j] is None:
            made[j] = made[j + 1] * lengths[j + 1] if j + 1 < len(made) else 1
    return tuple(made)


def is_dense(x):
    """Whether x would lie in memory row by row without gaps."""
    view = x._view
    if view is None or view.below is None and all(kind in ("shape", "detach") for kind, _ in view.steps):
        return True
    return all(n == 1 or s == d for n, s, d in zip(x.shape, layout(x)[1], dense(x.shape))) or \
        not math.prod(x.shape)
