"""What trials have found, kept on disk: one process of a node makes a trial, the others wait and read."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gondwana.runtime.cache_folder import cache_folder, keep, locked, read

_known: dict[str, dict[str, Any]] = {}


def recorded(key: tuple[str, ...], trial: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what the record of a key says, made by a trial now if there is none. Local; blocks.

    Args:
        key: all that the outcome depends on.
        trial: returns values for JSON.
    """
    name = hashlib.sha256("\0".join(key).encode()).hexdigest()
    if name not in _known:
        folder = _folder()
        _known[name] = trial() if folder is None else _from_disk(folder / f"{name}.json", trial)
    return _known[name]


@functools.cache
def _folder() -> Path | None:
    return cache_folder("trials")


def _from_disk(file: Path, trial: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    found = _read(file)
    if found is not None:
        return found
    with locked(file):
        found = _read(file)
        if found is None:
            found = trial()
            keep(file, json.dumps(found).encode())
    return found


def _read(file: Path) -> dict[str, Any] | None:
    """A record, None if there is none, or it is damaged."""
    try:
        found = json.loads(read(file) or b"null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
