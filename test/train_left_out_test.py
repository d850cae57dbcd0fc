"""Windows that do not count: what islands begin from after one was rejected, late or never made, bit for bit."""
import queue
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import shoal
from islands import WORDS, Data, Kept, Told, settings
from shoal.errors import ClosedError
from shoal.train import data as train_data
from shoal.train import model
from shoal.train.island import Island, Recipe, Update, Window
from shoal.train.shepherd import Shepherd
from shoal.train.tokens import open_tokens
from train_model import BATCH, LENGTH, TEXT
from train_test import Inner, losses_of


@pytest.fixture
def updates(monkeypatch):
    """[(island, update, its parameters after that)] of each update that an island took."""
    found, take = [], Island._update

    def taken(self, update, goes_on):
        take(self, update, goes_on)
        found.append((self.index, update, [parameter.numpy() for parameter in self._parameters]))
    monkeypatch.setattr(Island, "_update", taken)
    shoal.init(workers=1)
    return found


def are_same(arrays, others):
    return all(np.array_equal(a, b) for a, b in zip(arrays, others, strict=True))


@pytest.mark.parametrize("overlap", [0, 2])
def test_an_optimizer_that_begins_anew(monkeypatch, overlap):
    """AdamW's first steps again, as PyTorch makes them, with all steps of the window from what the island was given."""
    shoal.init(workers=1)
    run, windows, told = Island._run, [], Told()

    def spoil(self, window):
        report = run(self, window)
        windows.append(window)
        if len(windows) == 2:
            report.payloads[0][0] = report.payloads[0][0] * np.float32("nan")
        return report
    monkeypatch.setattr(Island, "_run", spoil)
    e = settings(overlap=overlap)
    shepherd = Shepherd(e, model=TEXT, data=Data(), monitor=told)
    theta = [array.copy() for array in shepherd.parameters()]
    shepherd.run()
    assert len(windows) == 3 and len(told.of("rejected")) == 1
    _, moved = Inner(e).window(theta, windows[0], 0)
    theta = [a - np.float32(e.outer_learning_rate * (1 + e.nesterov_momentum)) * m for a, m in zip(theta, moved)]
    want, _ = Inner(e).window(theta, windows[2], e.tau)
    np.testing.assert_allclose(losses_of(told)[1, 0], want, rtol=2e-5)


def test_parameters_that_are_none(updates, monkeypatch):
    """With overlap the next window has begun from NaN: it is made again from what the others have, and counts."""
    send, told, data = Island._send, Told(), Data()

    def spoil(self, window, loops):
        if self.index == 1 and len([i for i, _, _ in updates if i == 1]) == 2:
            self._parameters = [parameter * float("nan") for parameter in self._parameters]
        return send(self, window, loops)
    monkeypatch.setattr(Island, "_send", spoil)
    Shepherd(settings(workers=3, outer_loop_steps=5, overlap=2), model=TEXT, data=data, monitor=told).run()
    assert [(event["round"], event["island"]) for event in told.of("rejected")] == [(1, 1)]
    assert [len(event["islands"]) for event in told.of("round")] == [3, 2, 3, 3, 3] and data.back == 5
    assert np.isfinite(losses_of_all(told)).all()


def losses_of_all(told):
    return np.array([loss for event in told.of("round") for row in event["islands"] for loss in row["losses"]])


@pytest.mark.parametrize("compression, fragments", [("none", 1), ("int8", 5)])
def test_who_was_late_has_what_all_have(updates, monkeypatch, compression, fragments):
    """With overlap, too: steps that were not reported, and those of a window that was dropped, are in no parameter."""
    run, told, sent, over = Island._run, Told(), [], threading.Event()

    def late(self, window):
        if self.index == 1 and len(told.of("round")) == 2:
            over.wait(60)
        return run(self, window)
    monkeypatch.setattr(Island, "_run", late)
    shepherd = Shepherd(settings(workers=2, tau=10, outer_loop_steps=1000, overlap=10 // fragments // 2, deadline=3.0, fragments=fragments,
                                 compression=compression), model=TEXT, data=Data(), monitor=told)
    event, give = told.event, shepherd._give

    def until(kind, **fields):
        event(kind, **fields)
        if kind == "message":
            over.set()
        if kind == "round" and over.is_set() and sum(len(row["islands"]) == 2 for row in told.of("round")[-3:]) == 3:
            shepherd.stop()

    def given(islands):
        give(islands)
        for island in islands:
            sent.append((island.windows[-1], [vector.copy() for vector in shepherd._sent]))
    told.event, shepherd._give = until, given
    shepherd.run()
    mine = [(update, after) for index, update, after in updates if index == 1]
    back = [(update, after) for update, after in mine[1:] if update.fresh]
    assert len(back) == 1 and len(told.of("message")) == 1 and told.of("rejected") == []
    (vectors,) = (vectors for window, vectors in sent if window.updates == [back[0][0]])
    assert are_same(back[0][1], shepherd.recipe.split(vectors))


