#!/usr/bin/env python3
"""Checks that every header compiles alone, in C11 with gcc and clang; the public ones in C++ too.

    tools/headers.py --build BUILD

The build folder holds the headers that are made from .proto files.
"""
import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from common import ROOT, files, report, run_all

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wstrict-prototypes", "-Werror",
            "-Wno-unused-function", "-D_POSIX_C_SOURCE=200809L"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=Path)
    build = parser.parse_args().build
    generated = sorted({path.parent for path in build.glob("src/*.pb-c.h")})
    jobs, folder = [], Path(tempfile.mkdtemp())
    compilers = [name for name in ("gcc", "clang") if shutil.which(name)]
    if len(compilers) < 2:
        return report("headers", ["gcc and clang are both needed; run tools/install.sh"], 1)
    for header in files(".h", under="include/") + files(".h", under="src/"):
        public = header.parts[0] == "include"
        unit = folder / (str(header).replace("/", "_") + ".c")
        # Twice: a header also has to be guarded against being included again.
        unit.write_text(f'#include "{ROOT / header}"\n' * 2 + "typedef int not_empty;\n")
        paths = ["-I", str(ROOT / "include")]
        if not public:
            paths += ["-I", str(ROOT / "src")]
            paths += [word for path in generated for word in ("-isystem", str(path))]
        for compiler in compilers:
            jobs.append((f"{header} ({compiler})", [compiler, "-std=c11", *WARNINGS, *paths,
                                                    "-fsyntax-only", str(unit)]))
            if public:
                flags = [flag for flag in WARNINGS if flag != "-Wstrict-prototypes"]
                jobs.append((f"{header} ({compiler}, C++)", [
                    compiler, "-x", "c++", "-std=c++11", *flags, *paths, "-fsyntax-only",
                    str(unit)]))
    problems = [f"{key}:\n{done.stderr.strip()}" for key, done in run_all(jobs) if done.returncode]
    shutil.rmtree(folder)
    return report("headers", problems, len(jobs))


if __name__ == "__main__":
    sys.exit(main())
