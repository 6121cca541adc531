"""Collectives under one name for Python and for compiled code: `gw.barrier`, `gw.bcast`, `gw.allreduce`.

In Python these are short forms of methods of `Team`. Ranks in compiled code and ranks in Python, whichever form they
call, can meet in the same collective: both take the same way (`teams.blocking`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gondwana.errors import UsageError
from gondwana.teams import IN_PLACE, Team
from gondwana.teams.buffers import as_operand, staged
from gondwana.teams.ops import Operation, operation_on
from gondwana.transfer.messages.verbs import Buffer, memory_of


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

    The root may return before the others have come. Ranks in Python make user-level progress meanwhile.

    Args:
        team: Ranks that take part.
        buf: An ndarray or an Array without gaps, of one size and dtype on all ranks; in Python also an array without
            gaps in the memory of a device of this rank. In any memory order in Python, in C's in compiled code.
        root: The rank whose data it becomes, the same on all ranks.

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
    if not 0 <= root < team.size:
        raise UsageError(f"bcast from rank {root}: the ranks of {team.name} are 0 to {team.size - 1}")
    given = staged(buf, load=root == team.rank)
    team.Bcast(given if isinstance(given, np.ndarray) else memory_of(given), root)


def allreduce(team: Team, value: Any, op: Operation = "sum") -> Any:
    """Combine what all ranks give. Collective over team. Blocking. Callable in compiled code.

    It gives the same bits as `team.Allreduce`, from Python and from compiled code: up to 64 KiB of each rank, and 384
    KiB of all, are combined in the order of the ranks, between nodes of up to 16 ranks. MPI combines more. Ranks in
    Python make user-level progress meanwhile; while MPI combines more than 16 KiB of each, only until all have come.

    Args:
        team: Ranks that take part.
        value: Number of the same dtype on all ranks (int is int64, float is float64), or an ndarray or Array without
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
    given = staged(value)
    if is_array := isinstance(given, np.ndarray) or hasattr(given, "numpy"):
        buffer = given if isinstance(given, np.ndarray) else staged(memory_of(given))
    else:
        buffer = np.array(given).reshape(1)
    meant = operation_on(buffer.dtype, op, "allreduce")
    if is_array:
        buffer = as_operand(buffer, "value", writable=True)
    team.Allreduce(IN_PLACE, buffer, meant)
    return None if is_array else buffer[0] if isinstance(value, np.generic) else buffer[0].item()
