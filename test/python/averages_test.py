"""Averaged weights (optim.swa_utils) against PyTorch's, on the same models and data."""
import numpy as np
import pytest
from peer import numpy_of, torch, torch_of

import shoal
from shoal.optim import swa_utils

RNG = np.random.default_rng(5)
DATA = RNG.standard_normal((12, 3)).astype("float32")


def models():
    """The same model twice, of torch and of Shoal."""
    made = []
    for t in (torch, shoal):
        made.append(t.nn.Sequential(t.nn.Linear(3, 4), t.nn.BatchNorm1d(4), t.nn.Linear(4, 1)))
    for theirs, ours in zip(made[0].parameters(), made[1].parameters()):
        with shoal.no_grad():
            ours.copy_(shoal.tensor(numpy_of(theirs)))
    return made


def trained(t, model, averaged, data, schedule):
    """Learning rates of six steps, each taken into the average."""
    optimizer = t.optim.SGD([{"params": list(model.parameters())[:2], "lr": 0.2},
                             {"params": list(model.parameters())[2:]}], lr=0.1)
    scheduler = schedule(optimizer)
    rates = []
    for _ in range(6):
        optimizer.zero_grad()
        model(data).pow(2).mean().backward()
        optimizer.step()
        averaged.update_parameters(model)
        scheduler.step()
        rates.append([g["lr"] for g in optimizer.param_groups])
    return rates


@pytest.mark.parametrize("keywords", [{}, {"use_buffers": True}, {"avg_fn": lambda a, p, n: a * 0.25 + p * 0.75}])
@pytest.mark.parametrize("epochs, strategy", [(4, "cos"), (3, "linear"), (0, "cos")])
def test_training(keywords, epochs, strategy):
    both = models()
    rates, averages = [], []
    for t, model, data in zip((torch, shoal), both, (torch_of(DATA), shoal.tensor(DATA))):
        utils = t.optim.swa_utils
        averaged = utils.AveragedModel(model, **keywords)
        rates.append(trained(t, model, averaged, data, lambda o, utils=utils: utils.SWALR(
            o, swa_lr=[0.05, 0.02], anneal_epochs=epochs, anneal_strategy=strategy)))
        utils.update_bn([data[:5], (data[5:], 1)], averaged)
        averages.append(averaged)
    np.testing.assert_allclose(rates[1], rates[0], rtol=1e-6)
    theirs, ours = averages[0].state_dict(), averages[1].state_dict()
    assert list(theirs) == [str(name) for name in ours] or set(theirs) == set(ours)
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name].numpy(), numpy_of(value), rtol=1e-4, atol=1e-5, err_msg=name)
    np.testing.assert_allclose(averages[1].eval()(shoal.tensor(DATA)).detach().numpy(),
                               numpy_of(averages[0].eval()(torch_of(DATA))), rtol=1e-3, atol=1e-5)


def test_moving_average():
    """By hand: Debian's PyTorch has no get_ema_avg_fn yet."""
    for keywords in ({"avg_fn": swa_utils.get_ema_avg_fn(0.9)}, {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.9)}):
        model = shoal.nn.Linear(2, 1)
        averaged = swa_utils.AveragedModel(model, **keywords)
        want = None
        for step in range(4):
            with shoal.no_grad():
                model.weight.fill_(step + 1.0)
            averaged.update_parameters(model)
            want = step + 1.0 if want is None else 0.9 * want + 0.1 * (step + 1)
        np.testing.assert_allclose(averaged.module.weight.detach().numpy(), [[want] * 2], rtol=1e-6)
        assert int(averaged.n_averaged) == 4
    mean = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_swa_multi_avg_fn())
    for value in (1.0, 2.0, 6.0):
        with shoal.no_grad():
            model.weight.fill_(value)
        mean.update_parameters(model)
    np.testing.assert_allclose(mean.module.weight.detach().numpy(), [[3.0, 3.0]], rtol=1e-6)


def test_errors():
    model = shoal.nn.Linear(2, 1)
    optimizer = shoal.optim.SGD(model.parameters(), lr=0.1)
    for wrong in (lambda: swa_utils.SWALR(optimizer, 0.1, anneal_strategy="step"),
                  lambda: swa_utils.SWALR(optimizer, 0.1, anneal_epochs=-1),
                  lambda: swa_utils.SWALR(optimizer, [0.1, 0.2]),
                  lambda: swa_utils.get_ema_avg_fn(1.5),
                  lambda: swa_utils.AveragedModel(model, avg_fn=max, multi_avg_fn=max)):
        with pytest.raises(ValueError):
            wrong()
