"""Artifacts of IREE that come from the hub: made once, shipped once to each worker, and used only as the hub's key has signed them.

Each process has folders of its own for keys and caches, as on a machine of its own with a user of its own.
"""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import cluster
import shoal
from shoal import _shoal
from shoal.errors import DeniedError, FormatError, InvalidError, LostError, NotFoundError, ShoalError
from shoal.hosted import artifacts, keeper
from trust_test import Site, await_true

pytest.importorskip("iree.compiler")
pytest.importorskip("iree.runtime")
A, B = (np.random.default_rng(i).standard_normal(shape, np.float32) for i, shape in enumerate([(40, 30), (30, 20)]))
BARE = """import sys
from importlib.abc import MetaPathFinder


class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.startswith("iree.compiler"):
            raise ImportError(f"No module named {name}")


sys.meta_path.insert(0, Missing())
"""


class Machines(cluster.Pool):
    """A hub that has artifacts, or not, and workers of IREE. bare: those that have no compiler.
    keeper: whether one comes; else its interpreter ends at once."""

    def __init__(self, folder, workers=2, hub=("--artifacts", "compile"), bare=(), own=(), keeper=True):
        self.folder, self.bare, self.own, self.keeper = folder, bare, own, keeper
        (folder / "bare").mkdir(exist_ok=True)
        (folder / "bare" / "sitecustomize.py").write_text(BARE)
        super().__init__(workers, hub=hub)
        self.await_words(self.processes[0], "keeps artifacts for the pool" if keeper else "the keeper of artifacts ended with code 1")

    def environment_of(self, name):
        of = {"XDG_CACHE_HOME": str(self.folder / name / "cache"), "XDG_CONFIG_HOME": str(self.folder / name / "config"),
              "SHOAL_LOG": "info", "SHOAL_PYTHON": sys.executable if self.keeper or name != "hub" else "/bin/false"}
        if name in self.bare:
            of["PYTHONPATH"] = f"{self.folder / 'bare'}:{os.environ['PYTHONPATH']}"
        return of

    def start(self, kind, *words, command=(cluster.SHOAL,)):
        name = words[words.index("--name") + 1] if "--name" in words else kind
        if kind == "worker":
            words = (*words, "--device", "iree:0", *(() if name in self.own else ("--artifacts", "hub")))
        with environment(self.environment_of(name)):
            return super().start(kind, *words, command=command)

    def restart(self, name):
        process = self.named(name)
        process.terminate()
        process.wait(60)
        process.stdout.close()
        self.processes.remove(process)
        self.add(name)

    def await_words(self, process, words, times=1):
        deadline = time.monotonic() + 60
        while self.log(process).count(words) < times:
            assert time.monotonic() < deadline, f"no '{words}'\n{self.report()}"
            time.sleep(0.02)

    def named(self, name):
        return next(p for p in self.processes if name in p.args)

    def kept(self, name):
        return sorted((self.folder / name / "cache" / "shoal" / "iree").glob("*.vmfb"))

    def compute(self, n=40):
        """A program of its own for each n, by every worker; twice, as what failed once is tried again."""
        a, b = A[:n], B
        for _ in range(2):
            x, w = shoal.from_numpy(a).replicate(), shoal.from_numpy(b).replicate()
            got = ((x @ w).tanh() * 2 + 1).sum(0).numpy()
            np.testing.assert_allclose(got, (2 * np.tanh(a @ b) + 1).sum(0), 1e-4, 1e-4)
            shoal.sync()  # one of them has given the result; the others, too, are through

    def close(self):
        if self.processes:
            super().close()
        self.processes = []

    def pid_of_keeper(self):
        return next((s.pid for s in self.session.status().slots if s.worker == "keeper"), None)

    def end_keeper(self):
        os.kill(self.pid_of_keeper(), signal.SIGKILL)
        deadline = time.monotonic() + 60
        while self.pid_of_keeper():
            assert time.monotonic() < deadline, self.report()
            time.sleep(0.02)

    def as_hub(self):
        return environment(self.environment_of("hub"))


