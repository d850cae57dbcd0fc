"""GT_INSTRUCTION_LOG: what the pool does, as lines of GT2's form, in the order of their true times."""
import os
import re
import threading

import shoal
from shoal import debug

LIMIT = 64 << 20  # bytes; then the file becomes FILE.1

HEADER = """\
# Instruction log: [TAPE seconds since the beginning] event | source | command | details
# RECV: a client calls. SEND: it has its answer. WORKER_SEND: a worker begins. WORKER_RECV: it is through.
# TRANSFER: bytes from one worker or client have come to another. LOST, RERUN: a worker has left.
# Several operations are one program; us= is the exact time in microseconds.
"""

NAMES = {"dot_general": "matmul", "subtract": "sub", "multiply": "mul", "divide": "div",
         "exponential": "exp", "logistic": "sigmoid", "negate": "neg", "compare": "gt",
         "concatenate": "cat", "slice": "slice"}
OP = re.compile(r"(\w+)\(([^)]*)\) \w+\[([^\]]*)\]?")


class Log:
    """Writes events of a session to a file until `close`."""

    def __init__(self, session, path):
        self._listener, self._path = debug.Listener(session), path
        self._session, self._waiting, self._slots = session, [], {}
        self._listener.fetch()
        self._start = self._listener.complete
        self._file = open(path, "w", encoding="utf-8")
        self._file.write(HEADER)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gt-log", daemon=True)
        self._thread.start()

    def close(self):
        """Writes what there is; the file is complete then."""
        self._stop.set()
        self._thread.join()
        self._file.close()

    def _run(self):
        try:
            last = False
            while not last:
                last = self._stop.wait(0.05)
                self._write(last)
        except shoal.ShoalError:  # the pool has gone: so has what is to be told
            self._emit(self._waiting)

    def _write(self, everything):
        self._waiting += self._listener.fetch()
        self._waiting.sort(key=lambda event: event.at)
        ready = len(self._waiting) if everything else sum(
            event.at <= self._listener.complete for event in self._waiting)
        if any(event.slot not in self._slots for event in self._waiting[:ready]):
            self._slots |= {s.slot: s for s in self._session.status().slots}
        self._emit(self._waiting[:ready])
        del self._waiting[:ready]
        if self._listener.lost:
            self._file.write(f"# {self._listener.lost} events came too fast and are missing\n")
            self._listener.lost = 0
        self._file.flush()
        if self._file.tell() > LIMIT:
            self._file.close()
            os.replace(self._path, self._path + ".1")
            self._file = open(self._path, "w", encoding="utf-8")
            self._file.write(HEADER)

    def _emit(self, events):
        for event in events:
            told = self._tell(event)
            if told:
                what, source, command, details = told
                us = max(0, event.at - self._start) // 1000
                self._file.write(f"[TAPE {us / 1e6:.3f}s] {what:12} | {source:15} | {command:9} | "
                                 f"{details} us={us}\n")

    def _worker(self, number):
        slot = self._slots.get(number)
        if slot is None:
            return f"slot {number}"
        mates = [s for s in self._slots.values() if s.compute and s.worker == slot.worker]
        if slot.compute and any(not s.compute and s.worker == slot.worker
                                for s in self._slots.values()):  # inside the client's process
            return "auto_worker" if len(mates) == 1 else f"auto_worker_{mates.index(slot)}"
        return slot.worker

    def _tell(self, e):
        if e.kind == "op":
            return "RECV", e.process, *_operation(e)
        if e.kind == "submit":
            return "RECV", e.process, "Batch", f"program={e.instance} op={_named(e.label)}"
        if e.kind == "read":
            if e.phase == "begin":
                return "RECV", e.process, "GetData", f"tensor={e.instance}"
            return "SEND", e.process, "GetData", f"success=True tensor={e.instance} bytes={e.bytes}"
        if e.kind == "finish":
            return "SEND", e.process, "Batch", f"success={e.label == 'OK'} instance={e.instance}"
        if e.kind == "compute":
            worker = self._worker(e.slot)
            if e.phase == "begin":
                return "WORKER_SEND", worker, "WorkerOp", \
                    f"op={_named(e.label)} instance={e.instance}.{e.key}"
            return "WORKER_RECV", worker, "WorkerOp", f"success=True instance={e.instance}.{e.key}"
        if e.kind == "receive" and e.phase == "end":
            return "TRANSFER", self._worker(e.slot), "Box", \
                f"bytes={e.bytes} from={self._worker(e.peer)} instance={e.instance}"
        if e.kind == "free" and e.process != "hub":
            return "RECV", e.process, "Free", e.label
        if e.kind == "fail":
            return "FAIL", e.process, "Batch", f"success=False instance={e.instance} {e.label}"
        if e.kind in ("loss", "rerun", "join"):
            return {"loss": "LOST"}.get(e.kind, e.kind.upper()), e.process, "Pool", e.label
        return None


def _named(label):
    """The first operation of a label by GT2's name, the rest as they are."""
    word = re.match(r"\w+", label)
    return NAMES.get(word[0], word[0]) + label[word.end():] if word else "none"


def _operation(e):
    parts = OP.match(e.label)
    if not parts:
        return "Op", f"result={e.instance} op={_named(e.label)}"
    operands = [text for text in parts[2].split(", ") if text.isdigit()]
    names = ("left", "right") if len(operands) == 2 else ("input",)
    details = "".join(f" {name}={number}" for name, number in zip(names, operands))
    command = {0: "Create", 2: "BinaryOp"}.get(len(operands), "UnaryOp")
    shape = ", ".join(parts[3].split(", ")) + ("," if parts[3].isdigit() else "")
    return command, f"result={e.instance} op={NAMES.get(parts[1], parts[1])}{details} shape=({shape})"


def begin(session):
    """The log that GT_INSTRUCTION_LOG asks for, or None."""
    path = os.environ.get("GT_INSTRUCTION_LOG")
    return Log(session, path) if path else None
