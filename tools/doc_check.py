#!/usr/bin/env python3
"""Runs the programs in the documents, so that they stay true.

    tools/doc_check.py --build BUILD [FILE...]    without files: every document of the project

A fenced block marked `sh run`, `python run` or `c run` is run; a name after that is the file it is
saved as. The blocks of a document run one after another in one empty folder, so that a later one sees
the files and the background processes of an earlier one. A block marked `output` right after it says
what it prints, line by line and blank by blank; only `…` stands for what may vary: within a line for
anything, alone on a line for any number of lines.

Any other block says why it is not run, in a comment before it: `<!-- not run: REASON -->`. What such a
block of `sh` tells to type must exist all the same: commands of shoal with their options, verbs of make,
files of the project. `--list` prints these blocks with their reasons.
Exits with 77 (skipped) when the command or the Python package has not been built.
"""
import argparse
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from common import ROOT, files, report

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```[ \t]*$", re.M | re.S)
REASON = re.compile(r"<!-- not run: ([^>]+?) -->\s*\Z")
LANGUAGES = ("sh", "python", "c")
SECONDS = 120


def blocks(text):
    """([line, language, name to save it as, code, expected output or None] of each block to be run,
    [line, language, code, reason or None] of each other one, [(line, what is wrong with a block)]).
    """
    found, others, wrong, last_end = [], [], [], None
    for match in FENCE.finditer(text):
        words, line = match[1].split(), text.count("\n", 0, match.start()) + 1
        follows = last_end is not None and not text[last_end:match.start()].strip()
        last_end = None
        if words[1:2] == ["run"] and len(words) <= 3 and words[0] in LANGUAGES:
            name = words[2] if len(words) == 3 else f".block.{words[0]}"
            found.append([line, words[0], name, match[2], None])
            last_end = match.end()
        elif words == ["output"] and follows:
            found[-1][4] = match[2]
        elif words == ["output"]:
            wrong.append((line, "an output that is compared with nothing: no block that is run stands before it"))
        elif len(words) > 1:
            wrong.append((line, f"'{match[1]}' is no mark of a block; there are: "
                          + ", ".join(f"{language} run [FILE]" for language in LANGUAGES) + ", output"))
        else:
            reason = REASON.search(text[:match.start()])
            others.append([line, "".join(words), match[2], reason and reason[1]])
    return found, others, wrong


@functools.cache
def commands(build):
    """{a command: (whether it takes arguments, {an option's form: whether a value follows it})}."""
    if not (build / "cmd/shoal").exists():
        return {}
    told = json.loads(subprocess.check_output([build / "cmd/shoal", "help", "--json"]))
    return {command["name"]: (bool(command["arguments"]),
                              {form: bool(option["argument"]) for option in command["options"]
                               for form in ("--" + option["name"], "-" + option["letter"])})
            for command in told}


def wrong_call(words, build):
    """What is wrong with the words after `shoal`, as its own help tells."""
    if words[0] not in commands(build):  # a user's name, an image
        return
    takes_arguments, options = commands(build)[words[0]]
    values = 0
    for word in words[1:]:
        form, has_value, _ = word.partition("=")
        if word in ("&&", "||", "|", "&"):
            return
        if values:
            values -= 1
        elif form.startswith("-") and form not in options:
            yield f"shoal {words[0]} has no option {form}"
        elif form.startswith("-"):
            values = options[form] and not has_value and form != "--daemon"
        elif not takes_arguments:
            yield f"shoal {words[0]} takes no argument: {word}"


def not_there(code, build):
    """What a block of sh that is not run tells to type, and does not exist."""
    for line in code.replace("\\\n", " ").split("\n"):
        words = line.partition(" #")[0].split()
        for place, (word, after) in enumerate(zip(words, words[1:] + [""])):
            if word == "shoal" and after:
                yield from wrong_call(words[place + 1:], build)
            elif word == "make" and after.isalpha() and f"\n{after}:" not in (ROOT / "Makefile").read_text():
                yield f"make has no verb {after}"
            elif re.fullmatch(r"(tools|examples|bench|test|deploy|python|\.)/[\w./-]+", word) and not (ROOT / word).exists():
                yield f"there is no {word}"


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
                       PYTHONPATH=f"{build}/python:{build}/python/compat",
                       PATH=f"{build / 'cmd'}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    environment.pop("SHOAL_HUB", None)
    todo, others, wrong = blocks(path.read_text(encoding="utf-8"))
    groups, problems = [], [f"{path}:{line}: {what}" for line, what in wrong]
    for line, language, code, reason in others:
        if not reason:
            problems.append(f"{path}:{line}: a block that is not run; say why in a line before it: <!-- not run: ... -->")
        if language == "sh":
            problems += [f"{path}:{line}: {what}" for what in not_there(code, build)]
    for line, language, name, code, expected in todo if not problems else []:
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
    return problems, len(todo) + len(others)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=Path)
    parser.add_argument("--anything", action="store_true",
                        help="do not ask whether Shoal has been built")
    parser.add_argument("--list", action="store_true", help="print the blocks that are not run, and why")
    parser.add_argument("paths", nargs="*", type=Path)
    options = parser.parse_args()
    build = options.build.resolve()
    for needed in (build / "cmd" / "shoal", build / "python" / "shoal"):
        if not options.anything and not needed.exists():
            print(f"not built: {needed.name} in {needed.parent.name}/ of the build folder")
            return 77
    documents = options.paths or [ROOT / path for path in files(".md") if path.parts[:2] != ("doc", "site")]
    if options.list:
        for document in documents:
            for line, language, _, reason in blocks(document.read_text(encoding="utf-8"))[1]:
                print(f"{os.path.relpath(document, ROOT)}:{line}: {language or 'text'}: {reason}")
        return 0
    problems, count = [], 0
    for document in documents:
        some, blocks_there = check(document, build)
        problems += some
        count += blocks_there
    return report("documents", problems, count)


if __name__ == "__main__":
    sys.exit(main())
