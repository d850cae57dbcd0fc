"""The peer of the gathered product: dask.distributed with two worker processes of one thread.

    dask_peer.py M K N

Speaks the protocol of lib.Peer. Two usual ways to write the product are tried, and the faster one
is what Shoal is compared with.
"""
import logging
import sys
import time
import warnings

import numpy as np

import lib


def main():
    import dask
    import dask.array as da
    from dask.distributed import Client, LocalCluster
    warnings.simplefilter("ignore")  # about large graphs: what is measured is just that
    logging.getLogger("distributed").setLevel(logging.ERROR)
    dask.config.set({"distributed.worker.memory.terminate": False,
                     "distributed.worker.memory.pause": False,
                     "distributed.worker.memory.spill": False})
    m, k, n = map(int, sys.argv[1:4])
    a, b = lib.operands(m, k, n)
    rows = (m + 1) // 2
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None,
                      memory_limit=None) as cluster, Client(cluster) as client:

        def arrays():
            return (da.from_array(a, chunks=(rows, k)) @ da.from_array(b, chunks=(k, n))).compute()

        def futures():
            whole = client.scatter(b, broadcast=True, hash=False)
            parts = client.scatter([a[:rows], a[rows:]], hash=False)
            done = [client.submit(np.matmul, part, whole, pure=False) for part in parts]
            return np.concatenate(client.gather(done))

        def timed(way):
            start = time.perf_counter()
            result = way()
            return time.perf_counter() - start, result

        best = None
        for way in (arrays, futures):
            timed(way)
            seconds, result = timed(way)
            lib.check(result, a, b)
            if best is None or seconds < best[0]:
                best = (seconds, way)
        print("ready", flush=True)
        for _ in sys.stdin:
            print(f"{timed(best[1])[0]:.9f}", flush=True)


if __name__ == "__main__":
    main()
