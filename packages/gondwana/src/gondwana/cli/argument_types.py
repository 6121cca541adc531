"""Types of arguments as users write them on a command line, and values of these types to compile for."""

from __future__ import annotations

import ast
from collections.abc import Callable
from inspect import signature
from types import ModuleType
from typing import Any

import numpy as np

from gondwana.arrays import Array
from gondwana.compiler.types.records import DTYPES
from gondwana.domains import RectDomain
from gondwana.errors import UsageError
from gondwana.kernels.foreach_kernels import Kernel

_SIDES = {1: 4096, 2: 512, 3: 130, 4: 34}
"""Points along each axis of the arrays, by their number of axes: long rows, and little memory."""

_PLAIN: dict[str, Any] = {"float": 1.5, "int": 3, "bool": True, "complex": 1.5 + 0.5j}
_LEGAL = (
    "legal are float64[:,:] and the like, NumPy's names of numbers, float, int, bool, complex, None, numbers, tuples, "
    "and named tuples of the module"
)


def arguments_of(function: Any, module: ModuleType, texts: list[str], order: str) -> tuple[Any, ...]:
    """Return arguments for `gw.inspect`, for a kernel with the domain. Local.

    Args:
        function: a kernel, or what `gw.jit` decorates.
        module: where named tuples are looked up.
        texts: the types, one for each argument.
        order: of the arrays, "C" or "F".

    Raises:
        UsageError: one of them is not a type, or a kernel gets no array, so that its domain is not known.
    """
    is_kernel = isinstance(function, Kernel)
    domains: list[RectDomain] = []

    def array(dtype: str, ndim: int, place: str | None) -> Any:
        if ndim not in _SIDES:
            raise UsageError(f"an array of {ndim} axes: legal are 1 to {max(_SIDES)}")
        shape = (_SIDES[ndim],) * ndim
        if place == "np" or (place is None and not is_kernel):
            return np.zeros(shape, dtype, order=order)  # type: ignore[call-overload]
        domains.append(RectDomain((0,) * ndim, shape))
        return Array.zeros(domains[-1], dtype, order=order)  # type: ignore[arg-type]

    values = tuple(_Reader(text, module, array).value() for text in texts)
    _check_number(function, values, is_kernel=is_kernel)
    if not is_kernel:
        return values
    if not domains:
        raise UsageError(
            f"{function.py_func.__qualname__} runs over a domain, which is that of its first array: give its arguments "
            "after the point, such as 'float64[:,:,:]'"
        )
    return domains[0].shrink(1), *values


def _check_number(function: Any, values: tuple[Any, ...], *, is_kernel: bool) -> None:
    """Refuse too many or too few arguments."""
    if not hasattr(function, "py_func"):
        return  # no kernel at all, which `gw.inspect` refuses
    try:
        signature(function.py_func).bind(*[None] * is_kernel, *values)
    except TypeError as error:
        name, after = function.py_func.__qualname__, " after the point" if is_kernel else ""
        raise UsageError(f"{name}: {error}; give a type for each argument{after}") from None


class _Reader:
    """Reads one type."""

    def __init__(self, text: str, module: ModuleType, array: Callable[[str, int, str | None], Any]) -> None:
        self._text = text
        self._module = module
        self._array = array

    def value(self) -> Any:
        """A value of the type."""
        try:
            tree = ast.parse(self._text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self._wrong() from None
        return self._of(tree)

    def _of(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name) if name in _PLAIN:
                return _PLAIN[name]
            case ast.Name(id=name) if name in DTYPES:
                return np.dtype(name).type(1)
            case ast.Constant(value=value) if value is None or isinstance(value, bool | int | float | str):
                return value
            case ast.Tuple(elts=items):
                return tuple(map(self._of, items))
            case ast.Subscript(value=ast.Name(id=name), slice=axes) if name in DTYPES:
                return self._array(name, self._axes(axes), None)
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=place), attr=name), slice=axes):
                if place in ("gw", "np") and name in DTYPES:
                    return self._array(name, self._axes(axes), place)
            case ast.Call(func=ast.Name(id=name), args=items, keywords=[]):
                return self._named_tuple(name, list(map(self._of, items)))
        raise self._wrong()

    def _axes(self, axes: ast.expr) -> int:
        each = axes.elts if isinstance(axes, ast.Tuple) else [axes]
        if not all(isinstance(axis, ast.Slice) and axis.lower is axis.upper is axis.step is None for axis in each):
            raise self._wrong()
        return len(each)

    def _named_tuple(self, name: str, items: list[Any]) -> Any:
        cls = getattr(self._module, name, None)
        if not (isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")):
            raise UsageError(f"{self._text}: the module has no named tuple {name}")
        try:
            return cls(*items)
        except TypeError:
            raise UsageError(f"{self._text}: {name} has {len(cls._fields)} members, not {len(items)}") from None

    def _wrong(self) -> UsageError:
        return UsageError(f"{self._text!r} is no type of an argument: {_LEGAL}")
