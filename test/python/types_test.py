"""The types of the package as users have it, installed: mypy --strict finds nothing in its stubs, in the examples
and in a program of every kind, which runs, too; and it finds what is wrong in one with mistakes."""
import pathlib
import subprocess
import sys

import pytest

import shoal

HERE = pathlib.Path(__file__).parent
PACKAGE = pathlib.Path(shoal.__file__).parent
pytest.importorskip("mypy", reason="pip install mypy")
# One mistake a line; beside it what mypy calls it.
WRONG = """import shoal
from shoal import nn, optim
x: int = shoal.zeros(2)  # assignment
y: shoal.Tensor = shoal.zeros(2).numel()  # assignment
shoal.zeros(2).no_such_method()  # attr-defined
n: str = shoal.zeros(2).size(0)  # assignment
shoal.zeros(2).sum(dim="rows")  # arg-type
shoal.no_such_function()  # attr-defined
nn.Linear("3", 4)  # arg-type
optim.SGD(nn.Linear(3, 4).parameters(), lr="fast")  # arg-type
z: shoal.Tensor = shoal.no_grad()  # assignment
"""


def found(cache, *targets):
    """mypy's lines on programs and modules; the package counts as one's own code: errors in it are printed."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", cache, *map(str, targets)],
        env={"MYPYPATH": str(PACKAGE.parent), "PATH": ""}, cwd=cache, capture_output=True, text=True, timeout=280)
    assert not done.stderr and done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("mypy")


def test_the_stubs(cache):
    stubs = sorted(PACKAGE.rglob("*.pyi"))
    assert len(stubs) > 30 and (PACKAGE / "py.typed").exists()
    assert not found(cache, *stubs)


def test_examples(cache):
    examples = sorted(HERE.parent.parent.glob("examples/*.py"))
    assert len(examples) >= 4
    assert not found(cache, *examples)


def test_a_typed_program(cache):
    program = HERE / "typed_program.py"
    assert not found(cache, program)
    subprocess.run([sys.executable, program], check=True, timeout=60)


def test_mistakes_are_found(cache):
    wrong = cache / "wrong.py"
    wrong.write_text(WRONG)
    lines = [(int(line.split(":")[1]), line.rpartition("[")[2].rstrip("]")) for line in found(cache, wrong)
             if ": error: " in line]
    assert lines == [(i, line.partition("# ")[2]) for i, line in enumerate(WRONG.splitlines(), 1) if "# " in line]
