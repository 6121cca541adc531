"""The device of each rank: the ranks of a node use its devices in turn. One line reports which ranks share which."""

from __future__ import annotations

import collections
import functools
import socket
import sys
from collections.abc import Sequence
from typing import NamedTuple

from gondwana.errors import UsageError
from gondwana.gpu.driver import driver
from gondwana.gpu.interface import CudaError
from gondwana.runtime.watching.rollcall import name_ranks
from gondwana.teams import world


class Use(NamedTuple):
    """The device that a rank uses.

    Attributes:
        node: index of its node.
        host: name of the machine.
        number: of the device among those that the rank sees.
        name: of the product.
        uuid: identifies the device: ranks may see different ones under the same number.
        bus: PCI address.
    """

    node: int
    host: str
    number: int
    name: str
    uuid: str
    bus: str


@functools.cache
def own() -> int:
    """Return the number of the device of this rank. Collective over the world at first use, then local.

    It is the rank within its node modulo the number of devices that it sees.

    Raises:
        UsageError: a rank has no device.
    """
    error: Exception | None = None
    use = None
    node, place = world.node_index, world.node.rank
    try:
        number = place % driver().count()
        facts = driver().facts(number)
        use = Use(node, socket.gethostname(), number, facts.name, facts.uuid, facts.bus)
    except (UsageError, CudaError) as problem:
        error = problem
    world.agree(error)
    uses: list[Use] = world.allgather(use)
    if world.rank == 0:
        print(f"gondwana: {describe(uses)}", file=sys.stderr, flush=True)
    return uses[world.rank].number


def describe(uses: Sequence[Use]) -> str:
    """Return a line on which ranks use which devices. Local.

    Args:
        uses: the device of every rank.

    Example:
        >>> from gondwana.gpu.choice import Use, describe
        >>> describe(2 * [Use(0, "n1", 0, "NVIDIA H200", "GPU-7", "00:18.0")])
        '2 ranks of n1 on 1 GPU: NVIDIA H200 (0: ranks 0, 1)'
    """
    nodes: dict[int, list[int]] = {}
    for rank, use in enumerate(uses):
        nodes.setdefault(use.node, []).append(rank)
    if len(nodes) == 1:
        return f"{_count(len(uses), 'rank')} of {uses[0].host} on {_devices(uses)}"
    alike: dict[tuple[int, str], list[str]] = {}
    for ranks in nodes.values():
        shape = len(ranks), _products([uses[rank] for rank in ranks])
        alike.setdefault(shape, []).append(uses[ranks[0]].host)
    parts = [
        f"{_count(ranks, 'rank')} on {products} on {hosts[0] if len(hosts) == 1 else f'each of {len(hosts)} nodes'}"
        for (ranks, products), hosts in alike.items()
    ]
    return "; ".join(parts)


def _devices(uses: Sequence[Use]) -> str:
    """Describe the devices of one node, each with its ranks."""
    ranks: dict[str, list[int]] = {}
    for rank, use in enumerate(uses):
        ranks.setdefault(use.uuid, []).append(rank)
    # Where ranks see different devices, a number is ambiguous and a PCI address is not.
    clear = len({use.number for use in uses}) == len(ranks) == len({(use.number, use.uuid) for use in uses})
    places: dict[str, list[str]] = {}
    for sharing in sorted(ranks.values(), key=lambda each: (uses[each[0]].number, uses[each[0]].bus)):
        use = uses[sharing[0]]
        places.setdefault(use.name, []).append(f"{use.number if clear else use.bus}: {name_ranks(sharing)}")
    named = ", ".join(f"{name} ({'; '.join(each)})" for name, each in places.items())
    return f"{_count(len(ranks), 'GPU')}: {named}"


def _products(uses: Sequence[Use]) -> str:
    """Return the number of devices and their names, such as "4 GPUs (NVIDIA H200)"."""
    names = {use.uuid: use.name for use in uses}
    counts = collections.Counter(names.values())
    kinds = ", ".join(name if len(counts) == 1 else f"{count} {name}" for name, count in sorted(counts.items()))
    return f"{_count(len(names), 'GPU')} ({kinds})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
