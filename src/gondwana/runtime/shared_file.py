"""Anonymous files in memory that other processes of this host find without a name in any folder."""

from __future__ import annotations

import os
from dataclasses import dataclass


class ForeignFileError(LookupError):
    """Where a shared file should be, there is another: the processes do not see the same ones."""


@dataclass(frozen=True)
class SharedFile:
    """Where a file of a process is found; can be sent to other processes. The file is gone when nobody has it open."""

    process: int
    descriptor: int
    inode: int

    @classmethod
    def create(cls, name: str, nbytes: int) -> SharedFile:
        """Make a file of zeros; memory is taken when it is touched. Local.

        Raises:
            OSError: this system gives no such memory.
        """
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
        try:
            os.ftruncate(descriptor, nbytes)
        except OSError:
            os.close(descriptor)
            raise
        return cls(os.getpid(), descriptor, os.fstat(descriptor).st_ino)

    @property
    def path(self) -> str:
        """Where it can be opened while its process has it open."""
        return f"/proc/{self.process}/fd/{self.descriptor}"

    def open(self) -> int:
        """Open it, from any process of this host, and return the descriptor. Local.

        Raises:
            OSError: it cannot be opened.
            ForeignFileError: it is another file.
        """
        descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        if os.fstat(descriptor).st_ino != self.inode:
            os.close(descriptor)
            raise ForeignFileError(self.path)
        return descriptor
