"""Segments: memory of any kind that is open to one-sided communication in a team.

Host memory of a rank that shares its node is an anonymous file in memory (Linux `memfd`): it has no name in any folder,
so a job that is killed leaves nothing behind. A rank publishes the file once; a peer maps it at first access. Between
nodes, an MPI window covers the same memory. Device memory is published too if its driver lets others of the node attach
it, and covered by the window if MPI takes it; else only its owner can access it.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import operator
import os
import socket
import weakref
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

import numpy as np
import numpy.typing as npt

from gondwana.compiler.multithreading.pool import run, threads
from gondwana.compiler.reports import touching
from gondwana.compiler.types.records import element_dtype
from gondwana.errors import LaunchError, UsageError
from gondwana.gpu.interface import CudaError
from gondwana.memory.kinds import DeviceKind, MemoryKind, Shareable, checked_size, given_bytes, host
from gondwana.memory.pointer import Elements, GlobalPtr
from gondwana.runtime import exits
from gondwana.runtime.later import ComputedOnce
from gondwana.runtime.placement import control_groups
from gondwana.runtime.races import reporter
from gondwana.runtime.shared_file import HUGE, ForeignFileError, SharedFile, collapse, private_memory
from gondwana.teams import Team
from gondwana.teams.buffers import Buffer
from gondwana.teams.windows import Window

if TYPE_CHECKING:
    from gondwana.memory.ipc import Attached, OnDevice
    from gondwana.teams.device_memory import DeviceBytes

_PAGE = 4096
_STAGGER = 17 * 64
"""Distance within a page between the starts of successive segments. If all arrays started at the same offset, loads
from one would falsely depend on stores to another with the same 12 low address bits: that slowed Gray-Scott by 15 %."""

_starts = itertools.cycle(range(0, _STAGGER * _PAGE // math.gcd(_STAGGER, _PAGE), _STAGGER))

_numbers = itertools.count(1)
_open: weakref.WeakValueDictionary[int, Segment] = weakref.WeakValueDictionary()

MEMORY, WINDOW, DEVICE, EXPOSED, AWAY = "memory", "window", "device", "exposed", "away"
"""How this rank reaches a rank's part: by loads and stores, through an MPI window over host memory, by the driver of
its device, through an MPI window over the memory of a device, or only by asking the owner."""

TABLE_HEAD = 4
"""Words of a segment's table before those of ranks: number of ranks, handle of the MPI window or 0, this rank, address
of the world ranks. Then, for all ranks: base addresses here, bytes, base addresses in the ranks' processes."""


class _Part(NamedTuple):
    """The description of one rank's part, known to the whole team."""

    proposal: int
    kind: MemoryKind
    nbytes: int
    address: int
    given: bool
    exposed: bool


class _Published(NamedTuple):
    """The file by which peers of the node map the memory of one rank; None if they cannot.

    A rank that is alone on its node has none, nor one that has given its own memory.
    """

    rank: int
    file: SharedFile | None
    offset: int
    nbytes: int

    def map(self) -> npt.NDArray[np.uint8]:
        """Map the file; errors as for `SharedFile.open`. Local."""
        assert self.file is not None  # of other ranks only those with a file are kept
        return self.file.map(self.nbytes, offset=self.offset, huge=self.nbytes >= HUGE)


class _OnDevice(NamedTuple):
    """The description by which peers of the node attach the device memory of one rank; None: they cannot."""

    rank: int
    memory: Shareable | None


