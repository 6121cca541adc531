"""Words that atomic operations work on: which operation has set the value that another one finds.

Values come again, so a value alone does not tell who has set it. An operation that changes a word has found what the
last one before it has left, and none finds a value that is older than what its stream has seen already.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from gondwana.races.shadow import Clock
from gondwana.races.streams import joined

_NOBODY = -1
_MOST = 1024
"""The most values of a word that are kept."""


class Version(NamedTuple):
    """A value of a word.

    Attributes:
        value: the value.
        stream: stream that has set it; `_NOBODY` if no atomic operation is known that has.
        now: clock of the stream then.
        seen: what comes before for who finds the value; None if that is nothing.
    """

    value: int
    stream: int
    now: int
    seen: Clock | None


class Word:
    """The values of one word. Local.

    Attributes:
        announced: number of operations of each rank that have been announced and are not known yet.
    """

    def __init__(self) -> None:
        self._versions = [Version(0, _NOBODY, 0, None)]  # what memory starts with
        self._forgotten = False
        self.announced: Counter[int] = Counter()

    def found(self, value: int, clock: Clock, *, last: bool) -> Version | None:
        """Return the first version that an operation may have found, None if it is not known yet. Local.

        Args:
            value: the value that it has found.
            clock: clock of its stream.
            last: whether it has set the word, and so has found the last version.
        """
        if last:
            return self._versions[-1] if self._versions[-1].value == value else None
        return next((one for one in self._not_before(clock) if one.value == value), None)

    def reached(self, least: int, clock: Clock) -> Version | None:
        """Return the first version of at least a value that an operation may have found. Local; arguments: `found`."""
        return next((one for one in self._not_before(clock) if one.value >= least), None)

    def last(self) -> Version:
        """Return the last version. Local."""
        return self._versions[-1]

    def _not_before(self, clock: Clock) -> list[Version]:
        """The versions from the last one on that a stream has seen."""
        for place in range(len(self._versions) - 1, 0, -1):
            one = self._versions[place]
            if one.stream != _NOBODY and one.now <= clock[one.stream]:
                return self._versions[place:]
        return self._versions

    def assumed(self, value: int, clock: Clock) -> Version:
        """Return the version that an operation has found whose setter does not come. Local.

        Args:
            value: the value that it has found.
            clock: clock of its stream.
        """
        known = self.found(value, clock, last=False)
        if known is not None:
            return known
        seen: Clock | None = None
        for one in self._versions if self._forgotten else ():
            if one.seen is not None:
                seen = one.seen if seen is None else joined(seen, one.seen)
        self._versions.append(Version(value, _NOBODY, 0, seen))
        return self._versions[-1]

    def set(self, value: int, stream: int, seen: Clock) -> None:
        """Note a new value. Local.

        Args:
            value: the value.
            stream: stream that sets it.
            seen: what comes before for who finds it, posted by the stream.
        """
        self._versions.append(Version(value, stream, int(seen[stream]), seen))
        if len(self._versions) > _MOST:
            del self._versions[: _MOST // 2]
            self._forgotten = True
