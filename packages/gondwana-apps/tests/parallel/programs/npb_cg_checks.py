"""Checks of CG on several ranks: the official result, its trace, and equal bits where they are promised."""

from __future__ import annotations

from checks import run_checks

import gondwana as gw
from gondwana_apps.npb.cg.grid import Grid
from gondwana_apps.npb.cg.makea import make_matrix
from gondwana_apps.npb.cg.partners import connect
from gondwana_apps.npb.cg.problem import PROBLEMS
from gondwana_apps.npb.cg.solver import solver

team = gw.world
S = PROBLEMS["S"]
TRACE = {1: 9.998644157914, 2: 8.573327920322, 3: 8.595451037406, 4: 8.596997234074, 15: S.zeta}


def zetas(variant: str) -> list[float]:
    """Zeta of class S after each iteration. Collective."""
    grid = Grid(S.n, team.rank, team.size)
    a, nonzeros = make_matrix(S, grid.block)
    assert team.allreduce(nonzeros) == S.nonzeros
    partners = connect(team, grid)
    x, *others = (gw.Array.full(grid.block[1], 1.0) for _ in range(5))
    found = []
    for _ in range(S.iterations):
        residual, xz = solver(variant)(a, x, *others, partners)
        assert residual < 1e-11
        found.append(S.shift + 1.0 / xz)
    assert all(0 < seconds < 60 for seconds in partners.seconds.numpy())
    return found


def check_the_result_and_bits_that_are_equal() -> None:
    found = {variant: zetas(variant) for variant in VARIANTS}
    for trace in found.values():
        for iteration, zeta in TRACE.items():
            assert abs(trace[iteration - 1] / zeta - 1) < 1e-11
        assert all(trace == other for other in team.allgather(trace))
    if {"flags", "barrier"} <= found.keys():
        assert found["flags"] == found["barrier"]


VARIANTS = ("flags", "barrier", "mpi") if team.size in (2, 4) and team.node_count == 1 else ("flags",)

if __name__ == "__main__":
    run_checks(globals())
