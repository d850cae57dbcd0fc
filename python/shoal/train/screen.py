"""A training on a terminal: a screen with keys, or lines where there is no terminal. `picture` is the screen as text."""
import contextlib
import curses
import locale
import math
import os
import sys
import threading
import time

from .monitor import line_of

_EVERY_MS = 250
_BRAILLE = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # the dots of U+2800 by row and column
KEYS = (("q", "stop after the round"), ("p", "pause after the round, and go on"), ("l", "show the log, or the workers"),
        ("?", "show these keys"))


# ---- numbers ----

def short(number):
    """A count in few characters: 12.3k."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def size(number):
    """Bytes in few characters: 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            break
        number /= 1024
    else:
        unit = "TiB"
    return f"{number:.3g} {unit}" if number < 1000 else f"{number:.0f} {unit}"


def span(seconds):
    """A time in few characters: 2.1 s, 0:03:12."""
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


# ---- the picture ----

def _columns(points, count):
    """The means of the points that fall into each of `count` columns, between neighbours where none does."""
    last = points[-1][0]
    first = min(points[0][0], last - 1)
    sums, found = [0.0] * count, [0] * count
    for x, y in points:
        at = min(count - 1, int((x - first) / (last - first) * count)) if last > first else 0
        sums[at], found[at] = sums[at] + y, found[at] + 1
    known = [(i, sums[i] / found[i]) for i in range(count) if found[i]]
    values, k = [], 0
    for i in range(count):
        while k + 1 < len(known) and known[k + 1][0] <= i:
            k += 1
        (a, at), (b, after) = known[k], known[min(k + 1, len(known) - 1)]
        values.append(at if b <= a or i <= a else at + (after - at) * (i - a) / (b - a))
    return values


def curve(points, width, height, braille=True):
    """Lines of a picture of points (x, y), with the scale on the left: the whole of them, whatever the width."""
    if not points or width < 12 or height < 2:
        return []
    low, high = min(y for _, y in points), max(y for _, y in points)
    labels = [f"{high:.4g}", f"{low:.4g}"]
    room = max(map(len, labels))
    across, down = (2, 4) if braille else (1, 1)
    columns = (width - room - 2) * across
    values = _columns(points, columns)
    rows = height * down
    dots = [[False] * columns for _ in range(rows)]
    before = None
    for x, value in enumerate(values):
        y = 0 if high <= low else round((high - value) / (high - low) * (rows - 1))
        for between in range(min(y, before if before is not None else y), max(y, before if before is not None else y) + 1):
            dots[between][x] = True
        before = y
    lines = []
    for row in range(height):
        label = labels[0] if row == 0 else labels[1] if row == height - 1 else ""
        cells = []
        for x in range(0, columns, across):
            if braille:
                bits = sum(_BRAILLE[i][j] for i in range(4) for j in range(2) if dots[row * 4 + i][x + j])
                cells.append(chr(0x2800 + bits) if bits else " ")
            else:
                cells.append("*" if dots[row][x] else " ")
        lines.append(f"{label:>{room}} {'|' if not braille else '│'}{''.join(cells)}".rstrip())
    return lines


def _flow(cells, width):
    """Cells in lines, three blanks between those of a line."""
    lines = [""]
    for cell in filter(None, cells):
        if lines[-1] and len(lines[-1]) + 3 + len(cell) > width:
            lines.append("")
        lines[-1] += ("   " if lines[-1] else "") + cell
    return [line[:width] for line in lines]


def _head(s, stopping):
    state = "stopping after this round" if stopping and s.state != "ended" else s.state
    left = s.left()
    yield f"shoal train {os.path.basename(s.model)}".rstrip()
    yield state
    yield f"round {s.round}/{s.rounds}" if s.rounds else f"round {s.round}"
    if s.epoch is not None:
        yield f"epoch {s.epoch:.3g}" + (f"/{s.max_epochs:g}" if s.max_epochs else "")
    if s.loss is not None:
        yield f"loss {s.loss:.4f}"
    if s.learning_rate is not None:
        yield f"lr {s.learning_rate:.2g}"
    if s.tokens_per_second is not None:
        yield f"{short(s.tokens_per_second)} tokens/s"
    if s.round_seconds is not None:
        yield f"{span(s.round_seconds)} a round"
    if s.computing is not None:
        yield f"{s.computing:.0%} computing"
    yield f"down {size(s.bytes_down)}, up {size(s.bytes_up)}"
    if s.checkpoint is not None:
        yield f"checkpoint {s.checkpoint}"
    if s.lost or s.joined:
        yield f"lost {s.lost}, joined {s.joined}"
    if left is not None and s.state != "ended":
        yield f"{span(left)} left"


