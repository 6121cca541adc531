"""Atomic operations of rank 0 on words of a device, beside the same on words of the host, of both ranks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

import gondwana as gw
from gondwana import Team
from gondwana_bench.kinds.memories import DEVICE, HOST, Memory
from gondwana_bench.measure import interleave, timed
from gondwana_bench.rma.candidates import absent
from gondwana_bench.rows import Row, columns, relative
from gondwana_bench.statistics import summarize

WORDS = 1000
"""Operations that are under way together, or in a batch."""
OPERATIONS = {"fetch_add": 1, "adds": WORDS, "batch": WORDS}
"""Operations of a call: one whose result is waited for, many on one word that are waited for together, and one call for
as many words."""
CASES = tuple(itertools.product(OPERATIONS, (0, 1)))

COLUMNS = columns(
    "operation owner words microseconds host_microseconds host_ratio verified",
    microseconds="us a word", host_microseconds="on the host", host_ratio="host/device (95 %)",
)  # fmt: skip


def measure(team: Team, kind: gw.MemoryKind, **timing: Any) -> Iterator[Row]:
    """Measure operations on words of the device and of the host in turns. Collective over team.

    Args:
        team: two ranks of one node.
        kind: kind of the device's memory.
        timing: options of `measure.interleave`.

    Returns:
        The same rows on every rank: time of a word on the device and on the host, and whether the sums were right.
    """
    domain = gw.AtomicDomain("i8", ["fetch_add", "add", "load"], team)
    for operation, rank in CASES:
        yield _row(domain, operation, rank, {HOST: gw.host, DEVICE: kind}, timing)


def _row(
    domain: gw.AtomicDomain, operation: str, rank: int, kinds: Mapping[str, gw.MemoryKind], timing: Mapping[str, Any]
) -> Row:
    team, words, first = domain.team, OPERATIONS[operation], domain.team.rank == 0
    segments = {name: gw.Segment(team, 8 * WORDS, kind) for name, kind in kinds.items()}
    counts = dict.fromkeys(segments, 0)

    def counted(name: str) -> Callable[[], None]:
        call = _call(domain, operation, segments[name].pointer(rank, "i8"))

        def run() -> None:
            counts[name] += words
            call()

        return run

    samples = interleave({name: timed(counted(name)) if first else absent for name in segments}, team=team, **timing)
    sums = {name: domain.batch("load", one.pointer(rank, "i8"), range(WORDS)) for name, one in segments.items()}
    verified = team.bcast(all(np.asarray(found.result()).sum() == counts[name] for name, found in sums.items()))
    team.barrier()  # the other rank may reach the memory of this one until here
    seconds = {name: [s / words for s in values] for name, values in samples.items()}
    return {
        "operation": operation,
        "owner": str(Memory(rank, DEVICE)),
        "words": words,
        "microseconds": summarize(seconds[DEVICE]).median * 1e6,
        "host_microseconds": summarize(seconds[HOST]).median * 1e6,
        **relative(seconds[HOST], seconds[DEVICE], "host_ratio"),
        "verified": verified,
        "seconds": {name: asdict(summarize(values)) for name, values in seconds.items()},
    }


def _call(domain: gw.AtomicDomain, operation: str, word: gw.GlobalPtr) -> Callable[[], object]:
    """What rank 0 does."""
    places = np.arange(WORDS)
    return {
        "fetch_add": lambda: domain.fetch_add(word, 1).result(),
        "adds": lambda: gw.when_all(*(domain.add(word, 1) for _ in range(WORDS))).wait(),
        "batch": lambda: domain.batch("add", word, places, 1).wait(),
    }[operation]
