"""Programs of the hunt in Python: ways.py WAY, which the hunt's command starts and talks to.

It is told of a program by a line of JSON (the graph, as test/conformance/describe.c writes it, and the
seed), then the bytes of all values, as the reference computes them, and of the weights of results. It
answers with lines: "given NUMBERS", the values that were not computed, but taken as they came; "results
HOW", the bytes of all results following, which the command compares; "wrong WHY"; "none WHY" where there
is nothing to compare; and "done".
"""
import contextlib
import json
import os
import pathlib
import random
import sys
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "conformance"), str(HERE.parent / "python")]

import numpy as np  # noqa: E402

import golden  # noqa: E402
from spell import Spelled  # noqa: E402

# Of slope 0. A graph's gradient passes nothing on; PyTorch and the package pass zeros, which times NaN are NaN.
FLAT = ("floor", "ceil", "sign", "round_nearest_even", "round_nearest_afz")


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

    def kinds(self, which):
        """Element types and shapes of values."""
        return [self.graph["values"][v] for v in which]

    @property
    def inputs(self):
        """The values of the inputs."""
        return [self.values[v] for v in self.graph["inputs"]]

    def flat(self):
        """The values that no gradient of the reference passes through."""
        return {v for node in self.graph["nodes"] if node["op"] in FLAT for v in node["outputs"]}

    def chooses(self):
        """Whether the largest or the smallest of elements is taken."""
        return any(inner["op"] in ("maximum", "minimum") for node in self.graph["nodes"]
                   for body in node["regions"] for inner in body["nodes"])


class Answer:
    """What goes back."""

    def __init__(self, stream):
        self.stream = stream

    def _line(self, text):
        self.stream.write(" ".join(str(text).split("\n")).encode()[:2000] + b"\n")

    def results(self, how, arrays, kinds):
        """Arrays, in golden.py's form, that the command is to compare."""
        for i, (array, kind) in enumerate(zip(arrays, kinds, strict=True)):
            if list(np.shape(array)) != kind[1]:
                self.wrong(f"{how}: output {i} has the shape {list(np.shape(array))}, not {kind[1]}")
                return
        self._line(f"results {how}")
        for array, (name, _) in zip(arrays, kinds):
            self.stream.write(golden.encode(array, name))

    def given(self, values):
        """The numbers of values that what follows takes as they came."""
        self._line("given " + " ".join(map(str, values)))

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
    made = golden.run(program.graph, program.inputs)
    answer.results("NumPy", made, program.kinds(program.graph["outputs"]))


def raw(array, dtype):
    """An array in golden.py's form as NumPy has it; bfloat16, which it has not, stays float32."""
    return array.astype(np.float16) if dtype == "float16" else array


# ---- PyTorch ----

@contextlib.contextmanager
def silence():
    """Debian's PyTorch says at length that it was built for an older NumPy; tensors go by DLPack here."""
    was, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(was, 2)
        os.close(was)
        os.close(nothing)


