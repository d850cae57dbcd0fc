"""Programs of the hunt as Python: the ways in which a user may write each operation.

One table serves the package and PyTorch: `t` is the module (shoal or torch), `F` its functions of
networks. What only the package has is marked. A node without a spelling is left out, and its values are
given as the reference computes them.
"""
import random

import numpy as np

import golden
from spell_joined import cumulate, reduce, remainder, together, whole_quotient, widens
from spell_moved import SMALL, copied, summed
from spell_viewed import viewed

# What torch calls the operations that take one tensor; True: torch computes the same for every element.
UNARY = {
    "exponential": ("exp", True), "log": ("log", True), "sqrt": ("sqrt", True), "tanh": ("tanh", True),
    "logistic": ("sigmoid", True), "erf": ("erf", True), "rsqrt": ("rsqrt", True), "cosine": ("cos", True),
    "sine": ("sin", True), "tan": ("tan", True), "cbrt": ("cbrt", False), "ceil": ("ceil", True),
    "floor": ("floor", True), "exponential_minus_one": ("expm1", True), "log_plus_one": ("log1p", True),
    "round_nearest_even": ("round", True), "round_nearest_afz": ("round_away", False),
    "sign": ("sign", False), "popcnt": ("popcount", False),
    "count_leading_zeros": ("count_leading_zeros", False), "is_finite": ("isfinite", True),
}
# Of which results may be views, or the operand itself.
SHARING = ("broadcast_in_dim", "constant", "convert", "iota", "reshape", "reverse", "slice", "transpose")
IN_PLACE = ("exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "floor", "ceil", "round")
SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**"}
WORDS = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "power": "pow"}
COMPARED = {"EQ": ("==", "eq"), "NE": ("!=", "ne"), "LT": ("<", "lt"), "LE": ("<=", "le"),
            "GT": (">", "gt"), "GE": (">=", "ge")}
# PyTorch computes these in the small types themselves, step by step.
INEXACT = ("rsqrt", "softmax", "log_softmax", "silu", "gelu", "layer_norm", "cross_entropy")
# These PyTorch computes wrong near the ends of what a type holds, or with infinities beside zeros.
TAME = ("convolution", "erf", "log_plus_one", "remainder", "tan")
# Of whose operands only those of the result's type reach PyTorch.
INDEXED = ("gather", "scatter", "dynamic_slice", "dynamic_update_slice")
TORCH = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


class Node:
    """A node as the rules below see it. x: what its operands are called."""

    def __init__(self, graph, node, makers, values, torch, chance):
        self.graph, self.op, self.attrs = graph, node["op"], node["attrs"]
        self.regions, self.torch, self.chance = node["regions"], torch, chance
        self.numbers, self.outputs = node["inputs"], node["outputs"]
        self.x = [f"v{v}" for v in node["inputs"]]
        self.kinds = [graph["values"][v] for v in node["inputs"]]
        self.results = [graph["values"][v] for v in node["outputs"]]
        self.dtype, self.shape = self.results[0]
        self.makers, self.values = makers, values

    @property
    def is_float(self):
        """Whether the first result's elements are."""
        return "float" in self.dtype

    def named(self, dtype):
        """An element type, as an argument."""
        return "bool" if dtype == "bool" else f"t.{dtype}"

    def number(self, k):
        """The operand as a number, if it is the same constant everywhere; else None."""
        maker = self.makers.get(self.numbers[k])
        if maker and maker["op"] == "broadcast_in_dim":
            maker = self.makers.get(maker["inputs"][0])
        value = self.values[self.numbers[k]]
        if not maker or maker["op"] != "constant" or not value.size or self.kinds[k][0] == "bool":
            return None
        first = value.ravel()[0].item()
        if not (value == first).all() or abs(first) >= 1e6:
            return None
        return f"({first!r})" if repr(first).startswith("-") else repr(first)  # also -0.0

    def smaller(self, k):
        """What broadcasting would repeat to the operand, and its shape; the operand itself if nothing."""
        maker = self.makers.get(self.numbers[k])
        if maker and maker["op"] == "broadcast_in_dim":
            shape = self.graph["values"][maker["inputs"][0]][1]
            rank = len(self.kinds[k][1])
            if maker["attrs"]["broadcast_dimensions"] == list(range(rank - len(shape), rank)):
                return f"v{maker['inputs'][0]}", shape
        return self.x[k], self.kinds[k][1]

    def narrower(self, k):
        """What promotion would convert to the other operand's type by itself, and is converted; else None."""
        maker = self.makers.get(self.numbers[k])
        if not maker or maker["op"] != "convert":
            return None
        source = maker["inputs"][0]
        dtype = self.graph["values"][source][0]
        fits = widens(dtype, self.kinds[k][0]) and (not self.torch or dtype in TORCH)
        return f"v{source}" if fits else None

    def met(self):
        """The operands before conversions of both to what they become together; else None."""
        makers = [self.makers.get(v) for v in self.numbers[:2]]
        if not all(maker and maker["op"] == "convert" for maker in makers):
            return None
        sources = [maker["inputs"][0] for maker in makers]
        dtypes = [self.graph["values"][v][0] for v in sources]
        fits = together(*dtypes) == self.kinds[0][0] and not (self.torch and set(dtypes) - set(TORCH))
        return [f"v{v}" for v in sources] if fits else None

    def only(self, n=0):
        """What the body of two arguments does, if it is one operation of both; else None."""
        body = self.regions[n]
        if len(body["nodes"]) != 1 or sorted(body["nodes"][0]["inputs"]) != sorted(body["inputs"]) or \
                len(body["inputs"]) != 2 or body["outputs"] != body["nodes"][0]["outputs"]:
            return None
        return body["nodes"][0]["op"]


