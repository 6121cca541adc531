"""Machine code on disk: compiled once a node, found by every later process.

A process that misses takes the lock of that entry, looks again, and only then compiles; the others wait for it and
load. Whatever goes wrong with the folder means "no cache", never a failure. A file under a name that is not its own is
none of ours: the digest in it covers the name, too.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from gondwana.runtime.cache_folder import cache_folder, keep, locked, read

MAGIC = b"gondwana object 5\n"


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

    def to_bytes(self, key: str) -> bytes:
        """The content of the cache file named `key`: a digest of that and what follows, a line of JSON, the object."""
        head = asdict(self)
        head.pop("code")
        content = json.dumps(head).encode() + b"\n" + self.code
        return MAGIC + _digest(key, content) + content

    @classmethod
    def from_bytes(cls, data: bytes, key: str) -> ObjectCode | None:
        """Read the cache file named `key`; None if it is not one, or damaged."""
        digest, content = data[len(MAGIC) : len(MAGIC) + 32], data[len(MAGIC) + 32 :]
        if not data.startswith(MAGIC) or _digest(key, content) != digest:
            return None
        head, _, code = content.partition(b"\n")
        return cls(code=code, **json.loads(head))


@functools.cache
def folder(kind: str = "objects") -> Path | None:
    """Return the folder of the cache, None if there is none to be had. Local.

    `cache_folder` says where it is.
    """
    return cache_folder(kind)


def get(key: str, build: Callable[[], ObjectCode], kind: str = "objects") -> tuple[ObjectCode, bool]:
    """Return the entry named `key` and whether it had to be built. Local; blocks while another process builds it.

    Args:
        key: the name, a digest of all that the code depends on.
        build: compiles it.
        kind: names the folder.
    """
    path = folder(kind)
    if path is None:
        return build(), True
    file = path / f"{key}.o"
    found = _read(file, key)
    if found is not None:
        return found, False
    with locked(file):
        found = _read(file, key)
        if found is not None:
            return found, False
        built = build()
        keep(file, built.to_bytes(key))
        return built, True


def _read(file: Path, key: str) -> ObjectCode | None:
    data = read(file)
    return None if data is None else ObjectCode.from_bytes(data, key)


def _digest(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + content).digest()
