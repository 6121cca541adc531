"""Checksums of a dataset, in a separate file, which show whether it is unchanged, and the seal of a checkpoint.

Each line of ``checksums.txt`` begins with the CRC-32 of its rest, a JSON object. One line follows a step at once: the
sizes of the files, and the CRC-32 of each file of metadata up to there, so that ADIOS2 need not be trusted with
changed metadata. A second line has the XXH64 of the pieces of the data files that the step has written; in
datasets of earlier versions it is their CRC-32. They are computed by a thread while the next step is written, or while
the data go to the disk: see ``Ledger``. ``verify`` reads the data of a dataset again and compares them.

The seal is the last file of a checkpoint, with the time and the sizes of all others, and a checksum of itself. Without
it, or if a size differs, the checkpoint is not complete.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import xxhash

from gondwana.errors import UsageError
from gondwana.io import bp5
from gondwana.io.paths import DatasetError, StrPath, has_steps, in_units, is_dataset
from gondwana.runtime.files import aside

NAME = "checksums.txt"

_SEALED = (bp5.INDEX, bp5.METADATA, bp5.FORMATS)

#: Data are summed in pieces of this size, which ranks can share when they verify.
_PIECE = 64 << 20
#: Bytes that are read at a time: they stay in the cache of the core.
_CHUNK = 256 << 10
#: The most bytes of a file of checksums.
_LIMIT = 256 << 20

SEAL = "complete.json"

#: The most bytes of a seal.
_SEAL_LIMIT = 1 << 20


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """A part of a data file, in bytes, and its checksum."""

    file: str
    begin: int
    end: int
    sum: int
    hash: Literal["crc32", "xxh64"] = "crc32"


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line: the state of the metadata after a step, or the data of a step.

    Attributes:
        step: the index of the step in the dataset.
        sizes: sizes of all files of ADIOS2.
        crcs: CRC-32 of the files of metadata, up to these sizes.
        pieces: pieces of the data files.
    """

    step: int
    sizes: dict[str, int] = msgspec.field(default_factory=dict)
    crcs: dict[str, int] = msgspec.field(default_factory=dict)
    pieces: list[Piece] | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """The checksums of a dataset.

    Attributes:
        lines: the intact lines.
        problem: reason why there are no more, if the file is damaged.
    """

    lines: tuple[Line, ...]
    problem: str | None = None

    @property
    def last(self) -> Line | None:
        """The last state of the metadata."""
        return next((line for line in reversed(self.lines) if line.pieces is None), None)

    def data(self) -> dict[int, list[Piece]]:
        """Return the pieces of each step that has them."""
        return {line.step: line.pieces for line in self.lines if line.pieces is not None}


def read(path: Path) -> Record | None:
    """Return the checksums of a dataset, or None if it has none, such as a dataset of another program. Local."""
    try:
        if bp5.size(path, NAME) > _LIMIT:
            return Record((), f"{NAME} is too large")
        text = (path / NAME).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        if not os.path.lexists(path / NAME):
            return None
        return Record((), f"{NAME}: {error.strerror or error}")
    lines: list[Line] = []
    *complete, _ = text.split(b"\n")  # a line without an end is being written
    for number, line in enumerate(complete, 1):
        decoded = _decode(line)
        if decoded is None:
            return Record(tuple(lines), f"line {number} of {NAME} is damaged")
        lines.append(decoded)
    return Record(tuple(lines))


def vouches(path: Path, steps: int) -> bool:
    """Return whether checksums confirm all metadata of a dataset. Local.

    Args:
        path: the dataset.
        steps: number of steps in its index.

    Raises:
        DatasetError: the metadata are damaged.
    """
    record = read(path)
    last = record.last if record else None
    if last is None:
        return False
    for name, expected in last.sizes.items():
        actual = bp5.size(path, name)
        if actual < expected:
            raise bp5.damaged(path, f"{name} has {actual} of {expected} bytes")
    for name, crc in last.crcs.items():
        if _crc_of_metadata(path / name, last.sizes[name])[0] != crc:
            raise bp5.damaged(path, f"{name} differs from its checksum")
    return record is not None and record.problem is None and last.step + 1 == steps


