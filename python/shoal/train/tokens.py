"""Data as tokens: one long row of whole numbers, mapped from files or from a cache of what has been encoded.

`open_tokens` reads bytes, characters, streams of u16 or u32, .npy shards, columns of Parquet files, and text by the tokenizer of
a tokenizer.json or of a .gguf. A folder stands for the files in it, in the order of their names. What has to be encoded is
encoded once: the cache is addressed by the contents of the files and of the tokenizer, and written whole or not at all.
"""
import codecs
import functools
import hashlib
import importlib
import json
import os
import pathlib
import sys
import tempfile
import time

import numpy as np

from .. import _shoal
from ..errors import FormatError, InvalidError, IOFailedError, NotFoundError, UnsupportedError
from ..files import _cache_folder

_PIECE = 1 << 20  # bytes of text that are encoded at once
_BATCH = 8  # pieces that a tokenizer gets, which it divides among threads
_SCAN = 1 << 22  # tokens that are looked at, at once
_STALE = 3600  # seconds after which a draft that nobody writes to is a dead process's
_MOST_ID = (1 << 31) - 1


class Progress:
    """A line about what takes longer than a second, on standard error; on a terminal it is overwritten."""

    def __init__(self, what, total, stream=None):
        self.what, self.total, self.stream = what, total, stream or sys.stderr
        self.started = self.told = time.monotonic()
        self.done, self.shown = 0, False

    def add(self, bytes_done):
        """So much more has been done."""
        self.done += bytes_done
        now = time.monotonic()
        terminal = self.stream.isatty()
        if now - self.started < 1 or now - self.told < (0.1 if terminal else 10):
            return
        self.told, self.shown = now, True
        part = min(1.0, self.done / max(self.total, 1))
        bar = "#" * int(20 * part) + "." * (20 - int(20 * part))
        left = (now - self.started) * (1 - part) / max(part, 1e-9)
        self._write(f"{self.what} {bar} {part:4.0%}, {left:.0f} s left", "\r" if terminal else "\n")

    def end(self):
        """It is done."""
        if self.shown:
            self._write(f"{self.what}: {time.monotonic() - self.started:.1f} s", "\n")

    def _write(self, text, end):
        self.stream.write(f"\r{text:<78}{end}" if self.stream.isatty() else f"{text}\n")
        self.stream.flush()


class Tokens:
    """A row of tokens in one or several arrays: `len`, `read`. vocabulary: one more than the largest token there may be;
    characters: what the tokens of `char` stand for, else None."""

    def __init__(self, parts, vocabulary, tokenizer, path, characters=None):
        self.parts = [part for part in parts if len(part)]
        self.vocabulary, self.tokenizer, self.path, self.characters = vocabulary, tokenizer, path, characters
        self._ends = np.cumsum([len(part) for part in self.parts], dtype=np.int64)

    def __len__(self):
        return int(self._ends[-1]) if self.parts else 0

    @functools.cached_property
    def largest(self):
        """The largest token that occurs, which reads all of them."""
        return _checked_range(self.parts, self.path) - 1

    def read(self, start, out):
        """Fills a row with the tokens from `start` on."""
        at, i = 0, int(np.searchsorted(self._ends, start, "right"))
        while at < len(out):
            begin = start + at - (int(self._ends[i - 1]) if i else 0)
            piece = self.parts[i][begin:begin + len(out) - at]
            out[at:at + len(piece)] = piece
            at, i = at + len(piece), i + 1

    def state(self):
        """What a checkpoint keeps of them: by what they were made, and by what they are told from others."""
        return {"tokenizer": os.path.basename(self.tokenizer), "count": len(self), "vocabulary": self.vocabulary,
                "digest": self._digest, "characters": self.characters}

    def check(self, state):
        """InvalidError unless these are the tokens that a checkpoint was made with."""
        mine = self.state()
        for name, what in (("tokenizer", "the tokenizer"), ("characters", "the characters of the vocabulary"),
                           ("count", "the number of tokens"), ("vocabulary", "the size of the vocabulary"),
                           ("digest", "the tokens")):
            if state.get(name) != mine[name]:
                was, now = ("", "") if name in ("digest", "characters") else (f" {state.get(name)}", f" {mine[name]}")
                raise InvalidError(f"data_path {self.path}: {what} of the checkpoint{was or ' differ from these'}"
                                   + (f", here{now}" if now else "")
                                   + "; go on with the same data, or begin anew in another checkpoint_dir")

    @functools.cached_property
    def _digest(self):
        """Of their number and of samples, so that it costs no reading of the whole."""
        told = hashlib.blake2b(digest_size=16)
        count, row = len(self), np.empty(min(1024, len(self)), np.int64)
        for start in np.linspace(0, count - len(row), 64).astype(np.int64) if count else ():
            self.read(int(start), row)
            told.update(row.tobytes())
        return told.hexdigest()


