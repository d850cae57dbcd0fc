"""python -m gt.scripts.top: watches the pool of a gt.server."""
import argparse

from shoal import program

from ..pool import address_of


def main():
    parser = argparse.ArgumentParser(prog="gt.scripts.top", description=__doc__)
    parser.add_argument("--host", default="localhost")
    parser.add_argument("-p", "--port", type=int, default=12345)
    parser.add_argument("--ema-alpha", type=float, default=1.0,
                        help="how far rates follow each change: 1 at once, 0.1 a tenth of it")
    parser.add_argument("--count", type=int, help="print so many pictures as text, and end")
    args = parser.parse_args()
    command = ["top", "--hub", address_of(f"{args.host}:{args.port}"), "--smooth", args.ema_alpha]
    if args.count:
        command += ["--count", args.count]
    program.become(*command)


if __name__ == "__main__":
    main()
