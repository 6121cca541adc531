"""Arrays on other ranks, nodes and devices: one job per rank count, each of its checks a test of its own.

GONDWANA_RANKS_PER_NODE makes the ranks of one machine believe in several nodes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "remote_array_checks.py"
EXAMPLE = Path(__file__).parents[2] / "examples" / "ghosts.py"
NAMES = jobs.check_names(PROGRAM)
JOBS = [(1, 0), (2, 0), (3, 0), (4, 0), (6, 0), (2, 1), (3, 1), (4, 2), (6, 2)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("ranks", "per_node"), JOBS, ids=[f"{n}ranks{f'-{k}pernode' if k else ''}" for n, k in JOBS])
def test_remote_arrays(ranks: int, per_node: int, name: str) -> None:
    problems = jobs.reports(ranks, PROGRAM, per_node=per_node)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", NAMES)
def test_remote_arrays_with_mpich(name: str, mpich_python: Path) -> None:
    problems = jobs.reports(2, PROGRAM, per_node=1, python=mpich_python)[name]
    assert not problems, "\n".join(problems)


def test_the_example_of_ghosts_by_hand() -> None:
    outcome = jobs.run_ranks(3, EXAMPLE)
    assert outcome.status == 0, str(outcome)
    assert outcome.stdout.count("same bits") == 4
