"""``gondwana warmup``: compile ahead of time, for the image of a cluster or the first start of many jobs."""

from __future__ import annotations

from typing import Annotated

import typer
from llvmlite import binding

from gondwana.cli.run import start
from gondwana.cli.run_options import Arguments, Module, Oversubscribe, Ranks, Threads
from gondwana.compiler import linker, native
from gondwana.errors import UsageError
from gondwana.runtime.cache_folder import describe, private_folder


def warmup(
    target: Annotated[str | None, typer.Argument(metavar="[PROGRAM]", help="As for gondwana run.")] = None,
    arguments: Arguments = None,
    library: Annotated[bool, typer.Option("--library", help="Compile what all programs need; run none.")] = False,
    ranks: Ranks = None,
    threads: Threads = None,
    module: Module = False,
    oversubscribe: Oversubscribe = False,
) -> None:
    """Compile ahead of time, for processors like this one: a later start with the same cache compiles nothing.

    PROGRAM runs to its end, as with gondwana run: choose settings with few steps. Give it as many ranks and threads as
    later on a node: kernels have versions of their own for one and for several.
    """
    if library == (target is not None):
        given = f"{target} and --library" if library else "neither"
        raise UsageError(f"gondwana warmup got {given}: give the PROGRAM to run once, or --library")
    try:
        folder = private_folder("objects")
    except OSError as error:
        raise UsageError(
            f"nothing compiled is kept: {describe(error)}; set GONDWANA_CACHE_DIR to a folder that only you can change"
        ) from None
    if target is None:
        native.compile_all()
        typer.echo(f"{linker.compilation()}; they are for {binding.get_host_cpu_name()}, in {folder}")
        return
    start(
        target, arguments or [], ranks=ranks, threads=threads, module=module, oversubscribe=oversubscribe, timing=True
    )
