"""Functions of global arrays, views and expressions: `gw.where`, `gw.coordinates`, `gw.array`, and NumPy's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gondwana.arrays.expressions.expression import Elementwise, Expression, applied
from gondwana.arrays.expressions.operations import Operation, refusal
from gondwana.arrays.expressions.sweeps import assign
from gondwana.domains import RectDomain
from gondwana.errors import UsageError

if TYPE_CHECKING:
    from gondwana.arrays.global_array import GlobalArray


def where(condition: Any, a: Any, b: Any) -> Expression:
    """Return elements of `a` where a condition holds and of `b` elsewhere, as an expression. Local.

    Args:
        condition: an array, view or expression: bools, or numbers that are not zero.
        a: the same, or a number.
        b: the same.

    Example:
        >>> import gondwana as gw
        >>> T = gw.from_function(lambda x: x, 4)
        >>> T[...] = gw.where(T > 1, T, -1)
        >>> T.to_numpy().tolist()
        [-1.0, -1.0, 2.0, 3.0]
    """
    return applied(np.where, condition, a, b)


def isclose(a: Any, b: Any, rtol: float, atol: float, equal_nan: bool) -> Expression:
    """Return where elements are close, as `np.isclose` does. Local."""
    if isinstance(b, Elementwise):
        b = b if b.dtype.kind in "fc" else b.astype(float)
    elif not isinstance(b, complex | np.inexact):
        b = float(b)
    close = ((abs(a - b) <= atol + rtol * abs(b)) & np.isfinite(b)) | (a == b)
    found: Expression = close | ((a != a) & (b != b)) if equal_nan else close
    return found


def coordinates(array: Elementwise) -> tuple[Expression, ...]:
    """Return the coordinates of the cells along each axis, as expressions of int64. Local.

    Args:
        array: a global array, a view or an expression of such.

    Example:
        >>> import gondwana as gw
        >>> T = gw.zeros(gw.RectDomain((0, -1), (2, 2)))
        >>> x, y = gw.coordinates(T)
        >>> T[...] = x + 10 * y
        >>> T.to_numpy().tolist()
        [[-10.0, 0.0, 10.0], [-9.0, 1.0, 11.0]]
    """
    if not isinstance(array, Elementwise):
        raise UsageError(f"coordinates of {array!r}: give a global array, or a view of one")
    dtype = np.dtype(np.int64)
    return tuple(
        Expression(Operation(f"np.int64(p[{axis}])", (), dtype), (), array._selection) for axis in array._selection[2]
    )


def array(source: Elementwise) -> GlobalArray:
    """Return a new global array with the elements of an expression, an array or a view. Collective over team; blocks.

    Args:
        source: the elements. Those of a whole array, or an expression of such, keep its layout, its kind of memory
            and, in its dtype, its `boundary`, of several arrays those of the first; other views get a layout of their
            own, in their coordinates if these have no stride, else from 0. A copy of an array has its ghosts, others
            have zeros there until `exchange`.

    Raises:
        UsageError: the source is something else.

    Example:
        >>> import gondwana as gw
        >>> A = gw.full((4, 6), 3.0, ghost=1)
        >>> B = gw.array(A[1:3, :] > 2)
        >>> B.shape, B.dtype.name, B.all()
        ((2, 6), 'bool', True)
    """
    from gondwana.arrays.create import empty
    from gondwana.arrays.divided import Divided, GlobalView, ready, start_copy
    from gondwana.arrays.global_array import GlobalArray

    if not isinstance(source, Elementwise):
        raise UsageError(
            f"gw.array of a {type(source).__name__}: give a global array, a view of one or an expression; "
            "gw.from_numpy takes an ndarray, gw.Array makes an array of this rank"
        )
    holder, cells, axes = source._selection
    whole = isinstance(source, GlobalArray) or source._selection[1:] == holder._selection[1:]
    if isinstance(source, Divided) and not whole:
        kept = source
    else:
        faces = holder.faces if source.dtype == holder.dtype else ()
        full = GlobalArray(holder.layout, source.dtype, holder.team, holder.kind, faces)
        if isinstance(source, Divided):
            full._peek(full.team.rank).copy_from(holder._peek(holder.team.rank))
            return ready(full)
        kept = GlobalView(full, cells, axes)
        assign(kept, source)
        if whole:
            return ready(full)
    domain = source.domain if source.domain.is_dense else RectDomain.from_shape(source.shape)
    found = empty(domain, source.dtype, order=holder.order, kind=holder.kind, team=holder.team)
    start_copy(kept, found).wait()
    return ready(found)


_METHODS: dict[Callable[..., Any], str] = {
    np.sum: "sum",
    np.prod: "prod",
    np.min: "min",
    np.amin: "min",
    np.max: "max",
    np.amax: "max",
    np.mean: "mean",
    np.var: "var",
    np.std: "std",
    np.any: "any",
    np.all: "all",
    np.argmin: "argmin",
    np.argmax: "argmax",
    np.copy: "copy",
    np.linalg.norm: "norm",
    np.vdot: "dot",
    np.allclose: "allclose",
}
_ATTRIBUTES: dict[Callable[..., Any], str] = {
    np.shape: "shape",
    np.ndim: "ndim",
    np.size: "size",
    np.real: "real",
    np.imag: "imag",
}
_ALONG_AXES = ("sum", "prod", "min", "max", "mean", "var", "std", "any", "all")
_OPTIONS = {"axis": _ALONG_AXES, "ddof": ("var", "std"), **dict.fromkeys(("rtol", "atol", "equal_nan"), ("allclose",))}
"""Options of NumPy's functions, and the methods that have them."""


