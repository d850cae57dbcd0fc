"""Islands and their shepherd, step by step against PyTorch's AdamW, JAX's gradients and a DiLoCo written out in NumPy.

The pools are a hub and workers as real processes; `Data` stands for what `shoal train` has.
"""
import pathlib
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.append(str(pathlib.Path(__file__).parent / "python"))
from peer import numpy_of, torch, torch_of  # noqa: E402

import shoal  # noqa: E402
from cluster import Pool  # noqa: E402
from islands import WORDS, Data, Kept, Told, settings  # noqa: E402
from train_model import BATCH, GRADIENT, LENGTH, SHAPES, TEXT, WIDE, text_of  # noqa: E402
from shoal import nn  # noqa: E402
from shoal.train import model, rules  # noqa: E402
from shoal.train import data as train_data  # noqa: E402
from shoal.train.island import Island, Recipe  # noqa: E402
from shoal.train.shepherd import Shepherd  # noqa: E402
from shoal.train.tokens import open_tokens  # noqa: E402


@pytest.fixture(scope="module")
def three():
    pool = Pool(3)
    yield pool
    pool.close()


# ---- written out ----

class Inner:
    """An island in NumPy: AdamW of PyTorch, with JAX's gradients, clipped by PyTorch."""

    def __init__(self, e):
        self.e, self.parameters, self.optimizer = e, None, None

    def window(self, theta, lease, first, micro=1):
        e, steps = self.e, len(lease.inputs)
        if self.parameters is None:
            self.parameters = [torch_of(array, True) for array in theta]
            self.optimizer = torch.optim.AdamW(self.parameters, lr=e.learning_rate, betas=e.betas, eps=e.eps,
                                               weight_decay=e.weight_decay)
        with torch.no_grad():
            for parameter, array in zip(self.parameters, theta):
                parameter.copy_(torch_of(array))
        losses = []
        for i, (ids, targets) in enumerate(zip(lease.inputs, lease.targets)):
            parts = [GRADIENT(*map(numpy_of, self.parameters), x, y)
                     for x, y in zip(np.split(ids, micro), np.split(targets, micro))]
            losses.append(np.mean([float(value) for value, _ in parts]))
            for k, parameter in enumerate(self.parameters):
                parameter.grad = torch_of(sum(np.asarray(gradients[k]) for _, gradients in parts) / np.float32(micro))
            if e.clip:
                torch.nn.utils.clip_grad_norm_(self.parameters, e.clip)
            self.optimizer.param_groups[0]["lr"] = rules.rate(e, first + i * e.tau / steps)
            before = [parameter.detach().clone() for parameter in self.parameters]
            self.optimizer.step()
            if e.variance_weight < 1:
                self.weighted(before)
        return np.array(losses), [a - numpy_of(b) for a, b in zip(theta, self.parameters)]

    def weighted(self, before):
        """The step again from where it began, with the means as AdamW has them, and less of the variance."""
        e, lr = self.e, self.optimizer.param_groups[0]["lr"]
        with torch.no_grad():
            for parameter, start in zip(self.parameters, before):
                state = self.optimizer.state[parameter]
                mean = state["exp_avg"].double() / (1 - e.betas[0] ** int(state["step"]))
                square = state["exp_avg_sq"].double() / (1 - e.betas[1] ** int(state["step"]))
                variance = (square - mean * mean).clamp(min=0)
                root = (square - (1 - e.variance_weight) * variance).sqrt()
                parameter.copy_((start.double() * (1 - lr * e.weight_decay) - lr * mean / (root + e.eps)).float())


def diloco(e, theta, islands, micro=1, steps=None):
    """All rounds, written out: the losses of each, and the parameters. steps: of each island, by which gradients weigh."""
    steps = steps or [e.tau] * islands
    theta, data = [np.array(array, np.float32) for array in theta], Data()
    velocity, inner, losses = [np.zeros_like(a) for a in theta], [Inner(e) for _ in range(islands)], []
    for r in range(e.outer_loop_steps):
        came = [island.window(theta, data.take(r, i, islands, steps[i], BATCH * micro, LENGTH), r * e.tau, micro)
                for i, island in enumerate(inner)]
        losses.append([found for found, _ in came])
        for k in range(len(theta)):
            gradient = sum(moved[k] * np.float32(n / sum(steps)) for n, (_, moved) in zip(steps, came))
            velocity[k] = np.float32(e.nesterov_momentum) * velocity[k] + gradient
            theta[k] = theta[k] - np.float32(e.outer_learning_rate) * (gradient + np.float32(e.nesterov_momentum) * velocity[k])
    return losses if len(set(steps)) > 1 else np.array(losses), theta


