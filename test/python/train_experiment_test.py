"""The experiment of `shoal train`: what is read, from where, and what is refused, by the errors' text."""
import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import shoal
from shoal.train import experiment as experiments
from shoal.train.experiment import KEYS, Experiment, read_file, read_words, resolve

PLACES = {"model_path": "gpt.mlir", "data_path": "text.txt"}
# An experiment as PCP's users have it: all of its keys that do not concern reinforcement learning.
PUBLISHED = PLACES | {
    "tokenizer": "char", "sampling": "random", "learning_rate": 0.0006, "tau": 10, "outer_loop_steps": 100,
    "nesterov_momentum": 0.9, "max_epochs": 10, "dtype": "f32", "effective_batch_size": None,
    "use_in_graph_accumulation": False, "wandb_project": "pcp-distributed", "wandb_entity": None, "wandb_run_name": "first",
    "wandb_api_key": "secret", "checkpoint_dir": "checkpoints", "should_resume": False,
    "chunk_size_mode": "auto", "chunk_manifest_path": "chunks.json", "chunk_shuffle": True, "seed": 7}


def written(tmp_path, values):
    path = tmp_path / "exp.json"
    path.write_text(values if isinstance(values, str) else json.dumps(values, indent=2))
    return str(path)


def error(function, *args):
    with pytest.raises((shoal.InvalidError, shoal.FormatError, shoal.NotFoundError)) as caught:
        function(*args)
    return str(caught.value)


def test_a_published_experiment(tmp_path):
    made, sources, notes = resolve(written(tmp_path, PUBLISHED))
    for name, value in PUBLISHED.items():
        if not name.startswith("chunk_"):
            assert getattr(made, name) == value, name
    assert isinstance(made.max_epochs, float)
    assert [note.partition(": ")[2] for note in notes] == [
        "chunk_size_mode has no effect: workers get sequences, not chunks",
        "chunk_manifest_path has no effect: workers get sequences, not chunks",
        "chunk_shuffle has no effect: workers get sequences, in the order that `sampling` says"]
    assert sources["tau"].endswith("exp.json:7") and sources["betas"] == "default"
    assert made.as_dict()["wandb_api_key"] == "(not shown)"


def test_what_counts_more(tmp_path):
    path = written(tmp_path, PLACES | {"tau": 10, "workers": 2, "seed": 3})
    made, sources, _ = resolve(path, ["tau=20", "workers=3", "tokenizer=u16", "betas=[0.8, 0.95]", "checkpoint_dir=null",
                                      "wandb_run_name=12", "outer_loop_steps=1e3"], {"workers": 4})
    assert (made.tau, made.workers, made.seed, made.tokenizer, made.betas) == (20, 4, 3, "u16", (0.8, 0.95))
    assert (made.checkpoint_dir, made.wandb_run_name, made.outer_loop_steps) == (None, "12", 1000)
    assert (sources["tau"], sources["workers"], sources["seed"].rpartition("/")[2], sources["dtype"]) == \
        ("command line", "option", "exp.json:6", "default")
    assert resolve(None, ["model_path=a.mlir", "data_path=b"])[0] == Experiment(model_path="a.mlir", data_path="b")


@pytest.mark.parametrize("text, message", [
    ('{"tau": 1,\n "taau": 2}', ":2: there is no key 'taau'; did you mean tau?"),
    ('{"lerning_rate": 1}', ":1: there is no key 'lerning_rate'; did you mean learning_rate?"),
    ('{"zzzzzz": 1}', ":1: there is no key 'zzzzzz'; `shoal train --keys` lists the keys"),
    ('{"tau": 1,\n\n"tau": 2}', ":3: tau is there twice; remove one"),
    ('{\n"grpo_config": {"tau": 1}}', ":2: grpo_config: reinforcement learning is no part of `shoal train`; remove this key"),
    ('{"tau": -1}', ":1: tau is -1; it must be a whole number from 1 to 16,777,216"),
    ('{"tau": 1.5}', ":1: tau is 1.5; it must be a whole number from 1 to 16,777,216"),
    ('{"tau": true}', ":1: tau is true; it must be a whole number from 1 to 16,777,216"),
    ('{"tau": null}', ":1: tau is null; it must be a whole number from 1 to 16,777,216"),
    ('{"learning_rate": 0}', ":1: learning_rate is 0; it must be a number above 0"),
    ('{"learning_rate": "3e-4"}', ':1: learning_rate is "3e-4"; it must be a number above 0'),
    ('{"learning_rate": NaN}', ":1: NaN is no number of JSON"),
    ('{"learning_rate": 1e999}', ":1: learning_rate is Infinity; it must be a number above 0"),
    ('{"quorum": 1.5}', ":1: quorum is 1.5; it must be a number above 0 and at most 1"),
    ('{"nesterov_momentum": 1}', ":1: nesterov_momentum is 1; it must be a number from 0 to below 1"),
    ('{"betas": [0.9, 1]}', ":1: betas is [0.9, 1]; it must be two numbers from 0 to below 1"),
    ('{"betas": [0.9]}', ":1: betas is [0.9]; it must be two numbers from 0 to below 1"),
    ('{"dtype": "f16"}', ':1: dtype is "f16"; it must be f32 or bf16; bf16 takes as little memory, and does not overflow'),
    ('{"sampling": "rand"}', ':1: sampling is "rand"; it must be random or fifo'),
    ('{"tokenizer": "chars"}', ':1: tokenizer is "chars"; it must be char, byte, u16, u32, npy, parquet[:COLUMN], or a file '
     "tokenizer.json or .gguf; did you mean char?"),
    ('{"model_path": ""}', ':1: model_path is ""; it must be printable text'),
    ('{"data_path": "a\\u0000b"}', ':1: data_path is "a\\u0000b"; it must be printable text'),
    ('{"should_resume": 1}', ":1: should_resume is 1; it must be true or false"),
    ('{"workers": 100000}', ":1: workers is 100000; it must be a whole number from 1 to 1,024"),
    ('{"effective_batch_size": 0}', ":1: effective_batch_size is 0; it must be a whole number from 1 to 16,777,216, or null"),
    ('{"outer_loop_steps": 0}', ":1: outer_loop_steps is 0; it must be a whole number of at least 1"),
    ('{"tau": 1', ':1: no JSON at column 10: expecting "," or "}"'),
    ('{"tau": }', ":1: no JSON at column 9: Expecting value"),
    ('{"tau": 1,}', ":1: no JSON at column 11: expecting a key in double quotes"),
    ("{tau: 1}", ':1: no JSON at column 2: expecting a key in double quotes, or "}"'),
    ("[1]", ":1: no JSON at column 1: expecting an object: {; a model is given as --model FILE, data as data_path=FILE"),
    ("", ":1: no JSON at column 1: expecting an object: {"),
    (f'{{"clip": {"9" * 400}}}', f":1: clip is {'9' * 77}...; it must be a number of at least 0"),
    ("{} x", ":1: no JSON at column 4: there is more after the object"),
    ('{"tau": ' + "[" * 100000, ":1: "),
])
def test_what_a_file_must_not_have(tmp_path, text, message):
    path = written(tmp_path, text)
    assert error(read_file, path).startswith(path + message)


