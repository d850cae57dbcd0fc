"""The shepherd: rounds in which islands train by themselves, and between them the outer step.

A round is closed when all islands have reported, or, once the quorum is there, `deadline` seconds after the first has.
Who dies is out at once; who is late goes on and takes part again when it is through; who is new takes part from the
next round on. Data are assigned by round and island, and sums go in the order of islands: with the same islands a run
gives the same losses, also when it was killed and goes on from a checkpoint.
"""
import math
import os
import queue
import threading
import time

import numpy as np

from ..errors import ClosedError, FormatError, InvalidError, LostError, ShoalError
from ..pool import session as default_session
from . import compress, rules
from .island import Island, Recipe, Update, Window
from .model import Program, load

LOOK = 0.25      # seconds between looks at who is there
SETTLE = 2.0     # seconds that a round waits for newcomers to be ready
TRIES = 3        # failures of its own in a row, gradients that cannot be used among them, after which a slot is left alone


def check(experiment, program):
    """InvalidError if an experiment does not fit a model, or itself."""
    e = experiment
    compress.check(e.compression)
    rules.rate(e, 0)
    for name, least in (("tau", 1), ("outer_loop_steps", 0), ("fragments", 1), ("overlap", 0), ("workers", 1)):
        if getattr(e, name) < least:
            raise InvalidError(f"{name} is {getattr(e, name)}; at least {least} is needed")
    if e.tau % e.fragments:
        raise InvalidError(f"tau is {e.tau} and fragments {e.fragments}; tau has to be a multiple of fragments")
    if e.fragments > len(program.shapes):
        raise InvalidError(f"fragments is {e.fragments}; {program.name} has {len(program.shapes)} parameters to divide")
    if e.effective_batch_size and e.effective_batch_size % program.batch:
        raise InvalidError(f"effective_batch_size is {e.effective_batch_size}; {program.name} takes {program.batch} at a time, "
                           "and a multiple of that is needed")
    if not np.float32(e.eps) > 0:
        raise InvalidError(f"eps is {e.eps}, which is 0 in float32: where a gradient is 0, AdamW would divide 0 by 0; 1e-8 is usual")
    if not 0 <= e.alpha < 1:
        raise InvalidError(f"alpha is {e.alpha}; a number from 0 to below 1 is needed")
    if e.overlap > e.tau // e.fragments:
        raise InvalidError(f"overlap is {e.overlap}; between two exchanges there are tau / fragments = {e.tau // e.fragments} steps")
    if e.overlap == e.tau and not e.alpha:
        raise InvalidError(f"overlap is {e.overlap}, as long as tau, and alpha 0; workers would keep nothing of their steps")
    if not 0 < e.quorum <= 1 or e.deadline <= 0:
        raise InvalidError(f"quorum is {e.quorum}, deadline {e.deadline}; a share above 0 up to 1, and seconds, are needed")
    if e.balance not in ("equal", "steps"):
        raise InvalidError(f"balance {e.balance!r}; there are equal, steps")
    floats = set(program.dtypes)
    if e.dtype not in ("f32", "bf16") or (e.dtype == "bf16" and floats == {"float32"}):
        raise InvalidError(f"dtype {e.dtype!r}, and the parameters of {program.name} are {', '.join(sorted(floats))}: "
                           "f32 trains a model as it is; bf16 is for one whose parameters are bfloat16, which then are "
                           "kept in float32 beside")


def _check_tokens(program, data):
    """InvalidError if the data have tokens that a model has no row for: it would learn from the wrong rows, or from NaN."""
    rows = program.vocabulary
    if rows is not None and data.vocabulary > rows and data.tokens.largest >= rows:
        raise InvalidError(f"data_path {data.tokens.path}: there is a token {data.tokens.largest}, and {program.name} has {rows} rows to "
                           f"look tokens up in; a model of at least {data.tokens.largest + 1}, or another tokenizer than "
                           f"{data.tokens.tokenizer}, is needed")


def _whole(numbers, count, least=0):
    """A list of so many whole numbers of at least so much; ValueError for anything else."""
    if not isinstance(numbers, list) or len(numbers) != count or not all(type(n) is int and n >= least for n in numbers):
        raise ValueError(f"{numbers!r:.80} is no list of {count} whole numbers")
    return list(numbers)


