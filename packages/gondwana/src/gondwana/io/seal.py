"""The seal of a checkpoint: its last file, with the time and the sizes of all others, and a checksum of itself.

Without it, or if a size differs, the checkpoint is not complete.
"""

from __future__ import annotations

import time
import zlib
from pathlib import Path

import msgspec

from gondwana.io import bp5, checksums
from gondwana.io.paths import DatasetError

NAME = "complete.json"

#: No seal is larger.
_LIMIT = 1 << 20


class Seal(msgspec.Struct, frozen=True):
    """The contents of a seal: when the checkpoint was written, the sizes of its files, and the CRC-32 of both."""

    written_ns: int
    sizes: dict[str, int]
    crc: int = 0


def write(folder: Path) -> None:
    """Seal the files of a folder. Local."""
    seal = Seal(time.time_ns(), {file.name: file.stat().st_size for file in sorted(folder.iterdir())})
    (folder / NAME).write_bytes(msgspec.json.encode(msgspec.structs.replace(seal, crc=_crc(seal))))


def written_ns(candidate: Path) -> int | None:
    """Return when a checkpoint was written [ns], or None: its seal cannot be read. Local."""
    seal = _read(candidate)
    return None if isinstance(seal, str) else seal.written_ns


def damage(candidate: Path) -> str | None:
    """Return what is wrong with a checkpoint, or None; its data are not read. Local.

    After None its metadata are what was written, so that ADIOS2 can open it; see ``checksums.differing`` for its data.
    """
    seal = _read(candidate)
    if isinstance(seal, str):
        return seal
    for name, expected in seal.sizes.items():
        file = candidate / name
        actual = file.stat().st_size if file.is_file() else 0
        if actual != expected:
            return f"{name} has {actual} of {expected} bytes"
    try:
        if not checksums.vouches(candidate, bp5.check(candidate).steps):
            return f"{checksums.NAME} does not have the checksums of its metadata"
    except DatasetError as error:
        return str(error).removeprefix(f"{candidate} is damaged: ")
    return None


def _read(candidate: Path) -> Seal | str:
    """Return a seal, or why there is none."""
    try:
        if bp5.size(candidate, NAME) > _LIMIT:
            return f"{NAME} is too large"
        seal = msgspec.json.decode((candidate / NAME).read_bytes(), type=Seal)
    except DatasetError as error:
        return str(error).removeprefix(f"{candidate} is damaged: ")
    except OSError as error:
        return f"{NAME}: {error.strerror}"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return f"{NAME} is not readable"
    return seal if seal.crc == _crc(seal) else f"{NAME} differs from its checksum"


def _crc(seal: Seal) -> int:
    return zlib.crc32(msgspec.json.encode(msgspec.structs.replace(seal, crc=0)))
