"""Datasets, samplers and `DataLoader`, as torch.utils.data.

    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    for xb, yb in loader:
        ...

Workers are threads that fetch and join samples ahead of time; batches come in the order of the sampler,
however many workers there are. Of an `IterableDataset` each worker goes through a copy, as in torch: let
`get_worker_info` tell it its part, or each sample comes as often as there are workers. Where a run was broken
off, `state_dict` and `load_state_dict` go on with the next batch.
"""
import bisect
import copy
import itertools
import math
import queue
import threading
import time

from .. import random as _random
from ..creation import from_numpy, stack, tensor
from ..errors import OutOfRangeError
from ..tensor import Tensor
from ..words import check_integer, check_tensor, invalid

__path__ = []  # in torch a package: moved.py

_local = threading.local()


class Dataset:
    """Samples by their numbers: a subclass has `__getitem__` and `__len__`."""

    def __getitem__(self, index):
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Samples one after another: a subclass has `__iter__`."""

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")

    def __add__(self, other):
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """The rows of tensors, all of the same number."""

    def __init__(self, *tensors):
        for t in tensors:
            check_tensor(t, "TensorDataset")
        if not tensors or any(not t.ndim or t.shape[0] != tensors[0].shape[0] for t in tensors):
            raise invalid("TensorDataset: the tensors must have the same number of rows, and there must be one at least: "
                          + (", ".join(t._text() for t in tensors) or "there are none"))
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(t[index] for t in self.tensors)

    def __len__(self):
        return self.tensors[0].shape[0]

    def rows(self, indices):
        """Several rows at once, already joined."""
        return tuple(t.index_select(0, t.session.tensor(indices, "int64")) for t in self.tensors)


class StackDataset(Dataset):
    """Samples of several datasets side by side, as a tuple or a dict."""

    def __init__(self, *args, **keywords):
        self.datasets = keywords or args
        lengths = {len(d) for d in (keywords.values() if keywords else args)}
        if len(lengths) != 1 or (args and keywords):
            raise invalid(f"StackDataset: datasets of the lengths {sorted(lengths)}")
        self._length, = lengths

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {name: d[index] for name, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def __len__(self):
        return self._length


class ConcatDataset(Dataset):
    """The samples of datasets one after another."""

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets:
            raise invalid("ConcatDataset: there are no datasets")
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, index):
        n = len(self)
        if not -n <= index < n:
            raise OutOfRangeError(f"ConcatDataset: there is no sample {index} among {n}")
        index %= n
        at = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[at][index - (self.cumulative_sizes[at - 1] if at else 0)]


class ChainDataset(IterableDataset):
    """The samples of iterable datasets one after another."""

    def __init__(self, datasets):
        self.datasets = list(datasets)

    def __iter__(self):
        return itertools.chain.from_iterable(self.datasets)


class Subset(Dataset):
    """Some samples of a dataset, by their numbers."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index):
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)


def random_split(dataset, lengths, generator=None):
    """Subsets of given lengths, or shares that add up to 1, drawn without replacement."""
    n = len(dataset)
    if not hasattr(lengths, "__iter__"):
        raise TypeError(f"random_split: lengths is {lengths!r}; it must be a list of lengths, or of shares of 1")
    if any(length < 0 for length in lengths):
        raise invalid(f"random_split: the lengths {list(lengths)}: none may be negative")
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1 + 1e-9 and not all(
            isinstance(x, int) for x in lengths):
        sizes = [math.floor(n * share) for share in lengths]
        for i in range(n - sum(sizes)):
            sizes[i % len(sizes)] += 1
        lengths = sizes
    if sum(lengths) != n:
        raise invalid(f"random_split: the lengths {list(lengths)} add up to {sum(lengths)}, not to {n}")
    order = _random.randperm(n, generator=generator).tolist()
    ends = list(itertools.accumulate(lengths))
    return [Subset(dataset, order[end - length:end]) for end, length in zip(ends, lengths)]


# ---- samplers ----

class Sampler:
    """The numbers of samples, in order: a subclass has `__iter__`."""

    def __init__(self, data_source=None):
        pass

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")


class SequentialSampler(Sampler):
    """0, 1, 2, …"""

    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


