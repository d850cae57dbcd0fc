"""One operation of the table, by Shoal in this process or by PyTorch, eager, both on two threads.

    op.py shoal|torch NAME

Speaks the protocol of lib.Peer: after `ready` comes the sum of the result's numbers, which has to be that of the other
side, and how often a run does the operation.
"""
import sys

import numpy as np

import lib

SIDE = lib.scaled(4096)
PICTURES = (lib.scaled(32), 64, 32, 32)


def normal(*shape):
    return lambda: np.random.default_rng(len(shape)).standard_normal(shape, np.float32)


def whole(*shape, end):
    return lambda: np.random.default_rng(7).integers(0, end, shape)


# Per name: the operation, with F as torch.nn.functional, of x and y; and what makes these.
CASES = {
    "top_k": ("x.topk(10)[0]", normal(SIDE, SIDE)),
    "sort": ("x.sort()[0]", normal(SIDE, SIDE)),
    "argmax_rows": ("x.argmax(1)", normal(SIDE, SIDE)),
    "argmax_columns": ("x.argmax(0)", normal(SIDE, SIDE)),
    "mean_rows": ("x.mean(1)", normal(SIDE, SIDE)),
    "mean_columns": ("x.mean(0)", normal(SIDE, SIDE)),
    "sum_rows": ("x.sum(1)", normal(SIDE, SIDE)),
    "sum_columns": ("x.sum(0)", normal(SIDE, SIDE)),
    "max_rows": ("x.amax(1)", normal(SIDE, SIDE)),
    "add": ("x + y", normal(SIDE, SIDE), normal(SIDE, SIDE)),
    "exp": ("x.exp()", normal(SIDE, SIDE)),
    "tanh": ("x.tanh()", normal(SIDE, SIDE)),
    "relu": ("F.relu(x)", normal(SIDE, SIDE)),
    "gelu": ("F.gelu(x)", normal(SIDE, SIDE)),
    "softmax": ("F.softmax(x, 1)", normal(SIDE, SIDE)),
    "layer_norm": ("F.layer_norm(x, (x.shape[1],))", normal(SIDE, SIDE)),
    "cumsum": ("x.cumsum(1)", normal(SIDE, SIDE)),
    "transpose": ("x.t().contiguous() * 1", normal(SIDE, SIDE)),
    "gather": ("x[y]", normal(SIDE, SIDE), whole(SIDE, end=SIDE)),
    "embedding": ("F.embedding(y, x)", normal(SIDE, SIDE // 4), whole(SIDE, 2, end=SIDE)),
    "matmul": ("x @ y", normal(SIDE // 2, SIDE // 4), normal(SIDE // 4, SIDE // 2)),
    "conv1d": ("F.conv1d(x, y, padding=2)", normal(16, 64, SIDE), normal(64, 64, 5)),
    "conv2d": ("F.conv2d(x, y, padding=1)", normal(*PICTURES), normal(64, 64, 3, 3)),
    "conv2d_strided": ("F.conv2d(x, y, padding=1, stride=2)", normal(*PICTURES), normal(64, 64, 3, 3)),
    "conv2d_dilated": ("F.conv2d(x, y, padding=2, dilation=2)", normal(*PICTURES), normal(64, 64, 3, 3)),
    "conv2d_grouped": ("F.conv2d(x, y, padding=1, groups=4)", normal(*PICTURES), normal(64, 16, 3, 3)),
    "conv2d_depthwise": ("F.conv2d(x, y, padding=1, groups=64)", normal(*PICTURES), normal(64, 1, 3, 3)),
    "conv_transpose2d": ("F.conv_transpose2d(x, y, stride=2)", normal(*PICTURES), normal(64, 32, 2, 2)),
    "conv3d": ("F.conv3d(x, y, padding=1)", normal(lib.scaled(16), 16, 16, 16, 16), normal(32, 16, 3, 3, 3)),
    "max_pool2d": ("F.max_pool2d(x, 2)", normal(4 * PICTURES[0], 64, 32, 32)),
    "avg_pool2d": ("F.avg_pool2d(x, 3, 1)", normal(4 * PICTURES[0], 64, 32, 32)),
}


def main():
    side, name = sys.argv[1:]
    expression, *makers = CASES[name]
    if side == "torch":
        import torch as module
        import torch.nn.functional as functional
        module.set_num_threads(2)
    else:
        module = lib.product()
        from shoal import functional
        module.init(threads=2)
    tensor = module.tensor if side == "shoal" else module.from_numpy
    names = {"F": functional} | {name: tensor(make()) for name, make in zip("xy", makers)}
    work = eval(f"lambda: {expression}", names)  # of the table above

    def run():
        for _ in range(often):
            made.append(work())
            if side == "shoal":
                made[-1].start()
                module.sync()
            made.clear()

    made, often = [], 1
    total = float(np.asarray(work().numpy(), np.float64).sum())
    run()
    often = max(1, min(100, round((0.02 if lib.QUICK else 0.2) / lib.timed(run)())))
    form = f"PyTorch {module.__version__.split('+')[0]}, eager, 2 threads" if side == "torch" else "-"
    lib.serve(run, f"{total:.9g}", often, form)


if __name__ == "__main__":
    main()
