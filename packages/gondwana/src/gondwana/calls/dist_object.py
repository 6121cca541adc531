"""Distributed objects: one value on every rank of a team, and one identity in the job."""

from __future__ import annotations

import weakref
from collections import defaultdict
from typing import Any, Generic, TypeVar

from gondwana.calls import endpoints, wire
from gondwana.calls.reported import seen
from gondwana.errors import UsageError
from gondwana.futures import Future
from gondwana.runtime.races import Kind, reporter
from gondwana.runtime.races.records import CALLS
from gondwana.teams import Team, world

T = TypeVar("T")

_objects: weakref.WeakValueDictionary[endpoints.Key, DistObject[Any]] = weakref.WeakValueDictionary()
_made: defaultdict[int, int] = defaultdict(int)


class DistObject(Generic[T]):
    """An object with a value on every rank of a team, which other ranks of the team can fetch.

    Collective over team to create, in the same order on all ranks, but the ranks do not wait for each other (except at
    the first use of a new team). As an argument of a remote call it arrives as the receiver's own object, and the call
    waits there until that exists. It lives as long as the program refers to it: keep it until no rank uses it any more,
    for instance up to a barrier.

    Args:
        value: of this rank; anything.
        team: the ranks that have one.

    Attributes:
        value: of this rank; may be changed.
        team: the ranks that have one.

    Example:
        >>> import gondwana as gw
        >>> count = gw.DistObject(10 * gw.world.rank, gw.world)
        >>> count.fetch(0).result()
        0
    """

    def __init__(self, value: T, team: Team = world) -> None:
        self.value = value
        self.team = team
        self.key = (team.key, _made[team.key])
        _made[team.key] += 1
        _objects[self.key] = self
        if reporter is not None:
            reporter.add(Kind.FORK, CALLS)
        endpoints.release(self.key)

    @seen
    def fetch(self, rank: int) -> Future[T]:
        """Return the future of the value of a rank. Local; that rank must make progress.

        Args:
            rank: of the team.

        Raises:
            UsageError: there is no such rank.
        """
        return endpoints.request(rank, self.team, _value, (self,), {})

    def __repr__(self) -> str:
        return f"DistObject({self.value!r}, {self.team.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, self.key


def _value(here: DistObject[T]) -> T:
    return here.value


def _arrive(team: int, number: int) -> DistObject[Any]:
    """Return this rank's object."""
    found = _objects.get((team, number))
    if found is not None:
        return found
    if number >= _made[team]:
        raise wire.AwaitedError((team, number))
    raise UsageError(
        f"a DistObject has arrived on rank {world.rank} that this rank has deleted: keep it until no rank uses it any "
        "more, for instance up to a barrier"
    )
