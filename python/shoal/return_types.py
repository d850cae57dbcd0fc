"""What functions of several results return: named tuples, shown as torch shows them (torch.return_types)."""
from collections import namedtuple


def _shown(self):
    parts = ",\n".join(f"{name}={part!r}" for name, part in zip(self._fields, self))
    return f"{__name__}.{type(self).__name__}(\n{parts})"


def named(name, fields, doc, module=__name__):
    """A named tuple that is shown as torch shows it."""
    made = namedtuple(name, fields, module=module)
    made.__repr__, made.__doc__ = _shown, doc
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
            if isinstance(found, type) and issubclass(found, tuple) and found.__name__ == name:
                return found
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
