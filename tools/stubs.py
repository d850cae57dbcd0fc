#!/usr/bin/env python3
"""Writes the type stubs of the Python package from its functions, or checks that they are up to date.

    PYTHONPATH=build/python tools/stubs.py [--check]

Types come from two tables: by the name of a parameter, and by the name of a function for what it
returns, where that is not a Tensor. The package has to be importable.
"""
import argparse
import importlib
import inspect
import re
import sys
import textwrap

from common import ROOT, report

PACKAGE = ROOT / "python" / "shoal"

# The type of a parameter by its name; Operand is what an operator takes beside a tensor.
PARAMETERS = {
    "Axes": "axis dim axes normalized_shape",
    "DType": "dtype",
    "bool": """keepdims keepdim descending largest json causal is_causal interleaved unbiased
        equal_nan requires_grad borrow replacement inplace training bias affine elementwise_affine
        log_target full nesterov amsgrad maximize strict zero_infinity ceil_mode
        count_include_pad norm_first batch_first set_to_none recurse retain_graph create_graph mode
        need_weights remove_duplicate add_bias_kv error_if_nonfinite high_first anneal keep_vars
        weights_only packed""",
    "int": """n m k ndim diagonal offset axis1 axis2 a_dim start_dim end_dim chunks copies length
        num_samples exponent_bits mantissa_bits workers threads timeout_ms correction in_features
        out_features num_embeddings embedding_dim in_channels out_channels groups num_heads
        embed_dim num_classes step_size total_steps T_max warmup_steps last_epoch num_layers""",
    "float": "rtol atol alpha beta epsilon eps theta p lr momentum weight_decay dampening rho gamma",
    "Shape": "shape size sizes low high interior normalized shifts counts slice_sizes",
    "str": "path reduction approximate op name indexing format equation rounding_mode nonlinearity",
    "Session": "session in_session",
    "Tensor": "x weights input target query logits labels updates source update",
}
# What a function returns, by its name, where that is not a Tensor.
RETURNS = {
    "tuple[Tensor, ...]": "split chunk unbind broadcast_tensors meshgrid",
    "Sorted": "sort topk",
    "Any": """max min numpy __array__ __dlpack__ tolist load_state_dict tree load state_dict item metadata
        __getattr__ requires_grad_ remove context compile""",
    "bool": "__bool__ allclose equal is_floating_point",
    "int": "__len__ __hash__ __int__ __index__ dim numel initial_seed ndim itemsize nbytes nelement",
    "float": "__float__",
    "str": "__repr__ __format__ explain dtype_name promoted extra_repr digest",
    "Count": "size",
    "Size": "shape",
    "dtype": "dtype",
    "device": "device",
    "Iterator[Tensor]": "__iter__ parameters buffers",
    "tuple[int, int]": "__dlpack_device__ next get_state get_rng_state",
    "tuple[int, ...]": "shape_of stride",
    "None": """save sync disconnect close start set_state set_rng_state __init__ __setitem__ zero_grad
        __setattr__ __delattr__ register_buffer register_parameter add_module backward reset_parameters
        add_param_group extend append insert clear describe enter exit parse""",
    "str | None": "current_signal current_backward_signal",
    "list[str]": "get_signal_stack",
    "list[int]": "compute_slots",
    "dict[str, Signal]": "described",
    "list[tuple[int, int, int]]": "times",
    "list[tuple[str, str, str]]": "operations",
    "Session": "session connect init",
    "Pool": "status",
    "Counts": "counts",
    "Generator": "manual_seed",
}
PARAMETER = {name: kind for kind, names in PARAMETERS.items() for name in names.split()}
RETURN = {name: kind for kind, names in RETURNS.items() for name in names.split()}
HEAD = """from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

Shape: TypeAlias = int | Sequence[int] | None
Axes: TypeAlias = int | Sequence[int] | None
DType: TypeAlias = Any  # a name, a NumPy dtype, float, int or bool
Operand: TypeAlias = Any  # a Tensor, a number, nested lists or an array

"""


def parameter(p, method):
    if p.name in ("self", "cls") and method:
        return p.name
    if p.name == "self":
        return "self: Tensor"
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    kind = PARAMETER.get(p.name, "Any")
    if p.default is None and kind not in ("Axes", "Shape", "Any"):
        kind += " | None"
    text = f"{star}{p.name}: {kind}"
    return text if p.default is p.empty else f"{text} = ..."


