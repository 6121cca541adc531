"""Collectives of few bytes through memory that all ranks of a team share: no message, and no call of MPI.

All ranks of a team have this memory, or none: it is made where they come together anyway, when the world connects and
when a team is split. A team that spans nodes, or that was made from a communicator of the user's, has MPI's only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.compiler.native import BYTES_AT, DATA_AT, Native, abi_is_known, pays_off
from gondwana.errors import UsageError
from gondwana.runtime import cores, progress
from gondwana.runtime.shared_file import ForeignFileError, SharedFile
from gondwana.runtime.watching import waits, watchdog
from gondwana.teams import MAX, MIN, PROD, SUM, Op, Team, mpi
from gondwana.teams.ops import UFUNCS, fold, is_folded

LIMIT = 8192
"""The largest contribution of a rank to a collective [bytes]. Longer arrays are combined piece by piece."""

HEAD, WORD = 64, 8
OBJECT = LIMIT - WORD
"""The most bytes of an object that go through memory."""
LENGTH = struct.Struct("q")
SLOT = -(-(WORD + LIMIT) // HEAD) * HEAD
"""Bytes of the head, of the first word of a slot, and of a slot."""

BARRIER, BCAST, ALLREDUCE = 0, 1, 2
KIND, NUMBER = 14, 21
"""Where in the word of a slot the kind of the collective and its number begin; below them are its bytes."""
NBYTES = (1 << KIND) - 1

ELEMENTS = "bhilBHILfdgFDG"
"""What allreduces of different elements are told apart by: the characters of their dtypes."""
ALLGATHER = ALLREDUCE + len(UFUNCS) * len(ELEMENTS)
BCAST_OBJECT = ALLGATHER + 1
"""From `ALLGATHER` on, ranks contribute objects: a word with the length of one, and its bytes."""

NUMPY = 0
"""How contributions are combined where machine code does not: after the meeting, by NumPy."""
IN_MACHINE_CODE = (SUM, PROD, MAX, MIN)
"""Operations that machine code does on the elements of `CODED`: its number of the two is `coded` of their places."""
CODED = ("d", "l", "f")

LATE, MISMATCH, UNFIT = -1, -2, -3
"""What machine code returns if ranks have not come yet, or are in another collective; or of arrays that it leaves."""

ENTERED = 3
"""Which word of the block of a rank is the collective that it has entered and not finished."""

KINDS = 32
"""Numbers of dtypes that the block of a rank has room for."""

_PATIENCE, _FEW = 1000, 4
"""Polls before a waiting rank makes progress, and between later calls of progress."""
_BETWEEN_DRIVES = 5e-6
"""Seconds between two calls of MPI while a rank waits: each takes as long as a round of progress."""

_IN_ORDER = platform.machine() in ("x86_64", "AMD64")
"""Whether the processor keeps the order of stores, as the collectives in Python need, which have no fences."""

_MODULE = "gondwana.transfer.collectives.on_node_native"
_advance = Native(_MODULE, "advance", 6, brief=True)
_meet = Native(_MODULE, "meet", 2, brief=True)
_combine = Native(_MODULE, "combine", 6, brief=True)
_fill = Native(_MODULE, "fill", 4, brief=True)
_bring = Native(_MODULE, "bring", 5, makes_object=True)

_ORDER = list(UFUNCS)
_NAMES = (
    *("a barrier of {} bytes", "a broadcast of {} bytes"),
    *(f"an allreduce by {op.name.lower()!r} of {{}} bytes of {np.dtype(char)}" for op in UFUNCS for char in ELEMENTS),
    *("an allgather of objects", "a broadcast of an object"),
)


def coded(operation: int, element: int) -> int:
    """Return machine code's number of an operation on elements, from their places in the tables above. Local."""
    return 1 + operation * len(CODED) + element


