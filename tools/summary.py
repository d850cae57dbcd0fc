#!/usr/bin/env python3
"""Sums up test logs: `N passed, N failed, N skipped`, with the reasons for what was skipped.

    tools/summary.py LOG...

A LOG is Meson's testlog.json (one JSON object per line). Exits with 1 when a test failed, when a
log is missing, or when nothing ran at all. A broken log counts as one failed test.
"""
import json
import sys

PASSED = {"OK", "EXPECTEDFAIL"}


def read(path, several):
    """The (name, result, last line of output) of each test of a log."""
    where = f" in {path.removesuffix('/meson-logs/testlog.json')}" if several else ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            rows = [json.loads(line) for line in file if line.strip()]
        if not rows:
            return [(path, "FAIL", "no test ran")]
        return [(row["name"] + where, row["result"], reason(row)) for row in rows]
    except OSError as error:
        return [(path, "FAIL", f"no log: {error.strerror}; the build or the run broke off")]
    except (ValueError, KeyError, TypeError):
        return [(path, "FAIL", "the log is not Meson's")]


def reason(row):
    lines = (row.get("stdout", "") + "\n" + row.get("stderr", "")).split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no reason given")


def main(paths):
    tests = [test for path in paths for test in read(path, len(paths) > 1)]
    failed = [test for test in tests if test[1] not in PASSED and test[1] != "SKIP"]
    skipped = [test for test in tests if test[1] == "SKIP"]
    for title, some in (("skipped", skipped), ("failed", failed)):
        for name, result, text in some:
            print(f"{title}: {name}: {text}" + (f" ({result})" if result != "SKIP" else ""))
    line = f"{len(tests) - len(failed) - len(skipped)} passed, {len(failed)} failed"
    if skipped:
        line += f", {len(skipped)} skipped"
    print(line)
    return 1 if failed or not tests else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
