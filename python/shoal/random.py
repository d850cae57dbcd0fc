"""Random numbers from a counter: Philox4x32-10 (Salmon et al., 2011).

A number depends on a seed, the number of a stream and the element's place alone: not on how the tensor is
distributed, nor on what ran before. A `Generator` gives each tensor the next stream of its seed. Both are
scalar inputs of a program, so that a training step with dropout is the same program every time.
"""
import os

from . import _shoal
from .batches import batches, drawn
from .creation import default_dtype, placed
from .dtypes import POOL, iinfo
from .indexing import required
from .pool import session
from .recording import fresh
from .words import (check_probability, check_tensor, dtype_name, invalid, is_floating, shape_of, torch_words,
                    with_out)


class Generator:
    """A seed, and the number of the next stream."""

    def __init__(self, seed=0):
        # torch's generators are made for a device; here a number has none.
        self.device = POOL
        self.manual_seed(seed if isinstance(seed, int) else 0)

    def manual_seed(self, seed):
        """Begins anew with a seed, an integer."""
        self._seed, self._stream = int(seed), 0
        return self

    def initial_seed(self):
        """The seed."""
        return self._seed

    def get_state(self):
        """(seed, stream), for `set_state`."""
        return self._seed, self._stream

    def set_state(self, state):
        """Goes on from a state of `get_state`."""
        self._seed, self._stream = (int(n) for n in state)

    def next(self):
        """The seed and a stream that was not given before."""
        self._stream += 1
        return self._seed, self._stream

    def seed(self):
        """Begins anew with a seed of the system's; returns it."""
        self.manual_seed(int.from_bytes(os.urandom(7), "little"))
        return self._seed


default_generator = Generator()
default_generator.seed()


def manual_seed(seed):
    """Begins the default generator anew; without this its seed is another one in each process."""
    return default_generator.manual_seed(seed)


def seed():
    """Begins the default generator anew with a seed of the system's; returns it."""
    return default_generator.seed()


def initial_seed():
    """The default generator's seed."""
    return default_generator.initial_seed()


def get_rng_state():
    """The state of the default generator."""
    return default_generator.get_state()


def set_rng_state(state):
    """Goes on from a state of `get_rng_state`."""
    default_generator.set_state(state)


def _scalar(number):
    if hasattr(number, "shape"):
        return number
    return session().tensor((int(number) + 2**63) % 2**64 - 2**63, "int64")


def draw(shape, distribution, dtype, seed=None, stream=0, generator=None):
    """Numbers of a distribution: "UNIFORM", "NORMAL" or "BITS". The other functions call this."""
    given = seed is not None
    if not given:
        if any(randomness == "error" for _, randomness in batches.now):
            raise invalid("vmap: called random operation while in randomness error mode: give vmap "
                          "randomness='same' or 'different', or draw outside of it")
        numbers = (generator or default_generator).next
        seed, stream = fresh(lambda: tuple(_scalar(number) for number in numbers()))

    def make(shape):
        return _shoal.apply(session(), "random", (_scalar(seed), _scalar(stream)), {
            "shape": shape, "dtype": dtype_name(dtype), "rng_distribution": distribution}, 1)[0]
    shape = shape_of(shape) if isinstance(shape, tuple) else (shape,)
    return make(shape) if given else drawn(make, shape)


def fractions(shape, dtype, generator=None):
    """Numbers uniformly distributed over [0, 1) that are compared with probabilities or transformed to others of a
    type: of float64, or of float32 for types that have not more digits. Those of 16 bits would be too few."""
    kind = "float32" if is_floating(dtype) and dtype != "float64" else "float64"
    return draw((tuple(shape),), "UNIFORM", kind, generator=generator)


def rand(*shape, size=None, dtype=None, seed=None, stream=0, generator=None, device=None,
         requires_grad=False, layout=None, pin_memory=False):
    """Numbers uniformly distributed over [0, 1): rand(2, 3) or rand((2, 3), seed=7).

    seed, stream: integers or integer scalars; without a seed the generator's next stream.
    """
    shape = shape if size is None else (tuple(size),)
    return placed(draw(shape, "UNIFORM", dtype or default_dtype(), seed, stream, generator), device,
                  requires_grad)


def randn(*shape, size=None, dtype=None, seed=None, stream=0, generator=None, device=None,
          requires_grad=False, layout=None, pin_memory=False):
    """Numbers of the normal distribution with mean 0 and variance 1; as `rand`."""
    shape = shape if size is None else (tuple(size),)
    return placed(draw(shape, "NORMAL", dtype or default_dtype(), seed, stream, generator), device,
                  requires_grad)


def randbits(*shape, dtype="uint32", seed=None, stream=0, generator=None):
    """Integers or bools of random bits; as `rand`."""
    return draw(shape, "BITS", dtype, seed, stream, generator)


@torch_words(size="shape")
def randint(low=0, high=None, shape=None, dtype="int64", seed=None, stream=0, generator=None,
            device=None, requires_grad=False):
    """Integers from low to high - 1: randint(low, high, shape) or randint(high, shape); as `rand`.

    The remainder of 64 bits: very nearly uniform.
    """
    if shape is None:
        low, high, shape = 0, low, high
    elif high is None:
        low, high = 0, low
    if high is None or shape is None or high <= low:
        raise invalid(f"randint: from {low} to {high}, shape {shape}: give low < high and a shape")
    limits = iinfo(dtype) if dtype and dtype_name(dtype).startswith(("int", "uint")) else None
    if limits and not limits.min <= low < high <= limits.max + 1:
        raise invalid(f"randint: from {low} to {high - 1} does not lie within {limits.dtype.name}")
    bits = draw((shape,), "BITS", "uint64", seed, stream, generator)
    made = (bits.fmod(high - low).astype("int64") + low).astype(dtype or "int64")
    return placed(made, device, requires_grad)


