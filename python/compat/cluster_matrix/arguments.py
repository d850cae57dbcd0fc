"""The arguments of `cluster_matrix`, of which programs know three orders: lists are told apart by what is in them."""
import warnings

BACKENDS = ("llama", "torch", "opencl", "cpu", "cuda", "ggml")
NAMES = ("cluster_zmq_object", "node_IP_list", "CPU_GPU_select_list", "node_percentages", "back_end_select_list",
         "split_matrix", "dim", "matrix_name", "matrix_labeling", "auto_set_up", "save_bin_matrix", "normalise")
SET_UPS = ("save", "saveC", "load", "loadC", "loadG")


def kind_of(values):
    """The name of the argument that a list is, by its elements."""
    if len(values) == 2 and values[0] in (1, 2) and values[1] in SET_UPS:
        return "auto_set_up"
    kinds = {type(v) for v in values}
    if kinds == {bool}:
        return "CPU_GPU_select_list"
    if kinds and kinds <= {int, float} or all(hasattr(v, "__float__") and not isinstance(v, (bool, str)) for v in values):
        return "node_percentages"
    if kinds == {str}:
        return "back_end_select_list" if all(v in BACKENDS for v in values) else "node_IP_list"
    raise TypeError(f"cluster_matrix: {list(values)!r}: a list holds addresses, shares, backends "
                    f"({', '.join(BACKENDS[:3])}), or True and False for GPU and CPU")


def bind(positional, named):
    """{name: value} of what was given. TypeError for what is given twice, or fits nowhere."""
    given = {}

    def put(name, value):
        if given.get(name) is not None:
            raise TypeError(f"cluster_matrix: {name} is given twice: {given[name]!r} and {value!r}")
        given[name] = value
    for value in positional:
        if value is None:
            continue
        if isinstance(value, (list, tuple)):
            if value:
                put(kind_of(value), list(value))
        elif isinstance(value, bool):
            put("save_bin_matrix" if "split_matrix" in given else "split_matrix", value)
        elif isinstance(value, int):
            put("dim", value)
        elif isinstance(value, str):
            put("matrix_labeling" if "matrix_name" in given else "matrix_name", value)
        elif hasattr(value, "node_IP_list"):
            put("cluster_zmq_object", value)
        else:
            raise TypeError(f"cluster_matrix: what is {value!r}?")
    for name, value in named.items():
        if name not in NAMES:
            raise TypeError(f"cluster_matrix: no argument '{name}'; there are matrix_file_path, {', '.join(NAMES)}")
        if value is not None:
            put(name, value)
    return given


def lists(given, default):
    """Addresses, shares (None: by the speed of each), backends and choices of GPUs of what was given, all of one length.

    default(): addresses where none are given. Raises ValueError that names lengths, backends, or the sum of the shares.
    """
    zmq = given.get("cluster_zmq_object")

    def one(name):
        return given.get(name) or (list(getattr(zmq, name)) if zmq is not None else None)
    nodes = one("node_IP_list") or default()
    n = len(nodes)
    made = {"node_IP_list": nodes, "node_percentages": one("node_percentages"),
            "back_end_select_list": one("back_end_select_list") or ["llama"] * n,
            "CPU_GPU_select_list": one("CPU_GPU_select_list") or [True] * n}
    lengths = {name: len(values) for name, values in made.items() if values is not None}
    if len(set(lengths.values())) > 1:
        raise ValueError("cluster_matrix: lists of one length are needed: "
                         + ", ".join(f"{name} has {length}" for name, length in lengths.items()))
    for backend in made["back_end_select_list"]:
        if backend not in BACKENDS:
            raise ValueError(f"cluster_matrix: no backend '{backend}'; there are {', '.join(BACKENDS)}")
    made["node_percentages"] = shares(made["node_percentages"], given.get("normalise", False))
    return made


def shares(given, normalise=False):
    """Shares that sum to 1. normalise: such as do not are scaled, with a warning. ValueError otherwise."""
    if given is None:
        return None
    given = [float(s) for s in given]
    total = sum(given)
    if not min(given) >= 0 or not 0 < total < float("inf"):
        raise ValueError(f"cluster_matrix: shares {given}: none may be negative, and one must be more than 0")
    if abs(total - 1) > 1e-6:
        if not normalise:
            raise ValueError(f"cluster_matrix: node_percentages {given} sum to {total:g}, not 1; correct them, or give "
                             "normalise=True")
        warnings.warn(f"cluster_matrix: node_percentages {given} sum to {total:g} and are scaled", stacklevel=4)
    return [s / total for s in given] if normalise else given


def rows_of(count, parts):
    """How many of `count` rows each share is: rounded down, and what remains goes to the last."""
    lengths, left = [], count
    for share in parts[:-1]:
        lengths.append(min(int(share * count + 1e-9), left))
        left -= lengths[-1]
    return [*lengths, left]
