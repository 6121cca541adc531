"""Making global arrays: NumPy's names, a domain instead of a shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gondwana.arrays.array import Array, MemoryOrder
from gondwana.arrays.global_array import GlobalArray
from gondwana.arrays.layout import Layout, best_grid
from gondwana.compiler.types.arguments import DTYPES
from gondwana.domains import PointLike, RectDomain
from gondwana.errors import UsageError
from gondwana.memory.kinds import MemoryKind, host
from gondwana.teams import Team, world

T = TypeVar("T")


def empty(
    domain: RectDomain | PointLike,
    dtype: npt.DTypeLike = float,
    *,
    ghost: int | Sequence[int] = 0,
    periodic: bool | Sequence[bool] = False,
    grid: Sequence[int] | None = None,
    order: MemoryOrder = "C",
    kind: MemoryKind = host,
    team: Team = world,
) -> GlobalArray:
    """Return a global array whose elements are to be set. Collective over team; blocks.

    Args:
        domain: all cells: a dense RectDomain, or a shape (from the origin).
        dtype: type of an element: numeric, native.
        ghost: ghost cells around each block, one width or one an axis.
        periodic: whether the domain closes on itself, for all axes or one an axis.
        grid: blocks along each axis, their product the number of ranks; default: the grid that moves least, the
            contiguous axis cut last.
        order: "C" (last axis contiguous) or "F" (first axis contiguous).
        kind: where this rank's block lies; may differ from rank to rank.
        team: the ranks that share it.

    Returns:
        The array. Remainders go to the first blocks; with more ranks than cells some blocks are empty.

    Raises:
        UsageError: an argument is illegal; raised before any communication.

    Example:
        >>> import gondwana as gw
        >>> T = gw.zeros(gw.RectDomain((0, 0, 0), (16, 16, 16)), ghost=1, periodic=True)
        >>> T.ghost, T.domain.size
        ((1, 1, 1), 4096)
    """
    box = domain if isinstance(domain, RectDomain) else RectDomain.from_shape(domain)
    element = np.dtype(dtype)
    if not box.is_dense:
        raise UsageError(
            f"a global array lives on a dense domain, not on {box!r}: divide its coordinates by the stride"
        )
    if box.is_empty:
        raise UsageError(f"a global array needs at least one cell, {box!r} has none")
    if element.name not in DTYPES or not element.isnative:
        raise UsageError(
            f"a global array of dtype {element} is not possible: use a native bool, integer, float32, float64 or "
            "complex"
        )
    if order not in ("C", "F"):
        raise UsageError(f'order={order!r}: the orders are "C" and "F"')
    widths = _per_axis("ghost", ghost, box.ndim, int)
    if min(widths) < 0:
        raise UsageError(f"ghost={ghost!r}: give widths of 0 or more")
    closed = _per_axis("periodic", periodic, box.ndim, bool)
    blocks = best_grid(box.shape, team.size, widths, order) if grid is None else _per_axis("grid", grid, box.ndim, int)
    if math.prod(blocks) != team.size or min(blocks) < 1:
        raise UsageError(
            f"grid={blocks} has {math.prod(blocks)} blocks for {team.size} ranks: "
            "give positive numbers whose product is the number of ranks, or leave it out"
        )
    return GlobalArray(Layout(box, blocks, widths, closed, order), element, team, kind)


def zeros(domain: RectDomain | PointLike, dtype: npt.DTypeLike = float, **options: Any) -> GlobalArray:
    """Return a global array of zeros. Collective over team; blocks. Arguments as for `empty`.

    The memory is zero when the system hands it out, so nothing is touched: each page comes to be near the thread that
    uses it first.
    """
    return empty(domain, dtype, **options)


def full(domain: RectDomain | PointLike, value: Any, dtype: npt.DTypeLike | None = None, **options: Any) -> GlobalArray:
    """Return a global array of one value, ghosts too. Collective over team; blocks. Arguments as for `empty`.

    Args:
        domain: all cells.
        value: of every cell.
        dtype: default: that of the value.
        **options: as for `empty`.
    """
    array = empty(domain, np.asarray(value).dtype if dtype is None else dtype, **options)
    array.fill(value)
    return array


def zeros_like(other: GlobalArray, dtype: npt.DTypeLike | None = None) -> GlobalArray:
    """Return a global array of zeros with the division of another one. Collective over its team; blocks.

    Args:
        other: gives domain, grid, ghosts, periodicity, order, kind of memory and team.
        dtype: default: that of `other`.
    """
    element = other.dtype if dtype is None else np.dtype(dtype)
    return GlobalArray(other.layout, element, other.team, other.kind)


def from_numpy(data: npt.ArrayLike, domain: RectDomain | None = None, **options: Any) -> GlobalArray:
    """Return a global array with the elements of an ndarray. Collective over team; blocks.

    Args:
        data: all cells, the same on every rank; each takes its own.
        domain: of the shape of `data`; default: from the origin.
        **options: as for `empty`.

    Example:
        >>> import gondwana as gw, numpy as np
        >>> gw.from_numpy(np.arange(6.0)).to_numpy().tolist()
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    """
    source = Array(np.asarray(data), domain)
    array = empty(source.domain, source.dtype, **options)
    array.block(array.team.rank).copy_from(source)
    return array


def _per_axis(name: str, value: Any, ndim: int, kind: type[T]) -> tuple[T, ...]:
    """One value for each axis: given once, or as a sequence."""
    values = tuple(value) if isinstance(value, Sequence | np.ndarray) else (value,) * ndim
    plain = kind is bool or not any(isinstance(item, bool | np.bool_) for item in values)
    if len(values) != ndim or not plain or not all(isinstance(item, _ACCEPTED[kind]) for item in values):
        raise UsageError(f"{name}={value!r}: give one {kind.__name__}, or one for each of the {ndim} axes")
    return tuple(kind(item) for item in values)  # type: ignore[call-arg]


_ACCEPTED: dict[type, Any] = {int: int | np.integer, bool: bool | np.bool_}
