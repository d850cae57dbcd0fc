"""The examples in C that need data: the digits that scikit-learn brings along.

The variable EXAMPLE_MLP names the program (default: build/cmd/example_mlp)."""
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
MLP = os.environ.get("EXAMPLE_MLP", str(ROOT / "build/cmd/example_mlp"))


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Files of 1797 images of 8 x 8, from 0 to 1, in an order that mixes writers, and their labels."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        pytest.exit("scikit-learn is not here: tools/install.sh brings it", 77)
    folder, found = tmp_path_factory.mktemp("digits"), load_digits()
    order = np.random.default_rng(1).permutation(len(found.target))
    np.save(folder / "images.npy", (found.data[order] / 16).astype("float32"))
    np.save(folder / "labels.npy", found.target[order].astype("int64"))
    return folder / "images.npy", folder / "labels.npy"


def run(*arguments, code=0):
    done = subprocess.run([MLP, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                          env=os.environ | {"SHOAL_HUB": "embedded"})
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


def test_mlp_learns_digits(digits):
    out, _ = run(*digits)
    losses = [float(x) for x in re.findall(r"step \d+: loss ([\d.]+)", out)]
    assert len(losses) == 6 and losses[-1] < 0.2
    right, of = re.search(r"([\d.]+) % of (\d+) images are recognised", out).groups()
    assert int(of) == 359 and float(right) >= 95


def test_mlp_says_what_is_wrong(digits, tmp_path):
    assert "usage: mlp" in run(code=2)[1]
    assert "missing.npy" in run(tmp_path / "missing.npy", digits[1], code=1)[1]
    np.save(tmp_path / "wrong.npy", np.ones((10, 3), "float64"))
    assert "float64[64, 3]" in run(tmp_path / "wrong.npy", digits[1], code=1)[1]
