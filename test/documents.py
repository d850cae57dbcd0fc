"""The documents that the product has to satisfy, which lie beside the checkout, and the programs in them."""
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMMANDS = {"python": [sys.executable], "bash": ["bash", "-e"]}


def blocks(number, language):
    """(line, code) of each fenced block of a document in a language; none where it is not there. Those within lists, too."""
    text = "".join(path.read_text() for path in (ROOT.parent / "shared" / "seeds").glob(f"{number}_*.txt"))
    return [(text.count("\n", 0, m.start()) + 1, textwrap.dedent(m[2])) for m in re.finditer(
        rf"^( *)```{language}\n(.*?)^ *```", text, re.M | re.S)]


def needs(number):
    """Skips a test where a document is not there."""
    there = any((ROOT.parent / "shared" / "seeds").glob(f"{number}_*.txt"))
    return pytest.mark.skipif(not there, reason=f"document {number} is not in ../shared/seeds beside the checkout")


def run(code, folder, language="python", fails=False, prefix=(), **variables):
    """What a program prints, also to its standard error where it is to fail. prefix: what its command comes after."""
    path = folder / f"program.{language}"
    path.write_text(code)
    done = subprocess.run([*prefix, *COMMANDS[language], path], cwd=folder, env={**os.environ, **variables}, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=240)
    assert (done.returncode != 0) == fails, code + done.stdout + done.stderr
    return done.stdout + done.stderr * fails
