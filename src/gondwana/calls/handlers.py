"""The compiled handlers of this rank, and the active messages that run them."""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.calls import mailbox, rings
from gondwana.calls.mailbox import Mailbox, Message
from gondwana.compiler.errors import raise_from_block
from gondwana.compiler.native import BYTES_AT
from gondwana.errors import UsageError

MOST_HANDLERS = 4096
ACTIVE = 4
"""Bit of the tag of a parcel for a compiled handler."""


@dataclass
class Handled:
    """The receiver's description of an active message.

    Attributes:
        name: of the handler.
        entry: address of its machine code.
        block: its argument block.
        sources: rank in the team of each rank in the world that may send it.
        context: objects that the block refers to, kept alive.
    """

    name: str
    entry: int
    block: npt.NDArray[np.int64]
    sources: dict[int, int]
    context: tuple[Any, ...]


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
        self._replies: deque[tuple[int, int, bytes]] = deque()
        self._table = np.zeros((MOST_HANDLERS, rings.HANDLER), np.int64)
        self._rings.words[rings.HANDLERS] = self._table.ctypes.data
        self._failed = self._rings.words.data[rings.FAILED : rings.FAILED + 1]
        self._post = rings.native("post", 5)
        self._serve = rings.native("serve_messages", 2)
        self._handle_far = rings.native("handle_far", 5)

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
        self._table[number] = (handled.entry, handled.block.ctypes.data, ranks.ctypes.data, 0)
        self._handled[number] = handled

    def post(self, rank: int, number: int, data: bytes) -> bool:
        """Send a message if there is room for it now. Local; no progress."""
        place = self._rings.place.get(rank)
        if place is not None:
            return bool(self._post(self._state, place, number, id(data) + BYTES_AT, len(data)))
        sent = self._box.post(rank, rings.CALL, ACTIVE, number, data)
        self._box.sent[rank] += sent
        return sent

    def send_later(self, rank: int, number: int, data: bytes, queue: int = rings.CALL) -> None:
        """Send a message to another node now or, if there is no room, within later progress. Local."""
        self._box.sent[rank] += 1
        message = Message(ACTIVE, number, [data or b"\0"])  # in a backlog it has at least one byte
        self._box.submit(rank, queue, message)
        self._box.keep(message)

    def serve(self) -> bool:
        """Run the handlers of messages that have arrived; return whether there were any. Local.

        Raises:
            Exception: that of a handler.
        """
        done = False
        while self._replies:
            done = True
            self.handle(*self._replies.popleft(), is_reply=True)
        if self._box.seen & mailbox.MESSAGES or self._failed[0]:
            done |= self.serve_node()
        return done

    def serve_node(self) -> bool:
        """Run the handlers of messages from this node, whether `poll` has found some or not. Local.

        Raises:
            Exception: that of a handler.
        """
        done = self._serve(self._state, rings.MOST_PER_POLL)
        self._raise_failure()
        return bool(done)

    def keep_reply(self, rank: int, number: int, data: Any) -> None:
        """Keep a reply from another node until user-level progress runs its handler. Local."""
        self._replies.append((rank, number, bytes(data)))

    def handle(self, rank: int, number: int, data: Any, *, is_reply: bool = False) -> None:
        """Run the handler of a message from another node. Local."""
        handled, content = self._handled[number], bytes(data)
        place = 0 if is_reply else -1 - rank
        while not self._handle_far(self._state, number, place, handled.sources[rank], id(content) + BYTES_AT):
            os.sched_yield()
        self._box.finished[rank] += 1
        self._raise_failure()
        words = self._rings.words
        answer, nbytes = words[rings.FAR_REPLY : rings.FAR_REPLY + 2].tolist()
        if answer:
            words[rings.FAR_REPLY] = 0
            self.send_later(rank, answer - 1, words[rings.FAR_REPLY + 2 :].tobytes()[:nbytes], rings.CALL_REPLY)

    def _raise_failure(self) -> None:
        if self._failed[0]:
            handled = self._handled[self._failed[0] - 1]
            self._failed[0] = 0
            try:
                raise_from_block(handled.block.ctypes.data_as(ctypes.c_void_p), handled.name)
            finally:
                handled.block[:2] = 0

    def totals(self, ranks: Sequence[int]) -> tuple[int, int]:
        """Return how many messages this rank has sent to some ranks of its node and handled from them. Local."""
        sent = finished = 0
        words = self._rings.words
        for rank in ranks:
            if rank in self._rings.place:
                for queue in (rings.MESSAGE, rings.MESSAGE_REPLY):
                    sent += int(words[self._rings.out_block(queue, rank) + rings.COUNT])
                    finished += int(words[self._rings.in_block(queue, rank) + rings.COUNT])
        return sent, finished


_own: Handlers | None = None


def own() -> Handlers:
    """Return the handlers of this rank. Local."""
    global _own
    if _own is None:
        _own = Handlers(mailbox.own())
    return _own


def opened() -> Handlers | None:
    """Return the handlers of this rank, None if there are none. Local."""
    return _own
