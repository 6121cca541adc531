"""Vector clocks: what each stream of the job has seen of the others, and what has been posted for others to see."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from gondwana.errors import UsageError
from gondwana.races.shadow import MOST_STREAMS, Clock


class Order(NamedTuple):
    """Description of what has ordered a stream behind others.

    Attributes:
        what: what it was, such as "a barrier".
        site: where it ended.
    """

    what: str
    site: int


class Streams:
    """The clocks of all streams. Local.

    Attributes:
        owners: rank of each stream.
        about: for a stream of an operation, the stream that has begun it and the site of that.
        begun: clock of a stream of an operation when the last one began.
        forked: clock of who began it then.
        joined: whether the operation of a stream has been waited for by who began it.
        threads: for a stream of a thread of a launch, the number of the thread; 0 for who has launched any.
        orders: for each stream, what has last ordered it behind the streams of another rank.
    """

    def __init__(self) -> None:
        self._clocks = np.zeros((16, 16), np.int64)
        self.owners: list[int] = []
        self.about: dict[int, tuple[int, int]] = {}
        self.begun: dict[int, int] = {}
        self.forked: dict[int, int] = {}
        self.joined: set[int] = set()
        self.threads: dict[int, int] = {}
        self.orders: list[dict[int, Order]] = []

    def new(self, rank: int) -> int:
        """Return the number of a new stream of a rank. Local.

        Raises:
            UsageError: there are as many streams as an epoch can tell apart.
        """
        number = len(self.owners)
        if number == MOST_STREAMS:
            raise UsageError(
                f"the race detector follows {MOST_STREAMS} threads and operations under way: run the program on fewer "
                "ranks, or wait for operations earlier"
            )
        if number == len(self._clocks):
            larger = np.zeros((2 * number, 2 * number), np.int64)
            larger[:number, :number] = self._clocks
            self._clocks = larger
        self.owners.append(rank)
        self.orders.append({})
        self._clocks[number, number] = 1
        return number

    def clock(self, stream: int) -> Clock:
        """Return the clock of a stream, which changes with it. Local."""
        clock: Clock = self._clocks[stream]
        return clock

    def now(self, stream: int) -> int:
        """Return how often a stream has let others see what it has done. Local."""
        return int(self._clocks[stream, stream])

    def fork(self, stream: int, new: int) -> None:
        """Let a stream begin with what another has seen. Local."""
        own = self._clocks[new, new]
        np.maximum(self._clocks[new], self._clocks[stream], out=self._clocks[new])
        self._clocks[new, new] = own + 1
        self.orders[new] = dict(self.orders[stream])
        self.joined.discard(new)
        self.begun[new], self.forked[new] = own + 1, self.now(stream)
        self.tick(stream)

    def tick(self, stream: int) -> None:
        """Tell what a stream does from now on apart from what it did before. Local."""
        self._clocks[stream, stream] += 1

    def posted(self, stream: int) -> Clock:
        """Return what a stream has seen and done, for others to see. Local."""
        found: Clock = self._clocks[stream].copy()
        self.tick(stream)
        return found

    def see(self, stream: int, seen: Clock, order: Order) -> None:
        """Let a stream see what was posted. Local."""
        clock = self._clocks[stream]
        news = np.flatnonzero(seen > clock[: len(seen)])
        if news.size:
            clock[news] = seen[news]
            own = self.owners[stream]
            for other in {self.owners[number] for number in news.tolist()} - {own}:
                self.orders[stream][other] = order


class Board:
    """What streams have posted by names, until it is taken. Local."""

    def __init__(self) -> None:
        self._posts: dict[Hashable, tuple[int, Clock]] = {}
        self._taken: dict[Hashable, int] = {}

    def post(self, name: Hashable, clock: Clock) -> None:
        """Add a clock to what is posted by a name. Local."""
        count, there = self._posts.get(name, (0, clock))
        self._posts[name] = count + 1, there if there is clock else joined(there, clock)

    def find(self, name: Hashable, count: int) -> Clock | None:
        """Return what was posted by a name, None before it was posted so often. Local."""
        found, clock = self._posts.get(name, (0, None))
        return clock if found >= count else None

    def take(self, name: Hashable, takers: int) -> None:
        """Note that one of so many has taken what is posted by a name, and forget it after the last. Local.

        Args:
            name: the name.
            takers: how many take it; 0: any number.
        """
        taken = self._taken.get(name, 0) + 1
        if takers == 0:
            return
        if taken < takers:
            self._taken[name] = taken
        else:
            self._taken.pop(name, None)
            self._posts.pop(name, None)


def joined(one: Clock, other: Clock) -> Clock:
    """Return the least clock that has seen both. Pure."""
    if len(one) < len(other):
        one, other = other, one
    found = one.copy()
    np.maximum(found[: len(other)], other, out=found[: len(other)])
    return found


class Arrivals:
    """The arrivals of one counter of a signal, in the order in which they are known. Local."""

    def __init__(self) -> None:
        self._all: deque[tuple[int, Clock]] = deque()
        self._sum = self._first = 0
        self._consumed = 0
        self._seen: Clock = np.zeros(0, np.int64)

    def add(self, count: int, clock: Clock) -> None:
        """Note arrivals. Local."""
        if count:
            self._sum += count
            self._all.append((self._sum, clock))

    def consume(self, count: int) -> Clock | None:
        """Return what the sender of the last of so many arrivals, and all before it, had done; None: too few. Local."""
        if self._sum < self._consumed + count:
            return None
        self._consumed += count
        while self._all and self._first < self._consumed:
            end, clock = self._all[0]
            self._seen = joined(self._seen, clock)
            if end > self._consumed:  # the rest of these is consumed later
                break
            self._first = end
            self._all.popleft()
        return self._seen
