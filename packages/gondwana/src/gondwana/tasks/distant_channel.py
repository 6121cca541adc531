"""Channels whose home is on another node: each operation is a remote call, which the home rank serves.

A request of a rank becomes a visit there, which is attempted at once, after earlier ones of its kind, and then by
progress, until it succeeds or its rank withdraws it. Closing waits for the items that have been sent before.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from gondwana.calls import endpoints
from gondwana.calls.reported import serving
from gondwana.compiler.types.arguments import Described
from gondwana.errors import KernelError
from gondwana.futures import Future, Promise
from gondwana.runtime import progress
from gondwana.runtime.shared_file import SharedFile
from gondwana.runtime.watching import waits
from gondwana.tasks import item_rings, remote_channel
from gondwana.tasks.remote_channel import RemoteChannel
from gondwana.teams import world

T = TypeVar("T")

_tickets = itertools.count(1)

Answer = tuple[int, int, Any]
"""A position in the ring, `NOT_NOW` or `CLOSED`; the tag and the bytes of the item, if one was requested."""

Ticket = tuple[int, int]
"""Identity of a visit: the world rank that requests it, and its number there."""

PUT, TAKE, PEEK = range(3)

_NOT_NOW: Answer = (item_rings.NOT_NOW, 0, None)
_GONE: Answer = (item_rings.CLOSED, 0, None)


class DistantChannel(RemoteChannel[T]):
    """A channel whose home is on another node, or one that its home has dropped because it is closed and empty."""

    def put(self, item: T, timeout: float | None = None) -> None:
        """Put an item; wait while the channel is full: see `RemoteChannel.put`."""
        what = "room in" if self.capacity else "a taker of an item of"
        if self._visit(PUT, timeout, what, *self._pack(item))[0] == item_rings.CLOSED:
            raise self._refused()

    def put_nowait(self, item: T) -> bool:
        """Put an item if that is possible at once; return whether it was: see `RemoteChannel.put_nowait`."""
        tag, data = self._pack(item)
        position, *_ = self._call(attend, PUT, _next_ticket(), False, tag, data).result()
        if position == item_rings.CLOSED:
            raise self._refused()
        accepted: bool = position != item_rings.NOT_NOW
        return accepted

    def take(self, timeout: float | None = None) -> T:
        """Take the next item; wait while the channel is empty: see `RemoteChannel.take`."""
        return self._receive(self._visit(TAKE, timeout, "an item of"))

    def take_nowait(self, default: Any = None) -> T | Any:
        """Take the next item, or return `default` if the channel is empty: see `RemoteChannel.take_nowait`."""
        answer = self._call(attend, TAKE, _next_ticket(), False).result()
        return default if answer[0] == item_rings.NOT_NOW else self._receive(answer)

    def peek(self, timeout: float | None = None) -> T:
        """Return the next item and leave it in the channel: see `RemoteChannel.peek`."""
        return self._receive(self._visit(PEEK, timeout, "an item of"))

    def close(self) -> None:
        """Refuse further items: see `RemoteChannel.close`."""
        self._call(close).result()

    @property
    def closed(self) -> bool:
        """Whether it is closed; it may still contain items. Asks the home rank."""
        answer: bool = self._call(is_closed).result()
        return answer

    def __len__(self) -> int:
        """Return the present number of items. Asks the home rank."""
        answer: int = self._call(count).result()
        return answer

    # -- calls ---------------------------------------------------------------------------------------------------

    def _call(self, function: Callable[..., Any], *args: Any) -> endpoints.Answer[Any]:
        return endpoints.request(self.home, world, function, (self._key[1], *args), {})

    def _visit(self, purpose: int, timeout: float | None, what: str, *item: Any) -> Answer:
        """Have the home rank put, take or peek when that is possible."""
        progress.refuse_in_callback(f"{what} {self!r}")
        ticket = _next_ticket()
        visit = self._call(attend, purpose, ticket, True, *item)
        try:
            answer: Answer = visit.result_of(lambda: waits.Wait(f"for {what} {self!r}", waits.CHANNEL), timeout)
        except TimeoutError:
            if self._call(withdraw, ticket).result():
                raise TimeoutError(
                    f"waited {timeout:g} s for {what} {self!r}: give a longer timeout=, or None"
                ) from None
            answer = visit.result()
        except BaseException:
            endpoints.request_nothing(self.home, world, withdraw, (self._key[1], ticket), {})
            raise
        return answer

    def _receive(self, answer: Answer) -> T:
        position, tag, data = answer
        if position == item_rings.CLOSED:
            raise self._drained()
        item: T = self._items.unpack(tag, data)
        return item

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


def _next_ticket() -> Ticket:
    return world.rank, next(_tickets)


class _Visit(Protocol):
    """A request of a rank."""

    def attempt(self, bit: int) -> Answer:
        """Try it; with a bit, ask to be woken when it may be possible."""

    def withdraw(self) -> bool:
        """Undo the attempts; return False if it has succeeded meanwhile."""


class _Put:
    def __init__(self, channel: RemoteChannel[Any], tag: int, data: Any) -> None:
        self._channel, self._position = channel, item_rings.NOT_NOW
        if len(data) > channel._items.largest:
            tag, data = tag | item_rings.OUTSIDE, item_rings.write_outside(data)
        self._data, self._word = bytes(data), len(data) | tag << item_rings.SIZE_BITS

    def attempt(self, bit: int) -> Answer:
        channel = self._channel
        code, at = channel._code, channel._at
        if self._position == item_rings.NOT_NOW:
            self._position = int(
                code.push_soon(at, item_rings.address_of(self._data), self._word, channel._bells, 1, bit)
            )
        if self._position >= 0 and channel.capacity == 0 and not code.taken_soon(at, self._position, 1, bit):
            return _NOT_NOW
        if self._position == item_rings.CLOSED:
            self._free()
        return self._position, 0, None

    def withdraw(self) -> bool:
        undone = (
            self._position == item_rings.NOT_NOW or self._channel._code.withdraw(self._channel._at, self._position) == 1
        )
        if undone:
            self._free()
        return undone

    def _free(self) -> None:
        if self._word >> item_rings.SIZE_BITS & item_rings.OUTSIDE:
            item_rings.free_outside(self._data)


class _Take:
    def __init__(self, channel: RemoteChannel[Any], peek: bool) -> None:
        self._channel, self._peek = channel, peek

    def attempt(self, bit: int) -> Answer:
        channel = self._channel
        code, at = channel._code, channel._at
        buffer = np.empty_like(channel._buffer)
        out = buffer.ctypes.data
        if self._peek:
            position = int(code.peek(at, out, channel._bells, bit))
        else:
            position = int(code.pull_soon(at, out, channel._bells, 1, bit))
        if position < 0:
            return position, 0, None
        tag, data = channel._bytes_of(buffer, not self._peek)
        return position, tag, data

    def withdraw(self) -> bool:
        return True


@dataclass(slots=True)
class _Waiting:
    ticket: Ticket
    visit: _Visit
    promise: Promise[Answer]


@dataclass(slots=True)
class _Visitors:
    """The visits that wait at one channel, in order."""

    channel: RemoteChannel[Any]
    puts: deque[_Waiting] = field(default_factory=deque)
    takes: deque[_Waiting] = field(default_factory=deque)
    closing: list[Promise[None]] = field(default_factory=list)

    def serve(self) -> bool:
        """Attempt the visits that wait first; return whether any succeeded."""
        served = self._serve(self.puts, item_rings.RING.putters) | self._serve(self.takes, item_rings.RING.takers)
        if self.closing and not self.puts:
            self.channel.close()
            for promise in self.closing:
                promise.set_result(None)
            self.closing.clear()
            served = True
        return served

    def _serve(self, line: deque[_Waiting], sleepers: int) -> bool:
        served = False
        while line:
            answer = line[0].visit.attempt(self.channel._code.bit)
            if answer[0] == item_rings.NOT_NOW:
                break
            line.popleft().promise.set_result(answer)
            served = True
        if served and not line:
            self.channel._stop_waiting(sleepers, True)
        return served

    def withdraw(self, ticket: Ticket) -> bool:
        """Withdraw a visit; return whether it had not succeeded."""
        for line, sleepers in ((self.puts, item_rings.RING.putters), (self.takes, item_rings.RING.takers)):
            for waiting in line:
                if waiting.ticket == ticket and waiting.visit.withdraw():
                    line.remove(waiting)
                    waiting.promise.set_result(_NOT_NOW)
                    if not line:
                        self.channel._stop_waiting(sleepers, False)
                    return True
        return False


_visitors: dict[int, _Visitors] = {}


def attend(number: int, purpose: int, ticket: Ticket, patient: bool, *item: Any) -> Answer | Future[Answer]:
    """Put, take or peek for a rank of another node. Runs at the home rank.

    Args:
        number: number of the channel.
        purpose: `PUT`, `TAKE` or `PEEK`.
        ticket: identity of the visit.
        patient: whether the answer may wait until the visit succeeds.
        item: tag and bytes of the item to put.
    """
    channel = remote_channel.at_home(number)
    if channel is None:
        return _GONE
    visitors = _visitors.get(number)
    if visitors is None:
        visitors = _visitors[number] = _Visitors(channel)
    line = visitors.puts if purpose == PUT else visitors.takes
    if purpose == PUT and visitors.closing:
        return _GONE
    one = _Put(channel, *item) if purpose == PUT else _Take(channel, purpose == PEEK)
    if not line or not patient:
        answer = one.attempt(channel._code.bit if patient else 0)
        if answer[0] == item_rings.NOT_NOW and not patient:
            return answer if one.withdraw() else one.attempt(0)
        if answer[0] != item_rings.NOT_NOW:
            return answer
    promise: Promise[Answer] = Promise()
    line.append(_Waiting(ticket, one, promise))
    return promise.future


def withdraw(number: int, ticket: Ticket) -> bool:
    """Withdraw a visit; return whether it had not succeeded. Runs at the home rank."""
    visitors = _visitors.get(number)
    return visitors is not None and visitors.withdraw(ticket)


def close(number: int) -> Future[None] | None:
    """Close a channel after the items that wait to be put. Runs at the home rank."""
    channel = remote_channel.at_home(number)
    visitors = _visitors.get(number)
    if channel is None or visitors is None or not visitors.puts:
        if channel is not None:
            channel.close()
        return None
    promise: Promise[None] = Promise()
    visitors.closing.append(promise)
    return promise.future


def is_closed(number: int) -> bool:
    """Return whether a channel is closed. Runs at the home rank."""
    channel = remote_channel.at_home(number)
    return channel is None or channel.closed


def count(number: int) -> int:
    """Return the number of items in a channel. Runs at the home rank."""
    channel = remote_channel.at_home(number)
    return 0 if channel is None else len(channel)


@serving
def _serve() -> bool:
    """Attempt the waiting visits of other nodes' ranks; forget channels without visits."""
    if not _visitors:
        return False
    served = False
    for number, visitors in list(_visitors.items()):
        served |= visitors.serve()
        if not (visitors.puts or visitors.takes or visitors.closing):
            del _visitors[number]
    return served


progress.register(_serve)
