"""``gondwana model``: how long steps of the applications take on machines that are larger than this one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gondwana.cli import launch
from gondwana.cli.help_by_package import Sentences
from gondwana.cli.numbers import whole
from gondwana.errors import UsageError
from gondwana.results import check_writable, write_model
from gondwana_bench.cli.bench.options import File, check_files, numbers

if TYPE_CHECKING:
    from gondwana_bench.model.machine import Machine
    from gondwana_bench.model.observations import Observation

model = typer.Typer(
    help="Fit a machine to measured steps, and predict steps on many ranks.",
    cls=Sentences,
    no_args_is_help=True,
    rich_markup_mode=None,
)

MOST_RANKS = 10**6

GOAL = 15
"""The largest error of a prediction that counts as right, in percent."""

Results = Annotated[list[Path], typer.Argument(metavar="RESULTS...", help="Files of --json.")]
MachineFile = Annotated[
    str, typer.Option("--machine", metavar="FILE", help="A machine file, or the name of one that is shipped.")
]
Latency = Annotated[float | None, typer.Option(metavar="MICROSECONDS", help="Between nodes, instead of the machine's.")]

COLUMNS = {
    "app": "application", "size": "size", "ranks": "ranks", "milliseconds": "ms a step", "compute": "compute",
    "communicate": "communicate", "wait": "wait", "efficiency": "efficiency",
}  # fmt: skip
CHECKED = {
    "app": "application", "size": "size", "ranks": "ranks", "nodes": "nodes", "measured": "ms measured",
    "predicted": "predicted", "error": "error, %",
}  # fmt: skip


@model.command()
def fit(
    results: Results,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The machine file.")],
    name: Annotated[str, typer.Option(help="Of the machine.")] = "this machine",
    cores: Annotated[
        int | None, typer.Option(metavar="N", parser=whole(1), help="Ranks of a node [default: cores of this one].")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Seconds of steps, of `heat --record`, for the noise.")
    ] = None,
    latency: Latency = None,
) -> None:
    """Fit a machine to results of applications and of `bench rma`, `heat`, `npb` and `hpcg`."""
    from gondwana_bench.model import fit as fitting, machine, noise, observations

    check_writable(out, f"--out {out}")
    measured = observations.read(results)
    for skipped in measured.skipped:
        typer.echo(f"skipped: {skipped}", err=True)
    law = None if record is None else noise.fit(noise.read_record(record))
    network = with_latency(fitting.START, latency).network
    found = fitting.fit(measured, name, cores or launch.cores(), network, law)
    machine.write(out, found)
    _show_errors("gondwana model fit", found, measured.steps)


@model.command()
def predict(
    app: Annotated[str, typer.Option(metavar="NAME", help="heat, gray-scott, npb-mg, npb-ft, npb-cg or hpcg.")],
    size: Annotated[str, typer.Option(metavar="SIZE", help="Cells, a class, or points of a rank for hpcg.")],
    machine: MachineFile,
    ranks: Annotated[str, typer.Option(metavar="N,N,...", help="How many.")] = "1,10,100,1000,10000,100000",
    weak: Annotated[bool, typer.Option("--weak/--strong", help="The size is that of one rank, and grows.")] = False,
    latency: Latency = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw times and efficiency, as PNG.")] = None,
    file: File = None,
) -> None:
    """Predict milliseconds of a step and the efficiency, on up to a million ranks."""
    from gondwana_bench.model.predict import draw, table
    from gondwana_bench.report.text_tables import show_table

    check_files(plot=plot, json=file)
    counts = numbers("--ranks", ranks)
    if any(count > MOST_RANKS for count in counts):
        raise UsageError(f"--ranks {ranks}: at most {MOST_RANKS}")
    described = with_latency(_machine(machine), latency)
    rows = table(described, app, size, counts, weak=weak or app == "hpcg")
    scaling = "weak" if weak or app == "hpcg" else "strong"
    last = rows[-1]
    verdict = (
        f"{last['milliseconds']:.3g} ms a step and an efficiency of {last['efficiency']:.2g} on {last['ranks']} ranks"
    )
    title = f"gondwana model: {app} on {described.name}"
    show_table(title, "a model, not a measurement", COLUMNS, rows, verdict)
    if file is not None:
        write_model(file, described.name, {f"{app}, {scaling} scaling": rows})
    if plot is not None:
        draw(rows, f"{app} on {described.name}, {scaling}", str(plot))


@model.command()
def check(results: Results, machine: MachineFile, latency: Latency = None, file: File = None) -> None:
    """Compare predicted with measured steps, which should not be those that the machine was fitted to.

    The exit status is 0 whatever the errors are, 2 if there are no such steps.
    """
    from gondwana_bench.model import observations

    if file is not None:
        check_writable(file)
    described = with_latency(_machine(machine), latency)
    measured = observations.read(results)
    for skipped in measured.skipped:
        typer.echo(f"skipped: {skipped}", err=True)
    rows = _show_errors("gondwana model check", described, measured.some_steps())
    if file is not None:
        write_model(file, described.name, {"errors": rows})


def with_latency(machine: Machine, microseconds: float | None) -> Machine:
    """Return the machine with another latency between nodes. Local.

    Raises:
        UsageError: the latency cannot be read, or the machine has no network.
    """
    import msgspec

    from gondwana_bench.model.costs import network_of

    if microseconds is None:
        return machine
    if not (math.isfinite(microseconds) and 0 <= microseconds <= 1e9):
        raise UsageError(f"--latency {microseconds}: legal is a number of microseconds from 0 to 1e9")
    network = msgspec.structs.replace(network_of(machine), latency=1e-6 * microseconds)
    return msgspec.structs.replace(machine, network=network)


def _machine(given: str) -> Machine:
    from importlib import resources

    from gondwana_bench.model.machine import read

    shipped = resources.files("gondwana_bench.model") / "machines" / f"{given}.json"
    return read(str(shipped) if given.isidentifier() and shipped.is_file() else given)


def _show_errors(title: str, machine: Machine, steps: list[Observation]) -> list[dict[str, object]]:
    from gondwana_bench.model import fit as fitting
    from gondwana_bench.report.text_tables import show_table

    rows = fitting.errors(machine, steps)
    sizes = sorted(abs(float(str(row["error"]))) for row in rows)
    verdict = "no steps"
    if sizes:
        within, median = sum(size <= GOAL for size in sizes), sizes[len(sizes) // 2]
        spread = f"errors: median {median:.1f} %, largest {sizes[-1]:.1f} %"
        verdict = f"{spread}; {within} of {len(sizes)} within {GOAL} %"
    show_table(title, machine.name, CHECKED, rows, verdict)
    return rows
