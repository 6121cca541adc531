"""Launching compiled kernels on a device: versions by argument specs and shape, parameters, results of reductions."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import struct
import types as pytypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.compiler.cache import ObjectCode, fingerprint
from gondwana.compiler.function import obtain
from gondwana.compiler.types.arguments import (
    DOMAIN,
    WORD,
    HandleSpec,
    NdarraySpec,
    ScalarSpec,
    Spec,
    TupleSpec,
    spec_words,
    working_precision,
)
from gondwana.compiler.types.footprint import Footprint
from gondwana.errors import KernelError, UsageError
from gondwana.gpu.device import Device
from gondwana.kernels.cuda import sweeps
from gondwana.kernels.cuda.shapes import HEADER_WORDS, Geometry, Shape, geometry
from gondwana.kernels.exact import WORDS
from gondwana.kernels.intermediate import FAMILY as INTERMEDIATE
from gondwana.kernels.variant import Variant

Functions = tuple[pytypes.FunctionType, pytypes.FunctionType]

_MOST_PARAMETERS = 4096 // WORD
_BLOCKS_EACH = 4
"""Blocks of a reduction for each that the device holds at once: few enough to fold on the host, enough to balance."""

_LEAST = 1 << 16
_held: dict[int, tuple[int, int]] = {}
"""Address and bytes of scratch memory, by number of the device; grows, and is used by one reduction at a time."""


@dataclass(frozen=True)
class Loaded:
    """A compiled variant on a device.

    Attributes:
        device: device that runs it.
        entry: handle of the driver.
        shape: shape of its launches.
        footprints: footprint on each array slot that it uses.
        result: dtype of a reduction's numbers, "" for other kernels.
        exact: whether these are accumulators.
        ordered: whether the bits of its result depend on its shape, so that no trial may choose it.
        narrow: words of the arguments that hold Python's floats, which the kernel takes in single precision.
        border: points at each end of a tile that belong to its neighbours.
    """

    device: Device
    entry: int
    shape: Shape
    footprints: dict[int, Footprint]
    result: str
    exact: bool
    ordered: bool
    narrow: tuple[int, ...]
    border: int = 0

    def table(self, rows: bytes, count: int, points: int) -> Tiles:
        """Deal the boxes of a domain (see `variant.box_table`) to blocks, for the launches that use it. Local."""
        size = len(rows) // count if count else 0
        boxes = [struct.unpack_from(f"{size // WORD}q", rows, i * size) for i in range(count)]
        dealt = (geometry(box, self.shape, self.border) for box in boxes)
        return Tiles([one for one in dealt if one.tiles], points)

    def run(self, tiles: Tiles, data: bytes, name: str, flags: int) -> None:
        """Launch the kernel over boxes. Local; returns at once, the device runs it after all earlier launches.

        What a reduction leaves stays on the device: see `results`.
        """
        data = self._narrowed(data)
        if self.result:
            self._reduce(tiles, data)
            return
        for box in tiles.boxes:
            self._launch(box, box.tiles, data, 0)

    def prepared(
        self, tiles: Tiles, data: bytes, name: str, flags: int, anew: Callable[..., None] | None = None
    ) -> Callable[..., None]:
        """Return what launches the kernel over boxes again and again. Local; arguments as on the host."""

        def launch(*last: float) -> None:
            self.run(tiles, data[: len(data) - WORD * len(last)] + struct.pack(f"{len(last)}d", *last), name, flags)

        return anew or launch

    def results(self, tiles: Tiles, data: bytes, name: str, flags: int) -> npt.NDArray[np.int64]:
        """Run a reduction over boxes and return the result of each block, a row of words each. Local; blocks."""
        scratch, blocks = self._reduce(tiles, self._narrowed(data))
        driver, stream = self.device.driver, self.device.compute
        left = np.empty((blocks, self._width), np.int64)
        driver.copy(left.ctypes.data, scratch, left.nbytes, stream)
        driver.finish(stream)
        return left

    def _reduce(self, tiles: Tiles, data: bytes) -> tuple[int, int]:
        """Launch a reduction over boxes; return where its results will be, and their number."""
        most = _BLOCKS_EACH * self.device.facts.processors * max(1, self._resident)
        blocks = [min(box.tiles, most) for box in tiles.boxes]
        row = self._width * WORD
        scratch = first = _scratch_of(self.device, sum(blocks) * row)
        for box, count in zip(tiles.boxes, blocks, strict=True):
            self._launch(box, count, data, first)
            first += count * row
        return scratch, sum(blocks)

    @property
    def _width(self) -> int:
        """Words of the result of a block."""
        return WORDS if self.exact else 1

    @functools.cached_property
    def _resident(self) -> int:
        return self.device.driver.resident(self.entry, self.shape.threads, 0)

    def _launch(self, box: Geometry, blocks: int, data: bytes, results: int) -> None:
        self.device.activate()
        arguments = box.words + results.to_bytes(WORD, "little") + data
        block = (self.shape.x, self.shape.y, 1)
        self.device.driver.launch(self.entry, (blocks, 1, 1), block, 0, self.device.compute, arguments)

    def _narrowed(self, data: bytes) -> bytes:
        """The arguments with Python's floats in the precision of the arrays."""
        if not self.narrow:
            return data
        changed = bytearray(data)
        for word in self.narrow:
            # Values that `struct` refuses are infinity here, too.
            number = ctypes.c_float(*struct.unpack_from("d", data, word * WORD))
            changed[word * WORD : word * WORD + WORD] = bytes(number) + bytes(WORD - 4)
        return bytes(changed)


