"""Backends and operations written in Python: kinds of device that a few lines present to Shoal, and functions of tensors.

A backend is a class. It names the operations that it can do and what does each, and Shoal gives it the rest:
memory, transfers, and whatever the operations have in common. See doc/backends.md.
"""
from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import math
import pathlib
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .. import _shoal
from ..dtypes import DTYPES
from ..errors import CLASSES, ShoalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

__all__ = ["Backend", "Device", "Graph", "Node", "Op", "Operation", "Type", "register", "register_op"]


# NumPy's objects: to compare with a name it makes one each time.
_NUMPY = {name: np.dtype(name) for name in DTYPES if name != "bfloat16"}


class Device(NamedTuple):
    """What a backend says of a device.

    memory: bytes that programs may use; 0: unknown. threads: of its computing. same_cores: whether it computes on
    the cores of the processor: it is lent only by name then, as two devices on the same cores are in each other's way.
    """

    name: str
    memory: int = 0
    threads: int = 1
    same_cores: bool = True


class Type(NamedTuple):
    """The element type and shape of a value."""

    dtype: str
    shape: tuple[int, ...]


class Node(NamedTuple):
    """An operation of a graph. operands, results: numbers of values. operation: its name, with those of its bodies
    where each is one operation: `reduce.add`. attributes: by the names of the StableHLO specification."""

    operation: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    attributes: dict[str, Any]
    bodies: tuple[Graph, ...]
    location: str | None