def open_tokens(path, tokenizer="byte", cache=None):
    """The `Tokens` of a file or folder. cache: the folder where encoded data are kept; None: the user's cache folder."""
    path = os.fspath(path)
    files = _files(path, tokenizer)
    cache = pathlib.Path(cache) if cache else _cache_folder("tokens")
    parquet = files[0].endswith(".parquet")
    if tokenizer in ("u16", "u32") and not parquet:
        return _stream(files, tokenizer, path)
    if tokenizer == "npy":
        return _shards(files, path)
    if tokenizer == "byte" and not parquet:
        return Tokens([_mapped(file, np.uint8) for file in files], 256, tokenizer, path)
    if parquet or tokenizer.startswith("parquet"):
        return _of_parquet(files, tokenizer, cache, path)
    return _encoded(_Text(path, files, lambda: _text_of(files)), tokenizer, cache)


def _files(path, tokenizer):
    """The files of a path: itself, or those of the folder in the order of their names."""
    ending = {"npy": ".npy", "parquet": ".parquet"}.get(tokenizer.partition(":")[0], "")
    if os.path.isdir(path):
        found = sorted(entry.path for entry in os.scandir(path)
                       if entry.is_file() and not entry.name.startswith(".") and entry.name.endswith(ending))
        if not found:
            raise NotFoundError(f"data_path {path}: the folder has no files{' ' + ending if ending else ''}")
        return found
    if not os.path.isfile(path):
        raise NotFoundError(f"data_path {path}: there is no such file or folder")
    if ending and not path.endswith(ending):
        raise InvalidError(f"data_path {path}: the tokenizer {tokenizer} reads files {ending}, or a folder of such")
    return [path]


# ---- what is tokens already ----

def _mapped(path, dtype):
    size, item = os.path.getsize(path), np.dtype(dtype).itemsize
    if size % item:
        raise FormatError(f"{path}: {size} bytes are no whole number of tokens of {item} bytes; is the tokenizer right?")
    return np.memmap(path, dtype, "r") if size else np.empty(0, dtype)


def _checked_range(parts, path):
    """One more than the largest of them. Raises FormatError if one is negative or too large."""
    least, most = 0, -1
    progress = Progress(f"{path}: looking for the largest token", sum(part.nbytes for part in parts))
    for part in parts:
        for at in range(0, len(part), _SCAN):
            piece = part[at:at + _SCAN]
            least, most = min(least, int(piece.min())), max(most, int(piece.max()))
            progress.add(piece.nbytes)
    progress.end()
    if least < 0 or most > _MOST_ID:
        raise FormatError(f"data_path {path}: there is a token {least if least < 0 else most}; tokens are from 0 to {_MOST_ID}")
    return most + 1


def _stream(files, tokenizer, path):
    parts = [_mapped(file, "<u2" if tokenizer == "u16" else "<u4") for file in files]
    return Tokens(parts, _checked_range(parts, path), tokenizer, path)


def _shards(files, path):
    parts = []
    for file in files:
        try:
            array = np.lib.format.open_memmap(file, mode="r")
        except Exception as error:  # of the header: whatever NumPy makes of numbers that are none
            raise FormatError(f"{file}: no .npy of tokens: {error}") from None
        if array.dtype.kind not in "iu" or not array.flags.c_contiguous:
            raise FormatError(f"{file}: {array.dtype} in {'C' if array.flags.c_contiguous else 'Fortran'} order; tokens are "
                              "whole numbers in C order")
        parts.append(array.reshape(-1))
    return Tokens(parts, _checked_range(parts, path), "npy", path)


# ---- the cache ----

def _digest_of(files, *more):
    """Of the contents of files, and of texts."""
    told = hashlib.blake2b(digest_size=20)
    progress = Progress("looking whether the data are in the cache", sum(map(os.path.getsize, files)))
    for file in files:
        told.update(_shoal.file_digest(file))
        progress.add(os.path.getsize(file))
    progress.end()
    for text in more:
        told.update(b"\0" + text.encode())
    return told.hexdigest()


