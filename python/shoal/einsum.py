"""Einstein notation over tensors: `shoal.einsum`.

The operands are joined one after another, from the left. What only one operand has and the result has
not is summed first; what two share is contracted, or kept as a batch, by one dot_general.
"""
import string

from . import _shoal
from .amp import cast
from .words import invalid

_LETTERS = string.ascii_uppercase + string.ascii_lowercase  # in the order of numbers that stand for them


def einsum(equation, *operands):
    """Sums of products in Einstein notation, as NumPy's and torch's einsum.

    "ij,jk->ik" is a product of matrices; "ii->i" a diagonal; "...ij->...ji" transposes the last two
    axes. Without "->" the result has the labels that stand once, in alphabetical order, after those
    of the ellipsis. Axes of length 1 broadcast. Instead of letters a list of numbers may follow each operand, and
    one for the result: `einsum(a, [0, 1], b, [1, 2], [0, 2])`; Ellipsis stands in such lists for "...".
    """
    if hasattr(equation, "session") and operands and isinstance(operands[0], (list, tuple)):
        equation, operands = _of_lists((equation, *operands))
    if not isinstance(equation, str):
        raise TypeError(f"einsum: the equation is of type {type(equation).__name__}; it must be a text, as 'ij,jk->ik'")
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    inputs, output = _parsed(equation, operands)
    terms = [_simple(x, labels, equation) for x, labels in zip(operands, inputs)]
    while len(terms) > 1:
        (a, left), (b, right) = terms[:2]
        needed = set(output).union(*(labels for _, labels in terms[2:]))
        terms[:2] = [_joined(_summed(a, left, needed | set(right)),
                             _summed(b, right, needed | set(left)), needed, equation)]
    x, labels = _summed(*terms[0], set(output))
    return x.permute(*(labels.index(c) for c in output))


def _of_lists(given):
    """(equation, operands) of operands that lists of labels follow, numbers from 0 to 51."""
    def text(labels):
        for label in labels:
            if label is not Ellipsis and not (isinstance(label, int) and 0 <= label < len(_LETTERS)):
                raise invalid(f"einsum: a label is {label!r}; in lists they are numbers from 0 to "
                              f"{len(_LETTERS) - 1}, or Ellipsis")
        return "".join("..." if label is Ellipsis else _LETTERS[label] for label in labels)
    ends = text(given[-1]) if len(given) % 2 else None
    inputs = ",".join(text(labels) for labels in given[1:len(given) // 2 * 2:2])
    return inputs if ends is None else f"{inputs}->{ends}", given[0:len(given) // 2 * 2:2]


def _parsed(equation, operands):
    """The labels of each operand and of the result, without ellipses."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(operands):
        raise invalid(f"einsum: '{equation}' names {len(inputs)} operands; {len(operands)} are given")
    used = set(text)
    spare = [c for c in string.ascii_letters if c not in used]
    widest, found = 0, []
    for labels, x in zip(inputs, operands):
        before, dots, after = labels.partition("...")
        plain = before + after
        if not all(c in string.ascii_letters for c in plain):
            raise invalid(f"einsum: '{equation}': labels are letters")
        extra = x.ndim - len(plain)
        if extra < 0 or (extra and not dots):
            raise invalid(f"einsum: '{equation}': the labels '{labels}' do not fit {x._text()}")
        widest = max(widest, extra)
        found.append((before, extra, after))
    if widest > len(spare):
        raise invalid(f"einsum: '{equation}': no letters are left for the ellipsis")
    batch = "".join(spare[:widest])
    inputs = [before + batch[widest - extra:] + after for before, extra, after in found]
    if arrow:
        before, dots, after = right.partition("...")
        if widest and not dots:
            raise invalid(f"einsum: '{equation}': the result leaves the ellipsis out")
        output = before + batch * bool(dots) + after
    else:
        every = "".join(before + after for before, _, after in found)
        output = batch + "".join(sorted(c for c in set(every) if every.count(c) == 1))
    unknown = set(output) - set("".join(inputs))
    if unknown or len(set(output)) != len(output):
        raise invalid(f"einsum: '{equation}': the result names "
                      + (f"'{min(unknown)}', which no operand has" if unknown else
                         "a label twice"))
    return inputs, output


def _simple(x, labels, equation):
    """An operand whose repeated labels have become diagonals."""
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            first = labels.index(c)
            second = labels.index(c, first + 1)
            if x.shape[first] != x.shape[second]:
                raise invalid(f"einsum: '{equation}': axes {first} and {second} of {x._text()} "
                              f"share the label '{c}' and differ in length")
            x = x.diagonal(0, first, second)
            labels = labels[:first] + labels[first + 1:second] + labels[second + 1:] + c
    return x, labels


def _summed(x, labels, needed):
    """An operand without the labels that nothing else needs."""
    axes = tuple(i for i, c in enumerate(labels) if c not in needed)
    return (x.sum(axes) if axes else x), "".join(c for c in labels if c in needed)


def _joined(first, second, needed, equation):
    """Two operands as one: what both have is a batch if it is still needed, else contracted."""
    (a, left), (b, right) = first, second
    for c in set(left) & set(right):
        n, m = a.shape[left.index(c)], b.shape[right.index(c)]
        if n == m:
            continue
        if n != 1 and m != 1:
            raise invalid(f"einsum: '{equation}': the label '{c}' has lengths {n} and {m}")
        if n == 1:
            a, left = a.squeeze(left.index(c)), left.replace(c, "")
        else:
            b, right = b.squeeze(right.index(c)), right.replace(c, "")
    # What only one has still, once the axis of length 1 is gone, may be summed now.
    a, left = _summed(a, left, needed | set(right))
    b, right = _summed(b, right, needed | set(left))
    shared = [c for c in left if c in right]
    batch = [c for c in shared if c in needed]
    summed = [c for c in shared if c not in needed]
    if not summed:  # no sum: an elementwise product needs no matrices
        order = batch + [c for c in left if c not in batch] + [c for c in right if c not in batch]
        return _spread(a, left, order) * _spread(b, right, order), "".join(order)
    a, b = cast(*a._alike(b))
    made = _shoal.apply(a.session, "dot_general", (a, b), {
        "lhs_batching_dimensions": [left.index(c) for c in batch],
        "rhs_batching_dimensions": [right.index(c) for c in batch],
        "lhs_contracting_dimensions": [left.index(c) for c in summed],
        "rhs_contracting_dimensions": [right.index(c) for c in summed]}, 1)[0]
    return made, "".join(batch + [c for c in left if c not in shared]
                         + [c for c in right if c not in shared])


def _spread(x, labels, order):
    """x with its axes in the given order and new ones, of length 1, for the labels it lacks."""
    x = x.permute(*(labels.index(c) for c in order if c in labels))
    lengths = dict(zip((c for c in order if c in labels), x.shape))
    return x.reshape(tuple(lengths.get(c, 1) for c in order))
