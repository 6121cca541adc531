"""The places of the ranks of this job, as `gondwana run --bind` prints them and results record them."""

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
from gondwana.runtime.placement import binding, topology

MOST = 64
"""The most ranks in the printed table."""


@dataclass(frozen=True)
class Location:
    """The place of a rank.

    Args:
        host: name of its host.
        machine: identity of the machine; containers and network namespaces may make several hosts of one machine.
        cores: the hardware threads that it may use.
    """

    host: str
    machine: str
    cores: frozenset[int]


_locations: list[Location] = []


def own_location() -> Location:
    """Return the place of this process. Local."""
    host = socket.gethostname()
    return Location(host, cores.machine() or host, cores.own())


def record(locations: Sequence[Location]) -> None:
    """Record the locations of all ranks, in their order. Local."""
    _locations[:] = locations


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
        threads: threads of each rank.

    Returns:
        `pattern`: threads of a rank x ranks of a node (the most, if nodes differ) x nodes, such as "2x4x1".
        `simulated`: whether there are fewer machines than nodes, so that figures say nothing of a network.
        `bind`: the value given to `gondwana run --bind`, or None.
        `cores`: for each rank the cores that it may use, as a list of Linux, such as "0-3,8".
    """
    if not _locations:
        return None
    nodes = _nodes()
    most = max(Counter(nodes).values())
    return {
        "pattern": f"{threads}x{most}x{len(set(nodes))}",
        "simulated": len({location.machine for location in _locations}) < len(set(nodes)),
        "bind": binding.bound(),
        "cores": [topology.shown(location.cores) for location in _locations],
    }


def table(threads: int) -> str:
    """Return a line with the pattern and one for each rank, for the first `MOST` ranks. Local, on a rank.

    Args:
        threads: threads of each rank.
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
    """The names of the nodes of all ranks: of hosts, followed by a number if a host has several nodes."""
    ranks = simulated_ranks_per_node()
    if ranks is None:
        return [location.host for location in _locations]
    return [f"{location.host}/{rank // ranks}" for rank, location in enumerate(_locations)]
