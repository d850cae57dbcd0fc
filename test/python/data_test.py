"""Datasets, samplers and DataLoader: against torch's, with workers, broken off and resumed."""
import collections
import threading
import time

import numpy as np
import pytest
from peer import torch, torch_of

import shoal

D = shoal.utils.data
T = torch.utils.data
Point = collections.namedtuple("Point", "x y")


class Squares:
    """Samples of every kind."""

    def __init__(self, n, make=float):
        self.n, self.make = n, make

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return {"x": np.full((2,), i, "float32"), "n": i, "half": i / 2, "name": f"s{i}",
                "pair": (i, [float(i)]), "point": Point(i, -i), "yes": i % 2 == 0}


def plain(batch):
    if isinstance(batch, shoal.Tensor):
        return batch.dtype.name, batch.tolist()
    if isinstance(batch, torch.Tensor):
        return str(batch.dtype)[6:], batch.tolist()
    if isinstance(batch, dict):
        return {k: plain(v) for k, v in batch.items()}
    if isinstance(batch, (list, tuple)):
        return [plain(v) for v in batch]
    return batch


class TheirSquares(Squares):
    def __getitem__(self, i):
        return {**super().__getitem__(i), "x": torch_of(np.full((2,), i, "float32"))}


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_are_torchs(workers, drop_last):
    ours = D.DataLoader(Squares(10), batch_size=4, num_workers=workers, drop_last=drop_last)
    want = T.DataLoader(TheirSquares(10), batch_size=4, drop_last=drop_last)
    assert [plain(b) for b in ours] == [plain(b) for b in want]
    assert len(ours) == len(want)
    single = D.DataLoader(Squares(3), batch_size=None, num_workers=workers)
    assert [s["n"] for s in single] == [0, 1, 2] and len(single) == 3


@pytest.mark.parametrize("workers", [0, 2])
def test_shuffling_goes_by_seed(workers):
    x = shoal.arange(20)

    def order(seed=None, generator=None):
        if seed is not None:
            shoal.manual_seed(seed)
        loader = D.DataLoader(D.TensorDataset(x, x * 2), 6, True, num_workers=workers, generator=generator)
        rows = [(a.tolist(), b.tolist()) for a, b in loader]
        assert [[2 * n for n in a] for a, _ in rows] == [b for _, b in rows]
        return sum((a for a, _ in rows), [])
    first = order(4)
    assert sorted(first) == list(range(20)) and first != list(range(20))
    assert order(4) == first and order() != first
    own = shoal.Generator(9)
    assert order(generator=own) != order(generator=own)
    assert order(generator=shoal.Generator(9)) == order(generator=shoal.Generator(9))


@pytest.mark.parametrize("workers", [0, 3])
def test_a_run_goes_on_where_it_was_broken_off(workers):
    def loader():
        return D.DataLoader(Squares(23), 4, shuffle=True, num_workers=workers, generator=shoal.Generator(5))
    straight = loader()
    whole = [[b["n"].tolist() for b in straight] for _ in range(2)]
    broken = loader()
    for _ in broken:
        pass
    got = []
    for batch in broken:
        got.append(batch["n"].tolist())
        if len(got) == 2:
            state = broken.state_dict()
            break
    resumed = loader()
    resumed.load_state_dict(state)
    got += [b["n"].tolist() for b in resumed]
    assert got == whole[1]


