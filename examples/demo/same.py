"""Compares the losses of two runs of a training example.

    same.py RUN RUN     folders with losses.csv, as examples/digits.py writes
"""
import sys

import numpy as np

TOLERANCE = 1e-3  # float32, summed in other orders, over hundreds of steps


def main(*folders):
    one, two = (np.loadtxt(f"{folder}/losses.csv", delimiter=",", skiprows=1)[:, 1]
                for folder in folders)
    if one.shape != two.shape:
        sys.exit(f"same: {len(one)} and {len(two)} steps")
    largest = np.abs(one - two).max()
    right = largest <= TOLERANCE
    print(f"{len(one)} losses compared: largest difference {largest:.1e} "
          f"(limit {TOLERANCE:.0e}): {'right' if right else 'WRONG'}")
    return not right


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
