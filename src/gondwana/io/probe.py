"""A first look at a dataset by another process, where nobody vouches for its metadata.

ADIOS2 (2.12) may end the process that opens damaged metadata, or wait for ever for data that are not there.
"""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from gondwana.io import bp5
from gondwana.io.adios import LOCK, TYPE_OF_NAME, BPReader, integers

_CHILD = "import sys; from gondwana.io.probe import main; main(sys.argv[1])"

#: A process that loads ADIOS2 and opens a small dataset takes a twentieth of this; for large metadata there is more.
_PATIENCE_S = 10.0
_BYTES_PER_S = 20e6

#: Where the data files look too short, ADIOS2 has this time to read them: it waits where they are.
_SUSPICION_S = 2

#: So many blocks of the last step of a variable are read, a cell each.
_MOST_BLOCKS = 1000


def probe(path: Path) -> None:
    """Open a dataset in another process and read a little of everything. Local; takes about half a second.

    Raises:
        DatasetError: the other process has failed, died, or not ended in time.
    """
    file = path / bp5.METADATA
    status = file.stat()
    _probe(path, (status.st_ino, status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=64)
def _probe(path: Path, version: tuple[int, int, int]) -> None:
    limit = _PATIENCE_S + version[1] / _BYTES_PER_S
    # -P: the user's directory may hold modules that hide others.
    command = [sys.executable, "-P", "-c", _CHILD, str(path)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        raise bp5.damaged(path, f"ADIOS2 does not finish reading it within {limit:.0f} s") from None
    if done.returncode == -signal.SIGALRM:
        raise bp5.damaged(path, "its data files end before the data of its last step")
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise bp5.damaged(path, f"ADIOS2 ends with {name} when it reads it")
    if done.returncode:
        lines = done.stdout.decode(errors="replace").strip().splitlines()
        raise bp5.damaged(path, lines[-1] if lines else f"ADIOS2 ends with status {done.returncode} when it reads it")


def main(path: str) -> None:
    """Look at a dataset; an error is the last line of standard output, and status 1. Local."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        look(Path(path))
    except Exception as error:
        print(" ".join(str(error).split()) or type(error).__name__)
        raise SystemExit(1) from None


def look(path: Path) -> None:
    """Read the whole description of a dataset, and the last cell of each block of its last step. Local."""
    index = bp5.check(path)
    with LOCK:
        reader = BPReader(path)
        reader.attributes()
        reader.attribute_types()
        found = [_Last.of(path, reader, name, about) for name, about in reader.variables().items()]
        stored = [last for last in found if last.dtype is not None]
        needed = sum(last.nbytes for last in stored if last.steps == index.steps)
        if needed > sum(bp5.size(path, name) - place for name, place in index.data.items()):
            signal.alarm(_SUSPICION_S)  # compressed data need less than that, and are read at once
        for last in stored:
            last.read(reader)
        signal.alarm(0)
        reader.close()


@dataclass(frozen=True, slots=True)
class _Last:
    """The blocks of a variable in its last step; a number has one without axes."""

    name: str
    dtype: np.dtype[Any] | None
    steps: int
    blocks: list[tuple[tuple[int, ...], tuple[int, ...]]]

    @classmethod
    def of(cls, path: Path, reader: BPReader, name: str, about: dict[str, str]) -> _Last:
        """Look at the blocks of all steps, and return those of the last."""
        shape, steps = integers(about["Shape"]), int(about["AvailableStepsCount"])
        blocks: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        for step in range(steps):
            described = reader.blocks(name, step)
            blocks = (
                [(integers(block["Start"]), integers(block["Count"])) for block in described] if shape else [((), ())]
            )
            if not all(_is_inside(start, count, shape) for start, count in blocks):
                raise bp5.damaged(path, f"a block of {name!r} is outside of it")
        return cls(name, TYPE_OF_NAME.get(about["Type"]), steps, blocks)

    @property
    def nbytes(self) -> int:
        """The size of the blocks, as far as they are arrays; numbers are among the metadata."""
        assert self.dtype is not None
        return sum(self.dtype.itemsize * prod(count) for _, count in self.blocks if count)

    def read(self, reader: BPReader) -> None:
        """Read the last cell of the blocks."""
        assert self.dtype is not None
        for start, count in self.blocks[:_MOST_BLOCKS]:
            corner = [first + n - 1 for first, n in zip(start, count, strict=True)]
            reader.read(self.name, (self.steps - 1, 1), corner, [1] * len(corner), self.dtype)


def _is_inside(start: tuple[int, ...], count: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return len(start) == len(count) == len(shape) and all(
        n > 0 and a + n <= whole for a, n, whole in zip(start, count, shape, strict=True)
    )
