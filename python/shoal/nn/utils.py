"""What training does with gradients and parameters as a whole."""
from ..creation import cat, stack, tensor
from ..words import check_number, invalid
from . import rnn

__path__ = []  # in torch a package: moved.py


def _with_gradients(parameters):
    parameters = [parameters] if hasattr(parameters, "session") else list(parameters)
    return [p for p in parameters if p.grad is not None]


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales all gradients so that their common norm is at most max_norm; returns the norm, a tensor.

    Nothing is read, unless error_if_nonfinite.
    """
    check_number(max_norm, "clip_grad_norm_", "max_norm")
    owners = _with_gradients(parameters)
    if not owners:
        return tensor(0.0)
    gradients = [p.grad._detach() for p in owners]
    if norm_type == 2:
        total = cat([(g * g).sum().reshape(1).float() for g in gradients]).sum().sqrt()
    else:
        total = stack([g.norm(norm_type).float() for g in gradients]).norm(norm_type)
    if error_if_nonfinite and not total.isfinite().item():
        raise invalid(f"clip_grad_norm_: the norm of the gradients is {total.item()}")
    factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for p, g in zip(owners, gradients):
        p.grad = g * factor.astype(g.dtype)
    return total


def clip_grad_value_(parameters, clip_value, foreach=None):
    """No element of a gradient lies beyond +-clip_value then."""
    check_number(clip_value, "clip_grad_value_", "clip_value")
    for p in _with_gradients(parameters):
        p.grad = p.grad._detach().clamp(-clip_value, clip_value)


def parameters_to_vector(parameters):
    """All elements of all parameters, one after another."""
    return cat([p.ravel() for p in parameters])


def vector_to_parameters(vec, parameters):
    """The inverse of `parameters_to_vector`, in place."""
    from .module import replace
    at = 0
    for p in parameters:
        replace(p, vec[at:at + p.size].reshape(p.shape)._detach())
        at += p.size


# ---- weights made of others ----

class _Remade:
    """Before each call of a module: a weight is made of its parts."""

    def __init__(self, name, make):
        self.name, self.make = name, make

    def __call__(self, module, args):
        object.__setattr__(module, self.name, self.make(module))


def _split(module, name, parts, make):
    """A weight is replaced by its parts among the parameters."""
    from .module import Parameter
    weight = getattr(module, name)
    del module._parameters[name]
    for part, value in parts(weight._detach()).items():
        module.register_parameter(name + part, Parameter(value.clone()))
    hook = _Remade(name, make)
    hook(module, ())
    handle = module.register_forward_pre_hook(hook)
    object.__setattr__(module, "_remade", {**getattr(module, "_remade", {}), name: (handle, hook)})
    return module


def _joined(module, name, suffixes):
    from .module import Parameter
    remade = getattr(module, "_remade", {})
    if name not in remade:
        raise invalid(f"{type(module).__name__}.{name} is not made of others")
    handle, hook = remade.pop(name)
    value = hook.make(module)._detach()
    handle.remove()
    for suffix in suffixes:
        del module._parameters[name + suffix]
    module.__dict__.pop(name, None)
    module.register_parameter(name, Parameter(value))
    return module


def weight_norm(module, name="weight", dim=0):
    """A weight as a size, NAME_g, times a direction, NAME_v (Salimans and Kingma, 2016)."""
    def size(w):
        return w.norm() if dim is None else w.norm(2, tuple(a for a in range(w.ndim) if a != dim % w.ndim), True)

    def make(m):
        v = getattr(m, name + "_v")
        return v * (getattr(m, name + "_g") / size(v))
    return _split(module, name, lambda w: {"_g": size(w), "_v": w}, make)


def remove_weight_norm(module, name="weight"):
    """The inverse of `weight_norm`."""
    return _joined(module, name, ("_g", "_v"))


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """A weight over its largest singular value, followed by power iterations (Miyato et al., 2018)."""
    from ..functional import normalize
    from ..random import randn
    weight = getattr(module, name)
    dim = 0 if dim is None else dim

    def matrix(w):
        return w.movedim(dim, 0).flatten(1)
    flat = matrix(weight._detach())
    module.register_buffer(name + "_u", normalize(randn(flat.shape[0], dtype=weight.dtype), axis=0, eps=eps))
    module.register_buffer(name + "_v", normalize(randn(flat.shape[1], dtype=weight.dtype), axis=0, eps=eps))

    def make(m):
        w = getattr(m, name + "_orig")
        flat, u, v = matrix(w), m._buffers[name + "_u"], m._buffers[name + "_v"]
        if m.training:
            for _ in range(n_power_iterations):
                v.copy_(normalize(flat._detach().mT @ u._detach(), axis=0, eps=eps))
                u.copy_(normalize(flat._detach() @ v._detach(), axis=0, eps=eps))
        return w / (u.clone() @ (flat @ v.clone()))
    return _split(module, name, lambda w: {"_orig": w}, make)


def remove_spectral_norm(module, name="weight"):
    """The inverse of `spectral_norm`."""
    made = _joined(module, name, ("_orig",))
    del module._buffers[name + "_u"], module._buffers[name + "_v"]
    return made


def skip_init(module_cls, *args, **keywords):
    """A module as it is made: initial values cost nothing before they are used."""
    return module_cls(*args, **keywords)
