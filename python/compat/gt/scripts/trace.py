"""python -m gt.scripts.trace -s SECONDS: records what the pool of a gt.server does."""
import argparse
import os

from shoal import program

from ..pool import address_of


def main():
    parser = argparse.ArgumentParser(prog="gt.scripts.trace", description=__doc__)
    parser.add_argument("-s", "--seconds", type=float, default=2.0)
    parser.add_argument("--host", default="localhost")
    parser.add_argument("-p", "--port", type=int, default=12345)
    parser.add_argument("--dir", default=".", help="the folder of the file")
    parser.add_argument("-o", "--output", default="trace.json", help="in Chrome's trace format")
    parser.add_argument("-n", "--max-events", type=int, help="end once so many events have come")
    args = parser.parse_args()
    os.makedirs(args.dir, exist_ok=True)
    most = ["--events", args.max_events] if args.max_events else []
    program.become("trace", args.seconds, "--hub", address_of(f"{args.host}:{args.port}"),
                    "-o", os.path.join(args.dir, args.output), "--force", *most)


if __name__ == "__main__":
    main()
