"""Finds and becomes the command `shoal`, whose hub and workers these are."""
import os
import pathlib
import shutil
import sys


def find():
    """The path of the command: SHOAL, else beside the package (in a build), else on the PATH."""
    import shoal
    package = pathlib.Path(shoal.__file__).resolve().parent
    for path in (os.environ.get("SHOAL"), package.parents[1] / "cmd" / "shoal",
                 pathlib.Path(sys.prefix) / "bin" / "shoal", shutil.which("shoal")):
        if path and os.access(path, os.X_OK) and not os.path.isdir(path):
            return str(path)
    sys.exit("the command `shoal` is not here; put it on the PATH, or its path into SHOAL")


def become(*args):
    """Runs the command in the place of this process."""
    command = [find(), *map(str, args)]
    sys.stdout.flush()
    os.execv(command[0], command)
