"""A run is saved and goes on from the file; the best model is kept."""
import copy
import io

import torch
import torch.nn as nn


def make():
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    return model, optimizer, scheduler


x, y = torch.randn(16, 4), torch.randn(16, 1)
losses, best, best_state = [], float("inf"), None
model, optimizer, scheduler = make()


def train(steps):
    global best, best_state
    for _ in range(steps):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        if loss.item() < best:
            best, best_state = loss.item(), copy.deepcopy(model.state_dict())


train(8)
file = io.BytesIO()
torch.save({"epoch": 8, "model_state_dict": model.state_dict(), "optimizer_state_dict": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(), "loss": losses[-1]}, file)
file.seek(0)
model, optimizer, scheduler = make()
checkpoint = torch.load(file, map_location=torch.device("cpu"))
model.load_state_dict(checkpoint["model_state_dict"])
optimizer.load_state_dict(checkpoint["optimizer_state_dict"])
scheduler.load_state_dict(checkpoint["scheduler"])
assert checkpoint["epoch"] == 8
train(8)
model.load_state_dict(best_state)
model.eval()
losses.append(nn.functional.mse_loss(model(x), y).item())
