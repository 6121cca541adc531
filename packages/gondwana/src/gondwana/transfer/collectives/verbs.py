"""Collectives under one name for Python and for compiled code: `gw.barrier`, `gw.bcast`, `gw.allreduce`.

Few bytes travel through memory where all ranks of the team share some, others through MPI, whose collectives serve
nobody meanwhile. Ranks in compiled code and ranks in Python can meet in the same collective.

In jobs with several nodes nobody blocks inside MPI before all ranks have come: another rank may wait until this one has
applied a signalled put (`sync.delivery`) before it comes. Few ranks send each other what they contribute, of which each
makes the result; sums of many ranks or many bytes are MPI's, behind a barrier.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gondwana.errors import UsageError
from gondwana.runtime import progress
from gondwana.sync import delivery
from gondwana.teams import Op, Team, mpi
from gondwana.teams.buffers import are_plain, as_message, as_operand, deliver, staged
from gondwana.teams.ops import Operation, fold, operation_on
from gondwana.teams.request import complete
from gondwana.transfer.collectives.on_node import can_combine
from gondwana.transfer.messages.verbs import Buffer, memory_of

MOST_SENDERS = 8
"""Ranks up to which each sends its contribution to all others."""
MOST_GATHERED = 4096
"""Bytes that a rank gathers at most: the room that compiled code has for them."""


def gathers(ranks: int, nbytes: int) -> bool:
    """Return whether ranks between nodes gather contributions of so many bytes to combine them. Local."""
    return 1 < ranks <= MOST_SENDERS and ranks * nbytes <= MOST_GATHERED


def barrier(team: Team) -> None:
    """Wait until all ranks have come here. Collective over team. Blocking; user-level progress, in Python only.

    Callable in compiled code. It orders nothing but what was complete before: wait for transfers first.

    Raises:
        UsageError: other ranks are in another collective of the team.

    Example:
        >>> import gondwana as gw
        >>> gw.barrier(gw.world)
    """
    team.barrier()


def bcast(team: Team, buf: Buffer, root: int = 0) -> None:
    """Fill an array with that of one rank. Collective over team. Blocking. Callable in compiled code.

    The root may return before the others have come. Up to 8 KiB, and in jobs with several nodes, ranks in Python make
    user-level progress meanwhile.

    Args:
        team: the ranks.
        buf: an ndarray or an Array without gaps, of one size and dtype on all ranks; in Python also an array without
            gaps in the memory of a device of this rank. In any memory order in Python, in C's in compiled code.
        root: the rank whose data it becomes, the same on all ranks.

    Raises:
        ValueError: `buf` has gaps, or is read-only.
        UsageError: there is no such rank, or other ranks are in another collective of the team.

    Example:
        >>> import gondwana as gw
        >>> a = np.array([gw.world.rank + 7])
        >>> gw.bcast(gw.world, a)
        >>> a.tolist()
        [7]
    """
    buffer = as_message(_in_host_memory(buf, load=root == team.rank), "buf", writable=root != team.rank)
    if not 0 <= root < team.size:
        raise UsageError(f"bcast from rank {root}: the ranks of {team.name} are 0 to {team.size - 1}")
    if team.on_node is not None and buffer.nbytes <= team.on_node.largest:
        team.on_node.bcast(buffer, root)
    elif delivery.opened() is None:
        team.comm.Bcast(mpi.message(team.comm, buffer), root)  # as compiled code calls it: the two may meet
    else:
        progress.refuse_in_callback("gw.bcast")
        complete(team.comm.Ibcast(mpi.message(team.comm, buffer), root), "gw.bcast")
    if root != team.rank:
        deliver(buffer)


def allreduce(team: Team, value: Any, op: Operation = "sum") -> Any:
    """Combine what all ranks give. Collective over team. Blocking. Callable in compiled code.

    Up to 8 KiB of integers or real numbers, ranks of one node combine in the order of the ranks, and so do up to eight
    ranks of several nodes up to 4 KiB in all; they make user-level progress meanwhile when they are in Python.
    Everything else is MPI's own reduction. On one node it serves nobody meanwhile; `team.allreduce` and
    `team.Allreduce` do. In jobs with several nodes ranks in Python make user-level progress until all have come.

    Args:
        team: the ranks.
        value: a number of the same dtype on all ranks (int is int64, float is float64), or an ndarray or Array without
            gaps, of one size and dtype on all ranks, which is combined in place, element by element; in Python also an
            array without gaps in the memory of a device of this rank. In any memory order in Python, in C's in compiled
            code.
        op: "sum", "prod", "max", "min"; of integers also "band", "bor", "bxor"; of integers and bools "land", "lor",
            "lxor"; or `gw.MAX` and so on, or in Python mpi4py's `MPI.MAX`. Compiled code must know it: a literal, or an
            argument that Python gives.

    Returns:
        The combined number, of the same dtype on all ranks; None for an array.

    Raises:
        UsageError: there is no such operation, or it does not fit the dtype.

    Example:
        >>> import gondwana as gw
        >>> gw.allreduce(gw.world, 1) == gw.world.size
        True
        >>> a = np.array([1.0, gw.world.rank])
        >>> gw.allreduce(gw.world, a, "max")
        >>> a.tolist() == [1.0, gw.world.size - 1]
        True
    """
    if is_array := type(value) is np.ndarray and are_plain(value, value):
        buffer = value  # most are such
        meant = operation_on(buffer.dtype, op, "allreduce")
    else:
        given = staged(value)
        is_array = isinstance(given, np.ndarray) or hasattr(given, "numpy")
        buffer = _in_host_memory(given) if is_array else np.array(given).reshape(1)
        meant = operation_on(buffer.dtype, op, "allreduce")
        if is_array:
            buffer = as_operand(buffer, "value", writable=True)
    if team.on_node is None or not team.on_node.allreduce(buffer, buffer, meant):
        _combine(team, buffer, meant)  # as compiled code does: the two may meet
    deliver(buffer)
    return None if is_array else buffer[0] if isinstance(value, np.generic) else buffer[0].item()


def _in_host_memory(buf: Buffer, *, load: bool = True) -> Any:
    """Return an array as memory on the host in C's order: its own, or what stands in for it."""
    found = staged(buf, load=load)
    return found if isinstance(found, np.ndarray) else staged(memory_of(found), load=load)


def _combine(team: Team, buffer: np.ndarray[Any, Any], op: Op) -> None:
    """Combine arrays in place by MPI. Collective over team; blocking."""
    if delivery.opened() is not None:
        progress.refuse_in_callback("gw.allreduce")
        if team.on_node is None and gathers(team.size, buffer.nbytes) and can_combine(buffer.dtype, op):
            _gather_and_fold(team, buffer, op)
            return
        complete(team.comm.Ibarrier(), "gw.allreduce")
    team.comm.Allreduce(mpi.in_place(team.comm), buffer, mpi.reduction(team.comm, buffer.dtype, op))


def _gather_and_fold(team: Team, buffer: np.ndarray[Any, Any], op: Op) -> None:
    """Send the contribution to all ranks, and combine those of all in the order of the ranks."""
    mine = buffer.reshape(-1)
    gathered = np.empty((team.size, mine.size), mine.dtype)
    complete(team.comm.Iallgather(mine.view(np.uint8), gathered.view(np.uint8)), "gw.allreduce")
    fold(list(gathered), mine, op)
