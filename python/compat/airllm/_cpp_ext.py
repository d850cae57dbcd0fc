"""Modules of the folder cpp_ext, under the names that they have with this folder on Python's path."""
import importlib
import pathlib
import sys

FOLDER = pathlib.Path(__file__).parent / "cpp_ext"


def load(name):
    """A module of the folder. Raises ImportError, saying what is missing."""
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ImportError(f"{name} is not built: cd {FOLDER} && python setup.py build_ext --inplace") from error
    finally:
        sys.path.remove(str(FOLDER))


config = load("tensor_ops_config")
