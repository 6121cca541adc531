"""Noticing that a rank of this host has died without a word: killed, crashed, or ended by `os._exit`.

Launchers end the job then, but not all of them say which rank it was. A rank that ends the job knowingly, with a
traceback or a message of its own, announces that first in a page of memory that the ranks of the host share.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import socket
from dataclasses import dataclass

from gondwana.errors import LaunchError
from gondwana.runtime import cores
from gondwana.runtime.shared_file import ForeignFileError, SharedFile


@dataclass(frozen=True)
class Member:
    """A rank and its process."""

    rank: int
    host: str
    page: SharedFile
    cores: frozenset[int]


class Obituary:
    """Watches the processes of the other ranks on this host. Local; the members come from an allgather.

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
                with contextlib.suppress(OSError):  # an old kernel, or a process that cannot be seen: no watch
                    self.handles[os.pidfd_open(member.page.process)] = member

    def announce(self) -> None:
        """Say that this rank ends the job and has told, or tells, why. Local."""
        if self._page is not None:
            self._page[0] = 1

    @property
    def announced(self) -> bool:
        """Whether a rank of this host has announced the end."""
        return self._page is not None and self._page[0] == 1

    def text(self, member: Member) -> str | None:
        """What to print about a dead member: None if another rank prints it, or if the end was announced. Local."""
        lower = [handle for handle, other in self.handles.items() if other.rank < self._own.rank]
        gone = {handle for handle, _ in _poll(lower)}
        if self.announced or any(handle not in gone for handle in lower):
            return None
        return (
            f"gondwana: rank {member.rank} (process {member.page.process} on {member.host}) has died without a word: "
            "it was killed, crashed, or called os._exit; ending the job\n"
        )


def member(rank: int) -> Member:
    """Describe this process; its page, if it is the first of its host, is the one that is used. Local."""
    try:
        page = SharedFile.create("gondwana-end", mmap.PAGESIZE)
    except OSError as error:
        raise LaunchError(f"this system gives no shared memory: {error}") from error
    return Member(rank, socket.gethostname(), page, cores.own())


def _map(first: Member) -> mmap.mmap | None:
    """The page of the first rank of this host, None if its process cannot be seen."""
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
