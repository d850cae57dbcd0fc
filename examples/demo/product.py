"""A product whose operands lie on the workers: by one worker, by two, and by NumPy.

    product.py MODEL.gguf

The embeddings of a language model's tokens (49,152 of 576 numbers, each of length 1) times those of
the first 2,048 tokens: how near every token is to each of these. The factors are brought to the
workers once; then only the product is timed, which stays there, as it would in a program that goes on
with it. NumPy has one thread, as each worker has. Afterwards all of the product is read and compared.
"""
import os
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy is loaded

import gguf  # noqa: E402
import numpy as np  # noqa: E402
import shoal  # noqa: E402

COLUMNS = 2048
REPEATS = 5
TOLERANCE = 1e-5  # float32: sums of 576 products of numbers whose squares add up to 1


def embeddings(model):
    """Every token's embedding, of length 1, as float32[tokens, width]."""
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(model).tensors}
    stored = tensors["token_embd.weight"]
    table = gguf.dequantize(stored.data, stored.tensor_type).astype(np.float32)
    return table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-30)


def seconds(run):
    """The median time of a call; the first one, which compiles, does not count."""
    times = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times[1:])[REPEATS // 2]


def pooled(table, slots):
    """(seconds, the product) with the rows divided between these slots."""
    a = shoal.from_numpy(table).place(axis=0, slots=slots)
    b = shoal.from_numpy(table[:COLUMNS]).place(slots=slots)
    shoal.sync()
    product = None

    def run():
        nonlocal product
        product = None  # its memory is what the next one takes
        product = a @ b.mT
        product.start()
        shoal.sync()
    return seconds(run), product


def main(model):
    table = embeddings(model)
    slots = [slot.slot for slot in shoal.status().slots if slot.compute]
    expected = np.empty((len(table), COLUMNS), np.float32)
    work = 2 * table.size * COLUMNS
    print(f"{len(table):,} x {table.shape[1]} times {table.shape[1]} x {COLUMNS:,} in float32: "
          f"{work / 1e9:.0f} billion operations, median of {REPEATS} runs")
    base = seconds(lambda: np.matmul(table, table[:COLUMNS].T, out=expected))
    rows = [("NumPy, one thread", base)]
    largest = 0.0
    for n, name in (1, "one worker"), (2, "two workers"):
        taken, product = pooled(table, slots[:n])
        rows.append((name, taken))
        largest = max(largest, float(np.abs(product.numpy() - expected).max()))
    for name, taken in rows:
        print(f"  {name:18} {taken * 1e3:7.0f} ms {work / taken / 1e9:7.0f} GFLOP/s "
              f"{base / taken:6.2f} x NumPy")
    right = largest <= TOLERANCE
    print(f"all {expected.size:,} elements of both products compared with NumPy's: largest "
          f"difference {largest:.1e} (at most {TOLERANCE:.0e}: {'right' if right else 'WRONG'})")
    return not right


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
