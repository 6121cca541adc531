"""A distributed array for tests of input and output: NumPy memory with ghosts, divided as the test says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gondwana.domains.rect import RectDomain


@dataclass
class Memory:
    """NumPy memory over a box of cells."""

    domain: RectDomain
    cells: np.ndarray[Any, Any]

    def restrict(self, domain: RectDomain) -> Memory:
        if domain.is_empty:
            return Memory(domain, self.cells[tuple(slice(0, 0) for _ in range(domain.ndim))])
        corner = [a - b for a, b in zip(domain.lo, self.domain.lo, strict=True)]
        window = tuple(slice(i, i + n) for i, n in zip(corner, domain.shape, strict=True))
        return Memory(domain, self.cells[window])

    def numpy(self) -> np.ndarray[Any, Any]:
        return self.cells


class DividedArray:
    """One rank's share of an array that is divided into given blocks, with ghosts full of 99."""

    def __init__(
        self,
        shape: tuple[int, ...],
        blocks: list[RectDomain],
        rank: int = 0,
        dtype: Any = np.float64,
        order: Literal["C", "F"] = "C",
        ghost: int = 1,
        base: int = 0,
    ) -> None:
        self.domain = RectDomain.from_shape(shape) + (base,) * len(shape)
        self._blocks = [block if block.is_empty else block + (base,) * len(shape) for block in blocks]
        self.dtype = np.dtype(dtype)
        self.order: Literal["C", "F"] = order
        self.owned = self._blocks[rank]
        around = self.owned if self.owned.is_empty else self.owned.accrete(ghost)
        self.local = Memory(around, np.full(around.shape, 99, self.dtype, order=order))

    def owned_of(self, rank: int) -> RectDomain:
        return self._blocks[rank]

    def set(self, whole: np.ndarray[Any, Any]) -> DividedArray:
        """Take this rank's cells from the whole array."""
        if not self.owned.is_empty:
            self.local.restrict(self.owned).numpy()[...] = whole[self._window()]
        return self

    def equals(self, whole: np.ndarray[Any, Any]) -> bool:
        """Compare this rank's cells, bit by bit, with the whole array."""
        if self.owned.is_empty:
            return True
        return self.local.restrict(self.owned).numpy().tobytes() == whole[self._window()].tobytes()

    def _window(self) -> tuple[slice, ...]:
        corner = [a - b for a, b in zip(self.owned.lo, self.domain.lo, strict=True)]
        return tuple(slice(i, i + n) for i, n in zip(corner, self.owned.shape, strict=True))


def regular(shape: tuple[int, ...], grid: tuple[int, ...]) -> list[RectDomain]:
    """Divide a box by a process grid, uneven and empty blocks included."""
    return list(RectDomain.from_shape(shape).blocks(grid))
