"""Nested arguments and results: tuples, lists and dicts of tensors and other things."""


class TensorType:
    """In the place of a tensor. No dataclass, nor a tuple, which would count as nested."""

    __slots__ = ("shape", "dtype")

    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype

    def __eq__(self, other):
        return isinstance(other, TensorType) and self.shape == other.shape and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.shape)

    @classmethod
    def of(cls, tensor):
        """That of a tensor."""
        return cls(tuple(tensor.shape), tensor.dtype)


def mapped(value, change):
    """The same nested value with change(item) for all that is no tuple, list or dict."""
    if isinstance(value, (tuple, list)):
        items = [mapped(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    return change(value)


def collected(value, kind):
    """The items of a class, in order."""
    items = []
    mapped(value, lambda item: items.append(item) if isinstance(item, kind) else None)
    return items