def test_samplers_and_sets():
    data = list(range(10))
    assert list(D.BatchSampler(D.SequentialSampler(data), 4, True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert sorted(D.RandomSampler(data)) == data and len(D.RandomSampler(data, True, 30)) == 30
    assert set(D.RandomSampler(data, True, 30)) <= set(data)
    assert sorted(D.SubsetRandomSampler([3, 5, 7])) == [3, 5, 7]
    assert set(D.WeightedRandomSampler([0.0, 1, 0, 1], 50)) == {1, 3}
    parts = D.random_split(data, [0.5, 0.3, 0.2])
    assert [len(p) for p in parts] == [5, 3, 2] and sorted(sum((list(p) for p in parts), [])) == data
    both = D.ConcatDataset([[1, 2], [3]])
    assert [both[i] for i in (0, 2, -1)] == [1, 3, 3] and len(both) == 3
    assert D.StackDataset(a=[1, 2], b=[3, 4])[1] == {"a": 2, "b": 4}

    class Stream(D.IterableDataset):
        def __iter__(self):
            return iter(range(7))
    assert [b.tolist() for b in D.DataLoader(Stream(), 3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(D.ChainDataset([Stream(), Stream()])) == [*range(7), *range(7)]


def streams(data):
    """What loaders give of iterable datasets, by torch or by Shoal: (how, batches of two epochs)."""
    class Stream(data.IterableDataset):
        def __init__(self):
            self.start, self.end = 0, 13

        def __iter__(self):  # a generator: what it does first is done when its first sample is asked for
            yield from range(self.start, self.end)

    class Parted(Stream):
        def __iter__(self):
            info = data.get_worker_info()
            yield from range(0 if info is None else info.id, 13, 1 if info is None else info.num_workers)

    def part(worker):
        info = data.get_worker_info()
        assert info.id == worker
        info.dataset.start, info.dataset.end = worker * 5, min(worker * 5 + 5, 13)
    for workers, init, size, drop in ((0, None, 2, False), (3, None, 2, False), (2, None, 3, True), (3, part, 2, False),
                                      (2, None, None, False)):
        for dataset in (Stream(), Parted()):
            loader = data.DataLoader(dataset, size, num_workers=workers, worker_init_fn=init, drop_last=drop)
            yield (workers, size, init is part, type(dataset).__name__), [
                [b.tolist() if hasattr(b, "tolist") else b for b in loader] for _ in range(2)]


def test_iterable_datasets_in_workers():
    ours, theirs = dict(streams(D)), dict(streams(torch.utils.data))
    assert ours == theirs


def test_workers():
    seen, all_there = set(), threading.Barrier(3)

    class Slow(Squares):
        def __getitem__(self, i):
            info = D.get_worker_info()
            if (info.id, info.num_workers) not in seen:
                seen.add((info.id, info.num_workers))
                all_there.wait(60)  # else one that begins late may find nothing left
            time.sleep(0.01 * (i % 3))
            return i
    began = []
    loader = D.DataLoader(Slow(30), 2, num_workers=3, worker_init_fn=began.append)
    assert [b.tolist() for b in loader] == [[i, i + 1] for i in range(0, 30, 2)]
    assert seen == {(0, 3), (1, 3), (2, 3)} and sorted(began) == [0, 1, 2] and D.get_worker_info() is None
    for batch in loader:
        break  # workers end, though nobody asks for more
    deadline = time.monotonic() + 60
    del batch
    while any(t.name.startswith("shoal-loader") for t in threading.enumerate()):
        assert time.monotonic() < deadline, "workers go on"
        time.sleep(0.01)


class Broken(Squares):
    def __getitem__(self, i):
        if i == 5:
            raise KeyError("sample 5")
        return i


@pytest.mark.parametrize("workers", [0, 2])
def test_errors(workers):
    got = []
    with pytest.raises(KeyError, match="sample 5"):
        for batch in D.DataLoader(Broken(9), 2, num_workers=workers):
            got.append(batch.tolist())
    assert got == [[0, 1], [2, 3]]
    with pytest.raises(TypeError, match="a sample is a object; tensors"):
        next(iter(D.DataLoader([object()], num_workers=workers)))


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_an_order_that_fails(workers):
    def order():
        yield from [0, 1, 2, 3]
        raise KeyError("no more")
    got = []
    with pytest.raises(KeyError, match="no more"):
        for batch in D.DataLoader(Squares(9), sampler=order(), batch_size=2, num_workers=workers,
                                  collate_fn=lambda x: len(x)):
            got.append(batch)
    assert workers or got == [2, 2]


def test_errors_of_arguments():
    for keywords, text in (({"num_workers": -1}, "num_workers is -1"), ({"prefetch_factor": 2}, "needs workers"),
                           ({"sampler": [0], "shuffle": True}, "sampler or shuffle"),
                           ({"batch_size": 0}, "batch_size is 0; it must be"),
                           ({"batch_sampler": [[0]], "drop_last": True}, "stands for batch_size")):
        with pytest.raises(ValueError, match=text):
            D.DataLoader([1, 2], **keywords)
    with pytest.raises(ValueError, match=r"the same number of rows.*float32\[2\], float32\[3\]"):
        D.TensorDataset(shoal.ones(2), shoal.ones(3))

    class Stuck(Squares):
        def __getitem__(self, i):
            over.wait(60)
            return i
    over = threading.Event()
    with pytest.raises(RuntimeError, match="batch 0 did not come within 0.05 seconds"):
        next(iter(D.DataLoader(Stuck(1), num_workers=1, timeout=0.05)))
    over.set()


def test_tensors_from_workers_train():
    """Batches made in threads go into a step like any others."""
    x = np.random.default_rng(0).standard_normal((64, 3)).astype("float32")
    net, want = shoal.nn.Linear(3, 1), x @ np.array([[1.0], [-2], [3]], "float32")
    optimizer = shoal.optim.SGD(net.parameters(), lr=0.1)
    loader = D.DataLoader(list(zip(x, want)), 16, shuffle=True, num_workers=2)
    for _ in range(30):
        for a, b in loader:
            optimizer.zero_grad()
            loss = shoal.nn.functional.mse_loss(net(a), b)
            loss.backward()
            optimizer.step()
    assert loss.item() < 1e-3


@pytest.mark.parametrize("samples", [
    [np.float32(1.5), np.float32(2)], [np.zeros((2, 0), "int8")] * 3, [np.arange(6).reshape(2, 3).T] * 2,
    [np.array(7, "uint8"), np.array(9, "uint8")], [1, True, 2], [True, False], [-5, 2 ** 40], [0.5, 2.0],
    [1, 2.5], [True, 2], [0, True, 1.5]])
def test_samples_are_joined_as_by_torch(samples):
    want = plain(T.default_collate([torch_of(x) if isinstance(x, (np.ndarray, np.generic)) else x for x in samples]))
    batch = D.default_collate(samples)
    for x in samples:  # the batch has elements of its own
        if isinstance(x, np.ndarray):
            x[...] = 0
    assert plain(batch) == want


def test_dicts_keep_their_kind():
    samples = [collections.defaultdict(int, a=1), collections.defaultdict(int, a=2)]
    batch, want = D.default_collate(samples), T.default_collate(samples)
    assert type(batch) is collections.defaultdict  # and with torch from 2.1 on
    assert batch["a"].tolist() == want["a"].tolist() and samples[0]["a"] == 1


def test_samples_that_differ_in_shape_are_named():
    with pytest.raises(RuntimeError, match=r"the samples differ in shape: \[2\], \[3\]"):
        D.default_collate([np.zeros(2), np.zeros(3)])
