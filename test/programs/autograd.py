"""Autograd: gradients by hand, of leaves and results, with and without a graph."""
import torch

losses = []
a = torch.tensor([2., 3.], requires_grad=True)
b = torch.tensor([6., 4.], requires_grad=True)
Q = 3 * a ** 3 - b ** 2
Q.backward(gradient=torch.tensor([1., 1.]))
losses += a.grad.tolist() + b.grad.tolist()
x = torch.ones(5)
w = torch.randn(5, 3, requires_grad=True)
bias = torch.randn(3, requires_grad=True)
z = torch.matmul(x, w) + bias
loss = torch.nn.functional.binary_cross_entropy_with_logits(z, torch.zeros(3))
loss.backward(retain_graph=True)
loss.backward()
losses += [loss.item()] + w.grad.flatten().tolist() + bias.grad.tolist()
with torch.no_grad():
    assert not (torch.matmul(x, w) + bias).requires_grad
assert not z.detach().requires_grad
c = torch.tensor(1.5, requires_grad=True)
first, = torch.autograd.grad(c.sin() * c, c, create_graph=True)
second, = torch.autograd.grad(first, c)
losses += [first.item(), second.item()]
h = a * 2
h.retain_grad()
seen = []
h.register_hook(lambda g: seen.append(g.sum().item()))
a.grad.zero_()
(h ** 2).sum().backward()
losses += seen + h.grad.tolist() + a.grad.tolist()