def applied(n):
    """Any operation without bodies, by its name and attributes; the package's."""
    if n.torch or n.regions:
        return []
    attrs = ", ".join(f"{key}={value!r}" for key, value in n.attrs.items())
    many = len(n.results)
    call = f"apply({', '.join([repr(n.op), str(many)] + n.x)}{', ' if attrs else ''}{attrs})"
    return [call if many > 1 else f"{call}[0]"]


def unary(n):
    name, everywhere = UNARY[n.op]
    if n.torch and not everywhere:
        return []
    if n.torch and n.op == "logistic" and not tame(n.values[n.outputs[0]]):
        return []  # which torch takes for 0 where it is tiny
    if n.op == "sign" and n.is_float and np.isnan(n.values[n.numbers[0]].astype(float)).any():
        return applied(n)  # torch's sign of NaN is 0
    made = [f"{n.x[0]}.{name}()", f"t.{name}({n.x[0]})"]
    if name in IN_PLACE:
        made.append(f"{{y}} = {n.x[0]}.clone()\n{{y}}.{name}_()")
    return made


def arithmetic(n):
    sign, word = SIGNS[n.op], WORDS[n.op]
    if n.dtype == "bool":
        return [f"{n.x[0]} {'|' if n.op == 'add' else '&'} {n.x[1]}"]
    if n.op == "divide" and not n.is_float:
        return whole_quotient(n)
    if n.op == "power" and not n.is_float and n.torch:
        return []
    a, b = n.x
    made = [f"{a} {sign} {b}", f"t.{word}({a}, {b})", f"{a}.{word}({b})",
            f"{{y}} = {a}.clone()\n{{y}} {sign}= {b}", f"{{y}} = {a}.clone()\n{{y}}.{word}_({b})"] + viewed(n, sign)
    if n.met():
        made += [f"{n.met()[0]} {sign} {n.met()[1]}"] * 6
    for k in (0, 1):
        less, shape = n.smaller(k)
        if shape != n.shape:
            made += [f"{less} {sign} {b}" if k == 0 else f"{a} {sign} {less}"] * 3
        negative = n.op == "power" and not n.is_float and (n.number(1) or "").startswith("(")
        rounded = n.torch and n.op == "power" and k == 0  # in float32, the logarithm of an integer for the gradient
        if n.narrower(k) and not rounded:
            made += [f"{n.narrower(k)} {sign} {b}" if k == 0 else f"{a} {sign} {n.narrower(k)}"] * 3
            made += [f"{{y}} = {a}.clone()\n{{y}} {sign}= {n.narrower(k)}"] * k
        if n.number(k) is not None and not negative and not (n.torch and n.op == "divide"):  # which inverts first
            made += [f"{n.number(k)} {sign} {b}"] * 6 if k == 0 else [f"{a} {sign} {n.number(k)}"] * 3
    return made


def angle(n):
    y, x = (n.values[v] for v in n.numbers)
    if n.torch and ((y == 0) & (x == 0)).any():
        return []  # where even a slope of 0 becomes NaN on its way back
    return [f"t.arctan2({n.x[0]}, {n.x[1]})"]


def bitwise(n):
    sign = {"and": "&", "or": "|", "xor": "^"}[n.op]
    return [f"{n.x[0]} {sign} {n.x[1]}", f"{{y}} = {n.x[0]}.clone()\n{{y}} {sign}= {n.x[1]}"]


