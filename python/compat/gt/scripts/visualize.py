"""python -m gt.scripts.visualize LOG -o PICTURE: a timeline of an instruction log (GT_INSTRUCTION_LOG),
or of a file that gt.scripts.trace wrote."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

from shoal import program

LINE = re.compile(r"\[TAPE [\d.]+s\] (\w+) +\| (.*?) +\| (\w+) +\| (.*) us=(\d+)$")


def spans(lines):
    """(source, kind, label, begin, end, bytes, instance) of each line that has an end, in microseconds."""
    begun = {}
    for line in lines:
        found = LINE.match(line.rstrip())
        if not found:
            continue
        event, source, command, details, us = found[1], found[2], found[3], found[4], int(found[5])
        number = re.search(r"\b(?:instance|tensor)=([\d.]+)", details)
        key = source, command, number and number[1]
        size = re.search(r"\bbytes=(\d+)", details)
        kind = {"WorkerOp": "compute", "GetData": "read"}.get(command)
        if kind and event in ("WORKER_SEND", "RECV"):
            begun[key] = us, re.sub(r" instance=.*|^op=|^tensor=", "", details)
        elif kind and key in begun:
            begin, label = begun.pop(key)
            yield source, kind, label, begin, us, int(size[1]) if size else 0, number[1]
        elif event == "TRANSFER":
            yield source, "receive", "", us, us, int(size[1]), number[1]


def trace_of(lines):
    """The log as `shoal trace` would have written it."""
    events, processes, end = [], {}, 0
    for source, kind, label, begin, us, size, number in spans(lines):
        end = max(end, us)
        if source not in processes:
            pid = processes[source] = len(processes) + 1
            role = "client" if kind == "read" else "worker"
            events.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": source}})
            events.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": pid,
                           "args": {"name": role, "role": role, "what": "", "slot": pid}})
        pid = processes[source]
        event = {"ph": "X", "name": label or kind, "cat": kind, "pid": pid, "tid": pid, "ts": begin,
                 "dur": us - begin,
                 "args": {"instance": int(float(number)), "bytes": size, "label": label}}
        events.append(event)
    return {"traceEvents": events, "displayTimeUnit": "ms",
            "otherData": {"made_by": "shoal gt", "seconds": end / 1e6}}


def main():
    parser = argparse.ArgumentParser(prog="gt.scripts.visualize", description=__doc__)
    parser.add_argument("log")
    parser.add_argument("-o", "--output", default="timeline.png", help=".png or .svg")
    parser.add_argument("--dpi", type=float, default=192, help="of a PNG; 96 is a pixel for a pixel")
    args = parser.parse_args()
    try:
        with open(args.log, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        sys.exit(f"gt.scripts.visualize: {args.log}: {error.strerror}")
    command = [program.find(), "timeline", args.log, "-o", args.output, "--force"]  # as GT2's does
    if not args.output.lower().endswith(".svg"):
        command += ["--scale", str(args.dpi / 96)]
    if text.startswith("{"):  # a trace already
        sys.exit(subprocess.call(command))
    if not any(LINE.match(line) for line in text.splitlines()):
        sys.exit(f"gt.scripts.visualize: {args.log}: there is no line of an instruction log")
    with tempfile.TemporaryDirectory() as folder:
        command[2] = os.path.join(folder, "trace.json")
        with open(command[2], "w", encoding="utf-8") as file:
            json.dump(trace_of(text.splitlines()), file)
        sys.exit(subprocess.call(command))


if __name__ == "__main__":
    main()
