"""What the training examples share: where they run, progress, the loss curve, checkpoints.

A run lies in a folder: checkpoint.safetensors, losses.csv and losses.png. With --resume it goes on from the
checkpoint, to the same numbers as if it had never stopped.
"""
import argparse
import pathlib
import sys
import time

import curve
import numpy as np
import shoal


def options(description, steps, out):
    """The options that every run has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=steps, help="of the optimizer" + (f" ({steps})" if steps else ""))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(out),
                        help=f"the folder of the run ({out})")
    parser.add_argument("--resume", action="store_true", help="go on from the folder's checkpoint")
    parser.add_argument("--hub", help="a pool (SHOAL_HUB, else inside this process)")
    parser.add_argument("--workers", type=int, default=0, help="workers inside this process")
    parser.add_argument("--spread", action="store_true",
                        help="divide each batch between the workers")
    parser.add_argument("--every", type=int, default=50, help="steps between reports (50)")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def begin(args):
    """Connects to a pool, or makes one."""
    if args.hub:
        shoal.connect(args.hub)
    elif args.workers:
        shoal.init(workers=args.workers)
    shoal.manual_seed(args.seed)
    slots = [s for s in shoal.status().slots if s.compute]
    print(f"{len(slots)} worker{'s' if len(slots) > 1 else ''}: "
          + ", ".join(f"{s.worker} ({s.backend}, {s.threads} threads)" for s in slots))


def spread(args, *tensors):
    """Batches, divided between the workers if that is wanted."""
    return tuple(t.place(axis=0) if args.spread else t for t in tensors)


class Run:
    """Trains a model: loss(*batch(step)) is what falls, `check()` a number and its name, to be shown.

    batch(step) gives arrays; loss takes them as tensors.
    """

    def __init__(self, args, model, optimizer, schedule, batch, loss, check):
        self.args, self.model, self.optimizer, self.schedule = args, model, optimizer, schedule
        self.batch, self.loss, self.check = batch, loss, check
        self.learn = shoal.compile(self.learn, replay=True)
        self.step, self.losses, self.checks = 0, [], []
        self.path = args.out / "checkpoint.safetensors"
        args.out.mkdir(parents=True, exist_ok=True)
        if args.resume:
            self.load()

    def load(self):
        """Goes on from the checkpoint."""
        state = shoal.load(self.path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        shoal.set_rng_state(state["random"])
        self.step, self.losses = state["step"], state["losses"].tolist()
        self.checks = [tuple(c) for c in state["checks"]]
        print(f"resumed at step {self.step}")

    def save(self):
        """Writes checkpoint, losses and curve."""
        shoal.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "schedule": self.schedule.state_dict(), "random": shoal.get_rng_state(),
                    "step": self.step, "losses": shoal.tensor(np.array(self.losses)),
                    "checks": self.checks}, self.path)
        steps = np.arange(1, len(self.losses) + 1)
        np.savetxt(self.args.out / "losses.csv", np.stack([steps, self.losses], 1), "%.9g",
                   delimiter=",", header="step,loss", comments="")
        curve.draw(self.args.out / "losses.png", [
            (steps, curve.smoothed(self.losses, 1 + len(self.losses) // 100)),
            ([s for s, _ in self.checks], [v for _, v in self.checks])])

    def learn(self, *batch):
        """One step; its loss. Recorded once, then replayed."""
        self.optimizer.zero_grad()
        loss = self.loss(*spread(self.args, *batch))
        loss.backward()
        shoal.optim.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        return loss

    def train(self):
        """Runs to the last step; returns the last check."""
        args, waiting, value = self.args, [], None
        began, first = time.monotonic(), self.step
        while self.step < args.steps:
            self.model.train()
            waiting.append(self.learn(*self.batch(self.step)))
            self.step += 1
            if self.step % args.every and self.step != args.steps:
                continue
            # Losses are read now and then, so that steps need not wait for each other.
            self.losses += shoal.stack(waiting).tolist() if len(waiting) > 1 else \
                [waiting[0].item()]
            waiting.clear()
            self.model.eval()
            with shoal.no_grad():
                name, value = self.check()
            self.checks.append((self.step, value))
            self.save()
            speed = (self.step - first) / (time.monotonic() - began)
            print(f"step {self.step:6}/{args.steps}  loss {self.losses[-1]:.4f}  {name} {value:.4f}  "
                  f"lr {self.schedule.get_last_lr()[0]:.2e}  {speed:.1f} steps/s", flush=True)
        print(f"{self.args.out}: checkpoint.safetensors, losses.csv, losses.png")
        return value


def fail(text):
    """Ends the program with a message."""
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {text}")
