"""A product whose operands are on the workers: on one worker, on two, and with NumPy.

    product.py MODEL.gguf

It multiplies the embeddings of a language model's 49,152 tokens (vectors of 576 numbers, normalised
to length 1) by those of the first 2,048 tokens; the result is the similarity of every token to each of
these. The operands are sent to the workers once. Only the product is timed, which stays on the workers,
as in a program that continues with it. NumPy uses one thread, as each worker does. The three take turns,
so that a change in the machine's speed affects all of them. Afterwards the whole product is read and
compared.
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


def seconds(runs):
    """The median time of each of these calls, which take turns; the first ones, which compile, do not count."""
    times = [[] for _ in runs]
    for _ in range(REPEATS + 1):
        for run, own in zip(runs, times):
            start = time.perf_counter()
            run()
            own.append(time.perf_counter() - start)
    return [sorted(own[1:])[REPEATS // 2] for own in times]


class Pooled:
    """The product, with the rows divided over these slots."""

    def __init__(self, table, slots):
        self.a = shoal.from_numpy(table).place(axis=0, slots=slots)
        self.b = shoal.from_numpy(table[:COLUMNS]).place(slots=slots)
        self.product = None
        shoal.sync()

    def run(self):
        self.product = None  # the next one uses its memory
        self.product = self.a @ self.b.mT
        self.product.start()
        shoal.sync()


def main(model):
    table = embeddings(model)
    slots = [slot.slot for slot in shoal.status().slots if slot.compute]
    expected = np.empty((len(table), COLUMNS), np.float32)
    work = 2 * table.size * COLUMNS
    print(f"{len(table):,} x {table.shape[1]} times {table.shape[1]} x {COLUMNS:,} in float32: "
          f"{work / 1e9:.0f} billion operations, median of {REPEATS} runs")
    pooled = [Pooled(table, slots[:1]), Pooled(table, slots[:2])]
    times = seconds([lambda: np.matmul(table, table[:COLUMNS].T, out=expected), *(one.run for one in pooled)])
    for name, taken in zip(("NumPy, one thread", "one worker", "two workers"), times):
        print(f"  {name:18} {taken * 1e3:7.0f} ms {work / taken / 1e9:7.0f} GFLOP/s "
              f"{times[0] / taken:6.2f} x NumPy")
    largest = max(float(np.abs(one.product.numpy() - expected).max()) for one in pooled)
    right = largest <= TOLERANCE
    print(f"all {expected.size:,} elements of both products compared with NumPy's: "
          f"largest difference {largest:.1e} (limit {TOLERANCE:.0e}): {'right' if right else 'WRONG'}")
    return not right


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