def randperm(n, dtype="int64", seed=None, stream=0, generator=None, device=None, requires_grad=False):
    """The numbers from 0 to n - 1 in random order; as `rand`."""
    return placed(draw((n,), "BITS", "uint64", seed, stream, generator).argsort().astype(dtype), device)


def normal(mean=0.0, std=1.0, size=None, dtype=None, generator=None, device=None, requires_grad=False):
    """Numbers of the normal distribution; mean and std may be tensors. A negative std is an error, of a tensor one of
    what derives from the result."""
    std = checked_std(std, "normal")
    if size is None:
        like = mean if hasattr(mean, "shape") else std
        if hasattr(mean, "shape") and hasattr(std, "shape"):
            like = mean + std
        size, dtype = like.shape, dtype or like.dtype
    made = draw((tuple(size),), "NORMAL", dtype or default_dtype(), generator=generator) * std + mean
    return placed(made, device, requires_grad)


def checked_std(std, what):
    """A standard deviation, a number or a tensor, that must not be negative."""
    if hasattr(std, "session"):
        return required(std, std >= 0, f"{what}: a standard deviation is negative")
    if not std >= 0:
        raise invalid(f"{what}: std is {std}; it must not be negative")
    return std


def rand_like(input, dtype=None, generator=None, device=None, requires_grad=False, layout=None,
              memory_format=None):
    """`rand` of a tensor's shape, and of its element type unless another is given."""
    check_tensor(input, "rand_like")
    made = draw((input.shape,), "UNIFORM", dtype or input.dtype, generator=generator)
    return placed(made, device, requires_grad)


def randn_like(input, dtype=None, generator=None, device=None, requires_grad=False, layout=None,
               memory_format=None):
    """`randn` of a tensor's shape, and of its element type unless another is given."""
    check_tensor(input, "randn_like")
    made = draw((input.shape,), "NORMAL", dtype or input.dtype, generator=generator)
    return placed(made, device, requires_grad)


def randint_like(input, low, high=None, dtype=None, generator=None, device=None, requires_grad=False):
    """`randint` of a tensor's shape, and of its element type unless another is given."""
    check_tensor(input, "randint_like")
    low, high = (0, low) if high is None else (low, high)
    return randint(low, high, tuple(input.shape), dtype or input.dtype, generator=generator)


def bernoulli(input, p=None, generator=None):
    """1 with the probability that each element gives, or p, else 0; of the input's type. A p outside of 0 to 1 is an
    error, as are elements outside of it, of what derives from the result."""
    if p is not None:
        check_probability(p, "bernoulli")
        return (fractions(input.shape, "float32", generator) < p).astype(input.dtype)
    if not is_floating(input.dtype):
        raise invalid(f"bernoulli: {input._text()}: probabilities are of a floating type")
    input = required(input, (input >= 0) & (input <= 1), "bernoulli: a probability is not between 0 and 1")
    return (fractions(input.shape, input.dtype, generator) < input).astype(input.dtype)


def poisson(input, generator=None):
    """Numbers of the Poisson distribution with the means that the elements give. A negative mean is an error, of what
    derives from the result."""
    if not is_floating(input.dtype):
        raise invalid(f"poisson: {input._text()}: means are of a floating type")
    from . import draws
    input = required(input, input >= 0, "poisson: a mean is negative or NaN")
    return draws.poisson(input, generator).astype(input.dtype)


@torch_words(input="weights")
def multinomial(weights, num_samples, replacement=False, generator=None):
    """Indices, int64, drawn along the last axis with probabilities in proportion to the weights: finite, not negative,
    and one of each row at least above 0. Others are an error, of what derives from the result."""
    if not weights.ndim or not is_floating(weights.dtype):
        raise invalid(f"multinomial: {weights._text()}: weights are of a floating type, along the last axis")
    if num_samples <= 0 or num_samples > weights.shape[-1] and not replacement:
        raise invalid(f"multinomial: {num_samples} of {weights.shape[-1]}"
                      + (" with" if replacement else " without") + " replacement")
    weights = required(weights, (weights >= 0) & weights.isfinite() & (weights > 0).any(-1, keepdims=True),
                       "multinomial: weights must be finite and not negative, and one of each row above 0")
    weights = weights.astype("float64")
    if replacement:
        edges = weights.cumsum(-1)
        edges = edges / edges[..., -1:]
        drawn = fractions((*weights.shape[:-1], num_samples), "float64", generator)
        if num_samples * weights.shape[-1] > 2 ** 20:
            below = edges.searchsorted(drawn, right=True)
        else:
            below = (edges.unsqueeze(-2) <= drawn.unsqueeze(-1)).sum(-1)
        return below.clamp(max=weights.shape[-1] - 1)
    # The largest of log w + Gumbel noise (Gumbel 1954; Kool et al. 2019).
    noise = -(-fractions(weights.shape, "float64", generator)).log1p()
    return (weights.log() - noise.log()).topk(num_samples).indices


for _name in ("rand", "randn", "randint", "randperm", "normal"):
    globals()[_name] = with_out(globals()[_name])
