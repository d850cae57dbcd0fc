"""A language model computed one layer after the other, with the weights left in the file.

The file is mapped into memory. Pages of a layer come in while it is computed, and are given back once `cache_size` other
layers have been used, so that a model larger than the memory can be run. Weights in blocks (q8_0, q4_0, …) are multiplied
as they lie. What the operating system keeps of the file is its own affair: it takes that back when memory is short.
"""
import collections
import mmap
import os

import numpy as np
from shoal import InvalidError, kernels

from . import model_files, tensor_ops_hybrid

# So many bytes beside a page that is asked for may come in with it: 64 KiB; since Linux 6.18 the whole folio of the page
# cache, which the kernel chooses, up to 2 MiB. They are the cache's: no memory is taken for them.
AROUND = 2 << 20
STEP = 64  # attention sees the cache in multiples of so many positions, as kernels are compiled per shape


class LayerWiseInferenceEngine:
    """A .gguf of the architecture llama, or a .m of distributed-llama. For one thread.

    model_path: the file, which has to stay as it is. cache_size: how many layers may have pages in memory. max_memory_gb:
    what these layers and the cache of keys and values may take at most, in GiB; more is a ValueError that names the
    numbers. kv_cache_config: {"max_seq_len": how many positions there is room for}, else as many as the model takes, and
    2048 at most.

        engine = LayerWiseInferenceEngine("model.gguf")
        logits = engine.forward([1, 2, 3])          # of the last position; the next call continues behind it
    """

    def __init__(self, model_path, cache_size=2, max_memory_gb=4.0, kv_cache_config=None):
        config = {"max_seq_len": None} | dict(kv_cache_config or {})
        if set(config) != {"max_seq_len"}:
            raise InvalidError(f"kv_cache_config has {', '.join(map(repr, config))}; 'max_seq_len' is all it may have")
        if not isinstance(cache_size, int) or cache_size < 1:
            raise InvalidError(f"cache_size is {cache_size!r}; at least 1 layer has to be in memory")
        self.model = model = model_files.read(model_path)
        room = config["max_seq_len"] or min(model.context, 2048)
        if not 0 < room <= model.context:
            raise InvalidError(f"max_seq_len is {room}; 1 to {model.context} positions are possible")
        largest = max((self._span(layer)[1] for layer in model.layers), default=0)
        cache = 8 * len(model.layers) * model.kv_heads * (room + STEP) * model.head_width
        if cache_size * largest + cache > max_memory_gb * 2**30:
            raise InvalidError(f"{cache_size} layers of {largest / 2**20:.1f} MiB and the keys and values of {room} positions, "
                               f"{cache / 2**20:.1f} MiB, are more than max_memory_gb={max_memory_gb}; lower cache_size or "
                               "max_seq_len")
        with open(model_path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._map.madvise(mmap.MADV_RANDOM)  # no pages but those that are asked for
        self._used = collections.OrderedDict()  # layers with pages in memory, the last used one last
        self._cache_size, self._chunk = cache_size, max(largest, 1 << 20)
        nothing = np.zeros((model.kv_heads, 0, model.head_width), np.float32)
        self._seen = [(nothing, nothing) for _ in model.layers]  # keys and values, which grow
        self._frequencies = self._rotations()
        self.room, self.length = room, 0

    def close(self):
        """Gives the file back; nothing can be computed any more."""
        self._map.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def reset(self):
        """Forgets what has been read: the next position is 0."""
        self.length = 0

    def forward(self, tokens):
        """The logits [vocabulary], float32, behind tokens [n] that follow those of earlier calls."""
        x = self.embed(tokens)
        if self.length + len(x) > self.room:
            raise InvalidError(f"{self.length + len(x)} positions; there is room for {self.room} (max_seq_len)")
        for index in range(len(self.model.layers)):
            if index + 1 < len(self.model.layers):
                self._advise(self._span(self.model.layers[index + 1]), mmap.MADV_WILLNEED)
            x = self.layer(index, x, self.length)
        self.length += len(x)
        return self.head(x[-1:])[0]

    def generate(self, tokens, count):
        """The `count` likeliest tokens, one after the other, behind `tokens`."""
        made = []
        while len(made) < count:
            tokens = [int(self.forward(tokens).argmax())]
            made += tokens
        return made

    # ---- parts ----

    def embed(self, tokens):
        """The vectors of tokens: integers [n] to float32 [n, width]."""
        tokens = np.asarray(tokens)
        if tokens.ndim != 1 or not tokens.size or tokens.dtype.kind not in "iu":
            raise InvalidError(f"tokens are a list of integers, at least one, not {tokens.dtype}{list(tokens.shape)}")
        if tokens.min() < 0 or tokens.max() >= self.model.vocabulary:
            raise InvalidError(f"tokens are {tokens.min()} to {tokens.max()}; the vocabulary has {self.model.vocabulary}")
        weight = self.model.whole["embedding"]
        rows = self._decoded(self._numbers(weight)[tokens], weight.encoding)
        self._release(weight.offset, weight.bytes)
        return rows

    def layer(self, index, x, position=0):
        """A layer's output for x [n, width] at positions from `position` on; the earlier ones have been computed."""
        model, n = self.model, len(x)
        weights = self._take(index)
        h = tensor_ops_hybrid.rms_norm(x, self._vector(weights["attention_norm"]), model.epsilon)
        q, k, v = (self._product(h, weights[name]).reshape(n, -1, model.head_width).swapaxes(0, 1) for name in "qkv")
        at = np.arange(position, position + n, dtype=np.int32)
        q, k = (kernels.rope(part, at, self._frequencies, theta=model.theta, interleaved=True) for part in (q, k))
        keys, values = self._remember(index, position, k, v)
        end = keys.shape[1]  # no row looks behind its own position
        groups = model.kv_heads, model.heads // model.kv_heads
        seen = (np.broadcast_to(part[:, None], (*groups, end, model.head_width)) for part in (keys, values))
        mask = np.broadcast_to(np.arange(end) <= at[:, None], (*groups, n, end))
        h = kernels.attention(q.reshape(*groups, n, model.head_width), *seen, mask)
        x = x + self._product(h.reshape(-1, n, model.head_width).swapaxes(0, 1).reshape(n, -1), weights["o"])
        h = tensor_ops_hybrid.rms_norm(x, self._vector(weights["ffn_norm"]), model.epsilon)
        h = getattr(tensor_ops_hybrid, model.activation)(self._product(h, weights["gate"])) * self._product(h, weights["up"])
        return x + self._product(h, weights["down"])

    def _remember(self, index, position, *made):
        """A layer's keys and values so far, with room behind them up to a multiple of STEP."""
        n = made[0].shape[1]
        end = -(-(position + n) // STEP) * STEP
        seen = self._seen[index]
        if seen[0].shape[1] < end:
            seen = [np.pad(part, ((0, 0), (0, end - part.shape[1]), (0, 0))) for part in seen]
            self._seen[index] = seen
        for part, new in zip(seen, made):
            part[:, position:position + n] = new
        return (part[:, :end] for part in seen)

    def head(self, x):
        """The logits [n, vocabulary] of the last layer's output [n, width]."""
        x = tensor_ops_hybrid.rms_norm(x, self._vector(self.model.whole["norm"]), self.model.epsilon)
        weight = self.model.whole["head"]
        rows = weight.shape[0]
        self._make_room()
        some = max(1, self._chunk * rows // weight.bytes)  # no more bytes at once than a layer has
        parts = []
        for first in range(0, rows, some):
            part = self._part(weight, first, min(some, rows - first))
            self._advise((part.offset, part.bytes), mmap.MADV_WILLNEED)
            parts.append(self._product(x, part))
            self._release(part.offset, part.bytes)
        return np.concatenate(parts, axis=-1)

    # ---- weights ----

    @staticmethod
    def _span(layer):
        """(offset, bytes) of a layer: in both formats its weights are neighbours."""
        first = min(weight.offset for weight in layer.values())
        return first, max(weight.offset + weight.bytes for weight in layer.values()) - first

    def _advise(self, span, advice):
        begin = span[0] // mmap.PAGESIZE * mmap.PAGESIZE
        self._map.madvise(advice, begin, span[0] + span[1] - begin)

    def _release(self, offset, size):
        """Gives the pages of a part of the file back, with what came in beside them."""
        begin = max(0, offset - AROUND)
        self._advise((begin, min(offset + size + AROUND, len(self._map)) - begin), mmap.MADV_DONTNEED)

    def _make_room(self):
        """For one more layer: pages of those that were used longest ago go."""
        while len(self._used) >= self._cache_size:
            gone, _ = self._used.popitem(last=False)
            self._release(*self._span(self.model.layers[gone]))

    def _take(self, index):
        """A layer's weights, which may have pages in memory from now on."""
        if index not in self._used:
            self._make_room()
            self._used[index] = None
            self._advise(self._span(self.model.layers[index]), mmap.MADV_WILLNEED)
        self._used.move_to_end(index)
        return self.model.layers[index]

    @staticmethod
    def _part(weight, first, count):
        each = weight.bytes // weight.shape[0]
        return model_files.Weight(weight.offset + first * each, count * each, weight.encoding, (count, *weight.shape[1:]))

    def _numbers(self, weight):
        """A weight in the file: numbers, or uint8 rows of blocks."""
        if weight.encoding in model_files.NUMBERS:
            kind = np.uint16 if weight.encoding == "bfloat16" else weight.encoding
            return np.frombuffer(self._map, kind, int(np.prod(weight.shape)), weight.offset).reshape(weight.shape)
        return np.frombuffer(self._map, np.uint8, weight.bytes, weight.offset).reshape(weight.shape[0], -1)

    def _vector(self, weight):
        return self._decoded(self._numbers(weight), weight.encoding).reshape(-1)

    @staticmethod
    def _decoded(numbers, encoding):
        """What _numbers gives as float32; a copy unless it is."""
        if encoding == "bfloat16":
            return (numbers.astype(np.uint32) << 16).view(np.float32)
        if encoding in model_files.NUMBERS:
            return numbers.astype(np.float32, copy=False)
        return kernels.dequantize(numbers, encoding)

    def _product(self, x, weight):
        """x [n, columns] times the transpose of a weight [rows, columns]."""
        if weight.encoding in model_files.NUMBERS:
            return kernels.matmul(x, self._decoded(self._numbers(weight), weight.encoding).T)
        return kernels.matmul_packed(x, self._numbers(weight), weight.encoding)

    def _rotations(self):
        """What each pair of a head turns by per position, or None: theta^(-2 i / head_width)."""
        if "frequencies" not in self.model.whole:
            return None
        pairs = np.arange(0, self.model.head_width, 2, dtype=np.float64)
        factors = self._vector(self.model.whole["frequencies"])
        return (self.model.theta ** (-pairs / self.model.head_width) / factors).astype(np.float32)

    def resident(self):
        """How many bytes of the file are in this process's memory, as the operating system counts (Linux)."""
        begin = np.frombuffer(self._map, np.uint8).ctypes.data
        with open("/proc/self/smaps", encoding="ascii") as lines:
            inside = False
            for line in lines:
                if "-" in line.split(" ", 1)[0]:
                    inside = int(line.split("-", 1)[0], 16) == begin
                elif inside and line.startswith("Rss:"):
                    return int(line.split()[1]) * 1024
        raise OSError(f"/proc/{os.getpid()}/smaps has no line of the file")
