"""A peer of gpt.py: PyTorch, eager or compiled where it can compile, with the threads it is fastest with.

    gpt_torch.py -|cuda STEPS [gpt2]

At the size of GPT-2, and on an NVIDIA device (`cuda`), it is eager, with two threads. Run by an interpreter that has torch.
"""
import sys

import gpt
import torch
import torch_forms
from torch import nn
from torch.nn import functional

DEVICE = "cuda" if sys.argv[1] == "cuda" else "cpu"


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before = nn.LayerNorm(gpt.WIDTH)
        self.attention = nn.Linear(gpt.WIDTH, 3 * gpt.WIDTH)
        self.join = nn.Linear(gpt.WIDTH, gpt.WIDTH)
        self.between = nn.LayerNorm(gpt.WIDTH)
        self.perceptron = nn.Sequential(nn.Linear(gpt.WIDTH, 4 * gpt.WIDTH), nn.GELU(),
                                        nn.Linear(4 * gpt.WIDTH, gpt.WIDTH))
        self.register_buffer("hidden", torch.ones(gpt.LENGTH, gpt.LENGTH).triu(1).bool(), persistent=False)

    def attend(self, q, k, v):
        if hasattr(functional, "scaled_dot_product_attention"):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = (q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5)
        return scores.masked_fill(self.hidden, float("-inf")).softmax(-1) @ v

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (gpt.HEADS, -1)).transpose(1, 2)
                   for part in self.attention(self.before(x)).chunk(3, -1))
        x = x + self.join(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return x + self.perceptron(self.between(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.characters = nn.Embedding(gpt.VOCABULARY, gpt.WIDTH)
        self.places = nn.Embedding(gpt.LENGTH, gpt.WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(gpt.LAYERS)))
        self.norm = nn.LayerNorm(gpt.WIDTH)
        self.head = nn.Linear(gpt.WIDTH, gpt.VOCABULARY, bias=False)

    def forward(self, text):
        x = self.characters(text) + self.places.weight[:text.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def training(compiled):
    """A step of training from the start; returns its loss."""
    model, feed = GPT().to(DEVICE), gpt.batches()
    model.load_state_dict({name: torch.frombuffer(start, dtype=torch.float32).view(start.shape)
                           for name, start in gpt.weights().items()})
    fused = {"fused": True} if hasattr(torch, "compile") else {}  # the faster one, where it is there
    optimizer = torch.optim.AdamW(model.parameters(), lr=gpt.RATE, betas=gpt.BETAS, eps=gpt.EPSILON,
                                  weight_decay=gpt.DECAY, **fused)

    def loss_of(x, y):
        return functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    if compiled:
        loss_of = torch.compile(loss_of)

    def step():
        x, y = (torch.frombuffer(part, dtype=torch.int64).view(part.shape).to(DEVICE) for part in next(feed))
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss
    return step


def main():
    plain = gpt.LARGE or DEVICE == "cuda"
    step, form = torch_forms.given(training, False, 2) if plain else torch_forms.fastest(training)
    gpt.serve(step, lambda loss: loss.item(), lambda: form)


if __name__ == "__main__":
    main()