class Streaming(Inner):
    """An island in NumPy whose fragments are exchanged in turn, while it goes on for some steps."""

    def __init__(self, e, theta, parts):
        super().__init__(e)
        self.parts, self.anchors, self.pending = parts, [array.copy() for array in theta], None
        self.mine = [array.copy() for array in theta]

    def round(self, lease, first, arrived):
        """arrived: (fragment, its parameters) that come after `overlap` steps, or None. Losses, and how far all parameters are
        from their anchors."""
        o, losses = self.e.overlap if arrived else 0, np.empty(0)
        for begin, end in ((0, o), (o, len(lease.inputs))):
            if begin == o and arrived:
                for i, array in zip(self.parts[arrived[0]], arrived[1]):
                    alpha = np.float32(self.e.alpha if o else 0)
                    self.mine[i] = alpha * self.mine[i] + (1 - alpha) * array
                    self.anchors[i] = array
            part = SimpleNamespace(inputs=lease.inputs[begin:end], targets=lease.targets[begin:end])
            if begin < end:
                found, moved = self.window(self.mine, part, first + begin)
                self.mine = [a - b for a, b in zip(self.mine, moved)]
                losses = np.append(losses, found)
        return losses, [anchor - mine for anchor, mine in zip(self.anchors, self.mine)]


def streaming(e, theta, islands, parts):
    """All rounds of streaming DiLoCo (Douillard et al., 2025), written out: the losses of each, and the parameters."""
    theta, data, arrived = [np.array(array, np.float32) for array in theta], Data(), None
    velocity, losses = [np.zeros_like(a) for a in theta], []
    each = [Streaming(e, theta, parts) for _ in range(islands)]
    span = e.tau // e.fragments
    leases = {r: [data.take(r, i, islands, span, BATCH, LENGTH) for i in range(islands)]
              for r in range(e.outer_loop_steps * e.fragments)}
    for r, row in leases.items():
        f = r % e.fragments
        came = [island.round(lease, r * span, arrived) for island, lease in zip(each, row)]
        losses.append([found for found, _ in came])
        for i in parts[f] if r + 1 < len(leases) else range(len(theta)):  # after the last steps all are exchanged
            gradient = sum(moved[i] / np.float32(islands) for _, moved in came)
            if i in parts[f]:
                velocity[i] = np.float32(e.nesterov_momentum) * velocity[i] + gradient
                gradient = np.float32(e.outer_learning_rate) * (gradient + np.float32(e.nesterov_momentum) * velocity[i])
            theta[i] = theta[i] - gradient
        arrived = f, [theta[i].copy() for i in parts[f]]
    return np.array(losses), theta


def losses_of(told):
    return np.array([[row["losses"] for row in event["islands"]] for event in told.of("round")])


# ---- rules ----

@pytest.mark.parametrize("schedule", rules.SCHEDULES)
def test_schedules(schedule):
    """PyTorch's, one after another: a line up, then constant, half a cosine or a line."""
    e = settings(schedule=schedule, warmup_steps=5, min_lr_ratio=0.1, tau=10, outer_loop_steps=4)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=e.learning_rate)
    of = torch.optim.lr_scheduler
    then = {"constant": lambda: of.ConstantLR(optimizer, 1.0, 1),
            "cosine": lambda: of.CosineAnnealingLR(optimizer, 35, e.learning_rate * 0.1),
            "linear": lambda: of.LinearLR(optimizer, 1.0, 0.1, 35)}[schedule]()
    warm = of.LinearLR(optimizer, 1 / 5, 1.0, 4)
    both = of.SequentialLR(optimizer, [warm, then], [5])
    for step in range(40):
        assert rules.rate(e, step) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9), step
        optimizer.step()
        both.step()


def test_the_outer_step():
    """PyTorch's SGD with Nesterov's momentum, in float32."""
    rng = np.random.default_rng(0)
    theta, outer = rng.standard_normal(50, np.float32), rules.Outer(0.7, 0.9, 50)
    other = torch_of(theta, True)
    optimizer = torch.optim.SGD([other], lr=0.7, momentum=0.9, nesterov=True)
    for _ in range(10):
        gradient = rng.standard_normal(50, np.float32)
        outer.step(theta, gradient)
        other.grad = torch_of(gradient)
        optimizer.step()
        np.testing.assert_allclose(theta, numpy_of(other), rtol=1e-6, atol=1e-6)


def test_shares():
    assert rules.shares(30, [1.0, 1.0, 1.0]) == [10, 10, 10]
    assert rules.shares(30, [2.0, 1.0, None]) == [13, 7, 10]
    assert rules.shares(10, [1e9, 1.0, 1.0]) == [8, 1, 1]
    rng = np.random.default_rng(0)
    for _ in range(200):
        speeds = rng.uniform(0.1, 100, rng.integers(1, 9)).tolist()
        total = int(rng.integers(len(speeds), 1000))
        counts = rules.shares(total, speeds)
        assert sum(counts) == total and min(counts) >= 1 and counts == rules.shares(total, speeds)
        for count, speed in zip(counts, speeds):
            assert count == 1 or abs(count - total * speed / sum(speeds)) <= len(speeds)
    with pytest.raises(shoal.InvalidError, match="2 steps for 3 islands"):
        rules.shares(2, [1, 1, 1])


