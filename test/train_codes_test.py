"""What goes between islands and their shepherd in few bytes: codes both ways, and what training with them comes to."""
import numpy as np
import pytest

import shoal
from cluster import Pool
from islands import WORDS, Data, Kept, Told, settings
from shoal.train import compress, model
from shoal.train.island import Island, Recipe
from shoal.train.shepherd import Shepherd
from train_model import SHAPES, TEXT


@pytest.fixture(scope="module")
def three():
    pool = Pool(3)
    yield pool
    pool.close()


@pytest.mark.parametrize("kind", compress.KINDS)
def test_codes(kind):
    """As NumPy rounds; each number off by half a step of its block at most; what is left out is kept exactly."""
    shoal.init(workers=1)
    rng = np.random.default_rng(0)
    blocks = rng.standard_normal((50, compress.BLOCK), np.float32) * np.float32(10.0) ** rng.integers(-20, 10, (50, 1))
    blocks[3] = 0
    x = blocks.astype(np.float32).reshape(-1)
    made, left = compress.encode(kind, shoal.tensor(x))
    arrays = [tensor.numpy() for tensor in made]
    got = compress.decode(kind, arrays)
    most = {"none": 0, "bf16": 2.0 ** -8, "int8": 0.5 / 127, "int4": 0.5 / 7}[kind]
    top = np.abs(x) if kind == "bf16" else np.repeat(np.abs(blocks).max(1), compress.BLOCK)
    assert (np.abs(got - x) <= top * most * 1.0001).all()
    if kind.startswith("int"):
        levels = 127 if kind == "int8" else 7
        scale = (np.abs(blocks).max(1) / np.float32(levels)).astype(np.float32)
        codes = np.clip(np.rint(blocks / np.where(scale > 0, scale, 1)[:, None]), -levels, levels).astype(np.float32)
        want = (codes * scale[:, None]).reshape(-1)  # a last bit of the scale may change a code on an edge
        assert (np.abs(got - want) <= 1.001 * np.repeat(scale, compress.BLOCK)).all()
        assert np.isclose(got, want, rtol=1e-6, atol=0).mean() > 0.999
        assert sum(array.nbytes for array in arrays) == compress.payload_bytes(kind, x.size)
    if kind != "none":
        np.testing.assert_allclose(left.numpy(), x - got, atol=1e-6 * np.abs(x).max() * 1e-3, rtol=1e-4)
        total, error = np.zeros_like(x, np.float64), shoal.zeros(x.shape)
        for _ in range(20):  # what is left out comes later: the sum is off by one rounding only
            made, error = compress.encode(kind, shoal.tensor(x) + error)
            total += compress.decode(kind, [tensor.numpy() for tensor in made])
        assert (np.abs(total - 20 * x.astype(np.float64)) <= 2.1 * top * most + 20e-6 * np.abs(x)).all()


@pytest.mark.parametrize("kind", [kind for kind in compress.KINDS if kind != "none"])
def test_codes_of_a_change(kind):
    """An island comes to the bits that the shepherd has, whatever it had; each number off by half a step at most."""
    shoal.init(workers=1)
    rng = np.random.default_rng(1)
    blocks = rng.standard_normal((400, compress.BLOCK), np.float32) * np.float32(10.0) ** rng.integers(-44, 30, (400, 1))
    blocks[3], blocks[5, 1:], blocks[7] = 0, 0, np.float32(3e38) * np.sign(blocks[7])
    had = (rng.standard_normal((400, compress.BLOCK), np.float32) * np.float32(10.0) ** rng.integers(-8, 20, (400, 1))).astype(np.float32)
    had[7] = 0
    x, had = blocks.astype(np.float32).reshape(-1), had.reshape(-1)
    payload, moved = compress.encode_change(kind, x)
    assert sum(array.nbytes for array in payload) == compress.payload_bytes(kind, x.size)
    made = shoal.tensor(had) + compress.decode_change(kind, [shoal.tensor(array) for array in payload])
    assert np.array_equal(made.numpy().view(np.uint32), (had + moved).view(np.uint32))
    top = np.abs(x) if kind == "bf16" else np.repeat(np.abs(x).reshape(-1, compress.BLOCK).max(1), compress.BLOCK)
    most = {"bf16": 2.0 ** -8, "int8": 0.5 / 127, "int4": 0.5 / 7}[kind]
    small = top < 1e-28  # a change that waits
    assert (np.abs(moved - x)[~small] <= top[~small] * most * (1 + 2.0 ** -7) + 1e-38).all()
    sent = np.zeros_like(x)
    for _ in range(12):  # what is left out comes later
        sent += compress.encode_change(kind, x - sent)[1]
    assert (np.abs(sent - x) <= 1e-6 * top + 1e-28).all()


