"""The hunt's own test: planted.py plants small faults, one at a time, and hunts for each.

faults.toml lists them. Each is applied to a copy of the tree, which has a build folder as this one, so
that only what it touches is compiled again; then the way that should find it runs, on one core, until it
does or the time is over. A fault whose text is no longer in its file is an error: it has to be written
anew.
"""
import argparse
import json
import os
import pathlib
import random
import select
import shutil
import signal
import subprocess
import sys
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
FOLDERS = ("src/graph", "src/plan", "src/api", "src/worker", "src/hub", "src/backend/cpu", "src/backend/fuse",
           "src/backend", "src/base", "python/shoal")
APART = 1_000_000  # programs follow from numbers in a row: those of two seeds are to be others


def faults():
    """The list, each with the folder that it is counted for; an error where a text does not fit."""
    listed = tomllib.loads((HERE / "faults.toml").read_text())["fault"]
    for fault in listed:
        fault["folder"] = next(f for f in FOLDERS if fault["file"].startswith(f + "/"))
        count = (ROOT / fault["file"]).read_text().count(fault["old"])
        if count != 1:
            sys.exit(f"planted: '{fault['name']}': its text is {count} times in {fault['file']}, not once; "
                     "write the fault anew")
    names = [fault["name"] for fault in listed]
    if len(set(names)) < len(names):
        sys.exit("planted: two faults have one name")
    return listed


class Copy:
    """A copy of the tree, and what is built from it."""

    def __init__(self, scratch):
        self.tree, self.build = scratch / "tree", scratch / "tree/build"
        for folder in ("src", "include", "python", "test", "cmd", "deploy", "bench", "tools", "examples", "doc"):
            self._bring(ROOT / folder, self.tree / folder)
        for file in ROOT.glob("*"):
            if file.is_file():
                self._bring_file(file, self.tree / file.name)
        if not (self.build / "build.ninja").exists():
            self._run("meson", "setup", str(self.build), str(self.tree))
        self.make()
        self._bring(ROOT / "python", self.build / "python", "*.py")

    def _bring(self, source, to, names="*"):
        for file in source.rglob(names):
            if file.is_file() and "__pycache__" not in file.parts:
                self._bring_file(file, to / file.relative_to(source))

    @staticmethod
    def _bring_file(source, to):
        if not to.exists() or to.read_bytes() != source.read_bytes():
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, to)

    def _run(self, *command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(f"planted: {' '.join(command)} failed:\n{done.stdout[-3000:]}")

    def make(self):
        """Compiles what has changed."""
        extension = next(iter(sorted((self.build / "python/shoal").glob("_shoal*.so"))), None)
        name = extension.name if extension else "_shoal.abi3.so"
        self._run("ninja", "-C", str(self.build), "test/hunt/hunt", f"python/shoal/{name}")

    def place(self, fault):
        """The file to be changed: of Python the copy that is imported, which takes no compiler."""
        base = self.build if fault["file"].endswith(".py") else self.tree
        return base / fault["file"]


def processor_time(session):
    """Seconds that the processes of a session have had: what else a machine does is not the hunt's fault."""
    total = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[3]) == session:
            total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def hunt(copy, way, seconds, seed):
    """Seconds of one core until the way found it, or None; and what it said first."""
    core = min(os.sched_getaffinity(0))
    process = subprocess.Popen(
        [copy.build / "test/hunt/hunt", way, "--seed", str(seed * APART)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    text, said, found, took, status = "\n", "", None, 0.0, None
    try:
        while found is None and status is None and took < seconds:
            ready, _, _ = select.select([process.stdout], [], [], 0.2)
            took = max(took, processor_time(process.pid))
            more = os.read(process.stdout.fileno(), 1 << 16).decode(errors="replace") if ready else None
            if more == "":
                status = process.wait()
            text += more or ""
            _, wrong, rest = text.partition("\nWRONG")
            if wrong:
                found, said = took, "WRONG" + rest.partition("\n")[0]
    finally:
        if status is None:
            os.killpg(process.pid, signal.SIGKILL)  # the smallest program is not asked for
            process.wait()
        process.stdout.close()
    if found is None and status == 77:
        print(f"SKIP: the way {way} cannot run here")
        sys.exit(77)
    if found is None and (status or 0) < 0:  # None: it was ended here
        found, said = took, f"ended by signal {-status}"
    if found is None and status:  # no fault is why it cannot hunt
        sys.exit(f"planted: the hunt {way} ended with {status}, having found nothing: {text[-1000:]}")
    return found, said


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--scratch", type=pathlib.Path, default=ROOT / "build/planted",
                         help="where the copy is kept (build/planted)")
    options.add_argument("--sample", type=int, help="so many of them, chosen by the seed (all)")
    options.add_argument("--test", action="store_true",
                         help="SHOAL_PLANTED says how many, 0 all; without it this is a test that is skipped")
    options.add_argument("--only", help="those whose name, file or way has this in it")
    options.add_argument("--last", type=int, help="the last ones of the list")
    options.add_argument("--seconds", type=float, default=60, help="of one core, for each (60)")
    options.add_argument("--seed", type=int, default=1, help="of the programs (1)")
    options.add_argument("--chosen", type=int, default=1, help="a number that chooses the sample (1)")
    options.add_argument("--json", action="store_true", help="one object per fault instead of the table")
    given = options.parse_args()
    chosen = faults()
    if given.test and "SHOAL_PLANTED" not in os.environ:
        print(f"SKIP: {len(chosen)} faults could be planted, in a tree that is compiled for that: SHOAL_PLANTED=N "
              "takes N of them, 0 all")
        return 77
    alone = given.seconds / 4  # that a way hunts without any fault, as it does in tests of its own
    if given.test:
        given.sample = int(os.environ["SHOAL_PLANTED"])
        given.chosen = given.seed = int(time.time()) // 86400  # others every day
        given.seconds *= 3  # whether 60 s are enough is for all of them to tell; here luck would decide
    if given.only:
        chosen = [f for f in chosen if given.only in f["name"] + f["file"] + f["way"]]
    if given.last:
        chosen = chosen[-given.last:]
    if given.sample:
        chosen = random.Random(given.chosen).sample(chosen, min(given.sample, len(chosen)))
    copy = Copy(given.scratch)
    for way in sorted({fault["way"] for fault in chosen}):
        found, said = hunt(copy, way, alone, given.seed)
        if found is not None:
            sys.exit(f"planted: the way {way} fails without any fault: {said}")
    missed = 0
    for fault in chosen:
        place = copy.place(fault)
        was = place.read_text()
        place.write_text(was.replace(fault["old"], fault["new"]))
        try:
            copy.make()
            seconds, said = hunt(copy, fault["way"], given.seconds, given.seed)
        finally:
            place.write_text(was)  # compiled with the next one
        missed += seconds is None
        if given.json:
            print(json.dumps({"name": fault["name"], "folder": fault["folder"], "way": fault["way"],
                              "seconds": seconds, "said": said}), flush=True)
        else:
            text = f"{seconds:6.1f} s" if seconds is not None else "  MISSED"
            print(f"{text}  {fault['way']:16} {fault['folder']:16} {fault['name']}", flush=True)
            if said and seconds is not None and sys.stdout.isatty():
                print(f"          {said[:150]}")
    print(f"{len(chosen) - missed} found, {missed} missed", file=sys.stderr if given.json else sys.stdout)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
