"""Operations of reductions, under MPI's names; they work without MPI too."""

from __future__ import annotations

import enum
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gondwana.errors import UsageError


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

    __hash__ = object.__hash__  # that of enum is a call of Python, in every look-up of an operation

    def __call__(self, left: Any, right: Any) -> Any:
        """Combine two contributions. Local."""
        return _FUNCTIONS[self](left, right)


def _is_nan(value: Any) -> bool:
    return bool(value != value)


def _maximum(left: Any, right: Any) -> Any:
    return right if right > left or (_is_nan(right) and not _is_nan(left)) else left


def _minimum(left: Any, right: Any) -> Any:
    return right if right < left or (_is_nan(right) and not _is_nan(left)) else left


def _max_location(left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
    return _location(left, right, _maximum)


def _min_location(left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
    return _location(left, right, _minimum)


def _location(left: tuple[Any, Any], right: tuple[Any, Any], extreme: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    if left[0] == right[0] or (_is_nan(left[0]) and _is_nan(right[0])):
        return left[0], min(left[1], right[1])
    return left if extreme(left[0], right[0]) is left[0] else right


_FUNCTIONS: dict[Op, Callable[[Any, Any], Any]] = {
    Op.SUM: operator.add,
    Op.PROD: operator.mul,
    Op.MAX: _maximum,
    Op.MIN: _minimum,
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

Operation: TypeAlias = Op | str | Any
"""A user's name of an operation: ``gw.MAX``, ``"max"``, or mpi4py's ``MPI.MAX``."""

Combine: TypeAlias = Operation | Callable[[Any, Any], Any]
"""The same, or any function of two objects."""

KINDS = {
    SUM: "iufc",
    PROD: "iufc",
    MAX: "iuf",
    MIN: "iuf",
    LAND: "biu",
    LOR: "biu",
    LXOR: "biu",
    BAND: "iu",
    BOR: "iu",
    BXOR: "iu",
}
"""The operations on buffers, and the kinds of dtypes (as in `dtype.kind`) that MPI has each for."""

UFUNCS: dict[Op, np.ufunc] = {
    SUM: np.add,
    PROD: np.multiply,
    MAX: np.maximum,
    MIN: np.minimum,
    BAND: np.bitwise_and,
    BOR: np.bitwise_or,
    BXOR: np.bitwise_xor,
}
"""The operations that NumPy does on arrays as MPI does; a maximum or minimum of numbers with a NaN is NaN."""

_BY_NAME = {op.name.lower(): op for op in Op}


def named(op: Operation) -> Op | None:
    """Return the operation of a name, or None: the one vocabulary of all reductions. Local."""
    if isinstance(op, Op):
        return op
    return _BY_NAME.get(op) if isinstance(op, str) else _of_mpi4py(op)


def function_of(op: Combine, call: str) -> Callable[[Any, Any], Any]:
    """Return the function that combines two Python objects. Local.

    Args:
        op: an operation or a function of two objects.
        call: name of the team's method that got it, for messages.

    Raises:
        UsageError: it is neither.
    """
    found = named(op)
    if found is not None:
        return found
    if not callable(op):
        raise UsageError(
            f"{call} has no operation {op!r}: legal are {_names(Op)} (also as gw.SUM or mpi4py's MPI.SUM), and any "
            "function of two objects"
        )
    function: Callable[[Any, Any], Any] = op
    return function


def operation_on(dtype: np.dtype[Any], op: Operation, call: str) -> Op:
    """Return the operation that combines elements of a dtype. Local.

    Args:
        dtype: dtype of the elements.
        op: the user's name of the operation.
        call: name of the function that got it, for messages.

    Raises:
        UsageError: the operation does not exist, or not for this dtype.
    """
    found = named(op)
    if found not in KINDS:
        raise UsageError(
            f"{call} has no operation {op!r}: legal are {_names(KINDS)} (also as gw.SUM or mpi4py's MPI.SUM)"
        )
    if dtype.kind not in KINDS[found]:
        legal = _names(other for other, kinds in KINDS.items() if dtype.kind in kinds)
        raise UsageError(f"{call} cannot do {found.name.lower()!r} on {dtype}: legal are {legal or 'none'}")
    return found


def is_folded(dtype: np.dtype[Any], op: object) -> bool:
    """Return whether elements of a dtype are combined in the order of the ranks, if they are few. Local.

    The others are logical operations, which have no order, and products of complex numbers, which NumPy and compiled
    code round differently.
    """
    return isinstance(op, Op) and op in UFUNCS and dtype.kind in KINDS[op] and (op is not PROD or dtype.kind != "c")


def fold(parts: Sequence[np.ndarray[Any, Any]], total: np.ndarray[Any, Any], op: Op) -> None:
    """Combine the contributions of at least two ranks in their order, element by element. Local."""
    function = UFUNCS[op]
    function(parts[0], parts[1], out=total)
    for part in parts[2:]:
        function(total, part, out=total)


def is_defined_by_user(op: object) -> bool:
    """Return whether this is an operation that the user has made with mpi4py: ``MPI.Op.Create``. Local."""
    module = sys.modules.get("mpi4py.MPI")
    return module is not None and isinstance(op, module.Op) and not op.is_predefined


def _of_mpi4py(op: object) -> Op | None:
    module = sys.modules.get("mpi4py.MPI")
    if module is None or not isinstance(op, module.Op):
        return None
    return next((member for member in Op if getattr(module, member.name) == op), None)


def _names(ops: Iterable[Op]) -> str:
    return ", ".join(op.name.lower() for op in ops)


class InPlace(enum.Enum):
    """The type of ``IN_PLACE``."""

    IN_PLACE = "IN_PLACE"


IN_PLACE = InPlace.IN_PLACE
"""In place of the send buffer: this rank's contribution is already in the receive buffer."""
