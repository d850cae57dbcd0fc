"""An island: one worker's slot with parameters and the state of AdamW of its own, and the thread that serves it.

Each island has a session of its own: what it waits for holds no other up, and what it loses is its own. All that it
has is bound to its slot, so that the death of the worker is an error here and not work for another island.
"""
import collections
import contextlib
import queue
import threading
import time

import numpy as np

from .. import _shoal
from ..autograd import no_grad
from ..creation import concatenate
from ..errors import ClosedError, ShoalError
from ..loop import array_like, numbers_of
from ..pool import Session
from . import compress, rules

WAIT_MS = 7 * 24 * 3600 * 1000  # a window may take long; who computes it is watched by the hub


class Recipe:
    """What all islands of a run do alike.

    parts: the numbers of the parameters of each fragment; vectors: where these lie in its vector; span: optimizer
    steps of a round; micro: batches of the model per step; per_step: tokens of a step; tokens: as which type they travel, all of
    them being less than `vocabulary`.
    """

    def __init__(self, experiment, program, vocabulary=1 << 31):
        self.experiment, self.program = experiment, program
        self.fragments = experiment.fragments
        self.span, self.micro = experiment.tau // self.fragments, 1
        if experiment.effective_batch_size:
            self.micro = experiment.effective_batch_size // program.batch
        self.per_step = program.batch * self.micro * program.length
        self.tokens = np.uint8 if vocabulary <= 1 << 8 else np.uint16 if vocabulary <= 1 << 16 else np.int32
        self.parts = _parted([int(np.prod(shape)) for shape in program.shapes], self.fragments)
        self.vectors = [compress.Vector([program.shapes[i] for i in part]) for part in self.parts]
        self.whole = compress.Vector(program.shapes)

    def join(self, parameters):
        """Parameters as the fragments' vectors."""
        return [vector.join([parameters[i] for i in part]) for part, vector in zip(self.parts, self.vectors)]

    def split(self, vectors):
        """The fragments' vectors as parameters, in order."""
        made = [None] * len(self.program.shapes)
        for part, vector, array in zip(self.parts, self.vectors, vectors):
            for i, value in zip(part, vector.split(array)):
                made[i] = value
        return made


def _parted(counts, n):
    """Numbers in n lists of about equal sums: the largest first, each to the smallest list."""
    parts, sums = [[] for _ in range(n)], [0] * n
    for i in sorted(range(len(counts)), key=lambda i: (-counts[i], i)):
        at = sums.index(min(sums))
        parts[at].append(i)
        sums[at] += counts[i]
    return [sorted(part) for part in parts]


class Update:
    """What an island has to have before it ends a window.

    vectors: {fragment: the vector, or a list of arrays: the encoded change of what it has}; fresh: nothing of its own is
    kept; reset: the state of its optimizer begins anew.
    """

    def __init__(self, vectors, fresh, reset=False):
        self.vectors, self.fresh, self.reset = vectors, fresh, reset


class Window:
    """What an island is to do in a round.

    inputs, targets: int32 [steps, micro * batch, length]; lrs: per step; fragments: whose gradients it returns; keep:
    whether its state is to be returned; ahead: whether `overlap` steps are made before it takes its `Update`, which may
    be given later.
    """

    def __init__(self, inputs, targets, lrs, fragments, keep, ahead):
        self.inputs, self.targets, self.lrs = inputs, targets, lrs
        self.fragments, self.keep, self.ahead = fragments, keep, ahead
        self._given, self.updates, self.dropped = queue.SimpleQueue(), [], False

    def give(self, update):
        """The `Update`; None: the window is not to be done any more."""
        self.dropped = self.dropped or update is None
        self._given.put(update)

    def update(self, wait):
        """The `Update`, or None if there is none yet, where it is not waited for. Raises Dropped."""
        try:
            update = self._given.get(wait)
        except queue.Empty:
            return None
        if self.dropped:
            raise Dropped
        self.updates.append(update)
        return update


class Dropped(Exception):
    """A window is not to be done any more."""


