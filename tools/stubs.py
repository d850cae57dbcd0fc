#!/usr/bin/env python3
"""Writes the type stubs of the Python package from what it offers at run time, or checks that they are up to date.

    PYTHONPATH=build/python tools/stubs.py [--check]

Most functions of `shoal` are made of the methods of Tensor, and many of these of tables: no type checker can
follow that, and Python can. Names, signatures, defaults and synonyms are those of the objects. Types are
their annotations; where there is none they come from the tables of tools/stub_types.py, by the name of a
parameter or a function, and from the source: what returns nothing returns None. --check
also has mypy's stubtest compare the stubs with the package; what it may find is in tools/stubtest.allow.
"""
import argparse
import ast
import builtins
import collections.abc
import contextlib
import importlib
import inspect
import io
import os
import pathlib
import re
import shutil
import sys
import tempfile
import textwrap
import typing

from common import ROOT, report
from stub_types import (ALIASES, BASES, FUNCTIONS_GIVE, INLINE, OVERLOADS, OVERRIDES, PARAMETER, RETURN, STUBS,
                        VALUES, VARIADIC)

PACKAGE = ROOT / "python" / "shoal"
HIDDEN = {"__slots__", "__module__", "__doc__", "__dict__", "__weakref__", "__firstlineno__", "__annotations__",
          "__static_attributes__", "__match_args__", "__dataclass_params__", "__orig_bases__",
          "__dataclass_fields__", "__parameters__", "__replace__"}
# Names of types that a module, or a class, gives to something else.
PLAIN = {"int", "float", "bool", "range", "dtype", "device", "type"}
ELSEWHERE = {"PathLike": "os", "ModuleType": "types", "AbstractContextManager": "contextlib",
             "NDArray": "numpy.typing", "ArrayLike": "numpy.typing"}
IN_PLACE = {f"__i{n}__" for n in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()}
CONSTANT = (str, int, float, tuple, dict, type(None))
WORD = re.compile(r"(?<![\w.])([A-Za-z_]\w*)")


def written(annotation):
    """An annotation as text."""
    if isinstance(annotation, str):
        return annotation.strip("'\"")
    return re.sub(r"\b(?:shoal|typing|collections\.abc)\.(?:\w+\.)*", "", inspect.formatannotation(annotation))


def module_of(name):
    return importlib.import_module(f"shoal.{name}" if name else "shoal")


def is_package(module):
    """Whether a module is a folder: other modules than those in it may be imported by its name, too (moved.py)."""
    return module.__file__.endswith("__init__.py")


def source_of(function):
    """The tree of a function's source, or None."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError, IndentationError):
        return None


def own_nodes(tree):
    """The nodes of a function without those of functions within it."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            yield node
            yield from own_nodes(node)


def inferred(function):
    """What a function returns, if its source says so: nothing, itself, or values one by one."""
    tree = source_of(inspect.unwrap(function))
    if not isinstance(tree, ast.FunctionDef):
        return None
    nodes = list(own_nodes(tree))
    if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in nodes):
        return "Iterator[Any]"
    given = [n.value for n in nodes if isinstance(n, ast.Return) and n.value is not None]
    if not given:
        return None if any(isinstance(n, ast.Raise) for n in tree.body) else "None"
    if all(isinstance(v, ast.Name) and v.id == "self" for v in given):
        return "Self"
    if all(isinstance(v, ast.Constant) and isinstance(v.value, bool) for v in given):
        return "bool" if any(v.value for v in given) else "Literal[False]"  # of an __exit__: nothing is caught
    return None


