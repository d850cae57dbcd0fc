"""A training step that JAX has exported, as each of its readers runs it: what trains is the same graph.

    step.py jax STEPS FILE            makes FILE, StableHLO of the step of gpt_jax.py; runs it by XLA
    step.py iree STEPS FILE           compiles it for this processor, all cores
    step.py ADDRESS STEPS FILE        reads it, and runs it in a pool

Each says the losses of its first steps, as gpt.py does.
"""
import sys

import numpy as np

import gpt


def leaves():
    """What the step takes beside its batch, in the order of its arguments: weights, means, squares, and the count."""
    weights = [start for _, start in sorted(gpt.weights().items())]
    zeros = [np.zeros_like(start) for start in weights]
    return [*weights, *zeros, *(zero.copy() for zero in zeros), np.float32(0)]


def batches():
    return ((text.astype(np.int32), following.astype(np.int32)) for text, following in gpt.batches())


def by_jax(path):
    import jax
    import jax.numpy as jnp

    import gpt_jax
    names, given = sorted(gpt.weights()), leaves()
    n, feed = len(names), batches()
    tree = [dict(zip(names, map(jnp.asarray, given[i * n:(i + 1) * n]))) for i in range(3)] + [jnp.float32(0)]
    compiled = jax.jit(gpt_jax.one_step, donate_argnums=(0, 1, 2, 3))
    with open(path, "w") as file:
        file.write(jax.jit(gpt_jax.one_step).lower(*tree, *next(batches())).as_text())

    def step():
        *tree[:], loss = compiled(*tree, *next(feed))
        return loss
    return step, float, f"JAX {jax.__version__}, XLA on {jax.devices()[0].platform}"


def by_iree(path):
    from importlib.metadata import version

    from iree import compiler, runtime
    made = compiler.compile_file(path, target_backends=["llvm-cpu"], input_type="stablehlo",
                                 extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"])
    config = runtime.Config("local-task")
    module = runtime.load_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, made), config)
    state, feed = [runtime.asdevicearray(config.device, x) for x in leaves()], batches()

    def step():
        *state[:], loss = module.main(*state, *next(feed))
        return loss
    return step, lambda loss: float(loss.to_host()), f"IREE {version('iree-base-compiler')}, llvm-cpu for this processor"


def by_shoal(address, path):
    import lib
    shoal = lib.product()
    if address == "embedded":
        shoal.init(workers=1, threads=2)
    else:
        shoal.connect(address)
    model = shoal.stablehlo.load(path)
    trained = shoal.compile(lambda *given: model(*given), replay=True)
    state, feed = [shoal.tensor(x) for x in leaves()], batches()

    def step():
        *state[:], loss = trained(*state, *(shoal.tensor(x) for x in next(feed)))
        return loss
    return step, shoal.Tensor.item, "shoal"


if __name__ == "__main__":
    who, _, file = sys.argv[1:]
    run, item, tell = by_jax(file) if who == "jax" else by_iree(file) if who == "iree" else by_shoal(who, file)
    gpt.serve(run, item, lambda: tell)
