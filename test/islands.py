"""What tests of training share: data, checkpoints, a monitor and settings, as small as they can be."""
import json
import os
import threading
import time
from types import SimpleNamespace

import numpy as np

WORDS = 17


class Data:
    """Tokens that follow from round and island; what was given back is counted."""
    vocabulary, epoch, exhausted = WORDS, 0.0, False

    def __init__(self, words=WORDS, seed=0):
        self.words, self.seed, self.seen, self.back, self.position = words, seed, 0, 0, 0

    def bind(self, length, batch):
        pass

    def left(self, batch):
        return 1 << 40

    def take(self, round, island, islands, steps, batch, length):
        tokens = np.random.default_rng([self.seed, round, island]).integers(0, self.words, (steps, batch, length + 1))
        tokens[..., 1:] = (tokens[..., :1] + np.arange(1, length + 1)) % self.words  # something to learn
        self.position += steps
        return SimpleNamespace(inputs=tokens[..., :-1].astype(np.int32), targets=tokens[..., 1:].astype(np.int32))

    def done(self, lease, steps):
        self.seen += steps
        self.back += len(lease.inputs) - steps

    def state(self):
        return {"seen": self.seen, "position": self.position}

    def restore(self, state):
        self.seen, self.position = state["seen"], state["position"]


class Kept:
    """Checkpoints in memory, or in a folder, in which a name is there when the file is whole."""

    def __init__(self, folder=None):
        self.folder, self.all = folder, []

    def save(self, step, arrays, state):
        arrays = {name: array.copy() for name, array in arrays.items()}
        self.all.append((step, arrays, json.loads(json.dumps(state))))
        if self.folder:
            with open(self.folder / "new", "wb") as file:
                np.savez(file, state=np.array(json.dumps([step, state])), **arrays)
            os.replace(self.folder / "new", self.folder / f"{step:06d}.npz")

    def latest(self):
        if self.folder is None:
            return self.all[-1] if self.all else None
        names = sorted(self.folder.glob("*.npz"))
        if not names:
            return None
        with np.load(names[-1]) as file:
            arrays = {name: file[name] for name in file.files if name != "state"}
            step, state = json.loads(str(file["state"]))
        return step, arrays, state

    def close(self):
        pass


class Told:
    """What happened."""

    def __init__(self):
        self.events, self.condition = [], threading.Condition()

    def event(self, kind, **fields):
        with self.condition:
            self.events.append((time.monotonic(), kind, fields))
            self.condition.notify_all()

    def of(self, kind):
        return [fields for _, what, fields in self.events if what == kind]

    def wait(self, kind, n=1, seconds=60):
        """Until there are n of a kind; when the n-th was."""
        with self.condition:
            assert self.condition.wait_for(lambda: len(self.of(kind)) >= n, seconds), (kind, self.events[-5:])
            return [at for at, what, _ in self.events if what == kind][n - 1]


def settings(**changes):
    usual = {"learning_rate": 1e-2, "tau": 5, "outer_loop_steps": 2, "max_epochs": 1e9, "outer_learning_rate": 0.7,
             "nesterov_momentum": 0.9, "dtype": "f32", "effective_batch_size": None, "betas": (0.9, 0.99), "eps": 1e-8,
             "variance_weight": 1.0, "weight_decay": 0.01, "clip": 1.0, "schedule": "constant", "warmup_steps": 0, "min_lr_ratio": 0.0,
             "compression": "none", "fragments": 1, "overlap": 0, "alpha": 0.5, "quorum": 0.5, "deadline": 30.0,
             "balance": "equal", "seed": 3, "workers": 1, "checkpoint_every": 1, "should_resume": False}
    assert set(changes) <= set(usual)
    return SimpleNamespace(**usual | changes)
