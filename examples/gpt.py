"""Trains a small language model, character by character, on a real text of about 1 MB, and lets it write.

    python examples/gpt.py                       # 4 layers, 128 wide, 4 heads, 64 characters
    python examples/gpt.py --resume --steps 6000
    python examples/gpt.py --text mine.txt
    python examples/gpt.py --workers 2 --spread

Without --text it reads the Jargon File, which is in the public domain, from Debian's package jargon-text.
"""
import gzip
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing
import run
import shoal
from shoal import Tensor, nn, optim

Array = numpy.typing.NDArray[Any]

JARGON = pathlib.Path("/usr/share/doc/jargon-text/jargon.txt.gz")
LONGEST = 1_000_000


class Block(nn.Module):
    """Attention, then a perceptron, each added to what comes in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                        nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in self.attention(self.before(x)).chunk(3, -1))
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.join(seen.transpose(1, 2).flatten(2))
        made: Tensor = x + self.perceptron(self.between(x))
        return made


class GPT(nn.Module):
    """Gives the logits of the next character at each place (Radford et al., 2019, made small)."""

    def __init__(self, vocabulary: int, length: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.length = length
        self.characters = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.apply(self.start)

    @staticmethod
    def start(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, text: Tensor) -> Tensor:
        x = self.characters(text) + self.places.weight[:text.shape[1]]
        logits: Tensor = self.head(self.norm(self.blocks(x)))
        return logits

    def write(self, text: Sequence[int], count: int, temperature: float = 0.8) -> list[int]:
        """Goes on from a row of characters. It always looks at as many places: one program."""
        text = list(text)
        self.eval()
        with shoal.no_grad():
            for _ in range(count):
                window = text[-self.length:]
                at = len(window) - 1
                window += [0] * (self.length - len(window))
                logits = self(shoal.tensor([window]))[0].take(shoal.tensor(at), 0)
                text.append(shoal.multinomial((logits / temperature).softmax(-1), 1).item())
        return text


def corpus(path: pathlib.Path | None) -> tuple[Array, Array]:
    """The text, at most 1 MB of it, as numbers; and the characters they stand for."""
    if path is None and not JARGON.is_file():
        run.fail("there is no text; apt-get install jargon-text, or give --text FILE")
    source = path or JARGON
    with (gzip.open if source.suffix == ".gz" else open)(source, "rb") as file:
        text = file.read().decode("utf-8", "ignore")
    # Runs of blanks say little; characters that hardly occur, less.
    text = "\n".join(" ".join(line.split()) for line in text.splitlines())
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    characters, counts = np.unique(list(text), return_counts=True)
    kept = characters[counts >= len(text) // 20000]
    table = {c: i for i, c in enumerate(kept)}
    numbers = np.array([table[c] for c in text if c in table][:LONGEST])
    return numbers, kept


def main() -> None:
    parser = run.options(__doc__, 3000, "runs/gpt")
    parser.add_argument("--text", type=pathlib.Path, help="a text (the Jargon File)")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--length", type=int, default=64, help="characters it sees (64)")
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--write", type=int, default=300, help="characters written at the end (300)")
    args = parser.parse_args()
    run.begin(args)
    text, characters = corpus(args.text)
    split = len(text) * 9 // 10
    train, unseen = text[:split], text[split:]
    model = GPT(len(characters), args.length, args.width, args.layers, args.heads)
    size = sum(p.size for p in model.parameters())
    print(f"{len(text)} characters, {len(characters)} different ones; {size} parameters")
    optimizer = optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.99), weight_decay=0.1)
    schedule = optim.lr_scheduler.WarmupCosineLR(optimizer, args.steps // 20, args.steps,
                                                 args.lr / 10)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())

    def windows(part: Array, generator: np.random.Generator) -> tuple[Array, Array]:
        starts = generator.integers(0, len(part) - args.length - 1, args.batch)
        found = part[starts[:, None] + np.arange(args.length + 1)]
        return found[:, :-1], found[:, 1:]

    def batch(step: int) -> tuple[Array, Array]:
        # The step decides the batch, so that a run that goes on sees what it would have seen.
        return windows(train, np.random.default_rng((args.seed, step)))

    def check() -> tuple[str, float]:
        generator = np.random.default_rng(0)
        losses = [loss(*map(shoal.tensor, windows(unseen, generator))).item() for _ in range(10)]
        return "unseen", sum(losses) / 10

    run.Run(args, model, optimizer, schedule, batch, loss, check).train()
    if args.write:
        written = model.write(train[:args.length].tolist(), args.write)
        print("".join(characters[i] for i in written[args.length:]))


if __name__ == "__main__":
    main()
