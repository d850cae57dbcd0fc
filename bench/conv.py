"""Trains a small convolutional net on batches of 32 pictures of 3 x 32 x 32 by SGD, in this process, on two threads.

    conv.py STEPS plain|depthwise

Three layers of 3 x 3: 3, 32, 64 and 64 channels, each with relu, then the largest of 2 x 2 and ten classes. In the
depthwise net the second and third are one window per channel and a mixture of channels. Speaks the protocol of
lib.Peer: after `ready` come the losses of the first steps, which have to be those of the peer.
"""
import sys

import numpy as np

import lib

RATE, BATCH, SIDE, COMPARED = 0.05, 32, 32, 5


def shapes(depthwise):
    """Per layer: channels, features, side of the window, groups."""
    if depthwise:
        return [(3, 32, 3, 1), (32, 32, 3, 32), (32, 64, 1, 1), (64, 64, 3, 64), (64, 64, 1, 1)]
    return [(3, 32, 3, 1), (32, 64, 3, 1), (64, 64, 3, 1)]


def model(nn, depthwise):
    """The net, of either side's modules: relu follows where channels have been mixed."""
    layers = []
    for channels, features, side, groups in shapes(depthwise):
        layers.append(nn.Conv2d(channels, features, side, padding=side // 2, groups=groups))
        if groups == 1:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * (SIDE // 2) ** 2, 10))


def data(depthwise):
    """Pictures, labels and the weights to start from, the same on both sides."""
    rng = np.random.default_rng(3)
    pictures = rng.standard_normal((BATCH, 3, SIDE, SIDE)).astype(np.float32)
    weights = []
    for shape in [(f, c // g, k, k) for c, f, k, g in shapes(depthwise)] + [(10, 64 * (SIDE // 2) ** 2)]:
        reach = 1 / np.sqrt(np.prod(shape[1:]))
        weights += [rng.uniform(-reach, reach, size).astype(np.float32) for size in (shape, shape[:1])]
    return pictures, rng.integers(0, 10, BATCH), weights


def serve(step, item, *said):
    """Trains when told: step() -> loss, item(loss) -> a number."""
    losses = [f"{item(step()):.6f}" for _ in range(COMPARED)]

    def train():
        for _ in range(int(sys.argv[1])):
            loss = step()
        item(loss)
    lib.serve(train, ",".join(losses), *said)


def main():
    shoal = lib.product()
    from shoal import functional, nn, optim
    shoal.init(threads=2)
    depthwise = sys.argv[2] == "depthwise"
    pictures, labels, weights = data(depthwise)
    net = model(nn, depthwise)
    with shoal.no_grad():
        for parameter, start in zip(net.parameters(), weights):
            parameter.copy_(shoal.tensor(start))
    optimizer = optim.SGD(net.parameters(), lr=RATE)
    x, y = shoal.tensor(pictures), shoal.tensor(labels)

    def step():
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss
    serve(step, lambda loss: loss.item())


if __name__ == "__main__":
    main()
