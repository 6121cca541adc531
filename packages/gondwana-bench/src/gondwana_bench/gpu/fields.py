"""U and V on a device, before a step and after it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import gondwana as gw
from gondwana.memory.cuda_kind import CudaKind
from gondwana_apps.grayscott.kernels import Noise, Rates, react_and_diffuse
from gondwana_apps.grayscott.simulation import BACKGROUND_U, BACKGROUND_V, SEED_U, SEED_V, Summary
from gondwana_bench.native.cuda_sweeps import Field
from gondwana_bench.stencil import gray_scott_one

RATES = Rates(F=0.02, k=0.048, Du=0.2, Dv=0.1, dt=1.0)
RATES_OF_ONE = RATES.Du, RATES.F, RATES.dt
"""The constants of U alone."""
AMPLITUDE, SEED = 0.1, 42
FIELDS = 4
"""Arrays of a run: U and V, old and new."""
LINE = 128
"""The most bytes by which a row may be longer than its cells."""
GHOST = 2
"""Layers of ghosts that two fused steps need."""


def noise_of(step: int) -> Noise:
    """Return the noise of the step with this number. Local."""
    return Noise(AMPLITUDE, SEED, step)


def around(noise: Noise | None, side: int) -> Noise | None:
    """Return a noise that is equal in the ghosts of a periodic cube and in the cells that they copy. Local."""
    return None if noise is None else noise._replace(side=side)


@gw.foreach
def spread(p: gw.Point, a: Any, low: float, high: float, key: int) -> None:
    """Set each cell to its own value between two numbers: zeros would take less power than a run."""
    a[p] = low + (high - low) * (0.5 + 0.5 * gw.random(key, p, 0, a.dtype))


Planes = list[np.ndarray[Any, Any]]
"""The new values of one plane of cells, of U and V or of U alone, on the host."""


class Fields:
    """Four arrays of a periodic cube with two layers of ghosts. Local: in a process of its own.

    Args:
        size: cells a side.
        dtype: "float64" or "float32".
        kind: memory of the fields.
    """

    def __init__(self, size: int, dtype: str, kind: CudaKind) -> None:
        self.size, self.dtype = size, dtype
        options: dict[str, Any] = {"ghost": GHOST, "periodic": True, "order": "F", "kind": kind}
        self.arrays: Sequence[gw.GlobalArray] = [gw.empty((size,) * 3, dtype, **options) for _ in range(FIELDS)]
        self.domain = self.arrays[0].owned
        self._native = {id(array): _native(array.local) for array in self.arrays}

    @staticmethod
    def nbytes(size: int, dtype: str) -> int:
        """Return approximately how many bytes they take. Local."""
        item, side = np.dtype(dtype).itemsize, size + 2 * GHOST
        return FIELDS * side * side * (side * item + LINE)

    def spread(self) -> None:
        """Fill them with values as they occur in a run, all different. Local; does not wait."""
        for key, (array, high) in enumerate(zip(self.arrays, (1.0, 0.3) * 2, strict=True)):
            spread(array.local.domain, array, 0.0, high, key)

    def seed(self, first: int, end: int) -> None:
        """Start a run: the background everywhere, and a seed cube in the centre. Local; does not wait."""
        for array, value in zip(self.arrays, (BACKGROUND_U, BACKGROUND_V) * 2, strict=True):
            array.fill(value)
        cube = gw.RectDomain((first,) * 3, (end,) * 3)
        for array, value in zip(self.arrays[2:], (SEED_U, SEED_V), strict=True):
            array.local.restrict(cube).fill(value)

    def exchange(self) -> None:
        """Fill the ghosts of the old values. Local; blocks."""
        gw.exchange(*self.arrays[2:], corners=True).wait()

    def swap(self) -> None:
        """Make the new values the old ones. Local."""
        u_next, v_next, u, v = self.arrays
        self.arrays = [u, v, u_next, v_next]

    def native(self) -> list[Field]:
        """Return their description for CUDA C. Local."""
        return [self._native[id(array)] for array in self.arrays]

    def summary(self) -> Summary:
        """Return extremes and exact sums of the old values, calculated by the host. Local; blocks."""
        found: list[float] = []
        for array in self.arrays[2:]:
            cells = array.local.restrict(self.domain).copy().numpy().astype(float)
            found += [float(cells.min()), float(cells.max()), math.fsum(cells.ravel())]
        return Summary(*found)

    def plane(self, z: int, variables: int = 2) -> Planes:
        """Return the new values of a plane. Local; blocks."""
        box = _slab(self.domain, z, z + 1)
        return [array.local.restrict(box).copy().numpy() for array in self.arrays[:variables]]

    def plane_by_host(self, z: int, noise: Sequence[Noise | None], variables: int = 2) -> Planes:
        """Compute a plane on the host from the old values, one step for each noise. Local; blocks.

        Args:
            z: the plane.
            noise: amplitude of each step; None: no noise.
            variables: 2; 1: U alone.
        """
        held, depth = self.arrays[0].local.domain, len(noise)
        planes = _slab(held, z - depth, z + depth + 1)
        old = [array.local.restrict(planes).copy() for array in self.arrays[2 : 2 + variables]]
        for reach, one in zip(reversed(range(depth)), noise, strict=True):
            # As on the device: a first step also does the layer of ghosts that the second one reads.
            new = [gw.Array.empty(planes, array.dtype, order="F") for array in old]
            box = _slab(self.domain.accrete(reach), z - reach, z + reach + 1)
            if variables == 1:
                gray_scott_one(box, *new, *old, *RATES_OF_ONE)
            else:
                react_and_diffuse(box, *new, *old, RATES, around(one, self.size))
            old = new
        return [array.restrict(_slab(self.domain, z, z + 1)).numpy() for array in old]

    def close(self) -> None:
        """Free the memory when the device has finished. Local."""
        for array in self.arrays:
            array.close()


def _slab(box: gw.RectDomain, first: int, end: int) -> gw.RectDomain:
    """Return the planes [first, end) of a box."""
    return gw.RectDomain((*tuple(box.lo)[:2], first), (*tuple(box.hi)[:2], end)) & box


def _native(array: Any) -> Field:
    item = array.dtype.itemsize
    steps = [stride // item for stride in array.strides]
    corner = sum(-first * stride for first, stride in zip(array.domain.lo, array.strides, strict=True))
    cells = tuple(count - 2 * GHOST for count in array.shape)
    return Field(array.address + corner, cells, steps[1], steps[2])
