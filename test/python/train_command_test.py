"""The command `shoal train`: words in both spellings, errors by their text, pools, resuming, JSON. The shepherd is a stand-in
(train_fake.py): what is tested is what is around it."""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import types

import pytest
import train_fake

from shoal.pool import Session
from shoal.train import arguments, roles
from shoal.train.command import main

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from home import SHOAL, alive, home, until  # noqa: E402, F401 (a fixture)
from slack import SLACK  # noqa: E402

FAKE = [sys.executable, str(HERE / "train_fake.py")]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "SHOAL_HUB"} | {"SHOAL": SHOAL}


def run(*words, code=0, command=None, **variables):
    """(output, messages) of a command; without one `shoal train` in this process, which takes a tenth of the time."""
    if command is None:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            ended = main([*map(str, words)])
        done = subprocess.CompletedProcess(words, ended, out.getvalue(), err.getvalue())
    else:
        done = subprocess.run([*command, *map(str, words)], capture_output=True, text=True, timeout=120, env=ENVIRONMENT | variables)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    """The stand-in for the shepherd, for what runs in this process."""
    monkeypatch.setitem(sys.modules, "shoal.train.shepherd", types.SimpleNamespace(Shepherd=train_fake.Shepherd))
    monkeypatch.delenv("SHOAL_HUB", raising=False)


def error(*words, code=2, **variables):
    out, err = run(*words, code=code, **variables)
    assert out == "" and err.startswith("shoal: ") and err.count("\n") == 1, (out, err)
    return err[len("shoal: "):-1]


