"""The C functions of `rma.c`, callable by the ranks of a team."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from gondwana import Team
from gondwana.errors import UsageError
from gondwana_bench.native.resources import NativeState

WINDOW = 64
"""Operations of a flood that are started before any is waited for, as in `rma.c`."""

Bytes = NDArray[np.uint8]
_TIMED = "ping_pong", "put", "put_message", "get", "fetch_add", "put_flood", "message_flood", "flag", "copy"


class Transfers(NativeState):
    """Messages, one-sided operations, on a node a flag and memcpy, of ranks 0 and 1 in C. Collective over team.

    The methods that time something are called by all ranks with the same arguments; ranks other than 0 and 1 return at
    once. They return the seconds on this rank. The operations of a flood, `WINDOW` a call, take `places` consecutive
    places of the memory in turns; with `both`, both ranks send, else rank 0.

    Args:
        team: a team of at least two MPI ranks. `flag` and `copy` need all of them on one node.
        nbytes: bytes of memory on each side, for the places of any flood.

    Attributes:
        exposed: memory that the peer can put to and get from.
        local: private memory of the same size.

    Raises:
        UsageError: the team has fewer ranks, or no MPI, or no C compiler was found.
    """

    def __init__(self, team: Team, nbytes: int) -> None:
        if team.size < 2 or nbytes < 8:
            raise UsageError(f"{team.size} ranks and {nbytes} bytes: give at least 2 ranks and 8 bytes")
        pointer = ctypes.POINTER(ctypes.c_uint8)
        results = {"exposed": pointer, "local": pointer, "flag_count": ctypes.c_int64}
        results |= dict.fromkeys(_TIMED, ctypes.c_double)
        on_node = int(team.node.size == team.size)
        super().__init__("rma", team, ctypes.c_int64(nbytes), on_node, results=results)
        self.exposed, self.local = (
            np.ctypeslib.as_array(self._call(name), shape=(nbytes,)) for name in ("exposed", "local")
        )

    def move(self, how: str, size: int, calls: int) -> float:
        """Move data `calls` times, one after the other.

        Args:
            how: "ping_pong": send `local` there and back; rank 0 receives in `exposed`, rank 1 in `local`. "put": put
                `local` of rank 0 to rank 1 and flush. "put_message": put `local` into `exposed` of the other rank,
                flush, and send a message without data, there and back. "get": get into `local` of rank 0 from rank 1
                and flush.
            size: bytes.
            calls: number of operations.
        """
        return self._time(how, size, ctypes.c_int64(calls))

    def fetch_add(self, calls: int) -> float:
        """Add 1 to the first word of rank 1's `exposed`, `calls` times; its old value goes to `local` of rank 0."""
        return self._time("fetch_add", ctypes.c_int64(calls))

    def flood(self, how: str, size: int, places: int, both: bool, calls: int) -> float:
        """Do `calls` windows of transfers.

        Args:
            how: "put_flood": puts, each window followed by a flush. "message_flood": messages from `local` to
                `exposed`, each window followed by an acknowledgement.
            size: bytes of a transfer.
            places: number of places, as above.
            both: whether both ranks send.
            calls: number of windows.
        """
        return self._time(how, size, places, int(both), ctypes.c_int64(calls))

    def flag(self, calls: int) -> float:
        """Raise a flag in shared memory there and back `calls` times."""
        return self._time("flag", ctypes.c_int64(calls))

    def copy(self, to: Bytes, source: Bytes, places: int, both: bool, calls: int) -> float:
        """Do `calls` windows of memcpy; all places together are `source` and `to`."""
        ends = ctypes.c_void_p(to.ctypes.data), ctypes.c_void_p(source.ctypes.data)
        size = ctypes.c_int64(source.size // places)
        return self._time("copy", *ends, size, places, int(both), ctypes.c_int64(calls))

    @property
    def flag_count(self) -> int:
        """Return how often this rank's flag has been raised. Local."""
        return int(self._call("flag_count"))

    def close(self) -> None:
        """Free the memory; the arrays are invalid afterwards. Collective over team."""
        if self._handle:
            del self.exposed, self.local
            super().close()
