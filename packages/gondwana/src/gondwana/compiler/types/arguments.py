"""Python values as arguments of compiled code: a hashable description and the bytes that carry the value.

The description (a spec) selects the compiled version, the bytes are copied into the argument block of the call. Objects
of upper layers take part by a method `__gondwana_argument__()` that returns the pair. Nothing here needs Numba, so a
call whose machine code is in the cache never loads it.

Those objects (pointers, signals, teams) become handles: a few 64-bit words and the name of their family. The operations
of compiled code on a family are defined by Numba overloads in the modules listed in `_extensions`, which are imported
only when something is compiled.
"""

from __future__ import annotations

import functools
import importlib
import struct
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from gondwana.compiler.types.records import DTYPES, is_record, leaves, named_dtype, record_name, spelled
from gondwana.domains import Offset, Point, RectDomain
from gondwana.errors import KernelError
from gondwana.runtime.races import reporter
from gondwana.runtime.tracing import recorder


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A number, or a record, which must not be written.

    `weak` numbers (Python's) take the precision of the arrays, integers the type of the other integers, as in
    NumPy 2.
    """

    dtype: str
    weak: bool = False


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array on a domain.

    `unit` is the axis contiguous in memory (-1: none), `scaled` as in `views.ViewType`; `place` is "host" or "cuda".
    """

    dtype: str
    ndim: int
    unit: int
    scaled: bool
    readonly: bool
    place: str = "host"


@dataclass(frozen=True, slots=True)
class NdarraySpec:
    """A NumPy array, indexed from zero; `layout` is C, F or A."""

    dtype: str
    ndim: int
    layout: str
    readonly: bool


@dataclass(frozen=True, slots=True)
class PointSpec:
    """A point known at run time."""

    ndim: int


@dataclass(frozen=True, slots=True)
class ConstantSpec:
    """A value that is part of the compiled code: an offset, None or a string."""

    value: Any


@dataclass(frozen=True, slots=True)
class TupleSpec:
    """A tuple; `cls` is the class of a named tuple, else None; `arrays`: whether it contains arrays."""

    items: tuple[Spec, ...]
    cls: type | None = None
    fields: tuple[str, ...] = ()
    arrays: bool = False


@dataclass(frozen=True, slots=True)
class HandleSpec:
    """An object of an upper layer: see `gondwana.compiler.types.arguments`."""

    family: str
    parameters: tuple[Hashable, ...]
    words: int
    recorded: bool = False
    reported: bool = False


Spec: TypeAlias = ScalarSpec | ArraySpec | NdarraySpec | PointSpec | ConstantSpec | TupleSpec | HandleSpec
Described: TypeAlias = tuple[Spec, bytes]


def brief(spec: Spec) -> str:
    """Return what people call an argument of this kind: `float64`, `float64 array, 3-D`. Local."""
    match spec:
        case ScalarSpec(dtype):
            return spelled(named_dtype(dtype))
        case ArraySpec(dtype, ndim) | NdarraySpec(dtype, ndim):
            kind = "array" if isinstance(spec, ArraySpec) else "ndarray"
            return f"{spelled(named_dtype(dtype))} {kind}, {ndim}-D"
        case PointSpec(ndim):
            return f"point, {ndim}-D"
        case ConstantSpec(value):
            return repr(value)
        case TupleSpec(items, cls):
            return f"{'' if cls is None else cls.__name__}({'; '.join(map(brief, items))})"
        case HandleSpec(family):
            return family.replace("_", " ")


WORD = 8
DOMAIN = "rect_domain"
"""The family of boxes, whose words are the first coordinates, the ends and the strides of the axes."""
_interned: dict[Spec, Spec] = {}
_tuples: dict[tuple[Any, ...], Spec] = {}
_ndarrays: dict[tuple[np.dtype[Any], int, int], Spec] = {}
"""Specs by dtype, number of axes and flags."""


def intern(spec: Spec) -> Spec:
    """Return the object that represents all specs equal to this one: it can be compared by identity. Local."""
    return _interned.setdefault(spec, spec)


_INT = intern(ScalarSpec("int64", weak=True))
_LARGE_INT = intern(ScalarSpec("uint64", weak=True))
_BOOL = intern(ScalarSpec("bool"))
_WEAK = intern(ScalarSpec("float64", weak=True))
_COMPLEX = intern(ScalarSpec("complex128", weak=True))
_pack_int = struct.Struct("q").pack
_pack_large_int = struct.Struct("Q").pack
_pack_float = struct.Struct("d").pack
_pack_complex = struct.Struct("dd").pack
_ACCEPTED = (
    "numbers, NumPy scalars and arrays, Gondwana arrays, points, offsets, a RectDomain, tuples and named tuples of "
    "those"
)


def describe(value: Any) -> Described:
    """Return the spec of `value`, interned, and the bytes that carry it. Local.

    Raises:
        KernelError: compiled code cannot take a value of this type.
    """
    describer = _DESCRIBERS.get(type(value))
    if describer is not None:
        return describer(value)
    if hasattr(value, "__gondwana_argument__"):
        described: Described = value.__gondwana_argument__()
        return described
    if isinstance(value, np.ndarray):
        return _describe_ndarray(value)
    if isinstance(value, np.generic):
        return _describe_numpy_scalar(value)
    if isinstance(value, tuple):
        return _describe_tuple(value)
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return _describe_constant(np.dtype(value))
    raise KernelError(f"compiled code cannot take {value!r} of type {type(value).__name__}: pass {_ACCEPTED}")


def register_describer(kind: type, describer: Callable[[Any], Described]) -> None:
    """Let compiled code take values of a type that cannot describe itself. Local."""
    _DESCRIBERS[kind] = describer


@functools.cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype that compiled code can work on; `records.named_dtype` reads it. Local.

    Raises:
        KernelError: compiled code cannot work on the dtype.
    """
    if not all(leaf.name in DTYPES and leaf.isnative for leaf in leaves(dtype)) or dtype.subdtype is not None:
        raise KernelError(
            f"compiled code cannot take elements of dtype {spelled(dtype)}: use a bool, an integer of 8 to 64 bits, "
            "float32, float64, complex64 or complex128 in the machine's byte order, or a record of those"
        )
    if not is_record(dtype):
        return dtype.name
    try:
        return record_name(dtype)
    except ValueError:
        raise KernelError(
            f"compiled code cannot take elements of dtype {spelled(dtype)}: give fields that do not overlap, in the "
            "order of their offsets"
        ) from None


def holds_array(spec: Spec) -> bool:
    """Return whether an argument is a Gondwana array or contains one. Local."""
    kind = type(spec)
    return kind is ArraySpec or (kind is TupleSpec and spec.arrays)  # type: ignore[union-attr]


def holds_handle(spec: Spec) -> bool:
    """Return whether an argument is, or contains, an object by which compiled code communicates. Local."""
    if isinstance(spec, TupleSpec):
        return any(map(holds_handle, spec.items))
    return isinstance(spec, HandleSpec) and spec.family != DOMAIN


def array_specs(specs: tuple[Spec, ...]) -> list[ArraySpec]:
    """Return the specs of the Gondwana arrays among arguments, inside tuples too, in order of their slots. Local."""
    found: list[ArraySpec] = []
    for spec in specs:
        if isinstance(spec, ArraySpec):
            found.append(spec)
        elif isinstance(spec, TupleSpec):
            found += array_specs(spec.items)
    return found


def _describe_int(value: int) -> Described:
    if -(2**63) <= value < 2**63:
        return _INT, _pack_int(value)
    if 0 <= value < 2**64:
        return _LARGE_INT, _pack_large_int(value)
    raise KernelError(f"compiled code cannot take {value}: an integer argument must fit 64 bits")


def _describe_numpy_scalar(value: Any) -> Described:
    raw = value.tobytes()
    return intern(ScalarSpec(dtype_name(value.dtype))), raw.ljust(-(-len(raw) // WORD) * WORD, b"\0")


def _describe_ndarray(value: np.ndarray[Any, Any]) -> Described:
    key = (value.dtype, value.ndim, value.flags.num)
    spec = _ndarrays.get(key)
    if spec is None:
        layout = "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else "A"
        spec = intern(NdarraySpec(dtype_name(value.dtype), value.ndim, layout, not value.flags.writeable))
        _ndarrays[key] = spec
    words = (value.ctypes.data, *value.shape, *value.strides)
    return spec, struct.pack(f"{len(words)}q", *words)


def _describe_tuple(value: tuple[Any, ...]) -> Described:
    described = [describe(item) for item in value]
    key = (type(value), *[id(spec) for spec, _ in described])
    spec = _tuples.get(key)
    if spec is None:
        items = tuple(spec for spec, _ in described)
        fields: tuple[str, ...] | None = getattr(value, "_fields", None)
        cls = None if fields is None else type(value)
        spec = _tuples[key] = intern(TupleSpec(items, cls, fields or (), bool(array_specs(items))))
    return spec, b"".join([data for _, data in described])


def _describe_point(value: Point) -> Described:
    return intern(PointSpec(len(value))), struct.pack(f"{len(value)}q", *value)


def _describe_domain(value: RectDomain) -> Described:
    words = (*value.lo, *value.hi, *value.stride)
    return intern(HandleSpec(DOMAIN, (value.ndim,), len(words))), struct.pack(f"{len(words)}q", *words)


def _describe_constant(value: Any) -> Described:
    return intern(ConstantSpec(value)), b""


_DESCRIBERS: dict[type, Callable[[Any], Described]] = {
    int: _describe_int,
    bool: lambda value: (_BOOL, _pack_int(value)),
    float: lambda value: (_WEAK, _pack_float(value)),
    complex: lambda value: (_COMPLEX, _pack_complex(value.real, value.imag)),
    Point: _describe_point,
    Offset: _describe_constant,
    RectDomain: _describe_domain,
    type(None): _describe_constant,
    str: _describe_constant,
}


def working_precision(specs: tuple[Spec, ...]) -> str:
    """Return "float32" if there are arrays or NumPy scalars and none is wider than that, else "float64". Local.

    It is the type that Python's own floats take: literals of a kernel and `float` arguments. So a kernel on float32
    arrays calculates in float32 only, as NumPy 2 does.
    """
    strong = {dtype for spec in specs for dtype in _strong_dtypes(spec)}
    floats = {leaf for dtype in strong for leaf in leaves(named_dtype(dtype)) if leaf.kind in "fc"}
    return "float32" if floats and floats <= {np.dtype("float32"), np.dtype("complex64")} else "float64"


def _strong_dtypes(spec: Spec) -> list[str]:
    if isinstance(spec, TupleSpec):
        return [dtype for item in spec.items for dtype in _strong_dtypes(item)]
    if isinstance(spec, ScalarSpec):
        return [] if spec.weak else [spec.dtype]
    return [spec.dtype] if isinstance(spec, ArraySpec | NdarraySpec) else []


def spec_words(spec: Spec) -> int:
    """Return the number of words of an argument block that carry a value of this spec. Local."""
    match spec:
        case ScalarSpec(dtype):
            return -(-named_dtype(dtype).itemsize // WORD)
        case ArraySpec(ndim=ndim):
            return 1 + 4 * ndim
        case NdarraySpec(ndim=ndim):
            return 1 + 2 * ndim
        case PointSpec(ndim):
            return ndim
        case ConstantSpec():
            return 0
        case HandleSpec(words=words):
            return words
        case TupleSpec(items):
            return sum(map(spec_words, items))


_extensions = [
    "gondwana.compiler.externs_overloads",
    "gondwana.compiler.mpi.mpi_overloads",
    "gondwana.compiler.multithreading.team_overloads",
    "gondwana.compiler.timing_overloads",
    "gondwana.simd.vectors_overloads",
    "gondwana.simd.exponential_overloads",
    "gondwana.memory.pointer_overloads",
    "gondwana.sync.atomics_overloads",
    "gondwana.sync.signals_overloads",
    "gondwana.calls.active_messages.message_overloads",
    "gondwana.transfer.collectives.verbs_overloads",
    "gondwana.transfer.messages.verbs_overloads",
    "gondwana.transfer.plans.host_overloads",
    "gondwana.transfer.verbs_overloads",
    "gondwana.kernels.random_numbers_overloads",
]
"""Modules that register overloads with Numba for names that functions may use, except for tasks."""


def describe_handle(family: str, parameters: tuple[Hashable, ...], words: tuple[int, ...]) -> Described:
    """Return the spec and the bytes of a handle. Local.

    Args:
        family: name of the family, which decides what functions work on it.
        parameters: values that the compiled code may depend on, such as the name of a dtype.
        words: value of the handle, signed 64-bit integers.
    """
    return _spec(family, parameters, len(words)), struct.pack(f"{len(words)}q", *words)


@cache
def _spec(family: str, parameters: tuple[Hashable, ...], words: int) -> HandleSpec:
    spec = intern(HandleSpec(family, parameters, words, recorder is not None, reporter is not None))
    assert isinstance(spec, HandleSpec)
    return spec


def extend(module: str) -> None:
    """Add a module to import before anything is compiled: it registers overloads with Numba. Local."""
    _extensions.append(module)


def import_extensions() -> None:
    """Import the modules that extend compiled code. Local."""
    while _extensions:
        importlib.import_module(_extensions.pop())