def shift(n):
    if n.torch:
        return []
    if n.op == "shift_left":
        return [f"{n.x[0]} << {n.x[1]}"]
    if (n.op == "shift_right_logical") == n.dtype.startswith("u"):
        return [f"{n.x[0]} >> {n.x[1]}"]
    return [f"{n.x[0]}.shift_right_logical({n.x[1]})"] if n.op == "shift_right_logical" else applied(n)


def extreme(n):
    made = [f"{n.x[0]}.{n.op}({n.x[1]})", f"t.{n.op}({n.x[0]}, {n.x[1]})"]
    less, shape = n.smaller(1)
    made += [f"{n.x[0]}.{n.op}({n.narrower(1)})"] * bool(n.narrower(1))
    made += [f"t.{n.op}({', '.join(n.met())})"] * 2 if n.met() else []
    return made + [f"{n.x[0]}.{n.op}({less})"] * 2 * (shape != n.shape)


def compare(n):
    sign, word = COMPARED[n.attrs["comparison_direction"]]
    less, shape = n.smaller(1)
    mixed = [f"{n.narrower(0)} {sign} {n.x[1]}"] * 2 if n.narrower(0) else []
    mixed += [f"{n.x[0]} {sign} {n.narrower(1)}"] * 2 if n.narrower(1) else []
    mixed += [f"{n.met()[0]} {sign} {n.met()[1]}"] * 2 if n.met() else []
    return [f"{n.x[0]} {sign} {n.x[1]}", f"t.{word}({n.x[0]}, {n.x[1]})"] + mixed + \
        [f"{n.x[0]} {sign} {less}"] * 2 * (shape != n.shape)


def select(n):
    made = [f"t.where({', '.join(n.x)})"]
    if n.number(1) is not None and n.kinds[0][1] == n.shape:
        made.append(f"{n.x[2]}.masked_fill({n.x[0]}, {n.number(1)})")
        made.append(f"{{y}} = {n.x[2]}.clone()\n{{y}}[{n.x[0]}] = {n.number(1)}")
    return made


def clamp(n):
    low, high = (n.values[n.numbers[k]] for k in (0, 2))
    if n.torch and not (low < high).all():  # torch's gradient forgets bounds that are equal
        x = n.values[n.numbers[1]]
        return [] if ((x == low) | (x == high) | (low == high)).any() else \
            [f"{n.x[1]}.maximum({n.x[0]}).minimum({n.x[2]})"]
    return [f"{n.x[1]}.clamp({n.x[0]}, {n.x[2]})", f"t.clamp({n.x[1]}, min={n.x[0]}, max={n.x[2]})"]


def convert(n):
    source = n.kinds[0][0]
    if n.torch and ("float" in source and not n.is_float or
                    n.dtype in SMALL and source not in ("float32",) + SMALL):
        return []
    if n.dtype == "bool":
        return [f"{n.x[0]}.bool()", f"{n.x[0]} != 0"]
    made = [f"{n.x[0]}.to({n.named(n.dtype)})"]
    words = {"float32": "float", "float64": "double", "int32": "int", "int64": "long", "float16": "half"}
    if n.dtype in words:
        made.append(f"{n.x[0]}.{words[n.dtype]}()")
    return made + ([] if n.torch else [f"{n.x[0]}.astype({n.dtype!r})"])


def constant(n):
    value = n.values[n.outputs[0]]
    made = [f"tensor(c{n.outputs[0]}, {n.dtype!r})"]
    if value.size and n.dtype != "bool":
        first = value.ravel()[0].item()
        if (value == first).all() and abs(first) < 1e6:
            made.append(f"t.full({tuple(n.shape)}, {first!r}, dtype={n.named(n.dtype)})")
    return made


def iota(n):
    axis = n.attrs["iota_dimension"]
    start = n.attrs.get("start_indices", [0] * len(n.shape))[axis]
    long = [m if i == axis else 1 for i, m in enumerate(n.shape)]
    return [f"t.arange({start}, {start + n.shape[axis]}).to({n.named(n.dtype)}).reshape({long})"
            f".broadcast_to({n.shape})"]


def broadcast(n):
    axes, x = n.attrs["broadcast_dimensions"], n.x[0]
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    if order != list(range(len(axes))):
        x = f"{x}.permute({order})"
    lengths = [1] * len(n.shape)
    for i, axis in enumerate(axes):
        lengths[axis] = n.kinds[0][1][i]
    if sorted(axes) != list(range(len(n.shape) - len(axes), len(n.shape))):
        x = f"{x}.reshape({lengths})"
    return [f"{x}.broadcast_to({n.shape})", f"{x}.expand({n.shape})"]


