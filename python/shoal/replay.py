"""Functions that are recorded once and replayed without being called: `compile(function, replay=True)`.

The first call with arguments of some kind runs as it is, the second is recorded, later ones send the
program that was recorded, with the operands of the day: a message, whatever the function does. Operands
are the arguments, and the tensors that the function used and that were there before, such as parameters
and the state of an optimizer; what the function changed of them, in place, a replay changes, too, and the
`.grad` of leaves. Numbers that an optimizer, a schedule or a random generator computes are computed anew;
all others are those of the recording.
"""
import functools
import gc
import warnings

from . import _shoal
from .autograd import no_grad
from .errors import ShoalError
from .loop import Loop, Unrepeatable
from .nested import TensorType, collected, mapped
from .nn.module import Parameter
from .pool import session
from .recording import Recording, current, structure
from .tensor import Tensor, _has_buffer

_KINDS = 64  # of arguments, per function


class Unfit(Exception):
    """Why a function cannot be replayed."""


# ---- nested arguments and results ----

class _Held:
    """An object that an argument is, by its identity."""

    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return id(self.value)

    def __eq__(self, other):
        return isinstance(other, _Held) and other.value is self.value


def _kind(value, leaves):
    """What two arguments have in common for which one program serves; their tensors go to `leaves`."""
    if isinstance(value, Tensor):
        leaves.append(value)
        return Tensor, value.shape, value.dtype, value.requires_grad, value._from_file
    if isinstance(value, (tuple, list)):
        return (type(value), *(_kind(item, leaves) for item in value))
    if isinstance(value, dict):
        return (dict, *((key, _kind(item, leaves)) for key, item in value.items()))
    if isinstance(value, (int, float, str, bool, bytes, type(None))):
        return type(value), value
    return _Held(value)


def _as_tensor(value):
    is_array = not isinstance(value, Tensor) and hasattr(value, "dtype") and \
        (hasattr(value, "__array__") or _has_buffer(value))
    return session().tensor(value) if is_array else value


def _kind_of_call(call, inside):
    """What calls have in common that one program serves, and the tensors of this one."""
    arguments = []
    kind = (id(inside), _shoal.gradients_mode(), tuple(_shoal.signal_scopes()), _kind(call, arguments))
    return kind, arguments


def _detached(value):
    return value._detach() if isinstance(value, Tensor) and not value.is_leaf else value


def _found(value, outputs, arguments):
    """A recorded result with tensors in their places."""
    return mapped(value, lambda item: item.find(outputs, arguments) if item.__class__ is _Place else item)


# ---- what was recorded ----

class _Place:
    """Where a replay finds a tensor: in a list of its own, among the arguments, or as an object.

    The list: for operands the tensors that are made anew, for results what the program gives.
    """

    __slots__ = ("at", "argument", "object")

    def __init__(self, at=None, argument=None, object=None):
        self.at, self.argument, self.object = at, argument, object

    def find(self, listed, arguments):
        """The tensor."""
        if self.at is not None:
            return listed[self.at]
        return self.object if self.argument is None else arguments[self.argument]


