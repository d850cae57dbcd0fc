"""Operations on indices, order, bits and random numbers in NumPy, from the specification's words."""
import math

import numpy as np

# ---- moving ----


def pad(attrs, x, value):
    total = [a + b + n + max(n - 1, 0) * g for a, b, n, g in zip(
        attrs["edge_padding_low"], attrs["edge_padding_high"], x.shape, attrs["interior_padding"])]
    return spread(x, value, total, attrs["edge_padding_low"],
                  [g + 1 for g in attrs["interior_padding"]])


def spread(x, value, shape, low, gaps):
    """An array of `value` with the elements of x in it, from `low` on, `gaps` apart; those outside
    are left out."""
    out = np.full(shape, value, x.dtype)
    places = [a + g * np.arange(n) for a, g, n in zip(low, gaps, x.shape)]
    inside = [(p >= 0) & (p < n) for p, n in zip(places, shape)]
    if x.ndim:
        out[np.ix_(*(p[i] for p, i in zip(places, inside)))] = x[np.ix_(*inside)]
    else:
        out[()] = x
    return out


def reverse(attrs, x):
    return np.flip(x, attrs["dimensions"]) if attrs["dimensions"] else x


def starts(indices, shape, sizes):
    return [min(max(int(i), 0), n - k) for i, n, k in zip(indices, shape, sizes)]


def dynamic_slice(attrs, x, *indices):
    sizes = attrs["slice_sizes"]
    return x[tuple(slice(i, i + k) for i, k in zip(starts(indices, x.shape, sizes), sizes))]


def dynamic_update_slice(attrs, x, update, *indices):
    out = x.copy()
    at = starts(indices, x.shape, update.shape)
    out[tuple(slice(i, i + k) for i, k in zip(at, update.shape))] = update
    return out


def full_start(attrs, keys, shape, indices, batch):
    """The specification's full_start_index plus full_batching_index."""
    batching, of_indices, index_map = (attrs[k] for k in keys)
    vector = attrs["index_vector_dim"]
    at = list(batch)
    if vector < indices.ndim:
        at.insert(vector, slice(None))
    index = np.atleast_1d(indices[tuple(at)])
    full = [0] * len(shape)
    for k, axis in enumerate(index_map):
        full[axis] = int(index[k])
    for axis, other in zip(batching, of_indices):
        full[axis] = batch[other - (vector < other)]
    return full


def gather(attrs, x, indices):
    keys = ("operand_batching_dims", "start_indices_batching_dims", "start_index_map")
    sizes, offsets = attrs["slice_sizes"], attrs["offset_dims"]
    dropped = attrs["collapsed_slice_dims"] + attrs["operand_batching_dims"]
    kept = [i for i in range(x.ndim) if i not in dropped]
    batch_shape = [n for i, n in enumerate(indices.shape) if i != attrs["index_vector_dim"]]
    rank = len(batch_shape) + len(offsets)
    batch_axes = [i for i in range(rank) if i not in offsets]
    shape = [0] * rank
    for axis, n in zip(batch_axes, batch_shape):
        shape[axis] = n
    for axis, i in zip(offsets, kept):
        shape[axis] = sizes[i]
    out = np.empty(shape, x.dtype)
    for at in np.ndindex(*shape):
        start = full_start(attrs, keys, x.shape, indices, [at[i] for i in batch_axes])
        start = starts(start, x.shape, sizes)
        for axis, i in zip(offsets, kept):
            start[i] += at[axis]
        out[at] = x[tuple(start)]
    return out


def scatter(attrs, body, *operands):
    n = len(operands) // 2
    inputs, indices, updates = [x.copy() for x in operands[:n]], operands[n], operands[n + 1:]
    keys = ("input_batching_dims", "scatter_indices_batching_dims", "scatter_dims_to_operand_dims")
    window = attrs["update_window_dims"]
    dropped = attrs["inserted_window_dims"] + attrs["input_batching_dims"]
    kept = [i for i in range(inputs[0].ndim) if i not in dropped]
    batch_axes = [i for i in range(updates[0].ndim) if i not in window]
    for at in np.ndindex(*updates[0].shape):
        to = full_start(attrs, keys, inputs[0].shape, indices, [at[i] for i in batch_axes])
        for axis, i in zip(window, kept):
            to[i] += at[axis]
        if not all(0 <= t < m for t, m in zip(to, inputs[0].shape)):
            continue
        values = body([x[tuple(to)] for x in inputs], [u[at] for u in updates])
        for x, value in zip(inputs, values):
            x[tuple(to)] = value
    return inputs


