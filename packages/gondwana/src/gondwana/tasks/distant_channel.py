"""Channels whose home is on another node: each operation is a remote call, which the home rank serves (`visits`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from gondwana.calls import endpoints
from gondwana.compiler.types.arguments import Described
from gondwana.errors import KernelError
from gondwana.futures import Future
from gondwana.runtime import progress
from gondwana.runtime.shared_file import SharedFile
from gondwana.tasks import visits
from gondwana.tasks.channel import ChannelClosed
from gondwana.tasks.item_rings import CLOSED, NOT_NOW
from gondwana.tasks.remote_channel import RemoteChannel
from gondwana.tasks.visits import PEEK, PUT, TAKE, Answer
from gondwana.teams import world

T = TypeVar("T")

_tickets = itertools.count(1)


class DistantChannel(RemoteChannel[T]):
    """A channel whose home is on another node, or one that its home has let go of because it is closed and empty."""

    def put(self, item: T, timeout: float | None = None) -> None:
        """Put an item; wait while there is no room: see `RemoteChannel.put`."""
        what = "room in" if self.capacity else "a taker of an item of"
        if self._visit(PUT, timeout, what, *self._pack(item))[0] == CLOSED:
            self._refuse_put()

    def put_nowait(self, item: T) -> bool:
        """Put an item if that is possible at once; return whether it was: see `RemoteChannel.put_nowait`."""
        tag, data = self._pack(item)
        position, *_ = self._call(visits.visit, PUT, _next_ticket(), False, tag, data).result()
        if position == CLOSED:
            self._refuse_put()
        accepted: bool = position != NOT_NOW
        return accepted

    def take(self, timeout: float | None = None) -> T:
        """Take the next item; wait while there is none: see `RemoteChannel.take`."""
        return self._receive(self._visit(TAKE, timeout, "an item of"))

    def take_nowait(self, default: Any = None) -> T | Any:
        """Take the next item, or return `default` if there is none: see `RemoteChannel.take_nowait`."""
        answer = self._call(visits.visit, TAKE, _next_ticket(), False).result()
        return default if answer[0] == NOT_NOW else self._receive(answer)

    def peek(self, timeout: float | None = None) -> T:
        """Return the next item and leave it in the channel: see `RemoteChannel.peek`."""
        return self._receive(self._visit(PEEK, timeout, "an item of"))

    def close(self) -> None:
        """Let no more items in: see `RemoteChannel.close`."""
        self._call(visits.close).result()

    @property
    def closed(self) -> bool:
        """Whether it is closed: there may still be items. Asks the home rank."""
        answer: bool = self._call(visits.is_closed).result()
        return answer

    def __len__(self) -> int:
        """Return the number of items in it now. Asks the home rank."""
        answer: int = self._call(visits.count).result()
        return answer

    # -- calls ---------------------------------------------------------------------------------------------------

    def _call(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        return endpoints.request(self.home, world, function, (self._key[1], *args), {})

    def _visit(self, purpose: int, timeout: float | None, what: str, *item: Any) -> Answer:
        """Have the home rank put, take or peek when that is possible."""
        progress.refuse_in_callback(f"{what} {self!r}")
        ticket = _next_ticket()
        visit = self._call(visits.visit, purpose, ticket, True, *item)
        try:
            answer: Answer = visit.result(timeout)
        except TimeoutError:
            if self._call(visits.withdraw, ticket).result():
                raise TimeoutError(
                    f"waited {timeout:g} s for {what} {self!r}: give a longer timeout=, or None"
                ) from None
            answer = visit.result()
        except BaseException:
            endpoints.request_nothing(self.home, world, visits.withdraw, (self._key[1], ticket), {})
            raise
        return answer

    def _receive(self, answer: Answer) -> T:
        position, tag, data = answer
        if position == CLOSED:
            raise ChannelClosed(f"{self!r} is closed, and all items have been taken")
        item: T = self._items.unpack(tag, data)
        return item

    def _refuse_put(self) -> NoReturn:
        raise ChannelClosed(f"an item was put into {self!r}, which is closed")

    def _file(self) -> SharedFile | None:
        return None

    def __gondwana_argument__(self) -> Described:
        """Refuse.

        Raises:
            KernelError: always.
        """
        raise KernelError(
            f"compiled code cannot use {self!r}, whose home is on another node, or which is closed and empty: put and "
            "take in Python, or make the channel on this node"
        )


def _next_ticket() -> visits.Ticket:
    return world.rank, next(_tickets)
