"""The recorder of this process, None unless GONDWANA_TRACE names a file, and its clock beside that of rank 0."""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from gondwana.errors import UsageError
from gondwana.inputs import whole_number
from gondwana.runtime import cores, files, launcher, rank_words
from gondwana.runtime.tracing import part

NONE = -1
"""The number of a record without one."""
PROGRAM = 0
"""The track of the program itself."""

_MOST_NAMES = 1 << 16
_OTHERS = "other spans"
_MOST_RANKS = 1 << 12
"""Number of ranks to reserve space for if the launcher does not say how many it has started."""
_RECORD = struct.Struct(f"{part.RECORD}q")
_WORD = 8

ROUNDS = 50
"""Messages there and back: the fastest of them was delayed least."""
TAG = 30_001
"""Below those of plans of copies."""

now = time.monotonic_ns


def _nowhere() -> tuple[int, int]:
    return 0, 0


class Recorder:
    """The recorder of one rank. Local. Any thread may call it.

    Args:
        file: file of the trace.
        launch: launch of this process; None without a launcher.
        room: capacity in records.
        problem: reason why nothing can be recorded, if known already.

    Attributes:
        active: whether it records: not in a process that a rank has forked, and not after the end.
        problem: reason why it cannot record, reported when the job starts.
        last_actions: functions to call before the end.
        place: returns the number of callbacks that the calling thread is in, and the number of its strand of tasks, 0
            for none.
    """

    def __init__(self, file: Path, launch: launcher.Launch | None, room: int, problem: str | None = None) -> None:
        self.file: Final = file
        self.folder: Final = Path(f"{file}{part.PARTS}")
        self.rank: Final = 0 if launch is None else launch.rank
        ranks = 1 if launch is None else launch.size or _MOST_RANKS
        self.layout: Final = part.Regions(ranks, room)
        self.active = False
        self.problem = problem
        self.last_actions: list[Callable[[], None]] = []
        self.place: Callable[[], tuple[int, int]] = _nowhere
        self._no_part = (ctypes.c_int64 * part.HEAD)()
        self._lines: TextIO | None = None
        self._known: dict[tuple[str, str], int] = {}
        self._numbers = itertools.count(1)
        self._plans = itertools.count()
        self._lock = threading.RLock()  # a signal handler may record as well
        self._main = threading.main_thread().ident
        self._tracks: dict[int, int] = {self._main or 0: PROGRAM}
        if problem is None:
            try:
                self._open()
            except OSError as error:
                self.problem = f"{part.VARIABLE}={file}: {error.strerror}; name a file in a folder with room"

    def _open(self) -> None:
        self.memory, self._lines = part.create(self.folder, self.rank, self.layout)
        self.words = memoryview(self.memory).cast("q")
        self.words[part.RANK], self.words[part.RANKS] = self.rank, self.layout.ranks
        self.words[part.ROOM], self.words[part.PROCESS] = self.layout.room, os.getpid()
        self.words[part.COMPILED_AT] = _WORD * self.layout.compiled
        self.words[part.BORN] = _born()
        self.words[part.FORMAT] = part.MAGIC
        self._first = _WORD * self.layout.records
        self._places = itertools.count()
        self.note(host=socket.gethostname(), main=self._main, command=rank_words.command(sys.orig_argv))
        self.active = True
        self._imports = now()
        self.add_at(
            self.words[part.BORN], self._imports - self.words[part.BORN], self.number_of("start Python", "startup"), 0
        )
        os.register_at_fork(after_in_child=self._forget)

    @property
    def address(self) -> int:
        """Address of the head of the part for compiled code; of a head without capacity if nothing is recorded."""
        return ctypes.addressof(ctypes.c_char.from_buffer(self.memory) if self.active else self._no_part)

    def imported(self) -> None:
        """Note that the library has been imported. Local."""
        if self.problem is None:
            self.add(self._imports, self.number_of("import gondwana", "startup"))

    # -- records -------------------------------------------------------------------------------------------------

    def number_of(
        self, name: str, category: str, about: Callable[[], dict[str, Any]] | None = None, **more: Any
    ) -> int:
        """Return the number of a name, for records. Local; the first call for a name writes it to the disk.

        Args:
            name: name shown by a viewer.
            category: one of the few kinds of spans that are summed up.
            about: returns further properties of all records of this name, as they are at the first of them.
            **more: further properties of all records of that number; names that differ in them have different numbers.
        """
        found = None if more else self._known.get((name, category))
        if found is not None:
            return found
        with self._lock:
            found = None if more else self._known.get((name, category))
            if found is None:
                if len(self._known) >= _MOST_NAMES and name != _OTHERS:
                    return self.number_of(_OTHERS, category)
                found = next(self._numbers)
                self.note(number=found, name=name, category=category, **more, **(about() if about else {}))
                if not more:
                    self._known[name, category] = found
        return found

    def add(self, begin: int, number: int, value: int = NONE) -> None:
        """Record a span of the calling thread that ends now. Local.

        Args:
            begin: when it began, by `now` [ns].
            number: number of its name.
            value: bytes moved, or number of the round of a plan.
        """
        if self.active:
            self.add_at(begin, now() - begin, number, self.track(), value)

    def add_at(self, begin: int, length: int, number: int, track: int, value: int = NONE) -> None:
        """Record a span of any time and track. Local."""
        place = next(self._places)
        if place < self.layout.room and self.active:
            record = self._first + _RECORD.size * place
            _RECORD.pack_into(self.memory, record, begin, length, number, track, value)
        elif self.active:
            self.words[part.LOST] = place + 1 - self.layout.room

    def track(self) -> int:
        """Return the track of the calling thread, or of the strand of tasks that runs on it. Local."""
        strand, ident = self.place()[1], threading.get_ident()
        if strand:
            return self.track_of(-strand, "tasks", main=ident == self._main)
        found = self._tracks.get(ident)
        return self.track_of(ident, threading.current_thread().name) if found is None else found

    def track_of(self, key: int, name: str, *, main: bool = False) -> int:
        """Return the track of something, by a unique number. Local.

        Args:
            key: unique number in this process; for a thread, its identifier.
            name: name shown by a viewer.
            main: whether its spans take time of the program's own thread.
        """
        found = self._tracks.get(key)
        if found is None:
            with self._lock:
                found = self._tracks.setdefault(key, len(self._tracks))
                self.note(track=found, name=name, main=main, thread=key)
        return found

    def note(self, **line: Any) -> None:
        """Write a line beside the records. Local."""
        with self._lock:
            if self._lines is not None and not self._lines.closed:
                self._lines.write(json.dumps(line) + "\n")

    # -- traffic -------------------------------------------------------------------------------------------------

    def count_sent(self, rank: int, nbytes: int) -> None:
        """Count a message from this rank to another one of the world. Local."""
        self._count(rank, part.SENT_BYTES, nbytes)

    def count_fetched(self, rank: int, nbytes: int) -> None:
        """Count bytes that this rank has read from another one of the world. Local."""
        self._count(rank, part.FETCHED_BYTES, nbytes)

    def _count(self, rank: int, which: int, nbytes: int) -> None:
        if self.active and rank < self.layout.ranks and rank != self.rank:
            place = part.HEAD + part.PEER * rank + which
            with self._lock:
                self.words[place] += nbytes
                self.words[place + 1] += 1

    def next_plan(self) -> int:
        """Return the number of a new plan of copies; from `part.PLANS` on, plans have no word. Local."""
        return next(self._plans)

    # -- the end -------------------------------------------------------------------------------------------------

    def connected(self, comm: Any) -> None:
        """Compare the clocks of all hosts. Collective over comm; blocks.

        Raises:
            UsageError: the parts cannot be written.
        """
        problem = comm.allgather(self.problem)
        first = next((reason for reason in problem if reason is not None), None)
        if first is not None:
            raise UsageError(first)
        clock = align(comm, cores.machine())
        self.words[part.OFFSET], self.words[part.OFFSET_ERROR] = clock.offset, clock.error
        if comm.rank == 0:
            self.note(size=comm.size)

    def finish(self) -> None:
        """End the part of this rank. Local, idempotent."""
        if self.active:
            for action in self.last_actions:
                action()
            self.words[part.ENDED] = now()
            self._stop()
            self.memory.flush()

    def withdraw(self) -> None:
        """Remove the part of this process, which is no rank after all, and leave the trace to its children. Local."""
        os.environ[part.VARIABLE] = str(self.file)
        if self.active:
            self._stop()
            part.remove(self.folder)

    def _stop(self) -> None:
        self.active = False
        if self._lines is not None:
            self._lines.close()

    def _forget(self) -> None:
        """Record nothing more: this process is a copy of a rank."""
        self.active = False


