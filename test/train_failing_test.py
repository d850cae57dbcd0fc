"""Islands that die, are late or come, hubs that die, and shepherds that are killed: real processes, which get real signals."""
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest

import shoal
from cluster import Pool
from islands import Data, Kept, Told, settings
from slack import SLACK
from shoal.train.shepherd import Shepherd
from train_model import TEXT, text_of


@pytest.fixture
def two():
    pool = Pool(2)
    yield pool
    pool.close()


HEAVY = text_of(96)


def long_window(seconds):
    """Steps of a window of HEAVY that takes about so long on a worker of this pool; no fewer than something is learned in."""
    told = Told()
    Shepherd(settings(tau=120, outer_loop_steps=2), model=HEAVY, data=Data(), monitor=told).run()
    return max(50, int(120 * seconds / told.of("round")[-1]["compute_seconds"]))


def begun(shepherd):
    """Runs it on a thread; (thread, list that gets the result or the error)."""
    result = []

    def run():
        try:
            result.append(shepherd.run())
        except Exception as error:
            result.append(error)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, result


def ended(thread, result):
    thread.join(120)
    assert not thread.is_alive() and isinstance(result[0], dict), result
    return result[0]


def loss_of(process, how, told):
    """A worker of two gets a signal in a round: seconds until its loss is known, and until the round is closed; and whether
    that one was without it. It may have reported before."""
    told.wait("round")
    time.sleep(0.2)
    began = time.monotonic()
    process.send_signal(how)
    lost = told.wait("lost")
    n = sum(what == "round" and at < lost for at, what, _ in told.events)
    closed = told.wait("round", n + 1)
    told.wait("round", n + 2)
    sizes = [len(event["islands"]) for event in told.of("round")]
    assert lost - began < 3 * SLACK and closed - began < 10 * SLACK
    assert sizes[:n] == [2] * n and sizes[n + 1] == 1
    return lost - began, closed - began, sizes[n] == 1


@pytest.mark.parametrize("overlapped", [False, True])
def test_a_worker_dies_and_another_comes(two, overlapped):
    """The round closes without the one, the next ones as well, and with the other from its round on."""
    tau = long_window(0.5)
    told, data = Told(), Data()
    overlap = tau // 2 if overlapped else 0
    shepherd = Shepherd(settings(workers=2, tau=tau, outer_loop_steps=10 ** 6, schedule="cosine", overlap=overlap), model=HEAVY, data=data,
                        monitor=told)
    thread, result = begun(shepherd)
    lost, closed, without = loss_of(two.worker(0), signal.SIGKILL, told)
    assert data.back in ([tau, 2 * tau] if overlapped else [tau * without])
    two.add("w3")
    came = time.monotonic()
    joined, n = told.wait("joined", 3), len(told.of("round"))
    told.wait("round", n + 2)  # the one that was under way, and the next
    shepherd.stop()
    ended(thread, result)
    assert joined - came < 3 * SLACK and len(told.of("round")[n + 1]["islands"]) == 2
    losses = [event["loss"] for event in told.of("round")]
    print(f"a death is known after {lost:.2f} s, its round closed after {closed:.2f} s; a worker takes part "
          f"{joined - came:.2f} s after it has come; losses {np.round(losses, 4).tolist()}")
    assert losses[-1] < 0.5 * losses[0] and max(losses[1:]) < losses[0]
    assert data.seen == sum(row["steps"] for event in told.of("round") for row in event["islands"])


def paused(process, over):
    """A process that gets little of the processor, and yet is never still for long."""
    def run():
        while not over.is_set():
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            process.send_signal(signal.SIGCONT)
            time.sleep(0.1)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def until_both(told, n):
    """Until both islands take part in a round after n rounds; one may be late for some."""
    deadline = time.monotonic() + 60
    while all(len(event["islands"]) < 2 for event in told.of("round")[n:]):
        assert time.monotonic() < deadline, told.events[-5:]
        time.sleep(0.02)


