"""The variables of Cluster Matrix: their values, where these come from, and what they decide here.

All names are accepted, those of the Python half and those of the C++ half, which name some things differently. The first
of a group that is set counts. `python -m cluster_matrix` prints them all.
"""
import ipaddress
import os
import pathlib
import sys
from collections import namedtuple

Setting = namedtuple("Setting", "name value source meaning")
Setting.__doc__ = "A variable that counts, its value, where this comes from, and what it decides."

# (names, default, what it decides here)
_USED = [
    (("LOCAL_RAM_FOLDER",), "/dev/shm/matrix_shards/", "where shards are written: as soon as they are made, if set"),
    (("LOCAL_MATRIX_RESULTS_RAM_FOLDER", "OPEN_CLUSTER_MATRIX_RESULTS_DIRECTORY"), "/dev/shm/matrix_results/",
     "where results are written"),
    (("LOCAL_DISK_FOLDER", "OPEN_CLUSTER_MATRIX_SHARD_DIRECTORY"), "matrix_shards/",
     "where shards are kept, in the project's folder"),
    (("LOCAL_PROJECT_DIR", "OPEN_CLUSTER_PROJECT_DIRECTORY"), "", "the project's folder; empty: the working directory"),
    (("REMOTE_RAM_FOLDER",), "/dev/shm/matrix_shards/", "the data folder of a node's gateway"),
    (("HEAD_NODE_IP", "HEAD_NODE_IP_ETH"), "127.0.0.1", "where a gateway sends acknowledgements and results"),
    (("HEAD_NODE_PULL_PORT_C",), "7779", "where the head's gateway takes commands"),
    (("HEAD_NODE_PUSH_PORT_C",), "7780", "where the head's gateway gives the names of what it has received"),
    (("WORKER_NODE_PULL_PORT_C",), "5557", "where a worker's gateway takes commands"),
    (("WORKER_NODE_PUSH_PORT_C",), "5558", "where a worker's gateway gives the names of what it has received"),
    (("PYTHON_FRONT_END_CLUSTER_PORT",), "7790", "where acknowledgements and results arrive"),
    (("STREAM_MATRIX_BINARY_VERBOSE",), "1", "1: `stream_matrix_binary` tells what it sends"),
    (("DEBUG_MATRIX_LOADING",), "0", "1: tells what is read and written"),
    (("DEBUG_ZMQ_MESSAGES",), "0", "1: tells each message"),
    (("DEBUG_GPU_SELECTION",), "0", "1: tells which device each node of a list is"),
    (("CLUSTER_MATRIX_NODES",), "", "ADDRESS=WORKER,...: which worker of the pool an address means"),
    (("CLUSTER_MATRIX_SLOTS",), "", "devices of a pool in this process; empty: as many as the first list has nodes"),
    (("CLUSTER_MATRIX_UNENCRYPTED",), "0", "1: text commands may leave this machine, readable and changeable by its network"),
    (("SHOAL_HUB",), "", "the pool; empty: that of a node server on this machine, or one in this process"),
]

# What the other system needs to be told, and Shoal finds out or has no need of.
_NEEDLESS = """HEAD_NODE_IP_WIFI WORKER_WIFI_IPS WORKER_PEER_PORT PYTHON_ACK_CONFIRMATION_PORT REMOTE_DISK_FOLDER
    REMOTE_MATRIX_RESULTS_RAM_FOLDER REMOTE_PROJECT_DIR CONDA_ENV_DIR OPEN_CLUSTER_SCRIPT_PATH OPEN_CLUSTER_VRAM_ONLY
    OPEN_CLUSTER_CACHE_MB OPEN_CLUSTER_RESERVE_MB OPEN_CLUSTER_SCRATCH_MB OPEN_CLUSTER_VRAM_CACHE_MB
    OPEN_CLUSTER_VRAM_RESERVE_MB OPEN_CLUSTER_VRAM_SCRATCH_MB GGML_CTX_MEM_MB GGML_CPU_CTX_MEM_MB GGML_GRAPH_CTX_MEM_MB
    GGML_GRAPH_CTX_MIN_MB GGML_GRAPH_CTX_MAX_MB GGML_USE_PINNED_HOST_MEM FORCE_LAN_IP FORCE_LAN_IFACE
    OPEN_CLUSTER_KV_WINDOW OPEN_CLUSTER_KV_CACHE_DTYPE CLUSTER_FORCE_FP32 CLUSTER_MODEL_DTYPE LIBTORCH_URL
    LIBTORCH_VERSION LIBTORCH_DIR FORCE_LIBTORCH INSTALL_DEPS FORCE_BACKEND CLEAN_BUILD DEFAULT_INSTALL_TYPE ENV_NAME
    PYTHON_BIN STRICT TORCH_PIP_SPEC INSTALL_TRITON INSTALL_RAY""".split()

_NAMES = {name: row for row in _USED for name in row[0]}


def setting(name):
    """The `Setting` that a name stands for. KeyError for a name that decides nothing."""
    names, default, meaning = _NAMES[name]
    for known in names:
        if os.environ.get(known, "") != "":
            return Setting(known, os.environ[known], "environment", meaning)
    return Setting(names[0], default, "default", meaning)


def value(name):
    """The value that counts for a name, a string."""
    return setting(name).value


def port(name):
    """The value that counts, a port. ValueError when it is none."""
    row = setting(name)
    if not row.value.isdigit() or not 0 < int(row.value) < 65536:
        raise ValueError(f"{row.name}={row.value}: a port is a number from 1 to 65535")
    return int(row.value)


def settings():
    """All `Setting`s, and after them those variables that are set and have no effect here."""
    rows = [setting(row[0][0]) for row in _USED]
    return rows + [Setting(name, os.environ[name], "environment", "no effect here") for name in _NEEDLESS
                   if name in os.environ]


def print_settings(out=None):
    """Prints what counts: name, value, source, meaning."""
    for row in settings():
        print(f"{row.name}={row.value}  ({row.source}) {row.meaning}", file=out or sys.stdout)


def checked_address(address, unencrypted=False):
    """An address for text commands, that of this machine alone unless `unencrypted` or CLUSTER_MATRIX_UNENCRYPTED allows
    others. ValueError that says why."""
    try:
        outside = not ipaddress.ip_address(address).is_loopback
    except ValueError:
        outside = address != "localhost"
    if outside and not unencrypted and value("CLUSTER_MATRIX_UNENCRYPTED") in ("", "0"):
        raise ValueError(
            f"{address}: text commands have neither encryption nor passwords: whoever reaches this address may read and "
            "change matrices and compute here. In a network where that is all right, say --unencrypted-network, or set "
            "CLUSTER_MATRIX_UNENCRYPTED=1; Shoal's own links are encrypted")
    return "127.0.0.1" if address == "localhost" else address


def is_set(name):
    """Whether the environment says something about a name or its other names."""
    return setting(name).source != "default"


def folder(name):
    """The folder that a variable names, made for this user alone if it is missing: RAM folders where they say, others
    in the project's folder."""
    path = pathlib.Path(value(name))
    if not path.is_absolute():
        path = pathlib.Path(value("LOCAL_PROJECT_DIR") or ".") / path
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def tell(kind, text):
    """Says something on standard error if the switch DEBUG_<kind> is on."""
    if value(f"DEBUG_{kind}") not in ("", "0"):
        print(f"cluster_matrix: {text}", file=sys.stderr, flush=True)
