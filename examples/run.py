"""The common code of the training examples: connecting, progress, the loss curve, checkpoints.

A run is stored in a folder: checkpoint.safetensors, losses.csv, checks.csv and, at the end, losses.png. With
--resume it continues from the checkpoint, with the same numbers as if it had never stopped.

Writing takes no longer at the end of a run than at its start: lines are appended to the tables, checkpoints are
some seconds apart, and the plot is drawn once.
"""
import argparse
import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import shoal
from shoal import nn, optim


def pool_options(parser: argparse.ArgumentParser) -> None:
    """The options that say where a program runs."""
    parser.add_argument("--hub", help="address of a pool (SHOAL_HUB, else inside this process)")
    parser.add_argument("--workers", type=int, default=0, help="number of workers inside this process")


def options(description: str | None, steps: int | None, out: str) -> argparse.ArgumentParser:
    """The options that every run has."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=steps, 
                        help="number of optimizer steps" + (f" ({steps})" if steps else ""))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(out),
                        help=f"folder for the results ({out})")
    parser.add_argument("--resume", action="store_true", help="continue from the folder's checkpoint")
    pool_options(parser)
    parser.add_argument("--spread", action="store_true",
                        help="split each batch over the workers")
    parser.add_argument("--every", type=int, help="steps between reports (default: a twentieth of all)")
    parser.add_argument("--save", type=float, default=10, metavar="SECONDS",
                        help="least time between two checkpoints (10)")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def begin(args: argparse.Namespace) -> None:
    """Connects to a pool, or makes one; the same numbers are drawn in each run."""
    connect(args)
    shoal.manual_seed(args.seed)


def connect(args: argparse.Namespace) -> None:
    """Connects to a pool, or makes one, and tells its workers."""
    if args.hub:
        shoal.connect(args.hub)
    elif args.workers:
        shoal.init(workers=args.workers)
    slots = [s for s in shoal.status().slots if s.compute]
    print(f"{len(slots)} worker{'s' if len(slots) > 1 else ''}: "
          + ", ".join(f"{s.worker} ({s.backend}, {s.threads} thread{'s' * (s.threads != 1)})" for s in slots))


def spread(args: argparse.Namespace, *tensors: shoal.Tensor) -> tuple[shoal.Tensor, ...]:
    """Batches, divided between the workers if that is wanted."""
    return tuple(t.place(axis=0) if args.spread else t for t in tensors)


class Table:
    """A table of steps and values in a file, which grows by lines."""

    def __init__(self, path: pathlib.Path, name: str, rows: int) -> None:
        """rows: how many there are to go on from; what stands after them is cut off."""
        head = f"step,{name}\n"
        kept = path.read_text().splitlines(keepends=True)[:1 + rows] if rows else [head]
        if len(kept) != 1 + rows:
            fail(f"{path}: {len(kept) - 1} rows, where the checkpoint has {rows}")
        path.write_text("".join(kept))
        self.rows, self.file = rows, path.open("a")

    def add(self, first: int, values: Sequence[float], apart: int = 1) -> None:
        self.file.writelines(f"{first + i * apart},{v:.9g}\n" for i, v in enumerate(values))
        self.file.flush()
        self.rows += len(values)


def draw(out: pathlib.Path) -> None:
    """Draws losses and checks into losses.png."""
    try:
        import matplotlib
    except ImportError:
        print(f"{out}/losses.png is not drawn: pip install matplotlib")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot
    losses, checks = (np.loadtxt(out / f"{n}.csv", delimiter=",", skiprows=1, ndmin=2)
                      for n in ("losses", "checks"))
    figure, axes = pyplot.subplots(figsize=(9.6, 5.4), layout="constrained")
    width = 1 + len(losses) // 100
    means = np.convolve(losses[:, 1], np.ones(width) / width, "valid")
    axes.plot(losses[width - 1:, 0], means, label=f"loss, mean of {width}")
    axes.plot(*checks.T, "o-", label=(out / "checks.csv").read_text().split("\n")[0].split(",")[1])
    axes.set_xlabel("step")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(out / "losses.png", dpi=100)
    pyplot.close(figure)


class Run:
    """Trains a model: loss(*batch(step)) is what falls, `check()` a number and its name, to be shown.

    batch(step) gives arrays; loss takes them as tensors.
    """

    def __init__(self, args: argparse.Namespace, model: nn.Module, optimizer: optim.Optimizer,
                 schedule: optim.lr_scheduler.LRScheduler, batch: Callable[[int], tuple[Any, ...]],
                 loss: Callable[..., shoal.Tensor], check: Callable[[], tuple[str, float]]) -> None:
        self.args, self.model, self.optimizer, self.schedule = args, model, optimizer, schedule
        self.batch, self.loss, self.check = batch, loss, check
        self.learn: Callable[..., shoal.Tensor] = shoal.compile(self.one_step, replay=True)
        self.every = args.every or max(args.steps // 20, 1)
        self.path = args.out / "checkpoint.safetensors"
        args.out.mkdir(parents=True, exist_ok=True)
        self.step, self.saved = 0, -np.inf
        rows = self.load() if args.resume else [0, 0]
        self.losses = Table(args.out / "losses.csv", "loss", rows[0])
        self.checks = Table(args.out / "checks.csv", self.evaluated()[0], rows[1])

    def load(self) -> list[int]:
        """Goes on from the checkpoint; how many rows the tables had."""
        state = shoal.load(self.path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        shoal.set_rng_state(state["random"])
        self.step = state["step"]
        print(f"resumed at step {self.step}")
        rows: list[int] = state["rows"]
        return rows

    def save(self) -> None:
        """Writes a checkpoint: of one size, however long the run is."""
        shoal.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "schedule": self.schedule.state_dict(), "random": shoal.get_rng_state(),
                    "step": self.step, "rows": [self.losses.rows, self.checks.rows]}, self.path)
        self.saved = time.monotonic()

    def one_step(self, *batch: shoal.Tensor) -> shoal.Tensor:
        """One step; its loss. Recorded once, then replayed."""
        self.optimizer.zero_grad()
        loss = self.loss(*spread(self.args, *batch))
        loss.backward()
        shoal.optim.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        return loss

    def evaluated(self) -> tuple[str, float]:
        """(name, value) of the check; the model learns on after it."""
        self.model.eval()
        with shoal.no_grad():
            found = self.check()
        self.model.train()
        return found

    def train(self) -> float | None:
        """Runs to the last step; returns the last check."""
        args, value = self.args, None
        waiting: list[shoal.Tensor] = []
        before, since = self.step, time.monotonic()
        began, first = since, self.step
        while self.step < args.steps:
            waiting.append(self.learn(*self.batch(self.step)))
            self.step += 1
            if self.step % self.every and self.step != args.steps:
                continue
            # Losses are read now and then, so that steps need not wait for each other.
            losses = shoal.stack(waiting).tolist()
            self.losses.add(self.step - len(waiting) + 1, losses)
            waiting.clear()
            name, value = self.evaluated()
            self.checks.add(self.step, [value])
            now = time.monotonic()
            if now - self.saved >= args.save or self.step == args.steps:
                self.save()
            print(f"step {self.step:6}/{args.steps}  loss {losses[-1]:.4f}  {name} {value:.4f}  "
                  f"lr {self.schedule.get_last_lr()[0]:.2e}  "
                  f"{(self.step - before) / (now - since):.1f} steps/s", flush=True)
            before, since = self.step, time.monotonic()
        self.seconds = since - began
        print(f"{self.step - first} steps in {self.seconds:.2f} s")
        draw(args.out)
        print(f"{args.out}: checkpoint.safetensors, losses.csv, checks.csv, losses.png")
        return value


def fail(text: str) -> NoReturn:
    """Ends the program with a message."""
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {text}")
