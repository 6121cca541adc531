"""The kernels of `gray_scott.cu`, launched on arrays that lie on a CUDA device."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from gondwana import Device
from gondwana.gpu.interface import Grid
from gondwana_bench.gpu import nvrtc

REALS = {"float64": "double", "float32": "float"}
MOST_BLOCKS = 65535
"""The most blocks of a grid along y and z."""


class Shape(NamedTuple):
    """The launch parameters of a kernel: threads of a block, and planes that a block traverses."""

    block: Grid
    planes: int = 1


KERNELS = {"naive": 1, "march": 1, "pairs": 2}
"""The kernels, and how many cells along x are a thread's."""

NAIVE = Shape((64, 4, 1))
SHAPES = tuple(
    Shape((width, height, 1), planes)
    for width, height in ((32, 8), (32, 16), (64, 4), (64, 8), (128, 4))
    for planes in (16, 32, 64)
)
"""Values of `march` to try; the measurement finds the best."""


class Field(NamedTuple):
    """The description of an array on the device for the kernels.

    Attributes:
        address: address of cell (0, 0, 0).
        cells: cells along x, y, z, without the layer around them.
        row: elements from a row to the next.
        plane: elements from a plane to the next.
    """

    address: int
    cells: tuple[int, int, int]
    row: int
    plane: int


class CudaSweeps:
    """The Gray-Scott steps in CUDA C of one precision, with noise or without. Local to create: compiles.

    Args:
        device: the device of the fields.
        dtype: "float64" or "float32".
        noise: whether random numbers are added.
        variables: 2; 1: U alone, without the reaction.

    Raises:
        UsageError: CUDA C cannot be compiled here.
    """

    def __init__(self, device: Device, dtype: str, noise: bool, variables: int = 2) -> None:
        capability = device.facts.capability
        flags = [f"-DREAL={REALS[dtype]}", f"-DPAIR={REALS[dtype]}2", f"-DNOISE={int(noise)}"]
        flags.append(f"-DVARIABLES={variables}")
        self._number = "d" if dtype == "float64" else "f4x"
        image = device.driver.link(nvrtc.ptx("gray_scott.cu", capability, flags), capability)
        self._device = device
        module = device.driver.load(image)
        self._entries = {name: device.driver.entry(module, name) for name in KERNELS}

    def step(
        self, name: str, shape: Shape, fields: Sequence[Field], rates: Sequence[float], noise: Sequence[float] = ()
    ) -> None:
        """Start a step. Local; does not wait.

        Args:
            name: name in `KERNELS`; "pairs" takes rows of an even number of cells that begin at multiples of two.
            shape: shape of the launch.
            fields: new U, new V, U and V, of one layout.
            rates: Du, Dv, F, k, dt.
            noise: amplitude, seed and number of the step, if this was compiled with noise.
        """
        target = fields[0]
        amplitude, seed, step = noise or (0.0, 0, 0)
        du, dv, feed, kill, dt = rates
        arguments = struct.pack(
            "4Q5q" + 6 * self._number + "Qqq",
            *(field.address for field in fields),
            *target.cells,
            target.row,
            target.plane,
            *(du, dv, feed, feed + kill, dt, amplitude),
            int(seed),
            int(step),
            shape.planes,
        )
        grid = _blocks(target.cells, (shape.block[0] * KERNELS[name], shape.block[1], shape.planes))
        self._device.driver.launch(self._entries[name], grid, shape.block, 0, self._device.compute, arguments)


def possible(shape: Shape, cells: tuple[int, int, int]) -> bool:
    """Return whether a grid of cells can be launched with given parameters. Local."""
    _, along_y, along_z = _blocks(cells, (*shape.block[:2], shape.planes))
    return max(along_y, along_z) <= MOST_BLOCKS


def _blocks(cells: Grid, each: Grid) -> Grid:
    x, y, z = (-(-n // size) for n, size in zip(cells, each, strict=True))
    return x, y, z
