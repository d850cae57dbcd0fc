#!/usr/bin/env python3
"""Checks what libshoal.so exports: all names begin with shoal_, and every function that the public
headers declare is there.

    tools/symbols.py --library build/libshoal.so
"""
import argparse
import re
import subprocess
import sys

from common import ROOT, files, report

DECLARED = re.compile(r"SHOAL_API[^;{}()]*?\b(shoal_\w+)\s*\(")


def declared():
    """Names of the functions that the public headers declare, X-macros expanded."""
    names = set()
    for header in files(".h", under="include/"):
        done = subprocess.run(
            ["gcc", "-std=c11", "-E", "-P", "-I", str(ROOT / "include"), "-x", "c", "-"],
            input=f'#include "{ROOT / header}"\n', capture_output=True, text=True, check=True)
        names |= set(re.findall(DECLARED, marked(done.stdout)))
    return names


def marked(code):
    """The attribute that SHOAL_API stands for, turned back into its name."""
    code = re.sub(r'__attribute__\(\(visibility\("default"\)\)\)', "SHOAL_API", code)
    return re.sub(r"__attribute__\(\([^()]*(\([^()]*\))?\)\)", "", code)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    library = parser.parse_args().library
    done = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True,
                          check=True)
    exported = {line.split()[-1].split("@")[0] for line in done.stdout.splitlines() if line.strip()}
    wanted = declared()
    problems = [f"{name}: exported, but does not begin with shoal_"
                for name in sorted(exported) if not name.startswith("shoal_")]
    problems += [f"{name}: declared in a public header, but not exported"
                 for name in sorted(wanted - exported)]
    problems += [f"{name}: exported, but in no public header"
                 for name in sorted(exported - wanted) if name.startswith("shoal_")]
    return report("symbols", problems, len(wanted))


if __name__ == "__main__":
    sys.exit(main())
