"""Trains a perceptron or a small convolutional net on real handwritten digits, 8 by 8 points.

    python examples/digits.py                    # a perceptron; about 97 % of unseen digits right
    python examples/digits.py --model conv       # a convolutional net; about 98 %
    python examples/digits.py --workers 2 --spread

The digits are those that scikit-learn ships (Alpaydin and Kaynak, 1998).
"""
import functools
import gzip
import importlib.util
import pathlib
from typing import Any

import numpy as np
import numpy.typing
import run
import shoal
from shoal import nn, optim

Array = numpy.typing.NDArray[Any]
PLACES = ["/usr/lib/python3/dist-packages/sklearn"]


def digits() -> tuple[Array, Array]:
    """(images of [0, 1], labels), in an order of their own."""
    found = importlib.util.find_spec("sklearn")
    places = list(found.submodule_search_locations or ()) if found else []
    for place in places + PLACES:
        path = pathlib.Path(place) / "datasets" / "data" / "digits.csv.gz"
        if path.is_file():
            with gzip.open(path, "rt") as file:
                table = np.loadtxt(file, delimiter=",", dtype=np.float32)
            return table[:, :64] / 16, table[:, 64].astype(np.int64)
    run.fail("the digits are not here; pip install scikit-learn, which ships them")


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Dropout(0.25), nn.Linear(32 * 4 * 4, 10))


MODELS = {"mlp": (perceptron, 5e-3, 1500), "conv": (convolutional, 3e-3, 600)}


def main() -> run.Run:
    parser = run.options(__doc__, None, "runs/digits")
    parser.add_argument("--model", choices=MODELS, default="mlp")
    parser.add_argument("--batch", type=int, default=64)
    args = parser.parse_args()
    make, rate, steps = MODELS[args.model]
    args.steps = args.steps or steps
    run.begin(args)
    images, labels = digits()
    order = np.random.default_rng(0).permutation(len(images))
    train, unseen = order[360:], order[:360]
    model = make()
    print(model)
    optimizer = optim.AdamW(model.parameters(), lr=rate, weight_decay=1e-4)
    schedule = optim.lr_scheduler.WarmupCosineLR(optimizer, args.steps // 20, args.steps)
    tests = shoal.tensor(images[unseen]), shoal.tensor(labels[unseen])

    per_epoch = len(train) // args.batch

    @functools.lru_cache(1)
    def epoch(number: int) -> Array:
        return np.random.default_rng((args.seed, number)).permutation(train)

    def batch(step: int) -> tuple[Array, Array]:
        # The step decides the batch, so that a run that goes on sees what it would have seen.
        number, at = divmod(step, per_epoch)
        chosen = epoch(number)[at * args.batch:(at + 1) * args.batch]
        return images[chosen], labels[chosen]

    def loss(x: shoal.Tensor, y: shoal.Tensor) -> shoal.Tensor:
        return nn.functional.cross_entropy(model(x), y)

    def check() -> tuple[str, float]:
        return "unseen right", (model(tests[0]).argmax(1) == tests[1]).float().mean().item()

    if not 1 <= args.batch <= len(train):
        run.fail(f"--batch {args.batch}: from 1 to {len(train)}")
    return run.Run(args, model, optimizer, schedule, batch, loss, check)


if __name__ == "__main__":
    main().train()
