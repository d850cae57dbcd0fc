"""Models of the Llama family in files: .gguf, and distributed-llama's .m. Where each weight lies; nothing is loaded.

Everything in a file is from outside: what does not fit raises shoal.FormatError, and what is valid but not computed
here (other architectures, experts, scaled rotations) shoal.UnsupportedError, a NotImplementedError.
"""
import math
import os
import struct
from dataclasses import dataclass, field

import shoal

# Weights of each layer: names in a .gguf, and whether they are vectors, always float32 in a .m. The order is that of .m.
LAYER = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate", "down": "ffn_down",
         "up": "ffn_up", "attention_norm": "attn_norm", "ffn_norm": "ffn_norm"}
WHOLE = {"embedding": "token_embd", "norm": "output_norm", "head": "output"}
NUMBERS = {"float32": 4, "float16": 2, "bfloat16": 2}  # bytes of what is stored as it is

MAGIC, OLD_MAGIC = 0xA00ABCD, (0xABCD00, 0xABCD01)
KEYS = ["version", "architecture", "width", "hidden", "layers", "heads", "kv_heads", "experts", "active_experts",
        "vocabulary", "context", "activation", "theta", "weights", "scaling", "scaling_low", "scaling_high", "scaling_context",
        "rope", "head_width", "epsilon", "experts_hidden"]
TYPES = ["float32", "float16", "q4_0", "q8_0"]  # by their numbers in a .m


@dataclass(frozen=True)
class Weight:
    """A tensor in the file: rows by columns, or a vector."""
    offset: int
    bytes: int
    encoding: str  # "float32", …, or a name of shoal.block_formats
    shape: tuple[int, ...]


