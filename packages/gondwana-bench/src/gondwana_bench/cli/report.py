"""``gondwana report``: results as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gondwana.errors import UsageError
from gondwana.results import check_writable, write_text


def report(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULTS...", help="Files of --json and of --trace, or folders of them.")
    ],
    since: Annotated[
        Path | None, typer.Option(metavar="RESULTS", help="Older results: rows that have changed are marked.")
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The page.")] = Path("report.html"),
) -> None:
    """Draw results of benchmarks, applications, models and traces on one HTML page.

    The page needs no network. Results of one benchmark are shown beside each other, those of different machines too.
    """
    from gondwana_bench.report import page, read

    check_writable(out, f"--out {out}")
    if any(out.exists() and file.exists() and out.samefile(file) for file in results):
        raise UsageError(f"--out {out}: it is one of the results; name another file")
    write_text(out, page(read(results), read([since] if since else [])), f"--out {out}")
    typer.echo(out)