def _cached(folder, name, make):
    """(tokens, facts) that `make` gives once: it calls a function with each array of tokens, and returns the facts, of which
    "dtype" is theirs. The facts are written last, so that what has them is complete."""
    told, kept = folder / f"{name}.json", folder / f"{name}.tokens"
    try:
        facts = json.loads(told.read_text())
        if _are_facts(facts) and os.path.getsize(kept) == facts["bytes"]:
            return _mapped(kept, facts["dtype"]), facts
    except (OSError, ValueError, RecursionError):
        pass  # there is none, or it is not complete
    drafts = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(f"{name}.*"):
            if old not in (told, kept) and time.time() - old.stat().st_mtime > _STALE:
                old.unlink(missing_ok=True)  # of a process that was killed
        handle, draft = tempfile.mkstemp(dir=folder, prefix=f"{name}.")
        drafts.append(draft)
        with open(handle, "wb") as file:
            facts = make(file.write)
            facts["bytes"] = file.tell()
            file.flush()
            os.fsync(file.fileno())
        os.replace(drafts.pop(), kept)
        handle, draft = tempfile.mkstemp(dir=folder, prefix=f"{name}.")
        drafts.append(draft)
        with open(handle, "w") as file:
            json.dump(facts, file)
        os.replace(drafts.pop(), told)
    except OSError as error:
        raise IOFailedError(f"{folder}: the encoded data cannot be written there: {error.strerror}") from None
    finally:
        for draft in drafts:
            os.unlink(draft)
    return _mapped(kept, facts["dtype"]), facts


def _are_facts(facts):
    """Whether they can be what was written beside tokens: the folder may be anybody's, and with another dtype the file would be
    taken for anything, also for addresses in memory."""
    if not isinstance(facts, dict) or facts.get("dtype") not in ("<u1", "<u2", "<u4") or type(facts.get("bytes")) is not int:
        return False
    vocabulary, characters = facts.get("vocabulary"), facts.get("characters", "")
    return type(vocabulary) is int and 0 <= vocabulary <= _MOST_ID + 1 and isinstance(characters, str)


def _smallest(vocabulary):
    return "<u1" if vocabulary <= 1 << 8 else "<u2" if vocabulary <= 1 << 16 else "<u4"


# ---- text ----

class _Text:
    """A text: pieces() gives (text, bytes that it took) of each piece; column: what of the files it is, for the cache."""

    def __init__(self, path, files, pieces, column=""):
        self.path, self.files, self.pieces, self.column = path, files, pieces, column
        self.size = sum(map(os.path.getsize, files))


def _text_of(files):
    """(text, bytes that it took) of the files, in pieces."""
    for file in files:
        decoder, at = codecs.getincrementaldecoder("utf-8")(), 0
        with open(file, "rb") as opened:
            while True:
                data, before = opened.read(_PIECE), len(decoder.getstate()[0])
                try:
                    text = decoder.decode(data, not data)
                except UnicodeDecodeError as error:
                    raise FormatError(f"{file}: no UTF-8 at byte {at - before + error.start}; the tokenizer byte reads any "
                                      "file") from None
                at += len(data)
                if text or data:
                    yield text, len(data)
                if not data:
                    break


def _in_lines(pieces):
    """The same text in pieces that end with a line behind which no space follows: tokenizers make no token over such an
    end, so that it does not matter to them."""
    kept = ""
    for text, size in pieces:
        kept += text
        at = kept.rfind("\n", 0, len(kept) - 1)
        while at >= 0 and kept[at + 1].isspace():
            at = kept.rfind("\n", 0, at)
        if at < 0 and len(kept) > 16 * _PIECE:
            at = len(kept) - 1
        yield kept[:at + 1], size
        kept = kept[at + 1:]
    yield kept, 0


def _encoded(text, tokenizer, cache):
    """The tokens of a text by a tokenizer, from the cache or into it."""
    makers = {"char": _by_characters, "byte": _by_bytes}
    of_file = tokenizer not in makers
    if of_file and not os.path.isfile(tokenizer):
        raise NotFoundError(f"tokenizer {tokenizer}: there is no such file")
    name = _digest_of([*text.files, *([tokenizer] if of_file else [])], "all pieces" if of_file else tokenizer, text.column)
    tokens, facts = _cached(cache, name, lambda write: makers.get(tokenizer, _by_tokenizer)(text, tokenizer, write))
    return Tokens([tokens], facts["vocabulary"], tokenizer, text.path, facts.get("characters"))


