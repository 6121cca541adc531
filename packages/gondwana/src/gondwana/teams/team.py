"""Teams: ordered sets of ranks that communicate."""

from __future__ import annotations

import functools
import itertools
import os
import socket
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from gondwana import notebook
from gondwana.errors import UsageError
from gondwana.runtime import start
from gondwana.runtime.exits import RemoteError
from gondwana.runtime.later import ComputedOnce
from gondwana.runtime.placement.report import simulated_ranks_per_node
from gondwana.runtime.watching.rollcall import name_ranks
from gondwana.teams import mpi
from gondwana.teams.blocking import OnNode
from gondwana.teams.collectives import Collectives
from gondwana.teams.messages import Messages

_keys = itertools.count()
_SHARED = "shared"
"""The purpose of teams that are returned again."""
_OWN = ("node", "leaders", _PRIVATE := "private")
"""Purposes of the library's own teams, whose collectives need no shared memory of their own."""
_teams: weakref.WeakValueDictionary[int, Team] = weakref.WeakValueDictionary()
"""All teams of this process, by their `id`."""

_MOST_DRAWN, _BOX = 128, 26.0
"""The most ranks in the drawing of a team, and the side of the box of one [px]."""


class Team(Collectives, Messages):
    """An ordered set of ranks that communicate. Local to create; connects at first use.

    ``gondwana.world`` is the team of all ranks. Others come from ``split`` and ``node``, or from an mpi4py communicator
    by ``Team.from_comm``. Without MPI a team has one rank and everything works as on one rank of MPI.

    Teams are equal if they communicate through the same communicator. They cannot be pickled: a team has a meaning
    only inside its process.

    Args:
        connect: returns the communicator; called once, at the first use of anything that needs it.
        name: its name in messages.
        connected: called with the team once it has its communicator.

    Example:
        >>> import gondwana as gw
        >>> gw.world.allreduce(1) == gw.world.size
        True
    """

    def __init__(
        self,
        connect: Callable[[], mpi.Communicator],
        name: str,
        connected: Callable[[Team], None] = lambda team: None,
    ) -> None:
        self._connect = connect
        self._connected = connected
        self._subteams: dict[tuple[str, tuple[int, ...]], Team] = {}
        self._forget: Callable[[], object] | None = None
        self._owned = False
        self.name = name
        _teams[id(self)] = self

    @classmethod
    def from_comm(cls, comm: mpi.Communicator, name: str = "team") -> Team:
        """Return a team that communicates through an mpi4py intracommunicator of the user's. Local.

        The team does not free the communicator; messages of both share their tags.
        """
        team = cls(lambda: comm, name)
        team.comm = comm
        return team

    # -- ranks and nodes -----------------------------------------------------------------------------------------

    @ComputedOnce
    def comm(self) -> mpi.Communicator:
        """The mpi4py communicator of this team (without MPI, a replacement with the same methods). Local."""
        comm = self.__dict__["comm"] = self._connect()  # known before the hooks, which communicate
        self._connected(self)
        return comm

    @functools.cached_property
    def on_node(self) -> OnNode | None:  # type: ignore[override]
        """The memory that all ranks share, which the team has once it has its communicator. Local."""
        assert self.comm is not None
        on_node: OnNode | None = self.__dict__.get("on_node")
        return on_node

    @functools.cached_property
    def rank(self) -> int:  # type: ignore[override]
        """The number of this process in the team, from 0. Local."""
        return int(self.comm.rank)

    @functools.cached_property
    def size(self) -> int:  # type: ignore[override]
        """The number of ranks of the team. Local."""
        return int(self.comm.size)

    @functools.cached_property
    def world_ranks(self) -> tuple[int, ...]:  # type: ignore[override]
        """The rank in ``gondwana.world`` of every rank of this team. Local."""
        return mpi.world_ranks(self.comm)

    @ComputedOnce
    def _world_ranks(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array(self.world_ranks, np.int64)

    @property
    def world_ranks_at(self) -> int:
        """The address of `world_ranks` as 64-bit integers, for compiled code. Local."""
        return self._world_ranks.ctypes.data

    def rank_of_world(self, world_rank: int) -> int | None:
        """Return the rank here of a rank of ``gondwana.world``, None if it is not in this team. Local.

        Example:
            >>> import gondwana as gw
            >>> gw.world.rank_of_world(gw.world.rank) == gw.world.rank
            True
        """
        return self._places.get(world_rank)

    @functools.cached_property
    def _places(self) -> dict[int, int]:
        return {world_rank: rank for rank, world_rank in enumerate(self.world_ranks)}

    @ComputedOnce
    def key(self) -> int:
        """A number that identifies this team among all teams. Collective over team at first use, then local."""
        proposal = next(_keys) | self.world_ranks[self.rank] << 32
        return int(self.bcast(proposal))

    @ComputedOnce
    def node(self) -> Team:
        """The team of the ranks that share memory with this one. Collective over team at first use, then local.

        With GONDWANA_RANKS_PER_NODE=k, every k consecutive ranks count as a node, so that one machine can test
        communication between nodes.
        """
        index = self.rank // (simulated_ranks_per_node() or self.size)
        return self._required(self._divide((index, *self._memory()), None, f"node of {self.name}", "node"))

    @ComputedOnce
    def _lowest_ranks(self) -> list[int]:
        """For every rank, the lowest rank of its node. Collective over team at first use, then local."""
        return self.allgather(self.node.bcast(self.rank))

    @property
    def node_count(self) -> int:
        """The number of nodes that the team spans. Collective over team at first use, then local."""
        return len(set(self._lowest_ranks))

    @property
    def node_index(self) -> int:
        """The index of this rank's node among the nodes of the team. Collective over team at first use, then local."""
        return sorted(set(self._lowest_ranks)).index(self._lowest_ranks[self.rank])

    def node_of(self, rank: int) -> int:
        """Return the index of the node where ``rank`` is. Collective over team at first use, then local."""
        return sorted(set(self._lowest_ranks)).index(self._lowest_ranks[rank])

    @ComputedOnce
    def leaders(self) -> Team | None:
        """The team of the first rank of every node; None on the others. Collective over team at first use."""
        return self._divide(0 if self.node.rank == 0 else None, None, f"node leaders of {self.name}", "leaders")

    @ComputedOnce
    def private(self) -> Team:
        """The same ranks for the library's own messages, which no receive of a program takes, from any rank or not.

        Collective over team at first use, then local.
        """
        return self._required(self._divide(0, None, self.name, _PRIVATE))

    # -- creating and freeing ------------------------------------------------------------------------------------

    def split(
        self, color: Any, key: int | None = None, *, name: str | None = None, shared: bool = False
    ) -> Team | None:
        """Divide the team: ranks that give equal colors form a new team. Collective over team. Blocking.

        Each call makes teams of their own: their messages and collectives are never taken for those of another team,
        even of the same ranks. A program that splits often frees its teams, since communicators are scarce (about
        2 000 in some MPIs), or shares them.

        Args:
            color: anything that can be compared and pickled; None to be in no new team.
            key: ranks of the new team are ordered by key, then by rank here. None: by rank here.
            name: name of the new team, in messages.
            shared: return the team of an earlier call with `shared` of the same ranks in the same order, if it has not
                been freed. All who got it share its messages and collectives. The same on all ranks.

        Returns:
            The new team of this rank, or None if its color is None.

        Example:
            >>> import gondwana as gw
            >>> evens = gw.world.split(0 if gw.world.rank % 2 == 0 else None)
            >>> (evens is None) == (gw.world.rank % 2 == 1)
            True
        """
        return self._divide(color, key, name, _SHARED if shared else f"split {next(_keys)}")

    def _divide(self, color: Any, key: int | None, name: str | None, purpose: str) -> Team | None:
        """Split for a purpose, so that a user who frees a team does not free the library's team of the same ranks."""
        given = self.allgather((color, self.rank if key is None else key, purpose == _SHARED))
        if len({shared for _, _, shared in given}) > 1:
            raise UsageError("split: some ranks gave shared=True and some did not: give the same on all ranks")
        places = sorted((k, rank) for rank, (other, k, _) in enumerate(given) if other == color and color is not None)
        members = tuple(rank for _, rank in places)
        kept = purpose, members
        # A cached team is known to all of its members or to none: they make and free it together.
        is_known = kept in self._subteams or color is None
        if purpose == _SHARED and all(self.allgather(is_known)):
            return self._subteams.get(kept)
        comm = mpi.divided(self.comm, () if is_known else members)
        if not is_known:
            team = Team.from_comm(comm, name or f"{len(members)} of {self.name}")
            team._owned = True
            team._forget = functools.partial(self._subteams.pop, kept, None)
            self._subteams[kept] = team
            if purpose == _PRIVATE:
                start.divided(team, start.OF_MESSAGES)
            elif purpose not in _OWN:
                start.divided(team)
        return self._subteams.get(kept)

    def free(self) -> None:
        """Free the communicators of this team and of all teams split from it. Collective over team.

        Freeing is collective, so it is never done implicitly: a program that creates many different teams frees them,
        or uses them as context managers. ``gondwana.world`` and communicators that the user created stay open; only
        the teams split from them are freed.
        """
        for team in list(self._subteams.values()):
            team.free()
        for name in ("node", "_lowest_ranks", "leaders", "private"):
            self.__dict__.pop(name, None)
        if self._owned:
            self.comm.Free()
            self._owned = False
            self.on_node = self.between_nodes = self.direct = None
            reason = f"the team {self.name!r} was freed: call free() after the last use, or split again"
            self.comm = _NoComm("freed", reason)
        if self._forget is not None:
            self._forget()

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *exception: object) -> None:
        if exception[0] is None:
            self.free()

    # -- failing together ----------------------------------------------------------------------------------------

    def agree(self, error: BaseException | None) -> None:
        """Raise on all ranks if any rank has an error. Collective over team. Blocking.

        Call it where one rank may have failed alone, before the next collective, so that no rank waits forever.

        Args:
            error: this rank's error, or None.

        Raises:
            BaseException: this rank's own error.
            UsageError: another rank has a UsageError and this one has none.
            RemoteError: another rank has any other error and this one has none; the message names the lowest one.

        Example:
            >>> import gondwana as gw
            >>> try:
            ...     error = None if gw.world.size else ValueError("no ranks")
            ... except OSError as problem:
            ...     error = problem
            >>> gw.world.agree(error)
        """
        self.expect_same("", error)

    def expect_same(self, what: str, error: BaseException | None = None, /, **given: object) -> None:
        """Raise on all ranks unless all give the same values. Collective over team. Blocking.

        Args:
            what: noun in the plural for the object that is made of the values, for the message.
            error: this rank's error; if any rank has one, `agree` decides what is raised, and values are not compared.
            **given: values by name, of types whose `repr` is complete.

        Raises:
            UsageError: two ranks differ; the message has the first name and the lowest rank. Or as `agree`.
        """
        report: Any = tuple(map(repr, given.values())) if given else ()
        if error is not None:
            report = [isinstance(error, UsageError), type(error).__name__, str(error)]
        reports = self.allgather(report)
        if error is not None:
            raise error
        for rank, other in enumerate(reports):
            if isinstance(other, list):
                is_usage, kind, message = other
                if is_usage:
                    raise UsageError(message)
                raise RemoteError(f"rank {rank} of {self.name} failed: {kind}: {message}")
        for name, values in zip(given, zip(*reports, strict=True), strict=True) if given else ():
            rank = next((rank for rank, value in enumerate(values) if value != values[0]), 0)
            if rank:
                raise UsageError(
                    f"the ranks of {self.name} make different {what}: {name} is {values[0]} on rank 0 and "
                    f"{values[rank]} on rank {rank}; give the same arguments on every rank"
                )

    # -- internals -----------------------------------------------------------------------------------------------

    def _memory(self) -> tuple[Any, ...]:
        """Return a value that exactly the ranks which share memory with this one have in common."""
        if mpi.is_serial(self.comm):
            return (0, "")
        shared = mpi.shared_memory_comm(self.comm)
        first = shared.bcast(self.rank, 0)
        shared.Free()
        return (first, socket.gethostname())

    @staticmethod
    def _required(team: Team | None) -> Team:
        if team is None:
            raise AssertionError("every rank gave a color")
        return team

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Team):
            return NotImplemented
        return self is other or bool(self.comm == other.comm)

    def __hash__(self) -> int:
        return id(self.comm) if mpi.is_serial(self.comm) else hash(self.comm.handle)

    def __repr__(self) -> str:
        if "comm" not in self.__dict__:
            return f"<Team {self.name!r}, not connected yet>"
        if isinstance(self.comm, _NoComm):
            return f"<Team {self.name!r}, {self.comm.what}>"
        return f"<Team {self.name!r}: rank {self.rank} of {self.size}>"

    def _repr_html_(self) -> str:
        if "comm" not in self.__dict__ or isinstance(self.comm, _NoComm):
            return notebook.shown("Team", {"name": self.name, "state": repr(self)})
        facts: dict[str, object] = {"name": self.name, "rank": f"{self.rank} of {self.size}"}
        homes = self.__dict__.get("_lowest_ranks")  # to find out is collective
        if homes is not None:
            facts["nodes"] = len(set(homes))
        if self.world_ranks != tuple(range(self.size)):
            facts["ranks in the world"] = name_ranks(self.world_ranks)
        return notebook.shown("Team", facts, _drawn(homes or [0] * self.size, self.rank))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a team ({self.name!r}) cannot be pickled or copied: it has a meaning only inside its process. "
            "Send ranks or colors, and call split there"
        )

    def _leave(self) -> None:
        """Refuse from now on that a forked copy of a rank communicates in the name of the rank. Local."""
        comm = self.__dict__.get("comm")
        if comm is None or isinstance(comm, _NoComm) or mpi.is_serial(comm):
            return
        assert self.rank < self.size  # both are known from now on
        self.on_node = self.between_nodes = self.direct = None
        self.comm = _NoComm(
            "of the rank that has forked this process",
            f"a process that rank {self.rank} has made by os.fork, as multiprocessing does, uses the team "
            f"{self.name!r}, but it is no rank: communicate in the rank itself",
        )