def test_who_comes_back_long_after(updates, monkeypatch):
    """An island of a checkpoint that comes rounds later keeps its optimizer; its parameters of then are in nothing."""
    e = {"workers": 2, "overlap": 2}
    kept, told = Kept(), Told()
    Shepherd(settings(outer_loop_steps=2, **e), model=TEXT, data=Data(), checkpoints=kept).run()
    updates.clear()
    shepherd = Shepherd(settings(outer_loop_steps=1000, should_resume=True, deadline=0.2, **e), model=TEXT, data=Data(), checkpoints=kept,
                        monitor=told)
    slots, event, taken = shepherd._slots, told.event, []

    def until(kind, **fields):
        event(kind, **fields)
        taken.extend(island.taken for island in shepherd._islands.values() if kind == "joined" and island.index == 1)
        if kind == "round" and len(fields["islands"]) == 2:
            shepherd.stop()
    told.event = until
    monkeypatch.setattr(shepherd, "_slots", lambda: dict([*slots().items()][:1 if len(told.of("round")) < 3 else 2]))
    shepherd.run()
    mine = [update for index, update, _ in updates if index == 1]
    assert len(told.of("round")) > 3 and mine[0].fresh and taken == [10]


def test_who_is_lost_before_it_is_ready(monkeypatch):
    """What it was to begin with is there for the next one: the same losses."""
    shoal.init(workers=1)
    kept, runs, begin, lost = Kept(), [], Island._begin, []
    Shepherd(settings(outer_loop_steps=2), model=TEXT, data=Data(), checkpoints=kept).run()

    def die(self, inside):
        begin(self, inside)
        if len(runs) == 1 and not lost:
            lost.append(self.index)
            raise ClosedError("its worker has died")
    monkeypatch.setattr(Island, "_begin", die)
    for _ in range(2):
        told = Told()
        Shepherd(settings(outer_loop_steps=4, should_resume=True, checkpoint_every=10), model=TEXT, data=Data(),
                 checkpoints=SimpleNamespace(latest=lambda: kept.all[0], save=lambda *_: None, close=lambda: None), monitor=told).run()
        runs.append(losses_of(told))
    assert lost == [0] and len(told.of("lost")) == 1 and np.array_equal(*runs)


def test_another_compression_than_before(updates):
    """A training that goes on with another compression: islands start from what the shepherd says that they have."""
    for before, after, fragments, overlap in (("none", "int4", 5, 0), ("none", "int8", 1, 2), ("int4", "none", 5, 1), ("int8", "int4", 5, 0)):
        e, kept, told, first = {"workers": 2, "fragments": fragments, "overlap": overlap}, Kept(), Told(), []
        Shepherd(settings(outer_loop_steps=2, compression=before, **e), model=TEXT, data=Data(), checkpoints=kept).run()
        shepherd = Shepherd(settings(outer_loop_steps=4, compression=after, should_resume=True, **e), model=TEXT, data=Data(), checkpoints=kept,
                            monitor=told)
        send, begun = Island._send, shepherd._publish

        def publish():
            begun()
            first.append([vector.copy() for vector in shepherd._sent])
        anchors = []

        def sending(self, window, loops):
            anchors.append([anchor.numpy() for anchor in self._anchors])
            return send(self, window, loops)
        shepherd._publish, Island._send = publish, sending
        try:
            shepherd.run()
        finally:
            Island._send = send
        assert are_same(anchors[0], first[0]), (before, after)


def test_news_of_who_was_left_alone():
    """What it says afterwards is no news of the one that has its number now."""
    shoal.init(workers=1)
    shepherd = Shepherd(settings(), model=TEXT, data=Data(), monitor=Told())
    shepherd._look()
    (island,) = shepherd._islands.values()
    recipe = Recipe(settings(), model.load(TEXT))
    other = Island(recipe, island.index, island.slot, "other", None, 1, queue.SimpleQueue(), {})
    assert shepherd._hear(60) == (island, "ready", None)
    shepherd._news.put((other, "lost", ClosedError("it has gone")))
    assert shepherd._hear(1) is None and shepherd._islands == {island.index: island} and not shepherd.monitor.of("lost")
    other.close(5)
    shepherd._end()


