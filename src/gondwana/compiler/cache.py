"""Machine code on disk: compiled once a node, found by every later process.

A process that misses takes the lock of that entry, looks again, and only then compiles; the others wait for it and
load. Whatever goes wrong with the folder means "no cache", never a failure.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from gondwana.runtime.cache_folder import cache_folder, keep, locked

MAGIC = b"gondwana object 4\n"


@dataclass(frozen=True)
class ObjectCode:
    """A relocatable object and what must be known to use it.

    Attributes:
        code: the object file.
        symbol: name of the entry in it.
        needs_numba: whether it refers to functions of Numba's run-time library.
        needs_mpi: whether it refers to the table of MPI's functions (`mpi_table`).
        externs: names of the C functions that it calls (`gondwana.compiler.externs`).
        about: facts that the compiler found, as JSON values (for instance the footprints of a kernel).
    """

    code: bytes
    symbol: str
    needs_numba: bool
    needs_mpi: bool
    externs: list[str]
    about: dict[str, object]

    def to_bytes(self) -> bytes:
        """The content of a cache file: a digest of what follows, a line of JSON, the object."""
        head = asdict(self)
        head.pop("code")
        content = json.dumps(head).encode() + b"\n" + self.code
        return MAGIC + hashlib.sha256(content).digest() + content

    @classmethod
    def from_bytes(cls, data: bytes) -> ObjectCode | None:
        """Read a cache file; None if it is not one, or damaged."""
        digest, content = data[len(MAGIC) : len(MAGIC) + 32], data[len(MAGIC) + 32 :]
        if not data.startswith(MAGIC) or hashlib.sha256(content).digest() != digest:
            return None
        head, _, code = content.partition(b"\n")
        return cls(code=code, **json.loads(head))


@functools.cache
def folder() -> Path | None:
    """Return the folder of the cache, None if there is none to be had. Local.

    `cache_folder` says where it is.
    """
    return cache_folder("objects")


def get(key: str, build: Callable[[], ObjectCode]) -> tuple[ObjectCode, bool]:
    """Return the entry named `key` and whether it had to be built. Local; blocks while another process builds it."""
    path = folder()
    if path is None:
        return build(), True
    file = path / f"{key}.o"
    found = _read(file)
    if found is not None:
        return found, False
    with locked(file):
        found = _read(file)
        if found is not None:
            return found, False
        built = build()
        keep(file, built.to_bytes())
        return built, True


def _read(file: Path) -> ObjectCode | None:
    try:
        return ObjectCode.from_bytes(file.read_bytes())
    except OSError:
        return None
