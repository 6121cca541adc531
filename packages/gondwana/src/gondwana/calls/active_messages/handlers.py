"""The compiled handlers of this rank, and the active messages that run them."""

from __future__ import annotations

import ctypes
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.calls import mailbox
from gondwana.calls.mailbox import Mailbox
from gondwana.compiler import externs
from gondwana.compiler.native import BYTES_AT, DATA_AT, Native
from gondwana.compiler.reports.touching import flushing
from gondwana.errors import GondwanaError, UsageError
from gondwana.runtime.races import reporter
from gondwana.sync import rings

MOST_HANDLERS = 4096
_NAMES, _RANK_BITS = -(1 << 60), 20
"""First of the names of messages for the race detector, and bits of a rank in them."""

_MODULE = "gondwana.calls.active_messages.message_native"
_post = Native(_MODULE, "post", 5, brief=True)
_post_payload = Native(_MODULE, "post_payload", 8, brief=True)
_serve = Native(_MODULE, "serve_messages", 2, brief=True, reports=True)


@dataclass
class Handled:
    """The receiver's description of an active message.

    Attributes:
        name: of the handler.
        entry: address of its machine code.
        block: its argument block.
        sources: rank in the team of each rank in the world that may send it.
        context: objects that the block refers to, kept alive.
        longest_reply: bytes of the longest reply that it can send, -1 if it can send none.
    """

    name: str
    entry: int
    block: npt.NDArray[np.int64]
    sources: dict[int, int]
    context: tuple[Any, ...]
    longest_reply: int


class Handlers:
    """The handlers of this rank. Local.

    Args:
        box: the mailbox of this rank.
    """

    def __init__(self, box: Mailbox) -> None:
        self._box = box
        self._rings = box.rings
        self._state = box.rings.state
        self._handled: dict[int, Handled] = {}
        self._table = np.zeros((MOST_HANDLERS, rings.HANDLER), np.int64)
        self._rings.words[rings.HANDLERS] = self._table.ctypes.data
        self._failed = self._rings.words.data[rings.FAILED : rings.FAILED + 1]
        self._post, self._post_payload, self._serve = _post.call, _post_payload.call, _serve.call

    @property
    def free(self) -> int:
        """The lowest number above those of all handlers."""
        return max(self._handled, default=-1) + 1

    def enter(self, number: int, handled: Handled) -> None:
        """Register the handler of messages with a number. Local.

        Raises:
            UsageError: there are too many.
        """
        if number >= MOST_HANDLERS:
            raise UsageError(f"more than {MOST_HANDLERS} active messages: create them once, not in a loop")
        ranks = np.array([handled.sources.get(rank, -1) for rank in self._rings.ranks], np.int64)
        handled.context = (*handled.context, ranks)
        self._table[number] = (handled.entry, handled.block.ctypes.data, ranks.ctypes.data, handled.longest_reply)
        self._handled[number] = handled

    def post(self, rank: int, number: int, numbers: bytes, payload: npt.NDArray[Any] | None = None) -> bool:
        """Send a message if there is room for it now. Local; no progress.

        Raises:
            GondwanaError: the rank is on another node, and cannot be sent to.
        """
        place, address = self._rings.place[rank], id(numbers) + BYTES_AT
        if payload is None:
            sent = self._post(self._state, place, number, address, len(numbers))
        else:
            what = id(payload) + DATA_AT, payload.nbytes, payload.size
            sent = self._post_payload(self._state, place, number, address, len(numbers), *what)
        if sent < 0:
            raise GondwanaError(
                f"an active message to rank {rank} of another node: MPI failed, or this process is a copy of a rank, "
                "made by os.fork, which sends nothing"
            )
        return bool(sent)

    def serve(self) -> bool:
        """Run the handlers of messages that have arrived; return whether there were any. Local.

        Raises:
            Exception: that of a handler.
        """
        if self._box.seen & mailbox.MESSAGES or self._failed[0]:
            return self._run()
        return False

    def serve_alone(self) -> None:
        """Receive active messages and run their handlers, without other progress. Local.

        Raises:
            Exception: that of a handler.
        """
        self._rings.receive()
        self._run()

    @flushing
    def _run(self) -> bool:
        done = self._serve(self._state, rings.MOST_PER_POLL)
        self._raise_failure()
        return bool(done)

    def _raise_failure(self) -> None:
        if self._failed[0]:
            handled = self._handled[self._failed[0] - 1]
            self._failed[0] = 0
            from gondwana.compiler.debugging.errors import raise_from_block

            try:
                raise_from_block(handled.block.ctypes.data_as(ctypes.c_void_p), handled.name)
            finally:
                handled.block[:2] = 0


_own: Handlers | None = None
_messages: Counter[tuple[int, int, int]] = Counter()
"""Number of messages so far, by queue, source and target."""


def report(queue: int, place: int, is_sent: int) -> None:
    """Tell the race detector that a message is to be sent, or to be handled. Local. Called by machine code, too.

    Args:
        queue: MESSAGE or MESSAGE_REPLY.
        place: of the other rank.
        is_sent: whether this rank sends it.
    """
    assert reporter is not None
    ends = reporter.rank, int(own()._rings.ranks[place])
    source, target = ends if is_sent else ends[::-1]
    _messages[queue, source, target] += 1
    name = _NAMES - ((queue << _RANK_BITS | source) << _RANK_BITS | target), _messages[queue, source, target]
    if is_sent:
        reporter.post(name)
    else:
        reporter.take(name, site=reporter.site("active message"))


REPORT = externs.provide("message", ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(report))
"""The name by which machine code calls `report`."""


def own() -> Handlers:
    """Return the handlers of this rank. Local."""
    global _own
    if _own is None:
        _own = Handlers(mailbox.own())
    return _own


def opened() -> Handlers | None:
    """Return the handlers of this rank, None if there are none. Local."""
    return _own
