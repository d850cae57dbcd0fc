"""GT2's configuration of signals: a YAML file, or calls."""
import os
import re
from dataclasses import dataclass

from shoal import signal as _signal


@dataclass
class ShardConfig:
    """How a signal cuts tensors: along an axis, between workers (None: all), or copied to each."""
    axis: int = 0
    workers: list | None = None
    replicated: bool = False


@dataclass
class SignalConfig:
    """What is said of a signal."""
    shard: ShardConfig | None = None
    backward_signal: str | None = None
    compile: bool = False


def load_config(path):
    """Reads a YAML file. FileNotFoundError without it; a mistake is named with line and column."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"gt.load_config: there is no file {path}")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    described = set(_signal.described())
    named = set(re.findall(r"^([\w.-]+):", text, re.M))
    for name in set(re.findall(r"^\s+backward:\s*([\w.-]+)", text, re.M)) - described - named:
        if name != "null":  # GT2 lets a backward signal be one that nobody describes
            _signal.describe(_signal.Signal(name, shard=False))
    _signal.load(path)


def register_config(name, config):
    """Describes a signal without a file."""
    shard = config.shard or ShardConfig()
    _signal.describe(_signal.Signal(
        name, config.shard is not None, shard.axis, shard.replicated, shard.workers, None,
        config.backward_signal, config.compile))


def get_config():
    """All signals, by name."""
    return {name: _config(s) for name, s in _signal.described().items()}


def get_signal_config(name):
    """One signal, or None."""
    return get_config().get(name)


def _config(s):
    shard = ShardConfig(s.axis, s.workers, s.replicated) if s.shard else None
    return SignalConfig(shard, s.backward, s.compile)


def workers_named():
    """How many workers the signals need: one more than the highest number that stands in them."""
    return max((max(s.workers) + 1 for s in _signal.described().values() if s.workers), default=1)
