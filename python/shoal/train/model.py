"""Models to be trained: parameters, a batch of tokens, and a loss, as one program of StableHLO.

    program = load("gpt.mlir")                                # @main(parameters..., ids, targets) -> mean loss
    program = of_module(module, batch=8, length=256)          # a shoal.nn.Module: forward(ids, targets) -> mean loss
    program = of_function(loss, {"w": array}, batch=8, length=256)   # loss({"w": tensor}, ids, targets)
"""
import os

import numpy as np

from .. import stablehlo
from ..autograd import no_grad
from ..errors import FormatError, InvalidError, NotFoundError
from ..pool import session
from ..words import is_floating
from . import uses

_DATA = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SPREAD = 0.02  # of the numbers that a matrix begins with


class Program:
    """A model: `names`, `shapes` and `dtypes` of its parameters; `batch` and `length` of its data; `vocabulary`: the rows of
    the smallest table that ids are looked up in, None if there is none to be seen.

    model: a `stablehlo.Model` of parameters, ids and targets, whose first result is the mean loss. begin: the
    values that the parameters begin with; None: by rule. A parameter that the loss does not use has a gradient of
    0, and decays. InvalidError if it is not such a model.
    """

    def __init__(self, model, names=None, begin=None, name="the model"):
        data = 0
        while data < len(model.inputs) and str(model.inputs[-1 - data].dtype) in _DATA:
            data += 1
        if data != 2:
            raise InvalidError(f"{name}: it ends in {data} arguments of integers, {_texts(model.inputs[-2:])}; it has to end "
                               "in two, ids and targets, behind parameters of floating-point numbers")
        *parameters, ids, targets = model.inputs
        if len(ids.shape) != 2 or ids.shape != targets.shape or 0 in ids.shape:
            raise InvalidError(f"{name}: ids and targets are {_texts([ids, targets])}; both have to be [batch, length]")
        for i, kind in enumerate(parameters):
            if not is_floating(kind.dtype):
                raise InvalidError(f"{name}: argument {i} is {_texts([kind])}; parameters are floating-point numbers")
        loss = model.outputs[0] if model.outputs else None
        if not parameters or loss is None or 1 in (len(loss.shape), not is_floating(loss.dtype)):
            raise InvalidError(f"{name}: it has {len(parameters)} parameters and returns {_texts(model.outputs)}; parameters "
                               "are needed, and a first result that is the mean loss, one floating-point number")
        self.name, self.batch, self.length = name, *ids.shape
        self.names = [f"parameter{i}" for i in range(len(parameters))] if names is None else list(names)
        self.shapes = [kind.shape for kind in parameters]
        self.dtypes = [str(kind.dtype).removeprefix("shoal.") for kind in parameters]
        self._kinds = [str(kind.dtype).removeprefix("shoal.") for kind in (ids, targets)]
        self._begin = begin
        read = uses.read(model.text())
        self.vocabulary, self._vectors = uses.rows(read, len(parameters)), uses.vectors(read, len(parameters))
        self._gradient = model.gradient(range(len(parameters)))
        self._outputs = len(model.outputs)

    @property
    def count(self):
        """How many numbers the parameters have."""
        return sum(int(np.prod(shape)) for shape in self.shapes)

    def initial(self, seed=0):
        """What the parameters begin with, arrays of float32: the values of a module; else by rule.

        The rule: what multiplies along one axis (a gain) is 1, what is added along one axis (a bias) is 0, and all
        else has numbers of N(0, 0.02), which depend on the seed and the parameter's number. If a part is used, such as a
        layer's, it is the part's axes that count.
        """
        if self._begin is not None:
            return [np.array(array, np.float32) for array in self._begin]
        made = []
        for i, (shape, value) in enumerate(zip(self.shapes, self._vectors)):
            if value is None:
                numbers = np.random.default_rng([seed, i]).standard_normal(shape, np.float32)
                made.append(numbers * np.float32(SPREAD))
            else:
                made.append(np.full(shape, value, np.float32))
        return made

    def beginnings(self):
        """What `initial` makes of each parameter, in words: [(name, shape, such as "0")]."""
        words = [f"N(0, {SPREAD})" if value is None else str(value) for value in self._vectors]
        return list(zip(self.names, self.shapes, words if self._begin is None else ["given"] * len(words)))

    def record(self, parameters, ids, targets):
        """Records the loss and the gradients of the parameters: (loss, list), tensors of the same session."""
        given = [*parameters, *(data if str(data.dtype).removeprefix("shoal.") == kind else data.astype(kind)
                                for data, kind in zip((ids, targets), self._kinds))]
        with no_grad():
            made = self._gradient._module.run(given[0].session, given, True)
        return made[0], made[self._outputs:]


def load(source, name=None):
    """The model of a module's text, as `stablehlo.load` takes it."""
    is_path = isinstance(source, os.PathLike) or (isinstance(source, str) and "\n" not in source)
    if name is None:
        name = os.path.basename(os.fspath(source)) if is_path else "the model"
    try:
        return Program(stablehlo.load(source), name=name)
    except OSError as error:
        raise NotFoundError(f"model_path {os.fspath(source)}: the model cannot be read: {error.strerror}") from None
    except FormatError as error:
        raise FormatError(f"{name}: no StableHLO: {error}") from None


def of_function(loss, parameters, batch, length, name="the model"):
    """The model of a function loss(parameters, ids, targets), of a dict of tensors and int32 [batch, length].

    parameters: arrays or tensors by name, which are what it begins with.
    """
    names, inside = list(parameters), session()
    values = [value if hasattr(value, "session") else inside.tensor(value) for value in parameters.values()]
    tokens = inside.tensor(np.zeros((batch, length), np.int32))

    def call(*given):
        return loss(dict(zip(names, given[:-2])), given[-2], given[-1])
    model = stablehlo.export(call, *(value._detach() for value in values), tokens, tokens + 0)
    return Program(model, names, [value.numpy() for value in values], name)


def of_module(module, batch, length, loss=None):
    """The model that a module of `shoal.nn` is, with its values of today.

    loss(what the module returns for ids, targets); None: the module is called with ids and targets, and
    returns the mean loss. Parameters that are used in several places stay one. Buffers stay what they are.
    """
    places, names = {}, {}
    for path, owner in module.named_modules():
        for own, value in owner._parameters.items():
            if value is not None and value.requires_grad:
                places.setdefault(id(value), []).append((owner._parameters, own, value))
                names.setdefault(id(value), f"{path}.{own}" if path else own)

    def call(parameters, ids, targets):
        tables = [(table, own, value, parameters[names[key]]) for key, found in places.items()
                  for table, own, value in found]
        try:
            for table, own, _, other in tables:
                table[own] = other
            return module(ids, targets) if loss is None else loss(module(ids), targets)
        finally:
            for table, own, value, _ in tables:
                table[own] = value
    given = {names[key]: found[0][2].detach() for key, found in places.items()}
    return of_function(call, given, batch, length, type(module).__name__)


def _texts(kinds):
    return ", ".join(f"{str(kind.dtype).removeprefix('shoal.')}{list(kind.shape)}" for kind in kinds) or "nothing"