TEXT = """func.func @main(%w: tensor<4x2xf32>, %b: tensor<2xf32>, %ids: tensor<4x16xi32>, %targets: tensor<4x16xi32>) -> tensor<f32> {
  %0 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2xf32>) -> tensor<4x2xf32>
  %1 = stablehlo.add %w, %0 : tensor<4x2xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x2xf32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "m.mlir").write_text(TEXT)
    (tmp_path / "t.txt").write_text("a short text, over and over. " * 200)
    config = {"model_path": str(tmp_path / "m.mlir"), "data_path": str(tmp_path / "t.txt"), "tokenizer": "char", "outer_loop_steps": 12}
    (tmp_path / "exp.json").write_text(json.dumps(config, indent=1))
    return tmp_path


# ---- the command in C ----

def test_the_command_becomes_python(files):
    c = [SHOAL, "train"]
    out, err = run("--dry-run", files / "exp.json", "tau=7", command=c)
    assert re.search(r"^tau +7 +command line$", out, re.M) and err == ""
    assert run("--help", command=c)[0] == run("--workers", "x", "-h", command=c)[0] == run("train", command=[SHOAL, "help"])[0]
    assert run("--help", command=[sys.executable, "-m", "shoal.train"])[0] == run("--help", command=c)[0]
    assert run("--frob", code=2, command=c)[1] == "shoal: unrecognized option '--frob'\n"
    nowhere = run(code=1, command=c, SHOAL_PYTHON="/nowhere/python")[1]
    assert nowhere == ("shoal: train: cannot run /nowhere/python: No such file or directory; install Python 3.11 or later and the "
                       "package shoal, or name another interpreter by SHOAL_PYTHON\n")
    lost = run(code=1, command=c, PYTHONPATH="")[1]
    assert re.fullmatch(r"shoal: train: \S+ has no package shoal with this command \(No module named 'shoal'\); install it there, or name "
                        r"another interpreter by SHOAL_PYTHON\n", lost)


def test_ctrl_c_at_any_moment(files):
    """It ends by the signal, or after a round; there is no traceback, whatever is under way."""
    run("-c", MODEL, files / "m.mlir", command=[sys.executable])
    ends = set()
    for i in range(8):
        with subprocess.Popen([SHOAL, "train", files / "exp.json", "outer_loop_steps=1000000", "max_epochs=1e6", "tokenizer=byte"], text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT) as process:
            time.sleep(0.01 + i * 0.05)
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=60)
        assert told in ("", "shoal: stopping after this round; again ends it at once\n"), told
        ends.add(process.returncode)
    assert ends <= {0, -signal.SIGINT} and -signal.SIGINT in ends


def test_nothing_of_the_current_folder_is_run(tmp_path):
    (tmp_path / "json.py").write_text("print('run')")
    done = subprocess.run([SHOAL, "train", "--keys"], capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT, timeout=60)
    assert done.returncode == 0 and "run\n" not in done.stdout.splitlines()[0]


def test_options_are_the_same_here_and_there():
    listed = {command["name"]: command for command in json.loads(run("help", "--json", command=[SHOAL])[0])}["train"]
    there = {option["name"]: bool(option["argument"]) for option in listed["options"]}
    here = {name: True for name in arguments.VALUES} | {name: False for name in arguments.FLAGS}
    assert there == here
    assert not set(arguments.REFUSED) & set(there)


def test_keys():
    out = run("--keys")[0]
    rows = json.loads(run("--keys", "--json")[0])
    assert [row["key"] for row in rows] == re.findall(r"^(\w+) ", out, re.M)
    assert max(map(len, out.splitlines())) < 140


# ---- words ----

@pytest.mark.parametrize("words, message", [
    (["--config", "a.json", "b.json"], "--config a.json and 'b.json': there is one file of the experiment"),
    (["a.json", "b.json"], "a.json: the experiment cannot be read: No such file or directory"),
    (["--workers", "0"], "--workers '0': must be a whole number from 1 to 1024"),
    (["--port", "x"], "--port 'x': must be a whole number from 0 to 65535"),
    (["--workers"], "option '--workers' requires an argument"),
    (["--wokers", "2"], "unrecognized option '--wokers'; did you mean '--workers'?"),
    (["--worker", "--shepherd"], "--worker and --shepherd: a process is one of the two; --connect makes it a worker"),
    (["--connect", "h:1", "--resume"], "--resume: only a shepherd takes it"),
    (["--connect", "h:1", "exp.json"], "'exp.json': a worker takes no experiment; the shepherd has it"),
    (["--backend", "cpu"], "--backend: only a worker takes it; start one with --worker"),
    (["--hub", "shm:x", "--port", "1"], "--hub and --shepherd: train on the pool of a hub that runs, or start one; give one of them"),
    (["--metrics", "9100"], "'9100' is neither a file nor KEY=VALUE; the address of metrics is given as --metrics=9100"),
    (["--metrics=0.0.0.0:1"], "--metrics '0.0.0.0:1': must be PORT or 127.0.0.1:PORT; other machines reach it through an SSH tunnel"),
    (["--rl"], "--rl: reinforcement learning is no part of `shoal train`"),
    (["--scale", "4"], "--scale: a worker lends all devices of its machine; run it once"),
    (["--supervise", "--", "--shepherd"], "--supervise: let systemd restart it, as doc/deploy.md shows, with --resume"),
    (["--api-port=1"], "--api-port: `shoal train` answers no requests: --metrics=PORT serves its state"),
    (["--node-manager"], "--node-manager: a worker lends all devices of its machine: run `shoal worker --daemon` there"),
    ([], 'there is no model_path: write model_path=FILE or --model FILE, or "model_path" into the experiment\'s file'),
    (["--model", "m"], 'there is no data_path: write data_path=FILE, or "data_path" into the experiment\'s file'),
    (["--worker", "--connect", "nowhere"], "'nowhere': must be HOST:PORT, such as 192.168.1.5:8080, or a hub's address"),
    (["--worker", "--backend", "cpu", "--target", "gfx942"], "--target gfx942: belongs to --backend cuda or rocm; others have no targets"),
    (["--worker", "--backend", "rocm", "--amd-target", "sm_80"], "--amd-target 'sm_80': must be such as gfx942"),
    (["--worker", "--device-id", "1"], "--device-id: of which backend? give --backend, too"),
    (["--shepherd", "--host", "0.0.0.0", "model_path=m", "data_path=setup.cfg"], "data_path setup.cfg: there is no such file or folder"),
])
def test_wrong_words(capsys, words, message):
    code = 1 if "there is no such file or folder" in message else 2
    assert main(words) == code
    assert capsys.readouterr() == ("", f"shoal: {message}\n")


def test_files_that_are_not_there(files):
    assert error(files / "exp.json", "data_path=none", code=1) == "data_path none: there is no such file or folder"
    assert error(files / "exp.json", "tau=1", "seed=2", "tau=1") == "the command line: tau is there twice; remove one"
    assert error(files / "exp.json", "tua=1") == "the command line: there is no key 'tua'; did you mean tau?"
    assert error("--shepherd", "--host", "0.0.0.0", files / "exp.json") == \
        "--host 0.0.0.0: workers have to know where to connect: give the address of this machine in their network"


def test_what_would_be_done(files):
    told = json.loads(run("--dry-run", "--json", files / "exp.json", "--workers", "3", "--streaming", "quorum=0.25",
                          "wandb_api_key=secret")[0])
    assert told["workers"] == {"value": 3, "source": "option"} and told["tokenizer"] == {"value": "char", "source": f"{files}/exp.json:4"}
    assert told["fragments"] == {"value": 4, "source": "option"} and told["quorum"] == {"value": 0.25, "source": "command line"}
    assert told["seed"] == {"value": 0, "source": "default"} and "secret" not in json.dumps(told)
    assert told["parameters"] == [{"name": "parameter0", "shape": [4, 2], "begins": "N(0, 0.02)"},
                                  {"name": "parameter1", "shape": [2], "begins": "0"}]
    assert run("--dry-run", files / "exp.json")[0].endswith("default\n\nParameters, and what they begin with:\n"
                                                            "parameter0  [4, 2]  N(0, 0.02)\nparameter1  [2]     0\n")
    out, err = run("--dry-run", "--json", "--config", files / "exp.json", "--model", "other.mlir", "--terminate")
    model = json.loads(out)
    assert model["model_path"] == {"value": "other.mlir", "source": "option"} and model["parameters"] is None
    assert err == ("shoal: model_path other.mlir: the model cannot be read: No such file or directory; what its parameters begin with is "
                   "left out\n")


# ---- training ----

def test_lines(files):
    out, err = run(files / "exp.json", "--workers", "2", f"log_dir={files}/log")
    assert err == ""
    lines = out.splitlines()
    assert lines[0].startswith("start: model ") and re.match(r"round 12/12, loss 0\.4167, \S+ tokens/s, .*computing", lines[-3])
    assert re.fullmatch(r"ended after round 12: loss 0\.4167, 3\.07k tokens in .* s", lines[-1])
    assert len((files / "log/run.jsonl").read_text().splitlines()) == 14


def test_json_and_notes(files):
    config = json.loads((files / "exp.json").read_text()) | {"chunk_shuffle": True}
    (files / "exp.json").write_text(json.dumps(config))
    out, err = run(files / "exp.json", "--json")
    kinds = [json.loads(line)["kind"] for line in out.splitlines()]
    assert kinds == ["start", *["round"] * 12, "end"]
    assert err == f"shoal: {files}/exp.json:1: chunk_shuffle has no effect: workers get sequences, in the order that `sampling` says\n"


def last(out):
    return json.loads(out.splitlines()[-1])


def test_resuming_sees_the_same_data(files):
    """Stopped after any round, or killed, it ends as it would have."""
    whole = last(run(files / "exp.json", "--json")[0])
    words = [files / "exp.json", "--json", f"checkpoint_dir={files}/c"]
    run(*words, "outer_loop_steps=5")
    assert last(run(*words, "--resume")[0])["theta"] == whole["theta"]
    assert list((files / "c/tokens").glob("*.tokens"))
    assert error(*words, code=1).startswith(f"checkpoint_dir {files}/c: there is a training of 12 rounds; --resume goes on with it; ")
    process = subprocess.Popen([*FAKE, *map(str, words[:2]), f"checkpoint_dir={files}/d"], stdout=subprocess.PIPE, text=True,
                               env=ENVIRONMENT | {"FAKE_SECONDS": "0.1"})
    while json.loads(process.stdout.readline())["kind"] != "checkpoint":
        pass
    process.kill()
    process.wait()
    process.stdout.close()
    assert last(run(*words[:2], f"checkpoint_dir={files}/d", "--resume")[0])["theta"] == whole["theta"]
    assert "seed is 1, and the checkpoint's 0" in error(*words[:1], f"checkpoint_dir={files}/d", "seed=1", "--resume", code=1)


def test_a_shepherd_and_workers(home, files):
    """As PCP's users start them: the port of loopback is a name of this user on this machine."""
    port = 20000 + os.getpid() % 10000
    environment = home.environment | {"SHOAL": SHOAL}

    def start(*words):
        process = subprocess.Popen([*FAKE, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        home.processes.append(process)
        return process
    shepherd = start("--shepherd", "--host", "127.0.0.1", "--port", port, "--workers", 2, files / "exp.json")
    assert shepherd.stdout.readline() == f"shoal: workers: shoal train --worker --connect 127.0.0.1:{port}\n"
    assert shepherd.stdout.readline() == "shoal: 0 of 2 workers are there; waiting for the others (Ctrl-C ends this)\n"
    first = start("--worker", "--connect", f"127.0.0.1:{port}", "--backend", "cpu", "--name", "left")
    assert first.stdout.readline() == f"worker: left joined shm:train-{port}\n"
    assert shepherd.stdout.readline() == "shoal: 1 of 2 workers are there; waiting for the others (Ctrl-C ends this)\n"
    second = start("--connect", f"localhost:{port}", "--backend", "cpu", "--device-id", "0", "--name", "right")
    assert second.stdout.readline() == f"worker: right joined shm:train-{port}\n"
    rest, _ = shepherd.communicate(timeout=120)
    assert shepherd.returncode == 0 and "ended after round 12" in rest
    # The hub ends with its shepherd, also with one that is killed; workers wait for the next one.
    shepherd = start("--shepherd", "--port", port, "--workers", 3, files / "exp.json")
    while not shepherd.stdout.readline().startswith("shoal: 2 of 3 workers are there; waiting"):
        pass
    hub = int(pathlib.Path(f"/proc/{shepherd.pid}/task/{shepherd.pid}/children").read_text())
    assert os.getsid(hub) != os.getsid(shepherd.pid)  # Ctrl-C, after which a round goes on, is not for the hub
    shepherd.kill()
    shepherd.wait()
    until(lambda: not alive(hub))
    again = start("--shepherd", "--port", port, "--workers", 3, files / "exp.json")
    assert again.stdout.readline().startswith("shoal: workers: ")
    while not again.stdout.readline().startswith("shoal: 2 of 3 workers are there; waiting"):
        pass
    beside = start("--shepherd", "--port", port, "--workers", 3, files / "exp.json")
    assert beside.stdout.readline() == f"shoal: there is a hub at 127.0.0.1:{port}, which is used\n"
    for process in (beside, again):  # the wait ends at once
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT and time.monotonic() - began < 2 * SLACK


def test_a_worker_that_is_there_first(home, files):
    """It says what it waits for, joins when there is a hub, and Ctrl-C ends the wait; what waiting does not mend is an error."""
    port = 30000 + os.getpid() % 10000
    words = [*FAKE, "--worker", "--connect", f"127.0.0.1:{port}", "--backend", "cpu", "--name"]
    environment = home.environment | {"SHOAL": SHOAL}

    def start(*words):
        process = subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        home.processes.append(process)
        return process
    waits = (rf"\S+ warn worker: no hub answers at shm:train-{port}: start one with `shoal hub`, or check the address; tries to join, "
             "until it can\n")
    first, other = start(*words, "first"), start(*words, "other")
    assert re.fullmatch(waits, first.stdout.readline()) and re.fullmatch(waits, other.stdout.readline())
    other.send_signal(signal.SIGINT)
    assert other.communicate(timeout=60)[0] == "worker: ended\n" and other.returncode == 0
    shepherd = start(*FAKE, "--shepherd", "--port", port, "--workers", 1, files / "exp.json")
    assert first.stdout.readline() == f"worker: first joined shm:train-{port}\n"
    assert "ended after round 12" in shepherd.communicate(timeout=120)[0] and shepherd.returncode == 0
    none = subprocess.run([*words, "none", "--backend", "none"], capture_output=True, text=True, env=environment, timeout=60)
    assert none.returncode == 1 and none.stderr.startswith("shoal: unknown backend 'none'; known: ")
    daemon = subprocess.run([SHOAL, "worker", "--wait", "--daemon"], capture_output=True, text=True, env=environment, timeout=60)
    assert (daemon.returncode, daemon.stderr) == (2, "shoal: --wait and --daemon: a daemon is there once it has joined; leave one of them "
                                                     "out\n")


def test_a_hub_that_ends_by_itself(home, monkeypatch):
    """Another one is started in its place, until the training is over."""
    monkeypatch.setenv("SHOAL", SHOAL)
    for name, value in home.environment.items():
        monkeypatch.setenv(name, value)
    said, address = [], f"shm:train-test-{os.getpid()}"
    hub = roles.Hub(["hub", "--address", address], "here", said.append)
    for i in range(3):
        first = hub._process.process
        first.kill()
        until(lambda old=first: hub._process.process is not old)
        Session(hub=address, timeout_ms=60000).close()
        assert said == (i + 1) * ["the hub at here has ended; starting another one"]
    last = hub._process.process
    hub.stop()
    assert last.poll() is not None
    time.sleep(0.1)
    assert hub._process.process is last and len(said) == 3


IN_A_NETWORK = ["unshare", "-n", "sh", "-c", 'ip link set lo up && ip address add 10.9.9.1/24 dev lo && exec "$@"', "sh"]


@pytest.mark.skipif(subprocess.run([*IN_A_NETWORK, "true"], capture_output=True).returncode != 0, reason="no network namespaces here")
def test_beyond_loopback_workers_are_enrolled(home, files):
    """In a network of this test's own: a hub that listens there, a user who is not enrolled, and what to type."""
    (files / "other").mkdir(mode=0o700)
    script = f"""
        exec 2>&1
        theirs="env HOME={files}/other XDG_RUNTIME_DIR={files}/other"
        {' '.join(FAKE)} --shepherd --host 10.9.9.1 --port 8080 {files}/exp.json >{files}/shepherd.txt 2>&1 &
        shepherd=$!
        until grep -q 'are there; waiting' {files}/shepherd.txt; do sleep 0.05; done
        $theirs {' '.join(FAKE)} --worker --connect 10.9.9.1:8080 --backend cpu || echo "refused with $?"
        {SHOAL} invite | $theirs {SHOAL} join
        $theirs {' '.join(FAKE)} --worker --connect 10.9.9.1:8080 --backend cpu --name theirs &
        worker=$!
        wait $shepherd && cat {files}/shepherd.txt
        kill $worker; wait
    """
    done = subprocess.run([*IN_A_NETWORK, "timeout", "-k", "5", "150", "bash", "-c", script], capture_output=True, text=True, timeout=180,
                          env=home.environment | {"SHOAL": SHOAL})
    told = done.stdout
    assert re.search(r"^shoal: .*10\.9\.9\.1:8080.*shoal join.*\nrefused with 1$", told, re.M), told + done.stderr
    assert re.search(r"^joined the hub at tcp://10\.9\.9\.1:8080", told, re.M), told
    assert re.search(r"^worker: theirs joined ", told, re.M) and "ended after round 12" in told, told
    assert ("shoal: workers: shoal train --worker --connect 10.9.9.1:8080; on another machine, once: `shoal invite` here prints a token, "
            "and `shoal join` takes it there\n") in told


def test_addresses():
    assert [roles.address_of(text) for text in ("localhost:1", "127.0.0.2:7", "[::1]:8", "192.168.1.5:9", "shm:x", "tcp://h:1")] == \
        ["shm:train-1", "shm:train-7", "shm:train-8", "tcp://192.168.1.5:9", "shm:x", "tcp://h:1"]
    for text in ("h", "h:", ":1", "h:0", "h:70000", "h:x"):
        with pytest.raises(arguments.UsageError, match="must be HOST:PORT"):
            roles.address_of(text)


def test_backends_by_pcps_names(monkeypatch):
    def rows(*found):
        def answer(words, **options):
            name = words[2]
            devices = [device for backend, device in found if backend == name]
            told = [{"backend": name, "index": i, "device": device, "reason": None if device else "none found"}
                    for i, device in enumerate(devices)]
            return subprocess.CompletedProcess(words, 0 if told else 1, json.dumps(told), "")
        monkeypatch.setattr(roles.subprocess, "run", answer)

    def devices(*words):
        return roles._devices(arguments.parse(["--worker", *words]))[1:]
    rows(("opencl", "NVIDIA GeForce RTX 3090"), ("torch", "cuda:0"))
    assert devices("--backend", "cuda") == ["opencl:0"]
    rows(("opencl", "pthread-znver4"), ("torch", "CUDA device"))
    assert devices("--backend", "cuda", "--target", "sm_80") == ["torch:0"]
    rows(("opencl", "gfx942 (AMD)"), ("opencl", "gfx90a (AMD)"))
    assert devices("--backend", "rocm", "--amd-target", "gfx942") == ["opencl:0"]
    with pytest.raises(Exception, match="the device here is gfx942 \\(AMD\\), not gfx1100; leave the target out"):
        devices("--backend", "rocm", "--amd-target", "gfx1100")
    rows(("opencl", None))
    with pytest.raises(Exception, match="--backend rocm: there is no such device here that opencl or torch could lend \\(opencl: none found\\); "
                                        "`shoal doctor` shows all devices"):
        devices("--backend", "rocm")
    with pytest.raises(Exception, match="--backend metal: there is no such device here that ggml could lend; "):
        devices("--backend", "metal")


def test_pcps_names_of_the_command(files):
    want = run("--dry-run", files / "exp.json")
    for name in "pcp", "main_distributed":
        assert run("--dry-run", files / "exp.json", command=[sys.executable, "-m", name]) == want


# ---- with the real shepherd ----

MODEL = """
import sys
import numpy as np
import shoal
from shoal import functional as F


def loss(table, out, bias, ids, targets):
    return F.cross_entropy((table[ids] @ out + bias).reshape(-1, 128), targets.reshape(-1))


tokens = np.zeros((4, 16), np.int32)
shoal.stablehlo.export(loss, *(np.zeros(shape, np.float32) for shape in ((128, 16), (16, 128), (128,))), tokens, tokens).save(sys.argv[1])
"""


def test_what_can_be_known_is_told_before_workers_come(home, files):
    """A training that cannot be waits for nobody; nor does one of which nothing is left to do."""
    run("-c", MODEL, files / "m.mlir", command=[sys.executable])
    words = [files / "exp.json", "tokenizer=byte", "--shepherd", "--port", 25000 + os.getpid() % 5000]
    real = {"command": [SHOAL, "train"]} | {name: value for name, value in home.environment.items() if name != "SHOAL"}
    assert "\nshoal: max_epochs is 0.001: of 362 sequences that is 0, " in run(*words, "max_epochs=0.001", code=1, **real)[1]
    run(files / "exp.json", "tokenizer=byte", "tau=2", f"checkpoint_dir={files}/c", "outer_loop_steps=2", command=[SHOAL, "train"])
    out, err = run(*words, "tau=2", f"checkpoint_dir={files}/c", "outer_loop_steps=2", "--resume", **real)
    assert "\nnothing is left to do: the checkpoint is of round 2, and outer_loop_steps is 2: make outer_loop_steps larger" in out
    assert "waiting" not in err


def test_an_output_that_takes_nothing(files):
    """A full device is one message, and an exit code at the end of the training; a closed output is as good as /dev/null."""
    cut = "shoal: standard output: No space left on device; training goes on without this log\n"
    for words, message in (["--json"], cut), ([], cut), (["--dry-run"], "shoal: writing the output: No space left on device\n"):
        for to, code, told in ("/dev/full", 1, message), ("&-", 0, ""):
            script = f'"$@" >{to}'
            out, err = run("-c", script, "sh", *FAKE, files / "exp.json", f"log_dir={files}/log", *words, command=["sh"], code=code)
            assert (out, err) == ("", told)
    kinds = [json.loads(line)["kind"] for line in (files / "log/run.jsonl").read_text().splitlines()]
    assert kinds.count("end") == 4 and kinds.count("message") == 2
    run("-c", '"$@" >&- 2>&- <&-', "sh", *FAKE, files / "exp.json", command=["sh"])


@pytest.mark.skipif(importlib.util.find_spec("shoal.train.shepherd") is None, reason="the shepherd is not in this build")
def test_a_model_learns_and_a_killed_training_goes_on(files):
    run("-c", MODEL, files / "m.mlir", command=[sys.executable])
    real = [SHOAL, "train"]
    words = [files / "exp.json", "tokenizer=byte", "workers=2", "balance=equal", "tau=10", "learning_rate=0.05", "max_epochs=100",
             "outer_loop_steps=25", "--json"]

    def losses(out):
        rows = [json.loads(line) for line in out.splitlines() if line.endswith("}")]
        return {row["round"]: row["loss"] for row in rows if row["kind"] == "round"}
    want = losses(run(*words, command=real)[0])
    assert list(want) == list(range(1, 26)) and want[1] > 3 and want[25] < 1.5  # ln 128 at first; the text repeats itself
    words += [f"checkpoint_dir={files}/c", "--resume"]
    got = {}
    for rows in (7, 9):
        process = subprocess.Popen([*real, *map(str, words)], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        lines = [process.stdout.readline() for _ in range(3 * rows)]
        process.kill()
        lines += process.stdout.readlines()
        process.wait()
        got |= losses("".join(lines))
    got |= losses(run(*words, command=real)[0])
    assert got == want  # bit for bit
