"""``gondwana bench kinds`` and ``gondwana bench gpu``: how fast GPUs compute, and how fast their memory is reached."""

from __future__ import annotations

from typing import Annotated

import typer

from gondwana.cli.bench_options import Batch, File, Nbytes, Repeat, check_common, numbers, on_ranks


def kinds(
    sizes: Nbytes = None,
    windows: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Copies that are under way together [1,100].")
    ] = None,
    volume: Annotated[
        int | None, typer.Option(metavar="BYTES", help="Of the large copy between all memories [64 Mi].")
    ] = None,
    kind: Annotated[str, typer.Option(help="Memory of the device: cuda, or fake_device to try the rest.")] = "cuda",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes.")] = False,
    repeat: Repeat = 10,
    batch: Batch = 0.005,
    file: File = None,
) -> None:
    """Copy between host and device memory of two ranks, 8 bytes to 4 MiB, beside staging and the driver alone."""
    from gondwana.bench import kinds, memspeed

    check_common(batch, file)
    nbytes = numbers("--sizes", sizes) or list(kinds.QUICK_SIZES if quick else kinds.SIZES)
    together = numbers("--windows", windows) or list(kinds.WINDOWS)
    volume = memspeed.VOLUME if volume is None else volume
    kinds.check(nbytes, together, volume, kind)
    options = {"sizes": nbytes, "windows": together, "volume": volume, "kind": kind}
    on_ranks(2, "kinds", **options, repeat=repeat, batch_seconds=batch, file=file)
