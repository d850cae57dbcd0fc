"""What training does with gradients and parameters as a whole."""
from ..creation import cat, stack
from ..words import invalid


def _with_gradients(parameters):
    parameters = [parameters] if hasattr(parameters, "session") else list(parameters)
    return [p for p in parameters if p.grad is not None]


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False):
    """Scales all gradients so that their common norm is at most max_norm; returns the norm, a tensor.

    Nothing is read, unless error_if_nonfinite.
    """
    owners = _with_gradients(parameters)
    if not owners:
        return None
    gradients = [p.grad.detach() for p in owners]
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


def clip_grad_value_(parameters, clip_value):
    """No element of a gradient lies beyond +-clip_value then."""
    for p in _with_gradients(parameters):
        p.grad = p.grad.detach().clamp(-clip_value, clip_value)


def parameters_to_vector(parameters):
    """All elements of all parameters, one after another."""
    return cat([p.ravel() for p in parameters])


def vector_to_parameters(vector, parameters):
    """The inverse of `parameters_to_vector`, in place."""
    from .module import replace
    at = 0
    for p in parameters:
        replace(p, vector[at:at + p.size].reshape(p.shape).detach())
        at += p.size
