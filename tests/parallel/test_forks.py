"""Processes that a rank makes end by themselves, each with its own status, and are no ranks of its job."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gondwana.cli import launch
from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = """
import atexit, os, sys, warnings
import gondwana as gw

warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads
rank = gw.world.rank
atexit.register(lambda: print(f"rank {rank} says goodbye", flush=True))

def status_of(kind):
    child = os.fork()
    if child == 0:
        if kind == "exit":
            sys.exit(3)
        if kind == "error":
            raise ValueError("of a child")
        sys.exit("a message")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

found = [status_of(kind) for kind in ("exit", "error", "message")]
child = os.fork()
if child:
    found.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(gw.world.allgather(found) if rank == 0 else gw.world.allgather(found) and "")
"""


@pytest.mark.parametrize("variables", [{}, {"GONDWANA_MPI": "1"}], ids=["ranks", "alone"])
def test_children_exit_alone(variables: dict[str, str]) -> None:
    ranks = 1 if variables else 2
    outcome = jobs.run_ranks(ranks, PROGRAM, variables=variables)
    assert outcome.status == 0, str(outcome)
    assert f"{[[3, 1, 1, 0]] * ranks}" in outcome.stdout
    assert outcome.stderr.count("ValueError: of a child") == ranks, str(outcome)
    assert outcome.stderr.count("a message") == ranks, str(outcome)
    for rank in range(ranks):  # functions registered by the program run in the children, too
        assert outcome.stdout.count(f"rank {rank} says goodbye") == 5, str(outcome)


CHILDREN = Path(__file__).parent / "programs" / "children.py"
FOUND = (
    "child (0, 1) of None, grandchild (0, 1) status 0 status 0; spawn (0, 1, 5); forkserver (0, 1, 5); "
    "job grandchild (0, 2) grandchild (1, 2) status 0"
)


@pytest.mark.parametrize("launcher", ["gondwana run", "mpirun", "a shell", "MPICH", "nothing"])
def test_what_a_rank_starts_is_one_rank_of_its_own(launcher: str, request: pytest.FixtureRequest) -> None:
    python = str(request.getfixturevalue("mpich_python")) if launcher == "MPICH" else sys.executable
    ranks = 1 if launcher == "nothing" else 2
    job = launch.command(ranks, [str(CHILDREN), "first"], threads=1, python=python, time_limit=120)
    words = list(job.argv)
    if launcher == "gondwana run":
        words = [python, "-m", "gondwana.cli.main", "run", "-n", "2", "-t", "1", str(CHILDREN), "first"]
    elif launcher == "a shell":
        place = words.index(python)
        words[place:place] = ["sh", "-c", '"$@"; exit $?', "sh"]
    variables = {**job.variables, **({"GONDWANA_MPI": "1"} if ranks == 1 else {})}
    outcome = jobs.run_command(words, variables=variables, timeout=130)
    assert outcome.status == 0, str(outcome)
    expected = [f"rank ({rank}, {ranks}): {FOUND}" for rank in range(ranks)]
    assert sorted(outcome.stdout.splitlines()) == expected, str(outcome)


SLURM = """
import os, sys, gondwana as gw
print(gw.launched_by(), gw.world.size if gw.launched_by() is None else "", flush=True)
if len(sys.argv) > 1:
    code = os.spawnv(os.P_WAIT, sys.executable, [sys.executable, sys.argv[1]])
    run = ["-m", "gondwana.cli.main", "run", "-t", "1", "-n"]
    code += os.spawnv(os.P_WAIT, sys.executable, [sys.executable, *run, "2", sys.argv[1]])
    code += os.spawnv(os.P_WAIT, sys.executable, [sys.executable, *run, "1", sys.argv[1]])
    os._exit(code)
"""


def test_the_child_of_a_rank_that_srun_has_started_waits_for_no_other_step(tmp_path: Path) -> None:
    program, srun = tmp_path / "program.py", tmp_path / "srun"
    program.write_text(SLURM)
    srun.write_text("#!/bin/sh\nexit 9\n")
    srun.chmod(0o755)
    variables = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}
    variables |= {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    outcome = jobs.run_command([sys.executable, str(program), str(program)], variables=variables)
    assert outcome.stdout == "srun \nNone 1\nNone 1\n", str(outcome)
    assert outcome.stderr.startswith("gondwana: error: this process was started by a rank of a Slurm step"), str(
        outcome
    )
    assert (outcome.status, outcome.stderr.count("\n")) == (2, 1), str(outcome)
