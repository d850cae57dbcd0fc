"""Modules and parameters in lists and dicts."""
from ..words import check_tensor, tensors_of
from .module import Module, Parameter


class Sequential(Module):
    """Modules one after another: Sequential(a, b, …) or Sequential({"first": a, …})."""

    def __init__(self, *modules):
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], dict):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            self.extend(modules)

    def append(self, module):
        """One more at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        """More at the end."""
        for module in modules:
            self.append(module)
        return self

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, index):
        if isinstance(index, slice):  # the names stay
            return type(self)(dict(list(self._modules.items())[index]))
        return list(self._modules.values())[index]

    def __setitem__(self, index, module):
        self.add_module(list(self._modules)[index], module)

    def __delitem__(self, index):
        modules = list(self)
        del modules[index]
        self._modules.clear()
        self.extend(modules)

    def insert(self, index, module):
        """One more at an index."""
        modules = list(self)
        modules.insert(index, module)
        self._modules.clear()
        self.extend(modules)
        return self

    def pop(self, index):
        """Takes the module at an index out, and gives it."""
        found = self[index]
        del self[index]
        return found

    def __add__(self, other):
        return type(self)(*self, *other)

    def forward(self, input):
        for module in self:
            input = module(input)
        return input


class ModuleList(Sequential):
    """Modules in a list; it computes nothing itself."""

    def __init__(self, modules=None):
        Module.__init__(self)
        self.extend(modules or ())

    def _inner(self):
        # Alike modules in a row on one line, as torch shows them.
        lines = []
        for i, module in enumerate(self):
            text = repr(module).replace("\n", "\n  ")
            if lines and lines[-1][2] == text:
                lines[-1][1] = i
            else:
                lines.append([i, i, text])
        return [f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}" for a, b, text in lines]

    def __getitem__(self, index):
        found = list(self._modules.values())[index]
        return ModuleList(found) if isinstance(index, slice) else found

    def __add__(self, other):
        return ModuleList([*self, *other])

    def forward(self, *args, **keywords):
        raise NotImplementedError("a ModuleList computes nothing; call its modules")


class ModuleDict(Module):
    """Modules by names; it computes nothing itself."""

    def __init__(self, modules=None):
        super().__init__()
        self.update(modules or {})

    def update(self, modules):
        """More modules, from a dict."""
        if not hasattr(modules, "items"):
            raise TypeError(f"ModuleDict: the modules are of type {type(modules).__name__}; they come as a dict")
        for name, module in modules.items():
            self.add_module(name, module)

    def __getitem__(self, name):
        return self._modules[name]

    def __setitem__(self, name, module):
        self.add_module(name, module)

    def __delitem__(self, name):
        del self._modules[name]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, name):
        return name in self._modules

    def pop(self, key):
        """Takes the module of a name out, and gives it."""
        found = self[key]
        del self[key]
        return found

    def clear(self):
        """Takes all out."""
        for name in list(self):
            del self[name]

    def keys(self):
        """The names."""
        return self._modules.keys()

    def values(self):
        """The modules."""
        return self._modules.values()

    def items(self):
        """(name, module) of each."""
        return self._modules.items()


class _Parameters(Module):
    """What shows its parameters as modules are shown."""

    def _inner(self):
        return [f"({name}): Parameter containing: [shoal.{p.dtype.name} of size "
                f"{'x'.join(map(str, p.shape))}]" for name, p in self._parameters.items() if p is not None]


class ParameterList(_Parameters):
    """Parameters in a list."""

    def __init__(self, values=None):
        super().__init__()
        self.extend(values or ())

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters.values())

    def __getitem__(self, index):
        return list(self._parameters.values())[index]

    def append(self, value):
        """One more at the end."""
        check_tensor(value, "ParameterList", "the parameter")
        self.register_parameter(str(len(self)), value if isinstance(value, Parameter) else Parameter(value))
        return self

    def extend(self, values):
        """More at the end."""
        for value in tensors_of(values, "ParameterList"):
            self.append(value)
        return self

    def __setitem__(self, index, value):
        setattr(self, list(self._parameters)[index], value)


class ParameterDict(_Parameters):
    """Parameters by names."""

    def __init__(self, parameters=None):
        super().__init__()
        self.update(parameters or {})

    def update(self, parameters):
        """More parameters, from a dict."""
        for name, p in dict(parameters).items():
            self[name] = p

    def __setitem__(self, name, p):
        self.register_parameter(name, p if p is None or isinstance(p, Parameter) else Parameter(p))

    def __getitem__(self, name):
        return self._parameters[name]

    def __delitem__(self, name):
        del self._parameters[name]

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters)

    def __contains__(self, name):
        return name in self._parameters

    def keys(self):
        """The names."""
        return self._parameters.keys()

    def values(self):
        """The parameters."""
        return self._parameters.values()

    def items(self):
        """(name, parameter) of each."""
        return self._parameters.items()
