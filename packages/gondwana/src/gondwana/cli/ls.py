"""``gondwana ls``: the contents of a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def ls(
    dataset: Annotated[Path, typer.Argument(help="A BP dataset: a directory like gs.bp.")],
    long: Annotated[bool, typer.Option("--long", "-l", help="Also extremes, and values of attributes.")] = False,
    blocks: Annotated[bool, typer.Option("--blocks", "-D", help="Also the block of every rank in every step.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Also read all data, and compare their checksums.")] = False,
) -> None:
    """List the variables and attributes of a dataset, as ADIOS2's bpls does."""
    from gondwana.io.analysis.listing import listing
    from gondwana.io.checksums import verify as verify_data
    from gondwana.io.dataset import Dataset

    with Dataset(dataset) as data:
        for line in listing(data, long=long, blocks=blocks):
            typer.echo(line)
        if not data.variables:
            typer.echo(f"{dataset} has no complete step yet", err=True)
    if verify:
        typer.echo(verify_data(dataset))
