"""What happens in a training, for people and programs: a log of JSON lines, the state of things for a screen, metrics for
Prometheus, a picture of the loss, and a log for Weights & Biases. What an event costs does not grow with the number of rounds.
"""
import collections
import contextlib
import io
import json
import math
import os
import threading
import time

from ..errors import IOFailedError, UnsupportedError
from ..files import _whole

_OUTPUT = "standard output"
_POINTS = 1024  # of a curve; a multiple of 2
_SMOOTH = 0.2  # part of a new round in what is shown of the time of rounds


class Curve:
    """A row of numbers of any length in at most so many points, each the mean of equally many of them in a row."""

    def __init__(self, points=_POINTS):
        self.most, self.each, self.means, self.count = points, 1, [], 0
        self._sum, self._open = 0.0, 0

    def add(self, number):
        """The next number."""
        self.count += 1
        self._sum, self._open = self._sum + number, self._open + 1
        if self._open < self.each:
            return
        self.means.append(self._sum / self._open)
        self._sum, self._open = 0.0, 0
        if len(self.means) == self.most:
            self.means = [(a + b) / 2 for a, b in zip(self.means[::2], self.means[1::2], strict=True)]
            self.each *= 2

    def points(self):
        """[(which number the point ends with, counted from 1; mean)]."""
        made = [((i + 1) * self.each, mean) for i, mean in enumerate(self.means)]
        return made + ([(self.count, self._sum / self._open)] if self._open else [])