# ---- order ----

def sort(attrs, before, *operands):
    """Each element goes to the place that says how many come before it, `before` being the
    comparator, which may also say so of equals; of these the first comes first."""
    axis = attrs["dimension"]
    rows = [np.moveaxis(x, axis, -1) for x in operands]
    n = rows[0].shape[-1]
    pairs = [side for x in rows for side in (x[..., :, None], x[..., None, :])]
    less = np.broadcast_to(before(*pairs), rows[0].shape + (n,))
    less = less & ~np.swapaxes(less, -1, -2)
    equal = ~less & ~np.swapaxes(less, -1, -2)
    earlier = np.arange(n)[:, None] < np.arange(n)
    place = np.moveaxis((less | (equal & earlier)).sum(-2), -1, axis)
    made = [np.empty_like(x) for x in operands]
    for out, x in zip(made, operands):
        np.put_along_axis(out, place, x, axis)
    return made


def ranked(row, falling):
    """Indices with NaN in front, then by value, the first of equals first."""
    sign = -1 if falling else 1
    return sorted(range(len(row)), key=lambda i: (row[i] == row[i],
                                                  0 if row[i] != row[i] else sign * row[i]))


def top_k(attrs, x):
    k = attrs["k"]
    values = np.empty(x.shape[:-1] + (k,), x.dtype)
    indices = np.empty(values.shape, np.int32)
    for at in np.ndindex(x.shape[:-1]):
        order = ranked(x[at].tolist(), True)[:k]
        values[at], indices[at] = x[at][order], order
    return [values, indices]


def extreme(attrs, x, falling):
    rows = np.moveaxis(x, attrs["dimension"], -1)
    out = np.empty(rows.shape[:-1], np.int64)
    for at in np.ndindex(out.shape):
        out[at] = ranked(rows[at].tolist(), falling)[0]
    return out


def reduce(attrs, body, *operands):
    """The elements along axes joined in order, from the initial values on."""
    n = len(operands) // 2
    axes = sorted(attrs["dimensions"])
    kept = [i for i in range(operands[0].ndim) if i not in axes]
    shape = [operands[0].shape[i] for i in kept]
    count = math.prod(operands[0].shape[i] for i in axes)
    rows = [x.transpose(kept + axes).reshape(shape + [count]) for x in operands[:n]]
    out = [np.full(shape, initial, x.dtype) for x, initial in zip(operands, operands[n:])]
    for k in range(count):
        out = body(out, [x[..., k] for x in rows])
    return out


def cumulate(attrs, body, x, initial):
    rows = np.moveaxis(x, attrs["dimension"], 0)
    out, so_far = np.empty(rows.shape, x.dtype), np.full(rows.shape[1:], initial, x.dtype)
    for k in range(rows.shape[0]):
        out[k] = so_far = body([so_far], [rows[k]])[0]
    return np.moveaxis(out, 0, attrs["dimension"])


# ---- bits ----

def popcnt(x):
    bits = 8 * x.itemsize
    return np.array([bin(int(v) % 2 ** bits).count("1") for v in x.ravel()], x.dtype).reshape(x.shape)


def count_leading_zeros(x):
    bits = 8 * x.itemsize
    return np.array([bits - (int(v) % 2 ** bits).bit_length() for v in x.ravel()],
                    x.dtype).reshape(x.shape)


def shifted(x, y, how):
    bits = 8 * x.itemsize
    out = np.empty(x.size, f"u{x.itemsize}")
    for i, (v, n) in enumerate(zip(x.ravel().tolist(), y.ravel().tolist())):
        word = v % 2 ** bits
        if how == "arithmetic":
            signed = word - 2 ** bits * (word >> (bits - 1))
            word = signed >> (n if 0 <= n < bits else bits)
        elif not 0 <= n < bits:
            word = 0
        else:
            word = word << n if how == "left" else word >> n
        out[i] = word % 2 ** bits
    return out.view(x.dtype).reshape(x.shape)