class Liar:
    """A keeper of the hub's own user, in this process, that answers as `answer` does: (path, note), or None not at all."""

    def __init__(self, pool, answer):
        self.asked, self.ended = [], False
        with pool.as_hub():
            self.keeper = _shoal.keeper_open(pool.address, artifacts.folder())
        pool.await_words(pool.processes[0], "keeps artifacts for the pool")
        self.thread = threading.Thread(target=self.run, args=(answer,))
        self.thread.start()

    def run(self, answer):
        while not self.ended:
            with contextlib.suppress(LostError):
                asked = _shoal.keeper_next(self.keeper, 50)
                if asked:
                    self.asked.append(asked)
                    given = answer(asked)
                    if given:
                        _shoal.keeper_give(self.keeper, asked[0], *given)

    def close(self):
        self.ended = True
        self.thread.join()


@contextlib.contextmanager
def environment(more):
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
def machines(tmp_path):
    with cluster.closing_all(Machines, tmp_path) as make:
        yield make


def test_made_once_shipped_once_and_kept(machines):
    pool = machines()
    pool.compute()
    hub = pool.processes[0]
    made = pool.kept("hub")
    assert made and pool.log(hub).count("keeper: compiled") == len(made)
    for name in ("w1", "w2"):
        kept = pool.kept(name)
        assert [path.name for path in kept] == [path.name for path in made]
        for there, here in zip(made, kept):
            assert here.read_bytes() == there.read_bytes()
            assert Path(f"{here}.sig").read_bytes() == Path(f"{there}.sig").read_bytes()
        assert pool.log(pool.named(name)).count("have come from keeper") == len(made)
        assert "hands work" not in pool.log(pool.named(name))
    for name in ("w1", "w2"):  # what has come stays
        pool.restart(name)
    pool.compute()
    assert "have come from" not in pool.log(pool.named("w1")) + pool.log(pool.named("w2"))
    assert pool.log(hub).count("keeper: compiled") == len(made)
    for name in ("w1", "w2"):
        assert [path.name for path in pool.kept(name)] == [path.name for path in made]
    # Beside the artifact nothing is left but what came, as a file that others may be given.
    fetched = [path.name for path in (pool.folder / "w1" / "cache" / "shoal" / "models").iterdir()]
    assert sorted(fetched) == sorted(json.loads(Path(f"{path}.sig").read_text())["digest"] for path in made)


def test_without_a_compiler(machines):
    """By what the hub makes; then, from another hub, by what was kept there."""
    pool = machines(1, bare=("w1",))
    pool.compute()
    assert "hands work" not in pool.log(pool.named("w1")), pool.report()
    assert len(pool.kept("w1")) == len(pool.kept("hub"))
    pool.close()
    for path in pool.kept("w1"):
        path.unlink()
    again = machines(1, hub=("--artifacts", "kept"), bare=("w1",))
    again.compute()
    assert "hands work" not in again.log(again.named("w1"))
    assert len(again.kept("w1")) == len(again.kept("hub"))
    # What is not there is said once, with all that one needs to know, and the processor beside does it.
    again.compute(39)
    said = re.findall("hands work to cpu: .*", again.log(again.named("w1")))
    assert len(said) == 1, said
    assert re.search(r"iree: there is no compiler here \(pip install iree-base-compiler==\S+\), and the hub gives no artifact \(the hub has no "
                     r"such artifact, and makes none \(shoal hub --artifacts compile\)\): [0-9a-f]{64} for llvm-cpu:(x86_64|aarch64)\S*$",
                     said[0]), said


def test_nobody_elses_unless_asked_to(machines):
    """A worker that was not told to trust the hub compiles for itself, and without a compiler says what would help."""
    pool = machines(2, own=("w1", "w2"), bare=("w2",))
    pool.compute()
    assert not pool.kept("hub") and not pool.kept("w2") and pool.kept("w1")
    assert "have come from" not in pool.log(pool.named("w1"))
    with environment(pool.environment_of("hub")):
        key = artifacts.key()[0].hex()
    said, = re.findall("hands work to cpu: .*", pool.log(pool.named("w2")))
    assert f"this worker runs what its own user has signed alone, not {key}, who runs the hub: shoal worker --artifacts hub" in said
    for path in pool.kept("w1"):
        assert json.loads(Path(f"{path}.sig").read_text())["signer"] != key


def signed(pool, name, data, **changed):
    """An artifact in a file, with a note as the user of this process of the pool signs it."""
    path = pool.folder / f"{len(list(pool.folder.iterdir()))}.vmfb"
    with environment(pool.environment_of(name)):
        artifacts.write(path, data, {"model": "", **changed})
    return path


