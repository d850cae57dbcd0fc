"""Gradients that Python computes: hooks of tensors, `Function`, and what is built on them.

The library differentiates graphs of operations. Where Python has a part in it, the tape is cut: the tensor
becomes a leaf there, a *joint*, with a node that says what its gradient becomes. `backward` goes from
joint to joint, the latest first, and takes the gradients between them from the library.
"""
import heapq
import itertools
import weakref

from . import _shoal

_numbers = itertools.count()
joints = {}  # key_of a leaf -> (node, number of the output)
_room = 256  # joints beyond which those that the tape has forgotten are dropped


class Node:
    """What turns the gradients of some joints into those of other tensors."""

    def __init__(self, name, inputs, outputs, run):
        global _room
        self.number, self.name, self.inputs, self.run = next(_numbers), name, inputs, run
        self.shapes = [None if t is None else (t.session, tuple(t.shape), t.dtype) for t in outputs]
        self.used, self.keeps = False, {}
        self.objects = [None if t is None else weakref.ref(t) for t in outputs]
        if len(joints) > _room:
            _forget({t.session for t in outputs if t is not None})
            _room = max(256, 2 * len(joints))
        for i, t in enumerate(outputs):
            if t is not None:
                joints[key_of(t)] = self, i


def _forget(sessions):
    """Drops the joints that no object stands for and nothing on the tape derives from."""
    used = {(session.serial, number) for session in sessions for row in session._tape() for number in row[2]}
    for key, (node, i) in list(joints.items()):
        serial, identity = key
        if (serial, identity >> 6) not in used and node.objects[i]() is None:
            del joints[key]


def key_of(tensor):
    """What a leaf, or a result that is watched, is known by."""
    return tensor.session.serial, tensor._identity


def node_of(tensor):
    """(node, number of the output) of a joint, else None."""
    return joints.get(key_of(tensor)) if joints else None


def crossed(outputs):
    """Whether results derive from joints."""
    return bool(joints) and any(key_of(t) in joints for t in (*outputs, *_shoal.targets(tuple(outputs))))


def gradients(outputs, seeds, wanted, retain, create_graph, allow_unused):
    """`_shoal.gradients` across joints: per tensor in `wanted` its gradient or None."""
    outputs = list(outputs)
    seeds = [None] * len(outputs) if seeds is None else list(seeds)
    total = [None] * len(wanted)
    places = {}
    for i, t in enumerate(wanted):
        places.setdefault(key_of(t), []).append(i)
    met, queue = {}, []  # node -> gradients of its outputs

    def add(into, at, value):
        into[at] = value if into[at] is None else into[at] + value

    def arrive(key, value):
        node, at = joints[key]
        if node not in met:
            met[node] = [None] * len(node.shapes)
            heapq.heappush(queue, (-node.number, node))
        add(met[node], at, value)

    def segment(outputs, seeds):
        handles = [t for t in _shoal.targets(tuple(outputs)) if key_of(t) in joints]
        ends = {key_of(t): t for t in handles} | {
            key_of(t): t for t in outputs if key_of(t) in joints}
        kept = [(i, t) for i, t in enumerate(wanted) if key_of(t) not in ends]
        wrt = [t for _, t in kept] + list(ends.values())
        found = _shoal.gradients(tuple(outputs), tuple(seeds), tuple(wrt), True, create_graph, True)
        for (i, _), value in zip(kept, found):
            if value is not None:
                add(total, i, value)
        for key, value in zip(ends, found[len(kept):]):
            if value is not None:
                for i in places.get(key, ()):
                    add(total, i, value)
                arrive(key, value)

    def passed_on(node):
        was = _shoal.set_gradients(create_graph)  # gradients have gradients themselves only if asked for
        try:
            return node.run(node, met[node])
        finally:
            _shoal.set_gradients(was)

    segment(outputs, seeds)
    while queue:
        node = heapq.heappop(queue)[1]
        if node.used:
            from .words import invalid
            raise invalid(f"backward: what {node.name} needs has been freed; use retain_graph=True the first "
                          "time")
        node.used = not retain and not create_graph
        pairs = [(t, g) for t, g in zip(node.inputs, passed_on(node))
                 if t is not None and g is not None and t.requires_grad]
        if pairs:
            segment([t for t, _ in pairs], [g for _, g in pairs])
    if not allow_unused and any(value is None for value in total):
        from .words import invalid
        raise invalid("grad: an input is not used by the outputs; allow_unused=True gives None for it")
    return total


# ---- hooks of tensors ----

class Handle:
    """Removes a hook."""

    def __init__(self, hooks):
        self._table = hooks

    def remove(self):
        """The hook is not called any more."""
        self._table.pop(self, None)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


def _hooked(node, given):
    value, = given
    for hook in tuple(node.hooks.values()):
        other = hook(value)
        value = value if other is None else other
    keeper = node.keeps.get(0)
    if keeper is not None and keeper() is not None:
        shown, before = keeper(), keeper()._grad
        shown._grad = value if before is None else before + value
    return (value,)


def joint(tensor):
    """Makes a result a joint that passes its gradient on; its node."""
    found = node_of(tensor)
    if found is not None and hasattr(found[0], "hooks"):
        return found[0]
    name = tensor._origin
    fresh = tensor._detach()
    fresh._require(True)
    tensor._swap(fresh)  # `fresh` stands for the result now
    node = Node(name, [fresh], [tensor], _hooked)
    node.hooks = {}
    return node


def keep_gradient(tensor):
    """`retain_grad` of a joint."""
    node = joint(tensor)
    node.keeps[0] = weakref.ref(tensor)