def function_stub(name, function, method, indent, returns=None):
    try:
        signature = importlib.import_module("shoal.words").signature_of(function)
    except (ValueError, TypeError):
        return f"{indent}def {name}({'self, ' if method else ''}*args: Any) -> " \
            f"{returns or RETURN.get(name, 'Any')}: ...\n"
    parts, starred = [], False
    for p in signature.parameters.values():
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred |= p.kind in (p.VAR_POSITIONAL, p.KEYWORD_ONLY)
        parts.append(parameter(p, method))
    head = f"{indent}def {name}("
    line = f"{head}{', '.join(parts)}) -> {returns or RETURN.get(name, 'Tensor')}: ...\n"
    if len(line) <= 101:
        return line
    kept = ", ".join(part.replace(" ", "\0") for part in parts)  # no line ends within a parameter
    inner = textwrap.fill(kept, 99, initial_indent=indent + "    ", break_long_words=False,
                          subsequent_indent=indent + "    ").replace("\0", " ")
    return f"{head}\n{inner}\n{indent}) -> {returns or RETURN.get(name, 'Tensor')}: ...\n"


def is_public(name):
    return not name.startswith("_") or name.startswith("__") and name.endswith("__")


def class_stub(name, made, base=""):
    """A class with what it has of its own and, for those of C, of its bases."""
    if issubclass(made, tuple) and hasattr(made, "_fields"):
        kind = "Tensor" if name in ("Sorted", "Extreme") else "Any"
        fields = "".join(f"    {f}: {kind}\n" for f in made._fields)
        return f"class {name}(NamedTuple):\n{fields}\n"
    if hasattr(made, "__dataclass_fields__"):
        fields = "".join(f"    {f.name}: {getattr(f.type, '__name__', f.type)}\n"
                         for f in made.__dataclass_fields__.values())
        return f"class {name}:\n{fields}\n"
    members = {}
    for c in reversed(made.__mro__[:-1]):
        if c.__module__.startswith("shoal") and (c is made or not base):
            members.update(vars(c))
    hidden = {"__slots__", "__module__", "__doc__", "__dict__", "__weakref__", "__new__",
              "__array_ufunc__", "__array_priority__", "__firstlineno__", "__static_attributes__"}
    body = ""
    for member in sorted(m for m in members if is_public(m) and m not in hidden):
        value = members[member]
        if isinstance(value, property) or inspect.isgetsetdescriptor(value):
            kind = RETURN.get(member, "Session" if member == "session" else "Tensor"
                              if member in ("T", "mT") else "Any")
            body += f"    @property\n    def {member}(self) -> {kind}: ...\n"
        elif callable(value) or isinstance(value, (classmethod, staticmethod)):
            is_static = isinstance(value, (classmethod, staticmethod))
            body += "    @classmethod\n" * is_static
            own = name if member in ("__enter__", "manual_seed") and name != "Tensor" else None
            body += function_stub(member, getattr(made, member) if is_static else value,
                                  not is_static, "    ", own)
        else:
            body += f"    {member}: Any\n"
    return f"class {name}{f'({base})' if base else ''}:\n{body or '    ...' + chr(10)}\n"


def tensor_module(shoal):
    """tensor.pyi: the class that everything else is about."""
    reductions = importlib.import_module("shoal.reductions")
    text = '"""Types of `shoal.tensor`. Written by tools/stubs.py."""\n' + HEAD
    text += "from .dtypes import Count, Size\nfrom .dtypes import device as device_type, dtype as dtype_type\n"
    text += "from .pool import Session\n\n"
    for name in ("Sorted", "Extreme"):
        text += class_stub(name, getattr(reductions, name))
    # Methods named int, float and bool hide the types of that name.
    body = re.sub(r"(?<!def )\b(int|float|bool)\b", r"builtins.\1", class_stub("Tensor", shoal.Tensor))
    body = re.sub(r"-> (dtype|device): \.\.\.", r"-> \1_type: ...", body)
    return text.replace("from typing", "import builtins\nfrom typing", 1) + body


def package_module(shoal):
    """__init__.pyi: the functions of `shoal`."""
    dtypes = importlib.import_module("shoal.dtypes")
    text = '"""Types of `shoal`. Written by tools/stubs.py."""\n'
    text += "from typing import Any\n\n"
    errors = [n for n in shoal.__all__ if n.endswith("Error")]
    text += "from .errors import (\n" + "".join(f"    {n} as {n},\n" for n in errors) + ")\n"
    text += "from .files import File as File\n"
    text += "from .pool import Pool as Pool, Session as Session, Slot as Slot\n"
    text += "from .random import Generator as Generator\n"
    text += "from .tensor import Axes, DType, Operand, Shape, Sorted\nfrom .tensor import Tensor as Tensor\n"
    modules = sorted(name for name, (home, own) in shoal._LATER.items() if own is None)
    text += "".join(f"from . import {name} as {name}\n" for name in modules + ["autograd"])
    text += "from .dtypes import Size as Size, device as device, dtype as dtype\n"
    text += "from .dtypes import finfo as finfo, iinfo as iinfo\n"
    text += "from .amp import autocast as autocast\n"
    text += "backends: Any\ncuda: Any\nblock_formats: dict[str, Any]\npi: float\ninf: float\nnan: float\ne: float\nnewaxis: None\n"
    text += "\n__all__: list[str]\n__version__: str\n"
    text += "".join(f"{n}: dtype\n" for n in [*shoal.DTYPES, *dtypes.ALIASES]) + "\n"
    for name in sorted(set(shoal.__all__)):
        value = getattr(shoal, name)
        if inspect.isfunction(value):
            text += function_stub(name, value, False, "")
        elif inspect.isclass(value) and not (
                errors.count(name) or name in ("Tensor", "Session", "File", "Pool", "Slot", "Generator", "Size",
                                               "dtype", "device", "finfo", "iinfo", "autocast")):
            text += "\n" + class_stub(name, value)
    return text


