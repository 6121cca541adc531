"""Distribution of cores: those of a host are dealt to the threads of its ranks, and each rank binds itself to them."""

from __future__ import annotations

import enum
import os
from typing import TypeAlias

from gondwana.errors import UsageError
from gondwana.runtime import cores
from gondwana.runtime.placement import topology
from gondwana.runtime.placement.topology import Topology

VARIABLE = "GONDWANA_BIND"
"""Name of the variable that says how ranks bind themselves; `gondwana run --bind` sets it."""

Place: TypeAlias = tuple[frozenset[int], ...]
"""For each thread of a rank the hardware threads that it may use."""


class Bind(enum.StrEnum):
    """The unit that the threads of a rank are bound to."""

    core = "core"
    socket = "socket"
    numa = "numa"
    none = "none"


_bound: Bind | None = None


def deal(host: Topology, bind: Bind, ranks: int, threads: int) -> tuple[Place, ...]:
    """Return the places of the ranks of a host, in their order. Pure.

    `core` gives each thread a core of its own, with all its hardware threads; thread i of rank r gets core
    ``r * threads + i``. If there are too few cores, hardware threads count as cores. `socket` and `numa` give the
    threads of a rank a socket or a NUMA domain together, in turn to one rank after the other. `none` gives them all.

    Args:
        host: the cores that the job may use.
        bind: the unit to bind to.
        ranks: number of ranks on this host.
        threads: threads of each rank.

    Raises:
        UsageError: the host has too few cores, or does not say which of them share a socket or a NUMA domain.

    Example:
        >>> from gondwana.runtime.placement.topology import Core, Topology
        >>> deal(Topology((Core((0, 4)), Core((1, 5)))), Bind.core, ranks=2, threads=1)
        ((frozenset({0, 4}),), (frozenset({1, 5}),))
    """
    if bind is Bind.core:
        each = _cores(host, ranks, threads)
        return tuple(each[rank * threads : (rank + 1) * threads] for rank in range(ranks))
    shared = _shared(host, bind)
    return tuple((shared[rank % len(shared)],) * threads for rank in range(ranks))


def _cores(host: Topology, ranks: int, threads: int) -> Place:
    whole = tuple(frozenset(core.cpus) for core in host.cores)
    if ranks * threads <= len(whole):
        return whole
    single = tuple(frozenset({cpu}) for core in host.cores for cpu in core.cpus)
    if ranks * threads <= len(single):
        return single
    cpus = frozenset().union(*single)
    raise UsageError(
        f"--bind core: {ranks * threads} cores are needed for {ranks} rank{'s' * (ranks > 1)} of {threads} "
        f"thread{'s' * (threads > 1)} on a host, but this job may use {len(cpus)} ({topology.shown(cpus)}); "
        "give fewer ranks (-n) or threads (-t), or --bind none"
    )


def _shared(host: Topology, bind: Bind) -> Place:
    """The sockets, NUMA domains, or the whole of a host, as the hardware threads in each."""
    parts: dict[int | None, frozenset[int]] = {}
    for core in host.cores:
        number = {Bind.socket: core.socket, Bind.numa: core.numa, Bind.none: 0}[bind]
        parts[number] = parts.get(number, frozenset()) | frozenset(core.cpus)
    if None in parts:
        what = "socket" if bind is Bind.socket else "NUMA domain"
        raise UsageError(
            f"--bind {bind}: this host does not say to which {what} the cores {topology.shown(parts[None])} belong; "
            "take --bind core or none"
        )
    return tuple(parts.values())


def apply(threads: int) -> None:
    """Bind this process as `VARIABLE` says. Local, before the program starts.

    Args:
        threads: threads of this rank.

    Raises:
        UsageError: as `deal`; the variable has another value; or the launcher does not number the ranks of a host.
    """
    given = os.environ[VARIABLE]
    if given not in list(Bind):
        raise UsageError(f"{VARIABLE}={given!r}: legal are {', '.join(Bind)}")
    global _bound
    rank, ranks = cores.place_among_ranks()
    cores.bind(deal(topology.read(cores.own()), Bind(given), ranks, threads)[rank])
    _bound = Bind(given)


def bound() -> Bind | None:
    """Return what this process has bound itself to, None if it has not. Local."""
    return _bound
