"""How tensors show: as torch's, number by number.

All numbers of a tensor take the same form: whole ones without decimals, others with four, in powers of ten
where the largest and the smallest are far apart. Lines have 80 columns; of more than 1000 elements the
first and last three of each axis are shown, and only these are read.
"""
import math

from .words import is_floating

_options = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None,
                     sci_mode=None):
    """How tensors show from now on: digits, when and how they are shortened, columns, powers of ten."""
    if profile is not None:
        _options.update({"default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
                         "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
                         "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3,
                                  "linewidth": 80}}[profile])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _options.update({name: value for name, value in given.items() if value is not None})
    _options["sci_mode"] = sci_mode


class _Numbers:
    """The form that all numbers of a tensor take."""

    def __init__(self, numbers, floating):
        self.floating, self.whole, self.powers, self.width = floating, True, False, 1
        if not floating:
            self.width = max([1, *(len(str(n)) for n in numbers)])
            return
        some = [abs(n) for n in numbers if math.isfinite(n) and n]
        if not some:
            self.powers = bool(_options["sci_mode"])
        else:
            least, most = min(some), max(some)
            far = least > 0 and most / least > 1000.0
            self.whole = all(n == math.ceil(n) for n in some)
            self.powers = most > 1e8 or far if self.whole else far or most > 1e8 or least < 1e-4
            if _options["sci_mode"] is not None:
                self.powers = _options["sci_mode"]
        self.width = 0
        self.width = max([1, *(len(self(n)) for n in numbers if math.isfinite(n) and n)])

    def __call__(self, n):
        if not self.floating:
            text = str(n)
        elif self.powers:
            text = f"{n:.{_options['precision']}e}"
        elif self.whole:
            text = f"{n:.0f}" + ("." if math.isfinite(n) else "")
        else:
            text = f"{n:.{_options['precision']}f}"
        return text.rjust(self.width)


def _lines(values, shape, form, indent, shortened):
    """Nested lists as text."""
    edge = _options["edgeitems"]
    if not shape:
        return form(values)
    if len(shape) == 1:
        per_line = max(1, (_options["linewidth"] - indent) // (form.width + 2))
        texts = [form(n) for n in values]
        if shortened and shape[0] > 2 * edge:
            texts[edge:len(texts) - edge] = [" ..."]
        lines = [", ".join(texts[i:i + per_line]) for i in range(0, len(texts), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = [_lines(v, shape[1:], form, indent + 1, shortened) for v in values]
    if shortened and shape[0] > 2 * edge:
        parts[edge:len(parts) - edge] = ["..."]
    return "[" + ("," + "\n" * (len(shape) - 1) + " " * (indent + 1)).join(parts) + "]"


def shown(x):
    """The text of a tensor."""
    from .tensor import default
    value, edge, shape = x._detach(), _options["edgeitems"], tuple(x.shape)
    size = math.prod(shape)
    shortened = size > _options["threshold"]
    if shortened:
        for axis, n in enumerate(shape):
            if n > 2 * edge:
                value = value.take([*range(edge + 1), *range(n - edge, n)], axis)
    notes = []
    if x.dtype.name not in (default[0], "int64", "bool"):
        notes.append(f"dtype={x.dtype}")
    if not size:
        text = "[]"
        if len(shape) != 1:
            notes.insert(0, f"size={shape}")
        if x.dtype.name == "int64":
            notes.append(f"dtype={x.dtype}")
    else:
        values = value.tolist()
        floating = is_floating(x.dtype)
        form = _Numbers(_flat(_edges(values, shape, edge) if shortened else values), floating)
        text = _lines(values, shape, form, len("tensor("), shortened)
    if not x.is_leaf:
        notes.append(f"grad_fn={x.grad_fn}")
    elif x.requires_grad:
        notes.append("requires_grad=True")
    return _with_notes("tensor(" + text, notes)


def _with_notes(text, notes):
    """Each note on the last line, as long as there is room, else on one of its own."""
    column = len(text) - text.rfind("\n") + 1
    for note in notes:
        column += len(note) + 2
        fits = column <= _options["linewidth"]
        text += ", " + note if fits else ",\n" + " " * len("tensor(") + note
        column = column if fits else len("tensor(") + len(note)
    return text + ")"


def _edges(values, shape, edge):
    """Nested lists without what is not shown of them."""
    if not shape:
        return values
    kept = values if shape[0] <= 2 * edge else values[:edge] + values[edge + 1:]
    return [_edges(v, shape[1:], edge) for v in kept]


def _flat(values):
    if not isinstance(values, (list, tuple)):
        return [values]
    return [n for v in values for n in _flat(v)]
