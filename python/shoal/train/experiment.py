"""What is trained, and how: the keys of an experiment, from a JSON file, from words KEY=VALUE, or as keywords.

The fields of `Experiment` are the only list of the keys: type, default, range and meaning of each. What reads, checks, lists
and prints them is made of these fields. Where a key is one of PCP's, it has PCP's name and meaning.
"""
import difflib
import json
import math
import os
import sys
import types
import typing
from dataclasses import MISSING, asdict, dataclass, field, fields

from ..errors import FormatError, InvalidError, NotFoundError

MOST_BYTES = 1 << 20  # of a file: what is longer is no experiment


def _key(default, meaning, least=None, most=None, above=None, below=None, of=None, rule=None):
    """A field: its meaning, and which values it may have: bounds, one of a few words, or a rule, which is a function that
    says what is wrong with a value, and words that say what is right."""
    return field(default=default, metadata={"meaning": meaning, "least": least, "most": most, "above": above,
                                            "below": below, "of": of, "rule": rule})


def _tokenizer_rule(value):
    words = ("char", "byte", "u16", "u32", "npy", "parquet")
    if value in words or value.startswith("parquet:") and len(value) > 8 or value.endswith((".json", ".gguf")):
        return None
    near = difflib.get_close_matches(value, words, 1)
    return f"did you mean {near[0]}?" if near else ""