_HOW = {
    (char, op): coded(operation, element)
    for operation, op in enumerate(IN_MACHINE_CODE)
    for element, equal in enumerate(("d", "lq", "f"))
    for char in equal
}


def kind_of(op: Op, dtype: np.dtype[Any]) -> int:
    """Return the kind of an allreduce of elements of a dtype. Local."""
    element = ELEMENTS.index({"q": "l", "Q": "L"}.get(dtype.char, dtype.char))
    return ALLREDUCE + _ORDER.index(op) * len(ELEMENTS) + element


_PLANS = {
    (char, op): (kind_of(op, np.dtype(char)) << KIND, _HOW.get((char, op), NUMPY))
    for op in UFUNCS
    for char in "bhilqBHILQfdgFDG"
    if is_folded(np.dtype(char), op)
}
"""For the dtypes and operations that shared memory has: the kind in the word of a slot, and what combines."""

PLACES = {op: place for place, op in enumerate(IN_MACHINE_CODE)}

_BARRIER, _BCAST = BARRIER << KIND, BCAST << KIND
_ALLGATHER, _BCAST_OBJECT = ALLGATHER << KIND, BCAST_OBJECT << KIND

_world: Team | None = None
_known: weakref.WeakSet[OnNode] = weakref.WeakSet()


def meaning(kind: int, nbytes: int) -> int:
    """Return what the word of a slot says of a collective beside its number: the same on all ranks. Local."""
    return kind << KIND | nbytes


