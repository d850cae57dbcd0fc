"""StableHLO: programs of JAX, torch-mlir and others read, run, differentiated; Shoal's own written.

    model = shoal.stablehlo.load("model.mlir")
    y = model(x)
    text = shoal.stablehlo.export(lambda x: (x @ w).tanh(), x).text()
"""
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from . import _shoal
from .autograd import no_grad
from .creation import as_tensor
from .errors import FormatError, InvalidError
from .nested import TensorType
from .pool import session
from .recording import Recording, current
from .tensor import Tensor


_BYTECODE = b"ML\xefR"
_LONGEST = 60  # seconds that reading bytecode may take, and one more for each megabyte


class Model:
    """A function of a module. `inputs`, `outputs`: the types of its operands and results, in order."""

    inputs: list[Any]
    outputs: list[Any]

    def __init__(self, module: Any) -> None:
        self._module = module
        inputs, outputs = module.types()
        self.inputs = [TensorType(shape, dtype) for dtype, shape in inputs]
        self.outputs = [TensorType(shape, dtype) for dtype, shape in outputs]

    def __call__(self, *arguments: Any) -> Any:
        """Runs it: tensors, or what makes some, of the types `inputs`. A tensor, or a tuple of them.

        Gradients pass through it to arguments that require them.
        """
        if len(arguments) != len(self.inputs):
            raise InvalidError(f"model: {len(arguments)} arguments; it takes {len(self.inputs)}")
        given = [value if isinstance(value, Tensor) else as_tensor(value, dtype=kind.dtype)
                 for value, kind in zip(arguments, self.inputs)]
        recorded = current() is not None or any(tensor.requires_grad for tensor in given)
        outputs = self._module.run(given[0].session if given else session(), given, recorded)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def gradient(self, inputs: Sequence[int] | None = None, output: int = 0) -> Any:
        """The model whose results are those of this one and, behind them, the gradients of one of them.

        output: the number of a result of one element, the loss. inputs: numbers of operands; None: all that are
        floating.
        """
        if not 0 <= output < len(self.outputs):
            raise InvalidError(f"gradient: there is no result {output}, only {len(self.outputs)}")
        wrt = [i for i, kind in enumerate(self.inputs) if "float" in str(kind.dtype)] if inputs is None else list(inputs)
        return Model(self._module.gradient(output, wrt))

    def text(self) -> str:
        """Its text in terms of the standard, as JAX and iree-compile read it."""
        return self._module.text()

    def save(self, path: Any) -> None:
        """Writes its text to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text())


def _as_text(data: bytes, what: str) -> str:
    """MLIR's bytecode as text, `what` being its name in errors. Others read it, in a process of its own: damaged bytecode may end
    that, or be read for ever."""
    seconds = _LONGEST + len(data) // 1_000_000
    program = f"import sys; sys.path[:] = {sys.path!r}; from shoal.stablehlo import _translate; _translate()"
    try:
        done = subprocess.run([sys.executable, "-c", program], input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise FormatError(f"{what}: this is MLIR's bytecode, and is damaged: JAX or IREE has read it for {seconds} s") from None
    if done.returncode == 0:
        return done.stdout.decode()
    if done.returncode == 1 and done.stdout:
        raise FormatError(f"{what}: {done.stdout.decode()}")
    raise FormatError(f"{what}: this is MLIR's bytecode, and is damaged: reading it has ended JAX or IREE with "
                      + (f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"))


def _translate() -> None:
    """From the standard input to the standard output; exit code 1: an error is there."""
    try:
        text, code = _read(sys.stdin.buffer.read()), 0
    except FormatError as error:
        text, code = str(error), 1
    sys.stdout.buffer.write(text.encode())
    sys.stdout.flush()
    os._exit(code)  # whatever the others have still running


def _read(data: bytes) -> str:
    """Bytecode as text, by who can read it: JAX also the portable form, which export.export writes; IREE the plain one."""
    said = []
    try:
        from jax._src.interpreters import mlir
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import stablehlo
        with mlir.make_ir_context() as context:
            portable = data[5:15] == b"StableHLO_"
            return str(stablehlo.deserialize_portable_artifact(context, data) if portable else ir.Module.parse(data))
    except ImportError:
        said.append("JAX is not here (pip install jax)")
    except Exception as error:  # jaxlib's own, and ValueError
        said.append(f"JAX says: {_first(error)}")
    try:
        from iree.compiler import ir
        with ir.Context():
            text = str(ir.Module.parse(data))
        if "vhlo." not in text:
            return text
        said.append("IREE's package reads only bytecode that is not the portable form")
    except ImportError:
        said.append("IREE is not here (pip install iree-base-compiler)")
    except Exception as error:
        said.append(f"IREE says: {_first(error)}")
    raise FormatError(f"this is MLIR's bytecode, which others have to read: {'; '.join(said)}")


def _first(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def load(source: Any, function: str | None = None) -> Model:
    """Reads a module's text: the path of a file, or the text itself (with a line break, or bytes). MLIR's bytecode, where JAX
    or IREE is installed, which turn it into text.

    function: the one to read; None: @main, or the only one. Raises FormatError with line, column and operation.
    """
    name = ""
    if not isinstance(source, (str, bytes, os.PathLike)):
        raise TypeError(f"load: a {type(source).__name__} is neither a path nor a text; of JAX, "
                        "jax.jit(f).lower(...).as_text() is one")
    if isinstance(source, os.PathLike) or (isinstance(source, str) and "\n" not in source):
        name = os.path.basename(os.fspath(source))
        with open(source, "rb") as file:
            source = file.read()
    if isinstance(source, bytes) and source.startswith(_BYTECODE):
        source = _as_text(source, "load")
    return Model(_shoal.Module(source, name, function))


def main() -> int:
    """Writes bytecode of a file, the only argument, as text: for `shoal run` and `shoal grad`. Its exit code."""
    path = sys.argv[1]
    try:
        with open(path, "rb") as file:
            text = _as_text(file.read(), path)
    except (OSError, FormatError) as error:
        print(f"shoal: {error}", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(text.encode())
    sys.stdout.flush()
    return 0


def export(function: Callable[..., Any], *arguments: Any) -> Model:
    """What a function computes of tensors, as a model whose operands are the arguments.

    Other tensors that it uses, and numbers, are constants of the model.
    """
    given = [value if isinstance(value, Tensor) else as_tensor(value) for value in arguments]
    given = [tensor._detach() for tensor in given]
    inside = given[0].session if given else session()
    with no_grad():
        inside.sync()
        with Recording() as recording:
            result = function(*given)
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        for output in outputs:
            if not isinstance(output, Tensor):
                raise TypeError(f"export: the function returned a {type(output).__name__}; a tensor, or a tuple or list of "
                                "tensors, is needed")
        own = {id(tensor) for tensor in given}
        others = [was for tensor, was, _ in recording.seen.values() if id(tensor) not in own]
        module = _shoal.Function(inside, given + others, outputs).module()
        return Model(module.bind(len(given), [_bytes(was) for was in others]))


def _bytes(tensor: Tensor) -> bytes:
    data = bytearray(tensor.nbytes)
    tensor._read(data)
    return bytes(data)