_TOKENIZER = (_tokenizer_rule, "char, byte, u16, u32, npy, parquet[:COLUMN], or a file tokenizer.json or .gguf")
_PAIR = (lambda pair: None if all(0 <= b < 1 for b in pair) else "", "two numbers from 0 to below 1")
_MANY = 1 << 40


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment; raises InvalidError for a value out of its range. The keys are in `keys()`, with what they mean."""
    model_path: str = _key(MISSING, "the model: StableHLO of the loss, as a function of parameters and a batch")
    data_path: str = _key(MISSING, "the data: a file, or a folder of shards")
    tokenizer: str = _key("byte", "how the data become tokens", rule=_TOKENIZER)
    sampling: str = _key("random", "the order of sequences within an epoch", of=("random", "fifo"))
    learning_rate: float = _key(3e-4, "of the inner optimizer, at its peak", above=0)
    tau: int = _key(100, "inner steps of a worker between two exchanges; 1: synchronous", 1, 1 << 24)
    outer_loop_steps: int = _key(100, "rounds after which training ends, in each of which all parameters are exchanged", 1, _MANY)
    max_epochs: float = _key(1.0, "passes over the data after which training ends", above=0, most=1_000_000)
    outer_learning_rate: float = _key(0.7, "of the outer optimizer", above=0)
    nesterov_momentum: float = _key(0.9, "of the outer optimizer", 0, below=1)
    dtype: str = _key("f32", "what is computed with; bf16 keeps the parameters in f32", of=("f32", "bf16"))
    effective_batch_size: int | None = _key(
        None, "sequences of an inner step, a multiple of the model's own batch; none: that batch", 1, 1 << 24)
    use_in_graph_accumulation: bool = _key(
        True, "whether gradients accumulate in the worker's program; they always do, so that both values mean the same")
    betas: tuple[float, float] = _key((0.9, 0.999), "of AdamW", rule=_PAIR)
    eps: float = _key(1e-8, "of AdamW", above=0)
    variance_weight: float = _key(
        1.0, "of AdamW: how much of the gradients' variance shortens its steps; 1: all, as AdamW has it", above=0, most=1)
    weight_decay: float = _key(0.01, "of AdamW", 0)
    clip: float = _key(1.0, "largest norm of the gradients of all parameters; 0: any", 0)
    schedule: str = _key("constant", "of the inner learning rate, over all rounds", of=("constant", "cosine", "linear"))
    warmup_steps: int = _key(0, "inner steps in which the learning rate rises to its peak", 0, _MANY)
    min_lr_ratio: float = _key(0.1, "where cosine and linear end, as a part of the peak", 0, 1)
    compression: str = _key("none", "of what workers send and get; error feedback keeps what it loses",
                            of=("none", "bf16", "int8", "int4"))
    fragments: int = _key(1, "parts of the parameters, which are exchanged in turn, and all of them after the last steps", 1, 1024)
    overlap: int = _key(0, "inner steps for which a worker goes on while a fragment is on its way", 0, 1 << 24)
    alpha: float = _key(0.5, "with overlap: the part that it keeps of its own where a fragment arrives", 0, below=1)
    quorum: float = _key(0.5, "part of the workers without which a round does not end", above=0, most=1)
    deadline: float = _key(60.0, "seconds that a round waits for the others once the first worker is done", above=0, most=86400)
    balance: str = _key("steps", "whether workers that are slower take fewer inner steps", of=("equal", "steps"))
    seed: int = _key(0, "of parameters and of the order of the data", 0, (1 << 63) - 1)
    workers: int = _key(1, "workers to train on, and to wait for at the start", 1, 1024)
    checkpoint_dir: str | None = _key(None, "the folder of checkpoints; none: there are no checkpoints")
    checkpoint_every: int = _key(1, "rounds between two checkpoints", 1, _MANY)
    checkpoint_keep: int = _key(3, "checkpoints that are kept, counted from the newest", 1, _MANY)
    checkpoint_keep_every: int = _key(0, "keep also those of rounds that are a multiple of this; 0: none", 0, _MANY)
    should_resume: bool = _key(False, "go on from the newest checkpoint, if there is one")
    log_dir: str | None = _key(None, "the folder of run.jsonl and loss.png; none: nothing is logged")
    plot_every: int = _key(50, "rounds between two drawings of loss.png", 1, _MANY)
    wandb_project: str | None = _key(None, "log for this project of Weights & Biases, offline; none: do not")
    wandb_entity: str | None = _key(None, "owner of that project")
    wandb_run_name: str | None = _key(None, "name of the run there")
    wandb_api_key: str | None = _key(None, "not used: the log is offline, and `wandb sync` asks for its key itself")

    def __post_init__(self):
        for key in fields(self):
            value = getattr(self, key.name)
            object.__setattr__(self, key.name, _checked(key, value, ""))
        _check_together(self)

    def as_dict(self):
        """All keys with their values, as JSON has them; a secret is not among them."""
        return asdict(self) | {"betas": list(self.betas), "wandb_api_key": _hidden(self.wandb_api_key)}


KEYS = {key.name: key for key in fields(Experiment)}
# Keys of published configurations that say nothing here, and why; and those of what is not here.
NOTED = {
    "chunk_size_mode": "workers get sequences, not chunks",
    "chunk_manifest_path": "workers get sequences, not chunks",
    "chunk_shuffle": "workers get sequences, in the order that `sampling` says",
}
REFUSED = {name: "reinforcement learning is no part of `shoal train`; remove this key"
           for name in ("grpo_config", "rollout_config", "prompts")}
PATHS = ("model_path", "data_path")


def _hidden(secret):
    return None if secret is None else "(not shown)"


# ---- the checks ----

def _kind(key):
    """(type, whether it may be none) of a key."""
    if isinstance(key.type, types.UnionType):
        kinds = [kind for kind in typing.get_args(key.type) if kind is not type(None)]
        return kinds[0], True
    return typing.get_origin(key.type) or key.type, False


def type_of(key):
    """The type of a key in words."""
    kind, optional = _kind(key)
    name = {str: "text", int: "whole number", float: "number", bool: "true or false", tuple: "two numbers"}[kind]
    return name + (" or null" if optional else "")


def range_of(key):
    """The values that a key may have, in words."""
    rules = key.metadata
    if rules["rule"]:
        return rules["rule"][1]
    if rules["of"]:
        return ", ".join(rules["of"][:-1]) + " or " + rules["of"][-1]
    kind, optional = _kind(key)
    words = {str: "printable text", bool: "true or false", int: "a whole number", float: "a number"}[kind]
    least, most, above, below = (rules[name] for name in ("least", "most", "above", "below"))
    if most is None or most >= _MANY:  # so many that it is no limit to anybody
        end = "" if below is None else f"to below {below}"
    else:
        end = f"to {most:,}" if above is None else f"and at most {most:,}"
    if least is not None:
        words += f" from {least} {end}" if end else f" of at least {least}"
    elif above is not None:
        words += f" above {above} {end}".rstrip()
    return words + (", or null" if optional else "")


def _shown(value):
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, (str, int, float, bool, list, dict, type(None))) \
        else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _wrong(where, key, value, more=""):
    if key.name == "dtype" and value == "f16":
        more = "bf16 takes as little memory, and does not overflow"
    start = f"{where}: " if where else ""
    return InvalidError(f"{start}{key.name} is {_shown(value)}; it must be {range_of(key)}" + (f"; {more}" if more else ""))


def _as_kind(kind, value):
    """A value as one of a type, or None where it is of another."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is float and number and abs(value) <= sys.float_info.max:  # whole numbers may be larger
        return float(value)
    if kind is int and number and (isinstance(value, int) or math.isfinite(value) and value == int(value)):
        return int(value)
    if kind is tuple and isinstance(value, (list, tuple)) and len(value) == 2:
        pair = tuple(_as_kind(float, one) for one in value)
        return None if None in pair else pair
    if kind is str and isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        return text if text and text.isprintable() else None  # what else there may be is no path, and no name
    return value if kind is bool and isinstance(value, bool) else None


