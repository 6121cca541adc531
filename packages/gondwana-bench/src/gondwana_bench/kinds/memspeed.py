"""Every memory of two ranks against every other, as Realm's benchmark memspeed measures them.

A large copy and one of a single element are timed. The latency is the time of the element; the bandwidth is the bytes
over the difference of the two times, which leaves the start of a copy out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import gondwana as gw
from gondwana import Team
from gondwana_bench.kinds.memories import DEVICE, HOST, Memories, Memory
from gondwana_bench.measure import Variant, interleave
from gondwana_bench.rows import Row, columns
from gondwana_bench.statistics import Summary, summarize

ELEMENT = 8
VOLUME = 64 * 2**20
MEMORIES = tuple(Memory(rank, kind) for rank in (0, 1) for kind in (HOST, DEVICE))
PAIRS = len(MEMORIES) ** 2

COLUMNS = columns(
    "source target nbytes node_kind path latency_us mpi_latency_us gb_per_s whole_gb_per_s driver_gb_per_s "
    "mpi_gb_per_s verified",
    node_kind="nodes", latency_us="latency, us", mpi_latency_us="MPI's", whole_gb_per_s="with start",
    driver_gb_per_s="driver", mpi_gb_per_s="MPI",
)  # fmt: skip


def measure(team: Team, kind: gw.MemoryKind, nbytes: int = VOLUME, **timing: Any) -> Iterator[Row]:
    """Measure every ordered pair of memories, in copies that rank 0 starts. Collective over team.

    Args:
        team: two ranks.
        kind: kind of the device's memory.
        nbytes: bytes of the large copy.
        timing: options of `measure.interleave`.

    Returns:
        The same rows on every rank: latency; bandwidth, without and with the start of the copy; bandwidth of the
        driver alone between memories of rank 0; between nodes latency, and bandwidth with the start, of MPI's put or
        get where it takes the memory; and whether the bytes were right.
    """
    memories = Memories(team, kind, nbytes)
    for source, target in itertools.product(MEMORIES, repeat=2):
        yield _row(memories, source, target, nbytes, timing)
    memories.close()


def _row(memories: Memories, source: Memory, target: Memory, nbytes: int, timing: Mapping[str, Any]) -> Row:
    whole = memories.copies(source, target, nbytes, 1)
    verified, path = memories.check(source, target, nbytes, whole)
    variants: dict[str, Variant] = {"whole": whole, "element": memories.copies(source, target, ELEMENT, 1)}
    rivals = {
        "driver": memories.driver_copies(source, target, nbytes, 1),
        "mpi": memories.mpi_copies(source, target, nbytes, 1),
        "mpi_element": memories.mpi_copies(source, target, ELEMENT, 1),
    }
    variants |= {name: rival for name, rival in rivals.items() if rival is not None}
    samples = interleave(variants, team=memories.team, **timing)
    found = {name: summarize(values) for name, values in samples.items()}
    return {
        "source": str(source),
        "target": str(target),
        "nbytes": nbytes,
        "node_kind": memories.node_kind,
        "path": path,
        "latency_us": found["element"].median * 1e6,
        "mpi_latency_us": found["mpi_element"].median * 1e6 if "mpi" in found else None,
        "gb_per_s": bandwidth(nbytes, found["whole"], found["element"]),
        "whole_gb_per_s": nbytes * 1e-9 / found["whole"].median,
        **{
            f"{name}_gb_per_s": nbytes * 1e-9 / found[name].median if name in found else None
            for name in ("driver", "mpi")
        },
        "verified": verified,
        "seconds": {name: asdict(summary) for name, summary in found.items()},
    }


def bandwidth(nbytes: int, whole: Summary, element: Summary) -> float | None:
    """Return GB/s (10^9) without the start of the copy; None if the large copy took no longer. Local.

    Example:
        >>> bandwidth(3 * 10**9, summarize([2.0]), summarize([0.5]))
        2.0
    """
    more = whole.median - element.median
    return nbytes * 1e-9 / more if more > 0.0 else None