class Program:
    """A recorded call: where its operands come from, and what it changes."""

    def __init__(self, inside, recording, arguments, result):
        self._structure, self._guards, self._before = structure(), recording.guards, recording.before
        self._arguments = {id(tensor): i for i, tensor in enumerate(arguments)}
        self._made = {id(tensor) for reference, _ in recording.made if (tensor := reference()) is not None}
        self._outputs = []  # of the recording
        self._rebound = self._changes(recording)
        self._grads = self._gradients(recording)
        self.result = mapped(result, self._place)  # with places for tensors
        self._recording, self._inside = recording, inside

    def _output(self, tensor):
        self._outputs.append(tensor._detach())
        return len(self._outputs) - 1

    def _before_it(self, tensor):
        """The place of a tensor that was there before the function was called."""
        at = self._arguments.get(id(tensor))
        return _Place(object=tensor) if at is None else _Place(argument=at)

    def _place(self, value):
        if not isinstance(value, Tensor):
            return value
        made = id(value) in self._made
        return _Place(at=self._output(value)) if made else self._before_it(value)

    def _changes(self, recording):
        rebound = []
        for reference in recording.changed.values():
            tensor = reference()
            if tensor is None or id(tensor) in self._made:
                continue
            if not tensor.is_leaf:
                raise Unfit(f"{tensor._text()}, which was there before, has become the result of an "
                            "operation with gradients; change it under no_grad")
            rebound.append((self._before_it(tensor), self._output(tensor)))
        return rebound

    def _gradients(self, recording):
        grads = []
        for leaf in recording.leaves.values():
            now = leaf._grad
            if id(leaf) in self._made or (now is not None and id(now) not in self._made):
                continue
            grads.append((leaf, None if now is None else self._output(now)))
        return grads

    def finish(self, given, arguments, donated):
        """Makes the function; the result of this call. Nobody else may hold the function's own result.

        donated: numbers of the arguments that a replay may write over.
        """
        recording, outputs = self._recording, self._outputs
        # Constants are held by what was seen; what else is alive is held by somebody else.
        seen = [(None if id(tensor) in self._made else tensor, snapshot, value)
                for tensor, snapshot, value in recording.seen.values()]
        recording.seen.clear()
        if self._kept(recording):
            gc.collect()  # a cycle may hold it, nobody else
        if kept := self._kept(recording):
            raise Unfit(f"a tensor that was made at {kept[0] or '?'} is kept outside of it; return it instead")
        if any(tensor.session is not self._inside for tensor in given):
            raise Unfit("an argument is of another session than the default one, which functions are recorded in")
        if any(tensor._from_file for tensor in given):
            raise Unfit("an argument is a tensor of a file; use it from within the function")
        # What comes from files is part of the program, as long as it is what it was.
        self._guards += [(functools.partial(getattr, tensor, "_value"), value)
                         for tensor, snapshot, value in seen if tensor is not None and snapshot._from_file]
        values = [tensor._value for tensor in given]
        others = {value for tensor, _, value in seen
                  if tensor is not None and id(tensor) not in self._arguments}
        if len(set(values)) < len(values) or not others.isdisjoint(values):
            raise Unfit("an argument is the same tensor as another one, or as one that it uses anyway")
        fresh = [tensor._value for _, tensors in recording.fresh for tensor in tensors]

        def place(tensor, snapshot, value):
            if tensor is not None:
                return self._before_it(tensor)
            return _Place(at=fresh.index(value)) if value in fresh else _Place(object=snapshot)
        operands = [(place(*entry), entry[1]) for entry in seen]
        whole = _shoal.Function(self._inside, [snapshot for _, snapshot in operands], outputs)
        operands = [operand for i, operand in enumerate(operands) if whole.uses(i)]
        self._function = _shoal.Function(self._inside, [snapshot for _, snapshot in operands], outputs)
        self._operands = [place for place, _ in operands]
        # What the function changes in place may be written over, where nobody else has its value.
        given = {place.argument: False for place, _ in self._rebound if place.argument is not None}
        returned = {place.argument for place in collected(self.result, _Place)}  # some as they are
        given.update(dict.fromkeys(set(donated) - returned, True))
        changed = [place.object for place, _ in self._rebound if place.argument is None]
        for i, place in enumerate(self._operands):
            if place.argument in given:
                self._function.donate(i, given[place.argument])
            elif any(place.object is tensor for tensor in changed) and place.at is None:
                self._function.donate(i, False)
        self._types = [TensorType.of(tensor) for tensor in outputs]
        self._fresh = [make for make, _ in recording.fresh]
        self._outputs = self._recording = self._made = None
        return _found(self.result, outputs, arguments)

    def _kept(self, recording):
        """Where tensors were made that are only recorded, and that somebody holds."""
        grads = {id(leaf._grad) for leaf, _ in self._grads}
        return [line for reference, line in recording.made if (tensor := reference()) is not None
                and id(tensor) not in grads and not tensor._value]

    def fits(self, arguments):
        """Whether a replay does what calling the function would."""
        return (self._structure == structure() and self._function.current()
                and all([function() == value for function, value in self._guards])
                and all([leaf._grad is grad for leaf, grad in self._before])
                and not any(place.object is tensor for tensor in arguments for place, _ in self._rebound))

    def replay(self, arguments):
        """Runs it with these arguments; the result of the function."""
        fresh = [tensor for make in self._fresh for tensor in make()]
        operands = [place.find(fresh, arguments) for place in self._operands]
        if all(grad is None for _, grad in self._before):
            for leaf, _ in self._grads:  # so that there is room for the new ones
                leaf._grad = None
        return self._apply(self._function.run(operands), arguments)

    def _apply(self, outputs, arguments):
        """What the function changes, changed; its result."""
        with no_grad():
            for place, output in self._rebound:
                place.find(outputs, arguments)._rebind(outputs[output])
        for leaf, output in self._grads:
            leaf._grad = None if output is None else outputs[output]
        return _found(self.result, outputs, arguments)

    # ---- loops ----

    def typed(self, arguments):
        """Its result, with types for tensors."""
        given = [TensorType.of(tensor) for tensor in arguments]

        def kind(place):
            tensor = place.object
            return TensorType.of(tensor) if tensor is not None \
                else place.find(self._types, given)
        return mapped(self.result, lambda item: kind(item) if item.__class__ is _Place else item)

    def repeat(self, rounds, given, arguments, carried, fed, until, stream):
        """Runs it in rounds on the workers: the loop, its outputs, the last result, the outputs streamed.

        given: the arguments, those numbered in `fed` with a first axis of rounds. carried: (number of a
        result, place of a tensor in it, argument). until: a result; stream: results.
        """
        if self._fresh:
            raise Unrepeatable("it takes numbers that are computed anew for each call, as of an optimizer")
        if any(now is not None for _, now in self._before):
            raise Unrepeatable("it reads the .grad of the round before")
        parts = self.result if isinstance(self.result, (tuple, list)) else (self.result,)
        places = [collected(part, _Place) for part in parts]
        carry = self._carried(places, carried, fed)
        streamed = [[_output_of(place) for place in places[i]] for i in stream]
        stop = -1 if until is None else _output_of(places[until][0])
        loop, outputs = self._function.repeat(
            [place.find(None, given) for place in self._operands], rounds, [output for output, _ in carry],
            [operand for _, operand in carry], [output for part in streamed for output in part],
            [k for k, place in enumerate(self._operands) if place.argument in fed], stop)
        return loop, outputs, self._apply(outputs, arguments), streamed

    def _carried(self, places, carried, fed):
        """(output, operand): what is carried by wish, and what the function changes in place."""
        carry, given = [], set(fed)
        for i, j, argument in carried:
            if places[i][j].argument != argument:
                given.add(argument)
                carry += [(_output_of(places[i][j]), k) for k, place in enumerate(self._operands)
                          if place.argument == argument]
        for changed, output in self._rebound:
            if changed.argument is not None and changed.argument in given and changed.argument not in fed:
                raise Unrepeatable("an argument is carried, and changed in place as well")
            carry += [(output, k) for k, place in enumerate(self._operands)
                      if place.argument == changed.argument and place.object is changed.object
                      and place.at is None and place.argument not in given]
        return carry


