"""Anonymous files in memory that other processes of this host open without a name in any folder."""

from __future__ import annotations

import os
from dataclasses import dataclass


class ForeignFileError(LookupError):
    """There is another file where a shared file should be: the processes do not see each other's descriptors."""


@dataclass(frozen=True)
class SharedFile:
    """Where the file of a process can be opened; can be sent to others. The file exists while a process has it open."""

    process: int
    descriptor: int
    inode: int

    @classmethod
    def create(cls, name: str, nbytes: int) -> SharedFile:
        """Create a file of zeros; its memory is allocated on first touch. Local.

        Raises:
            OSError: this system provides no such memory.
        """
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
        try:
            os.fchmod(descriptor, 0o600)  # Linux makes it accessible to everybody who finds it
            os.ftruncate(descriptor, nbytes)
        except OSError:
            os.close(descriptor)
            raise
        return cls(os.getpid(), descriptor, os.fstat(descriptor).st_ino)

    @property
    def path(self) -> str:
        """The path by which it can be opened while its process has it open."""
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