def differing(path: Path, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, str]]:
    """Read pieces of data files again, and return the changed ones, with the reason. Local."""
    for piece in pieces:
        try:
            bp5.size(path, piece.file)
            found, length = _sum_of_file(path / piece.file, piece)
        except OSError as error:
            yield piece, f"{piece.file}: {error.strerror or error}"
            continue
        if length < piece.end - piece.begin:
            yield piece, f"{piece.file} has {piece.begin + length} of {piece.end} bytes"
        elif found != piece.sum:
            yield piece, f"{piece.file} differs from its checksum in bytes {piece.begin} to {piece.end - 1}"


class Ledger:
    """The checksums of a dataset that is being written. Local.

    Made before ADIOS2 opens the dataset, so that there are never checksums of steps that it has removed.

    Args:
        path: the dataset.
        keep: number of existing steps that stay.
    """

    def __init__(self, path: Path, keep: int) -> None:
        self._path = path
        self._step = keep
        self._crcs: dict[str, tuple[int, int]] = {}
        self._written: dict[str, int] = {}
        self._worker = ThreadPoolExecutor(1, "gondwana-checksums")
        self._under_way: Future[None] | None = None
        before = read(path) if keep else None
        if before is not None:
            with aside(path / NAME) as fresh:
                fresh.write_bytes(b"".join(_encode(line) for line in before.lines if line.step < keep))

    def begin(self) -> None:
        """Note the ends of the files, where new data begin, once ADIOS2 has opened the dataset."""
        self._written = self._sizes()

    def add_step(self) -> None:
        """Record the metadata of the step just written, and start to compute the checksums of its data."""
        self.wait()
        before, self._written = self._written, self._sizes()
        for name in _SEALED:
            # Formats are few, and an append writes them anew; the others only grow.
            crc, done = self._crcs.get(name, (0, 0)) if name != bp5.FORMATS else (0, 0)
            self._crcs[name] = _crc_of_metadata(self._path / name, self._written[name], crc, done)
        crcs = {name: crc for name, (crc, _) in self._crcs.items()}
        self._append(Line(self._step, self._written, crcs))
        ranges = [
            (name, begin, min(begin + _PIECE, end))
            for name, end in self._written.items()
            if name not in _SEALED
            for begin in range(before.get(name, 0), end, _PIECE)
        ]
        self._under_way = self._worker.submit(self._sum, self._step, ranges)
        self._step += 1

    def wait(self) -> None:
        """Wait for the checksums of the data."""
        if self._under_way is not None:
            under_way, self._under_way = self._under_way, None
            under_way.result()

    def close(self) -> None:
        """Wait for the checksums of the data, and end the thread."""
        try:
            self.wait()
        finally:
            self._worker.shutdown()

    def _sizes(self) -> dict[str, int]:
        names = sorted(entry.name for entry in self._path.iterdir() if entry.name.startswith(("md.", "mmd.", "data.")))
        return {name: bp5.size(self._path, name) for name in names}

    def _sum(self, step: int, ranges: list[tuple[str, int, int]]) -> None:
        pieces = [
            Piece(name, begin, end, _sum_mapped(self._path / name, begin, end), "xxh64") for name, begin, end in ranges
        ]
        self._append(Line(step, pieces=pieces))

    def _append(self, line: Line) -> None:
        with (self._path / NAME).open("ab", buffering=0) as file:
            file.write(_encode(line))


def _encode(line: Line) -> bytes:
    text = msgspec.json.encode(line)
    return b"%08x %b\n" % (zlib.crc32(text), text)


