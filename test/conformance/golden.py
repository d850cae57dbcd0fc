"""Compares the reference backend with NumPy: golden.py CONFORMANCE_EXECUTABLE [EVERY]: each EVERYth case.

The executable writes its cases with the reference's results; each is computed again here, with
bfloat16 and the rounding to it written out by hand, and compared as the case says.
"""
import json
import subprocess
import sys

try:
    import numpy as np
except ImportError:
    print("SKIP: NumPy is not installed; install numpy to compare the reference with it")
    sys.exit(77)
try:
    import gguf  # noqa: F401 (the composites' truth on blocks)
except ImportError:
    print("SKIP: the package gguf is not installed; pip install gguf to compare quantised blocks with it")
    sys.exit(77)

import golden_composite  # noqa: E402 (these need NumPy, too)
import golden_index as index  # noqa: E402
import golden_window as window  # noqa: E402

BITS, EXACT, ULPS, UNITS, SUM = range(5)
DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
LEAST = {"float16": -24, "bfloat16": -133, "float32": -149, "float64": -1074}
SMALL = ("float16", "bfloat16")
NUMPY = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal,
         "GT": np.greater, "GE": np.greater_equal}


def to_bfloat(x):
    """The 16 bits of the bfloat16 nearest to each float64, ties to even."""
    x = np.asarray(x, np.float64)
    _, exponent = np.frexp(x)
    unit = np.maximum(exponent - 8, -133)
    with np.errstate(all="ignore"):
        near = np.ldexp(np.rint(np.ldexp(x, -unit)), unit)
        single = near.astype(np.float32)  # exact, or infinite
    bits = single.view(np.uint32) >> 16
    bits = np.where(np.isnan(x), 0x7FC0, bits)
    return np.where(np.isnan(x) | (x != 0), bits, np.signbit(x) * 0x8000).astype(np.uint16)


