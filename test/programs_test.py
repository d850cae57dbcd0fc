"""Programs as beginners write them, in test/programs: run by torch and by `import shoal as torch`, with one
worker and with two. What they note in `losses` has to agree.

Both take random numbers from the same NumPy generator, since they draw by different methods.
"""
import contextlib
import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "python"))
from peer import torch, torch_of  # noqa: E402

import shoal  # noqa: E402

PROGRAMS = sorted((pathlib.Path(__file__).parent / "programs").glob("*.py"))


def drawing(module, tensor_class, make, in_place):
    """Replacements for what draws random numbers: (object, name, function)."""
    rng = np.random.default_rng(12)

    def lengths(shape):
        return tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape

    def finished(array, dtype=None, device=None, requires_grad=False):
        made = make(array.astype("int64") if array.dtype.kind == "i" else array.astype("float32"))
        made = made if dtype is None else made.to(dtype)
        return made.requires_grad_() if requires_grad else made

    def randn(*shape, generator=None, **keywords):
        return finished(np.asarray(rng.standard_normal(lengths(shape))), **keywords)

    def rand(*shape, generator=None, **keywords):
        return finished(np.asarray(rng.random(lengths(shape))), **keywords)

    def randint(low, high=None, size=None, generator=None, **keywords):
        if size is None:
            low, high, size = 0, low, high
        return finished(rng.integers(low, high, tuple(size)), **keywords)

    def randperm(n, generator=None, **keywords):
        return finished(rng.permutation(n), **keywords)

    def uniform_(self, a=0.0, b=1.0, generator=None):
        return in_place(self, make(rng.uniform(a, b, tuple(self.shape)).astype("float32")))

    def normal_(self, mean=0.0, std=1.0, generator=None):
        return in_place(self, make((rng.standard_normal(tuple(self.shape)) * std + mean).astype("float32")))

    def like(draw):
        return lambda x, dtype=None, **keywords: draw(*x.shape, dtype=dtype or x.dtype)
    yield from ((module, "randn", randn), (module, "rand", rand), (module, "randint", randint),
                (module, "randperm", randperm), (module, "randn_like", like(randn)),
                (module, "rand_like", like(rand)), (tensor_class, "uniform_", uniform_),
                (tensor_class, "normal_", normal_))
    if module is torch:  # its sampler draws once more than it uses, its split by a name of its own
        yield torch.utils.data.dataset, "randperm", randperm
        yield (torch.utils.data.RandomSampler, "__iter__",
               lambda self: iter(randperm(len(self.data_source)).tolist()))
    if module is shoal:
        yield from ((shoal.nn.init, "uniform_", uniform_), (shoal.nn.init, "normal_", normal_),
                    (shoal.random, "randperm", randperm))


def written(tensor, value):
    with torch.no_grad():
        return tensor.copy_(value)


def written_here(tensor, value):
    with shoal.no_grad():
        return tensor.copy_(value)


# What `import torch` and its like find when Shoal stands for torch.
NAMES = {"torch": shoal, "torch.nn": shoal.nn, "torch.nn.functional": shoal.nn.functional,
         "torch.optim": shoal.optim, "torch.distributions": shoal.distributions,
         "torch.optim.lr_scheduler": shoal.optim.lr_scheduler, "torch.utils": shoal.utils, "torch.utils.data": shoal.utils.data,
         "torch.nn.utils": shoal.nn.utils, "torch.nn.utils.rnn": shoal.nn.utils.rnn}


def run(path, with_shoal):
    program = compile(path.read_text(), str(path), "exec")
    replaced = drawing(shoal, shoal.Tensor, shoal.tensor, written_here) if with_shoal else \
        drawing(torch, torch.Tensor, torch_of, written)
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for owner, name, function in replaced:
            patch.setattr(owner, name, function)
        if with_shoal:
            for name, module in NAMES.items():
                patch.setitem(sys.modules, name, module)
        names = {"__name__": "program"}
        exec(program, names)
    return np.array([float(n) for n in names["losses"]])


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def pool(request):
    shoal.init(workers=request.param)
    yield
    shoal.disconnect()


_wanted = {}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_the_same_losses(path, pool):
    if path not in _wanted:
        _wanted[path] = run(path, False)
    want, got = _wanted[path], run(path, True)
    assert len(want) >= 5 and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_there_are_twenty():
    assert len(PROGRAMS) >= 20
