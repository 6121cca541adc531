"""Where the ranks of this job are, as `gondwana run --bind` prints it and results have it."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gondwana.errors import UsageError
from gondwana.inputs import whole_number
from gondwana.runtime import cores
from gondwana.runtime.files import text_of
from gondwana.runtime.placement import binding, topology

MOST = 64
"""Ranks that the printed table has at most."""


@dataclass(frozen=True)
class Seat:
    """Where a rank is.

    Args:
        host: the name of its host.
        machine: names the machine, of which containers and network namespaces may make several hosts.
        cores: the hardware threads that it may use.
    """

    host: str
    machine: str
    cores: frozenset[int]


_seats: list[Seat] = []


def own_seat() -> Seat:
    """Return where this process is. Local."""
    host = socket.gethostname()
    return Seat(host, text_of("/proc/sys/kernel/random/boot_id", host), cores.own())


def record(seats: Sequence[Seat]) -> None:
    """Record the seats of all ranks, in their order. Local."""
    _seats[:] = seats


def simulated_ranks_per_node() -> int | None:
    """Return how many consecutive ranks count as a node by GONDWANA_RANKS_PER_NODE; None: hosts are nodes. Local.

    Raises:
        UsageError: the variable is not a number of ranks.
    """
    given = os.environ.get("GONDWANA_RANKS_PER_NODE", "")
    ranks = whole_number(given or "1")
    if ranks is None or ranks < 1:
        raise UsageError(f"GONDWANA_RANKS_PER_NODE={given!r}: legal is a number of ranks from 1")
    return ranks if given else None


def describe(threads: int) -> dict[str, Any] | None:
    """Return the placement of this job for a result; None if this process was not started as a rank. Local.

    Args:
        threads: of each rank.

    Returns:
        `pattern`: threads of a rank x ranks of a node (the most, if nodes differ) x nodes, such as "2x4x1".
        `simulated`: whether there are fewer machines than nodes, so that figures say nothing of a network.
        `bind`: what `gondwana run --bind` was given, or None.
        `cores`: for each rank those that it may use, as a list of Linux, such as "0-3,8".
    """
    if not _seats:
        return None
    nodes = _nodes()
    most = max(Counter(nodes).values())
    return {
        "pattern": f"{threads}x{most}x{len(set(nodes))}",
        "simulated": len({seat.machine for seat in _seats}) < len(set(nodes)),
        "bind": binding.bound(),
        "cores": [topology.shown(seat.cores) for seat in _seats],
    }


def table(threads: int) -> str:
    """Return a line with the pattern and one for each rank; for the first `MOST` of them. Local, on a rank.

    Args:
        threads: of each rank.
    """
    placed = describe(threads)
    assert placed is not None
    nodes = _nodes()
    width = max(4, *map(len, nodes))
    simulated = " (simulated)" if placed["simulated"] else ""
    lines = [
        f"placement {placed['pattern']}: threads x ranks x nodes{simulated}, --bind {placed['bind']}",
        f"{'node':{width}}  rank  threads  cores",
    ]
    for rank, (node, own) in enumerate(zip(nodes, placed["cores"], strict=True)):
        lines.append(f"{node:{width}}  {rank:4}  {threads:7}  {own}")
    hidden = len(nodes) - MOST
    if hidden > 0:
        lines[-hidden:] = [f"... and {hidden} more rank{'s' * (hidden > 1)}"]
    return "".join(f"gondwana: {line}\n" for line in lines)


def _nodes() -> list[str]:
    """The names of the nodes of all ranks: of hosts, with a number behind where there are several on one."""
    ranks = simulated_ranks_per_node()
    if ranks is None:
        return [seat.host for seat in _seats]
    return [f"{seat.host}/{rank // ranks}" for rank, seat in enumerate(_seats)]
