"""The paths of copies by name: how often each was taken, and how a test forces one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from gondwana.errors import UsageError
from gondwana.memory.pointer import counted
from gondwana.runtime.races import reporter
from gondwana.teams import Team

VARIABLE = "GONDWANA_COPY_PATH"


class Path:
    """One way to move data. Local.

    Attributes:
        name: Name of it in messages.
        operations: Number of copies of this rank that took it, puts and gets included.
        nbytes: Bytes that they moved.
    """

    __slots__ = ("name", "nbytes", "operations")

    def __init__(self, name: str) -> None:
        self.name = name
        self.operations = 0
        self.nbytes = 0

    def count(self, nbytes: int) -> None:
        """Note a copy. Local."""
        self.operations += 1
        self.nbytes += nbytes

    def __repr__(self) -> str:
        return self.name


DIRECT = Path("direct")
"""Loads and stores of this rank; `memory.pointer.counted` has those that machine code makes."""
WINDOW = Path("window")
"""MPI's one-sided operations between this rank's memory and a rank of another node."""
MESSAGE = Path("message")
"""The data travel inside a remote procedure call."""
SIGNALLED = Path("signalled")
"""The data travel to another node in one message with the signal of `notify=`."""
DRIVER = Path("driver")
"""The driver of this rank's own device."""
IPC = Path("ipc")
"""The same, where an end is device memory of another rank of the node that this one has attached."""
AWARE = Path("aware")
"""MPI's one-sided operations with device memory at an end, in an MPI that takes it."""
STAGED = Path("staged")
"""In pieces through slots of this rank's host memory; owners of devices are asked to fill and to empty them. While it
is forced, other ranks' device memory counts as out of reach, and MPI is not given that of this rank."""
DELEGATED = Path("delegated")
"""The owner of one end is asked to make the copy."""

ALL = (DIRECT, WINDOW, MESSAGE, SIGNALLED, DRIVER, IPC, AWARE, STAGED, DELEGATED)


class Traffic(NamedTuple):
    """What went along one path."""

    operations: int
    nbytes: int


class _State:
    """What is forced on the copies that this rank starts.

    Attributes:
        plain: Whether nothing is forced, so that what loads and stores reach is copied at once. Where races are looked
            for, nothing is plain: each copy is reported.
    """

    __slots__ = ("_delayed", "_forced", "plain")

    def __init__(self) -> None:
        self._forced: Path | None = None
        self._delayed = False
        self.plain = reporter is None

    @property
    def forced(self) -> Path | None:
        """The path that every copy must take."""
        return self._forced

    @forced.setter
    def forced(self, path: Path | None) -> None:
        self._forced = path
        self.plain = path is None and not self._delayed and reporter is None

    @property
    def delayed(self) -> bool:
        """Whether every copy starts late, see `engine`."""
        return self._delayed

    @delayed.setter
    def delayed(self, late: bool) -> None:
        self._delayed = late
        self.plain = self._forced is None and not late and reporter is None


state = _State()


def counters() -> dict[str, Traffic]:
    """Return how much this rank has moved along each path since it started, by the name of the path. Local.

    A copy counts at the rank that started it; those that it made on behalf of others do not.
    """
    found = {path.name: Traffic(path.operations, path.nbytes) for path in ALL}
    operations, nbytes = counted.tolist()
    found[DIRECT.name] = Traffic(DIRECT.operations + operations, DIRECT.nbytes + nbytes)
    return found


@contextmanager
def force(name: str) -> Iterator[None]:
    """Have the copies, puts and gets that this rank starts meanwhile take one path. Local.

    Args:
        name: One of the keys of `counters()`.

    Raises:
        UsageError: there is no such path. A copy for which it is not possible raises too.

    Example:
        >>> import gondwana as gw
        >>> from gondwana.transfer import paths
        >>> pointer = gw.Segment(gw.world, 8).pointer(dtype=int)
        >>> with paths.force("staged"):
        ...     gw.put(3, pointer).wait()
        >>> gw.get(pointer).result()
        3
    """
    before, state.forced = state.forced, named(name)
    try:
        yield
    finally:
        state.forced = before


def named(name: str) -> Path:
    """Return the path of a name. Local."""
    for path in ALL:
        if path.name == name:
            return path
    raise UsageError(f"a path of copies called {name!r}: there are {', '.join(map(str, ALL))}")


def force_from_environment(_: Team) -> None:
    """Force what the environment variable GONDWANA_COPY_PATH says, for the whole job."""
    name = os.environ.get(VARIABLE)
    if name:
        try:
            state.forced = named(name)
        except UsageError as error:
            raise UsageError(f"{VARIABLE}: {error}") from None
