"""What a pool tells of itself: events that are true and in order, sums that are the workers' own, bounded
memory, losses; the commands trace and timeline, the instruction log as a file, and GT2's tools."""
import datetime
import json
import os
import re
import struct
import subprocess
import sys
import threading
import time
from xml.etree import ElementTree

import numpy as np
import pytest

import shoal
from cluster import SHOAL, Pool
from home import home, until  # noqa: F401 (a fixture)
from slack import SLACK

FLOWS = 40  # programs of `work`


@pytest.fixture
def pool():
    p = Pool(2)
    yield p
    p.close()


def work(programs=FLOWS, size=96):
    x = shoal.tensor(np.ones((size, 64), np.float32)).place(axis=0)
    w = shoal.tensor(np.ones((64, 64), np.float32)).replicate()
    for _ in range(programs):
        assert ((x @ w).relu().sum(axis=0)).numpy()[0] == 64 * size


def totals():
    slots = [s for s in shoal.status().slots if s.compute]
    return {s.slot: np.array([s.busy_ns, s.received, s.sent, s.instances]) for s in slots}


def shoal_command(pool, *arguments, code=0, **variables):
    done = subprocess.run([SHOAL, *arguments], capture_output=True, text=True, timeout=60,
                          env=os.environ | {"SHOAL_HUB": pool.address} | variables)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def busy(pool):
    """Goes on working until the test is over, with pauses: who records is to miss nothing, also where others
    keep it from the processor for a while."""
    stop = threading.Event()

    def go():
        while not stop.wait(0.02):
            work(5)
    thread = threading.Thread(target=go)
    thread.start()
    yield pool
    stop.set()
    thread.join(60)


# ---- events ----

def test_events_are_true_and_in_order(pool):
    work(3)
    shoal.sync()  # a worker that nobody waits for may still be at the last program
    before, begin = totals(), time.monotonic_ns()
    with shoal.debug.record() as log:
        work()
        shoal.sync()
    after, end = totals(), time.monotonic_ns()
    assert log.lost == 0 and log.events
    # One machine has one clock: everything happened between the two looks at it.
    assert all(begin <= event.at <= end for event in log.events)
    assert {e.process for e in log.of("compute")} == {"w1", "w2"}
    assert {e.process for e in log.of("accept", "start", "finish")} == {"hub"}
    # Spans end after they begin, and all of them end.
    for kind in ("compute", "wait", "send", "receive", "read", "compile"):
        spans = log.spans(kind)
        assert 2 * len(spans) == len(log.of(kind)), kind
        assert all(a.at <= b.at for a, b in spans)
    # A program goes from the client by way of the hub to the workers, and back.
    kinds = ("accept", "start", "run", "compute", "finish")
    first = {kind: {} for kind in kinds}
    for event in log.of(*kinds):
        first[event.kind].setdefault(event.instance, event.at)
    assert len(log.of("submit")) >= FLOWS <= len(first["finish"])
    for instance, at in first["finish"].items():
        times = [first[kind][instance] for kind in kinds if instance in first[kind]]
        assert times == sorted(times) and times[-1] == at
    # What is received was sent before, by the other one, and is as large.
    sent = {(a.slot, a.peer, a.instance, a.key): (a, b) for a, b in log.spans("send")}
    received = log.spans("receive")
    assert received
    for a, b in received:
        begun, ended = sent[a.peer, a.slot, a.instance, a.key]
        assert begun.at <= a.at and ended.at <= b.at and begun.bytes == a.bytes
    # The sums are what the workers count.
    for slot, difference in ((slot, after[slot] - before[slot]) for slot in before):
        computed = sum(b.at - a.at for a, b in log.spans("compute") if a.slot == slot)
        assert computed == difference[0]
        assert sum(a.bytes for a, _ in received if a.slot == slot) == difference[1]
        assert sum(a.bytes for a, _ in received if a.peer == slot) == difference[2]
        assert len([e for e in log.of("run") if e.slot == slot]) == difference[3]


