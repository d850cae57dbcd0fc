"""Joining elements along axes, indices and order in PyTorch."""
from __future__ import annotations

import math

import torch


def maximum(a, b):
    """NaN if either is; -0 is below +0."""
    if a.dtype == torch.bool:
        return a | b
    made = torch.maximum(a, b)
    return torch.where((a == 0) & (b == 0), a + b, made) if a.is_floating_point() else made


def minimum(a, b):
    if a.dtype == torch.bool:
        return a & b
    made = torch.minimum(a, b)
    return torch.where((a == 0) & (b == 0), -(-a - b), made) if a.is_floating_point() else made


def add(a, b):
    return a | b if a.dtype == torch.bool else a + b


def multiply(a, b):
    return a & b if a.dtype == torch.bool else a * b


# Of two arrays; and of all elements along the last axis, of which there is at least one.
JOINS = {
    "add": (add, lambda x: x.any(-1) if x.dtype == torch.bool else x.sum(-1, dtype=x.dtype)),
    "multiply": (multiply, lambda x: x.all(-1) if x.dtype == torch.bool else x.prod(-1, dtype=x.dtype)),
    "maximum": (maximum, lambda x: x.any(-1) if x.dtype == torch.bool else extreme(x, 1)),
    "minimum": (minimum, lambda x: x.all(-1) if x.dtype == torch.bool else extreme(x, -1)),
    "or": (torch.bitwise_or, lambda x: x.any(-1)),
    "and": (torch.bitwise_and, lambda x: x.all(-1)),
}


def extreme(x, sign):
    """The largest, or the smallest; of zeros +0 if there is one, or -0."""
    made = x.amax(-1) if sign > 0 else x.amin(-1)
    if not x.is_floating_point():
        return made
    wanted = (x == 0) & (torch.signbit(x) if sign < 0 else ~torch.signbit(x))
    zero = torch.full_like(made, 0.0 if sign > 0 else -0.0)
    return torch.where((made == 0) & wanted.any(-1), zero, made)


def reducing(name):
    two, row = JOINS[name]

    def reduce(x, initial, dimensions):
        axes = sorted(dimensions)
        if not axes:
            return two(initial.expand(x.shape), x)
        kept = [i for i in range(x.dim()) if i not in axes]
        shape = [x.shape[i] for i in kept]
        if not x.numel():
            return initial.expand(shape).clone()
        if len(axes) == x.dim() == 1 or axes == list(range(x.dim() - len(axes), x.dim())):
            rows = x.reshape([*shape, -1])
        elif name == "add" and x.dtype != torch.bool:
            return two(x.sum(axes, dtype=x.dtype), initial)
        else:
            rows = x.permute(kept + axes).reshape([*shape, -1])
        return two(row(rows), initial)
    return reduce


def cumulating(name):
    two = JOINS[name][0]
    lines = {"add": lambda x, axis: torch.cumsum(x, axis, dtype=x.dtype),
             "multiply": lambda x, axis: torch.cumprod(x, axis, dtype=x.dtype),
             "maximum": lambda x, axis: torch.cummax(x, axis).values,
             "minimum": lambda x, axis: torch.cummin(x, axis).values}

    def cumulate(x, initial, dimension):
        return two(initial, lines[name](x, dimension)) if x.numel() else x.clone()
    return cumulate


# ---- moving ----

