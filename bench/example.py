"""examples/digits.py as it is, or its bare loop: the same steps with nothing told, written or checked.

    example.py whole|bare STEPS

Speaks the protocol of lib.Peer; the seconds are those of the steps, without the picture at the end.
"""
import contextlib
import io
import sys
import tempfile
import time

import lib

sys.path.insert(0, str(lib.ROOT / "examples"))


def main(kind, steps):
    steps = int(steps)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        sys.argv = ["digits.py", "--steps", str(steps), "--workers", "1", "--out", folder]
        import digits
        training = digits.main()

        def whole():
            training.step = 0
            training.train()
            return training.seconds

        def bare():
            training.model.train()
            start = time.monotonic()
            for step in range(steps):
                loss = training.learn(*training.batch(step))
            loss.item()
            return time.monotonic() - start

        print("ready", file=sys.__stdout__, flush=True)
        for _ in sys.stdin:
            print(f"{whole() if kind == 'whole' else bare():.9f}", file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
