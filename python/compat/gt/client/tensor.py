"""GT2's tensors: Shoal's, where GT2 means another thing than torch does.

Importing `gt` makes all tensors of the process such ones. They differ in this: `T` swaps the last two axes;
results keep their gradients as leaves do; parameters may be changed in place at any time, outside of
`no_grad` too, and have another `id` afterwards.
"""
import functools
import itertools
import pathlib
import weakref

import shoal
from shoal import _shoal

__all__ = ["Tensor", "cat", "from_numpy", "ones", "rand", "randn", "tensor", "zeros"]

_numbers = {}  # by id(): a reference whose end takes the entry away, and the number
_count = itertools.count()


def _numbered(tensor):
    """Gives a tensor its next number."""
    key = id(tensor)
    _numbers[key] = weakref.ref(tensor, lambda _: _numbers.pop(key, None)), next(_count)


class Tensor(shoal.Tensor):
    """A value in a pool, with GT2's meaning of what GT2 has."""

    __slots__ = ()

    @property
    def id(self):
        """A number that no other value has; another one after a change in place."""
        if id(self) not in _numbers:
            _numbered(self)
        return _numbers[id(self)][1]

    @property
    def T(self):
        """The last two axes swapped; a vector or a number as it is."""
        return _kept(self.transpose(-2, -1)) if self.ndim >= 2 else self

    def split(self, split_size, axis=0, dim=None):
        """Parts of `split_size` along an axis, the last one perhaps shorter; or of the sizes in a list."""
        return _kept(super().split(split_size, axis if dim is None else dim))

    def mean(self, *axes, dtype=None, **words):
        """Means over axes, of the tensor as `dtype`."""
        return _kept(shoal.Tensor.mean(self if dtype is None else self.astype(dtype), *axes, **words))


def _kept(made):
    """What a method returns; results that gradients flow through keep theirs."""
    if isinstance(made, Tensor):
        if made.requires_grad and not made.is_leaf:
            made.retain_grad()
    elif isinstance(made, (tuple, list)):
        for part in made:
            _kept(part)
    return made


def _keeping(method):
    @functools.wraps(method)
    def kept(*args, **words):
        return _kept(method(*args, **words))
    return kept


def _in_place(method):
    @functools.wraps(method)
    def changed(self, *args, **words):
        with shoal.set_grad_enabled(shoal.is_grad_enabled() and not self.is_leaf):
            made = method(self, *args, **words)
        if made is self:
            _numbered(self)
        return made
    return changed


_OPERATORS = [f"__{side}{name}__" for side in ("", "r") for name in (
    "add", "sub", "mul", "truediv", "matmul", "pow")] + ["__neg__", "__getitem__"]
_METHODS = ("abs exp log relu sigmoid tanh sqrt sum max min reshape view unsqueeze squeeze transpose permute chunk "
            "flatten softmax").split()
_IN_PLACE = [f"__i{name}__" for name in ("add", "sub", "mul", "truediv")] + ["zero_", "fill_", "copy_"]
for _names, _wrap in ((_OPERATORS + _METHODS, _keeping), (_IN_PLACE, _in_place)):
    for _name in _names:
        setattr(Tensor, _name, _wrap(getattr(shoal.Tensor, _name)))

# Lines of this package are not the user's.
_shoal.use_class(Tensor, str(pathlib.Path(__file__).parents[1]))


def __getattr__(name):
    """The functions that make tensors, which are the package's."""
    import gt
    if name in __all__:
        return getattr(gt, name)
    if name == "_client_connection":
        return gt._client
    raise AttributeError(f"gt.client.tensor has no '{name}'")
