"""Each check has to find what it looks for: run on small trees that break one rule."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parent
HEADER = "/* A file. */\n#ifndef X_H\n#define X_H\n#endif\n"


def run(tool, root, *arguments):
    done = subprocess.run([sys.executable, str(TOOLS / tool), *map(str, arguments)], text=True,
                          capture_output=True, check=False,
                          env=dict(os.environ, SHOAL_CHECK_ROOT=str(root)))
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(name="tree")
def make_tree(tmp_path):
    def write(**content):
        files = {"src/base/README.md": "# base\n", "include/shoal/shoal.h": HEADER}
        files.update({name.replace("__", "/").replace("_dot_", "."): text
                      for name, text in content.items()})
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path
    return write


@pytest.mark.parametrize("path, include, why", [
    ("src__base__a_dot_c", "graph/graph.h", "base may not include graph"),
    ("src__hub__a_dot_c", "worker/store.h", "hub may not include worker"),
    ("src__worker__a_dot_c", "hub/hub.h", "worker may not include hub"),
    ("src__plan__a_dot_c", "shoal.pb-c.h", "plan may not include wire"),
    ("src__base__a_dot_c", "a.h", "give the path from src/"),
    ("src__new__a_dot_c", "base/a.h", "src/new is not in the table"),
    ("cmd__a_dot_c", "base/str.h", "cmd/ may include public headers only"),
    ("python__a_dot_c", "view/a.h", "python/ may include public headers only"),
    ("src__view__a_dot_c", "base/str.h", "view may not include base"),
    ("src__api__a_dot_c", "view/a.h", "api may not include view"),
    ("include__shoal__x_dot_h", "base/str.h", "include/ may include public headers only"),
])
def test_includes(tree, path, include, why):
    code, output = run("includes.py", tree(**{path: f'/* A. */\n#include "{include}"\n'}))
    assert code == 1 and f":2: #include \"{include}\": {why}" in output


def test_includes_allowed(tree):
    root = tree(src__hub__a_dot_c='#include "plan/a.h"\n#include "shoal/shoal.h"\n#include <x.h>\n',
                cmd__a_dot_c='#include "shoal/shoal.h"\n#include "args.h"\n#include "view/a.h"\n',
                src__wire__a_dot_c='#include "shoal.pb-c.h"\n')
    assert run("includes.py", root) == (0, "includes: 4 looked at, 0 wrong\n")


@pytest.mark.parametrize("content, why", [
    ("/* A. */\n" + "int x;\n" * 701, "702 lines"),
    ("/* A. */\n/* TO" + "DO: later */\n", "TO" + "DO: do it or drop it"),
    ("/* A. */\n    // value = other(1);\n", ":2: commented-out code"),
    ("/* A. */\n/* return 0; */\n", ":2: commented-out code"),
    ("int x;\n", ":1: open with a comment"),
    ("/* A. */\n\tint x;\n", ":2: a tab"),
])
def test_house(tree, content, why):
    code, output = run("house.py", tree(src__base__a_dot_c=content))
    assert code == 1 and why in output


def test_house_fine(tree):
    root = tree(src__base__a_dot_h=HEADER, src__base__a_dot_c="*data = grown;\n/* The sum = a; b. */\n")
    assert run("house.py", root)[0] == 0
    (root / "src/base/README.md").unlink()
    assert "src/base: has no README.md" in run("house.py", root)[1]


@pytest.mark.parametrize("path, content, why", [
    ("doc/a.md", "# A\n\n[b](b.md)\n", ":3: b.md: there is no such file"),
    ("doc/a.md", "# A\n\n[own](#else)\n", ":3: #else: there is no such heading"),
    ("doc/a.md", "# A\n\n### B\n", ":3: a heading of level 3 below one of level 1"),
    ("doc/a.md", "text\n", ":1: has no title"),
    ("doc/b.md", "# B\n", "doc/b.md: no document links to it"),
    ("src/base/b.md", "# B\n", "src/base/b.md: no document links to it; src/base/README.md has to"),
])
def test_house_of_documents(tree, path, content, why):
    root = tree(README_dot_md="# R\n\n[a](doc/a.md), [its part](doc/a.md#one-more), [else](https://example.org/x)\n",
                doc__a_dot_md="# A\n\n```\n[no](link.md)\n```\n\n`[no](link)`\n\n## One more\n",
                src__base__README_dot_md="# base\n")
    assert run("house.py", root) == (0, "house: 4 looked at, 0 wrong\n")
    (root / path).write_text(content)
    code, output = run("house.py", root)
    assert code == 1 and why in output


def test_headers(tree):
    root = tree(include__shoal__alone_dot_h="/* A. */\n#ifndef A\n#define A\nsize_t f(void);\n#endif\n",
                src__base__twice_dot_h="/* A. */\nstruct s { int x; };\n")
    code, output = run("headers.py", root, "--build", root)
    assert code == 1
    for what in ("alone.h (gcc)", "alone.h (clang)", "alone.h (gcc, C++)", "twice.h (gcc)"):
        assert what in output
    assert "shoal.h (gcc)" not in output


def test_format(tree):
    root = tree(src__base__a_dot_c="/* A. */\nint   x ;\n", _dot_clang_format="BasedOnStyle: LLVM\n")
    (root / ".clang-format").write_text("BasedOnStyle: LLVM\n")
    assert run("format.py", root)[0] == 1
    assert run("format.py", root, "--fix")[0] == 0
    assert (root / "src/base/a.c").read_text() == "/* A. */\nint x;\n"
    assert run("format.py", root)[0] == 0


def test_symbols(tree):
    api = '#define SHOAL_API __attribute__((visibility("default")))\n'
    root = tree(include__shoal__a_dot_h=HEADER.replace("#endif", api + (
        "#define CHECK __attribute__((warn_unused_result))\n"
        "SHOAL_API const char *shoal_there(void);\nSHOAL_API CHECK int\nshoal_missing(int x);\n"
        "#endif")))
    library = root / "libx.so"
    code = "const char *shoal_there(void) { return 0; }\nint other(void) { return 1; }\n" \
           "int shoal_hidden(void) { return 2; }\n"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=code, text=True,
                   check=True)
    code, output = run("symbols.py", root, "--library", library)
    assert code == 1 and "symbols: 2 looked at, 3 wrong" in output
    assert "other: exported, but does not begin with shoal_" in output
    assert "shoal_missing: declared in a public header, but not exported" in output
    assert "shoal_hidden: exported, but in no public header" in output


def log(path, *results):
    path.write_text("".join(json.dumps({"name": f"t{i}", "result": result, "stdout": "a\nb why\n"})
                            + "\n" for i, result in enumerate(results)))
    return path


@pytest.mark.parametrize("results, line, code", [
    (["OK", "OK", "EXPECTEDFAIL"], "3 passed, 0 failed", 0),
    (["OK", "SKIP"], "1 passed, 0 failed, 1 skipped", 0),
    (["OK", "FAIL", "TIMEOUT", "ERROR", "UNEXPECTEDPASS"], "1 passed, 4 failed", 1),
    ([], "0 passed, 1 failed", 1),
])
def test_summary(tmp_path, results, line, code):
    got, output = run("summary.py", tmp_path, log(tmp_path / "log", *results))
    assert got == code and output.splitlines()[-1] == line
    assert ("skipped: t1: b why" in output) == ("SKIP" in results)


def test_summary_of_broken_logs(tmp_path):
    (tmp_path / "broken").write_text("{")
    good = log(tmp_path / "good", "OK")
    code, output = run("summary.py", tmp_path, good, tmp_path / "none", tmp_path / "broken")
    assert code == 1 and output.splitlines()[-1] == "1 passed, 2 failed"
    assert "no log" in output and "not Meson's" in output


DOCUMENT = """
```sh run
echo one two; echo took 0.31 s; echo 3
( sleep 100 ) &
```

