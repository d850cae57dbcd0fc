"""Which pool is used, and which of its devices the addresses in a list of nodes are."""
import os
import socket
import warnings

import shoal
import shoal.pool

from . import config

SERVED = "shm:cluster-matrix"  # the hub that `python -m cluster_matrix.node_server` starts
GPUS = {"cuda", "opencl", "ggml"}
BACKENDS = {"llama": ("ggml", "opencl", "cuda", "cpu"), "torch": ("torch", "cuda", "cpu"),
            "opencl": ("opencl", "cuda", "cpu")}

_assigned = {}  # session's serial -> {(address, which of its devices): slot}


def session(nodes=1):
    """Shoal's session: the one that the program has, else the pool of SHOAL_HUB, else that of a node server on this
    machine, else a pool in this process with a device for each node."""
    if shoal.pool._default is None:
        hub = os.environ.get("SHOAL_HUB")
        if hub:
            shoal.connect(hub)
        else:
            try:
                shoal.connect(SERVED)
            except shoal.NotFoundError:
                shoal.init(workers=_wanted(nodes))
    return shoal.session()


def _wanted(nodes):
    text = config.value("CLUSTER_MATRIX_SLOTS")
    if text and (not text.isdigit() or not 1 <= int(text) <= 256):
        raise ValueError(f"CLUSTER_MATRIX_SLOTS={text}: a number from 1 to 256")
    return int(text or max(nodes, 1))


def _map():
    """{address: worker} of CLUSTER_MATRIX_NODES."""
    made = {}
    for part in filter(None, config.value("CLUSTER_MATRIX_NODES").split(",")):
        address, sign, worker = part.partition("=")
        if not sign or not address.strip() or not worker.strip():
            raise ValueError(f"CLUSTER_MATRIX_NODES: '{part}' is not ADDRESS=WORKER")
        made[address.strip()] = worker.strip()
    return made


def _own(address):
    """Whether an address is one of this machine's: only such can be bound."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(address, 0, type=socket.SOCK_DGRAM,
                                                              flags=socket.AI_NUMERICHOST)[0]
        with socket.socket(family, kind, protocol) as tried:
            tried.bind(place)
        return address not in ("0.0.0.0", "::")
    except OSError:
        return False


def _matches(address, slots, named):
    """The slots that an address means by itself: by the map, the worker's or its host's name."""
    worker = named.get(address, address)
    return [s for s in slots if worker in (s.worker, s.host, f"{s.worker}/{s.name}")]


def _best(free, backend, gpu):
    """The slot of several that a backend and a wish for a GPU ask for; the first when none fits better."""
    order = BACKENDS.get(backend, (backend,))

    def rank(slot):
        return (gpu is not None and (slot.backend in GPUS) != gpu,
                order.index(slot.backend) if slot.backend in order else len(order), slot.slot)
    return min(free, key=rank)


def slots_of(addresses, backends=None, gpus=None, using=None):
    """The slot of each node in a list. An address that stands several times is as many devices of that machine.

    An address is a worker's name, its host's, or what CLUSTER_MATRIX_NODES says. If none of a list is known in that
    way, and there is no such map, the nodes are the pool's devices in their order, with a warning. Raises ValueError that
    names the node which the pool lacks, and the workers that it has.
    """
    using = using or session(len(addresses))
    slots = [s for s in using.status().slots if s.compute]
    if not slots:
        raise ValueError("the pool has no worker yet; start one with `python -m cluster_matrix.node_server`")
    named = _map()
    known = {a: _matches(a, slots, named) for a in set(addresses)}
    here = [s for s in slots if s.host == socket.gethostname()]
    if named or any(known.values()):
        for address, found in known.items():
            known[address] = found or (here if _own(address) else [])
            if not known[address]:
                raise ValueError(
                    f"node {address}: no worker of the pool is called so; it has "
                    f"{', '.join(sorted({s.worker for s in slots}))}. Name its worker in CLUSTER_MATRIX_NODES, as "
                    f"{address}=WORKER, or start it there with `python -m cluster_matrix.node_server`")
    elif using.serial not in _assigned and not all(_own(a) for a in addresses):
        warnings.warn(
            f"no worker is called {addresses[0]}: the nodes of this list are the {len(slots)} devices of the pool in their order "
            f"({', '.join(sorted({s.worker for s in slots}))}). SHOAL_HUB names a pool of other machines, "
            "CLUSTER_MATRIX_NODES the workers of addresses", stacklevel=3)
    assigned = _assigned.setdefault(using.serial, {})
    made, seen = [], {}
    for i, address in enumerate(addresses):
        which = seen[address] = seen.get(address, -1) + 1
        slot = assigned.get((address, which))
        candidates = known[address] or slots
        if slot not in {s.slot for s in candidates}:
            numbers = {s.slot for s in candidates}
            taken = [slot for slot in assigned.values() if slot in numbers]
            free = [s for s in candidates if s.slot not in taken] or [candidates[len(taken) % len(candidates)]]
            slot = assigned[address, which] = _best(free, backends and backends[i], gpus and gpus[i]).slot
        made.append(slot)
        config.tell("GPU_SELECTION", f"node {address}: slot {slot}, "
                    + next(f"{s.worker}/{s.name} ({s.device})" for s in slots if s.slot == slot))
    return made


def place(tensor, axis, lengths, slots):
    """A tensor cut along an axis, so that each slot of a list holds as many rows as are its nodes'; a slot may stand
    several times, and then holds the sum."""
    sums = {}
    for slot, length in zip(slots, lengths):
        sums[slot] = sums.get(slot, 0) + length
    owners = [slot for slot, length in sums.items() if length] or slots[:1]
    cuts = []
    for a, n in enumerate(tensor.shape):
        cuts.append(0)
        if a == axis:
            for slot in owners[:-1]:
                cuts.append(cuts[-1] + sums[slot])
        cuts.append(n)
    parts = tuple(len(owners) if a == axis else 1 for a in range(tensor.ndim))
    return tensor.place(parts=parts, cuts=cuts, slots=owners, copies=1)
