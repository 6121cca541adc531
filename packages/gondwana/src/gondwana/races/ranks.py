"""The records of one rank that have arrived, and what its numbers stand for."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Hashable
from typing import Any, Final

import numpy as np

from gondwana.races.words import Word
from gondwana.runtime.races.records import LENGTH, WORD, Kind


class Rank:
    """The records of one rank that have arrived, and what its numbers stand for. Local.

    Attributes:
        rank: rank in the world.
        ended: whether no more records come.
        slots: values of the slots of the team of threads that runs now, or has run last.
    """

    def __init__(self, rank: int) -> None:
        self.rank: Final = rank
        self.ended = False
        self.records: deque[Any] = deque()
        self.streams: dict[int, int] = {}
        self.sites: dict[int, int] = {0: 0}
        self.slots: defaultdict[int, Word] = defaultdict(Word)
        self.teams: dict[int, Hashable] = {}
        self.aliases: dict[int, int] = {}
        self.plans: dict[int, Plan] = {}
        self.inside: dict[tuple[int, int], tuple[Hashable, int, int, int]] = {}
        self.expected: dict[int, Hashable] = {}
        self.counts: defaultdict[Hashable, int] = defaultdict(int)
        self._data = b""

    def feed(self, data: bytes) -> None:
        """Take bytes as they arrive. Local."""
        data = self._data + data
        words = np.frombuffer(data, np.int64, len(data) // WORD).tolist()
        at, end = 0, len(words)
        while at < end:
            length = words[at] >> LENGTH & 0xFF
            following = at + length
            if words[at] & 0xFF == Kind.TEXT and following <= end:
                following += words[at + 1] // WORD
            if following > end:
                break
            if words[at] & 0xFF == Kind.TEXT:
                self.records.append(json.loads(data[WORD * (at + length) : WORD * following]))
            else:
                self.records.append(words[at:following])
            at = following
        self._data = data[WORD * at :]


class Plan:
    """A plan as one rank knows it.

    Attributes:
        content: what the rank has told: see `reporting.plan`.
        round: number of rounds begun.
        finished: number of rounds that were waited for.
        site: where the last round has begun.
        reading: stream that reads its sources.
        writing: streams that write at other ranks.
    """

    def __init__(self, content: dict[str, Any], reading: int, writing: dict[int, int]) -> None:
        self.content, self.reading, self.writing = content, reading, writing
        self.key = content["key"]
        self.round = self.finished = self.site = 0
