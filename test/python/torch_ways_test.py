"""Where GT2 means another thing than torch does, a program that never imports `gt` has torch's: the same lines under
torch and under Shoal. Importing `gt` changes tensors, all of the process; and of modules those of `gt.nn` alone."""
import subprocess
import sys
import textwrap

import pytest
from peer import torch

import shoal

CASES = {
    "T reverses all axes": """
        x = torch.arange(24.0).reshape(2, 3, 4)
        r = [list(x.T.shape), x.T[3, 2, 1].item(), list(torch.zeros(3).T.shape), list(x.mT.shape)]
    """,
    "gradients of results are None": """
        a = torch.tensor([1.0, 2.0], requires_grad=True)
        b = a * 3
        c = b.reshape(2)[0] + b.sum() + b.T.mean()
        c.backward()
        r = [b.grad is None, c.grad is None, a.grad.tolist(), b.is_leaf, a.is_leaf]
    """,
    "unless they are retained": """
        a = torch.tensor([1.0, 2.0], requires_grad=True)
        b = a * 3
        b.retain_grad()
        b.sum().backward()
        r = b.grad.tolist()
    """,
    "a parameter changed outside of no_grad": """
        p = torch.tensor([1.0, 2.0], requires_grad=True)
        (p * p).sum().backward()
        p -= 0.1 * p.grad
    """,
    "a parameter filled outside of no_grad": """
        torch.nn.Linear(2, 2).weight.fill_(0)
    """,
    "a parameter changed in no_grad is the same one": """
        p = torch.tensor([1.0, 2.0], requires_grad=True)
        (p * p).sum().backward()
        q = p
        with torch.no_grad():
            p -= 0.5 * p.grad
        r = [q is p, p.tolist(), p.requires_grad, p.is_leaf]
    """,
    "tensors have no number of GT2's": """
        torch.zeros(2).id
    """,
    "split": """
        x = torch.arange(7)
        r = [[part.tolist() for part in parts] for parts in (
            x.split(3), x.split([1, 6]), x.split(split_size=4), torch.split(x, 2, dim=0))]
    """,
    "split has no axis but dim": """
        r = [list(part.shape) for part in torch.zeros(4, 6).split(3, dim=1)]
    """,
    "mean as a type": """
        r = [torch.arange(4).mean(dtype=torch.float32).item(), torch.ones(2, 3).mean(1).tolist(),
             torch.ones(2, 3).mean(dim=(0, 1), keepdim=True).tolist()]
    """,
    "parameters come one after another": """
        m = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1, bias=False))
        found = m.parameters()
        r = [iter(found) is found, [list(p.shape) for p in found], list(found)]
    """,
    "parameters have no length": """
        len(torch.nn.Linear(2, 3).parameters())
    """,
    "a tensor is no parameter": """
        torch.nn.Linear(2, 3).weight = torch.zeros(3, 2)
    """,
    "a weight is (out, in)": """
        r = list(torch.nn.Linear(2, 3).weight.shape)
    """,
    "element types": """
        x = torch.zeros(2)
        r = [x.dtype == torch.float32, x.dtype is torch.float32, x.dtype != torch.float64, x.dtype == torch.float,
             str(x.dtype).split(".")[1], x.dtype in (torch.int64, torch.float32), {torch.float32: 1}[x.dtype]]
    """,
}


def outcome(module, lines):
    names = {"torch": module}
    try:
        exec(textwrap.dedent(lines), names)
    except Exception as error:
        return type(error)
    return names["r"]


@pytest.mark.parametrize("case", CASES)
def test_as_in_torch(case):
    theirs, ours = outcome(torch, CASES[case]), outcome(shoal, CASES[case])
    if isinstance(theirs, type):
        assert isinstance(ours, type) and issubclass(ours, theirs), ours
    else:
        assert ours == theirs


def ran(lines):
    """What a program prints that has a process of its own, as `gt` changes the one where it is imported."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(lines)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_what_importing_gt_changes():
    """Tensors, by whichever package they are made, from then on; no module but those of gt.nn."""
    assert ran("""
        import shoal
        from shoal import nn
        before, cube = shoal.zeros(2), shoal.zeros(2, 3, 4)
        model = nn.Linear(2, 3)
        import gt
        print(type(before).__name__, type(shoal.zeros(2)) is gt.Tensor)
        print(list(cube.T.shape), list(shoal.zeros(2, 3, 4).T.shape))
        p = shoal.ones(2, requires_grad=True)
        q = p * 2
        q.sum().backward()
        print(q.grad.tolist())
        p -= 0.5 * p.grad
        print(p.tolist(), p.is_leaf)
        found = model.parameters()
        print(iter(found) is found, list(model.weight.shape), type(nn.Linear(2, 3).parameters()).__name__)
        print(type(gt.zeros(2)) is gt.Tensor)  # what gt makes first begins a pool in the place of shoal's
        print(type(gt.nn.Linear(2, 3).parameters()).__name__, list(gt.nn.Linear(2, 3).weight.shape))
    """) == ["Tensor True", "[4, 3, 2] [2, 4, 3]", "[1.0, 1.0]", "[0.0, 0.0] True",
             "True [3, 2] generator", "True", "list [2, 3]"]


def test_shoal_imports_no_gt():
    assert ran("""
        import sys
        import shoal, shoal.nn, shoal.optim, shoal.functional, shoal.utils.data, shoal.signal, shoal.linalg
        print([name for name in sys.modules if name.split(".")[0] == "gt"])
    """) == ["[]"]
