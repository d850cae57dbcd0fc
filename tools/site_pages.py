#!/usr/bin/env python3
"""Writes the pages of the site that come out of the program itself: the reference of Python, of C and of
the command, the table of torch's names; and gives every document a place in the table of contents.

    PYTHONPATH=build/python tools/site_pages.py --shoal build/cmd/shoal FOLDER

The header filter of Doxygen is here, too: tools/site_pages.py --header FILE prints a header whose comments
Doxygen reads: the project writes them plainly.
"""
import argparse
import ast
import fnmatch
import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE, INCLUDE = ROOT / "python/shoal", ROOT / "include/shoal"
MODULES = {
    "shoal": "Tensors, creating them, and connecting to a pool.",
    "shoal.nn": "Modules, the building blocks of models.",
    "shoal.functional": "Functions of models and losses, without state.",
    "shoal.optim": "Optimizers and learning rate schedules.",
    "shoal.distributions": "Probability distributions.",
    "shoal.utils.data": "Datasets and loaders.",
    "shoal.linalg": "Factorisations, inverses and solutions.",
    "shoal.autograd": "Gradients.",
    "shoal.func": "Functions of functions: batches, gradients, Jacobians.",
    "shoal.amp": "Mixed precision.",
    "shoal.random": "Random numbers.",
    "shoal.special": "Special functions.",
    "shoal.array_api": "The array API standard.",
    "shoal.kernels": "Single operations on NumPy arrays, without a pool.",
    "shoal.signal": "Named scopes, which place the tensors of a model.",
    "shoal.debug": "Events and statistics of a pool.",
}
HEADERS = {"shoal.h": "The API: sessions, tensors, operations",
           "stablehlo.h": "Programs in StableHLO's text", "types.h": "Status codes and element types",
           "file.h": "Files of tensors", "function.h": "Functions that are recorded once, and loops", "kernels.h": "Operations on plain arrays",
           "pool.h": "Running a hub or a worker", "event.h": "What happens in a pool",
           "ir.h": "The graph as data, for plug-ins", "backend.h": "The contract of a device, for plug-ins"}


# ---- Python ----

def public(path):
    """What a module offers: what its stub defines, or hands on from another module."""
    inside = path.split(".")[1:]
    file = PACKAGE.joinpath(*inside, "__init__.pyi")
    file = file if file.exists() else PACKAGE.joinpath(*inside).with_suffix(".pyi")
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname for alias in node.names if alias.asname == alias.name}
    return sorted((n for n in names if not n.startswith("_")), key=lambda n: (n.lower(), n))


def text_of(thing):
    """A docstring as Markdown: what it says, with lines that look like more of it escaped."""
    # Of a module the lines stand as they are: where only a program follows the first one, it stays indented.
    text = (thing.__doc__ or "").strip() if inspect.ismodule(thing) else inspect.getdoc(thing) or ""
    return re.sub(r"^(#|>|[-+*] |\d+\. |```)", r"\\\1", text, flags=re.M).replace("<", "&lt;").replace("*", "\\*")


def signature(thing, method=False):
    """What is written behind a name, with the words that torch or NumPy have for the same arguments."""
    from shoal.words import signature_of
    try:
        found = signature_of(thing)
    except (TypeError, ValueError):
        return "(...)"
    parts = list(found.parameters.values())
    if method and parts and parts[0].name in ("self", "cls"):
        parts = parts[1:]
    return re.sub(r" at 0x\w+|<([\w.]+)[^>]*>", r"\1", str(found.replace(parameters=parts)))


def directive(kind, head, body, depth=3, options=""):
    fence = ":" * depth
    return f"{fence}{{py:{kind}}} {head}\n{options}\n{body}\n{fence}\n\n"


