"""Solvers of linear systems whose unknowns are global arrays, and sparse matrices."""

from gondwana.solvers.halo import Halo as Halo, connect as connect, distinct as distinct, send as send
from gondwana.solvers.krylov import (
    Operator as Operator,
    Solution as Solution,
    bicgstab as bicgstab,
    cg as cg,
    gmres as gmres,
)
from gondwana.solvers.multigrid import Multigrid as Multigrid
from gondwana.solvers.slices import (
    Slices as Slices,
    multiply_slices as multiply_slices,
    slices_of as slices_of,
)
from gondwana.solvers.sparse import Rows as Rows, SparseMatrix as SparseMatrix, multiply as multiply
