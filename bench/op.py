"""Operations of the table, by Shoal in this process or by PyTorch, eager, both on two threads.

    op.py shoal|torch

A lib.Peer that is told names beside `run`: it answers with the sum of the result's numbers, which has to be that of the
other side, that of their sizes, and how often a run does the operation.
"""
import functools
import sys

import numpy as np

import lib

SIDE = lib.scaled(4096)
PICTURES = (lib.scaled(32), 64, 32, 32)


def normal(*shape):
    return lambda: np.random.default_rng(len(shape)).standard_normal(shape, np.float32)


def positive(*shape):
    return lambda: np.random.default_rng(len(shape)).random(shape, np.float32) + np.float32(0.5)


def whole(*shape, end, dtype=np.int64):
    return lambda: np.random.default_rng(7).integers(0, end, shape, dtype)


# Per name: the operation, with F as torch.nn.functional and M as torch, of x, y and z; and what makes these.
PLANE = normal(SIDE, SIDE)
POSITIVE = positive(SIDE, SIDE)
BITS = whole(SIDE, SIDE, end=1 << 20, dtype=np.int32)
WIDE = whole(SIDE, SIDE, end=SIDE)
TOKENS = normal(4, 8, SIDE // 8, 64)

CASES = {
    "top_k": ("x.topk(10)[0]", PLANE),
    "sort": ("x.sort()[0]", PLANE),
    "argsort": ("x.argsort()", PLANE),
    "argmax_rows": ("x.argmax(1)", PLANE),
    "argmax_columns": ("x.argmax(0)", PLANE),
    "argmin_rows": ("x.argmin(1)", PLANE),
    "mean_rows": ("x.mean(1)", PLANE),
    "mean_columns": ("x.mean(0)", PLANE),
    "sum_rows": ("x.sum(1)", PLANE),
    "sum_columns": ("x.sum(0)", PLANE),
    "sum_all": ("x.sum()", PLANE),
    "sum_middle": ("x.reshape(16, -1, x.shape[1]).sum(1)", PLANE),
    "max_rows": ("x.amax(1)", PLANE),
    "max_columns": ("x.amax(0)", PLANE),
    "min_rows": ("x.amin(1)", PLANE),
    "prod_rows": ("x.prod(1)", PLANE),
    "any_rows": ("(x > 9).any(1)", PLANE),
    "var_rows": ("x.var(1)", PLANE),
    "add": ("x + y", PLANE, PLANE),
    "subtract": ("x - y", PLANE, PLANE),
    "multiply": ("x * y", PLANE, PLANE),
    "divide": ("x / y", PLANE, POSITIVE),
    "maximum": ("M.maximum(x, y)", PLANE, PLANE),
    "minimum": ("M.minimum(x, y)", PLANE, PLANE),
    "power": ("x ** y", POSITIVE, PLANE),
    "square": ("x ** 2", PLANE),
    "atan2": ("M.atan2(x, y)", PLANE, PLANE),
    "fmod": ("M.fmod(x, y)", PLANE, POSITIVE),
    "compare": ("x < y", PLANE, PLANE),
    "where": ("M.where(z, x, y)", PLANE, PLANE, lambda: WIDE() % 2 == 0),
    "clamp": ("x.clamp(-1, 1)", PLANE),
    "add_row": ("x + y", PLANE, normal(SIDE)),
    "add_column": ("x + y", PLANE, normal(SIDE, 1)),
    "add_number": ("x + 3", PLANE),
    "negate": ("-x", PLANE),
    "abs": ("x.abs()", PLANE),
    "exp": ("x.exp()", PLANE),
    "expm1": ("x.expm1()", PLANE),
    "log": ("x.log()", POSITIVE),
    "log1p": ("x.log1p()", POSITIVE),
    "sqrt": ("x.sqrt()", POSITIVE),
    "rsqrt": ("x.rsqrt()", POSITIVE),
    "tanh": ("x.tanh()", PLANE),
    "sigmoid": ("x.sigmoid()", PLANE),
    "erf": ("x.erf()", PLANE),
    "sin": ("x.sin()", PLANE),
    "cos": ("x.cos()", PLANE),
    "tan": ("x.tan()", PLANE),
    "ceil": ("x.ceil()", PLANE),
    "floor": ("x.floor()", PLANE),
    "round": ("x.round()", PLANE),
    "sign": ("x.sign()", PLANE),
    "isfinite": ("x.isfinite()", PLANE),
    "relu": ("F.relu(x)", PLANE),
    "silu": ("F.silu(x)", PLANE),
    "gelu": ("F.gelu(x)", PLANE),
    "and": ("x & y", BITS, BITS),
    "or": ("x | y", BITS, BITS),
    "xor": ("x ^ y", BITS, BITS),
    "not": ("~x", BITS),
    "shift_left": ("x << y", BITS, lambda: BITS() % 8),
    "shift_right": ("x >> y", BITS, lambda: BITS() % 8),
    "to_f64": ("x.double()", PLANE),
    "to_bf16": ("x.bfloat16()", PLANE),
    "to_f16": ("x.half()", PLANE),
    "to_i32": ("x.int()", PLANE),
    "from_i32": ("x.float()", BITS),
    "full": ("M.full((x.shape[0], 4096), 2.0)", PLANE),
    "arange": ("M.arange(x.shape[0] * 4096)", PLANE),
    "randn": ("M.randn(x.shape[0], 2048)", PLANE),
    "rand": ("M.rand(x.shape[0], 2048)", PLANE),
    "softmax": ("F.softmax(x, 1)", PLANE),
    "softmax_columns": ("F.softmax(x, 0)", PLANE),
    "log_softmax": ("F.log_softmax(x, 1)", PLANE),
    "layer_norm": ("F.layer_norm(x, (x.shape[1],))", PLANE),
    "cross_entropy": ("F.cross_entropy(x, y)", PLANE, whole(SIDE, end=SIDE)),
    "attention": ("F.softmax(x @ y.transpose(-1, -2), -1) @ z", TOKENS, TOKENS, TOKENS),
    "silu_gradient": ("M.autograd.grad(F.silu(x), x, y)[0]", PLANE, PLANE),
    "gelu_gradient": ("M.autograd.grad(F.gelu(x), x, y)[0]", PLANE, PLANE),
    "softmax_gradient": ("M.autograd.grad(F.softmax(x, 1), x, y)[0]", PLANE, PLANE),
    "layer_norm_gradient": ("M.autograd.grad(F.layer_norm(x, (x.shape[1],)), x, y)[0]", PLANE, PLANE),
    "cross_entropy_gradient": ("M.autograd.grad(F.cross_entropy(x, y), x)[0]", PLANE, whole(SIDE, end=SIDE)),
    "embedding_gradient": ("M.autograd.grad(F.embedding(y, x).sum(), x)[0]", normal(SIDE, SIDE // 4), whole(SIDE, 2, end=SIDE)),
    "cumsum": ("x.cumsum(1)", PLANE),
    "cumsum_columns": ("x.cumsum(0)", PLANE),
    "cumprod": ("x.cumprod(1)", PLANE),
    "transpose": ("x.t().contiguous() * 1", PLANE),
    "permute": ("x.reshape(64, 64, -1).permute(1, 0, 2).contiguous() * 1", PLANE),
    "slice": ("x[1:-1, 1:-1] * 1", PLANE),
    "slice_strided": ("x[::2, ::2] * 1", PLANE),
    "cat_rows": ("M.cat([x, y], 0)", PLANE, PLANE),
    "cat_columns": ("M.cat([x, y], 1)", PLANE, PLANE),
    "stack": ("M.stack([x, y], 2)", PLANE, PLANE),
    "pad": ("F.pad(x, (1, 1, 1, 1))", PLANE),
    "flip_rows": ("x.flip(0)", PLANE),
    "flip_columns": ("x.flip(1)", PLANE),
    "roll": ("x.roll(1, 1)", PLANE),
    "tril": ("x.tril()", PLANE),
    "gather": ("x[y]", PLANE, whole(SIDE, end=SIDE)),
    "gather_columns": ("x[:, y]", PLANE, whole(SIDE, end=SIDE)),
    "take_along": ("x.gather(1, y)", PLANE, WIDE),
    "embedding": ("F.embedding(y, x)", normal(SIDE, SIDE // 4), whole(SIDE, 2, end=SIDE)),
    "scatter": ("x.scatter(1, y, 2.0)", PLANE, lambda: np.sort(WIDE(), 1)),
    "scatter_add": ("x.scatter_add(1, y, z)", PLANE, WIDE, PLANE),
    "index_add": ("x.index_add(0, y, z)", PLANE, whole(SIDE, end=SIDE), PLANE),
    "matmul": ("x @ y", normal(SIDE // 2, SIDE // 4), normal(SIDE // 4, SIDE // 2)),
    "matmul_batched": ("x @ y", normal(64, 256, 256), normal(64, 256, 256)),
    "matmul_vector": ("x @ y", PLANE, normal(SIDE)),
    "outer": ("M.outer(x, y)", normal(SIDE), normal(SIDE)),
    "conv1d": ("F.conv1d(x, y, padding=2)", normal(16, 64, SIDE), normal(64, 64, 5)),
    "conv2d": ("F.conv2d(x, y, padding=1)", normal(*PICTURES), normal(64, 64, 3, 3)),
    "conv2d_strided": ("F.conv2d(x, y, padding=1, stride=2)", normal(*PICTURES), normal(64, 64, 3, 3)),
    "conv2d_dilated": ("F.conv2d(x, y, padding=2, dilation=2)", normal(*PICTURES), normal(64, 64, 3, 3)),
    "conv2d_grouped": ("F.conv2d(x, y, padding=1, groups=4)", normal(*PICTURES), normal(64, 16, 3, 3)),
    "conv2d_depthwise": ("F.conv2d(x, y, padding=1, groups=64)", normal(*PICTURES), normal(64, 1, 3, 3)),
    "conv2d_1x1": ("F.conv2d(x, y)", normal(*PICTURES), normal(64, 64, 1, 1)),
    "conv2d_input_gradient": ("M.autograd.grad(F.conv2d(x, y, padding=1).sum(), x)[0]", normal(*PICTURES), normal(64, 64, 3, 3)),
    "conv2d_weight_gradient": ("M.autograd.grad(F.conv2d(y, x, padding=1).sum(), x)[0]", normal(64, 64, 3, 3), normal(*PICTURES)),
    "conv_transpose2d": ("F.conv_transpose2d(x, y, stride=2)", normal(*PICTURES), normal(64, 32, 2, 2)),
    "conv3d": ("F.conv3d(x, y, padding=1)", normal(lib.scaled(16), 16, 16, 16, 16), normal(32, 16, 3, 3, 3)),
    "max_pool2d": ("F.max_pool2d(x, 2)", normal(4 * PICTURES[0], 64, 32, 32)),
    "max_pool2d_gradient": ("M.autograd.grad(F.max_pool2d(x, 2).sum(), x)[0]", normal(4 * PICTURES[0], 64, 32, 32)),
    "avg_pool2d": ("F.avg_pool2d(x, 3, 1)", normal(4 * PICTURES[0], 64, 32, 32)),
    "avg_pool2d_gradient": ("M.autograd.grad(F.avg_pool2d(x, 3, 1).sum(), x)[0]", normal(4 * PICTURES[0], 64, 32, 32)),
    "batch_norm": ("F.batch_norm(x, None, None, training=True)", normal(4 * PICTURES[0], 64, 32, 32)),
}


# Cases that are also run on elements of other types: the same numbers, of i32 a thousand times as large.
FEW = ("sort top_k argmax_rows argmax_columns sum_rows sum_columns max_rows add multiply divide maximum where cumsum "
       "transpose gather take_along scatter_add")
CASES_OF = {
    "f64": f"{FEW} mean_rows mean_columns power exp log sqrt tanh sigmoid sin relu softmax matmul",
    "bf16": f"{FEW} mean_rows mean_columns power exp log sqrt tanh sigmoid sin relu gelu softmax layer_norm",
    "i32": FEW.replace("divide ", "") + " and shift_left to_f64",
    # 64 x 64, a hundred of them one after the other, each of the last one's result.
    "small": "add tanh gelu softmax layer_norm transpose gather where",
}
NAMES = [*CASES, *(f"{name}.{kind}" for kind, names in CASES_OF.items() for name in names.split())]
RANDOM = ("rand", "randn")
MANY, SMALL = 100, 64


@functools.lru_cache(4)
def array_of(make):
    return make()


def operand(module, side, array, kind):
    """A tensor of numbers as they are, or as another type; indices stay what they are."""
    tensor = module.tensor if side == "shoal" else module.from_numpy
    if kind == "small":
        array = np.ascontiguousarray(array[tuple(slice(SMALL) for _ in array.shape)])
        return tensor(array % SMALL if array.dtype.kind == "i" else array)
    if kind and array.dtype == np.float32:
        if kind == "bf16":
            return tensor(array).bfloat16()
        return tensor(array.astype(np.float64) if kind == "f64" else (array * 1000).astype(np.int32))
    return tensor(array)


class Case:
    """One operation, ready to be run."""

    def __init__(self, module, functional, side, name):
        base, _, kind = name.partition(".")
        expression, *makers = CASES[base]
        self.module, self.side, self.steps = module, side, MANY if kind == "small" else 1
        self.work = eval(f"lambda x, y=None, z=None: {expression}", {"F": functional, "M": module})  # of the table
        self.operands = [operand(module, side, array_of(make), kind) for make in makers]
        if "autograd" in expression:
            self.operands[0].requires_grad_()
        numbers = np.asarray(self.result().detach().double().numpy())
        self.sizes = np.abs(numbers).sum()
        self.total = self.sizes if base in RANDOM else numbers.sum()
        self.often = 1
        self()
        self.often = max(1, min(100, round((0.02 if lib.QUICK else 0.2) / lib.timed(self)())))

    def result(self):
        first = self.operands[:1]
        for _ in range(self.steps):
            first = [self.work(*first, *self.operands[1:])]
        return first[0]

    def __call__(self):
        for _ in range(self.often):
            made = self.result()
            if self.side == "shoal":
                made.start()
                self.module.sync()


def main():
    side, = sys.argv[1:]
    if side == "torch":
        import torch as module
        import torch.nn.functional as functional
        module.set_num_threads(2)
    else:
        module = lib.product()
        from shoal import functional
        module.init(threads=2)
    print("ready", f"PyTorch {module.__version__.split('+')[0]}, eager, 2 threads" if side == "torch" else "-", flush=True)
    case = None
    for line in sys.stdin:
        if line.strip() == "run":
            print(f"{lib.timed(case)():.9f}", flush=True)
            continue
        case = None  # its memory first
        try:
            case = Case(module, functional, side, line.strip())
            print(f"{case.total:.9g} {case.sizes:.9g} {case.often}", flush=True)
        except Exception as error:  # the others are still to be had
            print(f"failed, {type(error).__name__}: {' '.join(str(error).split())}", flush=True)


if __name__ == "__main__":
    main()
