"""A decode-like loop: rounds of three layers, each with what the round before made.

    rounds.py ADDRESS N repeat|calls

repeat: one message to each worker for all rounds; calls: each round is a call, in this process, when ADDRESS
is `embedded`. The layers are cut by columns over two workers. Speaks the protocol of lib.Peer.
"""
import sys

import lib

WIDE = 512


def main():
    address, rounds, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    shoal = lib.product()
    import numpy as np
    if address == "embedded":
        shoal.init(workers=2, threads=2)
    else:
        shoal.connect(address)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((WIDE, WIDE), dtype="f4") / np.float32(WIDE) ** 0.5 for _ in range(3)]
    weights = [shoal.tensor(a).place(axis=1) for a in arrays]
    first = rng.standard_normal((1, WIDE), dtype="f4")
    start = shoal.tensor(first)

    @shoal.compile(replay=True)
    def step(x):
        for w in weights:
            x = shoal.tanh(x @ w)
        return x

    def run(n=rounds):
        if how == "repeat":
            x = step.repeat(n, start, carry={0: 0}).result
        else:
            x = start
            for _ in range(n):
                x = step(x)
        return x.numpy()

    want = first
    for _ in range(5):
        for a in arrays:
            want = np.tanh(want @ a)
    if not np.allclose(run(5), want, atol=1e-4):
        raise lib.BenchError("the rounds are wrong")
    lib.serve(run)


if __name__ == "__main__":
    main()