class Report:
    """What came of it: the mean loss of each step, the encoded gradients {fragment: arrays}, bytes, seconds, and the state if asked
    for."""

    def __init__(self, losses, payloads, seconds, busy, bytes_up, bytes_down, state):
        self.losses, self.payloads, self.seconds, self.busy = losses, payloads, seconds, busy
        self.bytes_up, self.bytes_down, self.state = bytes_up, bytes_down, state


class Island:
    """index: which of the islands; slot: its number in the pool at `address` (None: a pool inside this process, of
    `threads`); news: a queue that gets (island, what, value): "ready", "done" with a Report,
    "dropped", "kept" with its state, or "lost" with an error.
    """

    def __init__(self, recipe, index, slot, worker, address, threads, news, saved):
        self.recipe, self.index, self.slot, self.worker = recipe, index, slot, worker
        self.versions = [-1] * recipe.fragments  # in which round it was given each fragment
        self.ready, self.reset = False, False  # it may begin; its optimizer is to begin anew
        self.windows = collections.deque()  # that it was sent, and has not answered
        self.asked = False  # for its state
        self.speed = None  # tokens per second, of its last windows
        self.place = slot  # by which the shepherd knows it
        self.saved = None  # what it is to begin with, until it is ready
        self._address, self._threads, self._news, self._saved = address, threads, news, saved
        self._jobs, self._over = queue.SimpleQueue(), False
        self._loops, self._begun, self._next = [], [], []  # the last two; those of the next window; a job taken before its turn
        self._thread = threading.Thread(target=self._serve, name=f"island {index}", daemon=True)
        self._thread.start()

    # ---- for the shepherd's thread ----

    @property
    def busy(self):
        return self.asked or len(self.windows) > 0

    def send(self, window):
        """Has it do a window; "done", "dropped" or "lost" will follow."""
        self.windows.append(window)
        self._jobs.put(window)

    def ask(self):
        """Asks it for its state; "kept" with that, or "lost", will follow."""
        self.asked = True
        self._jobs.put("keep")

    def answered(self, what):
        """For the shepherd, which has heard that."""
        if what in ("done", "dropped"):
            self.windows.popleft()
        self.asked = self.asked and what != "kept"

    def cancel(self):
        """Ends a window that is under way: it is lost then."""
        self._over = True
        for window in list(self.windows):
            window.give(None)
        for loop in self._loops or ():
            with contextlib.suppress(ShoalError):  # it has ended by itself, or the pool has
                loop.cancel()

    def close(self, wait):
        """Ends the thread; waits at most so many seconds for it."""
        self._over = True
        for window in list(self.windows):
            window.give(None)
        self._jobs.put(None)
        self._thread.join(wait)

    # ---- the thread ----

    def _serve(self):
        inside = None
        try:
            inside = self._open()
            with no_grad():
                self._begin(inside)
                self._news.put((self, "ready", None))
                while (job := self._taken()) is not None:
                    if job == "keep":
                        self._news.put((self, "kept", self._state()))
                        continue
                    try:
                        self._news.put((self, "done", self._run(job)))
                    except Dropped:
                        self._news.put((self, "dropped", None))
        except Exception as error:  # whatever it is, the shepherd has to know
            self._news.put((self, "lost", error))
        finally:
            self._forget()
            if inside is not None:
                inside.close()

    def _taken(self):
        """The next job."""
        return self._next.pop() if self._next else self._jobs.get()

    def _open(self):
        if self._address is None:
            inside = Session(hub="embedded", workers=1, threads=self._threads, timeout_ms=WAIT_MS)
            self.slot = inside.compute_slots()[0]
            return inside
        return Session(hub=self._address, timeout_ms=WAIT_MS, name=f"island {self.index}", spare=1)

    def _put(self, array):
        """An array on the slot. It may not change while the window is under way."""
        array = np.asarray(array, order="C")
        return self.session.from_numpy(array, copy=False).place(slots=[self.slot], bound=True)

    def _begin(self, inside):
        self.session, self._functions = inside, {}
        recipe, saved = self.recipe, self._saved
        self._parameters = [None] * len(recipe.program.shapes)
        self._anchors = [None] * recipe.fragments
        self._fresh()
        self.taken = int(saved.get("taken", 0))
        if "mean" in saved:
            self._means, self._squares = self._split(saved["mean"]), self._split(saved["square"])
        for f in range(recipe.fragments):
            if f"error{f}" in saved and self._errors[f] is not None:
                self._errors[f] = self._put(saved[f"error{f}"])
        if "parameters" in saved:
            self._parameters = self._split(saved["parameters"])
            self._anchors = [self._put(saved[f"anchor{f}"]) for f in range(recipe.fragments)]
        self._saved = None

    def _split(self, vector):
        return self._call("split", self.recipe.whole.split, [self._put(vector)])

    def _zeros(self, shape):
        return self.session.full(shape, 0.0).place(slots=[self.slot], bound=True)

    def _fresh(self):
        """The optimizer begins anew: corrections for moments of 0 as well."""
        recipe, self.taken = self.recipe, 0
        self._means = [self._zeros(shape) for shape in recipe.program.shapes]
        self._squares = [self._zeros(shape) for shape in recipe.program.shapes]
        lossy = recipe.experiment.compression != "none"
        self._errors = [self._zeros((vector.size,)) if lossy else None for vector in recipe.vectors]

    def _forget(self):
        self._parameters = self._means = self._squares = self._anchors = self._errors = None
        self._functions = self._begun = None
        self._loops, self._next = [], []

    # ---- programs, which are recorded once ----

    def _function(self, name, record, inputs, donated=()):
        """The function that `record` records of such inputs, lists of tensors."""
        if name not in self._functions:
            self.session.sync()
            outputs = record(*inputs)
            made = _shoal.Function(self.session, inputs, outputs)
            for i in donated:
                made.donate(i, True)
            self._functions[name] = made
        return self._functions[name]

    def _call(self, name, record, inputs, donated=()):
        return self._function(name, record, inputs, donated).run(inputs)

    def _step(self, micro):
        """What a round of the loop does: of parameters, means and squares, the sum of gradients if it takes several,
        losses, their number so far, ids, targets, numbers of AdamW, and whether it is the last of its step."""
        recipe, n = self.recipe, len(self.recipe.program.shapes)

        def record(*given):
            state, (losses, at, ids, targets, numbers, last) = given[:-6], given[-6:]
            parameters, means, squares, sums = (state[i * n:(i + 1) * n] for i in range(4))
            inside, program = ids.session, recipe.program
            loss, gradients = program.record(
                [p if kind == "float32" else p.astype(kind) for p, kind in zip(parameters, program.dtypes)], ids, targets)
            gradients = [g if g.dtype == "float32" else g.astype("float32") for g in gradients]
            loss = loss.reshape(()).astype("float32")
            losses = losses.dynamic_update_slice(loss.reshape((1,)), (at,))
            if micro > 1:
                part = rules.constant(inside, 1 / micro)
                gradients = [s + g * part for s, g in zip(sums, gradients)]
            made = rules.adamw(parameters, rules.clipped(gradients, recipe.experiment.clip), means, squares, numbers,
                               recipe.experiment.variance_weight)
            if micro > 1:
                zero = rules.constant(inside, 0.0)
                made = [[_shoal.select(last, new, old) for new, old in zip(row, was)]
                        for row, was in zip(made, (parameters, means, squares))]
                made.append([_shoal.select(last, zero, g) for g in gradients])
            return [*(tensor for row in made for tensor in row), losses, at + rules.constant(inside, 1, "int64")]
        return record

    def _pack(self, fragments, loops):
        kind = self.recipe.experiment.compression

        def record(*given):
            anchors, given = given[:len(fragments)], list(given[len(fragments):])
            moved = []
            for f, anchor in zip(fragments, anchors):
                n = len(self.recipe.vectors[f].shapes)
                moved.append(anchor - self.recipe.vectors[f].record_join(given[:n]))
                given = given[n:]
            losses, errors = given[:loops], given[loops:]
            if errors:
                moved = [way + error for way, error in zip(moved, errors)]
            coded = [compress.encode(kind, way) for way in moved]
            return [*(array for payload, _ in coded for array in payload),
                    concatenate(losses) if loops > 1 else losses[0] * rules.constant(losses[0].session, 1.0),
                    *(left for _, left in coded if left is not None)]
        return record

    def _change(self, fragment):
        vector, kind = self.recipe.vectors[fragment], self.recipe.experiment.compression

        def record(anchor, *given):
            anchor = anchor + compress.decode_change(kind, given)
            return [anchor, *vector.split(anchor)]
        return record

    def _blend(self):
        """Of parameters and what comes for them: what the worker goes on with."""
        alpha = self.recipe.experiment.alpha

        def record(*given):
            n = len(given) // 2
            own, other = rules.constant(given[0].session, alpha), rules.constant(given[0].session, 1 - alpha)
            return [mine * own + theirs * other for mine, theirs in zip(given[:n], given[n:])]
        return record

    # ---- a window ----

    def _update(self, update, goes_on):
        """goes_on: it has made steps since it sent what the update follows from."""
        if update.reset:
            self._fresh()
        for fragment, given in sorted(update.vectors.items()):
            if isinstance(given, list):
                inputs = [self._anchors[fragment], *map(self._put, given)]
                anchor, *made = self._call(f"change {fragment}", self._change(fragment), inputs, [0])
            else:
                anchor = self._put(given)
                made = self._call(f"spread {fragment}", self.recipe.vectors[fragment].split, [anchor])
            self._anchors[fragment] = anchor
            part = self.recipe.parts[fragment]
            if goes_on and not update.fresh and self.recipe.experiment.alpha:
                mine = [self._parameters[i] for i in part]
                made = self._call(f"blend {fragment}", self._blend(), mine + made, range(len(part)))
            for i, value in zip(part, made):
                self._parameters[i] = value

    def _feeds(self, window, first, end):
        """(rounds, ids, targets, numbers, flags) of some steps, stacked, with room for a few sizes of windows only: each is a
        program."""
        micro, program = self.recipe.micro, self.recipe.program
        steps = end - first
        grain = max(1, self.recipe.span // 4)
        room = -(-steps // grain) * grain * micro

        def stacked(array, shape, kind):
            array = np.ascontiguousarray(array, kind).reshape((steps * micro, *shape))
            if room == steps * micro:
                return array
            return np.concatenate([array, np.zeros((room - len(array), *shape), kind)])
        numbers = np.repeat(rules.adam_numbers(self.recipe.experiment, self.taken, window.lrs[first:end]), micro, 0)
        last = np.arange(steps * micro) % micro == micro - 1
        tokens, kind = (program.batch, program.length), self.recipe.tokens
        return steps * micro, [stacked(window.inputs[first:end], tokens, kind), stacked(window.targets[first:end], tokens, kind),
                               stacked(numbers, numbers.shape[1:], np.float32), stacked(last, (), np.bool_)]

    def _repeat(self, window, first, end):
        """Runs these steps as one loop; the tensor of losses, and how many there are."""
        n, micro = len(self._parameters), self.recipe.micro
        rounds, feeds = self._feeds(window, first, end)
        state = [*self._parameters, *self._means, *self._squares]
        if micro > 1:
            state += [self._zeros(shape) for shape in self.recipe.program.shapes]
        state += [self._zeros((len(feeds[0]),)), self.session.full((), 0, "int64").place(slots=[self.slot], bound=True)]
        carried = len(state)
        name = f"step {len(feeds[0])}"
        if name not in self._functions:
            ones = [self._put(feed[0]) for feed in feeds]
            self._function(name, self._step(micro), state + ones, range(carried))
        fed = [self._put(feed) for feed in feeds]
        self._parameters = self._means = self._squares = None  # they are given away
        loop, made = self._functions[name].repeat(
            state + fed, rounds, list(range(carried)), list(range(carried)), [], list(range(carried, carried + 4)), -1)
        self._loops = [*self._loops[-1:], loop]
        if self._over:
            loop.cancel()
        self._parameters, self._means, self._squares = made[:n], made[n:2 * n], made[2 * n:3 * n]
        self.taken += end - first
        return made[carried - 2], rounds

    def _first(self, window):
        """How many steps it makes before its update."""
        return min(self.recipe.experiment.overlap, len(window.lrs)) if window.ahead else 0

    def _steps(self, window):
        """Makes the window's steps, and takes its update where it belongs: [(tensor of losses, how many)] of the loops."""
        first, steps = self._first(window), len(window.lrs)
        loops, self._begun = self._begun, []
        update = window.update(wait=False)
        if first and not loops:
            loops = [self._repeat(window, 0, first)]
        update = update or window.update(wait=True)
        if update.fresh:  # what it has come to counts for nothing: it makes all steps from what it is given
            first, loops = 0, []
        self._update(update, window.ahead)
        return loops if first == steps else [*loops, self._repeat(window, first, steps)]

    def _send(self, window, loops):
        """Starts packing and sending the losses and the gradients: the loop that brings them, and (array, type) for each."""
        fragments = window.fragments
        given = [*(self._anchors[f] for f in fragments), *(self._parameters[i] for f in fragments for i in self.recipe.parts[f]),
                 *(losses for losses, _ in loops)]
        errors = [self._errors[f] for f in fragments if self._errors[f] is not None]
        name = f"pack {fragments} of {[losses.shape for losses, _ in loops]}"
        brought = len(fragments) * compress.arrays_of(self.recipe.experiment.compression) + 1
        back, at = list(range(brought, brought + len(errors))), list(range(len(given), len(given) + len(errors)))
        sending, made = self._function(name, self._pack(fragments, len(loops)), given + errors).repeat(
            given + errors, 1, back, at, list(range(brought)), [], -1)
        for f, left in zip(fragments, made[brought:] if errors else ()):
            self._errors[f] = left
        return sending, [(array_like(tensor), tensor.dtype) for tensor in made[:brought]]

    def _begin_next(self):
        """The first steps of the next window, if it is there and its update comes later: while what this one brings is on
        its way."""
        try:
            job = self._jobs.get_nowait()
        except queue.Empty:
            return
        self._next.append(job)
        if isinstance(job, Window) and not job.dropped and (first := self._first(job)):
            self._begun = [self._repeat(job, 0, first)]

    def _run(self, window):
        began = time.monotonic()
        loops = self._steps(window)
        sending, brought = self._send(window, loops)
        state = self._state() if window.keep else None
        self._begin_next()
        if not sending.next([array for array, _ in brought]):
            raise ClosedError("the window was cancelled")
        seconds = time.monotonic() - began
        busy = sum(max((ns for _, ns, _ in losses.times()), default=0) for losses, _ in loops) / 1e9
        *payload, losses = (numbers_of(array, dtype) for array, dtype in brought)
        ends = np.cumsum([len(losses) for losses, _ in loops])
        found = np.concatenate([part[:rounds] for part, (_, rounds) in zip(np.split(losses, ends), loops)])
        kind = self.recipe.experiment.compression
        each = compress.arrays_of(kind)
        payloads = {f: payload[k * each:(k + 1) * each] for k, f in enumerate(window.fragments)}
        up = sum(compress.payload_bytes(kind, self.recipe.vectors[f].size) for f in window.fragments)
        up += sum(array.nbytes for key, array in (state or {}).items() if key != "taken")
        down = sum(array.nbytes for update in window.updates for given in update.vectors.values()
                   for array in (given if isinstance(given, list) else [given]))
        return Report(found.reshape(-1, self.recipe.micro).mean(1), payloads, seconds, busy or seconds, up, down, state)

    def _state(self):
        """All that it has to begin with again, arrays and `taken`."""
        def joined(tensors):
            return self._call("join", lambda *given: [self.recipe.whole.record_join(given)], tensors)[0].numpy()
        state = {"taken": self.taken, "mean": joined(self._means), "square": joined(self._squares)}
        for f, error in enumerate(self._errors):
            if error is not None:
                state[f"error{f}"] = error.numpy()
        if self.recipe.fragments > 1 or self.recipe.experiment.overlap:
            state["parameters"] = joined(self._parameters)
            state |= {f"anchor{f}": anchor.numpy() for f, anchor in enumerate(self._anchors)}
        return state
