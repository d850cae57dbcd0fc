"""The optimizers and schedules of shoal.optim beyond nn_test.py, against torch's step by step."""
import numpy as np
import pytest
from peer import torch, torch_of

import shoal

RNG = np.random.default_rng(0)
W, B, X, Y = (RNG.standard_normal(shape) for shape in ((4, 3), (3,), (10, 4), (10, 3)))


def losses(module, make, optimizer, settings, schedule=None, steps=10):
    w, b, x, y = (make(a) for a in (W, B, X, Y))
    w.requires_grad_(), b.requires_grad_()
    stepper = getattr(module.optim, optimizer)([w, b], **settings)
    scheduler = schedule(module.optim.lr_scheduler, stepper) if schedule else None
    found = []

    def closure():
        stepper.zero_grad()
        loss = (((x @ w + b).tanh() - y) ** 2).mean()
        loss.backward()
        return loss
    for _ in range(steps):
        found.append(float(stepper.step(closure)))
        if scheduler is not None:
            scheduler.step(*([found[-1]] if type(scheduler).__name__ == "ReduceLROnPlateau" else []))
            found.append(stepper.param_groups[0]["lr"])
    return np.array([*found, float((w ** 2).sum()), float((b ** 2).sum())])


OPTIMIZERS = [
    ("SGD", {"lr": 0.1, "momentum": 0.9, "foreach": False}), ("Adam", {"lr": 0.1, "fused": False, "capturable": False}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.01, "initial_accumulator_value": 0.5}),
    ("Adadelta", {"lr": 1.0, "weight_decay": 0.01}), ("Adamax", {"weight_decay": 0.01}), ("NAdam", {"weight_decay": 0.01}),
    ("RAdam", {"lr": 0.01, "weight_decay": 0.01}), ("ASGD", {"lr": 0.1, "t0": 2.0}), ("Rprop", {"lr": 0.01}),
    ("RMSprop", {"centered": True, "momentum": 0.5}), ("LBFGS", {"lr": 0.5, "max_iter": 4}), ("LBFGS", {"line_search_fn": "strong_wolfe", "max_iter": 5}),
]


@pytest.mark.parametrize("name,settings", OPTIMIZERS, ids=lambda v: v if isinstance(v, str) else "")
def test_optimizer(name, settings):
    settings = {k: v for k, v in settings.items() if k != "fused"}
    want = losses(torch, torch_of, name, settings)
    bound = 1e-4 if name == "NAdam" else 1e-5 if name == "LBFGS" else 1e-8  # torch 1.13 counts NAdam's momentum in float32
    np.testing.assert_allclose(losses(shoal, shoal.tensor, name, settings), want, rtol=bound, atol=bound)


SCHEDULES = {
    "ConstantLR": {}, "PolynomialLR": {"power": 2.0}, "CosineAnnealingWarmRestarts": {"T_0": 3, "T_mult": 2},
    "MultiplicativeLR": {"lr_lambda": lambda n: 0.9 + 0.01 * n}, "CyclicLR": {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "mode": "triangular2"},
    "ReduceLROnPlateau": {"patience": 0, "threshold": 0.5}, "StepLR": {"step_size": 2},
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name):
    def schedule(module, optimizer):
        return getattr(module, name)(optimizer, **SCHEDULES[name])
    settings = {"lr": 0.1, "momentum": 0.9}
    np.testing.assert_allclose(losses(shoal, shoal.tensor, "SGD", settings, schedule), losses(torch, torch_of, "SGD", settings, schedule), rtol=1e-8)


def test_schedules_in_a_chain():
    def schedule(module, optimizer):
        return module.ChainedScheduler([module.ConstantLR(optimizer), module.ExponentialLR(optimizer, 0.9)])
    settings = {"lr": 0.1}
    np.testing.assert_allclose(losses(shoal, shoal.tensor, "SGD", settings, schedule), losses(torch, torch_of, "SGD", settings, schedule), rtol=1e-8)


def test_lion_and_adafactor():
    """torch has no Lion, and 1.13 no Adafactor: one step by the papers' formulas."""
    p = shoal.tensor(W).requires_grad_()
    lion = shoal.optim.Lion([p], lr=0.1, betas=(0.9, 0.99), weight_decay=0.5)
    p.grad = shoal.tensor(2 * W)
    lion.step()
    first = W * (1 - 0.05) - 0.1 * np.sign(W)
    np.testing.assert_allclose(p.detach().numpy(), first)
    p.grad = shoal.tensor(-W)
    lion.step()
    np.testing.assert_allclose(p.detach().numpy(), first * 0.95 - 0.1 * np.sign(0.9 * 0.01 * 2 * W - 0.1 * W))
    q = shoal.tensor(W).requires_grad_()
    factored = shoal.optim.Adafactor([q], lr=0.1)
    q.grad = shoal.tensor(3 * W)
    factored.step()
    g = 3 * W
    rows, columns = (g * g).mean(1, keepdims=True), (g * g).mean(0, keepdims=True)
    update = g / np.sqrt(rows @ columns / rows.mean())
    rate = min(0.1, 1.0) * max(1e-3, np.linalg.norm(W) / np.sqrt(W.size))
    want = W - rate / max(1.0, np.linalg.norm(update) / np.sqrt(W.size)) * update
    np.testing.assert_allclose(q.detach().numpy(), want, rtol=1e-9)
    for make in (shoal.optim.Lion, shoal.optim.Adafactor):
        w = shoal.tensor(np.full((3, 2), 3.0)).requires_grad_()
        optimizer = make([w], lr=0.05)
        for _ in range(400):
            optimizer.zero_grad()
            (w ** 2).sum().backward()
            optimizer.step()
        assert float((w ** 2).sum()) < 0.5


def test_errors():
    w = shoal.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="Adagrad has no argument 'wrong'"):
        shoal.optim.Adagrad([w], wrong=1)
    with pytest.raises(shoal.InvalidError, match="line_search_fn 'x' is neither"):
        shoal.optim.LBFGS([w], line_search_fn="x")
    with pytest.raises(shoal.InvalidError, match="factor 2 is not below 1"):
        shoal.optim.lr_scheduler.ReduceLROnPlateau(shoal.optim.SGD([w], 0.1), factor=2)


@pytest.mark.parametrize("words", [{"total_steps": 10}, {"epochs": 4, "steps_per_epoch": 3}, {
    "epochs": 5, "steps_per_epoch": 4, "three_phase": True, "pct_start": 0.4, "anneal_strategy": "linear"},
    {"total_steps": 9, "div_factor": 5.0, "final_div_factor": 100.0, "cycle_momentum": False}])
def test_one_cycle(words):
    """Also by epochs and steps per epoch, and to the last step that torch takes."""
    rates = []
    for t in (torch, shoal):
        optimizer = t.optim.SGD([t.zeros(2, requires_grad=True)], lr=0.1, momentum=0.9)
        schedule = t.optim.lr_scheduler.OneCycleLR(optimizer, 0.3, **words)
        rates.append([])
        for _ in range(words.get("total_steps") or words["epochs"] * words["steps_per_epoch"]):
            rates[-1].append((optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]))
            optimizer.step()
            schedule.step()
        rates[-1].append((optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]))
        with pytest.raises(ValueError):
            schedule.step()
    np.testing.assert_allclose(rates[1], rates[0], rtol=1e-6)
