"""vmap, the derivatives of functions and autocast against torch: as its tutorials use them."""
import numpy as np
import pytest
from peer import numpy_of, torch, torch_of

import shoal
from shoal import nn
from shoal.func import functional_call, grad, jacrev, jvp, stack_module_state, vjp, vmap

RNG = np.random.default_rng(7)
X, Y = (RNG.standard_normal((6, 5)).astype("float32") for _ in range(2))
AT = torch.autograd.functional


def close(got, want):
    np.testing.assert_allclose(got.detach().numpy(), want if isinstance(want, np.ndarray) else numpy_of(want),
                               rtol=1e-4, atol=1e-5)


def test_vmap():
    x, y = shoal.tensor(X), shoal.tensor(Y)
    close(vmap(shoal.dot)(x, y), (X * Y).sum(1))
    close(shoal.vmap(vmap(shoal.dot))(x.reshape(2, 3, 5), y.reshape(2, 3, 5)), (X * Y).sum(1).reshape(2, 3))
    close(vmap(lambda a, b: a @ b, in_dims=(0, None))(x, y.T), X @ Y.T)
    close(vmap(lambda a: a * 2, in_dims=1, out_dims=1)(x), X * 2)
    close(vmap(lambda d, s: d["a"] * d["b"][0] + s)({"a": x, "b": (y,)}, shoal.arange(6.0)),
          X * Y + np.arange(6)[:, None])
    close(vmap(lambda d, z: d["a"] + z, in_dims=({"a": 0}, None))({"a": x}, y[0]), X + Y[0])
    sums = vmap(lambda a: {"sum": a.sum(), "all": (a, a + 1)})(x)
    close(sums["all"][1], X + 1)
    for wrong in (lambda: vmap(shoal.dot)(x, y[:3]), lambda: vmap(shoal.dot, in_dims=(0,))(x, y)):
        with pytest.raises(shoal.InvalidError, match="vmap"):
            wrong()


def test_what_nothing_depends_on():
    x = shoal.tensor(X)
    close(grad(lambda a, b: (a * 2).sum(), argnums=(0, 1))(x, x)[1], X * 0)
    close(grad(lambda a: shoal.ones(()))(x), X * 0)


def test_models_over_vmap():
    models = [nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1)) for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    together = vmap(lambda p, b: functional_call(models[0], {**p, **b}, (shoal.tensor(X),)))(parameters, buffers)
    close(together, np.stack([m(shoal.tensor(X)).detach().numpy() for m in models]))
    one = {k: p.detach() for k, p in models[0].named_parameters()}

    def loss(p, x):
        return functional_call(models[0], p, (x.unsqueeze(0),)).pow(2).sum()
    each = vmap(grad(loss), in_dims=(None, 0))(one, shoal.tensor(X))
    for i in range(len(X)):
        models[0].zero_grad()
        models[0](shoal.tensor(X[i:i + 1])).pow(2).sum().backward()
        for name, p in models[0].named_parameters():
            close(each[name][i], p.grad.numpy())


def test_derivatives():
    def f(t):
        return lambda a: (a.sin() * a).cumsum(0)

    def g(t):
        return lambda a: (a.exp() * a).sum() * a.sum()
    x, v = X[0], Y[0]
    ours, theirs = shoal.tensor(x), torch_of(x)
    close(jacrev(f(shoal))(ours), AT.jacobian(f(torch), theirs))
    functional = shoal.autograd.functional
    close(functional.jacobian(f(shoal), ours), AT.jacobian(f(torch), theirs))
    close(functional.hessian(g(shoal), ours), AT.hessian(g(torch), theirs))
    close(functional.vjp(f(shoal), ours, shoal.tensor(v))[1], AT.vjp(f(torch), theirs, torch_of(v))[1])
    close(functional.jvp(f(shoal), ours, shoal.tensor(v))[1], AT.jvp(f(torch), theirs, torch_of(v))[1])
    close(functional.hvp(g(shoal), ours, shoal.tensor(v))[1], AT.hvp(g(torch), theirs, torch_of(v))[1])
    close(jvp(f(shoal), (ours,), (shoal.tensor(v),))[1], AT.jvp(f(torch), theirs, torch_of(v))[1])
    value, back = vjp(f(shoal), ours)
    close(back(shoal.tensor(v))[0], AT.vjp(f(torch), theirs, torch_of(v))[1])


def kinds(t, x, y):
    """The element types of what a program computes within autocast."""
    x, y = t(x), t(y)
    module = shoal if t is shoal.tensor else torch
    F = module.nn.functional
    with module.autocast("cpu", dtype=module.bfloat16):
        assert module.is_autocast_enabled() if module is shoal else True
        h = F.linear(x, y)
        made = [h, h.softmax(-1), F.cross_entropy(h, module.zeros(6, dtype=module.long)), F.mse_loss(h, x @ y.T),
                F.layer_norm(x, (5,)), module.einsum("ij,kj->ik", x, y), h + 1.0, h.sum(), x * y,
                module.addmm(module.zeros(6), x, y.T), x.reshape(2, 3, 5).bmm(y.reshape(2, 5, 3)),
                F.conv1d(x.unsqueeze(1), y[:2, :3].unsqueeze(1)), F.l1_loss(h, h * 2), F.kl_div(h, h.exp())]
    return [str(m.dtype).rpartition(".")[2] for m in made]


def test_autocast():
    assert kinds(shoal.tensor, X, Y) == kinds(torch_of, X, Y)
    assert not shoal.is_autocast_enabled()


def test_mixed_precision_trains():
    shoal.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = shoal.optim.SGD(model.parameters(), lr=0.05)
    scaler = shoal.cuda.amp.GradScaler(init_scale=2.0 ** 10)
    x, y = shoal.tensor(X), shoal.tensor(X.sum(1, keepdims=True))
    losses = []
    for step in range(30):
        optimizer.zero_grad()
        with shoal.cuda.amp.autocast() if step % 2 else shoal.autocast("cpu"):
            out = model(x)
            loss = nn.functional.mse_loss(out, y)
        assert out.dtype == ("float16" if step % 2 else "bfloat16") and loss.dtype == "float32"
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4 and all(p.dtype == "float32" for p in model.parameters())
