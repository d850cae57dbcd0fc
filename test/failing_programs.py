"""Random programs in which checks fail, beside a model: what each value is, or which failures it derives from.

All numbers are whole and below 13, so that every kind of value holds them exactly."""
import re

import numpy as np

import shoal

MODULUS = 13
ROWS = np.arange(8, dtype="f4").reshape(4, 2)
SHAPES = [[4], [4, 1], [0, 5], [1000], [7, 60], [300, 4], [70000]]


class Failed(frozenset):
    """The bad indices that a value derives from."""


def failures(*models):
    return frozenset().union(*(m for m in models if isinstance(m, Failed)))


def model_of(function, *models):
    """Of what is made of these: it fails where one of them does."""
    found = failures(*models)
    return Failed(found) if found else function(*[np.asarray(m) for m in models])


class Value:
    def __init__(self, name, tensor, model, size):
        self.name, self.tensor, self.model, self.size = name, tensor, model, size


class Program:
    """One, made step by step; `log` says how."""

    def __init__(self, rng):
        self.rng, self.log, self.values, self.functions = rng, [], [], {}
        self.bad, self.all_bad, self.rows = 100000, set(), shoal.tensor(ROWS)
        self.sizes = rng.choice(SHAPES)
        self.share = rng.choice([0.1, 0.3, 0.6])  # of the lookups, that fail
        for size in self.sizes:
            for kind in ("f4", "f8", "i8", "f4"):
                self.leaf(size, kind)

    def say(self, text):
        self.log.append(text)

    def put(self, text, tensor, model, size):
        value = Value(f"v{len(self.log)}", tensor, model, size)
        self.values.append(value)
        self.say(f"{value.name} = {text}" + (f"  # fails: {sorted(model)}" if isinstance(model, Failed) else ""))
        return value

    def leaf(self, size, kind):
        model = np.array([self.rng.randrange(MODULUS) for _ in range(size)], dtype="f8")
        tensor = shoal.tensor(model.astype(kind))
        return self.put(f"leaf {size} {kind}", tensor.place(axis=0) if self.rng.random() < 0.3 else tensor, model, size)

    def pick(self, size=None):
        known = [v for v in self.values if size is None or v.size == size]
        if not known:
            return self.leaf(self.rng.choice(self.sizes) if size is None else size, "f4")
        return self.rng.choice(known[-6:] if self.rng.random() < 0.5 else known)

    def index(self, size, limit):
        """An index of values that are not known before the program runs, its model, and what is bad about it."""
        value = self.pick(size)
        index, model = value.tensor.to(shoal.int64) % limit, model_of(lambda x: x % limit, value.model)
        if not size or self.rng.random() >= self.share:
            return index, model, None
        self.bad += 1
        bad, at = self.bad * self.rng.choice([1, 1, -1]), self.rng.randrange(size)
        self.all_bad.add(bad)
        hidden = shoal.ones(size, dtype=shoal.int64) * bad
        if self.rng.random() < 0.5:
            return shoal.where(shoal.arange(size) == at, hidden, index), model, bad
        index = index.clone()
        index[at] = hidden[at]
        return index, model, bad

    def look_up(self, text, function, expected, table=None, size=None):
        """function(index) of an index into a table of values, or into ROWS."""
        limit, model = (len(ROWS), ROWS) if table is None else (table.size, table.model)
        if not limit:
            return None
        size = self.rng.choice(self.sizes) if size is None else size
        index, of_index, bad = self.index(size, limit)
        return self.put(f"{text}, bad {bad}", function(index), self.checked(model, of_index, bad, expected), size)

    def checked(self, table, index, bad, expected):
        found = failures(table, index) | ({bad} if bad else set())
        return Failed(found) if found else expected(table, index.astype(int))

    # ---- steps ----

    def do_two(self):
        x = self.pick()
        y = self.pick(x.size)
        text, tensor, function = self.rng.choice([
            ("add", lambda p, q: (p + q) % MODULUS, lambda p, q: (p + q) % MODULUS),
            ("sub", lambda p, q: (p - q) % MODULUS, lambda p, q: (p - q) % MODULUS),
            ("mul", lambda p, q: (p * q) % MODULUS, lambda p, q: (p * q) % MODULUS),
            ("where", lambda p, q: shoal.where(p > q, p, q + 1) % MODULUS, lambda p, q: np.where(p > q, p, q + 1) % MODULUS),
            ("both", lambda p, q: ((p > 3) & (q > 3)).to(shoal.int64), lambda p, q: ((p > 3) & (q > 3)) * 1.0),
        ])
        self.put(f"{text} {x.name} {y.name}", tensor(x.tensor, y.tensor), model_of(function, x.model, y.model), x.size)

    def do_one(self):
        x = self.pick()
        text, tensor, function = self.rng.choice([
            ("flip", lambda p: p.flip(0), lambda p: p[::-1].copy()),
            ("roll", lambda p: p.roll(1, 0), lambda p: np.roll(p, 1)),
            ("sort", lambda p: p.sort(0)[0], np.sort),
            ("inc", lambda p: (p + 1) % MODULUS, lambda p: (p + 1) % MODULUS),
            ("half", lambda p: (p.to(shoal.bfloat16) + 1).to(shoal.float32) % MODULUS, lambda p: (p + 1) % MODULUS),
            ("place", lambda p: p.place(axis=0) if p.numel() else p, lambda p: p),
        ] + [("cumsum", lambda p: p.cumsum(0) % MODULUS, lambda p: np.cumsum(p) % MODULUS)] * (x.size < 5000))
        self.put(f"{text} {x.name}", tensor(x.tensor), model_of(function, x.model), x.size)

    def do_again(self):
        x = self.pick()
        x.tensor, x.model = (x.tensor + 1) % MODULUS, model_of(lambda p: (p + 1) % MODULUS, x.model)
        self.say(f"{x.name} = {x.name} + 1")

    def do_total(self):
        x, y = self.pick(), self.pick()
        self.put(f"{x.name} + sum {y.name}", (x.tensor + (y.tensor.sum() % MODULUS)) % MODULUS,
                 model_of(lambda p, q: (p + q.sum() % MODULUS) % MODULUS, x.model, y.model), x.size)

    def do_lookup(self):
        x = self.pick()
        text, function = self.rng.choice([("lookup", lambda i: x.tensor[i]),
                                          ("index_select", lambda i: shoal.index_select(x.tensor, 0, i))])
        self.look_up(f"{text} {x.name}", function, lambda table, i: table[i], x)

    def do_gather(self):
        x = self.pick()
        self.look_up(f"gather {x.name}", lambda i: shoal.gather(x.tensor, 0, i), lambda table, i: table[i], x, x.size)

    def do_rows(self):
        text, function, expected = self.rng.choice([
            ("rows", lambda i: self.rows[i].sum(1), lambda table, i: table[i].sum(1)),
            ("embed", lambda i: shoal.nn.functional.embedding(i, self.rows)[:, 1], lambda table, i: table[i][:, 1])])
        for _ in range(self.rng.choice([1, 1, 1, 5])):  # several checks on one line
            self.look_up(text, function, expected)

    def do_scatter(self):
        def add(table, i):
            out = np.zeros_like(table)
            np.add.at(out, i, table)
            return out % MODULUS

        x = self.pick()
        self.look_up(f"index_add {x.name}", lambda i: shoal.zeros_like(x.tensor).index_add(0, i, x.tensor) % MODULUS, add,
                     x, x.size)

    def do_assign(self):
        x = self.pick()
        if not x.size or x.size > 5000:
            return
        index, of_index, bad = self.index(x.size, x.size)
        x.tensor[index] = 3

        def assigned(table, i):
            out = table.copy()
            out[i] = 3
            return out

        x.model = self.checked(x.model, of_index, bad, assigned)
        self.say(f"{x.name}[index] = 3, bad {bad}")

    def do_in_place(self):
        x = self.pick()
        y = self.pick(x.size)
        if x.tensor.dtype != y.tensor.dtype or x is y:
            return
        if x.size > 1 and self.rng.random() < 0.5:
            end = self.rng.randrange(1, x.size)
            x.tensor[:end] = y.tensor[:end]
            x.model = model_of(lambda p, q: np.concatenate([q[:end], p[end:]]), x.model, y.model)
            self.say(f"{x.name}[:{end}] = {y.name}[:{end}]")
        else:
            x.tensor += y.tensor
            x.tensor %= MODULUS
            x.model = model_of(lambda p, q: (p + q) % MODULUS, x.model, y.model)
            self.say(f"{x.name} += {y.name}")

    def do_view(self):
        x = self.pick()
        if x.size < 2 or x.size % 2:
            return
        view, half = x.tensor.reshape(2, -1)[1], x.size // 2
        view += 1
        x.tensor %= MODULUS
        x.model = model_of(lambda p: np.concatenate([p[:half], p[half:] + 1]) % MODULUS, x.model)
        self.say(f"{x.name}.reshape(2, -1)[1] += 1")

    def function(self, kind, replay, donate):
        key = kind, replay, donate
        if key not in self.functions:
            def pair(i, x):
                return self.rows[i].sum(1), (x * 2 + 1) % MODULUS

            def own(i, x):
                return x[i], (x + 1) % MODULUS

            function = pair if kind == "pair" else own
            self.functions[key] = shoal.compile(function, replay=True, donate=donate) if replay else shoal.compile(function)
        return self.functions[key]

    def do_function(self):
        kind, replay = self.rng.choice(["pair", "own"]), self.rng.random() < 0.7
        x = self.pick()
        donate = 1 if replay and self.rng.random() < 0.4 else ()
        if not x.size:
            return
        for _ in range(self.rng.randrange(1, 4)):
            index, of_index, bad = self.index(x.size, len(ROWS) if kind == "pair" else x.size)
            first, second = self.function(kind, replay, donate)(index, x.tensor)
            if donate:
                self.values = [v for v in self.values if v is not x]
            text = f"{kind}{'' if replay else ', not replayed'}{', donated' if donate else ''} {x.name}, bad {bad}"
            if kind == "pair":
                found = self.checked(ROWS, of_index, bad, lambda table, i: table[i].sum(1))
                other = model_of(lambda p: (p * 2 + 1) % MODULUS, x.model)
            else:
                found = self.checked(x.model, of_index, bad, lambda table, i: table[i])
                other = model_of(lambda p: (p + 1) % MODULUS, x.model)
            self.put(text, first, found, x.size)
            x = self.put(text, second, other, x.size)

    def do_loop(self):
        x = self.pick(self.rng.choice(self.sizes))
        if x.tensor.dtype != shoal.float32 or not x.size:
            return
        if "loop" not in self.functions:
            @shoal.compile(replay=True)
            def step(i, x):
                return i + 1, (x + self.rows[i][:, 0]) % MODULUS

            self.functions["loop"] = step
        begin, rounds = self.rng.randrange(3), self.rng.randrange(1, 7)
        loop = self.functions["loop"].repeat(rounds, shoal.ones(x.size, dtype=shoal.int64) * begin, x.tensor,
                                             carry={0: 0, 1: 1})
        added = sum(2 * i for i in range(begin, begin + rounds))
        model = model_of(lambda p: (p + added) % MODULUS, x.model)
        if begin + rounds > len(ROWS):
            self.all_bad.add(len(ROWS))
            model = Failed(failures(model) | {len(ROWS)})
        self.put(f"loop {x.name} from {begin}, {rounds} rounds", loop.result[1], model, x.size)

    def do_start(self):
        self.pick().tensor.start()
        self.say("start")

    def do_item(self):
        number = self.rng.randrange(100)
        assert (shoal.ones(2) * number).sum().item() == 2 * number

    def do_read(self):
        self.check(self.pick())

    def do_drop(self):
        if len(self.values) > 4:
            self.say(f"del {self.values.pop(self.rng.randrange(len(self.values))).name}")

    def do_sync(self):
        """It raises what has failed, once; of what was let go of as well."""
        self.say("sync")
        try:
            shoal.sync()
        except IndexError as error:
            assert int(re.search(r"index (-?\d+) is out of range", str(error))[1]) in self.all_bad, str(error)
        shoal.sync()

    # ---- what comes of it ----

    def check(self, value):
        self.say(f"read {value.name}")
        try:
            found = value.tensor.numpy().astype("f8").reshape(-1)
        except IndexError as error:
            text = str(error)
            assert isinstance(value.model, Failed), f"{value.name} is well, and failed: {text}"
            index = re.search(r"index (-?\d+) is out of range", text)
            assert index and int(index[1]) in value.model, f"{value.name} fails of {sorted(value.model)}: {text}"
            assert text.count("failing_programs.py:") == 1, f"{value.name} does not name its line: {text}"
            return
        if value.size:
            assert not isinstance(value.model, Failed), f"{value.name} fails, and has a value: {found[:10]}"
        assert not value.size or np.array_equal(found, value.model), f"{value.name}: {found[:10]}, not {value.model[:10]}"

    STEPS = ("two two two one one again total lookup lookup lookup gather rows rows scatter assign in_place in_place view "
             "function function loop start item read read drop sync").split()

    def step(self):
        getattr(self, "do_" + self.rng.choice(self.STEPS))()

    def end(self):
        values = self.values[:]
        self.rng.shuffle(values)
        for value in values:
            for _ in range(self.rng.choice([0, 1, 1, 1, 1, 1, 2])):
                self.check(value)
        self.do_sync()
