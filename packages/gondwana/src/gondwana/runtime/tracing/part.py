"""The part of a trace that one rank writes: a mapped file of fixed size, and a file of names.

The kernel keeps the written data, however the rank ends. Words have 64 bits. First come the words of the head, then
four words for each rank of the job, then a word for each plan of copies, then the records of Python and of compiled
code, of five words each.
"""

from __future__ import annotations

import contextlib
import errno
import json
import mmap
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeAlias

from gondwana.errors import UsageError
from gondwana.inputs import open_file, read_file
from gondwana.runtime import files

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

VARIABLE = "GONDWANA_TRACE"
"""Name of the variable with the file of the trace; if it is set, ranks record."""
CAPACITY = "GONDWANA_TRACE_EVENTS"
"""Name of the variable with the number of records that a rank keeps."""
DEFAULT_CAPACITY = 1 << 18
LARGEST_CAPACITY = 1 << 26
PARTS = ".parts"
"""Suffix of the name of the trace in that of the folder with the parts."""

MAGIC = 0x474F_4E44_5452_0001
(
    FORMAT, RANK, RANKS, ROOM, BORN, ENDED, OFFSET, OFFSET_ERROR, LOST, COMPILED, COMPILED_AT, PROCESS,
) = range(12)  # fmt: skip
"""Words of the head: the format, the rank, the number of ranks, the capacity of each half in records, when the process
started and left [ns of its clock, 0: it has not], the offset of its clock and its error [ns], lost records of the
first half, records of compiled code (also lost ones), where these begin [bytes], the number of the process."""
HEAD = 64
"""Words of the head."""

SENT_BYTES, SENT, FETCHED_BYTES, FETCHED = range(4)
"""Words of a rank: bytes and messages that this rank sent to it, and that this rank read from it."""
PEER = 4
PLANS = 4096
"""The most plans of copies that have a word."""

BEGIN, LENGTH, NAME, TRACK, VALUE = range(5)
"""Words of a record: when it begins and its length [ns], the number of its name, its track, and a number."""
RECORD = 5
_WORD = 8

COMPILED_SPANS = {
    -1: ("gw.wait", "wait"),
    -2: ("gw.barrier", "collective"),
    -3: ("gw.bcast", "collective"),
    -4: ("gw.allreduce", "collective"),
    -5: ("gw.send", "message"),
    -6: ("gw.recv", "message"),
    -7: ("gw.sendrecv", "message"),
    -8: ("gw.wait_all", "message"),
}
"""Name and category of the records of compiled code; the numbers are in the machine code on the disk."""
SIGNAL_WAIT, BARRIER, BCAST, ALLREDUCE, SEND, RECV, SENDRECV, WAIT_ALL = COMPILED_SPANS

_LARGEST = 1 << 40
"""The most bytes of a file."""
_LATEST = 1 << 60
"""Upper limit of times [ns]."""

Words: TypeAlias = "npt.NDArray[np.int64]"


class Regions(NamedTuple):
    """Where the regions of a part begin, counted in words.

    Args:
        ranks: number of ranks that have words.
        room: capacity of each half in records.
    """

    ranks: int
    room: int

    @property
    def plans(self) -> int:
        """Where the words of the plans begin."""
        return HEAD + PEER * self.ranks

    @property
    def records(self) -> int:
        """Where the records of Python begin."""
        return self.plans + PLANS

    @property
    def compiled(self) -> int:
        """Where the records of compiled code begin."""
        return self.records + RECORD * self.room

    @property
    def nbytes(self) -> int:
        """Bytes of the whole part."""
        return _WORD * (self.compiled + RECORD * self.room)


