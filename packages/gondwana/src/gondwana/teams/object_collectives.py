"""The collective operations of a team on Python objects, which travel pickled.

The first message of an object has a fixed length: the length of its pickle, and the pickle itself if that is short. So
one step is enough for most objects, where mpi4py sends the lengths first and then the pickles. Ranks that have the
first messages of all have all entered the collective: MPI's blocking form, which serves nobody, may bring the rest.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.runtime.tracing import each_method
from gondwana.teams import mpi
from gondwana.teams.blocking import FIRST, ROOM, Blocking
from gondwana.teams.ops import SUM, Combine, function_of

_MOST_RANKS = 32
"""Ranks that get the pickles of all; in larger teams every rank would read far more than MPI's trees bring it."""

_Bytes = npt.NDArray[np.uint8]


@each_method("collective")
class ObjectCollectives(Blocking):
    """Collective operations on Python objects, under mpi4py's names."""

    def bcast(self, obj: Any = None, root: int = 0) -> Any:
        """Return the object of rank ``root`` on every rank. Collective over team. Blocking.

        The root may return before the others have come.
        """
        data = b""
        if self.rank == root:
            _refuse_array(obj, "bcast")
            data = self._pickler.dumps(obj)
        nbytes, begin = self._first_from_root(data, root)
        if nbytes <= ROOM or self.size == 1:
            return self._pickler.loads(begin)  # which leaves what is behind the pickle
        return self._pickler.loads(self._all_from_root(data, nbytes, begin, root))

    def gather(self, obj: Any, root: int = 0) -> list[Any] | None:
        """Return every rank's object in rank order on ``root``, None on the others. Collective over team. Blocking."""
        self._check_root(root)
        _refuse_array(obj, "gather")
        if self._is_large:
            gathered: list[Any] | None = self._by_mpi("gather", obj, root)
            return gathered
        found = self._from_all(obj)
        return list(map(self._pickler.loads, found)) if self.rank == root else None

    def allgather(self, obj: Any) -> list[Any]:
        """Return every rank's object in rank order, on every rank. Collective over team. Blocking."""
        _refuse_array(obj, "allgather")
        if self._is_large:
            gathered: list[Any] = self._by_mpi("allgather", obj)
            return gathered
        return list(map(self._pickler.loads, self._from_all(obj)))

    def scatter(self, objs: Sequence[Any] | None = None, root: int = 0) -> Any:
        """Return this rank's element of the sequence of ``root``. Collective over team. Blocking.

        The root may return before the others have come.

        Args:
            objs: on ``root``, one object for every rank; ignored on the others.
            root: the rank whose data are scattered.
        """
        data, parts = b"", None
        if self.rank == root:
            parts = self._pickled_for_each(objs, "scatter")
            data = self._pickler.dumps(parts)
        nbytes, begin = self._first_from_root(data, root)
        if nbytes > ROOM and self.size > 1:
            mine = self._by_mpi("scatter", parts, root)
        else:
            mine = self._pickler.loads(begin)[self.rank]
        return self._pickler.loads(mine)

    def alltoall(self, objs: Sequence[Any]) -> list[Any]:
        """Send ``objs[r]`` to every rank r; return what every rank sent here. Collective over team. Blocking."""
        parts = self._pickled_for_each(objs, "alltoall")
        if self._is_large:
            received: list[bytes] = self._by_mpi("alltoall", parts)
        else:
            found = self._short_of_all(self._pickler.dumps(parts))
            if found is None:
                received = self.comm.alltoall(parts)
            else:
                received = [self._pickler.loads(given)[self.rank] for given in found]
        return list(map(self._pickler.loads, received))

    def reduce(self, obj: Any, op: Combine = SUM, root: int = 0) -> Any:
        """Return all objects combined with ``op`` on ``root``, None on the others. Collective over team. Blocking.

        Args:
            obj: this rank's contribution.
            op: an operation (``gw.MAX``, ``"max"``, mpi4py's ``MPI.MAX``) or a function of two objects; associative.
            root: the rank that gets the result.
        """
        self._check_root(root)
        _refuse_array(obj, "reduce")
        function = function_of(op, "reduce")
        if self._is_large:
            return self._by_mpi("reduce", obj, function, root)
        found = self._from_all(obj)
        return self._combined(found, function) if self.rank == root else None

    def allreduce(self, obj: Any, op: Combine = SUM) -> Any:
        """Return all ranks' objects combined with ``op``, on every rank. Collective over team. Blocking.

        Example:
            >>> import gondwana as gw
            >>> gw.world.allreduce(gw.world.rank, gw.MAX) == gw.world.size - 1
            True
        """
        _refuse_array(obj, "allreduce")
        function = function_of(op, "allreduce")
        if self._is_large:
            return self._by_mpi("allreduce", obj, function)
        return self._combined(self._from_all(obj), function)

    def scan(self, obj: Any, op: Combine = SUM) -> Any:
        """Return the objects of ranks 0 to this one combined with ``op``. Collective over team. Blocking."""
        _refuse_array(obj, "scan")
        function = function_of(op, "scan")
        if self._is_large:
            return self._by_mpi("scan", obj, function)
        return self._combined(self._from_all(obj)[: self.rank + 1], function)

    def exscan(self, obj: Any, op: Combine = SUM) -> Any:
        """Return the objects of the ranks before this one combined, None on rank 0. Collective over team. Blocking."""
        _refuse_array(obj, "exscan")
        function = function_of(op, "exscan")
        if self._is_large:
            return self._by_mpi("exscan", obj, function)
        found = self._from_all(obj)
        return self._combined(found[: self.rank], function) if self.rank else None

    # -- pickles -------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _pickler(self) -> Any:
        return mpi.pickler(self.comm)

    @functools.cached_property
    def _is_large(self) -> bool:
        return self.size > _MOST_RANKS

    def _by_mpi(self, collective: str, *arguments: Any) -> Any:
        """Let mpi4py do it when all ranks have come."""
        self._arrive()
        return getattr(self.comm, collective)(*arguments)

    def _first_from_root(self, data: bytes, root: int) -> tuple[int, bytes]:
        """Return the `FIRST` of the bytes of the root."""
        self._check_root(root)
        if self.size == 1:
            self._arrive()
            return len(data), data
        if self.on_node is not None:
            return self.on_node.bcast_bytes(data, root)
        block = _first_of(data)
        if self.between_nodes is None or not self.between_nodes.fill(block, root):
            self._perform("Bcast", block.nbytes, block, root)
        found: tuple[int, bytes] = FIRST.unpack_from(block.data)
        return found

    def _all_from_root(self, data: bytes, nbytes: int, begin: bytes, root: int) -> bytes | memoryview:
        """Return so many bytes of the root, of which the first are known."""
        if self.rank == root:
            self._bcast_rest(np.frombuffer(data, np.uint8)[ROOM:], root)
            return data
        everything = np.empty(nbytes, np.uint8)
        everything[:ROOM] = np.frombuffer(begin, np.uint8)
        self._bcast_rest(everything[ROOM:], root)
        return everything.data

    def _bcast_rest(self, rest: _Bytes, root: int) -> None:
        if self.on_node is not None and rest.nbytes <= self.on_node.largest:
            self.on_node.bcast(rest, root)
        else:
            self._perform("Bcast", rest.nbytes, mpi.message(self.comm, rest), root)

    def _from_all(self, obj: Any) -> list[bytes]:
        """Return the pickles of the objects of all ranks."""
        data = self._pickler.dumps(obj)
        found = self._short_of_all(data)
        if found is None:
            found = self.comm.allgather(data)
        return found

    def _short_of_all(self, data: bytes) -> list[bytes] | None:
        """Return the bytes of all ranks, and perhaps more behind; None, on all ranks, if those of any are too long."""
        if self.size == 1:
            self._arrive()
            return [data]
        found = self._first_of_all(data) if self.on_node is None else self.on_node.allgather_bytes(data)
        for nbytes, _ in found:
            if nbytes > ROOM:
                return None
        return [begin for _, begin in found]  # of pickles, which say where they end

    def _first_of_all(self, data: bytes) -> list[tuple[int, bytes]]:
        block, blocks = _first_of(data), np.empty((self.size, FIRST.size), np.uint8)
        if self.between_nodes is None or not self.between_nodes.gather(block, blocks):
            self._perform("Allgather", block.nbytes, block, blocks)
        return list(FIRST.iter_unpack(blocks.data))

    def _combined(self, pickles: list[bytes], function: Callable[[Any, Any], Any]) -> Any:
        """Combine objects in pairs, then the results in pairs: mpi4py's order, so floats have the same bits."""
        objects = list(map(self._pickler.loads, pickles))
        while len(objects) > 1:
            pairs = list(itertools.starmap(function, zip(objects[::2], objects[1::2], strict=False)))
            objects = pairs + objects[2 * len(pairs) :]
        return objects[0]

    def _pickled_for_each(self, objs: Sequence[Any] | None, operation: str) -> list[bytes]:
        if objs is None or len(objs) != self.size:
            given = "None" if objs is None else f"{len(objs)} objects"
            raise ValueError(f"{operation} needs one object for every rank of the team: {self.size}, got {given}")
        for obj in objs:
            _refuse_array(obj, operation)
        return list(map(self._pickler.dumps, objs))


def _first_of(data: bytes) -> _Bytes:
    block = np.empty(FIRST.size, np.uint8)
    FIRST.pack_into(block.data, 0, len(data), data)
    return block


def _refuse_array(obj: Any, operation: str) -> None:
    if isinstance(obj, np.ndarray):
        raise TypeError(
            f"{operation} pickles Python objects, which is slow for an array (shape {obj.shape}, dtype {obj.dtype}): "
            f"use {operation.capitalize()} with buffers, or .tolist() for a few numbers"
        )
