#!/usr/bin/env python3
"""Checks that C files are formatted as .clang-format says; with --fix, formats them.

Tables (.def) are laid out by hand and stay as they are.
"""
import os
import sys

from common import ROOT, files, report, run_all


def main():
    os.chdir(ROOT)
    mode = ["-i"] if "--fix" in sys.argv[1:] else ["--dry-run", "-Werror"]
    sources = [str(path) for path in files(".c", ".h")]
    batches = [sources[i:i + 16] for i in range(0, len(sources), 16)]
    problems = [done.stderr.strip() for _, done in
                run_all((batch[0], ["clang-format", *mode, *batch]) for batch in batches)
                if done.returncode]
    if problems:
        problems[-1] += "\nformat: `make fmt` puts it right"
    return report("format", problems, len(sources))


if __name__ == "__main__":
    sys.exit(main())