# ---- rounds ----

@pytest.mark.parametrize("clip, schedule, weight", [(1.0, "constant", 1.0), (0.05, "cosine", 1.0), (0, "linear", 1.0),
                                                    (1.0, "cosine", 0.25), (0, "constant", 0.0625)])
def test_one_island(clip, schedule, weight):
    """Step by step PyTorch's AdamW: decay apart from the means, corrected for their start, clipped by the norm of all; or its
    means, and a step that is divided by less of the variance."""
    shoal.init(workers=1)
    e = settings(clip=clip, schedule=schedule, warmup_steps=3, outer_learning_rate=1.0, nesterov_momentum=0.0, variance_weight=weight)
    told = Told()
    shepherd = Shepherd(e, model=TEXT, data=Data(), monitor=told)
    want, theta = diloco(e, shepherd.parameters(), 1)
    result = shepherd.run()
    np.testing.assert_allclose(losses_of(told), want, rtol=1e-6, atol=1e-6)
    for name, got, array in zip(SHAPES, shepherd.parameters(), theta):
        np.testing.assert_allclose(got, array, rtol=1e-6, atol=1e-6, err_msg=name)
    assert result["rounds"] == 2 and result["tokens"] == 10 * BATCH * LENGTH and not result["stopped"]


def test_little_of_the_variance():
    """A weight that is next to nothing, and a mean square that is infinite: no step is longer than the rate, and none is NaN."""
    shoal.init(workers=1)
    gradients = {1e-9: np.random.default_rng(1).standard_normal((200, 64)).astype(np.float32) / 10, 0.25: np.float32([[3e19], [1e-3], [1e-3]])}
    for weight, rows in gradients.items():
        numbers = rules.adam_numbers(settings(weight_decay=0.0, eps=1e-12, variance_weight=weight), 0, [1.0] * len(rows))
        p, m, v = ([shoal.zeros(rows.shape[1])] for _ in range(3))
        for gradient, given in zip(rows, numbers):
            before = p[0].numpy()
            with shoal.no_grad():
                p, m, v = rules.adamw(p, [shoal.tensor(gradient)], m, v, shoal.tensor(given), weight)
            assert np.abs(p[0].numpy() - before).max() <= 1.1, (weight, before, p[0].numpy())


def test_three_islands(three):
    """DiLoCo as a whole: 3 islands, their own data and state of AdamW, over 3 rounds."""
    e = settings(workers=3, outer_loop_steps=3, schedule="cosine", warmup_steps=2)
    told, data, kept = Told(), Data(), Kept()
    shepherd = Shepherd(e, model=TEXT, data=data, monitor=told, checkpoints=kept)
    want, theta = diloco(e, shepherd.parameters(), 3)
    shepherd.run()
    np.testing.assert_allclose(losses_of(told), want, rtol=1e-6, atol=1e-6)
    for name, got, array in zip(SHAPES, shepherd.parameters(), theta):
        np.testing.assert_allclose(got, array, rtol=1e-6, atol=1e-6, err_msg=name)
    assert data.seen == 45 and data.back == 0
    rounds = told.of("round")
    assert [event["loss"] for event in rounds] == pytest.approx(want.mean((1, 2)), rel=1e-6)
    again = Told()
    other = Shepherd(e, model=TEXT, data=Data(), monitor=again)
    other.run()
    assert np.array_equal(losses_of(told), losses_of(again))  # bit for bit
    for got, array in zip(other.parameters(), shepherd.parameters()):
        assert np.array_equal(got, array)
    for step, arrays, state in kept.all[:2]:  # from each checkpoint on as well
        data, later, here = Data(), Told(), Kept()
        here.all = [(step, arrays, state)]
        e.should_resume = True
        resumed = Shepherd(e, model=TEXT, data=data, monitor=later, checkpoints=here)
        resumed.run()
        assert np.array_equal(losses_of(later), losses_of(told)[step:]) and data.seen == 45
        for got, array in zip(resumed.parameters(), shepherd.parameters()):
            assert np.array_equal(got, array)


