"""`gw.migrate`: records move to the ranks that own them, which do not know before how many come.

One collective tells each rank how many records come from each other. Then it moves its own records straight to their
places in the result, and those of other ranks into one run for each, which MPI moves from there to its place.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
import numpy.typing as npt

from gondwana.compiler.native import Native
from gondwana.errors import UsageError
from gondwana.teams import Team, wait_all, world

_MODULE = "gondwana.transfer.collectives.migration_native"
_count_records = Native(_MODULE, "count_records", 3)
_move_apart = Native(_MODULE, "move_apart", 5)

_TAG = 29_998
_COUNT, _KIND, _FAILED = range(3)
"""Words that each rank tells each other: how many records go there, a checksum of their types, whether it failed."""

Records = TypeVar("Records", bound=np.dtype[Any])


class _Given(NamedTuple):
    """Arguments of a rank that are legal there."""

    arrays: list[np.ndarray[Any, Any]]
    owners: npt.NDArray[np.int32]


@overload
def migrate(
    records: np.ndarray[Any, Records], owner: npt.ArrayLike, team: Team = world
) -> np.ndarray[Any, Records]: ...
@overload
def migrate(
    records: tuple[np.ndarray[Any, Any], ...], owner: npt.ArrayLike, team: Team = world
) -> tuple[np.ndarray[Any, Any], ...]: ...
def migrate(records: Any, owner: npt.ArrayLike, team: Team = world) -> Any:
    """Send each record to the rank that owns it, and return those of this rank. Collective over team; blocks.

    No rank needs to know how many records come. User-level progress.

    Args:
        records: the records of this rank, perhaps none: an ndarray of any dtype whose first axis counts them, such as a
            structured one; or a tuple of ndarrays of the same length, one for each field. On all ranks alike but for
            the length.
        owner: rank of the team that each record goes to, such as `layout.owner(cells)` gives; it may be this one.
        team: the ranks that take part.

    Returns:
        The records that go to this rank, in new memory and in the form of `records`: in the order of the ranks that
        they come from, and of one rank in the order that they had there.

    Raises:
        UsageError: the arrays have other lengths than `owner`, an owner is no rank of the team, or ranks give records
            of different types; raised by every rank, before any record moves.

    Example:
        >>> import gondwana as gw, numpy as np
        >>> points = np.array([(0.5, 1), (7.5, 2)], [("x", float), ("number", int)])
        >>> layout = gw.Layout.divide(8, gw.world.size)
        >>> mine = gw.migrate(points, layout.owner((points["x"].astype(int),)))
        >>> len(mine) == 2 if gw.world.size == 1 else True
        True
    """
    if not isinstance(team, Team):
        raise UsageError(f"migrate with team={team!r}: give a team, such as gw.world")
    given, problem = _Given([], np.empty(0, np.int32)), None
    try:
        given = _checked(records, owner, team)
    except UsageError as error:
        problem = error
    kinds = [(array.dtype, array.shape[1:]) for array in given.arrays], isinstance(records, tuple)
    tell, told = np.zeros((2, team.size, 3), np.int64)
    tell[:, _KIND], tell[:, _FAILED] = zlib.crc32(repr(kinds).encode()), problem is not None
    counts = np.zeros(team.size, np.int64)
    _count_records.call(given.owners.ctypes.data, given.owners.size, counts.ctypes.data)
    tell[:, _COUNT] = counts
    team.Alltoall(tell, told)
    if told[:, _FAILED].any() or (told[:, _KIND] != told[0, _KIND]).any():
        team.expect_same("migrations", problem, records=kinds)
    found = _moved(given, counts, told[:, _COUNT], team)
    return found if isinstance(records, tuple) else found[0]


def _moved(given: _Given, counts: Any, coming: Any, team: Team) -> tuple[np.ndarray[Any, Any], ...]:
    """Move the records of all arrays. Collective over team.

    Args:
        given: what is legal.
        counts: records that go to each rank.
        coming: records that come from each rank.
        team: the ranks.
    """
    me, private, requests, results = team.rank, team.private, [], []
    leaving = counts.copy()
    leaving[me] = 0
    starts, ends = (np.cumsum(numbers) for numbers in (leaving, coming))
    for array in given.arrays:
        row = array[:1].nbytes if len(array) else int(np.prod(array.shape[1:], dtype=int)) * array.itemsize
        result = np.empty((int(ends[-1]), *array.shape[1:]), array.dtype)
        sent, received = np.empty(int(starts[-1]) * row, np.uint8), _octets(result)
        for rank in range(team.size):
            if rank != me and coming[rank] * row:
                part = received[(ends[rank] - coming[rank]) * row : ends[rank] * row]
                requests.append(private.Irecv(part, rank, _TAG))
        places = sent.ctypes.data + row * (starts - leaving)
        places[me] = result.ctypes.data + row * (ends[me] - coming[me])
        _move_apart.call(given.owners.ctypes.data, len(array), array.ctypes.data, row, places.ctypes.data)
        for rank in range(team.size):
            if rank != me and counts[rank] * row:
                part = sent[(starts[rank] - counts[rank]) * row : starts[rank] * row]
                requests.append(private.Isend(part, rank, _TAG))
        results.append(result)
    wait_all(requests)
    return tuple(results)


def _octets(array: np.ndarray[Any, Any]) -> npt.NDArray[np.uint8]:
    """The bytes of an array without gaps, of any dtype."""
    return array.reshape(-1).view(np.uint8) if array.nbytes else np.empty(0, np.uint8)


def _checked(records: Any, owner: npt.ArrayLike, team: Team) -> _Given:
    """The arguments without gaps, if they are legal."""
    arrays = list(records) if isinstance(records, tuple) else [records]
    for array in arrays:
        if not isinstance(array, np.ndarray) or array.ndim == 0 or array.dtype.hasobject:
            raise UsageError(
                f"migrate of {_spelled(array)}: give an ndarray in host memory whose first axis counts the records, "
                "without Python objects, or a tuple of such"
            )
    owners = np.asarray(owner)
    if not arrays or any(owners.shape != (len(array),) for array in arrays):
        raise UsageError(
            f"migrate of {len(arrays)} arrays of {', '.join(str(len(array)) for array in arrays) or 'no'} records with "
            f"owners of shape {owners.shape}: give one owner for each record"
        )
    if owners.size and owners.dtype.kind not in "iu":
        raise UsageError(f"migrate with owners of {owners.dtype}: give ranks, as integers")
    if owners.size and (owners.min() < 0 or owners.max() >= team.size):
        bad = np.flatnonzero((owners < 0) | (owners >= team.size))[0]
        raise UsageError(
            f"migrate with owner {owners[bad]} of record {bad}: the ranks of {team.name} are 0 to {team.size - 1}"
        )
    return _Given([np.ascontiguousarray(array) for array in arrays], np.ascontiguousarray(owners, np.int32))


def _spelled(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    return f"a {type(value).__name__}"
