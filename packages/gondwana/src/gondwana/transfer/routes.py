"""From which rank to which the verbs move data, and how many bytes: what traces count."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.memory.pointer import GlobalPtr
from gondwana.runtime.tracing import Route
from gondwana.transfer.box import End, divided_end, ends_of_copy


def of_copy(_: object, src: End, dst: End, n: int | None = None, **_options: Any) -> Route | None:
    """Return the way of what `copy` has moved, None if plans record it. Local."""
    if divided_end(src, dst) is not None:
        return None
    source, target = ends_of_copy(src, dst, n)
    return source.owner, target.owner, source.nbytes


def of_indexed(
    _: object,
    src: GlobalPtr | npt.NDArray[Any],
    src_indices: npt.ArrayLike,
    dst: GlobalPtr | npt.NDArray[Any],
    dst_indices: npt.ArrayLike,
    length: int = 1,
    **_options: Any,
) -> Route:
    """Return the way of what `copy_indexed` has moved. Local."""
    return _owner(src), _owner(dst), np.size(src_indices) * length * src.dtype.itemsize


def of_put(_: object, value: Any, ptr: GlobalPtr, **_options: Any) -> Route:
    """Return the way of what `put` has moved. Local."""
    return None, _owner(ptr), np.size(value) * ptr.dtype.itemsize


def of_get(
    _: object, ptr: GlobalPtr, n: int | None = None, *, out: npt.NDArray[Any] | None = None, **_options: Any
) -> Route:
    """Return the way of what `get` has moved. Local."""
    count = n if n is not None else 1 if out is None else out.size
    return _owner(ptr), None, count * ptr.dtype.itemsize


def _owner(end: GlobalPtr | npt.NDArray[Any]) -> int | None:
    """The rank of the world that an end belongs to, None for private memory."""
    return end.team.world_ranks[end.rank] if isinstance(end, GlobalPtr) else None
