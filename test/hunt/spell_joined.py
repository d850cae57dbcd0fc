"""How sums, products, extremes and flags of many elements are spelled, and those up to each; what two element
types become together; and quotients of integers."""
import numpy as np

from spell_moved import SMALL


def reduced(n):
    """Along which axes, and how many elements become one."""
    axes, count = n.attrs["dimensions"], 1
    for axis in axes:
        count *= n.kinds[0][1][axis]
    return list(axes), count


def reduce(n):
    (axes, count), op, x = reduced(n), n.only(), n.x[0]
    if len(n.kinds) != 2:
        return []
    first = n.x[1]
    if n.dtype == "bool":
        return reduce_flags(n, op, axes, count)
    if op not in ("add", "multiply", "maximum", "minimum"):
        return []
    none = op == "add" and n.number(1) in ("0", "0.0", "-0.0") or \
        op == "multiply" and n.number(1) in ("1", "1.0")
    typed = f"dtype={n.named(n.dtype)}"
    if op == "add":
        if not axes:
            return [f"{x} + {first}"]
        sums = [f"{x}.sum(dim={tuple(axes)}, {typed})",
                f"{x}.sum({tuple(axes)}, keepdim=True, {typed}).reshape({n.shape})"]
        if n.is_float:
            sums.append(f"t.sum({x}, dim={[a - len(n.kinds[0][1]) for a in axes]})")
        elif n.dtype != "uint64":
            sums.append(f"{x}.sum({tuple(axes)}).to({n.named(n.dtype)})")  # of int64, which wraps to the same
        return [f"{s} + {first}" for s in sums] + sums * none + \
            begun(n, f"{x}.sum(axis={tuple(axes)}, {typed}, initial={{}})")
    if op == "multiply":
        if n.torch:
            for axis in sorted(axes, reverse=True):
                x = f"{x}.prod({axis}, {typed})"
            return [f"{x} * {first}"]
        made = f"{x}.prod({tuple(axes)}, {typed})"
        return [f"{made} * {first}"] + [made] * 3 * none + begun(n, f"{x}.prod({tuple(axes)}, {typed}, initial={{}})")
    word = "amax" if op == "maximum" else "amin"
    started = begun(n, f"{x}.{word[1:]}(axis={tuple(axes)}, initial={{}})")
    if not count:
        return [f"{first}.broadcast_to({n.shape}).clone()"] + started  # the number itself shares its elements
    made = [f"{x}.{word}(dim={tuple(axes)})"] if axes else [x]
    if axes and not n.torch:
        made.append(f"{x}.{word[1:]}({tuple(axes)})")
        values = n.values[n.numbers[0]]
        most = getattr(values, word[1:])(tuple(axes), keepdims=True)
        if len(axes) == 1 and not ((values == most).sum(axes[0]) > 1).any():  # the first of equals takes the gradient
            made.append(f"{x}.{word[1:]}(dim={axes[0]})[0]")
    if (n.values[n.outputs[0]] == n.values[n.numbers[1]]).any():
        # Elements that are equal to the first value take the gradient of a reduction whole.
        further = "<" if op == "maximum" else ">"
        return [f"most = {m}\n{{y}} = t.where(most {further} {first}, {first}, most)" for m in made]
    return [f"{m}.{op}({first})" for m in made] + started


def begun(n, text):
    """What NumPy spells with a number to begin with, if it begins with a number; the package's."""
    number = n.number(1)
    if number is None and not n.is_float:
        number = repr(int(n.values[n.numbers[1]]))
    return [] if n.torch or number is None else [text.format(number)] * 2


