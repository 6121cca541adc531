"""Time steps of sweeps on several ranks, beside a program with Numba and mpi4py as a user writes it by hand."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gondwana import RectDomain, Team, exchange, zeros
from gondwana.errors import UsageError
from gondwana.teams import mpi
from gondwana_bench import stencil
from gondwana_bench.measure import Variant, interleave, timed
from gondwana_bench.panels import measure_on_ranks
from gondwana_bench.rows import Row, beside_c, check_names, check_ranks, columns

KERNELS = ("sweep7", "sweep7_pair", "gray_scott", "gray_scott_pair")
SIZES = (256,)
TOLERANCE = 1e-12
"""Relative: the two compilers may order and fuse the operations of a cell differently."""
COLUMNS = columns(
    "kernel size ranks ns_per_cell gb_per_s rival rival_ns_per_cell ratio ratio_of_best verified",
    size="side", rival_ns_per_cell="ns/cell", verified="same",
)  # fmt: skip


def check(ranks: int, kernels: Sequence[str], sizes: Sequence[int]) -> None:
    """Check the arguments. Local.

    Raises:
        UsageError: names the option, what was given and what is legal.
    """
    check_ranks(ranks, "each sends planes to others; give at least 2, or leave it out")
    check_names("--kernels", kernels, KERNELS)
    if min(sizes) < 4 * ranks:
        raise UsageError(f"--sizes {min(sizes)}: give at least {4 * ranks} for {ranks} ranks, which divide one axis")


def measure(team: Team, kernels: Sequence[str] = KERNELS, sizes: Sequence[int] = SIZES, **timing: Any) -> Iterator[Row]:
    """Measure steps of a periodic cube of doubles, of which each rank has a slab. Collective over team.

    Args:
        team: at least two MPI ranks, of one thread each.
        kernels: names of `KERNELS`; a pair is two steps, which are one sweep of ours.
        sizes: cells a side of the cube.
        timing: options of `measure.interleave`.

    Returns:
        The same rows on every rank, as those of `stencil.measure`, with another rival.
    """
    check(team.size, kernels, sizes)
    for size in sizes:
        for name in kernels:
            case = stencil.CASES[name]
            ours, theirs = Ours(team, case, size), ByHand(team.comm, case, size)
            start = [np.random.default_rng(team.rank).random(ours.cells[0].shape) for _ in ours.cells]
            variants = {"ours": _restarted(ours, start), "c": _restarted(theirs, start)}
            for variant in variants.values():
                variant(2)
            same = all(
                np.allclose(mine, other, TOLERANCE, 0.0) for mine, other in zip(ours.cells, theirs.cells, strict=True)
            )
            samples = interleave(variants, team=team, **timing)
            verified = all(team.allgather(same))
            compared = beside_c(samples, verified, "rival_", **stencil.figures_of(name, size, "float64"))
            case_of = {"kernel": name, "size": size, "dtype": "float64", "ranks": team.size}
            yield {"rival": "Numba, mpi4py", **case_of, **compared}


def _restarted(program: Ours | ByHand, start: list[NDArray[np.float64]]) -> Variant:
    """Each sample begins with the same values: after thousands of steps some would be subnormal, and slow."""

    def variant(calls: int) -> float:
        for cells, values in zip(program.cells, start, strict=True):
            cells[...] = values
        return timed(program.step)(calls)

    return variant


class Ours:
    """The arrays before and behind a step, which change places, and the step as in the README. Collective over team.

    Args:
        team: MPI ranks, of which each has a slab.
        case: work of a step; a pair is two steps.
        size: cells a side of the cube.
    """

    def __init__(self, team: Team, case: stencil.Case, size: int) -> None:
        options: Any = {"ghost": case.steps, "periodic": True, "grid": (team.size, 1, 1), "team": team}
        box = RectDomain((0, 0, 0), (size, size, size))
        self.fields = [[zeros(box, **options) for _ in range(case.inputs)] for _ in range(2)]
        self._pair = case.steps == 2
        first = self.fields[0][0]
        rest = first.owned if self._pair else first.rim
        self._sweeps = [
            tuple(stencil.call_of(case, cells, [*new, *old]) for cells in (first.inner, rest))
            for old, new in (self.fields, self.fields[::-1])
        ]

    @property
    def cells(self) -> list[NDArray[np.float64]]:
        """The cells of the fields that the next step reads."""
        return [field.local.restrict(field.owned).numpy() for field in self.fields[0]]

    def step(self) -> None:
        """Do a step, or a pair of them. Collective over team."""
        ghosts = exchange(*self.fields[0], corners=self._pair)
        inner, rest = self._sweeps[0]
        if not self._pair:
            inner()
        ghosts.wait()
        rest()
        self.fields.reverse()
        self._sweeps.reverse()


class ByHand:
    """The same with NumPy's arrays: ghosts travel while the planes that need none are computed. Collective over comm.

    Args:
        comm: communicator of mpi4py.
        case: work of a step; a pair is two steps.
        size: cells a side of the cube.
    """

    def __init__(self, comm: Any, case: stencil.Case, size: int) -> None:
        planes = size // comm.size + (comm.rank < size % comm.size)
        shape = planes + 2, size + 2, size + 2
        self.fields = [[np.zeros(shape) for _ in range(case.inputs)] for _ in range(2)]
        self._comm, self._case, self._last = comm, case, planes
        self._sweep = _numba_sweeps()[case.outputs - 1]

    @property
    def cells(self) -> list[NDArray[np.float64]]:
        """The cells of the fields that the next step reads."""
        return [field[1:-1, 1:-1, 1:-1] for field in self.fields[0]]

    def step(self) -> None:
        """Do a step, or a pair of them. Collective over comm."""
        for _ in range(self._case.steps):
            old, new = self.fields
            requests = [request for field in old for request in self._start(field)]
            self._sweep(2, self._last, *new, *old, *self._case.constants)
            mpi.module().Request.Waitall(requests)
            for plane in (1, self._last):
                self._sweep(plane, plane + 1, *new, *old, *self._case.constants)
            self.fields.reverse()

    def _start(self, field: NDArray[np.float64]) -> list[Any]:
        """Copy the ghosts along the axes that this rank has as a whole; start to exchange planes with the others."""
        for whole in (field.swapaxes(0, 1), field.swapaxes(0, 2)):
            whole[0], whole[-1] = whole[-2], whole[1]
        below, above = ((self._comm.rank + step) % self._comm.size for step in (-1, 1))
        received = [self._comm.Irecv(field[0], below, 1), self._comm.Irecv(field[-1], above, 2)]
        return [*received, self._comm.Isend(field[-2], above, 1), self._comm.Isend(field[1], below, 2)]


def _numba_sweeps() -> tuple[Any, Any]:
    """The sweeps of one field and of two, over the planes from `first` up to `end`."""
    import numba

    def sweep7(first: Any, end: Any, out: Any, a: Any, c0: Any, c1: Any) -> None:
        for i in range(first, end):
            for j in range(1, a.shape[1] - 1):
                for k in range(1, a.shape[2] - 1):
                    faces = a[i - 1, j, k] + a[i + 1, j, k] + a[i, j - 1, k] + a[i, j + 1, k]
                    out[i, j, k] = c0 * a[i, j, k] + c1 * (faces + a[i, j, k - 1] + a[i, j, k + 1])

    def around(a: Any, i: Any, j: Any, k: Any) -> Any:
        faces = a[i - 1, j, k] + a[i + 1, j, k] + a[i, j - 1, k] + a[i, j + 1, k] + a[i, j, k - 1] + a[i, j, k + 1]
        return (faces - 6.0 * a[i, j, k]) * (1.0 / 6.0)

    laplacian = numba.njit(around)

    def gray_scott(
        first: Any, end: Any, u_new: Any, v_new: Any, u: Any, v: Any, du: Any, dv: Any, feed: Any, kill: Any, dt: Any
    ) -> None:
        for i in range(first, end):
            for j in range(1, u.shape[1] - 1):
                for k in range(1, u.shape[2] - 1):
                    here, there = u[i, j, k], v[i, j, k]
                    reaction = here * there * there
                    u_new[i, j, k] = here + dt * (du * laplacian(u, i, j, k) - reaction + feed * (1.0 - here))
                    v_new[i, j, k] = there + dt * (dv * laplacian(v, i, j, k) + reaction - (feed + kill) * there)

    return numba.njit(sweep7), numba.njit(gray_scott)


if __name__ == "__main__":
    sys.exit(measure_on_ranks("stencil", COLUMNS, measure))
