"""``gondwana bench ping-pong``, ``ring`` and ``osu``: messages and sums beside MPI in C and mpi4py."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from gondwana.cli import launch
from gondwana.cli.numbers import whole
from gondwana.errors import UsageError
from gondwana_bench.cli.bench import options
from gondwana_bench.panels import Panels


@options.on_team("messages.ping_pong", rounds=100, seconds=0.002)
def ping_pong(sizes: options.Nbytes = None) -> None:
    """Send messages of 1 byte to 1 MiB there and back, two-sided and one-sided, beside MPI in C and mpi4py.

    The procedure is that of the Julia study: round trips, and the harmonic mean of the throughput.
    """


@options.reporting
def ring(
    report: Panels,
    ranks: Annotated[str, typer.Option("-n", "--ranks", metavar="N,...", help="Numbers of ranks.")] = "2",
    ranks_per_node: options.PerNode = None,
    communications: Annotated[str, typer.Option(metavar="N,...", help="Supersteps of a run.")] = "10,100",
    size: Annotated[int, typer.Option(metavar="BYTES", parser=whole(1), help="Length of a message.")] = 1024,
    reads: Annotated[int, typer.Option(metavar="N", parser=whole(0), help="Words that a superstep reads.")] = 1000,
    writes: Annotated[int, typer.Option(metavar="N", parser=whole(0), help="Words that it writes.")] = 1000,
    flops: Annotated[int, typer.Option(metavar="N", parser=whole(0), help="Its dependent operations.")] = 100,
    repeat: options.Repeat = 100,
    batch: options.Batch = 0.002,
) -> None:
    """Run supersteps on a ring of ranks: read, write, compute, and pass a message on, beside MPI in C and mpi4py.

    The procedure is that of the Julia study: runs of 10 and of 100 supersteps, with the same work on every rank,
    however many there are. The shares of the phases are measured in runs of their own, with more clocks.
    """
    from gondwana_bench import build
    from gondwana_bench.messages import ring as bench

    build.command()
    runs, of = options.rank_counts(ranks, ranks_per_node), options.numbers("--communications", communications)
    work = bench.Work(size, reads, writes, flops)
    bench.check(runs, of, work)
    given: dict[str, Any] = {"communications": of, **asdict(work), "repeat": repeat, "batch_seconds": batch}
    given["ranks_per_node"] = ranks_per_node
    rows = (row for count in runs for row in options.rows_on_ranks(count, "messages.ring", **given))
    report.add("ring", bench.COLUMNS, rows, len(runs) * len(of) * len(bench.PAIRS))


def osu(
    tests: Annotated[str | None, typer.Option(metavar="NAME,...", help="Of latency, allreduce [both].")] = None,
    sizes: options.Nbytes = None,
    ranks: options.Ranks = 2,
    ranks_per_node: options.PerNode = None,
    against: Annotated[
        Path | None, typer.Option(metavar="DIR", help="OSU's osu_latency, osu_allreduce: compare with them instead.")
    ] = None,
    repeat: options.Repeat = 10,
    mpirun: options.Mpirun = None,
    file: options.File = None,
) -> None:
    """Messages of 0 bytes to 1 MiB and sums of 4 bytes to 8 MiB by OSU's procedure, beside MPI in C and mpi4py.

    Each round runs OSU's loop for every variant: 1000 calls after 200 that do not count, and 100 after 10 for large
    sizes. With --against, each round runs the official programs and then ours.
    """
    from gondwana_bench import build
    from gondwana_bench.messages import osu as bench

    options.check_common(0.02, file)
    options.check_mpirun(mpirun)
    build.command()
    wanted = list(dict.fromkeys(name.strip() for name in options.names(tests))) or list(bench.PAIRS)
    nbytes = options.numbers("--sizes", sizes) or None
    bench.check(ranks, wanted, nbytes)
    if against is None:
        given: dict[str, Any] = {"tests": wanted, "sizes": nbytes, "repeat": repeat}
        options.on_ranks(ranks, "messages.osu", ranks_per_node=ranks_per_node, file=file, **given)
    if ranks_per_node is not None:
        raise UsageError(
            f"--ranks-per-node {ranks_per_node}: --against leaves it to the launcher; list hosts that have so many "
            "slots, or leave out --against"
        )
    _beside(against, wanted, nbytes, ranks, repeat, mpirun, file)


def _beside(
    folder: Path,
    tests: list[str],
    sizes: list[int] | None,
    ranks: int,
    repeat: int,
    mpirun: str | None,
    file: Path | None,
) -> None:
    """Run the official programs and ours in turns."""
    from gondwana_bench.messages import official as bench
    from gondwana_bench.messages.osu import SIZES

    programs = bench.find(folder, tests)
    launch.command(ranks, [], threads=1)  # refuses what this machine cannot start
    report = Panels("osu", file)
    nbytes = {test: sizes or SIZES[test] for test in tests}
    rows = bench.measure(
        programs,
        nbytes,
        ranks,
        partial(options.official, mpirun),
        lambda: options.rows_on_ranks(ranks, "messages.osu", tests=tests, sizes=sizes, repeat=1),
        repeat,
    )
    report.add("against", bench.COLUMNS, rows, bench.most_rows(nbytes))
    options.finish(report)
