"""What functions of several results return: named tuples, shown as torch shows them (torch.return_types)."""
from collections import namedtuple


def _text(self):
    parts = ",\n".join(f"{name}={part!r}" for name, part in zip(self._fields, self))
    return f"{__name__}.{self._shown or type(self).__name__}(\n{parts})"


def named(name, fields, doc, module=__name__, shown=None):
    """A named tuple that is shown as torch shows it: as `shown`, else by its name."""
    made = namedtuple(name, fields, module=module)
    made.__repr__, made.__doc__, made._shown = _text, doc, shown
    return made


Extreme = named("Extreme", "values indices", "Elements along an axis, and where they are.")
Sorted = named("Sorted", "values indices", "Elements in order, and where they were.")
MinMax = named("MinMax", "min max", "The smallest and the largest.")

for _base, _names in ((Extreme, "max min median nanmedian mode kthvalue cummax cummin"), (Sorted, "sort topk"),
                      (MinMax, "aminmax")):
    for _name in _names.split():
        globals()[_name] = type(_name, (_base,), {"__slots__": (), "__doc__": _base.__doc__})

def __getattr__(name):  # those of linalg are there
    if name.startswith("linalg_"):
        from . import linalg
        for found in vars(linalg).values():
            if isinstance(found, type) and getattr(found, "_shown", None) == name:
                return found
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
