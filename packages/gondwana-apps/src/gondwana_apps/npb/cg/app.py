"""`gondwana run npb-cg --class K`: the NAS Parallel Benchmark CG."""

from __future__ import annotations

from gondwana_apps.npb.cg.benchmark import CG
from gondwana_apps.npb.common import app as common

BENCHMARK = CG()


def check(argv: list[str], ranks: int | None = None) -> None:
    """Refuse arguments that cannot run, before any rank starts. Local.

    Args:
        argv: what follows `npb-cg` on the command line.
        ranks: number of ranks that will run, where the launcher knows it.

    Raises:
        UsageError: one line that says what to change.
    """
    common.check(BENCHMARK, argv, ranks)


def main(argv: list[str]) -> int:
    """Run the benchmark. Collective over the world.

    Args:
        argv: what follows `npb-cg` on the command line.

    Returns:
        The exit status: 0 if the result is verified, else 1.
    """
    return common.main(BENCHMARK, argv)
