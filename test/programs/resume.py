"""Training with a validation set, two schedules, early stopping, and a checkpoint from which it goes on."""
import io

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, ReduceLROnPlateau
from torch.utils.data import DataLoader, Dataset, random_split


class Curve(Dataset):
    def __init__(self, n):
        self.x = torch.linspace(-2, 2, n).unsqueeze(1)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "y": torch.sin(self.x[i] * 2), "name": f"point {i}"}


def collate(items):
    return torch.stack([item["x"] for item in items]), torch.stack([item["y"] for item in items])


def build():
    model = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam([{"params": model[0].parameters(), "lr": 0.02, "name": "first"},
                                  {"params": model[2].parameters(), "name": "last"}], lr=0.01)
    schedules = LinearLR(optimizer, 0.2, total_iters=4), CosineAnnealingLR(optimizer, 30, 1e-4), \
        ReduceLROnPlateau(optimizer, factor=0.5, patience=2)
    return model, optimizer, schedules


def train(parts, epochs, best=float("inf"), patience=6):
    model, optimizer, (warm_up, cosine, plateau) = parts
    bad, found = 0, []
    for epoch in range(epochs):
        model.train()
        for x, y in DataLoader(train_set, batch_size=10, collate_fn=collate):
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        model.eval()
        with torch.no_grad():
            value = sum(nn.functional.mse_loss(model(x), y).item() for x, y in DataLoader(
                valid_set, batch_size=10, collate_fn=collate))
        warm_up.step()
        cosine.step()
        plateau.step(value)
        found += [value, *(group["lr"] for group in optimizer.param_groups)]
        bad = 0 if value < best else bad + 1
        best = min(best, value)
        if bad == patience:
            break
    return found, best


train_set, valid_set = random_split(Curve(40), [30, 10])
parts = build()
losses, best = train(parts, 8)
file = io.BytesIO()
model, optimizer, schedules = parts
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "best": best,
            "schedules": [schedule.state_dict() for schedule in schedules]}, file)
file.seek(0)
checkpoint = torch.load(file, map_location="cpu")
after, _ = train(parts, 10, best)

again = build()
again[0].load_state_dict(checkpoint["model"])
again[1].load_state_dict(checkpoint["optimizer"])
for schedule, state in zip(again[2], checkpoint["schedules"]):
    schedule.load_state_dict(state)
resumed, _ = train(again, 10, checkpoint["best"])
assert all(abs(a - b) < 1e-6 for a, b in zip(after, resumed, strict=True))
losses += after
