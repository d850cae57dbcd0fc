#!/usr/bin/env python3
"""Runs the programs in the documents, so that they stay true.

    tools/doc_check.py --build BUILD FILE-OR-FOLDER...

A fenced block marked `sh run`, `python run` or `c run` is run; a name after that is the file it is
saved as. The blocks of a document run one after another in one empty folder, so that a later one sees
the files and the background processes of an earlier one. A block marked `output` right after it says
what it prints, line by line and blank by blank; only `…` stands for what may vary: within a line for
anything, alone on a line for any number of lines.
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
    """[line, language, name to save it as, code, expected output or None] of each block to be run."""
    found, last_end = [], None
    for match in FENCE.finditer(text):
        words = match[1].split()
        if len(words) in (2, 3) and words[0] in LANGUAGES and words[1] == "run":
            name = words[2] if len(words) == 3 else f".block.{words[0]}"
            found.append([text.count("\n", 0, match.start()) + 1, words[0], name, match[2], None])
            last_end = match.end()
        elif words == ["output"] and found and last_end is not None \
                and not text[last_end:match.start()].strip():
            found[-1][4] = match[2]
            last_end = None
        else:
            last_end = None
    return found


def compare(expected, printed):
    """The line of what is expected that is not there, or None; "" where more is printed."""
    wanted, got = (text.rstrip().split("\n") for text in (expected, printed))
    furthest = 0

    def fits(i, j):
        nonlocal furthest
        furthest = max(furthest, i)
        if i == len(wanted):
            return j == len(got)
        if wanted[i].strip() == "…":
            return any(fits(i + 1, k) for k in range(j, len(got) + 1))
        pattern = ".*".join(map(re.escape, wanted[i].rstrip().split("…")))
        return j < len(got) and re.fullmatch(pattern, got[j].rstrip()) and fits(i + 1, j + 1)

    return None if fits(0, 0) else (wanted + [""])[furthest]


def run_block(language, name, code, folder, environment, build):
    """Runs one block; its output goes through a file, which background processes may keep open."""
    source = folder / name
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
    for line, language, name, code, expected in todo:
        group, status, printed = run_block(language, name, code, folder, environment, build)
        groups.append(group)
        if status is None:
            problems.append(f"{path}:{line}: still running after {SECONDS} s\n{printed}")
        elif status != 0:
            problems.append(f"{path}:{line}: exit code {status}\n{printed}")
        elif expected is not None and (missing := compare(expected, printed)) is not None:
            problems.append(f"{path}:{line}: " + (f"does not print: {missing}" if missing else
                                                  "prints more than it says")
                            + f"\nIt prints:\n{printed}")
        if problems:  # what follows depends on it
            break
    for group in reversed(groups):
        end_group(group)
    if problems and (build / "cmd" / "shoal").exists():  # what its last block would have ended
        subprocess.run([build / "cmd" / "shoal", "stop", "--all"], env=environment, check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=SECONDS)
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
