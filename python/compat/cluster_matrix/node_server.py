"""python -m cluster_matrix.node_server: lends this machine's devices to `cluster_matrix` programs.

It is a Shoal worker, of the pool that SHOAL_HUB or --hub names; else of a pool of its own, which programs on this machine
find by themselves, and those of other machines with --listen. With --gateway it also takes text commands over ZeroMQ.
"""
import argparse
import os
import signal
import sys
import threading

import shoal

from . import config, pool


def arguments(words=None):
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="cluster_matrix.node_server", description=__doc__.split("\n")[0])
    parser.add_argument("--hub", default=os.environ.get("SHOAL_HUB"), help="the pool to join (default: SHOAL_HUB)")
    parser.add_argument("--listen", metavar="ADDRESS[:PORT]", help="let enrolled machines join, encrypted")
    parser.add_argument("--device", help="the devices to lend, as `shoal worker --device`")
    parser.add_argument("--name", help="what this worker is called in the pool")
    gateway = parser.add_argument_group("text commands, off unless --gateway is given; needs pyzmq")
    gateway.add_argument("--gateway", action="store_true", help="take text commands over ZeroMQ")
    gateway.add_argument("--address", default="127.0.0.1", help="where to take them (default: this machine alone)")
    gateway.add_argument("--role", choices=("head", "worker"), default="head", help="whose ports (default: head)")
    gateway.add_argument("--front-end", metavar="ADDRESS", help="where answers go (default: HEAD_NODE_IP, else 127.0.0.1)")
    gateway.add_argument("--head", metavar="ADDRESS", help="of a worker: the head's gateway (default: as --front-end)")
    gateway.add_argument("--data", metavar="FOLDER", help="the only folder that is used (default: REMOTE_RAM_FOLDER)")
    gateway.add_argument("--limit", type=int, default=1024, metavar="MIB", help="most of a matrix (default: 1024)")
    gateway.add_argument("--space", type=int, default=4096, metavar="MIB", help="most of all matrices (default: 4096)")
    gateway.add_argument("--legacy-transpose", action="store_true",
                         help="llama's second transpose is inverted, as the public front end sends it")
    gateway.add_argument("--unencrypted-network", action="store_true",
                         help="allow addresses outside of this machine: whoever reaches them can read and change matrices "
                         "and compute here")
    told = parser.parse_args(words)
    if min(told.limit, told.space) < 1 or told.limit > told.space:
        parser.error(f"--limit {told.limit} --space {told.space}: at least 1, and the limit at most the space")
    return told


def gateway_of(told):
    """The gateway that a command line asks for."""
    from .gateway import Gateway
    side = told.role.upper()
    front = told.front_end or config.value("HEAD_NODE_IP")
    head = told.head or front
    return Gateway(f"{told.address}:{config.port(f'{side}_NODE_PULL_PORT_C')}",
                   f"{told.address}:{config.port(f'{side}_NODE_PUSH_PORT_C')}",
                   f"{front}:{config.port('PYTHON_FRONT_END_CLUSTER_PORT')}",
                   f"{head}:{config.port('HEAD_NODE_PULL_PORT_C')}" if told.role == "worker" else None,
                   told.data, told.limit << 20, told.space << 20, told.unencrypted_network, told.legacy_transpose)


def start(told):
    """The processes of the pool's part here, and the address of the hub."""
    from shoal.program import Process

    def say(line):
        print(line, flush=True)
    started = []
    if not told.hub:
        told.hub = pool.SERVED
        try:
            shoal.Session(hub=pool.SERVED).close()
        except shoal.NotFoundError:
            started.append(Process(["hub", "--address", pool.SERVED, *(["--listen", told.listen] if told.listen else [])], say))
    words = [*(["--device", told.device] if told.device else []), *(["--name", told.name] if told.name else [])]
    started.append(Process(["worker", "--hub", told.hub, *words], say))
    for process in started:
        if process.process.poll() is not None:
            raise SystemExit(f"cluster_matrix.node_server: `{' '.join(process.process.args)}` has ended")
    return started


def main():
    """Runs until it is interrupted."""
    told = arguments()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    config.print_settings()
    started = start(told)
    session = shoal.connect(told.hub)
    for slot in session.status().slots:
        if slot.compute:
            print(f"device {slot.slot}: {slot.worker}/{slot.name}, {slot.device}", flush=True)
    served = None
    try:
        if told.gateway:
            served = gateway_of(told)
            thread = threading.Thread(target=served.run, daemon=True)
            thread.start()
            print(f"gateway: text commands at {told.address}:{config.port(f'{told.role.upper()}_NODE_PULL_PORT_C')}, files in "
                  f"{served.store.folder}", flush=True)
        while not ended.wait(0.5) and all(p.process.poll() is None for p in started):
            pass
        return 0 if ended.is_set() else 1
    except (ValueError, OSError, ImportError) as error:
        print(f"cluster_matrix.node_server: {error}", file=sys.stderr)
        return 1
    finally:
        if served is not None:
            served.stop()
            thread.join(5)
            served.close()
        shoal.disconnect()
        for process in reversed(started):
            process.stop()


if __name__ == "__main__":
    sys.exit(main())
