"""Which pool a program uses: `connect`, `gpu_workers`, or one of its own when it is first needed."""
import atexit
import os
import socket
import sys

import shoal

from . import _log
from .config import workers_named

_connected = None
_written = None  # the log that GT_INSTRUCTION_LOG asks for
_workers = None  # as many as the signals name


def address_of(text):
    """A hub's address for GT2's "HOST:PORT"; Shoal's own addresses stay as they are.

    A port of this machine is a name on it. A hub on another machine is known by its key, which enrolment
    has brought here.
    """
    if text.startswith(("shm:", "tcp://", "embedded")):
        return text
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"'{text}' is not HOST:PORT")
    if host in ("localhost", "127.0.0.1", "0.0.0.0", "::1", socket.gethostname()):
        return f"shm:gt-{port}"
    for known in os.environ.get("SHOAL_HUB", "").split(","):
        if known.startswith(f"tcp://{host}:{port}/"):
            return known
    raise ConnectionError(
        f"{host} is another machine, where this user has to be known first. There, run "
        f"`python -m gt.server -p {port} -H {host}` and `shoal invite`, which prints a token; here, run "
        "`shoal join` once with that token, and set SHOAL_HUB to the address that it prints")


def _package():
    """`gt` itself, where GT2's programs look for `_client` and `_connected`, and change them."""
    return sys.modules[__package__]


def client():
    """What is connected; None once a program has forgotten it by `gt._client = None`."""
    return _package()._client


def _begun(address, by):
    global _connected
    _connected = address
    _package()._client, _package()._connected = by, True
    _begin_log()


def _in_use():
    """Where the session goes; "" when there is none, or when the program has forgotten it."""
    if _connected is not None and client() is None:
        disconnect()
    return _connected or ""


def connect(address, by=None):
    """Uses the pool of a `gt.server` at "HOST:PORT". RuntimeError when one is in use already."""
    if _in_use():
        raise RuntimeError(f"gt is connected to {_connected} already; connect once, before the first "
                           "tensor")
    shoal.connect(address_of(address))
    if by is None:
        from .client.client import Client
        host, _, port = address.rpartition(":")
        by = Client(host or address, port)
    _begun(address, by)


def gpu_workers(count):
    """How many workers a pool of this process gets. RuntimeError once there is one."""
    global _workers
    if _in_use():
        raise RuntimeError(f"gt is connected to {_connected} already; call gpu_workers before the "
                           "first tensor")
    if count < 1:
        raise ValueError(f"gpu_workers({count}): at least 1")
    _workers = count


def sharded():
    """Whether GT_AUTO_SHARD asks for tensors to be divided between all workers."""
    return os.environ.get("GT_AUTO_SHARD") == "1"


def session():
    """The session; a pool of this process, or that of SHOAL_HUB, when there is none yet."""
    if not _in_use():
        from .client.client import Client
        hub = os.environ.get("SHOAL_HUB")
        if hub:
            shoal.connect(hub)
        else:
            # GT2 takes all GPUs then; a core each is what there is here.
            many = len(os.sched_getaffinity(0)) if sharded() else 1
            shoal.init(workers=_workers or max(workers_named(), many))
        _begun(hub or "a pool of this process", Client("localhost", None))
    return shoal.session()


def disconnect():
    """Ends the session; the next tensor begins anew."""
    global _connected
    _end_log()
    shoal.disconnect()
    _connected = None
    _package()._client, _package()._connected = None, False


def _begin_log():
    global _written
    _written = _log.begin(shoal.session())


@atexit.register
def _end_log():
    """Before sessions are closed: what was registered last runs first."""
    global _written
    if _written is not None:
        _written.close()
        _written = None