def class_page(name, made):
    body = text_of(made) + "\n\n"
    for member in sorted(n for n in dir(made) if not n.startswith("_")):
        value = inspect.getattr_static(made, member)
        owner = next((c for c in made.__mro__ if member in vars(c)), made)
        if not getattr(owner, "__module__", "").startswith(("shoal", "_shoal")):
            continue
        if made.__name__ != "Tensor" and owner is not made and owner.__name__ in ("Tensor", "Module", "Optimizer",
                                                                                  "LRScheduler"):
            continue  # stands on that class's page
        told = text_of(getattr(made, member))
        if made.__name__ != "Tensor" and (not told or told.startswith("Alias for field number")):
            continue  # as `forward` of a layer, of which its class tells, and the fields of a record
        if callable(value) or isinstance(value, (staticmethod, classmethod)):
            body += directive("method", member + signature(getattr(made, member), True),
                              text_of(getattr(made, member)))
        else:
            body += directive("attribute", member, text_of(value))
    return directive("class", name + signature(made, True), body, 4)


def page_of(path):
    return path.removeprefix("shoal.")


def python_pages(folder):
    folder.mkdir(parents=True)
    listed = []
    for path, about in MODULES.items():
        module = importlib.import_module(path)
        page = f"# {path}\n\n{about}\n\n{text_of(module)}\n\n"
        page += f"```{{py:currentmodule}} {path}\n```\n\n"
        functions, classes = "", ""
        for name in public(path):
            value = getattr(module, name)
            if inspect.ismodule(value):
                continue
            if inspect.isclass(value):
                classes += class_page(name, value)
            elif callable(value):
                functions += directive("function", name + signature(value), text_of(value))
        page += (f"## Functions\n\n{functions}" if functions else "") + (f"## Classes\n\n{classes}" if classes else "")
        file = page_of(path)
        (folder / f"{file}.md").write_text(page, encoding="utf-8")
        listed.append(file)
    (folder / "index.md").write_text(
        "# Python\n\n" + "".join(f"- [{path}]({page_of(path)}.md): {about}\n" for path, about in MODULES.items())
        + "\n```{toctree}\n:hidden:\n\n" + "\n".join(listed) + "\n```\n", encoding="utf-8")


# ---- C ----

def header(path):
    """A header with comments for Doxygen: those before a declaration, and those behind one."""
    text = Path(path).read_text(encoding="utf-8")
    text = re.sub(r"^( *)/\* (?!----)", r"\1/** ", text, flags=re.M)
    text = re.sub(r"(\S[ \t]+)/\* ", r"\1/**< ", text)
    return re.sub(r"\A/\*\* ", "/** @file\n * ", text)


def c_page(file):
    assert set(HEADERS) == {header.name for header in INCLUDE.iterdir()}, "HEADERS lists the public headers"
    page = "# C\n\nThe headers are in `include/shoal`; `shoal/shoal.h` includes everything a program needs.\n\n"
    for name, about in HEADERS.items():
        page += f"## {name}\n\n{about}.\n\n```{{doxygenfile}} {name}\n:sections: briefdescription detaileddescription " \
                "typedef enum struct innerclass func define\n```\n\n"
    file.write_text(page, encoding="utf-8")


# ---- the command ----

def command_page(file, shoal):
    commands = json.loads(subprocess.check_output([shoal, "help", "--json"]))
    page = "# The command\n\n```text\n" + subprocess.check_output([shoal, "--help"], text=True) + "```\n\n"
    group = None
    for command in commands:
        if command["group"] != group:
            group = command["group"]
            page += f"## {group}\n\n"
        told = subprocess.check_output([shoal, "help", command["name"]], text=True)
        page += f"### shoal {command['name']}\n\n```text\n{told}```\n\n"
    file.write_text(page, encoding="utf-8")


# ---- torch ----

