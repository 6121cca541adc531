"""The speed and path of copies between memories of the host and of devices, of this rank and of another one.

The procedure is that of the GPU benchmark of UPC++ (cuda_microbenchmark): one copy at a time, and windows of copies
that are started together and waited for together, all with one source and one destination.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import gondwana as gw
from gondwana import Team, world
from gondwana.errors import UsageError
from gondwana_bench.disturbance import watched
from gondwana_bench.gpu.devices import describe
from gondwana_bench.kinds import atomics, memspeed
from gondwana_bench.kinds.memories import DEVICE, HOST, Memories, Memory
from gondwana_bench.measure import Variant, interleave
from gondwana_bench.panels import Panels
from gondwana_bench.processes import job_options
from gondwana_bench.rows import Row, check_numbers, columns, relative
from gondwana_bench.statistics import summarize

SIZES = tuple(2**n for n in range(3, 23))
QUICK_SIZES = (8, 512, 4096, 65536, 1048576, 4194304)
"""The window whose latency the table shows besides."""
WINDOWS = (1, 100)
KINDS = ("cuda", "fake_device")
STAGED = "staged"

COLUMNS = columns(
    "operation source target nbytes window node_kind path microseconds gb_per_s staged_ratio driver_ratio mpi_ratio "
    "host_ratio goal met verified",
    node_kind="nodes", staged_ratio="staged/ours (95 %)", driver_ratio="driver/ours (95 %)",
    mpi_ratio="MPI/ours (95 %)", host_ratio="host/ours (95 %)",
)  # fmt: skip

LARGE = 2**20
GOAL = 0.8
"""The goal of copies of at least `LARGE` bytes between device memories of two ranks, relative to one rank."""


class Pair(NamedTuple):
    """A direction of copies: its name at rank 0, and its two ends."""

    operation: str
    source: Memory
    target: Memory

    @property
    def is_remote(self) -> bool:
        """Whether an end belongs to another rank."""
        return self.source.remote or self.target.remote


def pairs() -> list[Pair]:
    """Return the directions: copies within rank 0, puts to and gets from rank 1, of each kind to each. Local.

    Example:
        >>> len(pairs())
        12
    """
    found = []
    for first, second in itertools.product((HOST, DEVICE), repeat=2):
        found += [
            Pair("copy", Memory(0, first), Memory(0, second)),
            Pair("put", Memory(0, first), Memory(1, second)),
            Pair("get", Memory(1, first), Memory(0, second)),
        ]
    return sorted(found, key=lambda pair: pair.operation)


def kind_named(name: str) -> gw.MemoryKind:
    """Return the memory kind of the device. Collective over all ranks.

    Raises:
        UsageError: there is no GPU.
    """
    return gw.cuda() if name == "cuda" else gw.fake_device


def check(sizes: Sequence[int], windows: Sequence[int], volume: int, kind: str) -> None:
    """Check the arguments. Local.

    Raises:
        UsageError: names the option, what was given and what is legal; or there is no GPU.
    """
    if kind not in KINDS:
        raise UsageError(f"--kind {kind}: legal are {', '.join(KINDS)}")
    if kind == "cuda" and not gw.device_count():
        raise UsageError("--kind cuda: there is no GPU here (gondwana doctor says why): use --kind fake_device")
    for option, numbers in (("--sizes", sizes), ("--windows", windows)):
        check_numbers(option, numbers, "numbers of at least 1, such as 8,65536")
    if volume < 2 * memspeed.ELEMENT or volume % memspeed.ELEMENT:
        raise UsageError(f"--volume {volume}: give a multiple of {memspeed.ELEMENT} bytes, at least two of them")


def measure(
    team: Team,
    kind: gw.MemoryKind,
    sizes: Sequence[int] = SIZES,
    windows: Sequence[int] = WINDOWS,
    **timing: Any,
) -> Iterator[Row]:
    """Measure copies that rank 0 starts, one row each as soon as it is done. Collective over team.

    In turns with each: the same copies staged through host memory, where they take another path and an end is on
    another rank; the same bytes moved between memories of rank 0 by the driver alone, where an end is on a device; and
    between nodes the same by MPI's put or get, where MPI takes the memory, and by us between memories of the hosts.

    Args:
        team: two ranks.
        kind: kind of the device's memory.
        sizes: bytes of a copy.
        windows: copies that are under way together; 1 gives the latency.
        timing: options of `measure.interleave`.

    Returns:
        The same rows on every rank: time of a copy, GB/s (10^9), what the nodes are, the path, the speed relative to
        the rivals, and whether the bytes were right.

    Raises:
        UsageError: the team is not two ranks.
    """
    if team.size != 2:
        raise UsageError(f"{team.size} ranks: this measures copies of two")
    memories = Memories(team, kind, max(sizes))
    for pair, nbytes, window in itertools.product(pairs(), sizes, windows):
        yield _row(memories, pair, nbytes, window, timing)
    memories.close()


def _row(memories: Memories, pair: Pair, nbytes: int, window: int, timing: Mapping[str, Any]) -> Row:
    _, source, target = pair
    ours = memories.copies(source, target, nbytes, window)
    verified, path = memories.check(source, target, nbytes, ours)
    variants: dict[str, Variant] = {"ours": ours}
    if pair.is_remote and DEVICE in (source.kind, target.kind) and path != STAGED:
        variants[STAGED] = memories.copies(source, target, nbytes, window, STAGED)
        verified = memories.check(source, target, nbytes, variants[STAGED])[0] and verified
    rivals = {"driver": memories.driver_copies, "mpi": memories.mpi_copies}
    found = {name: rival(source, target, nbytes, window) for name, rival in rivals.items()}
    variants |= {name: rival for name, rival in found.items() if rival is not None}
    if pair.is_remote and memories.node_kind != "one" and DEVICE in (source.kind, target.kind):
        variants["host"] = memories.copies(source._replace(kind=HOST), target._replace(kind=HOST), nbytes, window)
    samples = interleave(variants, team=memories.team, **timing)
    seconds = {name: [s / window for s in values] for name, values in samples.items()}
    mine = summarize(seconds["ours"])
    beside_driver = relative(seconds.get("driver"), seconds["ours"], "driver_ratio")
    goal, met = judge(pair, nbytes, beside_driver["driver_ratio"])
    return {
        "operation": pair.operation,
        "source": str(source),
        "target": str(target),
        "nbytes": nbytes,
        "window": window,
        "node_kind": memories.node_kind,
        "path": path,
        "microseconds": mine.median * 1e6,
        "gb_per_s": nbytes * 1e-9 / mine.median,
        **relative(seconds.get(STAGED), seconds["ours"], "staged_ratio"),
        **beside_driver,
        **relative(seconds.get("mpi"), seconds["ours"], "mpi_ratio"),
        **relative(seconds.get("host"), seconds["ours"], "host_ratio"),
        "goal": goal,
        "met": met,
        "verified": verified,
        "seconds": {name: asdict(summarize(values)) for name, values in seconds.items()},
    }


def judge(pair: Pair, nbytes: int, beside_driver: float | None) -> tuple[str | None, bool | None]:
    """Return the goal of a copy as text and whether it is met; None for both without a goal. Local."""
    between_devices = pair.is_remote and {pair.source.kind, pair.target.kind} == {DEVICE}
    if beside_driver is None or nbytes < LARGE or not between_devices:
        return None, None
    return f">= {GOAL:g} of driver", beside_driver >= GOAL


def main(options: dict[str, Any]) -> int:
    """Measure all panels, print the tables and write the report. Collective over all ranks.

    Args:
        options: options of the command line.

    Returns:
        The exit status: 0 if all bytes were right.
    """
    kind, file = kind_named(options["kind"]), options["file"]
    timing = {key: options[key] for key in ("repeat", "batch_seconds")}
    sizes, windows = options["sizes"], options["windows"]
    panels = Panels("kinds", None if file is None else Path(file), command=options["command"])
    device = Memories.device_of(kind)
    panels.device = {"name": "fake device"} if device is None else describe(device)
    transfers = measure(world, kind, sizes, windows, **timing)
    matrix = memspeed.measure(world, kind, options["volume"], **timing)
    operations = atomics.measure(world, kind, **timing)
    few = len(sizes) <= len(QUICK_SIZES)
    if world.rank == 0:
        total = len(pairs()) * len(sizes) * len(windows)
        panels.add("transfers", COLUMNS, transfers, total, lambda row: few or row["nbytes"] in QUICK_SIZES, world)
        panels.add("memories", memspeed.COLUMNS, matrix, memspeed.PAIRS, team=world)
        panels.add("atomics", atomics.COLUMNS, operations, len(atomics.CASES), team=world)
        panels.finish()
    else:
        found = {"transfers": transfers, "memories": matrix, "atomics": operations}
        panels.panels |= {name: list(watched(rows, world)) for name, rows in found.items()}
    return 0 if panels.verified else 1


if __name__ == "__main__":
    sys.exit(main(job_options()))
