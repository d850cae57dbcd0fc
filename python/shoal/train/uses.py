"""How a program uses its arguments, as its StableHLO shows, in the generic form that Shoal writes.

An argument is followed through what only changes its shape or takes a part of it, also into loops that carry it as it is: models
that scan over their layers have the parameters of all layers in one, of which each round takes a slice.
"""
import math
import re

_OPERATION = re.compile(r'(?:(%\w+)(?::(\d+))? = )?"\w+\.(\w+)"\(([^()]*)\)(.*)')
_RESHAPED = {"broadcast_in_dim", "reshape", "convert", "transpose", "broadcast"}
_PARTS = {"slice", "dynamic_slice"}
_GAIN, _BIAS = {"multiply", "divide"}, {"add", "subtract"}


class _Operation:
    """kind: its name; operands and results: names; rest: its attributes and types; regions: [(names of arguments, operations)]."""

    def __init__(self, result, count, kind, operands, rest):
        self.kind, self.rest, self.regions = kind, rest, []
        self.operands = re.findall(r"%\w+(?:#\d+)?", operands)
        self.results = [] if result is None else [result] if count is None else [f"{result}#{i}" for i in range(int(count))]

    def shape(self):
        """Of the first result."""
        return _extents(re.search(r"tensor<((?:\d+x)*)", self.rest.rsplit("->", 1)[1])[1])


def _extents(text):
    """Of a type such as 3x8xf32."""
    return [int(extent) for extent in re.findall(r"(\d+)x", text)]


def read(text):
    """The region (arguments, operations) that @main is; arguments: (name, shape)."""
    head, *lines = text[text.index("@main("):].splitlines()
    arguments = [(name, _extents(kind)) for name, kind in re.findall(r"(%\w+): tensor<([^>]*)>", head[:head.index(")")])]
    block, around = [], []  # operations of the innermost region; (operation, what is around its regions)
    for line in map(str.strip, lines):
        if line.startswith("^"):
            around[-1][0].regions[-1][0].extend(re.findall(r"(%\w+): ", line))
        elif line == "}, {":
            block = []
            around[-1][0].regions.append(([], block))
        elif line.startswith("})"):
            operation, block = around.pop()
            operation.rest = line
        elif found := _OPERATION.match(line):
            operation = _Operation(*found.groups())
            block.append(operation)
            if line.endswith("({"):
                around.append((operation, block))
                block = []
                operation.regions.append(([], block))
    return arguments, block


def _walk(operations, stands, passed):
    """(operation, what its operands stand for) of all operations, in order, those in regions among them.

    stands: {name: what it stands for, or None}; passed(operation, one): what the result stands for if an operand stands for `one`.
    Regions side by side have the same names, each of which is given before it is used; they see those around them.
    """
    for operation in operations:
        given, kept = [stands.get(name) for name in operation.operands], [None] * len(operation.results)
        yield operation, given
        if operation.kind == "while":
            names, body = operation.regions[1]
            kept = [one if name == back else None for one, name, back in zip(given, names, body[-1].operands)]
        elif not operation.regions:
            made = (passed(operation, one) for one in given if one is not None)
            kept = [next((one for one in made if one is not None), None)] * len(kept)
        for names, inside in operation.regions:
            stands.update(zip(names, kept if operation.kind == "while" else [None] * len(names)))
            yield from _walk(inside, stands, passed)
        stands.update(zip(operation.results, kept))


def vectors(program, count):
    """Per argument of a program, of the first `count`: 1 if it is multiplied by along one axis (a gain), 0 if it is added along one
    (a bias), None for all else. Where it is used first says so; if that is a part of it, this is what has one axis."""
    arguments, operations = program
    found = {}

    def passed(operation, one):
        number, shape = one
        if operation.kind in _PARTS:
            part = operation.shape()
            return number, part if math.prod(part) < math.prod(shape) else shape
        return one if operation.kind in _RESHAPED else None
    stands = {name: (i, shape) for i, (name, shape) in enumerate(arguments[:count])}
    for operation, given in _walk(operations, stands, passed):
        for number, shape in (one for one in given if one is not None and operation.kind in _GAIN | _BIAS):
            found.setdefault(number, None if sum(extent > 1 for extent in shape) > 1 else int(operation.kind in _GAIN))
    return [found.get(i) for i in range(count)]


def rows(program, ids):
    """How many rows the smallest table has that argument number `ids` is looked up in; None if there is none to be seen."""
    arguments, operations = program
    found = []

    def passed(operation, one):
        return one if operation.kind in _RESHAPED | {"select"} else None  # `select`: negative ones count from the end
    for operation, given in _walk(operations, {arguments[ids][0]: True}, passed):
        if operation.kind == "gather" and given[1]:
            table, axis = re.search(r" : \(tensor<([^>]*)>", operation.rest), re.search(r"start_index_map = \[(\d+)\]", operation.rest)
            if table and axis:
                found.append(_extents(table[1])[int(axis[1])])
    return min(found, default=None)
