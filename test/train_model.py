"""A small model in JAX, which tests of training train: its text, and its gradients."""
import jax

jax.config.update("jax_platforms", "cpu")
import jax.numpy as jnp  # noqa: E402

from islands import WORDS  # noqa: E402

WIDE, BATCH, LENGTH = 8, 2, 6
SHAPES = {"bias": (WIDE,), "gain": (WIDE,), "place": (LENGTH, WIDE), "shift": (WIDE,), "table": (WORDS, WIDE),
          "unused": (3, 2), "w": (WIDE, WIDE)}


def loss_of(p, ids, targets):
    """A model with a tied table, gains, biases, and a parameter that it does not use."""
    x = p["table"][ids] + p["place"]
    x = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * p["gain"] + p["bias"]
    x = jnp.tanh(x @ p["w"] + p["shift"])
    logits = jax.nn.log_softmax(x @ p["table"].T)
    return -jnp.take_along_axis(logits, targets[..., None], -1).mean()


def by_numbers(*given):
    return loss_of(dict(zip(SHAPES, given)), *given[len(SHAPES):])


def text_of(batch=BATCH, kind=jnp.float32):
    args = [jax.ShapeDtypeStruct(shape, kind) for shape in SHAPES.values()]
    args += [jax.ShapeDtypeStruct((batch, LENGTH), jnp.int32)] * 2
    return jax.jit(by_numbers, keep_unused=True).lower(*args).as_text()


TEXT = text_of()
GRADIENT = jax.jit(jax.value_and_grad(by_numbers, argnums=tuple(range(len(SHAPES)))))
