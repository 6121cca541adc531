"""The collective operations of a team on Python objects, and what all of its blocking operations begin with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gondwana.runtime import progress
from gondwana.runtime.tracing import each_method
from gondwana.teams import mpi
from gondwana.teams.ops import SUM, Combine, function_of


class OnNode(Protocol):
    """What a team has whose ranks are all on one node: collectives of few bytes without MPI.

    Attributes:
        address: of the memory that its ranks share, for compiled code.
        largest: contributions of up to so many bytes do without MPI.
    """

    address: int
    largest: int

    def barrier(self) -> None:
        """Wait until all ranks have come. Collective over team. Blocking; user-level progress."""

    def bcast(self, buffer: np.ndarray[Any, Any], root: int) -> None:
        """Fill a contiguous buffer that fits with that of ``root``. Collective over team. Blocking."""

    def add(self, send: Any, recv: Any) -> bool:
        """Add arrays by elements, or return False: `allreduce` or MPI must. Collective over team. Blocking."""

    def allreduce(self, send: Any, recv: Any, op: object) -> bool:
        """Combine contiguous buffers by elements, or return False: MPI must. Collective over team. Blocking."""


@each_method("collective")
class ObjectCollectives:
    """Collective operations on Python objects, under mpi4py's names. They travel by pickling; arrays are refused."""

    comm: mpi.Communicator
    rank: int
    size: int
    on_node: OnNode | None = None

    def barrier(self) -> None:
        """Wait until every rank has entered this barrier. Collective over team. Blocking; user-level progress.

        Remote calls from other ranks run here meanwhile.

        Raises:
            ProgressError: called inside a callback.
        """
        self._arrive("a barrier")

    def bcast(self, obj: Any = None, root: int = 0) -> Any:
        """Return the object of rank ``root`` on every rank. Collective over team. Blocking."""
        if self.rank == root:
            _refuse_array(obj, "bcast")
        self._arrive()
        return self.comm.bcast(obj, root)

    def gather(self, obj: Any, root: int = 0) -> list[Any] | None:
        """Return every rank's object in rank order on ``root``, None on the others. Collective over team. Blocking."""
        _refuse_array(obj, "gather")
        self._arrive()
        gathered: list[Any] | None = self.comm.gather(obj, root)
        return gathered

    def allgather(self, obj: Any) -> list[Any]:
        """Return every rank's object in rank order, on every rank. Collective over team. Blocking."""
        _refuse_array(obj, "allgather")
        self._arrive()
        gathered: list[Any] = self.comm.allgather(obj)
        return gathered

    def scatter(self, objs: Sequence[Any] | None = None, root: int = 0) -> Any:
        """Return this rank's element of the sequence of ``root``. Collective over team. Blocking.

        Args:
            objs: on ``root``, one object for every rank; ignored on the others.
            root: the rank whose data are scattered.
        """
        if self.rank == root:
            self._check_one_each(objs, "scatter")
        self._arrive()
        return self.comm.scatter(objs, root)

    def alltoall(self, objs: Sequence[Any]) -> list[Any]:
        """Send ``objs[r]`` to every rank r; return what every rank sent here. Collective over team. Blocking."""
        self._check_one_each(objs, "alltoall")
        self._arrive()
        received: list[Any] = self.comm.alltoall(objs)
        return received

    def reduce(self, obj: Any, op: Combine = SUM, root: int = 0) -> Any:
        """Return all objects combined with ``op`` on ``root``, None on the others. Collective over team. Blocking.

        Args:
            obj: this rank's contribution.
            op: an operation (``gw.MAX``, ``"max"``, mpi4py's ``MPI.MAX``) or a function of two objects; associative.
            root: the rank that gets the result.
        """
        _refuse_array(obj, "reduce")
        function = function_of(op, "reduce")
        self._arrive()
        return self.comm.reduce(obj, function, root)

    def allreduce(self, obj: Any, op: Combine = SUM) -> Any:
        """Return all ranks' objects combined with ``op``, on every rank. Collective over team. Blocking.

        Example:
            >>> import gondwana as gw
            >>> gw.world.allreduce(gw.world.rank, gw.MAX) == gw.world.size - 1
            True
        """
        _refuse_array(obj, "allreduce")
        function = function_of(op, "allreduce")
        self._arrive()
        return self.comm.allreduce(obj, function)

    def scan(self, obj: Any, op: Combine = SUM) -> Any:
        """Return the objects of ranks 0 to this one combined with ``op``. Collective over team. Blocking."""
        _refuse_array(obj, "scan")
        function = function_of(op, "scan")
        self._arrive()
        return self.comm.scan(obj, function)

    def exscan(self, obj: Any, op: Combine = SUM) -> Any:
        """Return the objects of the ranks before this one combined, None on rank 0. Collective over team. Blocking."""
        _refuse_array(obj, "exscan")
        function = function_of(op, "exscan")
        self._arrive()
        return self.comm.exscan(obj, function)

    def _arrive(self, what: str = "a collective") -> None:
        """Wait while making progress until all ranks arrive: a late one may need this rank, and MPI serves none."""
        if self.on_node is not None:
            self.on_node.barrier()
            return
        progress.refuse_in_callback(what)
        progress.wait_until(self.comm.Ibarrier().Test, what)

    def _check_one_each(self, objs: Sequence[Any] | None, operation: str) -> None:
        if objs is None or len(objs) != self.size:
            given = "None" if objs is None else f"{len(objs)} objects"
            raise ValueError(f"{operation} needs one object for every rank of the team: {self.size}, got {given}")
        for obj in objs:
            _refuse_array(obj, operation)


def _refuse_array(obj: Any, operation: str) -> None:
    if isinstance(obj, np.ndarray):
        raise TypeError(
            f"{operation} pickles Python objects, which is slow for an array (shape {obj.shape}, dtype {obj.dtype}): "
            f"use {operation.capitalize()} with buffers, or .tolist() for a few numbers"
        )
