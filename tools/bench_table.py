#!/usr/bin/env python3
"""Writes the tables of BENCHMARKS.md, between its markers, from build/bench.json.

    tools/bench_table.py [FIGURES [DOCUMENT]]
"""
import json
import sys
from pathlib import Path

from common import ROOT

BEGIN, END = "<!-- figures: made by tools/bench_table.py -->", "<!-- end of figures -->"


def number(value):
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def bar(row):
    return ", ".join(f"{key} ≥ {number(value)}" for key, value in row["least"].items()) or "none"


def verdict(row):
    words = (["**lost**"] if row["lost"] else []) + ([] if row["met"] else ["**below its bar**"])
    if row["quick"]:
        words.append("quick run, not a figure")
    return ", ".join(words) or "ok"


def tables(content):
    machine, limits = content["machine"], content["limits"]
    gemm = limits.get("gemm_one_core_gflops")
    yield (f"Measured {machine['date']} at revision {machine['version']}: {machine['cpu']}, "
           f"{machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}, "
           f"Linux {machine['kernel']}, Python {machine['python']}.")
    yield ""
    yield ("Limits of this machine, in the same run: one core multiplies at "
           + (f"{number(gemm)} GFLOP/s (OpenBLAS, f32)" if gemm else "a rate not measured")
           + f" and copies at {number(limits['memcpy_gb_per_s'])} GB/s.")
    yield ""
    yield "| figure | value | peer | peer's | ratio | bar | runs | spread | | command |"
    yield "| --- | ---: | --- | ---: | ---: | --- | ---: | ---: | --- | --- |"
    for row in content["rows"]:
        theirs = f"{number(row['peer_value'])} {row['unit']}" if row["peer_value"] else ""
        yield (f"| {row['name']} | {number(row['value'])} {row['unit']} | {row['peer']} | {theirs} "
               f"| {number(row['ratio'])} | {bar(row)} | {row['runs']} "
               f"| {100 * row['spread']:.0f} % | {verdict(row)} | `{row['command']}` |")


def main(figures, document):
    try:
        content = json.loads(figures.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return f"bench_table: {figures}: {error}; run bench/run first"
    text = document.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        return f"bench_table: {document}: lacks the line {BEGIN} or {END}"
    head, rest = text.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    document.write_text(f"{head}{BEGIN}\n" + "\n".join(tables(content)) + f"\n{END}{tail}",
                        encoding="utf-8")
    return 0


if __name__ == "__main__":
    paths = [Path(word) for word in sys.argv[1:3]]
    sys.exit(main(*(paths + [ROOT / "build" / "bench.json", ROOT / "BENCHMARKS.md"][len(paths):])))