@dataclass(frozen=True)
class Tiles:
    """The boxes of a domain, dealt to blocks; boxes without points are left out.

    Attributes:
        boxes: parameters of a launch over each box.
        points: number of points of all boxes.
    """

    boxes: list[Geometry]
    points: int


def load(function: pytypes.FunctionType, variant: Variant, shape: Shape, where: Device) -> Loaded:
    """Return the machine code of a variant on a device: from the cache, or compiled now. Local.

    Raises:
        KernelError: an argument cannot be on a device, or the kernel does not compile for these arguments.
    """
    _check(function.__qualname__, variant)
    capability, shape = where.facts.capability, shape.over(dense=variant.dense)

    def compile_now() -> ObjectCode:
        from gondwana.kernels.cuda.build import build

        return build(function, variant, shape, capability)

    return _loaded((fingerprint(function),), variant, shape, where, compile_now, "gondwana.kernels.cuda.build.build")


def load_pair(functions: Functions, count: int, variant: Variant, shape: Shape, where: Device) -> Loaded:
    """Return the machine code of a fused pair on a device: from the cache, or compiled now. Local.

    Args:
        functions: the kernels.
        count: number of the arguments that belong to the first.
        variant: arguments of both.
        shape: shape of the launches.
        where: the device.

    Raises:
        KernelError: an argument cannot be on a device, or the kernels do not compile for these arguments.
    """
    _check(" and ".join(function.__qualname__ for function in functions), variant)
    capability = where.facts.capability

    def compile_now() -> ObjectCode:
        from gondwana.kernels.cuda.build import build_pair

        return build_pair(functions, count, variant, shape, capability)

    key, made_by = (*map(fingerprint, functions), str(count)), "gondwana.kernels.cuda.build.build_pair"
    loaded = _loaded(key, variant, shape, where, compile_now, made_by)
    return replace(loaded, border=sweeps.BORDER)


@contextlib.contextmanager
def compiler_needed() -> Iterator[None]:
    """Return a context manager for code that imports numba-cuda's compiler. Local.

    Raises:
        UsageError: the compiler is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("numba", "cuda"):
            raise  # a module that the kernel's own program lacks
        raise UsageError(f"code for GPUs needs {error.name}: pip install 'gondwana[cuda]'") from None


def _loaded(
    key: tuple[str, ...],
    variant: Variant,
    shape: Shape,
    where: Device,
    build: Callable[[], ObjectCode],
    made_by: str,
) -> Loaded:
    """Code from the cache, or built and translated now, in this process."""
    driver, capability = where.driver, where.facts.capability

    def compile_now() -> ObjectCode:
        with compiler_needed():
            built = build()
        return replace(built, code=driver.link(built.code, capability))

    about_all = (driver.name, toolchain(), repr(variant), repr(shape.code()), repr(capability))
    code = obtain(("cuda", *about_all, *key), compile_now, made_by, "gondwana.kernels.cuda.shapes.Shape")
    found: Any = code.about["footprints"]
    footprints = {int(slot): Footprint.from_about(about) for slot, about in found.items()}
    where.activate()
    entry = driver.entry(driver.load(code.code), code.symbol)
    narrow = tuple(_weak(variant.specs)) if working_precision(variant.specs) == "float32" else ()
    result, operation = str(code.about["result"]), variant.operation
    ordered = operation in ("sum", "prod") and np.dtype(result).kind == "f"
    return Loaded(where, entry, shape, footprints, result, operation == "fsum", ordered, narrow)


@functools.cache
def toolchain() -> str:
    """Return the versions that the machine code of devices depends on besides those of the host. Local."""
    return " ".join(f"{name} {_version(name)}" for name in ("numba-cuda", "nvidia-nvvm", "nvidia-nvjitlink"))


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # not at the start of every rank

    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _check(name: str, variant: Variant) -> None:
    """Refuse arguments that a device cannot take."""
    words = HEADER_WORDS + sum(map(spec_words, variant.specs))
    if words > _MOST_PARAMETERS:
        raise KernelError(
            f"{name} has {words} words of arguments: a device takes {_MOST_PARAMETERS}, pass fewer arrays"
        )
    for spec in _flat(variant.specs):
        if isinstance(spec, NdarraySpec):
            raise KernelError(
                f"{name} runs on a device, but got a NumPy array: pass an array on the device (gw.zeros(..., kind=...))"
            )
        if isinstance(spec, HandleSpec) and spec.family not in (INTERMEDIATE, DOMAIN):
            raise KernelError(f"{name} runs on a device, which cannot communicate: leave out the {spec.family}")


def _flat(specs: tuple[Spec, ...]) -> Iterator[Spec]:
    """All specs, those inside tuples too."""
    for spec in specs:
        yield from _flat(spec.items) if isinstance(spec, TupleSpec) else (spec,)


def _weak(specs: tuple[Spec, ...], first: int = 0) -> list[int]:
    """Numbers of the words that hold Python's floats."""
    found = []
    for spec in specs:
        if isinstance(spec, TupleSpec):
            found += _weak(spec.items, first)
        elif isinstance(spec, ScalarSpec) and spec.weak and spec.dtype == "float64":
            found.append(first)
        first += spec_words(spec)
    return found


def _scratch_of(device: Device, nbytes: int) -> int:
    """Return the address of memory that the next reduction on the device may use. Local; one thread at a time."""
    address, size = _held.get(device.number, (0, 0))
    if size < nbytes:
        device.activate()
        if size:
            device.driver.free(address)
        size = max(_LEAST, 2 * nbytes)
        address = device.driver.allocate(size)
        _held[device.number] = address, size
    return address
