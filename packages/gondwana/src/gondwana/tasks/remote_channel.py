"""Channels that all ranks reach: rings in shared memory inside a node, remote calls to the home rank between nodes."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from gondwana.calls import mailbox
from gondwana.compiler.native import BYTES_AT
from gondwana.compiler.types.arguments import Described, describe_handle, extend
from gondwana.errors import UsageError
from gondwana.runtime import cores, ordering, progress
from gondwana.runtime.shared_file import SharedFile
from gondwana.runtime.watching import waits
from gondwana.tasks import item_rings
from gondwana.tasks.channel import ChannelClosed
from gondwana.teams import Team, world
from gondwana.teams.team import failing_together

T = TypeVar("T")
Key = tuple[int, int]
"""The world rank of a channel's home, and its number there."""

_SIZE = (1 << item_rings.SIZE_BITS) - 1
_PATIENCE = 1000
"""Polls of a waiting call before it makes progress: some ten microseconds."""
_FEW = 20
"""Polls between later calls of progress."""
_AT_ONCE = 1.0
"""Seconds within which a waiting rank takes an item that `put_nowait` offers."""

_numbers = itertools.count(1)
_known: weakref.WeakValueDictionary[Key, RemoteChannel[Any]] = weakref.WeakValueDictionary()
_sent: dict[int, RemoteChannel[Any]] = {}
"""Channels of this rank that others may know, by number: kept until they are closed and empty."""

extend("gondwana.tasks.remote_channel_overloads")