def called_by_numpy(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call what corresponds to a function of NumPy. Reductions are collective over the team, others are local.

    Raises:
        TypeError: nothing does, or it lacks an option; raised before any communication.
    """
    name = f"{function.__module__}.{function.__name__}"
    own = _OWN.get(function)
    if own is not None:
        return own(*args, **kwargs)
    if function in _ATTRIBUTES and len(args) == 1 and not kwargs:
        return getattr(args[0], _ATTRIBUTES[function])
    method = _METHODS.get(function)
    if method is None:
        raise refusal(name)
    signature = inspect.signature(function)
    given = signature.bind(*args, **kwargs).arguments
    array = given.pop(next(iter(signature.parameters)))
    operands = [given.pop(operand) for operand in ("b",) if operand in given]
    options = {option: value for option, value in given.items() if value is not signature.parameters[option].default}
    for option in options:
        if method not in _OPTIONS.get(option, ()):
            raise refusal(f"{name} with {option}=")
    if not isinstance(array, Elementwise):  # np.vdot(number, T)
        raise refusal(f"{name} of a {type(array).__name__} and an array")
    return getattr(array, method)(*operands, **options)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:  # noqa: A002
    return a.clip(a_min if min is None else min, a_max if max is None else max)


def _dot(a: Any, b: Any) -> Any:
    if any(np.ndim(operand) != 1 for operand in (a, b)):
        raise refusal("numpy.dot of arrays of several axes, a matrix product (np.vdot and T.dot add over all cells),")
    return a.conj().dot(b)


def _where(condition: Any, *values: Any) -> Any:
    if len(values) != 2:
        raise refusal("numpy.where without values")
    return where(condition, *values)


def _array_equal(a1: Any, a2: Any) -> Any:
    return a1.shape == a2.shape and (a1 == a2).all()


def _isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    if not isinstance(a, Elementwise):
        raise UsageError(f"numpy.isclose({a!r}, T): give the array first, the number second")
    return isclose(a, b, rtol, atol, equal_nan)


_OWN: dict[Callable[..., Any], Callable[..., Any]] = {
    np.clip: _clip,
    np.dot: _dot,
    np.where: _where,
    np.array_equal: _array_equal,
    np.isclose: _isclose,
}
