"""Channels: queues through which the tasks of a thread pass items, and wait for each other."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any, Generic, Protocol, Self, TypeVar, cast

from gondwana.errors import GondwanaError, UsageError
from gondwana.tasks import scheduler
from gondwana.tasks.task import Task

T = TypeVar("T")


class ChannelClosed(GondwanaError, ValueError):  # noqa: N818 - the usual end of a channel, as StopIteration
    """Nothing can be put into this channel any more, or taken from it."""


class Waiter(Protocol):
    """A waiter at a channel: a strand, or one of the cases that a strand has selected."""

    item: Any
    error: BaseException | None

    def __call__(self) -> None:
        """Make it ready."""


class Channel(Generic[T]):
    """A queue of items between tasks of one thread. Local.

    `put` waits while the channel is full, `take` and `peek` while it is empty; other tasks run meanwhile. Items leave
    in the order in which they have come, and waiters are served in the order of waiting. With capacity 0 each `put`
    waits until a `take` has its item.

    After `close`, puts raise `ChannelClosed`; items in the channel can still be taken, then `take` raises it too, and
    iteration ends. As a context manager a channel is closed at the end. All its tasks belong to one thread.

    Args:
        capacity: number of items that it holds; None: any number.

    Raises:
        UsageError: `capacity` is negative or not a whole number.

    Example:
        >>> import gondwana as gw
        >>> def squares(channel):
        ...     with channel:
        ...         for n in range(4):
        ...             channel.put(n * n)
        >>> channel = gw.Channel()
        >>> task = gw.Task(squares, channel).schedule()
        >>> list(channel)
        [0, 1, 4, 9]
    """

    __slots__ = ("_closed", "_items", "_keep", "_limit", "_next", "_peekers", "_putters", "_room", "_takers")

    local = True
    """Only tasks of this rank wake its waiters."""

    def __init__(self, capacity: int | None = 0) -> None:
        if capacity is not None and (not isinstance(capacity, int) or capacity < 0):
            raise UsageError(f"Channel of capacity {capacity!r}: give a whole number, 0 or more, or None for no limit")
        self._items: deque[T] = deque()
        self._keep, self._next = self._items.append, self._items.popleft
        self._limit = sys.maxsize if capacity is None else capacity
        self._room = self._limit  # or -1 if a put must do more than append
        self._takers: deque[Waiter] = deque()
        self._putters: deque[Waiter] = deque()
        self._peekers: deque[Waiter] = deque()
        self._closed = False

    # -- the three verbs: their first lines are all that happens if nobody waits --------------------------------------

    def put(self, item: T, timeout: float | None = None) -> None:
        """Append an item; wait while the channel is full. Blocks; user-level progress.

        Args:
            item: the item, passed without a copy.
            timeout: seconds; None: no limit.

        Raises:
            ChannelClosed: the channel is closed, perhaps while this waited.
            TimeoutError: the channel is still full after `timeout` seconds; the item is not in it.
            ProgressError: called inside a callback while the channel is full.
        """
        if self._takers or len(self._items) >= self._room:
            if not self._offer(item):
                self._wait(self._putters, timeout, item)
        else:
            self._keep(item)

    def take(self, timeout: float | None = None) -> T:
        """Remove the first item and return it; wait while the channel is empty. Blocks; user-level progress.

        Args:
            timeout: seconds; None: no limit.

        Raises:
            ChannelClosed: the channel is closed and empty.
            TimeoutError: no item arrived within `timeout` seconds.
            ProgressError: called inside a callback while the channel is empty.
        """
        if self._items:
            item = self._next()
            if self._putters:
                self._admit()
            return item
        if self._putters:
            return self._from_putter()
        self._refuse_closed()
        return cast(T, self._wait(self._takers, timeout))

    def peek(self, timeout: float | None = None) -> T:
        """Return the first item and leave it there; wait while the channel is empty. Blocks. See `take`."""
        if self._items:
            return self._items[0]
        if self._putters:
            return cast(T, self._putters[0].item)
        self._refuse_closed()
        self._room = -1
        return cast(T, self._wait(self._peekers, timeout))

    def put_nowait(self, item: T) -> bool:
        """Append an item if that is possible at once; return whether it was. Local; does not wait.

        Raises:
            ChannelClosed: the channel is closed.
        """
        if self._takers or len(self._items) >= self._room:
            return self._offer(item)
        self._keep(item)
        return True

    def take_nowait(self, default: Any = None) -> T | Any:
        """Remove the first item and return it, or return `default` if the channel is empty. Local; does not wait.

        Raises:
            ChannelClosed: the channel is closed and empty.
        """
        if self._items or self._putters:
            return self.take()
        self._refuse_closed()
        return default

    def close(self) -> None:
        """Refuse further items, and end the waits of tasks at this channel. Local, idempotent."""
        self._closed = True
        self._room = -1
        for waiters in (self._takers, self._peekers, self._putters):
            for waiter in tuple(waiters):
                waiter.error = self._closed_error()
                waiter()
            waiters.clear()

    @property
    def closed(self) -> bool:
        """Whether the channel is closed; it may still contain items. Local."""
        return self._closed

    @property
    def ready(self) -> bool:
        """Whether `take` would return at once. Local."""
        return bool(self._items or self._putters)

    def __len__(self) -> int:
        return len(self._items)

    def __bool__(self) -> bool:
        return True  # a channel is not false when it is empty

    def __iter__(self) -> Iterator[T]:
        while True:
            try:
                item = self.take()
            except ChannelClosed:
                return
            yield item

    async def __aiter__(self) -> AsyncIterator[T]:
        while True:
            try:
                item = self.take() if self._items or self._putters else await Task(self.take).schedule()
            except ChannelClosed:
                return
            yield item

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        limit = "any number of items" if self._limit == sys.maxsize else f"capacity {self._limit}"
        return f"<Channel of {limit}, {'closed, ' if self._closed else ''}{len(self._items)} in it>"

    # -- waiters ------------------------------------------------------------------------------------------------------

    def enter(self, waiter: Waiter, *, puts: bool) -> None:
        """Let a case of a selection wait at this channel. Local; for `select`."""
        (self._putters if puts else self._takers).append(waiter)

    def forget(self, strand: Waiter) -> bool:
        """Remove a waiter from this channel; return whether it was still waiting. Local; for the scheduler."""
        for waiters in (self._takers, self._putters, self._peekers):
            if strand in waiters:
                waiters.remove(strand)
                self._room = self._limit if not (self._closed or self._peekers) else -1
                return True
        return False

    def _wait(self, waiters: deque[Waiter], timeout: float | None, offered: Any = None) -> Any:
        me = scheduler.register(self, waiters, offered)
        if waiters is self._putters and self._peekers:
            self._show(offered)
        try:
            if timeout is None:
                me.home.pause(me)
            else:
                me.home.pause_for(me, f"{'room in' if waiters is self._putters else 'an item of'} {self!r}", timeout)
            return me.item
        finally:
            me.item = None

    def _offer(self, item: T) -> bool:
        """Give an item to the longest waiter, or keep it if it fits; return whether either was possible."""
        if self._closed:
            raise self._closed_error()
        if self._takers:
            taker = self._takers.popleft()
            taker.item = item
            taker()
        elif len(self._items) < self._limit:
            self._keep(item)
        else:
            return False
        self._show(item)
        return True

    def _show(self, item: T) -> None:
        """Give an item to all who peek."""
        self._room = self._limit
        while self._peekers:
            peeker = self._peekers.popleft()
            peeker.item = item
            peeker()

    def _from_putter(self) -> T:
        """Return the item of the longest waiting `put`, which then ends."""
        putter = self._putters.popleft()
        item: T = putter.item
        putter()
        return item

    def _admit(self) -> None:
        """Keep the item of the longest waiting `put`, since one has been taken."""
        self._keep(self._from_putter())

    def _refuse_closed(self) -> None:
        if self._closed and not self._items:
            raise self._closed_error()

    def _closed_error(self) -> ChannelClosed:
        return ChannelClosed(f"{self!r}: nothing can be put into it any more, nor taken once it is empty")
