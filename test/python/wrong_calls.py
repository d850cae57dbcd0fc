"""Calls with wrong arguments, made of torch and of Shoal: where torch raises, so does Shoal, an error of the same
class."""
import importlib

from peer import torch

import shoal


def raised(module, call):
    """What a call raises; of what is only recorded, when it is read."""
    name = module.__name__
    nn, optim = (importlib.import_module(f"{name}.{part}") for part in ("nn", "optim"))
    for part in ("distributions", "utils.data", "nn.utils.rnn", "optim.swa_utils"):
        importlib.import_module(f"{name}.{part}")
    x, i = module.arange(6.0).reshape(2, 3), module.arange(6).reshape(2, 3)
    names = {"torch": module, "nn": nn, "F": nn.functional, "optim": optim, "T": module.tensor, "x": x, "i": i,
             "b": i > 2, "e": module.zeros(0), "g": module.ones(2, 3, requires_grad=True)}
    try:
        _read(eval(call, names))
    except Exception as error:
        return error
    return None


def _read(value):
    if isinstance(value, (list, tuple)):
        for item in value:
            _read(item)
    elif hasattr(value, "detach") and hasattr(value, "tolist"):
        value.detach().tolist()


def said(call):
    """What Shoal says of a wrong call."""
    return str(raised(shoal, call))


def compare(calls):
    """Fails where torch raises an error in one of these lines and Shoal raises none, one of another class, or one that
    says nothing."""
    calls = [line.strip() for line in calls.strip().splitlines()]
    taken, differ = [], []
    for call in calls:
        theirs, ours = raised(torch, call), raised(shoal, call)
        if theirs is None:
            taken.append(call)
        elif not isinstance(ours, type(theirs)):
            differ.append(f"{call}: {ours!r}; torch raises {theirs!r}")
        elif not str(ours):
            differ.append(f"{call}: no message")
    assert not differ, "\n".join(differ)
    # Another version of torch may take some of these.
    assert len(taken) <= len(calls) // 10, f"torch takes {taken}"