def _need_samples(sampler):
    n = sampler.num_samples
    if not isinstance(n, int) or isinstance(n, bool) or n <= 0:
        raise invalid(f"{type(sampler).__name__}: num_samples is {n!r}; it must be an integer, 1 at least")


def _check_bool(value, what, name, error):
    if not isinstance(value, bool):
        raise error(f"{what}: {name} is {value!r}; it must be True or False")


class RandomSampler(Sampler):
    """All numbers in random order; with replacement, num_samples independent ones."""

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        _check_bool(replacement, "RandomSampler", "replacement", TypeError)
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._count = num_samples
        _need_samples(self)

    @property
    def num_samples(self):
        """How many there are."""
        return len(self.data_source) if self._count is None else self._count

    def __iter__(self):
        n = len(self.data_source)
        if self.replacement:
            yield from _random.randint(n, (self.num_samples,), generator=self.generator).tolist()
            return
        left = self.num_samples
        while left > 0:
            order = _random.randperm(n, generator=self.generator).tolist()[:left]
            yield from order
            left -= len(order)

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """Given numbers in random order."""

    def __init__(self, indices, generator=None):
        self.indices, self.generator = indices, generator

    def __iter__(self):
        return (self.indices[i] for i in _random.randperm(len(self.indices), generator=self.generator).tolist())

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Numbers drawn with probabilities in proportion to weights."""

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        _check_bool(replacement, "WeightedRandomSampler", "replacement", invalid)
        self.weights = weights if isinstance(weights, Tensor) else tensor(weights, "float64")
        if self.weights.ndim != 1:
            raise invalid(f"WeightedRandomSampler: the weights have shape {list(self.weights.shape)}; they must be a vector")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator
        _need_samples(self)

    def __iter__(self):
        return iter(_random.multinomial(self.weights, self.num_samples, self.replacement,
                                        generator=self.generator).tolist())

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of numbers, batch_size each, the last one perhaps shorter, or left out with drop_last."""

    def __init__(self, sampler, batch_size, drop_last=False):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise invalid(f"BatchSampler: batch_size is {batch_size!r}; it must be an integer, 1 at least")
        _check_bool(drop_last, "BatchSampler", "drop_last", invalid)
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self):
        numbers = iter(self.sampler)
        while batch := list(itertools.islice(numbers, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self):
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


# ---- batches ----

def default_collate(batch):
    """Samples joined: tensors, arrays and numbers along a new first axis; tuples, lists and dicts item by item
    (tuples become lists, as in torch); texts as they are."""
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(batch)
    if hasattr(first, "dtype") and hasattr(first, "shape"):
        import numpy
        arrays = [numpy.asarray(x) for x in batch]
        if len({x.shape for x in arrays}) != 1:
            raise invalid("default_collate: the samples differ in shape: "
                          + ", ".join(sorted({str(list(x.shape)) for x in arrays})[:4]))
        # As one array in a third of the time that `stack` takes; nobody else has it.
        return from_numpy(numpy.array(arrays), copy=False)
    if isinstance(first, bool) and all(isinstance(x, bool) for x in batch):
        return tensor(batch, "bool")
    if isinstance(first, int):
        return tensor(batch, "int64") if all(isinstance(x, int) for x in batch) else tensor(batch)
    if isinstance(first, float):
        return tensor(batch, "float64")
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, dict):
        joined = copy.copy(first)  # of its own kind, which may take other arguments than dict does
        joined.update((key, default_collate([x[key] for x in batch])) for key in first)
        return joined
    if isinstance(first, (tuple, list)):
        if len({len(x) for x in batch}) != 1:
            raise invalid("default_collate: the samples differ in length")
        items = [default_collate(column) for column in zip(*batch)]
        return type(first)(*items) if hasattr(first, "_fields") else items
    raise TypeError(f"default_collate: a sample is a {type(first).__name__}; tensors, arrays, numbers, texts, "
                    "dicts, tuples and lists can be joined; give a collate_fn")


def default_convert(data):
    """One sample as it is, its arrays as tensors."""
    if hasattr(data, "dtype") and hasattr(data, "shape") and not isinstance(data, Tensor):
        return tensor(data)
    if isinstance(data, dict):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, (tuple, list)):
        items = [default_convert(value) for value in data]
        return type(data)(*items) if hasattr(data, "_fields") else items
    return data


