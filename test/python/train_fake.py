"""The command `shoal train` with a shepherd that computes nothing: it takes the data, tells events and writes checkpoints, as the
real one does. FAKE_SECONDS: how long a round takes."""
import os
import sys
import threading
import time
import types

import numpy as np

BATCH, LENGTH = 4, 16


class Shepherd:
    """Rounds in which nothing is learned, and the loss falls all the same."""

    def __init__(self, experiment, *, model, data, checkpoints=None, monitor=None, session=None):
        self.e, self.data, self.checkpoints, self.monitor, self.session = experiment, data, checkpoints, monitor, session
        self.path, self._stop = model, threading.Event()

    def nothing_left(self):
        return None

    def stop(self):
        self._stop.set()

    def run(self):
        e, theta, first = self.e, np.zeros(3, np.float32), 0
        found = self.checkpoints.latest() if e.should_resume and self.checkpoints else None
        if found:
            first, arrays, state = found
            theta = arrays["theta"]
            self.data.restore(state["data"])
        self.monitor.event("start", model=self.path, rounds=e.outer_loop_steps, round=first)
        tokens, done, seconds = 0, first, float(os.environ.get("FAKE_SECONDS", "0"))
        while done < e.outer_loop_steps and not self.data.exhausted and not self._stop.is_set():
            began, until = time.monotonic(), time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0:
                time.sleep(min(left, 0.05))
            leases = [self.data.take(done, i, 2, 2, BATCH, LENGTH) for i in range(2)]
            islands = []
            for i, lease in enumerate(leases):
                theta += np.float32(lease.inputs.sum() % 97)
                self.data.done(lease, lease.steps)
                islands.append({"island": i, "worker": f"fake{i}", "steps": lease.steps, "loss": 5 / (done + 1), "state": "done",
                                "tokens_per_second": 1000.0 * (i + 1)})
            done += 1
            count = sum(lease.inputs.size for lease in leases)
            tokens += count
            took = time.monotonic() - began + 1e-6
            self.monitor.event("round", round=done, loss=5 / done, tokens=count, seconds=took, compute_seconds=took * 0.9, bytes_up=12,
                               bytes_down=12, epoch=self.data.epoch, islands=islands)
            if self.checkpoints and done % e.checkpoint_every == 0:
                self.checkpoints.save(done, {"theta": theta}, {"data": self.data.state()})
                self.monitor.event("checkpoint", round=done)
        if self.checkpoints:
            self.checkpoints.close()
        self.monitor.event("end", round=done, theta=float(theta[0]))
        return {"loss": 5 / done if done else None, "rounds": done, "tokens": tokens}


def install():
    """Puts this in the place of the module."""
    sys.modules["shoal.train.shepherd"] = types.SimpleNamespace(Shepherd=Shepherd)


if __name__ == "__main__":
    install()
    from shoal.train.command import main
    sys.exit(main())