def remainder(x, y):
    if x.dtype.kind == "f":
        return np.fmod(x, y)
    out = []
    for a, b in zip(x.ravel().tolist(), y.ravel().tolist()):
        out.append(a if b == 0 else abs(a) % abs(b) * (-1 if a < 0 else 1))
    return np.array(out, x.dtype).reshape(x.shape)


FORMATS = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}


def reduce_precision(attrs, x, name):
    """By values: as many digits as the mantissa has, then the range of the exponent."""
    own_exponent, own_mantissa = FORMATS[name]
    mantissa, exponent = attrs["mantissa_bits"], attrs["exponent_bits"]
    least = 2 - 2 ** (own_exponent - 1)
    y = x.astype(np.longdouble)
    if mantissa < own_mantissa:
        _, power = np.frexp(y)
        unit = np.maximum(power - 1, least) - mantissa
        whole = np.rint(np.ldexp(y, -unit))
        y = np.where(np.isfinite(y), np.ldexp(whole, unit), y)
    most = 2 ** (min(exponent, own_exponent) - 1) - 1
    y = np.where(np.abs(y) >= np.ldexp(np.longdouble(1), most + 1), np.copysign(np.inf, y), y)
    if exponent < own_exponent:
        small = np.abs(y) < np.ldexp(np.longdouble(1), 1 - most)
        y = np.where(small, np.copysign(np.longdouble(0), y), y)
    return np.where(np.isnan(x), x, y.astype(x.dtype))


# ---- random ----

MASK = 0xFFFFFFFF


def philox(key, block, stream):
    """Philox4x32-10 of the paper, in Python's integers."""
    low, high = key & MASK, key >> 32
    w = [block & MASK, block >> 32, stream & MASK, stream >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * w[0], 0xCD9E8D57 * w[2]
        w = [(b >> 32) ^ w[1] ^ low, b & MASK, (a >> 32) ^ w[3] ^ high, a & MASK]
        low, high = (low + 0x9E3779B9) & MASK, (high + 0xBB67AE85) & MASK
    return w


# The known answers that the authors publish with their library, Random123.
assert philox(0, 0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox(2 ** 64 - 1, 2 ** 64 - 1, 2 ** 64 - 1) == \
    [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
assert philox(0x299F31D0A4093822, 0x85A308D3243F6A88, 0x0370734413198A2E) == \
    [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def random(attrs, name, shape, seed, stream=0):
    whole = attrs.get("whole_shape", shape)
    start = attrs.get("start_indices", [0] * len(shape))
    seed, stream = int(seed) % 2 ** 64, int(stream) % 2 ** 64
    size = 2 if name == "bfloat16" else np.dtype(name).itemsize
    out = []
    for at in np.ndindex(*shape):
        i = int(np.ravel_multi_index([a + s for a, s in zip(at, start)], whole))
        w = philox(seed, i // (2 if size == 8 else 4), stream)
        bits = w[i % 2 * 2] << 32 | w[i % 2 * 2 + 1] if size == 8 else w[i % 4]
        if attrs["rng_distribution"] == "NORMAL":
            w = philox(seed, i // 2, stream)
            u, v = ((a << 32 | b) >> 11 for a, b in (w[:2], w[2:]))
            angle = 2 * np.pi * v * 2.0 ** -53
            out.append(np.sqrt(-2 * np.log((u + 1) * 2.0 ** -53)) *
                       (np.sin(angle) if i % 2 else np.cos(angle)))
        elif attrs["rng_distribution"] == "UNIFORM":
            digits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}[name]
            out.append((bits >> (8 * max(size, 4) - digits)) * 2.0 ** -digits)
        else:
            out.append(bits & 1 if name == "bool" else bits % 2 ** (8 * size))
    if attrs["rng_distribution"] != "BITS":
        return np.array(out, np.float64).reshape(shape)
    unsigned = np.array(out, f"u{size}").reshape(shape)
    return unsigned.astype(bool) if name == "bool" else unsigned.view(name)
