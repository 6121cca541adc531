"""Output, checkpoints and analysis on several ranks, of one node and of pretended others."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import jobs

pytest.importorskip("adios2")
pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "io_checks.py"
NAMES = jobs.check_names(PROGRAM)

#: Ranks, and how many of them share a pretended node; 0: all.
JOBS = [(1, 0), (2, 0), (3, 1), (4, 0), (6, 2)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("ranks", "per_node"), JOBS)
def test_io(ranks: int, per_node: int, name: str) -> None:
    problems = jobs.reports(ranks, PROGRAM, per_node=per_node)[name]
    assert not problems, "\n".join(problems)
