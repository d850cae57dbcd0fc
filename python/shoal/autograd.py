"""Gradients, as torch has them: `requires_grad`, `backward`, `grad`, `no_grad`.

A tensor that requires gradients is a leaf; results of operations on it remember how they were made.
`loss.backward()` adds the gradient of a loss to the `.grad` of each leaf. Gradients are recorded like
any operation and run when something is read: forward, backward and update of a step of training are
one program.
"""
import functools
import weakref

from . import _shoal, custom, recording
from .custom import Function, Handle, gradcheck, gradgradcheck
from .words import check_tensor, invalid

__path__ = []  # in torch a package: moved.py

_OFF, _ON, _AGAIN = range(3)

# The object that shows each leaf, and each result that keeps its gradient, by identity.
_shown = weakref.WeakValueDictionary()


class GradFn:
    """What made a tensor: `x.grad_fn`."""

    __slots__ = ("_name",)

    def __init__(self, name):
        self._name = name

    def name(self):
        """The operation's name."""
        return self._name

    def __repr__(self):
        return f"<{self._name}>"


class Gradients:
    """What `Tensor` has from here. `detach_` comes with the handle."""

    __slots__ = ()

    @property
    def requires_grad(self):
        """Whether gradients are asked for with respect to this tensor, or one it derives from."""
        return self._requires

    @requires_grad.setter
    def requires_grad(self, requires_grad):
        self.requires_grad_(requires_grad)

    @property
    def is_leaf(self):
        """Whether this is no result of an operation that gradients pass through."""
        return self._is_leaf and custom.node_of(self) is None

    def requires_grad_(self, requires_grad=True):
        """In place: asks for gradients with respect to this tensor, which must be of a floating type.

        It can be taken away from leaves alone.
        """
        self._require(requires_grad)
        recording.restructured()
        if requires_grad:
            _shown[custom.key_of(self)] = self
        return self

    @property
    def grad(self):
        """The sum of gradients that `backward` has brought here, or None; assign None to forget it."""
        noting = recording.current()
        if noting is not None:
            noting.grad_is_read(self)
        return self._grad

    @grad.setter
    def grad(self, value):
        if value is not None:
            check_tensor(value, "grad", "the gradient")
        if value is not None and (value.shape != self.shape or value.dtype != self.dtype):
            raise invalid(f"grad: {value._text()} for {self._text()}")
        _set_grad(self, value)

    @grad.deleter
    def grad(self):
        _set_grad(self, None)

    @property
    def grad_fn(self):
        """What made this tensor; None for a leaf."""
        found = custom.node_of(self)
        name = self._origin if found is None else found[0].name
        return None if name is None else GradFn(name)

    def retain_grad(self):
        """Keeps the gradient of this result, too, in `.grad`."""
        if not self.requires_grad:
            raise invalid(f"retain_grad: {self._text()} does not require gradients")
        if custom.node_of(self) is not None:
            custom.keep_gradient(self)
        elif not self._is_leaf:
            self._watch()
            _shown[custom.key_of(self)] = self

    @property
    def retains_grad(self):
        """Whether this is a result whose gradient is kept."""
        found = custom.node_of(self)
        if found is not None:
            return found[1] in found[0].keeps
        return not self.is_leaf and _shown.get(custom.key_of(self)) is self

    def register_hook(self, hook):
        """hook(gradient) is called when this tensor's gradient is there; what it returns, if not None, is
        passed on in its place. The handle's `remove()` ends that."""
        if not self.requires_grad:
            raise invalid(f"register_hook: {self._text()} does not require gradients")
        if self.is_leaf:
            if self._hooks is None:
                self._hooks = {}
            hooks = self._hooks
            _shown[custom.key_of(self)] = self
        else:
            hooks = custom.joint(self).hooks
        recording.restructured()
        handle = Handle(hooks)
        hooks[handle] = hook
        return handle

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """Adds the gradients of this tensor to the `.grad` of the leaves that it derives from.

        gradient: weights of this tensor's shape; not needed for one number. retain_graph: what the
        tape holds stays, for another backward. create_graph: gradients have gradients themselves.
        inputs: the leaves that are meant, None for all. Raises UnsupportedError, with the operation's
        name and the line it came from, where an operation has no gradient.
        """
        backward((self,), None if gradient is None else (gradient,), retain_graph, create_graph,
                 inputs)

    @property
    def data(self):
        """The value, which no gradient flows through. Assigning to it changes the value in place."""
        return self.detach()

    @data.setter
    def data(self, value):
        check_tensor(value, "data", "the value")
        with no_grad():
            self.copy_(value)


def _set_grad(tensor, value):
    noting = recording.current()
    if noting is not None:
        noting.grad_is_written(tensor)
    tensor._grad = value


def _tuple(tensors):
    return tuple(tensors) if isinstance(tensors, (tuple, list)) else (tensors,)


def _seeds(tensors, seeds):
    if seeds is None:
        return None
    seeds = _tuple(seeds)
    if len(seeds) != len(tensors):
        raise invalid(f"gradient: {len(seeds)} gradients for {len(tensors)} outputs")
    return tuple(None if s is None else t._coerce(s) for s, t in zip(seeds, tensors))


class set_detect_anomaly:
    """From here on, or in a `with` block: `backward` fails where a gradient is NaN, of which it reads each for this, but
    not in a function that is replayed. check_nan=False: it does not look."""

    _looks = False

    def __init__(self, mode, check_nan=True):
        self._was, set_detect_anomaly._looks = set_detect_anomaly._looks, bool(mode and check_nan)

    def __enter__(self):
        return None

    def __exit__(self, *error):
        set_detect_anomaly._looks = self._was


