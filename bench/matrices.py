"""Matrices over a house: a worker slower than the other, operands larger than memory, text commands.

    matrices.py gateway SIZE COUNT   a front end whose node multiplies matrices of SIZE x SIZE, COUNT times when told

What is told and said is the protocol of lib.Peer.
"""
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import lib
from lib import BenchError, Peer, race, timed

sys.path.insert(0, str(lib.ROOT / "test"))
import groups  # noqa: E402

QUOTA = (1_000, 3_000)  # microseconds of a core, and of how many: a third, in pieces shorter than what speeds are measured by


def gflop(shape):
    m, k, n = map(lib.scaled, shape)
    return 2e-9 * m * k * n


def resident(pool, shape, shares):
    """A client whose operands lie on a pool's workers: A in rows by shares, B whole on each."""
    return Peer([sys.executable, lib.ROOT / "bench" / "resident.py", pool.address,
                 ",".join(map(str, shares)), *map(lib.scaled, shape)])


# ---- a slower worker ----

def command(pool, *args):
    """What a command tells of a pool."""
    done = subprocess.run([pool.command, *args, "--json", "--hub", pool.address], capture_output=True, text=True,
                          env=lib.environment(), timeout=lib.SECONDS, check=False)
    if done.returncode:
        raise BenchError(f"shoal {args[0]}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def uneven():
    """`shoal matmul` of 8192 x 4096 by 4096 x 4096 on two workers, the second with a third of a core, in rows by the speeds
    that Shoal measures, before and meanwhile, against what both need alone: the ideal is 1 / (1 / fast + 1 / slow). As
    uneven.resident the same with operands that lie on the workers, shared once. Files lie in memory; what is timed is
    multiplying, with reading A and writing the result."""
    shape = (8192, 4096, 4096)
    m, k, n = map(lib.scaled, shape)
    with lib.Pool(2, apart=True) as pool, groups.limited(QUOTA) as files, \
            tempfile.TemporaryDirectory(prefix="shoal-bench-", dir="/dev/shm") as folder:
        for file in files:
            file.write_text(str(pool.processes[2].pid), encoding="ascii")
        a, b, c = (f"{folder}/{name}.npy" for name in "abc")
        for path, values in zip((a, b), lib.operands(m, k, n)):
            np.save(path, values)
        slots = [slot["slot"] for slot in command(pool, "status")["slots"]]

        def product(*on):
            return lambda: command(pool, "matmul", a, b, "-o", c, "--force", *on)["seconds"]
        with resident(pool, shape, [1, 0]) as fast, resident(pool, shape, [0, 1]) as slow, \
                resident(pool, shape, ["speed"]) as both:
            times = race({"both": product(), "fast": product("--on", str(slots[0])), "slow": product("--on", str(slots[1])),
                          "resident": both, "resident.fast": fast, "resident.slow": slow}, runs=None if lib.QUICK else 5)

    def row(name, both, fast, slow):
        alone = [lib.median(times[one]) for one in (fast, slow)]
        ideal = 1 / sum(1 / seconds for seconds in alone)
        return lib.versus(name, gflop(shape), "GFLOP/s", f"the ideal of {alone[0]:.2f} s and {alone[1]:.2f} s", times[both],
                          [ideal], {"ratio": 1 / 1.15} if both == "both" else {})
    return [row("cm.uneven.makespan", "both", "fast", "slow"),
            row("cm.uneven.resident", "resident", "resident.fast", "resident.slow")]


# ---- operands larger than memory ----

def larger():
    """`shoal matmul` of two files of 256 MiB by two workers that may hold a third of them together, against the same
    product of operands that lie on workers of any size, and the files read and the result written by one program."""
    side = lib.scaled(8192)
    shape = (8192, 8192, 8192)
    memory = 2 * 4 * side * side // 3 // 2
    with tempfile.TemporaryDirectory(prefix="shoal-bench-", dir=lib.BUILD) as folder:
        a, b, c, copy = (Path(folder) / f"{name}.npy" for name in ("a", "b", "c", "copy"))
        for path, values in zip((a, b), lib.operands(side, side, side)):
            np.save(path, values)

        def disk():
            values = [np.load(path) for path in (a, b)]
            np.save(copy, values[0])
            copy.unlink()

        with lib.Pool(2) as wide, resident(wide, shape, [1, 1]) as within, \
                lib.Pool(2, words=("--memory", str(memory))) as narrow:
            def product():
                command(narrow, "matmul", a, b, "-o", c)
                c.unlink()
            times = race({"ours": timed(product), "within": within, "disk": timed(disk)}, runs=None if lib.QUICK else 5)
    limit = lib.median(times["within"]) + lib.median(times["disk"])
    return [lib.versus("cm.larger", gflop(shape), "GFLOP/s", "in memory, and the disk", times["ours"], [limit],
                       {"ratio": 1 / 1.3})]


# ---- text commands ----

@contextlib.contextmanager
def node(folder):
    """A node server that takes text commands at free ports of this machine, which are in this process's environment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    names = "HEAD_NODE_PULL_PORT_C", "HEAD_NODE_PUSH_PORT_C", "PYTHON_FRONT_END_CLUSTER_PORT"
    os.environ |= {name: str(s.getsockname()[1]) for name, s in zip(names, sockets)}
    for s in sockets:
        s.close()
    log = Path(folder) / "log"
    with log.open("w", encoding="utf-8") as file, subprocess.Popen(
            [sys.executable, "-m", "cluster_matrix.node_server", "--gateway", "--data", Path(folder) / "data"],
            stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=os.environ | {"XDG_RUNTIME_DIR": folder}) as process:
        try:
            deadline = time.monotonic() + 30
            while "gateway:" not in log.read_text(encoding="utf-8"):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise BenchError(f"no node: {log.read_text(encoding='utf-8').strip()[-500:]}")
                time.sleep(0.02)
            yield
        finally:
            process.terminate()


def front_end(size, count):
    with tempfile.TemporaryDirectory(prefix="shoal-bench-", dir="/dev/shm") as folder, node(folder):
        from cluster_matrix import cluster_zmq
        with contextlib.redirect_stdout(sys.stderr):
            front = cluster_zmq(["127.0.0.1"])
            x = np.random.default_rng(1).integers(-4, 5, (size, size)).astype(np.float32)
            front.stream_matrix_binary("127.0.0.1", x, "A.bin")
            front.zmq_send_command("127.0.0.1", "server_command=llama A.bin false A.bin false true 0 1 mul 2")
            if not np.array_equal(front.wait_for_combined_pt("AxA"), x @ x):
                raise BenchError("the node's product is wrong")
            front.wait_for_acks(1, "ACK_matrixOp_complete", 10)

        def run():
            for _ in range(count):
                front.zmq_send_command("127.0.0.1", "server_command=llama A.bin false A.bin false true 0 0 mul 2")
                if front.wait_for_acks(1, "ACK_matrixOp_complete", 10) != 1:
                    raise BenchError("a command was not acknowledged")
        lib.serve(run)


def gateway():
    """Commands that multiply matrices of 32 x 32 in a folder in memory, as is the default, one after the other through the
    gateway; what each takes beyond the product alone, by NumPy."""
    size, count = 32, lib.scaled(160)
    x = np.random.default_rng(1).integers(-4, 5, (size, size)).astype(np.float32)

    def alone():
        for _ in range(count):
            x @ x
    paths = os.pathsep.join(str(lib.BUILD / "python" / name) for name in ("", "compat"))
    with Peer([sys.executable, __file__, "gateway", size, count], PYTHONPATH=paths) as commands:
        times = race({"ours": commands, "alone": timed(alone)})
    beyond = [(ours - lib.median(times["alone"])) / count for ours in times["ours"]]
    return [lib.against_bar("cm.gateway_ms", beyond, 0.5)]


if __name__ == "__main__":
    front_end(*map(int, sys.argv[2:]))
