"""Teams, messages, remote calls, tasks, what comes and goes: the checks of nine programs, each a test of its own.

They share a job for each setting, as most of what a job costs is the start of its ranks. GONDWANA_RANKS_PER_NODE lets
ranks of one machine take each other to be on several nodes.
"""

from __future__ import annotations

import pytest

from support import checks, jobs

pytestmark = pytest.mark.parallel

TIMEOUT = 280
MPI = {"GONDWANA_MPI": "1"}
FEWER = {"FEWER_ROUNDS": "1"}
"""For the programs of test_one_sided: so both files share a job."""

ON_ONE_NODE = pytest.mark.ranks(1, 2, 3, 4, 6, timeout=TIMEOUT)
TWO_NODES = pytest.mark.ranks(2, ranks_per_node=1, timeout=TIMEOUT)
TWO_PER_NODE = pytest.mark.ranks(4, ranks_per_node=2, timeout=TIMEOUT)
MPICH = pytest.mark.ranks(2, variables=FEWER, python=jobs.MPICH_PYTHON, id="mpich", timeout=TIMEOUT)
ALONE = pytest.mark.ranks(1, variables=MPI, id="mpi", timeout=TIMEOUT)
ALONE_MPICH = pytest.mark.ranks(1, variables=MPI, python=jobs.MPICH_PYTHON, id="mpich", timeout=TIMEOUT)


@pytest.mark.ranks(1, timeout=TIMEOUT)
@checks.checks("team_checks")
def test_one_rank_without_mpi(program: str, name: str) -> None:
    checks.run(program, name)


@ALONE
@pytest.mark.ranks(2, 3, 4, 6, timeout=TIMEOUT)
@TWO_PER_NODE
@MPICH
@checks.checks("team_checks", "verbs_checks", "collective_checks")
def test_teams(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.more
@ALONE
@pytest.mark.ranks(2, 3, timeout=TIMEOUT)
@TWO_PER_NODE
@MPICH
@checks.checks("sum_type_checks")
def test_sums_of_all_types(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.more
@TWO_NODES
@checks.checks("verbs_checks", "collective_checks")
def test_collectives_between_nodes(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.ranks(1, 2, 3, 4, 6, timeout=TIMEOUT)
@TWO_NODES
@TWO_PER_NODE
@pytest.mark.ranks(3, ranks_per_node=1, timeout=TIMEOUT)
@pytest.mark.ranks(6, ranks_per_node=2, timeout=TIMEOUT)
@pytest.mark.ranks(3, ranks_per_node=1, python=jobs.MPICH_PYTHON, id="mpich", timeout=TIMEOUT)
@checks.checks("sum_checks")
def test_sums(program: str, name: str) -> None:
    checks.run(program, name)


@ON_ONE_NODE
@TWO_NODES
@TWO_PER_NODE
@checks.checks("rpc_checks", "active_message_checks")
def test_calls(program: str, name: str) -> None:
    checks.run(program, name)


@ON_ONE_NODE
@pytest.mark.ranks(2, 3, ranks_per_node=1, timeout=TIMEOUT)
@TWO_PER_NODE
@checks.checks("task_checks", "remote_channel_checks", "remote_task_checks")
def test_tasks_on_ranks(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.ranks(1, 2, 8, timeout=TIMEOUT)
@TWO_NODES
@checks.checks("lifecycle_checks")
def test_what_comes_and_goes(program: str, name: str) -> None:
    checks.run(program, name)


@ON_ONE_NODE
@TWO_PER_NODE
@checks.checks("pool_checks")
def test_pools_of_a_job(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.more
@ALONE_MPICH
@checks.checks("team_checks", "verbs_checks", "collective_checks")
def test_one_rank_of_mpich(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.more
@MPICH
@checks.checks("rpc_checks", "active_message_checks")
def test_calls_with_mpich(program: str, name: str) -> None:
    checks.run(program, name)
