"""Sequences of different lengths, as torch.nn.utils.rnn."""
from collections import namedtuple

from .. import _shoal
from ..creation import cat, stack, tensor
from ..words import invalid, tensors_of

PackedSequence = namedtuple("PackedSequence", "data batch_sizes sorted_indices unsorted_indices",
                            defaults=(None, None))


def _lengths(batch_sizes):
    """Lengths of the sequences, descending, from how many there are at each step."""
    sizes = batch_sizes.tolist()
    return [sum(size > i for size in sizes) for i in range(sizes[0] if sizes else 0)]


def padded_of(packed, value=0.0, total=None):
    """(T, N, …) of a packed sequence, in its own order, and a mask (T, N, 1) of what is there."""
    lengths = _lengths(packed.batch_sizes)
    if total is not None and total < max(lengths):
        raise invalid(f"pad_packed_sequence: total_length is {total}; the longest sequence has {max(lengths)} steps")
    steps, n = total or max(lengths), len(lengths)
    sizes, starts, at = packed.batch_sizes.tolist(), [], 0
    for size in sizes:
        starts.append(at)
        at += size
    rows = [[starts[t] + i if t < len(sizes) and i < sizes[t] else 0 for i in range(n)] for t in range(steps)]
    there = tensor([[t < length for length in lengths] for t in range(steps)], "bool")
    mask = there.reshape(steps, n, *(1,) * (packed.data.ndim - 1))
    picked = packed.data.take(tensor(rows, "int64"), 0)
    return _shoal.select(mask, picked, picked._coerce(value).astype(picked.dtype)), mask


def packed_of(x, like):
    """(T, N, …) packed as another sequence is."""
    sizes = like.batch_sizes.tolist()
    return PackedSequence(cat([x[t, :size] for t, size in enumerate(sizes)]), like.batch_sizes,
                          like.sorted_indices, like.unsorted_indices)


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Padded sequences (T, N, …), or (N, T, …) with batch_first, without the padding.

    lengths: of each; descending, or with enforce_sorted=False in any order.
    """
    lengths = [int(n) for n in (lengths.tolist() if hasattr(lengths, "tolist") else lengths)]
    x = input.transpose(0, 1) if batch_first else input
    if len(lengths) != x.shape[1] or min(lengths) <= 0 or max(lengths) > x.shape[0]:
        raise invalid(f"pack_padded_sequence: lengths {lengths} for {input._text()}")
    order = list(range(len(lengths)))
    if enforce_sorted:
        if lengths != sorted(lengths, reverse=True):
            raise invalid(f"pack_padded_sequence: lengths {lengths} do not fall; pass enforce_sorted=False")
        picks = (None, None)
    else:
        order.sort(key=lambda i: -lengths[i])
        back = [order.index(i) for i in range(len(order))]
        picks = (tensor(order, "int64"), tensor(back, "int64"))
        x = x.index_select(1, picks[0])
    lengths = [lengths[i] for i in order]
    sizes = [sum(n > t for n in lengths) for t in range(lengths[0])]
    return PackedSequence(cat([x[t, :size] for t, size in enumerate(sizes)]), tensor(sizes, "int64"), *picks)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """(padded sequences, lengths) of a packed one."""
    x, _ = padded_of(sequence, padding_value, total_length)
    lengths = tensor(_lengths(sequence.batch_sizes), "int64")
    if sequence.unsorted_indices is not None:
        x, lengths = x.index_select(1, sequence.unsorted_indices), lengths[sequence.unsorted_indices]
    return (x.transpose(0, 1) if batch_first else x), lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0):
    """Sequences (T, …) of different lengths as one tensor, padded at the end."""
    sequences = tensors_of(sequences, "pad_sequence")
    if not sequences:
        raise invalid("pad_sequence: give at least one sequence")
    most = max(s.shape[0] for s in sequences)
    rows = [s.pad((0,) * s.ndim, (most - s.shape[0],) + (0,) * (s.ndim - 1), padding_value) for s in sequences]
    return stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The inverse of `pad_sequence`."""
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [x[i, :int(n)] for i, n in enumerate(lengths.tolist())]


def pack_sequence(sequences, enforce_sorted=True):
    """Sequences (T, …) of different lengths packed."""
    return pack_padded_sequence(pad_sequence(sequences), [s.shape[0] for s in sequences],
                                enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The inverse of `pack_sequence`."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences))