class WorkerInfo:
    """What a worker knows of itself: id, num_workers, seed, dataset."""

    def __init__(self, id, num_workers, seed, dataset):
        self.id, self.num_workers, self.seed, self.dataset = id, num_workers, seed, dataset


def get_worker_info():
    """In a worker its `WorkerInfo`, else None."""
    return getattr(_local, "info", None)


class DataLoader:
    """The samples of a dataset in batches.

    shuffle: in random order, another one each time, by `generator` or the default one. num_workers: threads,
    each of which prepares prefetch_factor batches ahead. batch_size None: samples one by one. collate_fn: how a list
    of samples becomes a batch. timeout: seconds that a batch may take, 0 for any. pin_memory and
    persistent_workers are taken and change nothing.
    """

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0,
                 collate_fn=None, pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None,
                 multiprocessing_context=None, generator=None, *, prefetch_factor=None,
                 persistent_workers=False, pin_memory_device=""):
        check_integer(num_workers, "DataLoader", "num_workers")
        if num_workers < 0:
            raise invalid(f"DataLoader: num_workers is {num_workers}; it must not be negative")
        if timeout < 0:
            raise invalid(f"DataLoader: a timeout of {timeout} seconds; it must not be negative")
        if (prefetch_factor is not None or persistent_workers) and not num_workers:
            raise invalid(f"DataLoader: {'persistent_workers' if persistent_workers else 'prefetch_factor'} needs workers: "
                          "num_workers is 0")
        if prefetch_factor is not None and prefetch_factor < 1:
            raise invalid(f"DataLoader: prefetch_factor is {prefetch_factor}; it must be 1 at least")
        if batch_size is None and drop_last:
            raise invalid("DataLoader: drop_last with batch_size None, where samples come one by one; give a batch_size")
        if generator is not None and not hasattr(generator, "get_state"):
            raise TypeError(f"DataLoader: generator is a {type(generator).__name__}; it must be a shoal.Generator")
        iterable = isinstance(dataset, IterableDataset)
        if iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise invalid("DataLoader: an IterableDataset has an order of its own: no shuffle, no sampler")
        if sampler is not None and shuffle:
            raise invalid("DataLoader: give sampler or shuffle, not both")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise invalid("DataLoader: a batch_sampler stands for batch_size, shuffle, sampler and drop_last")
        self.dataset, self.num_workers, self.timeout = dataset, num_workers, timeout
        self.worker_init_fn, self.generator = worker_init_fn, generator
        self.prefetch_factor = 2 if prefetch_factor is None else prefetch_factor
        self.pin_memory, self.persistent_workers = pin_memory, persistent_workers
        self.drop_last, self._iterable = drop_last, iterable
        if batch_sampler is not None:
            batch_size = None
        elif not iterable:
            if sampler is None:
                sampler = RandomSampler(dataset, generator=generator) if shuffle else \
                    SequentialSampler(dataset)
            if batch_size is not None:
                batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.sampler, self.batch_sampler = batch_size, sampler, batch_sampler
        self._plain = collate_fn is None
        self.collate_fn = collate_fn or (
            default_convert if batch_sampler is None and batch_size is None else default_collate)
        self._began, self._given, self._skip = None, 0, 0

    def __len__(self):
        if self._iterable:
            n = len(self.dataset)
            if self.batch_size is None:
                return n
            return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)

    def __iter__(self):
        source = self.generator or _random.default_generator
        if self._began is not None and self._skip:
            source.set_state(self._began)
        self._began = source.get_state()
        skip, self._skip = self._skip, 0
        self._given = skip
        batches = self._ahead(skip) if self.num_workers else map(self._fetched, self._numbers(skip))
        for batch in batches:
            self._given += 1
            yield batch
        self._began, self._given = None, 0

    def _numbers(self, skip, workers=()):
        """What each batch is made of: numbers of samples, or samples of an iterable dataset."""
        if not self._iterable:
            made = self.sampler if self.batch_sampler is None else self.batch_sampler
        else:
            made = self._in_turn(workers) if workers else self._cut(self.dataset)
        return itertools.islice(made, skip, None)

    def _cut(self, dataset):
        """The samples of an iterable dataset, as many together as a batch has."""
        if self.batch_size is None:
            return iter(dataset)
        samples = iter(dataset)
        whole = iter(lambda: list(itertools.islice(samples, self.batch_size)), [])
        return (b for b in whole if len(b) == self.batch_size or not self.drop_last)

    def _in_turn(self, workers):
        """The samples of a batch of each worker in turn, as torch's loader gives them: each has an iterator of its own,
        which sees the worker's info in whichever thread it goes on."""
        def samples(info):
            if self.worker_init_fn is not None:
                self.worker_init_fn(info.id)
            yield from self._cut(info.dataset)
        streams, end = [(info, samples(info)) for info in workers], object()
        while streams:
            for info, stream in streams[:]:
                own, _local.info = _local.info, info
                try:
                    taken = next(stream, end)
                finally:
                    _local.info = own
                if taken is end:
                    streams.remove((info, stream))
                else:
                    yield taken

    def _fetched(self, numbers):
        """One batch."""
        if self._iterable:
            return self.collate_fn(numbers)
        if self.batch_sampler is None:
            return self.collate_fn(self.dataset[numbers])
        if self._plain and hasattr(self.dataset, "rows"):
            return list(self.dataset.rows(list(numbers)))
        if hasattr(self.dataset, "__getitems__"):
            return self.collate_fn(self.dataset.__getitems__(list(numbers)))
        return self.collate_fn([self.dataset[i] for i in numbers])

    def _ahead(self, skip):
        """Batches in order, made by threads a few ahead."""
        seed = (self.generator or _random.default_generator).initial_seed()
        workers = [WorkerInfo(i, self.num_workers, seed + i, copy.copy(self.dataset) if self._iterable else self.dataset)
                   for i in range(self.num_workers)]
        numbers, lock, stop = enumerate(self._numbers(skip, workers)), threading.Lock(), threading.Event()
        room, made = queue.SimpleQueue(), queue.SimpleQueue()  # made: (number, batch, error); no number: nothing follows

        def work(info):
            _local.info = info
            at = None
            try:
                if self.worker_init_fn is not None and not self._iterable:
                    self.worker_init_fn(info.id)
                for turn in itertools.count():
                    if turn % self.prefetch_factor == 0:
                        room.get()
                    with lock:
                        at, taken = (None, None) if stop.is_set() else next(numbers, (None, None))
                    if at is None:
                        break
                    made.put((at, self._fetched(taken), None))
                    at = None
            except BaseException as error:
                made.put((at, None, error))
            made.put((None, None, None))
            room.put(None)
        threads = [threading.Thread(target=work, args=(info,), daemon=True, name=f"shoal-loader-{info.id}")
                   for info in workers]
        # Room is for prefetch_factor batches, which one worker makes: waking it costs as much as a small one.
        for thread in threads:
            room.put(None)
            thread.start()
        ready, ended = {}, 0
        try:
            for at in itertools.count():
                until = time.monotonic() + self.timeout if self.timeout else None
                while at not in ready:
                    if ended == len(threads):
                        return
                    try:
                        number, batch, error = made.get(timeout=until and max(0, until - time.monotonic()))
                    except queue.Empty:
                        raise RuntimeError(f"DataLoader: batch {at} did not come within {self.timeout} seconds") from None
                    if error is not None and number in (None, at):
                        raise error
                    if number is not None:
                        ready[number] = batch, error
                    elif error is None:
                        ended += 1
                batch, error = ready.pop(at)
                if error is not None:
                    raise error
                if (at + 1) % self.prefetch_factor == 0:
                    room.put(None)
                yield batch
        finally:
            stop.set()
            for _ in threads:
                room.put(None)

    def state_dict(self):
        """Where the loader is: for `shoal.save`."""
        return {"began": None if self._began is None else list(self._began), "given": self._given}

    def load_state_dict(self, state_dict):
        """The next iteration goes on with the batch after the last one that was given then."""
        began = state_dict["began"]
        self._began = None if began is None else tuple(began)
        self._skip = state_dict["given"]