def _rows(s, slots):
    """What the table shows of each island. slots: {worker: (kind, link)} as the pool tells; "" stands for any other."""
    slow = set(s.stragglers())
    for island, row in sorted(s.islands.items(), key=lambda item: str(item[0]).zfill(8)):
        worker = str(row.get("worker", ""))
        kind, link = slots.get(worker, slots.get("", ("", "")))
        state = str(row.get("state", ""))
        speed, loss = row.get("tokens_per_second"), row.get("loss")
        yield {"WORKER": worker or f"island {island}", "STATE": "slow" if island in slow else state,
               "TOKENS/S": short(speed) if speed else "", "STEPS": str(row.get("steps", "")),
               "LOSS": f"{loss:.4f}" if isinstance(loss, (int, float)) else "", "KIND": str(row.get("kind") or kind),
               "LINK": str(row.get("link") or link)}


_LEFT = ("WORKER", "STATE", "KIND", "LINK")
_MOST = {"WORKER": 20, "KIND": 20, "LINK": 16}


def _table(rows, width, height):
    """The rows, with as many of the columns as fit, and as many rows."""
    if height < 1 or not rows:
        return []
    names = [name for name in rows[0] if any(row[name] for row in rows)]
    wide = {name: min(_MOST.get(name, 12), max(len(name), *(len(row[name]) for row in rows))) for name in names}
    while names and sum(wide[name] + 2 for name in names) - 2 > width and len(names) > 1:
        names.pop()

    def line(row):
        cells = [f"{row[n][:wide[n]]:<{wide[n]}}" if n in _LEFT else f"{row[n][:wide[n]]:>{wide[n]}}" for n in names]
        return "  ".join(cells).rstrip()[:width]
    lines = [line({name: name for name in names})] + [line(row) for row in rows]
    if len(lines) > height:
        lines = lines[:max(height - 1, 0)] + [f"and {len(lines) - max(height - 1, 1)} more"[:width]]
    return lines