def test_labels_name_operations_and_shapes(pool):
    a, b = shoal.ones(12, 20), shoal.ones(20, 8)
    with shoal.debug.record() as log:
        (a @ b).tanh().numpy()
    ops = [e.label for e in log.of("op")]
    product = next(label for label in ops if label.startswith("dot_general("))
    assert product.endswith("float32[12, 8]")
    number = next(e.instance for e in log.of("op") if e.label == product)
    assert f"tanh({number}) float32[12, 8]" in ops
    assert any(e.label.startswith("dot_general[12,8]") and "tanh" in e.label
               for e in log.of("compute"))
    assert [e.label for e in log.of("read") if e.phase == "begin"] == ["float32[12, 8]"]
    with pytest.raises(ValueError, match="there is no event 'nothing'; there are op, submit"):
        log.of("nothing")


def test_printing(pool, capsys):
    w = shoal.tensor([1.0, 2.0], requires_grad=True)
    loss = (w * 3).sum()
    shoal.debug.print_tape()
    out = capsys.readouterr().out
    assert re.search(r"^\d+ = multiply\(\d+\) float32\[2\]  seeing_test.py:\d+$", out, re.M), out
    with shoal.debug.record() as log:
        loss.item()
    log.print("compute", "read")
    lines = capsys.readouterr().out.splitlines()
    assert lines and all(re.match(r" *\d+\.\d{3} ms  \S+ +(compute|read) (begin|end)", s) for s in lines)
    shoal.debug.print_workers()
    assert re.search(r"^w1: \d+ operations in \d+ programs, ", capsys.readouterr().out, re.M)


def resident(process):
    """Bytes of its own. The rings of links are shared: they come page by page, up to their 8 MiB."""
    with open(f"/proc/{process.pid}/statm", encoding="ascii") as file:
        pages = [int(field) for field in file.read().split()]
    return (pages[1] - pages[2]) * os.sysconf("SC_PAGE_SIZE")


def test_a_flood_keeps_memory_flat(pool):
    """Nobody fetches while much happens: the ring has its size, and what is missing is counted."""
    listener = shoal.debug.Listener()
    listener.fetch()
    x = shoal.ones(4)
    sizes = []
    for _ in range(4):
        for _ in range(1000):
            y = x
            for _ in range(200):
                y = y + x
            y.numpy()
        sizes.append([resident(p) for p in pool.processes])
    events = listener.fetch()
    assert 16384 <= sum(e.process not in ("hub", "w1", "w2") for e in events) + 1 <= 16385
    assert listener.lost > 0
    for first, last in zip(sizes[1], sizes[-1]):
        assert last - first < 2 << 20, sizes
    # Recording ends by itself when nobody asks for it any more.
    time.sleep(3.2)
    ended = time.monotonic_ns()
    for _ in range(10):
        (x + x).numpy()
    events = [row for *_, rows in listener._session._events(100) for row in rows]
    assert not [row for row in events if row[2] > ended]


def test_several_record_at_once(pool):
    """Nobody takes what is another's: each has all of it."""
    logs = [shoal.debug.record(shoal.Session(pool.address)) for _ in range(3)]
    for log in logs:
        log.__enter__()
    work()
    shoal.sync()
    for log in logs:
        log.__exit__()
    spans = [sorted((a.instance, a.slot, a.key) for a, _ in log.spans("compute")) for log in logs]
    through = 2 * (FLOWS - 1)  # a worker may still write down the end of the last
    assert len(spans[0]) >= through and spans[0][:through] == spans[1][:through] == spans[2][:through]
    assert all(log.lost == 0 for log in logs)


def test_who_asks_without_end_is_answered(pool):
    """The hub does not answer hundreds of questions in quick succession: a session makes none."""
    listener = shoal.debug.Listener()
    for _ in range(130):
        listener.fetch()
    assert listener.lost == 0 and len(listener.clocks) == 4


