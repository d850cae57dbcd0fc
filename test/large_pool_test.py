"""A step of a model of twelve layers in a pool of 64 workers inside this process: its plan is within what one
program may take of the hub, and the numbers are those of a single worker."""
import numpy as np

import shoal
from shoal import nn, optim

LAYERS, WIDTH, HEADS, LENGTH, ROWS = 12, 32, 2, 16, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.join = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.perceptron = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for part in self.attention(self.before(x)).chunk(3, -1))
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.join(seen.transpose(1, 2).flatten(2))
        return x + self.perceptron(self.between(x))


def step(workers):
    shoal.init(workers=workers, threads=1)
    shoal.manual_seed(1)
    rng = np.random.default_rng(1)
    x, y = (shoal.tensor(rng.standard_normal((ROWS, LENGTH, WIDTH)).astype(np.float32)).place(axis=0)
            for _ in range(2))
    model = nn.Sequential(*(Block() for _ in range(LAYERS)))
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    gradients = [p.grad for p in model.parameters()]
    optimizer.step()
    return loss.item(), [g.numpy() for g in gradients], [p.numpy() for p in model.parameters()]


def test_twelve_layers_on_64_workers():
    loss, gradients, weights = step(64)
    whole, expected, _ = step(1)
    assert abs(loss - whole) < 1e-5 * abs(whole)
    for gradient, must in zip(gradients, expected, strict=True):
        assert np.abs(gradient - must).max() <= 1e-4 * max(np.abs(must).max(), 1e-3)
    assert all(np.isfinite(w).all() for w in weights)
