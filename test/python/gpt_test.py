"""The language model of examples/gpt.py, trained here and in PyTorch from the same start."""
import math
import pathlib
import sys

import numpy as np
import pytest
from peer import torch, torch_of

import shoal
from shoal import nn, optim

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
from gpt import GPT  # noqa: E402

T = torch.nn


class Block(T.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = T.LayerNorm(width), T.LayerNorm(width)
        self.attention, self.join = T.Linear(width, 3 * width), T.Linear(width, width)
        self.perceptron = T.Sequential(T.Linear(width, 4 * width), T.GELU(),
                                       T.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for p in self.attention(self.before(x)).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        seen = scores.masked_fill(hidden, -math.inf).softmax(-1) @ v
        x = x + self.join(seen.transpose(1, 2).flatten(2))
        return x + self.perceptron(self.between(x))


class Peer(T.Module):
    def __init__(self, vocabulary, length, width, layers, heads):
        super().__init__()
        self.characters, self.places = T.Embedding(vocabulary, width), T.Embedding(length, width)
        self.blocks = T.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = T.LayerNorm(width), T.Linear(width, vocabulary, bias=False)

    def forward(self, text):
        x = self.characters(text) + self.places.weight[:text.shape[1]]
        return self.head(self.norm(self.blocks(x)))


TEXT = np.frombuffer((pathlib.Path(__file__).resolve().parents[2] / "LICENSE").read_bytes()[:8000],
                     np.uint8) % 65
LENGTH, BATCH = 16, 4
OPTIMIZERS = {
    "sgd": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda o, p: o.Adam(p, lr=1e-3),
    "adamw": lambda o, p: o.AdamW(p, lr=1e-3, weight_decay=0.1),
}


def batches(count):
    for step in range(count):
        starts = np.random.default_rng(step).integers(0, len(TEXT) - LENGTH - 1, BATCH)
        windows = TEXT[starts[:, None] + np.arange(LENGTH + 1)].astype("int64")
        yield windows[:, :-1], windows[:, 1:]


def trained(optimizer, count, place=lambda t: t):
    """The losses of the model here; and its start."""
    shoal.manual_seed(2)
    model = GPT(65, LENGTH, 32, 2, 4)
    start = {k: v.numpy() for k, v in model.state_dict().items()}
    opt = OPTIMIZERS[optimizer](optim, model.parameters())
    losses = []
    for x, y in batches(count):
        logits = model(place(shoal.tensor(x)))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), place(shoal.tensor(y)).flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    return [loss.item() for loss in losses], start


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_hundred_steps(optimizer):
    losses, start = trained(optimizer, 100)
    peer = Peer(65, LENGTH, 32, 2, 4)
    peer.load_state_dict({k: torch_of(v) for k, v in start.items()})
    opt = OPTIMIZERS[optimizer](torch.optim, peer.parameters())
    for got, (x, y) in zip(losses, batches(100)):
        loss = torch.nn.functional.cross_entropy(peer(torch_of(x)).flatten(0, 1),
                                                 torch_of(y).flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        assert abs(got - loss.item()) < 1e-4
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("shares", [[1, 1], [3, 1], [1, 2, 1]])
def test_batches_divided_between_workers(shares):
    want, _ = trained("adamw", 12)
    shoal.init(workers=len(shares), threads=1)
    try:
        got, _ = trained("adamw", 12, lambda t: t.place(axis=0, shares=shares))
    finally:
        shoal.disconnect()
    np.testing.assert_allclose(got, want, atol=1e-4)