def _born() -> int:
    """When this process started, by `now` [ns]: as the system knows it, to some milliseconds."""
    if not (fields := files.process_table()):
        return now()
    age = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - int(fields[19]) * 10**9 // os.sysconf("SC_CLK_TCK")
    return now() - max(0, age)


def _from_environment() -> Recorder | None:
    """The recorder that the environment asks for. Children of this process are not ranks, and record nothing."""
    name, given = os.environ.pop(part.VARIABLE, ""), os.environ.get(part.CAPACITY)
    if not name:
        return None
    room = part.DEFAULT_CAPACITY if given is None else whole_number(given)
    problem = files.obstacle(name, streams=False)
    if problem is not None:
        problem = f"{part.VARIABLE}={name}: {problem}; name another file"
    elif room is None or not 1 <= room <= part.LARGEST_CAPACITY:
        problem = f"{part.CAPACITY}={given}: legal are 1 to {part.LARGEST_CAPACITY} records of a rank"
    return Recorder(Path(name).absolute(), launcher.detect(), room or 0, problem)


# -- clocks of different hosts --------------------------------------------------------------------------------------


class Clock(NamedTuple):
    """The relation of a clock to that of rank 0.

    Attributes:
        offset: time to add to it [ns].
        error: largest error of the offset [ns], as long as both clocks run at the same speed.
    """

    offset: int
    error: int


