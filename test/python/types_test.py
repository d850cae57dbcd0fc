"""The types of the package: mypy --strict finds nothing in a program that uses it, which runs, too; and finds
what is wrong in one with mistakes."""
import os
import pathlib
import subprocess
import sys

import pytest

import shoal

HERE = pathlib.Path(__file__).parent
pytest.importorskip("mypy", reason="pip install mypy")
WRONG = """import shoal
x: int = shoal.zeros(2)
y: shoal.Tensor = shoal.zeros(2).numel()
shoal.zeros(2).no_such_method()
n: str = shoal.zeros(2).size(0)
"""


def found(path, cache):
    """mypy's lines on a program, with the package as users have it: installed, with its stubs."""
    package = os.path.dirname(os.path.dirname(shoal.__file__))
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary",
                           "--cache-dir", str(cache), str(path)], env={**os.environ, "MYPYPATH": package},
                          capture_output=True, text=True, timeout=250)
    assert not done.stderr, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith(str(path))]


def test_a_typed_program(tmp_path):
    program = HERE / "typed_program.py"
    assert not found(program, tmp_path)
    subprocess.run([sys.executable, program], check=True, timeout=60)
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    lines = found(wrong, tmp_path)
    assert [int(line.split(":")[1]) for line in lines] == [2, 3, 4, 5], lines
