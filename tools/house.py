#!/usr/bin/env python3
"""Checks the ways of the house that need no compiler: length of files, left-over notes,
commented-out code, a README in every folder of src/, an opening comment in every C file.
"""
import re
import sys

from common import ROOT, files, report, text

MOST_LINES = 700
NOTES = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b(?!\()")
# A comment of one line that ends like a statement and holds a call, an assignment or a return.
DEAD = re.compile(r"^\s*(//|/\*) ?(if \(.*\) *\{?|return\b.*;|\w+\(.*\);|\w[\w \*\->\.\[\]]* = .*;)"
                  r"\s*(\*/)?\s*$")
CODE = (".c", ".h", ".def", ".proto", ".py", ".sh", ".build")


def check(path):
    lines = text(path).splitlines()
    if len(lines) > MOST_LINES:
        yield f"{path}: {len(lines)} lines; more than {MOST_LINES} belong in two files"
    for number, line in enumerate(lines, 1):
        note = NOTES.search(line)
        if note and path.parts[0] != "tools":
            yield f"{path}:{number}: {note[0]}: do it or drop it"
        if path.suffix in (".c", ".h") and DEAD.match(line):
            yield f"{path}:{number}: commented-out code"
        if "\t" in line and path.name != "Makefile":
            yield f"{path}:{number}: a tab; indent with spaces"
    told_by_header = path.suffix == ".c" and (ROOT / path.with_suffix(".h")).is_file()
    opened = bool(lines) and lines[0].startswith(("/*", "//"))
    if path.suffix in (".c", ".h") and not opened and not told_by_header:
        yield f"{path}:1: open with a comment that says what the file is"


def main():
    sources = [path for path in files(*CODE)]
    problems = [problem for path in sources for problem in check(path)]
    for folder in sorted(path for path in (ROOT / "src").iterdir() if path.is_dir()):
        if not (folder / "README.md").is_file():
            problems.append(f"{folder.relative_to(ROOT)}: has no README.md")
    return report("house", problems, len(sources))


if __name__ == "__main__":
    sys.exit(main())
