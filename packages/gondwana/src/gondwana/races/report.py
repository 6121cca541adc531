"""Reports of races: one paragraph each, and the same as JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Site(NamedTuple):
    """Description of the place of an act in the program.

    Attributes:
        what: the act, such as "put", or "kernel diffuse".
        file: file of the program, "" if it is not known.
        line: line in it.
        function: function in it.
        more: for a kernel the name of the array, and where it was launched.
    """

    what: str
    file: str
    line: int
    function: str
    more: dict[str, Any]

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from others."""
        return self.what, self.file, self.line, self.function, *sorted(map(str, self.more.items()))

    @property
    def place(self) -> str:
        """File and line, "compiled code" without them."""
        return f"{os.path.basename(self.file)}:{self.line}" if self.file else "compiled code"

    def about(self) -> dict[str, Any]:
        """The site as JSON values."""
        return {"what": self.what, "file": self.file, "line": self.line, "function": self.function, **self.more}


class Part(NamedTuple):
    """Description of an operation that an access is part of.

    Attributes:
        what: "exchange", "plan" or "accumulation"; "" for a copy.
        begun: where it was started.
        theirs: where the other rank has started its round, if that is under way.
        waited: whether who started it has waited for it.
    """

    what: str
    begun: Site
    theirs: Site | None
    waited: bool


class Block(NamedTuple):
    """Description of the elements of a global array that a rank has.

    Attributes:
        first: byte of the first one.
        strides: bytes from one to the next along each axis.
        lo: index of the first one.
        shape: number along each axis, ghosts included.
        owned: first index and end of those that are no ghosts.
    """

    first: int
    strides: tuple[int, ...]
    lo: tuple[int, ...]
    shape: tuple[int, ...]
    owned: tuple[tuple[int, ...], tuple[int, ...]]

    @classmethod
    def of(cls, content: dict[str, Any]) -> Block:
        """Return the block that a rank has told about: see `GlobalArray`. Pure."""
        return cls(*(content[name] for name in cls._fields))

    def element(self, offset: int) -> tuple[tuple[int, ...], bool]:
        """Return the global index of the element at an offset, and whether it is a ghost. Pure."""
        left, steps = offset - self.first, [0] * len(self.lo)
        for axis in sorted(range(len(self.lo)), key=lambda axis: -self.strides[axis]):
            if self.shape[axis] > 1:
                steps[axis], left = divmod(left, self.strides[axis])
        index = tuple(low + step for low, step in zip(self.lo, steps, strict=True))
        return index, not all(low <= i < high for i, low, high in zip(index, *self.owned, strict=True))


