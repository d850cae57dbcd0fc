#!/usr/bin/env python3
"""Reads everything with clang, warnings being errors (gcc's are in the main build).

    tools/clang.py SOURCE BUILD

Nothing runs. Kernels are compiled, as only that tells whether the instructions they name are those of their processor; all
else is parsed, and its types and flow are checked: warnings come of that, and it takes a small part of the time of a build.
"""
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from common import report, run_all

KERNELS = "src/backend/libcpu_"


def build(source, folder):
    """A build folder for clang with what is generated, and the kernels; an error ends the program."""
    # Inside `meson test` the variables of the outer build must not leak into this one.
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MESON_BUILD_ROOT", "MESON_SOURCE_ROOT")}
    environment |= {"CC": "clang", "PATH": f"{source / 'build/venv/bin'}:{environment['PATH']}"}

    def run(*words):
        return subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
    try:
        if not (folder / "build.ninja").exists():
            run("meson", "setup", folder, source, "--werror", "-Doptimization=0", "-Ddebug=false")
        targets = [line.split(":")[0] for line in run("ninja", "-C", folder, "-t", "targets", "all").splitlines()]
        run("ninja", "-C", folder, *(name for name in targets
                                     if name.endswith(".pb-c.h") or name.startswith(KERNELS) and name.endswith(".a")))
    except subprocess.CalledProcessError as error:
        sys.exit(f"clang: {shlex.join(map(str, error.cmd[:4]))}…:\n{error.stdout}{error.stderr}")


def parsing(command):
    """A command that compiles, without what it writes."""
    words = iter(shlex.split(command))
    for word in words:
        if word in ("-o", "-MQ", "-MF"):
            next(words)
        elif word not in ("-c", "-MD"):
            yield word
    yield "-fsyntax-only"


def main():
    source, folder = (Path(word).resolve() for word in sys.argv[1:])
    build(source, folder)
    units = [unit for unit in json.loads((folder / "compile_commands.json").read_text()) if not unit["output"].startswith(KERNELS)]
    jobs = [(unit["output"], ["env", "-C", unit["directory"], *parsing(unit["command"])]) for unit in units]
    problems = [f"{output}:\n{done.stderr.strip()}" for output, done in run_all(jobs) if done.returncode]
    return report("clang", problems, len(jobs))


if __name__ == "__main__":
    sys.exit(main())