```output
one two
took … s
3
```
```python run
print(open("made.txt").read() if False else "fine")
```
```output
fine
```
<!-- not run: it fails -->
```sh
make test && tools/there.sh
exit 1
```
"""


@pytest.mark.parametrize("change, why", [
    (("<!-- not run: it fails -->\n", ""), ":18: a block that is not run; say why"),
    (("make test", "make tests"), ":19: make has no verb tests"),
    (("there.sh", "gone.sh"), ":19: there is no tools/gone.sh"),
    (("```sh run", "```bash run"), ":2: 'bash run' is no mark of a block"),
    (("```\n\n```output", "```\n\nand\n\n```output"), ":9: an output that is compared with nothing"),
    (("echo 3", "exit 3"), ":2: exit code 3"),
    (("took … s", "took … ms"), ":2: does not print: took … ms"),
    (("one two\ntook", "two\ntook"), ":2: does not print: two"),
    (("one two\ntook", "one  two\ntook"), ":2: does not print: one  two"),
    (("; echo 3", "; echo 3; echo 4"), ":2: prints more than it says"),
    (("took … s\n3\n", "…\n3\n"), None),
    (("if False else", "if True else"), ":12: exit code 1"),
    (("", ""), None),
])
def test_documents(tmp_path, change, why):
    (tmp_path / "d.md").write_text(DOCUMENT.replace(*change, 1))
    (tmp_path / "Makefile").write_text("\ntest: all\n")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/there.sh").touch()
    code, output = run("doc_check.py", tmp_path, "--anything", "--build", tmp_path,
                       tmp_path / "d.md")
    if why is None:
        assert (code, output) == (0, "documents: 3 looked at, 0 wrong\n")
    else:
        assert code == 1 and why in output


def test_documents_know_the_command(tmp_path):
    (tmp_path / "cmd").mkdir()
    command = tmp_path / "cmd/shoal"
    told = [{"name": "join", "arguments": "", "options": [{"name": "file", "letter": "f", "argument": "FILE"}]}]
    command.write_text(f"#!/bin/sh\necho '{json.dumps(told)}'\n")
    command.chmod(0o755)
    document = tmp_path / "d.md"
    for line, why in [("shoal join -f token && shoal worker", None), ("shoal join --files token", "no option --files"),
                      ("docker run shoal join TOKEN", "takes no argument: TOKEN")]:
        document.write_text(f"<!-- not run: no pool -->\n```sh\n{line}   # and so on\n```\n")
        code, output = run("doc_check.py", tmp_path, "--anything", "--build", tmp_path, document)
        assert (code, why or "0 wrong") == (bool(why), why or "0 wrong") and (why or "0 wrong") in output


def test_documents_skip(tmp_path):
    code, output = run("doc_check.py", tmp_path, "--build", tmp_path, tmp_path)
    assert code == 77 and "not built: shoal" in output


@pytest.mark.parametrize("options", [[], ["--setup", "longer"]])
def test_tests_are_summed_up(tmp_path, options):
    """The log of those that run with a setup of Meson's has another name."""
    (tmp_path / "meson.build").write_text("project('one')\ntest('good', find_program('true'))\nadd_test_setup('longer', timeout_multiplier: 2)\n")
    build = tmp_path / "build"
    subprocess.run(["meson", "setup", build, tmp_path], check=True, capture_output=True)
    done = subprocess.run([TOOLS / "run_tests.sh", build, *options], text=True, capture_output=True, check=False)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "1 passed, 0 failed", done.stdout + done.stderr
