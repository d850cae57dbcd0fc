"""Logistic regression on two clouds, with accuracy, weight decay and a learning rate that falls."""
import torch
import torch.nn.functional as F

n = 100
X = torch.cat([torch.randn(n, 2) + 2, torch.randn(n, 2) - 2])
y = torch.cat([torch.zeros(n), torch.ones(n)])
w = torch.zeros(2, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([{"params": [w], "weight_decay": 0.01}, {"params": [b], "lr": 0.5}], lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)
losses = []
for step in range(40):
    logits = X @ w + b
    loss = F.binary_cross_entropy_with_logits(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    accuracy = ((torch.sigmoid(logits) > 0.5) == y.bool()).float().mean()
    losses += [loss.item(), accuracy.item(), scheduler.get_last_lr()[0]]