class Stub:
    """The stub of one module while it is written."""

    def __init__(self, name, homes):
        self.name, self.homes = name, homes
        self.module = module_of(name)
        self.path = f"shoal.{name}".rstrip(".")
        self.package = is_package(self.module)
        self.imports = {}  # module: names
        self.taken = set()  # names that mean something else here
        self.body = ""

    # ---- types ----

    def import_from(self, home, name, as_name=None):
        text = name if as_name is None else f"{name} as {as_name}"
        self.imports.setdefault(home, set()).add(text)

    def relative(self, home):
        """A module of the package as one writes it in an import here."""
        here = self.path.split(".") if self.package else self.path.split(".")[:-1]
        there = home.split(".")
        same = 0
        while same < min(len(here), len(there)) and here[same] == there[same]:
            same += 1
        return "." * (len(here) - same + 1) + ".".join(there[same:])

    def typed(self, text, taken=()):
        """A type as it is written here; what it names is imported."""
        def word(match):
            name = match[1]
            if name in PLAIN and (name in self.taken or name in taken):
                if hasattr(builtins, name):
                    self.import_from("builtins", name, f"_{name}")
                else:
                    self.import_from(self.relative("shoal.dtypes"), name, f"_{name}")
                return f"_{name}"
            if hasattr(builtins, name) or name in self.own or self.name == "tensor" and name in ALIASES:
                return name
            if name in self.homes:
                self.import_from(self.relative(self.homes[name]), name)
            elif hasattr(typing, name) and name in typing.__all__ and not hasattr(collections.abc, name):
                self.import_from("typing", name)
            elif hasattr(collections.abc, name):
                self.import_from("collections.abc", name)
            elif name in ALIASES:
                self.import_from(self.relative("shoal.tensor"), name)
            elif name in ELSEWHERE:
                self.import_from(ELSEWHERE[name], name)
            else:
                raise SystemExit(f"stubs: {self.path}: no such type: {name} in {text}")
            return name
        quoted = re.compile(r"('[^']*'|\"[^\"]*\")")
        return "".join(part if quoted.fullmatch(part) else WORD.sub(word, part) for part in quoted.split(text))

    # ---- functions ----

    def parameter(self, p, method, owner, function, taken, first):
        if first and method and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            return p.name
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        kind = None
        if p.annotation is not p.empty:
            kind = written(p.annotation)
        elif star == "*":
            kind = next((VARIADIC[key] for key in (f"{owner}.{p.name}", f"{function}.{p.name}", p.name)
                         if key in VARIADIC), "Any")
        elif star == "**":
            kind = "Any"
        elif first and not owner and hasattr(module_of("").Tensor, function):
            kind = "_Operand"
        else:
            for key in (f"{owner}.{function}.{p.name}", f"{function}.{p.name}", f"{owner}.{p.name}", p.name):
                kind = kind or PARAMETER.get(key)
            if isinstance(p.default, (bool, float, str)) and kind in (None, "Tensor", "int", "_Shape"):
                kind = type(p.default).__name__
            kind = kind or "Any"
            if p.default is None and "None" not in kind and kind != "Any" and kind not in BASES:
                kind += " | None"
        text = f"{star}{p.name}: {self.typed(kind, taken)}"
        if p.default is p.empty:
            return text
        plain = p.default is None or isinstance(p.default, (bool, int, str)) or \
            isinstance(p.default, float) and p.default == p.default and abs(p.default) < 1e300
        return f"{text} = {p.default!r}" if plain and type(p.default).__module__ == "builtins" else f"{text} = ..."

    def function(self, name, function, method=False, indent="", owner="", taken=(), decorator="", default=None):
        """One function; with overloads, all of them."""
        below = inspect.unwrap(function)
        overloads = typing.get_overloads(below) if inspect.isfunction(below) else []
        if name in OVERLOADS and self.name != "array_api" and owner in ("Tensor", ""):
            return "".join(self.line(indent, "@overload\n" + indent, owner, name, self.parameters(
                parameters, method, taken), returns, taken) for parameters, returns in OVERLOADS[name])
        if overloads:
            return "".join(self.one(name, f, method, indent, owner, taken, "@overload\n" + indent, default)
                           for f in overloads)
        return self.one(name, function, method, indent, owner, taken, decorator, default)

    def parameters(self, text, method, taken):
        """The parameters of an overload: `self` is the first one of a function made of a method."""
        if text.startswith("self") and not method:
            text = "input: Tensor" + text[4:]
        return [re.sub(r"(?<=: )[^=]*", lambda m: self.typed(m[0], taken), part) for part in text.split("; ")]

    def one(self, name, function, method, indent, owner, taken, decorator, default):
        if "overload" in decorator:
            self.import_from("typing", "overload")
        try:
            signature = importlib.import_module("shoal.words").signature_of(function)
        except (ValueError, TypeError):
            return self.line(indent, decorator, owner, name, "self" if method else "", RETURN.get(name, "None"), taken)
        parts, starred, slash = [], False, False
        for i, p in enumerate(signature.parameters.values()):
            if slash and p.kind is not p.POSITIONAL_ONLY:
                parts.append("/")
                slash = False
            slash |= p.kind is p.POSITIONAL_ONLY
            if p.kind is p.KEYWORD_ONLY and not starred:
                parts.append("*")
            starred |= p.kind in (p.VAR_POSITIONAL, p.KEYWORD_ONLY)
            parts.append(self.parameter(p, method, owner, name, taken, i == 0))
        if slash:
            parts.append("/")
        returns = signature.return_annotation
        if returns is signature.empty:
            home = owner or self.name.rpartition(".")[2]
            returns = RETURN.get(f"{home}.{name}") or RETURN.get(name) or inferred(function) or default or "Any"
        else:
            returns = written(returns)
        if name == "__init__":
            returns = "None"
        if returns == "Self" and not method:
            returns = "Tensor"
        if owner == "Tensor" and (name in IN_PLACE or name.endswith("_") and not name.endswith("__")):
            returns = "Self"
        return self.line(indent, decorator, owner, name, parts, returns, taken)

    def line(self, indent, decorator, owner, name, parts, returns, taken):
        if "overload" in decorator:
            self.import_from("typing", "overload")
        returns = self.typed(returns, taken)
        note = "  # type: ignore[override]" if f"{owner}.{name}" in OVERRIDES else ""
        given = ", ".join(parts) if isinstance(parts, list) else parts
        text = f"{indent}{decorator}def {name}({given}) -> {returns}: ...{note}\n"
        if max(map(len, text.split("\n"))) <= 110:
            return text
        kept = parts if isinstance(parts, list) else [given]
        inner = textwrap.fill(", ".join(part.replace(" ", "\0") for part in kept), 105, break_long_words=False,
                              break_on_hyphens=False, initial_indent=indent + "    ",
                              subsequent_indent=indent + "    ").replace("\0", " ")
        return f"{indent}{decorator}def {name}(\n{inner}\n{indent}) -> {returns}: ...{note}\n"

    # ---- classes ----

    def fields_of(self, made):
        """Attributes that are set where an object is made, public ones: name and type."""
        found = {}
        for c in reversed(made.__mro__):
            if not c.__module__.startswith("shoal"):
                continue
            for name, kind in c.__dict__.get("__annotations__", {}).items():
                found[name] = written(kind)
            if c is not made and not self.flattened(made, c):
                found = {k: v for k, v in found.items() if k in c.__dict__.get("__annotations__", {})}
                continue
            tree = source_of(c)
            for node in ast.walk(tree) if tree is not None else ():
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and \
                        isinstance(node.value, ast.Name) and node.value.id == "self":
                    found.setdefault(node.attr, RETURN.get(f"{c.__name__}.{node.attr}") or
                                     RETURN.get(node.attr, "Any"))
        return {n: k for n, k in found.items() if not n.startswith("_") and not hasattr(made, n)
                and not any(n in b.__dict__ for b in made.__mro__)}

    def flattened(self, made, base):
        """Whether a base's members are written with the class: bases from modules without a stub."""
        def has_stub(c):
            home = self.homes.get(c.__name__)
            return home is not None and getattr(module_of(home[6:]), c.__name__, None) is c
        return base.__module__.startswith("shoal") and not has_stub(base) and not any(
            has_stub(c) and issubclass(c, base) for c in made.__mro__[1:])

    def members_of(self, made):
        members = {}
        for c in reversed(made.__mro__[:-1]):
            if c is made or self.flattened(made, c):
                members.update(vars(c))
        return {m: v for m, v in sorted(members.items()) if m not in HIDDEN and
                (not m.startswith("_") or m.startswith("__") and m.endswith("__"))}

    def class_(self, name, made):
        if issubclass(made, tuple) and hasattr(made, "_fields") and "__new__" in vars(made):
            self.import_from("typing", "NamedTuple")
            kinds = made.__dict__.get("__annotations__", {})
            default = "Tensor" if FUNCTIONS_GIVE.get(self.name, "Any") == "Tensor" or name in BASES else "Any"
            own = "".join(f"    {f}: {self.typed(written(kinds.get(f, default)))}"
                          f"{' = ...' if f in made._field_defaults else ''}\n" for f in made._fields)
            return f"class {name}(NamedTuple):\n{own}\n"
        head = ""
        fields = self.fields_of(made)
        if hasattr(made, "__dataclass_fields__"):
            self.import_from("dataclasses", "dataclass")
            frozen = made.__dataclass_params__.frozen
            head = "@dataclass(frozen=True)\n" if frozen else "@dataclass\n"
            body = ""
            for f in made.__dataclass_fields__.values():
                kind = written(f.type)
                has = f.default is not inspect._empty and type(f.default).__name__ != "_MISSING_TYPE" or \
                    type(f.default_factory).__name__ != "_MISSING_TYPE"
                body += f"    {f.name}: {self.typed(kind)}{' = ...' if has else ''}\n"
            generated = {"__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__",
                         *made.__dataclass_fields__}
            fields = {}
        else:
            body, generated = "", set()
        bases = []
        for b in made.__bases__:
            if b is object or self.flattened(made, b):
                continue
            if f"{name}({b.__name__})" in BASES:
                bases.append(self.typed(BASES[f"{name}({b.__name__})"]))
            else:
                bases.append(self.typed(b.__name__))
        members = {m: v for m, v in self.members_of(made).items() if m not in generated}
        taken = {m for m in members} & PLAIN
        body += "".join(f"    {n}: {self.typed(k, taken)}\n" for n, k in fields.items())
        for member, value in members.items():
            body += self.member(name, made, member, value, taken)
        return f"{head}class {name}{'(' + ', '.join(bases) + ')' if bases else ''}:\n{body or '    ...' + chr(10)}\n"

    def member(self, name, made, member, value, taken):
        default = "Tensor" if name == "Tensor" else None
        if isinstance(value, property) or inspect.isgetsetdescriptor(value):
            known = getattr(value, "fget", None)
            kind = (getattr(known, "__annotations__", {}).get("return") or RETURN.get(f"{name}.{member}")
                    or RETURN.get(member) or default or "Any")
            kind = self.typed(written(kind), taken)
            text = f"    @property\n    def {member}(self) -> {kind}: ...\n"
            if isinstance(value, property) and value.fset is not None:
                text += f"    @{member}.setter\n    def {member}(self, value: {kind}) -> None: ...\n"
            if isinstance(value, property) and value.fdel is not None:
                text += f"    @{member}.deleter\n    def {member}(self) -> None: ...\n"
            return text
        if isinstance(value, (classmethod, staticmethod)):
            kind = type(value).__name__
            return self.function(member, value.__func__, kind == "classmethod", "    ", name, taken,
                                 f"@{kind}\n    ", default)
        if inspect.isclass(value):
            return f"    {member}: Any\n" if self.import_from("typing", "Any") is None else ""
        if callable(value):
            return self.function(member, value, True, "    ", name, taken, "", default)
        kind = RETURN.get(f"{name}.{member}") or ("None" if value is None else type(value).__name__)
        if isinstance(value, (tuple, list, dict)) or value is None:
            kind = RETURN.get(f"{name}.{member}") or "Any"
        if kind.startswith("_"):  # of a class that has no name outside: what the class says
            kind = next((written(c.__dict__["__annotations__"][member]) for c in made.__mro__
                         if member in c.__dict__.get("__annotations__", {})), kind)
        return f"    {member}: {self.typed(kind, taken)}\n"

    # ---- the whole ----

    def write(self):
        values = exported(self.name)
        self.own = {n for n, v in values.items() if home_of(n, v, self.name, self.homes) == self.path and
                    inspect.isclass(v)}
        self.taken = {n for n in values if n in PLAIN and not (inspect.isclass(values[n])
                      and self.path == "shoal.dtypes")}
        # What another module's types mean, of names that this one gives to them too.
        self.taken -= {n for n in ("dtype", "device") if n in values and inspect.isclass(values[n])}
        self.own = {n for n in self.own if values.get(values[n].__name__) is not values[n]
                    or values[n].__name__ == n}
        classes = sorted((n for n in self.own), key=lambda n: (len(values[n].__mro__), n))
        text = ""
        for name in classes:
            text += "\n" + self.class_(name, values[name])
        for name, value in sorted(values.items()):
            if name in self.own:
                continue
            home = home_of(name, value, self.name, self.homes)
            if name in VALUES and not inspect.isfunction(value):
                text += f"{name}: {self.typed(VALUES[name])}\n"
            elif inspect.ismodule(value):
                parent, own = value.__name__.rpartition(".")[::2]
                self.import_from(self.relative(parent), own, name)
            elif home != self.path and home is not None:
                self.import_from(self.relative(home), getattr(value, "__name__", name)
                                 if hasattr(module_of(home[6:]), getattr(value, "__name__", "?"))
                                 and value.__name__ in exported(home[6:]) else name, name)
            elif inspect.isclass(value):
                text += f"{name} = {value.__name__}\n"
            elif inspect.isfunction(value) or inspect.isbuiltin(value):
                text += self.function(name, value, default=FUNCTIONS_GIVE.get(self.name))
            else:
                kind = {type(None): "None", tuple: "tuple[Any, ...]", dict: "dict[str, Any]"}.get(
                    type(value), type(value).__name__)
                kind = getattr(self.module, "__annotations__", {}).get(name, kind)
                text += f"{name}: {self.typed(kind)}\n"
        if self.name == "tensor":
            text = self.aliases() + text
        if hasattr(self.module, "__all__"):
            names = ", ".join(f'"{n}"' for n in self.module.__all__)
            text += "\n__all__ = [\n" + textwrap.fill(names, 106, initial_indent="    ",
                                                   subsequent_indent="    ") + "\n]\n"
        head = f'"""Types of `{self.path}`. Written by tools/stubs.py."""\n'
        for names in self.imports.values():
            names -= {n.split(" ")[0] for n in names if " as " in n and n.split(" as ")[1] == n.split(" ")[0]}
        for home in sorted(self.imports, key=lambda h: (h.startswith("."), h)):
            names = ", ".join(sorted(self.imports[home]))
            line = f"from {home} import {names}\n"
            head += line if len(line) <= 110 else f"from {home} import (\n" + textwrap.fill(
                ", ".join(n.replace(" ", "\0") for n in sorted(self.imports[home])), 106, initial_indent="    ",
                subsequent_indent="    ").replace("\0", " ") + ")\n"
        return head + text

    def aliases(self):
        self.import_from("typing", "TypeAlias")
        text = "\n"
        for name, kind in ALIASES.items():
            if kind.startswith("class"):
                self.import_from("typing", "Protocol")
                self.import_from("typing", "Any")
                text += kind + "\n"
            elif kind.startswith("= "):
                self.typed("TypeVar, Callable, Any")
                text += f"{name} {kind}\n"
            else:
                text += f"{name}: TypeAlias = {self.typed(kind)}\n"
        return text


