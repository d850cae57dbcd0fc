"""What parameters begin with, by how a model of JAX uses them: also those of all layers in one, which loops take apart."""
import jax
import numpy as np
import pytest

jax.config.update("jax_platforms", "cpu")
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from shoal.train import model  # noqa: E402

BATCH, LENGTH, WORDS, WIDE, LAYERS = 2, 4, 16, 8, 3
SHAPES = {"first": (WIDE,), "gain": (LAYERS, WIDE), "last": (WIDE,), "place": (LENGTH, WIDE), "scale": (LAYERS,), "shift": (LAYERS, WIDE),
          "table": (WORDS, WIDE), "w": (LAYERS, WIDE, WIDE), "wbias": (LAYERS, 1, WIDE)}
LAYERED = ("gain", "scale", "shift", "w", "wbias")


def layer(x, q):
    x = x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * q["gain"] + q["shift"]
    return x + jnp.tanh(x @ q["w"] + q["wbias"]) * q["scale"]


def scan(x, q, **options):
    return lax.scan(lambda x, q: (layer(x, q), None), x, q, **options)[0]


def remat(x, q):
    return lax.scan(jax.checkpoint(lambda x, q: (layer(x, q), None)), x, q)[0]


def fori(x, q):
    return lax.fori_loop(0, LAYERS, lambda i, x: layer(x, jax.tree.map(lambda a: a[i], q)), x)


def apart(x, q):
    for i in range(LAYERS):
        x = layer(x, jax.tree.map(lambda a: a[i], q))  # noqa: B023
    return x


def nested(x, q):
    return lax.fori_loop(0, 2, lambda _, x: scan(x, q), x)


def choice(x, q):
    return lax.cond(x.sum() > 0, lambda x: scan(x, q), lambda x: x, x)


def program_of(layers, rest=lambda p, x: x * p["last"] + p["first"], shapes=SHAPES):
    def loss(p, ids, targets):
        x = rest(p, layers(p["table"][ids] + p["place"], {name: p[name] for name in LAYERED}))
        return -jnp.take_along_axis(jax.nn.log_softmax(x @ p["table"].T), targets[..., None], -1).mean()
    tokens = jax.ShapeDtypeStruct((BATCH, LENGTH), jnp.int32)
    given = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}
    return model.load(jax.jit(loss, keep_unused=True).lower(given, tokens, tokens).as_text())


@pytest.mark.parametrize("layers", [scan, lambda x, q: scan(x, q, reverse=True), lambda x, q: scan(x, q, unroll=2), remat, fori, apart,
                                    nested, choice])
def test_models_whose_layers_are_stacked(layers):
    """A gain or bias of all layers is one of each: 1 or 0; what has more axes in a layer has random numbers."""
    program = program_of(layers)
    told = {name: (shape, begins) for name, (_, shape, begins) in zip(SHAPES, program.beginnings())}
    words = dict.fromkeys(SHAPES, "N(0, 0.02)") | dict.fromkeys(("gain", "scale", "last"), "1") | dict.fromkeys(("shift", "wbias", "first"), "0")
    assert told == {name: (shape, words[name]) for name, shape in SHAPES.items()}
    for (name, shape), array in zip(SHAPES.items(), program.initial(1)):
        assert array.shape == shape and array.dtype == np.float32
        if words[name] in "01":
            assert (array == float(words[name])).all(), name
        else:
            assert 0.01 < array.std() < 0.03, name
    assert program.vocabulary == WORDS


def test_what_changes_in_a_loop_is_no_parameter():
    """A state that begins with a parameter, which is multiplied by in each round, is no gain; nor is what comes out of the loop."""
    def rest(p, x):
        state, x = lax.fori_loop(0, 3, lambda _, c: (jnp.tanh(c[0] @ p["mix"]), c[1] * c[0] + p["last"]), (p["first"], x))
        return x * state
    shapes = SHAPES | {"mix": (WIDE, WIDE)}
    order = sorted(shapes)
    begins = dict(zip(order, (words for _, _, words in program_of(scan, rest, shapes).beginnings())))
    assert (begins["first"], begins["last"], begins["mix"]) == ("N(0, 0.02)", "0", "N(0, 0.02)")