def slow_one(two, quorum, overlap=0):
    """Two islands, of which one becomes slow until something is said of it: shepherd, what is told, thread, result."""
    told, over = Told(), threading.Event()
    shepherd = Shepherd(settings(workers=2, tau=long_window(0.3), outer_loop_steps=10 ** 6, deadline=0.1, quorum=quorum,
                                 overlap=overlap), model=HEAVY, data=Data(), monitor=told)
    thread, result = begun(shepherd)
    told.wait("round")
    slow = paused(two.worker(1), over)
    told.wait("message")
    over.set()
    slow.join()
    return shepherd, told, thread, result


@pytest.mark.parametrize("overlap", [0, 8])
def test_who_is_late_is_left_out(two, overlap):
    """At the deadline; and takes part again when it is through."""
    shepherd, told, thread, result = slow_one(two, 0.5, overlap)
    n = len(told.of("round"))
    told.wait("round", n + 2)
    until_both(told, n)
    shepherd.stop()
    ended(thread, result)
    sizes = [len(event["islands"]) for event in told.of("round")]
    assert 1 in sizes[:n + 2] and 2 in sizes[n:], (n, sizes)
    assert "is late: round" in told.of("message")[0]["text"] and not told.of("lost")


def test_who_is_stopped_is_out(two):
    """As one that has died."""
    told = Told()
    shepherd = Shepherd(settings(workers=2, tau=long_window(0.5), outer_loop_steps=10 ** 6), model=HEAVY, data=Data(),
                        monitor=told)
    thread, result = begun(shepherd)
    loss_of(two.worker(1), signal.SIGSTOP, told)
    shepherd.stop()
    ended(thread, result)


def test_a_quorum(two):
    """What is missing is said once the deadline is over, and waited for."""
    shepherd, told, thread, result = slow_one(two, 1.0)
    shepherd.stop()
    ended(thread, result)
    text = told.of("message")[0]["text"]
    assert "1 of 2 islands have reported, and the quorum is 2; waiting for islands [" in text
    assert all(len(event["islands"]) == 2 for event in told.of("round"))


def test_the_hub_dies(two):
    """And another begins at its address, with other workers: the run goes on with what the shepherd has."""
    told = Told()
    shepherd = Shepherd(settings(workers=2, tau=long_window(0.3), outer_loop_steps=10 ** 6, deadline=1.0), model=HEAVY,
                        data=Data(), monitor=told)
    thread, result = begun(shepherd)
    told.wait("round")
    two.processes[0].kill()
    told.wait("lost", 2)
    n = len(told.of("round"))
    for process in two.processes:
        process.kill()
        process.wait(60)
    two.processes = [two.start("hub", "--address", two.address)]
    for name in ("w3", "w4"):
        two.add(name)
    told.wait("round", n + 3)
    until_both(told, n)
    shepherd.stop()
    ended(thread, result)
    losses = [event["loss"] for event in told.of("round")]
    assert losses[-1] < losses[0]


def test_the_hub_is_another_one(two):
    """That took its place between two looks, however long it has been up then."""
    shepherd = Shepherd(settings(workers=2), model=TEXT, data=Data(), checkpoints=Kept())
    assert len(shepherd._slots()) == 2 and not shepherd._cut_off
    told = shoal.status()
    assert told.pool != 0 and told.pool == shoal.status().pool
    for pool, gone in ((told.pool, False), (told.pool ^ 1, True)):
        seen = types.SimpleNamespace(pool=pool, uptime_ms=told.uptime_ms + 10**6, slots=told.slots)
        shepherd._watch = types.SimpleNamespace(status=lambda seen=seen: seen)
        shepherd._slots()
        assert shepherd._cut_off == gone


