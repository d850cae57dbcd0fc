"""`shoal train`: puts an experiment, its data, a pool, checkpoints and what watches together, and runs the shepherd."""
import contextlib
import errno
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

from .. import pool
from ..errors import ShoalError
from ..program import find
from . import experiment as experiments
from . import roles
from .arguments import UsageError, parse
from .checkpoint import Checkpoints
from .data import Data
from .metrics import Server
from .model import load
from .monitor import Monitor, WandbLog
from .screen import Gate, Lines, Screen, is_terminal, short, span
from .tokens import open_tokens

_STREAMING = {"fragments": 4, "overlap": 1}  # of PCP's --streaming


def main(argv=None):
    """The command; its exit code."""
    for name, mode in ("stdin", "r"), ("stdout", "w"), ("stderr", "w"):
        if getattr(sys, name) is None:  # it is closed: the next file would be in its place
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - kept
    try:
        code = _act(parse(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except UsageError as error:
        return _fail(error, 2)
    except BrokenPipeError:  # nobody reads on
        _write_no_more()
        return 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGINT)  # so that the caller sees why
        return 130
    except (ShoalError, OSError) as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO) and error.filename is None:
            _write_no_more()
            return _fail(f"writing the output: {error.strerror}", 1)
        return _fail(error, 1)


def _act(told):
    if told.log:
        os.environ["SHOAL_LOG"] = told.log
    if told.help:
        return subprocess.call([find(), "help", "train"])
    if told.keys:
        return _print_keys(told.json)
    if told.worker:
        return roles.lend(told)
    return _train(told)


