"""`gw.Expression`: arithmetic of global arrays, as formulas that are computed where they are stored or reduced.

An expression is a value of this rank alone: making it neither computes nor communicates, so a rank may make one that
others do not. What allocates (`copy`, `gw.array`) and what reduces is collective; storing (`T[...] = expression`) is
local.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, overload

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from gondwana.arrays.expressions import reductions
from gondwana.arrays.expressions.operations import (
    BOOL,
    COMPARISONS,
    Operation,
    check_element,
    check_real,
    exact_comparison,
    operation,
    refusal,
)
from gondwana.arrays.expressions.sweeps import assign, check_same_cells
from gondwana.domains import Point, RectDomain
from gondwana.errors import UsageError
from gondwana.teams import Team

if TYPE_CHECKING:
    from gondwana.arrays.global_array import GlobalArray

Some: TypeAlias = int | tuple[int, ...]
Axes: TypeAlias = Some | None
Number: TypeAlias = int | float | complex
Selection: TypeAlias = "tuple[GlobalArray, tuple[range, ...], tuple[int, ...]]"
"""An array, coordinates of cells along each of its axes, and those of the axes that count, in their order."""


class Elementwise(NDArrayOperatorsMixin):
    """What global arrays, their views and expressions have in common: operators, NumPy's functions, reductions.

    Attributes:
        team: the ranks that share the cells.
        dtype: type of an element.
    """

    team: Team
    dtype: np.dtype[Any]
    _operation: Operation | None = None  # that gives the elements, None for arrays
    _operands: tuple[Any, ...] = ()
    __hash__ = object.__hash__

    @property
    @abstractmethod
    def _selection(self) -> Selection:
        """The cells that the elements belong to."""

    def _check_unchanged(self) -> None:
        """Refuse to be computed from other elements than at first. Local."""

    @property
    def domain(self) -> RectDomain:
        """Coordinates of the elements, of all ranks and without ghosts."""
        _, cells, axes = self._selection
        return RectDomain.from_axes([cells[axis] for axis in axes])

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements along each axis, of all ranks and without ghosts."""
        return self.domain.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._selection[2])

    @property
    def size(self) -> int:
        """Number of elements, of all ranks and without ghosts."""
        return self.domain.size

    def part(self, rank: int) -> RectDomain:
        """Return the positions, from 0 along each axis, of the elements that a rank owns. Local."""
        array, cells, axes = self._selection
        spans = []
        for along, owned in zip(cells, array.layout.owned(rank).axes, strict=True):
            first = max(0, -((along.start - owned.start) // along.step))
            spans.append(range(first, max(first, min(len(along), -((along.start - owned.stop) // along.step)))))
        if not all(spans):
            return RectDomain.from_shape((0,) * self.ndim)
        return RectDomain.from_axes([spans[axis] for axis in axes])

    @property
    def real(self) -> Expression:
        """The real parts, as an expression."""
        return _of_parts(self, "real")

    @property
    def imag(self) -> Expression:
        """The imaginary parts, as an expression."""
        return _of_parts(self, "imag")

    def conj(self) -> Expression:
        """Return the complex conjugates, as an expression. Local."""
        return applied(np.conjugate, self)

    def astype(self, dtype: npt.DTypeLike) -> Expression:
        """Return the elements in another dtype, as an expression. Local.

        Raises:
            UsageError: global arrays do not have the dtype, or complex numbers would become real ones.
        """
        target = np.dtype(dtype)
        check_element(target, "astype")
        check_real(self.dtype, target)
        return Expression(Operation("{0}", (target,), target), (self,))

    def clip(self, low: Any = None, high: Any = None) -> Expression:
        """Return the elements limited to an interval, as an expression. Local.

        Args:
            low: smallest value: a number, array or expression; None: no limit.
            high: largest value, the same.
        """
        found = self if low is None else applied(np.maximum, self, low)
        return applied(np.positive, found) if high is None else applied(np.minimum, found, high)

    def copy(self) -> GlobalArray:
        """Return a new global array with these elements: `gw.array`. Collective over team; blocks."""
        from gondwana.arrays.expressions.functions import array

        return array(self)

    @overload
    def sum(self, axis: None = None) -> Number: ...
    @overload
    def sum(self, axis: Some) -> np.ndarray[Any, Any]: ...
    def sum(self, axis: Axes = None) -> Any:
        """Return the sum of all elements, without ghosts, or the sums along axes. Collective over team; blocks.

        Args:
            axis: axis along which to add, or a tuple of axes, as in NumPy; None: all.

        Returns:
            Without `axis` the exact sum, for floats rounded once to float64 (for complex numbers each part): the same
            bits on any number of ranks, threads and devices. A Python int for integers and booleans, however large; NaN
            if a cell is NaN or if there are infinities of both signs. With `axis` an ndarray on every rank, with the
            remaining axes: of int64, float64 or complex128, where last bits depend on the division over ranks.

        Raises:
            UsageError: an axis does not exist.

        Example:
            >>> import gondwana as gw
            >>> T = gw.full((4, 4), 0.1, ghost=1)
            >>> T.sum(), T.min(), T.norm(), (2 * T + 1).sum()
            (1.6, 0.1, 0.4, 19.2)
        """
        return reductions.total(self) if axis is None else reductions.along(self, "sum", axis)

    @overload
    def prod(self, axis: None = None) -> int | float: ...
    @overload
    def prod(self, axis: Some) -> np.ndarray[Any, Any]: ...
    def prod(self, axis: Axes = None) -> Any:
        """Return the product of all elements, without ghosts, or the products along axes. Collective over team; blocks.

        Args:
            axis: as for `sum`.

        Returns:
            The product in float64, whose last bits depend on threads and on the division over ranks; for integers a
            Python int modulo 2**64.

        Raises:
            UsageError: an axis does not exist, or the elements are complex and there is no `axis`.
        """
        return reductions.product(self) if axis is None else reductions.along(self, "prod", axis)

    @overload
    def min(self, axis: None = None) -> int | float | bool: ...
    @overload
    def min(self, axis: Some) -> np.ndarray[Any, Any]: ...
    def min(self, axis: Axes = None) -> Any:
        """Return the smallest of all elements, without ghosts; NaN if one is NaN. Collective over team; blocks.

        Args:
            axis: as for `sum`: the smallest along axes, an ndarray of the dtype of the elements on every rank.

        Raises:
            UsageError: the elements are complex or there are none, or an axis does not exist; raised by every rank
                before any communication.
        """
        return reductions.extreme(self, "min") if axis is None else reductions.along(self, "min", axis)

    @overload
    def max(self, axis: None = None) -> int | float | bool: ...
    @overload
    def max(self, axis: Some) -> np.ndarray[Any, Any]: ...
    def max(self, axis: Axes = None) -> Any:
        """Return the largest of all elements, without ghosts; NaN if one is NaN. Collective over team; blocks.

        Args:
            axis: as for `sum`: the largest along axes, an ndarray of the dtype of the elements on every rank.

        Raises:
            UsageError: the elements are complex or there are none, or an axis does not exist; raised by every rank
                before any communication.
        """
        return reductions.extreme(self, "max") if axis is None else reductions.along(self, "max", axis)

    def argmin(self) -> Point:
        """Return the point of the smallest element, in coordinates of the domain. Collective over team; blocks.

        Of several the first in row-major order; that of the first NaN, if there is one.

        Raises:
            UsageError: the elements are complex or there are none.
        """
        return reductions.place(self, "min")

    def argmax(self) -> Point:
        """Return the point of the largest element, in coordinates of the domain: see `argmin`. Collective; blocks.

        Example:
            >>> import gondwana as gw
            >>> T = gw.from_function(lambda x, y: x - y, (4, 4))
            >>> T.argmax(), (T * T).argmin()
            (Point(3, 0), Point(0, 0))
        """
        return reductions.place(self, "max")

    @overload
    def mean(self, axis: None = None) -> float | complex: ...
    @overload
    def mean(self, axis: Some) -> np.ndarray[Any, Any]: ...
    def mean(self, axis: Axes = None) -> Any:
        """Return the mean of all elements, without ghosts: `sum` divided by their number. Collective; blocks.

        Args:
            axis: as for `sum`.

        Raises:
            UsageError: there are no elements, or an axis does not exist; raised by every rank before communication.
        """
        return reductions.mean(self, axis)

    def var(self, axis: Axes = None, *, ddof: int = 0) -> Any:
        """Return the variance: the mean of the squared distances to the mean. Collective over team; blocks.

        Without `axis` the same bits on any number of ranks; two sweeps.

        Args:
            axis: as for `sum`.
            ddof: number subtracted from that of the elements in the divisor, as in NumPy.

        Raises:
            UsageError: there are no elements, or an axis does not exist.
        """
        return reductions.variance(self, axis, ddof)

    def std(self, axis: Axes = None, *, ddof: int = 0) -> Any:
        """Return the standard deviation, the root of `var`. Collective over team; blocks. Arguments as for `var`."""
        return np.sqrt(self.var(axis, ddof=ddof))[()] if axis is not None else self.var(ddof=ddof) ** 0.5

    def any(self, axis: Axes = None) -> Any:
        """Return whether an element is true, or not zero. Collective over team; blocks. Arguments as for `sum`."""
        return reductions.truth(self, "max", axis)

    def all(self, axis: Axes = None) -> Any:
        """Return whether all elements are true, or not zero. Collective over team; blocks. Arguments as for `sum`."""
        return reductions.truth(self, "min", axis)

    def norm(self) -> float:
        """Return the Euclidean norm of all elements, without ghosts. Collective over team; blocks.

        The squares are computed in float64 and added exactly: the same bits on any number of ranks, threads and
        devices. Infinite if a square overflows, beyond 1.3e154; NaN if a cell is NaN.
        """
        return reductions.norm(self)

    def dot(self, other: Any) -> Any:
        """Return the inner product over all cells, as `np.vdot`: the first operand conjugated. Collective; blocks.

        For arrays of several axes this is no matrix product. Products are computed in float64, or in the integers of
        both operands, and added exactly: the same bits on any number of ranks.

        Args:
            other: an array, view or expression of the same cells.

        Example:
            >>> import gondwana as gw
            >>> a, b = gw.full((4, 4), 0.5), gw.full((4, 4), 3.0)
            >>> a.dot(b), (a - b).norm()
            (24.0, 10.0)
        """
        return reductions.dot(self, other)

    def allclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
        """Return whether all elements are close, as `np.allclose` does. Collective over team; blocks.

        Args:
            other: a number, or an array, view or expression of the same cells.
            rtol: distance allowed relative to `other`.
            atol: distance allowed besides.
            equal_nan: whether NaN is close to NaN.
        """
        from gondwana.arrays.expressions.functions import isclose

        return bool(isclose(self, other, rtol, atol, equal_nan).all())

    def __bool__(self) -> NoReturn:
        raise ValueError(
            f"the truth value of {self!r}, which has many elements, is ambiguous: use .any() or .all() (collective), "
            "or `is` to compare objects"
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Make an expression of a function of NumPy, and store it if there is `out=`. Local."""
        out = options.pop("out", (None,))[0]
        if method != "__call__" or options:
            how = f".{method}" if method != "__call__" else f" with {next(iter(options))}="
            raise refusal(f"numpy.{ufunc.__name__}{how}")
        result = applied(ufunc, *inputs)
        if out is None or (isinstance(out, Expression) and out is inputs[0]):
            return result  # `e += 1` names another expression
        if not isinstance(out, Elementwise) or out._operation is not None:
            raise UsageError(f"out={out!r}: give a global array or a view of the cells of the operands")
        if not np.can_cast(result.dtype, out.dtype, "same_kind"):
            raise UsageError(
                f"numpy.{ufunc.__name__} gives {result.dtype}, which does not fit the {out.dtype} that is to hold it: "
                "use astype, or an array of another dtype"
            )
        assign(out, result)
        return out

    def __array_function__(self, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from gondwana.arrays.expressions import functions

        return functions.called_by_numpy(function, args, kwargs)

    def __iter__(self) -> NoReturn:
        raise refusal("iteration over T, such as list(T),")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise refusal("a conversion to an ndarray, such as np.asarray(T),")


class Expression(Elementwise):
    """A formula of global arrays, of their views and of numbers, such as `0.5 * (A + B)`. Local.

    It has no memory: nothing is computed before it is stored or reduced, which takes one sweep over the cells of this
    rank. `T[...] = e` and `T += e` store it (local), `gw.array(e)` and `e.copy()` make a new array of it, `e.sum()` and
    the like reduce it (collective). Operands have the same cells, divided alike; a Python number takes the dtype of the
    operand beside it, and dtypes are NumPy's. Of functions there are NumPy's that work cell by cell, `gw.where` and
    `gw.coordinates`. Integers divided by zero give 0, floats inf or NaN, without a warning.

    It is computed with the elements that its operands have now: after one of them may have been written, it raises.

    Args:
        operation: operation that gives the elements.
        operands: its operands: arrays, views, expressions and NumPy's scalars.
        selection: the cells; default: those of the operands.

    Example:
        >>> import gondwana as gw, numpy as np
        >>> A = gw.from_function(lambda x: x, 4)
        >>> B = gw.full(4, 2.0)
        >>> A[...] = np.sqrt(A * A + 1) - gw.where(A > 1, B, 0)
        >>> A += 1
        >>> A.to_numpy().round(3).tolist()
        [2.0, 2.414, 1.236, 2.162]
    """

    def __init__(self, operation: Operation, operands: tuple[Any, ...], selection: Selection | None = None) -> None:
        self._operation = operation
        self._operands = operands
        self.dtype = operation.dtype
        self._place = _common(operands) if selection is None else selection
        self.team = self._place[0].team
        self._seen = [
            (one._selection[0], one._selection[0]._watch())
            for one in operands
            if isinstance(one, Elementwise) and one._operation is None
        ]

    @property
    def _selection(self) -> Selection:
        """The cells that the elements belong to."""
        return self._place

    def _check_unchanged(self) -> None:
        """Refuse to be computed if an array among the operands may have been written since. Local.

        Raises:
            UsageError: its memory was handed out, to a kernel or to the program; the message says what to do.
        """
        for array, writes in self._seen:
            if array._writes != writes:
                raise UsageError(
                    f"an expression is computed after {array.label} of it may have been written: its memory was given "
                    "to a kernel, to T.local, T.values, T.fill or an assignment since. Store the expression before "
                    "(S[...] = e, or gw.array(e)), or make it anew, such as by a function that returns it"
                )

    def __getitem__(self, index: Any) -> NoReturn:
        raise UsageError(f"an expression has no elements to take by [{index!r}]: index its arrays, or gw.array(e)")

    def __getattr__(self, name: str) -> NoReturn:
        from gondwana.arrays.global_array import GlobalArray

        if name.startswith("_") or not hasattr(GlobalArray, name):
            raise AttributeError(f"an Expression has no attribute {name!r}")
        raise AttributeError(
            f"an Expression has no attribute {name!r}, since it has no memory: gw.array(e) makes an array of it "
            "(collective), T[...] = e stores it"
        )

    def __repr__(self) -> str:
        return f"Expression({self.dtype}, {self.domain!r})"


def applied(function: Any, *operands: Any) -> Expression:
    """Return what a function of NumPy gives for elements of operands, as an expression. Local.

    Args:
        function: a ufunc, or `np.where`.
        *operands: arrays, views, expressions and numbers.

    Raises:
        UsageError: there is no such function, or the operands do not fit each other.
    """
    if function is np.power:
        special = _power(*operands)
        if special is not None:
            return special
    kinds = tuple(_kind(one, function) for one in operands)
    found = operation(function, kinds)
    if function in COMPARISONS and any(kind is int for kind in kinds):  # to NumPy, np.dtype("i8") equals int
        found = exact_comparison(function, operands, kinds, found)
    given = zip(operands, found.operands, strict=True)
    return Expression(found, tuple(one if isinstance(one, Elementwise) else dtype.type(one) for one, dtype in given))


def _power(base: Any, exponent: Any) -> Expression | None:
    """Powers that NumPy computes by other operations."""
    if not isinstance(base, Elementwise) or type(exponent) not in _WEAK:
        return None
    if exponent == 2 and (base.dtype.kind in "fc" or type(exponent) is int):
        return applied(np.square, base)
    if exponent == 0.5 and base.dtype.kind in "fc":
        return applied(np.sqrt, base)
    if type(exponent) is int and exponent < 0 and base.dtype.kind in "iu":
        raise ValueError("integers to negative integer powers are not allowed: use astype(float)")
    return None


_WEAK = frozenset([int, float, complex])


def _kind(value: Any, function: Any) -> Any:
    """The dtype of an operand, or the type of a number of Python's."""
    kind = type(value)
    if kind in _WEAK:
        return kind
    if isinstance(value, Elementwise | np.generic) or (kind is np.ndarray and value.ndim == 0):
        return value.dtype
    if kind is bool:
        return BOOL
    raise refusal(
        f"numpy.{function.__name__} of a {kind.__name__} (gw.from_numpy makes a global array of one with all cells)"
    )


def _common(operands: tuple[Any, ...]) -> Selection:
    """The cells of the operands, which are the same."""
    cells = [one for one in operands if isinstance(one, Elementwise)]
    if not cells:
        raise UsageError(f"an expression of numbers alone, {operands}: give an array, a view or an expression, too")
    found = cells[0]
    for other in cells[1:]:
        if other._selection is not found._selection:
            check_same_cells(found, other)
    return found._selection


def _of_parts(value: Elementwise, part: str) -> Expression:
    """The real or imaginary parts of elements."""
    own = value.dtype
    if own.kind == "c":
        return Expression(Operation(f"{{0}}.{part}", (own,), np.dtype(f"f{own.itemsize // 2}")), (value,))
    zero = "False" if own.kind == "b" else f"np.{own.name}(0)"
    return Expression(Operation("{0}" if part == "real" else zero, (own,), own), (value,))
