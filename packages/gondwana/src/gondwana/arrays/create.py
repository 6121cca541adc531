"""Constructors of global arrays: NumPy's names, a domain instead of a shape."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from gondwana.arrays.array import Array, MemoryOrder
from gondwana.arrays.divided import SCATTER_TAG, ready, slices_of
from gondwana.arrays.global_array import GlobalArray
from gondwana.arrays.layout import Layout
from gondwana.arrays.walls.conditions import Boundary, Faces, divided_faces
from gondwana.compiler.types.arguments import dtype_name
from gondwana.compiler.types.records import element_dtype, spelled
from gondwana.domains import PointLike, RectDomain
from gondwana.errors import KernelError, UsageError
from gondwana.memory.kinds import MemoryKind, host
from gondwana.teams import Team, world

P = ParamSpec("P")


class Division(TypedDict, total=False):
    """Further arguments of the constructors, for keywords only: see `empty`."""

    ghost: int | Sequence[int]
    periodic: bool | Sequence[bool]
    boundary: Boundary | None
    grid: Sequence[int] | None
    cuts: Sequence[Sequence[int] | None] | None
    order: MemoryOrder
    kind: MemoryKind
    team: Team


_HOW = {"ghost": 0, "periodic": False, "grid": None, "cuts": None, "order": "C"}
_DEFAULTS = {name: (_HOW | {"kind": host, "team": world}).get(name) for name in Division.__annotations__}


def _with_advice(constructor: Callable[P, GlobalArray]) -> Callable[P, GlobalArray]:
    """Show the arguments of `Division` to who asks; answer an argument of an unknown name by the one that is meant."""
    signature = inspect.signature(constructor)
    own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    further = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS[name], annotation=of.__forward_arg__)
        for name, of in Division.__annotations__.items()
    ]
    names = [one.name for one in (*own, *further)]

    @functools.wraps(constructor)
    def call(*args: P.args, **kwargs: P.kwargs) -> GlobalArray:
        for name in kwargs.keys() - names:
            import difflib

            close = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]}?" if close else f"legal are {', '.join(names)}"
            raise TypeError(f"gw.{constructor.__name__} has no argument {name}: {hint}")
        return constructor(*args, **kwargs)

    call.__signature__ = signature.replace(parameters=[*own, *further])  # type: ignore[attr-defined]
    return call


def _divide(
    domain: RectDomain | PointLike | Layout,
    *,
    boundary: Boundary | None = None,
    kind: MemoryKind = host,
    team: Team = world,
    **given: Any,
) -> tuple[Layout, Faces, MemoryKind, Team]:
    """Divide a domain among the ranks of a team, unless it is divided already; find the conditions of its faces."""
    if not isinstance(team, Team):
        raise UsageError(f"team={team!r}: give a team, such as gw.world or one of its splits")
    how = _HOW | given
    if not isinstance(domain, Layout):
        box = domain if isinstance(domain, RectDomain) else RectDomain.from_shape(domain)
        how["periodic"], faces = divided_faces(boundary, given.get("periodic", False), box.ndim)
        return Layout.divide(box, team.size, **how), faces, kind, team
    if how != _HOW:
        raise UsageError("a layout says ghost, periodic, grid and order, and cuts: leave them out, or give a domain")
    if math.prod(domain.grid) != team.size:
        raise UsageError(f"the layout has {math.prod(domain.grid)} blocks and the team has {team.size} ranks")
    closed, faces = divided_faces(boundary, domain.periodic, domain.domain.ndim)
    if closed != domain.periodic:
        raise UsageError("boundary: a layout says which axes are periodic: leave out gw.periodic")
    return domain, faces, kind, team


@_with_advice
def empty(
    domain: RectDomain | PointLike | Layout,
    dtype: npt.DTypeLike = float,
    **division: Unpack[Division],
) -> GlobalArray:
    """Return a global array with undefined elements. Collective over team; blocks.

    Args:
        domain: all cells: a dense RectDomain, or a shape (from the origin); or a `gw.Layout` for the ranks of the team,
            which replaces ghost, periodic, grid, cuts and order, too.
        dtype: type of an element: numeric, native; or a structured dtype of NumPy, or a class of named tuples, for
            records of such numbers.
        ghost: ghost cells around each block, one width or one an axis.
        periodic: whether the domain closes on itself, for all axes or one an axis.
        boundary: what `exchange` fills the ghosts outside of the domain with, the same on all ranks: a condition for
            all faces, or for axes and faces by name, such as `{"x-": gw.Dirichlet(0.0), "y": gw.periodic}`. Names are
            "x", "y", "z", or the number of the axis, for both faces; "x-" and "x+" for the lower and the upper one.
            Conditions are `gw.Dirichlet`, `gw.Neumann`, `gw.Reflect`, `gw.Fixed`, `gw.Wall` and `gw.periodic`, which is
            for whole axes. Ghosts at faces that are not named keep their values.
        grid: blocks along each axis, their product the number of ranks; default: the grid that moves least, the
            contiguous axis cut last.
        cuts: for each axis the widths of its blocks, which add up to its extent, 0 allowed; None for an axis that is
            cut as evenly as possible.
        order: "C" (last axis contiguous) or "F" (first axis contiguous).
        kind: memory of this rank's block; may differ from rank to rank.
        team: the ranks that share it.

    Returns:
        The array. Remainders go to the first blocks; with more ranks than cells some blocks are empty.

    Raises:
        UsageError: an argument is illegal; raised before any communication.

    Example:
        >>> import gondwana as gw
        >>> T = gw.zeros(gw.RectDomain((0, 0, 0), (16, 16, 16)), ghost=1, periodic=True)
        >>> T.ghost, T.domain.size
        ((1, 1, 1), 4096)
    """
    layout, faces, kind, team = _divide(domain, **division)
    return GlobalArray(layout, _element(dtype, kind), team, kind, faces)


@_with_advice
def zeros(
    domain: RectDomain | PointLike | Layout,
    dtype: npt.DTypeLike = float,
    **division: Unpack[Division],
) -> GlobalArray:
    """Return a global array of zeros, ghosts too. Collective over team; blocks. Arguments as for `empty`.

    The memory is zero when the system provides it, so nothing is touched: each page comes to be near the thread that
    uses it first. If several ranks share a node, the first use of a large block allocates all of its memory at once, in
    huge pages.
    """
    return empty(domain, dtype, **division)


@_with_advice
def ones(
    domain: RectDomain | PointLike | Layout,
    dtype: npt.DTypeLike = float,
    **division: Unpack[Division],
) -> GlobalArray:
    """Return a global array of ones, ghosts too. Collective over team; blocks. Arguments as for `empty`."""
    return full(domain, 1, dtype, **division)


@_with_advice
def full(
    domain: RectDomain | PointLike | Layout,
    value: Any,
    dtype: npt.DTypeLike | None = None,
    **division: Unpack[Division],
) -> GlobalArray:
    """Return a global array of one value, ghosts too. Collective over team; blocks. Other arguments as for `empty`.

    Args:
        domain: all cells.
        value: value of every cell, the same on all ranks (`fill` of an array is local: each rank may give another).
        dtype: type of an element; default: that of the value.
        **division: ghost, periodic, boundary, grid, cuts, order, kind and team: see `empty`.
    """
    layout, faces, kind, team = _divide(domain, **division)
    return _filled(layout, value, dtype, team, kind, faces)


def empty_like(other: GlobalArray, dtype: npt.DTypeLike | None = None) -> GlobalArray:
    """Return a global array with the division of another one, undefined elements. Collective over its team; blocks.

    Args:
        other: array that gives domain, grid, ghosts, boundary, order, kind of memory and team.
        dtype: type of an element; default: that of `other`.
    """
    _check_global(other)
    element = other.dtype if dtype is None else _element(dtype, other.kind)
    return GlobalArray(other.layout, element, other.team, other.kind, other.faces)


def zeros_like(other: GlobalArray, dtype: npt.DTypeLike | None = None) -> GlobalArray:
    """Return a global array of zeros with the division of another one. Collective over its team; blocks.

    Args:
        other: array that gives domain, grid, ghosts, boundary, order, kind of memory and team.
        dtype: type of an element; default: that of `other`.
    """
    return empty_like(other, dtype)


def full_like(other: GlobalArray, value: Any, dtype: npt.DTypeLike | None = None) -> GlobalArray:
    """Return a global array of one value, ghosts too, with the division of another one. Collective over its team.

    It blocks.

    Args:
        other: array that gives domain, grid, ghosts, boundary, order, kind of memory and team.
        value: value of every cell.
        dtype: type of an element; default: that of `other`.

    Example:
        >>> import gondwana as gw
        >>> background = gw.full_like(gw.zeros(4, ghost=1), 0.5)
        >>> background.to_numpy().tolist(), background.ghost
        ([0.5, 0.5, 0.5, 0.5], (1,))
    """
    _check_global(other)
    element = other.dtype if dtype is None else dtype
    return _filled(other.layout, value, element, other.team, other.kind, other.faces)


def _check_global(other: object) -> None:
    if not isinstance(other, GlobalArray):
        raise UsageError(
            f"a global array like {other!r}: give a global array; of an ndarray, gw.from_numpy(array) is one"
        )


def _filled(
    layout: Layout, value: Any, dtype: npt.DTypeLike | None, team: Team, kind: MemoryKind, faces: Faces
) -> GlobalArray:
    """Return a global array of one value, which is the same on all ranks. Collective over team."""
    element = _element(np.asarray(value).dtype if dtype is None else dtype, kind)
    array = GlobalArray(layout, element, team, kind, faces, value=np.array(value, element).tolist())
    array.fill(value)
    return ready(array)


@_with_advice
def from_numpy(
    data: npt.ArrayLike,
    domain: RectDomain | None = None,
    **division: Unpack[Division],
) -> GlobalArray:
    """Return a global array with the elements of an ndarray. Collective over team; blocks.

    Args:
        data: all cells, the same on every rank, which is checked by a checksum; each rank takes its own. If each has
            only its own cells, use `from_function` or `local` of an array.
        domain: domain of the shape of `data`; default: from the origin.
        **division: ghost, periodic, boundary, grid, cuts, order, kind and team: see `empty`.

    Raises:
        UsageError: the data differ between ranks, in shape, dtype or elements, or an argument is illegal; raised by
            every rank.

    Example:
        >>> import gondwana as gw, numpy as np
        >>> gw.from_numpy(np.arange(6.0)).to_numpy().tolist()
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    """
    source = Array(data, domain)
    layout, faces, kind, team = _divide(source.domain, **division)
    element = _element(source.dtype, kind)
    array = GlobalArray(
        layout, element, team, kind, faces, **({"data": _Fingerprint(source.numpy())} if team.size > 1 else {})
    )
    array.block(array.team.rank).copy_from(source)
    return ready(array)


def scatter(data: npt.ArrayLike | None, root: int = 0, *, like: GlobalArray) -> GlobalArray:
    """Return a global array with the elements of an ndarray of one rank. Collective over the team of `like`; blocks.

    Args:
        data: on `root` all cells, of the shape of `like`; ignored on the others.
        root: rank that has them.
        like: array that gives domain, grid, ghosts, boundary, order, kind of memory and team; the dtype is that of
            the data. Ghosts are zero.

    Raises:
        UsageError: the data have another shape, or elements that no global array has; raised by every rank.

    Example:
        >>> import gondwana as gw, numpy as np
        >>> T = gw.zeros((2, 3), ghost=1)
        >>> gw.scatter(np.arange(6.0).reshape(2, 3) if gw.world.rank == 0 else None, like=T)[1, 2]
        5.0
    """
    _check_global(like)
    team, cells, problem = like.team, None, None
    if root not in range(team.size):
        raise UsageError(f"root={root!r}: the ranks of {team.name} are 0 to {team.size - 1}")
    try:
        if team.rank == root:
            cells = np.asarray(data)
            _element(cells.dtype, like.kind)
            if cells.shape != like.shape:
                raise UsageError(f"scatter of an array of shape {cells.shape} like one of shape {like.shape}")
    except UsageError as error:
        problem = error
    team.agree(problem)
    array = empty_like(like, team.bcast(None if cells is None else cells.dtype, root))
    own, private = np.empty(array.part(team.rank).shape, array.dtype), team.private
    if cells is not None:
        for rank in range(team.size):
            part = np.ascontiguousarray(cells[slices_of(array.part(rank))])
            if rank == root:
                own = part
            elif part.size:
                private.Send(part, rank, SCATTER_TAG)
    elif own.size:
        private.Recv(own, root, SCATTER_TAG)
    array.block(team.rank).copy_from(Array(own, array.owned))
    return ready(array)


class _Fingerprint:
    """A checksum that represents all elements of an array when ranks compare theirs. Local.

    Args:
        data: the array.
    """

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        import xxhash

        digest = xxhash.xxh3_64()  # as fast as memory is read; a CRC takes seven times as long
        _digest(data, digest)
        self._checksum = digest.hexdigest()

    def __repr__(self) -> str:
        return f"an ndarray of checksum {self._checksum}"


_PIECE = 1 << 20
"""Approximate number of elements that are reordered at a time, of an array that is not in C's order."""


