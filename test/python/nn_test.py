"""shoal.nn and shoal.optim: modules, states, layers, optimizers and schedules, against PyTorch."""
import copy
import gc
import math

import numpy as np
import pytest
from peer import numpy_of, torch, torch_of

import shoal
import shoal.nn.functional as F
from shoal import nn, optim

RNG = np.random.default_rng(5)


def normal(*shape):
    return RNG.standard_normal(shape).astype("float32")


def near(got, want, tolerance=2e-5):
    got = got.numpy() if isinstance(got, shoal.Tensor) else got
    want = numpy_of(want) if isinstance(want, torch.Tensor) else want
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def given_to(ours, theirs):
    """Both modules with the same weights: ours."""
    theirs.load_state_dict({k: torch_of(v.numpy()) for k, v in ours.state_dict().items()})
    return theirs


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.rest = nn.Sequential(nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3, bias=False))
        self.scale = nn.Parameter(shoal.ones(3))
        self.register_buffer("seen", shoal.zeros(1))
        self.register_buffer("draft", shoal.zeros(2), persistent=False)

    def forward(self, x):
        return self.rest(self.first(x)) * self.scale


# ---- modules ----

def test_names():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == [
        "scale", "first.weight", "first.bias", "rest.2.weight"]
    assert [n for n, _ in net.named_buffers()] == ["seen", "draft"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1", "rest.2"]
    assert [type(m).__name__ for m in net.children()] == ["Linear", "Sequential"]
    assert net.get_submodule("rest.2") is net.rest[2]
    assert net.get_parameter("rest.2.weight") is net.rest[2].weight
    assert all(isinstance(p, nn.Parameter) and p.requires_grad and p.is_leaf
               for p in net.parameters())
    shared = nn.ModuleList([net.first, net.first])
    assert len(list(shared.parameters())) == 2
    with pytest.raises(AttributeError, match="Net has no attribute 'second'"):
        net.second
    with pytest.raises(TypeError, match="Net.scale is a parameter; it cannot become a Tensor"):
        net.scale = shoal.ones(3)
    with pytest.raises(AttributeError, match="call super"):
        class Wrong(nn.Module):
            def __init__(self):
                self.layer = nn.Linear(1, 1)
        Wrong()
    with pytest.raises(NotImplementedError, match="Module has no forward"):
        nn.Module()(1)


def test_repr():
    assert repr(Net()) == """Net(
  (first): Linear(in_features=4, out_features=8, bias=True)
  (rest): Sequential(
    (0): ReLU()
    (1): Dropout(p=0.5, inplace=False)
    (2): Linear(in_features=8, out_features=3, bias=False)
  )
)"""
    assert repr(nn.Softmax(dim=1)) == "Softmax(dim=1)"
    assert repr(nn.LeakyReLU(0.2)) == "LeakyReLU(negative_slope=0.2)"
    assert repr(nn.Conv2d(1, 2, 3)).startswith("Conv2d(1, 2, kernel_size=(3, 3)")


def test_modes_and_hooks():
    net = Net()
    x = shoal.tensor(normal(5, 4))
    shoal.manual_seed(0)
    drawn = net(x).numpy()
    assert not np.array_equal(net(x).numpy(), drawn)
    assert net.eval() is net and not net.rest[1].training
    np.testing.assert_array_equal(net(x).numpy(), net(x).numpy())
    net.train()
    assert net.rest[1].training
    seen = []
    handle = net.first.register_forward_hook(lambda m, args, made: seen.append(made.shape))
    net(x)
    handle.remove()
    net(x)
    assert seen == [(5, 8)]
    net.apply(lambda m: nn.init.ones_(m.weight) if isinstance(m, nn.Linear) else None)
    assert net.first.weight.requires_grad and (net.first.weight.numpy() == 1).all()
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


def test_conversion():
    net = Net()
    before = net.first.weight
    net.double()
    assert net.first.weight.dtype == "float64" and net.seen.dtype == "float64"
    assert isinstance(net.first.weight, nn.Parameter) and net.first.weight.requires_grad
    assert before.dtype == "float32"
    slot = [s for s in shoal.status().slots if s.compute][0]
    weight = net.first.weight
    assert net.to(slot, "float32") is net and net.first.weight.dtype == "float32"
    net.to(slot)
    assert net.first.weight.requires_grad and weight is not net.first.weight


def test_state(tmp_path):
    net, other = Net(), Net()
    x = shoal.tensor(normal(5, 4))
    state = net.state_dict()
    assert list(state) == ["scale", "seen", "first.weight", "first.bias", "rest.2.weight"]
    shoal.save(state, tmp_path / "net.safetensors")
    keys = other.load_state_dict(shoal.load(tmp_path / "net.safetensors"))
    assert repr(keys) == "<All keys matched successfully>"
    near(other.eval()(x), net.eval()(x).numpy(), 0)
    kept, was = copy.deepcopy(state), state["first.weight"].numpy().copy()
    with shoal.no_grad():
        net.first.weight -= 1  # as in torch the state goes along, its copy does not
    np.testing.assert_array_equal(state["first.weight"].numpy(), was - 1)
    np.testing.assert_array_equal(kept["first.weight"].numpy(), was)
    assert other.first.weight.requires_grad
    del state["scale"]
    state["extra"] = shoal.zeros(1)
    state["first.bias"] = shoal.zeros(9)
    with pytest.raises(shoal.InvalidError, match=r"load_state_dict of Net: missing: scale; "
                       r"unexpected: extra; 'first.bias' is float32\[9\] there and float32\[8\]"):
        other.load_state_dict(state)
    state["first.bias"] = normal(8)
    found = other.load_state_dict(state, strict=False)
    assert (found.missing_keys, found.unexpected_keys) == (["scale"], ["extra"])
    near(other.first.bias, state["first.bias"], 0)


def test_deepcopy():
    net = Net().eval()
    other = copy.deepcopy(net)
    assert isinstance(other.scale, nn.Parameter) and other.scale.requires_grad
    x = shoal.tensor(normal(5, 4))
    want = net(x).numpy()
    with shoal.no_grad():
        for p in net.parameters():
            p += 1
    near(other(x), want, 0)


def test_containers():
    a, b, c = nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)
    row = nn.Sequential(a, b, c)
    assert len(row) == 3 and row[0] is a and row[-1] is c and list(row[:2]) == [a, b]
    named = nn.Sequential({"in": a, "out": c})
    assert [n for n, _ in named.named_children()] == ["in", "out"]
    several = nn.ModuleList([a])
    several.append(c).extend([b])
    several.insert(1, b)
    assert [type(m).__name__ for m in several] == ["Linear", "Tanh", "Linear", "Tanh"]
    table = nn.ModuleDict({"a": a})
    table["b"] = c
    assert list(table) == ["a", "b"] and "b" in table and len(list(table.parameters())) == 4
    with pytest.raises(NotImplementedError, match="a ModuleList computes nothing"):
        several(1)
    assert len(list(nn.ParameterList([shoal.ones(2), shoal.ones(3)]).parameters())) == 2


