"""The files of a BP5 dataset, checked without ADIOS2: whether they exist and are as long as the index says.

ADIOS2 (2.12) trusts these files. It reads outside of its buffers, or waits for data for ever, if a length is wrong or a
file has been cut off. The checks: the header of the index, that its records fill it, that the metadata of the steps
follow one another and have the sizes that they state, and that no data begin after the end of a file.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gondwana.io.paths import DatasetError

INDEX, METADATA, FORMATS = "md.idx", "md.0", "mmd.0"

#: The place of the byte of the index that says whether a writer has the dataset open.
ACTIVE = 39

_HEADER = 64
_RECORD = struct.Struct("<BQ")
_STEP, _WRITERS = ord("s"), ord("w")


@dataclass(slots=True)
class Index:
    """The contents of a dataset's index.

    Attributes:
        active: whether its writer has not closed it: it is still writing, or it was killed.
        steps: the number of complete steps.
        length: the bytes of the index that describe them; any further bytes are the beginning of another step.
        metadata: the bytes of ``md.0`` that belong to them.
        data: last beginning or end of data in each data file, as far as the index has it.
    """

    active: bool
    steps: int = 0
    length: int = _HEADER
    metadata: int = 0
    data: dict[str, int] = field(default_factory=dict)


def check(path: Path) -> Index:
    """Return the index of a dataset with at least a header whose files are as long as it says. Local.

    Raises:
        DatasetError: a file is missing, cut off, or has impossible contents.
    """
    index = read_index(path)
    size_of_metadata = size(path, METADATA)
    if size_of_metadata < index.metadata:
        raise damaged(path, f"{METADATA} has {size_of_metadata} of {index.metadata} bytes")
    for name, end in index.data.items():
        if size(path, name) < end:
            raise damaged(path, f"{name} has {size(path, name)} bytes and the index refers to byte {end}")
    _check_formats(path)
    return index


def read_index(path: Path) -> Index:
    """Return the contents of a dataset's index, with the metadata of each step. Local; see ``check``."""
    text = _content(path, INDEX)
    if len(text) < _HEADER:
        raise damaged(path, f"{INDEX} has {len(text)} of {_HEADER} bytes")
    endian, version, active, order = text[36], text[37], text[ACTIVE], text[40]
    if version == 4 and not os.path.lexists(path / FORMATS):
        raise DatasetError(f"{path} is a BP4 dataset, which is not supported: have it written by ADIOS2's engine BP5")
    if endian not in (0, 1) or version != 5 or active not in (0, 1) or order not in b"ny":
        raise damaged(path, f"{INDEX} does not begin as that of a BP5 dataset")
    if endian == 1:
        raise DatasetError(f"{path} was written by a machine of the other byte order, which is not supported")
    index = Index(active == 1)
    writers: tuple[int, ...] = ()
    with _Opened(path, METADATA) as metadata:
        for kind, words, end in _records(path, text):
            if kind == _WRITERS:
                writers = _writers(path, words)
            elif kind == _STEP:
                _add_step(path, index, words, writers, metadata)
            index.length = end
    return index


def size(path: Path, name: str) -> int:
    """Return the size of a file of a dataset, which must exist. Local."""
    try:
        status = (path / name).stat()
    except OSError as error:
        raise damaged(path, f"{name}: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise damaged(path, f"{name} is not a file")
    return status.st_size


def trim(path: Path) -> None:
    """Remove the rest of an incomplete step, which a killed writer has left after the complete ones. Local.

    ADIOS2 would append after it, and then read the metadata of the new steps at wrong places. It would also wait for
    ever for the reader of a pipe, so that nothing but files may be in the folder.
    """
    for name in sorted(os.listdir(path)):
        size(path, name)
    index = read_index(path)
    for name, length in ((INDEX, index.length), (METADATA, index.metadata)):
        if size(path, name) > length:
            os.truncate(path / name, length)


def damaged(path: Path, reason: str) -> DatasetError:
    """Return the error for a dataset that cannot be read. Local."""
    return DatasetError(f"{path} is damaged: {reason}")


def _content(path: Path, name: str) -> bytes:
    size(path, name)
    try:
        return (path / name).read_bytes()
    except OSError as error:
        raise damaged(path, f"{name}: {error.strerror}") from None


class _Opened:
    """A file of a dataset whose bytes are read at given places."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name, self.size = path, name, size(path, name)
        try:
            self._descriptor = os.open(path / name, os.O_RDONLY)
        except OSError as error:
            raise damaged(path, f"{name}: {error.strerror}") from None

    def words(self, place: int, number: int) -> tuple[int, ...]:
        """Return unsigned words of 64 bits."""
        text = os.pread(self._descriptor, 8 * number, place)
        if len(text) < 8 * number:
            raise damaged(self.path, f"{self.name} has {self.size} bytes and more are needed at byte {place}")
        return struct.unpack(f"<{number}Q", text)

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _records(path: Path, text: bytes) -> Iterator[tuple[int, tuple[int, ...], int]]:
    """Return the kind, the words and the end of each complete record of an index."""
    place = _HEADER
    while place + _RECORD.size <= len(text):
        kind, length = _RECORD.unpack_from(text, place)
        begin, place = place + _RECORD.size, place + _RECORD.size + length
        if place > len(text):
            return  # a step that is being written, or was when the writer was killed
        if kind not in (_STEP, _WRITERS) or length % 8 or length < 24:
            raise damaged(path, f"{INDEX} has an impossible record at byte {begin - _RECORD.size}")
        yield kind, struct.unpack_from(f"<{length // 8}Q", text, begin), place


def _writers(path: Path, words: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of the data file of each writer."""
    number, _, files = words[:3]
    if len(words) != 3 + number or any(file >= files for file in words[3:]):
        raise damaged(path, f"{INDEX} has an impossible list of writers")
    return words[3:]


def _add_step(path: Path, index: Index, words: tuple[int, ...], writers: tuple[int, ...], metadata: _Opened) -> None:
    place, length, flushes = words[:3]
    each = 2 * flushes + 1
    if not writers or len(words) != 3 + each * len(writers) or place != index.metadata:
        raise damaged(path, f"{INDEX} is wrong about step {index.steps}")
    if place + length > metadata.size:
        raise damaged(path, f"{METADATA} has {metadata.size} of {place + length} bytes")
    total, *parts = metadata.words(place, 1 + 2 * len(writers))
    if max(total, 8 * (1 + len(parts)) + sum(parts)) > length:
        raise damaged(path, f"{METADATA} is wrong about step {index.steps}")
    for writer, file in enumerate(writers):
        name, places = f"data.{file}", words[3 + writer * each : 3 + (writer + 1) * each]
        ends = [at + number for at, number in zip(places[:-1:2], places[1::2], strict=True)]
        index.data[name] = max(index.data.get(name, 0), places[-1], *ends)
    index.steps += 1
    index.metadata = place + length


def _check_formats(path: Path) -> None:
    """Check that the descriptions of the metadata fill their file."""
    text = _content(path, FORMATS)
    place = 0
    while place < len(text):
        if place + 16 > len(text):
            raise damaged(path, f"{FORMATS} ends in the middle of a record")
        place += 16 + sum(struct.unpack_from("<2Q", text, place))
    if place != len(text):
        raise damaged(path, f"{FORMATS} has {len(text)} of {place} bytes")