def _by_bytes(text, tokenizer, write):
    for piece, _ in text.pieces():
        write(piece.encode())
    return {"dtype": "<u1", "vocabulary": 256}


def _by_characters(text, tokenizer, write):
    """Tokens are the characters that there are, in their order; all that differ are known once it has been read."""
    seen = np.zeros(0x110000, bool)
    progress = Progress(f"{text.path}: characters to tokens", 2 * text.size)
    for piece, done in text.pieces():
        seen[np.frombuffer(piece.encode("utf-32-le"), "<u4")] = True
        progress.add(done)
    codes = np.flatnonzero(seen)
    if not len(codes):
        raise InvalidError(f"data_path {text.path}: there is no text")
    dtype = _smallest(len(codes))
    token_of = np.zeros(0x110000, dtype)
    token_of[codes] = np.arange(len(codes))
    for piece, done in text.pieces():
        write(token_of[np.frombuffer(piece.encode("utf-32-le"), "<u4")].tobytes())
        progress.add(done)
    progress.end()
    return {"dtype": dtype, "vocabulary": len(codes), "characters": "".join(map(chr, codes))}


def _by_tokenizer(text, tokenizer, write):
    encoder = read_tokenizer(tokenizer)
    encoder.no_truncation()  # which files have that were made for short texts: the rest of each piece would be missing
    encoder.no_padding()
    vocabulary = max(encoder.get_vocab(with_added_tokens=True).values(), default=0) + 1
    if vocabulary > _MOST_ID + 1:
        raise FormatError(f"tokenizer {tokenizer}: it has a token {vocabulary - 1}; tokens are from 0 to {_MOST_ID}")
    dtype, pieces = _smallest(vocabulary), []
    progress = Progress(f"{text.path}: text to tokens", text.size)

    def encode():
        for encoding in encoder.encode_batch(pieces, add_special_tokens=False):
            write(np.array(encoding.ids, dtype).tobytes())
        pieces.clear()
    for piece, done in _in_lines(text.pieces()):
        pieces.append(piece)
        if len(pieces) == _BATCH:
            encode()
        progress.add(done)
    encode()
    progress.end()
    return {"dtype": dtype, "vocabulary": vocabulary}


# ---- tokenizers of files ----

def _package(name, needed_by):
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UnsupportedError(f"{needed_by} needs the package {name}: pip install {name}") from None


def read_tokenizer(path):
    """The `tokenizers.Tokenizer` of a tokenizer.json or of a .gguf's vocabulary."""
    tokenizers = _package("tokenizers", f"tokenizer {path}")
    if path.endswith(".gguf"):
        return _of_gguf(path)
    try:
        return tokenizers.Tokenizer.from_file(path)
    except Exception as error:  # of that package: it has no class of its own
        raise FormatError(f"tokenizer {path}: no tokenizer.json: {str(error)[:200]}") from None


# How the vocabularies of models divide text before it becomes tokens, by the name that a .gguf has for it.
_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
_SPLITS = {"gpt-2": None, "default": None, "smollm": "digits", "llama-bpe": _WORDS.replace("DIGITS", "{1,3}"),
           "qwen2": _WORDS.replace("DIGITS", "")}


def _of_gguf(path):
    from .. import File
    facts = File(path).metadata()
    kind, words = facts.get("tokenizer.ggml.model"), facts.get("tokenizer.ggml.tokens")
    if not words:
        raise FormatError(f"tokenizer {path}: this .gguf has no vocabulary (tokenizer.ggml.tokens)")
    vocabulary = {word: i for i, word in enumerate(words)}
    if kind == "gpt2":
        return _byte_level(path, vocabulary, facts)
    if kind == "llama":
        return _sentence_piece(words, vocabulary, facts)
    raise UnsupportedError(f"tokenizer {path}: its vocabulary is of the kind '{kind}'; gpt2 and llama can be used")