def exported(name):
    """The names that a module offers, and classes of its own that these derive from."""
    module = module_of(name)
    path = module.__name__
    found = {}
    for key in getattr(module, "__all__", ()):
        found[key] = getattr(module, key)
    for key, value in list(vars(module).items()):
        if key.startswith("_"):
            continue
        owner = getattr(value, "__module__", "")
        own = owner == path or isinstance(owner, str) and owner in STUBS.get(name, ()) or \
            not hasattr(module, "__all__") and isinstance(value, CONSTANT)
        if own and not inspect.ismodule(value):
            found[key] = value
    if name == "":
        for key in list(module._LATER) + [n for n in vars(module) if not n.startswith("_")]:
            value = getattr(module, key)
            if not inspect.ismodule(value) or key in module._LATER or key in ("autograd", "random"):
                found[key] = value
        for key in ("importlib", "math", "os"):
            found.pop(key, None)
    for value in list(found.values()):
        if inspect.isclass(value):
            for base in value.__mro__:
                if base.__module__ == path:
                    found.setdefault(base.__name__, base)
    for key in STUBS.get(name, ()):
        if not key.startswith("shoal."):
            found[key] = getattr(module, key)
    return found


def home_of(name, value, here, homes):
    """The module whose stub says what a value is; None where that is no stub."""
    path = f"shoal.{here}".rstrip(".")
    if inspect.ismodule(value):
        return value.__name__
    owner = getattr(value, "__module__", None)
    own = getattr(value, "__name__", name) if inspect.isfunction(value) else name
    known = {f"shoal.{n}".rstrip(".") for n in STUBS} | {f"shoal.{n}" for n in INLINE}
    if inspect.isclass(value):
        return homes.get(own, owner if owner in known else path)
    if inspect.isfunction(value) and owner in known:
        return owner
    if inspect.isfunction(value):
        for n in STUBS:  # the first that offers it
            if module_of(n) is not None and exported(n).get(own) is value:
                return f"shoal.{n}".rstrip(".")
    return path


