"""What the benchmarks share: races between ours and a peer, pools of real processes, rows.

Timings of shared machines are noisy, so ours and the peer's repeats alternate within one run, in
turning order; a figure is the median, and its spread is (slowest - fastest) / median.
"""
import ctypes
import functools
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("SHOAL_BENCH_BUILD", ROOT / "build"))
QUICK = bool(os.environ.get("SHOAL_BENCH_QUICK"))  # small sizes and few repeats: is it all working?
RUNS = 2 if QUICK else 7
SECONDS = 120  # the longest that anything may take to answer


def scaled(size):
    """A size as asked, or a sixteenth of it in a quick run."""
    return max(1, size // 16) if QUICK else size


class BenchError(Exception):
    """One line that says why a figure could not be had."""


class Absent(BenchError):
    """The peer is one that only a verb of its own installs: no failure where all benchmarks are run."""


# ---- timing ----

def timed(work):
    """A function that runs `work` and returns the seconds it took."""
    def run():
        start = time.perf_counter()
        work()
        return time.perf_counter() - start
    return run


def race(contestants, runs=None, warm=1):
    """Runs {name: function that returns seconds} in turns; returns {name: [seconds, …]}."""
    names = list(contestants)
    times = {name: [] for name in names}
    for turn in range(warm + (runs or RUNS)):
        for name in names if turn % 2 == 0 else reversed(names):
            seconds = contestants[name]()
            if turn >= warm:
                times[name].append(seconds)
    return times


def median(values):
    return statistics.median(values)


def spread(values):
    middle = median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


# ---- rows ----

def row(name, value, unit, peer, ratio, times, least, peer_value=None):
    """One figure. ratio: the better the higher. least: {"ratio": 0.95} or {"value": 3.0} or {}."""
    bars = {"ratio": ratio, "value": value}
    return {"name": name, "value": value, "unit": unit, "peer": peer, "peer_value": peer_value,
            "ratio": ratio, "runs": len(times), "spread": spread(times), "least": least,
            "met": all(bars[key] >= bar for key, bar in least.items()),
            "lost": peer_value is not None and ratio < 1,
            "command": f"bench/run {name}", "quick": QUICK}


def versus(name, work, unit, peer, ours, theirs, least):
    """A row from the two sides of a race: `work` units were done in each run."""
    mine, other = median(ours), median(theirs)
    return row(name, work / mine, unit, peer, other / mine, ours, least, work / other)


def against_bar(name, seconds, bar_ms):
    """A row for a time in ms that is to stay below a bar; ratio: bar / time."""
    value = 1e3 * median(seconds)
    return row(name, value, "ms", f"at most {bar_ms} ms", bar_ms / value, seconds, {"ratio": 1.0})


def against_rate(name, work, unit, seconds, bar):
    """A row for a rate that is to stay above a bar; ratio: rate / bar."""
    value = work / median(seconds)
    return row(name, value, unit, f"at least {bar:,}", value / bar, seconds, {"ratio": 1.0})


# ---- processes ----

def environment(**more):
    """For ours and for peers: this build's package and command, and no hidden threads."""
    threads = {key: "1" for key in
               ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    result = os.environ | threads | {"PYTHONPATH": str(BUILD / "python")} | more
    result.pop("SHOAL_HUB", None)
    return result


def held(what="VmRSS", pid="self"):
    """MiB of memory that a process holds, by a name of /proc/PID/status."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(what)) / 1024


def most_held(work):
    """MiB of memory that this process holds at most while it works."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    work()
    return held("VmHWM")


def serve(work, *words):
    """What a Peer's process does: says that it is ready, and `words`; works whenever it is told."""
    print("ready", *words, flush=True)
    run = timed(work)
    for _ in sys.stdin:
        print(f"{run():.9f}", flush=True)


class Peer:
    """A process that says `ready`, then for each line it gets runs once and prints the seconds.

    said: the words that came after `ready`.
    """

    def __init__(self, command, **variables):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1,
                                        env=environment(**variables))
        self.name = Path(command[0]).name if len(command) < 2 else " ".join(
            Path(str(word)).name for word in command[:2])
        ready, *self.said = self.answer().split()
        if ready != "ready":
            raise BenchError(f"{self.name}: did not say that it is ready")

    def answer(self):
        line = self.process.stdout.readline().strip()
        if not line:
            raise BenchError(f"{self.name}: ended with code {self.process.wait(SECONDS)}")
        return line

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")
        return self.answer()

    def __call__(self):
        time.sleep(0.05)  # threads of the others' last run come to rest
        return float(self.ask("run"))

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        self.process.stdin.close()
        try:
            code = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = "none: killed"
        if code and not failed:
            raise BenchError(f"{self.name}: ended with code {code}")


class Pool:
    """A hub and workers as processes of their own, ended on exit. words: more for each worker. apart: each measures
    how fast it is, as on a machine of its own."""

    def __init__(self, workers, threads=1, words=(), apart=False):
        self.command = str(BUILD / "cmd" / "shoal")
        self.folder = tempfile.TemporaryDirectory(prefix="shoal-bench-")
        self.address = f"shm:{self.folder.name}/hub"
        self.names = [f"w{number + 1}" for number in range(workers)]
        self.processes = []
        self.log = open(Path(self.folder.name) / "log", "w+", encoding="utf-8")
        try:
            self.start("hub", "--address", self.address)
            self.wait([])
            for number, name in enumerate(self.names):  # one by one: their slots are in this order
                self.start("worker", "--hub", self.address, "--threads", str(threads),
                           "--name", name, *words,
                           **{"XDG_CACHE_HOME": f"{self.folder.name}/{name}"} if apart else {})
                self.wait(self.names[:number + 1])
        except BaseException:
            self.close()
            raise

    def start(self, *words, **variables):
        try:
            self.processes.append(subprocess.Popen(
                [self.command, *words], stdin=subprocess.DEVNULL, stdout=self.log,
                stderr=self.log, env=environment(**variables)))
        except OSError as error:
            raise BenchError(f"{self.command}: {error.strerror}; run make build") from error

    def wait(self, names):
        """Until the hub answers and tells of these workers."""
        deadline = time.monotonic() + 20
        while True:
            done = subprocess.run([self.command, "status", "--hub", self.address],
                                  capture_output=True, text=True, env=environment(), check=False)
            if done.returncode == 0 and all(re.search(rf"\b{name}\b", done.stdout) for name in names):
                return
            ended = [process for process in self.processes if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                self.log.flush()
                self.log.seek(0)
                why = (self.log.read() + done.stderr).strip() or "no answer"
                raise BenchError(f"no pool of {len(self.names)} workers: {why}")
            time.sleep(0.02)

    def close(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        self.log.close()
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def openblas():
    """The OpenBLAS with threads, by its own path: the plain name may be a serial one."""
    chosen = os.environ.get("SHOAL_BENCH_OPENBLAS")
    found = [chosen] if chosen else sorted(
        str(path) for path in Path("/usr/lib").glob("*/openblas-pthread/libopenblas.so.0"))
    if not found:
        raise BenchError("no OpenBLAS with threads; run tools/install.sh bench")
    return found[0]


@functools.cache
def best_kernels():
    """Variables for a peer that multiplies by Debian's OpenBLAS, its PyTorch among them.

    OpenBLAS 0.3.21 takes the kernels of 2004 for processors newer than itself, which would make it an
    easy peer: it is told the name of the right ones then.
    """
    try:
        asks = ctypes.CDLL(openblas()).openblas_get_corename
    except (OSError, AttributeError):  # the peer itself says that this is no OpenBLAS
        return {}
    asks.restype = ctypes.c_char_p
    if asks() not in (b"Prescott", b"Nehalem", b"Core2") or "OPENBLAS_CORETYPE" in os.environ:
        return {}
    flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    core = ("SkylakeX" if {"avx512f", "avx512vl"} <= flags else
            "Haswell" if "avx2" in flags else None)
    return {"OPENBLAS_CORETYPE": core} if core else {}


def program(name):
    """A C program of this folder, built when missing."""
    path = BUILD / "bench" / name
    done = subprocess.run(["ninja", "-C", str(BUILD), "--quiet", f"bench/{name}"],
                          capture_output=True, text=True, check=False)
    if done.returncode and not path.exists():
        raise BenchError(f"bench/{name} was not built: {done.stdout.strip()[-500:]}")
    return path


def blas(m, k, n, threads):
    return Peer([program("blas"), openblas(), threads, m, k, n], **best_kernels())


# ---- the product ----

def product():
    """The package, loaded late: `bench/run --list` works without a build."""
    sys.path.insert(0, str(BUILD / "python"))
    try:
        import shoal
    except ImportError as error:
        raise BenchError(f"{error}; run make build") from error
    return shoal


def operands(m, k, n):
    """Two matrices of small integers: their product is exact in float32 in any order of sums."""
    import numpy as np
    random = np.random.default_rng(1)
    return (random.integers(-4, 5, (m, k)).astype(np.float32),
            random.integers(-4, 5, (k, n)).astype(np.float32))


def check(result, a, b):
    """A few rows against NumPy: a wrong product has no speed."""
    import numpy as np
    rows = np.linspace(0, len(a) - 1, 7).astype(int)
    if result.shape != (a.shape[0], b.shape[1]) or not np.array_equal(result[rows], a[rows] @ b):
        raise BenchError("the product is wrong")


# ---- the machine ----

def machine():
    """What the figures were measured on, in words."""
    cpu, memory = platform.machine(), 0
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("MemTotal"):
            memory = int(line.split()[1]) * 1024
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "memory_gb": round(memory / 1e9, 1),
            "system": system, "kernel": platform.release(), "python": platform.python_version(),
            "version": version(), "date": time.strftime("%Y-%m-%d", time.gmtime())}


def version():
    done = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
                          capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def limits():
    """What the machine can do at best, to judge figures by: one core's product, one core's copy."""
    import numpy as np
    found = {}
    size = scaled(2048)
    try:
        with blas(size, size, size, 1) as one:
            found["gemm_one_core_gflops"] = 2e-9 * size ** 3 / min(one() for _ in range(RUNS))
    except BenchError as error:
        found["gemm_one_core_gflops"] = None
        print(f"limits: {error}", file=sys.stderr)
    source = np.ones(scaled(1 << 28), np.uint8)
    target = np.ones_like(source)
    copy = timed(lambda: np.copyto(target, source))
    found["memcpy_gb_per_s"] = 1e-9 * source.size / min(copy() for _ in range(RUNS))
    return found


# ---- the file ----

def load(path):
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {"rows": []}


def save(path, content):
    """Beside the path first, then renamed: a file is never half written."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".tmp")
    beside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    beside.rename(path)
