"""Loops: rounds of a compiled function that follow each other on the workers, by one message to each."""
import collections
import warnings

from .errors import ShoalError
from .nested import TensorType, collected, mapped
from .tensor import Tensor
from .words import invalid


_MOST = 10 ** 9  # rounds


class Unrepeatable(Exception):
    """Why the rounds of a function have to be called one by one."""


def _parts(result):
    """The numbered results of a function."""
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _typed(value):
    return mapped(value, lambda item: TensorType.of(item) if isinstance(item, Tensor)
                  else item)


def _text(types):
    return ", ".join(f"{str(kind.dtype).removeprefix('shoal.')}{list(kind.shape)}" for kind in types) or "no tensor"


def array_like(tensor):
    import numpy
    return numpy.empty(tensor.shape, "uint16" if tensor.dtype == "bfloat16" else tensor.dtype)


def numbers_of(array, dtype):
    """As `Tensor.numpy` gives them: bfloat16 as float32."""
    import numpy
    return (array.astype("uint32") << 16).view(numpy.float32) if dtype == "bfloat16" else array


def _read(parts):
    return [mapped(part, lambda item: item.numpy() if isinstance(item, Tensor) else item) for part in parts]


def _listed(numbers):
    return [numbers] if isinstance(numbers, (int, str)) else list(numbers)


def _own(item):
    return item.clone() if isinstance(item, Tensor) and item._from_file else item


