"""Modules: parameters, buffers and other modules under the names of attributes."""
from collections import OrderedDict

from .. import custom
from ..autograd import _set_grad, no_grad
from ..recording import restructured
from ..tensor import Tensor
from ..words import dtype_name, invalid, is_dtype, is_floating, torch_words
from . import hooks


class Parameter(Tensor):
    """A tensor that a module trains. Made from another tensor, whose value it takes."""

    __slots__ = ()

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            from ..creation import empty
            data = empty(0)
        made = data.detach()
        made.__class__ = cls  # the same object in all but its class
        return made.requires_grad_() if requires_grad else made

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()


class Keys:
    """What loading a state has found: keys that are missing, and keys that nothing wanted."""

    def __init__(self, missing_keys, unexpected_keys):
        self.missing_keys, self.unexpected_keys = missing_keys, unexpected_keys

    def __iter__(self):
        return iter((self.missing_keys, self.unexpected_keys))

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class Module:
    """A part of a model: subclass it, set parameters and modules as attributes, write `forward`."""

    def __init__(self):
        for table in ("_parameters", "_buffers", "_modules", "_hooks", "_before", "_passed"):
            object.__setattr__(self, table, {})
        object.__setattr__(self, "_passing", set())  # buffers that a state leaves out
        object.__setattr__(self, "training", True)

    def forward(self, *args, **keywords):
        """What calling the module computes."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args, **keywords):
        if not (self._before or self._passed or self._hooks):
            return self.forward(*args, **keywords)
        for hook, with_keywords in tuple(self._before.values()):
            other = hook(self, args, keywords) if with_keywords else hook(self, args)
            if other is not None and with_keywords:
                args, keywords = other
            elif other is not None:
                args = other if isinstance(other, tuple) else (other,)
        if self._passed:
            return hooks.passed(self, args, keywords)
        return self._called(args, keywords)

    def _called(self, args, keywords):
        made = self.forward(*args, **keywords)
        for hook, with_keywords in tuple(self._hooks.values()):
            other = hook(self, args, keywords, made) if with_keywords else hook(self, args, made)
            made = made if other is None else other
        return made

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args) is called before forward; what it returns, if not None, are the arguments
        then. with_kwargs: hook(module, args, kwargs), which returns both."""
        return self._hooked(self._before, (hook, with_kwargs), prepend)

    def register_full_backward_hook(self, hook, prepend=False):
        """hook(module, grad_input, grad_output) is called when the gradients of the inputs are there; what
        it returns, if not None, takes the place of grad_input."""
        return self._hooked(self._passed, hook, prepend)

    register_backward_hook = register_full_backward_hook

    def _hooked(self, table, hook, prepend):
        handle = Handle(table)
        later = dict(table) if prepend else {}
        if prepend:
            table.clear()
        table[handle] = hook
        table.update(later)
        restructured()
        return handle

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """hook(module, args, result) is called after forward; what it returns, if not None, is the
        result then. The handle's `remove()` ends that."""
        return self._hooked(self._hooks, (hook, with_kwargs), prepend)

    # ---- attributes ----

    def __setattr__(self, name, value):
        tables = self.__dict__
        if "_parameters" not in tables:
            if isinstance(value, (Parameter, Module)):
                raise AttributeError(f"{type(self).__name__}: call super().__init__() before "
                                     f"setting '{name}'")
            object.__setattr__(self, name, value)
            return
        kind = "_parameters" if isinstance(value, Parameter) else \
            "_modules" if isinstance(value, Module) else None
        if kind is None:
            for table in ("_parameters", "_modules", "_buffers"):
                if name in tables[table]:
                    allowed = value is None or (table == "_buffers" and isinstance(value, Tensor))
                    if not allowed:
                        raise TypeError(f"{type(self).__name__}.{name} is a {table[1:-1]}; it "
                                        f"cannot become a {type(value).__name__}")
                    tables[table][name] = value
                    restructured()
                    return
            object.__setattr__(self, name, value)
            if name == "training":
                restructured()
            return
        for table in ("_parameters", "_modules", "_buffers"):
            if table != kind:
                tables[table].pop(name, None)
        tables.pop(name, None)
        tables[kind][name] = value
        restructured()

    def __getattr__(self, name):
        tables = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            found = tables.get(table, ())
            if name in found:
                return found[name]
        raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")

    def __delattr__(self, name):
        for table in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__[table]:
                del self.__dict__[table][name]
                restructured()
                return
        object.__delattr__(self, name)

    def __dir__(self):
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    @torch_words(param="parameter")
    def register_parameter(self, name, parameter):
        """A parameter, or None, under a name."""
        self._new_name(name, self._parameters)
        if not isinstance(parameter, (Parameter, type(None))):
            raise TypeError(f"register_parameter: '{name}' is a {type(parameter).__name__}; a Parameter or None is "
                            "needed")
        self._parameters[name] = parameter
        restructured()

    def register_buffer(self, name, tensor, persistent=True):
        """A tensor that is part of the state but is not trained; persistent=False: nor saved."""
        if not isinstance(tensor, (Tensor, type(None))):
            raise TypeError(f"register_buffer: '{name}' is a {type(tensor).__name__}, not a tensor")
        self._new_name(name, self._buffers)
        self._buffers[name] = tensor
        restructured()
        (self._passing.discard if persistent else self._passing.add)(name)

    def register_module(self, name, module):
        """`add_module`."""
        self.add_module(name, module)

    def add_module(self, name, module):
        """A module under a name."""
        self._new_name(name, self._modules)
        if not isinstance(module, (Module, type(None))):
            raise TypeError(f"add_module: '{name}' is a {type(module).__name__}; a Module or None is needed")
        self._modules[name] = module
        restructured()

    def _new_name(self, name, table):
        """Fails where what is registered cannot have a name, other than that of its own kind."""
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__}: call super().__init__() before registering '{name}'")
        if not isinstance(name, str):
            raise TypeError(f"{type(self).__name__}: {name!r} is no name")
        if not name or "." in name:
            raise KeyError(f"{type(self).__name__}: {name!r} is no name: one without '.' is needed")
        if hasattr(self, name) and name not in table:
            raise KeyError(f"{type(self).__name__} has an attribute '{name}' already")

    # ---- walking ----

    @torch_words(memo="seen")
    def named_modules(self, prefix="", seen=None, remove_duplicate=True):
        """(name, module) of this module, "", and all within it, each once."""
        seen = set() if seen is None else seen
        if self in seen:
            return
        seen.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(f"{prefix}.{name}" if prefix else name, seen)

    def modules(self):
        """This module and all within it, each once."""
        return (module for _, module in self.named_modules())

    def named_children(self):
        """(name, module) of the modules directly within."""
        return ((n, m) for n, m in self._modules.items() if m is not None)

    def children(self):
        """The modules directly within."""
        return (module for _, module in self.named_children())

    def _named(self, table, prefix, recurse, once=True):
        seen = set()
        for path, module in self.named_modules(prefix) if recurse else ((prefix, self),):
            for name, value in getattr(module, table).items():
                if value is not None and not (once and id(value) in seen):
                    seen.add(id(value))
                    yield f"{path}.{name}" if path else name, value

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """(name, parameter) of all, each once; names are paths with dots."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        """All parameters, each once."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """(name, buffer) of all, each once."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        """All buffers, each once."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    @torch_words(target="path")
    def get_submodule(self, path):
        """The module at a path with dots; "" is this one."""
        found = self
        for name in path.split(".") if path else ():
            if found._modules.get(name) is None:
                raise AttributeError(f"{type(found).__name__} has no module '{name}', of '{path}'")
            found = found._modules[name]
        return found

    @torch_words(target="path")
    def get_parameter(self, path):
        """The parameter at a path with dots."""
        owner, _, name = path.rpartition(".")
        found = self.get_submodule(owner)._parameters.get(name)
        if found is None:
            raise AttributeError(f"there is no parameter '{path}'")
        return found

    def get_buffer(self, target):
        """The buffer at a path with dots."""
        owner, _, name = target.rpartition(".")
        found = self.get_submodule(owner)._buffers.get(name)
        if found is None:
            raise AttributeError(f"there is no buffer '{target}'")
        return found

    def apply(self, fn):
        """Calls fn(module) for all modules within, then for this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---- modes and places ----

    def train(self, mode=True):
        """Into training, with dropout; or out of it."""
        if not isinstance(mode, bool):
            raise invalid(f"{type(self).__name__}.train: the mode is {mode!r}; it must be True or False")
        for module in self.modules():
            if module.training != bool(mode):
                module.training = bool(mode)
        return self

    def eval(self):
        """Out of training."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Whether gradients are wanted for all parameters."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """No parameter has a gradient any more."""
        for p in self.parameters():
            clear_grad(p, set_to_none)

    def to(self, *targets, device=None, dtype=None, non_blocking=False, memory_format=None):
        """Parameters and buffers as `Tensor.to`; a floating element type changes those of a floating type."""
        for kind in (*targets, dtype):
            if is_dtype(kind) and not is_floating(dtype_name(kind)):
                raise TypeError(f"{type(self).__name__}.to: {kind} is no floating type; parameters need one")
        def moved(t):
            for target in (*targets, device, dtype):
                if target is None or target is True or target is False:
                    continue
                kind = target.dtype if isinstance(target, Tensor) else target
                is_type = isinstance(target, Tensor) or is_dtype(kind)
                if not is_type:
                    t = t.to(target)
                elif is_floating(t.dtype):
                    t = t.astype(kind)
            return t
        if next(self.parameters(), None) is None and next(self.buffers(), None) is None:
            from ..creation import empty
            moved(empty(0))  # a wrong target is one here, too
        return self._converted(moved)

    def _converted(self, change):
        made = {}
        for module in self.modules():
            for name, p in module._parameters.items():
                if p is None:
                    continue
                if id(p) not in made:
                    new = change(p._detach())
                    if new.dtype == p.dtype:
                        replace(p, new)
                        made[id(p)] = p, p
                    else:
                        made[id(p)] = p, Parameter(new, p.requires_grad)
                module._parameters[name] = made[id(p)][1]
            for name, b in module._buffers.items():
                if b is not None:
                    module._buffers[name] = change(b)
        restructured()
        return self

    def float(self):
        """All floating parameters and buffers as float32."""
        return self.to("float32")

    def double(self):
        """All floating parameters and buffers as float64."""
        return self.to("float64")

    def half(self):
        """All floating parameters and buffers as float16."""
        return self.to("float16")

    def bfloat16(self):
        """All floating parameters and buffers as bfloat16."""
        return self.to("bfloat16")

    def type(self, dst_type):
        """All floating parameters and buffers as an element type."""
        return self.to(dst_type)

    def cpu(self):
        """Itself: a value can be read wherever it lies."""
        return self

    def cuda(self, device=None):
        """Parameters and buffers whole on a GPU of the pool."""
        return self.to("cuda" if device is None else device)

    def to_empty(self, *, device):
        """Itself on another device."""
        return self.to(device)

    def share_memory(self):
        """Itself."""
        return self

    # ---- state ----

    def get_extra_state(self):
        """What a state has of this module beside tensors; a subclass may give something."""
        raise NotImplementedError(f"{type(self).__name__} has no extra state")

    def set_extra_state(self, state):
        """Takes what `get_extra_state` gave."""
        raise NotImplementedError(f"{type(self).__name__} has no extra state")

    def state_dict(self, *, destination=None, prefix="", keep_vars=False):
        """Parameters and buffers by their names, as views: training goes on in them, too; copy.deepcopy
        keeps what they are now. keep_vars: the parameters themselves."""
        state = OrderedDict() if destination is None else destination
        if keep_vars:
            own = {f"{prefix}{n}": p for n, p in self.named_parameters(remove_duplicate=False)}
            state.update(own)
        for path, module in self.named_modules():
            below = f"{prefix}{path}." if path else prefix
            for name, p in module._parameters.items():
                if p is not None and not keep_vars:
                    state[below + name] = p.detach()
            for name, b in module._buffers.items():
                if b is not None and name not in module._passing:
                    state[below + name] = b.detach()
        return state

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Takes the values of a state; strict: every key must be there, and no other. Batch norms of old states have no
        `num_batches_tracked`, which then stays."""
        state, own = state_dict, OrderedDict()
        for path, module in self.named_modules():
            below = f"{path}." if path else ""
            own.update((below + n, p) for n, p in module._parameters.items() if p is not None)
            own.update((below + n, b) for n, b in module._buffers.items()
                       if b is not None and n not in module._passing)
        missing = [name for name in own if name not in state and name.rpartition(".")[2] != "num_batches_tracked"]
        unexpected = [name for name in state if name not in own]
        wrong = [f"'{name}' is {tensor_like(state[name])} there and {own[name]._text()} here"
                 for name in own if name in state and
                 tuple(getattr(state[name], "shape", ())) != own[name].shape]
        problems = []
        if strict and missing:
            problems.append("missing: " + ", ".join(missing))
        if strict and unexpected:
            problems.append("unexpected: " + ", ".join(unexpected))
        problems += wrong
        if problems:
            raise invalid(f"load_state_dict of {type(self).__name__}: " + "; ".join(problems))
        for name, tensor in own.items():
            if name in state:
                replace(tensor, tensor._coerce(state[name])._detach().astype(tensor.dtype))
        return Keys(missing, unexpected)

    def compile(self, *args, **keywords):
        """Has calls of this module recorded as one program each; see `shoal.compile`."""
        from ..signal import compile
        object.__setattr__(self, "forward", compile(self.forward, name=f"compile {type(self).__name__}"))
        return self

    # ---- showing ----

    def extra_repr(self):
        """What the module's line shows beside its class."""
        return ""

    def _get_name(self):
        return type(self).__name__

    def _inner(self):
        """The lines of the modules within."""
        return [f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self._modules.items()]

    def __repr__(self):
        inner, own = self._inner(), self.extra_repr()
        lines = [*(own.split("\n") if own else ()), *inner]
        if not inner and len(lines) < 2:
            return f"{self._get_name()}({own})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class Handle(custom.Handle):
    """Removes a hook."""

    def remove(self):
        """The hook is not called any more."""
        super().remove()
        restructured()


def tensor_like(value):
    """What a value is, for messages."""
    kind = dtype_name(value.dtype) if hasattr(value, "dtype") else type(value).__name__
    return f"{kind}{list(getattr(value, 'shape', ()))}"


def replace(tensor, value):
    """The tensor takes a value as its own, gradients aside: a parameter stays the leaf that it is."""
    with no_grad():
        tensor._rebind(value)


def clear_grad(parameter, set_to_none=True):
    """Forgets a parameter's gradient, or makes it zeros."""
    if set_to_none:
        _set_grad(parameter, None)
    elif parameter.grad is not None:
        gradient = parameter.grad
        parameter.grad = gradient.session.full(gradient.shape, 0, gradient.dtype)