def reduce_flags(n, op, axes, count):
    """Whether all are true, or any is, or an odd number."""
    x, first = n.x[0], n.x[1]
    word, sign = {"add": ("any", "|"), "maximum": ("any", "|"), "or": ("any", "|"), "multiply": ("all", "&"),
                  "minimum": ("all", "&"), "and": ("all", "&")}.get(op, (None, "^"))
    if n.torch:
        for axis in sorted(axes, reverse=True):
            x = f"{x}.{word}({axis})"
        return [f"{x} {sign} {first}"] if word else []
    axes = tuple(axes)
    made = {"any": [f"{x}.any({axes})", f"t.any({x}, {axes})", f"~(~{x}).all({axes})"],
            "all": [f"{x}.all({axes})", f"t.all({x}, {axes})", f"~(~{x}).any({axes})"],
            None: [f"{x}.sum({axes}) % 2 == 1"] if axes else []}[word]
    if axes:
        made += {"any": [f"{x}.sum({axes}) != 0", f"{x}.count_nonzero({axes}) > 0"],
                 "all": [f"{x}.prod({axes}) == 1", f"{x}.prod({axes}).bool()"], None: []}[word]
    if axes and count and word:
        least = word == "all"
        made += [f"{x}.{'amin' if least else 'amax'}({axes})", f"{x}.{'min' if least else 'max'}({axes})"]
    if len(axes) == 1 and count and word:
        made += [f"{x}.{'min' if word == 'all' else 'max'}(dim={axes[0]})[0]"]
    maker = n.makers.get(n.numbers[0])
    if maker and maker["op"] == "convert" and word:  # of numbers: which are not 0
        source = maker["inputs"][0]
        made += [f"v{source}.{word}({axes})" + ".bool()" * (n.graph["values"][source][0] == "uint8")] * 3
    # What a first value would hide is seen where it makes no difference.
    plain = word and bool(n.values[n.numbers[1]]) == (word == "all")
    return made if plain else [f"({m}) {sign} {first}" for m in made]


def cumulate(n):
    op, axis = n.only(), n.attrs["dimension"]
    words = {"add": ("cumsum", "+"), "multiply": ("cumprod", "*")}
    if op in ("maximum", "minimum"):
        return so_far(n, op, axis)
    if op not in words or n.dtype == "bool" or n.torch and not n.is_float:
        return []
    return [f"{n.x[0]}.{words[op][0]}(dim={axis}, dtype={n.named(n.dtype)}) {words[op][1]} {n.x[1]}"]


def so_far(n, op, axis):
    """Extremes of all up to each. Of equals the last takes the gradient; of the standard's all take some."""
    numbers = np.concatenate([n.values[v].ravel() for v in n.numbers])
    if n.is_float and len(np.unique(numbers)) < len(numbers) or n.torch and n.dtype in SMALL:
        return []
    return [f"{n.x[0]}.cum{op[:3]}({axis})[0].{op}({n.x[1]})"]


def widens(a, b):
    """Whether b is what the two types become together, by PyTorch's rules."""
    kinds = [d.rstrip("0123456789") for d in (a, b)]
    bits = [int(d.lstrip("abcdefghijklmnopqrstuvwxyz") or 1) for d in (a, b)]
    if a == "bool" or "float" in b and "float" not in a:
        return b != "bool"
    if kinds == ["uint", "int"]:
        return bits[0] < bits[1]
    same = kinds[0] == kinds[1] or "float" in a and "float" in b
    return same and bits[0] < bits[1]


def together(a, b):
    """What two types become together, by PyTorch's rules."""
    if a == b or widens(a, b):
        return b
    if widens(b, a):
        return a
    if "float" in a:
        return "float32"
    return f"int{min(64, 2 * max(int(d[4:]) for d in (a, b) if d.startswith('u')))}"


def whole_quotient(n):
    """Of integers: rounded towards zero, or made of the quotient that is rounded down."""
    if n.torch:
        return []
    a, b = n.x
    made = [f"{a}.div({b}, rounding_mode='trunc')"]
    down = f"t.where(({a} % {b} != 0) & (({a} < 0) != ({b} < 0)), {a} // {b} + 1, {a} // {b})"
    return made + [ordinary(n, made[0], down)] * 2


def ordinary(n, special, other):
    """The second text but where a divisor is 0 or -1, where Python and the standard may differ."""
    b, divisors = n.x[1], n.values[n.numbers[1]].astype(object)
    if not ((divisors == 0) | (divisors == -1)).any():
        return other
    strange = f"{b} == 0" if n.dtype.startswith("u") else f"({b} == 0) | ({b} == -1)"
    return f"t.where({strange}, {special}, {other})"


def remainder(n):
    if n.torch and not n.is_float:
        return []
    a, b = n.x
    made = [f"t.fmod({a}, {b})"]
    if n.is_float:
        return made
    down = f"t.where(({a} % {b} != 0) & (({a} < 0) != ({b} < 0)), {a} % {b} - {b}, {a} % {b})"
    return made + [ordinary(n, made[0], down)] * 2
