"""A training that goes on from a checkpoint with an experiment that has changed."""
import pytest

import shoal
from islands import Data, Kept, Told, settings
from shoal.train import data as train_data
from shoal.train.shepherd import Shepherd
from shoal.train.tokens import open_tokens
from train_model import BATCH, LENGTH, TEXT


def run(kept, **changes):
    """(what was told, the shepherd) of a training that goes on from the last checkpoint, if there is one."""
    shoal.init(workers=1)
    told = Told()
    shepherd = Shepherd(settings(should_resume=True, **changes), model=TEXT, data=Data(), checkpoints=kept, monitor=told)
    shepherd.run()
    return told, shepherd


def steps_of(told):
    return [[row["steps"] for row in event["islands"]] for event in told.of("round")]


@pytest.mark.parametrize("before, after", [(200, 1), (5, 20), (20, 5)])
@pytest.mark.parametrize("balance, overlap, compression", [("equal", 0, "none"), ("steps", 0, "none"), ("equal", 1, "none"),
                                                           ("equal", 1, "int4")])
def test_another_tau(before, after, balance, overlap, compression):
    """Rounds have as many steps as the experiment says now, and AdamW's state stays, whatever long rounds have left over."""
    kept, given = Kept(), {"balance": balance, "overlap": overlap, "compression": compression}
    run(kept, tau=before, **given)
    told, _ = run(kept, tau=after, outer_loop_steps=5, **given)
    assert steps_of(told) == [[after]] * 3 and told.of("rejected") == []
    assert [state["islands"]["0"] for _, _, state in kept.all[-1:]][0]["taken"] == 2 * before + 3 * after


def test_another_balance(monkeypatch):
    """Unequal parts of before do not stay where all take as many; those of the same experiment do."""
    monkeypatch.setattr("shoal.train.rules.shares", lambda total, speeds: [2, total - 2])
    for later, want in ("equal", [5, 5]), ("steps", [1, 9]):
        kept = Kept()
        run(kept, workers=2, balance="steps")
        kept.all[-1][2]["counts"] = [1, 9]
        assert steps_of(run(kept, workers=2, balance=later, outer_loop_steps=3)[0]) == [want]


def test_a_checkpoint_of_before():
    """One that does not say what its parts follow from is taken at its word."""
    kept = Kept()
    run(kept, workers=2)
    state = kept.all[-1][2]
    del state["tau"], state["balance"]
    state["counts"] = [4, 6]
    assert steps_of(run(kept, workers=2, outer_loop_steps=3)[0]) == [[4, 6]]


@pytest.mark.parametrize("fragments", [1, 5])
def test_nothing_is_left_of_the_rounds(fragments):
    """It says so, and what to raise; what has just begun, or goes on, does not."""
    kept = Kept()
    told, shepherd = run(kept, outer_loop_steps=3, fragments=fragments)
    assert told.of("message") == []
    for steps in 2, 3:
        told, shepherd = run(kept, outer_loop_steps=steps, fragments=fragments)
        text = ("nothing is left to do: the checkpoint is of round 3, and "
                f"outer_loop_steps is {steps}: make outer_loop_steps larger to go on")
        assert told.of("message") == [{"text": text}] and told.of("round") == [] and shepherd.nothing_left() == text
    assert run(kept, outer_loop_steps=4, fragments=fragments)[0].of("message") == []


def test_nothing_is_left_of_the_data(tmp_path):
    shoal.init(workers=1)
    kept = Kept()
    (tmp_path / "text").write_bytes(bytes(range(17)) * 10)

    def resumed(epochs):
        told, data = Told(), train_data.Data(open_tokens(tmp_path / "text"), epochs=epochs)
        Shepherd(settings(should_resume=True, max_epochs=epochs, outer_loop_steps=100), model=TEXT, data=data, checkpoints=kept,
                 monitor=told).run()
        return told.of("message")
    assert resumed(2.0) == []
    assert resumed(2.0) == [{"text": f"nothing is left to do: the checkpoint is of round {kept.all[-1][0]}, and all of its data have been "
                                     "seen, and max_epochs is 2: make max_epochs larger to go on"}]
    assert resumed(3.0) == []


@pytest.mark.parametrize("count, epochs, message", [
    (BATCH * LENGTH, 1.0, f"a batch is {BATCH}: give at least {BATCH * LENGTH + 1} tokens"), (1000, 0.001, "max_epochs is 0.001: of 166")])
def test_too_little_is_told_at_once(tmp_path, count, epochs, message):
    """By who makes a shepherd, before anybody is waited for."""
    shoal.init(workers=1)
    (tmp_path / "text").write_bytes(bytes(count))
    with pytest.raises(shoal.InvalidError, match=message):
        Shepherd(settings(), model=TEXT, data=train_data.Data(open_tokens(tmp_path / "text"), epochs=epochs))


@pytest.mark.parametrize("changes, message", [
    ({"outer_learning_rate": 1e30}, r"an outer_learning_rate of at most 1, where it is 1e\+30, may help"),
    ({"outer_learning_rate": 1e30, "learning_rate": 1e30, "clip": 0}, r"a learning_rate below 1e\+30 may help")])
def test_what_is_blamed_for_a_divergence(changes, message):
    """The outer rate where outer steps are longer than what islands moved, the inner one where islands diverge by themselves."""
    shoal.init(workers=1)
    with pytest.raises(shoal.ShoalError, match="training has diverged; " + message):
        Shepherd(settings(outer_loop_steps=9, **changes), model=TEXT, data=Data()).run()
