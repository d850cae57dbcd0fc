"""A peer of gpt.py: JAX, the whole step compiled by XLA for the processor, on all of its cores.

    gpt_jax.py - STEPS
"""
import jax
import jax.numpy as jnp

import gpt


def linear(w, name, x):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def norm(w, name, x):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[name + ".weight"] + w[name + ".bias"]


def block(w, name, x):
    parts = linear(w, name + "attention", norm(w, name + "before", x))
    q, k, v = jnp.moveaxis(parts.reshape(*x.shape[:2], 3, gpt.HEADS, -1), 2, 0)
    seen = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    x = x + linear(w, name + "join", seen.reshape(x.shape))
    inside = jax.nn.gelu(linear(w, name + "perceptron.0", norm(w, name + "between", x)), approximate=False)
    return x + linear(w, name + "perceptron.2", inside)


def loss_of(w, text, following):
    x = w["characters.weight"][text] + w["places.weight"]
    for i in range(gpt.LAYERS):
        x = block(w, f"blocks.{i}.", x)
    shares = jax.nn.log_softmax(norm(w, "norm", x) @ w["head.weight"].T)
    return -jnp.take_along_axis(shares, following[..., None], -1).mean()


def one_step(w, mean, square, count, text, following):
    loss, gradient = jax.value_and_grad(loss_of)(w, text, following)
    count = count + 1
    tree = jax.tree_util.tree_map
    a, b = gpt.BETAS
    mean = tree(lambda m, g: a * m + (1 - a) * g, mean, gradient)
    square = tree(lambda s, g: b * s + (1 - b) * g * g, square, gradient)

    def moved(p, m, s):
        root = jnp.sqrt(s / (1 - b ** count)) + gpt.EPSILON
        return p * (1 - gpt.RATE * gpt.DECAY) - gpt.RATE * m / (1 - a ** count) / root
    return tree(moved, w, mean, square), mean, square, count, loss


def main():
    w = {name: jnp.asarray(start) for name, start in gpt.weights().items()}
    mean, square = ({name: jnp.zeros_like(start) for name, start in w.items()} for _ in range(2))
    state, feed = [w, mean, square, jnp.float32(0)], gpt.batches()
    compiled = jax.jit(one_step, donate_argnums=(0, 1, 2, 3))

    def step():
        *state[:], loss = compiled(*state, *next(feed))
        return loss
    gpt.serve(step, float, lambda: f"JAX {jax.__version__}, XLA on {jax.devices()[0].platform}")


if __name__ == "__main__":
    main()
