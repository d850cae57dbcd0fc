"""Attention of a real language model over the slots of a pool: which word looks at which.

    python examples/attention.py SmolLM2-135M-Instruct.Q4_1.gguf
    python examples/attention.py MODEL.gguf --workers 3 --text "The capital of France is" --layer 12
    python examples/attention.py MODEL.gguf --hub shm:hub --on desk,laptop=25%

The weights stay in the file: each worker maps its own part, whole heads of the projections of queries, keys and values,
and the same columns of the projection that follows. What is computed stays where it is; between workers travel the sums
over heads and over hidden units, twice a layer (Shoeybi et al., "Megatron-LM", 2019, section 3).

A model is a .gguf of the Llama family. Words have to be tokens of its vocabulary.
"""
import argparse
import pathlib
from typing import Any

import numpy as np
import numpy.typing
import run
import shoal

Array = numpy.typing.NDArray[Any]


def shares(on: str) -> dict[str, Any]:
    """Slots and shares from "desk,laptop=25%": who has none given gets an equal part of what is left."""
    slots = [name.partition("=") for name in on.split(",")]
    try:
        given = [float(share.rstrip("%")) for _, equals, share in slots if equals]
    except ValueError:
        run.fail(f"--on {on}: a share is a percentage, as in desk,laptop=25%")
    rest = (100 - sum(given)) / max(1, len(slots) - len(given))
    if rest < 0:
        run.fail(f"--on {on}: these are more than 100 %")
    return {"slots": [name for name, _, _ in slots],
            "shares": [float(share.rstrip("%")) if equals else rest for _, equals, share in slots]}


class Model:
    """A model's numbers and weights, which stay in its file until they are used."""

    def __init__(self, path: pathlib.Path, on: str | None) -> None:
        """on: slots and shares, as `shoal matmul --on` has them; None: all slots alike."""
        self.file = shoal.File(path)
        facts = self.file.metadata()
        if facts.get("general.architecture") != "llama":
            run.fail(f"{path}: a model of the family {facts.get('general.architecture')}, not llama")
        self.heads = facts["llama.attention.head_count"]
        self.groups = facts["llama.attention.head_count_kv"]
        self.layers = facts["llama.block_count"]
        self.epsilon = facts["llama.attention.layer_norm_rms_epsilon"]
        self.theta = facts.get("llama.rope.freq_base", 10000.0)
        self.words: list[str] = facts["tokenizer.ggml.tokens"]
        self.place: dict[str, Any] = shares(on) if on else {}

    def tokens(self, text: str) -> list[int]:
        """The numbers of words, each of which has to be one token; a space before a word is written Ġ."""
        numbers = {word: i for i, word in enumerate(self.words)}
        found = ["Ġ" * (i > 0) + word for i, word in enumerate(text.split())]
        for word in found:
            if word not in numbers:
                run.fail(f"{word.removeprefix('Ġ')!r} is not one token of this model; use other words")
        if not found:
            run.fail("--text: there are no words")
        return [numbers[word] for word in found]

    def norm(self, x: shoal.Tensor, name: str) -> shoal.Tensor:
        normed: shoal.Tensor = shoal.nn.functional.rms_norm(x, (x.shape[-1],), self.file[name], self.epsilon)
        return normed

    def rows(self, x: shoal.Tensor, name: str) -> shoal.Tensor:
        """x W^T, each slot some of W's rows: some of the result's columns."""
        return x @ self.file[name].place(axis=0, **self.place).mT

    def columns(self, x: shoal.Tensor, name: str) -> shoal.Tensor:
        """x W^T, each slot some of W's columns: a summand of the result."""
        return x @ self.file[name].place(axis=1, **self.place).mT

    def attention(self, x: shoal.Tensor, layer: int) -> tuple[shoal.Tensor, shoal.Tensor]:
        """What the heads of a layer find for x [words, width]: [words, width], and how they look: [heads, words, words]."""
        count, each = len(x), self.heads // self.groups

        def part(name: str, heads: int) -> shoal.Tensor:
            return self.rows(x, f"blk.{layer}.attn_{name}.weight").reshape(count, heads, -1).transpose(0, 1)
        positions = shoal.arange(count, dtype="int32")
        queries, keys, values = part("q", self.heads), part("k", self.groups), part("v", self.groups)
        # A .gguf keeps the two of a rotated pair side by side.
        queries, keys = (t.rope(positions, theta=self.theta, interleaved=True) for t in (queries, keys))
        # A group of query heads shares one head of keys and values.
        keys, values = (t.repeat_interleave(each, 0) for t in (keys, values))
        scores = queries @ keys.mT / queries.shape[-1] ** 0.5
        looks = shoal.where(shoal.ones(count, count, dtype="bool").tril(), scores, -np.inf).softmax(-1)
        found = (looks @ values).transpose(0, 1).reshape(count, -1)
        return self.columns(found, f"blk.{layer}.attn_output.weight"), looks

    def forward(self, tokens: list[int], layer: int) -> tuple[Array, Array]:
        """The probabilities of the next word, and how the heads of a layer look: [heads, words, words]."""
        x = self.file["token_embd.weight"][shoal.tensor(tokens)]
        kept = None
        for i in range(self.layers):
            found, looks = self.attention(self.norm(x, f"blk.{i}.attn_norm.weight"), i)
            kept = looks if i == layer else kept
            x = x + found
            y = self.norm(x, f"blk.{i}.ffn_norm.weight")
            hidden = shoal.nn.functional.silu(self.rows(y, f"blk.{i}.ffn_gate.weight")) \
                * self.rows(y, f"blk.{i}.ffn_up.weight")
            x = x + self.columns(hidden, f"blk.{i}.ffn_down.weight")
        head = "output.weight" if "output.weight" in {name for name, *_ in self.file.tensors()} else "token_embd.weight"
        last = self.norm(x[-1:], "output_norm.weight")
        assert kept is not None
        return self.rows(last, head).softmax(-1)[0].numpy(), kept.numpy()


