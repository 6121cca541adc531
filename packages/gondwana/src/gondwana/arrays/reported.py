"""Accesses of Python to elements of arrays as the race detector sees them; views as ndarrays are not seen."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from gondwana.runtime.races import Kind, reporter
from gondwana.transfer.box import StridedBox, moved
from gondwana.transfer.plans.reported import boxes_of

F = TypeVar("F", bound=Callable[..., Any])


def reads(method: F) -> F:
    """Have a method report that it reads the elements at a position: a decorator. Local."""
    return _reported(method, Kind.READ, lambda array, position: position)


def writes(method: F) -> F:
    """Have a method report that it writes the elements at an index: a decorator. Local."""
    return _reported(method, Kind.WRITE, lambda array, index, _value: array._position(index))


def writes_all(method: F) -> F:
    """Have a method report that it writes all elements: a decorator. Local."""
    return _reported(method, Kind.WRITE, lambda array, _value: ())


def _reported(method: F, kind: int, position: Callable[..., tuple[Any, ...]]) -> F:
    one = reporter
    if one is None:
        return method

    @functools.wraps(method)
    def report(array: Any, *args: Any) -> Any:
        if array._anchor is not None:
            part = array._data[(*position(array, *args), ...)]
            pointer, address = array._anchor
            there = moved(pointer, part.ctypes.data - address).cast(part.dtype)
            site = one.site()
            for box in boxes_of(StridedBox(there, part, part.dtype, part.shape, part.strides)):
                one.access(kind, box, site)
        return method(array, *args)

    return report  # type: ignore[return-value]