@dataclass
class Model:
    """A model's numbers, and where its weights lie: `whole` by name, `layers` each by name."""
    width: int
    hidden: int
    heads: int
    kv_heads: int
    head_width: int
    vocabulary: int
    context: int
    theta: float
    epsilon: float
    activation: str = "silu"
    whole: dict[str, Weight] = field(default_factory=dict)
    layers: list[dict[str, Weight]] = field(default_factory=list)

    def shape(self, name):
        """The shape of a weight by its name."""
        q, kv = self.heads * self.head_width, self.kv_heads * self.head_width
        return {"q": (q, self.width), "k": (kv, self.width), "v": (kv, self.width), "o": (self.width, q),
                "gate": (self.hidden, self.width), "up": (self.hidden, self.width), "down": (self.width, self.hidden),
                "embedding": (self.vocabulary, self.width), "head": (self.vocabulary, self.width),
                "frequencies": (self.head_width // 2,)}.get(name, (self.width,))

    def check(self, path):
        """Raises FormatError where the numbers do not fit each other."""
        for name in ("width", "hidden", "heads", "kv_heads", "head_width", "vocabulary", "context"):
            if not 0 < getattr(self, name) < 2**31:
                raise shoal.FormatError(f"{path}: {name} is {getattr(self, name)}")
        if self.heads % self.kv_heads or self.head_width % 2 or not (0 < self.theta < math.inf and 0 < self.epsilon < 1):
            raise shoal.FormatError(f"{path}: {self.heads} heads, {self.kv_heads} of keys, of width {self.head_width}, theta "
                                    f"{self.theta} and epsilon {self.epsilon} do not fit each other")


def read(path):
    """The Model of a file, told by its first bytes."""
    path = os.fspath(path)
    with open(path, "rb") as file:
        start = file.read(8)
    if len(start) == 8 and int.from_bytes(start[:4], "little") in (MAGIC, *OLD_MAGIC):
        return _read_m(path)
    if start[:4] != b"GGUF":
        raise shoal.FormatError(f"{path}: neither a .gguf nor a .m of distributed-llama")
    if int.from_bytes(start[4:], "little") > 0xffff:
        raise shoal.UnsupportedError(f"{path}: the bytes of its numbers are in another machine's order")
    return _read_gguf(path)


def _read_gguf(path):
    file = shoal.File(path)

    def fact(key, kind, default=None):
        try:
            return kind(file.meta(key))
        except shoal.NotFoundError:
            if default is None:
                raise shoal.FormatError(f"{path}: it says nothing of {key}") from None
            return default
        except ValueError as error:
            raise shoal.FormatError(f"{path}: {key}: {error}") from error
    kind = fact("general.architecture", str)
    if kind != "llama" or fact("llama.expert_count", int, 0) or fact("llama.rope.scaling.type", str, "none") != "none":
        raise shoal.UnsupportedError(f"{path}: architecture {kind}, {fact(f'{kind}.expert_count', int, 0)} experts, rotations "
                                     f"scaled by {fact(f'{kind}.rope.scaling.type', str, 'none')}; llama without these is computed")
    width, heads = fact("llama.embedding_length", int), fact("llama.attention.head_count", int)
    described = {name: (shape, encoding) for name, shape, _, encoding in file.tensors()}
    places = {name: place for name, *place in file._places()}
    head_width = fact("llama.attention.key_length", int, width // max(heads, 1))
    model = Model(width, fact("llama.feed_forward_length", int), heads, fact("llama.attention.head_count_kv", int, heads),
                  head_width, (described.get("token_embd.weight", ((), ""))[0] or (0,))[0],
                  fact("llama.context_length", int), fact("llama.rope.freq_base", float, 10000.0),
                  fact("llama.attention.layer_norm_rms_epsilon", float))
    model.check(path)
    if fact("llama.rope.dimension_count", int, head_width) != head_width:
        raise shoal.UnsupportedError(f"{path}: only a part of each head is rotated")

    def weight(stored, name):
        if stored not in described:
            raise shoal.FormatError(f"{path}: there is no tensor {stored}")
        (shape, encoding), (offset, size) = described.pop(stored), places[stored]
        if shape != model.shape(name):
            raise shoal.FormatError(f"{path}: {stored} is {list(shape)}, not {list(model.shape(name))}")
        if encoding not in NUMBERS and encoding not in shoal.block_formats:
            raise shoal.UnsupportedError(f"{path}: {stored} is stored as {encoding}")
        return Weight(offset, size, encoding, shape)
    for name, stored in WHOLE.items():
        if name != "head" or f"{stored}.weight" in described:
            model.whole[name] = weight(f"{stored}.weight", name)
    model.whole.setdefault("head", model.whole["embedding"])  # tied
    if "rope_freqs.weight" in described:
        model.whole["frequencies"] = weight("rope_freqs.weight", "frequencies")
    for i in range(fact("llama.block_count", int)):
        model.layers.append({name: weight(f"blk.{i}.{stored}.weight", name) for name, stored in LAYER.items()})
    if not model.layers:
        raise shoal.FormatError(f"{path}: a model of no layers")
    if described:
        raise shoal.UnsupportedError(f"{path}: there is a tensor {next(iter(described))}, which is not computed with")
    return model


def _read_m(path):
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        start = file.read(4096)
    magic, length = struct.unpack_from("<Ii", start)
    if magic in OLD_MAGIC:
        raise shoal.UnsupportedError(f"{path}: a .m from before its header had keys; convert the model again")
    if not 8 < length <= len(start) or length % 8:
        raise shoal.FormatError(f"{path}: a header of {length} bytes")
    given = {"rope": 0, "theta": 10000, "activation": 1, "epsilon": 5, "experts": 0, "head_width": 0, "scaling": 1}
    for key, value in struct.iter_unpack("<ii", start[8:length]):
        if not 0 <= key < len(KEYS):
            raise shoal.FormatError(f"{path}: unknown key {key} in the header")
        given[KEYS[key]] = value
    missing = {"architecture", "width", "hidden", "layers", "heads", "kv_heads", "vocabulary", "context", "weights"} - set(given)
    if missing:
        raise shoal.FormatError(f"{path}: the header does not say {', '.join(sorted(missing))}")
    if given["architecture"] != 0xABCD00 or given["experts"] or given["rope"]:
        raise shoal.UnsupportedError(f"{path}: architecture {given['architecture']:#x}, {given['experts']} experts, rotations of "
                                     f"kind {given['rope']}; llama ({0xABCD00:#x}, 0, 0) is computed")
    if given["weights"] not in range(len(TYPES)) or given["activation"] not in (0, 1) or given["epsilon"] not in (5, 6):
        raise shoal.FormatError(f"{path}: weights of type {given['weights']}, activation {given['activation']}, "
                                f"epsilon {given['epsilon']}")
    model = Model(given["width"], given["hidden"], given["heads"], given["kv_heads"],
                  given["head_width"] or given["width"] // max(given["heads"], 1), given["vocabulary"], given["context"],
                  float(given["theta"]), 10.0 ** -given["epsilon"], ["gelu", "silu"][given["activation"]])
    model.check(path)
    place = length

    def weight(name, encoding):
        nonlocal place
        shape, values, each = model.shape(name), 1, NUMBERS.get(encoding)
        if each is None:
            values, each, _ = shoal.block_formats[encoding]
        if shape[-1] % values:
            raise shoal.FormatError(f"{path}: rows of {shape[-1]} numbers in blocks of {values}")
        made = Weight(place, int(shape[0] * (shape[1] if len(shape) > 1 else 1)) // values * each, encoding, shape)
        place += made.bytes
        return made

    def layer():
        return {name: weight(name, "float32" if name.endswith("norm") else TYPES[given["weights"]]) for name in LAYER}
    model.whole["embedding"] = weight("embedding", "float32")
    begin = place
    layer()
    each, place = place - begin, begin
    rest = model.whole["embedding"].bytes // model.vocabulary  # of the norm behind the layers
    head = weight("head", TYPES[given["weights"]]).bytes
    if not 0 < given["layers"] or begin + given["layers"] * each + rest + head != size:
        raise shoal.FormatError(f"{path}: {size} bytes; {given['layers']} layers of {each} bytes and the rest are "
                                f"{begin + given['layers'] * each + rest + head}")
    place = begin
    model.layers = [layer() for _ in range(given["layers"])]
    model.whole["norm"] = weight("norm", "float32")
    model.whole["head"] = weight("head", TYPES[given["weights"]])
    return model