class Summary:
    """What is so now: what the last events said, sums, and the loss as a curve."""

    def __init__(self):
        self.state, self.model, self.workers_wanted = "starting", "", 0
        self.round = self.rounds = self.tokens = self.bytes_up = self.bytes_down = self.lost = self.joined = 0
        self.loss = self.epoch = self.max_epochs = self.checkpoint = self.tokens_per_second = None
        self.seconds = self.compute_seconds = 0.0  # of all rounds
        self.round_seconds = self.computing = None  # of the last ones
        self.learning_rate = None
        self.started, self.first_round = time.monotonic(), None
        self.islands = {}  # number: what its last event said
        self.curve, self.log = Curve(), collections.deque(maxlen=500)

    def take(self, kind, fields):
        """An event."""
        act = getattr(self, f"_{kind}", None)
        if act:
            act(fields)
        if kind != "island":
            self.log.append(f"{time.strftime('%H:%M:%S')} {line_of(kind, fields)}")

    def left(self):
        """Seconds until the end, by rounds and by epochs, whichever comes first; None while that cannot be told."""
        if self.round_seconds is None:
            return None
        rounds = self.rounds - self.round if self.rounds else math.inf
        if self.epoch and self.max_epochs and self.seen_rounds:
            rounds = min(rounds, (self.max_epochs - self.epoch) / ((self.epoch - self.first_epoch) / self.seen_rounds)
                         if self.epoch > self.first_epoch else math.inf)
        return max(0.0, rounds * self.round_seconds) if rounds < math.inf else None

    def stragglers(self):
        """The islands that take over one and a half times as long for a step as the middle one."""
        speeds = {i: row["tokens_per_second"] for i, row in self.islands.items()
                  if row.get("tokens_per_second") and row.get("state") != "lost"}
        middle = sorted(speeds.values())[len(speeds) // 2] if speeds else 0
        return [i for i, speed in speeds.items() if speed * 1.5 < middle]

    # ---- events ----

    first_epoch, seen_rounds = 0.0, 0

    def _start(self, fields):
        self.state = "training"
        self.model = str(fields.get("model") or "")
        self.rounds = fields.get("rounds") or self.rounds
        self.round = fields.get("round") or 0
        self.first_epoch = fields.get("epoch") or 0.0

    def _round(self, fields):
        self.state = "training"
        self.round = fields.get("round", self.round + 1)
        self.seen_rounds += 1
        self.loss, self.epoch = fields.get("loss"), fields.get("epoch", self.epoch)
        self.learning_rate = fields.get("learning_rate", self.learning_rate)
        seconds, computing = fields.get("seconds") or 0.0, fields.get("compute_seconds") or 0.0
        self.seconds, self.compute_seconds = self.seconds + seconds, self.compute_seconds + computing
        for name in ("tokens", "bytes_up", "bytes_down"):
            setattr(self, name, getattr(self, name) + (fields.get(name) or 0))
        self.round_seconds = seconds if self.round_seconds is None else \
            self.round_seconds + _SMOOTH * (seconds - self.round_seconds)
        if seconds > 0:
            self.tokens_per_second = (fields.get("tokens") or 0) / seconds
            self.computing = min(1.0, computing / seconds)
        if self.loss is not None and math.isfinite(self.loss):
            self.curve.add(float(self.loss))
        for row in fields.get("islands") or ():
            if isinstance(row, dict) and "island" in row:
                self._island(row)

    def _island(self, fields):
        row = self.islands.setdefault(fields.get("island"), {"total_steps": 0})
        row.update(fields)

    def _lost(self, fields):
        self.lost += 1
        self._island(fields | {"state": "lost"})

    def _joined(self, fields):
        self.joined += self.seen_rounds > 0  # who is there at the start has not joined later
        self._island({"state": "joined"} | fields)

    def _checkpoint(self, fields):
        self.checkpoint = fields.get("round", fields.get("step"))

    def _waiting(self, fields):
        self.state = "waiting"

    def _paused(self, fields):
        self.state = "paused"

    def _end(self, fields):
        self.state = "ended"


def line_of(kind, fields):
    """An event in words."""
    if kind == "round":
        loss = fields.get("loss")
        return f"round {fields.get('round')}: loss {loss:.4f}" if isinstance(loss, (int, float)) else f"round {fields.get('round')}"
    if kind == "message":
        return str(fields.get("text"))
    words = [f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in fields.items()
             if not isinstance(value, (dict, list)) and value is not None]
    return f"{kind}: {', '.join(words)}" if words else kind


def _plain(value):
    """A value as JSON has it: no infinities and no NaN, which become null, and no types of NumPy."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (str, bool, int, type(None))):
        return value
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


class Monitor:
    """Takes events and passes them on. log_dir: the folder of run.jsonl and loss.png, or None; stream: a file that gets the
    lines of run.jsonl, too; plot_every: rounds between two pictures. What goes wrong with these is an event "message", and they
    are left out from then on; of standard output `cut_off(text)` is told, too. `observers` are called with kind and fields of each
    event, after `summary` has it; `gate()` is called after each round, and returns when the training is to go on."""

    def __init__(self, log_dir=None, stream=None, plot_every=50, wandb=None):
        self.summary, self.observers, self.lock = Summary(), [], threading.RLock()
        self.log_dir, self.stream, self.plot_every, self.wandb = log_dir, stream, plot_every, wandb
        self.gate, self.cut_off = None, lambda text: None
        self._file, self._plots = None, log_dir is not None
        if log_dir is not None:
            try:
                os.makedirs(log_dir, exist_ok=True)
                self._file = _open_log(os.path.join(log_dir, "run.jsonl"))
            except OSError as error:
                raise IOFailedError(f"log_dir {log_dir}: {error.strerror}; name a folder that can be written") from None

    def event(self, kind, **fields):
        """Something has happened: "start", "round", "island", "lost", "joined", "checkpoint", "end", or anything else."""
        line = json.dumps({"time": round(time.time(), 3), "kind": kind} | _plain(fields), ensure_ascii=False)
        with self.lock:
            self.summary.take(kind, fields)
            self._log(line)
            for observer in list(self.observers):
                if observer in self.observers:  # it may have failed with the message that another one has
                    self._write(_OUTPUT, lambda gone=observer: self.observers.remove(gone), observer, kind, fields)
        if self.wandb is not None and kind == "round":
            shown = _plain({k: v for k, v in fields.items() if not isinstance(v, (dict, list, tuple))})
            self._write("Weights & Biases", lambda: setattr(self, "wandb", None), self.wandb.log, shown)
        if kind == "end" or kind == "round" and self.summary.round % self.plot_every == 0:
            self._plot()
        if kind == "round" and self.gate is not None:
            self.gate()

    def close(self):
        """The end of the logs."""
        if self.wandb is not None:
            self._write("Weights & Biases", lambda: setattr(self, "wandb", None), self.wandb.finish)
        if self._file is not None:
            self._close()

    def _write(self, what, drop, write, *given):
        """Writes to one of those that watch; if that fails, it is dropped and told. But a pipe that nobody reads any more ends the
        training, as of any command."""
        try:
            write(*given)
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - of packages, too
            drop()
            text = f"{what}: {getattr(error, 'strerror', None) or error}; training goes on without this log"
            if what == _OUTPUT:
                self.cut_off(text)
            self.event("message", text=text)

    def _log(self, line):
        if self.stream is not None:
            self._write(_OUTPUT, lambda: setattr(self, "stream", None), self._line, self.stream, line)
        if self._file is not None:
            self._write(self._file.name, self._close, self._line, self._file, line)

    @staticmethod
    def _line(file, line):
        file.write(line + "\n")
        file.flush()

    def _close(self):
        file, self._file = self._file, None
        with contextlib.suppress(OSError):
            file.close()

    def _plot(self):
        if not self._plots or not self.summary.curve.count:
            return
        try:
            draw(os.path.join(self.log_dir, "loss.png"), self.summary.curve.points(), self.summary.model)
        except (UnsupportedError, OSError) as error:
            self._plots = False
            self.event("message", text=f"there will be no loss.png: {error}")


def _open_log(path):
    """To append; a line that a killed process has left half written is ended."""
    file = open(path, "a+b")  # noqa: SIM115 - kept
    end = file.seek(0, os.SEEK_END)
    if end:
        file.seek(end - 1)
        if file.read(1) != b"\n":
            file.write(b"\n")
    return io.TextIOWrapper(file, encoding="utf-8")


def draw(path, points, title=""):
    """Writes the loss over rounds as a PNG. Raises UnsupportedError without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UnsupportedError("pictures need the package matplotlib: pip install matplotlib") from None
    figure = Figure((8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel="round", ylabel="loss", title=title)
    axes.plot([x for x, _ in points], [y for _, y in points], marker="." if len(points) < 3 else None)
    axes.grid(alpha=0.3)
    made = io.BytesIO()
    figure.savefig(made, format="png")
    with _whole(path) as file:
        file.write(made.getvalue())


class WandbLog:
    """The log of Weights & Biases, by its own package, offline: nothing is sent; `wandb sync FOLDER` does that later."""

    def __init__(self, experiment):
        try:
            import wandb
        except ImportError:
            raise UnsupportedError("wandb_project needs the package wandb: pip install wandb; or leave it out: log_dir has the same "
                                   "in run.jsonl") from None
        config = {key: value for key, value in experiment.as_dict().items() if not key.startswith("wandb_")}
        self.run = wandb.init(project=experiment.wandb_project, entity=experiment.wandb_entity, name=experiment.wandb_run_name,
                              mode="offline", dir=experiment.log_dir or os.curdir, config=config)

    def log(self, fields):
        """A round."""
        self.run.log(fields, step=fields.get("round"))

    def finish(self):
        """The end of the run."""
        self.run.finish()