def picture(s, width, height, view="workers", slots=None, stopping=False, braille=True):
    """The screen: at most `height` lines of at most `width` characters. view: "workers", "log" or "help"."""
    head = _flow(list(_head(s, stopping)), width)
    foot = _flow([f"{key}: {meaning.split(',')[0].split(' after')[0]}" for key, meaning in KEYS], width)[:1]
    room = max(0, height - len(head) - len(foot) - 1)
    if view == "help":
        body = [f"{key}  {meaning}"[:width] for key, meaning in KEYS][:room]
    elif view == "log":
        body = [line[:width] for line in list(s.log)[-room:]] if room else []
    else:
        rows = list(_rows(s, slots or {}))
        table = _table(rows, width, min(len(rows) + 1, max(room // 2, room - 12)))
        picture_room = min(16, room - len(table) - (1 if table else 0))
        drawn = curve(s.curve.points(), width, picture_room, braille)
        body = drawn + ([""] if drawn and table else []) + table
    lines = [*head, "", *body]
    lines += [""] * (height - len(foot) - len(lines))
    return (lines[:max(0, height - len(foot))] + foot)[:height]


# ---- on a terminal, and elsewhere ----

def is_terminal(stream=None):
    """Whether a screen can be shown there."""
    stream = stream or sys.stdout
    if not stream.isatty() or not sys.stdin.isatty() or os.environ.get("TERM", "dumb") in ("", "dumb"):
        return False
    try:
        curses.setupterm(fd=stream.fileno())
    except curses.error:  # nobody here knows this terminal
        return False
    return True


class Gate:
    """What the keys ask of the training: it waits here after a round while it is paused."""

    def __init__(self, stop=lambda: None):
        self._stop, self._paused = stop, False  # no locks: a signal may come at any point
        self.stopping = False

    def stop(self):
        """The training ends after this round."""
        if not self.stopping:
            self.stopping, self._paused = True, False
            self._stop()

    def pause(self):
        """Pauses it, or lets it go on. Returns whether it is paused."""
        self._paused = not self._paused and not self.stopping
        return self._paused

    def wait(self):
        """Returns when it is not paused; what a user has paused waits for that user."""
        while self._paused:
            time.sleep(0.1)


class Screen:
    """The screen, on a thread of its own, until `close`. look(): {worker: (kind, link)}, asked for every two seconds."""

    def __init__(self, monitor, gate, look=dict):
        self.monitor, self.gate, self._look = monitor, gate, look
        self.view, self.slots = "workers", {}
        self._ended = threading.Event()
        locale.setlocale(locale.LC_ALL, "")
        self._braille = "utf" in locale.getpreferredencoding(False).lower()
        self._thread = threading.Thread(target=self._run, name="screen", daemon=True)
        self._thread.start()

    def close(self):
        """Gives the terminal back."""
        self._ended.set()
        self._thread.join(5)

    def _run(self):
        try:
            self._show(curses.initscr())
        except (curses.error, OSError):  # the terminal is gone, or is none after all
            self.monitor.observers.append(Lines(self.monitor.summary))

    def _show(self, window):
        try:
            curses.noecho()
            curses.cbreak()
            with contextlib.suppress(curses.error):
                curses.curs_set(0)
            window.keypad(True)
            window.timeout(_EVERY_MS)
            looked = 0.0
            while not self._ended.is_set():
                if time.monotonic() - looked > 2:
                    looked = time.monotonic()
                    with contextlib.suppress(Exception):  # a pool that does not answer is no matter of the screen
                        self.slots = self._look()
                self._draw(window)
                self._press(window.getch())
        finally:
            curses.endwin()

    def _draw(self, window):
        width, height = os.get_terminal_size(sys.stdout.fileno())
        if (height, width) != window.getmaxyx():  # curses is told by a signal, which a thread may miss
            curses.resizeterm(height, width)
            window.clear()
        with self.monitor.lock:
            lines = picture(self.monitor.summary, width, height, self.view, self.slots, self.gate.stopping, self._braille)
        window.erase()
        for y, line in enumerate(lines):
            with contextlib.suppress(curses.error):  # of the last cell, behind which the cursor cannot go
                window.addstr(y, 0, line, curses.A_BOLD if y == 0 else curses.A_NORMAL)
        window.refresh()

    def _press(self, key):
        if key == curses.KEY_RESIZE or key == -1:
            return
        pressed = chr(key) if 0 < key < 128 else ""
        if pressed == "q":
            self.gate.stop()
        elif pressed == "p":
            self.monitor.event("paused" if self.gate.pause() else "resumed")
        elif pressed == "l":
            self.view = "workers" if self.view == "log" else "log"
        elif pressed == "?":
            self.view = "workers" if self.view == "help" else "help"


class Lines:
    """An observer of a Monitor that prints a line for each round, at most one a second but for the last, and for what happens rarely."""

    def __init__(self, summary, stream=None):
        self.summary, self.stream, self._told = summary, stream or sys.stdout, -math.inf

    def __call__(self, kind, fields):
        if kind in ("island", "checkpoint"):
            return
        s = self.summary
        if kind != "round":
            print(line_of(kind, fields), file=self.stream, flush=True)
            return
        now = time.monotonic()
        if now - self._told < 1 and s.round != s.rounds:
            return
        self._told = now
        words = [f"round {s.round}" + (f"/{s.rounds}" if s.rounds else "")]
        words += [f"loss {s.loss:.4f}"] if s.loss is not None else []
        words += [f"{short(s.tokens_per_second)} tokens/s"] if s.tokens_per_second else []
        words += [f"{span(fields['seconds'])}"] if fields.get("seconds") else []
        words += [f"{s.computing:.0%} computing"] if s.computing is not None else []
        words += [f"{span(s.left())} left"] if s.left() is not None and s.round != s.rounds else []
        print(", ".join(words), file=self.stream, flush=True)