def test_who_is_closed_between_windows(monkeypatch):
    """The thread ends, whatever it looked for when it was told so."""
    shoal.init(workers=1)
    e, news, send, there, go = settings(overlap=2), queue.SimpleQueue(), Island._send, threading.Event(), threading.Event()

    def paused(self, window, loops):
        there.set()
        go.wait(60)
        return send(self, window, loops)
    monkeypatch.setattr(Island, "_send", paused)
    recipe = Recipe(e, model.load(TEXT))
    island = Island(recipe, 0, None, "here", None, 1, news, {})
    lease = Data().take(0, 0, 1, 5, BATCH, LENGTH)
    window = Window(lease.inputs, lease.targets, [0.01] * 5, [0], False, False)
    window.give(Update(dict(enumerate(recipe.join(recipe.program.initial(0)))), True))
    island.send(window)
    assert there.wait(60)
    island.close(0)
    go.set()
    island._thread.join(60)
    assert not island._thread.is_alive()


def test_a_number_taken_over(monkeypatch):
    """Who dies in a window that was sent ahead is not waited for, also where another has its number by then."""
    shoal.init(workers=1)
    run, told, windows = Island._run, Told(), []

    def die(self, window):
        if self.index == 0:
            windows.append(window)
            if len(windows) == 2:
                raise ClosedError("its worker has died")
        elif not told.of("round"):
            told.wait("lost")
            told.wait("joined", 3)
        return run(self, window)
    monkeypatch.setattr(Island, "_run", die)
    shepherd = Shepherd(settings(workers=2, outer_loop_steps=3, overlap=2, quorum=1.0), model=TEXT, data=Data(), monitor=told)
    ends = [threading.Timer(seconds, shepherd.stop) for seconds in (40, 45)]  # the second one at once
    for timer in ends:
        timer.start()
    assert shepherd.run()["rounds"] == 3 and not told.of("message")
    for timer in ends:
        timer.cancel()


@pytest.mark.parametrize("size", [200, 700, 1000, 1003, 1990, 2500])
@pytest.mark.parametrize("overlap", [0, 2])
def test_data_that_end(tmp_path, monkeypatch, size, overlap):
    """The last steps are everybody's, and after these all fragments are exchanged; what is too little for all changes one."""
    shoal.init(workers=1)
    (tmp_path / "text").write_bytes(bytes(np.random.default_rng(0).integers(0, WORDS, size).astype(np.uint8)))
    told, sent, send = Told(), [], Island.send

    def sending(self, window):
        sent.append((self.index, len(window.fragments)))
        send(self, window)
    monkeypatch.setattr(Island, "send", sending)
    data = train_data.Data(open_tokens(tmp_path / "text"))
    e = settings(workers=3, fragments=3, tau=15, overlap=overlap, outer_loop_steps=1000, max_epochs=1.0)
    Shepherd(e, model=TEXT, data=data, monitor=told).run()
    rounds = [event["islands"] for event in told.of("round")]
    assert data.left(1) < BATCH and sum(row["steps"] for row in sum(rounds, [])) == data.count // BATCH
    if data.count // BATCH >= 3:
        assert sorted(sent)[-1][1] == 3 and sorted(index for index, parts in sent if parts == 3) == [0, 1, 2]
    assert all(len(islands) == 3 for islands in rounds[:-1])


def test_stopped_twice_while_one_waits(monkeypatch):
    """An island whose next window was dropped by that begins no other in its place; all data are accounted for."""
    shoal.init(workers=1)
    run, data, windows, done, over = Island._run, Data(), [], [], threading.Event()

    def cut_off(self, window):
        windows.append(self.index)
        if windows.count(1) == 2 and self.index == 1:
            over.wait(60)
            raise ClosedError("it was cancelled")
        return run(self, window)
    monkeypatch.setattr(Island, "_run", cut_off)
    shepherd = Shepherd(settings(workers=2, outer_loop_steps=1000, overlap=2), model=TEXT, data=data, monitor=Told())
    hear = shepherd._hear

    def heard(seconds):
        found = hear(seconds)
        if found and found[1] == "done":
            done.append(found[0].index)
            if found[0].index == 0 and done.count(0) == 2:
                shepherd.stop()
                shepherd.stop()
        if found and found[1] == "dropped":
            over.set()
        return found
    shepherd._hear = heard
    assert shepherd.run()["rounds"] == 2 and over.is_set()
    assert data.seen == 3 * 5 and data.seen + data.back == data.position == 6 * 5
