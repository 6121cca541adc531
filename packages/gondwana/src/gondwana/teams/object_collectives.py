"""The collective operations of a team on Python objects, which travel pickled.

The first message of an object has the length of its pickle, and as many bytes of that as fit: 8 KiB in the memory of a
node, else 504 bytes. So one step is enough for most objects, where mpi4py sends the lengths first and then
the pickles. Ranks that have the first messages of all have all entered the collective: MPI's blocking form, which
serves nobody, may bring longer ones.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gondwana.runtime import ordering
from gondwana.runtime.races.reporting import each_collective
from gondwana.runtime.tracing import each_method
from gondwana.teams import mpi
from gondwana.teams.blocking import FIRST, MOST_FOLDING, ROOM, Blocking
from gondwana.teams.ops import SUM, Combine, function_of

T = TypeVar("T")
_Bytes = npt.NDArray[np.uint8]


@each_collective
@ordering.each_counted
@each_method("collective")
class ObjectCollectives(Blocking):
    """Collective operations on Python objects, under mpi4py's names."""

    private: Any

    def bcast(self, obj: Any = None, root: int = 0) -> Any:
        """Return the object of rank ``root`` on every rank. Collective over team. Blocking.

        The root may return before the others have come.
        """
        data = b""
        if self.rank == root:
            _refuse_array(obj, "bcast")
            data = self._pickler.dumps(obj)
        (found,), lengths = self._first(data, root)
        if lengths is not None:
            everything = np.frombuffer(data, np.uint8) if self.rank == root else np.empty(lengths[0], np.uint8)
            self._perform("Bcast", everything.nbytes, mpi.message(self.comm, everything), root)
            found = everything.data
        return self._pickler.loads(found)  # which leaves what is behind the pickle

    def gather(self, obj: T, root: int = 0) -> list[T] | None:
        """Return every rank's object in rank order on ``root``, None on the others. Collective over team. Blocking.

        Between nodes the others may return before the root has come.
        """
        self._check_root(root)
        _refuse_array(obj, "gather")
        if self._is_large:
            gathered: list[Any] | None = self._by_mpi("gather", obj, root)
            return gathered
        found = self._gathered(obj, root)
        return found if self.rank == root else None

    def allgather(self, obj: T) -> list[T]:
        """Return every rank's object in rank order, on every rank. Collective over team. Blocking."""
        _refuse_array(obj, "allgather")
        if self._is_large:
            return list(self._by_mpi("allgather", obj))
        return self._gathered(obj)

    def scatter(self, objs: Sequence[Any] | None = None, root: int = 0) -> Any:
        """Return this rank's element of the sequence of ``root``. Collective over team. Blocking.

        The root may return before the others have come.

        Args:
            objs: on ``root``, one object for every rank; ignored on the others.
            root: the rank whose data are scattered.
        """
        parts = self._pickled_for_each(objs, "scatter") if self.rank == root else []
        if self._is_large:
            return self._pickler.loads(self._by_mpi("scatter", parts or None, root))
        (found,), lengths = self._first(self._joined(parts) if parts else b"", root)
        begin, end = self._bounds(found)
        if lengths is None:
            return self._pickler.loads(found[begin:end])
        mine = np.empty(end - begin, np.uint8)
        given = (np.frombuffer(b"".join(parts), np.uint8), list(map(len, parts))) if parts else None
        self._perform("Scatterv", 0, given, mine, root)
        return self._pickler.loads(mine.data)

    def alltoall(self, objs: Sequence[T]) -> list[T]:
        """Send ``objs[r]`` to every rank r; return what every rank sent here. Collective over team. Blocking."""
        parts = self._pickled_for_each(objs, "alltoall")
        if self._is_large:
            return list(map(self._pickler.loads, self._by_mpi("alltoall", parts)))
        found, lengths = self._first(self._joined(parts))
        bounds = list(map(self._bounds, found))
        if lengths is None:
            return [self._pickler.loads(data[begin:end]) for data, (begin, end) in zip(found, bounds, strict=True)]
        given = np.frombuffer(b"".join(parts), np.uint8), list(map(len, parts))
        counts = [end - begin for begin, end in bounds]
        received = np.empty(sum(counts), np.uint8)
        self.comm.Alltoallv(given, (received, counts))
        return list(map(self._pickler.loads, _cut(received, counts)))

    def reduce(self, obj: T, op: Combine = SUM, root: int = 0) -> T | None:
        """Return all objects combined with ``op`` on ``root``, None on the others. Collective over team. Blocking.

        Args:
            obj: this rank's contribution.
            op: an operation (``gw.MAX``, ``"max"``, mpi4py's ``MPI.MAX``) or a function of two objects; associative.
            root: the rank that gets the result.
        """
        self._check_root(root)
        found: T | None = self._folded("reduce", obj, op, self.size, root)
        return found

    def allreduce(self, obj: T, op: Combine = SUM) -> T:
        """Return all ranks' objects combined with ``op``, on every rank. Collective over team. Blocking.

        Example:
            >>> import gondwana as gw
            >>> gw.world.allreduce(gw.world.rank, gw.MAX) == gw.world.size - 1
            True
        """
        found: T = self._folded("allreduce", obj, op, self.size)
        return found

    def scan(self, obj: T, op: Combine = SUM) -> T:
        """Return the objects of ranks 0 to this one combined with ``op``. Collective over team. Blocking."""
        found: T = self._folded("scan", obj, op, self.rank + 1)
        return found

    def exscan(self, obj: Any, op: Combine = SUM) -> Any:
        """Return the objects of the ranks before this one combined, None on rank 0. Collective over team. Blocking."""
        return self._folded("exscan", obj, op, self.rank)

    def _folded(self, call: str, obj: Any, op: Combine, ranks: int, *root: int) -> Any:
        """Return the objects of the first ranks combined in their order, None of no ranks or beside the root."""
        _refuse_array(obj, call)
        function = function_of(op, call)
        if self._is_large:
            return self._by_mpi(call, obj, function, *root)
        found = self._gathered(obj, *root)[:ranks]
        return functools.reduce(function, found) if found else None

    # -- pickles -------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _pickler(self) -> Any:
        return mpi.pickler(self.comm)

    @functools.cached_property
    def _is_large(self) -> bool:
        """Whether gathering the pickles of all would bring every rank far more bytes than MPI's trees do."""
        return self.on_node is None and self.size > MOST_FOLDING

    def _by_mpi(self, collective: str, *arguments: Any) -> Any:
        """Let mpi4py do it when all ranks have arrived."""
        self._arrive()
        return getattr(self.comm, collective)(*arguments)

    def _first(self, data: bytes, root: int | None = None) -> tuple[Sequence[Any], list[int] | None]:
        """Return the first bytes of all ranks, or of a root; and all lengths if any object is longer."""
        if root is not None:
            self._check_root(root)
        if self.size == 1:
            self._arrive()
            return [data], None
        if self.on_node is not None:
            return self.on_node.bring(data, root)
        block = np.empty(FIRST.size, np.uint8)
        FIRST.pack_into(block.data, 0, len(data), data)
        if root is None:
            blocks: _Bytes = np.empty((self.size, FIRST.size), np.uint8)
            if self.between_nodes is None or not self.between_nodes.gather(block, blocks):
                self._perform("Allgather", block.nbytes, block, blocks)
        else:
            blocks = block
            if self.between_nodes is None or not self.between_nodes.fill(block, root):
                self._perform("Bcast", block.nbytes, block, root)
        lengths, found = zip(*FIRST.iter_unpack(blocks.data), strict=True)
        return found, list(lengths) if max(lengths) > ROOM else None

    def _gathered(self, obj: Any, root: int | None = None) -> list[Any]:
        """Return the objects of all ranks, or on a root only, and none on the others."""
        if root is not None and self.on_node is None and self.size > 1:
            return self._received(obj, root)
        data = self._pickler.dumps(obj)
        pickles, lengths = self._first(data)
        if lengths is not None:
            if root is not None:
                return self._received(obj, root)
            everything = np.empty(sum(lengths), np.uint8)
            self.comm.Allgatherv(np.frombuffer(data, np.uint8), (everything, lengths))
            pickles = _cut(everything, lengths)
        return list(map(self._pickler.loads, pickles)) if root in (None, self.rank) else []

    def _received(self, obj: Any, root: int) -> list[Any]:
        """Return the objects of all ranks on the root, by a message of each; the others need not wait for it."""
        private = self.private
        if self.rank != root:
            private.send(obj, root)
            return []
        own = self._pickler.loads(self._pickler.dumps(obj))
        return [own if rank == root else private.recv(rank, 0) for rank in range(self.size)]

    @functools.cached_property
    def _lengths(self) -> struct.Struct:
        return struct.Struct(f"{self.size}q")

    def _joined(self, parts: list[bytes]) -> bytes:
        """Return bytes that say how long the part for each rank is, and then are the parts."""
        return self._lengths.pack(*map(len, parts)) + b"".join(parts)

    def _bounds(self, joined: bytes) -> tuple[int, int]:
        """Return where in `_joined` bytes the part for this rank begins and ends."""
        lengths = self._lengths.unpack_from(joined)
        begin = self._lengths.size + sum(lengths[: self.rank])
        return begin, begin + lengths[self.rank]

    def _pickled_for_each(self, objs: Sequence[Any] | None, operation: str) -> list[bytes]:
        if objs is None or len(objs) != self.size:
            given = "None" if objs is None else f"{len(objs)} objects"
            raise ValueError(f"{operation} needs one object for every rank of the team: {self.size}, got {given}")
        for obj in objs:
            _refuse_array(obj, operation)
        return list(map(self._pickler.dumps, objs))


def _cut(joined: _Bytes, counts: list[int]) -> list[memoryview]:
    """Return parts of so many bytes."""
    ends = list(itertools.accumulate(counts))
    return [joined[end - count : end].data for count, end in zip(counts, ends, strict=True)]


def _refuse_array(obj: Any, operation: str) -> None:
    if isinstance(obj, np.ndarray):
        raise TypeError(
            f"{operation} pickles Python objects, which is slow for an array (shape {obj.shape}, dtype {obj.dtype}): "
            f"use {operation.capitalize()} with buffers, or .tolist() for a few numbers"
        )
