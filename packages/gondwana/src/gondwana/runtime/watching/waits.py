"""What a rank waits for, as the others are told when a job stands still. Nothing here runs before a wait is long."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

ANY = -1
"""The tag of a receive that takes any."""

COLLECTIVE, RECEIVE, SEND, SIGNAL, LOCK, CHANNEL, FUTURE, EXCHANGE, ROOM, TASKS, END = (
    "collective", "receive", "send", "signal", "lock", "channel", "future", "exchange", "room", "tasks", "end"
)  # fmt: skip
"""Kinds of waits."""
KINDS = ("", COLLECTIVE, RECEIVE, SEND, SIGNAL, CHANNEL, EXCHANGE)
"""Those of compiled code, which it names by their places."""


class Compiled(NamedTuple):
    """The words in which compiled code says what it waits for.

    Attributes:
        kind: place of the kind in `KINDS`; 0: it does not wait, or not for long.
        mark: number of the wait.
        rounds: number of times that loops have polled for long; calls of MPI do not count.
        first: first word of what is waited for.
        second: second word.
        third: third word.
        nbytes: bytes of the message that is waited for.
    """

    kind: int
    mark: int
    rounds: int
    first: int
    second: int
    third: int
    nbytes: int


COMPILED = Compiled(*range(7))
"""Places of the words, for machine code."""

_words = (ctypes.c_int64 * len(COMPILED))()
ADDRESS = ctypes.addressof(_words)
"""Address of the words of this process."""

_AWAKE = 0.5
"""Seconds after the last sleep of a wait during which the rank still counts as waiting, on a loaded machine."""

_POLLED = 1 << 16
"""Bytes of a message under way that MPI moves in a round of progress at least: twenty tests of a request."""

_POLLING = 100_000
"""Nanoseconds of a thread that polls, or yields the processor after each poll, which count as a round."""

_ROUNDS = 30
"""Rounds of progress in which a rank finds what other ranks of its host have sent it before."""


class Wait(NamedTuple):
    """What a rank waits for. Only acts of other ranks end it.

    Attributes:
        what: description that completes "rank 0 waits ...".
        kind: one of the kinds above.
        ranks: world ranks that have to act; empty if any may.
        nbytes: bytes of the message that is waited for, 0 if they are few.
        tag: tag of the message, or `ANY`.
    """

    what: str
    kind: str
    ranks: tuple[int, ...] = ()
    nbytes: int = 0
    tag: int = ANY


Message: TypeAlias = tuple[str, tuple[int, ...], int | None, int | None]
"""`SEND` or `RECEIVE`, the world ranks of a team, and the place of the other rank among them and the tag, or None."""


def of_message(kind: str, ranks: tuple[int, ...], place: int | None, tag: int | None, nbytes: int = 0) -> Wait:
    """Return the wait for a message. Local."""
    rank = None if place is None or not 0 <= place < len(ranks) else ranks[place]
    number = ANY if tag is None or tag < 0 else tag
    tagged = f" with tag {number}" if number > 0 else ""
    if kind == SEND:
        what = f"for rank {rank} to receive a message{tagged}"
    else:
        what = f"for a message from {'any rank' if rank is None else f'rank {rank}'}{tagged}"
    return Wait(what, kind, () if rank is None else (rank,), nbytes, number)


Members: TypeAlias = tuple[str, int, tuple[int, ...]]
"""The name of a team, this rank in it, and its world ranks."""


def of_collective(name: str, team: Members, nbytes: int = 0) -> Wait:
    """Return the wait for the other ranks of a team in a collective. Local."""
    team_name, rank, ranks = team
    return Wait(f"in {name} of {team_name}", COLLECTIVE, ranks[:rank] + ranks[rank + 1 :], nbytes)


Why: TypeAlias = Callable[[], Wait | None]
"""Describes a wait, on the watchdog's thread; None if something else than an act of another rank may end it."""


class Standing(NamedTuple):
    """A wait that has become long.

    Attributes:
        mark: number that no other wait of this rank has, and another one once the wait has found work to do.
        rounds: polls so far, which go on only while the rank waits.
        needed: more rounds after which it has found all that was sent to it before.
    """

    mark: int
    rounds: int
    needed: int

    def has_polled(self, first: Standing, ranks: int) -> bool:
        """Return whether it has found since a first look what was sent to it before. Local.

        Args:
            first: how the rank stood then.
            ranks: number of all ranks: some collectives of MPI take as many steps.
        """
        return self.rounds >= first.rounds + self.needed + 2 * ranks


class _Latest:
    """The latest long wait of this rank.

    Attributes:
        mark: number of the wait; it changes when the wait has found work.
        seen: time of its last sleep, by `time.monotonic`.
        rounds: number of sleeps of all waits.
        why: describes the wait; None: it is over.
    """

    mark = rounds = 0
    seen = 0.0
    why: Why | None = None


_latest = _Latest()


def note(why: Why, now: float) -> None:
    """Take note that this rank is about to sleep in a wait. Local; the wait's own thread."""
    if why is not _latest.why:
        _latest.mark += 1
        _latest.why = why
    _latest.seen = now
    _latest.rounds += 1


def over() -> None:
    """Take note that the wait is over, or has found work. Local."""
    _latest.why = None


def compiled_over() -> None:
    """Take note that compiled code has ended by an exception, which may have left a wait that is not over. Local."""
    _words[COMPILED.kind] = 0


def in_compiled_code() -> bool:
    """Return whether compiled code is in a wait that has become long. Local."""
    return bool(_words[COMPILED.kind])


Describe: TypeAlias = Callable[[int, int, int], Wait | None]
"""Describes a wait of compiled code by its words."""

_describe: dict[str, Describe] = {}


def describe_by(kind: str, describe: Describe) -> None:
    """Register a function that describes the waits of a kind in compiled code. Local.

    Args:
        kind: one of `KINDS`.
        describe: called by the watchdog with the words of the wait.
    """
    _describe[kind] = describe


def current() -> Wait | None:
    """Return what this rank waits for, None if it is not waiting or something else may end its wait. Local."""
    compiled = Compiled(*_words)
    if compiled.kind:
        found = _describe[KINDS[compiled.kind]](compiled.first, compiled.second, compiled.third)
        return None if found is None else found._replace(nbytes=max(found.nbytes, compiled.nbytes))
    why = _latest.why
    if why is None or time.monotonic() > _latest.seen + _AWAKE:
        return None
    return why()


def standing(worked: Callable[[], tuple[int, int]]) -> Standing | None:
    """Return how this rank waits for others, None if it does not. Local.

    Args:
        worked: returns the nanoseconds that the main thread has run, and those of the threads of compiled code.
    """
    mark, rounds, compiled = _latest.mark, _latest.rounds, Compiled(*_words)
    wait = current()
    if wait is None:
        return None
    if compiled.kind:
        main, others = worked()
        # A call of MPI polls as long as it runs. Meanwhile no other thread may have done anything else, and the program
        # stands at the same call of compiled code.
        frame = sys._current_frames()[threading.main_thread().ident or 0]
        mark = -abs(hash((compiled.mark, others, id(frame), frame.f_lasti))) - 1
        rounds = compiled.rounds + main // _POLLING
    return Standing(mark, rounds, _ROUNDS + wait.nbytes // _POLLED)
