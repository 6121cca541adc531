"""put, get and copy in compiled code: one job per rank count and kind of node, each of its checks a test of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "compiled_rma_checks.py"
NAMES = jobs.check_names(PROGRAM)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("ranks", "per_node"), [(1, 0), (2, 0), (3, 0), (4, 0), (6, 0), (2, 1), (3, 1), (4, 2)])
def test_compiled_rma(ranks: int, per_node: int, name: str) -> None:
    problems = jobs.reports(ranks, PROGRAM, per_node=per_node)[name]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("per_node", [0, 1])
def test_compiled_rma_with_mpich(per_node: int, name: str, mpich_python: Path) -> None:
    problems = jobs.reports(2, PROGRAM, per_node=per_node, python=mpich_python)[name]
    assert not problems, "\n".join(problems)
