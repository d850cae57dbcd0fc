"""One operation on an NVIDIA device, by Shoal in this process or by PyTorch, eager.

    device.py shoal|torch NAME

Speaks the protocol of lib.Peer: after `ready` come the sum of the result's numbers, which has to be that of the other
side, how often a run does the operation, and how PyTorch is called. A run enqueues all, then waits once.
"""
import sys

import numpy as np

import lib

SIDE = lib.scaled(8192)


def normal(*shape):
    return lambda: np.random.default_rng(len(shape)).standard_normal(shape, np.float32)


def whole(*shape, end):
    return lambda: np.random.default_rng(7).integers(0, end, shape)


ROW, SQUARE = normal(SIDE), normal(SIDE, SIDE)
HEADS = normal(8, 16, 1024, 64)
# Per name: the operation, with F as torch.nn.functional, of x, y and z; how many times x's bytes it reads and writes at
# least; what makes x, y and z; and the type that these are made, if it is not theirs.
CASES = {
    "fused": ("F.gelu(x * y + z)", 2, SQUARE, ROW, ROW),
    "gelu": ("F.gelu(x)", 2, SQUARE),
    "gelu_bf16": ("F.gelu(x)", 2, SQUARE, "bfloat16"),
    "silu": ("F.silu(x)", 2, SQUARE),
    "exp": ("x.exp()", 2, SQUARE),
    "add": ("x + y", 3, SQUARE, SQUARE),
    "softmax": ("F.softmax(x, 1)", 2, SQUARE),
    "softmax_bf16": ("F.softmax(x, 1)", 2, SQUARE, "bfloat16"),
    "softmax_columns": ("F.softmax(x, 0)", 2, SQUARE),
    "layer_norm": ("F.layer_norm(x, (x.shape[1],), y, z)", 2, SQUARE, ROW, ROW),
    "sum": ("x.sum()", 1, SQUARE),
    "sum_rows": ("x.sum(1)", 1, SQUARE),
    "sum_columns": ("x.sum(0)", 1, SQUARE),
    "max_rows": ("x.amax(1)", 1, SQUARE),
    "transpose": ("x.t().contiguous() * 1", 2, SQUARE),
    "gather": ("x[y]", 2, SQUARE, whole(SIDE, end=SIDE)),
    "cross_entropy": ("F.cross_entropy(x, y)", 1, SQUARE, whole(SIDE, end=SIDE)),
    "matvec": ("x @ y", 1, SQUARE, ROW),
    "vecmat": ("y @ x", 1, SQUARE, ROW),
    "attention": ("F.scaled_dot_product_attention(x, y, z, is_causal=True)", 4, HEADS, HEADS, HEADS),
}
LONG = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}
for size in (1024, 4096, 8192):
    for short, long in LONG.items():
        CASES[f"gemm.{short}.{size}"] = ("x @ y", 3, normal(*2 * [lib.scaled(size)]), normal(*2 * [lib.scaled(size)]), long)


def prepare(name, tensor, dtypes):
    """The names of an expression's operands: tensor(array, dtype or None)."""
    makers = [item for item in CASES[name][2:] if callable(item)]
    dtype = CASES[name][-1] if isinstance(CASES[name][-1], str) else None
    return {key: tensor(make(), getattr(dtypes, dtype) if dtype else None) for key, make in zip("xyz", makers)}


def main():
    side, name = sys.argv[1:]
    if side == "torch":
        import torch as module
        import torch.nn.functional as functional
        module.backends.cuda.matmul.allow_tf32 = False
        wait = module.cuda.synchronize
    else:
        module = lib.product()
        from shoal import functional
        module.init(workers=1)
        wait = module.sync

    def tensor(array, dtype):
        made = module.tensor(array) if side == "shoal" else module.from_numpy(array).cuda()
        return made if dtype is None or array.dtype.kind != "f" else made.to(dtype)
    names = {"F": functional} | prepare(name, tensor, module)
    work = eval(f"lambda: {CASES[name][0]}", names)  # of the table above

    def run():
        made = []
        for _ in range(often):
            made.append(work())
            if side == "shoal":
                made[-1].start()
            if len(made) == 4:  # so that memory is used again
                made.clear()
        wait()
    often = 1
    total = work().sum().float().item() if "gemm" not in name else work().float()[:7].sum().item()
    run()
    often = 10
    often = max(3, min(2000, round((0.02 if lib.QUICK else 0.2) / lib.timed(run)() * often)))
    run()
    lib.serve(run, f"{total:.9g}", often, f"PyTorch {module.__version__.split('+')[0]}, eager" if side == "torch" else "-")


if __name__ == "__main__":
    main()
