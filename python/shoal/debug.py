"""What goes on: operations, programs and transfers, one by one, in all processes of the pool.

    with shoal.debug.record() as log:
        (a @ b).numpy()
    log.print()
"""
import threading
from collections import namedtuple

from . import _shoal
from . import pool as _pool

__all__ = ["Event", "KINDS", "Listener", "Recording", "print_tape", "print_workers", "record"]

# Kind of event -> who notes it, what it means, and what its label says.
KINDS = _shoal.event_kinds()

Event = namedtuple("Event", "at process kind phase slot peer instance bytes key label")
Event.__doc__ = """One thing that happened.

at: nanoseconds of the hub's clock. phase: "" for what takes no time, else "begin" or "end". slot, peer:
numbers in the pool, None where there is none; peer: of a transfer, the other end. The rest is told by
KINDS.
"""

_PHASES = ("", "begin", "end")
_EVERY, _LEAST, _KEEP_MS = 0.05, 0.025, 3000
_CALM = 4096  # events of one process between two questions; of more its ring may not hold all


class Listener:
    """Fetches what the processes of a pool have noted; they record from the first `fetch` on, for three
    seconds after each."""

    def __init__(self, session=None):
        self.lost = 0
        self.complete = 0  # up to this moment of the hub's clock nothing more will come
        self.most = 0      # events of one process, the last time
        self._session = session or _pool.session()
        self.clocks = {}  # number of the process: nanoseconds before the hub's clock, and their doubt

    def fetch(self):
        """The events since the fetch before: a list, those of one process in their order."""
        return [event for _, _, events in self.batches() for event in events]

    def batches(self):
        """The same by process: (its number, the nanoseconds that its clock was taken to be before the hub's, events)."""
        found, complete, self.most = [], None, 0
        for peer, name, answered, now, offset, doubt, lost, rows in self._session._events(_KEEP_MS):
            if not answered:
                continue
            self.lost += lost
            self.most = max(self.most, len(rows))
            if doubt <= self.clocks.get(peer, (0, doubt))[1]:
                self.clocks[peer] = offset, doubt
            offset = self.clocks[peer][0]
            complete = now - offset if complete is None else min(complete, now - offset)
            found.append((peer, offset, [
                Event(at - offset, name, kind, _PHASES[phase], None if slot < 0 else slot,
                      None if other < 0 else other, instance, nbytes, key, label)
                for kind, phase, at, instance, nbytes, slot, other, key, label in rows]))
        self.complete = max(self.complete, complete or 0)
        return found


class Recording:
    """Events of the pool from entering to leaving the `with` block; at most `limit` are kept."""

    def __init__(self, session=None, limit=1_000_000):
        self.events, self.lost = [], 0
        self._listener = Listener(session)
        self._limit = limit
        self._stamps = []  # (first and last of some events, their process, what its clock was taken to be)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="shoal-record", daemon=True)
        self._trouble = None

    def __enter__(self):
        self._fetch()
        self._thread.start()
        return self

    def __exit__(self, *unused):
        self._stop.set()
        self._thread.join()
        if self._trouble is None:
            self._fetch()
        for begin, end, peer, offset in self._stamps:  # clocks are known better by now
            late = offset - self.clocks[peer][0]
            if late:
                self.events[begin:end] = [event._replace(at=event.at + late) for event in self.events[begin:end]]
        self.events.sort(key=lambda event: event.at)

    @property
    def clocks(self):
        """By the number of each process: how many nanoseconds its clock is before the hub's, and by how
        many this may be wrong."""
        return self._listener.clocks

    def _listen(self):
        pause = _EVERY
        while not self._stop.wait(pause):
            try:
                self._fetch()
                most = self._listener.most
                pause = max(_LEAST, pause / 2) if most > _CALM else \
                    min(_EVERY, pause * 2) if most < _CALM / 4 else pause
            except Exception as error:  # the session may end before the block does
                self._trouble = error
                return

    def _fetch(self):
        for peer, offset, found in self._listener.batches():
            begin, room = len(self.events), self._limit - len(self.events)
            self.events += found[:room]
            self._stamps.append((begin, len(self.events), peer, offset))
            self.lost += max(0, len(found) - room)
        self.lost += self._listener.lost
        self._listener.lost = 0

    def of(self, *kinds):
        """The events of these kinds."""
        for kind in kinds:
            if kind not in KINDS:
                raise ValueError(f"there is no event '{kind}'; there are {', '.join(KINDS)}")
        return [event for event in self.events if event.kind in kinds]

    def spans(self, *kinds):
        """(begin, end) of what took time, of these kinds; both events of each."""
        open_now, found = {}, []
        for event in sorted(self.of(*kinds), key=lambda event: event.at):
            key = event[1:3] + event[4:7] + event[8:9]
            if event.phase == "begin":
                open_now[key] = event
            elif event.phase == "end" and key in open_now:
                found.append((open_now.pop(key), event))
        return found

    def print(self, *kinds):
        """Prints the events, or those of some kinds, one a line: milliseconds, process, what."""
        events = self.of(*kinds) if kinds else self.events
        start = self.events[0].at if self.events else 0
        for e in events:
            what = f"{e.kind} {e.phase}".strip()
            size = f"{e.bytes} B " if e.bytes else ""
            where = "" if e.slot is None else f"slot {e.slot}"
            if e.peer is not None:
                where += f" {'to' if e.kind == 'send' else 'from'} slot {e.peer}"
            print(f"{(e.at - start) / 1e6:10.3f} ms  {e.process:12} {what:14} "
                  f"{f'#{e.instance}':>7} {where:18} {size}{e.label}".rstrip())
        if self.lost:
            print(f"{self.lost} events came too fast and are missing")


def record(session=None, limit=1_000_000):
    """Records what all processes of a pool do, in a `with` block: see Recording."""
    return Recording(session, limit)


def print_tape(session=None):
    """Prints the operations that gradients would pass through, with shapes, one a line."""
    for number, op, inputs, shape, dtype, line in (session or _pool.session()).tape():
        operands = ", ".join(map(str, inputs))
        print(f"{number} = {op}({operands}) {dtype}{list(shape)}" + (f"  {line}" if line else ""))


def print_workers(session=None):
    """Prints what each worker has done and holds, one a line."""
    for s in (session or _pool.session()).status().slots:
        if s.compute:
            print(f"{s.worker}: {s.nodes} operations in {s.instances} programs, "
                  f"{_seconds(s.busy_ns)} busy, {_bytes(s.received)} in, {_bytes(s.sent)} out, "
                  f"{_bytes(s.bytes)} held ({s.backend}, {s.threads} threads)")


def _bytes(n):
    """A number of bytes as the command writes it: three digits and a unit."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if n < 1024 or unit == "TiB":
            return f"{n} B" if unit == "B" else f"{n:.{0 if n >= 100 else 1 if n >= 10 else 2}f} {unit}"
        n /= 1024
    return None


def _seconds(ns):
    return f"{ns / 1e9:.2f} s" if ns >= 1e9 else f"{ns / 1e6:.1f} ms"