def reshape(n):
    x, before = n.x[0], n.kinds[0][1]
    made = [f"{x}.reshape({n.shape})"]
    if len(n.shape) == 1 and len(before) > 1:
        made += [f"{x}.flatten()", f"{x}.ravel()"]
    for axis in range(len(n.shape)):
        if n.shape[:axis] + n.shape[axis + 1:] == before and n.shape[axis] == 1:
            made += [f"{x}.unsqueeze({axis})", f"{x}[{':, ' * axis}None]"]
    for axis in range(len(before)):
        if before[:axis] + before[axis + 1:] == n.shape and before[axis] == 1:
            made += [f"{x}.squeeze({axis})", f"{x}[{':, ' * axis}0]"]
    return made + ([] if n.torch else [f"{x}.contiguous().view({n.shape})"])


def transpose(n):
    order, x = n.attrs["permutation"], n.x[0]
    made = [f"{x}.permute({order})"]
    moved = [i for i, axis in enumerate(order) if i != axis]
    if len(moved) == 2:
        made += [f"{x}.transpose({moved[0]}, {moved[1]})", f"t.swapaxes({x}, {moved[0]}, {moved[1]})"]
    if moved and moved[-2:] == moved and moved[0] == len(order) - 2:
        made.append(f"{x}.mT")
    if len(order) == 2 and moved:
        made += [f"{x}.T", f"{x}.t()"]
    if order:
        made.append(f"t.movedim({x}, {order}, {list(range(len(order)))})")
    return made


def part(start, stop, stride, length, chance):
    """One axis of a key."""
    if (start, stop, stride) == (0, length, 1):
        return ":"
    if chance() < 0.3 and start < length and start < stop:
        start -= length
    first = "" if start == 0 and chance() < 0.5 else start
    last = "" if stop == length else stop
    return f"{first}:{last}" + (f":{stride}" if stride != 1 else "")


def slices(n):
    parts = list(zip(n.attrs["start_indices"], n.attrs["limit_indices"], n.attrs["strides"],
                     n.kinds[0][1]))
    key = ", ".join(part(*p, n.chance) for p in parts) or "..."
    cut = [i for i, (start, stop, stride, length) in enumerate(parts) if (start, stop, stride) != (0, length, 1)]
    made = [f"{n.x[0]}[{key}]"]
    if len(cut) == 1:
        axis = cut[0]
        start, stop, stride, length = parts[axis]
        after = ", ".join([":"] * axis + [part(*parts[axis], n.chance)])
        made.append(f"{n.x[0]}[{after}]")
        made.append(f"{n.x[0]}[..., {', '.join([part(*parts[axis], n.chance)] + [':'] * (len(parts) - axis - 1))}]")
        if stride == 1:
            made.append(f"{n.x[0]}.narrow({axis}, {start}, {stop - start})")
        if stop - start == 1:
            made.append(f"{n.x[0]}[{':, ' * axis}{start}].unsqueeze({axis})")
            made.append(f"{n.x[0]}.select({axis}, {start}).unsqueeze({axis})")
    return made


def concatenate(n):
    axis, at, lines = n.attrs["dimension"], 0, []
    made = [f"t.cat(({', '.join(n.x)},), {axis})", f"t.cat([{', '.join(n.x)}], dim={axis - len(n.shape)})"]
    lines.append(f"{{y}} = t.zeros({n.shape}, dtype={n.named(n.dtype)})")
    for x, (_, shape) in zip(n.x, n.kinds):
        lines.append(f"{{y}}[{':, ' * axis}{at}:{at + shape[axis]}] = {x}")
        at += shape[axis]
    return made + ["\n".join(lines)]


def letters(n):
    """An equation of einsum."""
    names = iter("abcdefghijklmnopqrstuvwxyz")
    sides = [[None] * len(kind[1]) for kind in n.kinds]
    result = []
    for kind in ("batching", "contracting"):
        for i, j in zip(n.attrs[f"lhs_{kind}_dimensions"], n.attrs[f"rhs_{kind}_dimensions"]):
            sides[0][i] = sides[1][j] = next(names)
            result += [sides[0][i]] * (kind == "batching")
    for side in sides:
        for i, name in enumerate(side):
            if name is None:
                side[i] = next(names)
                result.append(side[i])
    return f"{''.join(sides[0])},{''.join(sides[1])}->{''.join(result)}"