class Segment:
    """Memory of each rank of a team that is open to one-sided communication.

    Collective over team to create (blocking): it allocates and publishes the memory. Everything else is local. The
    memory is initially zero and starts on a cache line. It lives until the segment is deleted or closed.

    A rank may give memory that it has already, `memory=array`, and keeps its contents. Other processes cannot map it,
    even those of its node: there as between nodes it is reached through an MPI window, or with the progress of its
    owner, by `put`, `get` and `copy`, in compiled code too; not by loads and stores, nor by atomic operations inside a
    node. The segment keeps the array alive until it is closed, and until MPI's window has been freed, if there is one:
    see `close`.

    Args:
        team: Ranks that create the segment together.
        nbytes: Bytes of this rank; may differ from rank to rank, 0 for a rank without memory. Left out with `memory`.
        kind: Kind of this rank's memory; may differ from rank to rank.
        memory: Host memory of this rank instead: an ndarray, or another object with the buffer protocol; contiguous,
            writable, and starting at a multiple of 8 bytes. Some ranks may give it and others not.
        window: Whether ranks of other nodes may access it, which takes an MPI window; with `memory` of any rank, also
            those of the same node. Without it, such memory is reached with its owner's progress.

    Raises:
        UsageError: `nbytes` is negative or no integer, a rank has no such device, or the given memory breaks the rules
            above (raised by every rank).
        LaunchError: there is not enough memory, or the parts of a host together are larger than its memory (raised
            by every rank).

    Attributes:
        team: The ranks that created it.
        nbytes: Bytes of this rank.
        kind: Kind of this rank's memory.
        key: Number of the segment, the same on all ranks and unique in the job.
        address: Address of the first byte of this rank's part, in this process or on its device.
        elements: Results of `elements_of` so far, by rank and dtype.
        readonly: Whether writing is forbidden, as in some memory borrowed from other libraries.
        devices: Results of `on_device` so far, by rank.
        device_bytes: Device memory of this rank as MPI gets it; None if it has none, or MPI does not take it.
        closed: Whether this rank has closed it.

    Example:
        >>> import gondwana as gw
        >>> segment = gw.Segment(gw.world, 16)
        >>> gw.put(2.5, segment.pointer(dtype=float) + 1).wait()
        >>> segment.view(gw.world.rank).view(float).tolist()
        [0.0, 2.5]
    """

    readonly = False
    closed = False

    def __init__(
        self,
        team: Team,
        nbytes: int | None = None,
        kind: MemoryKind = host,
        *,
        memory: Buffer | None = None,
        window: bool = True,
    ) -> None:
        self.team = team
        self.nbytes = 0
        self.kind = kind
        self._maps: dict[int, npt.NDArray[np.uint8]] = {}
        self.elements: dict[tuple[int, np.dtype[Any]], Elements] = {}
        self._reaches: dict[int, str] = {}
        self._small = bytearray()  # a byte for each possible huge page of this rank's part: 1 until it is tried
        self._release: weakref.finalize[..., Any] | None = None
        self.devices: dict[int, OnDevice | None] = {}
        self.device_bytes: DeviceBytes | None = None
        own: _Published | _OnDevice | None = None
        problem: Exception | None = None
        try:
            self.nbytes = checked_size(nbytes, kind, memory)
            own = self._allocate() if memory is None else self._take(given_bytes(memory, kind))
        except UsageError as error:
            problem = error
        except (OSError, OverflowError, MemoryError, CudaError) as error:
            problem = LaunchError(f"no memory of {nbytes} bytes of kind {kind.name}: {error}")
        on_host = 0 if isinstance(kind, DeviceKind) or memory is not None else self.nbytes
        entries, sizes = zip(*team.node.allgather((own, on_host)), strict=True)
        problem = _too_large(sizes) or problem
        proposal = next(_numbers) | team.world_ranks[team.rank] << 32
        address = 0 if problem is not None or isinstance(kind, DeviceKind) else self.address
        exposed = self.device_bytes is not None
        part = None if problem is not None else _Part(proposal, kind, self.nbytes, address, memory is not None, exposed)
        parts = team.allgather(part)
        self._window: Window | None = None
        self._parts = [part for part in parts if part is not None]
        if len(self._parts) == team.size:
            self.key = self._parts[0].proposal
            hosted = [entry for entry in entries if isinstance(entry, _Published)]
            self._published = {entry.rank: entry for entry in hosted if entry.file or entry.rank == team.rank}
            self._on_devices = {entry.rank: entry.memory for entry in entries if isinstance(entry, _OnDevice)}
            _open[self.key] = self
        team.agree(problem)  # now that all have opened it: ranks that go on may send pointers, which others here serve
        unmapped = team.node_count > 1 or (team.size > 1 and any(part.given for part in self._parts))
        if window and unmapped:
            self._window = Window(team, self._maps[team.rank] if self.device_bytes is None else self.device_bytes)
        if reporter is not None:
            touching.announce(self, [part.nbytes if part.kind.host else 0 for part in self._parts])

    @property
    def window(self) -> Window | None:
        """The MPI window to memory that is not mapped, None if all is."""
        self.check_open()
        return self._window

    def _allocate(self) -> _Published | _OnDevice:
        """Allocate the memory of this rank; return how peers of the node access it."""
        if isinstance(self.kind, DeviceKind):
            self.address = self.kind.allocate(self.nbytes)
            self._release = weakref.finalize(self, self.kind.free, self.address)
            self.device_bytes = self.kind.for_mpi(self.address, self.nbytes)
            if self.device_bytes is not None:  # which MPI may use longer than this segment
                self._release.detach()
                self._release = weakref.finalize(self.device_bytes, self.kind.free, self.address)
                self._release.atexit = False  # MPI's windows are still there
            self._maps[self.team.rank] = np.empty(0, np.uint8)
            shared = self.kind.share(self.address) if self.nbytes and self.team.node.size > 1 else None
            return _OnDevice(self.team.rank, shared)
        offset = next(_starts) % _PAGE
        own = _Published(self.team.rank, None, offset, self.nbytes)
        if self.team.node.size == 1:
            memory = private_memory(self.nbytes, offset)
        else:
            file = SharedFile.create("gondwana", offset + max(self.nbytes, 1))
            self._release = weakref.finalize(self, os.close, file.descriptor)
            self._release.atexit = False  # until all ranks leave, a late peer may want to map it
            own = own._replace(file=file)
            memory = own.map()
            if memory.ctypes.data % HUGE == offset:
                self._small = bytearray(b"\1" * ((offset + self.nbytes) // HUGE))
        self._maps[self.team.rank], self.address = memory, memory.ctypes.data
        return own

    def _take(self, memory: npt.NDArray[np.uint8]) -> _Published:
        """Use the user's memory for this rank's part."""
        self.nbytes, self.address = memory.size, memory.ctypes.data
        self._maps[self.team.rank] = memory
        return _Published(self.team.rank, None, 0, memory.size)

    def make_huge(self, start: int, end: int) -> None:
        """Give addresses of this rank's part, which is about to be used, huge pages if possible. Local.

        Each page is tried once. A page becomes huge before it is touched, which is faster than touching small pages,
        and on the thread that has the same part of most loops.
        """
        origin = self.address // HUGE * HUGE
        first, end = ((address - origin + HUGE // 2) // HUGE for address in (start, end))
        if self._small.find(1, first, end) < 0:
            return
        end = min(end, len(self._small))
        self._small[first:end] = bytes(end - first)

        def share(_block: int, thread: int, count: int) -> int:
            low, high = (first + (end - first) * part // count for part in (thread, thread + 1))
            return collapse(origin + low * HUGE, high - low)

        count = min(threads(), end - first)
        if count == 1:
            share(0, 0, 1)
        else:
            function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(share)
            run(ctypes.cast(function, ctypes.c_void_p).value or 0, 0, count, 0)

    @cached_property
    def peers(self) -> tuple[int, ...]:
        """The ranks whose memory can be viewed: this one, and those of this node without given memory."""
        return tuple(self._published)

    def kind_of(self, rank: int) -> MemoryKind:
        """Return the memory kind of a rank's part. Local."""
        kind: MemoryKind = self._parts[rank].kind
        return kind

    def nbytes_of(self, rank: int) -> int:
        """Return the number of bytes of a rank's part. Local."""
        nbytes: int = self._parts[rank].nbytes
        return nbytes

    def address_of(self, rank: int) -> int:
        """Return the address of a rank's host memory in that rank's own process, 0 without one. Local."""
        address: int = self._parts[rank].address
        return address

    def pointer(self, rank: int | None = None, dtype: npt.DTypeLike = np.uint8, offset: int = 0) -> GlobalPtr:
        """Return a pointer into the memory of any rank. Local.

        Args:
            rank: Rank of the team; None: this rank.
            dtype: Type of an element; a structured dtype of NumPy, or a class of named tuples, for records.
            offset: Bytes from the start of that rank's part.

        Raises:
            UsageError: the rank does not exist, `offset` is outside its part, or the record has no fields, or some that
                are not numbers.
            TypeError: `rank` or `offset` is not an integer.
        """
        rank, offset = self.team.rank if rank is None else operator.index(rank), operator.index(offset)
        if not 0 <= rank < self.team.size:
            raise UsageError(f"rank {rank}: the ranks of {self.team.name} are 0 to {self.team.size - 1}")
        if not 0 <= offset <= self.nbytes_of(rank):
            raise UsageError(f"offset {offset}: rank {rank} has {self.nbytes_of(rank)} bytes in this segment")
        return GlobalPtr(self, rank, offset, element_dtype(dtype))

    def view(self, rank: int) -> npt.NDArray[np.uint8]:
        """Return the host memory of a rank of this node as bytes, writable, without a copy. Local.

        Stores of one rank become visible to the others in order on x86; ordering across ranks is the caller's, by
        signals or a barrier.

        Raises:
            UsageError: `rank` is on another node, has no host memory, or is not in the team.
            LaunchError: the memory cannot be mapped: its rank has released it, or its process is invisible here.
        """
        if rank not in self._published:
            raise UsageError(
                f"rank {rank} of {self.team!r} shares no memory with rank {self.team.rank}: "
                f"only the ranks {sorted(self._published)} do; copy to and from the others"
            )
        if rank not in self._maps:
            self.check_open()
            try:
                opened = self._published[rank].map()
            except (OSError, ForeignFileError) as error:
                exits.let_others_report()  # a failing rank's memory is gone before its message is printed
                raise _not_mapped(self.team, self._published[rank], error) from error
            # Another thread may have mapped it meanwhile, and use its addresses.
            self._maps.setdefault(rank, opened)
        return self._maps[rank]

    def check_open(self) -> None:
        """Raise if this rank has closed the segment. Local.

        Raises:
            UsageError: this rank has closed it.
        """
        if self.closed:
            raise UsageError(f"{self!r} was closed: call close() after the last use, or make another segment")

    def reach(self, rank: int) -> str:
        """Return how this rank reaches the part of a rank: see `MEMORY`. Local; decided by the first call.

        Raises:
            UsageError: this rank has closed the segment.
        """
        found = self._reaches.get(rank)
        if found is None:
            if isinstance(self.kind_of(rank), DeviceKind):
                if rank == self.team.rank or self.on_device(rank) is not None:
                    found = DEVICE
                else:
                    found = EXPOSED if self._parts[rank].exposed and self.window is not None else AWAY
            elif rank in self._published:
                found = MEMORY
            else:
                found = AWAY if self.window is None else WINDOW
            self._reaches[rank] = found
        return found

    def elements_of(self, rank: int, dtype: np.dtype[Any]) -> Elements:
        """Return what the pointers to elements of a dtype in a rank's part share. Local."""
        found = self.elements.get((rank, dtype))
        return self.elements.setdefault((rank, dtype), Elements(dtype)) if found is None else found

    def typed(self, rank: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return the memory of a rank as an array of all whole elements of a dtype. Local; errors as for `view`."""
        elements = self.elements_of(rank, dtype)
        if elements.array is not None:
            return elements.array
        memory = self.view(rank)
        whole = memory[: memory.size // dtype.itemsize * dtype.itemsize].view(dtype)
        elements.reach(whole)
        return whole

    def on_device(self, rank: int) -> OnDevice | None:
        """Return the device memory of any rank as a CUDA device of this rank accesses it, None if it cannot. Local.

        The first call for another rank attaches its memory; closing the segment detaches it.

        Raises:
            UsageError: this rank has closed the segment, and the memory is its own.
        """
        if rank not in self.devices:
            found: OnDevice | None = None
            if rank != self.team.rank:
                memory = self._on_devices.get(rank)
                found = None if memory is None else memory.attach()
            elif isinstance(self.kind, DeviceKind):
                self.check_open()
                found = self.kind.here(self.address)
            self.devices[rank] = found
        return self.devices[rank]

    def attached(self, rank: int) -> Attached | None:
        """Return the attached device memory of another rank, None for this one. Local; see `on_device`."""
        return None if rank == self.team.rank else cast("Attached | None", self.on_device(rank))

    def base(self, rank: int) -> int:
        """Return the address of a rank's host memory in this process, 0 if it is not mapped here. Local."""
        return self.view(rank).ctypes.data if rank in self._published else 0

    @cached_property
    def bases(self) -> list[int]:
        """The results of `base` for all ranks, and 0 for memory that cannot be mapped. Local.

        A rank that is no longer needed may release its memory before the others have mapped it; if they need it,
        `view` raises.

        Raises:
            UsageError: this rank has closed the segment.
        """
        self.check_open()
        found = []
        for rank in range(self.team.size):
            try:
                if rank in self._published and rank not in self._maps:
                    self._maps.setdefault(rank, self._published[rank].map())
                found.append(self.base(rank))
            except (OSError, ForeignFileError):
                found.append(0)
        return found

    @ComputedOnce
    def table(self) -> npt.NDArray[np.int64]:
        """The table for compiled code: see `TABLE_HEAD`. Local."""
        handle = 0 if self.window is None else self.window.handle
        ranks = range(self.team.size)
        head = self.team.size, handle, self.team.rank, self.team.world_ranks_at
        return np.array([*head, *self.bases, *map(self.nbytes_of, ranks), *map(self.address_of, ranks)], np.int64)

    @cached_property
    def table_address(self) -> int:
        """The address of the table in this process. Local."""
        return self.table.ctypes.data

    def close(self) -> None:
        """Release the memory. Local; existing views stay valid, but peers can no longer map the memory.

        MPI's window between nodes, or over memory that a rank has given, is freed when all ranks have closed the
        segment and make another one; until then it keeps that memory, that of a device as well if MPI takes it. Device
        memory that peers have attached stays valid for them until they close the segment, too.
        """
        self.closed = True
        self._maps.clear()
        self.devices.clear()
        self._on_devices.clear()
        for elements in self.elements.values():
            elements.close()
        self.elements.clear()
        self._reaches.clear()
        for name in ("bases", "table", "table_address"):
            self.__dict__.pop(name, None)
        if self._window is not None:
            self._window.release()
        if self._release is not None and self.device_bytes is None:
            self._release()
        self.device_bytes = None

    def __repr__(self) -> str:
        return f"Segment({self.nbytes} bytes of {self.kind.name}, {self.team.name})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a segment cannot be pickled: send pointers into it")


def find(key: int) -> Segment:
    """Return the open segment of this rank with a given key. Local.

    Raises:
        UsageError: this rank has none with that key.
    """
    try:
        return _open[key]
    except KeyError:
        raise UsageError(
            "a global pointer has arrived whose segment is not open on this rank: the rank is not in the team of the "
            "segment, or has closed it; send pointers to ranks of the team only, while the segment is open"
        ) from None


def _too_large(sizes: Sequence[int]) -> LaunchError | None:
    """Return the error in the sizes of the parts on one host, if any: Linux promises shared memory that it lacks."""
    total, available = sum(sizes), control_groups.memory()
    if total <= available:
        return None
    parts = "one rank" if len(sizes) == 1 else f"the {len(sizes)} ranks"
    return LaunchError(
        f"a segment of {total / 2**30:,.1f} GiB for {parts} of {socket.gethostname()}, which has "
        f"{available / 2**30:,.1f} GiB of memory for this job: use smaller arrays, or more hosts"
    )


def _not_mapped(team: Team, entry: _Published, error: Exception) -> LaunchError:
    assert entry.file is not None
    reason = error.strerror if isinstance(error, OSError) else "another file is there"
    return LaunchError(
        f"rank {team.rank} cannot map the memory of rank {entry.rank} ({entry.file.path}: {reason}): if rank "
        f"{entry.rank} has closed or deleted it, let it wait until the others have used it; ranks of one node must see "
        "each other's processes: run them in one container, or set GONDWANA_RANKS_PER_NODE=1 to exchange by messages"
    )
