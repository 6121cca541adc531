"""Time steps of sweeps on several ranks, beside a program with Numba and mpi4py as a user writes it by hand.

gondwana run -n 2 -t 1 tests/support/by_hand.py --sizes 256 --json by-hand.json
"""

from __future__ import annotations

import argparse
import json
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
from gondwana_bench.rows import Row

KERNELS = ("sweep7", "sweep7_pair", "gray_scott", "gray_scott_pair")
RATES = ("ns_per_cell", "gb_per_s")
COLUMNS = {
    "kernel": "kernel", "size": "side", "ranks": "ranks", "ns_per_cell": "ns/cell", "gb_per_s": "GB/s",
    "rival": "rival", "rival_ns_per_cell": "ns/cell", "ratio": "theirs/ours (95 %)", "ratio_of_best": "of best",
    "verified": "same",
}  # fmt: skip


def check(ranks: int, kernels: Sequence[str], sizes: Sequence[int]) -> None:
    """Check the arguments. Local.

    Raises:
        UsageError: names the option, what was given and what is legal.
    """
    for name in set(kernels) - set(KERNELS):
        raise UsageError(f"--kernels {name}: legal are {', '.join(KERNELS)}")
    if min(sizes) < 4 * ranks:
        raise UsageError(f"--sizes {min(sizes)}: give at least {4 * ranks} for {ranks} ranks, which divide one axis")


def measure(
    team: Team, kernels: Sequence[str], sizes: Sequence[int], *, repeat: int = 20, batch_seconds: float = 0.02
) -> Iterator[Row]:
    """Measure steps of a periodic cube of doubles, of which each rank has a slab. Collective over team.

    Args:
        team: MPI ranks, of one thread each.
        kernels: of `KERNELS`; a pair is two steps, which are one sweep of ours.
        sizes: cells a side of the cube.
        repeat: rounds; each times ours and theirs once.
        batch_seconds: length of one sample [s].

    Returns:
        The same rows on every rank, as those of `stencil.measure`, with another rival.
    """
    check(team.size, kernels, sizes)
    for size in sizes:
        for name in kernels:
            case = stencil.CASES[name]
            ours, theirs = _Ours(team, case, size), _ByHand(team.comm, case, size)
            start = [np.random.default_rng(team.rank).random(ours.cells[0].shape) for _ in ours.cells]
            variants = {"ours": _restarted(ours, start), "c": _restarted(theirs, start)}
            for variant in variants.values():
                variant(2)
            same = all(
                np.allclose(mine, other, 1e-12, 0.0) for mine, other in zip(ours.cells, theirs.cells, strict=True)
            )
            samples = interleave(variants, repeat=repeat, batch_seconds=batch_seconds, team=team)
            verified = all(team.allgather(same))
            yield _row(stencil.row_of(name, size, "float64", team.size, samples, verified=verified))


def _row(row: Row) -> Row:
    """The row of a benchmark of threads beside C, with ranks for threads and its rival for C."""
    names = {"threads": "ranks", "c_seconds": "rival_seconds", **{f"c_{key}": f"rival_{key}" for key in RATES}}
    return {"rival": "Numba, mpi4py", **{names.get(key, key): value for key, value in row.items()}}


def _restarted(program: _Ours | _ByHand, start: list[NDArray[np.float64]]) -> Variant:
    """Each sample begins with the same values: after thousands of steps some would be subnormal, and slow."""

    def variant(calls: int) -> float:
        for cells, values in zip(program.cells, start, strict=True):
            cells[...] = values
        return timed(program.step)(calls)

    return variant


class _Ours:
    """The arrays before and behind a step, which change places, and the step as in the README."""

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
        """Of the fields that the next step reads."""
        return [field.local.restrict(field.owned).numpy() for field in self.fields[0]]

    def step(self) -> None:
        ghosts = exchange(*self.fields[0], corners=self._pair)
        inner, rest = self._sweeps[0]
        if not self._pair:
            inner()
        ghosts.wait()
        rest()
        self.fields.reverse()
        self._sweeps.reverse()


class _ByHand:
    """The same with NumPy's arrays: ghosts travel while the planes that need none are computed."""

    def __init__(self, comm: Any, case: stencil.Case, size: int) -> None:
        planes = size // comm.size + (comm.rank < size % comm.size)
        shape = planes + 2, size + 2, size + 2
        self.fields = [[np.zeros(shape) for _ in range(case.inputs)] for _ in range(2)]
        self._comm, self._case, self._last = comm, case, planes
        self._sweep = _numba_sweeps()[case.outputs - 1]

    @property
    def cells(self) -> list[NDArray[np.float64]]:
        """Of the fields that the next step reads."""
        return [field[1:-1, 1:-1, 1:-1] for field in self.fields[0]]

    def step(self) -> None:
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

    @numba.njit
    def sweep7(first: Any, end: Any, out: Any, a: Any, c0: Any, c1: Any) -> None:
        for i in range(first, end):
            for j in range(1, a.shape[1] - 1):
                for k in range(1, a.shape[2] - 1):
                    faces = a[i - 1, j, k] + a[i + 1, j, k] + a[i, j - 1, k] + a[i, j + 1, k]
                    out[i, j, k] = c0 * a[i, j, k] + c1 * (faces + a[i, j, k - 1] + a[i, j, k + 1])

    @numba.njit
    def laplacian(a: Any, i: Any, j: Any, k: Any) -> Any:
        faces = a[i - 1, j, k] + a[i + 1, j, k] + a[i, j - 1, k] + a[i, j + 1, k] + a[i, j, k - 1] + a[i, j, k + 1]
        return (faces - 6.0 * a[i, j, k]) * (1.0 / 6.0)

    @numba.njit
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

    return sweep7, gray_scott


def main() -> int:
    """Read the options and measure. Collective over the world."""
    parser = argparse.ArgumentParser(description="Time steps on several ranks, beside Numba and mpi4py by hand.")
    parser.add_argument("--kernels", type=lambda text: text.split(","), default=KERNELS)
    parser.add_argument("--sizes", type=lambda text: [int(part) for part in text.split(",")], default=[256])
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--json", dest="file")
    options = vars(parser.parse_args())
    sys.argv[1:] = [json.dumps({**options, "command": list(sys.argv)})]
    return measure_on_ranks("stencil", COLUMNS, measure)


if __name__ == "__main__":
    sys.exit(main())
