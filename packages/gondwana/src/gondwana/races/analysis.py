"""The analysis: what the records of all ranks mean for clocks and shadow memory.

Records of one rank are taken in their order. One that says that the rank has waited for others is put off until theirs
have been taken, whatever the order in which records arrive; so what is found depends on what orders the ranks, not on
who was first in this run.
"""

from __future__ import annotations

import enum
import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from gondwana.races.ranks import Plan, Rank
from gondwana.races.report import Block, Part, Race, Site, Target
from gondwana.races.shadow import MOST_SITES, Conflict, Histories, Shadow, epoch_of
from gondwana.races.streams import Arrivals, Board, Order, Streams, joined
from gondwana.races.words import Word
from gondwana.runtime.races.records import ALL, FROM, READS, SITE, STREAM, UPDATES, WRITES, Kind

Words = Sequence[int]
Boxes = list[tuple[Any, Any]]


class Patience(enum.Enum):
    """How long the operation that has set an atomic word to a value is waited for."""

    FULL = enum.auto()
    """Until it is known."""
    SOME = enum.auto()
    """While a rank has announced one whose result is not known, or is this value."""
    NONE = enum.auto()
    """While a rank of which nothing is left to be taken has announced one."""


class Analysis:
    """The state of the whole job. Local.

    Attributes:
        races: those found so far, each pair of sites once.
        left: places in compiled code that are followed no longer, since they access too many scattered elements.
    """

    def __init__(self) -> None:
        self.races: dict[Hashable, Race] = {}
        self.left: set[str] = set()
        self._ranks: list[Rank] = []
        self._streams = Streams()
        self._board = Board()
        self._arrivals: defaultdict[Hashable, Arrivals] = defaultdict(Arrivals)
        self._plans: dict[int, Plan] = {}
        self._words: defaultdict[tuple[int, int], defaultdict[int, Word]] = defaultdict(lambda: defaultdict(Word))
        self._histories = Histories()
        self._shadows: dict[tuple[int, int], Shadow] = {}
        self._sizes: dict[int, dict[int, int]] = {}
        self._users: dict[int, set[int]] = {}
        self._targets: dict[int, Target] = {}
        self._sites: list[Site] = [Site("an access", "", 0, "", {})]
        self._numbers: dict[Hashable, int] = {}
        self._put_off: list[Callable[[], bool]] = []
        self._patience = Patience.FULL
        self._do: dict[int, Callable[[Rank, int, int, Words], bool]] = {
            Kind.READ: functools.partial(self._access, write=False),
            Kind.WRITE: functools.partial(self._access, write=True),
            Kind.INTEND: self._intend,
            Kind.ATOMIC: self._atomic,
            Kind.FORK: self._fork,
            Kind.JOIN: self._join,
            Kind.POST: self._post,
            Kind.TAKE: self._take,
            Kind.ADD: self._add,
            Kind.WAIT: self._wait,
            Kind.ENTER: self._enter,
            Kind.LEAVE: self._leave,
            Kind.SEND: self._send,
            Kind.EXPECT: self._expect,
            Kind.RECEIVE: self._receive,
            Kind.START: self._start,
            Kind.FINISH: self._finish,
            Kind.RESET: self._reset,
            Kind.FREE: self._free,
            Kind.SET: self._set,
            Kind.REACH: self._reach,
        }

    def new(self, rank: int) -> Rank:
        """Return the place for the records of a rank. Local."""
        found = Rank(rank)
        self._ranks.append(found)
        found.streams[0] = self._streams.new(rank)
        return found

    def advance(self) -> bool:
        """Take all records that can be taken now, and return whether there were any. Local."""
        found, moved = False, True
        while moved:
            moved = False
            for rank in self._ranks:
                while rank.records and self._taken(rank):
                    moved = True
            left = self._put_off
            self._put_off = []
            waiting = [act for act in left if not act()]
            moved = moved or len(waiting) < len(left)
            self._put_off += waiting
            found = found or moved
        if self._histories.are_many:
            self._histories.keep({n for one in self._shadows.values() for n in np.unique(one.numbers).tolist()})
        return found

    def settle(self) -> bool:
        """Take what waits for a value whose writer is not known, since no other records come for now. Local.

        Returns:
            Whether there was any; then there may be more.
        """
        moved = False
        for self._patience in (Patience.SOME, Patience.NONE):
            moved = moved or self.advance()
        self._patience = Patience.FULL
        return moved

    @property
    def stuck(self) -> list[int]:
        """Ranks with records that wait for those of others."""
        return [rank.rank for rank in self._ranks if rank.records]

    def _taken(self, rank: Rank) -> bool:
        record = rank.records[0]
        if isinstance(record, dict):
            self._told(rank, record)
        else:
            first = record[0]
            number = first >> STREAM & 0xFFFF
            stream = rank.streams.get(number)
            if stream is None:
                stream = rank.streams[number] = self._streams.new(rank.rank)
            if not self._do[first & 0xFF](rank, stream, rank.sites[first >> SITE], record[1:]):
                return False
        rank.records.popleft()
        return True

    # -- what ranks tell -----------------------------------------------------------------------------------------

    def _told(self, rank: Rank, content: dict[str, Any]) -> None:
        if "site" in content:
            rank.sites[content.pop("site")] = self._site_of(content)
        elif "segment" in content:
            key = content["segment"]
            self._sizes[key] = dict(zip(content["ranks"], content["sizes"], strict=True))
            self._users.setdefault(key, set(content["ranks"]))
            rank.aliases[content["table"]] = key
        elif "array" in content:
            self._targets.setdefault(content["array"], Target(content["label"])).blocks[content["rank"]] = Block.of(
                content
            )
        elif "team" in content:
            rank.teams[content["team"]] = rank.teams[content["handle"]] = (*content["ranks"], content["number"])
        elif "plan" in content:
            reading = self._streams.new(rank.rank)
            writing = {int(other): self._streams.new(rank.rank) for other in content["to"]}
            rank.plans[content["plan"]] = Plan(content, reading, writing)
        elif "left" in content:
            self.left.add(content["left"])
        elif "launch" in content:
            site = self._site_of(content["launch"])
            race = Race.in_launch(self._sites[site], rank.rank, content)
            self.races.setdefault((site, content["name"]), race)

    def _site_of(self, content: dict[str, Any]) -> int:
        more = {name: value for name, value in content.items() if name not in ("what", "file", "line", "function")}
        site = Site(content["what"], content["file"], content["line"], content["function"], more)
        found = self._numbers.get(site.key)
        if found is None and len(self._sites) < MOST_SITES:
            found = self._numbers[site.key] = len(self._sites)
            self._sites.append(site)
        return found or 0

    # -- accesses ------------------------------------------------------------------------------------------------

    def _access(self, rank: Rank, stream: int, site: int, words: Words, *, write: bool, atomic: bool = False) -> bool:
        key, owner, offset, item, *numbers = words
        key = rank.aliases.get(key, key)
        nbytes = self._sizes.get(key, {}).get(owner)
        if nbytes is None:
            return True
        shadow = self._shadows.get((key, owner))
        if shadow is None:
            shadow = self._shadows[key, owner] = Shadow(nbytes, self._histories)
        axes = list(zip(numbers[::2], numbers[1::2], strict=True))
        streams = self._streams
        epoch = epoch_of(stream, streams.now(stream), site, atomic=atomic)
        for conflict in shadow.access(offset, item, axes, streams.clock(stream), epoch, write=write):
            self._found(conflict, (stream, site, write), key, owner)
        return True

    def _found(self, conflict: Conflict, now: tuple[int, int, bool], key: int, owner: int) -> None:
        (stream, site, write), before = now, conflict.before
        pair = frozenset([(before.site, conflict.wrote), (site, write)])
        race = self.races.get(pair)
        if race is not None:
            race.more += 1
            return
        streams = self._streams
        ranks = streams.owners[before.stream], streams.owners[stream]
        order = streams.orders[stream].get(ranks[0])
        self.races[pair] = Race(
            (self._sites[before.site], self._sites[site]),
            ranks,
            (conflict.wrote, write),
            (self._part(before.stream, before.clock, before.site, stream), self._part(stream, 0, site, before.stream)),
            owner,
            self._targets.get(key),
            conflict.offset,
            None if order is None else (order.what, self._sites[order.site]),
            (streams.threads.get(before.stream, 0), streams.threads.get(stream, 0)),
        )

    def _part(self, stream: int, clock: int, site: int, other: int) -> Part | None:
        """Return what an access is part of; None: it is one of the program itself.

        Args:
            stream: stream that has made it.
            clock: clock of the stream then, 0 for now.
            site: where it was started.
            other: stream that has made the other access.
        """
        streams = self._streams
        found = streams.about.get(stream)
        if found is None:
            return None
        plan = self._plans.get(stream)
        if plan is None:
            reused = clock < streams.begun[stream]  # by a later operation, after the wait for this one
            is_behind = streams.clock(other)[found[0]] >= streams.forked[stream]  # its start: so a wait is missing
            return Part("", self._sites[site], None, reused or not is_behind)
        rank, waited = streams.owners[other], stream in streams.joined
        theirs = next((p for r in self._ranks if r.rank == rank for p in r.plans.values() if p.key == plan.key), None)
        begun = None if theirs is None or theirs.finished == theirs.round else self._sites[theirs.site]
        return Part(plan.content["what"], self._sites[found[1]], begun, waited)

    def _intend(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        self._word(rank, words).announced[rank.rank] += 1
        return True

    def _word(self, rank: Rank, words: Words) -> Word:
        key, owner, offset, *_ = words
        return self._words[rank.aliases.get(key, key), owner][offset]

    def _atomic(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        *place, after, before, what = words
        word, streams = self._word(rank, words), self._streams
        clock = streams.clock(stream)
        version = word.found(before, clock, last=bool(what & WRITES))
        if version is None:
            if self._patience is Patience.FULL or self._is_coming(word, before, rank):
                return False
            version = word.assumed(before, clock)
            self._patience = Patience.FULL  # what others have waited for comes first
        if what & READS and version.seen is not None:
            streams.see(stream, version.seen, Order("an atomic operation", site))
        self._access(rank, stream, site, place, write=bool(what & WRITES), atomic=True)
        if what & (WRITES | UPDATES):
            word.announced[rank.rank] -= 1
        if what & WRITES:
            posted = streams.posted(stream)
            before_it = version.seen if what & UPDATES else None
            word.set(after, stream, posted if before_it is None else joined(posted, before_it))
        return True

    def _is_coming(self, word: Word, value: int, finder: Rank) -> bool:
        """Whether another rank may have set a word to a value by an operation that it has announced."""
        for rank in self._ranks:
            if rank is not finder:
                announced = word.announced[rank.rank] + len(self._queued(rank, Kind.INTEND, word))
                done = [r for r in self._queued(rank, Kind.ATOMIC, word) if r[7] & (WRITES | UPDATES)]
                is_gone = rank.ended or (rank.records and self._patience is Patience.NONE)
                if announced > len(done) and not is_gone:
                    return True
                if self._patience is Patience.SOME and any(r[5] == value and r[7] & WRITES for r in done):
                    return True
        return False

    def _queued(self, rank: Rank, kind: int, word: Word) -> list[Words]:
        records = (r for r in rank.records if not isinstance(r, dict) and r[0] & 0xFF == kind)
        return [r for r in records if self._word(rank, r[1:]) is word]

    def _reset(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        key, owner, offset, nbytes = words
        shadow = self._shadows.get((key, owner))
        if shadow is not None:
            shadow.reset(offset, nbytes)
        return True

    def _free(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        # Others may still report what they have accessed before.
        key, left = words[0], self._users.get(words[0], set())
        left.discard(rank.rank)
        if not left:
            for owner in self._sizes.pop(key, {}):
                self._shadows.pop((key, owner), None)
                self._words.pop((key, owner), None)
        return True

    # -- order ---------------------------------------------------------------------------------------------------

    def _fork(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        new = rank.streams.get(words[0])
        if new is None:
            new = rank.streams[words[0]] = self._streams.new(rank.rank)
        self._streams.fork(stream, new)
        if len(words) > 1:
            rank.slots.clear()
            self._streams.threads |= {stream: 0, new: words[1]}
        if site:
            self._streams.about[new] = stream, site
        return True

    def _join(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        done = rank.streams.get(words[0])
        if done is None:  # nothing has run there
            return True
        what = "the end of other threads" if done in self._streams.threads else "the wait for a copy"
        self._streams.see(stream, self._streams.posted(done), Order(what, site))
        self._streams.joined.add(done)
        return True

    def _post(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        self._board.post(tuple(words), self._streams.posted(stream))
        return True

    def _take(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        takers = words[2]
        return self._seen(stream, tuple(words[:2]), Order("a call, a lock or a channel", site), 1, takers)

    def _seen(self, stream: int, name: Hashable, order: Order, count: int, takers: int) -> bool:
        """Let a stream see what was posted by a name; return whether it has been."""
        clock = self._board.find(name, count)
        if clock is None:
            return False
        self._streams.see(stream, clock, order)
        self._board.take(name, takers)
        return True

    def _add(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        key, owner, channel, count = words
        self._arrivals[rank.aliases.get(key, key), owner, channel].add(count, self._streams.posted(stream))
        return True

    def _wait(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        key, owner, channel, count = words
        clock = self._arrivals[rank.aliases.get(key, key), owner, channel].consume(count)
        if clock is None:
            return False
        self._streams.see(stream, clock, Order("a signal or a channel", site))
        return True

    def _set(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        slot, value, follows = words
        word, streams = rank.slots[slot], self._streams
        before = word.last().seen if follows else None
        if before is not None:
            streams.see(stream, before, Order("a slot of a team of threads", site))
        word.set(value, stream, streams.posted(stream))
        return True

    def _reach(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        found = rank.slots[words[0]].reached(words[1], self._streams.clock(stream))
        if found is not None and found.seen is not None:
            self._streams.see(stream, found.seen, Order("a barrier or a slot of a team of threads", site))
        return True

    def _enter(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        team_number, mode, root, request = words
        team: Any = rank.teams.get(team_number)
        if team is None:
            return True
        rank.counts[team] += 1
        place = rank.counts[team]
        rank.inside[team_number, request] = team, mode, root, place
        is_root = rank.rank == team[root]
        if mode == ALL or (mode == FROM) == is_root:
            self._board.post((team, place), self._streams.posted(stream))
        return True

    def _leave(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        found: Any = rank.inside.get((words[0], words[1]))
        if found is None:
            return True
        team, mode, root, place = found
        size, is_root = len(team) - 1, rank.rank == team[root]
        if mode != ALL and (mode == FROM) == is_root:
            del rank.inside[words[0], words[1]]
            return True
        posts, takers = (size, size) if mode == ALL else (1, size - 1) if mode == FROM else (size - 1, 1)
        if not self._seen(stream, (team, place), Order("a barrier or another collective", site), posts, takers):
            return False
        del rank.inside[words[0], words[1]]
        return True

    def _send(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        team_number, dest, tag = words
        team: Any = rank.teams.get(team_number)
        if team is not None:
            way = "message", team, rank.rank, team[dest], tag
            rank.counts[way] += 1
            self._board.post((way, rank.counts[way]), self._streams.posted(stream))
        return True

    def _expect(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        team_number, source, tag, request = words
        team: Any = rank.teams.get(team_number)
        if team is not None:
            way = "message", team, team[source], rank.rank, tag
            rank.counts["in", way] += 1
            rank.expected[request] = way, rank.counts["in", way]
        return True

    def _receive(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        name = rank.expected.get(words[0])
        if name is not None and not self._seen(stream, name, Order("a message", site), 1, 1):
            return False
        rank.expected.pop(words[0], None)
        return True

    # -- plans ---------------------------------------------------------------------------------------------------

    def _start(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        plan = rank.plans[words[0]]
        plan.round += 1
        plan.site = site
        streams, content, turn, key = self._streams, plan.content, plan.round, plan.key
        for source, target in content["own"]:
            self._end_of(rank, stream, site, source, write=False)
            self._end_of(rank, stream, site, target, write=True)
        streams.fork(stream, plan.reading)
        for own in (plan.reading, *plan.writing.values()):
            streams.about[own], streams.joined = (stream, site), streams.joined - {own}
            self._plans[own] = plan
        for pairs in content["to"].values():
            for source, _ in pairs:
                self._end_of(rank, plan.reading, site, source, write=False)
        begun = streams.posted(stream)
        if content["of"] and not content["ready"]:
            self._board.post((key, "entered", rank.rank, turn), begun)
        for other, pairs in content["to"].items():
            writing = plan.writing[int(other)]

            def write(other: int = int(other), pairs: Boxes = pairs, writing: int = writing) -> bool:
                order = Order(f"a round of this {content['what']}", site)
                if not content["ready"] and not self._seen(
                    writing, (key, "entered", other, turn), order, 1, self._takers(key, other)
                ):
                    return False
                for _, target in pairs:
                    self._end_of(rank, writing, site, target, write=True)
                self._board.post((key, "ready", rank.rank, other, turn), streams.posted(writing))
                return True

            streams.see(writing, begun, Order("", site))
            if not write():
                self._put_off.append(write)
        return True

    def _takers(self, key: Hashable, rank: int) -> int:
        """The number of ranks that write to a rank in a plan, which has begun a round of it."""
        for one in self._ranks:
            if one.rank == rank:
                for plan in one.plans.values():
                    if plan.key == key:
                        return len(plan.content["of"])
        return 1

    def _finish(self, rank: Rank, stream: int, site: int, words: Words) -> bool:
        plan = rank.plans[words[0]]
        names = [(plan.key, "ready", other, rank.rank, plan.round) for other in plan.content["of"]]
        if any(self._board.find(name, 1) is None for name in names):
            return False
        order = Order(f"the wait for {_a(plan.content['what'])}", site)
        for name in names:
            self._seen(stream, name, order, 1, 1)
        self._streams.see(stream, self._streams.posted(plan.reading), order)
        plan.finished = plan.round
        self._streams.joined |= {plan.reading, *plan.writing.values()}
        return True

    def _end_of(self, rank: Rank, stream: int, site: int, box: Any, *, write: bool) -> None:
        if box is not None:
            key, owner, offset, item, axes = box
            self._access(rank, stream, site, [key, owner, offset, item, *itertools.chain(*axes)], write=write)


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
