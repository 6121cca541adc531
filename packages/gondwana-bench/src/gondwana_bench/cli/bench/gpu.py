"""``gondwana bench gpu`` and ``gondwana bench kinds``: the speed of GPUs, and of copies of their memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from gondwana.cli.numbers import whole
from gondwana.errors import GondwanaError
from gondwana.gpu.interface import CudaError
from gondwana_bench.cli.bench.options import Batch, Dtypes, File, Nbytes, Repeat, check_common, names, numbers, on_ranks
from gondwana_bench.panels import Panels
from gondwana_bench.rows import check_names

TIME_IS_UP = 124
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
    repeat: Repeat = 10,
    batch: Batch = 0.005,
    file: File = None,
) -> None:
    """Copy between host and device memory of two ranks, 8 bytes to 4 MiB, beside staging and the driver alone."""
    from gondwana_bench.kinds import copies as kinds
    from gondwana_bench.kinds import memspeed

    check_common(batch, file)
    nbytes = numbers("--sizes", sizes) or list(kinds.QUICK_SIZES if quick else kinds.SIZES)
    together = numbers("--windows", windows) or list(kinds.WINDOWS)
    volume = memspeed.VOLUME if volume is None else volume
    kinds.check(nbytes, together, volume, kind)
    options: dict[str, Any] = {"sizes": nbytes, "windows": together, "volume": volume, "kind": kind}
    on_ranks(2, "kinds.copies", **options, repeat=repeat, batch_seconds=batch, file=file)


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
    from gondwana_bench.gpu import sweeps

    check_common(batch, file)
    wanted = names(panels) or list(PANELS)
    check_names("--panels", wanted, PANELS)
    cells = numbers("--sizes", sizes) or list(sweeps.SIZES)
    types = names(dtypes) or list(sweeps.DTYPES)
    sweeps.check(cells, types)
    run = _Run(cells, types, repeat, batch, quick, budget, file)
    for name in wanted:
        run.panel(name)
    run.report.finish(complete=not run.report.notes and not run.report.failures)
    if not run.report.verified:
        raise typer.Exit(1)


class _Run:
    """One run of `gondwana bench gpu`."""

    def __init__(
        self,
        cells: list[int],
        dtypes: list[str],
        repeat: int,
        batch: float,
        quick: bool,
        budget: float | None,
        file: Path | None,
    ) -> None:
        import gondwana as gw
        from gondwana_bench.gpu.devices import describe

        self.cells, self.dtypes, self.quick = cells, dtypes, quick
        self.timing: dict[str, Any] = {"repeat": repeat, "batch_seconds": batch}
        self._end = float("inf") if budget is None else time.monotonic() + budget
        self.kind = gw.cuda(0)
        self.report = Panels("gpu", file, describe(self.kind.device))

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
        """Measure both panels of `gondwana bench kinds` by separate ranks."""
        if self._left() < KINDS_SECONDS:
            self.report.note("left out the memories of two ranks: no time is left")
            return
        self.kind.device.synchronize()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "kinds.json"
            words = ["--json", str(file), *(["--quick"] if self.quick else [])]
            status = _bench("kinds", words, self._left())
            if file.exists():
                self.report.panels |= json.loads(file.read_text())["panels"]
        if status == TIME_IS_UP:
            self.report.note("left out some of the memories of two ranks: no time is left")
        elif status:
            self.report.fail(f"the memories of two ranks: status {status}")

    def _left(self) -> float:
        return self._end - time.monotonic()

    def _in_time(self, what: str) -> bool:
        if self._left() >= CASE_SECONDS:
            return True
        self.report.note(f"left out {what}: no time is left")
        return False


def _bench(name: str, words: list[str], limit: float) -> int:
    """Run another benchmark and return its status."""
    command = [sys.executable, "-P", "-m", "gondwana.cli.main", "bench", name, *words]
    sys.stdout.flush()
    try:
        return subprocess.run(command, timeout=min(limit, 3600.0)).returncode
    except subprocess.TimeoutExpired:
        return TIME_IS_UP


PANELS: dict[str, Callable[[_Run], None]] = {
    "numerics": _Run.numerics,
    "copy": _Run.copy,
    "sweeps": _Run.sweeps,
    "kinds": _Run.kinds,
    "first_calls": _Run.first_calls,
}
