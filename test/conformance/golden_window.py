"""Windows, convolutions and control flow in NumPy, from the specification's words."""
import numpy as np

import golden_index as index


def spread(x, value, low, high, gaps):
    """x with gaps - 1 elements between its own and `low`, `high` ones beside them."""
    shape = [max(((n - 1) * g + 1 if n else 0) + a + b, 0)
             for n, g, a, b in zip(x.shape, gaps, low, high)]
    return index.spread(x, value, shape, low, gaps)


def places(shape, window, strides, gaps):
    spans = [(n - 1) * g + 1 for n, g in zip(window, gaps)]
    return [max(0, (n - s) // t + 1) if n > 0 else 0 for n, s, t in zip(shape, spans, strides)]


def views(x, window, strides, gaps):
    """For each element of the window, in row-major order, what lies there at all places."""
    count = places(x.shape, window, strides, gaps)
    for at in np.ndindex(*window):
        yield at, x[tuple(slice(k * g, k * g + (n - 1) * s + 1 if n else k * g, s)
                          for k, g, n, s in zip(at, gaps, count, strides))]


def reduce_window(attrs, body, *operands):
    """operands: some of one shape, then as many initial values."""
    n, padding = len(operands) // 2, attrs["padding"]
    wide = [spread(x, initial, padding[::2], padding[1::2], attrs["base_dilations"])
            for x, initial in zip(operands, operands[n:])]
    window, strides, gaps = (attrs[k] for k in
                             ("window_dimensions", "window_strides", "window_dilations"))
    out = [np.full(places(x.shape, window, strides, gaps), initial, x.dtype)
           for x, initial in zip(wide, operands[n:])]
    for elements in zip(*(views(x, window, strides, gaps) for x in wide)):
        if out[0].size:
            out = body(out, [x for _, x in elements])
    return out


def select_and_scatter(attrs, stays, body, x, source, initial):
    """stays: whether of two elements, the first being the one selected so far, it stays so."""
    out = np.full(x.shape, initial, x.dtype)
    window, strides, padding = (attrs[k] for k in
                                ("window_dimensions", "window_strides", "padding"))
    for place in np.ndindex(*source.shape):
        best = None
        for k in np.ndindex(*window):
            at = tuple(p * s + i - low for p, s, i, low in zip(place, strides, k, padding[::2]))
            if all(0 <= a < n for a, n in zip(at, x.shape)) and (best is None
                                                                  or not stays(x[best], x[at])):
                best = at
        if best is not None:
            out[best] = body([out[best]], [source[place]])[0]
    return out


def convolution(attrs, x, kernel):
    rank = x.ndim
    dims = attrs["convolution_dimensions"]
    x = x.transpose(dims[:rank])
    kernel = kernel.transpose(dims[rank:2 * rank])
    if x.dtype == bool:
        return convolved(attrs, x.astype(np.int64), kernel.astype(np.int64), dims, rank) > 0
    return convolved(attrs, x, kernel, dims, rank)


def convolved(attrs, x, kernel, dims, rank):
    x, kernel = (v.astype(np.float64) if v.dtype == np.float32 else v for v in (x, kernel))
    padding = attrs["padding"]
    wide = spread(x, 0, [0, 0] + padding[::2], [0, 0] + padding[1::2],
                  [1, 1] + attrs["lhs_dilation"])
    for i, flips in enumerate(attrs["window_reversal"]):
        if flips:
            kernel = np.flip(kernel, 2 + i)
    features, batches = attrs["feature_group_count"], attrs["batch_group_count"]
    parts = []
    for g in range(max(features, batches)):
        rows = slice(None) if batches == 1 else slice(g * len(x) // batches,
                                                      (g + 1) * len(x) // batches)
        n = x.shape[1] // features
        left = wide[rows, g * n:(g + 1) * n] if features > 1 else wide[rows]
        n = kernel.shape[1] // max(features, batches)
        right = kernel[:, g * n:(g + 1) * n]
        count = places(left.shape[2:], right.shape[2:], attrs["window_strides"],
                       attrs["rhs_dilation"])
        out = np.zeros([len(left), n] + count, x.dtype)
        for at, seen in views(left, [1, 1] + list(right.shape[2:]),
                              [1, 1] + attrs["window_strides"], [1, 1] + attrs["rhs_dilation"]):
            if out.size:
                out += np.einsum("bi...,io->bo...", seen, right[(slice(None), slice(None)) + at[2:]])
        parts.append(out)
    return np.concatenate(parts, 1).transpose(np.argsort(dims[2 * rank:]))
