#!/usr/bin/env python3
"""Runs the programs in the documents, so that they stay true.

    tools/doc_check.py --build BUILD FILE-OR-FOLDER...

A fenced block marked `sh run`, `python run` or `c run` is run. The blocks of a document run one
after another in one empty folder, so that a later one sees the files and the background processes
of an earlier one. A block marked `output` right after it says what it prints: each of its lines has
to occur, in this order; blanks count as one, and `…` stands for anything within a line.
Exits with 77 (skipped) when the command or the Python package has not been built.
"""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from common import ROOT, report

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```[ \t]*$", re.M | re.S)
LANGUAGES = ("sh", "python", "c")
SECONDS = 120


def blocks(text):
    """(line, language, code, expected output or None) of each block that is to be run."""
    found, last_end = [], None
    for match in FENCE.finditer(text):
        words = match[1].split()
        if len(words) == 2 and words[0] in LANGUAGES and words[1] == "run":
            found.append([text.count("\n", 0, match.start()) + 1, words[0], match[2], None])
            last_end = match.end()
        elif words == ["output"] and found and last_end is not None \
                and not text[last_end:match.start()].strip():
            found[-1][3] = match[2]
            last_end = None
        else:
            last_end = None
    return found


def compare(expected, printed):
    """The first line expected that does not occur, or None."""
    lines = iter([" ".join(line.split()) for line in printed.splitlines()])
    for line in filter(None, (" ".join(line.split()) for line in expected.splitlines())):
        pattern = re.compile(".*".join(map(re.escape, re.split(r"…|\.\.\.", line))))
        if not any(pattern.fullmatch(candidate) for candidate in lines):
            return line
    return None


def run_block(language, code, folder, environment, build):
    """Runs one block; its output goes through a file, which background processes may keep open."""
    suffix = {"sh": ".sh", "python": ".py", "c": ".c"}[language]
    source = folder / f".block{suffix}"
    source.write_text(code)
    command = {"sh": ["bash", "-eu", source.name], "python": [sys.executable, source.name],
               "c": ["sh", "-ec", f'cc -std=c11 -Wall -Wextra -Werror {source.name} -o .block '
                     f'-I"{ROOT}/include" -L"{build}" -lshoal -Wl,-rpath,"{build}"; ./.block']}
    with open(folder / ".output", "w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(command[language], cwd=folder, env=environment, stdout=output,
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        output.seek(0)
        return process.pid, code, output.read()


def end_group(group):
    """Ends what a block left running."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            return
        for _ in range(20):
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                return
            subprocess.run(["sleep", "0.05"], check=False)


def check(path, build):
    """(problems, number of blocks) of one document."""
    folder = Path(tempfile.mkdtemp(prefix="shoal-doc-"))
    environment = dict(os.environ, XDG_RUNTIME_DIR=str(folder), HOME=str(folder),
                       PYTHONPATH=str(build / "python"),
                       PATH=f"{build / 'cmd'}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    environment.pop("SHOAL_HUB", None)
    todo, groups, problems = blocks(path.read_text(encoding="utf-8")), [], []
    for line, language, code, expected in todo:
        group, status, printed = run_block(language, code, folder, environment, build)
        groups.append(group)
        if status is None:
            problems.append(f"{path}:{line}: still running after {SECONDS} s\n{printed}")
        elif status != 0:
            problems.append(f"{path}:{line}: exit code {status}\n{printed}")
        elif expected is not None and compare(expected, printed) is not None:
            problems.append(f"{path}:{line}: does not print: {compare(expected, printed)}\n"
                            f"It prints:\n{printed}")
        if problems:  # what follows depends on it
            break
    for group in reversed(groups):
        end_group(group)
    shutil.rmtree(folder, ignore_errors=True)
    return problems, len(todo)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=Path)
    parser.add_argument("--anything", action="store_true",
                        help="do not ask whether Shoal has been built")
    parser.add_argument("paths", nargs="+", type=Path)
    options = parser.parse_args()
    build = options.build.resolve()
    for needed in (build / "cmd" / "shoal", build / "python" / "shoal"):
        if not options.anything and not needed.exists():
            print(f"not built: {needed.name} in {needed.parent.name}/ of the build folder")
            return 77
    documents = [document for path in options.paths
                 for document in (sorted(path.rglob("*.md")) if path.is_dir() else [path])]
    problems, count = [], 0
    for document in documents:
        some, blocks_there = check(document, build)
        problems += some
        count += blocks_there
    return report("documents", problems, count)


if __name__ == "__main__":
    sys.exit(main())
