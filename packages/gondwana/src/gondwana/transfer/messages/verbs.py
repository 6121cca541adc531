"""Messages under one name for Python and for compiled code: `gw.send`, `gw.recv`, `gw.isend`, ...

In Python these are short forms of methods of `Team`. Inside `@gw.jit` functions they call MPI directly, without the
interpreter and without the GIL; a rank that is in compiled code and one that is in Python can talk to each other. User
level progress (remote calls, callbacks) is made by the Python forms only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from gondwana.compiler.mpi import objects
from gondwana.compiler.native import Native
from gondwana.runtime import ordering, progress
from gondwana.runtime.watching import waits
from gondwana.teams import Request, Team, mpi

Buffer: TypeAlias = Any
"""An ndarray or an `Array` without gaps."""

_finish = Native("gondwana.transfer.messages.direct_native", "finish", 1, brief=True)


def send(team: Team, buf: Buffer, dest: int, tag: int = 0) -> None:
    """Send an array to a rank. Blocking until it may be changed; the memory of `buf` is host memory.

    Messages between two ranks with one tag arrive in the order in which they were sent. It may block until the
    receiver has come to its `recv`: two ranks that send to each other use `sendrecv`. Callable in compiled code.

    Args:
        team: Ranks among which `dest` counts.
        buf: An ndarray or an Array without gaps; elements travel in the order of their indices. Compiled code refuses
            Fortran's order, in which it would have to copy them.
        dest: Rank of the receiver.
        tag: Number from 0 that the receiver asks for.

    Raises:
        ValueError: `buf` has gaps, or there is no such rank.

    Example:
        >>> import gondwana as gw
        >>> if gw.world.size > 1 and gw.world.rank == 0:
        ...     gw.send(gw.world, np.arange(3.0), 1)
    """
    team.Send(memory_of(buf), dest, tag)


def recv(team: Team, buf: Buffer, source: int, tag: int = 0) -> None:
    """Receive what a rank sends with this tag. Blocking until it is in `buf`. Callable in compiled code.

    Args:
        team: Ranks among which `source` counts.
        buf: An ndarray or an Array without gaps, at least as large as the message.
        source: Rank of the sender.
        tag: Number that the sender gives.

    Raises:
        ValueError: `buf` has gaps or is read-only, or there is no such rank.
        RuntimeError: the message is larger than `buf` (without MPI, a ValueError).

    Example:
        >>> import gondwana as gw
        >>> a = np.zeros(3)
        >>> if gw.world.size > 1 and gw.world.rank == 1:
        ...     gw.recv(gw.world, a, 0)
    """
    team.Recv(memory_of(buf), source, tag)


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
    team.Sendrecv(memory_of(sendbuf), dest, tag, memory_of(recvbuf), source, tag)


def isend(team: Team, buf: Buffer, dest: int, tag: int = 0) -> Request:
    """Start to send an array to a rank. Non-blocking. Callable in compiled code.

    Arguments as for `send`. The memory must stay unchanged until the request is complete; the request keeps it alive.

    Returns:
        The request, for `gw.wait_all`. In compiled code it is an integer, which may be stored and returned: keep
        several in a tuple or an array of int64. Wait for each once: until then what it keeps is not freed.

    Example:
        >>> import gondwana as gw
        >>> left, right = (gw.world.rank - 1) % gw.world.size, (gw.world.rank + 1) % gw.world.size
        >>> a, b = np.array([gw.world.rank]), np.array([-1])
        >>> gw.wait_all([gw.irecv(gw.world, b, left), gw.isend(gw.world, a, right)])
        >>> int(b[0]) == left
        True
    """
    return team.Isend(memory_of(buf), dest, tag)


def irecv(team: Team, buf: Buffer, source: int, tag: int = 0) -> Request:
    """Start to receive what a rank sends with this tag. Non-blocking. Callable in compiled code.

    Arguments as for `recv`. The memory belongs to the message until the request is complete.

    Returns:
        The request, as that of `isend`.
    """
    return team.Irecv(memory_of(buf), source, tag)


@ordering.counted
def wait_all(requests: Iterable[Request | int]) -> None:
    """Wait until requests are complete. Blocking; user-level progress. Callable in compiled code.

    Args:
        requests: Requests, or integers that `isend` and `irecv` have returned in compiled code, each of which can be
            waited for once, by any thread of this process. In compiled code they are a tuple, a list or an array of
            int64. An integer 0 stands for no request.

    Raises:
        ProgressError: called inside a callback before they have completed.
        Exception: MPI has refused an operation.
    """
    for request in requests:
        if not isinstance(request, int | np.integer):
            request.wait()
        elif request != 0:
            _wait_for(int(request))


def _wait_for(request: int) -> None:
    found: int = 0
    words = [_load(request + objects.MESSAGE_AT + 8 * word) for word in range(5)]

    def done() -> bool:
        nonlocal found
        found = _finish.call(request)
        return found <= 0

    progress.wait_until(done, "a request of compiled code", why=partial(_standing, *words))
    objects.release()
    if found < 0:
        raise mpi.module().Exception(-found)


def _standing(kind: int, ranks: int, place: int, tag: int, nbytes: int) -> waits.Wait:
    return _describe(waits.KINDS[kind], ranks, place, tag)._replace(nbytes=nbytes)


def _load(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _describe(kind: str, ranks: int, place: int, tag: int) -> waits.Wait:
    """Describe the message that compiled code waits for."""
    return waits.of_message(kind, (_load(ranks + 8 * place),), 0, tag)


for _kind in (waits.SEND, waits.RECEIVE):
    waits.describe_by(_kind, partial(_describe, _kind))


def memory_of(buf: Buffer) -> np.ndarray[Any, Any]:
    """Return a buffer as an array. Local."""
    array: np.ndarray[Any, Any] = buf if isinstance(buf, np.ndarray) else buf.numpy()
    return array
