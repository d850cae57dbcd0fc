"""`shoal train` over what it is made for: a GPT on a real text, by workers of unlike speed, over slow links, with deaths.

    islands.py model FOLDER BATCH LAYERS WIDTH   writes FOLDER/model-BATCH.mlir, and the text, FOLDER/text.txt
    islands.py begin FROM TO FRAGMENTS        writes the parameters of the newest checkpoint as what another training begins from
    islands.py loss FOLDER BATCH CHECKPOINTS  prints the loss of the newest checkpoint on a part of the text that nobody was shown
    islands.py line NAME…                     two ends of a cable for each name, which carry what comes DELAY seconds later

The trainings are the command itself. What a figure needs of them is in the events that it prints with --json.
"""
import contextlib
import fcntl
import json
import os
import pathlib
import random
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

import lib
from lib import BenchError

LENGTH, HEADS, BATCH = 32, 4, 8
SMALL, LARGE = (1, 32), (4, 128)  # layers, width
SHOWN = 700_000  # characters of the text that are trained on
USUAL = {"tokenizer": "char", "learning_rate": 2e-3, "betas": [0.9, 0.99], "weight_decay": 0.1, "schedule": "cosine", "warmup_steps": 100,
         "max_epochs": 1000, "deadline": 60}
NICE = (0, 0, 4, 8)  # of the workers: the last get about a half and a fifth of what the first ones get
DELAY = 0.025  # seconds, of a cable, each way
TAU = 100      # over slow links


# ---- what runs in a process of its own ----

def write_model(folder, batch, layers, width):
    shoal = lib.product()
    sys.path.insert(0, str(lib.ROOT / "examples"))
    import gpt as example
    import numpy as np
    from shoal import func, functional
    text, characters = example.corpus(None)
    shown = "".join(characters[text])
    (folder / "text.txt").write_text(shown[:SHOWN], encoding="utf-8")
    (folder / "unseen.txt").write_text(shown[SHOWN:], encoding="utf-8")
    model = example.GPT(len(set(shown[:SHOWN])), LENGTH, width, layers, HEADS)
    names = [name for name, _ in model.named_parameters()]

    def loss(*given):
        logits = func.functional_call(model, dict(zip(names, given)), (given[-2],))
        return functional.cross_entropy(logits.flatten(0, 1), given[-1].flatten())
    tokens = np.zeros((batch, LENGTH), np.int32)
    arrays = [parameter.numpy() for parameter in model.parameters()]
    shoal.stablehlo.export(loss, *arrays, tokens, tokens).save(folder / f"model-{batch}.mlir")
    print(sum(array.size for array in arrays))


def begin(source, target, fragments):
    import numpy as np
    lib.product()
    from shoal.train.checkpoint import Checkpoints
    _, arrays, state = Checkpoints(source).latest()
    kept = {name: array for name, array in arrays.items() if name.startswith("parameter.")}
    kept |= {name.replace("parameter.", "momentum."): np.zeros_like(array) for name, array in kept.items()}
    checkpoints = Checkpoints(target)
    checkpoints.save(0, kept, {"tokens": 0, "loss": None, "counts": None, "fragments": fragments, "versions": [0] * fragments,
                               "sent_versions": [0] * fragments, "islands": {}, "data": state["data"]})
    checkpoints.close()
    print(len(kept))