# ---- layers ----

LAYERS = {
    "Linear": ((4, 3), (5, 4)), "LayerNorm": ((4,), (5, 4)), "Conv2d": ((2, 4, 3), (2, 2, 7, 6)),
    "BatchNorm2d": ((3,), (4, 3, 2, 2)), "BatchNorm1d": ((3,), (6, 3)), "PReLU": ((3,), (2, 3, 4)),
    "MaxPool2d": ((2,), (1, 2, 6, 6)), "AvgPool2d": ((3, 2), (1, 2, 7, 7)), "Flatten": ((), (2, 3, 4)),
    "AdaptiveAvgPool2d": ((2,), (1, 2, 4, 6)), "Identity": ((), (2, 2)), "Softmax": ((1,), (3, 4)),
    "GELU": ((), (9,)), "SiLU": ((), (9,)), "Softplus": ((2.0,), (9,)), "GLU": ((1,), (2, 6)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name):
    args, shape = LAYERS[name]
    ours, theirs = getattr(nn, name)(*args), getattr(torch.nn, name)(*args)
    for k, v in theirs.state_dict().items():  # what torch has besides, such as a count of batches
        assert k in ours.state_dict() or not v.dim(), k
    theirs.load_state_dict({k: torch_of(v.numpy()) for k, v in ours.state_dict().items()},
                           strict=False)
    a = normal(*shape)
    x, t = shoal.tensor(a).requires_grad_(), torch_of(a, True)
    for _ in range(2):
        got, want = ours(x), theirs(t)
        near(got, want)
    seed = normal(*got.shape)
    got.backward(shoal.tensor(seed))
    want.backward(torch_of(seed))
    near(x.grad, t.grad, 1e-4)
    for (n, p), q in zip(ours.named_parameters(), theirs.parameters()):
        near(p.grad, q.grad, 1e-4)
    near(ours.eval()(x), theirs.eval()(t))
    for k, v in ours.state_dict().items():
        near(v, theirs.state_dict()[k])


def test_embedding():
    ours = nn.Embedding(7, 3, padding_idx=-1)
    assert (ours.weight.numpy()[6] == 0).all()
    theirs = given_to(ours, torch.nn.Embedding(7, 3, padding_idx=6))
    index = RNG.integers(0, 7, (4, 5))
    near(ours(shoal.tensor(index)), theirs(torch_of(index)))
    ours(shoal.tensor(index)).sum().backward()
    theirs(torch_of(index)).sum().backward()
    near(ours.weight.grad, theirs.weight.grad)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kdim,vdim", [(None, None), (5, 3)])
def test_multihead_attention(batch_first, kdim, vdim):
    ours = nn.MultiheadAttention(8, 2, kdim=kdim, vdim=vdim, batch_first=batch_first)
    theirs = given_to(ours, torch.nn.MultiheadAttention(8, 2, kdim=kdim, vdim=vdim,
                                                        batch_first=batch_first))
    n, s, t = 3, 4, 6
    q, k, v = normal(n, s, 8), normal(n, t, kdim or 8), normal(n, t, vdim or 8)
    if not batch_first:
        q, k, v = (np.ascontiguousarray(a.swapaxes(0, 1)) for a in (q, k, v))
    hidden = RNG.random((n, t)) < 0.3
    hidden[:, 0] = False
    future = np.triu(np.ones((s, t), bool), 2)
    added = normal(n * 2, s, t)
    for masks in ({}, {"key_padding_mask": hidden}, {"attn_mask": future}, {"attn_mask": added},
                  {"attn_mask": future, "key_padding_mask": hidden}):
        got, weights = ours(*map(shoal.tensor, (q, k, v)),
                            **{m: shoal.tensor(a) for m, a in masks.items()})
        want, theirs_weights = theirs(*map(torch_of, (q, k, v)),
                                      **{m: torch_of(a) for m, a in masks.items()})
        near(got, want)
        near(weights, theirs_weights)
        lean, none = ours(*map(shoal.tensor, (q, k, v)), need_weights=False,
                          **{m: shoal.tensor(a) for m, a in masks.items()})
        near(lean, want)
        assert none is None
    if kdim is None:
        x = shoal.tensor(q).requires_grad_()
        y = torch_of(q, True)
        ours(x, x, x)[0].sum().backward()
        theirs(y, y, y)[0].sum().backward()
        near(x.grad, y.grad, 1e-4)


LOSSES = {"CrossEntropyLoss": {"label_smoothing": 0.1}, "NLLLoss": {}, "MSELoss": {"reduction": "sum"},
          "L1Loss": {}, "SmoothL1Loss": {"beta": 0.5}, "HuberLoss": {}, "BCEWithLogitsLoss": {},
          "KLDivLoss": {"reduction": "batchmean"}, "SoftMarginLoss": {}}


@pytest.mark.parametrize("name", LOSSES)
def test_loss(name):
    keywords = LOSSES[name]
    a = normal(6, 4)
    b = RNG.integers(0, 4, 6) if name in ("CrossEntropyLoss", "NLLLoss") else \
        RNG.random((6, 4)).astype("float32")
    near(getattr(nn, name)(**keywords)(shoal.tensor(a), shoal.tensor(b)),
         getattr(torch.nn, name)(**keywords)(torch_of(a), torch_of(b)))


def test_weights_of_losses_are_buffers():
    loss = nn.CrossEntropyLoss(shoal.tensor([1.0, 2.0, 0.5]))
    near(loss(shoal.tensor(normal(4, 3)), shoal.tensor([0, 1, 2, 1])) * 0, 0)
    assert list(loss.state_dict()) == ["weight"]


def test_init():
    shoal.manual_seed(4)
    w = nn.Parameter(shoal.zeros(300, 200))
    nn.init.kaiming_uniform_(w, math.sqrt(5))
    bound = 1 / math.sqrt(200)
    assert abs(w.numpy()).max() <= bound and abs(w.numpy().var() - bound ** 2 / 3) < 1e-5
    nn.init.xavier_normal_(w)
    assert abs(w.numpy().std() - math.sqrt(2 / 500)) < 1e-3
    nn.init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu")
    assert abs(w.numpy().std() - math.sqrt(2 / 300)) < 1e-3
    nn.init.xavier_uniform_(w, 2)
    assert abs(abs(w.numpy()).max() - 2 * math.sqrt(6 / 500)) < 1e-3
    nn.init.trunc_normal_(w, 1, 2, 0, 4)
    x = w.numpy()
    assert x.min() >= 0 and x.max() <= 4
    # Of the normal distribution cut off at -0.5 and 1.5 deviations.
    assert abs(x.mean() - (1 + 2 * (0.35207 - 0.12952) / (0.93319 - 0.30854))) < 0.01
    nn.init.eye_(w)
    np.testing.assert_array_equal(w.numpy(), np.eye(300, 200))
    assert w.requires_grad and w.is_leaf
    with pytest.raises(shoal.InvalidError, match=r"float32\[3\] has no fan-in"):
        nn.init.xavier_normal_(shoal.zeros(3))


# ---- optimizers ----

class Both:
    """The same perceptron here and in PyTorch, from the same start."""

    def __init__(self, make):
        shoal.manual_seed(1)
        self.net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))
        self.peer = given_to(self.net, torch.nn.Sequential(
            torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)))
        self.ours = make(optim, self.net)
        self.theirs = make(torch.optim, self.peer)
        self.x, self.y = normal(32, 6), RNG.integers(0, 4, 32)

    def step(self, clip=None):
        loss = F.cross_entropy(self.net(shoal.tensor(self.x)), shoal.tensor(self.y))
        self.ours.zero_grad()
        loss.backward()
        want = torch.nn.functional.cross_entropy(self.peer(torch_of(self.x)), torch_of(self.y))
        self.theirs.zero_grad()
        want.backward()
        if clip:
            near(optim.clip_grad_norm_(self.net.parameters(), clip),
                 torch.nn.utils.clip_grad_norm_(self.peer.parameters(), clip))
        self.ours.step()
        self.theirs.step()
        return loss.item(), want.item()