def _decode(text: bytes) -> Line | None:
    crc, _, rest = text.partition(b" ")
    if crc != b"%08x" % zlib.crc32(rest):
        return None
    try:
        return msgspec.json.decode(rest, type=Line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _crc_of_metadata(file: Path, end: int, crc: int = 0, begin: int = 0) -> tuple[int, int]:
    """Continue the checksum of a file of metadata from byte ``begin`` to ``end``; return it and the end.

    The byte by which a writer says that it has the dataset open counts as 0.
    """
    with file.open("rb") as opened:
        opened.seek(begin)
        text = bytearray(opened.read(end - begin))
    if file.name == bp5.INDEX and begin <= bp5.ACTIVE < end:
        text[bp5.ACTIVE - begin] = 0
    return zlib.crc32(text, crc), end


def _sum_of_file(file: Path, piece: Piece) -> tuple[int, int]:
    """Return the checksum of the part of a piece that a file contains, and its length."""
    crc, hashed, place = 0, xxhash.xxh64(), piece.begin
    chunk = memoryview(bytearray(_CHUNK))
    with file.open("rb", buffering=0) as opened:
        opened.seek(place)
        while count := opened.readinto(chunk[: piece.end - place]):
            if piece.hash == "crc32":  # of earlier versions
                crc = zlib.crc32(chunk[:count], crc)
            else:
                hashed.update(chunk[:count])
            place += count
    return crc if piece.hash == "crc32" else hashed.intdigest(), place - piece.begin


def _sum_mapped(file: Path, begin: int, end: int) -> int:
    """Return the checksum of a range that has just been written, by one call that leaves Python to other threads."""
    return xxhash.xxh64_intdigest(np.memmap(file, np.uint8, "r", begin, (end - begin,)).data)


def verify(path: StrPath) -> str:
    """Read all data of a dataset, compare them with their checksums, and return a report. Local; blocks.

    Args:
        path: the dataset.

    Raises:
        UsageError: the dataset has no checksums.
        DatasetError: something differs, or is missing.
    """
    from gondwana.io.dataset import missing  # not at the top: datasets are opened with their checksums

    folder = Path(path)
    if not is_dataset(folder):
        raise UsageError(missing(folder))
    record = read(folder)
    if record is None:
        raise UsageError(f"{path} has no checksums ({NAME}): it was not written by this library")
    if record.problem:
        raise bp5.damaged(folder, record.problem)
    steps = bp5.check(folder).steps if has_steps(folder) else 0
    if not vouches(folder, steps) and steps:
        raise bp5.damaged(folder, f"{NAME} does not have the metadata of all {steps} steps")
    data = record.data()
    absent = sorted(set(range(steps)) - set(data))
    if absent:
        raise bp5.damaged(folder, f"{NAME} does not have the data of {len(absent)} of {steps} steps")
    found = [(step, reason) for step in data for _, reason in differing(folder, data[step])]
    if found:
        step, reason = found[0]
        others = f"; and {len(found) - 1} other differences" if len(found) > 1 else ""
        raise bp5.damaged(folder, f"in its step {step} {reason}{others}")
    size = sum(piece.end - piece.begin for pieces in data.values() for piece in pieces)
    return f"{path}: verified, {steps} steps with {in_units(size)} of data"


class Seal(msgspec.Struct, frozen=True):
    """The contents of a seal: when the checkpoint was written, the sizes of its files, and the CRC-32 of both."""

    written_ns: int
    sizes: dict[str, int]
    crc: int = 0


def seal(folder: Path) -> None:
    """Seal the files of a folder. Local."""
    contents = Seal(time.time_ns(), {file.name: file.stat().st_size for file in sorted(folder.iterdir())})
    (folder / SEAL).write_bytes(msgspec.json.encode(msgspec.structs.replace(contents, crc=_crc_of_seal(contents))))


def sealed_ns(candidate: Path) -> int | None:
    """Return when a checkpoint was written [ns], or None if its seal cannot be read. Local."""
    seal = _read_seal(candidate)
    return None if isinstance(seal, str) else seal.written_ns


def damage(candidate: Path) -> str | None:
    """Return the damage of a checkpoint, or None; its data are not read. Local.

    After None its metadata are unchanged, so that ADIOS2 can open it; see ``differing`` for its data.
    """
    seal = _read_seal(candidate)
    if isinstance(seal, str):
        return seal
    for name, expected in seal.sizes.items():
        file = candidate / name
        actual = file.stat().st_size if file.is_file() else 0
        if actual != expected:
            return f"{name} has {actual} of {expected} bytes"
    try:
        if not vouches(candidate, bp5.check(candidate).steps):
            return f"{NAME} does not have the checksums of its metadata"
    except DatasetError as error:
        return str(error).removeprefix(f"{candidate} is damaged: ")
    return None


def _read_seal(candidate: Path) -> Seal | str:
    """Return a seal, or the reason why it cannot be read."""
    try:
        if bp5.size(candidate, SEAL) > _SEAL_LIMIT:
            return f"{SEAL} is too large"
        seal = msgspec.json.decode((candidate / SEAL).read_bytes(), type=Seal)
    except DatasetError as error:
        return str(error).removeprefix(f"{candidate} is damaged: ")
    except OSError as error:
        return f"{SEAL}: {error.strerror}"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return f"{SEAL} is not readable"
    return seal if seal.crc == _crc_of_seal(seal) else f"{SEAL} differs from its checksum"


def _crc_of_seal(seal: Seal) -> int:
    return zlib.crc32(msgspec.json.encode(msgspec.structs.replace(seal, crc=0)))
