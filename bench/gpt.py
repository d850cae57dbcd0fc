"""A client that trains the language model of examples/gpt.py through a pool, and does STEPS steps when told.

    gpt.py ADDRESS STEPS [spread] [called] [gpt2]

Four layers, 128 wide, 4 heads, 64 tokens, batches of 12, AdamW; with `gpt2` the size of GPT-2. `embedded` as the
address is a worker of two threads in this process, `embedded:N` N workers of one thread. With `spread` a signal divides each batch between the workers;
with `called` each step is recorded anew instead of replayed. Speaks the protocol of lib.Peer: after `ready` come
the losses of the first steps, which have to be those of the peers, the MiB that this process holds at most in
a step, and the number of messages to each worker per step; for `embedded:N` the MiB that it holds instead, beside
tensors and what it held before there were workers.
"""
import itertools
import sys
import time

import numpy as np

import lib

LARGE = "gpt2" in sys.argv
VOCABULARY, LENGTH, BATCH, WIDTH, LAYERS, HEADS = (50257, 256, 1, 768, 12, 12) if LARGE else (65, 64, 12, 128, 4, 4)
RATE, BETAS, EPSILON, DECAY = 1e-3, (0.9, 0.99), 1e-8, 0.1
COMPARED = 4 if LARGE else 10  # losses


def weights():
    """What training starts from: {name: array}, the names being those of the model's parameters."""
    rng = np.random.default_rng(5)

    def normal(*shape):
        return np.float32(0.02) * rng.standard_normal(shape, np.float32)

    def linear(name, wide, deep):
        return {f"{name}.weight": normal(wide, deep), f"{name}.bias": np.zeros(wide, np.float32)}

    def norm(name):
        return {f"{name}.weight": np.ones(WIDTH, np.float32), f"{name}.bias": np.zeros(WIDTH, np.float32)}
    found = {"characters.weight": normal(VOCABULARY, WIDTH), "places.weight": normal(LENGTH, WIDTH)}
    for i in range(LAYERS):
        block = f"blocks.{i}."
        found |= (norm(block + "before") | linear(block + "attention", 3 * WIDTH, WIDTH)
                  | linear(block + "join", WIDTH, WIDTH) | norm(block + "between")
                  | linear(block + "perceptron.0", 4 * WIDTH, WIDTH)
                  | linear(block + "perceptron.2", WIDTH, 4 * WIDTH))
    return found | norm("norm") | {"head.weight": normal(VOCABULARY, WIDTH)}


def batches():
    """Texts and the characters that follow, without end: some characters are more frequent than others."""
    rng = np.random.default_rng(6)
    chances = 1 / np.arange(1, VOCABULARY + 1)
    text = rng.choice(VOCABULARY, (16, BATCH, LENGTH + 1), p=chances / chances.sum())
    return itertools.cycle([(part[:, :-1].copy(), part[:, 1:].copy()) for part in text])


def settle(step):
    """Trains for longer than memory is kept that only the first steps wanted: step() -> a number."""
    end = time.monotonic() + 12
    while time.monotonic() < end:
        step()


def serve(step, item, tell):
    """Trains when told: step() -> loss, item(loss) -> a number. tell(): what else there is to say."""
    losses = [f"{item(step()):.6f}" for _ in range(COMPARED)]

    def train():
        for _ in range(int(sys.argv[2])):
            loss = step()
        item(loss)
    if LARGE:
        settle(lambda: item(step()))
    lib.serve(train, ",".join(losses), f"{lib.most_held(lambda: item(step())):.0f}", tell())


def main():
    shoal = lib.product()
    sys.path.insert(0, str(lib.ROOT / "examples"))
    import gpt as example  # not this file
    from shoal import functional, optim
    before = lib.held()
    address, _, workers = sys.argv[1].partition(":")
    if address == "embedded":
        shoal.init(workers=int(workers or 1), threads=int(workers or 2))
    else:
        workers = ""
        shoal.connect(sys.argv[1])
    model = example.GPT(VOCABULARY, LENGTH, WIDTH, LAYERS, HEADS)
    model.load_state_dict({name: shoal.tensor(start) for name, start in weights().items()})
    optimizer = optim.AdamW(model.parameters(), lr=RATE, betas=BETAS, eps=EPSILON, weight_decay=DECAY)
    shoal.signal.describe(shoal.signal.Signal("data", shard="spread" in sys.argv))
    feed = batches()

    def train(text, following):
        optimizer.zero_grad()
        with shoal.signal.context("data"):
            loss = functional.cross_entropy(model(text).flatten(0, 1), following.flatten())
        loss.backward()
        optimizer.step()
        return loss
    trained = train if "called" in sys.argv else shoal.compile(train, replay=True)

    def step():
        text, following = next(feed)
        return trained(shoal.tensor(text), shoal.tensor(following))

    def messages():
        """To each worker per step, once the first ones have been seen."""
        counts = []
        for _ in range(2):
            for _ in range(COMPARED):
                step()
            shoal.sync()
            counts.append([slot.instances for slot in shoal.status().slots if slot.compute])
        return ", ".join(f"{(last - first) / COMPARED:g}" for first, last in zip(*counts))

    def beside_tensors():
        """MiB, in the long run."""
        settle(lambda: step().item())
        return f"{lib.held() - before - sum(slot.bytes for slot in shoal.status().slots) / 2 ** 20:.1f}"
    serve(step, lambda loss: loss.item(), beside_tensors if workers else messages)


if __name__ == "__main__":
    main()
