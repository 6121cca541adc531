"""Records: elements with named fields, as NumPy's structured dtypes and named tuples describe them. Without Numba."""

from __future__ import annotations

import ast
import functools
import typing
from collections.abc import Hashable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError

DTYPES = frozenset(
    [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ]
)
"""Names of the dtypes whose elements compiled code can work on."""

_FIELD_TYPES = (bool, int, float, complex)


def element_dtype(given: npt.DTypeLike) -> np.dtype[Any]:
    """Return the dtype of an argument `dtype=`. Local.

    Args:
        given: a dtype as NumPy takes it, or a class of named tuples: its fields with their annotations, aligned as in
            C.

    Returns:
        The dtype; for a record the one whose elements have their fields as attributes (`np.record`).

    Raises:
        UsageError: the class of named tuples has other annotations than numbers and such classes, or the record has no
            fields.
    """
    if _is_named_tuple(given):
        return _as_record(_struct(cast(Hashable, given)))
    dtype = np.dtype(given)
    return dtype if dtype.names is None else _as_record(dtype)


@functools.cache
def _as_record(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if not dtype.names:
        raise UsageError("a record without fields: give its dtype one field or more")
    return dtype if issubclass(dtype.type, np.record) else np.dtype((np.record, dtype))


def _is_named_tuple(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


@functools.cache
def _struct(cls: Any) -> np.dtype[Any]:
    """The fields of a class of named tuples, placed as in C."""
    annotations, fields = typing.get_type_hints(cls), []
    for name in cls._fields:
        kind = annotations.get(name)
        if _is_named_tuple(kind):
            fields.append((name, _struct(kind)))
        elif kind in _FIELD_TYPES or (isinstance(kind, type) and issubclass(kind, np.generic)):
            fields.append((name, np.dtype(kind)))
        else:
            raise UsageError(
                f"dtype={cls.__qualname__}: its field {name!r} is annotated with {kind!r}; legal are bool, int, float, "
                "complex, types of NumPy such as np.float32, and classes of named tuples of those"
            )
    return np.dtype(fields, align=True)


def is_record(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype has fields. Local."""
    return dtype.names is not None


def spelled(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype in messages: `float64`, or `record(x: float64, n: int32)`. Local."""
    if dtype.names is None:
        return str(dtype)
    fields: Any = dtype.fields
    return f"record({', '.join(f'{name}: {spelled(fields[name][0])}' for name in dtype.names)})"


def record_name(dtype: np.dtype[Any]) -> str:
    """Return the text of a record in the specs of compiled code: `named_dtype` reads it. Local.

    Raises:
        ValueError: fields overlap, or are not in the order of their places.
    """
    return repr(np.lib.format.dtype_to_descr(dtype))


@functools.cache
def named_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype of a name: that of numbers, or of a record as `record_name` gives it. Local."""
    if not name.startswith("["):
        return np.dtype(name)
    return _as_record(np.lib.format.descr_to_dtype(ast.literal_eval(name)))


def leaves(dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
    """Return the dtypes of the numbers in an element: its own, or those of all its fields, in order. Local.

    Several booleans in a field, for which compiled code has no type, stay one.
    """
    if dtype.subdtype is not None:
        base = dtype.subdtype[0]
        return [dtype] if base == np.bool_ else leaves(base)
    if dtype.names is None:
        return [dtype]
    fields: Any = dtype.fields
    return [leaf for name in dtype.names for leaf in leaves(fields[name][0])]
