"""Operations of reductions, under MPI's names; they work without MPI too."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from typing import Any


class Op(enum.Enum):
    """An operation that combines two contributions to a reduction. Local.

    The names and meanings are MPI's. A member is also a function of two objects, so that ``reduce`` and ``allreduce``
    combine any Python objects that support it: numbers, sets (``BOR``), pairs of value and location (``MAXLOC``).

    Example:
        >>> import gondwana as gw
        >>> gw.MAX(2, 3)
        3
    """

    SUM = "SUM"
    PROD = "PROD"
    MAX = "MAX"
    MIN = "MIN"
    LAND = "LAND"
    LOR = "LOR"
    LXOR = "LXOR"
    BAND = "BAND"
    BOR = "BOR"
    BXOR = "BXOR"
    MAXLOC = "MAXLOC"
    MINLOC = "MINLOC"

    def __call__(self, left: Any, right: Any) -> Any:
        """Combine two contributions. Local."""
        return _FUNCTIONS[self](left, right)


def _max_location(left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
    if left[0] == right[0]:
        return left[0], min(left[1], right[1])
    return max(left, right, key=operator.itemgetter(0))


def _min_location(left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
    if left[0] == right[0]:
        return left[0], min(left[1], right[1])
    return min(left, right, key=operator.itemgetter(0))


_FUNCTIONS: dict[Op, Callable[[Any, Any], Any]] = {
    Op.SUM: operator.add,
    Op.PROD: operator.mul,
    Op.MAX: max,
    Op.MIN: min,
    Op.LAND: lambda left, right: bool(left) and bool(right),
    Op.LOR: lambda left, right: bool(left) or bool(right),
    Op.LXOR: lambda left, right: bool(left) != bool(right),
    Op.BAND: operator.and_,
    Op.BOR: operator.or_,
    Op.BXOR: operator.xor,
    Op.MAXLOC: _max_location,
    Op.MINLOC: _min_location,
}

SUM, PROD, MAX, MIN = Op.SUM, Op.PROD, Op.MAX, Op.MIN
LAND, LOR, LXOR = Op.LAND, Op.LOR, Op.LXOR
BAND, BOR, BXOR = Op.BAND, Op.BOR, Op.BXOR
MAXLOC, MINLOC = Op.MAXLOC, Op.MINLOC


class InPlace(enum.Enum):
    """The type of ``IN_PLACE``."""

    IN_PLACE = "IN_PLACE"


IN_PLACE = InPlace.IN_PLACE
"""In place of the send buffer: this rank's contribution is already in the receive buffer."""