def _checked(key, value, where):
    """A value as the key has it; InvalidError if it is of another type, or out of its range."""
    kind, optional = _kind(key)
    if value is None and optional:
        return None
    made, rules = _as_kind(kind, value), key.metadata
    if made is None:
        raise _wrong(where, key, value)
    if rules["rule"]:
        more = rules["rule"][0](made)
        if more is not None:
            raise _wrong(where, key, value, more)
    out = (rules["of"] and made not in rules["of"] or rules["least"] is not None and made < rules["least"]
           or rules["most"] is not None and made > rules["most"] or rules["above"] is not None and made <= rules["above"]
           or rules["below"] is not None and made >= rules["below"])
    if out:
        raise _wrong(where, key, value)
    return made


def _check_together(e):
    """What no key can say alone."""
    if e.should_resume and e.checkpoint_dir is None:
        raise InvalidError("should_resume is true, and there is no checkpoint_dir to resume from: give checkpoint_dir")
    if e.tau % e.fragments:
        raise InvalidError(f"fragments is {e.fragments} and tau {e.tau}; there are as many steps between two exchanges of any: make tau "
                           f"a multiple of {e.fragments}")
    if e.overlap > e.tau // e.fragments:
        raise InvalidError(f"overlap is {e.overlap}; between two exchanges there are tau / fragments = {e.tau // e.fragments} steps: make "
                           "overlap at most that")
    if e.overlap == e.tau and not e.alpha:
        raise InvalidError(f"overlap is {e.overlap}, as long as tau, and alpha is 0: workers would keep nothing of their steps: make overlap "
                           "less, or alpha above 0")