class RemoteChannel(Generic[T]):
    """A queue into which any rank puts items and from which any takes them.

    Local to create; the calling rank is its home. The channel can be pickled: send it in remote calls, collectives of
    objects, or through other channels, and every rank that receives it works on the same queue. On the node of the home
    rank the items travel through shared memory, and neither side needs the attention of another rank. Ranks of other
    nodes send them by remote calls, which the home rank serves when it makes progress; so a channel is best made by the
    rank that takes.

    Each item is taken once. Items of one producer arrive in order at each taker. Many ranks, and many tasks of
    each, may put and take. A channel lives until it is closed and empty, or until no rank refers to it; one that was
    sent and is never closed lives as long as the job. If a rank dies, the job ends, as everywhere; a rank that finishes
    its program leaves its items in the channel, and its channels work until all ranks have finished.

    Args:
        capacity: number of items that it holds; a `put` beyond that waits. 0: a `put` ends when its item is taken.
        dtype: dtype of all items. They travel without pickling, and compiled code can put and take numbers:
            `channel.put(x)`, `channel.take()`. None: any objects that can be pickled.

    Raises:
        UsageError: `capacity` is negative, or the dtype contains Python objects.

    Attributes:
        home: world rank on which it was made.
        capacity: number of items that it holds.
        dtype: dtype of its items, or None.

    Example:
        >>> import gondwana as gw
        >>> channel = gw.RemoteChannel(capacity=10)
        >>> for word in ("one", "two"):
        ...     channel.put(word)
        >>> channel.close()
        >>> list(channel)
        ['one', 'two']
    """

    def __init__(self, capacity: int = 0, dtype: npt.DTypeLike | None = None) -> None:
        if capacity < 0:
            raise UsageError(f"a channel of {capacity} items: give 0 or more")
        items = item_rings.items_of(None if dtype is None else np.dtype(dtype))
        self._set_up((world.rank, next(_numbers)), capacity, items)
        self._use(item_rings.ItemRing(capacity, items.largest, name=world.rank << 10 ^ self._key[1]))

    @classmethod
    def of_team(
        cls, team: Team = world, capacity: int = 0, dtype: npt.DTypeLike | None = None, home: int = 0
    ) -> RemoteChannel[T]:
        """Make a channel that all ranks of a team know. Collective over team; blocking.

        Args:
            team: the ranks that know it.
            capacity: as for `RemoteChannel`.
            dtype: as for `RemoteChannel`.
            home: home of the channel, a rank of the team.

        Raises:
            UsageError: the arguments differ between ranks, or the home is not in the team.
        """
        team.expect_same("channels", capacity=capacity, dtype=dtype, home=home)
        if not 0 <= home < team.size:
            raise UsageError(f"a channel at rank {home}: the ranks of {team.name} are 0 to {team.size - 1}")
        channel: RemoteChannel[T] | None = None
        with failing_together(team):
            if team.rank == home:
                channel = cls(capacity, dtype)
        found: RemoteChannel[T] = team.bcast(channel, home)
        return found

    def _set_up(self, key: Key, capacity: int, items: item_rings.Objects | item_rings.Values) -> None:
        self._key = key
        self.home, self.capacity, self.dtype = key[0], capacity, items.dtype
        self._items = items
        self._pack = items.pack
        _known[key] = self

    def _use(self, ring: item_rings.ItemRing) -> None:
        """Use a ring that is mapped here."""
        code = item_rings.operations()
        self._ring, self._at, self._code, self._bells = ring, ring.address, code, code.bells
        self._push, self._pull, self._pull_spinning = code.push, code.pull, code.pull_spinning
        self._spins = 0 if cores.crowded() else _PATIENCE
        self._few = min(self._spins, _FEW)
        self._view = np.array([ring.address, code.bells, code.order, *[0] * -(-ring.room // 8)], np.int64)
        self._view_at: int = self._view.ctypes.data
        self._buffer = self._view[item_rings.VIEW.out // 8 :]
        self._word, self._payload = self._buffer.data, self._buffer.data.cast("B")[item_rings.SLOT.length :]
        self._taking = threading.Lock()
        self._waiting = {item_rings.RING.takers: 0, item_rings.RING.putters: 0}

    # -- putting -------------------------------------------------------------------------------------------------

    def put(self, item: T, timeout: float | None = None) -> None:
        """Put an item; wait while the channel is full. Blocks; user-level progress.

        Without capacity, it waits until the item is taken. Between nodes it waits for the answer of the home rank.

        Args:
            item: the item; copied.
            timeout: seconds; None: no limit.

        Raises:
            ChannelClosed: the channel is closed, or is closed meanwhile; the item is not in it.
            TimeoutError: the channel was full, or without capacity no taker came, for `timeout` seconds; the item is
                    not in it.
            TypeError: the item cannot be pickled, or does not fit the dtype.
            ProgressError: called inside a callback when it would have to wait.
        """
        tag, data = self._pack(item)
        size = len(data)
        if size > self._items.largest:
            tag, data = tag | item_rings.OUTSIDE, item_rings.write_outside(data)
            size = item_rings.NBYTES
        position = self._push(self._view_at, id(data) + BYTES_AT, size | tag << item_rings.SIZE_BITS)
        if position < 0 or self.capacity == 0:
            self._finish_put(position, data, size | tag << item_rings.SIZE_BITS, timeout)

    def put_nowait(self, item: T) -> bool:
        """Put an item if that is possible at once; return whether it was. Local; between nodes it asks the home rank.

        Without capacity, a rank must be waiting in `take`, and this waits a moment until that rank has the item.

        Raises:
            ChannelClosed: the channel is closed.
            TypeError: as for `put`.
        """
        if self.capacity == 0 and not item_rings.word_at(self._at + item_rings.RING.takers):
            if self.closed:
                raise self._refused()
            return False
        try:
            self.put(item, _AT_ONCE if self.capacity == 0 else 0.0)
        except (TimeoutError, progress.ProgressError):
            return False
        return True

    def _finish_put(self, position: int, data: bytes, word: int, timeout: float | None) -> None:
        """Complete a put that could not be completed at once."""
        at, code, bells = self._at, self._code, self._bells
        try:
            if position == item_rings.NOT_NOW:
                where = item_rings.address_of(data)

                def again(polls: int, bit: int) -> int:
                    return int(code.push_soon(at, where, word, bells, polls, bit))

                position = self._wait(again, item_rings.RING.putters, "room in", timeout, self._spins)
            if position == item_rings.CLOSED:
                raise self._refused()
            if self.capacity == 0:
                self._await_taker(position, timeout)
        except BaseException:
            if word >> item_rings.SIZE_BITS & item_rings.OUTSIDE:
                item_rings.free_outside(data)
            raise

    def _await_taker(self, position: int, timeout: float | None) -> None:
        at, code = self._at, self._code

        def is_taken(polls: int, bit: int) -> int:
            return item_rings.NOT_NOW if code.taken_soon(at, position, polls, bit) == 0 else position

        try:
            self._wait(is_taken, item_rings.RING.putters, "a taker of an item of", timeout, self._spins)
        except BaseException:
            if code.withdraw(at, position):
                raise

    # -- taking --------------------------------------------------------------------------------------------------

    def take(self, timeout: float | None = None) -> T:
        """Take the next item; wait while the channel is empty. Blocks; user-level progress.

        Args:
            timeout: seconds; None: no limit.

        Raises:
            ChannelClosed: the channel is closed, and all items have been taken.
            TimeoutError: no item came within `timeout` seconds.
            ProgressError: called inside a callback while the channel is empty.
        """
        with self._taking:
            position = self._pull(self._view_at)
            if position == item_rings.NOT_NOW and timeout != 0.0 and self._spins:
                position = self._pull_spinning(self._view_at, self._spins)
            if position >= 0:
                tag = self._word[0] >> item_rings.SIZE_BITS
                if tag == item_rings.SIMPLE:
                    item: T = self._items.unpack(item_rings.SIMPLE, self._payload)
                    return item
                found = self._bytes_of(self._buffer, True)
        if position >= 0:
            other: T = self._items.unpack(*found)
            return other
        if position == item_rings.CLOSED:
            raise self._drained()
        return self._take_later(timeout)

    def take_nowait(self, default: Any = None) -> T | Any:
        """Take the next item, or return `default` if the channel is empty. Local; between nodes it asks the home rank.

        Raises:
            ChannelClosed: the channel is closed, and all items have been taken.
        """
        try:
            return self.take(0.0)
        except (TimeoutError, progress.ProgressError):
            return default

    def _take_later(self, timeout: float | None) -> T:
        at, code, bells = self._at, self._code, self._bells
        buffer = np.empty_like(self._buffer)  # the machine code writes there without the GIL
        out = buffer.ctypes.data

        def again(polls: int, bit: int) -> int:
            return int(code.pull_soon(at, out, bells, polls, bit))

        patience = self._few  # `take` has polled
        if self._wait(again, item_rings.RING.takers, "an item of", timeout, patience) == item_rings.CLOSED:
            raise self._drained()
        item: T = self._items.unpack(*self._bytes_of(buffer, True))
        return item

    @ordering.counted
    def peek(self, timeout: float | None = None) -> T:
        """Return the next item and leave it in the channel; wait while it is empty. Blocks; user-level progress.

        Another rank may take it at any time. Arguments and errors as for `take`.
        """
        buffer = np.empty_like(self._buffer)
        out, at, code, bells = buffer.ctypes.data, self._at, self._code, self._bells

        def again(polls: int, bit: int) -> int:
            return int(code.peek(at, out, bells, bit))

        while True:
            position = again(1, 0)
            if position == item_rings.NOT_NOW:
                position = self._wait(again, item_rings.RING.takers, "an item of", timeout, self._few)
            if position == item_rings.CLOSED:
                raise self._drained()
            found = self._bytes_of(buffer, False)
            if (
                not buffer[0] >> item_rings.SIZE_BITS & item_rings.OUTSIDE
                or item_rings.word_at(at + item_rings.RING.head) == position
            ):
                item: T = self._items.unpack(*found)
                return item

    def __iter__(self) -> Iterator[T]:
        """Take items until the channel is closed and empty."""
        while True:
            try:
                item = self.take()
            except ChannelClosed:
                return
            yield item

    def _bytes_of(self, buffer: npt.NDArray[np.int64], taken: bool) -> tuple[int, bytearray]:
        """Return the tag and the bytes of the item that machine code has copied from a slot.

        Args:
            buffer: word of the item, and the contents of the slot.
            taken: whether the item was taken, so that no other rank reads it: its memory is freed.
        """
        word, payload = int(buffer[0]), buffer.data.cast("B")[item_rings.SLOT.length :]
        tag, data = word >> item_rings.SIZE_BITS, bytearray(payload[: word & _SIZE])
        if not tag & item_rings.OUTSIDE:
            return tag, data
        where, data = data, item_rings.read_outside(data)
        if taken:
            item_rings.free_outside(where)
        return tag & ~item_rings.OUTSIDE, data

    # -- closing -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Refuse further items. Local; between nodes it waits for the answer of the home rank.

        Items in the channel can still be taken. All ranks that wait in vain get `ChannelClosed`. Closing it again
        does nothing.
        """
        self._code.close(self._at, self._bells)
        _forget_drained()

    @property
    def closed(self) -> bool:
        """Whether it is closed; it may still contain items. Local; between nodes it asks the home rank."""
        return item_rings.word_at(self._at + item_rings.RING.tail) & 1 == 1

    def __len__(self) -> int:
        """Return the present number of items. Local; between nodes it asks the home rank."""
        if self.capacity == 0:
            return 0
        taken = item_rings.word_at(self._at + item_rings.RING.head)
        return max(0, (item_rings.word_at(self._at + item_rings.RING.tail) >> 1) - taken)

    def __bool__(self) -> bool:
        return True

    def _refused(self) -> ChannelClosed:
        return ChannelClosed(f"an item was put into {self!r}, which is closed")

    def _drained(self) -> ChannelClosed:
        _forget_drained()
        return ChannelClosed(f"{self!r} is closed, and all items have been taken")

    # -- waiting -------------------------------------------------------------------------------------------------

    def _wait(
        self, attempt: Callable[[int, int], int], sleepers: int, what: str, timeout: float | None, patience: int
    ) -> int:
        """Wait until an attempt, given a number of polls and the bit of this rank, returns anything but `NOT_NOW`.

        The first attempt polls `patience` times, unless there is no time for that.
        """
        bit, result, polls = self._code.bit, item_rings.NOT_NOW, 1 if timeout == 0 else max(1, patience)

        def ready() -> bool:
            nonlocal result, polls
            if result == item_rings.NOT_NOW:
                result, polls = attempt(polls, bit), min(polls, _FEW)
            return result != item_rings.NOT_NOW

        self._waiting[sleepers] += 1
        try:
            progress.wait_until(ready, f"{what} {self!r}", timeout, bell=True, why=lambda: self._standing(what))
        finally:
            self._waiting[sleepers] -= 1
            self._stop_waiting(sleepers, result != item_rings.NOT_NOW)
        return result

    def _standing(self, what: str) -> waits.Wait:
        return waits.Wait(f"for {what} {self!r}, which has {len(self)} of {self.capacity} items", waits.CHANNEL)

    def _stop_waiting(self, sleepers: int, successful: bool) -> None:
        """Have this rank woken no more; if a wait was in vain, another may have to be woken in its place."""
        if self._waiting[sleepers] == 0:
            self._code.leave(self._at, sleepers, self._code.bit, 0 if successful else self._bells)

    # -- as a value ----------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        of = "" if self.dtype is None else f" of {self.dtype}"
        return f"<RemoteChannel {self._key[1]}{of} at rank {self.home}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.home == world.rank and not self.closed:
            _sent[self._key[1]] = self
        return arrive, (self._key, self.capacity, self.dtype, self._file())

    def _file(self) -> SharedFile | None:
        return self._ring.file

    def __gondwana_argument__(self) -> Described:
        """Spec and words for compiled code: the addresses of the ring and of the table of bells."""
        name = "" if self.dtype is None else self.dtype.name
        return describe_handle("remote_channel", (name, self.capacity > 0), (self._at, self._bells))


def _forget_drained() -> None:
    """Drop channels that are closed and empty, unless the program refers to them."""
    for number, channel in list(_sent.items()):
        if channel.closed and not len(channel):
            del _sent[number]


def arrive(key: Key, capacity: int, dtype: np.dtype[Any] | None, file: SharedFile | None) -> RemoteChannel[Any]:
    """Return the channel of a key as this rank sees it. Local."""
    found = _known.get(key)
    if found is not None:
        return found
    from gondwana.tasks.distant_channel import DistantChannel

    items = item_rings.items_of(dtype)
    near = mailbox.own().rings.is_near(key[0]) and key[0] != world.rank
    if near:
        try:
            ring = item_rings.ItemRing(capacity, items.largest, file)
        except item_rings.GONE:
            near = False
    channel: RemoteChannel[Any] = object.__new__(RemoteChannel if near else DistantChannel)
    channel._set_up(key, capacity, items)
    if near:
        channel._use(ring)
    return channel


def _describe(ring: int, takes: int, _: int) -> waits.Wait | None:
    """Describe what compiled code waits for by the address of the ring."""
    found = next((one for one in list(_known.values()) if one._at == ring), None)
    return None if found is None else found._standing("an item of" if takes else "room in")


waits.describe_by(waits.CHANNEL, _describe)


def at_home(number: int) -> RemoteChannel[Any] | None:
    """Return a channel of this rank, None if it was closed and is empty. Local."""
    return _known.get((world.rank, number))