class _Silent:
    def event(self, kind, **fields):
        """Tells nobody."""


class Shepherd:
    """experiment: what `Experiment` has. model: a `Program`, or what `model.load` takes. data, checkpoints, monitor: see
    the document on training. session: of the pool; None: the default one. In a pool inside this process islands are
    `experiment.workers` pools of one worker each.
    """

    def __init__(self, experiment, *, model, data, checkpoints=None, monitor=None, session=None):
        self.experiment, self.data, self.checkpoints = experiment, data, checkpoints
        self.program = model if isinstance(model, Program) else load(model)
        check(experiment, self.program)
        _check_tokens(self.program, data)
        self.recipe = Recipe(experiment, self.program, data.vocabulary)
        self.monitor = monitor or _Silent()
        self._watch = session or default_session()
        told = self._watch.status()
        self._address, self._hub, self._hub_gone = told.address, told.pool, False
        if self._address == "embedded":
            self._address = None
        self._islands, self._failures, self._error, self._news = {}, {}, None, queue.SimpleQueue()
        self._ahead = {}  # leases of the next round, whose windows have been sent
        self._stopping, self._over, self._told, self._looked = threading.Event(), False, 0.0, 0.0
        self._cut_off = False  # all islands are lost with the hub
        self.round, self.tokens, self.loss, self.counts = 0, 0, None, None
        self.bytes_up = self.bytes_down = 0
        self._longest = float(experiment.tau)  # steps of a round; longer ones, before a checkpoint, stay in what is left over and in momentum
        self._begin()
        data.bind(self.program.length, self.program.batch * self.recipe.micro)  # what is too little is told before anybody is waited for

    # ---- what there is at first, and what a checkpoint holds ----

    def _begin(self):
        e = self.experiment
        self._saved = {}
        self.theta = self.recipe.join(self.program.initial(e.seed))
        self._versions, self._wanted = [0] * e.fragments, e.workers
        self._sent, self._sent_versions = [vector.copy() for vector in self.theta], [0] * e.fragments  # what islands start from
        self._changes = [(None, None)] * e.fragments  # (the version before, what makes it the one that is sent now)
        self.outers = [rules.Outer(e.outer_learning_rate, e.nesterov_momentum, vector.size) for vector in self.recipe.vectors]
        if e.should_resume:
            self._resume()
        self._kept = self.round

    def _resume(self):
        """Goes on from the last checkpoint, if there is one."""
        found = self.checkpoints.latest() if self.checkpoints is not None else None
        if found is None:
            return
        try:
            self._restore(*found)
        except ShoalError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise FormatError(f"the checkpoint of step {found[0]} is none of such a training: {error!r:.200}") from None
        self.monitor.event("resumed", round=self.round, loss=self.loss)

    def _go_back(self, leases):
        """The hub has gone, and all islands with it: what they had is in the last checkpoint."""
        for given in (leases, self._ahead):
            for lease in given.values():
                self.data.done(lease, 0)
        self._ahead, self._cut_off, self._hub = {}, False, None
        for island in list(self._islands.values()):
            self._lose(island, "the hub is gone")
        self._resume()
        self._kept = self.round

    def _restore(self, step, arrays, state):
        shapes = [arrays[f"parameter.{name}"].shape if f"parameter.{name}" in arrays else None for name in self.program.names]
        for name, have, want in zip(self.program.names, shapes, self.program.shapes):
            if have != tuple(want):
                raise InvalidError(f"the checkpoint of step {step} has {have or 'no'} for {name}, and {self.program.name} "
                                   f"{tuple(want)}: it is of another model")
        if state["fragments"] != self.experiment.fragments:
            raise InvalidError(f"the checkpoint of step {step} is of {state['fragments']} fragments, the experiment "
                               f"says {self.experiment.fragments}")
        self.theta = self.recipe.join([arrays[f"parameter.{name}"] for name in self.program.names])
        for outer, velocity in zip(self.outers, self.recipe.join([arrays[f"momentum.{n}"] for n in self.program.names])):
            outer.velocity = velocity
        self.round, self.tokens, self.loss, counts = step, state["tokens"], state["loss"], state["counts"]
        self._versions = _whole(state["versions"], self.experiment.fragments)
        # Without compression islands were sent the parameters themselves, and those of before are not there any more.
        kind = "sent" if f"sent.{self.program.names[0]}" in arrays else "parameter"
        self._sent = self.recipe.join([arrays[f"{kind}.{name}"] for name in self.program.names])
        self._sent_versions = _whole(state["sent_versions"], self.experiment.fragments)
        self._changes = [(None, None)] * self.experiment.fragments
        if kind == "parameter":
            self._sent_versions = list(self._versions)
        self.counts = None if counts is None else _whole(counts, len(counts), 1)
        self._longest = max(self._longest, state.get("longest", self.experiment.tau))
        if any(state.get(name, mine) != mine for name, mine in self._division().items()):
            self.counts = None  # they are parts of rounds of another length
        if not all(np.isfinite(vector).all() for vector in (*self.theta, *self._sent, *(outer.velocity for outer in self.outers))):
            raise ValueError("it has numbers that are not finite")
        for index, kept in state["islands"].items():
            prefix = f"island.{index}."
            self._saved[int(index)] = kept | {key.removeprefix(prefix): array for key, array in arrays.items()
                                              if key.startswith(prefix)}
        self._wanted = max(1, len(self._saved))
        if self._address is None:  # there will be no more of them
            self._wanted = min(self._wanted, self.experiment.workers)
        self.data.restore(state["data"])

    def _division(self):
        """What `counts` follow from, beside speeds."""
        return {"tau": self.experiment.tau, "balance": self.experiment.balance}

    def _keep(self, states):
        """Saves a checkpoint with what these islands have: [(island, state)]."""
        e, names = self.experiment, self.program.names
        arrays = {f"parameter.{n}": a for n, a in zip(names, self.parameters())}
        momenta = self.recipe.split([outer.velocity.copy() for outer in self.outers])
        arrays |= {f"momentum.{n}": a for n, a in zip(names, momenta)}
        if e.compression != "none":
            arrays |= {f"sent.{n}": a for n, a in zip(names, self.recipe.split(self._sent))}
        islands = {}
        for island, state in states:
            islands[str(island.index)] = {"taken": state["taken"], "speed": island.speed, "versions": island.versions}
            arrays |= {f"island.{island.index}.{key}": array for key, array in state.items() if key != "taken"}
        self.checkpoints.save(self.round, arrays, {
            "tokens": self.tokens, "loss": self.loss, "counts": self.counts, "fragments": e.fragments, **self._division(),
            "longest": self._longest,
            "versions": self._versions, "sent_versions": self._sent_versions, "islands": islands, "data": self.data.state()})
        self._kept = self.round
        self.monitor.event("checkpoint", round=self.round)

    def _keep_last(self):
        """Saves a checkpoint of the end, if the last round made none: with what islands have that are there and not late."""
        if self.checkpoints is None or self.round == self._kept:
            return
        asked = {island for island in self._islands.values() if not island.busy and -1 not in island.versions}
        for island in asked:
            island.ask()
        states, until = {}, time.monotonic() + self.experiment.deadline
        while len(states) < len(asked) and time.monotonic() < until:
            heard = self._hear(LOOK)
            if heard is not None and heard[0] in asked:
                island, what, value = heard
                if what == "kept":
                    states[island] = value
                else:
                    asked.discard(island)
        self._keep(sorted(states.items(), key=lambda item: item[0].index))

    def parameters(self):
        """The parameters as they are now: float32 arrays, in the model's order."""
        return self.recipe.split([vector.copy() for vector in self.theta])

    # ---- the run ----

    def stop(self):
        """Ends the run after the round that is under way; called again, at once. For any thread, and for signals."""
        if self._stopping.is_set():
            for island in list(self._islands.values()):
                island.cancel()
        self._stopping.set()

    def run(self):
        """Trains to the end, or until `stop`. Returns {"loss", "rounds", "tokens", "bytes_up", "bytes_down", "stopped"}."""
        e = self.experiment
        self.monitor.event("start", model=self.program.name, parameters=self.program.count, round=self.round,
                           rounds=e.outer_loop_steps * e.fragments, tau=e.tau, epoch=self.data.epoch, pid=os.getpid())
        if (over := self.nothing_left()) is not None:
            self.monitor.event("message", text=over)
        try:
            while self._ahead or self._goes_on():
                self._one_round()
            self._keep_last()
        finally:
            self._end()
        told = {"loss": self.loss, "rounds": self.round, "tokens": self.tokens, "bytes_up": self.bytes_up,
                "bytes_down": self.bytes_down, "stopped": self._stopping.is_set()}
        self.monitor.event("end", **told)
        return told

    def nothing_left(self):
        """Why a training that goes on from a checkpoint is over already; None if it is not, or begins."""
        e = self.experiment
        if not self.round or self._is_left(0):
            return None
        done = self.round // e.fragments
        more = (f"outer_loop_steps is {e.outer_loop_steps}: make outer_loop_steps" if done >= e.outer_loop_steps else
                f"all of its data have been seen, and max_epochs is {e.max_epochs:g}: make max_epochs")
        return f"nothing is left to do: the checkpoint is of round {done}, and {more} larger to go on"

    def _goes_on(self, rounds=0):
        """Whether there is a round after so many more."""
        return not self._stopping.is_set() and not self._over and self._is_left(rounds)

    def _is_left(self, rounds):
        e = self.experiment
        if self.round + rounds >= e.outer_loop_steps * e.fragments:
            return False
        return not self.data.exhausted and self.data.epoch < e.max_epochs

    def _end(self):
        for island in self._islands.values():
            if island.busy:
                island.cancel()
        for island in self._islands.values():
            island.close(5)
        self._islands = {}
        if self.checkpoints is not None:
            self.checkpoints.close()

    # ---- who takes part ----

    def _slots(self):
        """{slot: name of its worker} of those that are there; None: that cannot be told now."""
        if self._address is None:
            return {("here", i): f"here {i}" for i in range(self.experiment.workers)}
        try:
            told = self._watch.status()
        except ShoalError as error:
            self._tell(f"the pool does not answer: {error}")
            self._hub_gone = isinstance(error, LostError)  # not one that is slow to answer
            return None
        self._hub_gone, self._hub = self._hub not in (None, told.pool), told.pool  # another one may be in its place
        self._cut_off = self._cut_off or self._hub_gone and self.checkpoints is not None
        return {slot.slot: slot.worker for slot in told.slots if slot.compute}

    def _look(self):
        """Begins islands on slots that have none. Raises what no island can begin with."""
        self._looked = time.monotonic()
        slots = self._slots() or {}
        if slots and not self._islands and all(self._failures.get(slot, 0) >= TRIES for slot in slots):
            raise self._error
        taken = {island.place for island in self._islands.values()}
        threads = max(1, (os.cpu_count() or 1) // self.experiment.workers)
        for slot, worker in sorted(slots.items()):
            if slot in taken or self._failures.get(slot, 0) >= TRIES:
                continue
            index = next(i for i in range(len(self._islands) + 1) if i not in self._islands)
            saved = self._saved.pop(index, {})
            island = Island(self.recipe, index, slot, worker, self._address, threads, self._news, saved)
            island.speed, island.saved = saved.get("speed"), saved
            if "parameters" in saved:
                island.versions = list(saved["versions"])
            self._islands[index] = island

    def _look_again(self):
        """Looks, if it has not done so for a while: rounds may be shorter than that."""
        if time.monotonic() - self._looked > 2 * LOOK:
            self._look()

    def _hear(self, seconds):
        """The next (island, what, value), or None after so long; who is lost is gone, who is ready may begin."""
        try:
            island, what, value = self._news.get(timeout=seconds)
        except queue.Empty:
            return None
        if self._islands.get(island.index) is not island:  # it was left alone, and its number may be another's
            return None
        island.answered(what)
        if what == "ready":
            island.ready, island.saved = True, None
            self.monitor.event("joined", island=island.index, worker=island.worker, round=self.round)
        elif what == "done":  # also too late: it takes less next time
            speed = len(value.losses) * self.recipe.per_step / value.busy
            island.speed = speed if island.speed is None else (island.speed + speed) / 2  # one round may be unlike others
        elif what == "lost":
            if not isinstance(value, (LostError, ClosedError)):
                self._failed(island, value)
            elif self._slots() is None and self._hub_gone:
                self._cut_off = self.checkpoints is not None
            self._lose(island, str(value))
        return island, what, value

    def _failed(self, island, error):
        """Counts a failure that is the slot's own."""
        self._failures[island.place], self._error = self._failures.get(island.place, 0) + 1, error

    def _lose(self, island, reason):
        """An island is one no more."""
        self._islands.pop(island.index, None)
        if island.saved:  # it has not begun: the next one may
            self._saved[island.index] = island.saved
        island.close(0)
        self.monitor.event("lost", island=island.index, worker=island.worker, round=self.round, reason=reason)

    def _tell(self, text):
        """A message, at most one in so many seconds."""
        if time.monotonic() - self._told > min(5.0, self.experiment.deadline):
            self._told = time.monotonic()
            self.monitor.event("waiting", round=self.round, text=text)

    def _free(self):
        """The islands that could begin a window, in order."""
        return sorted((i for i in self._islands.values() if i.ready and not i.busy), key=lambda i: i.index)

    def _gather(self):
        """The islands of the next round, in order: those that are ready. Waits while there are too few, until `stop`."""
        began = time.monotonic()
        while not self._stopping.is_set():
            self._look()
            there = self._free()
            coming = [i for i in self._islands.values() if not i.ready]
            waited = time.monotonic() - began
            wanted = self._wanted
            enough = len(there) >= wanted and (not coming or waited > (SETTLE if wanted == 1 else self.experiment.deadline))
            few = there and waited > self.experiment.deadline and len(there) >= math.ceil(
                min(wanted, self.experiment.workers) * self.experiment.quorum)
            if enough or few:
                self._wanted = 1
                return there
            if waited > min(SETTLE, self.experiment.deadline):
                late = sum(i.busy for i in self._islands.values())
                self._tell(f"{len(there)} of {wanted} islands are ready, {len(coming)} are starting, {late} are late: "
                           "waiting for workers; start one with `shoal worker`")
            self._hear(LOOK)
        return []

    # ---- a round ----

    def _divide(self, islands):
        """How many steps each takes."""
        span = self.recipe.span
        if self.experiment.balance == "equal":
            return [span] * len(islands)
        return rules.shares(span * len(islands), [island.speed for island in islands])

    def _publish(self):
        """What islands start from becomes theta, as far as it goes in so few bytes; the rest goes with the next change."""
        kind = self.experiment.compression
        for f, version in enumerate(self._versions):
            before, sent = self._sent_versions[f], self._sent[f]
            if version == before:
                continue
            if kind == "none":
                self._sent[f] = self.theta[f].copy()
            else:
                payload, moved = compress.encode_change(kind, self.theta[f] - sent)
                self._sent[f], self._changes[f] = sent + moved, (before, payload)
            self._sent_versions[f] = version

    def _send(self, islands, counts, number):
        """Windows of round `number`, to which updates are to be given: {island: lease}, of those for which there are data."""
        e = self.experiment
        keep = self.checkpoints is not None and (number + 1) % max(1, e.checkpoint_every) == 0
        batch = self.program.batch * self.recipe.micro
        left = self.data.left(batch)
        if len(counts) <= left < sum(counts):  # the data end: all take part in their last steps
            counts = rules.shares(left, counts)
        leases = {island: self.data.take(number, i, len(islands), steps, batch, self.program.length)
                  for i, (island, steps) in enumerate(zip(islands, counts))}
        leases = {island: lease for island, lease in leases.items() if len(lease.inputs)}
        # After the last steps of all, all fragments are exchanged: these steps would count for the one in turn only.
        last = self.data.left(batch) < len(islands) or not self._is_left(number + 1 - self.round)
        fragments = list(range(e.fragments)) if last and len(leases) == len(islands) else [number % e.fragments]
        for island, lease in leases.items():
            lrs = rules.rates(e, number * self.recipe.span, self.recipe.span, len(lease.inputs))
            ahead = e.overlap > 0 and -1 not in island.versions
            island.send(Window(lease.inputs, lease.targets, lrs, fragments, keep, ahead))
        return leases

    def _give(self, islands):
        """To the windows that were sent last: what each island has to have."""
        for island in islands:
            vectors = {}
            for f, (before, payload) in enumerate(self._changes):
                if island.versions[f] != self._sent_versions[f]:
                    has = before is not None and island.versions[f] == before
                    vectors[f] = payload if has else self._sent[f]
            island.windows[-1].give(Update(vectors, -1 in island.versions, island.reset))
            island.versions, island.reset = list(self._sent_versions), False

    def _drop(self, leases, islands):
        """These islands do no windows of these leases any more."""
        for island in islands:
            if island in leases:
                self.data.done(leases.pop(island), 0)
                island.versions = [-1] * self.experiment.fragments  # its first steps are of data that are handed out again
                if island.windows:
                    island.windows[-1].give(None)

    def _begin_round(self):
        """The leases of the round: those whose windows were sent ahead, and of who has come since."""
        leases, self._ahead = self._ahead, {}
        if leases:
            self._look_again()
            islands = self._free()
            counts = self._divide([*leases, *islands])[len(leases):]
        else:
            islands = self._gather()
            # As the last checkpoint has it, if they are as many as then, and divide alike.
            known = self.counts is not None and len(self.counts) == len(islands)
            counts = self.counts if known else self._divide(islands)
        self._publish()
        if islands:
            came = self._send(islands, counts, self.round)
            self._over = not leases and not came  # too little is left for a step
            leases |= came
        self._give(leases)
        return leases

    def _one_round(self):
        began = time.monotonic()
        leases = self._begin_round()
        if not leases and not self._cut_off:
            return
        before = self.round
        if self.experiment.overlap and not self._cut_off and self._goes_on(rounds=1):
            islands = sorted(leases, key=lambda island: island.index)
            self._ahead = self._send(islands, self._divide(islands), self.round + 1)
        reports = self._collect(leases)
        if self._cut_off:
            self._go_back(leases)
            return
        self._close_round(leases, reports, time.monotonic() - began)
        stay = {island for island, _ in reports} if self.round > before else set()
        self._drop(self._ahead, [island for island in self._ahead if island not in stay or self._islands.get(island.index) is not island
                                 or not island.windows])  # it has answered already: a second `stop` has dropped it

    def _collect(self, leases):
        """The reports that come in time: [(island, report)], in the order of islands."""
        e, reports, waiting = self.experiment, {}, set(leases)
        first, told = None, False
        while waiting and not self._cut_off:
            heard = self._hear(LOOK)
            if heard is not None and heard[0] in waiting:
                island, what, value = heard
                waiting.discard(island)
                if what == "done":
                    reports[island] = value
                    first = first or time.monotonic()
            self._look_again()  # so that who is new is ready for the next round
            if first is None or time.monotonic() - first < e.deadline:
                continue
            if len(reports) >= math.ceil(e.quorum * len(leases)):
                break
            if not told:
                told = True
                self.monitor.event("message", round=self.round, text=f"round {self.round}: {len(reports)} of {len(leases)} "
                                   f"islands have reported, and the quorum is {math.ceil(e.quorum * len(leases))}; waiting for "
                                   f"islands {sorted(i.index for i in waiting)}")
        for island in sorted(() if self._cut_off else waiting, key=lambda i: i.index):
            self.monitor.event("message", round=self.round, text=f"island {island.index} on {island.worker} is late: round "
                               f"{self.round} goes on without it")
        return sorted(reports.items(), key=lambda item: item[0].index)

    def _accepted(self, reports, islands):
        """[(island, report, {fragment: gradient})] of those that AdamW can have come to."""
        kind, good, limits = self.experiment.compression, [], {}
        for island, report in reports:
            gradients = {f: compress.decode(kind, payload) for f, payload in report.payloads.items()}
            for f in gradients.keys() - limits.keys():
                limits[f] = rules.farthest(self.experiment, islands, float(np.abs(self._sent[f]).max(initial=0)), self._longest)
            finite = all(np.isfinite(numbers).all() for numbers in (report.losses, *gradients.values()))
            farthest = {f: float(np.abs(gradient).max(initial=0)) for f, gradient in gradients.items()}
            f = max(farthest, key=lambda f: farthest[f] / limits[f])
            most, limit = farthest[f], limits[f]
            if finite and most <= limit:
                good.append((island, report, gradients))
                self._failures.pop(island.place, None)
                continue
            what = f"moves a number by {most:.3g}, and AdamW can by {limit:.3g}" if finite else "has numbers that are not finite"
            self.monitor.event("rejected", round=self.round, island=island.index, worker=island.worker, reason=(
                f"the outer gradient of island {island.index} on {island.worker} {what}; it is left out, and the state of its "
                "optimizer begins anew"))
            report.state = None
            island.versions, island.reset = [-1] * self.experiment.fragments, True
            self._failed(island, ShoalError(f"no outer gradient of {island.worker} could be used in {TRIES} rounds: training has "
                                            f"diverged; {self._blamed()} may help"))
            if self._failures[island.place] >= TRIES:
                self._lose(island, "its outer gradients cannot be used")
        return good

    def _blamed(self):
        """What is to be changed where training has diverged. Outer steps longer than the way that islands went may be why, if there
        has been one."""
        e = self.experiment
        if self.round and e.outer_learning_rate > 1:
            return f"an outer_learning_rate of at most 1, where it is {e.outer_learning_rate},"
        return f"a learning_rate below {e.learning_rate}"

    def _close_round(self, leases, reports, seconds):
        good = self._accepted(reports, len(leases))
        used = {island: report for island, report, _ in good}
        for island, lease in leases.items():
            self.data.done(lease, len(used[island].losses) if island in used else 0)
        if not good:
            for island in leases:  # who was late has moved on from parameters that are still those of all
                island.versions = [-1] * self.experiment.fragments
            return
        steps = [len(report.losses) for _, report, _ in good]
        fragments = set.intersection(*(set(gradients) for _, _, gradients in good))
        turn = self.round % self.experiment.fragments
        for f in sorted(fragments):
            gradient = rules.average([gradients[f] for _, _, gradients in good], steps)
            if f == turn:
                self.outers[f].step(self.theta[f], gradient)
            else:  # after the last steps: what islands have come to since, of which momentum is not meant to make more
                self.theta[f] -= gradient
        self.loss = float(sum(float(r.losses.mean()) * n for (_, r, _), n in zip(good, steps)) / sum(steps))
        self.round += 1
        self._longest = max(float(self.experiment.tau), self._longest * self.experiment.nesterov_momentum)
        for f in fragments:
            self._versions[f] = self.round
        for saved in self._saved.values():  # who comes back later begins from the parameters of then
            saved.pop("parameters", None)
        for island in self._islands.values():
            if not island.ready:
                island.versions = [-1] * self.experiment.fragments
        tokens = sum(steps) * self.recipe.per_step
        self.tokens += tokens
        # What who is there takes next is in the checkpoint, as it follows from measured speeds.
        if self._ahead:
            self.counts = [len(lease.inputs) for lease in self._ahead.values()]
        else:
            self.counts = self._divide(there) if (there := self._free()) else None
        self._report(good, seconds, tokens)
        if self.checkpoints is not None and self.round % max(1, self.experiment.checkpoint_every) == 0:
            self._keep([(island, report.state) for island, report, _ in good])

    def _report(self, good, seconds, tokens):
        up = sum(report.bytes_up for _, report, _ in good)
        down = sum(report.bytes_down for _, report, _ in good)
        self.bytes_up, self.bytes_down = self.bytes_up + up, self.bytes_down + down
        rows = [{"island": island.index, "worker": island.worker, "steps": len(report.losses),
                 "loss": float(report.losses.mean()), "losses": [float(x) for x in report.losses],
                 "tokens_per_second": island.speed, "seconds": report.seconds, "compute_seconds": report.busy, "state": "in"}
                for island, report, _ in good]
        for row in rows:
            self.monitor.event("island", **row)
        self.monitor.event("round", round=self.round, loss=self.loss, tokens=tokens, seconds=seconds,
                           compute_seconds=max(report.busy for _, report, _ in good), bytes_up=up, bytes_down=down,
                           epoch=self.data.epoch, learning_rate=rules.rate(self.experiment, self.round * self.recipe.span - 1),
                           islands=rows)
