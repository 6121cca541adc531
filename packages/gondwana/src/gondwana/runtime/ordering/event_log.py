"""The log of one rank, and its events: the kinds, the words, and what is due when it is repeated."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gondwana.errors import GondwanaError, UsageError
from gondwana.inputs import open_file
from gondwana.runtime import launcher
from gondwana.runtime.files import reserve

RECORD, REPLAY = "GONDWANA_RECORD", "GONDWANA_REPLAY"
"""Names of the variables with the folder of the logs."""

SUFFIX = ".events"
"""End of the names of the logs, which begin with the rank."""

FORMAT = 0x474F_4E44_4F52_0001
MAGIC, RANK, RANKS, NEAR, REPLAYED, STEP, LOOSE, AT, ROOM, FULL = range(10)
"""Words of the head: the format; the rank, the number of ranks, and how many of them are on its node, 0: not connected;
whether the log is repeated; the step; 1 during a wait for room to send, which has no step of its own; the number of
events so far, and of those that there is room for, or that were recorded; whether some found no room."""
HEAD, EVENT, WORD = 16, 2, 8
"""Words of the head and of an event, bytes of a word."""
EVENTS = 1 << 21
"""Events that a recording has room for."""
KIND_SHIFT = 56
"""The second word of an event is its value, and its kind from here on."""
TURN = 2
"""What a call adds to the step."""

CALLBACK, TIMEOUT, SUSPEND, YIELD, WAKE, TIMER, ENVELOPE, PUT, TAKE, PEEK, CLOSE = range(4, 15)
"""Kinds of events; those below are messages, by the numbers of their queues in `sync.rings`. Their value is the sender,
as the place of the rank in the inbox; of a wake-up the place among the waiting tasks; of a timer its number; of an
envelope the rank and the tag; of a channel its name and the position in its ring."""
_MADV_POPULATE_WRITE = 23
OWN = (TIMEOUT, ENVELOPE)
"""Kinds that only the call itself makes happen in whose step they are."""


class Log:
    """The log of one rank. Local; only the main thread uses it.

    Args:
        folder: folder of the logs of all ranks.
        launch: launch of this process; None without a launcher.
        replaying: whether the events of the log are repeated; else they are recorded.

    Attributes:
        replaying: whether the events of the log are repeated.
        words: words of the log.
        address: their address.
        nested: whether the program is inside a counted call.
        catch_up: makes progress until all events up to the present step have happened.

    Raises:
        UsageError: the log cannot be written, or there is none to repeat.
    """

    def __init__(self, folder: Path, launch: launcher.Launch | None, replaying: bool) -> None:
        self.replaying: Final = replaying
        self.nested = False
        self.catch_up: Callable[[], None] = lambda: None
        self._process = os.getpid()
        self._path = folder.absolute() / f"{0 if launch is None else launch.rank}{SUFFIX}"
        self._memory = self._open_recorded() if replaying else self._create()
        self.words: Final = memoryview(self._memory).cast("q")
        self.address: Final = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        words = self.words
        if not replaying:
            words[MAGIC], words[RANK], words[ROOM] = FORMAT, 0 if launch is None else launch.rank, EVENTS
        elif len(words) < HEAD or words[MAGIC] != FORMAT or not 0 <= words[AT] <= (len(words) - HEAD) // EVENT:
            raise UsageError(f"{self._path} is no log of recorded events: record the run anew")
        else:
            words[REPLAYED], words[ROOM], words[AT], words[STEP], words[LOOSE] = 1, words[AT], 0, 0, 0

    def _create(self) -> mmap.mmap:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.unlink(missing_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                nbytes = WORD * (HEAD + EVENT * EVENTS)
                reserve(descriptor, nbytes)
                memory = mmap.mmap(descriptor, nbytes)
                with contextlib.suppress(OSError):  # an old kernel: pages are found at their first event then
                    memory.madvise(_MADV_POPULATE_WRITE)
                return memory
            finally:
                os.close(descriptor)
        except OSError as error:
            raise UsageError(f"{RECORD}={self._path.parent}: {error.strerror}; name another folder") from None

    def _open_recorded(self) -> mmap.mmap:
        most = WORD * (HEAD + EVENT * EVENTS)
        advice = f"name the folder of a recorded run of as many ranks, {REPLAY}=FOLDER"
        with open_file(self._path, f"{REPLAY}={self._path}", most, advice) as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)

    def connected(self, ranks: int, near: int) -> None:
        """Note how many ranks there are, and on this node, or compare that with the recorded run. Local.

        Raises:
            UsageError: they differ.
        """
        words = self.words
        atexit.register(self.end)  # called before the ranks wait for each other at exit
        if not self.replaying:
            words[RANKS], words[NEAR] = ranks, near
        elif words[NEAR] and (words[RANKS], words[NEAR]) != (ranks, near):
            raise UsageError(
                f"the run that {self._path.parent} holds had {words[RANKS]} ranks, {words[NEAR]} of them on the node "
                f"of rank {words[RANK]}, not {ranks} and {near}: repeat it on as many ranks and nodes"
            )

    # -- events --------------------------------------------------------------------------------------------------

    def happens(self, kind: int, value: int = 0) -> None:
        """Note that an event happens; in a replay it is the next one, which the caller knows to be due. Local."""
        words = self.words
        place = words[AT]
        if place >= words[ROOM]:
            words[FULL] = 1
            return
        if not self.replaying:
            first = HEAD + EVENT * place
            words[first], words[first + 1] = words[STEP] + words[LOOSE], kind << KIND_SHIFT | value
        words[AT] = place + 1

    def is_over(self) -> bool:
        """Return whether all recorded events have happened again. Local."""
        return self.words[AT] >= self.words[ROOM]

    def next_of(self, *kinds: int) -> int | None:
        """Return the value of the next event if it is due and of one of some kinds, else None. Local."""
        kind, value = self._due(self.words[AT])
        return value if kind in kinds else None

    def is_due(self, kind: int, value: int = 0) -> bool:
        """Return whether an event may happen now: in a recording, and after the end of one, always. Local."""
        return not self.replaying or self.is_over() or self._due(self.words[AT]) == (kind, value)

    def waking(self) -> int | None:
        """Return the place of the task that is woken next, perhaps by what it gets of a channel; None: none is."""
        place = self.words[AT]
        while (event := self._due(place))[0] in (PUT, TAKE, PEEK):
            place += 1
        return event[1] if event[0] == WAKE else None

    def times_out(self) -> bool:
        """Return whether a wait of the present step is going to end by its time limit. Local."""
        place, words = self.words[AT], self.words
        while place < words[ROOM] and words[HEAD + EVENT * place] <= words[STEP]:
            if words[HEAD + EVENT * place + 1] >> KIND_SHIFT == TIMEOUT:
                return True
            place += 1
        return False

    def _due(self, place: int) -> tuple[int, int]:
        """Return kind and value of an event, (-1, 0) if it is not due."""
        words, first = self.words, HEAD + EVENT * place
        if place >= words[ROOM] or words[first] > words[STEP] + 1:
            return -1, 0
        return words[first + 1] >> KIND_SHIFT, words[first + 1] & (1 << KIND_SHIFT) - 1

    def caught_up(self) -> bool:
        """Return whether all events up to the present step have happened. Local.

        Raises:
            GondwanaError: the next one can never happen: the program does not do what it did.
        """
        words, place = self.words, self.words[AT]
        if not self.replaying or place >= words[ROOM] or words[HEAD + EVENT * place] > words[STEP]:
            return True
        if self._due(place)[0] in OWN:
            raise self.differs()
        return False

    def end_step(self) -> None:
        """End a step of a replay: wait for what has happened in it. Local; blocks, unless the program is to end."""
        if isinstance(sys.exception() or Exception(), Exception):
            self.catch_up()

    def differs(self) -> GondwanaError:
        """Return an error: the program does not do what it did in the recorded run. Local."""
        return GondwanaError(
            f"the replay differs from the recorded run at event {self.words[AT]} of rank {self.words[RANK]}: what the "
            "program does must depend only on the recorded order, not on times, random numbers or other input"
        )

    # -- the end -------------------------------------------------------------------------------------------------

    def withdraw(self) -> None:
        """Leave the log to the children of this process, which is no rank after all. Local."""
        os.environ[REPLAY if self.replaying else RECORD] = str(self._path.parent)
        if not self.replaying:
            self._path.unlink(missing_ok=True)

    def end(self) -> None:
        """End the log: shorten the file of a recording, and say what is missing in it, or was not repeated. Local."""
        words = self.words
        if os.getpid() != self._process:
            return  # a copy of the rank
        if not self.replaying:
            with contextlib.suppress(OSError):  # the folder may have been removed
                os.truncate(self._path, WORD * (HEAD + EVENT * words[AT]))
            if words[FULL]:
                print(f"rank {words[RANK]}: only its first {EVENTS} events are recorded", file=sys.stderr)
        elif not self.is_over():
            left = words[ROOM] - words[AT]
            print(f"rank {words[RANK]}: {left} of {words[ROOM]} recorded events were not repeated", file=sys.stderr)
        words[ROOM] = words[AT]


def _from_environment() -> tuple[Log | None, UsageError | None]:
    """The log that the environment asks for, or why there is none. Children of this process are not ranks."""
    record, replay = os.environ.pop(RECORD, ""), os.environ.pop(REPLAY, "")
    try:
        return (Log(Path(replay or record), launcher.detect(), bool(replay)) if record or replay else None), None
    except UsageError as error:
        return None, error


log, problem = _from_environment()


def repeats() -> bool:
    """Return whether recorded events are repeated now, so that no time decides anything. Local."""
    return log is not None and log.replaying and not log.is_over()
