"""``gondwana plot``: pictures of a dataset."""

from __future__ import annotations

import enum
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gondwana.cli.numbers import whole
from gondwana.errors import UsageError
from gondwana.inputs import whole_number

if TYPE_CHECKING:
    from gondwana.io.dataset import Dataset

#: The default number of steps in the pictures.
_SHOWN = 6


class PlaneName(enum.StrEnum):
    """The planes that can be drawn."""

    xy = "xy"
    xz = "xz"
    yz = "yz"


def plot(
    dataset: Annotated[Path, typer.Argument(help="A BP dataset: a directory like gs.bp.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the pictures go [default: beside it, NAME_plots].")
    ] = None,
    variable: Annotated[
        list[str] | None, typer.Option("--variable", "-v", help="A field; may be repeated [default: all].")
    ] = None,
    steps: Annotated[
        str, typer.Option(help="Simulation steps, separated by commas; or first, last, all, or some (evenly spaced).")
    ] = "some",
    plane: Annotated[PlaneName, typer.Option(help="The plane to cut.")] = PlaneName.xy,
    index: Annotated[
        int | None,
        typer.Option(metavar="N", parser=whole(0), help="Where to cut the third axis, in cells [default: the middle]."),
    ] = None,
    montage: Annotated[bool, typer.Option(help="Also one picture of all steps side by side.")] = True,
    pdf: Annotated[bool, typer.Option("--pdf", help="Also histograms, and a dataset that holds them.")] = False,
    bins: Annotated[int, typer.Option(metavar="N", parser=whole(1, 10**6), help="The bins of the histograms.")] = 100,
    ranks: Annotated[
        int, typer.Option("-n", "--ranks", metavar="N", parser=whole(1), help="How many ranks count for --pdf.")
    ] = 1,
) -> None:
    """Draw planes of the fields of a dataset, a montage over time, and histograms, as PNG files.

    Prints the name of each file. The dataset may still be growing.
    """
    from gondwana.io.analysis import pictures
    from gondwana.io.analysis.pictures import fields_of, plane_of
    from gondwana.io.dataset import Dataset

    with Dataset(dataset) as data:
        if len(data.steps) == 0:
            raise UsageError(f"{dataset} has no complete step yet: wait until the first one is written")
        names = list(dict.fromkeys(variable or fields_of(data)))
        if not names:
            raise UsageError(f"{dataset} has no field with an x and a y axis to draw: give a dataset of fields")
        places = places_of(data, steps)
        planes = [[plane_of(data, name, place, plane.value, index) for place in places] for name in names]
        folder = out or dataset.absolute().with_name(f"{dataset.absolute().stem}_plots")
        _check_folder(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"cannot write pictures to {folder}: {error.strerror}; choose another with --out"
            ) from None
        for column in zip(*planes, strict=True):
            typer.echo(pictures.heat_maps(column, folder / f"{plane.value}_{column[0].step:08d}.png"))
        if montage:
            typer.echo(pictures.montage(planes, folder / f"{plane.value}_montage.png"))
    if pdf:
        _draw_pdfs(dataset, folder, names, places, bins, ranks)


def _check_folder(folder: Path) -> None:
    """Refuse to write pictures into a dataset.

    Raises:
        UsageError: the folder is a dataset, or in one.
    """
    from gondwana.io.paths import is_dataset

    around = next((place for place in (folder, *folder.absolute().parents) if is_dataset(place)), None)
    if around is not None:
        raise UsageError(f"--out {folder}: {around} is a dataset; choose a folder outside of it")


def places_of(data: Dataset, chosen: str) -> list[int]:
    """Return the indices of the steps of a dataset that a user selected. Local.

    Args:
        data: the dataset, with at least one step.
        chosen: simulation steps separated by commas, first or last among them; or all; or some.

    Raises:
        UsageError: a step is not in the dataset.
    """
    there = [int(step) for step in data.steps]
    if chosen in ("all", "some"):
        number = len(there) if chosen == "all" else min(_SHOWN, len(there))
        return sorted({round(i * (len(there) - 1) / max(1, number - 1)) for i in range(number)})
    words = {"first": there[0], "last": there[-1]}
    places = []
    for part in filter(None, (word.strip() for word in chosen.split(","))):
        step = words[part] if part in words else whole_number(part)
        if step is None or step not in there:
            legal = ", ".join(map(str, there[:8])) + (f" ... {there[-1]}" if len(there) > 8 else "")
            raise UsageError(
                f"--steps {part}: the dataset has no such step; it has {legal}, and first, last, all, some"
            )
        places.append(there.index(step))
    if not places:
        raise UsageError("--steps is empty: give steps, or first, last, all, some")
    return sorted(set(places))


def _draw_pdfs(dataset: Path, folder: Path, names: list[str], places: list[int], bins: int, ranks: int) -> None:
    """Compute histograms on a number of ranks, then draw them."""
    from gondwana.cli import launch
    from gondwana.io.analysis import pdf, pictures
    from gondwana.io.dataset import Dataset

    target = folder / "pdf.bp"
    arguments = [str(dataset), str(target), "--bins", str(bins), "--names", *names, "--places", *map(str, places)]
    program, variables = launch.as_rank(pdf.__file__, arguments)
    command = launch.command(ranks, program, variables=variables)
    status = subprocess.run(command.argv, env=command.environment(), stdin=subprocess.DEVNULL, check=False).returncode
    if status:
        # The ranks have reported the reason.
        raise typer.Exit(status)
    typer.echo(target)
    with Dataset(target) as pdfs:
        for name in names:
            typer.echo(pictures.histogram_curves(pdfs, name, folder / f"pdf_{_file_part(name)}.png"))
        for one, other in pairwise(names):
            if f"{one}-{other}/joint" in pdfs.variables:
                typer.echo(
                    pictures.joint_map(pdfs, (one, other), folder / f"pdf_{_file_part(one)}_{_file_part(other)}.png")
                )


def _file_part(name: str) -> str:
    return name.replace("/", "_")
