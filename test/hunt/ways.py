"""Programs of the hunt in Python: ways.py WAY, which the hunt's command starts and talks to.

It is told of a program by a line of JSON (the graph, as test/conformance/describe.c writes it, and the
seed), then the bytes of all values, as the reference computes them, and of the weights of results. It
answers with lines: "results HOW", the bytes of all results following, which the command compares;
"wrong WHY"; "none WHY" where there is nothing to compare; and "done".
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "conformance")]

import numpy as np  # noqa: E402

import golden  # noqa: E402


class Program:
    """What was told: the graph, its values, and weights of its results."""

    def __init__(self, stream):
        line = stream.readline()
        if not line:
            sys.exit(0)
        told = json.loads(line)
        self.seed, self.tries, self.graph = told["seed"], told["tries"], told["graph"]
        self.of = told["of"]  # the numbers of the inputs for which gradients are wanted
        kinds = self.graph["values"]
        self.values = [golden.decode(stream.read(golden.bytes_of(kind)), kind) for kind in kinds]
        outputs = [v for v in self.graph["outputs"] if "float" in kinds[v][0]]
        self.weights = [golden.decode(stream.read(golden.bytes_of(kinds[v])), kinds[v])
                        for v in outputs[:told["weights"]]]

    @property
    def inputs(self):
        """The values of the inputs."""
        return [self.values[v] for v in self.graph["inputs"]]


class Answer:
    """What goes back."""

    def __init__(self, stream):
        self.stream = stream

    def _line(self, text):
        self.stream.write(" ".join(str(text).split("\n")).encode()[:400] + b"\n")

    def results(self, how, arrays, kinds):
        """Arrays, in golden.py's form, that the command is to compare."""
        for i, (array, kind) in enumerate(zip(arrays, kinds, strict=True)):
            if list(np.shape(array)) != kind[1]:
                self.wrong(f"{how}: output {i} has the shape {list(np.shape(array))}, not {kind[1]}")
                return
        self._line(f"results {how}")
        for array, (name, _) in zip(arrays, kinds):
            self.stream.write(golden.encode(array, name))

    def wrong(self, why):
        """A failure that is no number."""
        self._line(f"wrong {why}")

    def none(self, why):
        """There is nothing to compare."""
        self._line(f"none {why}")

    def done(self):
        """The end of the answer."""
        self._line("done")
        self.stream.flush()


def by_numpy(program, answer):
    """Evaluated node by node, as golden.py does it for the conformance suite."""
    graph = program.graph
    made = golden.run(graph, program.inputs)
    answer.results("NumPy", made, [graph["values"][v] for v in graph["outputs"]])


WAYS = {"numpy": lambda: by_numpy}


def main():
    answer = Answer(sys.stdout.buffer)
    sys.stdout = sys.stderr  # what is printed is no answer
    np.seterr(all="ignore")
    try:
        way = WAYS[sys.argv[1]]()
    except ImportError as missing:
        answer.stream.write(f"SKIP: {missing}\n".encode())
        answer.stream.flush()
        sys.exit(77)
    answer.stream.write(b"ready\n")
    answer.stream.flush()
    while True:
        program = Program(sys.stdin.buffer)
        try:
            way(program, answer)
        except Exception as error:  # a failure of the program, which is shrunk
            answer.wrong(f"{type(error).__name__}: {error}")
        answer.done()


if __name__ == "__main__":
    main()