@pytest.mark.parametrize("compression, fragments, overlap", [("none", 1, 0), ("int4", 2, 7)])
def test_the_hub_dies_and_nothing_is_lost(two, compression, fragments, overlap):
    """With checkpoints, and as many workers: from the last one on, the same losses bit for bit, whenever it dies."""
    rng, runs = np.random.default_rng(1), []
    e = settings(workers=2, tau=150, outer_loop_steps=12 // fragments, schedule="cosine", compression=compression, fragments=fragments,
                 overlap=overlap, learning_rate=1e-4)
    for kills in (0, 4):
        told, kept = Told(), Kept()
        shepherd = Shepherd(e, model=HEAVY, data=Data(), monitor=told, checkpoints=kept)
        thread, result = begun(shepherd)
        for i in range(kills):
            told.wait("round", len(told.of("round")) + 1)
            time.sleep(float(rng.uniform(0, 0.2)))
            if not thread.is_alive():
                break
            if i % 2:  # the next one is there before its islands are heard of
                shepherd._hear = lambda seconds, hear=shepherd._hear: None if shepherd.held else hear(seconds)
            shepherd.held = True
            for process in two.processes:
                process.kill()
                process.wait(60)
            two.processes = [two.start("hub", "--address", two.address)]
            shepherd.held = False
            for name in (f"w{2 * i + 3}", f"w{2 * i + 4}"):
                two.add(name)
        assert ended(thread, result)["rounds"] == 12
        assert bool(told.of("resumed")) == bool(kills)
        runs.append({event["round"]: [row["losses"] for row in event["islands"]] for event in told.of("round")})
        assert all(len(event["islands"]) == 2 for event in told.of("round"))
    assert runs[0] == runs[1] and runs[0][12][0][-1] > 0.01


def test_nobody_is_there(two):
    """It says so and waits, until somebody comes or it is stopped."""
    tau, told = long_window(0.5), Told()
    shepherd = Shepherd(settings(workers=2, tau=tau, outer_loop_steps=3, deadline=1.0), model=HEAVY, data=Data(), monitor=told)
    thread, result = begun(shepherd)
    told.wait("round")
    for i in range(2):
        two.worker(i).kill()
    told.wait("lost", 2)
    told.wait("waiting")
    assert "waiting for workers" in told.of("waiting")[-1]["text"]
    two.add("w3")
    assert ended(thread, result)["rounds"] == 3
    two.processes[-1].kill()
    while shoal.session().compute_slots():
        time.sleep(0.05)
    told = Told()
    shepherd = Shepherd(settings(deadline=1.0), model=TEXT, data=Data(), monitor=told)
    thread, result = begun(shepherd)
    told.wait("waiting")
    began = time.monotonic()
    shepherd.stop()
    assert ended(thread, result)["rounds"] == 0 and time.monotonic() - began < 2 * SLACK


@pytest.mark.parametrize("overlap", [0, 5])
def test_stopping(two, overlap):
    """After the round; a second time, at once."""
    told = Told()
    shepherd = Shepherd(settings(workers=2, tau=long_window(0.5), outer_loop_steps=10 ** 6, overlap=overlap), model=HEAVY, data=Data(), monitor=told)
    thread, result = begun(shepherd)
    told.wait("round")
    shepherd.stop()
    n = len(told.of("round"))  # of which one may have ended just then
    found = ended(thread, result)
    assert found["stopped"] and found["rounds"] == len(told.of("round")) <= n + (2 if overlap else 1)
    told, data = Told(), Data()
    tau = long_window(8)
    shepherd = Shepherd(settings(workers=2, tau=tau, outer_loop_steps=10, overlap=overlap), model=HEAVY, data=data, monitor=told)
    thread, result = begun(shepherd)
    while data.position < 2 * tau:
        time.sleep(0.05)
    time.sleep(0.3)
    began = time.monotonic()
    shepherd.stop()
    shepherd.stop()
    assert ended(thread, result)["rounds"] == 0 and time.monotonic() - began < 4 * SLACK
    assert data.seen == 0


