"""Points of an integer lattice, and the unit vectors of its axes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import SupportsIndex, TypeAlias, TypeGuard, final, overload

PointLike: TypeAlias = "Point | Offset | Sequence[SupportsIndex] | SupportsIndex"
"""A point where the dimension is known: an int means the same value in every axis."""


def is_integer(value: object) -> TypeGuard[SupportsIndex]:
    """Return whether ``value`` is a Python or NumPy integer; a bool is not one. Local."""
    if type(value) is int:
        return True
    # By name: the bool of NumPy 2.0 has an index, too.
    return hasattr(value, "__index__") and type(value).__name__ != "bool" and not hasattr(value, "__iter__")


def as_integer(value: object) -> int:
    """Return ``value`` as a Python int; refuse values that are not exactly integers. Local.

    Raises:
        TypeError: ``value`` is a float, a bool or anything else without an exact integer value.
    """
    if type(value) is int:
        return value
    if not is_integer(value):
        raise TypeError(f"a coordinate must be an integer, not {value!r} of type {type(value).__name__}: use int(...)")
    return operator.index(value)


def as_point(value: PointLike, ndim: int | None = None) -> Point:
    """Return ``value`` as a Point of ``ndim`` dimensions; an int fills every axis. Local.

    Args:
        value: a point, an offset such as ``X``, a sequence of integers, or one integer.
        ndim: the required dimension; None takes the dimension of ``value`` (one for an integer).

    Raises:
        TypeError: a component is not an integer.
        ValueError: ``value`` has another dimension than ``ndim``.

    Example:
        >>> as_point(7, 3), as_point((1, 2))
        (Point(7, 7, 7), Point(1, 2))
    """
    if isinstance(value, Point):
        point = value
    elif isinstance(value, Offset):
        return value.as_point(len(value.terms) if ndim is None else ndim)
    elif is_integer(value):
        return Point.all(value, 1 if ndim is None else ndim)
    else:
        point = Point(value)
    if ndim is not None and len(point) != ndim:
        raise ValueError(
            f"{point!r} has dimension {len(point)} where {ndim} is needed: give one coordinate for each axis"
        )
    return point


@final
class Point(tuple[int, ...]):
    """An immutable point of an integer lattice: a tuple that calculates component by component.

    ``+ - * // %`` work with a point, a tuple or an integer (which stands for itself in every axis); ``+`` and ``-``
    with an offset such as ``X`` too. The order is that of the components: ``p <= q`` holds if it holds in every axis,
    so that ``p < q`` and ``p >= q`` may both be false (to sort points, use ``key=tuple``). Points equal the tuples of
    their components and hash like them; an ndarray indexed by a point gives one element.

    Args:
        coords: one integer for each axis, or one iterable of them. NumPy's integers are accepted.

    Raises:
        TypeError: a coordinate is a float, a bool or not a number.
        ValueError: no coordinate is given.

    Example:
        >>> p = Point(1, 2, 3)
        >>> p + 1, p * (2, 0, 1), p // 2, p - X
        (Point(2, 3, 4), Point(2, 0, 3), Point(0, 1, 1), Point(0, 2, 3))
        >>> p <= (1, 5, 3), p < (1, 5, 3)
        (True, False)
    """

    __slots__ = ()
    __array_ufunc__ = None  # NumPy's scalars then leave `np.int64(2) * p` to us, instead of making an ndarray of p

    def __new__(cls, *coords: SupportsIndex | Iterable[SupportsIndex]) -> Point:
        """Check the coordinates and make the point."""
        values: Iterable[object] = coords
        if len(coords) == 1 and isinstance(coords[0], Iterable):
            values = coords[0]
        point = tuple.__new__(cls, map(as_integer, values))
        if not point:
            raise ValueError("a Point needs at least one coordinate, for example Point(0, 0)")
        return point

    @classmethod
    def all(cls, value: SupportsIndex, ndim: int) -> Point:
        """Return the point that has ``value`` in each of ``ndim`` axes. Local.

        Example:
            >>> Point.all(1, 3)
            Point(1, 1, 1)
        """
        if ndim < 1:
            raise ValueError(f"a Point of {ndim} dimensions does not exist: the least is 1")
        return make_point((as_integer(value),) * ndim)

    @classmethod
    def direction(cls, direction: int, ndim: int) -> Point:
        """Return the unit step in a direction, one of ±1 ... ±ndim: the axis counted from one, with a sign. Local.

        Example:
            >>> Point.direction(-2, 3)
            Point(0, -1, 0)
        """
        axis, sign = split_direction(direction, ndim)
        return make_point([sign if a == axis else 0 for a in range(ndim)])

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self)

    def lower(self, other: PointLike) -> Point:
        """Return the smaller of both values in each axis. Local.

        Example:
            >>> Point(1, 5).lower((3, 2))
            Point(1, 2)
        """
        return make_point(map(min, self, as_point(other, len(self))))

    def upper(self, other: PointLike) -> Point:
        """Return the larger of both values in each axis. Local.

        Example:
            >>> Point(1, 5).upper((3, 2))
            Point(3, 5)
        """
        return make_point(map(max, self, as_point(other, len(self))))

    def permute(self, axes: Sequence[SupportsIndex]) -> Point:
        """Return the point whose axis ``i`` is axis ``axes[i]`` of this one, as ``numpy.transpose`` does. Local.

        Example:
            >>> Point(10, 20, 30).permute((2, 0, 1))
            Point(30, 10, 20)
        """
        return make_point([self[axis] for axis in check_permutation(axes, len(self))])

    def replace(self, axis: SupportsIndex, value: SupportsIndex) -> Point:
        """Return the point with the coordinate of one axis replaced. Local.

        Example:
            >>> Point(1, 2, 3).replace(1, 0)
            Point(1, 0, 3)
        """
        axis = check_axis(axis, len(self))
        return make_point((*self[:axis], as_integer(value), *self[axis + 1 :]))

    def dot(self, other: PointLike) -> int:
        """Return the sum of the products of the components. Local.

        Example:
            >>> Point(1, 2, 3).dot((100, 10, 1))
            123
        """
        return sum(map(operator.mul, self, as_point(other, len(self))))

    def __add__(self, other: PointLike) -> Point:  # type: ignore[override]  # a tuple's + concatenates
        return self._combine(operator.add, other)

    __radd__ = __add__

    def __sub__(self, other: PointLike) -> Point:
        return self._combine(operator.sub, other)

    def __rsub__(self, other: PointLike) -> Point:
        return (-self)._combine(operator.add, other)

    def __mul__(self, other: PointLike) -> Point:
        return self._combine(operator.mul, other, offsets=False)

    __rmul__ = __mul__

    def __floordiv__(self, other: PointLike) -> Point:
        return self._combine(operator.floordiv, other, offsets=False)

    def __mod__(self, other: PointLike) -> Point:
        return self._combine(operator.mod, other, offsets=False)

    def __neg__(self) -> Point:
        return make_point(map(operator.neg, self))

    def __pos__(self) -> Point:
        return self

    def __abs__(self) -> Point:
        return make_point(map(abs, self))

    def __lt__(self, other: PointLike) -> bool:
        return self._compare(operator.lt, other)

    def __le__(self, other: PointLike) -> bool:
        return self._compare(operator.le, other)

    def __gt__(self, other: PointLike) -> bool:
        return self._compare(operator.gt, other)

    def __ge__(self, other: PointLike) -> bool:
        return self._compare(operator.ge, other)

    def _combine(self, function: Callable[[int, int], int], other: PointLike, offsets: bool = True) -> Point:
        values = self._operand(other, offsets)
        return NotImplemented if values is None else make_point(map(function, self, values))

    def _compare(self, function: Callable[[int, int], bool], other: PointLike) -> bool:
        values = self._operand(other, offsets=False)
        return NotImplemented if values is None else all(map(function, self, values))

    def _operand(self, other: PointLike, offsets: bool) -> tuple[int, ...] | None:
        """Return the components of the other operand of an operator, None if it is not one."""
        if type(other) is int:
            return (other,) * len(self)
        if isinstance(other, tuple) or (offsets and isinstance(other, Offset)):
            return as_point(other, len(self))
        return (operator.index(other),) * len(self) if is_integer(other) else None

    def __repr__(self) -> str:
        return f"Point({', '.join(map(str, self))})"


def make_point(coords: Iterable[int]) -> Point:
    """Return a Point of coordinates that are Python ints already: no check, for inner loops. Local."""
    return tuple.__new__(Point, coords)


def check_axis(axis: SupportsIndex, ndim: int) -> int:
    """Return ``axis`` as an int of 0 ... ndim - 1 (negative ones count from the end), or raise ValueError. Local."""
    index = as_integer(axis)
    if not -ndim <= index < ndim:
        raise ValueError(f"axis {index} does not exist in {ndim} dimensions: legal are {-ndim} to {ndim - 1}")
    return index % ndim


def check_permutation(axes: Sequence[SupportsIndex], ndim: int) -> tuple[int, ...]:
    """Return ``axes`` as ints if they name each of ``ndim`` axes once, or raise ValueError. Local."""
    order = tuple([as_integer(axis) for axis in axes])
    if sorted(order) != list(range(ndim)):
        raise ValueError(f"axes {order} are not a permutation: name each of {tuple(range(ndim))} once")
    return order


def split_direction(direction: SupportsIndex, ndim: int) -> tuple[int, int]:
    """Return axis (from 0) and sign of a direction ±1 ... ±ndim, or raise ValueError. Local."""
    value = as_integer(direction)
    if not 1 <= abs(value) <= ndim:
        raise ValueError(f"direction {value} does not exist in {ndim} dimensions: legal are ±1 to ±{ndim}")
    return abs(value) - 1, (1 if value > 0 else -1)


@final
class Offset:
    """An immutable step along named axes, valid in any dimension that has them: a sum of multiples of X, Y, Z.

    The expression ``p + X`` does not depend on the number of axes of ``p``. Offsets add to each other and to points
    and tuples, and are multiplied by integers.

    Args:
        terms: the steps along axis 0, 1, ...; axes that are not named have none.

    Attributes:
        terms: the steps as Python ints, without zeros at the end: ``X.terms == (1,)``, ``Z.terms == (0, 0, 1)``.

    Example:
        >>> Point(5, 5) + X - 2 * Y
        Point(6, 3)
        >>> X + Y == Offset((1, 1)), X - X == Offset()
        (True, True)
    """

    __slots__ = ("_terms",)
    __array_ufunc__ = None
    _terms: tuple[int, ...]

    def __init__(self, terms: Iterable[SupportsIndex] = ()) -> None:
        values = [as_integer(term) for term in terms]
        while values and values[-1] == 0:
            values.pop()
        self._terms = tuple(values)

    @classmethod
    def unit(cls, axis: SupportsIndex, scale: SupportsIndex = 1) -> Offset:
        """Return ``scale`` steps along one axis, counted from 0; X, Y and Z are those along the first three. Local.

        Raises:
            ValueError: ``axis`` is negative.

        Example:
            >>> Offset.unit(0) == X, Offset.unit(3, -2)
            (True, Offset((0, 0, 0, -2)))
        """
        index = as_integer(axis)
        if index < 0:
            raise ValueError(f"axis {index} is negative: axes count from 0")
        return cls([0] * index + [scale])

    @property
    def terms(self) -> tuple[int, ...]:
        """The steps along axis 0, 1, ..., without zeros at the end."""
        return self._terms

    def as_point(self, ndim: int) -> Point:
        """Return the offset as a point of ``ndim`` dimensions. Local.

        Raises:
            ValueError: the offset goes along an axis that ``ndim`` dimensions do not have.

        Example:
            >>> (X - Y).as_point(3)
            Point(1, -1, 0)
        """
        missing = ndim - len(self._terms)
        if missing < 0 or ndim < 1:
            raise ValueError(f"offset {self} needs axis {len(self._terms) - 1}, but the point has {ndim} dimension(s)")
        return make_point(self._terms + (0,) * missing)

    @overload
    def __add__(self, other: Offset) -> Offset: ...
    @overload
    def __add__(self, other: tuple[int, ...]) -> Point: ...
    def __add__(self, other: Offset | tuple[int, ...]) -> Offset | Point:
        if isinstance(other, Offset):
            return Offset(map(operator.add, *_same_length(self._terms, other._terms)))
        return as_point(other) + self if isinstance(other, tuple) else NotImplemented

    __radd__ = __add__

    @overload
    def __sub__(self, other: Offset) -> Offset: ...
    @overload
    def __sub__(self, other: tuple[int, ...]) -> Point: ...
    def __sub__(self, other: Offset | tuple[int, ...]) -> Offset | Point:
        if isinstance(other, Offset):
            return self + -other
        return self + -as_point(other) if isinstance(other, tuple) else NotImplemented

    def __rsub__(self, other: tuple[int, ...]) -> Point:
        return -self + other if isinstance(other, tuple) else NotImplemented

    def __mul__(self, other: SupportsIndex) -> Offset:
        return Offset(map(operator.index(other).__mul__, self._terms)) if is_integer(other) else NotImplemented

    __rmul__ = __mul__

    def __neg__(self) -> Offset:
        return self * -1

    def __pos__(self) -> Offset:
        return self

    def __eq__(self, other: object) -> bool:
        return self._terms == other._terms if isinstance(other, Offset) else NotImplemented

    def __hash__(self) -> int:
        return hash((Offset, self._terms))

    def __repr__(self) -> str:
        return f"Offset({self._terms})"

    def __str__(self) -> str:
        text = ""
        for axis, term in enumerate(self._terms):
            if term:
                name = "XYZ"[axis] if axis < 3 else f"[{axis}]"
                text += f"{' - ' if term < 0 else ' + '}{'' if abs(term) == 1 else abs(term)}{name}"
        return (f"-{text[3:]}" if text.startswith(" - ") else text[3:]) or "0"


def _same_length(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return a + (0,) * (len(b) - len(a)), b + (0,) * (len(a) - len(b))


X = Offset.unit(0)
"""One step along axis 0, in any dimension."""
Y = Offset.unit(1)
"""One step along axis 1, in any dimension that has it."""
Z = Offset.unit(2)
"""One step along axis 2, in any dimension that has it."""
