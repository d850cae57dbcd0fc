"""Who sees which tokens: sequences, their order, and leases of them, so that each is seen once in every epoch.

A sequence is length + 1 tokens, of which a step reads the first `length` and predicts the last `length`; the next one starts
`length` tokens further on. The position of a sequence counts over all epochs; a permutation of each epoch, which needs no
memory, says which tokens a position stands for. What is handed out is a lease of positions; what comes back unseen is handed
out again, the lowest position first. So what anybody gets depends on the order of the calls alone, and a few numbers are the
whole state.
"""
import bisect

import numpy as np

from ..errors import InvalidError

_ROUNDS = 6


def _mix(x):
    """A good hash of 64 bits: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def permute(indices, count, seed):
    """Where a permutation of 0..count-1 takes indices: an array of them, int64. It is that of a seed, and holds no table: a
    Feistel network over the next even number of bits, walked until it is back within the range (Black and Rogaway, "Ciphers
    with Arbitrary Finite Domains", 2002)."""
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    mask, shift = np.uint64((1 << half) - 1), np.uint64(half)
    with np.errstate(over="ignore"):
        keys = _mix(np.arange(1, _ROUNDS + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
                    + _mix(np.array([seed & 0xFFFFFFFFFFFFFFFF], np.uint64)))
        x = np.array(indices, np.uint64)
        outside = np.ones(x.shape, bool)
        while outside.any():
            left, right = x[outside] >> shift, x[outside] & mask
            for key in keys:
                left, right = right, left ^ (_mix(right + key) & mask)
            x[outside] = left << shift | right
            outside = x >= np.uint64(count)
    return x.astype(np.int64)


class Lease:
    """Sequences that are an island's for a round: inputs and targets, int32 [steps, batch, length]. steps may be fewer than
    were asked for when the data end."""

    def __init__(self, ranges, sequences, steps, batch):
        self.ranges, self.steps, self.batch = ranges, steps, batch
        shape = (steps, batch, sequences.shape[1] - 1)
        self.inputs = np.ascontiguousarray(sequences[:, :-1]).reshape(shape)
        self.targets = np.ascontiguousarray(sequences[:, 1:]).reshape(shape)


class Data:
    """The sequences of `Tokens`. sampling: "random", the order of each epoch is that of the seed, or "fifo", that of the
    data; epochs: how many passes there are, also parts of one."""

    def __init__(self, tokens, sampling="random", seed=0, epochs=1.0):
        self.tokens, self.sampling, self.seed, self.epochs = tokens, sampling, seed, epochs
        self.length = self.count = self.limit = None  # of tokens; of sequences in an epoch; of positions in all epochs
        self._next, self._returned, self._open = 0, [], []  # a position; ranges of positions; leases
        self._seen, self._batch = 0, 1

    @property
    def vocabulary(self):
        """One more than the largest token there may be."""
        return self.tokens.vocabulary

    @property
    def epoch(self):
        """Passes over the data that have been seen, a part of one included."""
        return self._seen / self.count if self.count else 0.0

    @property
    def exhausted(self):
        """Whether all of all epochs has been seen; at the end fewer sequences than a batch may be left over."""
        return self.limit is not None and not self._open and self._available() < self._batch

    def left(self, batch):
        """How many steps of so many sequences are free to be taken."""
        return self._available() // batch

    def bind(self, length, batch):
        """Says how long sequences are, and how many make a batch. InvalidError if the data are too few for one, or if sequences have
        been of another length."""
        if self.length not in (None, length):
            raise InvalidError(f"take: sequences of {length} tokens, after such of {self.length}; their length is that of the first")
        self.length, self._batch = length, batch
        self.count = max(0, (len(self.tokens) - 1) // length)
        self.limit = int(self.count * self.epochs)
        if self.count < batch:
            raise InvalidError(
                f"data_path {self.tokens.path}: {len(self.tokens):,} tokens make {self.count} sequences of {length} tokens, and a "
                f"batch is {batch}: give at least {batch * length + 1:,} tokens, or a model of smaller batches or shorter sequences")
        if self.limit < batch:
            raise InvalidError(f"max_epochs is {self.epochs}: of {self.count} sequences that is {self.limit}, and a batch is {batch}; "
                               "make max_epochs larger")

    def take(self, round, island, islands, steps, batch, length):
        """A `Lease` of steps x batch sequences; of fewer steps, or none, when the data end. InvalidError if the data
        are too few for one batch."""
        if not 0 <= island < islands or min(steps, batch, length) < 1:
            raise InvalidError(f"take: island {island} of {islands}, {steps} steps of {batch} sequences of {length}: the island "
                               "must be one of them, the others at least 1")
        self.bind(length, batch)
        steps = min(steps, self._available() // batch)
        ranges = self._remove(steps * batch)
        lease = Lease(ranges, self._sequences(ranges), steps, batch)
        if steps:
            self._open.append(lease)
        return lease

    def done(self, lease, steps):
        """The first `steps` steps of a lease have been seen; the others go back, and are handed out again."""
        if lease not in self._open:
            if lease.steps == steps == 0:
                return
            raise InvalidError("done: this lease has been given back already")
        if not 0 <= steps <= lease.steps:
            raise InvalidError(f"done: {steps} steps of a lease of {lease.steps}")
        self._open.remove(lease)
        self._seen += steps * lease.batch
        self._give_back(_behind(lease.ranges, steps * lease.batch))

    def state(self):
        """All that a checkpoint needs. What is handed out now counts as unseen, in the order in which it was taken."""
        returned = list(self._returned)
        for lease in self._open:
            _merge(returned, lease.ranges)
        return {"next": self._next, "returned": [list(r) for r in returned], "seen": self._seen, "length": self.length,
                "batch": self._batch, "sampling": self.sampling, "seed": self.seed, "tokens": self.tokens.state()}

    def restore(self, state):
        """Goes on where `state` was called. InvalidError if these are other data, or in another order."""
        self.tokens.check(state["tokens"])
        for name, mine in (("sampling", self.sampling), ("seed", self.seed)):
            if state[name] != mine:
                raise InvalidError(f"{name} is {mine}, and the checkpoint's {state[name]}: with another one, tokens would be seen "
                                   "twice or never; take the checkpoint's, or begin anew in another checkpoint_dir")
        if state["length"] is not None:
            self.bind(state["length"], state["batch"])
        self._next, self._seen, self._open = state["next"], state["seen"], []
        self._returned = [tuple(r) for r in state["returned"]]

    # ---- positions ----

    def _available(self):
        return max(0, self.limit - self._next) + sum(stop - start for start, stop in self._returned)

    def _remove(self, count):
        """Takes the lowest positions that are free: ranges of them."""
        ranges = []
        while count:
            if self._returned:
                start, stop = self._returned.pop(0)
                if stop - start > count:
                    self._returned.insert(0, (start + count, stop))
                    stop = start + count
            else:
                start, stop = self._next, self._next + count
                self._next = stop
            ranges.append((start, stop))
            count -= stop - start
        return ranges

    def _give_back(self, ranges):
        _merge(self._returned, ranges)

    def _sequences(self, ranges):
        """The tokens of positions, int32 [positions, length + 1]."""
        positions = np.concatenate([np.arange(*r) for r in ranges] or [np.empty(0, np.int64)])
        rows = np.empty((len(positions), self.length + 1), np.int32)
        at = 0
        for epoch in np.unique(positions // self.count):
            these = positions[positions // self.count == epoch] % self.count  # epochs follow one another in what is taken
            order = these if self.sampling == "fifo" else permute(these, self.count, self.seed * 0x100000001B3 + int(epoch))
            first = self._first(int(epoch))
            for i in order:
                self.tokens.read(first + int(i) * self.length, rows[at])
                at += 1
        return rows

    def _first(self, epoch):
        """Where an epoch's first sequence starts. Tokens at the end that make no sequence move on with the epoch, so that
        they, too, have their turn."""
        left_over = (len(self.tokens) - 1) % self.length
        return epoch % (left_over + 1)


def _behind(ranges, count):
    """Ranges without their first `count` positions."""
    kept = []
    for start, stop in ranges:
        skipped = min(count, stop - start)
        count -= skipped
        if start + skipped < stop:
            kept.append((start + skipped, stop))
    return kept


def _merge(into, ranges):
    """Adds ranges to a sorted list of them; those that touch become one."""
    for start, stop in ranges:
        at = bisect.bisect(into, (start, stop))
        if at < len(into) and into[at][0] == stop:
            stop = into.pop(at)[1]
        if at and into[at - 1][1] == start:
            start = into.pop(at - 1)[0]
            at -= 1
        into.insert(at, (start, stop))