def _byte_level(path, vocabulary, facts):
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    split = facts.get("tokenizer.ggml.pre", "default")
    if split not in _SPLITS:
        raise UnsupportedError(f"tokenizer {path}: it divides text as '{split}' does; {', '.join(_SPLITS)} are known")
    merges = [tuple(merge.split(" ", 1)) for merge in facts.get("tokenizer.ggml.merges", [])]
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    rule = _SPLITS[split]
    before = [] if rule is None else [pre_tokenizers.Digits(individual_digits=True)] if rule == "digits" else [
        pre_tokenizers.Split(Regex(rule), "isolated")]
    plain = rule is None or rule == "digits"
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [*before, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=plain)])
    made.decoder = decoders.ByteLevel()
    return made


def _sentence_piece(words, vocabulary, facts):
    """Of scores: what joins to the better word is joined first (SentencePiece's BPE)."""
    from tokenizers import Tokenizer, decoders, models, normalizers
    scores = facts.get("tokenizer.ggml.scores") or [0.0] * len(words)
    merges = [(-scores[i], i, word[:at], word[at:]) for i, word in enumerate(words) for at in range(1, len(word))
              if word[:at] in vocabulary and word[at:] in vocabulary]
    unknown = words[facts.get("tokenizer.ggml.unknown_token_id", 0)]
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[(a, b) for _, _, a, b in sorted(merges)], unk_token=unknown,
                                fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return made


# ---- Parquet ----

def _of_parquet(files, tokenizer, cache, path):
    """A column: whole numbers and lists of them are tokens; texts go on to the tokenizer (parquet: to bytes), with a line feed
    behind each."""
    _package("pyarrow", f"data_path {path}")
    import pyarrow.parquet
    kind, _, wanted = tokenizer.partition(":") if tokenizer.startswith("parquet") else (tokenizer, "", "")
    column, held = _column(files, wanted)

    def rows():
        for file in files:
            batches = pyarrow.parquet.ParquetFile(file).iter_batches(columns=[column])
            while True:
                try:
                    batch = next(batches, None)
                except Exception as error:  # of that package: several, of no common class
                    raise FormatError(f"{file}: the Parquet file is damaged: {str(error)[:200]}") from None
                if batch is None:
                    break
                yield batch.column(0)
    if pyarrow.types.is_string(held) or pyarrow.types.is_large_string(held):
        def pieces():
            for row in rows():
                yield "".join(f"{text}\n" for text in row.to_pylist() if text is not None), row.nbytes
        return _encoded(_Text(path, files, pieces, column), "byte" if kind == "parquet" else kind, cache)
    listed = pyarrow.types.is_list(held) or pyarrow.types.is_large_list(held)
    if not pyarrow.types.is_integer(held.value_type if listed else held) or kind != "parquet":
        raise InvalidError(f"data_path {path}: the column {column} is {held}; text, whole numbers and lists of whole numbers can "
                           "be used, numbers with tokenizer=parquet:COLUMN")

    def numbers(write):
        progress, vocabulary = Progress(f"{path}: reading tokens", sum(map(os.path.getsize, files))), 0
        for row in rows():
            ids = (row.flatten() if listed else row).drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
            vocabulary = max(vocabulary, _checked_range([ids], path) if len(ids) else 0)
            write(ids.astype("<u4").tobytes())
            progress.add(row.nbytes)
        progress.end()
        return {"dtype": "<u4", "vocabulary": vocabulary}
    tokens, facts = _cached(cache, _digest_of(files, "parquet", column), numbers)
    return Tokens([tokens], facts["vocabulary"], tokenizer, path)


def _column(files, wanted):
    """(name, type) of the column that is meant, which all files have to have."""
    import pyarrow.parquet
    schemas = []
    for file in files:
        try:
            schemas.append(pyarrow.parquet.read_schema(file))
        except Exception as error:  # of that package: several, of no common class
            raise FormatError(f"{file}: no Parquet file: {str(error)[:200]}") from None
    names = schemas[0].names
    column = wanted or (names[0] if len(names) == 1 else next((n for n in ("text", "tokens", "input_ids") if n in names), None))
    for file, schema in zip(files, schemas, strict=True):
        if column not in schema.names:
            raise InvalidError(f"{file}: {f'there is no column {column}' if column else 'which column?'}; it has "
                               f"{', '.join(schema.names[:20])}: write tokenizer=parquet:COLUMN")
        if schema.field(column).type != schemas[0].field(column).type:
            raise InvalidError(f"{file}: the column {column} is {schema.field(column).type}, in {files[0]} "
                               f"{schemas[0].field(column).type}; it has to be the same in all")
    return column, schemas[0].field(column).type
