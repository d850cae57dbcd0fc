"""The backend `torch`: PyTorch's devices, 1.13 or later. What each operation is stands in torch_operations.py."""
from __future__ import annotations

import math
import warnings
from functools import cached_property
from typing import TYPE_CHECKING

from . import Backend, Device, Operation
from ..dtypes import DTYPES
from ..errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import torch

_KINDS = ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64")


class Torch(Backend):
    """PyTorch on the processor, and on each GPU that it finds.

    Memory is the host's, which PyTorch uses where it lies on the processor. To and from a GPU, inputs and outputs of each
    program are copied.
    """

    name = "torch"
    summary = "PyTorch's devices"
    dtypes = _KINDS
    place = "cpu"

    @cached_property
    def torch(self) -> Any:
        """The package."""
        try:
            import torch
        except ImportError as error:
            raise NotFoundError(f"PyTorch cannot be imported ({error}): install torch (pip install torch; Debian: "
                                "python3-torch) for the Python that SHOAL_PYTHON names") from error
        return torch

    @cached_property
    def operations(self) -> Mapping[str, Operation]:  # type: ignore[override]
        """Those of torch_operations.py; none where PyTorch is missing."""
        try:
            self.torch  # noqa: B018 (whether it is there)
        except NotFoundError:
            return {}
        from . import torch_operations
        return torch_operations.OPERATIONS

    @cached_property
    def kinds(self) -> dict[str, torch.dtype]:
        """PyTorch's element types by our names."""
        return {kind: getattr(self.torch, kind) for kind in _KINDS}

    def _places(self) -> list[tuple[str, Device]]:
        torch = self.torch
        name = f"PyTorch {torch.__version__}"
        places = [("cpu", Device(f"{name} on the processor", threads=torch.get_num_threads()))]
        for i in range(torch.cuda.device_count()):
            known = torch.cuda.get_device_properties(i)
            places.append((f"cuda:{i}", Device(f"{name} on {known.name}", known.total_memory,
                                                       known.multi_processor_count, same_cores=False)))
        if getattr(torch.backends, "mps", None) and torch.backends.mps.is_available():
            places.append(("mps", Device(f"{name} on Apple's GPU", same_cores=False)))
        return places

    def devices(self) -> list[Device]:
        return [device for _, device in self._places()]

    def open(self, index: int, threads: int) -> Torch:
        device = super().open(index, threads)
        device.place = self._places()[index][0]
        device.direct = device.place == "cpu"
        if not device.direct:  # the one operation, beside constants, that has no operand to say where
            made = self.operations["iota"].function
            device.operations = {**self.operations, "iota": Operation(lambda **of: made(**of).to(device.place))}
        if threads and device.direct:
            self.torch.set_num_threads(threads)
        with warnings.catch_warnings():  # it says once that an input is not to be written
            warnings.simplefilter("ignore")
            self.torch.frombuffer(b"0", dtype=self.torch.uint8)
        return device

    def target(self, buffer: Any, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
        if not len(buffer):
            return self.torch.empty(shape, dtype=self.kinds[dtype])
        return self.torch.frombuffer(buffer, dtype=self.kinds[dtype]).view(shape)

    def array(self, buffer: Any, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
        here = self.target(buffer, dtype, shape)
        return here if self.direct else here.to(self.place)

    def constant(self, data: bytes, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
        one = len(data) != math.prod(shape) * DTYPES[dtype].itemsize
        array = self.array(bytearray(data), dtype, () if one else shape)
        return array.expand(shape) if one else array

    def store(self, target: torch.Tensor, result: torch.Tensor) -> None:
        target.copy_(result)

    def fits(self, result: torch.Tensor, dtype: str, shape: tuple[int, ...]) -> bool:
        return result.shape == shape and result.dtype == self.kinds[dtype]