def test_inside_one_process():
    shoal.init(workers=2)
    try:
        before = totals()
        with shoal.debug.record() as log:
            work(10)
            shoal.sync()
        spans = log.spans("compute")
        assert {a.slot for a, _ in spans} == {0, 1}
        assert sum(b.at - a.at for a, b in spans) == sum(
            (after - before[slot])[0] for slot, after in totals().items())
        for a, b in log.spans("receive"):
            assert any(s.at <= a.at and s.key == a.key and s.slot == a.peer
                       for s, _ in log.spans("send") if s.instance == a.instance)
    finally:
        shoal.disconnect()


def test_a_clock_of_its_own(pool):
    """A worker whose monotonic clock is 5000 s ahead, as another machine's may be."""
    ahead = ["unshare", "--time", "--fork", "--kill-child", "--monotonic", "5000"]
    if subprocess.run([*ahead, "true"], capture_output=True).returncode:
        pytest.skip("time namespaces cannot be had here")
    far = subprocess.Popen([*ahead, SHOAL, "worker", "--once", "--hub", pool.address, "--name", "far",
                            "--threads", "1"], stdout=subprocess.PIPE, text=True)
    try:
        pool.await_workers(3)
        work(5)
        begin = time.monotonic_ns()
        with shoal.debug.record() as log:
            work(20)
        end = time.monotonic_ns()
        offset, doubt = next(clock for clock in log.clocks.values() if clock[0])
        assert abs(offset - 5000 * 10**9) <= doubt < SLACK * 50 * 10**6
        far_events = [event for event in log.events if event.process == "far"]
        assert far_events and all(begin - doubt <= e.at <= end + doubt for e in far_events)
        sent = {(a.slot, a.peer, a.instance, a.key): a for a, _ in log.spans("send")}
        both = sum(doubt for _, doubt in log.clocks.values())  # the sender's clock is doubtful, too
        for a, _ in log.spans("receive"):
            assert sent[a.peer, a.slot, a.instance, a.key].at <= a.at + both
        out = json.loads(shoal_command(pool, "trace", "0.2", "--json"))
        assert 0 < out["clock_doubt_seconds"] < SLACK * 0.05
    finally:
        far.kill()  # which its child hears of
        far.wait(60)
        far.stdout.close()


# ---- shoal trace ----

def check_format(trace):
    """The rules of the Trace Event Format that viewers rely on."""
    assert set(trace) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    open_now, named = {}, set()
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str) and isinstance(event["pid"], int)
        phase = event["ph"]
        if phase == "M":
            assert event["name"] in ("process_name", "process_sort_index", "thread_name")
            named.add((event["pid"], event.get("tid")))
            continue
        assert isinstance(event["ts"], (int, float)) and event["ts"] >= 0
        assert (event["pid"], event["tid"]) in named and (event["pid"], None) in named
        assert isinstance(event["args"], dict) and event["cat"] in shoal.debug.KINDS
        if phase == "X":
            assert event["dur"] >= 0
        elif phase == "b":
            open_now[event["cat"], event["id"]] = event["ts"]
        elif phase == "e":
            assert open_now.pop((event["cat"], event["id"])) <= event["ts"]
        else:
            assert phase == "i" and event["s"] in ("g", "p", "t")
    assert not open_now