def _digest(data: np.ndarray[Any, Any], digest: Any) -> None:
    """Add elements to a checksum, in the order of their indices, regardless of gaps in memory."""
    if data.dtype.names is not None:
        for name in data.dtype.names:
            _digest(data[name], digest)
    elif data.flags.c_contiguous:
        digest.update(data.reshape(-1).view(np.uint8).data)
    else:
        rows = max(1, _PIECE * len(data) // data.size) if data.size else 1
        for first in range(0, len(data), rows):
            _digest(np.ascontiguousarray(data[first : first + rows]), digest)


@_with_advice
def from_function(
    function: Callable[..., Any],
    domain: RectDomain | PointLike | Layout,
    dtype: npt.DTypeLike | None = None,
    **division: Unpack[Division],
) -> GlobalArray:
    """Return a global array whose cells are a function of their coordinates. Collective over team; blocks.

    This is `numpy.fromfunction` in the coordinates of the domain: every rank calls `function` once, for its own cells.
    Ghosts are zero until `exchange()`.

    Args:
        function: called with one array of float64 for each axis, the coordinate of each cell of the block along it;
            all have the shape of the block (perhaps of no cells), and are read-only. Returns an array of that shape, or
            an array that NumPy broadcasts to it.
        domain: all cells: a dense RectDomain, or a shape (from the origin).
        dtype: type of an element; default: that of the result of `function`.
        **division: ghost, periodic, boundary, grid, cuts, order, kind and team: see `empty`.

    Raises:
        UsageError: the result of `function` has another shape, or does not fit `dtype`; or as for `empty`.

    Example:
        >>> import gondwana as gw, numpy as np
        >>> T = gw.from_function(lambda x, y: x + 10 * y, gw.RectDomain((-1, 0), (2, 2)))
        >>> T.to_numpy().tolist()
        [[-1.0, 9.0], [0.0, 10.0], [1.0, 11.0]]
    """
    if not callable(function):
        raise UsageError(f"from_function of {function!r}: give a function of the coordinates, one array for each axis")
    layout, faces, kind, team = _divide(domain, **division)
    owned = layout.owned(team.rank)
    values = np.asarray(function(*_coordinates(owned)))
    element = _element(values.dtype if dtype is None else dtype, kind)
    if not np.can_cast(values.dtype, element, "same_kind"):
        raise UsageError(f"from_function: the function returns {values.dtype}, which does not fit dtype={element}")
    try:
        cells = np.broadcast_to(values, owned.shape)
    except ValueError:
        raise UsageError(
            f"from_function: the function returns an array of shape {values.shape} for coordinates of shape "
            f"{owned.shape}: return one value for each cell"
        ) from None
    array = GlobalArray(layout, element, team, kind, faces)
    array.block(team.rank).copy_from(Array(cells.astype(element), owned))
    return ready(array)


def _coordinates(box: RectDomain) -> list[npt.NDArray[np.float64]]:
    """For each axis the coordinates of all points of a box, without memory for each point."""
    lines = [np.asarray(axis, np.float64) for axis in box.axes]
    grid = np.meshgrid(*lines, indexing="ij", sparse=True)
    return [np.broadcast_to(line, box.shape) for line in grid]


def _element(dtype: npt.DTypeLike, kind: MemoryKind) -> np.dtype[Any]:
    """The dtype of an array that compiled code can use."""
    if not isinstance(kind, MemoryKind):
        raise UsageError(f"kind={kind!r}: give a kind of memory, such as gw.host or gw.cuda()")
    element = element_dtype(dtype)
    try:
        dtype_name(element)
    except KernelError:
        raise UsageError(
            f"a global array of dtype {spelled(element)} is not possible: use a native bool, integer, float32, "
            "float64 or complex, or a record of those whose fields do not overlap"
        ) from None
    return element