def _write_no_more():
    """What is not written yet is lost, and no error at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(error, code):
    say(error)
    return code


def say(text):
    """A message: one line on standard error, if that is still there: a terminal may be gone."""
    with contextlib.suppress(OSError):
        print(f"shoal: {text}", file=sys.stderr, flush=True)


# ---- what is told without training ----

def _print_keys(as_json):
    rows = list(experiments.keys())
    if as_json:
        names = ("key", "type", "default", "range", "meaning")
        print(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=2))
        return 0
    wide = max(len(row[0]) for row in rows)
    for name, _, default, values, meaning in rows:
        print(f"{name:<{wide}}  {meaning}\n{'':<{wide}}  {values}" + (f" (default: {default})" if default else " (has to be given)"))
    return 0


def _print_dry(made, sources, as_json):
    values, begins = made.as_dict(), None
    try:
        begins = load(made.model_path).beginnings()
    except ShoalError as error:
        say(f"{error}; what its parameters begin with is left out")
    if as_json:
        told = {name: {"value": value, "source": sources[name]} for name, value in values.items()}
        told["parameters"] = begins and [{"name": name, "shape": shape, "begins": words} for name, shape, words in begins]
        print(json.dumps(told, indent=2))
        return 0
    rows = [(name, json.dumps(value, ensure_ascii=False), sources[name]) for name, value in values.items()]
    _print_columns(rows)
    if begins:
        print("\nParameters, and what they begin with:")
        _print_columns([(name, str(list(shape)), words) for name, shape, words in begins])
    return 0


def _print_columns(rows):
    """Rows of three words, the first two in columns of one width."""
    wide = [max(len(row[i]) for row in rows) for i in (0, 1)]
    for first, second, third in rows:
        print(f"{first:<{wide[0]}}  {second:<{wide[1]}}  {third}")


# ---- training ----

def _resolve(told):
    options = {"model_path": told.model, "workers": told.workers, "should_resume": True if told.resume else None}
    options = {name: value for name, value in options.items() if value is not None}
    made, sources, notes = experiments.resolve(told.config, told.words, options)
    if told.streaming:
        more = {name: value for name, value in _STREAMING.items() if sources[name] == "default"}
        made, sources, notes = experiments.resolve(told.config, told.words, options | more)
    return made, sources, notes


def _train(told):
    try:
        made, sources, notes = _resolve(told)
    except ShoalError as error:
        raise UsageError(str(error)) from None
    for note in notes:
        say(note)
    if told.dry_run:
        return _print_dry(made, sources, told.json)
    with contextlib.ExitStack() as stack:
        return _run(told, made, stack)


def _run(told, made, stack):
    checkpoints = cache = None
    if made.checkpoint_dir:
        checkpoints = Checkpoints(made.checkpoint_dir, made.checkpoint_keep, made.checkpoint_keep_every, say)
        if not made.should_resume:
            checkpoints.begin()
        cache = pathlib.Path(made.checkpoint_dir, "tokens")
    tokens = open_tokens(made.data_path, made.tokenizer, cache)
    data = Data(tokens, made.sampling, made.seed, made.max_epochs)
    wandb = WandbLog(made) if made.wandb_project else None
    monitor = Monitor(made.log_dir, sys.stdout if told.json else None, made.plot_every, wandb)
    stack.callback(monitor.close)
    lost = []

    def cut_off(text):
        lost.append(text)
        _write_no_more()
        say(text)
    monitor.cut_off = cut_off
    if told.metrics is not None:
        server = Server(monitor, told.metrics)
        stack.callback(server.close)
        say(f"metrics at http://{server.address}/metrics")
    session = _join(told, made, stack)
    from .shepherd import Shepherd
    shepherd = Shepherd(made, model=made.model_path, data=data, checkpoints=checkpoints, monitor=monitor, session=session)
    if session.status().address != "embedded" and shepherd.nothing_left() is None:  # a pool in this process has its workers
        _await(session, made.workers, monitor, told.json)
    gate = Gate(shepherd.stop)
    monitor.gate, monitor.summary.max_epochs = gate.wait, made.max_epochs
    with _watched(told, monitor, session, gate):
        result = shepherd.run()
    if lost:
        return 1
    if not told.json:
        summary = monitor.summary
        loss = result.get("loss")
        print(f"ended after round {result.get('rounds', summary.round)}"
              + (f": loss {loss:.4f}" if isinstance(loss, (int, float)) else "")
              + f", {short(result.get('tokens', summary.tokens))} tokens in {span(summary.seconds)}")
    return 0


def _join(told, made, stack):
    """The session on the pool that is named, of the hub that is started, or inside this process."""
    hub = told.hub or os.environ.get("SHOAL_HUB") or None
    if told.shepherd or told.host is not None or told.port is not None:
        hub, process = roles.start_hub(told.host, told.port, say)
        if process is not None:
            stack.callback(process.stop)
    session = pool.connect(hub, name="train") if hub and hub != "embedded" else pool.init(workers=1)
    stack.callback(pool.disconnect)
    return session


def _await(session, wanted, monitor, as_json):
    terminal = sys.stderr.isatty()

    def tell(count):
        if as_json:
            monitor.event("waiting", workers=count, wanted=wanted)
        elif count < wanted:
            text = f"shoal: {count} of {wanted} workers are there; waiting for the others (Ctrl-C ends this)"
            print(f"\r{text:<78}" if terminal else text, end="" if terminal else "\n", file=sys.stderr, flush=True)
        elif terminal:
            print(f"\r{'':<78}\r", end="", file=sys.stderr, flush=True)
    roles.await_workers(session, wanted, tell)


@contextlib.contextmanager
def _watched(told, monitor, session, gate):
    """While it lasts there is a screen, or lines, and a signal ends the training after the round, a second one at once."""
    def look():
        told = session.status()
        return {"" if told.address == "embedded" else slot.worker: (
            slot.backend, "here" if told.address == "embedded" else f"{slot.paths} paths" if slot.paths > 1 else
            "relayed" if slot.relayed else "ok") for slot in told.slots if slot.compute}

    def stop(number, frame):
        if gate.stopping:
            raise KeyboardInterrupt
        gate.stop()
        if screen is None:
            say("stopping after this round; again ends it at once")
    screen, quiet = None, contextlib.ExitStack()
    if is_terminal() and not told.no_dashboard and not told.json:
        quiet.enter_context(_kept_messages())
        screen = Screen(monitor, gate, look)
    elif not told.json:
        monitor.observers.append(Lines(monitor.summary))
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if screen is not None:
            screen.close()
        quiet.close()


@contextlib.contextmanager
def _kept_messages():
    """Keeps what the library says on standard error, which would spoil the screen, and prints the last of it afterwards."""
    sys.stderr.flush()
    before = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(before, 2)
            os.close(before)
            kept.seek(max(0, kept.seek(0, os.SEEK_END) - 4000))
            sys.stderr.write(kept.read().decode(errors="replace"))


