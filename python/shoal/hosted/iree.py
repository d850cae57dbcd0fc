"""The backend `iree`: the devices that IREE drives (https://iree.dev). A program's body is one artifact, which iree-compile
makes of its StableHLO text for one kind of device; it is kept on disk under the digest of what it was made of
(artifacts.py). One that is not there the hub may give (shipped.py).

It takes the PyPI package iree-base-runtime and, to make artifacts, iree-base-compiler of the same version. Artifacts are machine
code: one that nobody has signed whom this worker trusts, or that is not as it was then, is not used.
"""
from __future__ import annotations

import contextlib
import os
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from . import Backend, Device, Graph, Operation
from ..errors import NotFoundError
from .shipped import obtain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType
    from typing import Any

# Drivers of the runtime, in the order of the devices, and the targets of artifacts.
_DRIVERS = {"local-task": "llvm-cpu", "cuda": "cuda", "hip": "rocm", "vulkan": "vulkan", "metal": "metal"}
_ELEMENTS = {"bool": "BOOL_8", "float16": "FLOAT_16", "bfloat16": "BFLOAT_16", "float32": "FLOAT_32", "float64": "FLOAT_64"} | {
    f"{sign}int{bits}": f"{kind}_{bits}" for sign, kind in (("", "SINT"), ("u", "UINT")) for bits in (8, 16, 32, 64)}
_FLOATS = ("float32", "float64")
_ALL = (*_FLOATS, "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16")
_NUMBERS = tuple(kind for kind in _ALL if kind != "bool")
# What is compiled, by element type: what is within the tolerances of the conformance suite but for subnormal numbers, which
# IREE's threads take for zeros. Not so: sine and its kin at large numbers, powers, floats as integers where they do not fit.
_TABLE = {
    ("float32",): "exponential log sqrt tanh logistic rsqrt exponential_minus_one log_plus_one convolution",
    _FLOATS: "ceil floor round_nearest_afz round_nearest_even",
    (*_FLOATS, "float16", "bfloat16"): "convert",
    _NUMBERS: "negate abs subtract divide sign clamp",
    _ALL: "add multiply maximum minimum compare select iota broadcast_in_dim reshape transpose slice concatenate pad "
          "dynamic_slice dynamic_update_slice gather",
    tuple(kind for kind in _ALL if not kind.startswith("uint")): "reverse",
    (*_FLOATS, "int32", "int64"): "dot_general reduce.add reduce.multiply reduce.maximum reduce.minimum "
                                  "reduce_window.add reduce_window.maximum reduce_window.minimum",
    tuple(kind for kind in _ALL if "int" in kind): "popcnt count_leading_zeros shift_left shift_right_arithmetic "
                                                   "shift_right_logical",
    tuple(kind for kind in _ALL if "float" not in kind): "and or xor not",
}


def _never(*operands: Any, **attributes: Any) -> Any:
    """In place of an operation, which is done as a part of a program."""
    raise AssertionError("programs are compiled whole")


class Iree(Backend):
    """IREE on the processor, and on each GPU that its runtime finds. Inputs and outputs of a program are copied."""

    name = "iree"
    summary = "IREE's devices"
    wants_text = True
    driver = ""
    config: Any = None

    @cached_property
    def runtime(self) -> ModuleType:
        """The package iree.runtime."""
        try:
            import iree.runtime
        except ImportError as error:
            raise NotFoundError(f"IREE cannot be imported ({error}): pip install iree-base-runtime and, unless the hub gives "
                                "artifacts, iree-base-compiler, for the Python that SHOAL_PYTHON names") from error
        return iree.runtime

    @cached_property
    def operations(self) -> Mapping[str, Operation]:  # type: ignore[override]
        """Those of the table; none where IREE is missing."""
        try:
            self.runtime  # noqa: B018 (whether it is there)
        except NotFoundError:
            return {}
        return {name: Operation(_never, kinds) for kinds, names in _TABLE.items() for name in names.split()}

    def _places(self) -> list[tuple[str, int, Device]]:
        """(driver, its number of the device, device) of all that can be opened."""
        from importlib.metadata import version
        runtime, places = self.runtime, []
        for driver in _DRIVERS:
            if driver not in runtime.query_available_drivers():
                continue
            with contextlib.suppress(Exception):  # its library is missing: no such device
                for i, known in enumerate(runtime.get_driver(driver).query_available_devices()):
                    on = "the processor" if driver == "local-task" else known["name"] or driver
                    places.append((driver, i, Device(f"IREE {version('iree-base-runtime')} on {on}",
                                                     threads=os.cpu_count() or 1 if driver == "local-task" else 1,
                                                     same_cores=driver == "local-task")))
        return places

    def devices(self) -> Sequence[Device]:
        return [device for _, _, device in self._places()]

    def open(self, index: int, threads: int) -> Iree:
        device = super().open(index, threads)
        runtime = self.runtime
        device.driver, number, _ = self._places()[index]
        if device.driver == "local-task" and threads:
            runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
        driver = runtime.get_driver(device.driver)
        device.config = runtime.Config(device=driver.create_device(driver.query_available_devices()[number]))
        return device

    def compile(self, graph: Graph, frozen: Sequence[bool]) -> Callable[[list[Any], list[Any]], None]:
        """One artifact for the graph."""
        assert graph.text is not None
        runtime = self.runtime
        module = runtime.VmModule.copy_buffer(self.config.vm_instance, obtain(graph.text, _DRIVERS[self.driver]))
        context = runtime.SystemContext(vm_modules=[module], config=self.config).vm_context
        call = module.lookup_function("main")
        inputs = [graph.values[v] for v in graph.inputs]
        outputs = [graph.values[v] for v in graph.outputs]

        def run(buffers: list[Any], results: list[Any]) -> None:
            given, made = runtime.VmVariantList(len(inputs)), runtime.VmVariantList(len(outputs))
            for buffer, kind in zip(buffers, inputs):
                given.push_ref(self._view(buffer, *kind))
            context.invoke(call, given, made)
            for i, (buffer, kind) in enumerate(zip(results, outputs)):
                view = made.get_as_object(i, runtime.HalBufferView)
                mapped = view.map().asarray(kind.shape, _plain(kind.dtype))
                np.copyto(self.array(buffer, _plain(kind.dtype).name, kind.shape), mapped)
        return run

    def _view(self, buffer: Any, dtype: str, shape: tuple[int, ...]) -> Any:
        runtime = self.runtime
        return self.config.device.allocator.allocate_buffer_copy(
            memory_type=runtime.MemoryType.DEVICE_LOCAL | runtime.MemoryType.HOST_VISIBLE,
            allowed_usage=runtime.BufferUsage.DEFAULT | runtime.BufferUsage.MAPPING, device=self.config.device,
            buffer=self.array(buffer, _plain(dtype).name, shape), element_type=runtime.HalElementType[_ELEMENTS[dtype]])


def _plain(dtype: str) -> np.dtype[Any]:
    """NumPy's type of as many bytes."""
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)