class Loop:
    """What `repeat` of a compiled function returns. Iterating brings each round's results.

    The first rounds are calls, until the function is recorded; the others are the workers'. What
    cannot be replayed is called in every round, with a warning.
    """

    def __init__(self, function, n, args, carry, until, stream, feed):
        self._function, self._n, self._args = function, n, args
        self._carry, self._until, self._feed = dict(carry), until, _listed(feed)
        self._single = isinstance(stream, int)
        self._stream = None if stream is None else _listed(stream)
        self._loop = self._result = self._take = self._failure = None
        self._called, self._over, self._by_hand = 0, n == 0, False
        self._ready = collections.deque()  # what rounds that were called have brought
        self._check()
        for i in self._carry.values():  # what is carried is written over, which a file is not
            self._args[i] = mapped(self._args[i], _own)
        try:
            while not self._over and self._loop is None and self._called < 2:
                self._advance()
        except ShoalError as error:
            if not self._ready:
                raise
            self._failure = error  # told when what came before it has been taken

    def _check(self):
        if not isinstance(self._n, int) or not 0 <= self._n <= _MOST:
            raise invalid(f"repeat: {self._n!r} rounds; a number is needed, from 0 to {_MOST}")
        results = [*self._carry, *(self._stream or ()), *([] if self._until is None else [self._until])]
        for i in (*results, *self._carry.values(), *self._feed):
            if not isinstance(i, int):
                raise invalid(f"repeat: {i!r} is carried, fed, streamed, or ends it; arguments and results are named "
                              "by their numbers, from 0")
        for i in (*self._carry.values(), *self._feed):
            if not 0 <= i < len(self._args):
                raise invalid(f"repeat: argument {i} is carried or fed; there are {len(self._args)}")
        both = {*self._carry.values()} & {*self._feed}
        if both or len({*self._carry.values()}) < len(self._carry):
            raise invalid("repeat: an argument is carried, and carried again or fed")
        for i in self._feed:
            if not (tensors := collected(self._args[i], Tensor)):
                raise invalid(f"repeat: argument {i} is fed, and holds no tensor or array that has an element for "
                              f"each round, but {type(self._args[i]).__name__}")
            for tensor in tensors:
                if not tensor.shape or tensor.shape[0] < self._n:
                    raise invalid(f"repeat: argument {i} is fed from {tensor._text()}; {self._n} rounds need as "
                                  "many elements, along the first axis")

    def _check_numbers(self, parts):
        numbers = [*self._carry, *(self._stream or ()), *([] if self._until is None else [self._until])]
        for i in numbers:
            if not 0 <= i < len(parts):
                raise invalid(f"repeat: result {i} is carried, streamed, or ends it; there are {len(parts)}")
        if self._stream is None:
            self._stream = [i for i in range(len(parts)) if i not in self._carry and i != self._until]

    def _check_results(self, parts):
        """Whether results of such types can be arguments of the next round, and end it."""
        for i, k in self._carry.items():
            new, old = collected(parts[i], TensorType), collected(_typed(self._args[k]), TensorType)
            if new != old:
                raise invalid(f"repeat: result {i} ({_text(new)}) cannot be argument {k} ({_text(old)}) of the next "
                              "round: they have to have one shape and dtype")
        if self._until is not None and parts[self._until] != TensorType((), "bool"):
            raise invalid(f"repeat: result {self._until} cannot say whether to stop; that takes a bool of shape ()")

    # ---- the rounds ----

    def _fed(self, r):
        return [mapped(value, lambda item: item[r] if isinstance(item, Tensor) else item)
                if i in self._feed else value for i, value in enumerate(self._args)]

    def _advance(self):
        """One round by a call, or all that are left on the workers."""
        args = self._fed(self._called)
        program = None if self._by_hand else self._function._program(args)
        if program is not None:
            try:
                self._start(*program)
                return
            except Unrepeatable as why:
                self._by_hand = True
                warnings.warn(f"{self._function.__qualname__} is called in each round: {why}", stacklevel=4)
        self._result = self._function(*args)
        parts = _parts(self._result)
        if not self._called:
            self._check_numbers(parts)
            self._check_results(_parts(_typed(self._result)))
        self._called += 1
        self._carry_on(parts)
        if self._stream or self._until is not None:
            brought = [parts[i] for i in self._stream]
            # What the next round may write over is read before.
            self._ready.append(_read(brought) if self._function._donate else brought)
        stops = self._until is not None and bool(parts[self._until].item())
        self._over = stops or self._called == self._n

    def _carry_on(self, parts):
        for i, k in self._carry.items():
            self._args[k] = parts[i]

    def _start(self, program, arguments):
        """All rounds that are left, as a loop of the workers."""
        if not self._called:
            self._check_numbers(_parts(program.result))
            self._check_results(_parts(program.typed(arguments)))
        self._ready = collections.deque(_read(round) for round in self._ready)  # what comes later is behind the loop
        given = []
        for i, value in enumerate(self._args):  # of what is fed, element 0 is that of the next round
            rest = self._called if i in self._feed else 0
            given += [tensor[rest:] if rest else tensor for tensor in collected(value, Tensor)]
        carried, fed = self._numbers()
        self._loop, outputs, self._result, places = program.repeat(
            self._n - self._called, given, arguments, carried, fed, self._until, self._stream)
        self._take = [[(outputs[at], array_like(outputs[at])) for at in numbers] for numbers in places]
        self._carry_on(_parts(self._result))

    def _numbers(self):
        """(result, place in it, argument) of each tensor that is carried, and the arguments that are fed."""
        first, n = [], 0
        for value in self._args:
            first.append(n)
            n += len(collected(value, Tensor))
        count = [len(collected(value, Tensor)) for value in self._args]
        carried = [(i, j, first[k] + j) for i, k in self._carry.items() for j in range(count[k])]
        return carried, [first[i] + j for i in self._feed for j in range(count[i])]

    # ---- what they bring ----

    def _next(self):
        """What the next round brings, or None at the end."""
        while not self._ready and not self._over and self._loop is None and not self._failure:
            self._advance()
        if self._ready:
            return _read(self._ready.popleft())
        if self._failure:
            self._over = True
            raise self._failure
        if self._loop is None or self._over:
            return None
        if not self._loop.next([array for part in self._take for _, array in part]):
            self._over = True
            return None
        parts = _parts(self._result)
        brought = []
        for i, part in zip(self._stream, self._take):
            arrays = iter([numbers_of(array.copy(), tensor.dtype) for tensor, array in part])
            brought.append(mapped(parts[i], lambda item: next(arrays) if isinstance(item, Tensor) else item))
        return brought

    def __iter__(self):
        try:
            while (brought := self._next()) is not None:
                yield brought[0] if self._single else tuple(brought)
        finally:
            if not self._over:
                self.cancel()

    def cancel(self):
        """Ends the loop, if it is not over: its results then have no value, nor what it changes in place."""
        if self._loop is not None:  # which may go on after all that it brings has come: that may be nothing
            self._loop.cancel()
        self._over = True

    @property
    def rounds(self):
        """Rounds so far."""
        return self._called + (self._loop.rounds() if self._loop is not None else 0)

    @property
    def result(self):
        """What the last round returned; None if there was none. Rounds that were not taken are dropped."""
        while self._next() is not None:
            pass
        return self._result

    @property
    def arguments(self):
        """Those that a round after the last one would have."""
        self.result  # noqa: B018: it waits
        return tuple(self._args)
