"""`shoal compile`: artifacts of IREE, where they are kept, and that none is used that is not as it was signed."""
import concurrent.futures
import contextlib
import importlib.metadata
import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import shoal
from shoal.hosted import artifacts
from slack import SLACK

pytest.importorskip("iree.compiler")
runtime = pytest.importorskip("iree.runtime")
SHOAL = os.environ.get("SHOAL", "shoal")
X = np.array([[1, -2, 3], [0.5, 0, -1]], np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Compiling takes half a second: what is kept is for all tests."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def home(folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    return folder


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.mlir"
    shoal.stablehlo.export(lambda x: shoal.functional.softmax(x * 2, 1), X).save(path)
    return path


def run(capsys, *words, code=0):
    assert artifacts.main([str(word) for word in words]) == code
    out, err = capsys.readouterr()
    return json.loads(out) if "--json" in words and not code else out if not code else err


def runs(path):
    config = runtime.Config("local-sync")
    context = runtime.SystemContext(config=config)
    context.add_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, pathlib.Path(path).read_bytes()))
    got = np.asarray(context.modules.module.main(X))
    e = np.exp(2 * X)
    np.testing.assert_allclose(got, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_an_artifact_is_made_once(model, home, capsys):
    first, = run(capsys, model, "--json")
    again, = run(capsys, model, "--json")
    assert first["new"] and not again["new"] and {**first, "new": False} == again
    assert (first["target"], first["device"], first["model"]) == ("llvm-cpu", artifacts.processor(), "model.mlir")
    runs(first["file"])
    assert pathlib.Path(first["file"]).parent == home / "cache" / "shoal" / "iree"
    assert stat.S_IMODE((home / "cache" / "shoal" / "iree").stat().st_mode) == 0o700
    secret = home / "config" / "shoal" / "artifacts"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert first["file"] in run(capsys, "--list") and f"model.mlir for llvm-cpu ({artifacts.processor()})" in run(capsys, "--list")
    assert [row["digest"] for row in run(capsys, "--list", "--json")].count(first["digest"]) == 1


def test_kinds_of_hardware(model, capsys):
    rows = run(capsys, model, "--target", "cuda:sm_89", "--target", "hip", "--target", "vulkan", "--target", "metal", "--target-cpu", "znver4", "--json")
    assert [(row["target"], row["device"]) for row in rows] == [("cuda", "sm_89"), ("rocm", "gfx942"), ("vulkan", ""), ("metal", ""),
                                                                ("llvm-cpu", "znver4")]
    assert len({row["digest"] for row in rows}) == 5
    row, = run(capsys, model, "--amd-target", "gfx1100", "--json")
    assert (row["target"], row["device"]) == ("rocm", "gfx1100")


def test_output_and_checks(model, tmp_path, capsys, monkeypatch):
    path = tmp_path / "model.vmfb"
    run(capsys, model, "-o", path)
    runs(path)
    assert "is there already; --force overwrites it" in run(capsys, model, "-o", path, code=2)
    run(capsys, model, "-o", path, "--force")
    row, = run(capsys, "--check", path, "--json")
    assert run(capsys, "--check", path, "--signer", row["signer"].upper()).startswith(str(path))
    assert f"is signed by {row['signer']}, not by {'0' * 64}" in run(capsys, "--check", path, "--signer", "0" * 64, code=1)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))  # somebody else, who knows the key, or does not
    assert f"is signed by {row['signer']}, not by " in run(capsys, "--check", path, code=1)
    assert run(capsys, "--check", path, "--signer", row["signer"], "--json") == [row]


@pytest.mark.parametrize("damage, message", [
    (lambda path, note: path.write_bytes(path.read_bytes()[:-1] + b"?"), "is not the artifact that was signed"),
    (lambda path, note: path.with_name("a.vmfb.sig").unlink(), "is not signed: there is no a.vmfb.sig beside it"),
    (lambda path, note: path.with_name("a.vmfb.sig").write_text("[" * 60000), "is no note of an artifact"),
    (lambda path, note: path.with_name("a.vmfb.sig").write_text("7"), "is no note of an artifact"),
    (lambda path, note: path.with_name("a.vmfb.sig").write_text(json.dumps({**note, "signer": 5})), "is no note of an artifact"),
    (lambda path, note: path.with_name("a.vmfb.sig").write_text(json.dumps({key: note[key] for key in ("signer", "signature", "digest")})),
     "is no note of an artifact"),
    (lambda path, note: path.with_name("a.vmfb.sig").write_text(json.dumps({**note, "target": "cuda"})), "the signature is not that of"),
    (lambda path, note: path.with_name("a.vmfb.sig").write_text(json.dumps({**note, "signature": "00"})), "the signature is not that of"),
])
def test_nothing_else_is_used(model, tmp_path, capsys, damage, message):
    path = tmp_path / "a.vmfb"
    run(capsys, model, "-o", path)
    damage(path, json.loads(path.with_name("a.vmfb.sig").read_text()))
    assert message in run(capsys, "--check", path, code=1)


