"""Where the time of one layer of a language model goes: python profile_worker.py [--rows N] [--width N] [--hidden N]

The layer's operations are computed by NumPy, and by `airllm.tensor_ops` on the backend that it has chosen: the
extension tensor_ops_cpp once it is built, the package shoal before.
"""
import argparse

import numpy as np
from airllm import tensor_ops
from airllm._cpp_ext import load

truth, seconds_of = load("tensor_ops_truth"), load("detect_and_benchmark").seconds_of


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=32, help="tokens at once (%(default)s)")
    parser.add_argument("--width", type=int, default=1024, help="of the model (%(default)s)")
    parser.add_argument("--hidden", type=int, default=2816, help="width of the feed-forward part (%(default)s)")
    options = parser.parse_args()
    if min(options.rows, options.width, options.hidden) < 1:
        parser.error("--rows, --width and --hidden are at least 1")
    rng = np.random.default_rng(0)

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)
    x, weight, hidden = normal(options.rows, options.width), normal(options.width), normal(options.rows, options.hidden)
    up, down = normal(options.width, options.hidden), normal(options.hidden, options.width)
    parts = [("rms_norm", (x, weight)), ("matmul", (x, up)), ("silu", (hidden,)), ("gelu", (hidden,)),
             ("matmul", (hidden, down))]
    rows = [(f"{name} {'x'.join(map(str, arguments[-1].shape))}",
             seconds_of(lambda n=name, a=arguments: np.matmul(*a) if n == "matmul" else getattr(truth, n)(*a)),
             seconds_of(lambda n=name, a=arguments: getattr(tensor_ops, n)(*a))) for name, arguments in parts]
    rows.append(("all", *(sum(row[i] for row in rows) for i in (1, 2))))
    print(f"Active backend: {tensor_ops.get_backend()}\n")
    print(f"{'OPERATION':<20}{'NUMPY':>12}{'THIS':>12}{'SHARE':>8}{'SPEEDUP':>9}")
    for name, theirs, ours in rows:
        print(f"{name:<20}{1e3 * theirs:>9.3f} ms{1e3 * ours:>9.3f} ms{100 * ours / rows[-1][2]:>6.1f} %{theirs / ours:>8.1f}x")


if __name__ == "__main__":
    main()
