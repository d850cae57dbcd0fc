"""A third-order polynomial fitted to a sine, gradients by hand and by autograd."""
import math

import torch

dtype, device = torch.float, torch.device("cpu")
x = torch.linspace(-math.pi, math.pi, 200, device=device, dtype=dtype)
y = torch.sin(x)
a, b, c, d = (torch.randn((), device=device, dtype=dtype) for _ in range(4))
losses, rate = [], 1e-6
for t in range(40):
    pred = a + b * x + c * x ** 2 + d * x ** 3
    loss = (pred - y).pow(2).sum().item()
    losses.append(loss)
    grad = 2.0 * (pred - y)
    a -= rate * grad.sum()
    b -= rate * (grad * x).sum()
    c -= rate * (grad * x ** 2).sum()
    d -= rate * (grad * x ** 3).sum()
weights = [torch.randn((), requires_grad=True) for _ in range(4)]
for t in range(40):
    pred = sum(w * x ** i for i, w in enumerate(weights))
    loss = (pred - y).pow(2).sum()
    losses.append(loss.item())
    loss.backward()
    with torch.no_grad():
        for w in weights:
            w -= rate * w.grad
            w.grad = None
