"""Filling ghosts in host memory: by stores into the neighbours' ghosts, and by messages between nodes.

A rank writes its cells straight into the ghosts of its neighbours on the node. For each pair and direction there are
two counters of rounds, one writer each, on their own cache lines: `entered` ("my ghosts may be overwritten and my cells
are final in round n") and `ready` ("your ghosts of round n are there"). There is no other synchronisation on a node. To
ranks of other nodes one message each goes by persistent MPI requests, packed and unpacked by compiled code.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.arrays.array import Array
from gondwana.arrays.base import DomainArray
from gondwana.arrays.ghost_cells import GhostCells, Move
from gondwana.arrays.ghost_exchange import Exchange, free_requests
from gondwana.compiler.native import Native
from gondwana.memory.segment import Segment
from gondwana.teams import PersistentRequest
from gondwana.transfer.box_copy import BoxCopy
from gondwana.transfer.copy_table import CopyTable, copy_of_memory, copy_table, execute

_MODULE = "gondwana.arrays.host_exchange_native"
_start = Native(_MODULE, "start", 1)
_finish = Native(_MODULE, "finish", 2)

_LINE = 128
_ENTER, _READY = 0, _LINE
_SPINS = 10_000
"""Looks before a waiting rank returns to Python, where signals are seen and others are served."""
_FEW_SPINS = 20
"""Looks where there is more to look at."""
_TAG = 30_000


@dataclass
class _Message:
    """The cells for and from one rank of another node, and how they are packed."""

    send: npt.NDArray[np.uint8]
    receive: npt.NDArray[np.uint8]
    pack: CopyTable
    unpack: CopyTable
    requests: tuple[PersistentRequest, PersistentRequest]


class HostExchange(Exchange):
    """The exchange of arrays in host memory. Collective over their team to make."""

    def __init__(self, cells: GhostCells) -> None:
        super().__init__(cells)
        team, neighbours = cells.team, cells.neighbours
        node = set(team.node.allgather(team.rank))
        near = [rank for rank in neighbours if rank in node]
        self._flags = Segment(team, 2 * _LINE * len(near), window=False)
        # A peer finds its flags in our segment by its place among our neighbours, which only we know: tell it.
        places = dict(team.node.allgather((team.rank, {rank: i for i, rank in enumerate(near)})))
        self._build_links(cells, {rank: places[rank][team.rank] for rank in near})
        self._messages = [_message(cells, rank) for rank in neighbours if rank not in node]
        # From here on the memory is needed, not the arrays: they may go, and this with them, without a cycle.
        self._memory = [array.block(rank) for array in cells.arrays for rank in (team.rank, *near)]
        self._requests = [request for message in self._messages for request in message.requests]
        weakref.finalize(self, free_requests, self._requests).atexit = False

    def _begin(self) -> None:
        for message in self._messages:
            message.requests[1].start()
            execute(message.pack)
            message.requests[0].start()
        _start.call(self._plan_address)

    def _soon(self) -> bool:
        return not self._messages and _finish.call(self._plan_address, _SPINS) == 1

    def _advance(self) -> bool:
        arrived = [request.test() for request in self._requests]
        return _finish.call(self._plan_address, _FEW_SPINS) == 1 and all(arrived)

    def _end(self) -> None:
        for message in self._messages:
            execute(message.unpack)

    def _build_links(self, cells: GhostCells, places: dict[int, int]) -> None:
        """Lay out the plan that compiled code reads: see the constants of `native_exchange`."""
        me = cells.team.rank
        tables = [copy_table(_direct_copies(cells, me))]
        links = []
        mine = self._flags.view(me)
        for index, (rank, place) in enumerate(places.items()):
            theirs = self._flags.view(rank)[2 * _LINE * place :]
            ours = mine[2 * _LINE * index :]
            first = sum(map(len, tables))
            tables.append(copy_table(_direct_copies(cells, rank)))
            flags = [theirs[_ENTER:], ours[_ENTER:], theirs[_READY:], ours[_READY:]]
            links.append([*(flag.ctypes.data for flag in flags), first, first + len(tables[-1]), 0])
        self._rows = np.concatenate(tables)
        self._links = np.array(links, np.int64)
        self._plan = np.array(
            [0, len(links), self._links.ctypes.data, self._rows.ctypes.data, len(tables[0])], np.int64
        )
        self._plan_address = self._plan.ctypes.data


def _direct_copies(cells: GhostCells, rank: int) -> list[BoxCopy]:
    """The copies into the ghosts of a rank of this node."""
    return [copy_of_memory(_memory(move.source), _memory(move.target)) for move in cells.to(rank)]


def _message(cells: GhostCells, rank: int) -> _Message:
    """The messages for and from a rank of another node."""
    out, into = cells.to(rank), cells.between(rank, cells.team.rank)
    send, sent = _buffer(out)
    receive, received = _buffer(into)
    pack = [copy_of_memory(_memory(move.source), part) for move, part in zip(out, sent, strict=True)]
    unpack = [copy_of_memory(part, _memory(move.target)) for move, part in zip(into, received, strict=True)]
    requests = cells.team.Send_init(send, rank, _TAG), cells.team.Recv_init(receive, rank, _TAG)
    return _Message(send, receive, copy_table(pack), copy_table(unpack), requests)


def _buffer(moves: list[Move]) -> tuple[npt.NDArray[np.uint8], list[np.ndarray[Any, Any]]]:
    """A message buffer and the elements of each move in it, in the memory order of the global arrays."""
    starts = np.cumsum([0, *(-(-move.source.nbytes // 16) * 16 for move in moves)])
    buffer = np.empty(int(starts[-1]), np.uint8)
    parts = []
    for move, start in zip(moves, starts[:-1], strict=True):
        data = buffer[start : start + move.source.nbytes].view(move.source.dtype)
        parts.append(data.reshape(move.source.shape, order=move.order))
    return buffer, parts


def _memory(array: DomainArray) -> np.ndarray[Any, Any]:
    """The elements of an array in the memory of this node."""
    assert isinstance(array, Array)
    return array.numpy()
