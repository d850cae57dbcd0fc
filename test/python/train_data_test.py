"""Who sees which tokens: each sequence once in every epoch, whatever the order of leases, returns and restarts."""
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import shoal
from shoal.train.data import Data, permute
from shoal.train.tokens import Tokens


def tokens(count, parts=1):
    """Tokens that say where they are."""
    return Tokens(np.array_split(np.arange(count), parts), max(count, 1), "u32", "numbers.bin")


@settings(max_examples=200, deadline=None)
@given(some.integers(1, 5000), some.integers(0, (1 << 63) - 1))
def test_permutations(count, seed):
    assert np.array_equal(np.sort(permute(np.arange(count), count, seed)), np.arange(count))


def test_permutations_mix():
    order = permute(np.arange(100_000), 100_000, 1)
    assert not np.array_equal(order, permute(np.arange(100_000), 100_000, 2))
    # As of random numbers: no correlation with the index, nor of neighbours; three standard deviations.
    index = np.arange(100_000)
    assert abs(np.corrcoef(index, order)[0, 1]) < 3 / np.sqrt(100_000)
    assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 3 / np.sqrt(100_000)
    assert abs(np.corrcoef(np.argsort(order)[:50_000], np.argsort(permute(index, 100_000, 2))[:50_000])[0, 1]) < 3 / np.sqrt(50_000)
    # The largest corpus: nothing is held in memory.
    far = permute(np.arange(1000) + (1 << 40), (1 << 41) + 12345, 7)
    assert len(set(far)) == 1000 and far.min() >= 0 and far.max() < (1 << 41) + 12345


def test_sequences_and_their_targets():
    data = Data(tokens(101, 3), "fifo")
    lease = data.take(0, 0, 1, steps=2, batch=3, length=10)
    assert lease.inputs.dtype == lease.targets.dtype == np.int32 and lease.inputs.shape == (2, 3, 10)
    assert np.array_equal(lease.inputs.reshape(-1), np.arange(60)) and np.array_equal(lease.targets, lease.inputs + 1)
    data.done(lease, 2)
    assert data.epoch == 0.6 and not data.exhausted
    rest = data.take(1, 0, 1, steps=5, batch=3, length=10)  # four sequences are left
    assert rest.steps == 1 and rest.inputs.shape == (1, 3, 10)
    data.done(rest, 1)
    assert data.exhausted and data.take(2, 0, 1, 5, 3, 10).steps == 0


def test_the_end_of_the_data_has_its_turn():
    data = Data(tokens(35), "fifo", epochs=8)  # three sequences of ten, four tokens left over
    starts = [int(data.take(0, 0, 1, 1, 3, 10).inputs[0, 0, 0]) for _ in range(8)]
    assert starts == [0, 1, 2, 3, 4, 0, 1, 2]


@pytest.mark.parametrize("count, epochs, message", [
    (100, 1.0, "data_path numbers.bin: 100 tokens make 9 sequences of 10 tokens, and a batch is 16: give at least 161 tokens, or a "
     "model of smaller batches or shorter sequences"),
    (0, 1.0, "data_path numbers.bin: 0 tokens make 0 sequences"),
    (201, 0.5, "max_epochs is 0.5: of 20 sequences that is 10, and a batch is 16; make max_epochs larger"),
])
def test_too_few(count, epochs, message):
    with pytest.raises(shoal.InvalidError) as caught:
        Data(tokens(count), epochs=epochs).take(0, 0, 1, 1, 16, 10)
    assert str(caught.value).startswith(message)


def test_wrong_calls():
    data = Data(tokens(1000))
    lease = data.take(0, 0, 2, 2, 4, 10)
    for call, message in ((lambda: data.take(0, 2, 2, 1, 1, 10), "island 2 of 2"), (lambda: data.take(0, 0, 1, 1, 1, 11), "of 11 tokens, "
                          "after such of 10"), (lambda: data.done(lease, 3), "3 steps of a lease of 2")):
        with pytest.raises(shoal.InvalidError, match=message):
            call()
    data.done(lease, 2)
    with pytest.raises(shoal.InvalidError, match="given back already"):
        data.done(lease, 2)


def test_other_data_are_not_gone_on_with():
    data = Data(tokens(1000), seed=1)
    data.take(0, 0, 1, 2, 4, 10)
    state = json.loads(json.dumps(data.state()))
    for other, message in ((Data(tokens(1000), seed=2), "seed is 2, and the checkpoint's 1"),
                           (Data(tokens(1000), "fifo", 1), "sampling is fifo, and the checkpoint's random"),
                           (Data(tokens(1001), seed=1), "the number of tokens of the checkpoint 1000, here 1001"),
                           (Data(Tokens([np.arange(1000)[::-1]], 1000, "u32", "x"), seed=1), "the tokens of the checkpoint differ")):
        with pytest.raises(shoal.InvalidError) as caught:
            other.restore(state)
        assert message in str(caught.value)


