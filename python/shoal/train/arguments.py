"""The words of `shoal train`: options in both spellings that PCP has had, KEY=VALUE, and the experiment's file.

What a word of PCP cannot mean here is an error that says what to do instead. The command's own help is in cmd/train.c, which
lists the same options (test/python/train_command_test.py compares them).
"""
import argparse
import difflib
import re

from ..errors import InvalidError
from . import metrics
from .experiment import KEYS


class UsageError(InvalidError):
    """Wrong words; the command ends with 2."""


# Options that take a value, and such that take none.
VALUES = ("config", "model", "workers", "hub", "host", "port", "connect", "backend", "device-id", "amd-target", "target", "metrics",
          "log", "name")
FLAGS = ("shepherd", "worker", "resume", "streaming", "dry-run", "keys", "no-dashboard", "json", "terminate", "help")
# PCP's other options, and what to do instead.
_ANSWERS = "`shoal train` answers no requests: --metrics=PORT serves its state"
REFUSED = {
    "node-manager": "a worker lends all devices of its machine: run `shoal worker --daemon` there",
    "scale": "a worker lends all devices of its machine; run it once",
    "supervise": "let systemd restart it, as doc/deploy.md shows, with --resume",
    "supervisor-id": "let systemd restart it, as doc/deploy.md shows, with --resume",
    "rl": "reinforcement learning is no part of `shoal train`",
    "inference": "`shoal train` trains; the checkpoints are .safetensors, which any program reads",
    "inference-config": "`shoal train` trains; the checkpoints are .safetensors, which any program reads",
    "gateway": _ANSWERS, "gateway-config": _ANSWERS, "gateway-host": _ANSWERS, "gateway-port": _ANSWERS,
    "global-controller": _ANSWERS, "api-host": _ANSWERS, "api-port": _ANSWERS, "api-token-env": _ANSWERS,
    "control-host": _ANSWERS, "control-port": _ANSWERS,
}
# What belongs to one of the two roles alone.
_OF_WORKERS = ("connect", "backend", "device_id", "amd_target", "target", "name")
_OF_SHEPHERDS = ("config", "model", "workers", "hub", "host", "port", "resume", "streaming", "dry_run", "metrics", "no_dashboard",
                 "words")


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        match = re.fullmatch(r"argument (--[\w-]+): (.*)", message)
        if match and "expected one argument" in match[2]:
            raise UsageError(f"option '{match[1]}' requires an argument")
        raise UsageError(message)


def parse(argv):
    """What the words say, as attributes by the options' names. Raises UsageError."""
    argv = list(argv)
    for i, word in enumerate(argv):
        name = word.partition("=")[0].removeprefix("--")
        if word == "--metrics":
            argv[i] = f"--metrics={metrics.DEFAULT}"
        if word.startswith("--") and name in REFUSED and argv[i:i + 2] != ["--scale", "1"] and word != "--scale=1":
            raise UsageError(f"--{name}: {REFUSED[name]}")
    parser = _Parser(add_help=False, allow_abbrev=False)
    for name in (*VALUES, "scale"):
        parser.add_argument(*(["-H"] if name == "hub" else ["-n"] if name == "name" else []), f"--{name}")
    for name in FLAGS:
        parser.add_argument(*(["-h"] if name == "help" else []), f"--{name}", action="store_true")
    end = argv.index("--") if "--" in argv else len(argv)
    told, rest = parser.parse_known_args(argv[:end])
    told.words = [word for word in rest if not word.startswith("-")] + argv[end + 1:]
    unknown = [word for word in rest if word.startswith("-")]
    if unknown:
        name = unknown[0].partition("=")[0]
        near = difflib.get_close_matches(name, [f"--{n}" for n in (*VALUES, *FLAGS)], 1)
        raise UsageError(f"unrecognized option '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""))
    _check(told)
    return told


def _check(told):
    told.worker = told.worker or told.connect is not None
    if told.worker and told.shepherd:
        raise UsageError("--worker and --shepherd: a process is one of the two; --connect makes it a worker")
    for name in _OF_SHEPHERDS if told.worker else _OF_WORKERS:
        value = getattr(told, name)
        if value not in (None, False, []):
            shown = f"'{value[0]}'" if name == "words" else f"--{name.replace('_', '-')}"
            raise UsageError(f"{shown}: a worker takes no experiment; the shepherd has it" if told.worker and name == "words" else
                             f"{shown}: only a {'shepherd' if told.worker else 'worker'} takes it"
                             + ("" if told.worker else "; start one with --worker"))
    told.port = _whole("--port", told.port, 0, 65535)
    told.workers = _whole("--workers", told.workers, 1, KEYS["workers"].metadata["most"])
    told.device_id = _whole("--device-id", told.device_id, 0, 1023)
    if told.metrics is not None:
        try:
            metrics.read_address(told.metrics)
        except InvalidError as error:
            raise UsageError(str(error)) from None
    if told.hub is not None and (told.shepherd or told.host is not None or told.port is not None):
        raise UsageError("--hub and --shepherd: train on the pool of a hub that runs, or start one; give one of them")
    told.config, told.words = _config(told)


def _config(told):
    """(the experiment's file or None, words KEY=VALUE)."""
    words = list(told.words)
    if words and "=" not in words[0]:
        if re.fullmatch(r"[\d.:]+", words[0]):
            raise UsageError(f"'{words[0]}' is neither a file nor KEY=VALUE; the address of metrics is given as --metrics={words[0]}")
        if told.config is not None:
            raise UsageError(f"--config {told.config} and '{words[0]}': there is one file of the experiment")
        return words[0], words[1:]
    return told.config, words


def _whole(name, text, least, most):
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,9}", text) or not least <= int(text) <= most:
        raise UsageError(f"{name} '{text}': must be a whole number from {least} to {most}")
    return int(text)
