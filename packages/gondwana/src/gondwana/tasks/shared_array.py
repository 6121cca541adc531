"""NumPy arrays that all ranks of a node share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError
from gondwana.memory.segment import Segment
from gondwana.teams import Team, world


class SharedArray:
    """A NumPy array that all ranks of a node share: they read each other's writes without messages.

    Collective over team to create (blocking). If the team spans several nodes, each node has its own array. It is
    initially zero. Order accesses of different ranks by `team.node.barrier()`, signals or locks. The memory lives until
    every rank has deleted the array and its views, or has called `close`.

    Args:
        shape: shape of the whole array.
        dtype: dtype of its elements, without Python objects.
        team: the ranks that create it together.

    Raises:
        UsageError: shape or dtype are illegal, or differ between ranks.
        LaunchError: there is not enough memory.

    Attributes:
        team: the ranks of this node, in the team.

    Example:
        >>> import gondwana as gw
        >>> squares = gw.SharedArray(10)
        >>> for i in squares.mine:
        ...     squares[i] = i * i
        >>> squares.team.barrier()
        >>> squares.numpy().sum()
        np.float64(285.0)
    """

    def __init__(self, shape: int | Sequence[int], dtype: npt.DTypeLike = float, team: Team = world) -> None:
        extents = (shape,) if isinstance(shape, int) else tuple(shape)
        kind = np.dtype(dtype)
        team.expect_same("shared arrays", shape=extents, dtype=kind)
        if kind.hasobject or any(extent < 0 for extent in extents):
            raise UsageError(f"SharedArray({shape!r}, {kind}): give extents of 0 or more, and a dtype without objects")
        self.team = team.node
        nbytes = math.prod(extents) * kind.itemsize
        self._segment = Segment(self.team, 0 if self.team.rank else nbytes, window=False)
        self._array: npt.NDArray[Any] = self._segment.view(0)[:nbytes].view(kind).reshape(extents)
        self.team.barrier()  # all have mapped it, so that the first rank may close it

    def numpy(self) -> npt.NDArray[Any]:
        """Return it as a NumPy array, without a copy. Local."""
        return self._array

    @property
    def mine(self) -> range:
        """The share of this rank of the first axis: contiguous, and disjoint from those of other ranks of the node."""
        extent, rank, size = self._array.shape[0], self.team.rank, self.team.size
        return range(extent * rank // size, extent * (rank + 1) // size)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the whole array."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an element."""
        return self._array.dtype

    def close(self) -> None:
        """Release the memory. Local; existing views stay valid."""
        self._array = np.empty((0,) * max(1, self._array.ndim), self._array.dtype)
        self._segment.close()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self._array, dtype=dtype, copy=copy)

    def __getitem__(self, index: Any) -> Any:
        return self._array[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._array[index] = value

    def __len__(self) -> int:
        return len(self._array)

    def __repr__(self) -> str:
        return f"SharedArray({self.shape}, {self.dtype}, {self.team.name})"
