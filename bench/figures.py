"""The figures: what is measured, against whom, and the bar each has to pass.

Each function returns rows (lib.row). TABLE at the end is the one list of them.
"""
import subprocess
import sys

import numpy as np

import lib
from lib import BenchError, Peer, Pool, race, timed

SQUARE = (4096, 4096, 4096)
TABLE_SHAPE = (4096, 14336, 4096)


def gflop(shape):
    m, k, n = map(lib.scaled, shape)
    return 2e-9 * m * k * n


def resident(pool, shape, shares):
    """A client whose operands lie on a pool's workers: A in rows by shares, B whole on each."""
    return Peer([sys.executable, lib.ROOT / "bench" / "resident.py", pool.address,
                 ",".join(map(str, shares)), *map(lib.scaled, shape)])


def matmul():
    """4096^3, operands resident on two one-thread workers; OpenBLAS, and one such worker."""
    with Pool(1) as one, Pool(2) as two, lib.blas(*map(lib.scaled, SQUARE), 2) as blas, \
            resident(one, SQUARE, [1]) as alone, resident(two, SQUARE, [50, 50]) as pair:
        times = race({"pair": pair, "blas": blas, "alone": alone})
    work = gflop(SQUARE)
    return [lib.versus("pool.matmul.vs_blas", work, "GFLOP/s", "OpenBLAS, 2 threads",
                       times["pair"], times["blas"], {"ratio": 0.95}),
            lib.versus("pool.matmul.vs_one", work, "GFLOP/s", "one worker of one thread",
                       times["pair"], times["alone"], {"ratio": 1.8})]


def matmul_dask():
    """4096 x 4096 x 4096 from client memory, result gathered, against dask.distributed."""
    shoal, (a, b) = lib.product(), lib.operands(*map(lib.scaled, SQUARE))
    with Pool(2) as pool, Peer([sys.executable, lib.ROOT / "bench" / "dask_peer.py", *a.shape,
                                b.shape[1]]) as dask:
        shoal.connect(pool.address)

        def run():
            return (shoal.from_numpy(a) @ shoal.from_numpy(b)).numpy()
        lib.check(run(), a, b)
        times = race({"ours": timed(run), "dask": dask})
    return [lib.versus("pool.matmul.vs_dask", gflop(SQUARE), "GFLOP/s",
                       "dask.distributed, 2 workers", times["ours"], times["dask"],
                       {"ratio": 1.8})]


def table():
    """4096 x 14336 @ 14336 x 4096, two workers by 50/50 and by 70/30, against one worker."""
    with Pool(1) as one, Pool(2) as two, resident(one, TABLE_SHAPE, [1]) as alone, \
            resident(two, TABLE_SHAPE, [50, 50]) as even, \
            resident(two, TABLE_SHAPE, [70, 30]) as uneven:
        splits = {"50_50": even, "70_30": uneven}
        times = race({"alone": alone, **splits}, runs=None if lib.QUICK else 5)
    return [lib.versus(f"pool.table.{name}", gflop(TABLE_SHAPE), "GFLOP/s",
                       "one worker of one thread", times[name], times["alone"], {})
            for name in splits]


def transfers():
    """Upload to a worker on the same machine and read-back, against one core's copy."""
    shoal, size = lib.product(), lib.scaled(1 << 28)
    data = np.arange(size // 4, dtype=np.float32)
    target = np.ones_like(data)
    with Pool(1) as pool:
        shoal.connect(pool.address)
        there, back = [], []

        def up():
            there.append(shoal.from_numpy(data).place(axis=0, shares=[1]))
            shoal.sync()

        def down():
            back[:] = [there.pop(0).numpy()]  # each value is read once: nothing has been kept
        up()  # one ahead: turns alternate, so that a read may come first
        times = race({"up": timed(up), "down": timed(down),
                      "copy": timed(lambda: np.copyto(target, data))}, warm=2)
        if not np.array_equal(back[0], data):
            raise BenchError("what came back is not what was sent")
    copy = 1e-9 * data.nbytes
    return [lib.versus(f"bytes.{name}", copy, "GB/s", "memcpy, one core", times[name],
                       times["copy"], {"value": 3.0}) for name in ("up", "down")]


def start(name, command, bar_ms):
    def run():
        done = subprocess.run(command, env=lib.environment(), capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise BenchError(f"ended with code {done.returncode}: {done.stderr.strip()[-300:]}")
    times = race({"ours": timed(run)}, runs=3 * lib.RUNS, warm=2)["ours"]
    return [lib.against_bar(name, times, bar_ms)]


def start_c():
    """From the start of a C program to the first result, embedded."""
    return start("start.c_ms", [str(lib.program("start"))], 20)


def start_python():
    """From the start of Python to the first result, embedded, imports included."""
    code = ("import numpy as np, shoal\n"
            "a = np.ones((2, 3), np.float32)\n"
            "c = (shoal.from_numpy(a) @ shoal.from_numpy(a.T.copy())).numpy()\n"
            "assert (c == 3).all()")
    return start("start.python_ms", [sys.executable, "-c", code], 150)


# Names of the rows, and the function that measures them.
TABLE = [
    (["pool.matmul.vs_blas", "pool.matmul.vs_one"], matmul),
    (["pool.matmul.vs_dask"], matmul_dask),
    (["pool.table.50_50", "pool.table.70_30"], table),
    (["bytes.up", "bytes.down"], transfers),
    (["start.c_ms"], start_c),
    (["start.python_ms"], start_python),
]