class Target:
    """The memory that a race is about: a global array.

    Args:
        label: name of it for which no rank has another.

    Attributes:
        blocks: what each rank has of it, by rank in the world.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.blocks: dict[int, Block] = {}

    def index(self, rank: int, offset: int) -> tuple[tuple[int, ...], bool] | None:
        """Return the global index of the element at an offset, and whether it is a ghost. Pure.

        Args:
            rank: rank in the world that has it.
            offset: bytes from the start of its part.
        """
        block = self.blocks.get(rank)
        return None if block is None else block.element(offset)


@dataclass
class Race:
    """Two accesses that nothing orders, of which one writes: first the one that was processed first.

    Attributes:
        sites: where they are.
        ranks: who makes them.
        wrote: whether they write.
        parts: operations that they are parts of.
        owner: rank that has the memory.
        target: the array; None if it is not known.
        offset: byte of the first element concerned.
        order: what has last ordered the second rank behind the first, and where.
        threads: number of the thread of the launch that makes each, 0 for that of the program.
        more: how often the same two sites have raced again.
        name: name of the array in a kernel that races with itself.
    """

    sites: tuple[Site, Site]
    ranks: tuple[int, int]
    wrote: tuple[bool, bool]
    parts: tuple[Part | None, Part | None]
    owner: int
    target: Target | None
    offset: int
    order: tuple[str, Site] | None
    threads: tuple[int, int] = (0, 0)
    more: int = 0
    alone: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def in_launch(cls, site: Site, rank: int, content: dict[str, Any]) -> Race:
        """Return the race between points of one launch. Pure."""
        return cls(
            (site, site), (rank, rank), (True, content["writes"]), (None, None), rank, None, 0, None, alone=content
        )

    def text(self) -> str:
        """The paragraph. Pure."""
        if self.alone:
            return self._in_launch()
        # The access of the program itself comes first: it is what is too early.
        first, second = (1, 0) if self.parts[1] is None and self.parts[0] is not None else (0, 1)
        subject, site = self._subject(first), self.sites[first]
        other, advice = self._other(second), self._advice(first, second)
        return f"{subject} {self._what(first)}{_where(site)} while {other}{self._since(first)}: {advice}"

    def _in_launch(self) -> str:
        name, verb = self.alone["name"], "writes" if self.alone["writes"] else "reads"
        return (
            f"rank {self.ranks[0]}: {self.sites[0].what} ({self.sites[0].place}) writes {name}{self.alone['written']} "
            f"at one point and {verb} the same element as {name}{self.alone['other']} at another; points run in any "
            f"order: write into another array, or over points whose elements do not meet"
        )

    def _subject(self, which: int) -> str:
        verb, part = "writes" if self.wrote[which] else "reads", self.parts[which]
        noun = "" if part is None else f"the {part.what or self.sites[which].what} that "
        return f"{noun}{self._who(which)}{' has started' if noun else ''} {verb}"

    def _who(self, which: int) -> str:
        rank, number = f"rank {self.ranks[which]}", self.threads[which]
        return f"thread {number} of {rank}" if number or self._is_of_threads else rank

    @property
    def _is_of_threads(self) -> bool:
        return self.ranks[0] == self.ranks[1] and any(self.threads) and self.parts == (None, None)

    def _what(self, which: int) -> str:
        found = None if self.target is None else self.target.index(self.owner, self.offset)
        name = self.sites[which].more.get("name") or self.sites[1 - which].more.get("name")
        if self.target is None or found is None:
            return f"byte {self.offset} of the memory of rank {self.owner}"
        index, ghost = found
        return (
            f"{'ghost ' if ghost else ''}{name or self.target.label}[{', '.join(map(str, index))}] of rank {self.owner}"
        )

    def _other(self, which: int) -> str:
        part, site = self.parts[which], self.sites[which]
        if part is None:
            return f"{self._subject(which)} it{_where(site)}"
        begun, verb = _where(part.begun), "writes" if self.wrote[which] else "reads"
        return f"the {part.what or site.what} that {self._who(which)} has started{begun} {verb} it"

    def _since(self, which: int) -> str:
        if self.ranks[0] == self.ranks[1]:
            return ""
        if self.order is None:
            return f" (nothing has ordered rank {self.ranks[1]} behind rank {self.ranks[0]} before)"
        what, site = self.order
        return f" (rank {self.ranks[1]} was last ordered behind rank {self.ranks[0]} by {what}{_where(site)})"

    def _advice(self, first: int, second: int) -> str:
        part = self.parts[second] or self.parts[first]
        here, there = self.ranks[first], self.ranks[second]
        if any(site.what.startswith("atomic") for site in self.sites):
            return "use atomic operations of one domain for all accesses, or order them"
        if part is not None and part.what:
            begun = part.theirs or (None if part.waited and here == there else part.begun)
            call = {"exchange": "exchange()", "accumulation": "accumulate()"}.get(part.what, "start()")
            if begun is not None:
                return f"call wait() on what {call} returned{_where(begun)} first"
            return "the promise of ready=True does not hold: leave it out, or access the elements before"
        if part is not None and not part.waited:
            return f"the {self.sites[second].what} has not been waited for: call wait() on what it returned first"
        if self._is_of_threads:
            return "let the threads meet in between, by barrier() of their team, or give each elements of its own"
        if here == there:
            return "let one wait for the other"
        behind = "and let it tell the other rank " if part is not None else ""
        return f"order them {behind}by a barrier, a signal or a message between ranks {here} and {there}"

    def about(self) -> dict[str, Any]:
        """The race as JSON values. Pure."""
        found = None if self.target is None else self.target.index(self.owner, self.offset)
        accesses = [
            {"rank": rank, "thread": thread, "writes": wrote, **site.about()}
            for rank, thread, wrote, site in zip(self.ranks, self.threads, self.wrote, self.sites, strict=True)
        ]
        return {
            "text": self.text(),
            "accesses": accesses,
            "array": None if self.target is None else self.target.label,
            "index": None if found is None else found[0],
            "owner": self.owner,
            "again": self.more,
        }


def _where(site: Site) -> str:
    launched = site.more.get("launched")
    by = f", launched at {launched}" if launched else ""
    inside = f" in {site.more['kernel']}" if "kernel" in site.more else ""
    return f"{inside} ({site.place}{by})"


def summary(races: Sequence[Race]) -> str:
    """Return the last line of the report. Pure."""
    count = len(races)
    return f"gondwana: {count} race{'s' * (count != 1)} found" if count else "gondwana: no races found"