class Torch:
    """Programs under PyTorch, line by line: what it has not, or not for these types, is given."""

    def __init__(self):
        with silence():
            import peer  # PyTorch, or Debian's
        self.peer, self.torch = peer, peer.torch
        # With it, gelu's gradient is of other memory where the result's is transposed (1.13).
        self.torch.backends.mkldnn.set_flags(False)
        warnings.simplefilter("ignore")

    def tensor(self, array, dtype):
        """An array as a tensor; an exception where PyTorch has no such type."""
        return self.peer.torch_of(raw(array, dtype)).to(getattr(self.torch, dtype))

    def numpy(self, x):
        """The elements in golden.py's form."""
        return self.peer.numpy_of(x.float() if x.dtype in (self.torch.float16, self.torch.bfloat16) else x)

    def offer(self, names, v, program):
        """Puts the reference's value in the place of one; nothing where the type is unknown."""
        dtype = program.graph["values"][v][0]
        if hasattr(self.torch, dtype):
            names[f"v{v}"] = self.tensor(program.values[v], dtype)

    def run(self, program, leaves=()):
        """All values by their names, and the numbers of those that are given."""
        spelled = Spelled(program.graph, program.values, "torch", program.seed)
        names = {"t": self.torch, "F": self.torch.nn.functional, "tensor": self.tensor}
        names |= {f"c{v}": program.values[v] for v in spelled.constants}
        given = list(spelled.given)
        flat = program.flat()
        for v in spelled.arguments:
            self.offer(names, v, program)
            if v in leaves:
                names[f"v{v}"].requires_grad_()
        for lines, results in spelled.blocks:
            try:
                exec("\n".join(lines), names)
            except (RuntimeError, NameError, IndexError, TypeError, AttributeError, NotImplementedError):
                given += results
                for v in results:
                    names.pop(f"v{v}", None)
                    self.offer(names, v, program)
            for v in results:
                dtype, shape = program.graph["values"][v]
                x = names.get(f"v{v}")
                if x is not None and (x.dtype != getattr(self.torch, dtype) or list(x.shape) != shape):
                    raise ValueError(f"{lines} gives {x.dtype}{list(x.shape)}, not {dtype}{shape}")
                if x is not None and v in flat:
                    names[f"v{v}"] = x.detach()
        return names, given

    def values(self, program, answer):
        """The values of the results."""
        names, given = self.run(program)
        outputs = program.graph["outputs"]
        answer.given(given)
        made = [self.numpy(names[f"v{v}"]) if f"v{v}" in names else program.values[v] for v in outputs]
        answer.results("PyTorch", made, program.kinds(outputs))

    def hides(self, node, given, names, program):
        """Whether a slope goes through a node that PyTorch has not computed."""
        kinds = program.graph["values"]
        return any("float" in kinds[v][0] for v in given & set(node["outputs"])) and \
            any(getattr(names.get(f"v{v}"), "requires_grad", False) for v in node["inputs"])

    def gradients(self, program, answer):
        """The gradients of the results, each times its weights."""
        leaves = [program.graph["inputs"][i] for i in program.of]
        names, given = self.run(program, leaves)
        ops = {node["op"] for node in program.graph["nodes"] if self.hides(node, set(given), names, program)}
        if ops:
            answer.none(f"PyTorch has no {', '.join(sorted(ops))} like that")
            return
        outputs = [v for v in program.graph["outputs"] if "float" in program.graph["values"][v][0]]
        pairs = [(names[f"v{v}"], self.tensor(w, program.graph["values"][v][0]))
                 for v, w in zip(outputs, program.weights, strict=True) if names[f"v{v}"].requires_grad]
        try:
            if pairs:
                self.torch.autograd.backward(*zip(*pairs))
        except RuntimeError as lack:  # of what backward takes: some convolutions, strides
            answer.none(f"PyTorch: {lack}")
            return
        found = [names[f"v{v}"] for v in leaves]
        made = [self.numpy(x.grad) if x.grad is not None else np.zeros(x.shape) for x in found]
        if program.chooses() and any(np.isnan(x).any() for x in made):
            answer.none("PyTorch passes NaN on to elements of slope 0")
            return
        answer.results("PyTorch", made, program.kinds(leaves))


# ---- the package ----

