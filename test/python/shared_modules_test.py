"""Every module and function of torch.nn in the tables of shared_modules.py: results, running statistics and
gradients compared with torch's, in training and out of it. Prints how many names that covers."""
import inspect
import pathlib
import sys
import warnings
import zlib

import numpy as np
import pytest
from peer import numpy_of, torch, torch_of
from shared_modules import ELSEWHERE, FUNCTIONS, MODULES, MODULES_OUT_OF_SCOPE

import shoal

warnings.filterwarnings("ignore")
COVERED = {"nn": set(), "functional": set()}


class Drawn:
    """The inputs that calls name, the same ones for both; what gradients are wanted of is kept."""

    def __init__(self, module, make, seed):
        self.module, self.make, self.rng, self.leaves = module, make, np.random.default_rng(seed), []

    def leaf(self, array):
        leaf = self.make(array.astype("float32")).requires_grad_()
        self.leaves.append(leaf)
        return leaf

    def names(self):
        rng, make = self.rng, self.make

        def changed(x, name, *args):
            made = getattr(self.module.nn.functional, name + "_")(x, *args)
            return made, x
        return {
            "X": lambda *s: self.leaf(rng.uniform(-3, 3, s)), "P": lambda *s: self.leaf(rng.uniform(0.1, 3, s)),
            "K": lambda n, *s: make(rng.integers(0, n, s)), "K1": lambda n, *s: make(rng.integers(1, n, s)),
            "S": lambda *s: make(rng.choice([-1.0, 1.0], s).astype("float32")),
            "L": lambda n, m: make(np.array([[2, 0, -1, 1], [3, -1, 0, 0]])[:n, :m]),
            "T": lambda *s: self.leaf(rng.uniform(-3, 3, s)).log_softmax(-1), "M": lambda *n: make(np.array(n)),
            "F": self.module.nn.functional, "W": changed, "t": self.module}

    def gradients(self, made):
        """The gradients of a weighted sum of all results with respect to the leaves."""
        parts = [p for p in flat(made) if p.requires_grad]
        if not parts:
            return []
        weights = [np.random.default_rng(i).uniform(0.5, 1.5, tuple(p.shape)).astype("float32")
                   for i, p in enumerate(parts)]
        total = sum((p * self.make(w)).sum() for p, w in zip(parts, weights))
        total.backward()
        return [leaf.grad for leaf in self.leaves]


def flat(made):
    if isinstance(made, (shoal.Tensor, torch.Tensor)):
        return [made]
    return [p for part in made if part is not None for p in flat(part)] if isinstance(made, (tuple, list)) else []


def close(got, want, what, bound=1e-4):
    if want is None or got is None:
        left = got if want is None else want
        array = np.zeros(1) if left is None else left.detach().numpy() if want is None else numpy_of(left)
        assert not array.any(), f"{what}: {got} and {want}"  # torch may leave zeros out, or write them
        return
    assert tuple(got.shape) == tuple(want.shape) and got.dtype.name == str(want.dtype)[6:], (
        what, got.shape, want.shape, got.dtype, want.dtype)
    np.testing.assert_allclose(got.detach().numpy(), numpy_of(want), rtol=bound, atol=bound, err_msg=what)


def compare(what, mine, its, bound=1e-4):
    """The same call by both: results, then gradients."""
    seed = zlib.crc32(what.encode())
    theirs, ours = Drawn(torch, torch_of, seed), Drawn(shoal, shoal.tensor, seed)
    want, got = its(theirs), mine(ours)
    a, b = flat(want), flat(got)
    assert len(a) == len(b), what
    for w, g in zip(a, b):
        close(g, w, what, bound)
    for w, g in zip(theirs.gradients(want), ours.gradients(got)):
        close(g, w, f"{what}: gradient", 5 * bound)


@pytest.mark.parametrize("name", [n for n, rows in MODULES.items() if rows])
def test_module(name):
    for row in MODULES[name].split(";"):
        args, _, tensors = row.partition("|")
        make = f"nn.{name}({args.strip()})"

        def uniform(*shape):
            return np.random.default_rng(2).random(shape).astype("float32")
        theirs = eval(make, {"nn": torch.nn, "U": lambda *s: torch_of(uniform(*s))})
        ours = eval(make, {"nn": shoal.nn, "U": lambda *s: shoal.tensor(uniform(*s))})
        if name.startswith("Lazy"):  # they become what they are called like
            for module, drawn in ((theirs, Drawn(torch, torch_of, 3)), (ours, Drawn(shoal, shoal.tensor, 3))):
                optimizer = drawn.module.optim.SGD(module.parameters(), lr=0.1) if list(module.parameters()) else None
                before = list(module.parameters())
                module(eval(tensors, drawn.names())).sum().backward()
                assert type(module).__name__ == name[4:] and not any(p.grad is None for p in before)
                if optimizer is not None:
                    optimizer.step()
        state = theirs.state_dict()
        assert list(ours.state_dict()) == list(state), (name, list(ours.state_dict()), list(state))
        rng = np.random.default_rng(1)
        with torch.no_grad():
            for p in theirs.parameters():
                p.copy_(torch_of(rng.uniform(-1, 1, tuple(p.shape)).astype("float32")))
        ours.load_state_dict({k: numpy_of(v) for k, v in state.items()})
        for training in (True, False):
            theirs.train(training)
            ours.train(training)
            if training and name == "RReLU":
                continue

            def call(module, drawn):
                made = eval(f"({tensors.strip()},)", drawn.names())
                drawn.leaves += list(module.parameters())
                for p in module.parameters():
                    p.grad = None
                return module(*made)
            compare(f"{name}({args.strip()}) training={training}", lambda d: call(ours, d), lambda d: call(theirs, d))
            for key, want in theirs.state_dict().items():
                close(ours.state_dict()[key], want, f"{name}: {key}")
    COVERED["nn"].add(name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    for call in FUNCTIONS[name].split(";"):
        compare(call, lambda d: eval(call.strip(), d.names()), lambda d: eval(call.strip(), d.names()))
    COVERED["functional"].add(name)


def test_what_is_missing_has_a_reason():
    """The site's table of torch's names says why a name is not here."""
    sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))
    import site_pages
    known, left = site_pages.reasons(), []
    for place, (names, here) in site_pages.torch_names().items():
        left += [f"{place}.{n}" for n in names if not hasattr(here, n) and site_pages.why_not(n, known) is None]
    assert not left


def test_coverage():
    """Runs last."""
    reasons = {n for names in MODULES_OUT_OF_SCOPE.values() for n in names.split()}
    classes = [n for n in dir(torch.nn) if inspect.isclass(getattr(torch.nn, n))]
    functions = [n for n in dir(torch.nn.functional) if n[0].islower() and callable(getattr(torch.nn.functional, n))
                 and not inspect.isclass(getattr(torch.nn.functional, n))]
    modules = [n for n in classes if n in COVERED["nn"] or n in ELSEWHERE.split()]
    shared = [n for n in functions if n in COVERED["functional"]]
    print(f"nn: {len(classes)} names of torch, {len(modules)} compared, {len(reasons)} out of scope; "
          f"functional: {len(functions)}, {len(shared)} compared; not compared: "
          f"{sorted(set(functions) - set(shared))}")
    assert len(modules) >= 115 and len(shared) >= 100
    assert not set(classes) - set(modules) - reasons, set(classes) - set(modules) - reasons
