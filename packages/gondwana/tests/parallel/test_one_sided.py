"""Memory of other ranks, in Python and in compiled code: the checks of some programs, every check a test of its own.

They share a job for each setting, as most of what a job costs is the start of its ranks. GONDWANA_RANKS_PER_NODE lets
ranks of one machine take each other to be on several nodes, so that messages are tested, too.
"""

from __future__ import annotations

import pytest

from support import checks, jobs

pytestmark = pytest.mark.parallel

TIMEOUT = 280

ON_ONE_NODE = pytest.mark.ranks(1, 2, 3, 4, 6, timeout=TIMEOUT)
ONE_PER_NODE = pytest.mark.ranks(2, 3, ranks_per_node=1, timeout=TIMEOUT)
TWO_PER_NODE = pytest.mark.ranks(4, ranks_per_node=2, timeout=TIMEOUT)
UNEVEN_NODES = pytest.mark.ranks(3, ranks_per_node=2, timeout=TIMEOUT)
THREE_NODES = pytest.mark.ranks(6, ranks_per_node=2, timeout=TIMEOUT)

FEWER = {"FEWER_ROUNDS": "1"}
"""MPICH's ranks stall when they outnumber the cores."""

MPICH = pytest.mark.ranks(2, variables=FEWER, python=jobs.MPICH_PYTHON, id="mpich", timeout=TIMEOUT)
MPICH_NODES = pytest.mark.ranks(
    2, ranks_per_node=1, variables=FEWER, python=jobs.MPICH_PYTHON, id="mpich", timeout=TIMEOUT
)


@ON_ONE_NODE
@ONE_PER_NODE
@TWO_PER_NODE
@THREE_NODES
@MPICH_NODES
@checks.checks("synchronisation_checks", "device_atomic_checks", "device_collective_checks")
def test_synchronisation(program: str, name: str) -> None:
    checks.run(program, name)


@ON_ONE_NODE
@ONE_PER_NODE
@TWO_PER_NODE
@checks.checks("compiled_rma_checks")
def test_compiled_rma(program: str, name: str) -> None:
    checks.run(program, name)


@ON_ONE_NODE
@pytest.mark.ranks(2, ranks_per_node=1, timeout=TIMEOUT)
@TWO_PER_NODE
@checks.checks("exchange_checks", "wall_checks")
def test_global_arrays(program: str, name: str) -> None:
    checks.run(program, name)


@ON_ONE_NODE
@ONE_PER_NODE
@TWO_PER_NODE
@THREE_NODES
@checks.checks("remote_array_checks")
def test_remote_arrays(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.ranks(2, timeout=TIMEOUT)
@checks.checks("ceiling_checks")
def test_ceilings(program: str, name: str) -> None:
    checks.run(program, name)


@ON_ONE_NODE
@pytest.mark.ranks(2, ranks_per_node=1, timeout=TIMEOUT)
@TWO_PER_NODE
@checks.checks("plan_checks")
def test_plans(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.ranks(1, 2, 6, timeout=TIMEOUT)
@pytest.mark.ranks(3, ranks_per_node=1, timeout=TIMEOUT)
@pytest.mark.ranks(4, ranks_per_node=2, variables={"GONDWANA_DEBUG_COPY": "3"}, id="late", timeout=TIMEOUT)
@pytest.mark.ranks(3, ranks_per_node=1, python=jobs.MPICH_PYTHON, id="mpich", timeout=TIMEOUT)
@checks.checks("copy_checks")
def test_copy(program: str, name: str) -> None:
    """GONDWANA_DEBUG_COPY starts copies late and in another order: nothing can rely on more than is promised."""
    checks.run(program, name)


@ON_ONE_NODE
@ONE_PER_NODE
@THREE_NODES
@checks.checks("divided_checks")
def test_copies_between_global_arrays(program: str, name: str) -> None:
    checks.run(program, name)


@ON_ONE_NODE
@TWO_PER_NODE
@THREE_NODES
@checks.checks("points_checks")
def test_accumulation_and_migration(program: str, name: str) -> None:
    checks.run(program, name)


@ON_ONE_NODE
@ONE_PER_NODE
@TWO_PER_NODE
@checks.checks("cell_checks")
def test_vector_valued_cells(program: str, name: str) -> None:
    checks.run(program, name)


@ON_ONE_NODE
@ONE_PER_NODE
@TWO_PER_NODE
@THREE_NODES
@checks.checks("expression_checks")
def test_arithmetic(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.more
@pytest.mark.ranks(1, 3, timeout=TIMEOUT)
@checks.checks("expression_type_checks")
def test_arithmetic_of_other_types(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.more
@UNEVEN_NODES
@checks.checks(
    *("synchronisation_checks", "device_atomic_checks", "device_collective_checks", "exchange_checks", "wall_checks"),
    "divided_checks",
)
def test_on_uneven_nodes(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.more
@MPICH
@checks.checks(
    *("synchronisation_checks", "device_atomic_checks", "device_collective_checks", "compiled_rma_checks"),
)
def test_on_a_node_with_mpich(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.more
@MPICH_NODES
@checks.checks("compiled_rma_checks", "remote_array_checks", "divided_checks", "points_checks", "expression_checks")
def test_arrays_on_nodes_with_mpich(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.more
@pytest.mark.ranks(3, variables={"GONDWANA_DEBUG_COPY": "6"}, id="late", timeout=TIMEOUT)
@checks.checks("copy_checks")
def test_late_copies_on_a_node(program: str, name: str) -> None:
    checks.run(program, name)
