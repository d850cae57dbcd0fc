"""Frozen layers, parameter groups, early stopping, a rate that waits for a plateau, an average of weights."""
import copy

import torch
import torch.nn as nn

backbone = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 10), nn.ReLU())
for param in backbone.parameters():
    param.requires_grad = False
backbone[2].requires_grad_(True)
head = nn.Linear(10, 3)
model = nn.Sequential(backbone, head)
ema = copy.deepcopy(model)
optimizer = torch.optim.SGD([{"params": [p for p in backbone.parameters() if p.requires_grad], "lr": 0.01},
                             {"params": head.parameters()}], lr=0.3, momentum=0.5)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, threshold=0.05)
X, Y = torch.randn(30, 6), torch.randint(0, 3, (30,))
losses, bad, best = [], 0, float("inf")
for epoch in range(20):
    for xb, yb in zip(X.chunk(3), Y.chunk(3)):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(xb), yb, weight=torch.tensor([1.0, 2.0, 0.5])).backward()
        optimizer.step()
        with torch.no_grad():
            for mine, its in zip(ema.state_dict().values(), model.state_dict().values()):
                mine.mul_(0.9).add_(its, alpha=0.1)
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(X), Y).item()
        losses += [loss, nn.functional.cross_entropy(ema(X), Y).item(), optimizer.param_groups[1]["lr"]]
    scheduler.step(loss)
    bad = 0 if loss < best - 1e-3 else bad + 1
    best = min(best, loss)
    if bad > 3:
        break
losses.append(sum(p.numel() for p in model.parameters() if p.requires_grad))
