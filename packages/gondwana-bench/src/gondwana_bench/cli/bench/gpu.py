"""``gondwana bench gpu`` and ``gondwana bench kinds``: the speed of GPUs, and of copies of their memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gondwana.cli.numbers import whole
from gondwana.errors import GondwanaError
from gondwana.gpu.interface import CudaError
from gondwana_bench.cli.bench.options import (
    Batch,
    Dtypes,
    File,
    Nbytes,
    PerNode,
    Repeat,
    check_common,
    names,
    numbers,
    on_ranks,
)
from gondwana_bench.panels import Panels
from gondwana_bench.processes import bench_command, nodes_for
from gondwana_bench.rows import check_names

if TYPE_CHECKING:
    from gondwana.memory.cuda_kind import CudaKind

CASE_SECONDS, KINDS_SECONDS = 8.0, 45.0
"""Seconds of the budget that must be left to begin one more case of the sweeps, and the panels of the memories."""


def kinds(
    sizes: Nbytes = None,
    windows: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Copies that are under way together [1,100].")
    ] = None,
    volume: Annotated[
        int | None,
        typer.Option(metavar="BYTES", parser=whole(1, 2**50), help="Of the large copy between all memories [64 Mi]."),
    ] = None,
    kind: Annotated[str, typer.Option(help="Memory of the device: cuda, or fake_device to try the rest.")] = "cuda",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes.")] = False,
    ranks_per_node: PerNode = None,
    repeat: Repeat = 10,
    batch: Batch = 0.005,
    file: File = None,
) -> None:
    """Copy between host and device memory of two ranks, 8 bytes to 4 MiB, beside staging and the driver alone.

    With --ranks-per-node 1 the ranks are on two nodes, real ones if the launcher has them, and the same is done by
    MPI's own one-sided operations and between memories of the hosts.
    """
    from gondwana_bench.kinds import copies as kinds, memspeed

    check_common(batch, file)
    nbytes = numbers("--sizes", sizes) or list(kinds.QUICK_SIZES if quick else kinds.SIZES)
    together = numbers("--windows", windows) or list(kinds.WINDOWS)
    volume = memspeed.VOLUME if volume is None else volume
    kinds.check(nbytes, together, volume, kind)
    options: dict[str, Any] = {"sizes": nbytes, "windows": together, "volume": volume, "kind": kind}
    options |= {"repeat": repeat, "batch_seconds": batch, "file": file}
    nodes = nodes_for(2, ranks_per_node)
    on_ranks(2, "kinds.copies", ranks_per_node=nodes.per_node, variables=nodes.variables, **options)


def gpu(
    sizes: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Cells a side of the cube [1024,512,256].")
    ] = None,
    dtypes: Dtypes = None,
    panels: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Of numerics, copy, sweeps, kinds, first_calls [all]."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes of transfers, fewer first calls.")] = False,
    budget: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Begin nothing that would end later [no limit].")
    ] = None,
    repeat: Repeat = 20,
    batch: Batch = 0.005,
    file: File = None,
) -> None:
    """Measure this GPU: copies, Gray-Scott steps beside CUDA C, first calls, and memory of two ranks on it.

    The results are compared with runs of known results and with the host; the exit status is 0 only if all were right.
    """
    import gondwana as gw
    from gondwana_bench.gpu import sweeps
    from gondwana_bench.gpu.devices import describe

    check_common(batch, file)
    wanted = names(panels) or list(PANELS)
    check_names("--panels", wanted, PANELS)
    cells = numbers("--sizes", sizes) or list(sweeps.SIZES)
    types = names(dtypes) or list(sweeps.DTYPES)
    sweeps.check(cells, types)
    end = float("inf") if budget is None else time.monotonic() + budget
    kind = gw.cuda(0)
    report = Panels("gpu", file, describe(kind.device))
    run = _Run(cells, types, {"repeat": repeat, "batch_seconds": batch}, quick, end, kind, report)
    for name in wanted:
        run.panel(name)
    run.report.finish(complete=not run.report.notes and not run.report.failures)
    if not run.report.verified:
        raise typer.Exit(1)


@dataclass
class _Run:
    """One run of `gondwana bench gpu`; it begins nothing that would end after `end`."""

    cells: list[int]
    dtypes: list[str]
    timing: dict[str, Any]
    quick: bool
    end: float
    kind: CudaKind
    report: Panels

    def panel(self, name: str) -> None:
        """Measure a panel. A failure is recorded, and the other panels are still measured."""
        try:
            PANELS[name](self)
        except (GondwanaError, CudaError, MemoryError) as error:
            self.report.fail(f"{name}: {error}")
        self.report.write()

    def numerics(self) -> None:
        from gondwana_bench.gpu import numerics

        self.report.add("numerics", numerics.COLUMNS, numerics.measure(self.kind), total=24)

    def copy(self) -> None:
        from gondwana_bench.gpu import copies

        rows = copies.measure(self.kind, self.cells, self.dtypes, **self.timing, note=self.report.note)
        self.report.add("copy", copies.COLUMNS, rows, total=len(self.cells) * len(self.dtypes))

    def sweeps(self) -> None:
        from gondwana_bench.gpu import sweeps

        callbacks: dict[str, Any] = {"note": self.report.note, "fail": self.report.fail, "in_time": self._in_time}
        rows = sweeps.measure(self.kind, self.cells, self.dtypes, **self.timing, **callbacks)
        self.report.add("sweeps", sweeps.COLUMNS, rows, total=4 * len(sweeps.cases(self.cells, self.dtypes)))

    def first_calls(self) -> None:
        from gondwana_bench.gpu import first_call

        cases = first_call.CASES[:1] if self.quick else first_call.CASES
        if self._in_time("first calls"):
            rows = first_call.measure(min(first_call.SIDE, *self.cells), cases)
            self.report.add("first calls", first_call.COLUMNS, rows, total=2 * len(cases))

    def kinds(self) -> None:
        """Measure the panels of `gondwana bench kinds` by separate ranks."""
        if self._left() < KINDS_SECONDS:
            self.report.note("left out the memories of two ranks: no time is left")
            return
        self.kind.device.synchronize()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "kinds.json"
            words = ["--json", str(file), *(["--quick"] if self.quick else [])]
            sys.stdout.flush()
            try:
                status = subprocess.run(bench_command("kinds", *words), timeout=min(self._left(), 3600.0)).returncode
                if status:
                    self.report.fail(f"the memories of two ranks: status {status}")
            except subprocess.TimeoutExpired:
                self.report.note("left out some of the memories of two ranks: no time is left")
            if file.exists():
                self.report.panels |= json.loads(file.read_text())["panels"]

    def _left(self) -> float:
        return self.end - time.monotonic()

    def _in_time(self, what: str) -> bool:
        if self._left() >= CASE_SECONDS:
            return True
        self.report.note(f"left out {what}: no time is left")
        return False


PANELS: dict[str, Callable[[_Run], None]] = {
    "numerics": _Run.numerics,
    "copy": _Run.copy,
    "sweeps": _Run.sweeps,
    "kinds": _Run.kinds,
    "first_calls": _Run.first_calls,
}