class detect_anomaly(set_detect_anomaly):
    """`set_detect_anomaly(True)`, for a `with` block."""

    def __init__(self, check_nan=True):
        super().__init__(True, check_nan)


def _check_anomalies(leaves, gradients):
    if not set_detect_anomaly._looks or recording.current() is not None:
        return
    for leaf, gradient in zip(leaves, gradients):
        if gradient is not None and gradient.isnan().any():
            raise invalid(f"backward: the gradient of {leaf._text()} has NaN (detect_anomaly asks for this error)")


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
    """`Tensor.backward` of several tensors at once: the gradients of all are added."""
    tensors = _tuple(tensors)
    wanted = list(_tuple(inputs)) if inputs is not None else _leaves(tensors)
    calculate = custom.gradients if custom.crossed(tensors) else _shoal.gradients
    found = calculate(tensors, _seeds(tensors, grad_tensors), wanted,
                      bool(create_graph if retain_graph is None else retain_graph), create_graph, True)
    _check_anomalies(wanted, found)
    was = _shoal.set_gradients(_ON if create_graph else _OFF)
    try:
        for leaf, gradient in zip(wanted, found):
            if gradient is None:
                continue
            for hook in tuple(leaf._hooks.values()) if leaf._hooks else ():
                other = hook(gradient)
                gradient = gradient if other is None else other
            before = leaf.grad
            if before is None:
                _set_grad(leaf, gradient)
            elif create_graph:
                _set_grad(leaf, before + gradient)
            else:
                before._rebind(before + gradient)  # whoever holds .grad sees the sum
    finally:
        _shoal.set_gradients(was)


def _leaves(tensors):
    """The objects whose gradients tensors are asked for, across joints."""
    wanted, seen, queue = [], set(), [tuple(tensors)]
    while queue:
        handles = list(_shoal.targets(queue.pop()))
        for handle in handles:
            identity = custom.key_of(handle)
            if identity in seen:
                continue
            seen.add(identity)
            found = custom.joints.get(identity)
            if found is not None:
                inputs = tuple(t for t in found[0].inputs if t is not None and t.requires_grad)
                if inputs:
                    queue.append(inputs)
                continue
            shown = _shown.get(identity)
            if shown is not None:
                wanted.append(shown)
    return wanted


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True,
         allow_unused=None, is_grads_batched=False, materialize_grads=False):
    """The gradients of outputs with respect to inputs, a tuple; no `.grad` changes.

    grad_outputs: weights of the outputs, not needed for single numbers. allow_unused: None comes back
    for an input that no output derives from, which is an error otherwise; with materialize_grads, zeros.
    """
    if is_grads_batched:
        raise invalid("grad: is_grads_batched is not available; use shoal.vmap")
    outputs, inputs = _tuple(outputs), _tuple(inputs)
    calculate = custom.gradients if custom.crossed(outputs) else _shoal.gradients
    found = calculate(outputs, _seeds(outputs, grad_outputs), inputs,
                      bool(create_graph if retain_graph is None else retain_graph),
                      create_graph, bool(materialize_grads if allow_unused is None else allow_unused))
    if not materialize_grads:
        return tuple(found)
    return tuple(t.session.full(t.shape, 0, t.dtype) if g is None else g for t, g in zip(inputs, found))


# ---- modes ----

class _Mode:
    """A mode of this thread, as a context or a decorator."""

    def __init__(self, mode):
        self._to, self._was = mode, []

    def __enter__(self):
        self._was.append(_shoal.set_gradients(self._to))
        return self

    def __exit__(self, *error):
        _shoal.set_gradients(self._was.pop())
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*args, **keywords):
            was = _shoal.set_gradients(self._to)
            try:
                return function(*args, **keywords)
            finally:
                _shoal.set_gradients(was)
        return inside


def _mode(mode, function):
    made = _Mode(mode)
    return made if function is None else made(function)


def no_grad(function=None):
    """A context, or a decorator, in which operations are not noted for gradients (this thread)."""
    return _mode(_OFF, function)


def enable_grad(function=None):
    """A context, or a decorator, in which they are, inside of `no_grad`."""
    return _mode(_ON, function)


inference_mode = no_grad


class set_grad_enabled(_Mode):
    """Switches on or off at once; as a context, until its end."""

    def __init__(self, mode):
        super().__init__(_ON if mode else _OFF)
        self._was.append(_shoal.set_gradients(self._to))

    def __enter__(self):
        return self


def Variable(data, requires_grad=False):
    """The tensor: since torch 0.4 tensors and variables are the same."""
    return data.requires_grad_() if requires_grad else data


def is_grad_enabled():
    """Whether operations of this thread are noted for gradients."""
    return _shoal.gradients_mode() != _OFF


def checkpoint(function, *args, use_reentrant=None, preserve_rng_state=True, **keywords):
    """function(*args, **keywords), of which backward keeps the arguments alone.

    What it computes on the way is computed again when gradients need it: less memory, more time. torch's words
    for how that is done have nothing to say here: random numbers are those of the first time.
    """
    with _Mode(_AGAIN if is_grad_enabled() else _OFF):
        return function(*args, **keywords)


def __getattr__(name):
    if name != "functional":
        raise AttributeError(f"module 'shoal.autograd' has no attribute '{name}'")
    import types
    from . import func
    made = globals()["functional"] = types.SimpleNamespace(
        jacobian=func.jacobian, hessian=func.hessian_at, vjp=func.vjp_at, jvp=func.jvp_at, hvp=func.hvp_at)
    return made