def homes_of_classes():
    homes = {}
    known = {f"shoal.{n}".rstrip(".") for n in STUBS}
    for name in INLINE:
        for key, value in vars(module_of(name)).items():
            if inspect.isclass(value) and value.__module__ == f"shoal.{name}":
                homes[key] = f"shoal.{name}"
    for name in STUBS:
        for key, value in exported(name).items():
            if inspect.isclass(value) and value.__module__.startswith("shoal") and \
                    (value.__module__ not in known or value.__module__ == f"shoal.{name}".rstrip(".")):
                homes.setdefault(key, f"shoal.{name}".rstrip("."))
    return homes


def compared():
    """What mypy's stubtest finds, which imports the package and compares; synonyms count as in the stubs."""
    try:
        from mypy import stubtest
    except ImportError:
        print("stubs: mypy is not here: pip install mypy")
        sys.exit(77)
    words = module_of("words")
    for name in STUBS:
        values = exported(name).values()
        owners = [vars(c) for v in values if inspect.isclass(v) for c in v.__mro__]
        for f in [*values, *(f for own in owners for f in own.values())]:
            if inspect.isfunction(f) and hasattr(f, "__wrapped__"):
                f.__signature__ = words.signature_of(f)
    with tempfile.TemporaryDirectory() as folder:
        # The stubs alone: mypy is not to look into modules that have none.
        for file in [*PACKAGE.rglob("*.pyi"), *(PACKAGE / f"{n}.py" for n in INLINE)]:
            there = pathlib.Path(folder, "shoal", file.relative_to(PACKAGE))
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, there)
        os.environ["MYPYPATH"] = folder
        found = io.StringIO()
        with contextlib.redirect_stdout(found):
            code = stubtest.test_stubs(stubtest.parse_options(
                ["shoal", "--concise", "--allowlist", str(ROOT / "tools" / "stubtest.allow")]))
    return found.getvalue().splitlines() or ["stubtest failed"] if code else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it would, or if stubtest finds something")
    args = parser.parse_args()
    homes = homes_of_classes()
    problems = []
    for name in STUBS:
        text = Stub(name, homes).write()
        file = (name.replace(".", "/") + "/__init__" if is_package(module_of(name)) else
                name.replace(".", "/")) + ".pyi"
        path = PACKAGE / file.removeprefix("/")
        compile(text, str(path), "exec")
        if args.check and (not path.is_file() or path.read_text() != text):
            problems.append(f"python/shoal/{file}: not up to date; run tools/stubs.py")
        elif not args.check:
            path.write_text(text)
    if args.check:
        problems += compared()
    return report("stubs", problems, len(STUBS))


if __name__ == "__main__":
    sys.exit(main())