def create(folder: Path, rank: int, regions: Regions) -> tuple[mmap.mmap, TextIO]:
    """Make both files of a rank, with disk space for all records. Local.

    Raises:
        OSError: the files cannot be made there.

    Returns:
        The memory of the records, and the file of names.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    there = folder.lstat()
    if there.st_uid != os.geteuid() or not stat.S_ISDIR(there.st_mode):
        # The owner of the folder could have files of this user overwritten.
        raise PermissionError(errno.EPERM, f"{folder} is there and belongs to another user")
    records, lines = (_new(path) for path in names(folder, rank))
    try:
        files.reserve(records, regions.nbytes)
        return mmap.mmap(records, regions.nbytes), open(lines, "w", encoding="utf-8", buffering=1)
    finally:
        os.close(records)


def _new(path: Path) -> int:
    path.unlink(missing_ok=True)  # a reader of an earlier job's file keeps that
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def names(folder: Path, rank: int) -> tuple[Path, Path]:
    """Return the names of the two files of a rank: the records, and the names in them. Local."""
    return folder / f"{rank}.records", folder / f"{rank}.names"


class Part(NamedTuple):
    """The records of a rank, read from its files.

    Attributes:
        head: words of the head.
        peers: four words for each rank: see `SENT_BYTES`.
        rounds: number of rounds begun, for each plan of copies.
        records: one row each, those of compiled code last.
        about: lines of its other file: names, plans, tracks, and the identity of the rank.
        lost: number of records that did not fit.
    """

    head: Words
    peers: Words
    rounds: Words
    records: Words
    about: list[dict[str, Any]]
    lost: int

    @property
    def begin(self) -> int:
        """When its process started [ns of its own clock]."""
        return int(self.head[BORN])

    @property
    def end(self) -> int:
        """When it had finished, or the end of its last record [ns of its own clock]."""
        if self.head[ENDED]:
            return int(self.head[ENDED])
        return max(self.begin, int((self.records[:, BEGIN] + self.records[:, LENGTH]).max(initial=0)))

    @property
    def finished(self) -> bool:
        """Whether the rank came to its end."""
        return bool(self.head[ENDED])


def read(folder: Path, rank: int) -> Part | None:
    """Return the part of a rank, None if it is missing or unreadable. Local.

    Records and lines that no rank can have written are left out.
    """
    import numpy as np  # only to read: recording, and `gondwana run`, do without it

    try:
        with open_file(names(folder, rank)[0], "", _LARGEST) as file:
            words = np.fromfile(file, np.int64)
    except (OSError, UsageError):
        return None
    if words.size < HEAD or words[FORMAT] != MAGIC:
        return None
    head = words[:HEAD]
    regions = Regions(int(head[RANKS]), int(head[ROOM]))
    if regions.room < 0 or head[RANK] != rank or not rank < regions.ranks or words.nbytes != regions.nbytes:
        return None
    times = head[[BORN, ENDED, OFFSET, OFFSET_ERROR]]
    if (np.abs(times) > _LATEST).any() or head[BORN] < 0 or (head[ENDED] and head[ENDED] < head[BORN]):
        return None
    halves = words[regions.records :].reshape(-1, RECORD)
    legal = (halves[:, [BEGIN, LENGTH, TRACK]] >= [head[BORN], 0, 0]).all(axis=1)
    legal &= (halves[:, [BEGIN, LENGTH]] <= _LATEST).all(axis=1)
    records = halves[(halves[:, NAME] != 0) & legal]
    return Part(
        head=head,
        peers=words[HEAD : regions.plans].reshape(-1, PEER),
        rounds=words[regions.plans : regions.records],
        records=records,
        about=list(_lines(names(folder, rank)[1])),
        lost=int(head[LOST]) + max(0, int(head[COMPILED]) - regions.room),
    )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file of names; the last one may have been cut off."""
    with contextlib.suppress(UsageError):
        for line in read_file(path, "", _LARGEST).splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                found = json.loads(line)
                if isinstance(found, dict):
                    yield found


def remove(folder: Path) -> None:
    """Remove all parts, and their folder if it is then empty. Local."""
    for pattern in ("*.records", "*.names"):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