def spread(x, value, shape, low, gaps):
    """An array of `value` with the elements of x in it, from `low` on, `gaps` apart; those outside are left out."""
    out = value.expand(shape).clone()
    to, of = [], []
    for a, gap, n, extent in zip(low, gaps, x.shape, shape):
        first = max(0, -(a // gap) if a < 0 else 0)
        last = min(n, (extent - 1 - a) // gap + 1 if extent > a else 0)
        if last <= first:
            return out
        to.append(slice(a + first * gap, a + (last - 1) * gap + 1, gap))
        of.append(slice(first, last))
    out[tuple(to)] = x[tuple(of)]
    return out


def pad(x, value, edge_padding_low, edge_padding_high, interior_padding):
    gaps = [n + 1 for n in interior_padding]
    shape = [max(0, (n - 1) * gap + 1 if n else 0) + a + b
             for n, gap, a, b in zip(x.shape, gaps, edge_padding_low, edge_padding_high)]
    return spread(x, value, [max(0, n) for n in shape], edge_padding_low, gaps)


def box(indices, shape, sizes):
    starts = [min(max(int(i), 0), n - k) for i, n, k in zip(indices, shape, sizes)]
    return tuple(slice(i, i + k) for i, k in zip(starts, sizes))


def dynamic_slice(x, *indices, slice_sizes):
    return x[box(indices, x.shape, slice_sizes)]


def dynamic_update_slice(x, update, *indices):
    out = x.clone()
    out[box(indices, x.shape, update.shape)] = update
    return out


def lines(shape, device):
    """For each axis 0, 1, 2, ... along it."""
    return [torch.arange(n, device=device).view([-1 if i == axis else 1 for i in range(len(shape))]) for axis, n in enumerate(shape)]


def vectors(indices, vector, n):
    """The parts of index vectors, each in the shape of the batch."""
    if vector == indices.dim():
        return [indices.long()]
    return [part.long() for part in indices.unbind(vector)][:n]


def places(indices, shape, sizes, attributes, clamps):
    """For each axis of the operand where boxes begin, in the shape of the batch."""
    batching, of_indices, index_map = attributes
    vector, device = indices.index_vector_dim, indices.tensor.device
    starts = [torch.zeros((), dtype=torch.int64, device=device)] * len(shape)
    for axis, part in zip(index_map, vectors(indices.tensor, vector, len(index_map))):
        starts[axis] = part.clamp(0, shape[axis] - sizes[axis]) if clamps else part
    batch = [n for i, n in enumerate(indices.tensor.shape) if i != vector]
    for axis, other in zip(batching, of_indices):
        starts[axis] = lines(batch, device)[other - (vector < other)]
    return batch, starts


class Indices:
    """Indices, and the axis on which their vectors lie."""

    def __init__(self, tensor, index_vector_dim):
        self.tensor, self.index_vector_dim = tensor, index_vector_dim


def at_axes(part, axes, rank):
    """An array of the axes of a batch, among those of a result of that rank."""
    shape = [1] * rank
    for axis, n in zip(axes[len(axes) - part.dim():], part.shape):
        shape[axis] = n
    return part.reshape(shape)


def gather(x, indices, offset_dims, collapsed_slice_dims, operand_batching_dims, start_indices_batching_dims,
           start_index_map, index_vector_dim, slice_sizes, indices_are_sorted=False):
    dropped = {*collapsed_slice_dims, *operand_batching_dims}
    kept = [i for i in range(x.dim()) if i not in dropped]
    batch, starts = places(Indices(indices, index_vector_dim), x.shape, slice_sizes,
                           (operand_batching_dims, start_indices_batching_dims, start_index_map), True)
    rank = len(batch) + len(offset_dims)
    batch_axes = [i for i in range(rank) if i not in offset_dims]
    if len(start_index_map) == 1 and not operand_batching_dims and collapsed_slice_dims == start_index_map and \
            all(slice_sizes[i] == x.shape[i] for i in kept):
        axis = start_index_map[0]
        rows = x.index_select(axis, starts[axis].reshape(-1)).movedim(axis, 0)
        made = rows.reshape([*batch, *(x.shape[i] for i in kept)])
        order = [0] * rank
        for i, to in enumerate([*batch_axes, *offset_dims]):
            order[to] = i
        return made.permute(order)
    full = [at_axes(start, batch_axes, rank) for start in starts]
    shape = [1] * rank
    for axis, n in zip(batch_axes, batch):
        shape[axis] = n
    for axis, i in zip(offset_dims, kept):
        shape[axis] = slice_sizes[i]
        full[i] = full[i] + lines([slice_sizes[i] if j == axis else 1 for j in range(rank)], x.device)[axis]
    if not full:
        return x.expand(shape).clone()
    if not math.prod(shape):
        return x.new_empty(shape)
    return x[tuple(part.expand(shape) for part in full)]


def scattering(name):
    def scatter(x, indices, updates, update_window_dims, inserted_window_dims, input_batching_dims,
                scatter_indices_batching_dims, scatter_dims_to_operand_dims, index_vector_dim,
                indices_are_sorted=False, unique_indices=False):
        dropped = {*inserted_window_dims, *input_batching_dims}
        kept = [i for i in range(x.dim()) if i not in dropped]
        batch, starts = places(Indices(indices, index_vector_dim), x.shape, [1] * x.dim(),
                               (input_batching_dims, scatter_indices_batching_dims, scatter_dims_to_operand_dims),
                               False)
        rank = updates.dim()
        batch_axes = [i for i in range(rank) if i not in update_window_dims]
        full = [at_axes(start, batch_axes, rank) for start in starts]
        for axis, i in zip(update_window_dims, kept):
            full[i] = full[i] + lines(updates.shape, x.device)[axis]
        flat = torch.zeros((), dtype=torch.int64, device=x.device)
        fine = torch.ones((), dtype=torch.bool, device=x.device)
        for n, part in zip(x.shape, full):
            fine = fine & (part >= 0) & (part < n)
            flat = flat * n + part
        fine = fine.expand(updates.shape).reshape(-1)
        to = flat.expand(updates.shape).reshape(-1)[fine]
        values, out = updates.reshape(-1)[fine], x.reshape(-1).clone()
        return (join_at(name, out, to, values) if len(to) else out).view(x.shape)
    return scatter


def join_at(name, out, to, values):
    if name == "second":  # of several for one place the last stays
        to, order = torch.sort(to, stable=True)
        last = torch.ones(len(to), dtype=torch.bool, device=to.device)
        last[:-1] = to[1:] != to[:-1]
        out[to[last]] = values[order[last]]
        return out
    if name == "add" and out.dtype not in (torch.bool, torch.float16, torch.bfloat16):
        return out.index_add_(0, to, values)
    # One of several for a place after the other: by their rank among those of the place.
    order = torch.sort(to, stable=True).indices
    to, values = to[order], values[order]
    first = torch.searchsorted(to, to)
    rank = torch.arange(len(to), device=to.device) - first
    for i in range(int(rank.max()) + 1):
        now = rank == i
        out[to[now]] = JOINS[name][0](out[to[now]], values[now])
    return out


# ---- order ----

def sorting(falling):
    def sort(*operands, dimension, is_stable=False):
        if not operands[0].numel():
            return [x.clone() for x in operands]
        order = torch.sort(operands[0], dim=dimension, descending=falling, stable=True).indices
        made = [torch.gather(x, dimension, order) for x in operands]
        return made
    return sort


def ranked(x, axis, falling):
    """Indices by value; NaN is the first, and of equals the first."""
    key = x
    if x.is_floating_point() and not falling:  # PyTorch's NaN is the largest
        key = torch.where(x != x, torch.full_like(x, -math.inf), x)
        order = torch.sort(key, dim=axis, stable=True).indices
        nan = torch.gather(x != x, axis, order)
        return torch.gather(order, axis, torch.sort((~nan).to(torch.uint8), dim=axis, stable=True).indices)
    return torch.sort(key, dim=axis, descending=falling, stable=True).indices


def top_k(x, k):
    if not x.numel() or not k:
        shape = [*x.shape[:-1], k]
        return [x.new_empty(shape), x.new_empty(shape, dtype=torch.int32)]
    order = ranked(x, x.dim() - 1, True)[..., :k]
    return [torch.gather(x, -1, order), order.int()]


def arg(falling):
    def find(x, dimension, dtype):
        kind = getattr(torch, dtype)
        x = x.to(torch.uint8) if x.dtype == torch.bool else x
        if not x.numel():
            return x.new_empty([n for i, n in enumerate(x.shape) if i != dimension], dtype=kind)
        return (torch.argmax if falling else torch.argmin)(x, dimension).to(kind)
    return find


def cross_entropy(x, labels, dimension, ignore_index=None):
    logs = torch.log_softmax(x, dimension)
    n = x.shape[dimension]
    inside = (labels >= 0) & (labels < n)
    at = torch.where(inside, labels, 0).long().unsqueeze(dimension)
    if not n:
        made = x.new_full(labels.shape, math.nan)
    else:
        made = -torch.gather(logs, dimension, at).squeeze(dimension)
        made = torch.where(inside, made, torch.full_like(made, math.nan))
    return made if ignore_index is None else torch.where(labels == ignore_index, torch.zeros_like(made), made)


MOVES = {"pad": pad, "dynamic_slice": dynamic_slice, "dynamic_update_slice": dynamic_update_slice, "gather": gather,
         "scatter.second": scattering("second"), "sort.LT": sorting(False), "sort.GT": sorting(True), "top_k": top_k,
         "argmax": arg(True), "argmin": arg(False)}
JOINING = {"cross_entropy": cross_entropy}
CUMULATING = {"cumulate." + name: cumulating(name) for name in ("add", "multiply", "maximum", "minimum")}
for _name in JOINS:
    JOINING["reduce." + _name] = reducing(_name)
    MOVES["scatter." + _name] = scattering(_name)
