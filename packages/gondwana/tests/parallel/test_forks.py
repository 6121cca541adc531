"""Processes that a rank makes end by themselves, each with its own status, and are no ranks of its job.

What a copy by `os.fork` would send or enter in the name of the rank is refused.
"""

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


COMMUNICATING = """
import os, warnings
import numpy as np
import gondwana as gw

warnings.simplefilter("ignore", DeprecationWarning)
world = gw.world
rank, x = world.rank, np.ones(2)
half, other = world.split(0), gw.Team.from_comm(world.comm)
T = gw.zeros((8, 8), ghost=1, periodic=True)
ghosts, plan = T.exchange(), gw.plan([])
ghosts.wait()

@gw.jit
def compiled(team, x):
    gw.allreduce(team, x)

def both():
    compiled(world, x)
    for _ in range(3):
        world.Allreduce(gw.IN_PLACE, x)
        world.Bcast(x)
        half.barrier()
        T.exchange().wait()
        assert world.allgather(rank) == list(range(world.size))
        assert gw.rpc((rank + 1) % world.size, int, "7").result() == 7
    world.barrier()

both()
actions = {
    "barrier": world.barrier, "Allreduce": lambda: world.Allreduce(gw.IN_PLACE, x), "Bcast": lambda: world.Bcast(x),
    "allgather": lambda: world.allgather(1), "bcast": lambda: world.bcast(1), "half": half.barrier,
    "gw.allreduce": lambda: gw.allreduce(world, 1), "other": other.barrier, "node": world.node.barrier,
    "compiled": lambda: compiled(world, x), "Iallreduce": lambda: world.Iallreduce(x, x.copy()),
    "Send": lambda: world.Send(x, rank), "split": lambda: world.split(0), "zeros": lambda: gw.zeros(4),
    "exchange": T.exchange, "plan": lambda: plan.start(), "max": T.max, "rpc": lambda: gw.rpc(0, int, "7"),
}
child = os.fork()
if child == 0:
    for name, action in actions.items():
        try:
            action()
        except gw.errors.UsageError as error:
            if "os.fork" not in str(error):
                print(name, error, flush=True)
        except BaseException as error:
            print(name, repr(error), flush=True)
        else:
            print("not refused:", name, flush=True)
    print(f"child of rank {world.rank} of {world.size}, {T.local.numpy().sum()}", flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
both()
print("the rank goes on", flush=True)
"""


@pytest.mark.parametrize("variables", [{}, {"GONDWANA_RANKS_PER_NODE": "1"}], ids=["a node", "two nodes"])
def test_children_take_no_part(variables: dict[str, str]) -> None:
    outcome = jobs.run_ranks(2, COMMUNICATING, variables=variables)
    assert outcome.status == 0, str(outcome)
    lines = sorted(outcome.stdout.splitlines())
    assert lines == [*(f"child of rank {rank} of 2, 0.0" for rank in range(2)), *["the rank goes on"] * 2], str(outcome)


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