def table(words: list[str], looks: Array) -> str:
    """A line per word: how much each of the words up to it is looked at, in hundredths."""
    width = max(5, *(len(word) for word in words)) + 1
    lines = ["".join(f"{word:>{width}}" for word in ["", *words])]
    for i, word in enumerate(words):
        lines.append(f"{word:>{width}}" + "".join(f"{100 * share:{width}.0f}" for share in looks[i, :i + 1]))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", type=pathlib.Path, help="a .gguf of the Llama family")
    parser.add_argument("--text", default="The cat sat on the mat because it was tired and the mat was", help="some words")
    parser.add_argument("--layer", type=int, help="the layer whose attention is shown (the middle one)")
    parser.add_argument("--head", type=int, help="one of its heads (the mean of all)")
    parser.add_argument("--on", help="slots, and their shares if wanted: desk,laptop=25%% (all slots alike)")
    run.pool_options(parser)
    args = parser.parse_args()
    run.connect(args)
    model = Model(args.model, args.on)
    layer = model.layers // 2 if args.layer is None else args.layer
    for name, number, count in ("layer", layer, model.layers), ("head", args.head or 0, model.heads):
        if not 0 <= number < count:
            run.fail(f"--{name}: {number}; this model has 0 to {count - 1}")
    tokens = model.tokens(args.text)
    chances, looks = model.forward(tokens, layer)
    words = [model.words[t].removeprefix("Ġ") for t in tokens]
    shown = looks.mean(0) if args.head is None else looks[args.head]
    print(f"layer {layer}, {'mean of ' + str(model.heads) + ' heads' if args.head is None else 'head ' + str(args.head)}: "
          "how much a word looks at each word up to it, in hundredths")
    print(table(words, shown))
    best = np.argsort(chances)[:-6:-1]
    print("the next word: " + ", ".join(f"{model.words[i].removeprefix('Ġ')} {100 * chances[i]:.0f} %" for i in best))


if __name__ == "__main__":
    try:
        main()
    except shoal.ShoalError as error:
        run.fail(str(error))