def _output_of(place):
    if place.at is None:
        raise Unrepeatable("a result that is carried, streamed, or ends the loop was there before it")
    return place.at


class Replayed:
    """What `compile(function, replay=True)` returns. `programs`: how many were recorded."""

    def __init__(self, function, scope, donate=()):
        functools.update_wrapper(self, function)
        self._function, self._scope, self._donate = function, scope, donate
        self._known = {}  # kind of call -> None: called once; Program; Unfit
        self.programs = 0

    def __call__(self, *args, **keywords):
        if current() is not None:  # a part of the function around it
            return self._function(*args, **keywords)
        call, inside = mapped([args, keywords], _as_tensor), session()
        kind, arguments = _kind_of_call(call, inside)
        known = self._known.get(kind, self)
        if known.__class__ is Program and known.fits(arguments):
            return known.replay(arguments)
        donated = self._donated(call[0])
        with self._scope():
            if known is self:
                self._remember(kind, None)
            if known is self or known.__class__ is Unfit:
                result = mapped(self._function(*call[0], **call[1]), _detached)
            else:
                result = self._record(kind, inside, arguments, call, donated)
            returned = set(map(id, collected(result, Tensor)))
            for at in donated:  # with the program that is sent at the end
                if id(arguments[at]) not in returned:
                    arguments[at]._donate()
        return result

    def repeat(self, n, *args, carry=None, until=None, stream=None, feed=()):
        """n rounds of the function, each with what the round before returned; on the workers, by one message.

        What the function changes in place it finds changed in the next round. All is as if the function were
        called n times; it is, until it has been recorded, and if it cannot be.

        n: at most, 0 or more.
        carry: {result: argument}, numbers: a result of a round is that argument of the next. Same shapes, same dtypes.
        until: the number of a result, a bool of shape (); the round that returns True there is the last.
        stream: the numbers of the results that each round brings, or a single one; left out: all that are not carried.
        feed: numbers of arguments with an axis more, in front: round r has element r.

        Returns an iterator, over what each round brings: a tuple of NumPy arrays (bfloat16 as float32), or for a
        single number the array. The workers are ahead by at most 4,096 rounds, or 64 MiB; then they wait. While
        a call waits for something else it is four times that. Leaving the iteration early ends the loop. `.result`: what the last round returned (None if there was none);
        `.arguments`: those that a next round would have; `.rounds`: how many there were so far; `.cancel()`.
        Results of a loop that was cancelled, and what it changed in place, have no value: reading fails.
        A loop goes on while somebody holds it, a result, or what it changes in place; else it ends early.

        Raises InvalidError if numbers, shapes or dtypes do not fit, here; and what the workers found, when iterating.
        """
        return Loop(self, n, [mapped(value, _as_tensor) for value in args], carry or {}, until, stream, feed)

    def _program(self, args):
        """The program for these arguments, and the tensors among them; None: there is none that fits."""
        if current() is not None:
            return None
        kind, arguments = _kind_of_call([tuple(args), {}], session())
        known = self._known.get(kind)
        return (known, arguments) if known.__class__ is Program and known.fits(arguments) else None

    def _donated(self, args):
        """The numbers of the tensors that donated arguments consist of."""
        numbers, n = [], 0
        for i, value in enumerate(args):
            _kind(value, leaves := [])
            numbers += range(n, n + len(leaves)) if i in self._donate else ()
            n += len(leaves)
        return numbers

    def _remember(self, kind, known):
        while len(self._known) >= _KINDS:
            self._known.pop(next(iter(self._known)))
        self._known[kind] = known

    def _record(self, kind, inside, arguments, call, donated):
        # Objects of their own tell an argument from the same tensor by another way.
        given = [tensor if tensor.requires_grad else tensor._detach() for tensor in arguments]
        own = dict(zip(map(id, arguments), given))
        back = dict(zip(map(id, given), arguments))
        call = mapped(call, lambda item: own.get(id(item), item))
        recording, sent = Recording(), inside.counts().programs
        with recording:
            result = self._function(*call[0], **call[1])
        for tensor, copy in zip(arguments, given):
            if id(copy) in recording.changed and copy is not tensor:
                with no_grad():
                    tensor._rebind(copy)
        plain = mapped(result, lambda item: _detached(back.get(id(item), item)))
        try:
            if any(isinstance(tensor, Parameter) for tensor in arguments):
                raise Unfit("an argument is a parameter, which a module may use as well; pass the module")
            if recording.reads:
                raise Unfit(f"a value is read at {recording.reads[0]}; return it and read it outside")
            program = Program(inside, recording, given, result)
            if inside.counts().programs != sent:
                raise ShoalError("another thread has sent what was recorded so far")
            plain = result = None
            plain = _found(program.result, program._outputs, arguments)
            result = program.finish(given, arguments, donated)
        except (Unfit, ShoalError) as why:
            if not recording.reads and inside.counts().programs != sent:
                return plain  # to be recorded at the next call
            self._remember(kind, Unfit(str(why)))
            warnings.warn(f"{self.__qualname__} is not replayed, but called each time: {why}", stacklevel=3)
            return plain
        self.programs += 1
        self._remember(kind, program)
        return result
