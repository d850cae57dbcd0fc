"""Backward hooks of modules: what goes in and comes out passes joints, see `shoal.custom`."""
from ..custom import Node


def _joints(tensors, run):
    """Copies of tensors that are joints of one node; what wants no gradient as it is."""
    wanting = [t for t in tensors if hasattr(t, "session") and t.requires_grad]
    if not wanting:
        return tensors
    fresh = []
    for t in wanting:
        copy = t._detach()
        copy._require(True)
        fresh.append(copy)
    Node("BackwardHook", wanting, fresh, run)
    found = iter(fresh)
    return tuple(next(found) if hasattr(t, "session") and t.requires_grad else t for t in tensors)


def passed(module, args, keywords):
    """Calls a module that has backward hooks."""
    kept = []

    def arrived(node, given):
        grads = tuple(given)
        for hook in tuple(module._passed.values()):
            other = hook(module, grads, tuple(kept[0]) if kept else ())
            if other is not None:
                grads = other if isinstance(other, tuple) else (other,)
        return grads

    def left(node, given):
        kept[:] = [given]
        if not any(hasattr(a, "session") and a.requires_grad for a in args):
            for hook in tuple(module._passed.values()):
                hook(module, (None,) * len(args), tuple(given))
        return given
    made = module._called(_joints(args, arrived), keywords)
    many = isinstance(made, tuple)
    results = _joints(made if many else (made,), left)
    return results if many else results[0]