def groups(net):
    return [{"params": [net[0].weight], "lr": 0.02, "weight_decay": 0.1},
            {"params": [net[0].bias, *net[2].parameters()]}]


OPTIMIZERS = {
    "sgd": lambda o, n: o.SGD(n.parameters(), lr=0.1),
    "sgd momentum": lambda o, n: o.SGD(n.parameters(), 0.1, momentum=0.9, dampening=0.2,
                                       weight_decay=0.01),
    "sgd nesterov": lambda o, n: o.SGD(n.parameters(), 0.1, momentum=0.8, nesterov=True),
    "sgd groups": lambda o, n: o.SGD(groups(n), lr=0.1, momentum=0.5),
    "adam": lambda o, n: o.Adam(n.parameters(), lr=0.01),
    "adam decay": lambda o, n: o.Adam(n.parameters(), 0.01, (0.8, 0.95), weight_decay=0.1),
    "adam amsgrad": lambda o, n: o.Adam(n.parameters(), lr=0.02, amsgrad=True),
    "adamw": lambda o, n: o.AdamW(n.parameters(), lr=0.01, weight_decay=0.1),
    "adamw groups": lambda o, n: o.AdamW(groups(n), lr=0.01),
    "rmsprop": lambda o, n: o.RMSprop(n.parameters(), lr=0.005, momentum=0.9),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_hundred_steps(name):
    both = Both(OPTIMIZERS[name])
    losses = [both.step() for _ in range(100)]
    assert losses[-1][0] < losses[0][0]
    for got, want in losses:
        assert abs(got - want) < 1e-4, losses
    for p, q in zip(both.net.parameters(), both.peer.parameters()):
        near(p, q, 1e-3)


def test_clipping():
    both = Both(OPTIMIZERS["sgd"])
    for _ in range(20):
        got, want = both.step(clip=0.05)
        assert abs(got - want) < 1e-5
    for kind in (1.0, 3.0, math.inf):
        near(optim.clip_grad_norm_(both.net.parameters(), 0.1, kind),
             torch.nn.utils.clip_grad_norm_(both.peer.parameters(), 0.1, kind))
        for p, q in zip(both.net.parameters(), both.peer.parameters()):
            near(p.grad, q.grad)
    for p in both.net.parameters():
        p.grad = p.grad + 1
    optim.clip_grad_value_(both.net.parameters(), 0.5)
    assert all((p.grad.numpy() == 0.5).all() for p in both.net.parameters())
    assert optim.clip_grad_norm_([nn.Parameter(shoal.ones(1))], 1.0).item() == 0
    with pytest.raises(shoal.InvalidError, match="the norm of the gradients is inf"):
        p.grad = p.grad * math.inf
        optim.clip_grad_norm_(both.net.parameters(), 1.0, error_if_nonfinite=True)


SCHEDULES = {
    "StepLR": {"step_size": 3, "gamma": 0.5}, "ExponentialLR": {"gamma": 0.9},
    "CosineAnnealingLR": {"T_max": 10, "eta_min": 0.01}, "MultiStepLR": {"milestones": [2, 5, 5, 9]},
    "LambdaLR": {"lr_lambda": lambda n: 1 / (n + 1)},
    "LinearLR": {"start_factor": 0.1, "total_iters": 6},
    "OneCycleLR": {"max_lr": 0.5, "total_steps": 20},
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name):
    def make(module, params):
        opt = module.SGD([{"params": [params[0]]}, {"params": [params[1]], "lr": 0.3}], lr=0.1,
                         momentum=0.9)
        return opt, getattr(module.lr_scheduler, name)(opt, **SCHEDULES[name])
    ours, schedule = make(optim, [nn.Parameter(shoal.ones(1)) for _ in range(2)])
    theirs, peer = make(torch.optim, [torch.nn.Parameter(torch.ones(1)) for _ in range(2)])
    for i in range(15):
        assert schedule.get_last_lr() == pytest.approx(peer.get_last_lr(), rel=1e-6), i
        assert ours.param_groups[0]["momentum"] == pytest.approx(
            theirs.param_groups[0]["momentum"])
        theirs.step()
        schedule.step()
        peer.step()
    state = schedule.state_dict()
    again, fresh = make(optim, [nn.Parameter(shoal.ones(1)) for _ in range(2)])
    fresh.load_state_dict(state)
    assert fresh.get_last_lr() == schedule.get_last_lr()


def test_schedules_in_sequence_and_warm_up():
    opt = optim.SGD([nn.Parameter(shoal.ones(1))], lr=1.0)
    warm = optim.lr_scheduler.WarmupCosineLR(opt, 4, 12)
    rates = []
    for _ in range(13):
        rates += warm.get_last_lr()
        warm.step()
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0] and rates[12] == 0
    assert rates[8] == pytest.approx(0.5)

    def make(module, p):
        opt = module.SGD([p], lr=1.0)
        s = module.lr_scheduler
        return s.SequentialLR(opt, [s.LinearLR(opt, 0.5, total_iters=3), s.ExponentialLR(opt, 0.5)],
                              [4])
    ours = make(optim, nn.Parameter(shoal.ones(1)))
    theirs = make(torch.optim, torch.nn.Parameter(torch.ones(1)))
    for _ in range(9):
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr())
        ours.step()
        theirs.optimizer.step() if hasattr(theirs, "optimizer") else None
        theirs.step()