def test_what_was_changed_is_made_again(model, capsys):
    first, = run(capsys, model, "--json")
    other, = run(capsys, model, "--target", "cuda", "--json")
    # The artifact of another program, rightly signed, in its place.
    for ending in ("", ".sig"):
        pathlib.Path(first["file"] + ending).write_bytes(pathlib.Path(other["file"] + ending).read_bytes())
    again, = run(capsys, model, "--json")
    assert again["new"] and again["target"] == "llvm-cpu"
    runs(again["file"])


def test_a_key_that_others_can_read(model, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    run(capsys, model, "-o", tmp_path / "a.vmfb")
    secret = tmp_path / "shoal" / "artifacts"
    secret.chmod(0o644)
    assert f"{secret} is open to others (mode 644): chmod 600 it" in run(capsys, "--check", tmp_path / "a.vmfb", code=1)
    secret.chmod(0o600)
    secret.write_text("secret 00\n")
    assert f"{secret} holds no key: remove it, then a new one is made" in run(capsys, "--check", tmp_path / "a.vmfb", code=1)


@pytest.mark.parametrize("words, code, message", [
    (["--target", "tpu"], 2, "'tpu' is no target; there are llvm-cpu, cuda, rocm, vulkan, metal"),
    (["--target", "metal:m3"], 2, "metal: 'm3': there are no models of such devices to choose from; leave it out"),
    (["--target", "cuda:sm_1"], 1, " for cuda (sm_1, if it knows that): "),
    (["--target", "llvm-cpu:x86_64+mmx9"], 2, "x86_64 has no 'mmx9'; there are sse3, ssse3"),
    (["--target", "llvm-cpu:x86_64+avx+sse3"], 2, "each is named once, in this order: sse3, ssse3"),
    (["--target", "llvm-cpu:znver4+avx"], 2, "processors of kind znver4 are not known; there are x86_64, aarch64"),
    (["--target-cpu", "i99"], 1, " for llvm-cpu (i99, if it knows that): Unknown CPU for target architecture"),
    (["--target", "cuda", "--target", "rocm", "-o", "x"], 2, "compile: --output: one file for 2 targets"),
    (["--target", "llvm-cpu:znver4", "--target-cpu", "znver3"], 2, "both name a device; give one"),
    (["--signer", "00"], 2, "--signer says who has to have signed"),
    (["--unheard"], 2, "compile: unrecognized arguments: --unheard"),
    (["--list"], 2, "compile: --list stands alone"),
    (["--serve", "kept"], 2, "compile: --serve stands alone, with --hub"),
    (["--hub", "shm:x"], 2, "compile: --hub says which hub --serve is for"),
    (["--function", "f"], 1, "there is no function @f"),
])
def test_errors(model, capsys, words, code, message):
    assert message in run(capsys, model, *words, code=code)


def test_other_errors(tmp_path, capsys, monkeypatch):
    assert "compile needs a model: compile MODEL.mlir --target llvm-cpu" in run(capsys, code=2)
    none, wrong = tmp_path / "none.mlir", tmp_path / "wrong.mlir"
    assert run(capsys, none, code=1) == f"shoal: {none}: No such file or directory\n"
    wrong.write_text("func.func @main() {\n  return %x\n}\n")
    assert run(capsys, wrong, code=1).startswith(f"shoal: {wrong}: line 2, column")


def test_where_an_artifact_cannot_be(model, tmp_path, capsys):
    nowhere, made = tmp_path / "nowhere" / "a.vmfb", tmp_path / "a.vmfb"
    assert run(capsys, model, "-o", nowhere, code=1) == (
        f"shoal: {nowhere}: there is no folder {nowhere.parent}; make it, or name another\n")
    assert not nowhere.parent.exists()
    (tmp_path / "a.vmfb.sig").mkdir()
    assert run(capsys, model, "-o", made, code=1) == f"shoal: {made}.sig: Is a directory\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.vmfb", "a.vmfb.sig", "model.mlir"]
    assert re.fullmatch(r"shoal: /proc/a\.vmfb: \S.*\n", run(capsys, model, "-o", "/proc/a.vmfb", code=1))