def test_trace(busy, tmp_path):
    path = tmp_path / "trace.json"
    begun = time.monotonic()
    out = shoal_command(busy, "trace", "1.5", "-o", str(path))
    took = time.monotonic() - begun
    assert re.search(r"^WORKER +SLOT +BUSY", out, re.M)
    assert re.search(r"^w1 +0 +\d[\d.]* % ", out, re.M) and re.search(r"^w2 +1 +\d", out, re.M)
    assert "dot_general[48,64]" in out and "https://ui.perfetto.dev" in out
    trace = json.loads(path.read_text())
    check_format(trace)
    seconds = trace["otherData"]["seconds"]
    assert 1.5 <= seconds < took and trace["otherData"]["lost"] == 0
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert all(e["ts"] + e["dur"] <= seconds * 1e6 + 1 for e in spans)
    # What computes on one slot does not overlap, but for compiling inside of it.
    for slot in (0, 1):
        mine = sorted((e["ts"], e["ts"] + e["dur"]) for e in spans
                      if e["cat"] == "compute" and e["tid"] == slot + 1)
        assert len(mine) > 5
        assert all(a[1] <= b[0] + 0.002 for a, b in zip(mine, mine[1:]))
    summary = json.loads(shoal_command(busy, "trace", "1", "--json", "--quiet"))
    assert [w["worker"] for w in summary["workers"]] == ["w1", "w2"]
    for worker in summary["workers"]:
        assert 0 < worker["busy"] <= 100 and worker["runs"] > 0
        assert worker["received_bytes"] > 0 and worker["sent_bytes"] > 0
    share = sum(o["seconds"] for o in summary["operations"])
    assert share == pytest.approx(sum(w["busy_seconds"] for w in summary["workers"]), rel=1e-6)


def test_progress_is_told(busy):
    done = subprocess.run([SHOAL, "trace", "4", "--hub", busy.address], capture_output=True,
                          text=True, timeout=60, check=True)
    assert re.search(r"recording [1-3]\.\d of 4\.0 s: [\d,]+ events", done.stderr)


def test_trace_ends_after_some_events(busy):
    started = time.monotonic()
    out = json.loads(shoal_command(busy, "trace", "30", "--json", "--quiet", "--events", "50"))
    assert 50 <= out["events"] + out["lost"] and time.monotonic() - started < 25
    assert "--events '0'" in shoal_command(busy, "trace", "--events", "0", code=2)