@pytest.mark.parametrize("fragments, overlap, alpha", [(1, 3, 0.5), (1, 5, 0.0), (3, 2, 0.5), (3, 1, 0.25), (2, 3, 0.5), (3, 0, 0.5)])
def test_overlap(three, fragments, overlap, alpha):
    """Islands go on while a fragment is on its way, and take a part of it: as written out."""
    e = settings(workers=3, tau=6, outer_loop_steps=6 // fragments, fragments=fragments, overlap=overlap, alpha=alpha)
    told, program = Told(), model.load(TEXT)
    shepherd = Shepherd(e, model=program, data=Data(), monitor=told, session=three.session)
    want, theta = streaming(e, program.initial(e.seed), 3, Recipe(e, program).parts)
    shepherd.run()
    np.testing.assert_allclose(losses_of(told), want, rtol=1e-6, atol=1e-6)
    for found, array in zip(shepherd.parameters(), theta):
        np.testing.assert_allclose(found, array, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("words, kind", [(256, "uint8"), (257, "uint16"), (65536, "uint16"), (65537, "int32")])
def test_tokens_in_few_bytes(monkeypatch, words, kind):
    """They travel as the smallest type that holds all, and are the same tokens."""
    shoal.init(workers=1)
    feeds, found, losses = Island._feeds, [], []

    def fed(self, window, first, end):
        rounds, arrays = feeds(self, window, first, end)
        found.append([str(array.dtype) for array in arrays[:2]])
        return rounds, arrays
    monkeypatch.setattr(Island, "_feeds", fed)

    def loss(table, ids, targets):
        return ((table[ids].sum(-1) - targets.astype("float32") / words) ** 2).mean()
    tokens = np.zeros((2, 6), np.int32)
    text = shoal.stablehlo.export(loss, np.zeros((words, 2), np.float32), tokens, tokens).text()
    for vocabulary in (words, 1 << 31):
        data, told = Data(words), Told()
        data.vocabulary, data.tokens = vocabulary, SimpleNamespace(largest=words - 1)
        Shepherd(settings(), model=text, data=data, monitor=told).run()
        losses.append(losses_of(told))
    assert found[0] == [kind] * 2 and found[-1] == ["int32"] * 2 and np.array_equal(*losses) and losses[0].max() > 0.1


def test_unequal_islands(three, monkeypatch):
    """Islands of 2, 5 and 8 steps: rates that fill the round, gradients that weigh by steps, with accumulation and a tight clip."""
    monkeypatch.setattr(rules, "shares", lambda total, speeds: [2, 5, 8])
    e = settings(workers=3, outer_loop_steps=3, schedule="cosine", warmup_steps=2, balance="steps", clip=0.05,
                 effective_batch_size=2 * BATCH)
    told = Told()
    shepherd = Shepherd(e, model=TEXT, data=Data(), monitor=told)
    want, theta = diloco(e, shepherd.parameters(), 3, 2, [2, 5, 8])
    shepherd.run()
    for event, row in zip(told.of("round"), want):
        for island, losses in zip(event["islands"], row):
            np.testing.assert_allclose(island["losses"], losses, rtol=1e-6, atol=1e-6)
        assert event["loss"] == pytest.approx(np.concatenate(row).mean(), rel=1e-6)
    for name, got, array in zip(SHAPES, shepherd.parameters(), theta):
        np.testing.assert_allclose(got, array, rtol=1e-6, atol=2e-6, err_msg=name)


def test_another_models_checkpoint():
    shoal.init(workers=1)
    kept, e = Kept(), settings(should_resume=True, outer_loop_steps=1)
    Shepherd(e, model=HAND, data=Data(), checkpoints=kept).run()
    with pytest.raises(shoal.InvalidError, match="step 1 has .17, 17. for parameter0, .* .8,.: it is of another model"):
        Shepherd(e, model=TEXT, data=Data(), checkpoints=kept)
    e.fragments = 5
    e.tau = 5
    with pytest.raises(shoal.InvalidError, match="fragments is 5"):
        Shepherd(e, model=HAND, data=Data(), checkpoints=kept)


@pytest.mark.parametrize("overlap", [0, 2])
def test_numbers_that_are_none(three, overlap):
    """An island whose gradient is not finite is left out, told of, and begins anew; when all are, that is an error."""
    told, data = Told(), Data()
    take = data.take

    def spoilt(round, island, *rest):
        lease = take(round, island, *rest)
        if (round, island) == (1, 1):
            lease.targets[...] = 10 ** 6  # no such word: NaN in JAX
        return lease
    data.take = spoilt
    shepherd = Shepherd(settings(workers=3, outer_loop_steps=4, overlap=overlap), model=TEXT, data=data, monitor=told)
    shepherd.run()
    (event,) = told.of("rejected")
    assert (event["round"], event["island"]) == (1, 1) and "not finite" in event["reason"]
    assert [len(event["islands"]) for event in told.of("round")] == [3, 2, 3, 3] and data.back == 5
    assert all(np.isfinite(array).all() for array in shepherd.parameters())
    data = Data()
    shepherd = Shepherd(settings(workers=3, learning_rate=1e30, clip=0, overlap=overlap), model=TEXT, data=data, monitor=Told())
    with pytest.raises(shoal.ShoalError, match="has diverged; a learning_rate below 1e.30"):
        shepherd.run()


def _without(name):
    return lambda arrays, state: state.pop(name, None)


@pytest.mark.parametrize("spoil", [
    *map(_without, ("fragments", "versions", "tokens", "islands", "data")), lambda a, s: a.pop("momentum.parameter0"),
    lambda a, s: s.update(versions=[0, 0]), lambda a, s: s.update(versions=["x"]), lambda a, s: s.update(counts=[0]),
    lambda a, s: s.update(counts={"x": 1}), lambda a, s: s.update(islands=[1]), lambda a, s: s.update(islands={"x": {}}),
    lambda a, s: s.update(islands={"0": 5}), lambda a, s: s.update(data=None),
    lambda a, s: a.update({"momentum.parameter0": np.zeros(3, np.float32)}), lambda a, s: a["parameter.parameter0"].fill(np.nan)])
def test_what_is_no_checkpoint_of_a_training(spoil):
    """A file with good checksums that is none of the shepherd's is an error with its step, and no traceback."""
    shoal.init(workers=1)
    kept, e = Kept(), settings(should_resume=True, outer_loop_steps=1)
    Shepherd(e, model=HAND, data=Data(), checkpoints=kept).run()
    spoil(*kept.all[0][1:])
    with pytest.raises(shoal.FormatError, match="the checkpoint of step 1 is none of such a training: "):
        Shepherd(e, model=HAND, data=Data(), checkpoints=kept)


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.9, 0.95), (0.0, 0.9), (0.5, 0.26)])
def test_how_far_adamw_can_move(betas):
    """The worst gradients that there are stay below the bound, and come close to a fourth of it, which is its headroom."""
    e = settings(betas=betas, weight_decay=0.0, learning_rate=1.0, tau=1, eps=1e-300)
    worst = 0.0
    for n in (1, 2, 3, 5, 10, 300, 6000 if betas[0] < betas[1] else 300):
        mean = square = 0.0
        for i in range(n):  # equality in Cauchy and Schwarz
            gradient = (betas[0] / betas[1]) ** (n - 1 - i)
            mean, square = betas[0] * mean + (1 - betas[0]) * gradient, betas[1] * square + (1 - betas[1]) * gradient ** 2
        worst = max(worst, mean / (1 - betas[0] ** n) / np.sqrt(square / (1 - betas[1] ** n)))
    bound = rules.farthest(e, 1, 0.0, 1) / 4
    assert worst <= bound * (1 + 1e-9) and bound <= 1.01 * worst
    assert rules.farthest(settings(betas=(0.9, 0.81)), 1, 0.0, 5) == np.inf


