"""Solvers of linear systems whose unknowns are global arrays."""

from gondwana.solvers.krylov import (
    Operator as Operator,
    Solution as Solution,
    bicgstab as bicgstab,
    cg as cg,
    gmres as gmres,
)
from gondwana.solvers.multigrid import Multigrid as Multigrid