def test_trace_goes_on_without_a_worker(busy, tmp_path):
    path, picture = tmp_path / "trace.json", tmp_path / "t.svg"
    tracing = subprocess.Popen([SHOAL, "trace", "5", "-o", path, "--hub", busy.address],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert tracing.stderr.readline().startswith("recording ")  # a second has passed
    busy.worker(1).kill()
    out, err = tracing.communicate(timeout=60)
    assert tracing.returncode == 0, err
    assert re.search(r"^w2 .* left *$", out, re.M), out
    trace = json.loads(path.read_text())
    check_format(trace)
    marks = {e["cat"]: e["name"] for e in trace["traceEvents"] if e["ph"] == "i"}
    assert marks["loss"].startswith("loss w2: ")
    last = {slot: max(e["ts"] for e in trace["traceEvents"]
                      if e.get("cat") == "compute" and e["tid"] == slot + 1) for slot in (0, 1)}
    assert last[1] < last[0]  # the other one goes on
    assert shoal_command(busy, "timeline", str(path), "-o", str(picture)) == f"{picture}\n"
    assert "loss: w2" in picture.read_text()
    busy.processes.pop(2).wait()


def test_a_stopped_worker_costs_a_second(busy):
    import signal
    busy.worker(0).send_signal(signal.SIGSTOP)
    begun = time.monotonic()
    try:
        with shoal.debug.record(shoal.Session(busy.address)) as log:
            pass
        assert time.monotonic() - begun < 4 * SLACK
        assert log.lost == 0
        # Whether the recording ends as the hub gives it up or before that is a matter of milliseconds.
        until(lambda: "w1" not in {s.worker for s in shoal.status().slots})
    finally:
        busy.worker(0).send_signal(signal.SIGCONT)
    busy.processes.pop(1).wait(60)  # it says so, and ends


def test_what_is_wrong_is_told(pool, tmp_path):
    nobody = dict(SHOAL_HUB="shm:nobody-here")
    assert shoal_command(pool, "trace", "1", code=1, **nobody).startswith(
        "shoal: no hub answers at shm:nobody-here")
    assert shoal_command(pool, "timeline", "1", code=1, **nobody).startswith(
        "shoal: no hub answers at shm:nobody-here")
    assert "SECONDS '0': " in shoal_command(pool, "trace", "0", code=2)
    assert "SECONDS '601': from 0.05 to 600" in shoal_command(pool, "trace", "601", code=2)
    assert "takes one number" in shoal_command(pool, "trace", "1", "2", code=2)
    folder = str(tmp_path / "none" / "t.json")
    assert f"shoal: writing {folder}: No such file" in shoal_command(
        pool, "trace", "0.1", "-o", folder, code=1)
    assert "must end in .svg or .png" in shoal_command(pool, "timeline", "1", "-o", "t.gif", code=2)
    assert "--width '3': " in shoal_command(pool, "timeline", "1", "--width", "3", code=2)
    assert "No such file" in shoal_command(pool, "timeline", str(tmp_path / "none"), code=1)
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{")
    assert shoal_command(pool, "timeline", str(wrong), code=1) == \
        f"shoal: {wrong}: this is no JSON\n"
    assert list(tmp_path.iterdir()) == [wrong]
    lonely = Pool(0)
    try:
        assert "has no worker: start one with `shoal worker`" in shoal_command(
            lonely, "trace", "1", code=1)
    finally:
        lonely.close()


# ---- shoal timeline ----

def test_timeline(busy, tmp_path):
    svg, png = tmp_path / "t.svg", tmp_path / "t.png"
    assert shoal_command(busy, "timeline", "1.5", "-o", str(svg)) == f"{svg}\n"
    root = ElementTree.parse(svg).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and root.get("width") == "1200"
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"w1", "w2", "waiting for others", "receiving"} <= set(texts)
    assert any(t.startswith("dot_general ") for t in texts)
    height = float(root.get("height"))
    for shape in root.iter("{http://www.w3.org/2000/svg}rect"):
        x, y, w, h = (float(shape.get(k)) for k in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= 1200.1 and 0 <= y <= y + h <= height and w > 0 and h > 0
    assert svg.stat().st_size < 1 << 20
    done = subprocess.run([SHOAL, "timeline", "1", "-o", png, "--width", "700", "--scale", "1.5", "--hub",
                           busy.address], capture_output=True, text=True, timeout=60)
    if "no cairo" in done.stderr:
        pytest.skip("a build without cairo")
    assert done.returncode == 0, done.stderr
    head = png.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">I", head[16:20])[0] == 1050


# ---- the file ----

LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) \| (\S+:\d+) +\| +(\d+|-) \| "
                  r"([a-z]+(?: begin| end)?) +\| +(\d+) \| +(\d+|-) \| +(\d+|-) \| (.*)$")


def test_instruction_log(tmp_path, monkeypatch):
    path = tmp_path / "log"
    monkeypatch.setenv("SHOAL_INSTRUCTION_LOG", str(path))
    p = Pool(2)
    try:
        work(10)
    finally:
        p.close()
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# Shoal's instruction log, a line per event: time (UTC) | process |")
    found = [LINE.match(line) for line in lines if not line.startswith("#")]
    assert all(found) and len(found) > 200
    names = {m[2].split(":")[0] for m in found}
    assert {"hub", "w1", "w2"} <= names and len(names) == 4
    assert any(m[4] == "compute begin" and m[8].startswith("dot_general[") for m in found)
    # Each process's lines are in the order of their times, but for a moment: a thread may be kept from the processor between
    # the two. Of few lines that moment is a long one.
    last, late, out_of_order = {}, datetime.timedelta(milliseconds=2), 0
    for m in found:
        at = datetime.datetime.fromisoformat(m[1])
        out_of_order += last.get(m[2], at) > at + late
        last[m[2]] = at
    assert out_of_order <= len(found) / 50, out_of_order


def test_instruction_log_of_a_daemon(home, tmp_path):
    """The path counts from where the user was."""
    done = subprocess.run([SHOAL, "hub", "--daemon"], cwd=tmp_path, text=True, capture_output=True,
                          env=home.environment | {"SHOAL_INSTRUCTION_LOG": "hub.log"}, timeout=60)
    assert done.returncode == 0, done.stderr
    home.shoal("status")
    until(lambda: "| join " in (tmp_path / "hub.log").read_text())


