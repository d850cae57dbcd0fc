"""Which pool a program uses: `connect`, `gpu_workers`, or one of its own when it is first needed."""
import atexit
import os
import socket

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
        f"`python -m gt.server -p {port} -H {host}`, which prints a token; here, run "
        "`shoal join TOKEN` once and set SHOAL_HUB to the address that it prints")


def connect(address):
    """Uses the pool of a `gt.server` at "HOST:PORT". RuntimeError when one is in use already."""
    global _connected
    if _connected is not None:
        raise RuntimeError(f"gt is connected to {_connected} already; connect once, before the first "
                           "tensor")
    shoal.connect(address_of(address))
    _connected = address
    _begin_log()


def gpu_workers(count):
    """How many workers a pool of this process gets. RuntimeError once there is one."""
    global _workers
    if _connected is not None:
        raise RuntimeError(f"gt is connected to {_connected} already; call gpu_workers before the "
                           "first tensor")
    if count < 1:
        raise ValueError(f"gpu_workers({count}): at least 1")
    _workers = count


def session():
    """The session; a pool of this process, or that of SHOAL_HUB, when there is none yet."""
    global _connected
    if _connected is None:
        hub = os.environ.get("SHOAL_HUB")
        if hub:
            shoal.connect(hub)
        else:
            shoal.init(workers=_workers or workers_named())
        _connected = hub or "a pool of this process"
        _begin_log()
    return shoal.session()


def disconnect():
    """Ends the session; the next tensor begins anew."""
    global _connected
    _end_log()
    shoal.disconnect()
    _connected = None


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
