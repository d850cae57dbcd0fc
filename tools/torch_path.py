#!/usr/bin/env python3
"""A folder from which this Python imports PyTorch, for tests in processes that cannot be told another way.

    tools/torch_path.py FOLDER

Where this environment has PyTorch, the folder stays empty. Else it gets links to Debian's python3-torch, and to what
that needs: all of Debian's packages on the path would take the place of this environment's.
"""
import importlib.util
import pathlib
import sys

DEBIAN = pathlib.Path("/usr/lib/python3/dist-packages")
PARTS = ("torch", "torchgen", "functorch", "typing_extensions.py")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        link = folder / part
        link.unlink(missing_ok=True)
        if (DEBIAN / part).exists() and importlib.util.find_spec(part.partition(".")[0]) is None:
            link.symlink_to(DEBIAN / part)


if __name__ == "__main__":
    main()
