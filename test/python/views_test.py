"""Views, in-place changes, hooks, custom functions and what tensors print: the same program by torch and by
Shoal, whose output is compared line by line."""
import copy
import io
import sys
from contextlib import redirect_stdout

import pytest
from peer import torch

import shoal

# Each program prints with `say`; `torch` is either.
PROGRAMS = {
    "parts": """
a = torch.zeros(2, 3)
a[0].fill_(1); a.view(-1).add_(1); a.t()[2] = 7
say(a)
b = a[:, 1]; a.mul_(2); say(b); b.zero_(); say(a)
for row in a: row += 1
say(a)
left, right = torch.arange(6.).view(2, 3).chunk(2); left.add_(1); say(left, right)
p = torch.arange(12.).view(3, 4)
d = p.diagonal(); d.fill_(0); p[1:, ::2].mul_(-1); p[None, 2, ..., 0] = 5; p.movedim(0, 1)[3].sub_(1); say(p)
u, *_ = p.unbind(1); u.copy_(torch.tensor([1., 2., 3.])); say(p)
p.narrow(0, 1, 1).flatten()[1:3] = 9; p.select(1, 3).neg_(); say(p)
p.unflatten(1, (2, 2))[0, 1].fill_(4); p.squeeze().unsqueeze(0)[0, 0, 0] = 8; say(p)
""",
    "a view of a view": """
x = torch.arange(24.).reshape(2, 3, 4)
v = x[1]; w = v.t(); y = w[1:3]; z = y.reshape(6)
y.fill_(0); say(x); z.add_(1); say(x, z)
v.add_(10); say(w, y, x[1, 0])
x.zero_(); say(v, w, y)
del x; w[0] = 3; say(v, w, y)
""",
    "views of nothing": """
x = torch.ones(1); wide = x.expand(6, 3, 2)
none = wide[1::2, :, :0]; none.fill_(7); none += 1; say(x, none, none.shape)
taken = torch.take_along_dim(none, torch.zeros(3, 3, 0, dtype=torch.int64), 1); taken.zero_(); say(x, taken)
""",
    "detach and data": """
w = torch.nn.Parameter(torch.ones(3)); w.data.fill_(0); w.data[1] = 5; w.data.mul_(2); say(w, w.requires_grad)
x = torch.ones(3, requires_grad=True); y = x * 2; z = y.detach(); z.add_(1); say(y, z, y.requires_grad)
w.data = torch.tensor([7., 8., 9.]); say(w)
same = torch.nn.Parameter(w); say(same.is_leaf)
""",
    "gradients through changes": """
x = torch.ones(3, requires_grad=True); y = x * 2; y[0] = 5; y[1:].mul_(3); y.sum().backward(); say(x.grad)
x = torch.ones(2, 2, requires_grad=True); y = x.clone(); y.view(-1)[1:3].mul_(x.sum()); (y ** 2).sum().backward(); say(x.grad)
x = torch.tensor([3., 4.], requires_grad=True); y = torch.zeros(2, 2); y[0] = x; y[:, 1] += x; (y * y).sum().backward(); say(x.grad)
x = torch.ones(3, requires_grad=True)
for change in (lambda: x.add_(1), lambda: x[0].fill_(2), lambda: x.view(-1).mul_(2)):
    try:
        change(); say('changed')
    except RuntimeError:
        say('RuntimeError')
with torch.no_grad():
    x.add_(1); x[0] = 9
say(x, x.is_leaf)
""",
    "strides": """
v = torch.arange(6.).reshape(2, 3).t(); say(v.is_contiguous(), v.stride(), v.contiguous().stride())
p = torch.arange(12.).view(3, 4); q = p[1:, ::2]; say(q.stride(), q.storage_offset(), q.reshape(-1), q.expand(5, 2, 2).stride())
c = p.t().contiguous(); c.fill_(0); say(p); r = p.t().reshape(-1); r.zero_(); say(p)
r = p.reshape(2, 6); r.zero_(); say(p, p[:, 1].stride(), p.unfold(1, 2, 2).shape)
""",
    "other shapes in place": """
x = torch.arange(6.); v = x[2:4]
x.unsqueeze_(0); say(x.shape, v); v.fill_(9); say(x); x.squeeze_().unsqueeze_(1).t_(); say(x.shape); x.fill_(1); say(v)
x = torch.arange(6.).view(2, 3); x.transpose_(0, 1); x[0, 1] = 7; say(x)
""",
    "errors": """
for wrong in (lambda: torch.ones(2, 3) @ torch.ones(2, 3), lambda: torch.ones(2) + torch.ones(3), lambda: torch.ones(2).view(3),
              lambda: torch.cat([torch.ones(2, 2), torch.ones(2, 3)]), lambda: torch.zeros(2, 1).expand(2, 3).add_(1),
              lambda: torch.ones(2, dtype=torch.int64).add_(0.5), lambda: torch.ones(2).backward(),
              lambda: torch.ones(2).item(), lambda: bool(torch.ones(2)), lambda: torch.ones(2, dtype=torch.int64) ** -1,
              lambda: torch.nn.Linear(2, 3)(torch.ones(1, 3)), lambda: torch.ones(2).mm(torch.ones(2))):
    try:
        wrong(); say('none')
    except (RuntimeError, ValueError):
        say('error')
for wrong in (lambda: torch.ones(2)[2], lambda: torch.ones(2).sum(1), lambda: torch.ones(2, 3).transpose(0, 2),
              lambda: torch.ones(2).unsqueeze(5), lambda: torch.ones(0).max(0)):
    try:
        wrong(); say('none')
    except IndexError:
        say('IndexError')
""",
    "hooks": """
x = torch.tensor([1., 2., 3.], requires_grad=True)
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a); return a * a, a + 1
    @staticmethod
    def backward(ctx, g, h):
        a, = ctx.saved_tensors
        return g * 2 * a + h
h = x * 2
y, more = Square.apply(h)
handle = y.register_hook(lambda g: say('y', g))
z = y.sin() + x + more
z.register_hook(lambda g: g * 2); x.register_hook(lambda g: say('x', g)); y.retain_grad()
total = (z * y).sum(); say(total, y.is_leaf, y.requires_grad)
total.backward(retain_graph=True); say(x.grad, y.grad); handle.remove(); total.backward(); say(x.grad)
try:
    total.backward()
except RuntimeError:
    say('RuntimeError')
say(torch.autograd.gradcheck(lambda a: Square.apply(a)[0], (x.detach().double().requires_grad_(),)))
net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
with torch.no_grad():
    for p in net.parameters(): p.fill_(0.5)
net[0].register_forward_hook(lambda m, i, o: o * 2)
net[1].register_forward_pre_hook(lambda m, i: (i[0] + 1,))
net[0].register_full_backward_hook(lambda m, gi, go: say('in', gi, 'out', go))
a = torch.ones(1, 3, requires_grad=True); net(a).sum().backward(); say(a.grad, net[0].weight.grad)
""",
    "printing": """
for t in (torch.tensor([[1e-3, 2.5], [3, 1e4]]), torch.tensor([1e-5, 1.]), torch.tensor(3.), torch.tensor([True, False]),
          torch.tensor([1.5, float('nan'), float('inf')]), torch.zeros(0, 3), torch.tensor([]), torch.arange(30) * 1000,
          torch.arange(1200.).reshape(2, 600), torch.ones(2, 2, 2), torch.tensor([1e10, 1.]), torch.zeros(1, 1, 1001), torch.tensor(-7),
          torch.tensor([1., -2., 300.]), torch.tensor([0.1, -22.25]), torch.tensor([[1.0, 2.0]], requires_grad=True), torch.tensor([float('inf'), 1.0]),
          torch.tensor([1e-9, 0.0]), torch.full((3, 3), 123456789.0), torch.rand(0), torch.eye(40)):
    print(t)
print(f"{torch.tensor(0.5):.3f} {torch.tensor([1])}")
""",
}