def test_instruction_log_that_cannot_be_written(tmp_path):
    done = subprocess.run([SHOAL, "hub", "--address", f"shm:log-{os.getpid()}"], text=True, timeout=60,
                          capture_output=True, env=os.environ | {
                              "SHOAL_INSTRUCTION_LOG": str(tmp_path / "none" / "log")})
    assert done.returncode == 1 and "SHOAL_INSTRUCTION_LOG: writing " in done.stderr


# ---- GT2's ----

PROGRAM = """
import gt, numpy as np
a = gt.from_numpy(np.ones((64, 64), "float32"))
b = gt.from_numpy(np.ones((64, 64), "float32"))
for _ in range(20):
    (a @ b).relu().sum().item()
print("ends")
"""


def gt_run(*command, **variables):
    return subprocess.run([sys.executable, *map(str, command)], text=True, capture_output=True,
                          timeout=60, env=os.environ | variables)


def test_gt_instruction_log(tmp_path):
    log, picture = tmp_path / "ops.log", tmp_path / "t.svg"
    assert gt_run("-c", PROGRAM, GT_INSTRUCTION_LOG=str(log)).stdout == "ends\n"
    lines = log.read_text().splitlines()
    head = [line for line in lines if line.startswith("#")]
    assert "event | source | command | details" in head[0]
    pattern = re.compile(r"\[TAPE (\d+\.\d{3})s\] ([A-Z_]+) +\| (\S+) +\| (\w+) +\| (.*) us=(\d+)$")
    found = [pattern.match(line) for line in lines[len(head):]]
    assert all(found)
    times = [int(m[6]) for m in found]
    assert times == sorted(times)
    product = next(m for m in found if m[2] == "RECV" and "op=matmul" in m[5])
    assert product[4] == "BinaryOp"
    assert re.fullmatch(r"result=\d+ op=matmul left=\d+ right=\d+ shape=\(64, 64\)", product[5])
    begun = [m for m in found if m[2] == "WORKER_SEND"]
    ended = [m for m in found if m[2] == "WORKER_RECV"]
    assert len(begun) == len(ended) >= 20 and {m[3] for m in begun} == {"auto_worker"}
    assert "op=matmul[64,64]" in begun[0][5]
    # Before GT2's log: what is received comes after what was sent.
    for a, b in zip(begun, ended):
        assert int(a[6]) <= int(b[6]) and a[5].split("instance=")[1] == b[5].split("instance=")[1]
    done = gt_run("-m", "gt.scripts.visualize", log, "-o", picture)
    assert done.returncode == 0, done.stderr
    assert "auto_worker" in picture.read_text() and "matmul" in picture.read_text()
    assert "no line of an instruction log" in gt_run("-m", "gt.scripts.visualize", __file__).stderr


def test_gt_scripts(tmp_path):
    port = 20000 + os.getpid() % 12000  # below those that Linux hands out
    server = subprocess.Popen([sys.executable, "-m", "gt.server", "-p", str(port),
                               "--spawn_gpu_workers", "1"], stdout=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while True:
            done = gt_run("-m", "gt.scripts.trace", "-s", "0.2", "-n", "100000", "-p", port, "--dir", tmp_path / "d",
                          "-o", "t.json")
            if done.returncode == 0 or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        assert done.returncode == 0, done.stderr
        check_format(json.loads((tmp_path / "d" / "t.json").read_text()))
        done = gt_run("-m", "gt.scripts.top", "-p", port, "--count", "1", "--ema-alpha", "0.3")
        assert done.returncode == 0 and "WORKER" in done.stdout
        done = gt_run("-m", "gt.scripts.visualize", tmp_path / "d" / "t.json", "-o", tmp_path / "t.svg")
        assert done.returncode == 0, done.stderr
    finally:
        server.terminate()
        server.wait(60)