def test_the_command(model, folder):
    environment = os.environ | {"SHOAL_PYTHON": sys.executable}
    done = subprocess.run([SHOAL, "compile", model, "--json"], capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["target"] == "llvm-cpu"
    bare = subprocess.run([sys.executable, "-c", "import sys; sys.modules['iree'] = None; from shoal.hosted.artifacts import main; sys.exit(main())",
                           model], capture_output=True, text=True, timeout=60, env=environment)
    assert bare.returncode == 1 and "pip install iree-base-compiler, for the Python that SHOAL_PYTHON names" in bare.stderr
    assert "--amd-target" in subprocess.run([SHOAL, "compile", "--help"], capture_output=True, text=True, timeout=60).stdout


# ---- several at once, and interruptions ----

TEXT = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
  %0 = stablehlo.constant dense<{}.0> : tensor<2xf32>
  %1 = stablehlo.add %x, %0 : tensor<2xf32>
  return %1 : tensor<2xf32>
}}
"""


def test_one_compiles_for_several_at_once(home, monkeypatch):
    compiler, compile_str = artifacts.iree_compiler(), artifacts.iree_compiler().compile_str
    compiling, waiting, made = threading.Event(), threading.Event(), []

    def slow(*given, **how):
        compiling.set()
        assert waiting.wait(60)
        made.append(compile_str(*given, **how))
        return made[-1]
    monkeypatch.setattr(compiler, "compile_str", slow)
    monkeypatch.setattr(artifacts.time, "sleep", lambda seconds, sleep=time.sleep: (waiting.set(), sleep(seconds)))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(artifacts.build, TEXT.format(1), "llvm-cpu")
        assert compiling.wait(60)
        second = pool.submit(artifacts.build, TEXT.format(1), "llvm-cpu")
        results = first.result(120), second.result(120)
    assert len(made) == 1 and [result.new for result in results] == [True, False]
    assert results[0].data == results[1].data == made[0] and not list(artifacts.folder().glob("*.lock"))


def test_who_dies_while_compiling_frees_the_lock(home, monkeypatch):
    wanted = artifacts.recipe(TEXT.format(2), "llvm-cpu", None, importlib.metadata.version("iree-base-compiler"))
    holder = subprocess.Popen([sys.executable, "-c", "import sys\nfrom shoal.hosted import artifacts\nwith artifacts._alone(sys.argv[1]):\n"
                               "    print('held', flush=True)\n    sys.stdin.read()", wanted.made_of],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"

    def kill(seconds, sleep=time.sleep):  # once the other one waits
        holder.kill()
        sleep(seconds)
    monkeypatch.setattr(artifacts.time, "sleep", kill)
    assert artifacts.build(TEXT.format(2), "llvm-cpu").new
    assert holder.wait(60) == -signal.SIGKILL and not list(artifacts.folder().glob("*.lock"))
    holder.stdin.close()
    holder.stdout.close()


def test_nobody_waits_for_ever(home, monkeypatch):
    made_of = artifacts.recipe(TEXT.format(3), "llvm-cpu", None, importlib.metadata.version("iree-base-compiler")).made_of
    monkeypatch.setattr(artifacts, "_LONGEST", 0.1)
    with artifacts._alone(made_of):
        assert artifacts.build(TEXT.format(3), "llvm-cpu").new
    assert not list(artifacts.folder().glob("*.lock"))


@pytest.mark.parametrize("whom", ["group", "one"])
def test_an_interruption_ends_it(tmp_path, whom):
    """At once, without a word, and without a file: of the process alone, as by kill, or with its compiler, as by Ctrl-C."""
    kind, lines = "tensor<64x64xf32>", []
    for i in range(400):
        lines += [f"%d{i} = stablehlo.dot_general %{f's{i - 1}' if i else 'x'}, %x, contracting_dims = [1] x [0] : ({kind}, {kind}) -> {kind}",
                  f"%s{i} = stablehlo.sine %d{i} : {kind}"]
    (tmp_path / "slow.mlir").write_text("\n".join([f"func.func @main(%x: {kind}) -> {kind} {{", *lines, f"return %s399 : {kind}", "}"]))
    environment = os.environ | {"SHOAL_PYTHON": sys.executable, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    running = subprocess.Popen([SHOAL, "compile", tmp_path / "slow.mlir"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment, start_new_session=True)

    def compiles():
        children = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        return any("--iree-hal-target-backends" in pathlib.Path(f"/proc/{child}/cmdline").read_text() for child in children)
    with contextlib.suppress(FileNotFoundError):
        while not compiles():
            assert running.poll() is None
            time.sleep(0.02)
    start = time.monotonic()
    os.killpg(running.pid, signal.SIGINT) if whom == "group" else running.send_signal(signal.SIGINT)
    assert running.communicate(timeout=60) == ("", "") and running.returncode == -signal.SIGINT
    assert time.monotonic() - start < 2 * SLACK
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
