"""backend.json: which backend `airllm.tensor_ops` uses.

    {"preferred_backend": "auto", "backend_priority": ["cuda", "opencl", "cpp", "python"], "force_backend": false}

`preferred_backend` is tried first, then the others in the order of `backend_priority`. With `force_backend` nothing
else is tried. What the file does not say, or where there is no file, is as above. It lies beside this module, or
where the variable AIRLLM_BACKEND_CONFIG says.
"""
import json
import os
import pathlib

BACKENDS = {  # in the order in which they are tried, and their modules
    "cuda": "tensor_ops_cuda",
    "opencl": "tensor_ops_opencl",
    "cpp": "tensor_ops_cpp",
    "python": "tensor_ops_python",
}
DEFAULT = {"preferred_backend": "auto", "backend_priority": list(BACKENDS), "force_backend": False}


def path():
    """The file's path."""
    return pathlib.Path(os.environ.get("AIRLLM_BACKEND_CONFIG") or pathlib.Path(__file__).with_name("backend.json"))


def check(config):
    """What is wrong with a configuration, as one line, or None."""
    if not isinstance(config, dict):
        return "it is no object of JSON: { ... }"
    for name, value in config.items():
        known = "auto, " * (name == "preferred_backend") + ", ".join(BACKENDS)
        if name not in DEFAULT:
            return f"unknown entry '{name}'; there are {', '.join(DEFAULT)}"
        if name == "force_backend" and not isinstance(value, bool):
            return f"force_backend is {json.dumps(value)}; true or false"
        if name == "preferred_backend" and value not in ("auto", *BACKENDS):
            return f"preferred_backend is {json.dumps(value)}; one of {known}"
        if name == "backend_priority":
            if not isinstance(value, list) or not value:
                return f"backend_priority is {json.dumps(value)}; a list of {known}"
            for word in value:
                if not isinstance(word, str) or word not in BACKENDS or value.count(word) > 1:
                    return f"backend_priority has {json.dumps(word)}; each of {known} at most once"
    if config.get("force_backend") and config.get("preferred_backend", "auto") == "auto":
        return "force_backend is true, and preferred_backend names no backend"
    return None


def read():
    """The configuration, complete. Raises ValueError, naming the file, the entry and the fix."""
    file = path()
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return dict(DEFAULT)
    except (OSError, ValueError) as error:
        raise ValueError(f"{file}: {error}") from error
    wrong = check(config)
    if wrong:
        raise ValueError(f"{file}: {wrong}")
    return DEFAULT | config


def write(config):
    """Writes the file. Raises ValueError for a wrong configuration, OSError where it cannot be written."""
    wrong = check(config)
    if wrong:
        raise ValueError(wrong)
    file = path()
    other = file.with_name(file.name + ".new")
    other.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    other.replace(file)


def order(config):
    """The backends to try, one after the other."""
    preferred = [name for name in [config["preferred_backend"]] if name != "auto"]
    if config["force_backend"]:
        return preferred
    return preferred + [name for name in config["backend_priority"] if name not in preferred]
