"""A program with types, checked by mypy --strict in types_test.py, and run there."""
from collections.abc import Iterator

import shoal
from shoal import nn, optim
from shoal.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __init__(self, count: int) -> None:
        self.x = shoal.randn(count, 2)
        self.y = (self.x.sum(1) > 0).long()

    def __len__(self) -> int:
        return self.x.shape[0]

    def __getitem__(self, index: int) -> tuple[shoal.Tensor, shoal.Tensor]:
        return self.x[index], self.y[index]


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(2, width)
        self.norm = nn.LayerNorm(width)
        self.outer = nn.Linear(width, 2)

    def forward(self, x: shoal.Tensor) -> shoal.Tensor:
        hidden: shoal.Tensor = self.norm(self.inner(x).relu())
        result: shoal.Tensor = self.outer(hidden)
        return result


def batches(data: Points, size: int) -> Iterator[tuple[shoal.Tensor, shoal.Tensor]]:
    for x, y in DataLoader(data, batch_size=size, shuffle=True):
        yield x, y


def train(model: Net, data: Points, epochs: int) -> list[float]:
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    losses: list[float] = []
    for _ in range(epochs):
        for x, y in batches(data, 16):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(float(loss))
        scheduler.step()
    return losses


def main() -> None:
    shoal.manual_seed(1)
    device = shoal.device("cpu")
    model, data = Net(8), Points(64)
    losses = train(model, data, 6)
    assert losses[-1] < losses[0]
    x = shoal.zeros(2, 3, dtype=shoal.float32).to(device)
    rows: int = x.size(0)
    shape: tuple[int, ...] = x.shape
    values, indices = x.max(dim=1)
    total: shoal.Tensor = (x @ x.T + 1.0).sum() * 2
    one: float = float(total)
    solved: shoal.Tensor = shoal.linalg.solve(shoal.eye(2), shoal.ones(2))
    with shoal.no_grad():
        accuracy = (model(data.x).argmax(1) == data.y).float().mean().item()
    assert accuracy > 0.5 and rows == 2 and shape == (2, 3) and one == 8.0
    assert values.shape == indices.shape and solved.numel() == 2 and x.dtype == shoal.float32
    assert shoal.finfo(x.dtype).bits == 32 and x.dtype.itemsize == 4 and x.device.type == "pool"


if __name__ == "__main__":
    main()
