"""Hunts for wrong numbers: hunt.py [WAY...] runs ways one after the other and sums up what they saw.

    hunt.py                             every way, ten seconds each
    hunt.py cpu python --seconds 600 --seed 7
    hunt.py show FILE                   a failure that was kept, as text and as Python

What fails is cut down, printed as text and as Python, and kept. Ends with 1 if anything did.
"""
import argparse
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def as_python(hunt, file):
    """The program in a file as a Python program."""
    import ways  # it takes NumPy
    from spell import Spelled
    told = subprocess.run([hunt, "tell", file], stdout=subprocess.PIPE, check=True).stdout
    program = ways.Program(io.BytesIO(told))
    return Spelled(program.graph, program.values, "shoal", 0).script()


def show(hunt, file):
    """Prints a failure as text and as Python."""
    text = pathlib.Path(file).read_text()
    print("\n".join(line for line in text.splitlines() if not line.startswith("# input ")))
    print("\n# as Python\n\n" + as_python(hunt, file))


def run(hunt, way, given):
    """One way: what the command says of it, or why it did not run."""
    command = [hunt, way, "--json", "--seed", str(given.seed), "--failures", str(given.failures),
               "--keep", str(given.keep)]
    command += ["--count", str(given.count)] if given.count else ["--seconds", str(given.seconds)]
    given.keep.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace")
    last = ""
    for line in process.stdout:
        last = line.strip()
        if last.startswith("kept: "):
            show(hunt, last.removeprefix("kept: "))
        elif last.startswith("WRONG"):
            print(last, flush=True)
    status = process.wait()
    if status == 77:
        return {"way": way, "skipped": last}
    try:
        row = json.loads(last)
    except ValueError:
        row = {"way": way, "wrong": 1, "said": last}
    if status not in (0, 1, 128 + signal.SIGINT):  # also where it ends badly after its last line
        row |= {"wrong": max(row["wrong"], 1), "ended": status}
        print(f"WRONG: {way} ended with {status}", flush=True)
    return row


def table(rows):
    """The summary, as text."""
    titles = ("way", "programs", "not compared", "a second", "nodes", "wrong", "operations", "pairs", "views", "layouts")
    lines = [titles]
    for row in rows:
        if "programs" not in row:
            lines.append((row["way"], row.get("skipped") or f"ended with {row.get('ended', 0)}: {row['said']}"))
            continue
        placed = sum(n > 0 for n in row["layouts"].values())
        lines.append((row["way"], f"{row['programs']:,}", f"{row['without']:,}",
                      f"{row['programs'] / max(row['seconds'], 1e-9):,.0f}",
                      f"{row['nodes'] / max(row['programs'], 1):.1f}", str(row["wrong"]),
                      str(len(row["operations"])), f"{row['pairs']} of {row['possible_pairs']}",
                      f"{row['views']} of {row['possible_views']}",
                      f"{placed} of {len(row['layouts'])}" if placed else "-"))
    widths = [max(len(line[i]) for line in lines if len(line) == len(titles)) for i in range(len(titles))]
    return "\n".join(f"{line[0]:{widths[0]}}  {line[1]}" if len(line) == 2 else
                     "  ".join(f"{cell:<{w}}" if i == 0 else f"{cell:>{w}}"
                               for i, (cell, w) in enumerate(zip(line, widths))) for line in lines)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("what", nargs="*", metavar="WAY", help="ways (all); or: show FILE")
    options.add_argument("--seconds", type=float, default=10, help="for each way (10)")
    options.add_argument("--count", type=int, help="programs of each way, instead of seconds")
    options.add_argument("--seed", type=int, default=time.time_ns() // 1000 % 10 ** 12,
                         help="of the first program (another each time)")
    options.add_argument("--failures", type=int, default=1, help="of a way, after which it ends (1)")
    options.add_argument("--keep", type=pathlib.Path, default=ROOT / "build/hunt",
                         help="where failures are kept (build/hunt)")
    options.add_argument("--hunt", type=pathlib.Path, default=ROOT / "build/test/hunt/hunt",
                         help="the command (build/test/hunt/hunt)")
    options.add_argument("--json", action="store_true", help="one object per way instead of the table")
    given = options.parse_args()
    if not given.hunt.exists():
        options.error(f"{given.hunt} is not there; build it: ninja -C build test/hunt/hunt")
    if given.what[:1] == ["show"]:
        if len(given.what) != 2:
            options.error("show takes one file")
        show(given.hunt, given.what[1])
        return 0
    known = subprocess.run([given.hunt, "ways"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    strange = [way for way in given.what if way not in known]
    if strange:
        options.error(f"there is no way '{strange[0]}'; there are: {' '.join(known)}")
    chosen = given.what or [way for way in known if way != "pool" or os.environ.get("SHOAL_HUB")]
    rows = []
    for way in chosen:
        rows.append(run(given.hunt, way, given))
        if given.json:
            print(json.dumps(rows[-1]), flush=True)
    if not given.json:
        print(f"\nseed {given.seed}\n{table(rows)}")
    return 1 if any(row.get("wrong") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