def lies(pool):
    """What a keeper may answer that is not right, and what the worker says to it."""
    data = next(iter(pool.kept("hub"))).read_bytes()

    def words(asked):
        return {"made_of": asked[1].decode(), "target": asked[2].decode(), "device": asked[3].decode(), "compiler": asked[4].decode()}

    def another_key(asked):
        path = signed(pool, "w1", data, **words(asked))
        return path, artifacts.note_of(path)

    def flipped(asked):
        path = signed(pool, "hub", data, **words(asked))
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        return path, artifacts.note_of(path)

    def truncated(asked):
        path = signed(pool, "hub", data, **words(asked))
        path.write_bytes(data[:-64])
        return path, artifacts.note_of(path)

    def of_another_program(asked):
        path = pool.kept("hub")[0]
        return path, artifacts.note_of(path)

    def of_another_processor(asked):
        path = signed(pool, "hub", data, **{**words(asked), "device": "x86_64"})
        return path, artifacts.note_of(path)

    def changed_note(asked):
        path = signed(pool, "hub", data, **{**words(asked), "device": "x86_64"})
        return path, json.dumps({**json.loads(artifacts.note_of(path)), "device": words(asked)["device"]}).encode()

    def no_note(asked):
        return signed(pool, "hub", data, **words(asked)), b"[" * 60000

    return [(another_key, "is signed by "), (flipped, "is not the artifact that was signed"), (truncated, "is not the artifact that was signed"),
            (of_another_program, "was signed as of made_of "), (of_another_processor, "was signed as of device x86_64, not "),
            (changed_note, "the signature is not that of "), (no_note, "is no note of an artifact")]


@pytest.mark.parametrize("bare", [False, True])
def test_what_is_not_as_the_hub_signed_it(machines, bare):
    """It is told once, and not used: the worker compiles for itself, or has the processor beside do it."""
    machines(1).compute()  # something that is rightly signed
    pool = machines(1, hub=("--artifacts", "kept"), bare=("w1",) if bare else (), keeper=False)
    worker, before = pool.named("w1"), len(pool.kept("w1"))
    rows = lies(pool)
    turn = iter(rows)
    liar = Liar(pool, lambda asked: next(turn)[0](asked))
    try:
        for i, (_, message) in enumerate(rows):
            pool.compute(20 + i)
            assert len(liar.asked) == i + 1
            told = re.findall("an artifact of the pool is not used: .*", pool.log(worker))
            assert len(told) == i + 1 and message in told[-1], told
            assert ("hands work" in pool.log(worker)) == bare
        assert len(pool.kept("w1")) == before + (0 if bare else len(rows))
        # A file that is not there any more, and one of more bytes than are taken.
        with pytest.raises(InvalidError, match="a note of 65537 bytes"):
            _shoal.keeper_give(liar.keeper, 1, pool.kept("hub")[0], b"." * 65537)
        gone = signed(pool, "hub", b"gone", made_of="", target="", device="", compiler="")
        turn = iter([(lambda asked: (gone, artifacts.note_of(gone), gone.write_bytes(b"else"))[:2], "")])
        pool.compute(30)
        assert pool.log(worker).count("hands work") == (len(rows) + 1 if bare else 0)
    finally:
        liar.close()


def test_the_wait_ends(machines):
    """With the keeper, and with the hub, in the middle of a question."""
    pool = machines(1, hub=("--artifacts", "kept"), keeper=False)
    liar = Liar(pool, lambda asked: None)
    done = threading.Thread(target=pool.compute)
    done.start()
    await_asked(liar, 1)
    liar.close()
    liar.keeper = None  # it leaves
    done.join(60)
    assert not done.is_alive() and pool.kept("w1")
    pool.await_words(pool.processes[0], "keeper left")
    liar = Liar(pool, lambda asked: None)
    worker, hub = pool.named("w1"), pool.processes[0]
    failed = []

    def compute():
        try:
            pool.compute(31)
        except ShoalError as error:
            failed.append(error)
    done = threading.Thread(target=compute)
    done.start()
    await_asked(liar, 1)
    hub.kill()
    worker.wait(60)  # it was told to end with its hub
    liar.close()
    done.join(120)
    assert failed
    pool.processes.remove(hub)
    hub.stdout.close()


