"""Filling ghosts: what one call of `exchange` moves, by which path, and the handshakes that make it safe.

A rank writes its cells straight into the ghosts of its neighbours on the node. For each pair and direction there are
two counters of rounds, one writer each, on their own cache lines: `entered` ("my ghosts may be overwritten and my cells
are final in round n") and `ready` ("your ghosts of round n are there"). There is no other synchronisation on a node. To
ranks of other nodes one message each goes by persistent MPI requests, packed and unpacked by compiled code.
"""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gondwana.arrays.array import Array
from gondwana.arrays.global_array import GlobalArray
from gondwana.arrays.layout import Piece
from gondwana.errors import UsageError
from gondwana.jit.native import Native
from gondwana.memory.copy.rows import Row, alike_together, copy_row, execute, program
from gondwana.memory.segment import Segment
from gondwana.world import PersistentRequest, wait_all

_MODULE = "gondwana.arrays.native_exchange"
_start = Native(_MODULE, "start", 1)
_finish = Native(_MODULE, "finish", 2)

_LINE = 128
_ENTER, _READY = 0, _LINE
_SPINS = 100_000
"""Looks before a waiting rank returns to Python, where signals are seen."""
_FEW_SPINS = 20
"""Looks where there is more to look at."""
_TAG = 30_000


@dataclass
class _Message:
    """The cells for and from one rank of another node, and how they are packed."""

    send: npt.NDArray[np.uint8]
    receive: npt.NDArray[np.uint8]
    pack: npt.NDArray[np.int64]
    unpack: npt.NDArray[np.int64]
    requests: tuple[PersistentRequest, PersistentRequest]


