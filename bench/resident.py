"""A client that keeps a product's operands on the workers, and multiplies when told to.

    resident.py ADDRESS SHARES M K N

SHARES is one number per worker, with commas: A lies on them in rows by these shares, B whole on
each; or `speed`, as fast as Shoal finds them. Speaks the protocol of lib.Peer; what is timed is the product, left where it was computed.
"""
import sys
import time

import lib


def main():
    address, shares = sys.argv[1], sys.argv[2]
    if shares != "speed":
        shares = [float(share) for share in shares.split(",")]
    shoal, (a, b) = lib.product(), lib.operands(*map(int, sys.argv[3:6]))
    shoal.connect(address)
    left, right = shoal.from_numpy(a, copy=False).place(axis=0, shares=shares), \
        shoal.from_numpy(b, copy=False).place()
    lib.check((left @ right).numpy(), a, b)
    del a, b
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        result = left @ right
        shoal.sync()
        seconds = time.perf_counter() - start
        del result
        print(f"{seconds:.9f}", flush=True)


if __name__ == "__main__":
    main()
