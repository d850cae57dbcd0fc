"""python -m gt.worker --host HOST -p PORT: lends this machine to the pool of a gt.server."""
import argparse
import subprocess
import sys
import time

from shoal import program

from ..pool import address_of
from . import BACKENDS


def main():
    parser = argparse.ArgumentParser(prog="gt.worker", description=__doc__)
    parser.add_argument("--host", default="localhost")
    parser.add_argument("-p", "--port", type=int, default=12345)
    parser.add_argument("--id", help="its name in the pool")
    parser.add_argument("--backend", help="numpy, pytorch or jax, or a backend of Shoal's")
    parser.add_argument("--wait", type=float, default=10.0, help="seconds to wait for the server")
    parser.add_argument("--once", action="store_true",
                        help="end with the server, rather than wait for its return")
    args = parser.parse_args()
    try:
        address = address_of(f"{args.host}:{args.port}")
    except ConnectionError as error:
        sys.exit(f"gt.worker: {error}")
    command = ["worker", "--hub", address]
    if args.once:
        command.append("--once")
    if args.id:
        command += ["--name", args.id]
    if args.backend:
        command += ["--device", BACKENDS.get(args.backend, args.backend)]
    end = time.monotonic() + args.wait
    while time.monotonic() < end and subprocess.run(
            [program.find(), "status", "--hub", address], capture_output=True).returncode:
        time.sleep(0.1)
    program.become(*command)


if __name__ == "__main__":
    main()
