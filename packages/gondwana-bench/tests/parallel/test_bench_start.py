"""`gondwana bench start`: the jobs do what is measured, and their figures become rows."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gondwana.cli import launch
from gondwana.errors import UsageError
from gondwana_bench import build
from gondwana_bench.cli.bench.options import official
from gondwana_bench.processes import our_command
from gondwana_bench.start import costs, job
from gondwana_bench.start.costs import C, Run
from support import jobs

pytestmark = pytest.mark.parallel


def test_used_ranks_check_what_they_have_between_them_and_need_numba_only_to_compile() -> None:
    def program() -> None:
        import sys

        import gondwana as gw
        from gondwana_bench.start import job

        job.main(job.USED)
        assert "numba" not in sys.modules or gw.compilation().compiled

    outcome = jobs.run_ranks(4, program, variables={"GONDWANA_RANKS_PER_NODE": "2"})
    assert (outcome.status, outcome.stderr) == (0, ""), str(outcome)
    assert outcome.stdout.startswith("[")


def test_a_program_in_c_meets_and_says_what_it_takes() -> None:
    program = build.program_with_mpi("start.c", Path(launch.mpi_library().path))
    run = costs._run(C, 2, *official(None, 2, [str(program)], oversubscribe=True))
    assert 1 < run.megabytes < 500
    assert run.descriptors is None
    assert run.processor_seconds > 0.0
    assert run.seconds > 0.0


def test_a_job_that_fails_is_an_error_that_names_it() -> None:
    with pytest.raises(UsageError, match=r"mpi4py on 1 ranks failed: .*nothing"):
        costs._run(job.MPI4PY, 1, [sys.executable, "-c", "raise SystemExit('nothing')"], os.environ)


def test_rows_are_medians_a_rank_beside_c() -> None:
    ours = [Run(4.0, 2.0, 200.0, 20), Run(6.0, 4.0, 300.0, 22), Run(5.0, 3.0, 250.0, 21)]
    in_c = [Run(1.0, 0.2, 20.0, None)] * 3
    row = costs.row_of(2, job.OURS, {job.OURS: ours, C: in_c})
    assert (row["job_seconds"], row["processor_seconds"], row["megabytes"]) == (5.0, 1.5, 125.0)
    assert (row["descriptors"], row["ratio"]) == (22, pytest.approx(0.2, rel=0.1))
    alone = costs.row_of(2, C, {job.OURS: ours, C: in_c})
    assert (alone["descriptors"], alone["ratio"]) == (None, None)


def test_the_command_allows_more_ranks_than_cores() -> None:
    assert "--oversubscribe" in our_command(64, "--oversubscribe", "job.py")
    assert official(None, 64, ["program"], oversubscribe=True)[0][-1] == "program"
