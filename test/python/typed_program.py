"""A program with types that uses most of the package, as one writes them; mypy --strict reads it in types_test.py,
and it is run there."""
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

import shoal
from shoal import Tensor, nn, optim
from shoal.autograd import grad
from shoal.custom import Context, Function
from shoal.func import functional_call, vmap
from shoal.utils.data import DataLoader, Dataset, TensorDataset, random_split


class Points(Dataset):
    """Points of a plane, and on which side of a line they are."""

    def __init__(self, count: int, generator: shoal.Generator | None = None) -> None:
        self.x = shoal.randn(count, 2, generator=generator)
        self.y = (self.x.sum(1) > 0).long()

    def __len__(self) -> int:
        return self.x.shape[0]

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]


class Residual(nn.Module):
    def __init__(self, width: int, activation: Callable[[Tensor], Tensor] = shoal.relu) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width, bias=False)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        inner: Tensor = self.linear(self.activation(self.norm(x)))
        return x + inner


class Net(nn.Module):
    steps: Tensor

    def __init__(self, width: int, depth: int = 2) -> None:
        super().__init__()
        self.inner = nn.Linear(2, width)
        self.blocks = nn.ModuleList(Residual(width) for _ in range(depth))
        self.outer = nn.Sequential(nn.Dropout(0.1), nn.Linear(width, 2))
        self.register_buffer("steps", shoal.zeros(1, dtype=shoal.int64))

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.inner(x)
        for block in self.blocks:
            hidden = block(hidden)
        result: Tensor = self.outer(hidden)
        return result


class Cube(Function):
    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> Tensor:
        x, = ctx.saved_tensors
        return gradient * 3 * x ** 2


class Result(NamedTuple):
    losses: list[float]
    rate: float


def batches(data: Dataset, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    loader = DataLoader(data, batch_size=size, shuffle=True, num_workers=1, drop_last=False)
    for x, y in loader:
        yield x, y


def initialised(model: nn.Module) -> nn.Module:
    for name, parameter in model.named_parameters():
        if name.endswith("weight") and parameter.dim() == 2:
            nn.init.xavier_uniform_(parameter, gain=nn.init.calculate_gain("relu"))
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return model.train()


def train(model: Net, data: Dataset, epochs: int) -> Result:
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = optim.AdamW([{"params": decayed}, {"params": others, "weight_decay": 0.0}], lr=1e-2,
                            betas=(0.9, 0.99))
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs, eta_min=1e-4)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    losses: list[float] = []
    for _ in range(epochs):
        for x, y in batches(data, 16):
            loss: Tensor = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            norm: Tensor = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            assert float(norm) >= 0
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
        model.steps += 1
    for group in optimizer.param_groups:
        group["lr"] *= 0.5
    return Result(losses, scheduler.get_last_lr()[0])


@shoal.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    model.eval()
    return float((model(x).argmax(dim=1) == y).float().mean())


def tensors() -> None:
    device = shoal.device("cpu")
    x = shoal.arange(6, dtype=shoal.float32, device=device).reshape(2, 3)
    rows: int = x.size(0)
    shape: tuple[int, ...] = x.shape
    highest, indices = x.max(dim=1)
    highest_of_all: Tensor = x.max()
    ordered = x.sort(dim=-1, descending=True)
    halves = x.split(1, dim=0)
    mean, variance = x.mean(), x.var(dim=0, unbiased=False)
    either = shoal.where(x > 2, x, 0.0)
    joined = shoal.cat([x, either], dim=0)
    piled = shoal.stack([mean, highest_of_all])
    x[0, 1:] = 7
    x.add_(1).clamp_(min=0, max=5)
    y = x.to(device=device, dtype=shoal.float64)
    y *= 2
    assert rows == 2 and shape == (2, 3) and highest.shape == indices.shape == (2,)
    assert ordered.values.shape == x.shape and len(halves) == 2 and variance.numel() == 3
    assert joined.size() == (4, 3) and piled.ndim == 1 and bool((y <= 10).all())
    assert isinstance(y, Tensor) and y.dtype == shoal.float64 and y.dtype.itemsize == 8
    assert shoal.finfo(x.dtype).bits == 32 and shoal.iinfo(shoal.int8).max == 127
    assert shoal.einsum("ij,kj->ik", x, x).allclose(x @ x.T, rtol=1e-5)


def algebra() -> None:
    a = shoal.eye(3) * 2 + shoal.ones(3, 3)
    b = shoal.ones(3, 2)
    solved: Tensor = shoal.linalg.solve(a, b)
    q, r = shoal.linalg.qr(a)
    values = shoal.linalg.eigh(a).eigenvalues
    sign, logarithm = shoal.linalg.slogdet(a)
    assert (a @ solved).allclose(b, atol=1e-5) and (q @ r).allclose(a, atol=1e-5)
    assert values.shape == (3,) and float(sign) == 1 and logarithm.ndim == 0
    assert float(shoal.linalg.norm(a)) > 0


def gradients(model: Net, data: Points) -> None:
    x = shoal.tensor([1.0, 2.0], requires_grad=True)
    cubes: Tensor = Cube.apply(x)
    slope, = grad(cubes.sum(), x)
    assert slope.tolist() == [3.0, 12.0]
    handle = x.register_hook(lambda g: g * 2)
    (x * x).sum().backward()
    handle.remove()
    assert x.grad is not None and x.grad.tolist() == [4.0, 8.0]
    rows: Tensor = vmap(lambda row: row.sum())(data.x[:4])
    weights = {name: p.detach() for name, p in model.named_parameters()}
    outputs: Tensor = functional_call(model, weights, (data.x[:4],))
    assert rows.shape == (4,) and outputs.shape == (4, 2)
    with shoal.autocast("cpu", dtype=shoal.bfloat16), shoal.enable_grad():
        low: Tensor = data.x[:2] @ data.x[:2].T
    assert low.dtype == shoal.bfloat16


def files(model: Net, folder: pathlib.Path) -> None:
    path = folder / "model.pt"
    shoal.save(model.state_dict(), path)
    other = Net(8)
    keys = other.load_state_dict(shoal.load(path))
    assert not keys.missing_keys and int(other.steps) == int(model.steps)


def main() -> None:
    generator = shoal.manual_seed(1)
    model, data = Net(8), Points(96, generator)
    initialised(model)
    learned, unseen = random_split(data, [72, 24])
    result = train(model, learned, 6)
    assert result.losses[-1] < result.losses[0] and result.rate > 0
    x, y = next(iter(DataLoader(unseen, batch_size=len(unseen))))
    assert accuracy(model, x, y) > 0.5 and len(TensorDataset(x, y)) == 24
    tensors()
    algebra()
    gradients(model, data)
    with tempfile.TemporaryDirectory() as folder:
        files(model, pathlib.Path(folder))
    slots: list[str] = [slot.worker for slot in shoal.status().slots if slot.compute]
    assert slots


if __name__ == "__main__":
    main()