class Account:
    """Counts how often each (epoch, sequence) has been seen, by what leases hold."""

    def __init__(self, count, length):
        self.count, self.length, self.seen = count, length, {}
        self.left = (count - 1) % length

    def note(self, lease, steps):
        done = 0
        for start, stop in lease.ranges:
            for position in range(start, stop):
                if done < steps * lease.batch:
                    row = lease.inputs.reshape(-1, self.length)[done]
                    epoch = position // ((self.count - 1) // self.length)
                    index, off = divmod(int(row[0]) - epoch % (self.left + 1), self.length)
                    assert off == 0 and np.array_equal(row, np.arange(row[0], row[0] + self.length))
                    self.seen[epoch, index] = self.seen.get((epoch, index), 0) + 1
                done += 1


@settings(max_examples=150, deadline=None)
@given(some.data())
def test_each_sequence_once_in_every_epoch(draw):
    """Any interleaving of take, done in part, and restarts from the last state."""
    length, batch = draw.draw(some.integers(1, 7)), draw.draw(some.integers(1, 4))
    count, epochs = draw.draw(some.integers(length * batch + 1, 150)), draw.draw(some.sampled_from([1.0, 2.0, 3.0, 2.5]))
    sampling, parts = draw.draw(some.sampled_from(["random", "fifo"])), draw.draw(some.integers(1, 3))

    def fresh():
        return Data(tokens(count, parts), sampling, 5, epochs)
    data, account, leases = fresh(), Account(count, length), []
    saved = None  # (state, what had been seen by then)
    for _ in range(draw.draw(some.integers(0, 40))):
        act = draw.draw(some.sampled_from(["take", "take", "done", "done", "save", "restart"]))
        if act == "take":
            lease = data.take(0, 0, 1, draw.draw(some.integers(1, 5)), batch, length)
            leases += [lease] if lease.steps else []
        elif act == "done" and leases:
            lease = leases.pop(draw.draw(some.integers(0, len(leases) - 1)))
            steps = draw.draw(some.integers(0, lease.steps))
            account.note(lease, steps)
            data.done(lease, steps)
        elif act == "save":
            saved = json.dumps(data.state()), dict(account.seen)
        elif act == "restart" and saved:
            data, leases = fresh(), []
            data.restore(json.loads(saved[0]))
            account.seen = dict(saved[1])
    for lease in leases:
        account.note(lease, lease.steps)
        data.done(lease, lease.steps)
    while not data.exhausted:
        lease = data.take(0, 0, 1, 3, batch, length)
        assert lease.steps
        account.note(lease, lease.steps)
        data.done(lease, lease.steps)
    sequences = (count - 1) // length
    assert set(account.seen.values()) <= {1}
    limit = int(sequences * epochs)
    assert limit - batch < len(account.seen) <= limit
    assert abs(data.epoch * sequences - len(account.seen)) < 1e-6
    for epoch in range(int(epochs) - (1 if len(account.seen) < limit else 0)):  # whole epochs are complete
        assert {i for e, i in account.seen if e == epoch} == set(range(sequences))


def test_the_same_calls_give_the_same_data():
    """By the order of the calls alone, also with leases that end in any order, and from a state saved while they are out."""
    def run(data, order, rounds=range(6)):
        rows = []
        for round in rounds:
            leases = [data.take(round, i, 3, 2 + i, 2, 5) for i in range(3)]
            rows += [lease.inputs.copy() for lease in leases]
            for i in order:
                data.done(leases[i], leases[i].steps - (round + i) % 2)
        return rows
    want = run(Data(tokens(2000), seed=3), (0, 1, 2))
    for got in (run(Data(tokens(2000), seed=3), (2, 0, 1)),):
        assert all(map(np.array_equal, want, got)) and len(want) == len(got)
    data = Data(tokens(2000), seed=3)
    run(data, (0, 1, 2), range(3))
    for i in range(3):
        data.take(3, i, 3, 2 + i, 2, 5)  # a round that is under way when the process ends
    again = Data(tokens(2000), seed=3)
    again.restore(json.loads(json.dumps(data.state())))
    assert all(map(np.array_equal, want[9:], run(again, (1, 2, 0), range(3, 6))))