def torch_names():
    """{place: (names in torch, the same place here)}; None without torch."""
    try:
        import torch
    except ImportError:
        sys.path.append("/usr/lib/python3/dist-packages")
        try:
            import torch
        except ImportError:
            return None
    import shoal
    import shoal.functional

    def names(thing):
        return sorted(n for n in dir(thing) if not n.startswith("_"))
    return {"Tensor": (names(torch.Tensor), shoal.Tensor),
            "torch": ([n for n in names(torch) if callable(getattr(torch, n))
                       and not isinstance(getattr(torch, n), type)], shoal),
            "nn": ([n for n in names(torch.nn) if inspect.isclass(getattr(torch.nn, n))], shoal.nn),
            "nn.functional": ([n for n in names(torch.nn.functional)
                               if callable(getattr(torch.nn.functional, n)) and n[0].islower()], shoal.nn.functional),
            "optim": ([n for n in names(torch.optim) if inspect.isclass(getattr(torch.optim, n))], shoal.optim),
            "linalg": (names(torch.linalg), getattr(shoal, "linalg", None))}


def reasons():
    """{a name of torch, or a pattern: why it is not here}, from the tables of the tests that compare the names."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test/python"))
    import shared_modules
    import shared_names
    found = {}
    for table in (shared_modules.OTHERS_OUT_OF_SCOPE, shared_modules.MODULES_OUT_OF_SCOPE,
                  shared_names.FUNCTIONS_OUT_OF_SCOPE, shared_names.OUT_OF_SCOPE):
        found |= {name: why for why, names in table.items() for name in names.split()}
    return found


def why_not(name, known):
    """The reason, or None: an exact name comes before a pattern."""
    pattern = name if name in known else next((p for p in known if fnmatch.fnmatch(name, p)), None)
    return known.get(pattern)


def torch_page(file):
    places, known = torch_names(), reasons()
    page = ("# torch's names\n\nAfter `import shoal as torch`, what has torch's name does what torch's does. The lists "
            "below compare the two packages name by name; tests call what is available in both, argument by argument.\n\n")
    if places is None:
        page += "(This page was made where PyTorch, which names are compared with, was not installed.)\n"
        places = {}
    for place, (names, here) in places.items():
        there = [n for n in names if hasattr(here, n)]
        lacking = [n for n in names if n not in set(there)]
        at = {"torch": "shoal", "nn.functional": "shoal.functional"}.get(place, f"shoal.{place}")
        page += f"## {place}\n\n{len(there)} of {len(names)} names.\n\n**Available:** "
        page += ", ".join(f"{{py:obj}}`{n} <{at}.{n}>`" for n in there)
        page += "\n\n"
        groups = {}
        for name in lacking:
            groups.setdefault(why_not(name, known) or "not available", []).append(name)
        if groups:
            page += "**Missing:**\n\n" + "".join(
                f"- {why}: " + ", ".join(f"`{n}`" for n in found) + "\n" for why, found in groups.items()) + "\n"
    file.write_text(page, encoding="utf-8")


# ---- documents ----

def place_documents(folder):
    """Puts every document that the index does not name into the table of contents: records below their
    list, and all others, READMEs of the code's folders among them, in a last part of the index.
    """
    with open(folder / "doc/decisions/README.md", "a", encoding="utf-8") as file:
        file.write("\n```{toctree}\n:hidden:\n\n"
                   + "".join(f"{path.stem}\n" for path in sorted((folder / "doc/decisions").glob("0*.md"))) + "```\n")
    index = folder / "index.md"
    text = index.read_text(encoding="utf-8")
    placed = set(re.findall(r"^(?:.*<)?([\w/.-]+)>?$", text, flags=re.M)) | {"index"}
    others = sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.md"))
    others = [name for name in others if name not in placed and not name.startswith(("doc/decisions/0", "reference/"))]
    if others:
        index.write_text(text + "\n```{toctree}\n:caption: Inside the code\n:maxdepth: 1\n\n"
                         + "".join(f"{name}\n" for name in others) + "```\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--header", metavar="FILE")
    parser.add_argument("--shoal")
    parser.add_argument("folder", nargs="?", type=Path)
    options = parser.parse_args()
    if options.header:
        sys.stdout.write(header(options.header))
        return
    reference = options.folder / "reference"
    python_pages(reference / "python")
    c_page(reference / "c.md")
    command_page(reference / "command.md", options.shoal)
    torch_page(reference / "torch.md")
    place_documents(options.folder)


if __name__ == "__main__":
    main()
