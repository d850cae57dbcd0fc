"""What people type after a tutorial of torch, run by both: the same values, shapes, element types, texts, and an error
of the same class where torch gives one. Each case is a few lines that leave a result in `r`."""
import contextlib
import importlib
import io
import math

import numpy as np
import pytest
from peer import torch

import shoal

CASES = """
x = torch.zeros(2, 3)
r = [torch.cat([x, torch.ones(1, 3, dtype=torch.int64)]), torch.cat((x, torch.ones(2, 1)), dim=-1)]

a, b, c = torch.ones(1), torch.tensor(1.5, dtype=torch.float64), torch.ones(2, dtype=torch.int32)
r = [a + b, b * a, a < b, c + torch.tensor(1), c / b, c * b, torch.maximum(a, b), torch.tensor(True) + c,
     torch.where(a > 0, a, b), b - torch.tensor(1), torch.ones(2, dtype=torch.bfloat16) / b, c // torch.tensor(2)]
r += [str(torch.result_type(a, b)).split(".")[1], str(torch.result_type(c, b)).split(".")[1]]

x = torch.zeros(3)
x += torch.tensor(2.0, dtype=torch.float64)
x[0] *= torch.tensor(2)
r = x

a, b = torch.tensor([7, -7, 7, -7]), torch.tensor([2, 2, -2, -2])
r = [a // b, a % b, torch.fmod(a, b), torch.div(a, b, rounding_mode="trunc"), a / b, -7 // b, 7 % b, (a / 2) // b]

torch.tensor([1, 2]) // 0

torch.tensor([1, 2]) % 0

r = [torch.tensor([1.0, -2.0]) // 0, torch.tensor([1.0]) % 0]

torch.arange(0, 5, -1)

torch.arange(6.0)[1.5]

torch.tensor([1, "a"])

torch.zeros(2, 3).sum(dim=7)

f, i = torch.finfo(torch.float32), torch.iinfo(torch.int8)
print(f, i, f.eps, i.max)

g = torch.Generator().manual_seed(5)
a = torch.randn(3, generator=g)
r = [torch.equal(a, torch.randn(3, generator=torch.Generator().manual_seed(5))), g.initial_seed(),
     str(g.device) in ("cpu", "pool"), torch.randint(high=4, size=(2,)).shape]

from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
x = torch.arange(24.0).view(3, 4, 2)
p = pack_padded_sequence(x, [4, 2, 3], batch_first=True, enforce_sorted=False)
r = [p.data, p.batch_sizes, *pad_packed_sequence(p, batch_first=True), pad_sequence([torch.ones(2), torch.ones(3)])]

import torch.backends.cudnn as cudnn
from torch.autograd import Variable
from torch.autograd.functional import jacobian
from torch.cuda.amp import GradScaler
from torch.nn.parameter import Parameter
from torch.utils.checkpoint import checkpoint
cudnn.benchmark = True
x = Variable(torch.ones(2), requires_grad=True)
(Parameter(torch.full((2,), 3.0)) * x).sum().backward()
r = [torch.backends.cudnn.benchmark, x.grad, jacobian(lambda v: v * v, torch.tensor([1.0, 3.0]))]

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 2 * x * g
x = torch.tensor([1.0, 2.0], requires_grad=True)
Square.apply(x).sum().backward()
g, = torch.autograd.grad(Square.apply(x).sum(), x, create_graph=True)
r = [x.grad, g, torch.autograd.grad(g.sum(), x)]

optim.SGD([torch.ones(2) * nn.Parameter(torch.ones(2))], lr=1.0)

optim.SGD(torch.ones(2), lr=1.0)

m = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.ReLU()})
m.update({"d": nn.Dropout(0.1)})
r = [type(m.pop("b")).__name__, list(m), repr(m), m._get_name()]
m.clear()
r.append(len(m))

m = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
m.append(nn.ReLU()).insert(0, nn.Tanh())
r = [len(m), [type(x).__name__ for x in m[1:]], repr(nn.Sequential(nn.Tanh(), nn.Tanh()))]

m = nn.Linear(2, 2)
state = m.state_dict()
state["more"] = state.pop("bias")
missing, unexpected = m.load_state_dict(state, strict=False)
r = [missing, unexpected]

m = nn.Linear(2, 2)
m.load_state_dict({"weight": m.weight, "more": m.bias})

from torch.utils.data import DataLoader
r = list(DataLoader([(1, 1.5, "a"), (2, 2.5, "b")], batch_size=2)) + list(DataLoader([{"x": [1, 2.0]}], batch_size=1))

class M(nn.Module):
    def __init__(s):
        super().__init__()
        s.emb, s.out = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        s.out.weight = s.emb.weight
        s.register_buffer("mask", torch.tril(torch.ones(2, 2)))
        s.register_buffer("tmp", torch.zeros(1), persistent=False)
    def forward(s, x):
        return s.out(s.emb(x))
m = M()
with torch.no_grad():
    m.emb.weight.copy_(torch.arange(15.0).view(5, 3) / 10)
o = m(torch.tensor([[0, 1], [2, 3]]))
o.sum().backward()
r = [o, m.emb.weight.grad, list(m.state_dict()), [n for n, _ in m.named_parameters()]]

m, r = nn.Linear(2, 2), []
handles = [m.register_forward_hook(lambda mod, i, o: r.append(("forward", len(i), tuple(o.shape)))),
           m.register_forward_pre_hook(lambda mod, i: r.append(("before", len(i)))),
           m.register_full_backward_hook(lambda mod, gi, go: r.append(("backward", len(gi), tuple(go[0].shape))))]
m(torch.ones(1, 2, requires_grad=True)).sum().backward()
for h in handles:
    h.remove()
m(torch.ones(1, 2))

m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
for p in m.parameters():
    p.data.copy_(torch.linspace(-1, 1, p.numel()).view_as(p))
opt = optim.SGD(m.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)
sch = optim.lr_scheduler.OneCycleLR(opt, max_lr=0.5, total_steps=10)
x = torch.linspace(-1, 1, 30).view(10, 3)
r = []
for s in range(10):
    opt.zero_grad()
    loss = F.mse_loss(m(x), x.sum(1, keepdim=True))
    loss.backward()
    n = nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    opt.step()
    sch.step()
    r.append((loss.item(), n.item(), sch.get_last_lr(), opt.param_groups[0]["momentum"]))

w, v = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))
o = optim.Adam([{"params": [w], "lr": 0.1}, {"params": [v]}], lr=0.01, betas=(0.8, 0.9))
for g in o.param_groups:
    g["lr"] *= 0.5
for _ in range(3):
    o.zero_grad()
    ((w ** 2).sum() + v.sum()).backward()
    o.step()
import io
b = io.BytesIO()
torch.save({"o": o.state_dict(), "n": 3}, b)
b.seek(0)
o2 = optim.Adam([{"params": [w]}, {"params": [v]}], lr=1.0)
o2.load_state_dict(torch.load(b)["o"])
o2.step()
r = [w, v, [g["lr"] for g in o2.param_groups]]

x = torch.arange(6.0).reshape(2, 3)
y = x.t()
y += torch.arange(2.0)
x[x > 4] = torch.tensor([9.0, 8.0])
y[0].mul_(10)
r = [x, y, x[..., None].shape, x[None, :, 1:], x[torch.tensor([1, 0]), torch.tensor([0, 2])]]

x = torch.zeros(2, 3)
x[x == 0] = torch.tensor([9.0, 8.0])

x = torch.zeros(3)
x += torch.ones(2, 3)

x = torch.ones(3, dtype=torch.int64)
x += 0.5

x = torch.zeros(4, requires_grad=True)
x[0] = 1

x = torch.zeros(3, 5)
at, of = torch.tensor([[0, 1, 2, 0, 0]]), torch.arange(5.0).reshape(1, 5)
r = [x.scatter_reduce(0, at, of, reduce="sum"), x.scatter_reduce(1, at, of, reduce="amax", include_self=False),
     x.scatter_reduce(1, at, of, reduce="mean"), x.scatter_(0, at, of), of.unfold(1, 3, 2)]

torch.zeros(3, 5).scatter_reduce(0, torch.tensor([[0]]), torch.ones(1, 1), reduce="median")

x = torch.arange(10)
r = [x.split(3), x.split([2, 3, 5]), x.chunk(3), x.chunk(20), x.tensor_split(3), [t for t in x.reshape(5, 2)],
     torch.where(x > 7), 3 in x, len(x)]

torch.arange(10).split([2, 3])

torch.stack([torch.zeros(2), torch.zeros(3)])

torch.zeros(2).item()

bool(torch.zeros(2))

[t for t in torch.tensor(3)]

1 < torch.tensor([1, 2]) < 3

with torch.autocast("cpu", dtype=torch.bfloat16):
    o = nn.Linear(2, 2)(torch.ones(1, 2))
    r = [str(o.dtype), str(o.float().exp().dtype)]

x = torch.zeros(2, dtype=torch.float64, requires_grad=True)
r = [x.new_zeros(3), x.new_ones(2, 2, dtype=torch.int32), x.new_tensor([1, 2]), x.type_as(torch.zeros(1)),
     torch.full_like(x, 2.5, dtype=torch.int64), torch.ones_like(x, requires_grad=True)]

x = torch.arange(12.0).view(3, 4)
r = [x[(0, 1), (1, 2)], x[:, (0, -1)], x[torch.tensor(1)], x[None, 0], x[[True, False, True]], x[2:1]]

x = torch.arange(24.0).view(2, 3, 4)
r = [F.softmax(x), F.log_softmax(x[0]), F.softmin(x[0, 0]), nn.Softmax()(x.view(1, 2, 3, 4)), F.softmax(x, -1)]

r = [torch.Tensor([1, 2]), torch.Tensor(2, 3).shape, torch.FloatTensor([[1, 2]]), torch.LongTensor([1, 2]),
     torch.LongTensor(2).dtype == torch.int64, torch.ones(1).type(torch.DoubleTensor), torch.Tensor().shape,
     isinstance(torch.ones(1), torch.Tensor), torch.ByteTensor([3])]

loss = torch.tensor(0.5, requires_grad=True)
print(f"loss {loss} {loss:.3f} {loss * 2} {torch.tensor(3)} {torch.tensor([1.5])} {torch.tensor(True)}", loss.detach())
print("{} {:>6}".format(loss, torch.tensor(3)), "%s %.2f" % (torch.tensor([1]), loss))

q = torch.linspace(-1, 1, 24).view(2, 4, 3)
mask = torch.tril(torch.ones(4, 4)).bool()
r = [(q @ q.transpose(-2, -1) / math.sqrt(3)).masked_fill(~mask, float("-inf")).softmax(-1) @ q,
     torch.einsum("bij,bkj->bik", q, q), q.unflatten(1, (2, 2)).permute(0, 2, 1, 3).flatten(1)]

x = torch.tensor([[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]])
for made in (x.max(1), x.min(dim=0), x.sort(1), x.topk(2), x.median(1), x.kthvalue(2), x.cummax(0), x.aminmax(dim=1)):
    print(str(made).partition(".")[2])
r = [type(x.max(1)).__name__, type(x.sort()).__name__, tuple(x.mode(1))]

x = torch.arange(6).reshape(2, 3).t()
r = [x.view(3, 1, 2), x.reshape(6), x[1:].view(2, 2, 1), x.contiguous().view(-1)]

torch.arange(6).reshape(2, 3).t().view(6)

torch.arange(12).reshape(3, 4)[:, :2].view(-1)

torch.arange(3).expand(2, 3).view(6)

r = nn.BCELoss()(torch.tensor([1.5]), torch.tensor([1.0])).item()

r = nn.BCELoss()(torch.tensor([float("nan")]), torch.tensor([1.0])).item()

r = [F.binary_cross_entropy(torch.tensor([0.0, 1.0, 0.3]), torch.tensor([0.0, 1.0, 1.0]))]

r = F.one_hot(torch.tensor([1, 3]), 3).tolist()

r = F.one_hot(torch.tensor([1, -1]), 3).tolist()

p = torch.tensor([0,1,2,1,0,2]); t = torch.tensor([0,1,1,1,0,2])
cm = torch.zeros(3,3,dtype=torch.long)
for a,b in zip(p,t): cm[a,b] += 1
acc = (p==t).float().mean()
print(cm, acc, cm.diag()/cm.sum(0))
r = [cm, torch.bincount(3*t+p, minlength=9).view(3,3), acc]

pts = torch.tensor([[0.,0],[0,1],[9,9],[9,8],[1,0]]); c = pts[[0,2]].clone()
for _ in range(5):
    d = torch.cdist(pts, c); lab = d.argmin(dim=1)
    for k in range(2): c[k] = pts[lab==k].mean(0)
print(lab, c); r=[lab,c]

M = torch.tensor([[0,.5,0],[1,0,1],[0,.5,0]]); v = torch.full((3,),1/3)
for i in range(50):
    nv = 0.85*M@v + 0.15/3
    if torch.norm(nv-v, p=1) < 1e-6: break
    v = nv
print(i, v); r = v

g = torch.zeros(1,1,6,6); g[0,0,1,2]=g[0,0,2,3]=1; g[0,0,3,1:4]=1
k = torch.ones(1,1,3,3); k[0,0,1,1]=0
for _ in range(4):
    n = F.conv2d(g,k,padding=1); g = ((n==3)|((g==1)&(n==2))).float()
print(g[0,0].int()); r = g

r = nn.Linear(2,3).load_state_dict({"weight": torch.ones(3,2), "extra": torch.ones(1)}, strict=False)
print(r); r=None

w = torch.tensor([5.0, -3.0], requires_grad=True); o = optim.SGD([w], lr=0.1, momentum=0.9, nesterov=True)
s = optim.lr_scheduler.CosineAnnealingLR(o, 10)
h=[]
for e in range(10):
    o.zero_grad(set_to_none=True); l = (w**2).sum(); l.backward(); n = nn.utils.clip_grad_norm_([w], 1.0)
    o.step(); s.step(); h.append((round(l.item(),4), round(float(n),4), round(o.param_groups[0]["lr"],6)))
print(h, w); r = w.detach()

q = torch.arange(12.).view(1,3,4)/10; mask = torch.triu(torch.ones(3,3), diagonal=1).bool()
a = (q@q.transpose(-2,-1)/math.sqrt(4)).masked_fill(mask, float("-inf")).softmax(-1)
print(a); r = a@q

lg = torch.tensor([[1.,2,3],[3,2,1]]); y = torch.tensor([2,0])
oh = torch.zeros(2,3).scatter_(1, y.unsqueeze(1), 1); nll = -(lg.log_softmax(1)).gather(1,y[:,None]).mean()
print(oh, nll, F.cross_entropy(lg,y,label_smoothing=0.1)); r=[oh,nll]

x = torch.arange(10); print(x.unfold(0,3,2), F.unfold(torch.arange(16.).view(1,1,4,4),2,stride=2))
r = x.unfold(0,3,2).sum(1)

t = torch.arange(6).view(3,2); a,b,c = t
print(a, [i.item() for i in t.flatten()], len(t), 4 in t, t.tolist()); (p,q) = torch.split(t,[1,2])
r=[a+b, p, q, *t.unbind(1)]

torch.cat([torch.ones(2,3), torch.ones(3,2)])

nn.Linear(3,2)(torch.ones(2,4))

w = torch.ones(2, requires_grad=True); l=(w*w).sum(); l.backward(); l.backward()

torch.ones(3).item()

a = torch.tensor([1,2,3])
print(a.repeat(2,2), a.repeat_interleave(2), torch.tile(a,(2,)), torch.cartesian_prod(a,a[:2]), torch.combinations(a))
r = torch.meshgrid(a,a,indexing="ij")[0]

A=torch.arange(6.).view(2,3); B=torch.arange(12.).view(3,4)
r=[torch.einsum("ij,jk->ki",A,B), torch.tensordot(A,B,dims=1), torch.kron(A,torch.eye(2)), torch.einsum("...j->...",A)]

m = nn.Sequential(nn.Linear(2,2), nn.Linear(2,1)); 
for p in m[0].parameters(): p.requires_grad_(False)
print([p.requires_grad for p in m.parameters()]); outs=[]
h = m[0].register_forward_hook(lambda mod,i,o: outs.append(o.shape)); m(torch.ones(3,2)); h.remove()
m(torch.ones(3,2)); print(outs, m[0].weight.grad); r=None

import copy
a=torch.ones(2); b=a; c=copy.deepcopy(a); b+=1
print(a is b, a, c, torch.equal(a,b), torch.allclose(c,c+1e-9), (a==b).all()); r=None

from torch.utils.data import TensorDataset, DataLoader, random_split, Subset
ds = TensorDataset(torch.arange(10.).view(5,2), torch.arange(5)); dl = DataLoader(ds, batch_size=2, drop_last=False)
for i,(x,y) in enumerate(dl): print(i,x,y)
print(len(ds), len(dl), ds[1], len(random_split(ds,[3,2])[0])); r=None

w=torch.zeros(1,requires_grad=True)
for i in range(4):
    ((w-i)**2/4).sum().backward()
with torch.no_grad(): w -= 0.1*w.grad; w.grad.zero_()
print(w, w.grad); r=None

w = nn.Parameter(torch.ones(2)); o = torch.optim.SGD([{"params": [w], "name": "head"}], lr=1.0); S = torch.optim.lr_scheduler
a, b = S.StepLR(o, 2, 0.1), S.ExponentialLR(o, 0.9)
r = []
for _ in range(5): o.step(); a.step(); b.step(); r += [o.param_groups[0]["lr"], a.get_last_lr(), b.get_last_lr()]
o.param_groups[0]["lr"] = 0.5
for _ in range(3): o.step(); a.step(); r += [o.param_groups[0]["lr"]]

r = []
for make in (lambda o, S: [S.LinearLR(o, 0.1, total_iters=3), S.CosineAnnealingLR(o, 4, 0.01)],
             lambda o, S: [S.ChainedScheduler([S.ConstantLR(o, 0.5, 2), S.MultiStepLR(o, [1, 3])])],
             lambda o, S: [S.MultiplicativeLR(o, lambda n: 0.9), S.PolynomialLR(o, 4, 2.0)],
             lambda o, S: [S.SequentialLR(o, [S.LinearLR(o, 0.1, total_iters=2), S.StepLR(o, 1)], [2])]):
    o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0); s = make(o, torch.optim.lr_scheduler)
    for _ in range(4):
        o.step()
        for one in s: one.step()
        r.append(o.param_groups[0]["lr"])

w = nn.Parameter(torch.ones(2)); o = torch.optim.Adam([w], 0.1); s = torch.optim.lr_scheduler.StepLR(o, 2)
for _ in range(3): o.step(); s.step()
q = torch.optim.lr_scheduler.StepLR(torch.optim.Adam([w], 0.1), 7, 0.3); q.load_state_dict(s.state_dict())
r = [q.last_epoch, q.step_size, q.gamma, q.get_last_lr(), q.optimizer.param_groups[0]["lr"]]

x = torch.ones(2, requires_grad=True); (x * float("nan")).sum().backward()
o = torch.optim.SGD([x], lr=0.1); o.zero_grad(set_to_none=False); r = x.grad

x = torch.zeros(3, requires_grad=True); (x.std() + x.norm() + torch.std_mean(x)[0]).backward(); r = x.grad

m = nn.Sequential(); m.add_module("fc", nn.Linear(2, 2)); m.append(nn.ReLU()); print(m[:1], m, len(m[1:]))
class Scaled(nn.Module):
    def __init__(self): super().__init__(); self.f = nn.Linear(1, 1)
    def extra_repr(self): return "n=3"
print(Scaled(), nn.Unflatten(1, (2, 3)), nn.CosineSimilarity(), nn.AvgPool2d(2), nn.LocalResponseNorm(2))

m = nn.Linear(1, 1); m.register_buffer("weight", torch.ones(1))

m = nn.Linear(1, 1); m.register_buffer("a.b", torch.ones(1))

nn.Sequential(nn.Linear(1, 1), 3)

nn.Conv2d(1, 1, 3, padding="bad")

F.max_pool2d(torch.ones(1, 1, 4, 4), 0)

F.relu([1, 2])

nn.Linear(2, 2)([[1.0, 2.0]])

F.nll_loss(torch.zeros(4, 3), torch.tensor([1, 2]))

torch.outer(torch.ones(2, 2), torch.ones(2))

torch.linalg.solve(torch.eye(3), torch.ones(4))

x = torch.zeros(2); x[0] = "a"

class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b): return a + b
    @staticmethod
    def backward(ctx, g): return g
Wrong.apply(torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)).backward()

x = torch.ones(2, requires_grad=True)
r = torch.autograd.grad((x ** 3).sum(), x, create_graph=True, retain_graph=True, only_inputs=True)

print(torch.zeros(3, 40), torch.arange(12.).view(3, 4) / 7, torch.zeros(30))
x = torch.arange(8.0) * 1.111111; x.requires_grad_(); print(x, nn.Parameter(x))
r = torch.get_num_threads() > 0, torch.version.cuda is None or True

from torch.utils.checkpoint import checkpoint
from torch.nn.modules.module import Module
from torch.nn.modules.loss import CrossEntropyLoss
r = [checkpoint(lambda t: t * 2, torch.ones(1, requires_grad=True)).detach(), Module is nn.Module]

x = torch.arange(24).reshape(2, 3, 4)
r = [x[0, :, [1, 2]], x[torch.tensor(1), :, torch.tensor([1, 0])], x[:, [0, 2], 1], x[[1, 0], :, 2], x[1, [0, 2], 3]]
x[0, :, [1, 2]] = torch.arange(6).reshape(3, 2)
x[[0], None, 1, [3]] = -1
y = torch.zeros(2, 3, 4, 5)
y[1, :, [0, 2]] += torch.arange(30.0).reshape(3, 2, 5)
r += [x, y, y[0, :, [1, 2], 0], y[[1, 0], None, 1, [1, 2]], y[:, [1, 0], 1, [1, 2]], y[..., 0, [1, 1]], y[0, ..., [3]]]

opt = optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
schedule = optim.lr_scheduler.StepLR(opt, 2.0, gamma=0.5)
r = []
for step in range(4):
    opt.step()
    schedule.step()
    r.append(schedule.get_last_lr())

a, b = torch.arange(6.0).view(2, 3), torch.arange(12.0).view(3, 4)
r = [torch.einsum(a, [0, 1], b, [1, 2], [0, 2]), torch.einsum(a, [0, 1], b, [1, 2]), torch.einsum(a, [30, 1]),
     torch.einsum(a, [..., 0], b, [0, 1], [..., 1]), torch.einsum(a, (1, 0), (0, 1)), torch.einsum(a, [0, 1], [])]

torch.einsum(torch.ones(2), [52])

a = torch.tensor([100, 27, 3, 0], dtype=torch.uint8)
r = [a.abs(), abs(a), -a, torch.gcd(a, a + 5), torch.lcm(a[1:], a[1:]), 0 - a]

x, z = torch.arange(6.0).view(2, 3), torch.tensor(5.0)
r = [x[True], x[False], x[torch.tensor(True)], z[torch.tensor(False)], z[z > 3], z[z > 9]]
z[z > 3] = 1
x[x.sum() > 100] = 7
x[torch.tensor(True)] += 1
x[False] = 9
r += [x, z]

table = torch.arange(15.0).view(5, 3)
bag = nn.EmbeddingBag.from_pretrained(table, mode="sum")
r = [bag(torch.tensor([1, 2, 4]), torch.tensor([0, 2])), bag.weight.requires_grad,
     nn.EmbeddingBag.from_pretrained(table, freeze=False, mode="max")(torch.tensor([[1, 2]])).detach()]

r = [torch.tensor([3.0, 1.0, 3.0], dtype=torch.bfloat16).unique()]

x = torch.tensor([-1.0, 4.0], requires_grad=True)
torch.sqrt(x).sum().backward()
with torch.autograd.set_detect_anomaly(True):
    torch.sqrt(x[1:]).sum().backward()
with torch.autograd.detect_anomaly(check_nan=False):
    torch.sqrt(x).sum().backward()
torch.sqrt(x).sum().backward()
torch.autograd.set_detect_anomaly(False)
r = x.grad

x = torch.tensor([-1.0, 4.0], requires_grad=True)
with torch.autograd.detect_anomaly():
    torch.sqrt(x).sum().backward()

from torch.optim.lr_scheduler import _LRScheduler
class Warmup(_LRScheduler):
    def __init__(self, optimizer, steps, last_epoch=-1):
        self.steps = steps
        super().__init__(optimizer, last_epoch)
    def get_lr(self):
        if self.last_epoch >= self.steps:
            return [group["lr"] * 0.5 for group in self.optimizer.param_groups]
        return [base * (self.last_epoch + 1) / self.steps for base in self.base_lrs]
o = optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
s, r = Warmup(o, 3), []
for step in range(5):
    o.step()
    s.step()
    r += s.get_last_lr()

x = torch.arange(12.0).view(3, 4)
x.as_strided((2, 2), (4, 1)).fill_(9)
x.as_strided((2,), (5,), 1)[1] = -1
part = x.as_strided((3,), (4,))
x[0, 0] = 7
bits = x.view(torch.int32)
bits[0, 3] = 0
bits[1] &= 0x7F000000
halves = x[2:].view(torch.float16)
halves[0, 1] = 1.5
r = [x, part, x.view(torch.int64).shape, bits.stride(), part.stride(), bits.tolist()]
"""
CASES = [case.strip("\n") for case in CASES.split("\n\n") if case.strip()]


