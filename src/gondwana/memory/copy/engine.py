"""The engine: chooses the path of a copy and starts it."""

from __future__ import annotations

from gondwana.errors import UsageError
from gondwana.memory.copy import paths
from gondwana.memory.copy.paths import Path
from gondwana.memory.copy.places import MEMORY, Place
from gondwana.memory.copy.rows import copy_memory
from gondwana.memory.futures import DONE, Future


def choose(source: Place, target: Place) -> Path:
    """Return the path of a copy: the best that is possible, or the one that is forced. Local.

    Raises:
        UsageError: the path that is forced is not possible between these ends.
    """
    legal = possible(source, target)
    if paths.state.forced is None:
        return legal[0]
    if paths.state.forced not in legal:
        raise UsageError(
            f"the path {paths.state.forced} is forced (paths.force or {paths.VARIABLE}), but not possible from "
            f"{source!r} to {target!r}: possible are {', '.join(map(str, legal))}"
        )
    return paths.state.forced


def possible(source: Place, target: Place) -> list[Path]:
    """The paths between two ends, the best first."""
    if source.reach == target.reach == MEMORY:
        return [paths.DIRECT]
    raise UsageError(f"no path from {source!r} to {target!r}")


def start(source: Place, target: Place) -> tuple[Future[None], Future[None]]:
    """Start a copy between ends that fit. Local; internal progress.

    Returns:
        The futures of operation completion and of source completion.
    """
    path = choose(source, target)
    path.count(source.nbytes)
    assert source.memory is not None
    assert target.memory is not None
    copy_memory(source.memory, target.memory)
    return DONE, DONE