SAME = Clock(0, 0)


def estimate(ask: Callable[[], int], rounds: int = ROUNDS, now: Callable[[], int] = time.monotonic_ns) -> Clock:
    """Compare the clock of this process with another one. Local, except for what `ask` does.

    The other clock was read between question and answer. Assuming half-way is wrong by at most half of that
    time, and the shortest round is the most accurate.

    Args:
        ask: has the other process read its clock, and returns its value [ns].
        rounds: number of questions.
        now: reads the clock of this process [ns].
    """
    best = None
    for _ in range(rounds):
        sent = now()
        there = ask()
        received = now()
        found = Clock(there - (sent + received) // 2, (received - sent + 1) // 2)
        best = found if best is None or found.error < best.error else best
    assert best is not None
    return best


def align(comm: Any, where: str) -> Clock:
    """Return how the clock of this rank relates to that of rank 0. Collective over comm; blocks.

    The first rank of each host but that of rank 0 compares with rank 0, one after the other; the rest take its result.

    Args:
        comm: the communicator of all ranks.
        where: identity of the clock of this rank, that of its machine.
    """
    hosts = comm.allgather(where)
    asking = [rank for rank in range(comm.size) if hosts.index(hosts[rank]) == rank and hosts[rank] != hosts[0]]
    own = SAME
    for rank in asking:
        if comm.rank == rank:
            own = estimate(lambda: int(comm.sendrecv(None, 0, TAG, None, 0, TAG)))
        elif comm.rank == 0:
            for _ in range(ROUNDS):
                comm.recv(None, rank, TAG)
                comm.send(time.monotonic_ns(), rank, TAG)
    clocks = comm.allgather(own)
    found: Clock = clocks[hosts.index(where)]
    return found


recorder: Final = _from_environment()
