#!/usr/bin/env python3
"""Writes the table of BENCHMARKS.md, between its markers, from build/bench.json; and out of that table
the few rows that README.md shows.

    tools/bench_table.py [FIGURES [DOCUMENT [README]]]
    tools/bench_table.py --merge     puts the rows of build/bench.json into the table that is there, and
                                     says which they are: for single rows that were measured later
    tools/bench_table.py --check     only whether README.md shows what BENCHMARKS.md says
"""
import json
import sys
from pathlib import Path

from common import ROOT

BEGIN, END = "<!-- figures: made by tools/bench_table.py -->", "<!-- end of figures -->"

# What README.md shows: (the figure, what it is in words).
SHOWN = (("pool.matmul.vs_one", "a large product on two workers with one thread each"),
         ("pool.matmul.vs_dask", "two products on a pool, including sending the operands and reading the result"),
         ("gemm.2048x2048x2048.vs_blas", "a product in one process, 2 threads"),
         ("mlp.compiled_vs_torch", "training a perceptron"),
         ("gpt.vs_torch", "training a small language model"),
         ("gpt.data_parallel", "the same, with the batch split over two workers"))
README_BEGIN = "<!-- figures: made by tools/bench_table.py out of BENCHMARKS.md -->"


def number(value):
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def bar(row):
    return ", ".join(f"{key} ≥ {number(value)}" for key, value in row["least"].items()) or "none"


def verdict(row):
    words = (["**lost**"] if row["lost"] else []) + ([] if row["met"] else ["**below its bar**"])
    if row["quick"]:
        words.append("quick run, not a figure")
    return ", ".join(words) or "ok"


def measured(machine):
    return (f"{machine['date']} at revision {machine['version']}: {machine['cpu']}, {machine['cores']} cores, "
            f"{machine['memory_gb']} GB, {machine['system']}, Linux {machine['kernel']}, Python {machine['python']}.")


def line_of(row):
    theirs = f"{number(row['peer_value'])} {row['unit']}" if row["peer_value"] else ""
    return (f"| {row['name']} | {number(row['value'])} {row['unit']} | {row['peer']} | {theirs} "
            f"| {number(row['ratio'])} | {bar(row)} | {row['runs']} "
            f"| {100 * row['spread']:.0f} % | {verdict(row)} | `{row['command']}` |")


def merged(text, content):
    """The lines between the markers, with these rows in the place of those of their names, or at the end."""
    lines = text.split(BEGIN, 1)[1].split(END, 1)[0].strip().splitlines()
    names = [row["name"] for row in content["rows"]]
    later = f"{', '.join(names)}: {measured(content['machine'])}"
    # A row that is measured once more is no longer named where it was before.
    kept = []
    for line in lines:
        if line.startswith("Later, "):
            told, rest = line[len("Later, "):].split(": ", 1)
            others = [name for name in told.split(", ") if name not in names]
            line = f"Later, {', '.join(others)}: {rest}" if others else ""
        if line or kept[-1]:
            kept.append(line)
    rows = {row["name"]: line_of(row) for row in content["rows"]}
    kept = [rows.pop(line.split("|")[1].strip(), line) if line.startswith("| ") else line for line in kept]
    limits = next(i for i, line in enumerate(kept) if line.startswith("Limits of this machine"))
    return kept[:limits] + [f"Later, {later}", ""] + kept[limits:] + list(rows.values())


def tables(content):
    limits = content["limits"]
    gemm = limits.get("gemm_one_core_gflops")
    yield f"Measured {measured(content['machine'])}"
    yield ""
    yield ("Limits of this machine, in the same run: one core multiplies at "
           + (f"{number(gemm)} GFLOP/s (OpenBLAS, f32)" if gemm else "a rate not measured")
           + f" and copies at {number(limits['memcpy_gb_per_s'])} GB/s.")
    yield ""
    yield "| figure | value | peer | peer's | ratio | bar | runs | spread | | command |"
    yield "| --- | ---: | --- | ---: | ---: | --- | ---: | ---: | --- | --- |"
    yield from map(line_of, content["rows"])


def shown(benchmarks):
    """The rows of README.md, out of the text of BENCHMARKS.md."""
    rows = {cells[1]: cells for line in benchmarks.splitlines()
            if len(cells := [cell.strip() for cell in line.split("|")]) == 12}
    measured = benchmarks.split(BEGIN, 1)[1].strip().splitlines()[0].split(": ", 1)[1]
    yield f"{measured.split(', Debian')[0]}:"
    yield ""
    yield "| | Shoal | compared with | ratio |"
    yield "| --- | ---: | --- | ---: |"
    for name, words in SHOWN:
        _, _, value, peer, theirs, ratio, *_ = rows[name]
        yield f"| {words} | {value} | {peer}: {theirs} | {ratio} |"


def put(text, begin, lines):
    head, rest = text.split(begin, 1)
    return f"{head}{begin}\n" + "\n".join(lines) + f"\n{END}" + rest.split(END, 1)[1]


def check(document, readme):
    text = readme.read_text(encoding="utf-8")
    if put(text, README_BEGIN, shown(document.read_text(encoding="utf-8"))) == text:
        return 0
    return f"bench_table: {readme} shows other figures than {document}: run tools/bench_table.py"


def main(figures, document, readme, merge=False):
    try:
        content = json.loads(figures.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return f"bench_table: {figures}: {error}; run bench/run first"
    text = document.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        return f"bench_table: {document}: lacks the line {BEGIN} or {END}"
    text = put(text, BEGIN, merged(text, content) if merge else tables(content))
    document.write_text(text, encoding="utf-8")
    if readme is not None:
        told = readme.read_text(encoding="utf-8")
        readme.write_text(put(told, README_BEGIN, shown(text)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    usual = [ROOT / "build" / "bench.json", ROOT / "BENCHMARKS.md", ROOT / "README.md"]
    if sys.argv[1:] == ["--check"]:
        sys.exit(check(*usual[1:]))
    if sys.argv[1:] == ["--merge"]:
        sys.exit(main(*usual, merge=True))
    paths = [Path(word) for word in sys.argv[1:4]]
    sys.exit(main(*paths, *[None] * (3 - len(paths))) if len(paths) > 1 else
             main(*(paths + usual[len(paths):])))
