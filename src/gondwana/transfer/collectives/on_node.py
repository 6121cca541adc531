"""Collectives of few bytes through memory that all ranks of a team share: no message, and no call of MPI.

All ranks of a team have this memory, or none: it is made where they come together anyway, when the world connects and
when a team is split. A team that spans nodes, or that was made from a communicator of the user's, has MPI's only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.compiler.native import DATA_AT, Native, pays_off
from gondwana.compiler.ndarrays import abi_is_known
from gondwana.errors import UsageError
from gondwana.runtime import cores, progress
from gondwana.runtime.shared_file import ForeignFileError, SharedFile, map_shared
from gondwana.teams import BAND, BOR, BXOR, MAX, MIN, PROD, SUM, Op, Team, mpi
from gondwana.teams.ops import KINDS

LIMIT = 8192
"""The largest contribution of a rank [bytes]."""
MOST_READ = 128 * 1024
"""The most that a rank reads of all contributions to one collective [bytes]; MPI divides more among the ranks."""

HEAD, WORD = 64, 8
SLOT = -(-(WORD + LIMIT) // HEAD) * HEAD
"""Bytes of the head, of the first word of a slot, and of a slot."""

BARRIER, BCAST, ALLREDUCE = 0, 1, 2
KIND, NUMBER = 14, 20
"""Where in the word of a slot the kind of the collective and its number begin; below them are its bytes."""
NBYTES = (1 << KIND) - 1

OPERATIONS: dict[Op, Callable[..., Any]] = {
    SUM: np.add,
    PROD: np.multiply,
    MAX: np.maximum,
    MIN: np.minimum,
    BAND: np.bitwise_and,
    BOR: np.bitwise_or,
    BXOR: np.bitwise_xor,
}
"""The operations that shared memory has; MPI has others, and those on complex numbers."""

NUMPY, SUM_DOUBLES, SUM_INTEGERS, SUM_FLOATS = 0, 1, 2, 3

LATE, MISMATCH, UNFIT = -1, -2, -3
"""What machine code returns if ranks have not come yet, or are in another collective; or of arrays that it leaves."""

_PATIENCE, _FEW = 1000, 4
"""Polls before a waiting rank makes progress, and between later calls of progress."""
_BETWEEN_DRIVES = 5e-6
"""Seconds between two calls of MPI while a rank waits: each takes as long as a round of progress."""

_IN_ORDER = platform.machine() in ("x86_64", "AMD64")
"""Whether the processor keeps the order of stores, as the collectives in Python need, which have no fences."""

_MODULE = "gondwana.transfer.collectives.on_node_native"
_advance = Native(_MODULE, "advance", 6, brief=True)
_add = Native(_MODULE, "add", 4, brief=True)

_CODES = {op: ALLREDUCE + code for code, op in enumerate(OPERATIONS)}
_NAMES = ("a barrier", "a broadcast", *(f"an allreduce by {op.name.lower()!r}" for op in OPERATIONS))

_IN_MACHINE_CODE = {("d", SUM): SUM_DOUBLES, ("f", SUM): SUM_FLOATS, ("l", SUM): SUM_INTEGERS, ("q", SUM): SUM_INTEGERS}
_PLANS = {
    (char, op): (_CODES[op] << KIND, _IN_MACHINE_CODE.get((char, op), NUMPY))
    for op in OPERATIONS
    for char in "bhilqBHILQfd"
    if np.dtype(char).kind in KINDS[op]
}
"""For the dtypes and operations that shared memory has: the kind in the word of a slot, and what combines."""

_BCAST = BCAST << KIND

_world: Team | None = None


def meaning(kind: int, nbytes: int) -> int:
    """Return what the word of a slot says of a collective beside its number: the same on all ranks. Local."""
    return kind << KIND | nbytes


def kind_of(op: Op) -> int:
    """Return the kind of an allreduce. Local."""
    return _CODES[op]


def most_of(size: int) -> int:
    """Return the largest contribution of each of so many ranks to a collective [bytes]. Local."""
    return min(LIMIT, MOST_READ // size)


def can_combine(dtype: np.dtype[Any], op: object) -> bool:
    """Return whether elements of a dtype are combined by an operation without MPI. Local."""
    return isinstance(op, Op) and (dtype.char, op) in _PLANS


class OnNode:
    """The shared memory of a team, as one of its ranks sees it. Its collectives make user-level progress.

    Args:
        team: all of its ranks are on one node.
        memory: the same for all of them, zero at first: a head and two slots for every rank.

    Attributes:
        address: of the memory, for compiled code.
        largest: contributions of up to so many bytes go through the memory.
    """

    def __init__(self, team: Team, memory: npt.NDArray[np.uint8]) -> None:
        self._name, self._rank, self._size = team.name, team.rank, team.size
        self._memory = memory
        self.address = int(memory.ctypes.data)
        self._block = np.array([self.address, team.rank, team.size, 0], np.int64)
        self._own = int(self._block.ctypes.data)
        self.largest = most_of(team.size)
        self._busy = self._machine_code = False
        self._advance: Callable[..., int] = self._advance_in_python
        self._add: Callable[[int, int, int, int], int] = self._load_add
        self._words = memory.data.cast("q")
        self._entered = 0
        self._count = 0
        self._slots: dict[tuple[np.dtype[Any], int], list[list[npt.NDArray[Any]]]] = {}
        memory[:WORD].view(np.int64)[0] = patience = 0 if cores.crowded() else _PATIENCE
        self._polls = patience or _FEW

    def barrier(self) -> None:
        """Wait until all ranks have come. Collective over team. Blocking; user-level progress."""
        self._run(meaning(BARRIER, 0), 0, 0, NUMPY)

    def bcast(self, buffer: npt.NDArray[Any], root: int) -> None:
        """Fill a contiguous buffer, which `fits`, with that of ``root``. Collective over team. Blocking.

        The root returns when the buffer may be changed, perhaps before others have come.
        """
        data = id(buffer) + DATA_AT
        source, target = (data, 0) if self._rank == root else (0, data)
        self._run(_BCAST | buffer.nbytes, source, target, -1 - root)

    def allreduce(self, send: npt.NDArray[Any], recv: npt.NDArray[Any], op: Any) -> bool:
        """Combine contiguous buffers of one size and dtype, element by element. Collective over team. Blocking.

        Contributions are combined in the order of the ranks, on each of them: all get the same bits.

        Returns:
            False, and nothing is done, if MPI must combine them; the same on all ranks.
        """
        nbytes = recv.nbytes
        plan = _PLANS.get((recv.dtype.char, op)) if type(op) is Op and nbytes <= self.largest else None
        if plan is None:
            return False
        kind, how = plan
        n = self._run(kind | nbytes, id(send) + DATA_AT, id(recv) + DATA_AT, how)
        if how == NUMPY or not self._machine_code:
            parts = self._contributions(recv.dtype, recv.size)[n & 1]
            self._combine(parts, recv.reshape(-1, order="A"), OPERATIONS[op])
        return True

    def add(self, send: npt.NDArray[Any], recv: npt.NDArray[Any]) -> bool:
        """Add arrays: as `allreduce` with `SUM`, without asking them in Python what they are. Collective over team.

        Returns:
            False, and nothing is done, if `allreduce` or MPI must; perhaps not the same on all ranks.
        """
        if self._busy or progress.thread.flow.depth:
            return False
        n = self._add(self._own, id(send), id(recv), self._polls)
        if n == UNFIT:
            return False
        if n < 0:
            self._finish_adding(n, send, recv)
        return True

    def _load_add(self, own: int, send: int, recv: int, polls: int) -> int:
        """Leave the first sum, and load machine code for the next if it is used here."""
        if self._machine_code and abi_is_known():
            self._add = _add.call
        return UNFIT

    def _finish_adding(self, n: int, send: npt.NDArray[Any], recv: npt.NDArray[Any]) -> None:
        kind, how = _PLANS[recv.dtype.char, SUM]
        what = kind | recv.nbytes
        self._busy = True
        try:
            if n == LATE:
                n = self._wait(what, id(send) + DATA_AT, id(recv) + DATA_AT, how)
        finally:
            self._busy = False
        if n == MISMATCH:
            raise self._mismatch(what)

    def _combine(self, parts: list[npt.NDArray[Any]], total: npt.NDArray[Any], function: Callable[..., Any]) -> None:
        function(parts[0], parts[1], out=total)
        for part in parts[2:]:
            function(total, part, out=total)

    def _contributions(self, dtype: np.dtype[Any], count: int) -> list[list[npt.NDArray[Any]]]:
        """Return the contributions of all ranks, to even and to odd collectives, as arrays."""
        found = self._slots.get((dtype, count))
        if found is None:
            slots = self._memory[HEAD:].reshape(self._size, 2, SLOT)[..., WORD : WORD + count * dtype.itemsize]
            found = [[slots[rank, parity].view(dtype) for rank in range(self._size)] for parity in (0, 1)]
            self._slots[dtype, count] = found
        return found

    def _run(self, what: int, source: int, target: int, how: int) -> int:
        """Take part in the next collective and return its number.

        Args:
            what: the collective; the same on all ranks.
            source: where the address of this rank's contribution is, 0 without one.
            target: where the address for the result is, 0 without one.
            how: contributions are combined; or -1 - root: the result is that of the root.
        """
        if progress.thread.flow.depth:
            progress.refuse_in_callback(_NAMES[what >> KIND])
        if self._busy:
            progress.wait_until(lambda: not self._busy, f"a collective of {self._name} that another task has begun")
        self._busy = True
        try:
            if not self._machine_code:
                self._choose()
            n = self._advance(self._own, what, source, target, how, self._polls)
            if n == LATE:
                n = self._wait(what, source, target, how)
        finally:
            self._busy = False
        if n == MISMATCH:
            raise self._mismatch(what)
        return n

    def _choose(self) -> None:
        """Go on with collectives by machine code if it pays to load it."""
        self._count += 1
        if not _IN_ORDER or pays_off(self._count):
            self._machine_code, self._advance = True, _advance.call

    def _advance_in_python(self, own: int, what: int, source: int, target: int, how: int, polls: int) -> int:
        n = self._entered
        if n == 0:
            n = (max(self._word(self._rank, 0), self._word(self._rank, 1)) >> NUMBER) + 1
            if any(self._word(rank, n - 1) >> NUMBER < n - 1 for rank in range(self._size)):
                return LATE
            slot = self._slot(self._rank, n)
            if source:
                ctypes.memmove(self.address + slot + WORD, _load(source), what & NBYTES)
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

        progress.wait_until(ready, _NAMES[what >> KIND])
        return n

    def _mismatch(self, what: int) -> UsageError:
        words = self._memory[HEAD:].reshape(self._size, 2, SLOT)[..., :WORD].view(np.int64)[..., 0]
        n = int(words[self._rank].max()) >> NUMBER  # others may have entered the next one, in their other slots
        given = [int(word) & (1 << NUMBER) - 1 for word in words[:, n & 1]]
        other = next((rank for rank, word in enumerate(given) if word != what), self._rank)
        return UsageError(
            f"the ranks of {self._name} call different collectives: rank {self._rank} {_name(what)}, rank {other} "
            f"{_name(given[other])}; all ranks call the same ones in the same order, with buffers of one size"
        )


def _load(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _name(what: int) -> str:
    nbytes = what & NBYTES
    return f"{_NAMES[what >> KIND]} of {nbytes} bytes" if nbytes else _NAMES[what >> KIND]


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
            descriptor = file.open()
            try:
                memory = map_shared(descriptor, nbytes)
            finally:
                os.close(descriptor)
    team.comm.Barrier()
    if team.rank == 0 and file is not None:
        os.close(file.descriptor)
    return memory