def product(n):
    a, b = n.x
    if n.dtype == "bool":
        return applied(n)
    if n.torch and n.dtype in SMALL:  # which torch sums in the small type itself
        return [f"t.einsum({letters(n)!r}, {a}.float(), {b}.float()).to(t.{n.dtype})"]
    made = [f"t.einsum({letters(n)!r}, {a}, {b})"] if n.kinds[0][1] and n.kinds[1][1] else []
    batch = n.attrs["lhs_batching_dimensions"]
    left, right = n.attrs["lhs_contracting_dimensions"], n.attrs["rhs_contracting_dimensions"]
    ranks, many = [len(kind[1]) for kind in n.kinds], len(batch)
    plain = batch == n.attrs["rhs_batching_dimensions"] == list(range(many)) and len(left) == 1
    if plain and left == [ranks[0] - 1]:
        fits = ranks[0] == many + 2 if many else ranks[0] >= 1
        if fits and ranks[1] == many + 2 and right == [many]:
            made += [f"{a} @ {b}", f"t.matmul({a}, {b})"] * 2
        if fits and ranks[1] == many + 2 and right == [many + 1]:
            made += [f"{a} @ {b}.mT", f"t.matmul({a}, {b}.transpose(-1, -2))"] * 2
        if fits and not many and ranks[1] == 1:
            made += [f"{a} @ {b}"] * 2
    if plain and not many and left == [0] and ranks == [2, 2] and right == [0]:
        made += [f"{a}.T @ {b}"] * 2
    if not left and not many and ranks == [1, 1]:
        made += [f"t.outer({a}, {b})"] * 2
    return made + applied(n)


def along(n):
    axis = n.attrs["dimension"]
    behind = axis - len(n.shape)
    return [f"{n.x[0]}.{n.op}({axis})", f"F.{n.op}({n.x[0]}, dim={behind})"]


def activation(n):
    if n.op == "silu":
        return [f"F.silu({n.x[0]})"]
    kind = n.attrs.get("approximate", "none")
    x = n.values[n.numbers[0]]
    if n.torch and kind == "tanh" and x.size and not x.min() > -1:  # its gradient cancels there
        return []
    return [f"F.gelu({n.x[0]}, approximate={kind!r})"]


def norm(n):
    axis, epsilon, rank = n.attrs["dimension"], n.attrs["epsilon"], len(n.shape)
    made = applied(n)
    if n.op == "rms_norm" and n.torch:
        if n.dtype in SMALL:
            return []
        root = f"{n.x[0]} * ({n.x[0]}.square().mean({axis}, keepdim=True) + {epsilon!r}).rsqrt()"
        lengths = [m if i == axis else 1 for i, m in enumerate(n.shape)]
        return [root + "".join(f" * {x}.reshape({lengths})" for x in n.x[1:])]
    if n.op == "rms_norm":
        return made + [f"{n.x[0]}.rms_norm({', '.join(n.x[1:])}"
                                            f"{', ' * (len(n.x) > 1)}axis={axis}, epsilon={epsilon!r})"]
    others = n.x[1:] + ["None"] * (3 - len(n.x))
    if n.torch:  # which loses the variance of numbers that lie far from 0, in the type itself
        wide = [x if x == "None" else f"{x}.double()" for x in others]
        return [f"far = {n.x[0]}.double().movedim({axis}, -1)\nfar = far - far.mean(-1, keepdim=True)\n"
                f"{{y}} = F.layer_norm(far, ({n.shape[axis]},), {wide[0]}, {wide[1]}, {epsilon!r})"
                f".movedim(-1, {axis}).to(t.{n.dtype})"]
    if axis == rank - 1:
        made.append(f"F.layer_norm({n.x[0]}, ({n.shape[axis]},), {others[0]}, {others[1]}, {epsilon!r})")
    return made + [f"{n.x[0]}.layer_norm({others[0]}, {others[1]}, axis={axis}, epsilon={epsilon!r})"]


def cross_entropy(n):
    axis, ignored = n.attrs["dimension"], n.attrs.get("ignore_index")
    rest = "" if ignored is None else f", ignore_index={ignored}"
    if n.torch:
        x = n.x[0] if len(n.kinds[0][1]) == 1 else f"{n.x[0]}.movedim({axis}, 1)"
        return [f"F.cross_entropy({x}, {n.x[1]}.long(), reduction='none'{rest})"]
    labels = n.values[n.numbers[1]]
    if ((labels < 0) | (labels >= n.kinds[0][1][axis])).any():
        return applied(n)  # which users are told of
    return [f"{n.x[0]}.cross_entropy({n.x[1]}, axis={axis}{rest}, reduction='none')"] + applied(n)


