"""``gondwana bench ping-pong``, ``ring`` and ``osu``: messages and sums beside MPI in C and mpi4py."""

from __future__ import annotations

from gondwana.cli.bench.options import Batch, File, Nbytes, Ranks, Repeat, check_common, numbers, on_ranks


def ping_pong(
    sizes: Nbytes = None,
    ranks: Ranks = 2,
    repeat: Repeat = 100,
    batch: Batch = 0.002,
    file: File = None,
) -> None:
    """Send messages of 1 byte to 1 MiB there and back, two-sided and one-sided, beside MPI in C and mpi4py.

    The procedure is that of the Julia study: round trips, and the harmonic mean of the throughput.
    """
    from gondwana.bench import build
    from gondwana.bench.messages import ping_pong as bench

    check_common(batch, file)
    build.command()
    nbytes = numbers("--sizes", sizes) or list(bench.SIZES)
    bench.check(ranks, nbytes)
    on_ranks(ranks, "messages.ping_pong", sizes=nbytes, repeat=repeat, batch_seconds=batch, file=file)