def test_state_of_an_optimizer(tmp_path):
    def make(o, n):
        return o.AdamW(groups(n), lr=0.01)
    straight, broken = Both(make), Both(make)
    broken.x, broken.y = straight.x, straight.y
    want = [straight.step()[0] for _ in range(10)]
    got = [broken.step()[0] for _ in range(5)]
    path = tmp_path / "checkpoint.safetensors"
    shoal.save({"model": broken.net.state_dict(), "optimizer": broken.ours.state_dict()}, path)
    resumed = Both(make)
    resumed.x, resumed.y = straight.x, straight.y
    state = shoal.load(path)
    resumed.net.load_state_dict(state["model"])
    resumed.ours.load_state_dict(state["optimizer"])
    assert resumed.ours.param_groups[0]["betas"] == (0.9, 0.999)
    got += [resumed.step()[0] for _ in range(5)]
    assert got == want
    other = optim.AdamW(resumed.net.parameters())
    with pytest.raises(shoal.InvalidError, match=r"groups of \[1, 3\] parameters there, of \[4\]"):
        other.load_state_dict(state["optimizer"])


def test_errors_of_optimizers():
    p = nn.Parameter(shoal.ones(2))
    for call, words in ((lambda: optim.SGD([]), "there are no parameters"),
                        (lambda: optim.SGD([p, p]), "is given twice"),
                        (lambda: optim.SGD([p], lr=-1), "lr is -1"),
                        (lambda: optim.SGD([p], nesterov=True), "nesterov needs momentum"),
                        (lambda: optim.Adam([p], betas=(1.0, 0.9)), "betas are")):
        with pytest.raises(shoal.InvalidError, match=words):
            call()
    with pytest.raises(TypeError, match="a int is no parameter"):
        optim.SGD([3])