def test_files_that_are_none(tmp_path):
    assert error(read_file, str(tmp_path / "none")).endswith("the experiment cannot be read: No such file or directory")
    (tmp_path / "exp.json").write_bytes(b'{"tau": "\xff"}')
    assert error(read_file, str(tmp_path / "exp.json")).endswith("byte 9 is not UTF-8")
    (tmp_path / "exp.json").write_bytes(b" " * (experiments.MOST_BYTES + 1))
    assert error(read_file, str(tmp_path / "exp.json")).endswith("an experiment is a short JSON file")
    (tmp_path / "exp.json").write_bytes(b"\xef\xbb\xbf{}")  # the mark that some editors write
    assert read_file(str(tmp_path / "exp.json")) == ({}, {}, [])


@settings(max_examples=300, deadline=None)
@given(some.data())
def test_no_text_does_harm(tmp_path_factory, draw):
    """Mutated experiments are read, or refused by an error of ours."""
    text = bytearray(json.dumps(PUBLISHED, indent=1).encode())
    for _ in range(draw.draw(some.integers(1, 4))):
        at = draw.draw(some.integers(0, len(text)))
        text[at:at + draw.draw(some.integers(0, 9))] = draw.draw(some.one_of(some.binary(max_size=6), some.sampled_from(
            [b'"', b"{", b"[", b"NaN", b"1e999", b"-", b"\\ud800", b"9" * 5000, b",", b":", b"null"])))
    path = tmp_path_factory.getbasetemp() / "mutated.json"
    path.write_bytes(text)
    try:
        resolve(str(path))
    except shoal.ShoalError as refused:
        assert str(refused).count("\n") == 0


@pytest.mark.parametrize("word, message", [
    ("tau", "the command line: 'tau' is neither the experiment's file nor KEY=VALUE"),
    ("tua=1", "the command line: there is no key 'tua'; did you mean tau?"),
    ("tau=many", 'the command line: tau is "many"; it must be a whole number from 1 to 16,777,216'),
    ("should_resume=yes", 'the command line: should_resume is "yes"; it must be true or false'),
    ("prompts=x", "the command line: prompts: reinforcement learning is no part of `shoal train`; remove this key"),
])
def test_wrong_words(word, message):
    assert error(read_words, [word]) == message


@pytest.mark.parametrize("values, message", [
    ({"should_resume": True}, "should_resume is true, and there is no checkpoint_dir to resume from: give checkpoint_dir"),
    ({"overlap": 100, "alpha": 0}, "overlap is 100, as long as tau, and alpha is 0: workers would keep nothing of their steps: make "
     "overlap less, or alpha above 0"),
    ({"overlap": 101}, "overlap is 101; between two exchanges there are tau / fragments = 100 steps: make overlap at most that"),
    ({"tau": 2, "fragments": 4}, "fragments is 4 and tau 2; there are as many steps between two exchanges of any: make tau a "
     "multiple of 4"),
    ({"min_lr_ratio": 2}, "min_lr_ratio is 2; it must be a number from 0 to 1"),
])
def test_keywords(values, message):
    assert error(lambda: Experiment(**PLACES, **values)) == message


def test_what_is_missing(tmp_path):
    assert error(resolve) == \
        'there is no model_path: write model_path=FILE or --model FILE, or "model_path" into the experiment\'s file'
    assert error(resolve, None, ["model_path=a"]) == \
        'there is no data_path: write data_path=FILE, or "data_path" into the experiment\'s file'


def test_every_key_is_told_and_checks_its_default():
    rows = {row[0]: row for row in experiments.keys()}
    assert list(rows) == list(KEYS)
    for name, kind, default, values, meaning in rows.values():
        assert kind and values and len(meaning) > 5, name
        if default:  # what is shown can be written
            assert getattr(Experiment(**PLACES, **read_words([f"{name}={default}"])), name) == KEYS[name].default
    with pytest.raises(dataclasses.FrozenInstanceError):
        Experiment(**PLACES).tau = 3
