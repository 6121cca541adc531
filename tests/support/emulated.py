"""Runs PTX on the emulated GPU: single instructions over arrays of operands, and kernels written with numba-cuda."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from numba import cuda
from numba.cuda import dispatcher

from gondwana_emulator.driver import EmulatedDriver

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"

_NUMPY = {"b": "u", "u": "u", "s": "i", "f": "f"}


def numpy_type(kind: str) -> np.dtype[Any]:
    """NumPy's type for a PTX type; predicates are bytes."""
    if kind == "pred":
        return np.dtype(np.uint8)
    return np.dtype(f"{_NUMPY[kind[0]]}{int(kind[1:]) // 8}")


def evaluate(code: str, results: dict[str, str], **operands: np.ndarray) -> dict[str, np.ndarray]:
    """Run a piece of PTX for each element of the operands.

    Args:
        code: PTX; its registers are %NAME for each result and operand.
        results: PTX types by name.
        operands: arrays of one length by name; bool for predicates.
    """
    kinds = {name: _kind(array) for name, array in operands.items()}
    count = len(next(iter(operands.values())))
    sources = {name: np.ascontiguousarray(array) for name, array in operands.items()}
    targets = {name: np.zeros(count, numpy_type(kind)) for name, kind in results.items()}
    arrays = [*sources.values(), *targets.values()]
    _common().run(_kernel(code, kinds, results), "kernel", -(-count // 64), 64, count, *arrays)
    return targets


@functools.cache
def _common() -> Gpu:
    return Gpu()


def value_of(code: str, kind: str, **operands: np.ndarray) -> np.ndarray:
    """Run a piece of PTX with one result, %d, and return it."""
    return evaluate(code, {"d": kind}, **operands)["d"]


def _kind(array: np.ndarray) -> str:
    if array.dtype == bool:
        return "pred"
    return {"u": "u", "i": "s", "f": "f"}[array.dtype.kind] + str(8 * array.dtype.itemsize)


def _kernel(code: str, operands: dict[str, str], results: dict[str, str]) -> str:
    names = [*operands, *results]
    parameters = ", ".join(f".param .u64 p{place}" for place in range(len(names) + 1))
    lines = [f".reg .{kind} %{name};" for name, kind in (operands | results).items()]
    lines += [f".reg .u64 %at_{name};" for name in names]
    lines += [
        ".reg .u32 %block, %size, %thread; .reg .u64 %i, %count; .reg .pred %beyond; .reg .b16 %half;",
        "mov.u32 %block, %ctaid.x; mov.u32 %size, %ntid.x; mov.u32 %thread, %tid.x;",
        "mad.lo.u32 %thread, %block, %size, %thread; cvt.u64.u32 %i, %thread;",
        "ld.param.u64 %count, [p0]; setp.ge.u64 %beyond, %i, %count; @%beyond ret;",
    ]
    for place, (name, kind) in enumerate((operands | results).items()):
        size = numpy_type(kind).itemsize
        lines += [f"ld.param.u64 %at_{name}, [p{place + 1}]; mad.lo.u64 %at_{name}, %i, {size}, %at_{name};"]
    for name, kind in operands.items():
        if kind == "pred":
            lines += [f"ld.global.u8 %half, [%at_{name}]; setp.ne.u16 %{name}, %half, 0;"]
        else:
            lines += [f"ld.global.{kind} %{name}, [%at_{name}];"]
    lines += [code]
    for name, kind in results.items():
        if kind == "pred":
            lines += [f"selp.u16 %half, 1, 0, %{name}; st.global.u8 [%at_{name}], %half;"]
        else:
            lines += [f"st.global.{kind} [%at_{name}], %{name};"]
    body = "\n".join(lines)
    return f"{HEAD}.visible .entry kernel({parameters})\n{{\n{body}\nret;\n}}\n"


class Gpu:
    """One emulated device with one stream, for a test."""

    def __init__(self) -> None:
        self.driver = EmulatedDriver()
        self.driver.open(0)
        self.stream = self.driver.new_stream()

    def array(self, values: np.ndarray) -> int:
        """The address of a copy on the device."""
        address = self.driver.allocate(values.nbytes)
        self.driver.copy(address, values.ctypes.data, values.nbytes, self.stream)
        self.driver.finish(self.stream)
        return address

    def read(self, address: int, into: np.ndarray) -> np.ndarray:
        """Fill an array from the device."""
        self.driver.copy(into.ctypes.data, address, into.nbytes, self.stream)
        self.driver.finish(self.stream)
        return into

    def load(self, ptx: str) -> int:
        """The module of a text."""
        return self.driver.load(self.driver.link(ptx.encode(), (9, 0)))

    def run(
        self, ptx: str, name: str, grid: int | tuple[int, ...], block: int | tuple[int, ...], *arguments: Any,
        shared: int = 0,
    ) -> None:  # fmt: skip
        """Run a kernel; arrays among its arguments are copied to the device before, and back after it.

        Args:
            ptx: the text.
            name: name of the kernel, "" for the only one.
            grid: blocks.
            block: threads of a block.
            arguments: integers and arrays.
            shared: bytes of dynamic shared memory.
        """
        module = self.load(ptx)
        copies = [(self.array(given), given) for given in arguments if isinstance(given, np.ndarray)]
        addresses = iter(copies)
        words = [next(addresses)[0] if isinstance(given, np.ndarray) else int(given) for given in arguments]
        entry = self.driver.entry(module, name or name_of(ptx))
        data = np.array([word % 2**64 for word in words], np.uint64).tobytes()
        self.driver.launch(entry, _three(grid), _three(block), shared, self.stream, data)
        for address, given in copies:
            self.read(address, given)
            self.driver.free(address)
        self.driver.unload(module)


def name_of(ptx: str) -> str:
    """The name of the only kernel of a text."""
    return ptx.split(".entry ")[1].split("(")[0].strip()


def _three(shape: int | tuple[int, ...]) -> tuple[int, int, int]:
    given = (shape,) if isinstance(shape, int) else shape
    return (*given, 1, 1)[:3]


def compile_ptx(function: Callable[..., None], *kinds: Any) -> str:
    """PTX of a kernel written with numba-cuda, for any machine."""
    with no_gpu():
        return str(cuda.compile_ptx(function, kinds, cc=(9, 0))[0])


@contextlib.contextmanager
def no_gpu() -> Iterator[None]:
    """Lets numba-cuda compile where there is no GPU."""
    device = SimpleNamespace(compute_capability=(9, 0))
    with mock.patch.object(dispatcher, "get_current_device", return_value=device):
        yield
