"""Every name of Tensor that Shoal shares with torch, called as in the table of shared_names.py, by position and
by keyword, at random inputs and at edges (ties, zeros, signed zeros, empties, NaN, infinities, integers),
and compared with torch: values, shapes and element types. Prints how many names that covers."""
import fnmatch
import warnings

import numpy as np
import pytest
from peer import numpy_of, torch, torch_of
from shared_names import FAMILIES, FUNCTIONS_OUT_OF_SCOPE, OUT_OF_SCOPE

import shoal

warnings.filterwarnings("ignore")
RNG = np.random.default_rng(21)


def inputs():
    def draw(*shape):
        return RNG.uniform(-3, 3, shape).astype("float32")

    def whole(low, high, *shape):
        return RNG.integers(low, high, shape)
    edges = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, np.nan, np.inf, -np.inf], "float32")
    n = draw(3, 4)
    n[1, 2] = n[0, 0] = np.nan
    return {
        "x": draw(3, 4), "y": draw(3, 4), "p": abs(draw(3, 4)) + np.float32(0.1), "u": draw(3, 4) / 4,
        "v": draw(4), "v1": draw(1), "v2": draw(2), "v3": draw(3), "v5": draw(5),
        "v4": np.array([0.0, 0.3, 1.0], "float32"),
        "m": draw(4, 5), "m43": draw(4, 3), "q": draw(4, 4), "B": draw(2, 3, 4), "C": draw(2, 4, 5), "D": draw(2, 3, 5),
        "w35": draw(3, 5), "o": draw(1, 3, 1, 2), "e": edges, "e4": edges[[0, 6, 7, 2]], "z": draw(0, 4),
        "s": np.array(1.5, "float32"), "h": whole(0, 3, 3, 4).astype("float32"), "n": n,
        "i": whole(-5, 6, 3, 4), "k": whole(1, 5, 3, 4), "b": whole(0, 2, 3, 4).astype(bool),
        "b4": np.array([True, False, True, True]), "g": np.array([2, 0]), "j": whole(0, 3, 3, 4),
        "f3": np.array([1, 11, 4]), "r3": np.array([1, 0, 2]), "c": np.array([1, 4, 1, 0, 2])}


INPUTS = inputs()


def changed(tensor, name, *args, **keywords):
    """What a method that works in place returns, and leaves."""
    made = getattr(tensor, name)(*args, **keywords)
    return made, tensor


def gradient(tensor, use):
    leaf = tensor.clone().requires_grad_()
    use(leaf)
    return None if leaf.grad is None else leaf.grad


def names_of(module, make):
    return {"t": module, "W": changed, "R": gradient, **{k: make(a) for k, a in INPUTS.items()}}


def plain(value):
    """Arrays with their element types, numbers, and tuples of those."""
    if isinstance(value, shoal.Tensor):
        wide = value.detach().float() if value.dtype == "bfloat16" else value.detach()
        return value.dtype.name, wide.numpy()
    if isinstance(value, torch.Tensor):
        wide = value.float() if value.dtype == torch.bfloat16 else value
        return str(value.dtype)[6:], numpy_of(wide.resolve_conj() if wide.is_conj() else wide)
    if isinstance(value, (shoal.Size, torch.Size)):
        return tuple(value)
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, torch.dtype):
        return str(value)[6:]
    if isinstance(value, shoal.dtype):
        return value.name
    return value


def same(got, want, what):
    if isinstance(want, tuple) and len(want) == 2 and isinstance(want[1], np.ndarray):
        assert got[0] == want[0], f"{what}: {got[0]}, not {want[0]}"
        assert got[1].shape == want[1].shape, f"{what}: {got[1].shape}, not {want[1].shape}"
        bound = {"float16": 2e-3, "bfloat16": 2e-2}.get(want[0], 4e-5)
        np.testing.assert_allclose(got[1], want[1], rtol=bound, atol=bound, err_msg=what)
    elif isinstance(want, list):
        assert len(got) == len(want), what
        for g, w in zip(got, want):
            same(g, w, what)
    elif isinstance(want, float):
        assert got == pytest.approx(want, rel=4e-5, nan_ok=True), what
    else:
        assert got == want, f"{what}: {got!r}, not {want!r}"


ROWS = [(name, calls) for calls, names in FAMILIES for name in names.split()]
COVERED, NOT_TORCHS = set(), []


def compared(name, calls):
    """How many calls torch can do, and agree."""
    done = 0
    for call in calls.replace("{}", name).split(";"):
        call = " ".join(call.split())
        try:
            want = plain(eval(call, names_of(torch, torch_of)))
        except (RuntimeError, TypeError, ValueError, AttributeError, IndexError, NotImplementedError):
            NOT_TORCHS.append(call)
            continue  # not by this version
        same(plain(eval(call, names_of(shoal, shoal.tensor))), want, call)
        done += 1
    return done


@pytest.mark.parametrize("name,calls", ROWS, ids=[name for name, _ in ROWS])
def test_name(name, calls):
    if compared(name, calls):
        COVERED.add(name)


def test_coverage():
    """Runs last."""
    public = [n for n in dir(torch.Tensor) if not n.startswith("_")]
    reasons = {n: why for why, names in OUT_OF_SCOPE.items() for n in names.split()}
    here = [n for n in public if hasattr(shoal.Tensor, n)]
    shared = [n for n in public if n in COVERED]
    left = [n for n in public if n not in here and n not in reasons]
    print(f"Tensor: {len(public)} names of torch, {len(here)} here, {len(shared)} compared, "
          f"{len(reasons)} out of scope; here and not compared: {sorted(set(here) - set(shared))}; "
          f"{len(NOT_TORCHS)} calls that this torch refuses")
    assert len(shared) >= 420 and not left, left
    assert len(NOT_TORCHS) < 40, NOT_TORCHS  # of 1,900: a call of the table that nobody can make compares nothing


def test_functions_of_torch():
    """Every function of torch itself is here, or named with the reason why not."""
    public = [n for n in dir(torch) if not n.startswith("_") and callable(getattr(torch, n))
              and not isinstance(getattr(torch, n), type)]
    patterns = [p for names in FUNCTIONS_OUT_OF_SCOPE.values() for p in names.split()]
    here = [n for n in public if hasattr(shoal, n)]
    left = [n for n in public if n not in here and not any(fnmatch.fnmatch(n, p) for p in patterns)]
    print(f"torch: {len(public)} functions, {len(here)} here, {len(public) - len(here) - len(left)} out of scope")
    assert len(here) >= 470 and not left, left


def test_optimizers_and_schedules_of_torch():
    optimizers = {n for n in dir(torch.optim) if isinstance(getattr(torch.optim, n), type)}
    schedules = {n for n in dir(torch.optim.lr_scheduler) if isinstance(getattr(torch.optim.lr_scheduler, n), type)
                 and not n.startswith("_")} - {"Counter", "Optimizer"}
    here = [n for n in optimizers if hasattr(shoal.optim, n)], \
        [n for n in schedules if hasattr(shoal.optim.lr_scheduler, n)]
    print(f"optim: {len(optimizers)} of torch, {len(here[0])} here, 1 out of scope (SparseAdam: sparse tensors); "
          f"lr_scheduler: {len(schedules)}, {len(here[1])} here")
    assert optimizers - set(here[0]) == {"SparseAdam"} and len(schedules) == len(here[1])
