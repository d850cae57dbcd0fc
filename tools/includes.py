#!/usr/bin/env python3
"""Checks the direction of includes: which folder may include which.

The table below is the whole rule. A folder may include itself, public headers and what it names.
"""
import re
import sys

from common import files, report, text

# Folder of src/ -> folders that it may include directly.
ARROWS = {
    "base": [],
    "graph": ["base"],
    "plan": ["base", "graph"],
    "wire": ["base"],
    "backend": ["base", "graph"],
    "kernels": ["base", "graph", "backend"],
    "model": ["base", "graph"],
    "worker": ["base", "graph", "backend", "wire", "model"],
    "hub": ["base", "graph", "plan", "wire"],
    "view": [],
    "api": ["base", "graph", "plan", "backend", "wire", "model", "worker", "hub"],
}
# These see what every user sees, and their own files; the command also shows pools (src/view).
PUBLIC_ONLY = ["cmd", "python", "examples", "bench", "include"]
# Files of tests that compare with the reference backend, beside what their folder may include.
WITH_REFERENCE = {"src/plan/pool_sim.c": ["backend"]}
# Made by the build: header -> the folder whose file it is made from.
GENERATED = {"shoal.pb-c.h": "wire", "graph.pb-c.h": "graph"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)


def wrong(path, target):
    """Why the file may not include the target; None when it may."""
    parts, home = target.split("/"), path.parts[0]
    if parts[0] == "shoal":
        return None
    if home in PUBLIC_ONLY:
        if home != "include" and (len(parts) == 1 or parts[0] == home):
            return None
        if home == "cmd" and parts[0] == "view":
            return None
        return f"{home}/ may include public headers only"
    if home == "test":
        return None
    folder, other = path.parts[1], GENERATED.get(target, parts[0] if len(parts) > 1 else None)
    if folder not in ARROWS:
        return f"src/{folder} is not in the table of tools/includes.py"
    if other is None:
        return "give the path from src/"
    if other in WITH_REFERENCE.get(str(path), []):
        return None
    if other != folder and other not in ARROWS[folder]:
        return f"{folder} may not include {other}"
    return None


def main():
    sources = [path for path in files(".c", ".h", ".def")
               if path.parts[0] in PUBLIC_ONLY + ["src", "test"]
               and (path.parts[0] != "src" or len(path.parts) > 2)]
    problems = []
    for path in sources:
        for match in INCLUDE.finditer(text(path)):
            why = wrong(path, match[1])
            if why:
                line = text(path).count("\n", 0, match.start(1)) + 1
                problems.append(f'{path}:{line}: #include "{match[1]}": {why}')
    return report("includes", problems, len(sources))


if __name__ == "__main__":
    sys.exit(main())