@contextmanager
def failing_together(team: Team, what: str = "", same: Mapping[str, object] = MappingProxyType({})) -> Iterator[None]:
    """Run a block that may fail on one rank alone; then raise on all. Collective over team, at the end of the block.

    Args:
        team: the ranks.
        what: as for `Team.expect_same`.
        same: values that all ranks must give, by name; the block may add some.

    Raises:
        Exception: as `Team.agree` and `Team.expect_same`.
    """
    error: Exception | None = None
    try:
        yield
    except Exception as problem:
        error = problem
    team.expect_same(what, error, **same)


class _NoComm:
    """Replaces the communicator of a team that has none: every use of the team raises.

    Args:
        what: present state of the team, such as "freed", for the message.
        reason: why every use raises.
    """

    def __init__(self, what: str, reason: str) -> None:
        self.what, self._reason = what, reason

    def __getattr__(self, attribute: str) -> NoReturn:
        raise UsageError(self._reason)


def _leave_all() -> None:
    for team in list(_teams.values()):
        team._leave()


os.register_at_fork(after_in_child=_leave_all)


def _drawn(homes: Sequence[int], own: int) -> str:
    """The ranks of a team as boxes, a row for each node; "" if they are too many. Local.

    Args:
        homes: for each rank something that the ranks of its node have in common.
        own: this rank.
    """
    if len(homes) > _MOST_DRAWN:
        return ""
    nodes = {home: [rank for rank in range(len(homes)) if homes[rank] == home] for home in sorted(set(homes))}
    boxes = [
        notebook.cell(_BOX * column + 1, _BOX * row + 1, _BOX - 4, _BOX - 4, str(rank), own=rank == own)
        for row, ranks in enumerate(nodes.values())
        for column, rank in enumerate(ranks)
    ]
    longest = max(map(len, nodes.values()))
    return notebook.svg(_BOX * longest, _BOX * len(nodes), "".join(boxes), "ranks, a row for each node")
