"""The calls of vmap that a thread is in, and the tensors that stand for one index of their batches: see func."""
import threading

from . import _shoal


class _Batches(threading.local):
    # The outermost first: (length of the batch, None where the function is called for each index; what
    # `randomness` says).
    now = ()


batches = _Batches()


def level():
    """The number of the innermost batch whose indices are computed at once, from 1 on; 0: there is none."""
    return max((i + 1 for i, (n, _) in enumerate(batches.now) if n is not None), default=0)


def inside(tensor, number):
    """What `_shoal.whole` says of a tensor, if it is an index of the batch of this number; else None."""
    found = _shoal.whole(tensor) if number else None
    return found if found is not None and found[1] == number else None


def drawn(make, shape):
    """make(shape), random numbers, as the calls of vmap have them: for each index of the batches that want different
    ones."""
    different = [(i + 1, n) for i, (n, randomness) in enumerate(batches.now)
                 if n is not None and randomness == "different"]
    made = make((*(n for _, n in different), *shape))
    for number, _ in different:
        made = _shoal.batch(made, number, True)
    return made
