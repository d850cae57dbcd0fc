"""A training that goes on from a checkpoint with an experiment that has changed."""
import pytest

import shoal
from islands import Data, Kept, Told, settings
from shoal.train.shepherd import Shepherd
from train_model import TEXT


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
@pytest.mark.parametrize("balance", ["equal", "steps"])
def test_another_tau(before, after, balance):
    """Rounds have as many steps as the experiment says now, and AdamW's state stays."""
    kept = Kept()
    run(kept, tau=before, balance=balance)
    told, _ = run(kept, tau=after, balance=balance, outer_loop_steps=5)
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
