"""The pool of a training: the hub of a shepherd, what a worker becomes, and waiting until the workers are there."""
import ipaddress
import json
import re
import subprocess
import sys
import tempfile
import threading
import time

from ..errors import IOFailedError, NotFoundError, ShoalError, UnsupportedError
from ..pool import Session
from ..program import Process, become, find
from .arguments import UsageError

PORT = 8080
_POLL = 0.2
# PCP's names of backends that are none here: the devices that serve them, as `shoal backends` shows these.
_SERVED = {"cuda": (("cuda", "opencl", "torch"), r"(?i)nvidia|cuda|geforce|tesla"), "rocm": (("opencl", "torch"), r"(?i)amd|rocm|gfx|radeon"),
           "metal": (("ggml",), r"(?i)metal|apple"), "vulkan": (("ggml",), r"(?i)vulkan")}
_TARGETS = {"cuda": r"sm_\d{2,3}[a-z]?", "rocm": r"gfx[0-9a-f]{3,5}"}


def _is_here(host):
    """Whether an address is this machine's loopback."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def address_of(text):
    """A hub's address for "HOST:PORT"; Shoal's own stay as they are. Ports of loopback are names on this machine: what goes on
    within a user's machine needs no keys, and other users cannot reach it."""
    if text.startswith(("shm:", "tcp://")):
        return text
    host, _, port = text.rpartition(":")
    if not host or not re.fullmatch(r"\d{1,5}", port) or not 0 < int(port) <= 65535:
        raise UsageError(f"'{text}': must be HOST:PORT, such as 192.168.1.5:{PORT}, or a hub's address")
    return f"shm:train-{port}" if _is_here(host) else f"tcp://{host}:{port}"


# ---- the worker ----

def lend(told):
    """Becomes a worker, as `shoal worker` is one. It waits for its shepherd, as the two may be started in any order."""
    hub = ["--hub", address_of(told.connect)] if told.connect else []
    become("worker", "--wait", *hub, *_devices(told), *(["--name", told.name] if told.name else []), *(["--log", told.log] if told.log else []),
           *(["--json"] if told.json else []))


def _devices(told):
    """The words of `shoal worker` that name the devices."""
    backend, target = told.backend, told.target or told.amd_target
    if target is not None:
        rule = _TARGETS.get(backend)
        option = "--target" if told.target else "--amd-target"
        if rule is None:
            raise UsageError(f"{option} {target}: belongs to --backend cuda or rocm; others have no targets")
        if not re.fullmatch(rule, target):
            raise UsageError(f"{option} '{target}': must be such as {'sm_80' if backend == 'cuda' else 'gfx942'}")
    if backend is None:
        if told.device_id is not None:
            raise UsageError("--device-id: of which backend? give --backend, too")
        return []
    names = _served(backend, target) if backend in _SERVED else [backend]
    if told.device_id is not None:
        if backend in _SERVED and told.device_id >= len(names):
            raise UsageError(f"--device-id {told.device_id}: --backend {backend} has {len(names)} devices here, counted from 0")
        names = [names[told.device_id]] if backend in _SERVED else [f"{backend}:{told.device_id}"]
    return ["--device", ",".join(names)]


def _served(backend, target):
    """The devices, such as "opencl:0", that are meant by one of PCP's names. Raises UnsupportedError if there is none."""
    candidates, looks = _SERVED[backend]
    seen = []
    for name in (backend, *candidates):
        done = subprocess.run([find(), "backends", name, "--json"], capture_output=True, text=True, timeout=60)
        rows = json.loads(done.stdout) if done.returncode == 0 else []
        found = [row for row in rows if row["device"] and (name == backend or re.search(looks, row["device"]))]
        if found:
            named = [row for row in found if not target or _is_target(row["device"], target)]
            if not named:
                raise UnsupportedError(f"the device here is {found[0]['device']}, not {target}; leave the target out: kernels are made "
                                       "for the device that there is")
            chosen = [f"{name}:{row['index']}" for row in named]
            print(f"worker: --backend {backend} is served by {', '.join(chosen)}", file=sys.stderr)
            return chosen
        seen += [f"{name}: {row['reason'] or row['device']}" for row in rows]
    raise UnsupportedError(f"--backend {backend}: there is no such device here that {' or '.join(candidates)} could lend"
                           + (f" ({'; '.join(seen)})" if seen else "") + "; `shoal doctor` shows all devices")


def _is_target(device, target):
    """Whether a device may be of a target: it names it, or names none."""
    named = re.findall(r"\b(?:gfx[0-9a-f]{3,5}|sm_\d+[a-z]?)\b", device)
    return not named or target in named


# ---- the shepherd ----

def start_hub(host, port, say):
    """(address, `Hub`): a hub as `shoal hub` is one, at a port of this machine, and beyond loopback encrypted, for enrolled users
    only. A hub that runs there already is used: it is None then."""
    host, port = host or "127.0.0.1", PORT if port is None else port
    if host.strip("[]") in ("0.0.0.0", "::"):
        raise UsageError(f"--host {host}: workers have to know where to connect: give the address of this machine in their network")
    address = f"shm:train-{port}"
    words = ["hub", "--address", address] + ([] if _is_here(host) else ["--listen", f"{host}:{port}"])
    try:
        Session(hub=address if _is_here(host) else f"tcp://{host}:{port}", timeout_ms=2000).close()
    except NotFoundError:
        pass
    else:
        say(f"there is a hub at {host}:{port}, which is used")
        return address, None
    hub = Hub(words, f"{host}:{port}", say)
    say(f"workers: shoal train --worker --connect {host}:{port}" + ("" if _is_here(host) else
        "; on another machine, once: `shoal invite` here prints a token, and `shoal join` takes it there"))
    return address, hub


class Hub:
    """A hub of this process, which ends with it, however that ends; workers wait for the next one. If the hub ends by itself,
    another one is started in its place."""

    def __init__(self, words, place, say):
        self._words, self._place, self._say = words, place, say
        self._over, self._lock = threading.Event(), threading.Lock()
        self._process = self._start()
        threading.Thread(target=self._watch, name="hub", daemon=True).start()

    def _start(self):
        with tempfile.TemporaryFile("w+") as errors:
            hub = Process(self._words, errors=errors, tied=True)
            if hub.first:
                return hub
            hub.stop()
            errors.seek(0)
            told = errors.read().strip().splitlines()
        raise IOFailedError(f"no hub at {self._place}: {told[-1].removeprefix('shoal: ') if told else 'it ended'}")

    def _watch(self):
        while not self._over.is_set():
            self._process.wait()
            with self._lock:
                if self._over.is_set():
                    return
                self._say(f"the hub at {self._place} has ended; starting another one")
                try:
                    self._process = self._start()
                    continue
                except ShoalError as error:
                    self._say(error)
            self._over.wait(1)

    def stop(self):
        """Ends it."""
        with self._lock:
            self._over.set()
            self._process.stop()


def await_workers(session, wanted, tell):
    """Returns when so many slots of workers compute; tell(count) is called when their number changes. A signal ends the wait."""
    known = -1
    while True:
        count = sum(slot.compute for slot in session.status().slots)
        if count != known:
            known = count
            tell(count)
        if count >= wanted:
            return
        time.sleep(_POLL)
