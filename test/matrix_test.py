"""Matrices over lists of slots: chosen by name, in shares that are given or measured, in every division and on mixed
devices, against NumPy; what a chain of products moves; and products in files that are larger than the memory.

SHOAL_PROGRAMS: how many random programs the property test runs (150).
"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from cluster import SHOAL, Pool
from slack import SLACK

import shoal

ROUNDS = int(os.environ.get("SHOAL_PROGRAMS", "150"))


def command(*args, code=0, **options):
    done = subprocess.run([SHOAL, *map(str, args)], capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == code, (args, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


class Slots(Pool):
    """Workers with the devices of a list each: {"desk": ("cpu", "ref"), …}."""

    def __init__(self, devices, *options):
        self.address = f"shm:test-{os.getpid()}-{random.randrange(1 << 30)}"
        self.processes = [self.start("hub", "--address", self.address)]
        for name, lent in devices.items():
            self.processes.append(self.start("worker", "--once", "--hub", self.address, "--name", name, "--threads", "1",
                                             "--device", ",".join(lent), *options))
        self.session = shoal.connect(self.address)
        self.await_workers(len(devices))
        self.numbers = {f"{s.worker}/{s.name}": s.slot for s in self.session.status().slots if s.compute}


@pytest.fixture
def pool():
    made = []

    def start(devices, *options):
        made.append(Slots(devices, *options))
        return made[-1]

    yield start
    shoal.disconnect()
    for one in made:
        for process in reversed(one.processes):
            process.terminate()
        for process in one.processes:
            process.wait(60)


def owners(tensor):
    """Where the parts of a tensor lie, as the plan has them: {slot: bytes that came to it}."""
    plan = json.loads(tensor.explain(json=True))
    return {row["slot"]: row["bytes_in"] for row in plan["slots"] if row["bytes_in"]}


# ---- the list of slots ----

def test_slots_by_name(pool):
    p = pool({"desk": ("cpu", "ref"), "laptop": ("cpu",)})
    find, numbers = p.session.find_slots, p.numbers
    assert find(["desk/ref", "laptop"]) == [numbers["desk/ref"], numbers["laptop/cpu"]]
    assert sorted(find(["desk", "desk"])) == sorted([numbers["desk/cpu"], numbers["desk/ref"]])
    assert find(["/ref", str(numbers["desk/cpu"]), "laptop/cpu"]) == \
        [numbers["desk/ref"], numbers["desk/cpu"], numbers["laptop/cpu"]]
    host = next(s.host for s in p.session.status().slots)
    assert len(set(find([host] * 3))) == 3
    for names, words in ((["desk/opencl"], "no slot 'desk/opencl' is in the pool; there are desk/cpu, "),
                         (["laptop", "laptop"], "no slot 'laptop' is left in the pool: others of the list have taken it"),
                         (["99"], "no slot '99' is in the pool"), ([""], "no slot ''"), (["desk/"], "no slot 'desk/'")):
        with pytest.raises(shoal.NotFoundError) as caught:
            find(names)
        assert words in str(caught.value)
    a = np.arange(1000, dtype="f4").reshape(100, 10)
    there = shoal.from_numpy(a).place(axis=0, slots=["desk/ref", "laptop"], shares=[30, 70])
    assert owners(there) == {numbers["desk/ref"]: 1200, numbers["laptop/cpu"]: 2800}
    assert np.array_equal(there.numpy(), a)
    with pytest.raises(shoal.InvalidError, match="shares='fast'"):
        shoal.from_numpy(a).place(axis=0, shares="fast")


def test_shares_to_the_row(pool):
    """Percentages that are given are obeyed to the row, for any number of rows."""
    p = pool({"a": ("cpu", "ref"), "b": ("cpu",)})
    rng, slots = random.Random(2), sorted(p.numbers.values())
    for rows in (1, 2, 7, 10, 33, 100, 1001):
        percents = [rng.randint(1, 60), rng.randint(1, 39)]
        percents.append(100 - sum(percents))
        got = owners(shoal.from_numpy(np.ones((rows, 4096), "f4")).place(axis=0, shares=percents, slots=slots))
        end = 0
        for i, slot in enumerate(slots):
            end += got.get(slot, 0) // 16384
            assert abs(end - sum(percents[:i + 1]) * rows / 100) <= 0.5, (rows, percents, got)
        assert end == rows


def test_measured_shares(pool):
    """The slow device, which is slower by a factor of hundreds, gets what it can do; weights that were given count more."""
    p = pool({"fast": ("cpu",), "slow": ("ref",)})
    fast, slow = p.session.weigh_slots(["fast", "slow"])
    assert fast > 10 * slow > 0
    x = shoal.from_numpy(np.ones((1000, 64), "f4")).place(axis=0, slots=["slow", "fast"], shares="speed")
    got = owners(x)
    assert x.sum().item() == 64000
    assert got[p.numbers["fast/cpu"]] > 9 * got.get(p.numbers["slow/ref"], 0)
    grid = shoal.from_numpy(np.ones((1000, 64), "f4")).place(parts=(2, 1), slots=["slow", "fast"], shares="speed")
    got = owners(grid)  # by newer speeds than those of x, perhaps
    assert sum(got.values()) == 256000 and got[p.numbers["fast/cpu"]] > 9 * got.get(p.numbers["slow/ref"], 0)
    told = json.loads(command("split", "2048x1024x512", "--hub", p.address, "--json"))
    shares = {row["worker"]: row["share_percent"] for row in told["slots"]}
    assert shares["fast"] > 90 and sum(shares.values()) == pytest.approx(100)
    assert sum(row["rows"] for row in told["slots"]) == 2048 and told["seconds"] > 0
    kept = json.loads(command("split", "2048x1024x512", "--hub", p.address, "--json", "--on", "slow=25%,fast"))
    assert [(row["worker"], row["share_percent"], row["rows"]) for row in kept["slots"]] == \
        [("slow", 25, 512), ("fast", 75, 1536)]
    assert kept["seconds"] > told["seconds"] and kept["slots"][0]["seconds"] > kept["slots"][1]["seconds"]


def test_measured_shares_of_weights(pool):
    p = pool({"w": ("cpu",)}, "--weight", "3")
    p.processes.append(p.start("worker", "--once", "--hub", p.address, "--name", "v", "--threads", "1", "--weight", "1"))
    p.await_workers(2)
    assert p.session.weigh_slots(["v", "w"]) == [1, 3]


def test_split_tells_what_is_wrong(tmp_path):
    for args, words in ((("3x4",), "A and B, or a shape such as 4096x4096x4096"), (("3x4x0",), "split needs two files"),
                        (("3x4x5", "--transpose-a"), "a shape is that of what is multiplied"),
                        (("3x4x5", "--share", "50,-"), "the others must be percentages"),
                        (("3x4x5", "--share", "100%,-"), "leaves nothing for those left out"),
                        (("3x4x5", "--on", "a=1,,b"), "name 2 is empty"),
                        (("3x4x5", "--on", "a=50", "--share", "1"), "both give shares"),
                        (("3x4x5", "--on", "a,b", "--share", "1"), "1 share for the 2 slots of --on")):
        assert words in command("split", *args, code=2)
    assert "there is" in command("split", "3x4x5", "--on", "nobody", "--workers", "1", code=1)
    told = command("split", "512x512x512", "--workers", "2")
    assert "COMPUTES" in told and "--split rows --share " in told


# ---- everything over slots, against NumPy ----

def attention(q, k, v):
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


UNARY = {
    "relu": lambda x: np.maximum(x, 0), "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "neg": np.negative,
    "silu": lambda x: x / (1 + np.exp(-x)), "softmax": softmax, "gelu": None,
    "rms_norm": lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6),
}


def unary(name, x):
    """A tensor's and an array's."""
    if name == "gelu":
        tanh = np.tanh(np.sqrt(2 / np.pi) * (x[1] + 0.044715 * x[1] ** 3))
        return shoal.nn.functional.gelu(x[0], approximate="tanh"), x[1] * (1 + tanh) / 2
    if name == "rms_norm":
        made = shoal.nn.functional.rms_norm(x[0], (x[0].shape[-1],), eps=1e-6)
    elif name == "softmax":
        made = x[0].softmax(-1)
    elif name == "silu":
        made = shoal.nn.functional.silu(x[0])
    else:
        made = getattr(shoal, name)(x[0])
    return made, UNARY[name](x[1])


TOLERANCES = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 4e-2}


def rounded(x, dtype):
    """What is left of an array in an element type, as float64."""
    if dtype == "bfloat16":
        bits = np.asarray(x, "f4").view("u4")
        return (((bits + 0x7fff + (bits >> 16 & 1)) >> 16) << 16).astype("u4").view("f4").astype("f8")
    return np.asarray(x, dtype).astype("f8")


class Programs:
    """Random placements of random operands, and what becomes of them."""

    def __init__(self, seed, slots):
        self.rng, self.slots = random.Random(seed), slots
        self.numbers = np.random.default_rng(seed)

    def place(self, x):
        """Rows, columns, any axis, a grid, summands' operands, or whole; in shares, or equal."""
        rng = self.rng
        some = rng.sample(self.slots, rng.randint(1, len(self.slots)))
        how = rng.randrange(4)
        if how == 0 or not x.ndim:
            return x.place(slots=some)
        axis = rng.randrange(x.ndim)
        if how == 1:
            return x.place(axis=axis, slots=some, shares=[rng.randint(0, 5) for _ in some[1:]] + [1])
        if how == 2 and len(some) > 3 and x.ndim > 1:
            parts = [1] * x.ndim
            parts[axis], parts[axis - 1] = 2, len(some) // 2
            return x.place(parts=parts, slots=some[:2 * (len(some) // 2)], copies=1)
        return x.place(axis=axis, slots=some)

    def operand(self, shape, dtype):
        array = rounded(self.numbers.uniform(-1, 1, shape), dtype)
        return self.place(shoal.tensor(array.tolist() if 0 in shape else array).astype(dtype)), array

    def shape(self, rank):
        return tuple(self.rng.choice((1, 2, 3, 5, 8, 13, 16, 31)) for _ in range(rank))

    def product(self, dtype):
        """Operands of two to four axes, each perhaps stored the other way round."""
        rank = self.rng.randint(2, 4)
        m, k, n = self.shape(3)
        batch = self.shape(rank - 2)
        pair = []
        for rows, columns in ((m, k), (k, n)):
            if self.rng.randrange(2):
                x, array = self.operand((*batch, columns, rows), dtype)
                pair.append((x.transpose(-1, -2), np.swapaxes(array, -1, -2)))
            else:
                pair.append(self.operand((*batch, rows, columns), dtype))
        (a, x), (b, y) = pair
        return a @ b, x @ y

    def run(self, dtype):
        """One value, a tensor and an array: a product and what is made of it on the way, left where it is."""
        rng = self.rng
        made, want = self.product(dtype)
        for _ in range(rng.randint(0, 3)):
            how = rng.choice(["unary", "add", "sub", "mul", "reshape", "repeat", "again"])
            if how == "unary":
                made, want = unary(rng.choice(list(UNARY)), (made, want))
            elif how in ("add", "sub", "mul"):
                other, array = self.operand(want.shape, dtype)
                made, want = {"add": (made + other, want + array), "sub": (made - other, want - array),
                              "mul": (made * other, want * array)}[how]
            elif how == "reshape":
                made, want = made.reshape(-1, want.shape[-1]), want.reshape(-1, want.shape[-1])
            elif how == "repeat" and want.size < 4096:
                made, want = made.repeat(*([1] * (want.ndim - 1)), 2), np.tile(want, 2)
            elif how == "again":
                other, array = self.operand((*want.shape[:-2], want.shape[-1], 3), dtype)
                made, want = made @ other, want @ array
            if rng.randrange(3) == 0:
                made = self.place(made)
            want = rounded(want, dtype)
        return made, want


def check(made, want, dtype, what):
    assert made.dtype == dtype, what  # halves stay halves
    got = made.float().numpy().astype("f8")
    assert got.shape == want.shape, what
    limit = TOLERANCES[dtype] * max(1.0, np.abs(want).max(initial=0))
    assert np.abs(got - want).max(initial=0) <= limit * 4, what


LISTS = {"one": {"a": ("cpu",)}, "mixed": {"a": ("cpu", "lag"), "b": ("ref", "cpu"), "c": ("cpu",)},
         "many": {f"w{i}": ("cpu", "ref", "lag")[:3 if i < 2 else 2] for i in range(5)}}


@pytest.mark.parametrize("name", LISTS)
def test_programs(pool, name):
    p = pool(LISTS[name])
    assert len(p.numbers) == {"one": 1, "mixed": 5, "many": 12}[name]
    programs = Programs(len(name), list(p.numbers))
    for turn in range(ROUNDS // 3):
        dtype = ("float32", "float16", "bfloat16")[turn % 3]
        made, want = programs.run(dtype)
        check(made, want, dtype, (name, turn, dtype, want.shape))


def test_attention_by_heads(pool):
    """Queries, keys and values cut by heads; and keys and values that several heads share, repeated where they lie."""
    p = pool(LISTS["mixed"])
    numbers, slots = np.random.default_rng(4), list(p.numbers)
    for heads, groups in ((5, 5), (8, 2)):
        q = numbers.standard_normal((2, heads, 9, 8))
        k, v = (numbers.standard_normal((2, groups, 9, 8)) for _ in range(2))
        want = attention(q, *(np.repeat(x, heads // groups, 1) for x in (k, v)))
        placed = [shoal.tensor(x).float().place(axis=1, slots=slots[:2 if groups == 2 else 5]) for x in (q, k, v)]
        wide = [x.repeat_interleave(heads // groups, 1) for x in placed[1:]]
        made = shoal.nn.functional.scaled_dot_product_attention(placed[0], *wide)
        assert np.abs(made.numpy() - want).max() < 1e-5


# ---- what moves ----

def test_a_chain_in_place(pool):
    """Ten products, each a placed matrix times the last result: the workers receive what the plan says, which is
    nothing but the operands, once; the results stay, and nothing passes through the hub."""
    p = pool({"a": ("cpu",), "b": ("cpu",), "c": ("cpu",)})
    rng = np.random.default_rng(5)
    rows, n = 300, 96
    x = rng.standard_normal((rows, n)).astype("f4")
    weights = [(rng.standard_normal((n, n)) / np.sqrt(n)).astype("f4") for _ in range(10)]
    here = shoal.from_numpy(x).place(axis=0, shares=[50, 30, 20])
    there = [shoal.from_numpy(w).replicate() for w in weights]
    for tensor in (here, *there):
        tensor.sum().item()  # it is where it belongs
    p.session.sync()

    def moved():
        return {s.slot: (s.sent, s.received, s.relayed) for s in p.session.status().slots}

    before = moved()
    y = here
    for w in there:
        y = y @ w
    plan = json.loads(y.sum(0).explain(json=True))
    between = plan["links"]
    p.session.sync()
    assert moved() == before  # not a byte for ten products
    total = y.sum(0)
    got = total.numpy()
    want = x.astype("f8")
    for w in weights:
        want = want @ w
    assert np.allclose(got, want.sum(0), rtol=1e-4, atol=1e-3)
    p.session.sync()  # the numbers may be here before all have told the hub that they are through
    after = moved()
    sent = sum(after[s][0] - before[s][0] for s in after)
    assert sent == plan["bytes_moved"] == sum(link["bytes"] for link in between)
    assert sent <= 3 * n * 4 + 2 * n * 4  # summands of one row from each, and the result
    assert not any(s[2] for s in after.values()) and not any(link["relayed"] for link in between)
    assert np.allclose(y.numpy(), want, rtol=1e-4, atol=1e-3)


# ---- larger than the memory ----

@pytest.mark.parametrize("ending, split, turned", [
    ("npy", "rows", "ab"), ("npy", "rows", "b"), ("npy", "rows", "a"), ("npy", "rows", ""), ("bin", "columns", ""),
    ("safetensors", "inner", ""), ("npy", "2x1", "")])
def test_a_product_larger_than_memory(pool, tmp_path, ending, split, turned):
    """Each operand is three times what a worker may hold: workers read them from the files, if they can compute with them as
    they lie there, else they are sent B in blocks of columns. turned: those that are stored transposed."""
    p = pool({"a": ("cpu",), "b": ("cpu",)}, "--memory", "4M")
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-4, 5, shape).astype("f4") for shape in ((700, 4500), (4500, 701)))
    for name, array in (("a", a), ("b", b)):
        np.save(tmp_path / f"{name}.npy", np.ascontiguousarray(array.T) if name in turned else array)
    assert a.nbytes >= 3 * 4 << 20 <= b.nbytes
    told = json.loads(command("matmul", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / f"c.{ending}", "--hub",
                              p.address, "--split", split, "--check", "--json", *(f"--transpose-{name}" for name in turned)))
    slots = [slot for slot in json.loads(command("status", "--hub", p.address, "--json"))["slots"] if slot["worker"] in "ab"]
    received = sum(slot["received_bytes"] for slot in slots)
    assert all(slot["maps_files"] and slot["machine_memory"] > 1 << 26 for slot in slots) and len(slots) == 2
    assert told["mapped"] == (not turned and split in ("rows", "2x1"))
    assert told["panel_rows"] < 700 and (told["block_columns"] == 701) == told["mapped"]
    assert received >= a.nbytes + b.nbytes or (told["mapped"] and received <= (a @ b).nbytes)
    got = shoal.File(tmp_path / f"c.{ending}").load().numpy()
    assert np.array_equal(got, a @ b)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(["a.npy", "b.npy", f"c.{ending}"])
    if split == "rows":
        assert told["block_columns"] > 50  # a quarter of what each was given: that is less than the machine has
        assert sum(w["rows"] for w in told["workers"]) == 700
    if split == "columns":
        assert sum(w["columns"] for w in told["workers"]) == 701


def test_what_cannot_be_mapped_is_sent(pool, tmp_path):
    """Quantised operands, panels that have no room beside all of B, a matrix that is a small part of its file: as before."""
    import gguf
    import safetensors.numpy
    p = pool({"a": ("cpu",), "b": ("cpu",)}, "--memory", "4M")
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-4, 5, shape).astype("f4") for shape in ((512, 2048), (2048, 640)))
    for name, array in (("a", a), ("b", b)):
        np.save(tmp_path / f"{name}.npy", array)
        writer = gguf.GGUFWriter(tmp_path / f"{name}.gguf", "test")
        packed = gguf.quants.quantize(array, gguf.GGMLQuantizationType.Q8_0)
        writer.add_tensor(name, packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    safetensors.numpy.save_file({"b": b, "other": np.zeros((4, *b.shape), "f4")}, tmp_path / "more.safetensors")

    def product(left, right, *options):
        told = json.loads(command("matmul", tmp_path / left, tmp_path / right, "-o", tmp_path / "c.npy", "--force", "--hub",
                                  p.address, "--json", *options))
        assert np.allclose(np.load(tmp_path / "c.npy"), a @ b, atol=40)
        return told["mapped"]
    assert product("a.npy", "b.npy")
    assert not product("a.gguf", "b.npy") and not product("a.npy", "b.gguf")
    assert not product("a.npy", "b.npy", "--panel", 512) and product("a.npy", "b.npy", "--panel", 128)
    assert not product("a.npy", "more.safetensors:b")
    for name in ("a", "b"):  # a file that was written to, but is the same, is found again
        (tmp_path / f"{name}.npy").touch()
        assert product("a.npy", "b.npy")


def test_rows_follow_percentages_and_add_up(pool, tmp_path):
    """Also where the rest of them follows the workers' speeds."""
    p = pool({"a": ("cpu",), "b": ("cpu",), "c": ("cpu",)})
    rng = np.random.default_rng(8)
    a, b = (rng.integers(-4, 5, shape).astype("f4") for shape in ((3001, 64), (64, 50)))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    for panel in (1, 7, 300, 2048):
        for share, due in (("34%,-,-", 1020), ("50%,-,-", 1500), (None, None)):
            told = json.loads(command(
                "matmul", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "c.npy", "--force", "--hub", p.address,
                "--panel", panel, "--json", *(("--share", share) if share else ())))
            rows = [w["rows"] for w in told["workers"]]
            assert sum(rows) == 3001 and (due is None or abs(rows[0] - due) <= 1), (panel, share, rows)
            assert min(rows) > 60, (panel, share, rows)  # nobody starves
            assert np.array_equal(np.load(tmp_path / "c.npy"), a @ b)


def test_percentages_stay_while_speeds_change(pool, tmp_path):
    """A worker that stands still in turns loses rows to the one whose share was left open too."""
    p = pool({"a": ("cpu",), "b": ("cpu",), "c": ("cpu",)})
    rng = np.random.default_rng(8)
    a, b = (rng.integers(-4, 5, shape).astype("f4") for shape in ((30001, 64), (64, 50)))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    done = threading.Event()

    def hinder():
        while not done.is_set():
            for number in (signal.SIGSTOP, signal.SIGCONT):
                p.processes[2].send_signal(number)
                done.wait(0.02)

    other = threading.Thread(target=hinder)
    other.start()
    try:
        for share, due in (("34%,-,-", 10200), ("50%,-,-", 15000)):
            told = json.loads(command(
                "matmul", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "c.npy", "--force", "--hub", p.address,
                "--panel", 300, "--json", "--share", share))
            rows = [w["rows"] for w in told["workers"]]
            assert sum(rows) == 30001 and abs(rows[0] - due) <= 1, (share, rows)
            assert np.array_equal(np.load(tmp_path / "c.npy"), a @ b)
    finally:
        done.set()
        other.join()


def test_panels_obey_percentages(pool, tmp_path):
    p = pool({"a": ("cpu",), "b": ("cpu",), "c": ("cpu",)})
    for name, shape in (("a", (1000, 20)), ("b", (20, 30))):
        np.save(tmp_path / f"{name}.npy", np.ones(shape, "f4"))
    for panel in (1, 7, 64, 1000):
        for percents, rows in (((70, 20, 10), [700, 200, 100]), ((0.1, 0.1, 99.8), [1, 1, 998]), ((33, 33, 34), [330, 330, 340])):
            told = json.loads(command(
                "matmul", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "c.npy", "--force", "--hub", p.address,
                "--panel", panel if panel > 1 else 3, "--json", "--share", ",".join(f"{x}%" for x in percents)))
            assert [w["rows"] for w in told["workers"]] == rows


def test_an_interrupt_leaves_nothing(tmp_path):
    """Progress says how fast it goes and how long it takes; Ctrl-C, and even an end by force, leave no file."""
    for name, rows in (("a", 1 << 18), ("b", 2048)):
        made = np.lib.format.open_memmap(tmp_path / f"{name}.npy", mode="w+", dtype="f4", shape=(rows, 2048))
        del made  # zeros, which take no room
    for number in (signal.SIGINT, signal.SIGKILL):
        process = subprocess.Popen([SHOAL, "matmul", "a.npy", "b.npy", "-o", "c.npy", "--workers", "2", "--panel", "32"],
                                   cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        line = ""
        while "left" not in line:
            line = process.stderr.readline()
            assert line, "it ended"
        assert "GFLOP/s" in line and "%" in line
        asked = time.monotonic()
        process.send_signal(number)
        rest = process.stderr.read()
        assert process.wait(60) == -number and time.monotonic() - asked < 10 * SLACK
        assert number == signal.SIGKILL or "c.npy is not written" in rest
        left = sorted(file.name for file in tmp_path.iterdir())
        assert left == ["a.npy", "b.npy"]


if __name__ == "__main__":
    sys.exit(pytest.main([str(pathlib.Path(__file__)), "-q", *sys.argv[1:]]))