class Package:
    """Programs as users of the package write them, on one worker or on three."""

    def __init__(self):
        import shoal
        self.shoal = shoal
        self.sessions = {n: shoal.Session(hub="embedded", workers=n, threads=n, timeout_ms=50000)
                         for n in (1, 3)}

    def begin(self, program, turn):
        """The program as text, and what is left to chance; on some number of workers."""
        self.chosen = random.Random(program.seed * 64 + turn)
        self.workers = self.chosen.choice((1, 3))
        self.shoal.pool._default = self.sessions[self.workers]
        return Spelled(program.graph, program.values, "shoal", program.seed * 64 + turn)

    def tensor(self, array, dtype):
        """An array as a tensor."""
        return self.shoal.tensor(raw(array, dtype)).astype(dtype)

    def compiled(self, program, spelled, often=False, spoils=False, flat=()):
        """The function `program`, with values placed at random and, often, some read on the way.

        spoils: some that nothing reads any more are changed in place, which nothing else may notice;
        flat: values that no gradient passes through."""
        lines = spelled.function()
        body = lines[1:-1]
        at = [(len(block), results, unread) for (block, results), unread in zip(spelled.blocks, spelled.unread)]
        lines, end = lines[:1], lines[-1]
        for v in spelled.arguments:
            lines += self.placing(program, v)
        for count, results, unread in at:
            lines, body = lines + body[:count], body[count:]
            if spoils:
                lines += [f"    v{v}.fill_(1)" for v in dict.fromkeys(unread) if self.chosen.random() < 0.5]
            lines += [f"    v{v} = v{v}.detach()" for v in results if v in flat]
            for v in results:
                lines += self.placing(program, v)
                if often and self.chosen.random() < 0.3:
                    lines.append("    " + self.chosen.choice((f"v{v}.numpy()", f"v{v}.start()", "t.sync()")))
        shoal = self.shoal
        names = {"t": shoal, "F": shoal.functional, "tensor": self.tensor,
                 "apply": lambda op, n, *operands, **attrs: shoal._shoal.apply(shoal.session(), op, operands,
                                                                              attrs, n)}
        names |= {f"c{v}": program.values[v] for v in spelled.constants}
        self.text = "\n".join(lines + [end])
        exec(self.text, names)
        return names["program"]

    def placing(self, program, v):
        """A line that places a value, or none."""
        shape = program.graph["values"][v][1]
        if self.workers == 1 or self.chosen.random() > 0.15:
            return []
        if not shape or self.chosen.random() < 0.2:
            return [f"    v{v} = v{v}.replicate()"]
        shares = [self.chosen.choice((0, 1, 1, 2, 3)) for _ in range(self.workers)]
        shares[self.chosen.randrange(self.workers)] = 1
        return [f"    v{v} = v{v}.place(axis={self.chosen.randrange(len(shape))}, shares={shares})"]

    def operands(self, program, spelled, turned=False):
        """The arguments; turned: others of the same types, their elements in reverse order."""
        arrays = [program.values[v] for v in spelled.arguments]
        if turned:
            arrays = [np.flip(x).copy() for x in arrays]
        return [self.tensor(x, program.graph["values"][v][0]) for x, v in zip(arrays, spelled.arguments)]

    def check(self, answer, how, tensors, kinds):
        """Reads results, in any order, and answers."""
        for i, (x, (dtype, shape)) in enumerate(zip(tensors, kinds, strict=True)):
            if x.dtype != dtype or list(x.shape) != shape:
                answer.wrong(f"{how}: output {i} is {x.dtype}{list(x.shape)}, not {dtype}{shape}")
                return
        order = list(range(len(tensors)))
        self.chosen.shuffle(order)
        made = {i: tensors[i].numpy() for i in order}
        answer.results(f"{self.workers} workers, {how}", [made[i] for i in sorted(order)], kinds)

    def values(self, program, answer):
        """The values of the results: recorded, read on the way, again, replayed."""
        kinds = program.kinds(program.graph["outputs"])
        for turn in range(program.tries + 1):
            spelled = self.begin(program, turn)
            how = self.chosen.choice(("read at the end", "read on the way", "the second time", "replayed", "repeated"))
            function = self.compiled(program, spelled, how == "read on the way", True)
            if how == "replayed":
                made = self.replayed(program, spelled, function)
            elif how == "repeated":
                made = self.repeated(program, spelled, function)
            else:
                if how == "the second time":
                    self.read(function(*self.operands(program, spelled, True)))
                made = function(*self.operands(program, spelled))
            answer.given(spelled.given)
            self.check(answer, how, made, kinds)
            self.forget()

    def read(self, tensors):
        """Reads results of operands that are turned. Labels may have no class there, which is an error."""
        for x in tensors:
            with self.astray():
                x.numpy()

    def forget(self):
        """A later sync would tell of labels that have no class."""
        with self.astray():
            self.shoal.sync()

    def astray(self):
        """What labels without a class raise is left out of account."""
        return contextlib.suppress(*[self.shoal.OutOfRangeError] * (".cross_entropy(" in self.text))

    def replayed(self, program, spelled, function):
        """The second replay with the number 1 of a function that is recorded for 2 before, of operands that, now
        and then, are donated. The number may be a tensor's sum, which has another shape for each number."""
        grows = self.chosen.random() < 0.5

        def numbered(operands, number):
            return [x if x.dtype == "bool" else x * (number.sum().astype(x.dtype) if grows else number)
                    for x in function(*operands)]
        flags = any(dtype == "bool" for dtype, _ in program.kinds(program.graph["outputs"]))
        gives = not flags and self.chosen.random() < 0.5  # a flag may be an operand itself, which stays
        replays = self.shoal.compile(numbered, replay=True, donate=(0,) if gives else ())
        calls = [(self.operands(program, spelled, True), number) for number in (2, 2, 2, 1, 1, 1)]
        calls.append((self.operands(program, spelled), 1))
        late = self.chosen.random() < 0.5
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            made = []
            for operands, number in calls:
                made.append(replays(operands, self.shoal.tensor([1] * number) if grows else number))
                if not late and len(made) < len(calls):
                    self.read(made[-1])
        return made[-1]

    def repeated(self, program, spelled, function):
        """Of rounds on the workers the one that is fed with the operands; the others have turned ones."""
        def copies(*operands):
            return [x.clone() for x in function(*operands)]
        replays, n = self.shoal.compile(copies, replay=True), self.chosen.randint(1, 3)
        which, kinds = self.chosen.randrange(n), program.kinds(program.graph["outputs"])
        turns = ".cross_entropy(" not in self.text  # a label without a class ends all rounds
        rounds = [self.operands(program, spelled, turns and at != which) for at in range(n)]
        fed = [self.shoal.stack(operands) for operands in zip(*rounds)]
        result = which == n - 1 and self.chosen.random() < 0.5  # that of the last round; else what it brings
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                self.read(replays(*self.operands(program, spelled)))
            loop = replays.repeat(n, *fed, feed=range(len(fed)), stream=() if result else range(len(kinds)))
            brought = list(loop)
        if result:
            return loop.result
        return [self.tensor(x, dtype) for x, (dtype, _) in zip(brought[which], kinds)]

    def gradients(self, program, answer):
        """The gradients of the results, each times its weights."""
        graph = program.graph
        outputs = [v for v in graph["outputs"] if "float" in graph["values"][v][0]]
        leaves = [graph["inputs"][i] for i in program.of]
        for turn in range(program.tries + 1):
            spelled = self.begin(program, turn)
            if spelled.given:
                ops = {node["op"] for node in graph["nodes"] if set(node["outputs"]) & set(spelled.given)}
                answer.none(f"there is no Python for {', '.join(sorted(ops))} like that")
                return
            function = self.compiled(program, spelled, flat=program.flat())
            weights = [self.tensor(w, graph["values"][v][0]) for v, w in zip(outputs, program.weights, strict=True)]
            operands = dict(zip(spelled.arguments, self.operands(program, spelled)))
            how = self.chosen.choice(("backward", "backward of a sum", "grad", "grad, replayed"))
            asked = self.asking(function, leaves, outputs, graph, how)
            if how == "grad, replayed":
                asked = self.shoal.compile(asked, replay=True)
                for _ in range(3):
                    asked(self.operands(program, spelled, True), weights)
            found = asked(list(operands.values()), weights)
            made = [self.tensor(np.zeros(graph["values"][v][1]), graph["values"][v][0]) if x is None else x
                    for v, x in zip(leaves, found)]
            self.check(answer, how, made, program.kinds(leaves))
            self.forget()

    def asking(self, function, leaves, outputs, graph, how):
        """A function of operands and weights that gives gradients, or None where there is none."""
        shoal, at = self.shoal, [graph["inputs"].index(v) for v in leaves]

        def asked(operands, weights):
            operands = [x.detach().requires_grad_() if i in at else x for i, x in enumerate(operands)]
            wanted = [operands[i] for i in at]
            made = dict(zip(range(len(graph["outputs"])), function(*operands)))
            floats = [made[i] for i, v in enumerate(graph["outputs"]) if v in outputs]
            pairs = [(x, w) for x, w in zip(floats, weights) if x.requires_grad]
            if not pairs:
                return [None] * len(wanted)
            if how.startswith("grad"):
                return shoal.grad([x for x, _ in pairs], wanted, [w for _, w in pairs], allow_unused=True)
            if how == "backward":
                shoal.backward(*zip(*pairs))
            else:
                total = (pairs[0][0] * pairs[0][1]).sum()
                for x, w in pairs[1:]:
                    total = total + (x * w).sum()
                total.backward()
            return [x.grad for x in wanted]
        return asked


WAYS = {"numpy": lambda: by_numpy, "torch": lambda: Torch().values,
        "torch_gradient": lambda: Torch().gradients, "python": lambda: Package().values,
        "python_gradient": lambda: Package().gradients}


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
