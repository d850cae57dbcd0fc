"""Compares the demo's scores with NumPy's product of the same embeddings, all of them.

    check.py MODEL.gguf SCORES.npy

Both compute in float32, in different orders, so they differ by rounding: about sqrt(576) units of
6e-8. An element of row a and column b must be within TOLERANCE * |a| * |b| of NumPy's.
"""
import sys

import gguf
import numpy as np

TOLERANCE = 5e-6
COLUMNS = 4096
BLOCK = 4096


def main(model, path):
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(model).tensors}
    stored = tensors["token_embd.weight"]
    table = gguf.dequantize(stored.data, stored.tensor_type).astype(np.float32)
    scores = np.load(path, mmap_mode="r")
    if scores.shape != (len(table), COLUMNS) or scores.dtype != np.float32:
        sys.exit(f"check: {path} is {scores.dtype}{scores.shape}, "
                 f"not float32{(len(table), COLUMNS)}")
    norms = np.linalg.norm(table, axis=1)
    largest = 0.0
    for first in range(0, len(table), BLOCK):
        rows = slice(first, first + BLOCK)
        difference = np.abs(scores[rows] - table[rows] @ table[:COLUMNS].T)
        difference /= norms[rows, None] * norms[None, :COLUMNS] + np.float32(1e-30)
        if not np.isfinite(difference).all():
            sys.exit(f"check: rows {first} to {first + BLOCK} hold infinities or NaNs")
        largest = max(largest, float(difference.max()))
    verdict = "as it should be" if largest <= TOLERANCE else "WRONG"
    print(f"all {scores.size:,} scores compared: largest difference {largest:.1e} "
          f"of |row| |column|, tolerance {TOLERANCE:.0e}: {verdict}")
    return largest > TOLERANCE


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
