#!/usr/bin/env python3
"""Checks the ways of the house that need no compiler: length of files, left-over notes,
commented-out code, a README in every folder of src/, an opening comment in every C file; in documents
what the site would stumble over: a title, headings that skip no level, links that lead somewhere.
"""
import re
import sys

from common import ROOT, files, report, text

MOST_LINES = 700
NOTES = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b(?!\()")
# A comment of one line that ends like a statement and holds a call, an assignment or a return.
DEAD = re.compile(r"^\s*(//|/\*) ?(if \(.*\) *\{?|return\b.*;|\w+\(.*\);|\w[\w \*\->\.\[\]]* = .*;)"
                  r"\s*(\*/)?\s*$")
FENCED = re.compile(r"^(`{3,})[^`\n]*\n.*?^\1`*[ \t]*$", re.M | re.S)
HEADING = re.compile(r"^(#+) +(.*)$", re.M)
LINK = re.compile(r"\]\((?![a-z]+:)([^)\s]+)\)")
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


def prose(path):
    """The text of a document with its fenced blocks emptied and without what looks like a link in code."""
    plain = FENCED.sub(lambda block: "\n" * block[0].count("\n"), text(path))
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace("](", ""), plain)


def anchors(path):
    """The places in a document that links may name, as GitHub and the site make them of headings."""
    titles = [match[2] for match in HEADING.finditer(prose(path))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def check_document(path):
    plain = prose(path)
    level = 0
    for match in HEADING.finditer(plain):
        line = plain.count("\n", 0, match.start()) + 1
        if len(match[1]) > level + 1:
            yield f"{path}:{line}: a heading of level {len(match[1])} below one of level {level}"
        level = len(match[1])
    if not level:
        yield f"{path}:1: has no title: open with `# ...`"
    for match in LINK.finditer(plain):
        line = plain.count("\n", 0, match.start()) + 1
        name, _, place = match[1].partition("#")
        target = path.parent / name if name else path
        if not (ROOT / target).exists():
            yield f"{path}:{line}: {match[1]}: there is no such file"
        elif place and target.suffix == ".md" and place not in anchors(target):
            yield f"{path}:{line}: {match[1]}: there is no such heading"


def unlinked(documents):
    """Documents that none leads to: the README of their folder, where it has one, otherwise any other.
    A README is found by its folder.
    """
    links = {path: {(ROOT / path.parent / match[1].partition("#")[0]).resolve()
                    for match in LINK.finditer(prose(path))} for path in documents}
    anywhere = set().union(*links.values())
    for path in documents:
        home = path.with_name("README.md")
        found = links[home] if home in links and home.parent.parts else anywhere
        if path != home and (ROOT / path).resolve() not in found:
            yield f"{path}: no document links to it" + (f"; {home} has to" if found is not anywhere else "")


def main():
    sources = [path for path in files(*CODE)]
    problems = [problem for path in sources for problem in check(path)]
    documents = [path for path in files(".md") if path.parts[:2] != ("doc", "site")]
    problems += [problem for path in documents for problem in check_document(path)]
    problems += unlinked(documents)
    for folder in sorted(path for path in (ROOT / "src").iterdir() if path.is_dir()):
        if not (folder / "README.md").is_file():
            problems.append(f"{folder.relative_to(ROOT)}: has no README.md")
    return report("house", problems, len(sources) + len(documents))


if __name__ == "__main__":
    sys.exit(main())