class Exchange:
    """The exchange of the ghosts of some arrays: made once, started by `exchange`, finished by `wait`.

    Attributes:
        moved: bytes that this rank writes into ghosts of other ranks in one round.
    """

    def __init__(self, arrays: tuple[GlobalArray, ...], corners: bool) -> None:
        self._arrays = arrays
        self._team = arrays[0].team
        self._corners = corners
        self._pending = False
        node = set(self._team.node.allgather(self._team.rank))
        neighbours = sorted(self._neighbours() - {self._team.rank})
        near = [rank for rank in neighbours if rank in node]
        self._flags = Segment(self._team, 2 * _LINE * len(near), window=False)
        # A peer finds its flags in our segment by its place among our neighbours, which only we know: tell it.
        self._places = self._team.node.allgather((self._team.rank, {rank: i for i, rank in enumerate(near)}))
        self._build_links(near)
        self._messages = [self._message(rank) for rank in neighbours if rank not in node]
        self.moved = self._bytes(neighbours)
        # From here on the memory is needed, not the arrays: they may go, and this with them, without a cycle.
        self._memory = [_near_block(array, rank) for array in arrays for rank in (self._team.rank, *near)]
        del self._arrays
        requests = [request for message in self._messages for request in message.requests]
        weakref.finalize(self, _give_back, requests).atexit = False

    def start(self) -> Exchange:
        """Begin a round. Collective over team; does not wait for other ranks."""
        if self._pending:
            raise RuntimeError(
                "this exchange is still under way: call wait() on what exchange() returned before the next exchange"
            )
        self._pending = True
        _under_way.append(self)
        for message in self._messages:
            message.requests[1].start()
            execute(message.pack)
            message.requests[0].start()
        _start.call(self._plan_address)
        return self

    def wait(self) -> None:
        """Return when the ghosts are filled and this rank's cells may be changed again. Blocks; drives progress."""
        if not self._pending:
            return
        if len(_under_way) > 1:  # a neighbour may wait for the others first
            while not self.test():
                os.sched_yield()
            return
        while not _finish.call(self._plan_address, _SPINS):
            pass
        wait_all([request for message in self._messages for request in message.requests])
        self._unpack()

    def test(self) -> bool:
        """Return whether `wait` would return at once. Local; drives progress."""
        if not self._pending:
            return True
        for other in _under_way:
            if other is not self:
                other._advance()
        if self._advance():
            self._unpack()
        return not self._pending

    def _advance(self) -> bool:
        """Do what can be done now, and return whether all of this rank's part is done but the unpacking."""
        requests = [request for message in self._messages for request in message.requests]
        arrived = [request.test() for request in requests]
        return _finish.call(self._plan_address, _FEW_SPINS) == 1 and all(arrived)

    def _unpack(self) -> None:
        for message in self._messages:
            execute(message.unpack)
        self._pending = False
        _under_way.remove(self)

    def _pieces(self, rank: int) -> list[tuple[int, Piece]]:
        """The ghost cells of a rank: number of the array and piece, in an order that all ranks agree on."""
        return [
            (number, piece)
            for number, array in enumerate(self._arrays)
            for piece in array.layout.pieces(rank, corners=self._corners)
        ]

    def _neighbours(self) -> set[int]:
        """Ranks that own ghosts of this one; ghosts being as wide everywhere, this one owns ghosts of theirs."""
        return {piece.owner for _, piece in self._pieces(self._team.rank)}

    def _to(self, rank: int) -> list[tuple[int, Piece]]:
        """The ghosts of `rank` that this rank owns."""
        return [(number, piece) for number, piece in self._pieces(rank) if piece.owner == self._team.rank]

    def _bytes(self, neighbours: list[int]) -> int:
        return sum(
            piece.target.size * self._arrays[number].dtype.itemsize
            for rank in neighbours
            for number, piece in self._to(rank)
        )

    def _source(self, number: int, piece: Piece) -> Array:
        """This rank's cells for a piece, in the coordinates of the rank that gets them."""
        return self._arrays[number].local.restrict(piece.target + piece.shift).translate(-piece.shift)

    def _direct_rows(self, rank: int) -> list[Row]:
        return alike_together(
            [
                copy_row(
                    self._source(number, piece).numpy(),
                    _near_block(self._arrays[number], rank).restrict(piece.target).numpy(),
                )
                for number, piece in self._to(rank)
            ]
        )

    def _build_links(self, near: list[int]) -> None:
        """Lay out the plan that compiled code reads: see the constants of `native_copy`."""
        rows = self._direct_rows(self._team.rank)
        own = len(rows)
        links = []
        places = dict(self._places)
        mine = self._flags.view(self._team.rank)
        for index, rank in enumerate(near):
            theirs = self._flags.view(rank)[2 * _LINE * places[rank][self._team.rank] :]
            ours = mine[2 * _LINE * index :]
            first = len(rows)
            rows += self._direct_rows(rank)
            flags = [theirs[_ENTER:], ours[_ENTER:], theirs[_READY:], ours[_READY:]]
            links.append([*(flag.ctypes.data for flag in flags), first, len(rows), 0])
        self._rows = program(rows)
        self._links = np.array(links, np.int64)
        self._plan = np.array([0, len(links), self._links.ctypes.data, self._rows.ctypes.data, own], np.int64)
        self._plan_address = self._plan.ctypes.data

    def _message(self, rank: int) -> _Message:
        out = self._to(rank)
        into = [(number, piece) for number, piece in self._pieces(self._team.rank) if piece.owner == rank]
        send, sent = self._buffer(out)
        receive, received = self._buffer(into)
        pack = [copy_row(self._source(*entry).numpy(), part.numpy()) for entry, part in zip(out, sent, strict=True)]
        unpack = [
            copy_row(part.numpy(), self._arrays[number].local.restrict(piece.target).numpy())
            for (number, piece), part in zip(into, received, strict=True)
        ]
        requests = self._team.Send_init(send, rank, _TAG), self._team.Recv_init(receive, rank, _TAG)
        return _Message(send, receive, program(alike_together(pack)), program(alike_together(unpack)), requests)

    def _buffer(self, pieces: list[tuple[int, Piece]]) -> tuple[npt.NDArray[np.uint8], list[Array]]:
        """A message buffer and the array of each piece in it, in the memory order of the global arrays."""
        sizes = [piece.target.size * self._arrays[number].dtype.itemsize for number, piece in pieces]
        starts = np.cumsum([0, *(-(-size // 16) * 16 for size in sizes)])
        buffer = np.empty(int(starts[-1]), np.uint8)
        parts = []
        for (number, piece), size, start in zip(pieces, sizes, starts[:-1], strict=True):
            array = self._arrays[number]
            data = buffer[start : start + size].view(array.dtype)
            parts.append(Array(data.reshape(piece.target.shape, order=array.order), piece.target))
        return buffer, parts


def _near_block(array: GlobalArray, rank: int) -> Array:
    """The block of a rank of this node."""
    block = array.block(rank)
    assert isinstance(block, Array)
    return block


_under_way: list[Exchange] = []
"""What this rank has started and not finished: all of it goes on while this rank waits for any."""


def _give_back(requests: list[PersistentRequest]) -> None:
    """Free requests, but not those that MPI still works on."""
    for request in requests:
        if request.test():
            request.free()


def _forget(first: weakref.ref[GlobalArray], key: tuple[int | bool, ...]) -> None:
    """Drop the plan of a call when one of its arrays is gone."""
    array = first()
    if array is not None:
        array.exchanges.pop(key, None)


def exchange(*arrays: GlobalArray, corners: bool = False) -> Exchange:
    """Start to fill the ghosts of arrays from the cells of the neighbours. Collective over their team; does not wait.

    The first call for these arrays makes a plan (blocking); later calls cost microseconds. Between the call and
    `wait()` of what it returns, this rank may read and write everything but the ghosts and may not change its own
    cells; `.inner` is what can be computed meanwhile. After `wait()` the ghosts are there and the cells may change.
    Neighbours may need this rank's `wait()` to finish theirs: call it before anything else that waits for them.

    Several arrays in one call share handshakes and messages. Ghosts outside of a domain that is not periodic keep what
    they have.

    Args:
        *arrays: global arrays of one team, of any shapes, dtypes and ghost widths.
        corners: fill also the ghosts that lie outside along several axes, from all diagonal neighbours at once;
            stencils with neighbours along the axes only do not need them.

    Returns:
        What is under way: `wait()` for it before the next exchange of the same arrays.

    Raises:
        UsageError: no arrays, an array twice, different teams.
        RuntimeError: the last exchange of these arrays was not waited for.

    Example:
        >>> import gondwana as gw
        >>> T = gw.zeros(gw.RectDomain(0, 8), ghost=1, periodic=True)
        >>> T.fill(float(gw.world.rank))
        >>> gw.exchange(T).wait()
    """
    for array in arrays:
        if not isinstance(array, GlobalArray):
            raise UsageError(f"exchange takes global arrays (gw.zeros, ...), not {array!r}")
    if not arrays or len({id(array) for array in arrays}) < len(arrays):
        raise UsageError(f"exchange got {len(arrays)} arrays: give at least one, each once")
    if any(array.team != arrays[0].team for array in arrays):
        raise UsageError("exchange takes arrays of one team: make several calls for several teams")
    key = (corners, *map(id, arrays))
    plan = arrays[0].exchanges.get(key)
    if plan is None:
        plan = arrays[0].exchanges[key] = Exchange(arrays, corners)
        for array in arrays[1:]:
            weakref.finalize(array, _forget, weakref.ref(arrays[0]), key).atexit = False
    return plan.start()
