"""A client that trains 784-256-10 on batches of 64 by SGD, through a pool, and does STEPS steps when told.

    mlp.py ADDRESS STEPS [compiled]

Speaks the protocol of lib.Peer. Before that it prints nothing but `ready`; the losses of the first
steps are checked against NumPy's.
"""
import sys

import numpy as np

import lib


def data():
    """Batches of images and labels, and the weights to start from, the same on both sides."""
    rng = np.random.default_rng(3)
    images = rng.standard_normal((64, 784)).astype("float32")
    weights = [(rng.uniform(-1, 1, shape) / np.sqrt(shape[-1])).astype("float32")
               for shape in ((256, 784), (256,), (10, 256), (10,))]
    return images, rng.integers(0, 10, 64), weights


RATE = 0.01


def expected(steps):
    """The losses of the first steps, in NumPy."""
    x, labels, (w, b, v, c) = data()
    rows, losses = np.arange(64), []
    for _ in range(steps):
        hidden = np.maximum(x @ w.T + b, 0)
        scores = hidden @ v.T + c
        scores = scores - scores.max(1, keepdims=True)
        shares = np.exp(scores)
        shares /= shares.sum(1, keepdims=True)
        losses.append(float(-np.log(shares[rows, labels]).mean()))
        shares[rows, labels] -= 1
        shares /= 64
        back = (shares @ v) * (hidden > 0)
        v, c = v - RATE * shares.T @ hidden, c - RATE * shares.sum(0)
        w, b = w - RATE * back.T @ x, b - RATE * back.sum(0)
    return losses


def serve(step, item, *said):
    """Checks the first losses, then trains when told: step() -> loss, item(loss) -> a number."""
    for want in expected(5):
        got = item(step())
        if abs(got - want) > 1e-4:
            raise lib.BenchError(f"the loss is {got}, not {want}")

    def train():
        for _ in range(int(sys.argv[2])):
            loss = step()
        item(loss)
    lib.serve(train, *said)


def main():
    shoal = lib.product()
    from shoal import functional, nn, optim
    shoal.connect(sys.argv[1])
    images, labels, weights = data()
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    with shoal.no_grad():
        for parameter, start in zip(model.parameters(), weights):
            parameter.copy_(shoal.tensor(start))
    optimizer = optim.SGD(model.parameters(), lr=RATE)
    x, y = shoal.tensor(images), shoal.tensor(labels)

    def step():
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    serve(shoal.compile(step, replay=True) if sys.argv[3:] == ["compiled"] else step, lambda loss: loss.item())


if __name__ == "__main__":
    main()