@pytest.mark.parametrize("kind, fragments, overlap", [("none", 1, 0), ("int4", 5, 0), ("none", 1, 4), ("int4", 5, 1)])
def test_nonsense_that_is_finite(three, monkeypatch, kind, fragments, overlap):
    """A member that reports huge numbers is left out, and the others train on as if it had died."""
    run, told = Island._run, Told()

    def lie(self, window):
        report = run(self, window)
        if self.index == 1 and len(told.of("round")) in (2, 3):
            payload = report.payloads[max(report.payloads)]
            payload[-1] = payload[-1] * 0 + np.float32(1e30)  # the gradient, or the scales
        return report
    monkeypatch.setattr(Island, "_run", lie)
    e = settings(workers=3, tau=10, outer_loop_steps=10 // fragments, compression=kind, fragments=fragments, overlap=overlap)
    shepherd = Shepherd(e, model=TEXT, data=Data(), monitor=told)
    found = shepherd.run()
    assert [event["round"] for event in told.of("rejected")] == [2, 3]
    assert "moves a number by 1e+30, and AdamW can by " in told.of("rejected")[0]["reason"] or kind == "int4"
    assert [len(event["islands"]) for event in told.of("round")] == [3, 3, 2, 2] + 6 * [3]
    assert np.isfinite(found["loss"]) and max(np.abs(array).max() for array in shepherd.parameters()) < 10


def test_a_member_that_only_reports_nonsense(monkeypatch):
    """It is left alone after three windows, also if all others are slow; a window that nobody waited for is not reported twice."""
    shoal.init(workers=1)
    run, told, sent = Island._run, Told(), []

    def late(self, window):
        if self.index == 1 and not sent:
            told.wait("lost")
        report = run(self, window)
        if self.index == 0:
            report.payloads[0][0] = report.payloads[0][0] * np.float32("nan")
        else:
            sent.append(len(window.updates))
        return report
    monkeypatch.setattr(Island, "_run", late)
    shepherd = Shepherd(settings(workers=2, outer_loop_steps=3, deadline=0.05), model=TEXT, data=Data(), monitor=told)
    assert shepherd.run()["rounds"] == 3
    assert len(told.of("rejected")) == 3 and [event["reason"] for event in told.of("lost")] == ["its outer gradients cannot be used"]
    assert [[row["island"] for row in event["islands"]] for event in told.of("round")] == [[1]] * 3
    assert sent == [1, 1, 1, 1]  # the first was late, and the next began anew from the same parameters


def test_who_is_far_too_slow_takes_less(monkeypatch):
    """A worker whose equal part takes longer than the deadline is late once, and takes part with what it can from then on."""
    shoal.init(workers=1)
    run, told = Island._run, Told()

    def paced(self, window):
        time.sleep(len(window.lrs) * (0.001, 0.1)[self.index])
        report = run(self, window)
        report.busy = len(window.lrs) * (0.001, 0.1)[self.index]
        return report
    monkeypatch.setattr(Island, "_run", paced)
    shepherd = Shepherd(settings(workers=2, tau=40, outer_loop_steps=1000, deadline=1.0, balance="steps"), model=TEXT, data=Data(),
                        monitor=told)
    event = told.event

    def until(kind, **fields):
        event(kind, **fields)
        if kind == "round" and sum(len(row["islands"]) == 2 for row in told.of("round")) == 5:
            shepherd.stop()
    told.event = until
    shepherd.run()
    both = [[row["steps"] for row in event["islands"]] for event in told.of("round") if len(event["islands"]) == 2]
    assert len(told.of("message")) == 1 and all(slow <= 5 and fast + slow == 80 for fast, slow in both), both


# ---- models ----

def test_initial_values():
    """By use: what multiplies along an axis is 1, what is added 0, and the rest N(0, 0.02), by the seed."""
    program = model.load(TEXT)
    first = dict(zip(SHAPES, program.initial(1)))
    assert (first["gain"] == 1).all() and (first["bias"] == 0).all() and (first["shift"] == 0).all()
    for name in ("place", "table", "unused", "w"):
        assert 0.01 < first[name].std() < 0.03 and np.abs(first[name]).max() < 0.1
    for a, b, c in zip(program.initial(1), program.initial(1), program.initial(2)):
        assert np.array_equal(a, b) and (a.ndim == 1 or not np.array_equal(a, c))


HAND = """func.func @main(%table: tensor<17x17xf32>, %ids: tensor<2x6xi64>, %targets: tensor<2x6xi64>) -> tensor<f32> {
  %0 = stablehlo.reshape %ids : (tensor<2x6xi64>) -> tensor<12x1xi64>
  %1 = "stablehlo.gather"(%table, %0) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
    start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 17>}> : (tensor<17x17xf32>, tensor<12x1xi64>)
    -> tensor<12x17xf32>
  %2 = stablehlo.exponential %1 : tensor<12x17xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<12x17xf32>, tensor<f32>) -> tensor<12xf32>
  %4 = stablehlo.log %3 : tensor<12xf32>
  %5 = stablehlo.reshape %targets : (tensor<2x6xi64>) -> tensor<12xi64>
  %6 = stablehlo.iota dim = 1 : tensor<12x17xi64>
  %7 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<12xi64>) -> tensor<12x17xi64>
  %8 = stablehlo.compare EQ, %6, %7 : (tensor<12x17xi64>, tensor<12x17xi64>) -> tensor<12x17xi1>
  %9 = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<12x17xf32>
  %10 = stablehlo.select %8, %1, %9 : tensor<12x17xi1>, tensor<12x17xf32>
  %11 = stablehlo.reduce(%10 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<12x17xf32>, tensor<f32>) -> tensor<12xf32>
  %12 = stablehlo.subtract %4, %11 : tensor<12xf32>
  %13 = stablehlo.reduce(%12 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<12xf32>, tensor<f32>) -> tensor<f32>
  %n = stablehlo.constant dense<12.0> : tensor<f32>
  %14 = stablehlo.divide %13, %n : tensor<f32>
  return %14 : tensor<f32>
}
"""


def test_a_text_by_hand():
    """Tokens of int64; every token follows the one before, which the table learns."""
    shoal.init(workers=1)
    told = Told()
    found = Shepherd(settings(tau=60, outer_loop_steps=5, learning_rate=0.1), model=HAND, data=Data(), monitor=told).run()
    assert told.of("round")[0]["islands"][0]["losses"][0] == pytest.approx(np.log(17), abs=0.01) and found["loss"] < 0.1


class Tied(nn.Module):
    """The table is used twice, and one parameter is not used."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDE)
        self.norm = nn.LayerNorm(WIDE)
        self.head = nn.Linear(WIDE, WORDS, bias=False)
        self.head.weight = self.table.weight
        self.unused = nn.Parameter(shoal.ones(3))

    def forward(self, ids, targets=None):
        return self.head(self.norm(self.table(ids)).tanh())


def test_a_module():
    """A module of shoal.nn with a tied table, step by step as the same module under shoal.optim.AdamW."""
    shoal.init(workers=1)
    module = Tied()

    def loss(logits, targets):
        return nn.functional.cross_entropy(logits.reshape(-1, WORDS), targets.reshape(-1))
    program = model.of_module(module, BATCH, LENGTH, loss)
    assert sorted(program.names) == ["norm.bias", "norm.weight", "table.weight", "unused"]
    e = settings(outer_learning_rate=1.0, nesterov_momentum=0.0, outer_loop_steps=1, weight_decay=0.0)
    told = Told()
    shepherd = Shepherd(e, model=program, data=Data(), monitor=told)
    shepherd.run()
    optimizer = shoal.optim.AdamW(module.parameters(), lr=e.learning_rate, betas=e.betas, weight_decay=0.0)
    lease, losses = Data().take(0, 0, 1, e.tau, BATCH, LENGTH), []
    for ids, targets in zip(lease.inputs, lease.targets):
        optimizer.zero_grad()
        value = loss(module(shoal.tensor(ids)), shoal.tensor(targets))
        value.backward()
        nn.utils.clip_grad_norm_(module.parameters(), e.clip)
        optimizer.step()
        losses.append(value.item())
    np.testing.assert_allclose(losses_of(told)[0, 0], losses, rtol=1e-6, atol=1e-6)
    want = dict(module.named_parameters())
    for name, got in zip(program.names, shepherd.parameters()):
        np.testing.assert_allclose(got, want[name].detach().numpy(), rtol=1e-6, atol=1e-6, err_msg=name)


def test_accumulation():
    """An effective batch of several batches of the model: the mean of their gradients."""
    shoal.init(workers=1)
    e, told = settings(effective_batch_size=3 * BATCH, clip=0.1), Told()
    shepherd = Shepherd(e, model=TEXT, data=Data(), monitor=told)
    want, theta = diloco(e, shepherd.parameters(), 1, micro=3)
    found = shepherd.run()
    np.testing.assert_allclose(losses_of(told), want, rtol=1e-6, atol=1e-6)
    for name, got, array in zip(SHAPES, shepherd.parameters(), theta):
        np.testing.assert_allclose(got, array, rtol=1e-6, atol=1e-6, err_msg=name)
    assert found["tokens"] == 10 * 3 * BATCH * LENGTH


def test_half_the_bits():
    """A model of bfloat16, with parameters and moments in float32 beside: small steps are not lost."""
    shoal.init(workers=1)
    told, e = Told(), settings(dtype="bf16", tau=100, learning_rate=2e-4, clip=0)
    shepherd = Shepherd(e, model=text_of(kind="bfloat16"), data=Data(), monitor=told)
    before = shepherd.parameters()
    shepherd.run()
    other = Shepherd(settings(tau=100, learning_rate=2e-4, clip=0), model=TEXT, data=Data(), monitor=Told())
    assert all(np.array_equal(a, b) for a, b in zip(before, other.parameters()))
    other.run()
    for name, got, want, first in zip(SHAPES, shepherd.parameters(), other.parameters(), before):
        moved = np.abs(want - first).max()
        assert np.abs(got - want).mean() < 0.25 * moved, name
    losses = losses_of(told).reshape(-1)
    assert losses[-10:].mean() < losses[:10].mean()


@pytest.mark.parametrize("text, message", [
    (HAND.replace(", %targets: tensor<2x6xi64>", "").replace("%targets", "%ids"), "ends in 1 arguments of integers.*two, ids and targets"),
    (HAND.replace("%table: tensor<17x17xf32>", "%n_: tensor<4xi32>, %table: tensor<17x17xf32>"), r"argument 0 is int32\[4\]"),
    (HAND.replace("-> tensor<f32> {", "-> tensor<12xf32> {").replace("return %14 : tensor<f32>", "return %12 : tensor<12xf32>"),
     r"returns float32\[12\].*mean loss"),
])
def test_what_is_no_model(text, message):
    with pytest.raises(shoal.InvalidError, match=message):
        model.load(text)


def test_files_that_are_no_models(tmp_path):
    with pytest.raises(shoal.NotFoundError, match="model_path .*none.mlir: the model cannot be read: No such file or directory"):
        model.load(tmp_path / "none.mlir")
    (tmp_path / "text.mlir").write_text("Once upon a time")
    with pytest.raises(shoal.FormatError, match="text.mlir: no StableHLO: line 1, column 1: "):
        model.load(tmp_path / "text.mlir")


@pytest.mark.parametrize("changes, message", [
    ({"schedule": "step"}, "schedule 'step'; there are constant"), ({"compression": "int2"}, "compression 'int2'; there are none"),
    ({"tau": 0}, "tau is 0; at least 1"), ({"tau": 5, "fragments": 2}, "tau has to be a multiple"),
    ({"tau": 80, "fragments": 8}, "fragments is 8; the model has 7"), ({"effective_batch_size": 3}, "takes 2 at a time"),
    ({"quorum": 0}, "quorum is 0"), ({"balance": "speed"}, "balance 'speed'"), ({"dtype": "bf16"}, "kept in float32 beside"),
    ({"overlap": 6}, "overlap is 6; between two exchanges there are tau / fragments = 5 steps"), ({"alpha": 1.0}, "alpha is 1.0"), ({"overlap": 5, "alpha": 0.0}, "as long as tau, and alpha 0; workers would keep nothing"), ({"eps": 1e-50}, "eps is 1e-50, which is 0 in float32"),
])
def test_what_does_not_fit(changes, message):
    with pytest.raises(shoal.InvalidError, match=message):
        Shepherd(settings(**changes), model=TEXT, data=Data())


# ---- beginnings that fail ----

@pytest.mark.parametrize("compression, fragments, overlap", [("none", 1, 0), ("int8", 5, 0), ("none", 1, 3), ("int8", 5, 1)])
def test_the_end_is_kept(compression, fragments, overlap):
    """Also where checkpoints are seldom: rounds over, or stopped; what goes on from there has the same losses. Of fragments all are
    exchanged at an end: what goes on from there is as if nothing had happened since, and not as without that end."""
    shoal.init(workers=1)
    given = {"workers": 2, "checkpoint_every": 1000, "compression": compression, "fragments": fragments, "overlap": overlap}

    def trained(rounds, kept, stop=False):
        told = Told()
        shepherd = Shepherd(settings(outer_loop_steps=rounds, should_resume=True, **given), model=TEXT, data=Data(), monitor=told,
                            checkpoints=kept)
        event = told.event

        def stopping(kind, **fields):
            event(kind, **fields)
            if kind == "round":
                shepherd.stop()
        if stop:
            told.event = stopping
        return shepherd.run()["rounds"], losses_of(told)
    kept, whole, stopped_at = Kept(), Kept(), 2 * fragments + (2 if overlap else 1)  # a window that is under way is not lost
    end, first = trained(2, kept)
    assert [step for step, _, _ in kept.all] == [end] == [2 * fragments] and len(kept.all[0][2]["islands"]) == 2
    whole.all = list(kept.all)
    _, rows = trained(4, whole)
    stopped, before = trained(4, kept, stop=True)
    _, after = trained(4, kept)
    assert stopped == stopped_at and [step for step, _, _ in kept.all] == sorted({end, stopped, 4 * fragments})
    assert np.array_equal([*before, *after], rows)
    assert are_same_parameters(kept, whole)
    _, straight = trained(4, Kept())
    assert np.array_equal(straight[:end], first) and (fragments > 1 or np.array_equal(straight[end:], rows))


def are_same_parameters(*kept):
    one, other = ({name: array for name, array in found.all[-1][1].items() if name.startswith("parameter.")} for found in kept)
    return one.keys() == other.keys() and all(np.array_equal(array, other[name]) for name, array in one.items())


def test_fewer_workers_than_before():
    """A training goes on with what there is, and does not wait for workers that will not come."""
    shoal.init(workers=1)
    kept = Kept()
    Shepherd(settings(workers=3, outer_loop_steps=2), model=TEXT, data=Data(), checkpoints=kept).run()
    assert len(kept.all[-1][2]["islands"]) == 3
    told = Told()
    found = Shepherd(settings(workers=1, outer_loop_steps=4, should_resume=True), model=TEXT, data=Data(), checkpoints=kept,
                     monitor=told).run()
    assert found["rounds"] == 4 and [len(event["islands"]) for event in told.of("round")] == [1, 1]


def test_no_island_can_begin(monkeypatch):
    """What each of them failed with ends the training; nobody is waited for."""
    def fail(self):
        raise shoal.UnsupportedError("no room for the parameters")
    monkeypatch.setattr("shoal.train.island.Island._fresh", fail)
    shoal.init(workers=1)
    told = Told()
    shepherd = Shepherd(settings(workers=2), model=TEXT, data=Data(), monitor=told)
    with pytest.raises(shoal.UnsupportedError, match="no room for the parameters"):
        shepherd.run()
    assert len(told.of("lost")) == 6


@pytest.mark.parametrize("kind", ["ids", "ids.reshape(-1).reshape(ids.shape)", "ids.astype('int64')", "-1 - ids"])
def test_words_that_the_model_does_not_have(tmp_path, kind):
    """Tokens that are no rows of the model's table are an error before anything is trained, and named; others are none."""
    shoal.init(workers=1)

    def loss(table, ids, targets):
        return nn.functional.cross_entropy((table[eval(kind)] @ table.T).reshape(-1, 100), targets.reshape(-1))
    tokens = np.zeros((2, 6), np.int32)
    program = model.Program(shoal.stablehlo.export(loss, np.zeros((100, 8), np.float32), tokens, tokens), name="m.mlir")
    assert program.vocabulary == (None if kind == "-1 - ids" else 100)
    (tmp_path / "text").write_bytes(bytes(range(100)))
    told = Told()
    Shepherd(settings(), model=program, data=train_data.Data(open_tokens(tmp_path / "text")), monitor=told)
    (tmp_path / "text").write_bytes(bytes(range(101)))
    if program.vocabulary is not None:
        with pytest.raises(shoal.InvalidError, match="text: there is a token 100, and m.mlir has 100 rows to look tokens up in; a model of at "
                                                     "least 101, or another tokenizer than byte, is needed"):
            Shepherd(settings(), model=program, data=train_data.Data(open_tokens(tmp_path / "text")), monitor=told)
