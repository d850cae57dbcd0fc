"""Random numbers from a counter: Philox4x32-10 (Salmon et al., 2011).

A number depends on a seed, the number of a stream and the element's place alone: not on how the tensor is
spread, nor on what ran before. A `Generator` gives each tensor the next stream of its seed. Both are
scalar inputs of a program, so that a training step with dropout is the same program every time.
"""
from . import _shoal
from .creation import placed
from .pool import session
from .recording import fresh
from .words import dtype_name, invalid, is_floating, shape_of


class Generator:
    """A seed, and the number of the next stream."""

    def __init__(self, seed=0):
        self.manual_seed(seed)

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


default_generator = Generator()


def manual_seed(seed):
    """Begins the default generator anew; without this its seed is 0."""
    return default_generator.manual_seed(seed)


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
    if seed is None:
        numbers = (generator or default_generator).next
        seed, stream = fresh(lambda: tuple(_scalar(number) for number in numbers()))
    return _shoal.apply(session(), "random", (_scalar(seed), _scalar(stream)), {
        "shape": shape_of(shape) if isinstance(shape, tuple) else (shape,),
        "dtype": dtype_name(dtype), "rng_distribution": distribution}, 1)[0]


def rand(*shape, dtype="float32", seed=None, stream=0, generator=None, device=None,
         requires_grad=False):
    """Numbers of the uniform distribution over [0, 1): rand(2, 3) or rand((2, 3), seed=7).

    seed, stream: integers or integer scalars; without a seed the generator's next stream.
    """
    return placed(draw(shape, "UNIFORM", dtype, seed, stream, generator), device, requires_grad)


def randn(*shape, dtype="float32", seed=None, stream=0, generator=None, device=None,
          requires_grad=False):
    """Numbers of the normal distribution with mean 0 and variance 1; as `rand`."""
    return placed(draw(shape, "NORMAL", dtype, seed, stream, generator), device, requires_grad)


def randbits(*shape, dtype="uint32", seed=None, stream=0, generator=None):
    """Integers or bools of random bits; as `rand`."""
    return draw(shape, "BITS", dtype, seed, stream, generator)


def randint(low, high=None, shape=None, dtype="int64", seed=None, stream=0, generator=None,
            device=None):
    """Integers from low to high - 1: randint(low, high, shape) or randint(high, shape); as `rand`.

    The remainder of 64 bits: nearly even.
    """
    if shape is None:
        low, high, shape = 0, low, high
    elif high is None:
        low, high = 0, low
    if high is None or shape is None or high <= low:
        raise invalid(f"randint: from {low} to {high}, shape {shape}: give low < high and a shape")
    bits = draw((shape,), "BITS", "uint64", seed, stream, generator)
    return placed(bits.fmod(high - low).astype(dtype) + low, device)


def randperm(n, dtype="int64", seed=None, stream=0, generator=None):
    """The numbers from 0 to n - 1 in random order; as `rand`."""
    return draw((n,), "BITS", "uint64", seed, stream, generator).argsort().astype(dtype)


def normal(mean=0.0, std=1.0, size=None, dtype="float32", generator=None):
    """Numbers of the normal distribution; mean and std may be tensors."""
    if size is None:
        like = mean if hasattr(mean, "shape") else std
        size, dtype = like.shape, like.dtype
    return draw((tuple(size),), "NORMAL", dtype, generator=generator) * std + mean


def rand_like(x, dtype=None, generator=None):
    """`rand` of x's shape, and of its element type unless another is given."""
    return draw((x.shape,), "UNIFORM", dtype or x.dtype, generator=generator)


def randn_like(x, dtype=None, generator=None):
    """`randn` of x's shape, and of its element type unless another is given."""
    return draw((x.shape,), "NORMAL", dtype or x.dtype, generator=generator)


def bernoulli(p, generator=None):
    """1 with the probability that each element of p gives, else 0; of p's type, a floating one."""
    if not is_floating(p.dtype):
        raise invalid(f"bernoulli: {p._text()}: probabilities are of a floating type")
    return (rand_like(p, generator=generator) < p).astype(p.dtype)


def multinomial(weights, num_samples, replacement=False, generator=None):
    """Indices, int64, drawn along the last axis with probabilities in proportion to the weights."""
    if num_samples > weights.shape[-1] and not replacement:
        raise invalid(f"multinomial: {num_samples} of {weights.shape[-1]} without replacement")
    if replacement:
        edges = weights.cumsum(-1)
        edges = edges / edges[..., -1:]
        drawn = draw((weights.shape[:-1] + (num_samples,),), "UNIFORM", weights.dtype,
                     generator=generator)
        below = (edges.unsqueeze(-2) <= drawn.unsqueeze(-1)).sum(-1)
        return below.clamp(max=weights.shape[-1] - 1)
    # The largest of log w + Gumbel noise (Gumbel 1954; Kool et al. 2019).
    noise = -(-(rand_like(weights, generator=generator).log())).log()
    return (weights.log() + noise).topk(num_samples).indices