def plain(value, library):
    """A value as what can be compared: tensors as element type, shape, elements, whether they want gradients."""
    if isinstance(value, library.Tensor):
        kind = str(value.dtype).rpartition(".")[2]
        elements = value.detach().float() if kind == "bfloat16" else value.detach()
        return kind, tuple(value.shape), np.array(elements.tolist(), "float64"), value.requires_grad
    if isinstance(value, dict):
        return {key: plain(v, library) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return isinstance(value, list), [plain(v, library) for v in value]
    return value.replace("shoal", "torch") if isinstance(value, str) else value


def equal(a, b):
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and np.allclose(a, b, 2e-5, 2e-6, equal_nan=True)
    if isinstance(a, (tuple, list)) and type(a) is type(b) and len(a) == len(b):
        return all(map(equal, a, b))
    if isinstance(a, dict) and type(b) is dict and list(a) == list(b):
        return all(map(equal, a.values(), b.values()))
    if type(a) is float is type(b):
        return math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-7)  # losses after ten steps of AdamW, rate 0.5
    return type(a) is type(b) and a == b


def outcome(case, library):
    """(result, what was printed), or the error."""
    name = library.__name__
    space = {"torch": library, "nn": library.nn, "F": library.nn.functional, "optim": library.optim, "math": math}
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(case.replace("import torch.", f"import {name}.").replace("from torch", f"from {name}"), space)
        return plain((space.get("r"), printed.getvalue()), library)
    except Exception as error:  # compared below
        return error


@pytest.mark.parametrize("case", CASES, ids=[case.splitlines()[-1][:40] for case in CASES])
def test_idiom(case):
    importlib.import_module("torch.backends.cudnn")
    want, got = outcome(case, torch), outcome(case, shoal)
    if isinstance(want, Exception):
        assert isinstance(got, type(want)), f"torch: {want!r}; here: {got!r}"
        assert len(str(got)) > 10
    else:
        assert equal(want, got), f"torch: {want!r}\nhere: {got!r}"


def test_moved_modules_are_those_here():
    from shoal import moved
    for name, (path, own) in moved.MOVED.items():
        found = importlib.import_module(f"shoal.{name}")
        home = importlib.import_module(f"shoal.{path}")
        assert found is (home if own is None else getattr(home, own)), name
        importlib.import_module(f"torch.{name}")
    with pytest.raises(ModuleNotFoundError, match="shoal.nn.utils.nonsense"):
        importlib.import_module("shoal.nn.utils.nonsense")