def from_bfloat(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def decode(data, kind):
    """The elements as NumPy computes with them: float16 and bfloat16 as float32."""
    name, shape = kind
    raw = np.frombuffer(data, np.uint16 if name == "bfloat16" else name).reshape(shape)
    if name == "bfloat16":
        return from_bfloat(raw).reshape(shape)
    return raw.astype(np.float32) if name == "float16" else raw


def bytes_of(kind):
    """The size of an array of some element type and shape."""
    name, shape = kind
    return (2 if name == "bfloat16" else np.dtype(name).itemsize) * int(np.prod(shape, dtype=np.int64))


def encode(x, name):
    """The bytes of what `decode` gives."""
    if name == "bfloat16":
        return (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return np.asarray(x).astype(name).tobytes()


def rounded(x, name):
    """Rounds a result once to the element type, as float32 for the small ones."""
    if name == "bfloat16":
        return from_bfloat(to_bfloat(x)).reshape(np.shape(x))
    return np.asarray(x).astype(name).astype(np.float32) if name == "float16" \
        else np.asarray(x).astype(name)


def divide(a, b):
    if a.dtype.kind == "f":
        return a / b
    out = np.empty(a.shape, a.dtype)
    limits = np.iinfo(a.dtype)
    for i, (x, y) in enumerate(zip(a.ravel().tolist(), b.ravel().tolist())):
        if y == 0:
            q = -1
        else:
            q = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        span = limits.max - limits.min + 1
        out.ravel()[i:i + 1] = np.array([(q - limits.min) % span + limits.min]).astype(a.dtype)
    return out


def power(a, b):
    if a.dtype.kind == "f":
        return np.power(a.astype(np.float64), b.astype(np.float64)) if a.dtype == np.float32 \
            else np.power(a, b)
    out, limits = np.empty(a.shape, a.dtype), np.iinfo(a.dtype)
    span = limits.max - limits.min + 1
    for i, (x, y) in enumerate(zip(a.ravel().tolist(), b.ravel().tolist())):
        value = pow(x, y, span) if y >= 0 else {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)
        out.ravel()[i:i + 1] = np.array([(value - limits.min) % span + limits.min]).astype(a.dtype)
    return out


def extreme(a, b, sign):
    """maximum (sign 1) and minimum (-1); -0 is below +0."""
    if a.dtype.kind != "f":
        return np.maximum(a, b) if sign > 0 else np.minimum(a, b)
    out = np.maximum(a, b) if sign > 0 else np.minimum(a, b)
    zeros = (a == 0) & (b == 0)
    negative = np.signbit(a) & np.signbit(b) if sign > 0 else np.signbit(a) | np.signbit(b)
    return np.where(zeros, np.where(negative, a.dtype.type(-0.0), a.dtype.type(0)), out)


def convert(x, source, target):
    if target == "bool":
        return x != 0
    if target in SMALL or target[0] == "f":
        if x.dtype.kind in "iu" and target in SMALL:
            if x.dtype.itemsize == 8:
                # float64 would round first: keep that lower bits are set, but not which.
                low, sticky = x.dtype.type(0x7FF), x.dtype.type(0x800)
                kept = (x & ~low) | np.where(x & low, sticky, x.dtype.type(0))
                x = np.where(np.abs(x.astype(np.float64)) >= 2.0**53, kept, x)
            x = x.astype(np.float64)
        return rounded(x, target)
    if x.dtype.kind != "f":
        return x.astype(target)
    limits = np.iinfo(target)
    out = np.empty(x.shape, target)
    for i, value in enumerate(x.ravel().tolist()):
        whole = 0 if value != value else limits.max if value == float("inf") else \
            limits.min if value == float("-inf") else int(value)
        out.ravel()[i:i + 1] = np.array([min(max(whole, limits.min), limits.max)], target)
    return out


def wide(x):
    """float32 to float64, so that NumPy's result is better than the reference's."""
    return x.astype(np.float64) if x.dtype == np.float32 else x


UNARY = {
    "negate": np.negative, "abs": np.abs, "sqrt": np.sqrt,
    "exponential": lambda x: np.exp(wide(x)), "log": lambda x: np.log(wide(x)),
    "tanh": lambda x: np.tanh(wide(x)),
    "logistic": lambda x: np.where(wide(x) > 0, 1 / (1 + np.exp(-np.abs(wide(x)))),
                                   np.exp(-np.abs(wide(x))) / (1 + np.exp(-np.abs(wide(x))))),
}
UNARY |= {
    "cosine": lambda x: np.cos(wide(x)), "sine": lambda x: np.sin(wide(x)),
    "tan": lambda x: np.tan(wide(x)), "cbrt": lambda x: np.cbrt(wide(x)),
    "erf": lambda x: golden_composite.erf(wide(x)) if x.size else x,
    "rsqrt": lambda x: 1 / np.sqrt(wide(x)),
    "exponential_minus_one": lambda x: np.expm1(wide(x)),
    "log_plus_one": lambda x: np.log1p(wide(x)),
    "ceil": np.ceil, "floor": np.floor, "round_nearest_even": np.rint,
    "round_nearest_afz": lambda x: np.copysign(np.floor(np.abs(wide(x)) + 0.5), x)
    if x.dtype != np.float64 else np.where(np.abs(x) < 2.0 ** 52,
                                           np.copysign(np.trunc(np.abs(x)) +
                                                       (np.abs(x) % 1 >= 0.5), x), x),
    "sign": lambda x: np.where(x == 0, x, np.sign(x)),
    "not": np.invert, "popcnt": index.popcnt, "count_leading_zeros": index.count_leading_zeros,
    "is_finite": np.isfinite,
}
BINARY = {
    "add": lambda a, b: a | b if a.dtype == bool else a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a & b if a.dtype == bool else a * b,
    "divide": divide, "power": power,
    "maximum": lambda a, b: extreme(a, b, 1), "minimum": lambda a, b: extreme(a, b, -1),
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "atan2": lambda a, b: np.arctan2(wide(a), wide(b)), "remainder": index.remainder,
    "shift_left": lambda a, b: index.shifted(a, b, "left"),
    "shift_right_logical": lambda a, b: index.shifted(a, b, "logical"),
    "shift_right_arithmetic": lambda a, b: index.shifted(a, b, "arithmetic"),
}


def dot_general(a, b, attrs, shape):
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left, right = [None] * a.ndim, [None] * b.ndim
    batch, result = [], []
    for kind in ("batching", "contracting"):
        for i, j in zip(attrs[f"lhs_{kind}_dimensions"], attrs[f"rhs_{kind}_dimensions"]):
            left[i] = right[j] = next(letters)
            if kind == "batching":
                batch.append(left[i])
    for side in (left, right):
        for i, letter in enumerate(side):
            if letter is None:
                side[i] = next(letters)
                result.append(side[i])
    spec = f"{''.join(left)},{''.join(right)}->{''.join(batch + result)}"
    if not a.size or not b.size:  # NumPy's einsum leaves some results as memory was
        return np.zeros(shape, a.dtype)
    if a.dtype == bool:
        return np.einsum(spec, a.astype(np.int64), b.astype(np.int64)) > 0
    return np.einsum(spec, wide(a), wide(b))


def constant(attrs, kind):
    name, shape = kind
    data = bytes.fromhex(attrs["value"])
    size = bytes_of([name, []])
    size = 2 if name == "bfloat16" else np.dtype(name).itemsize
    count = int(np.prod(shape, dtype=np.int64))
    return decode(data * (count if len(data) == size else 1), kind)


def joining(region):
    """A body on two lists of arrays, element by element."""
    return lambda left, right: run(region, [*left, *right])


def with_body(node, inputs):
    """Operations that have bodies; None when it is another."""
    op, attrs, regions = node["op"], node["attrs"], node["regions"]
    if op in ("scatter", "reduce"):
        return getattr(index, op)(attrs, joining(regions[0]), *inputs)
    if op == "cumulate":
        return [index.cumulate(attrs, joining(regions[0]), *inputs)]
    if op == "sort":
        return index.sort(attrs, lambda *pairs: run(regions[0], pairs)[0], *inputs)
    if op == "reduce_window":
        return window.reduce_window(attrs, joining(regions[0]), *inputs)
    if op == "select_and_scatter":
        return [window.select_and_scatter(attrs, lambda x, y: run(regions[0], [x, y])[0],
                                          joining(regions[1]), *inputs)]
    if op == "while":
        while run(regions[0], inputs)[0]:
            inputs = run(regions[1], inputs)
        return inputs
    if op == "if":
        return run(regions[0 if inputs[0] else 1], inputs[1:])
    if op == "case":
        last = len(regions) - 1
        return run(regions[int(inputs[0]) if 0 <= inputs[0] <= last else last], inputs[1:])
    return None


def moved(node, kind, inputs, source):
    """Operations on indices, order, bits, random numbers; None when it is another."""
    op, attrs, (name, shape) = node["op"], node["attrs"], kind
    if op in ("pad", "reverse", "dynamic_slice", "dynamic_update_slice", "gather", "top_k"):
        return getattr(index, op)(attrs, *inputs)
    if op == "in_range":
        low, high = attrs["start_indices"][0], attrs["limit_indices"][0]
        for number in (min(int(x), 2 ** 63 - 1) for x in inputs[0].ravel()):
            assert low <= number < high or number == attrs.get("ignore_index")
        return inputs[0]
    if op in ("argmax", "argmin"):
        return index.extreme(attrs, inputs[0], op == "argmax").astype(name)
    if op == "clamp":
        return extreme(extreme(inputs[1], np.broadcast_to(inputs[0], shape), 1),
                       np.broadcast_to(inputs[2], shape), -1)
    if op == "bitcast_convert":
        return decode(encode(inputs[0], source), [name, shape])
    if op == "reduce_precision":
        return index.reduce_precision(attrs, inputs[0], name)
    if op == "random":
        made = index.random(attrs, name, shape, *inputs)
        return rounded(made, name) if made.dtype.kind == "f" else made
    if op == "convolution":
        return rounded(window.convolution(attrs, *inputs), name)
    return None


def run(graph, inputs):
    """The results of a graph, a list of arrays, computed by NumPy from those of its inputs."""
    values = dict(zip(graph["inputs"], inputs))
    for node in graph["nodes"]:
        operands = [np.asarray(values[i]) for i in node["inputs"]]
        values.update(zip(node["outputs"], results(graph, node, operands)))
    return [values[i] for i in graph["outputs"]]


def results(graph, node, inputs):
    """The results of one node."""
    kinds = [graph["values"][i] for i in node["outputs"]]
    made = with_body(node, inputs)
    if made is None:
        source = graph["values"][node["inputs"][0]][0] if inputs else None
        made = moved(node, kinds[0], inputs, source)
        made = computed(node, kinds[0], inputs, source) if made is None else made
    return made if isinstance(made, list) else [made]


def computed(node, kind, inputs, source):
    """Every other operation; source: the element type of the first operand."""
    op, attrs, (name, shape) = node["op"], node["attrs"], kind
    if op in UNARY:
        return rounded(UNARY[op](*inputs), name)
    if op in BINARY:
        return rounded(BINARY[op](*inputs), name)
    if op == "compare":
        return NUMPY[attrs["comparison_direction"]](*inputs)
    if op == "select":
        return np.where(*inputs)
    if op == "convert":
        return convert(inputs[0], source, name)
    if op == "constant":
        return constant(attrs, kind)
    if op == "iota":
        axis = attrs["iota_dimension"]
        start = attrs.get("start_indices", [0] * len(shape))[axis]
        line = np.arange(start, start + shape[axis], dtype=np.int64)
        line = line.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        return convert(np.broadcast_to(line, shape), "int64", name)
    if op == "broadcast_in_dim":
        order = np.argsort(attrs["broadcast_dimensions"], kind="stable")
        x = inputs[0].transpose([int(i) for i in order])
        at = sorted(attrs["broadcast_dimensions"])
        x = x.reshape([x.shape[at.index(i)] if i in at else 1 for i in range(len(shape))])
        return np.broadcast_to(x, shape).copy()  # einsum adds up what one repeated number is times of, and multiplies once
    if op in ("reshape", "custom"):  # cases_index.c has one that gives the first operand
        return inputs[0].reshape(shape)
    if op == "transpose":
        return inputs[0].transpose(attrs["permutation"])
    if op == "slice":
        ranges = zip(attrs["start_indices"], attrs["limit_indices"], attrs["strides"])
        return inputs[0][tuple(slice(*r) for r in ranges)]
    if op == "concatenate":
        return np.concatenate(inputs, attrs["dimension"])
    if op == "dot_general":
        return rounded(dot_general(*inputs, attrs, shape), name)
    if op in golden_composite.COMPOSITES:
        wide_inputs = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
        made = golden_composite.COMPOSITES[op](attrs, *wide_inputs)
        return [rounded(x, name) for x in made] if isinstance(made, list) else rounded(made, name)
    raise KeyError(op)


def agrees(case, name, result, want):
    if list(np.shape(result)) != list(np.shape(want)):
        return False
    if name not in DIGITS:
        return np.array_equal(result, want)
    x, y = np.asarray(result, np.float64), np.asarray(want, np.float64)
    same = (np.isnan(x) & np.isnan(y)) | ((x == y) & ((np.signbit(x) == np.signbit(y)) | (x != 0)))
    if case["close"] in (BITS, EXACT):
        return bool(same.all())
    bound = y if case["close"] == ULPS else np.full_like(y, case["terms"])
    if case["close"] == UNITS:
        bound = np.maximum(np.abs(y), 1)
    _, exponent = np.frexp(np.where(np.isfinite(bound), bound, 1))
    unit = np.ldexp(1.0, np.maximum(exponent - DIGITS[name], LEAST[name]))
    units = (1 if name in SMALL else 2) if case["close"] == ULPS else case["terms"] + (8 if case["close"] == SUM else 0)
    return bool((same | (np.abs(x - y) <= units * unit) |
                 ((x == y) & (case["close"] in (SUM, UNITS)))).all())


def main():
    process = subprocess.Popen([sys.argv[1], "--cases"], stdout=subprocess.PIPE)
    stream, passed, failed, seen = process.stdout, 0, 0, {}
    every, number = int(sys.argv[2]) if len(sys.argv) > 2 else 1, 0
    np.seterr(all="ignore")
    while line := stream.readline():
        case = json.loads(line)
        graph = case["graph"]
        inputs, outputs = ([graph["values"][v] for v in graph[k]] for k in ("inputs", "outputs"))
        arrays = [decode(stream.read(bytes_of(kind)), kind) for kind in inputs + outputs]
        n, number = len(inputs), number + 1
        if number % every:
            continue
        want = run(graph, arrays[:n])
        for op in {node["op"] for node in graph["nodes"]}:
            seen[op] = seen.get(op, 0) + 1
        wrong = [i for i, (name, _) in enumerate(outputs)
                 if not agrees(case, name, arrays[n + i], want[i])]
        if not wrong:
            passed += 1
            continue
        failed += 1
        if failed <= 40:
            i = wrong[0]
            print(f"FAILED {case['name']}")
            print(f"  is       {arrays[n + i].ravel()[:8]}\n"
                  f"  must be  {np.asarray(want[i]).ravel()[:8]}")
    if process.wait():
        print(f"{sys.argv[1]} --cases failed with {process.returncode}")
        failed += 1
    print("cases:", ", ".join(f"{op} {n}" for op, n in sorted(seen.items())))
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
