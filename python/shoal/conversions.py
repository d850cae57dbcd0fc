"""Tensors as other element types, on other devices, and new ones like them; what they say of themselves."""
import math

from . import _shoal, views
from .dtypes import device
from .words import check_tensor, invalid, is_dtype, is_floating, shape_of


class Conversions:
    """What `Tensor` has from here."""

    __slots__ = ()

    def to(self, *targets, device=None, dtype=None, other=None, non_blocking=False, copy=False,
           memory_format=None):
        """As another element type, or whole on another device; several one after another.

        A target is an element type; a tensor, whose element type is taken; a `Slot` or the number of
        one; or a device: "BACKEND:N" is the N-th slot of the pool (from 0) with that backend. "pool" and
        "cpu" leave it to the planner.
        """
        x = self
        for target in (*targets, device, dtype, other):
            if target is None or target is True or target is False:
                continue  # non_blocking and copy, by position
            if hasattr(target, "session"):
                x = x.astype(target.dtype)
            elif hasattr(target, "slot"):
                x = x.replicate([target.slot])
            elif isinstance(target, int):
                x = x.replicate([target])
            elif is_dtype(target):
                x = x.astype(target)
            else:
                x = x._to_device(target)
        return x.clone() if copy and x is self else x

    def _to_device(self, target):
        target = device(target)
        if target.index is None and target.type in ("pool", "cpu"):
            return self
        if target.type == "slot":
            return self.replicate([target.index])
        slots = [s for s in self.session.status().slots if s.compute]
        known = [s.slot for s in slots if s.backend == target.type]
        if (target.index or 0) >= len(known):
            raise invalid(f"to: '{target}' is neither an element type nor a device; devices here: "
                          + ", ".join(sorted({f"{s.backend} (slot {s.slot})" for s in slots})))
        return self.replicate([known[target.index or 0]])

    def to_device(self, device, /, *, stream=None):
        """The array API's `to`."""
        return self.to(device)

    def cpu(self, memory_format=None):
        """Itself: a value can be read wherever it lies."""
        return self

    def cuda(self, device=None, non_blocking=False, memory_format=None):
        """Whole on a GPU of the pool."""
        return self.to("cuda" if device is None else device)

    def float(self):
        """As float32."""
        return self.astype("float32")

    def double(self):
        """As float64."""
        return self.astype("float64")

    def half(self):
        """As float16."""
        return self.astype("float16")

    def bfloat16(self):
        """As bfloat16."""
        return self.astype("bfloat16")

    def int(self):
        """As int32."""
        return self.astype("int32")

    def long(self):
        """As int64."""
        return self.astype("int64")

    def bool(self):
        """As bool: whether an element is not 0."""
        return self.astype("bool")

    def short(self):
        """As int16."""
        return self.astype("int16")

    def char(self):
        """As int8."""
        return self.astype("int8")

    def byte(self):
        """As uint8."""
        return self.astype("uint8")

    def type(self, dtype=None, non_blocking=False):
        """As an element type; without one, the name that torch gives this one's class of tensors."""
        if dtype is None:
            return "torch." + CLASSES.get(self.dtype.name, "Float") + "Tensor"
        dtype = getattr(dtype, "__name__", "") if callable(dtype) and not is_dtype(dtype) else dtype
        if isinstance(dtype, str) and dtype.endswith("Tensor"):
            named = {text: name for name, text in CLASSES.items()}
            dtype = named.get(dtype.rpartition(".")[2].removesuffix("Tensor"), dtype)
        return self.astype(dtype)

    def type_as(self, other):
        """As the other's element type."""
        check_tensor(other, "type_as", "the other")
        return self.astype(other.dtype)

    def clone(self, *, memory_format=None):
        """Another tensor of the same value, which changes in place do not reach."""
        return _shoal.apply(self.session, "reshape", (self,), {"shape": self.shape}, 1)[0]

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        """A leaf like this one, of the same class; results are not copied, as in torch."""
        if not self.is_leaf:
            raise invalid(f"deepcopy: {self._text()} is a result that gradients pass through; copy "
                          "its detach()")
        made = self._detach()
        made.__class__ = type(self)
        if self.requires_grad:
            made.requires_grad_()
        if self.grad is not None:
            made.grad = self.grad._detach()
        memo[id(self)] = made
        return made

    def __reduce__(self):
        raise TypeError("tensors are not pickled; shoal.save writes them, and dicts of them")

    def dim(self):
        """The number of axes."""
        return self.ndim

    def numel(self):
        """The number of elements."""
        return math.prod(self.shape)

    nelement = numel

    def ndimension(self):
        """The number of axes."""
        return self.ndim

    def element_size(self):
        """Bytes of one element."""
        return self.dtype.itemsize

    def is_floating_point(self):
        """Whether the elements are of a floating type."""
        return is_floating(self.dtype)

    def is_complex(self):
        """False: there are no complex numbers."""
        return False

    def is_signed(self):
        """Whether the element type has negative numbers."""
        return self.dtype.is_signed

    def is_nonzero(self):
        """Whether the only element is not 0."""
        return bool(self)

    def is_same_size(self, other):
        """Whether the other has this one's shape."""
        return self.shape == other.shape

    def is_set_to(self, other):
        """Whether the other shows the same elements in the same order."""
        mine, its = (views.root_of(t) for t in (self, other))
        return (self if mine is None else mine) is (other if its is None else its) and \
            self.shape == other.shape and views.layout(self) == views.layout(other)

    def get_device(self):
        """-1: the pool."""
        return -1

    is_cuda = is_sparse = is_quantized = is_meta = is_mkldnn = is_mps = is_xpu = False
    is_cpu = True

    def is_pinned(self, device=None):
        """False: a pool's memory is not this process's."""
        return False

    def pin_memory(self, device=None):
        """Itself."""
        return self

    def share_memory_(self):
        """Itself."""
        return self

    def is_shared(self):
        """False: a value is its session's."""
        return False

    def is_inference(self):
        """False: there is no such mode."""
        return False

    def apply_(self, callable):
        """In place: what a Python function makes of each element; reads the tensor."""
        flat = [callable(n) for n in self.ravel().tolist()]
        return self._become(self.session.tensor(flat, self.dtype).reshape(self.shape), "apply_")

    def map_(self, tensor, callable):
        """In place: what a Python function makes of each element and another tensor's; reads both."""
        other = tensor.broadcast_to(self.shape).ravel().tolist()
        flat = [callable(a, b) for a, b in zip(self.ravel().tolist(), other)]
        return self._become(self.session.tensor(flat, self.dtype).reshape(self.shape), "map_")

    def conj(self):
        """Itself: there are no complex numbers."""
        return self

    resolve_conj = resolve_neg = conj

    def conj_physical(self):
        """A copy: there are no complex numbers."""
        return self.clone()

    @property
    def real(self):
        """Itself: there are no complex numbers."""
        return self

    def is_conj(self):
        """False: there are no complex numbers."""
        return False

    is_neg = is_conj

    def to_dense(self):
        """Itself: there are no sparse tensors."""
        return self

    output_nr = 0
    layout = "strided"

    # ---- new ones like this ----

    def new_tensor(self, data, dtype=None, device=None, requires_grad=False):
        """A tensor of data, of this one's element type unless another is given."""
        made = self.session.tensor(data, dtype or self.dtype)
        made = made._detach() if made is data else made
        return made.requires_grad_() if requires_grad else made

    def new_full(self, size, fill_value, dtype=None, device=None, requires_grad=False):
        """One value, of this one's element type unless another is given."""
        made = self.session.full(size, fill_value, dtype or self.dtype)
        return made.requires_grad_() if requires_grad else made

    def new_zeros(self, *size, dtype=None, device=None, requires_grad=False):
        """Zeros, of this one's element type unless another is given."""
        return self.new_full(shape_of(size), 0, dtype, device, requires_grad)

    def new_ones(self, *size, dtype=None, device=None, requires_grad=False):
        """Ones, of this one's element type unless another is given."""
        return self.new_full(shape_of(size), 1, dtype, device, requires_grad)

    def new_empty(self, *size, dtype=None, device=None, requires_grad=False):
        """Zeros: memory is never left as it was."""
        return self.new_full(shape_of(size), 0, dtype, device, requires_grad)

    new = new_empty


# torch's names of classes of tensors.
CLASSES = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16",
           "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "uint8": "Byte",
           "bool": "Bool"}
