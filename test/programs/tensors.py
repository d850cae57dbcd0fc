"""Tensors: making, joining, indexing, arithmetic, changing in place."""
import torch

losses = []
x = torch.tensor([[1, 2], [3, 4]])
ones, noise = torch.ones_like(x), torch.rand_like(x, dtype=torch.float)
print(f"Shape of tensor: {x.shape}, datatype of tensor: {x.dtype}, stored on: {x.device}")
tensor = torch.ones(4, 4)
tensor[:, 1] = 0
t1 = torch.cat([tensor, tensor, tensor], dim=1)
y1 = tensor @ tensor.T
y2 = tensor.matmul(tensor.T)
y3 = torch.rand_like(y1)
torch.matmul(tensor, tensor.T, out=y3)
z1 = tensor * tensor
losses += [t1.sum().item(), (y1 - y2).abs().max().item(), (y3 - y1).sum().item(), z1.mean().item()]
tensor.add_(5)
losses.append(tensor.sum().item())
a = torch.arange(12, dtype=torch.float32).view(3, 4)
a[0] = -1
a[1, 2:] *= 10
a.t()[3].zero_()
a.view(-1)[::5] += 0.5
b = a.clone()
b[b < 0] = 7
values, indices = a.max(dim=1)
losses += a.flatten().tolist() + b.flatten().tolist() + values.tolist() + indices.tolist()
losses += [a.std().item(), a.var(dim=0).sum().item(), a.median().item(), float(a.argmax()), a.norm().item()]
losses += torch.linspace(0, 1, steps=5).tolist() + torch.full((2,), fill_value=3.0).tolist()
losses += torch.where(a > 1, a, torch.zeros_like(a)).sum(0).tolist() + noise.flatten().tolist()
losses += torch.stack(torch.chunk(a, 2, dim=1)).sum((0, 2)).tolist() + a.squeeze(0).unsqueeze(-1)[1].flatten().tolist()
losses += [a.size(0), a.size()[1], a.numel(), a.dim(), len(a), int(ones.sum())]
