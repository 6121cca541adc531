"""`gondwana bench stencil --ranks`: both programs do the steps of a serial one, and wrong options are one line."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gondwana as gw
from gondwana import results
from gondwana_bench import stencil, stencil_on_ranks

pytestmark = [pytest.mark.parallel, pytest.mark.usefixtures("mpi4py_there")]
BENCH = [sys.executable, "-m", "gondwana.cli.main", "bench", "stencil"]
SIZE = 13


def neighbours(a: NDArray[np.float64]) -> Any:
    return sum(np.roll(a, step, axis) for axis in range(3) for step in (-1, 1))


def serial_step(case: stencil.Case, fields: list[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """One step of a periodic cube by NumPy."""
    if case.inputs == 1:
        c0, c1 = case.constants
        return [c0 * fields[0] + c1 * neighbours(fields[0])]
    (u, v), (du, dv, feed, kill, dt) = fields, case.constants
    lap_u, lap_v = ((neighbours(a) - 6.0 * a) / 6.0 for a in (u, v))
    reaction = u * v * v
    return [u + dt * (du * lap_u - reaction + feed * (1.0 - u)), v + dt * (dv * lap_v + reaction - (feed + kill) * v)]


@pytest.mark.ranks(2, 4)
@pytest.mark.parametrize("kernel", stencil_on_ranks.KERNELS)
def test_both_programs_do_the_steps_of_a_serial_one(kernel: str) -> None:
    team, case = gw.world, stencil.CASES[kernel]
    expected = list(np.random.default_rng(1).random((case.inputs, SIZE, SIZE, SIZE)))
    first = team.rank * (SIZE // team.size) + min(team.rank, SIZE % team.size)
    slab = slice(first, first + SIZE // team.size + (team.rank < SIZE % team.size))
    programs = stencil_on_ranks.Ours(team, case, SIZE), stencil_on_ranks.ByHand(team.comm, case, SIZE)
    for program in programs:
        for cells, values in zip(program.cells, expected, strict=True):
            cells[...] = values[slab]
        for _ in range(3):
            program.step()
    for _ in range(3 * case.steps):
        expected = serial_step(case, expected)
    for program in programs:
        for cells, values in zip(program.cells, expected, strict=True):
            assert np.allclose(cells, values[slab], 1e-12, 0.0)


@pytest.mark.ranks(2, 4)
def test_a_wrong_step_is_noticed_on_every_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    step = stencil_on_ranks.ByHand.step

    def wrong(self: stencil_on_ranks.ByHand) -> None:
        step(self)
        if gw.world.rank == 0:
            self.cells[0][0, 0, 0] += 1e-6

    monkeypatch.setattr(stencil_on_ranks.ByHand, "step", wrong)
    [row] = stencil_on_ranks.measure(gw.world, ["sweep7"], [12], repeat=1, batch_seconds=1e-4)
    assert row["verified"] is False


EVERY = ",".join(stencil_on_ranks.KERNELS)


@pytest.mark.parametrize(
    ("ranks", "nodes", "kernels"),
    [
        (2, 1, EVERY),
        (2, 2, "sweep7"),  # the rival is compiled by each rank anew
        *(pytest.param(ranks, nodes, EVERY, marks=pytest.mark.more) for ranks, nodes in ((3, 1), (2, 2))),
    ],
)
def test_every_kernel_is_measured_and_verified(ranks: int, nodes: int, kernels: str, tmp_path: Path) -> None:
    file = tmp_path / "stencil.json"
    options = f"--ranks {ranks} --kernels {kernels} --sizes 12,13 --repeat 2 --batch 0.001 --json {file}"
    command, variables = [*BENCH, *options.split()], dict(os.environ)
    if nodes > 1:
        variables["GONDWANA_RANKS_PER_NODE"] = "1"
        command += ["--ranks-per-node", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=variables)
    assert done.returncode == 0, done.stderr
    [report] = results.read(file)
    rows = report["panels"]["stencil"]
    assert [(row["size"], row["kernel"]) for row in rows] == [
        (size, kernel) for size in (12, 13) for kernel in kernels.split(",")
    ]
    assert all(row["verified"] and row["ranks"] == ranks and row["rival"] == "Numba, mpi4py" for row in rows)
    assert all("threads" not in row and row["dtype"] == "float64" for row in rows)
    for row in rows:
        assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
        assert math.isclose(row["ns_per_cell"] / row["rival_ns_per_cell"], row["rival_gb_per_s"] / row["gb_per_s"])
        assert row["seconds"]["n"] == row["rival_seconds"]["n"] == 2
    assert (report["benchmark"], report["complete"], report["command"][1:3]) == ("stencil", True, ["bench", "stencil"])
    assert "MPI" in report["environment"]["mpi_library"]
    assert report["units"]["rival_ns_per_cell"] == "ns"
    assert "theirs/ours" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-n 2 --kernels copy", "--kernels copy: legal are sweep7, sweep7_pair, gray_scott, gray_scott_pair"),
        ("-n 2 --sizes 64,7", "--sizes 7: give at least 8 for 2 ranks, which divide one axis"),
        ("-n 2 --dtypes float64", "--dtypes float64: ranks compute doubles on one thread; leave out this or --ranks"),
        ("-n 2 --threads 1", "--threads 1: ranks compute doubles on one thread; leave out this or --ranks"),
        ("--ranks-per-node 1", "--ranks-per-node 1: one process has no ranks; give --ranks, too"),
        ("-n 1", "--ranks 1: each sends planes to others; give at least 2, or leave it out"),
    ],
)
def test_wrong_options_are_refused(options: str, message: str) -> None:
    done = subprocess.run([*BENCH, *options.split()], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert message in done.stderr