def plain_module(name, imports):
    """The stub of a module that has its own functions and classes."""
    module = importlib.import_module(f"shoal.{name}")
    text = f'"""Types of `shoal.{name}`. Written by tools/stubs.py."""\n'
    text += HEAD.split("\n\n")[0] + "\n\n" + imports + "\n"
    homes = (module.__name__, *PARTS.get(name, ()))
    for key in sorted(k for k, v in vars(module).items() if not k.startswith("_")
                      and getattr(v, "__module__", "") in homes):
        value = getattr(module, key)
        if inspect.isclass(value):
            base = next((b.__name__ for b in value.__bases__ if b.__module__.startswith("shoal.")
                         and b.__module__ != "shoal._shoal"), "")
            text += class_stub(key, value, base)
        else:
            text += function_stub(key, value, False, "")
    return text


def folder_module(name):
    """The stub of a package: where what it offers comes from."""
    module = importlib.import_module(f"shoal.{name}")
    text = f'"""Types of `shoal.{name}`. Written by tools/stubs.py."""\n'
    for key in sorted(module.__all__):
        value = getattr(module, key)
        if inspect.ismodule(value):
            home, own = value.__name__.rpartition(".")[::2]
            there = "." if home == module.__name__ else ".."
            text += f"from {there} import {own} as {key}\n"
        else:
            depth = value.__module__.removeprefix(f"shoal.{name}.")
            there = f".{depth}" if depth != value.__module__ else \
                value.__module__.replace("shoal.", "..", 1)
            text += f"from {there} import {key} as {key}\n"
    return text + "\n__all__: list[str]\n"


# Modules whose functions are also those of another.
PARTS = {"functional": ("shoal.losses", "shoal.windows"), "nn.functions": ("shoal.functional",)}
TENSOR = "from {dots}tensor import Axes, DType, Operand, Shape, Sorted, Tensor\n"
MODULES = {  # beside tensor and the package itself: what each imports
    "pool": TENSOR.format(dots="."),
    "files": "from .pool import Session\n" + TENSOR.format(dots="."),
    "random": TENSOR.format(dots="."),
    "functional": TENSOR.format(dots="."),
    "linalg": TENSOR.format(dots="."),
    "special": TENSOR.format(dots="."),
    "func": TENSOR.format(dots="."),
    "amp": TENSOR.format(dots="."),
    "custom": TENSOR.format(dots="."),
    "autograd": TENSOR.format(dots="."),
    "signal": TENSOR.format(dots="."),
    "debug": "from .pool import Session\n",
    "nn.module": TENSOR.format(dots=".."),
    "nn.layers": TENSOR.format(dots="..") + "from .module import Module, Parameter\n",
    "nn.functions": TENSOR.format(dots="..") + "from .module import Module, Parameter\n",
    "nn.containers": TENSOR.format(dots="..") + "from .module import Module, Parameter\n",
    "nn.convolutions": TENSOR.format(dots="..") + "from .module import Module, Parameter\n",
    "nn.norms": TENSOR.format(dots="..") + "from .module import Module, Parameter\n",
    "nn.recurrent": TENSOR.format(dots="..") + "from .module import Module, Parameter\n",
    "nn.transformer": TENSOR.format(dots="..") + "from .module import Module, Parameter\n",
    "nn.rnn": TENSOR.format(dots=".."),
    "nn.init": TENSOR.format(dots=".."),
    "nn.utils": TENSOR.format(dots=".."),
    "optim.optimizer": TENSOR.format(dots=".."),
    "optim.lr_scheduler": "from .optimizer import Optimizer\n",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it would")
    args = parser.parse_args()
    shoal = importlib.import_module("shoal")
    made = {"tensor.pyi": tensor_module(shoal), "__init__.pyi": package_module(shoal)}
    for name, imports in MODULES.items():
        made[f"{name.replace('.', '/')}.pyi"] = plain_module(name, imports)
    for name in ("nn", "optim"):
        made[f"{name}/__init__.pyi"] = folder_module(name)
    problems = []
    for name, text in made.items():
        path = PACKAGE / name
        compile(text, name, "exec")
        if args.check and (not path.is_file() or path.read_text() != text):
            problems.append(f"python/shoal/{name}: not up to date; run tools/stubs.py")
        elif not args.check:
            path.write_text(text)
    return report("stubs", problems, len(made))


if __name__ == "__main__":
    sys.exit(main())