def _unknown(name, where):
    near = difflib.get_close_matches(name, [*KEYS, *NOTED, *REFUSED], 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else "`shoal train --keys` lists the keys"
    return InvalidError(f"{where}: there is no key '{name[:80]}'; {hint}")


# ---- files and words ----

def _members(text, path):
    """(key, value, line) of each member of the object that a JSON text is. Raises FormatError."""
    def refuse(word):
        raise ValueError(f"{word} is no number of JSON")
    decoder = json.JSONDecoder(parse_constant=refuse)
    at = 0

    def skip(wanted, what):
        nonlocal at
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
        if at == len(text) or text[at] not in wanted:
            raise json.JSONDecodeError(f"expecting {what}", text, at)
        at += 1
        return text[at - 1]
    try:
        skip("{", "an object: {")
        mark = skip('"}', 'a key in double quotes, or "}"')
        while mark != "}":
            line = text.count("\n", 0, at) + 1
            name, at = decoder.raw_decode(text, at - 1)
            skip(":", '":"')
            while text[at:at + 1].isspace():
                at += 1
            value, at = decoder.raw_decode(text, at)
            yield name, value, line
            mark = skip(",}", '"," or "}"')
            if mark == ",":
                skip('"', "a key in double quotes")
        if text[at:].strip():
            raise json.JSONDecodeError("there is more after the object", text, len(text) - len(text[at:].lstrip()))
    except json.JSONDecodeError as error:
        hint = "; a model is given as --model FILE, data as data_path=FILE" if not text.lstrip().startswith("{") else ""
        raise FormatError(f"{path}:{error.lineno}: no JSON at column {error.colno}: {error.msg}{hint}") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}:{text.count(chr(10), 0, at) + 1}: {error or 'nested too deeply'}") from None


def read_file(path):
    """({key: value}, {key: "FILE:LINE"}, [notes]) of a JSON file. Raises NotFoundError, FormatError and InvalidError."""
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise NotFoundError(f"{path}: the experiment cannot be read: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise FormatError(f"{path}: over {MOST_BYTES:,} bytes; an experiment is a short JSON file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: byte {error.start} is not UTF-8") from None
    values, sources, notes = {}, {}, []
    for name, value, line in _members(text, path):
        where = f"{path}:{line}"
        if name in values:
            raise InvalidError(f"{where}: {name} is there twice; remove one")
        if name in REFUSED:
            raise InvalidError(f"{where}: {name}: {REFUSED[name]}")
        if name in NOTED:
            notes.append(f"{where}: {name} has no effect: {NOTED[name]}")
            continue
        if name not in KEYS:
            raise _unknown(name, where)
        values[name], sources[name] = _checked(KEYS[name], value, where), where
    return values, sources, notes


def read_words(words):
    """{key: value} of words KEY=VALUE. A value is JSON, or text as it stands. Raises InvalidError."""
    values = {}
    for word in words:
        name, sign, text = word.partition("=")
        where = "the command line"
        if not sign:
            raise InvalidError(f"{where}: '{word}' is neither the experiment's file nor KEY=VALUE")
        if name in REFUSED:
            raise InvalidError(f"{where}: {name}: {REFUSED[name]}")
        if name not in KEYS:
            raise _unknown(name, where)
        if name in values:
            raise InvalidError(f"{where}: {name} is there twice; remove one")
        value = text
        if _kind(KEYS[name])[0] is not str or text == "null":
            try:
                value = json.loads(text)
            except ValueError:
                value = text
        values[name] = _checked(KEYS[name], value, where)
    return values


def resolve(path=None, words=(), options=None):
    """(experiment, {key: where its value comes from}, [notes]): of a file, words KEY=VALUE, which count more, and a dict of
    values that options of the command gave, which count most."""
    values, sources, notes = read_file(path) if path else ({}, {}, [])
    for given, where in (read_words(words), "command line"), (options or {}, "option"):
        for name, value in given.items():
            values[name], sources[name] = value, where
    for name in PATHS:
        if name not in values:
            option = " or --model FILE" if name == "model_path" else ""
            raise InvalidError(f"there is no {name}: write {name}=FILE{option}, or \"{name}\" into the experiment's file")
    return Experiment(**values), {name: sources.get(name, "default") for name in KEYS}, notes


def keys():
    """(name, type, default, range, meaning) of each key, as text."""
    for key in KEYS.values():
        default = list(key.default) if isinstance(key.default, tuple) else key.default
        default = "" if default is MISSING else default if isinstance(default, str) else _shown(default)
        yield key.name, type_of(key), default, range_of(key), key.metadata["meaning"]