def test_closure():
    p = nn.Parameter(shoal.tensor([3.0]))
    opt = optim.SGD([p], lr=0.1)

    def closure():
        opt.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss
    for _ in range(5):
        loss = opt.step(closure)
    near(p, np.float32([3 * 0.8 ** 5]))
    near(loss, np.float32(9 * 0.64 ** 4))


@pytest.mark.parametrize("name", ["sgd momentum", "adam", "adamw groups"])
def test_a_step_replays(name):
    """Learning rate, step count and seed are inputs of one program."""
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))
    opt = OPTIMIZERS[name](optim, nn.Sequential(net[0], net[2], net[3]))
    schedule = optim.lr_scheduler.ExponentialLR(opt, 0.99)

    def step():
        x, y = shoal.tensor(normal(8, 6)), shoal.tensor(RNG.integers(0, 4, 8))
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optim.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        schedule.step()
        return loss.item()
    for _ in range(4):
        step()
    before = net[0].weight.session.counts()
    for _ in range(6):
        step()
    after = net[0].weight.session.counts()
    assert after.fresh == before.fresh
    assert after.programs - before.programs == 12  # a step, and the reading of its loss


def test_memory_stays():
    """Live values and the tape do not grow with the number of steps."""
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
    opt = optim.AdamW(net.parameters(), lr=0.01)

    def train(steps):
        for _ in range(steps):
            opt.zero_grad()
            loss = F.cross_entropy(net(shoal.tensor(normal(16, 8))), shoal.tensor([0, 1] * 8))
            loss.backward()
            opt.step()
        loss.item()
        del loss
        gc.collect()
        shoal.sync()
        return shoal.status().values, len(shoal.session().tape())
    first = train(50)
    assert train(400) == first


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32"])
def test_max_pools_of_every_type_at_its_least(kind):
    """Padding is never the largest: elements from the type's least one on, as torch's of float64 above that."""
    least = 0 if kind == "float32" else shoal.iinfo(getattr(shoal, kind)).min
    for n in (1, 2, 3):
        above = np.random.default_rng(n).integers(0, 90, (2, 3) + (5,) * n)
        x = shoal.tensor((above.astype(object) + least).astype(kind))
        for words in ({"padding": 1}, {"padding": 1, "dilation": 2, "stride": 1}, {"ceil_mode": True}):
            name = f"max_pool{n}d"
            want, at = getattr(torch.nn.functional, name)(torch_of(above.astype("float64")), 2, return_indices=True,
                                                          **words)
            want = np.array(want.tolist()).astype("int64").astype(object) + least
            got, where = getattr(nn.functional, name)(x, 2, return_indices=True, **words)
            assert got.dtype == kind and (got.numpy() == want.astype(kind)).all(), (name, words)
            assert where.tolist() == at.tolist(), (name, words)
            assert (getattr(nn.functional, name)(x, 2, **words).numpy() == want.astype(kind)).all(), (name, words)
