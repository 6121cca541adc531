"""The cores of this host, and which of them share a socket or a NUMA domain, as Linux describes them in a folder."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from gondwana.runtime.files import text_of

SYSTEM = Path("/sys/devices/system")


class Core(NamedTuple):
    """A core that may be used.

    Args:
        cpus: its usable hardware threads, by Linux's numbers, ascending.
        socket: number of its socket; None if the host does not say.
        numa: number of its NUMA domain; None if the host does not say.
    """

    cpus: tuple[int, ...]
    socket: int | None = None
    numa: int | None = None


class Topology(NamedTuple):
    """The cores that may be used, grouped by socket, and within a socket by NUMA domain."""

    cores: tuple[Core, ...]


def read(allowed: Collection[int], system: Path = SYSTEM) -> Topology:
    """Return the cores to which the hardware threads in `allowed` belong. Local.

    Args:
        allowed: Linux's numbers of hardware threads; others are left out.
        system: the folder that describes the host.

    Example:
        >>> read({0}).cores[0].cpus
        (0,)
    """
    domain_of = {cpu: domain for domain, cpus in _domains(system) for cpu in cpus}
    # Not by `core_id`, which processors of several dies use more than once a socket.
    groups = {_siblings(system, cpu) & frozenset(allowed) for cpu in allowed}
    cores = [Core(tuple(sorted(group)), _socket(system, min(group)), domain_of.get(min(group))) for group in groups]
    return Topology(tuple(sorted(cores, key=lambda core: (_last(core.socket), _last(core.numa), core.cpus))))


def parse(text: str) -> frozenset[int]:
    """Return the numbers in a list of Linux. Local.

    Example:
        >>> sorted(parse("0-2,8"))
        [0, 1, 2, 8]
    """
    parts = [part.split("-") for part in text.strip().split(",") if part]
    return frozenset(number for part in parts for number in range(int(part[0]), int(part[-1]) + 1))


def shown(cpus: Collection[int]) -> str:
    """Return numbers as a list of Linux, with neighbours joined. Local.

    Example:
        >>> shown({8, 2, 1, 0})
        '0-2,8'
    """
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def caches(system: Path = SYSTEM) -> dict[str, int]:
    """Return the bytes of the caches of one core, or of those that share it, by name, such as "L2". Local."""
    found: dict[str, int] = {}
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    for folder in sorted(system.glob("cpu/cpu0/cache/index*")):
        level, kind, size = (text_of(folder / name) for name in ("level", "type", "size"))
        if level and kind and size:
            found[f"L{level}{'' if kind == 'Unified' else kind[0].lower()}"] = int(size[:-1]) * units[size[-1]]
    return found


def _domains(system: Path) -> Iterator[tuple[int, frozenset[int]]]:
    for folder in system.glob("node/node[0-9]*"):
        yield int(folder.name.removeprefix("node")), parse(text_of(folder / "cpulist"))


def _siblings(system: Path, cpu: int) -> frozenset[int]:
    """The hardware threads of the core of `cpu`: only itself if the host does not say."""
    return parse(text_of(system / f"cpu/cpu{cpu}/topology/thread_siblings_list")) | {cpu}


def _socket(system: Path, cpu: int) -> int | None:
    number = int(text_of(system / f"cpu/cpu{cpu}/topology/physical_package_id", "-1"))
    return number if number >= 0 else None  # -1: the firmware does not say


def _last(number: int | None) -> float:
    return float("inf") if number is None else number