def attention(n):
    made = applied(n)
    if n.torch or n.attrs.get("causal", 0):
        return made
    rest = []
    for x, (dtype, shape) in zip(n.x[3:], n.kinds[3:]):
        rest.append(f"mask={x}" if shape else f"length={x}")
    if "causal" in n.attrs:
        rest.append("causal=True")
    if "scale" in n.attrs:
        rest.append(f"scale={n.attrs['scale']!r}")
    return made + [f"{n.x[0]}.attention({', '.join(n.x[1:3] + rest)})"]


def rope(n):
    rest = [f"axis={n.attrs['dimension']}"]
    rest += [f"{key}={n.attrs[key]!r}" for key in ("theta", "interleaved") if key in n.attrs]
    return [] if n.torch else [f"{n.x[0]}.rope({', '.join(n.x[1:] + rest)})"] + applied(n)


def dequantize(n):
    said = f"t.dequantize({n.x[0]}, {n.attrs['format']!r}, {n.dtype!r})"
    return [] if n.torch else [said] + applied(n)


def pad(n):
    low, high, inner = (n.attrs[k] for k in
                        ("edge_padding_low", "edge_padding_high", "interior_padding"))
    made = copied(n) if n.torch else [f"{n.x[0]}.pad({low}, {high}, {n.x[1]}, {inner})"]
    if min(low + high, default=-1) >= 0 and 0 not in n.kinds[0][1]:
        key = ", ".join(f"{a}:{a + (k - 1) * (i + 1) + 1}:{i + 1}"
                        for a, i, k in zip(low, inner, n.kinds[0][1]))
        made.append(f"{{y}} = {n.x[1]}.expand({n.shape}).clone()\n{{y}}[{key}] = {n.x[0]}")
    if n.number(1) is not None and not any(inner) and low:
        pairs = [m for pair in reversed(list(zip(low, high))) for m in pair]
        made.append(f"F.pad({n.x[0]}, {pairs}, value={n.number(1)})")
    return made


def reverse(n):
    if n.torch and not n.attrs["dimensions"]:
        return copied(n)
    if not n.attrs["dimensions"]:
        return applied(n)
    made = [f"{n.x[0]}.flip({tuple(n.attrs['dimensions'])})"]
    if not n.torch:
        key = ", ".join("::-1" if a in n.attrs["dimensions"] else ":" for a in range(len(n.shape)))
        made.append(f"{n.x[0]}[{key}]")
        made.append(f"{{y}} = t.empty_like({n.x[0]})\n{{y}}[{key}] = {n.x[0]}")
    return made


def gather(n):
    """Rows along an axis by the words that there are for them; an index is moved inside first."""
    if n.torch:
        return copied(n)
    attrs, (shape, places), axes = n.attrs, (n.kinds[k][1] for k in (0, 1)), n.attrs["collapsed_slice_dims"]
    x, at = n.x
    if attrs["index_vector_dim"] == len(places) - 1 and places[-1] == 1:
        places, at = places[:-1], f"{at}[..., 0]"
    elif attrs["index_vector_dim"] < len(places):
        return applied(n)
    if len(axes) != 1 or axes != attrs["start_index_map"] or attrs["operand_batching_dims"]:
        return applied(n)
    axis, = axes
    behind = axis + len(places)
    whole = attrs["slice_sizes"] == shape[:axis] + [1] + shape[axis + 1:]
    if not whole or not 0 < shape[axis] < 128 or \
            attrs["offset_dims"] != list(range(axis)) + list(range(behind, behind + len(shape) - axis - 1)):
        return applied(n)
    at = f"{at}.clamp(0, {shape[axis] - 1})"
    made = [f"{x}.take({at}, {axis})", f"{x}[{':, ' * axis}{at}]", f"{x}.take({at}.to(t.int64) - {shape[axis]}, {axis})"]
    if len(places) == 1:
        made.append(f"{x}.index_select({axis}, {at})")
    return applied(n) + made * 2


def dynamic(n):
    if n.torch:
        return copied(n)
    if n.op == "dynamic_slice":
        return [f"{n.x[0]}.dynamic_slice([{', '.join(n.x[1:])}], {n.attrs['slice_sizes']})"]
    return [f"{n.x[0]}.dynamic_update_slice({n.x[1]}, [{', '.join(n.x[2:])}])"]