def await_asked(liar, n):
    deadline = time.monotonic() + 60
    while len(liar.asked) < n:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_one_keeper_of_the_right_user(machines, tmp_path):
    pool = machines(0, hub=("--artifacts", "kept"))
    keeper_of_it = pool.pid_of_keeper()

    def serve(name, address):
        with environment(pool.environment_of(name)):
            done = subprocess.run([cluster.SHOAL, "compile", "--serve", "kept", "--hub", address], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        return done.stderr
    assert "the pool has a keeper of artifacts already" in serve("hub", pool.address)
    assert "has told its members of another key than this user's" in serve("w1", pool.address)
    plain = cluster.Pool(0)
    try:
        assert "has no artifacts: shoal hub --artifacts kept" in serve("hub", plain.address)
    finally:
        plain.close()
    hub, log = pool.processes[0], pool.log(pool.processes[0])
    assert log.count("keeps artifacts for the pool") == 1
    hub.terminate()
    assert hub.wait(60) == 0
    deadline = time.monotonic() + 60
    while Path(f"/proc/{keeper_of_it}").exists():  # it ends with its hub
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_keeper_that_died_is_started_again(machines):
    """What is asked for meanwhile is asked for again by who cannot do without."""
    pool = machines(1, bare=("w1",))
    hub, worker = pool.processes[0], pool.named("w1")
    for times in (2, 3):
        pool.end_keeper()
        pool.compute(10 + times)
        assert pool.log(hub).count("the keeper of artifacts was ended by signal 9") == times - 1
        assert pool.log(hub).count("keeps artifacts for the pool") == times
    assert "hands work" not in pool.log(worker), pool.log(worker)
    hub.terminate()
    assert hub.wait(60) == 0
    assert pool.log(hub).count("is started again") == 2


def test_a_stopped_keeper_keeps_nobody(machines):
    pool = machines(0, hub=("--artifacts", "kept"))
    hub, keeper_of_it = pool.processes[0], pool.pid_of_keeper()
    os.kill(keeper_of_it, signal.SIGSTOP)
    hub.terminate()
    try:
        assert hub.wait(60) == 0
        assert not Path(f"/proc/{keeper_of_it}").exists()
    finally:
        if Path(f"/proc/{keeper_of_it}").exists():
            os.kill(keeper_of_it, signal.SIGKILL)


SLOW = """import sys, threading
from shoal.hosted import artifacts, keeper
keeper._LIMITED = "import time; open('begun', 'w').close(); time.sleep(60)"
wanted = artifacts.Recipe("", "llvm-cpu", "x86_64", "1")
made = keeper.Keeper
def begin(*words):
    threading.Thread(target=keeper.compile_apart, args=(wanted,), daemon=True).start()
    return made(*words)
keeper.Keeper = begin
sys.exit(artifacts.main(["--serve", "kept", "--hub", sys.argv[1]]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_keeper_that_ends_leaves_nothing(machines, tmp_path, number):
    """Not what it was compiling, nor a list of its functions."""
    pool = machines(0, hub=("--artifacts", "kept"), keeper=False)
    folder = tmp_path / "drafts"
    folder.mkdir()
    with pool.as_hub(), environment({"TMPDIR": str(folder)}):
        process = subprocess.Popen([sys.executable, "-c", SLOW, pool.address], stderr=subprocess.PIPE, text=True)
    pool.await_words(pool.processes[0], "keeps artifacts for the pool")
    await_true(lambda: list(folder.glob("*/begun")), 60, lambda: list(folder.iterdir()))
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + number and "Traceback" not in said, said
    assert not list(folder.iterdir())


def test_another_user_by_tcp(tmp_path, monkeypatch):
    """Enrolled workers on other machines, encrypted: one that trusts the hub gets all from there, one that does not nothing."""
    monkeypatch.setenv("SHOAL_PYTHON", sys.executable)
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "sitecustomize.py").write_text(BARE)
    site = Site(tmp_path, hub=("--artifacts", "compile"))
    try:
        await_true(lambda: "keeps artifacts for the pool" in site.hub_log(), 60, site.hub_log)
        workers = {}
        for name in ("ann", "bob"):
            machine = site.joined(name)
            if name == "ann":
                machine.environment["PYTHONPATH"] = f"{tmp_path / 'bare'}:{os.environ['PYTHONPATH']}"
            trust = ("--artifacts", "hub") if name == "ann" else ()
            workers[name] = machine, machine.start("worker", "--hub", site.address, "--name", name, "--threads", "1", "--device", "iree:0", *trust)
        with environment(site.joined("carol").environment):
            session = shoal.connect(site.address)
            try:
                await_true(lambda: len([s for s in session.status().slots if s.compute]) == 2, 60, site.hub_log)
                x, w = shoal.from_numpy(A).replicate(), shoal.from_numpy(B).replicate()
                np.testing.assert_allclose(((x @ w).tanh() * 2 + 1).sum(0).numpy(), (2 * np.tanh(A @ B) + 1).sum(0), 1e-4, 1e-4)
                shoal.sync()
            finally:
                shoal.disconnect()
        (ann, her), (bob, his) = workers["ann"], workers["bob"]
        assert "have come from keeper" in ann.log(her) and "hands work" not in ann.log(her), ann.log(her)
        assert "have come from" not in bob.log(his) and "hands work" not in bob.log(his), bob.log(his)
        notes = [[json.loads(path.read_text())["signer"] for path in (machine.root / "cache" / "shoal" / "iree").glob("*.sig")]
                 for machine in (site.hub_machine, ann, bob)]
        assert notes[0] and notes[1] == notes[0] and notes[2] and notes[2][0] != notes[0][0]
    finally:
        site.close()


# ---- what the keeper makes of questions ----

@pytest.fixture
def alone(tmp_path, monkeypatch):
    """A keeper that compiles, without a hub."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(keeper._shoal, "keeper_open", lambda hub, folder: None)
    made = keeper.Keeper(None, False)
    made.compiler = keeper._version()
    return made


LINES = shoal.stablehlo.export(lambda x: x * 2 + 1, np.ones((4, 5), np.float32)).text()  # with the lines of this file
TEXT = artifacts.recipe(LINES, "llvm-cpu", None, "1").text  # as workers ask: without them


def question(**changed):
    made = artifacts.recipe(TEXT, "llvm-cpu", None, keeper._version())
    words = {"token": 1, "made_of": made.made_of, "target": b"llvm-cpu", "device": made.device.encode(), "compiler": made.compiler.encode(),
             "text": TEXT.encode(), "user": 1}
    return keeper.Question(**{**words, **changed})


def test_a_keeper_makes_just_what_was_asked_for(alone):
    asked = question()
    made = alone._made(asked)
    assert made.note["made_of"] == asked.made_of and artifacts.check(made.path)[0] == made.data
    assert made.data == artifacts.build(TEXT, "llvm-cpu").data  # no matter who asks


@pytest.mark.parametrize("changed, message", [
    ({"compiler": b"0.1"}, "install an iree-base-runtime of that version"),
    ({"target": b"tpu"}, "no such target"),
    ({"target": b"cpu"}, "no such target"),
    ({"target": b"cuda", "device": b"sm_80 --x"}, "no such device"),
    ({"device": b"host"}, "no such device"),
    ({"device": b"znver4"}, "no such device"),
    ({"device": b"x86_64+avx,-sse"}, "has no 'avx,-sse'"),
    ({"device": b"x86_64+avx --iree-x"}, "has no 'avx --iree-x'"),
    ({"device": b"x86_64+"}, "has no ''"),
    ({"device": b"x86_64\n"}, "no such device"),
    ({"device": b"\xff"}, "can't decode"),
    ({"text": b"\xff"}, "can't decode"),
    ({"text": b"module {"}, "line "),
    ({"text": TEXT.encode() + b"// more"}, "nothing but what Shoal writes"),
    ({"text": TEXT.replace("module {", 'module attributes {"hal.device.targets" = []} {').encode()}, "nothing but what Shoal writes"),
    ({"text": b"module {\n  llvm.func @main()\n}\n"}, ""),
    ({"made_of": "0" * 64}, "the digest is of something else"),
    ({"device": b"aarch64"}, "the digest is of something else"),
])
def test_a_keeper_makes_nothing_else(alone, monkeypatch, changed, message):
    monkeypatch.setattr(keeper, "compile_apart", lambda wanted: pytest.fail("it was compiled"))
    said = []
    monkeypatch.setattr(alone, "_refuse", lambda asked, error: said.append(str(error)))
    asked = question(**changed)
    alone._compile(asked)
    assert len(said) == 1 and message in said[0], said
    assert not artifacts.kept()
    assert asked.made_of not in alone._failed  # nobody says so of what others will ask for


def test_a_keeper_fails_once_at_what_many_ask_for(alone, monkeypatch):
    tried, said = [], []

    def fail(wanted):
        tried.append(wanted)
        raise FormatError("iree-compile was stopped")
    monkeypatch.setattr(keeper, "compile_apart", fail)
    monkeypatch.setattr(alone, "_refuse", lambda asked, error: said.append(str(error)))
    for _ in range(3):  # that came before the first was tried
        alone._compile(question())
    alone._take(question(text=None))
    assert len(tried) == 1 and said == ["iree-compile was stopped"] * 4


def test_a_keeper_is_not_alone_in_its_folder(alone):
    """A file of another process goes, or gets its name, while this one counts."""
    gone = artifacts.folder() / "gone.vmfb.draft"
    gone.symlink_to(artifacts.folder() / "nothing")
    assert alone._made(question()).new


def test_notes_that_are_none():
    """Lists in lists, however deep, are wrong, and nothing else; a signer that is no key is not told to people."""
    note = ('{"signer": "%s", "signature": "", "digest": "", "bytes": 1, "made_of": "", "target": "", "device": "", "compiler": "", '
            '"model": %s}')
    for depth in range(sys.getrecursionlimit() - 200, sys.getrecursionlimit()):
        with pytest.raises(DeniedError):
            artifacts.verify(Path("x"), b".", (note % ("", "[" * depth + "]" * depth)).encode(), [""])
    for signer in ("ab" * 30000, "ab" * 31, "AB" * 32, "ab " * 32, r"\n" + "ab" * 32):
        with pytest.raises(DeniedError, match="^x.sig: is no note of an artifact$"):
            artifacts.verify(Path("x"), b".", (note % (signer, "0")).encode(), ["ab" * 32])


def test_a_keeper_has_limits(alone, monkeypatch):
    wanted = artifacts.recipe(TEXT, "llvm-cpu", None, keeper._version())
    limited = keeper._LIMITED
    monkeypatch.setattr(keeper, "_LIMITED", limited.replace(f"RLIMIT_AS, {keeper._MEMORY}", f"RLIMIT_AS, {200 << 20}"))
    with pytest.raises(FormatError):
        keeper.compile_apart(wanted)
    monkeypatch.setattr(keeper, "_LIMITED", limited.replace(f"RLIMIT_FSIZE, {keeper._MOST_ARTIFACT}", "RLIMIT_FSIZE, 1000"))
    with pytest.raises(FormatError):
        keeper.compile_apart(wanted)
    monkeypatch.setattr(keeper, "_LIMITED", "import time; time.sleep(60)")
    monkeypatch.setattr(keeper, "SECONDS", 0.2)
    with pytest.raises(FormatError, match="was stopped after 0.2 s"):
        keeper.compile_apart(wanted)
    monkeypatch.setattr(keeper, "_MOST_KEPT", -1)
    with pytest.raises(NotFoundError, match="folder of artifacts has more than"):
        alone._made(question())


def test_users_have_turns(alone, monkeypatch):
    """Who asks much waits behind himself."""
    order = []
    monkeypatch.setattr(alone, "_compile", lambda asked: order.append((asked.user, asked.token)))
    for token in range(5):
        alone._take(question(user=7, token=token))
    alone._take(question(user=8, token=9))
    thread = threading.Thread(target=alone._compile_all, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while len(order) < 6:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert order == [(7, 0), (8, 9), (7, 1), (7, 2), (7, 3), (7, 4)]


def test_other_processors_have_other_artifacts():
    """So none can come to be run where it would be of instructions that are not there."""
    def made_of(device):
        return artifacts.recipe(TEXT, "llvm-cpu", device, "1").made_of
    devices = ["x86_64", "x86_64+avx", "x86_64+avx+avx2", "aarch64", "aarch64+dotprod"]
    assert len({made_of(device) for device in devices}) == len(devices)
    assert made_of(None) == made_of("host") == made_of(artifacts.processor())
    assert "shipped_test.py" in LINES and artifacts.recipe(LINES, "llvm-cpu", None, "1").made_of == made_of(None)