def output(program, module):
    def shown(value):
        if hasattr(value, "detach"):
            return str(value.detach().tolist())
        if isinstance(value, tuple):
            return str(tuple(shown(v) for v in value))
        return str(value)
    text = io.StringIO()
    with redirect_stdout(text):
        exec(program, {"torch": module, "say": lambda *values: print(*(shown(v) for v in values))})
    return text.getvalue()


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_as_torch(name):
    want, got = output(PROGRAMS[name], torch), output(PROGRAMS[name], shoal)
    assert len(want) > 20 and got == want


def test_what_is_ours():
    x = shoal.zeros(2, 2)
    assert repr(x.shape) == "shoal.Size([2, 2])" and isinstance(x.shape, tuple) and x.shape.numel() == 4
    assert x.size == 4 and x.size() == (2, 2) and x.size(0) == 2 and str(x.dtype) == "shoal.float32"
    assert x.dtype == "float32" and x.dtype is shoal.float32 is shoal.float and x.dtype != shoal.float64
    import numpy as np
    assert x.dtype == np.dtype("float32") and x.dtype == np.float32 and np.dtype(x.dtype) == np.float32
    assert {x.dtype: 1}["float32"] == 1 and copy.deepcopy(x.dtype) == x.dtype
    array = np.zeros(3, "float32")
    held, shared = shoal.from_numpy(array), shoal.from_numpy(array, copy=False)
    array[0] = 5
    assert held.tolist() == [0, 0, 0] and shared.shape == (3,)
    assert shoal.device("cpu:1").index == 1 and shoal.device("cuda", 0) == "cuda:0"
    assert not shoal.cuda.is_available() and x.to(shoal.device("cpu")) is x and x.to(device="cpu", dtype=shoal.int8).dtype == "int8"
    model = shoal.nn.Linear(2, 3)
    assert model.to("cpu") is model.cpu() and model.to(dtype=shoal.float64).weight.dtype == "float64"
    fast = shoal.compile(shoal.nn.Linear(2, 3), mode="max-autotune")
    assert fast(x).shape == (2, 3) and len(list(fast.parameters())) == 2
    first, second = (subprocess_rand() for _ in range(2))
    assert first != second


def subprocess_rand():
    import subprocess
    return subprocess.run([sys.executable, "-c", "import shoal; print(shoal.rand(3).tolist())"],
                          capture_output=True, text=True, check=True).stdout
