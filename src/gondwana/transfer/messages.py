"""Messages and collectives under one name for Python and for compiled code: `gw.send`, `gw.recv`, `gw.allreduce`, ...

In Python these are short forms of methods of `Team`. Inside `@gw.jit` functions they call MPI directly, without the
interpreter and without the GIL; a rank that is in compiled code and one that is in Python can talk to each other. User
level progress (remote calls, callbacks) is made by the Python forms only.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from gondwana.compiler.types.arguments import register_describer
from gondwana.compiler.types.handles import describe_handle, extend
from gondwana.teams import IN_PLACE, Op, Request, Team, mpi
from gondwana.teams.ops import Operation, operation_on

Buffer: TypeAlias = Any
"""An ndarray or an `Array` without gaps."""


def send(team: Team, buf: Buffer, dest: int, tag: int = 0) -> None:
    """Send an array to a rank. Blocking until it may be changed; the memory of `buf` is host memory.

    Messages between two ranks with one tag arrive in the order in which they were sent. It may block until the
    receiver has come to its `recv`: two ranks that send to each other use `sendrecv`. Callable in compiled code.

    Args:
        team: the ranks among which `dest` counts.
        buf: an ndarray or an Array without gaps; what travels is its memory.
        dest: rank of the receiver.
        tag: from 0; the receiver asks for it.

    Raises:
        ValueError: `buf` has gaps, or there is no such rank.

    Example:
        >>> import gondwana as gw
        >>> if gw.world.size > 1 and gw.world.rank == 0:
        ...     gw.send(gw.world, np.arange(3.0), 1)
    """
    team.Send(_memory(buf), dest, tag)


def recv(team: Team, buf: Buffer, source: int, tag: int = 0) -> None:
    """Receive what a rank sends with this tag. Blocking until it is in `buf`. Callable in compiled code.

    Args:
        team: the ranks among which `source` counts.
        buf: an ndarray or an Array without gaps, at least as large as the message.
        source: rank of the sender.
        tag: the one that the sender gives.

    Raises:
        ValueError: `buf` has gaps or is read-only, or there is no such rank.
        RuntimeError: the message is larger than `buf` (without MPI, a ValueError).

    Example:
        >>> import gondwana as gw
        >>> a = np.zeros(3)
        >>> if gw.world.size > 1 and gw.world.rank == 1:
        ...     gw.recv(gw.world, a, 0)
    """
    team.Recv(_memory(buf), source, tag)


def sendrecv(team: Team, sendbuf: Buffer, dest: int, recvbuf: Buffer, source: int, tag: int = 0) -> None:
    """Send one array and receive another, in either order. Blocking until both are done. Callable in compiled code.

    What a ring and a shift need: no rank waits for its turn. Arguments as for `send` and `recv`; the two buffers must
    not overlap.

    Example:
        >>> import gondwana as gw
        >>> left, right = (gw.world.rank - 1) % gw.world.size, (gw.world.rank + 1) % gw.world.size
        >>> a, b = np.array([gw.world.rank]), np.array([-1])
        >>> gw.sendrecv(gw.world, a, right, b, left)
        >>> int(b[0]) == left
        True
    """
    arrival = team.Irecv(_memory(recvbuf), source, tag)
    team.Send(_memory(sendbuf), dest, tag)
    arrival.wait()


def isend(team: Team, buf: Buffer, dest: int, tag: int = 0) -> Request:
    """Start to send an array to a rank. Non-blocking. Callable in compiled code.

    Arguments as for `send`. The memory must stay unchanged, and in compiled code alive, until the request is complete.

    Returns:
        The request, for `gw.wait_all`. In compiled code it is an integer: keep several in a tuple or an array of int64.

    Example:
        >>> import gondwana as gw
        >>> left, right = (gw.world.rank - 1) % gw.world.size, (gw.world.rank + 1) % gw.world.size
        >>> a, b = np.array([gw.world.rank]), np.array([-1])
        >>> gw.wait_all([gw.irecv(gw.world, b, left), gw.isend(gw.world, a, right)])
        >>> int(b[0]) == left
        True
    """
    return team.Isend(_memory(buf), dest, tag)


def irecv(team: Team, buf: Buffer, source: int, tag: int = 0) -> Request:
    """Start to receive what a rank sends with this tag. Non-blocking. Callable in compiled code.

    Arguments as for `recv`. The memory belongs to the message until the request is complete.

    Returns:
        The request, as that of `isend`.
    """
    return team.Irecv(_memory(buf), source, tag)


def allreduce(team: Team, value: Any, op: Operation = "sum") -> Any:
    """Combine what all ranks give. Collective over team. Blocking. Callable in compiled code.

    MPI's own reduction, which serves nobody meanwhile; `team.allreduce` and `team.Allreduce` do.

    Args:
        team: the ranks.
        value: a number of the same dtype on all ranks (int is int64, float is float64), or an ndarray or Array without
            gaps, of one size and dtype on all ranks, which is combined in place, element by element.
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
    is_array = isinstance(value, np.ndarray) or hasattr(value, "numpy")
    buffer = _memory(value) if is_array else np.array(value).reshape(1)
    meant = operation_on(buffer.dtype, op, "allreduce")
    in_place, operation = (mpi.native(team.comm, thing) for thing in (IN_PLACE, meant))
    team.comm.Allreduce(in_place, buffer, operation)  # as compiled code calls it: the two may meet
    return None if is_array else buffer[0] if isinstance(value, np.generic) else buffer[0].item()


def barrier(team: Team) -> None:
    """Wait until all ranks have come here. Collective over team. Blocking; user-level progress, in Python only.

    Callable in compiled code. It orders nothing but what was complete before: wait for transfers first.

    Example:
        >>> import gondwana as gw
        >>> gw.barrier(gw.world)
    """
    team.barrier()


def _memory(buf: Buffer) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = buf if isinstance(buf, np.ndarray) else buf.numpy()
    return array


register_describer(Op, lambda op: describe_handle("operation", (op.name,), ()))
extend("gondwana.transfer.messages_overloads")
