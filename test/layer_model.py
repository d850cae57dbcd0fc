"""A tiny model of the Llama family: its weights, files of both formats that hold them, and what it computes, in NumPy."""
import struct

import gguf
import numpy as np

NUMBERS = {"width": 64, "hidden": 96, "layers": 3, "heads": 4, "kv_heads": 2, "head_width": 16, "vocabulary": 100,
           "context": 256, "theta": 10000.0, "epsilon": 1e-5}
# In the order of a .m.
NAMES = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate", "down": "ffn_down",
         "up": "ffn_up", "attention_norm": "attn_norm", "ffn_norm": "ffn_norm"}
KINDS = {"float32": gguf.GGMLQuantizationType.F32, "float16": gguf.GGMLQuantizationType.F16,
         "q4_0": gguf.GGMLQuantizationType.Q4_0, "q8_0": gguf.GGMLQuantizationType.Q8_0,
         "bfloat16": gguf.GGMLQuantizationType.BF16}


def tiny(numbers=None):
    """(numbers, {name: float32}): of a layer "2.q", of the whole "embedding"."""
    n, rng = NUMBERS | (numbers or {}), np.random.default_rng(0)
    shapes = {"q": (n["heads"] * n["head_width"], n["width"]), "k": (n["kv_heads"] * n["head_width"], n["width"]),
              "o": (n["width"], n["heads"] * n["head_width"]), "gate": (n["hidden"], n["width"]),
              "down": (n["width"], n["hidden"])}
    shapes |= {"v": shapes["k"], "up": shapes["gate"], "attention_norm": (n["width"],), "ffn_norm": (n["width"],)}

    def made(shape):
        return (rng.standard_normal(shape) / (shape[-1] ** 0.5 if len(shape) > 1 else 3) + (len(shape) == 1)).astype("f4")
    weights = {"embedding": made((n["vocabulary"], n["width"]))}
    for i in range(n["layers"]):
        weights |= {f"{i}.{name}": made(shapes[name]) for name in NAMES}
    return n, weights | {"norm": made((n["width"],)), "head": made((n["vocabulary"], n["width"]))}


def stored(values, kind):
    """Bytes as gguf's own package makes them."""
    return gguf.quants.quantize(values, KINDS[kind])


def rounded(model, kind, whole=None):
    """The model with its matrices as they are once stored; `whole`: how the embedding is."""
    numbers, weights = model
    kinds = {name: "float32" if w.ndim == 1 else (whole or kind) if name == "embedding" else kind for name, w in weights.items()}
    return numbers, {name: gguf.quants.dequantize(stored(w, kinds[name]), KINDS[kinds[name]]).reshape(w.shape)
                     for name, w in weights.items()}


def write_m(path, model, kind, **changed):
    """distributed-llama's format; changed: numbers of the header."""
    n, weights = model
    header = {0: 0, 1: 0xABCD00, 2: n["width"], 3: n["hidden"], 4: n["layers"], 5: n["heads"], 6: n["kv_heads"], 7: 0, 8: 0,
              9: n["vocabulary"], 10: n["context"], 11: 1, 12: int(n["theta"]),
              13: ["float32", "float16", "q4_0", "q8_0"].index(kind), 19: n["head_width"], 20: 5}
    header |= {int(key[1:]): value for key, value in changed.items()}
    order = ["embedding", *(f"{i}.{name}" for i in range(n["layers"]) for name in NAMES), "norm", "head"]
    with open(path, "wb") as file:
        file.write(struct.pack("<Ii", 0xA00ABCD, 8 + 8 * len(header)))
        for entry in header.items():
            file.write(struct.pack("<ii", *entry))
        for name in order:
            plain = name == "embedding" or name.endswith("norm")
            file.write(stored(weights[name], "float32" if plain else kind).tobytes())


def write_gguf(path, model, kind, tied=False, architecture="llama", more=(), words=None):
    n, weights = model
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_block_count(n["layers"])
    writer.add_context_length(n["context"])
    writer.add_embedding_length(n["width"])
    writer.add_feed_forward_length(n["hidden"])
    writer.add_head_count(n["heads"])
    writer.add_head_count_kv(n["kv_heads"])
    writer.add_layer_norm_rms_eps(n["epsilon"])
    writer.add_rope_freq_base(n["theta"])
    if words:
        writer.add_token_list(words)
    names = {"embedding": "token_embd", "norm": "output_norm"} | ({} if tied else {"head": "output"})
    names |= {f"{i}.{ours}": f"blk.{i}.{theirs}" for i in range(n["layers"]) for ours, theirs in NAMES.items()}
    for ours, theirs in names.items():
        form = "float32" if weights[ours].ndim == 1 else kind
        writer.add_tensor(f"{theirs}.weight", stored(weights[ours], form), raw_dtype=KINDS[form])
    for name, values in more:
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def forward(model, tokens, factors=1.0):
    """[the output of each layer [n, width]], the logits [n, vocabulary]: plain NumPy."""
    n, weights = model
    x, outputs, count, d = weights["embedding"][tokens], [], len(tokens), n["head_width"]
    angles = np.arange(count)[:, None] * (n["theta"] ** (-np.arange(0, d, 2) / d) / factors)
    turn = np.exp(1j * angles)[:, None]

    def norm(x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + n["epsilon"]) * weight

    def rotate(x):
        pairs = (x[..., ::2] + 1j * x[..., 1::2]) * turn
        return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)
    for i in range(n["layers"]):
        w = {name: weights[f"{i}.{name}"] for name in NAMES}
        h = norm(x, w["attention_norm"])
        q, k, v = ((h @ w[name].T).reshape(count, -1, d) for name in "qkv")
        q, k = rotate(q), rotate(k)
        k, v = (np.repeat(part, n["heads"] // n["kv_heads"], 1) for part in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(d)
        scores = np.where(np.tri(count, dtype=bool), scores, -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        x = x + np.einsum("hij,jhd->ihd", shares, v).reshape(count, -1) @ w["o"].T
        h = norm(x, w["ffn_norm"])
        gate = h @ w["gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w["up"].T)) @ w["down"].T
        outputs.append(x)
    return outputs, norm(x, weights["norm"]) @ weights["head"].T