def order(n):
    """Whether a comparator's order is falling, if it is one of the first operand's, NaN being the largest
    where there are any; else None."""
    body, x = n.regions[0], n.values[n.numbers[0]]
    compared = set(body["inputs"][:2])
    for node in body["nodes"]:
        if node["op"] not in ("compare", "and", "or", "not") or \
                node["op"] == "compare" and not set(node["inputs"]) <= compared:
            return None

    def before(a, b):
        rest = [np.zeros((), n.values[v].dtype) for v in n.numbers[1:] for _ in range(2)]
        return bool(golden.run(body, [np.asarray(a, x.dtype), np.asarray(b, x.dtype)] + rest)[0])
    falling = before(1, 0)
    if before(0, 1) == falling or before(1, 1):
        return None
    if n.is_float and np.isnan(x).any() and \
            (before(np.nan, 1) != falling or before(1, np.nan) == falling or before(np.nan, np.nan)):
        return None
    return falling


def sort(n):
    axis = n.attrs["dimension"]
    falling = None if n.kinds[0][0] == "bool" else order(n)
    if falling is None:
        return []
    if len(n.x) == 1:
        made = [f"{n.x[0]}.sort(dim={axis}, descending={falling}, stable=True)[0]"]
        return made + [f"{n.x[0]}.topk({n.shape[axis]}, {axis}, {falling})[0]"] * (not n.torch)
    if n.torch:
        return []
    rows = ", ".join(f"{x}.take_along(order, {axis})" for x in n.x)
    return [f"order = {n.x[0]}.argsort({axis}, descending={falling})\n{{y}} = {rows}"]


def top_k(n):
    if n.torch:
        return copied(n)
    return [f"largest = {n.x[0]}.topk({n.attrs['k']})\n{{y}} = largest.values, largest.indices.int()"] + applied(n)


def argument(n):
    axis = n.attrs["dimension"]
    return [f"{n.x[0]}.{n.op}({axis}).to({n.named(n.dtype)})"] + applied(n)


def convolution(n):
    """torch's, of one to three axes, its operands turned to the order that it knows."""
    attrs, rank, x, kernel = n.attrs, len(n.shape), n.x[0], n.x[1]
    spatial, dims, groups = rank - 2, attrs["convolution_dimensions"], attrs["feature_group_count"]
    if spatial not in (1, 2, 3) or attrs["batch_group_count"] != 1 or any(
            d != 1 for d in attrs["lhs_dilation"]) or not n.is_float or 0 in n.shape:
        return applied(n)  # windows that lie on nothing are an error in torch
    of_kernel = dims[rank:2 * rank]
    x = f"{x}.permute({dims[:rank]})"
    if any(attrs["padding"]):
        pairs = attrs["padding"]
        turned = [m for i in reversed(range(spatial)) for m in pairs[2 * i:2 * i + 2]]
        x = f"F.pad({x}, {turned})"
    kernel = f"{kernel}.permute({[of_kernel[1], of_kernel[0]] + of_kernel[2:]})"
    flipped = [2 + i for i, flips in enumerate(attrs["window_reversal"]) if flips]
    if flipped:
        kernel = f"{kernel}.flip({tuple(flipped)})"
    back = [0] * rank
    for i, axis in enumerate(dims[2 * rank:]):
        back[axis] = i
    small = n.torch and n.dtype in SMALL  # which torch sums in the small type itself
    if small:
        x, kernel = f"{x}.float()", f"{kernel}.float()"
    made = f"F.conv{spatial}d({x}, {kernel}, None, {tuple(attrs['window_strides'])}, 0, " \
           f"{tuple(attrs['rhs_dilation'])}, {groups}).permute({back})"
    return [f"{made}.to({n.named(n.dtype)})" if small else made] + applied(n)


RULES = {op: unary for op in UNARY}
RULES |= {op: arithmetic for op in SIGNS}
RULES |= {
    "negate": lambda n: [f"-{n.x[0]}", f"{n.x[0]}.neg()"], "abs": lambda n: [f"abs({n.x[0]})", f"{n.x[0]}.abs()"],
    "not": lambda n: [f"~{n.x[0]}"], "and": bitwise, "or": bitwise, "xor": bitwise,
    "shift_left": shift, "shift_right_logical": shift, "shift_right_arithmetic": shift,
    "maximum": extreme, "minimum": extreme, "compare": compare, "select": select, "clamp": clamp,
    "atan2": angle,
    "remainder": remainder,
    "convert": convert, "constant": constant, "iota": iota, "broadcast_in_dim": broadcast,
    "reshape": reshape, "transpose": transpose, "slice": slices, "concatenate": concatenate,
    "reduce": reduce, "dot_general": product, "softmax": along, "log_softmax": along, "silu": activation,
    "gelu": activation, "rms_norm": norm, "layer_norm": norm, "cross_entropy": cross_entropy,
    "attention": attention, "rope": rope, "dequantize": dequantize,
    "gather": gather, "pad": pad,
    "scatter": lambda n: summed(n) if n.torch else applied(n),
    "reduce_window": lambda n: summed(n) if n.torch else applied(n), "reverse": reverse, "dynamic_slice": dynamic,
    "dynamic_update_slice": dynamic, "sort": sort, "top_k": top_k, "argmax": argument, "argmin": argument,
    "cumulate": cumulate, "convolution": convolution,
    "bitcast_convert": lambda n: [] if n.torch or "bool" in (n.dtype, n.kinds[0][0])
    else [f"{n.x[0]}.bitcast({n.dtype!r})"],
    "reduce_precision": lambda n: [] if n.torch else
    [f"{n.x[0]}.reduce_precision({n.attrs['exponent_bits']}, {n.attrs['mantissa_bits']})"],
}


