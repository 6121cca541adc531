"""The conditions at the faces of a global array: values, the same on every rank, as `boundary=` gives them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from types import FunctionType
from typing import Any, TypeAlias, final

import numpy as np

from gondwana.arrays.cuts import per_axis
from gondwana.arrays.layout import Layout
from gondwana.compiler.cache import fingerprint
from gondwana.compiler.types.records import spelled
from gondwana.errors import UsageError
from gondwana.memory.cuda_kind import CudaKind
from gondwana.memory.kinds import MemoryKind

Value: TypeAlias = complex | Callable[..., Any]
"""The value of a condition: a number, or a function of the position, or of the position and the time."""
Faces: TypeAlias = "tuple[tuple[Condition | None, Condition | None], ...]"
"""For each axis the conditions of its lower and of its upper face."""

_AXES = "xyz"
_MOST_AXES = 4


class Condition:
    """What ghosts outside of one face of the domain hold: the base of `gw.Dirichlet` and the other conditions.

    Attributes:
        value: number, or function of the place.
        mirrors: whether ghosts are made of the cells as far inside as they are outside.
    """

    value: Any = 0
    mirrors = True

    @property
    def function(self) -> FunctionType | None:
        """The plain function that gives the values, None if they are constant."""
        function = getattr(self.value, "py_func", self.value)  # of one for `gw.jit`
        return function if isinstance(function, FunctionType) else None

    def is_timed(self, ndim: int) -> bool:
        """Return whether the condition of an array of so many axes depends on the time. Local."""
        return self.function is not None and _required(self.function) == ndim + 1


@final
@dataclass(frozen=True)
class Dirichlet(Condition):
    """A wall at which the array has a value: ghost = 2 * value - mirror.

    The wall lies on the face between the last cell and the first ghost. The mirror of the k-th ghost outside is the
    k-th cell inside, so linear interpolation between the two has the value at the wall.

    Args:
        value: number, or function of the coordinates of the place on the wall, as floats in the coordinates of the
            domain (a wall below cell 0 is at -0.5): `value(x, y)`, or of these and the time: `value(x, y, t)`. It is
            compiled, as kernels are.

    Example:
        >>> import gondwana as gw
        >>> T = gw.full(4, 1.0, ghost=1, boundary={"x-": gw.Dirichlet(3.0), "x+": gw.Neumann(0.0)})
        >>> T.exchange().wait()
        >>> T.local.numpy().tolist() if gw.world.size == 1 else [5.0, 1.0, 1.0, 1.0, 1.0, 1.0]
        [5.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """

    value: Value


@final
@dataclass(frozen=True)
class Neumann(Condition):
    """A wall at which the array has a slope: ghost = mirror + value * distance.

    The wall and the mirror are those of `gw.Dirichlet`. The distance of the k-th ghost from its mirror is
    2 k - 1 cells.

    Args:
        value: outward difference from a cell to the next: number or function, as for `gw.Dirichlet`.

    Example:
        >>> import gondwana as gw
        >>> T = gw.full(4, 1.0, ghost=1, boundary=gw.Neumann(0.5))
        >>> T.exchange().wait()
        >>> T.local.numpy().tolist() if gw.world.size == 1 else [1.5, 1.0, 1.0, 1.0, 1.0, 1.5]
        [1.5, 1.0, 1.0, 1.0, 1.0, 1.5]
    """

    value: Value


@final
@dataclass(frozen=True)
class Reflect(Condition):
    """A wall that mirrors the array: ghost = sign * mirror. The wall and the mirror are those of `gw.Dirichlet`.

    Args:
        sign: 1, or -1 for what changes its sign in a mirror, such as the velocity across the wall.

    Raises:
        UsageError: another sign.

    Example:
        >>> import gondwana as gw
        >>> u = gw.full(4, 1.0, ghost=1, boundary=gw.Reflect(sign=-1))
        >>> u.exchange().wait()
        >>> u.local.numpy().tolist() if gw.world.size == 1 else [-1.0, 1.0, 1.0, 1.0, 1.0, -1.0]
        [-1.0, 1.0, 1.0, 1.0, 1.0, -1.0]
    """

    sign: int = 1

    def __post_init__(self) -> None:
        if self.sign not in (-1, 1):
            raise UsageError(f"gw.Reflect(sign={self.sign!r}): the signs are 1 and -1")


@final
@dataclass(frozen=True)
class Fixed(Condition):
    """Ghosts of a value, for what flows in, or for what surrounds the domain: ghost = value.

    Args:
        value: number, or function of the coordinates of the ghost, as floats in the coordinates of the domain:
            `value(x, y)`, or of these and the time: `value(x, y, t)`. It is compiled, as kernels are.

    Example:
        >>> import gondwana as gw
        >>> T = gw.full(4, 1.0, ghost=1, boundary=gw.Fixed(lambda x, t: x + t))
        >>> T.exchange(time=10.0).wait()
        >>> T.local.numpy().tolist() if gw.world.size == 1 else [9.0, 1.0, 1.0, 1.0, 1.0, 14.0]
        [9.0, 1.0, 1.0, 1.0, 1.0, 14.0]
    """

    value: Value
    mirrors = False


@final
class Wall(Condition):
    """Ghosts that a kernel fills: `kernel(ghosts, array, *args)` runs on the ghosts of this rank at the face.

    The kernel writes `array[p]` of each ghost p, and may read cells as far from the wall as ghosts reach.

    Args:
        kernel: kernel of `@gw.foreach`. It may have one more parameter than are given: the time.
        *args: arguments after the array.

    Raises:
        UsageError: not a kernel of `@gw.foreach`, or one of other parameters.

    Example:
        >>> import gondwana as gw
        >>> @gw.foreach
        ... def extrapolate(p, T):
        ...     T[p] = 2.0 * T[p + gw.X] - T[p + 2 * gw.X]
        >>> T = gw.from_function(lambda x: 5.0 + x, 4, ghost=1, boundary={"x-": gw.Wall(extrapolate)})
        >>> T.exchange().wait()
        >>> float(T.local[-1]) if gw.world.rank == 0 else 4.0
        4.0
    """

    def __init__(self, kernel: Any, *args: Any) -> None:
        from gondwana.kernels.foreach_kernels import Foreach  # only now: it takes time to load

        if not isinstance(kernel, Foreach):
            raise UsageError(f"gw.Wall({kernel!r}): give a kernel of @gw.foreach")
        if len(kernel.parameters) - len(args) not in (1, 2):
            raise UsageError(
                f"gw.Wall: {kernel.py_func.__name__} is given the ghosts, the array and {len(args)} arguments; it "
                f"takes the point and {', '.join(kernel.parameters) or 'nothing'}"
            )
        self.kernel, self.args = kernel, args

    def is_timed(self, ndim: int) -> bool:
        """Return whether the kernel takes the time. Local."""
        return len(self.kernel.parameters) == len(self.args) + 2

    def __repr__(self) -> str:
        return f"Wall({', '.join([self.kernel.py_func.__name__, *map(repr, self.args)])})"


@final
class Periodic:
    """The type of `gw.periodic`."""

    def __repr__(self) -> str:
        return "gw.periodic"


periodic = Periodic()
"""In `boundary=`: the axis closes on itself, as `periodic=` says, too."""

Boundary: TypeAlias = Condition | Periodic | Mapping[str, Condition | Periodic]
"""What `boundary=` takes: a condition for all faces, or one for each face or axis by its name."""


def divided_faces(boundary: Boundary | None, closed: bool | Sequence[bool], ndim: int) -> tuple[Any, Faces]:
    """Return which axes are periodic, and the conditions of all faces. Local.

    Args:
        boundary: what a constructor got.
        closed: its argument `periodic`.
        ndim: number of axes of the array.

    Raises:
        UsageError: a name or a condition is illegal, or a face has two.
    """
    if boundary is None:
        return closed, ((None, None),) * ndim
    names = [axis_name(axis) for axis in range(ndim)]
    given = boundary if isinstance(boundary, Mapping) else dict.fromkeys(names, boundary)
    around = list(per_axis("periodic", closed, ndim, bool))
    found: list[list[Condition | None]] = [[None, None] for _ in range(ndim)]
    for name, condition in given.items():
        axis, sides = _face(name, names)
        if around[axis] or any(found[axis][side] is not None for side in sides):
            raise UsageError(f"boundary {name!r}: axis {axis} has a condition there, or is periodic, already: give one")
        if isinstance(condition, Periodic):
            if len(sides) == 1:
                raise UsageError(
                    f"boundary {name!r}: an axis is periodic as a whole: give {names[axis]!r}: gw.periodic"
                )
            around[axis] = True
        elif isinstance(condition, Condition):
            for side in sides:
                found[axis][side] = condition
        else:
            raise UsageError(
                f"boundary {name!r}: {condition!r} is not a condition: legal are gw.Dirichlet, gw.Neumann, gw.Reflect, "
                "gw.Fixed, gw.Wall and gw.periodic"
            )
    return tuple(around), tuple((low, high) for low, high in found)


def check_faces(faces: Faces, layout: Layout, dtype: np.dtype[Any], kind: MemoryKind) -> None:
    """Refuse conditions that an array cannot have. Local.

    Raises:
        UsageError: it has no ghosts at a wall, too few cells, or other elements or memory than a condition needs.
    """
    ndim = len(faces)
    for face, condition in named(faces).items():
        axis = _face(face, [axis_name(axis) for axis in range(ndim)])[0]
        width, cells = layout.ghost[axis], layout.domain.shape[axis]
        problem = _unfit(condition, ndim, dtype)
        if width < 1:
            problem = f"walls need ghosts along axis {axis}: give ghost=1 or more there"
        elif condition.mirrors and cells < width:
            problem = f"{width} ghosts mirror as many cells, and the domain has {cells} along axis {axis}"
        elif ndim > _MOST_AXES:
            problem = f"arrays with walls have at most {_MOST_AXES} axes, not {ndim}"
        elif not kind.host and not isinstance(kind, CudaKind):
            problem = f"walls need host memory or that of a GPU, not {kind.name} memory"
        if problem:
            raise UsageError(f"boundary {face!r}, {condition!r}: {problem}")


def _unfit(condition: Condition, ndim: int, dtype: np.dtype[Any]) -> str:
    """Why an array of these axes and elements cannot have a condition, "" if it can."""
    if isinstance(condition, Wall):
        return ""
    function, value = condition.function, condition.value
    if function is not None and _required(function) not in (ndim, ndim + 1):
        return (
            f"the function takes {_required(function)} arguments; an array of {ndim} axes needs one of the {ndim} "
            "coordinates, or of these and the time"
        )
    if function is None and not isinstance(value, Number | np.bool_):
        return "give a number, or a function of the place as def or lambda makes it"
    copies = condition in (Neumann(0), Reflect())
    if dtype.kind in "Vb" and not copies and (dtype.kind == "V" or not isinstance(condition, Fixed)):
        return (
            f"elements of {spelled(dtype)} are not added up: legal are gw.Neumann(0), gw.Reflect() and gw.Wall(kernel)"
        )
    fits = copies or function is not None or np.can_cast(np.result_type(value), dtype, "same_kind")
    return (
        "" if fits or value == np.array(value).astype(dtype) else f"the value does not fit elements of {spelled(dtype)}"
    )


def described(faces: Faces) -> dict[str, str]:
    """Return texts that are equal on all ranks for equal conditions, by the names of faces. Local."""
    found = {}
    for face, condition in named(faces).items():
        function: Any = condition.kernel.py_func if isinstance(condition, Wall) else condition.function
        found[face] = repr(condition) if function is None else f"{type(condition).__name__}({fingerprint(function)})"
    return found


def named(faces: Faces) -> dict[str, Condition]:
    """Return the conditions by the names of their faces. Local."""
    return {
        f"{axis_name(axis)}{sign}": condition
        for axis, pair in enumerate(faces)
        for sign, condition in zip("-+", pair, strict=True)
        if condition is not None
    }


def conditions(faces: Faces) -> list[Condition]:
    """Return the conditions of all faces. Local."""
    return [condition for pair in faces for condition in pair if condition is not None]


def axis_name(axis: int) -> str:
    """Return the name of an axis: a letter, or for the fourth one its number. Local."""
    return _AXES[axis] if axis < len(_AXES) else str(axis)


def _face(name: object, names: list[str]) -> tuple[int, tuple[int, ...]]:
    """The axis of a name, and its sides: 0 for the lower face, 1 for the upper one."""
    if isinstance(name, str):
        axis, sign = (name[:-1], name[-1]) if name.endswith(("-", "+")) else (name, "")
        numbers = [str(number) for number in range(len(names))]
        if axis in names or axis in numbers:
            return (names if axis in names else numbers).index(axis), {"-": (0,), "+": (1,), "": (0, 1)}[sign]
    raise UsageError(
        f"boundary {name!r}: the axes of the array are {', '.join(map(repr, names))}; give such a name for both faces, "
        f"or {names[0] + '-'!r} and {names[0] + '+'!r} for the lower and the upper one"
    )


def _required(function: Callable[..., Any]) -> int:
    """The number of arguments that a function must be given."""
    parameters = inspect.signature(function).parameters.values()
    return sum(one.default is inspect.Parameter.empty for one in parameters)
