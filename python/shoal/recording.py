"""What the recording of a function notes, for `replay`: see there.

Whoever computes numbers in Python that differ from one call to the next (a learning rate, the seed of a
stream) makes its tensors by `fresh`; whoever changes what a program depends on calls `restructured`.
"""
import threading

from . import _shoal


class _Local(threading.local):
    recording = None  # of this thread


_local = _Local()
_structure = 0


def current():
    """The recording of this thread, or None."""
    return _local.recording


def fresh(make):
    """make(), a tuple of tensors made of what this process knows, such as numbers; a replay calls it again."""
    tensors = make()
    recording = current()
    if recording is not None:
        recording.fresh.append((make, tensors))
    return tensors


def guard(state):
    """A replay needs state() to return what it does now; else the function is recorded anew."""
    recording = current()
    if recording is not None:
        recording.guards.append((state, state()))


def restructured():
    """Parameters, modes or signals are others from now on: what was recorded before counts no more."""
    global _structure
    _structure += 1


def structure():
    """A number that `restructured` changes."""
    return _structure


class Recording:
    """As a context: notes what this thread does. Recordings do not nest."""

    def __init__(self):
        self.seen = {}     # handle -> (object, a tensor for the handle, number of its value)
        self.made = []     # (weak reference to a tensor, line)
        self.changed = {}  # address -> weak reference to a tensor that stands for another value now
        self.reads = []    # lines
        self.fresh = []    # (make, tensors)
        self.guards = []   # (function, what it has to return)
        self.leaves = {}   # address -> leaf whose .grad was used
        self.before = []   # (leaf, .grad): where it was read before it was written

    def grad_is_read(self, leaf):
        """leaf.grad is about to be looked at."""
        if id(leaf) not in self.leaves:
            self.leaves[id(leaf)] = leaf
            self.before.append((leaf, leaf._grad))

    def grad_is_written(self, leaf):
        """leaf.grad is about to become another tensor, or None."""
        self.leaves.setdefault(id(leaf), leaf)

    def __enter__(self):
        _shoal.record(self.seen, self.made, self.changed, self.reads)
        _local.recording = self
        return self

    def __exit__(self, *error):
        _shoal.record()
        _local.recording = None
        return False