def test_all_start_from_the_same(three, monkeypatch):
    """The anchors of islands are what the shepherd has as sent, bit for bit, also of one that comes later."""
    anchors, run = {}, Island._run

    def told(self, window):
        report = run(self, window)
        anchors.update({(self.index, f): self._anchors[f].numpy() for f in window.fragments})
        return report
    monkeypatch.setattr(Island, "_run", told)
    for kind in ("bf16", "int8", "int4"):
        shepherd = Shepherd(settings(workers=3, tau=20, outer_loop_steps=4, compression=kind, fragments=2), model=TEXT,
                            data=Data())
        event, rounds = shepherd.monitor.event, []

        def on_event(name, **fields):
            if name == "round":
                fragment = (shepherd.round - 1) % 2
                for row in fields["islands"]:
                    assert np.array_equal(anchors[row["island"], fragment], shepherd._sent[fragment]), (kind, fields)
                rounds.append((len(fields["islands"]), fields["bytes_down"]))
                if len(rounds) == 3:
                    late = next(iter(shepherd._islands.values()))
                    late.versions = [-1, -1]
            event(name, **fields)
        shepherd.monitor.event = on_event
        shepherd.run()
        downs = [down for _, down in rounds]
        assert len(rounds) == 8 and 3 * downs[3] == 2 * downs[1] + downs[0], (kind, downs)  # one of three was given all


def test_few_bytes(three):
    """With few bits the loss is that of float32 nearly, whole or in fragments, of which fewer bytes go at a time."""
    found, seeds = {}, 4  # the loss of a single run of few steps says little
    for kind, fragments in (("none", 1), ("int8", 1), ("int4", 1), ("none", 4), ("int4", 4)):
        losses = []
        for seed in range(seeds):
            told, e = Told(), settings(workers=3, tau=60, outer_loop_steps=20, compression=kind, fragments=fragments,
                                       learning_rate=3e-3, seed=seed)
            result = Shepherd(e, model=TEXT, data=Data(), monitor=told).run()
            losses.append(result["loss"])
        downs = [event["bytes_down"] for event in told.of("round")]
        assert downs[0] == 3 * 4 * sum(vector.size for vector in Recipe(e, model.load(TEXT)).vectors)  # all of it, once
        assert kind == "none" or downs[-1] * {"int8": 3.8, "int4": 7.5}[kind] < downs[0] / fragments * 1.5, (kind, downs)
        ups = [event["bytes_up"] for event in told.of("round")]
        assert sum(ups) == result["bytes_up"] and ups[-1] == sum(ups[:fragments])  # the last round exchanges all
        ups[-1] = ups[fragments - 1]
        found[kind, fragments] = np.mean(losses), sum(ups), max(ups)
    bytes_up = found["none", 1][1]
    for (kind, fragments), (loss, _, _) in found.items():
        assert loss < 1.25 * found["none", fragments][0] and loss < 0.05 * np.log(WORDS), found
    assert bytes_up == 20 * 3 * 4 * compress.Vector(SHAPES.values()).size
    assert found["int8", 1][1] * 3.8 < bytes_up and found["int4", 1][1] * 7.5 < bytes_up
    assert found["int4", 4][1] == found["int4", 1][1] and found["int4", 4][2] * 2 <= found["int4", 1][2]
    size, tau = 2 ** 20, 500  # of gradients alone, against one of float32 at each step
    each = {kind: compress.payload_bytes(kind, size) for kind in compress.KINDS}
    print("bytes both ways at tau 500 against one vector each way in float32 at each step: "
          + ", ".join(f"{kind} 1/{tau * 4 * size / count:.0f}" for kind, count in each.items())
          + f"; at a time, int4 in 4 fragments: 1/{tau * 4 * size / (each['int4'] / 4):.0f}")
    assert tau * 4 * size >= 500 * each["none"] and tau * 4 * size >= 10_000 * each["int4"] / 4


def test_bytes_of_checkpoints(three):
    """What islands write for a checkpoint is counted, too."""
    told, kept = Told(), Kept()
    e = settings(workers=3, outer_loop_steps=4, compression="int4", fragments=5, checkpoint_every=4)
    Shepherd(e, model=TEXT, data=Data(), monitor=told, checkpoints=kept).run()
    ups = [event["bytes_up"] for event in told.of("round")]
    each = [min(ups[f], ups[f + 5]) for f in range(5)]  # one of the two rounds made no checkpoint
    for step, arrays, _ in kept.all:
        state = sum(array.nbytes for name, array in arrays.items() if name.startswith("island."))
        assert ups[step - 1] - state == (sum(each) if step == len(ups) else each[(step - 1) % 5]) > 0
    assert len(kept.all) == 5
