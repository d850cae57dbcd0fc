"""A model's file as a source on a pool: one product with each of its matrices, x beside x.

    source.py ADDRESS FILE

Prints, as JSON, the bytes that came to workers and to the client, and those that activations have.
"""
import json
import sys

import lib


def received(shoal):
    return sum(slot.received for slot in shoal.status().slots)


def main():
    import numpy as np
    shoal = lib.product()
    shoal.connect(sys.argv[1])
    file = shoal.File(sys.argv[2])
    weights = [file[name] for name, shape, _, _ in file.tensors() if len(shape) == 2]
    workers = len(shoal.status().slots) - 1
    before, activations = received(shoal), 0
    for w in weights:
        x = np.ones(w.shape[1], np.float32)
        (w.place(axis=0) @ shoal.tensor(x)).numpy()
        activations += workers * x.nbytes + 4 * w.shape[0]
    print(json.dumps({"moved": received(shoal) - before, "activations": activations}))


if __name__ == "__main__":
    main()
