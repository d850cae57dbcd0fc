"""python -m gt.server -p PORT: a hub that workers and clients on this machine reach at that port.

With -H ADDRESS those of other machines do, too: encrypted, and only who has enrolled.
"""
import argparse
import os
import subprocess
import sys

from shoal import program

from ..pool import address_of


def main():
    parser = argparse.ArgumentParser(prog="gt.server", description=__doc__.split("\n")[0])
    parser.add_argument("-p", "--port", type=int, default=12345)
    parser.add_argument("-H", "--host", default="localhost",
                        help="an interface of this machine to which others may connect")
    parser.add_argument("--spawn_gpu_workers", type=int, default=0, metavar="N",
                        help="also start so many workers here")
    parser.add_argument("--log-file", help="where messages go")
    parser.add_argument("--no-console-log", action="store_true", help="only errors on the terminal")
    args = parser.parse_args()
    address = address_of(f"localhost:{args.port}")
    command = ["hub", "--address", address]
    if args.host not in ("localhost", "127.0.0.1", "0.0.0.0"):
        command += ["--listen", f"{args.host}:{args.port}"]
    if args.no_console_log:
        command += ["--log", "error"]
    if args.log_file:
        log = os.open(args.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, sys.stderr.fileno())
    for _ in range(args.spawn_gpu_workers):
        # A worker waits for its hub, and ends with it.
        subprocess.Popen([sys.executable, "-m", "gt.worker", "--once", "-p",
                          str(args.port)])
    program.become(*command)


if __name__ == "__main__":
    main()
