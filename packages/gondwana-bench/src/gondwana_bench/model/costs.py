"""Times of communication and of passes over memory on a machine.

Messages follow LogGP (Alexandrov, Ionescu, Schauser, Scheiman: LogGP, SPAA 1995). Sums take recursive doubling or, for
long vectors, Rabenseifner's reduce-scatter and allgather, whichever is faster (Thakur, Rabenseifner, Gropp:
Optimization of collective communication operations in MPICH, 2005), first inside the nodes, then between them.
"""

from __future__ import annotations

import math

from gondwana.errors import UsageError
from gondwana_bench.model.machine import Link, Machine
from gondwana_bench.model.work import Collective, Exchange, Sweep

SHARPNESS = 4
"""Exponent of the step from data that fit into the caches to data that do not."""

OVERLAP = 4
"""Norm of limits that apply at once: 1 is one after the other, infinity without any influence on each other."""


def sweep_seconds(machine: Machine, sweep: Sweep, sharing: int, rate: float, streaming: float) -> float:
    """Return the seconds of passes over data: those of the operations or of the bytes, the longer ones. Local.

    Ranks of a node share its memory's bandwidth and its caches. One pass after the other over data that are larger than
    the caches finds nothing in them, over smaller ones all; between the two a smooth step, (data / caches)^4, stands
    for the other contents of the caches.

    Args:
        machine: the machine.
        sweep: the passes.
        sharing: ranks of the node that sweep at the same time.
        rate: operations a second.
        streaming: part of the bandwidth of a rank that the code reaches.
    """
    memory = machine.memory
    held = (sweep.held * sharing / memory.cache_bytes) ** SHARPNESS if memory.cache_bytes else math.inf
    beyond = 1.0 / (1.0 + 1.0 / held) if held else 0.0
    from_memory = slower(1.0 / (memory.rank * streaming), sharing / memory.node)
    return slower(sweep.bytes * (beyond * from_memory + (1.0 - beyond) / memory.cache), sweep.operations / rate)


def slower(*seconds: float) -> float:
    """Return the time under several limits at once: the slowest, and somewhat more if others are near. Local.

    Example:
        >>> slower(1.0, 0.0), round(slower(1.0, 1.0), 2)
        (1.0, 1.19)
    """
    return float(sum(each**OVERLAP for each in seconds) ** (1.0 / OVERLAP))


def message_seconds(link: Link, sizes: tuple[float, ...], sharing: float = 1.0) -> float:
    """Return the seconds until messages that start together are there: L + 2o + (n-1) max(g, o) + bytes G. Local.

    Args:
        link: the link between the ranks.
        sizes: bytes of each message; one without bytes takes L + 2o.
        sharing: ranks that share the bandwidth.

    Example:
        >>> link = Link(latency=1e-6, overhead=1e-7, gap=2e-7, bandwidth=1e9)
        >>> round(message_seconds(link, (0.0,)) * 1e6, 3), message_seconds(link, ())
        (1.2, 0.0)
    """
    if not sizes:
        return 0.0
    between = (len(sizes) - 1) * max(link.gap, link.overhead)
    return _start(link, max(sizes)) + between + sum(sizes) * sharing / link.bandwidth


def exchange_seconds(machine: Machine, exchange: Exchange, ranks: int) -> float:
    """Return the seconds of an exchange with neighbours, of the slowest rank of a node. Local.

    Consecutive ranks fill a node. Of its ranks, min(1, distance / ranks of a node) have a partner at that distance on
    another node, and all of these share the node's bandwidth; a rank at the border waits for all of its own.

    Args:
        machine: the machine.
        exchange: the messages.
        ranks: number of ranks of the run.
    """
    here = min(ranks, machine.ranks_per_node)
    if not exchange.sizes or ranks <= here:
        return message_seconds(machine.node, exchange.sizes)
    network = network_of(machine)
    # The ranks at a node's border do the most; the bandwidth is shared by as many as really send.
    crossing = [
        size * min(1.0, distance / here) for size, distance in zip(exchange.sizes, exchange.distances, strict=True)
    ]
    inside = tuple(size for size, distance in zip(exchange.sizes, exchange.distances, strict=True) if distance < here)
    between = (len(exchange.sizes) - 1) * max(network.gap, network.overhead)
    far = _start(network, max(exchange.sizes)) + between + sum(crossing) * here / network.bandwidth
    return max(far, message_seconds(machine.node, inside))


def collective_seconds(machine: Machine, collective: Collective) -> float:
    """Return the seconds of a collective; 0 for one rank. Local."""
    if collective.ranks < 2:
        return 0.0
    here = max(1, min(collective.ranks, machine.ranks_per_node // collective.stride))
    nodes = -(-collective.ranks // here)
    if collective.kind == "allreduce":
        # In and out of a node's sum, and the sum over nodes between them, by one rank of each.
        inside = _sum(machine.node, here, collective.bytes)
        return inside + (_sum(network_of(machine), nodes, collective.bytes) if nodes > 1 else 0.0)
    others, far = collective.ranks - 1, collective.ranks - here
    near = message_seconds(machine.node, (collective.bytes,) * (others - far))
    if not far:
        return near * (2.0 if collective.kind == "fan" else 1.0)
    network = network_of(machine)
    start = _start(network, collective.bytes) + (far - 1) * max(network.gap, network.overhead)
    if collective.kind == "fan":
        # All goes through the network of the node of rank 0, there and back.
        return 2 * (near + start + far * collective.bytes / network.bandwidth)
    sharing = min(collective.ranks, machine.ranks_per_node) if collective.stride == 1 else machine.ranks_per_node
    return near + start + far * collective.bytes * sharing / network.bandwidth


def network_of(machine: Machine) -> Link:
    """Return the network of a machine. Local.

    Raises:
        UsageError: the machine has no network.
    """
    if machine.network is None:
        raise UsageError(
            f"machine {machine.name} has no network: at most {machine.ranks_per_node} ranks fit on its one node; "
            "ask for fewer ranks, or give the machine file a network"
        )
    return machine.network


def _start(link: Link, nbytes: float) -> float:
    """Time of a message without its bytes, L + 2o, and of the question before a long one."""
    questions = 2 if nbytes > link.eager else 0
    return (link.hops + questions) * link.latency + 2 * (1 + questions) * link.overhead


def _sum(link: Link, ranks: int, nbytes: float) -> float:
    """Time of an allreduce among `ranks` that are alike."""
    rounds = math.ceil(math.log2(ranks))
    step = _start(link, nbytes)
    doubling = rounds * (step + nbytes / link.bandwidth)
    halving = 2 * rounds * step + 2 * nbytes * (ranks - 1) / ranks / link.bandwidth
    return min(doubling, halving)
