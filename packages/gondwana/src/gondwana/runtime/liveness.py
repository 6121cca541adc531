"""Detection of ranks of this host that terminated abnormally: killed, crashed, or ended by `os._exit`.

Launchers end the job then, but not all of them report which rank it was. A rank that ends the job on purpose, with a
traceback or a message of its own, first announces that in a page of memory that the ranks of the host share.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
from dataclasses import dataclass

from gondwana.errors import LaunchError
from gondwana.runtime.placement import report
from gondwana.runtime.shared_file import ForeignFileError, SharedFile


@dataclass(frozen=True)
class Member(report.Seat):
    """A rank, where it is, and its process."""

    rank: int
    page: SharedFile


class Monitor:
    """Watches the processes of the other ranks of this host. Local; the members come from an allgather.

    Attributes:
        handles: file descriptors that become readable when a process has ended, with the member.
    """

    def __init__(self, own: Member, members: list[Member]) -> None:
        neighbours = [member for member in members if member.host == own.host]
        self._own = own
        self._page = _map(neighbours[0])
        self.handles: dict[int, Member] = {}
        for member in neighbours:
            if member.rank != own.rank:
                with contextlib.suppress(OSError):  # an old kernel, or an invisible process: it is not watched
                    self.handles[os.pidfd_open(member.page.process)] = member

    def announce(self) -> None:
        """Announce that this rank ends the job and reports the reason itself. Local."""
        if self._page is not None:
            self._page[0] = 1

    @property
    def announced(self) -> bool:
        """Whether a rank of this host has announced the end."""
        return self._page is not None and self._page[0] == 1

    def text(self, member: Member) -> str | None:
        """Return the report on a member that has ended; None if another rank prints it or it was announced. Local."""
        lower = [handle for handle, other in self.handles.items() if other.rank < self._own.rank]
        gone = {handle for handle, _ in _poll(lower)}
        if self.announced or any(handle not in gone for handle in lower):
            return None
        return (
            f"gondwana: rank {member.rank} (process {member.page.process} on {member.host}) terminated abnormally: "
            "it was killed, crashed, or called os._exit; ending the job\n"
        )


def member(rank: int) -> Member:
    """Describe this process; the ranks of a host use the page of the first one. Local."""
    try:
        page = SharedFile.create("gondwana-end", mmap.PAGESIZE)
    except OSError as error:
        raise LaunchError(f"this system provides no shared memory (memfd_create): {error}") from error
    seat = report.own_seat()
    return Member(seat.host, seat.machine, seat.cores, rank, page)


def _map(first: Member) -> mmap.mmap | None:
    """Map the page of the first rank of this host; return None if its process is not visible."""
    try:
        descriptor = first.page.open()
    except (OSError, ForeignFileError):
        return None
    try:
        return mmap.mmap(descriptor, mmap.PAGESIZE)
    finally:
        os.close(descriptor)


def _poll(handles: list[int]) -> list[tuple[int, int]]:
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    return poll.poll(0)