# ---- custom functions ----

class Context:
    """What the `forward` of a `Function` leaves for its `backward`."""

    def __init__(self, needs):
        self.needs_input_grad, self.saved_tensors = needs, ()
        self.materialize_grads, self._without = True, set()

    def save_for_backward(self, *tensors):
        """Tensors that backward finds in `saved_tensors`."""
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors):
        """Results through which no gradients pass."""
        self._without = {id(t) for t in tensors}

    def mark_dirty(self, *tensors):
        """Inputs that forward has changed in place: nothing has to be done for them here."""

    def set_materialize_grads(self, value):
        """Whether backward gets zeros, or None, for results that nothing derives from."""
        self.materialize_grads = value


class Function:
    """An operation with a gradient of one's own: subclass it, write `forward(ctx, …)` and
    `backward(ctx, …)` as static methods, call `apply`.

    forward gives a tensor or a tuple; backward takes the gradients of these and gives one per argument of
    forward, None for what has none. Instead of taking `ctx`, forward may leave it to a static method
    `setup_context(ctx, inputs, output)`.
    """

    @staticmethod
    def forward(ctx, *args, **keywords):
        """What the function computes."""
        raise NotImplementedError("a Function needs a forward")

    @staticmethod
    def backward(ctx, *grads):
        """The gradients of the arguments, from those of the results."""
        raise NotImplementedError("this Function has no backward")

    setup_context = None

    @classmethod
    def apply(cls, *args, **keywords):
        """Calls it."""
        from .autograd import is_grad_enabled, no_grad
        from .tensor import Tensor
        needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        ctx = Context(needs)
        with no_grad():
            if cls.setup_context is not None:
                made = cls.forward(*args, **keywords)
                cls.setup_context(ctx, args, made)
            else:
                made = cls.forward(ctx, *args, **keywords)
        if not is_grad_enabled() or not any(needs):
            return made
        results = list(made) if isinstance(made, tuple) else [made]
        tracked = []
        for i, t in enumerate(results):
            fits = isinstance(t, Tensor) and t.dtype.is_floating_point and id(t) not in ctx._without
            if fits:
                results[i] = t._detach()
                results[i]._require(True)
            tracked.append(results[i] if fits else None)

        def run(node, given):
            grads = [g if g is not None or shape is None or not ctx.materialize_grads else
                     shape[0].full(shape[1], 0, shape[2]) for g, shape in zip(given, node.shapes)]
            passed = cls.backward(ctx, *grads)
            passed = passed if isinstance(passed, tuple) else (passed,)
            if len(passed) < len(args) or any(g is not None for g in passed[len(args):]):
                raise RuntimeError(f"{cls.__name__}.backward gave {len(passed)} gradients; forward has {len(args)} "
                                   "arguments: one each is needed, None for those without")
            return passed
        Node(cls.__name__ + "Backward", [a if n else None for a, n in zip(args, needs)], tracked, run)
        return tuple(results) if isinstance(made, tuple) else results[0]


# ---- checking and whole derivatives ----

def gradcheck(func, inputs, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, **keywords):
    """Compares the gradients of a function with finite differences, at float64 inputs.

    True, or a RuntimeError that names input, element and both numbers (False, with
    raise_exception=False).
    """
    import numpy

    from .autograd import grad, no_grad
    from .tensor import Tensor
    from .words import invalid
    inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    leaves = [t for t in inputs if isinstance(t, Tensor) and t.requires_grad]
    if not leaves:
        raise invalid("gradcheck: no input requires gradients")

    def outputs():
        made = func(*inputs)
        made = made if isinstance(made, (tuple, list)) else (made,)
        return [t for t in made if isinstance(t, Tensor) and t.dtype.is_floating_point]
    for o, out in enumerate(outputs()):
        rows = []
        for i in range(out.numel()):
            seed = numpy.zeros(out.shape)
            seed.reshape(-1)[i] = 1
            rows.append(grad(outputs()[o], leaves, out.session.tensor(seed, out.dtype), allow_unused=True))
        for n, leaf in enumerate(leaves):
            was = leaf.detach().numpy().copy()
            for at in numpy.ndindex(*was.shape):
                both = []
                for step in (eps, -eps):
                    moved = was.copy()
                    moved[at] += step
                    with no_grad():
                        leaf.copy_(moved)
                    both.append(outputs()[o].numpy().reshape(-1).copy())
                with no_grad():
                    leaf.copy_(was)
                want = (both[0] - both[1]) / (2 * eps)
                got = numpy.array([0.0 if row[n] is None else row[n].numpy()[at] for row in rows])
                if not numpy.allclose(got, want, rtol, atol):
                    if not raise_exception:
                        return False
                    raise invalid(f"gradcheck: of output {o} and input {n} at {list(at)} the gradient is "
                                  f"{got.tolist()}, by differences {want.tolist()}")
    return True


def gradgradcheck(func, inputs, grad_outputs=None, eps=1e-6, atol=1e-5, rtol=1e-3, **keywords):
    """`gradcheck` of the gradients of a function."""
    from .autograd import grad
    from .tensor import Tensor
    inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)

    def first(*given):
        made = func(*given)
        made = made if isinstance(made, (tuple, list)) else (made,)
        leaves = [t for t in given if isinstance(t, Tensor) and t.requires_grad]
        return grad([(t * (t.detach() * 0 + 0.7)).sum() for t in made], leaves, create_graph=True)
    return gradcheck(first, inputs, eps, atol, rtol, **keywords)