KILLED = """
import pathlib
import sys
sys.path.insert(0, sys.argv[1])
import islands
import shoal
from shoal.train.shepherd import Shepherd
class Printed:
    def event(self, kind, **fields):
        if kind == "round":
            print(fields["round"], *(x.hex() for row in fields["islands"] for x in row["losses"]), flush=True)
shoal.connect(sys.argv[2])
folder, compression, fragments = pathlib.Path(sys.argv[3]), sys.argv[4], int(sys.argv[5])
e = islands.settings(workers=2, tau=40, outer_loop_steps=6 // fragments, should_resume=True, schedule="cosine",
                     compression=compression, fragments=fragments, overlap=int(sys.argv[6]))
Shepherd(e, model=folder.parent / "model.mlir", data=islands.Data(), checkpoints=islands.Kept(folder), monitor=Printed()).run()
"""


@pytest.mark.parametrize("compression, fragments, overlap", [("none", 1, 0), ("int8", 2, 0), ("int4", 2, 7)])
def test_killed_and_resumed(two, tmp_path, compression, fragments, overlap):
    """kill -9 of the shepherd at random moments: from the last checkpoint on, the same losses bit for bit."""
    (tmp_path / "model.mlir").write_text(TEXT)
    given = [sys.executable, "-c", KILLED, str(pathlib.Path(__file__).parent), two.address]

    def run(folder, kill_after=None):
        folder.mkdir(exist_ok=True)
        with subprocess.Popen([*given, str(folder), compression, str(fragments), str(overlap)], stdout=subprocess.PIPE, text=True) as process:
            lines = []
            for line in process.stdout:
                lines.append(line.split())
                if kill_after and len(lines) == kill_after[0]:
                    time.sleep(kill_after[1])
                    process.kill()
        return {int(row[0]): row[1:] for row in lines if len(row) == 1 + len(lines[0][1:])}, process.returncode
    want, code_of = run(tmp_path / "whole")
    assert code_of == 0 and sorted(want) == list(range(1, 7))
    rng, got, kills = np.random.default_rng(0), {}, 0
    while True:
        found, code_of = run(tmp_path / "killed", (int(rng.integers(1, 4)), float(rng.uniform(0, 0.01))))
        for number, losses in found.items():
            assert losses == want[number], number
        got |= found
        kills += code_of != 0
        if code_of == 0 and kills:
            break
        if code_of == 0:  # it was through before it could be killed: once more
            shutil.rmtree(tmp_path / "killed")
        assert kills < 40
    assert got == want and kills
    print(f"{compression}: {kills} kills, {len(want)} rounds, equal bit for bit")


# ---- unequal workers ----

def test_unequal_workers_take_unequal_steps(two):
    """Steps follow the tokens per second of the round before; their sum is tau for each; and all weigh by tokens.

    Where the machine does much else, the slow one may be left out of a round: that one tells nothing of steps.
    """
    tau = long_window(0.3)
    told, kept, over = Told(), Kept(), threading.Event()
    slow = paused(two.worker(1), over)
    try:
        shepherd = Shepherd(settings(workers=2, tau=tau, outer_loop_steps=9, balance="steps"), model=HEAVY, data=Data(),
                            monitor=told, checkpoints=kept)
        ended(*begun(shepherd))
    finally:
        over.set()
        slow.join()
    steps = [[row["steps"] for row in event["islands"]] for event in told.of("round")]
    both = [row for row in steps[1:] if len(row) == 2]
    assert steps[0] == [tau, tau] and len(both) >= 5 and all(sum(row) == 2 * tau for row in both), steps
    assert min(row[1] for row in both) < 0.8 * tau, steps  # on a machine that does much else one round may tell little
    planned = [state["counts"] for _, _, state in kept.all[:-1]]
    assert all(counts == row for counts, row in zip(planned, steps[1:], strict=True) if len(row) == 2), (planned, steps)
    print(f"steps of a worker and of one that is stopped three quarters of the time: {steps}")