def tame(x):
    """Whether all elements are 0 or of moderate size."""
    size = np.abs(x.astype(np.float64))
    return bool((((size > 1e-30) & (size < 1e30)) | (size == 0)).all())


class Spelled:
    """A program as text. library: "shoal" or "torch"; seed: chooses among spellings.

    blocks: per node its lines and the numbers of its results; given: values, by number, that no lines
    compute; constants: those that lines name.
    """

    def __init__(self, graph, values, library="shoal", seed=0):
        chosen = random.Random(seed)
        makers = {v: node for node in graph["nodes"] for v in node["outputs"]}
        torch = library == "torch"
        self.graph, self.values = graph, values
        self.blocks, self.given, self.constants = [], [], []
        self.unread = []  # per block the values that nothing reads after it, and that share no elements
        for node in graph["nodes"]:
            n = Node(graph, node, makers, values, torch, chosen.random)
            kinds = n.results if n.op in INDEXED else n.kinds + n.results
            strange = torch and (any(kind[0] not in TORCH for kind in kinds) or
                                 n.dtype in SMALL and n.op in INEXACT or
                                 n.op in TAME and not all(tame(values[v]) for v in node["inputs"]))
            rule = RULES.get(n.op, applied)
            texts = [] if strange else rule(n)
            if not texts:
                self.given += node["outputs"]
                continue
            text = chosen.choice(texts)
            y = ", ".join(f"v{v}" for v in node["outputs"])
            if "{y}" not in text:
                text = f"{{y}} = {text}"
            self.blocks.append((text.replace("{y}", y).split("\n"), node["outputs"]))
            if n.op == "constant" and "tensor(c" in text:
                self.constants.append(node["outputs"][0])
            self.unread.append([v for v in node["inputs"] if self._is_over(v, node, makers)])

    def _is_over(self, v, last, makers):
        """Whether a value has elements of its own, and this node is the last that reads it."""
        readers = [node for node in self.graph["nodes"] if v in node["inputs"]]
        return v in makers and v not in self.graph["outputs"] + self.given and readers[-1] is last and \
            makers[v]["op"] not in SHARING and not any(node["op"] in SHARING for node in readers)

    @property
    def arguments(self):
        """The numbers of the values that the program is a function of."""
        return self.graph["inputs"] + self.given

    def function(self):
        """The lines of `def program(...)`."""
        lines = [f"def program({', '.join(f'v{v}' for v in self.arguments)}):"]
        for block, _ in self.blocks:
            lines += [f"    {line}" for line in block]
        return lines + [f"    return [{', '.join(f'v{v}' for v in self.graph['outputs'])}]"]

    def script(self, module="shoal"):
        """The whole program with its inputs, as a file that prints the results."""
        functional = "shoal.functional" if module == "shoal" else "torch.nn.functional"
        lines = ["import numpy as np", f"import {module} as t", f"import {functional} as F", ""]
        if module == "shoal":
            lines += ["def apply(op, n, *operands, **attrs):",
                      "    return t._shoal.apply(t.session(), op, operands, attrs, n)", ""]
        lines += ["def tensor(array, dtype):", "    x = t.tensor(array)",
                  "    return x.to(getattr(t, dtype, dtype))", ""]
        lines += [f"c{v} = {_array(self.values[v])}" for v in self.constants]
        lines += self.function()
        lines += [f"v{v} = tensor({_array(self.values[v])}, {self.graph['values'][v][0]!r})"
                  for v in self.arguments]
        lines.append(f"for result in program({', '.join(f'v{v}' for v in self.arguments)}):")
        return "\n".join(lines + ["    print(result)"]) + "\n"


def _array(array):
    """An array as an expression."""
    listed = repr(array.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    shape = f".reshape({array.shape})" if not array.size else ""
    return f"np.array({listed}, {str(array.dtype)!r}){shape}"
