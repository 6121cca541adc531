"""Run MG on all ranks and print, for each case, how far u and r are from given ones, and the norm.

Usage: npb_mg_runs.py FILE CELLS:ITERATIONS:VARIANT:SIDE:KIND... with u and r in a file of NumPy's. KIND is plain or
pipelined.
"""

import json
import sys

import numpy as np

import gondwana as gw
from gondwana_apps.npb.common.sections import Sections
from gondwana_apps.npb.mg.division import Plan
from gondwana_apps.npb.mg.multigrid import Multigrid
from gondwana_apps.npb.mg.pipelined import Pipelined
from gondwana_apps.npb.mg.problem import SMOOTHER_A, MGProblem

SECTIONS = ("psinv", "resid", "rprj3", "interp", "norm2u3", "comm3", "rcomm")


def distance(blocks, expected):
    """The largest distance of the cells and ghosts of this rank from what they should be."""
    n = blocks.division.cells
    box = blocks.local.domain
    around = [np.arange(lo, hi) % n for lo, hi in zip(box.lo, box.hi, strict=True)]
    return float(abs(blocks.local.numpy() - expected[np.ix_(*around)]).max())


expected = np.load(sys.argv[1])
for case in sys.argv[2:]:
    cells, iterations, variant, side, kind = case.split(":")
    problem = MGProblem("U", int(cells), int(iterations), SMOOTHER_A)
    plan = Plan.of(problem.levels, gw.world.size, int(side))
    make = {"plain": Multigrid, "pipelined": Pipelined}[kind]
    solver = make(problem, gw.world, plan, variant, Sections(gw.world, SECTIONS, enabled=False))
    solver.start()
    found = [0.0, 0.0]
    if solver.works:
        solver.first_residual()
        for _ in range(problem.iterations):
            solver.iterate()
        finest = solver.levels[0]
        found = [distance(x, expected[name]) for x, name in ((finest.u, "u"), (finest.r, "r"))]
    norm = solver.norm()
    everywhere = gw.world.allgather(found)
    if gw.world.rank == 0:
        u, r = np.max(everywhere, axis=0)
        print(json.dumps({"case": case, "ranks": plan.ranks, "u": u, "r": r, "norm": norm}), flush=True)
