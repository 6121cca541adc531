"""Processes that a rank makes with `os.fork` end by themselves, each with its own status, and the job goes on."""

from __future__ import annotations

import pytest

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
