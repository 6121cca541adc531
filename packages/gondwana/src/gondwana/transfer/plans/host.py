"""Plans in host memory: by stores into the destinations on the node, and by messages between nodes.

A rank writes its sources straight into the destinations of other ranks of the node. For each pair of ranks and
direction there are two counters of rounds, one writer each, on their own cache lines: `entered` ("my destinations may
be overwritten in round n") and `ready` ("your destinations of round n are written"). There is no other synchronisation
on a node; the first counter is not used where the caller promises that destinations may be overwritten. To ranks of
other nodes one message each goes by persistent MPI requests, packed and unpacked by compiled code.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.compiler.mpi import table
from gondwana.compiler.native import Native
from gondwana.compiler.types.arguments import Described, describe_handle
from gondwana.memory.segment import Segment
from gondwana.teams import PersistentRequest
from gondwana.transfer.box_copy import Copy
from gondwana.transfer.host_copies import CopyTable, copy_table, execute
from gondwana.transfer.plans.pairs import Copies, Pair
from gondwana.transfer.plans.plan import Plan, free_requests, message_tag

_MODULE = "gondwana.transfer.plans.host_native"
_advance = Native(_MODULE, "advance", 2)

_LINE = 128
_ENTER, _READY = 0, _LINE
_LENT = 8
"""Word of a plan that is not 0 while compiled code has a round under way."""
_SPINS = 10_000
"""Polls before a waiting rank returns to Python, where signals are seen and others are served."""
_FEW_SPINS = 20
"""Polls where there is more to poll."""
_ALIGN = 16
"""Bytes on which the elements of a pair start in a message."""


@dataclass
class _Message:
    """The elements for or from one rank of another node, and how they are packed or unpacked.

    Attributes:
        buffer: of the message.
        copies: to it or from it; the table needs their offsets.
        table: the same, to execute.
        request: that sends or receives the message.
    """

    buffer: npt.NDArray[np.uint8]
    copies: list[Copy]
    table: CopyTable
    request: PersistentRequest


class HostPlan(Plan):
    """A plan in host memory. Collective over its team to make."""

    def __init__(self, copies: Copies) -> None:
        super().__init__(copies)
        team, neighbours = copies.team, copies.neighbours
        node = set(team.node.allgather(team.rank))
        near = [rank for rank in neighbours if rank in node]
        self._flags = Segment(team, 2 * _LINE * len(near), window=False)
        # A peer finds its flags in our segment by its place among our neighbours, which only this rank knows.
        places = dict(team.node.allgather((team.rank, {rank: i for i, rank in enumerate(near)})))
        self._build_links(copies, {rank: places[rank][team.rank] for rank in near})
        far, tag = [rank for rank in neighbours if rank not in node], message_tag(self._flags)
        self._sent = [_outgoing(copies, rank, tag) for rank in far if copies.to(rank)]
        self._received = [_incoming(copies, rank, tag) for rank in far if copies.of(rank)]
        self._requests = [message.request for message in (*self._sent, *self._received)]
        weakref.finalize(self, free_requests, self._requests)
        self._record(self._flags.key, near)
        if self._rounds is not None:
            self._plan[5:_LENT] = self._rounds.address, self._rounds.started, self._rounds.waited
        team.node.barrier()  # nobody drops its counters before all have mapped them

    def _goes_on(self) -> bool:
        return bool(self._plan[_LENT])

    def _begin(self) -> None:
        for message in self._received:
            message.request.start()
        for message in self._sent:
            execute(message.table)
            message.request.start()
        _advance.call(self._plan_address, 0)

    def _soon(self) -> bool:
        return not self._requests and _advance.call(self._plan_address, _SPINS) == 1

    def _advance(self) -> bool:
        arrived = [request.test() for request in self._requests]
        return _advance.call(self._plan_address, _FEW_SPINS) == 1 and all(arrived)

    def _end(self) -> None:
        for message in self._received:
            execute(message.table)

    def _build_links(self, copies: Copies, places: dict[int, int]) -> None:
        """Lay out the plan that compiled code reads: see the constants of `host_native`."""
        team = copies.team
        # Counters of a direction without copies: one that is always far enough, and one that nobody reads.
        self._no_counters = np.array([np.iinfo(np.int64).max, 0], np.int64)
        always, unread = self._no_counters[:1], self._no_counters[1:]
        self._direct = [[pair.direct() for pair in copies.own]]
        tables, links = [copy_table(self._direct[0])], []
        mine = self._flags.view(team.rank)
        for index, (rank, place) in enumerate(places.items()):
            theirs: npt.NDArray[Any] = self._flags.view(rank)[2 * _LINE * place :]
            ours: npt.NDArray[Any] = mine[2 * _LINE * index :]
            enter_in, ready_out = (ours[_ENTER:], theirs[_READY:]) if copies.to(rank) else (always, unread)
            enter_out, ready_in = (theirs[_ENTER:], ours[_READY:]) if copies.of(rank) else (unread, always)
            if copies.ready:
                enter_out, enter_in = unread, always
            self._direct.append([pair.direct() for pair in copies.to(rank)])
            first = sum(map(len, tables))
            tables.append(copy_table(self._direct[-1]))
            flags = [flag.ctypes.data for flag in (enter_out, enter_in, ready_out, ready_in)]
            links.append([*flags, first, first + len(tables[-1]), 0])
        self._rows = np.concatenate(tables)
        self._links = np.array(links, np.int64)
        words = [0, len(links), self._links.ctypes.data, self._rows.ctypes.data, len(tables[0]), 0, 0, 0, 0]
        self._plan = np.array(words, np.int64)
        self._plan_address = self._plan.ctypes.data

    def __gondwana_argument__(self) -> Described:  # type: ignore[override]
        """The addresses of the plan and of the function that carries it out, for compiled code."""
        if self._requests:
            return super().__gondwana_argument__()
        table.link_delivery()
        return describe_handle("plan", (), (self._plan_address, _advance.address))


def _outgoing(copies: Copies, rank: int, tag: int) -> _Message:
    """The message to a rank of another node."""
    pairs = copies.to(rank)
    buffer, starts = _buffer(pairs)
    packing = [pair.packing(start) for pair, start in zip(pairs, starts, strict=True)]
    return _Message(buffer, packing, copy_table(packing), copies.team.Send_init(buffer, rank, tag))


def _incoming(copies: Copies, rank: int, tag: int) -> _Message:
    """The message from a rank of another node."""
    pairs = copies.of(rank)
    buffer, starts = _buffer(pairs)
    unpacking = [pair.unpacking(start) for pair, start in zip(pairs, starts, strict=True)]
    return _Message(buffer, unpacking, copy_table(unpacking), copies.team.Recv_init(buffer, rank, tag))


def _buffer(pairs: Sequence[Pair]) -> tuple[npt.NDArray[np.uint8], list[int]]:
    """A message buffer and the address of each pair's elements in it."""
    starts = message_starts([pair.nbytes for pair in pairs], _ALIGN)
    buffer = np.empty(starts[-1], np.uint8)
    return buffer, [buffer.ctypes.data + start for start in starts[:-1]]


def message_starts(sizes: Sequence[int], align: int) -> list[int]:
    """Return where parts of so many bytes start in a message, and its end. Local."""
    return [0, *np.cumsum([-(-size // align) * align for size in sizes], dtype=np.int64).tolist()]