class Graph(NamedTuple):
    """Operations in an order in which each value is defined before it is used. inputs, outputs: numbers of values; an
    output may be an input, or named twice. text: the same as a StableHLO module, for a backend that `wants_text`."""

    values: tuple[Type, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    nodes: tuple[Node, ...]
    text: str | None = None


class Operation(NamedTuple):
    """What does an operation: function(*operands, **attributes) gives the result, or a list of several.

    dtypes: of its operands and results; None: those of the backend. out: the function may be given `out=`, the array of
    the result; it uses it and returns it, or returns another.
    """

    function: Callable[..., Any]
    dtypes: Iterable[str] | None = None
    out: bool = False


class _Step(NamedTuple):
    node: Node
    function: Callable[..., Any]
    out: int  # which output it may write at once, or -1
    dead: tuple[int, ...]  # values that nobody reads afterwards


def _graph(data: Any) -> Graph:
    values, inputs, outputs, nodes = data
    return Graph(tuple(Type(*v) for v in values), inputs, outputs,
                 tuple(Node(*n[:4], tuple(map(_graph, n[4])), n[5]) for n in nodes))


class Backend:
    """A kind of device. A subclass gives a name and operations, and overrides what is different where its
    arrays are not NumPy's.

    An opened device is a copy of the backend with the attributes `index` and `threads` (0: all cores). One thread calls
    it at a time. An exception of any method hands the work to the processor, and is told.
    """

    name = ""
    summary = "a backend in Python"
    #: Element types of all operations that name none of their own.
    dtypes: Iterable[str] = ("float32", "float64", "int32", "int64", "bool")
    #: Functions, or `Operation`s, by the name of the operation; NumPy's universal functions write results in place.
    operations: Mapping[str, Callable[..., Any] | Operation] = {}
    #: Whether operations may write results where outputs lie: false where arrays are not in the host's memory.
    direct = True
    #: Whether `compile` is given the graph's text as well, in terms of the StableHLO specification alone.
    wants_text = False
    index = 0
    threads = 0

    def devices(self) -> Sequence[Device]:
        """The devices that can be opened here. Raise an exception to say why there is none."""
        return [Device(self.summary)]

    def open(self, index: int, threads: int) -> Backend:
        """A device."""
        device = copy.copy(self)
        device.index, device.threads = index, threads
        return device

    def close(self) -> None:
        """Called when a device is used no more."""

    def array(self, buffer: Any, dtype: str, shape: tuple[int, ...]) -> Any:
        """The library's array over memory (an object with the buffer protocol), without a copy."""
        if not len(buffer):
            return np.empty(shape, dtype)
        return np.frombuffer(buffer, dtype).reshape(shape)

    def target(self, buffer: Any, dtype: str, shape: tuple[int, ...]) -> Any:
        """The array to which `store` copies an output."""
        return self.array(buffer, dtype, shape)

    def constant(self, data: bytes, dtype: str, shape: tuple[int, ...]) -> Any:
        """An array of given elements, or of one for all."""
        one = len(data) != math.prod(shape) * DTYPES[dtype].itemsize
        array = self.array(bytearray(data), dtype, () if one else shape)
        return np.broadcast_to(array, shape) if one else array

    def store(self, target: Any, result: Any) -> None:
        """Copies a result to the array of an output."""
        np.copyto(target, result)

    def fits(self, result: Any, dtype: str, shape: tuple[int, ...]) -> bool:
        """Whether a result is an array of this type."""
        return result.shape == shape and result.dtype == _NUMPY.get(dtype, dtype)

    def compile(self, graph: Graph, frozen: Sequence[bool]) -> Callable[[list[Any], list[Any]], None]:
        """A function run(inputs, outputs) that computes a graph; both are lists of buffers (see `array`).

        frozen: inputs that keep the same bytes over many runs. This one does the operations one after the other;
        override it where whole graphs are compiled at once.
        """
        steps = self._steps(graph)
        values, inputs, outputs = graph.values, graph.inputs, graph.outputs

        def run(buffers: list[Any], results: list[Any]) -> None:
            have: list[Any] = [None] * len(values)
            for value, buffer in zip(inputs, buffers):
                have[value] = self.array(buffer, *values[value])
            targets = [self.target(buffer, *values[value]) for value, buffer in zip(outputs, results)]
            for step in steps:
                self._do(step, graph, have, targets)
            for value, target in zip(outputs, targets):
                if have[value] is not target:
                    self.store(target, have[value])

        return run

    def _do(self, step: _Step, graph: Graph, have: list[Any], targets: list[Any]) -> None:
        node = step.node
        try:
            operands = [have[value] for value in node.operands]
            if step.out >= 0:
                made = step.function(*operands, out=targets[step.out], **node.attributes)
            else:
                made = step.function(*operands, **node.attributes)
            for value, result in zip(node.results, made if isinstance(made, list) else [made], strict=True):
                if not self.fits(result, *graph.values[value]):
                    raise TypeError(f"the result is {_what(result)}, not {_text(graph.values[value])}")
                have[value] = result
        except (MemoryError, ShoalError):
            raise
        except Exception as error:
            raise _blame(node, graph, error) from error
        for value in step.dead:
            have[value] = None

    def _steps(self, graph: Graph) -> list[_Step]:
        last = {value: i for i, node in enumerate(graph.nodes) for value in (*node.operands, *node.results)}
        steps = []
        for i, node in enumerate(graph.nodes):
            operation = self._operation(node.operation)
            out = -1
            if self.direct and operation.out and len(node.results) == 1 and graph.outputs.count(node.results[0]) == 1:
                out = graph.outputs.index(node.results[0])
            dead = tuple(v for v in {*node.operands, *node.results} if last[v] == i and v not in graph.outputs)
            function = operation.function
            if node.operation == "constant":
                array = self.constant(node.attributes["value"], *graph.values[node.results[0]])
                function, node, out = (lambda array=array: array), node._replace(attributes={}), -1
            steps.append(_Step(node, function, out, dead))
        return steps

    # ---- what the C half asks ----

    def _operation(self, name: str) -> Operation:
        if name == "constant":
            return Operation(self.constant, None)
        found = self.operations[name]
        return found if isinstance(found, Operation) else Operation(found, None, isinstance(found, np.ufunc))

    def _devices(self) -> list[Device]:
        return list(self.devices())

    def _table(self) -> list[tuple[str, tuple[str, ...]]]:
        rows = []
        for name in ("constant", *self.operations):
            dtypes = self._operation(name).dtypes
            rows.append((name, tuple(self.dtypes if dtypes is None else dtypes)))
        return rows

    def _compile(self, graph: Any, frozen: tuple[bool, ...], text: str | None) -> tuple[Callable[..., None], int]:
        graph = _graph(graph)._replace(text=text)
        inside = [v for node in graph.nodes for v in node.results if v not in graph.outputs]
        return self.compile(graph, frozen), sum(_bytes(graph.values[v]) for v in inside)


def _bytes(type: Type) -> int:
    return math.prod(type.shape) * DTYPES[type.dtype].itemsize


def _text(type: Type) -> str:
    return f"{type.dtype}[{', '.join(map(str, type.shape))}]"


def _what(result: Any) -> str:
    if not hasattr(result, "shape"):
        return f"a {type(result).__name__}"
    return _text(Type(str(result.dtype), tuple(result.shape)))


def _blame(node: Node, graph: Graph, error: Exception) -> ShoalError:
    """The exception of an operation, with its name, its operands and where it was raised."""
    operands = ", ".join(_text(graph.values[v]) for v in node.operands)
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    where = f" ({pathlib.Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})" if trace else ""
    return CLASSES["IO"](f"{node.operation} of {operands or 'nothing'}: {type(error).__name__}: {error}{where}")


def register(backend: Backend) -> None:
    """Adds a backend to those of this process: its name is a device of sessions, `Session(backend="mine")`.

    Raises ValueError where its table is wrong, and InvalidError where the name is taken.
    """
    _shoal.add_backend(_checked(backend))


def _checked(backend: Backend) -> Backend:
    for name in backend.operations:
        if not callable(backend._operation(name).function):
            raise ValueError(f"backend {backend.name}: what does '{name}' is no function")
    return backend


def _load(module: str) -> list[Backend]:
    """Those of a module, or of a file: its list `backends`, else one of each class that it defines."""
    if module.endswith(".py"):
        path = pathlib.Path(module)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec and spec.loader
        loaded = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(path.stem, loaded)
        spec.loader.exec_module(loaded)
    else:
        loaded = importlib.import_module(module)
    listed = getattr(loaded, "backends", None)
    if listed is None:
        listed = [thing() for thing in vars(loaded).values() if inspect.isclass(thing)
                  and issubclass(thing, Backend) and thing.__module__ == loaded.__name__ and thing.name]
    if not listed and not _operations:
        raise ValueError(f"{module} defines no subclass of shoal.hosted.Backend that has a name, and registers no "
                         "operation")
    return [_checked(backend) for backend in listed]


# ---- operations of one's own ----

_operations: list[tuple[str, Callable[..., Any], str | None, str | None]] = []  # registered, not taken by the process that loaded them


class Op:
    """An operation of one's own, called with tensors: `Op("swish")(x)`. Workers know what it computes by its name.

    axis: None: it works element by element, on operands of one shape; a number: along that axis, of which each part
    has all. With `shape=` in the call it needs all of all operands, and that is its result's shape; as for any other,
    `dtype=` is the result's element type, if it is not that of the first operand. Nothing but the operands may have an
    influence on the result, as it may be computed in parts, and again.
    """

    def __init__(self, name: str, axis: int | None = None) -> None:
        self.name, self.axis = name, axis

    def __call__(self, *operands: Any, shape: Sequence[int] | None = None, dtype: Any = None) -> Any:
        """The result, a tensor. InvalidError where shapes do not fit."""
        if not operands:
            raise CLASSES["INVALID"](f"{self.name}: needs an operand")
        attributes: dict[str, Any] = {"name": self.name}
        if shape is not None:
            attributes["shape"] = tuple(shape)
        elif self.axis is not None:
            rank = operands[0].ndim
            attributes["dimension"] = self.axis + rank if self.axis < 0 else self.axis
        if dtype is not None:
            attributes["dtype"] = str(dtype)
        return _shoal.apply(operands[0].session, "custom", operands, attributes, 1)[0]


def register_op(name: str, kernel: Callable[..., Any], gradients: Sequence[Callable[..., Any]] = (),
                axis: int | None = None, opencl: str | None = None, cuda: str | None = None) -> Op:
    """Adds an operation to this process, and returns it.

    kernel(*arrays) gives the result's array, for a part of the tensors at a time; bfloat16 comes and goes as float32.
    gradients: for each operand a function of the operands and of the gradient of the result, whose result has the
    operand's shape. opencl: OpenCL C with a function `void operation(long item, const __global x0_t *x0, …,
    __global y0_t *y0)`, which computes one element of the result on OpenCL devices; cuda: CUDA C++ with a function
    `__device__ void operation(long long item, const x0_t *x0, …, y0_t *y0)` for devices of `cuda` (`shoal_operation`
    in `shoal/backend.h` says what else they may use). Other processes have to load it, too: `SHOAL_BACKENDS` lists the file
    that calls this. Raises InvalidError where the name is taken.
    """
    for language, source in (("opencl", opencl), ("cuda", cuda)):
        if source is not None and not isinstance(source, str):
            raise TypeError(f"operation {name}: {language} is {type(source).__name__}, not the text of a function")
    all_ = [(name, kernel, opencl, cuda), *((f"{name}.gradient{i}", g, None, None) for i, g in enumerate(gradients))]
    for key, function, *_ in all_:  # all or none of them is added
        if not isinstance(key, str) or not re.fullmatch("[A-Za-z0-9_.-]{1,63}", key):
            raise CLASSES["INVALID"](f"operation {key!r}: its name must have 1 to 63 letters of a-z, A-Z, 0-9, '_', '.' and '-'")
        if not callable(function):
            raise ValueError(f"operation {key}: what computes it is no function")
    for told in all_:
        _shoal.add_operation(*told)
        _operations.append(told)
    return Op(name, axis)


def _take_operations() -> list[tuple[str, Callable[..., Any], str | None, str | None]]:
    taken = list(_operations)
    _operations.clear()
    return taken


def _run(function: Callable[..., Any], operands: tuple[Any, ...], result: tuple[Any, str, tuple[int, ...]]) -> None:
    """What the C half calls: operands and result as (bytes, element type, shape). The function gets copies, so that
    it may keep them."""
    made = np.asarray(function(*(_array(*operand) for operand in operands)))
    data, dtype, shape = result
    if made.shape != shape:
        raise CLASSES["INVALID"](f"the kernel gave an array of the shape {list(made.shape)}, not {list(shape)}")
    if dtype == "bfloat16":
        bits = made.astype("f4").view("u4")
        rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16
        made = np.where(np.isnan(made), 0x7fc0, rounded).astype("u2")
        dtype = "uint16"
    np.copyto(np.frombuffer(data, dtype).reshape(shape), made, casting="same_kind")


def _array(data: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    if dtype == "bfloat16":
        return (np.frombuffer(data, "u2").astype("u4") << 16).view("f4").reshape(shape)
    return np.frombuffer(data, dtype).reshape(shape).copy()