class OnNode:
    """The shared memory of a team, as one of its ranks sees it. Its collectives make user-level progress.

    Args:
        team: Ranks that are all on one node.
        memory: Memory that is the same for all of them, zero at first: a head and two slots for every rank.

    Attributes:
        address: Address of the memory, for compiled code.
        largest: Bytes of the largest array that is broadcast through the memory.
    """

    def __init__(self, team: Team, memory: npt.NDArray[np.uint8]) -> None:
        self._name, self._rank, self._size = team.name, team.rank, team.size
        self._world_ranks = team.world_ranks
        self._all_slots = memory[HEAD:].reshape(team.size, 2, SLOT)
        self.address = int(memory.ctypes.data)
        self._block = np.array([self.address, team.rank, team.size, 0, *item_sizes()], np.int64)
        self._own = int(self._block.ctypes.data)
        self.largest = LIMIT
        self._busy = self._machine_code = self._is_quick = False
        self._advance: Callable[..., int] = self._advance_in_python
        self._meet: Callable[[int, int], int]
        self._words = memory.data.cast("q")
        self._entered = 0
        self._count = 0
        self._slots: dict[tuple[np.dtype[Any], int], list[list[npt.NDArray[Any]]]] = {}
        memory[:WORD].view(np.int64)[0] = patience = 0 if cores.crowded() else _PATIENCE
        self._polls = patience or _FEW
        _known.add(self)

    def barrier(self) -> None:
        """Wait until all ranks have come. Collective over team. Blocking; user-level progress."""
        if not self._machine_code or self._busy or progress.thread.flow.depth:
            self._run(_BARRIER, 0, 0, NUMPY)
            return
        n = self._meet(self._own, self._polls)
        if n < 0:
            self._finish(n, _BARRIER, 0, 0, NUMPY)

    def bcast(self, buffer: npt.NDArray[Any], root: int) -> None:
        """Fill a contiguous buffer, which `fits`, with that of ``root``. Collective over team. Blocking.

        The root returns when the buffer may be changed, perhaps before others have come.
        """
        data = id(buffer) + DATA_AT
        source, target = (data, 0) if self._rank == root else (0, data)
        self._run(_BCAST | buffer.nbytes, source, target, -1 - root)

    def fill(self, buffer: npt.NDArray[Any], root: int) -> bool:
        """Do as `bcast`, without asking the array in Python what it is. Collective over team. Blocking.

        Returns:
            False, and nothing is done, if what fits is for `bcast`; perhaps not the same on all ranks.
        """
        if not self._is_quick or self._busy or progress.thread.flow.depth:
            return False
        n = _fill.call(self._own, id(buffer), root, self._polls)
        if n == UNFIT:
            return False
        if n < 0:
            data = id(buffer) + DATA_AT
            source, target = (data, 0) if self._rank == root else (0, data)
            self._finish(n, _BCAST | buffer.nbytes, source, target, -1 - root)
        return True

    def bring(self, data: bytes, root: int | None) -> tuple[Sequence[bytes], list[int] | None]:
        """Return the bytes of a root or of all ranks, and their lengths if those are not all. Collective. Blocking."""
        what, how, given = (_ALLGATHER, NUMPY, True) if root is None else (_BCAST_OBJECT, -1 - root, root == self._rank)
        found: Any = UNFIT
        if self._is_quick and not self._busy and not progress.thread.flow.depth:
            found = _bring.call(self._own, id(data) + BYTES_AT if given else 0, len(data), how, self._polls)
            if type(found) is tuple:
                return found, None
        if found < 0:
            mine = np.frombuffer(LENGTH.pack(len(data)) + data[:OBJECT], np.uint8)
            source = id(mine) + DATA_AT if given else 0
            found = self._run(what, source, 0, how) if found == UNFIT else self._finish(found, what, source, 0, how)
        ranks = range(self._size) if root is None else (root,)
        lengths = [self._words[(self._slot(rank, found) + WORD) // WORD] for rank in ranks]
        # A slot changes when this rank has entered the next collective.
        objects = self._all_slots[:, found & 1, 2 * WORD : WORD + LIMIT]
        heads = [objects[rank, :nbytes].tobytes() for rank, nbytes in zip(ranks, lengths, strict=True)]
        return heads, lengths if max(lengths) > OBJECT else None

    def fold(self, send: npt.NDArray[Any], recv: npt.NDArray[Any] | None, op: Op) -> None:
        """Combine contiguous buffers of one size and dtype, element by element. Collective over team. Blocking.

        Contributions are combined in the order of the ranks, on each rank that gives a `recv`: all get the same bits.
        """
        if send.nbytes <= LIMIT:
            self._fold_piece(send, recv, op)
            return
        given, total, most = send.reshape(-1), None if recv is None else recv.reshape(-1), LIMIT // send.itemsize
        for first in range(0, given.size, most):
            piece = slice(first, first + most)
            self._fold_piece(given[piece], None if total is None else total[piece], op)

    def _fold_piece(self, send: npt.NDArray[Any], recv: npt.NDArray[Any] | None, op: Op) -> None:
        kind, how = _PLANS[send.dtype.char, op]
        target = 0 if recv is None else id(recv) + DATA_AT
        n = self._run(kind | send.nbytes, id(send) + DATA_AT, target, how if target else NUMPY)
        if recv is not None and (how == NUMPY or not self._machine_code):
            fold(self._contributions(recv.dtype, recv.size)[n & 1], recv.reshape(-1), op)

    def combine(self, send: npt.NDArray[Any], recv: npt.NDArray[Any], op: Op) -> bool:
        """Do as `fold`, without asking the arrays in Python what they are. Collective over team.

        Returns:
            False, and nothing is done, if `fold` or MPI must; perhaps not the same on all ranks.
        """
        place = PLACES.get(op)
        if place is None or not self._is_quick or self._busy or progress.thread.flow.depth:
            return False
        at, nbytes = 0, recv.nbytes
        while (n := _combine.call(self._own, place, id(send), id(recv), at, self._polls)) < 0:
            at, reason = divmod(-n, 4)
            if -reason == UNFIT:
                return False
            kind, how = _PLANS[recv.dtype.char, op]
            piece = slice(at // recv.itemsize, (at + LIMIT) // recv.itemsize)
            given, total = send.reshape(-1)[piece], recv.reshape(-1)[piece]
            self._finish(-reason, kind | total.nbytes, id(given) + DATA_AT, id(total) + DATA_AT, how)
            at += total.nbytes
            if at == nbytes:
                break
        return True

    def _finish(self, n: int, what: int, source: int, target: int, how: int) -> int:
        """Wait with progress for the collective that is not finished, and return its number."""
        self._busy = True
        try:
            if n == LATE:
                n = self._wait(what, source, target, how)
        finally:
            self._busy = False
        if n == MISMATCH:
            raise self._mismatch(what)
        return n

    def _contributions(self, dtype: np.dtype[Any], count: int) -> list[list[npt.NDArray[Any]]]:
        """Return the contributions of all ranks, to even and to odd collectives, as arrays."""
        found = self._slots.get((dtype, count))
        if found is None:
            slots = self._all_slots[..., WORD : WORD + count * dtype.itemsize]
            found = [[slots[rank, parity].view(dtype) for rank in range(self._size)] for parity in (0, 1)]
            self._slots[dtype, count] = found
        return found

    def _run(self, what: int, source: int, target: int, how: int) -> int:
        """Take part in the next collective and return its number.

        Args:
            what: The collective; the same on all ranks.
            source: Place of the address of this rank's contribution, 0 without one.
            target: Place of the address for the result, 0 without one.
            how: Way to combine contributions; or -1 - root: the result is that of the root.
        """
        if self._machine_code and not self._busy and not progress.thread.flow.depth:
            n = self._advance(self._own, what, source, target, how, self._polls)
            return n if n >= 0 else self._finish(n, what, source, target, how)
        progress.refuse_in_callback(_name(what))
        if self._busy:
            progress.wait_until(lambda: not self._busy, f"a collective of {self._name} that another task has begun")
        self._busy = True
        try:
            if not self._machine_code:
                self._choose()
            n = self._advance(self._own, what, source, target, how, self._polls)
        finally:
            self._busy = False
        return n if n >= 0 else self._finish(n, what, source, target, how)

    def _choose(self) -> None:
        """Go on with collectives by machine code if it pays to load it."""
        self._count += 1
        if not _IN_ORDER or pays_off(self._count, _advance, _meet):
            self._machine_code, self._advance, self._meet = True, _advance.call, _meet.call
            self._is_quick = abi_is_known()

    def _advance_in_python(self, own: int, what: int, source: int, target: int, how: int, polls: int) -> int:
        n = self._entered
        if n == 0:
            n = (max(self._word(self._rank, 0), self._word(self._rank, 1)) >> NUMBER) + 1
            if any(self._word(rank, n - 1) >> NUMBER < n - 1 for rank in range(self._size)):
                return LATE
            slot = self._slot(self._rank, n)
            if source:
                ctypes.memmove(self.address + slot + WORD, _load(source), _nbytes(what, _load(source)))
            self._words[slot // WORD] = n << NUMBER | what
            self._entered = n
        ranks = (-1 - how,) if how < 0 else range(self._size)
        if any(self._word(rank, n) >> NUMBER < n for rank in ranks):
            return LATE
        self._entered = 0
        if any(self._word(rank, n) != n << NUMBER | what for rank in ranks):
            return MISMATCH
        if how < 0 and target:
            ctypes.memmove(_load(target), self.address + self._slot(ranks[0], n) + WORD, what & NBYTES)
        return n

    def _slot(self, rank: int, n: int) -> int:
        return HEAD + (2 * rank + (n & 1)) * SLOT

    def _word(self, rank: int, n: int) -> int:
        return self._words[self._slot(rank, n) // WORD]

    def _wait(self, what: int, source: int, target: int, how: int) -> int:
        n, driven = LATE, 0.0

        def ready() -> bool:
            nonlocal n, driven
            n = self._advance(self._own, what, source, target, how, _FEW)
            if n == LATE and (now := time.monotonic()) > driven + _BETWEEN_DRIVES:
                driven = now
                mpi.drive()  # a rank that is late may need this one for a message of MPI
            return n != LATE

        progress.wait_until(ready, _name(what), why=self.standing)
        return n

    def standing(self, *, compiled: bool = False) -> waits.Wait:
        """Describe the collective in which this rank waits. Local.

        Args:
            compiled: whether compiled code waits.
        """
        words = self._all_slots[..., :WORD].view(np.int64)[..., 0]
        n, kind = divmod(int(words[self._rank].max()), 1 << NUMBER)
        late = tuple(self._world_ranks[rank] for rank in range(self._size) if int(words[rank, n & 1]) >> NUMBER < n)
        has_entered = compiled or self._entered or self._block[ENTERED]
        what = f"in {_name(kind)}, collective {n}" if has_entered else f"to begin collective {n + 1}"
        return waits.Wait(f"{what} of {self._name}", waits.COLLECTIVE, late)

    def _mismatch(self, what: int) -> UsageError:
        words = self._all_slots[..., :WORD].view(np.int64)[..., 0]
        n = int(words[self._rank].max()) >> NUMBER  # others may have entered the next one, in their other slots
        given = [int(word) & (1 << NUMBER) - 1 for word in words[:, n & 1]]
        other = next((rank for rank, word in enumerate(given) if word != what), self._rank)
        watchdog.call_roll(f"the ranks of {self._name} call different collectives")
        return UsageError(
            f"the ranks of {self._name} call different collectives: rank {self._rank} {_name(what)}, rank {other} "
            f"{_name(given[other])}; all ranks call the same ones in the same order, with buffers of one size"
        )


def item_sizes() -> list[int]:
    """The bytes of an element by the number of its dtype, 0 for those that machine code leaves."""
    sizes = [0] * KINDS
    for char in "?bhilqBHILQfdgFDG":
        sizes[np.dtype(char).num] = np.dtype(char).itemsize
    return sizes


def _nbytes(what: int, source: int) -> int:
    """The bytes that a rank contributes to a collective, from those at an address."""
    return what & NBYTES if what >> KIND < ALLGATHER else WORD + min(_load(source), OBJECT)


def _load(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _name(what: int) -> str:
    name, nbytes = _NAMES[what >> KIND], what & NBYTES
    return name.format(nbytes) if nbytes else name.partition(" of {}")[0]


def _describe(area: int, *_: int) -> waits.Wait:
    """Describe what compiled code waits for by the address of the memory of a team, 0 if that has none."""
    for one in list(_known):
        if one.address == area:
            return one.standing(compiled=True)
    return waits.Wait("in a collective of compiled code", waits.COLLECTIVE)


waits.describe_by(waits.COLLECTIVE, _describe)


def share(team: Team) -> None:
    """Give a team shared memory if all of its ranks are on one node. Collective over team; blocking."""
    global _world
    _world = _world or team
    nodes = {_world.node_of(rank) for rank in team.world_ranks}
    if team.size == 1 or len(nodes) > 1:
        return
    memory = _memory(team)
    if all(team.comm.allgather(memory is not None)):
        assert memory is not None
        team.on_node = OnNode(team, memory)


def _memory(team: Team) -> npt.NDArray[np.uint8] | None:
    """Return memory that rank 0 makes and all ranks map; None: it cannot be made, or mapped here."""
    nbytes = HEAD + 2 * team.size * SLOT
    file = None
    if team.rank == 0:
        with contextlib.suppress(OSError):
            file = SharedFile.create("gondwana-collectives", nbytes)
    file, memory = team.comm.bcast(file), None
    if file is not None:
        with contextlib.suppress(OSError, ForeignFileError):
            memory = file.map(nbytes)
    team.comm.Barrier()
    if team.rank == 0 and file is not None:
        os.close(file.descriptor)
    return memory