def print_loss(folder, batch, checkpoints):
    shoal = lib.product()
    import numpy as np
    from shoal.train.checkpoint import Checkpoints
    table = {c: i for i, c in enumerate(sorted(set((folder / "text.txt").read_text(encoding="utf-8"))))}
    numbers = np.array([table[c] for c in (folder / "unseen.txt").read_text(encoding="utf-8") if c in table], np.int32)
    model = shoal.stablehlo.load(folder / f"model-{batch}.mlir")
    _, arrays, _ = Checkpoints(checkpoints).latest()
    parameters = [shoal.tensor(arrays[f"parameter.parameter{i}"]) for i in range(len(model.inputs) - 2)]
    count = min(lib.scaled(4800), (len(numbers) - 1) // LENGTH) // batch
    rows = numbers[np.arange(count * batch)[:, None] * LENGTH + np.arange(LENGTH + 1)].reshape(count, batch, LENGTH + 1)
    with shoal.no_grad():
        losses = [model(*parameters, shoal.tensor(part[:, :-1].copy()), shoal.tensor(part[:, 1:].copy())) for part in rows]
        print(sum(float(loss.item()) for loss in losses) / count)


def carry(names):
    """A line for each name: what enters at one end, NAME, leaves the other, NAME-far, DELAY seconds later, however much is on its way."""
    ends, due = {}, []
    for name in names:
        pair = []
        for end in (name, f"{name}-far"):
            tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(tap, 0x400454CA, struct.pack("16sH22x", end.encode(), 0x1002))  # TUNSETIFF: frames, without a header
            pair.append(tap)
        ends |= {pair[0]: pair[1], pair[1]: pair[0]}
    print("ready", flush=True)
    poll = select.poll()
    for tap in ends:
        poll.register(tap, select.POLLIN)
    poll.register(sys.stdin, select.POLLIN | select.POLLHUP)
    while True:
        wait = max(0.0, due[0][0] - time.monotonic()) * 1e3 if due else None
        for tap, _ in poll.poll(wait):
            if tap == sys.stdin.fileno():
                return
            with contextlib.suppress(BlockingIOError):
                while True:
                    due.append((time.monotonic() + DELAY, ends[tap], os.read(tap, 65536)))
        sent = 0
        while sent < len(due) and due[sent][0] <= time.monotonic():
            with contextlib.suppress(OSError):  # an end that is not up yet
                os.write(due[sent][1], due[sent][2])
            sent += 1
        del due[:sent]


# ---- trainings ----

def ask(*words):
    """What this program prints, run with these words."""
    done = subprocess.run([sys.executable, __file__, *map(str, words)], env=lib.environment(SHOAL_HUB="embedded"), capture_output=True,
                          text=True, timeout=lib.SECONDS, check=False)
    if done.returncode:
        raise BenchError(f"islands.py {words[0]}: {done.stderr.strip()[-500:]}")
    return float(done.stdout.split()[-1])


class Training:
    """`shoal train` of some settings, and the events that it has told so far: (time.time() when it came, event)."""

    def __init__(self, folder, name, batch, *words, prefix=(), environment=None, **settings):
        self.events, self.folder, self.name, self.batch = [], folder, name, batch
        given = USUAL | {"model_path": str(folder / f"model-{batch}.mlir"), "data_path": str(folder / "text.txt"),
                         "checkpoint_dir": str(folder / name), "checkpoint_keep": 1} | settings
        (folder / f"{name}.json").write_text(json.dumps(given), encoding="utf-8")
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "shoal.train", folder / f"{name}.json", "--json", *words], stdout=subprocess.PIPE,
            stderr=self.log, stdin=subprocess.DEVNULL, text=True,
            env=environment or lib.environment(SHOAL=str(lib.BUILD / "cmd" / "shoal")))
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):  # cut off by a kill
                self.events.append((time.time(), json.loads(line)))

    def of(self, kind):
        return [event for _, event in self.events if event["kind"] == kind]

    def reach(self, number, seconds=600):
        """Waits until it has made so many rounds."""
        until = time.monotonic() + seconds
        while max((event["round"] for event in self.of("round")), default=0) < number:
            if self.process.poll() is not None or time.monotonic() > until:
                self.end(0.1)
                raise BenchError(f"training {self.name} ended before round {number}")
            time.sleep(0.1)
        return self

    def end(self, seconds):
        """Waits for its end."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise BenchError(f"training {self.name}: not over after {seconds} s, round {len(self.of('round'))}") from None
        self.reader.join(10)
        if self.process.returncode:
            self.log.seek(0)
            raise BenchError(f"training {self.name} ended with {self.process.returncode}: {self.log.read().strip()[-500:]}")
        return self

    def stop(self):
        """Ends it after the round, so that it has a checkpoint of its end."""
        self.process.send_signal(signal.SIGINT)
        return self.end(lib.SECONDS)

    def loss(self):
        """On text that it was not shown."""
        return ask("loss", self.folder, self.batch, self.folder / self.name)


@contextlib.contextmanager
def made(*batches, size=SMALL):
    """(a folder with models of these batches and this size, and the text; how many parameters these have)."""
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as name:
        folder = pathlib.Path(name)
        counts = [ask("model", folder, batch, *size) for batch in batches]
        yield folder, int(counts[0])


def slow_down(pool):
    """Makes the workers of a pool unlike."""
    for process, nice in zip(pool.processes[1:], NICE):
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            os.setpriority(os.PRIO_PROCESS, int(thread), os.getpriority(os.PRIO_PROCESS, 0) + nice)


# Of islands whose changes are averaged seldom, against synchronous training (decision 213).
AVERAGED = {"outer_learning_rate": 0.9, "nesterov_momentum": 0.5, "variance_weight": 1 / 16}
# What is trained for the figures of losses and bytes: name -> settings, beside those.
EXCHANGES = {
    "tau20": {"tau": 20},
    "tau100": {"tau": 100, "compression": "int8"},
    "tau500": {"tau": 500, "compression": "int4"},
    "fragments": {"tau": 2000, "compression": "int4", "fragments": 4, "overlap": 20, "alpha": 0.0, "outer_learning_rate": 1.0},
}
ALONE = {"tau": 100, "outer_learning_rate": 1.0, "nesterov_momentum": 0.0}  # one island that goes on from where it is: AdamW


def exchanges():
    """A GPT on the Jargon File by 4 workers of unlike speed, tau 20 to 2000, against one worker of 4 times the batch; and the bytes."""
    first, steps, rows = lib.scaled(2400), lib.scaled(20_000) // 20 * 20, []
    with made(BATCH, 4 * BATCH) as (folder, count):
        def trained(name, workers, batch, **settings):
            if name != "first":
                ask("begin", folder / "first", folder / name, settings.get("fragments", 1))
            with lib.Pool(workers, threads=2 if workers == 1 else 1) as pool:
                if workers > 1:
                    slow_down(pool)
                training = Training(folder, name, batch, "--hub", pool.address, "--resume", workers=workers, checkpoint_every=1_000_000,
                                    **settings).end(1200)
            return training.loss(), training
        # Training begins on one worker: what islands meet then is a model that knows something already.
        begun, _ = trained("first", 1, 4 * BATCH, outer_loop_steps=first // 100, schedule="constant", **ALONE)
        peer, _ = trained("synchronous", 1, 4 * BATCH, outer_loop_steps=steps // 100, **ALONE)
        print(f"islands: {count} parameters, loss {begun:.4f} after {first} steps, then synchronous {peer:.4f}", flush=True)
        for name, settings in EXCHANGES.items():
            tau = min(settings["tau"], steps)
            loss, training = trained(name, 4, BATCH, **AVERAGED | settings | {"tau": tau, "outer_loop_steps": steps // tau})
            told = training.of("end")[0]
            # Beside the parameters that each worker is sent once, as those of any training are.
            fewer = 2 * 4 * count * steps * 4 / (told["bytes_up"] + told["bytes_down"] - training.of("round")[0]["bytes_down"])
            print(f"islands: {name}: loss {loss:.4f}, 1/{fewer:.0f} of the bytes, steps of the last round "
                  f"{[row['steps'] for row in training.of('round')[-1]['islands']]}", flush=True)
            rows.append(lib.row(f"islands.loss.{name}", loss, "nats", "one worker, 4 times the batch, the same tokens", peer / loss, [loss],
                                {"ratio": 0.99}, peer))
            bar = {"tau500": 500, "fragments": 10_000}.get(name)
            rows.append(lib.row(f"islands.bytes.{name}", fewer, "x fewer", "f32 gradients, and their mean back, at each step",
                                fewer, [fewer], {"ratio": bar} if bar and not lib.QUICK else {}))
    return rows


def lengthen(net, machines):
    """The cables of these machines become so long that everything on them takes DELAY; the process that carries it."""
    names = [f"{machine}-l" for machine in machines]
    process = subprocess.Popen(["ip", "netns", "exec", net.name("switch"), sys.executable, __file__, "line", *names], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, env=lib.environment())
    if process.stdout.readline() != "ready\n":
        raise BenchError("no /dev/net/tun here, of which long cables are made")

    def ip(*words):
        subprocess.run(["ip", "-n", net.name("switch"), "link", *words], check=True, capture_output=True)
    for machine, name in zip(machines, names):
        ip("add", f"{name}-b", "type", "bridge")
        for one, bridge in ((net.port(machine, 0), f"{name}-b"), (name, f"{name}-b"), (f"{name}-far", "bridge0")):
            ip("set", one, "master", bridge, "up")
        ip("set", f"{name}-b", "up")
    return process


def slow_link():
    """Two workers behind 100 Mb/s and 50 ms there and back: how much of the time they compute, tau 100, without and with overlap."""
    import lan
    rows, lines = [], []
    with made(BATCH, size=LARGE) as (folder, _):
        try:
            with lan.network([100], prepare=lambda net: lines.append(lengthen(net, ["w1", "w2"]))) as machines:
                hub = machines["hub"]
                for name, settings in {"plain": {}, "overlap": {"compression": "int4", "overlap": 40}}.items():
                    training = Training(folder, name, BATCH, "--hub", "shm:hub", prefix=hub.prefix, workers=2, tau=TAU,
                                        outer_loop_steps=1_000_000, checkpoint_every=1_000_000, environment=lib.environment(SHOAL=str(lib.BUILD / "cmd" / "shoal"))
                                        | {key: hub.environment[key] for key in ("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")},
                                        **settings)
                    told = training.reach(4 if lib.QUICK else 6).stop().events
                    rounds = [(at, event) for at, event in told if event["kind"] == "round"][1:]  # in the first all is made
                    computing = sum(row["compute_seconds"] for _, event in rounds[1:] for row in event["islands"])
                    share = computing / 2 / (rounds[-1][0] - rounds[0][0])
                    rows.append(lib.row(f"islands.slow_link.{name}", 100 * share, "%", "all of the time", share,
                                        [share],
                                        {"ratio": 0.95} if name == "overlap" else {}))
        finally:
            for line in lines:
                line.stdin.close()
                line.wait(10)
    return rows


def workers_killed():
    """kill -9 of one of 4 workers every 20 s for 10 minutes (SHOAL_BENCH_SECONDS), another in its place: steps that count, losses, times."""
    seconds = float(os.environ.get("SHOAL_BENCH_SECONDS", 45 if lib.QUICK else 600))
    dice, settings = random.Random(1), {"workers": 4, "tau": 50, "outer_loop_steps": 1_000_000, "schedule": "constant", "balance": "equal"}
    with made(BATCH) as (folder, _):
        with lib.Pool(4) as pool:
            whole = Training(folder, "whole", BATCH, "--hub", pool.address, **settings)
            time.sleep(seconds / 2)
            whole = [event["loss"] for event in whole.stop().of("round")]
        with lib.Pool(4) as pool:
            training, kills = Training(folder, "killed", BATCH, "--hub", pool.address, **settings), []
            alive = dict(zip(pool.names, pool.processes[1:]))
            while not training.of("round"):
                time.sleep(0.1)
            began = time.time()
            while time.time() - began < seconds:
                time.sleep(20)
                victim, name = alive.pop(dice.choice(sorted(alive))), f"n{len(kills) + 1}"
                killed = time.time()
                victim.kill()
                victim.wait()
                started = time.time()
                pool.start("worker", "--hub", pool.address, "--threads", "1", "--name", name)
                alive[name] = pool.processes[-1]
                kills.append((killed, started, name))
            time.sleep(10)
            training.stop()
    rounds = [(at, event) for at, event in training.events if event["kind"] == "round"]
    joined = {event["worker"]: at for at, event in training.events if event["kind"] == "joined"}
    closed = [min(at for at, _ in rounds if at > killed) - killed for killed, _, _ in kills]
    back = [joined[name] - started for _, started, name in kills]
    spans = [(before, at, event) for (before, _), (at, event) in zip(rounds, rounds[1:])]
    counted = sum(row["steps"] for _, _, event in spans for row in event["islands"])
    quiet = [(at - before, sum(row["steps"] for row in event["islands"])) for before, at, event in spans if len(event["islands"]) == 4
             and not any(before - 3 < killed < at for killed, _, _ in kills)]
    rate = sum(steps for _, steps in quiet) / sum(span for span, _ in quiet)
    goodput = counted / (rate * (rounds[-1][0] - rounds[0][0]))
    same = min(len(whole), len(rounds))
    last = min(lib.scaled(160), same // 2)
    mine, theirs = (sum(losses[same - last:same]) / last for losses in ([event["loss"] for _, event in rounds], whole))
    print(f"{len(kills)} kills in {len(rounds)} rounds, {sum(len(event['islands']) < 4 for _, event in rounds)} of fewer than 4 islands",
          flush=True)
    return [lib.row("islands.killed.goodput", 100 * goodput, "%", "as many steps as in rounds in which nobody died", goodput, [goodput],
                    {"ratio": 0.95}),
            lib.row("islands.killed.loss", mine, "nats", "nobody was killed, as many steps", theirs / mine, [mine], {"ratio": 0.98}, theirs),
            lib.row("islands.killed.closed_s", max(closed), "s", "at most 10 s, the longest", 10 / max(closed), closed, {"ratio": 1.0}),
            lib.row("islands.killed.rejoin_s", max(back), "s", "at most 2 s, the longest", 2 / max(back), back, {"ratio": 1.0})]


def hub_killed():
    """kill -9 of the shepherd or of its hub, 50 times at random moments: all losses are those of a run that nobody killed, bit for bit."""
    kills, dice, port = lib.scaled(50), random.Random(2), 20000 + os.getpid() % 10000
    settings = {"workers": 2, "tau": 40, "fragments": 2, "overlap": 5, "compression": "int4", "outer_loop_steps": 1_000_000,
                "schedule": "constant", "balance": "equal"}
    words = ["--shepherd", "--port", str(port), "--resume"]
    with made(BATCH) as (folder, _), contextlib.ExitStack() as stack:
        def start(name):
            return Training(folder, name, BATCH, *words, **settings)
        lives, done, shepherds = [start("killed")], 0, 0
        while not lives[0].of("waiting"):
            time.sleep(0.1)
        for name in ("left", "right"):
            worker = subprocess.Popen([lib.BUILD / "cmd" / "shoal", "worker", "--hub", f"shm:train-{port}", "--threads", "1", "--name", name],
                                      env=lib.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            stack.callback(worker.wait)
            stack.callback(worker.kill)
        while done < kills:
            time.sleep(dice.uniform(0, 6))
            training = lives[-1]
            if training.process.poll() is not None:  # its hub was killed while it waited for workers
                lives.append(start("killed"))
                continue
            hubs = [int(pid) for task in os.listdir(f"/proc/{training.process.pid}/task")
                    for pid in pathlib.Path(f"/proc/{training.process.pid}/task/{task}/children").read_text().split()]
            if hubs and dice.random() < 0.5:
                os.kill(hubs[0], signal.SIGKILL)
            else:
                shepherds += 1
                training.process.kill()
                training.process.wait()
                training.reader.join(10)
                lives.append(start("killed"))
            done += 1
        last = max((event["round"] for life in lives for event in life.of("round")), default=0) + 10

        lives[-1].reach(last).stop()
        whole = start("whole").reach(last).stop()
    want = {event["round"]: [row["losses"] for row in event["islands"]] for event in whole.of("round")}
    found = [(event["round"], [row["losses"] for row in event["islands"]]) for life in lives for event in life.of("round")
             if event["round"] in want]
    same = sum(want[number] == losses for number, losses in found)
    print(f"{shepherds} shepherds and {done - shepherds} hubs killed in {last} rounds, of which {len(found)} were made, {same} alike", flush=True)
    if {number for number, _ in found} < set(range(1, last + 1)):
        raise BenchError("a round is missing")
    return [lib.row("islands.hub_killed", done, "kills", "losses bit for bit, in so many of the rounds", same / len(found), [done],
                    {"ratio": 1.0, "value": kills})]


def main():
    what, *words = sys.argv[1:]
    if what == "model":
        write_model(pathlib.Path(words[0]), *map(int, words[1:]))
    elif what == "begin":
        begin(words[0], words[1], int(words[2]))
    elif what == "loss":
        print_loss(pathlib.Path(words[0]), int(words[1]), words[2])
    elif what == "line":
        carry(words)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
