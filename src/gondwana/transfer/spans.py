"""Where the elements of places lie in bytes: their addresses, and what two places have in common without gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.memory.kinds import Bytes
from gondwana.transfer.boxes import box_of
from gondwana.transfer.boxes import runs as runs_of_box
from gondwana.transfer.places import Place


def as_bytes(memory: npt.NDArray[Any]) -> Bytes:
    """Return the bytes of contiguous memory, without a copy. Local."""
    return memory.reshape(-1).view(np.uint8)


def address_of(place: Place) -> int:
    """Return where the first element lies in memory in reach. Local."""
    assert place.memory is not None
    return place.memory.ctypes.data


def is_indexed(source: Place, target: Place) -> bool:
    """Tell whether an end consists of chunks at any distances. Local."""
    return source.offsets() is not None or target.offsets() is not None


def runs(source: Place, target: Place) -> tuple[list[tuple[int, int]], int]:
    """Return what is without gaps at both ends: offsets of every run in bytes from the first elements, bytes of each.

    Local.
    """
    if is_indexed(source, target):
        return list(zip(_chunks(source), _chunks(target), strict=True)), source.shape[1] * source.dtype.itemsize
    box = box_of(source.shape, source.dtype.itemsize, source.strides, target.strides)
    return list(runs_of_box(box)), box.run


def _chunks(place: Place) -> list[int]:
    """Offsets in bytes of the chunks of a place, of a contiguous one if it is not made of chunks."""
    found = place.offsets()
    chunk = place.shape[1] * place.dtype.itemsize
    return [chunk * index for index in range(place.shape[0])] if found is None else found
