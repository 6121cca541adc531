"""Output, checkpoints and analysis on several ranks, of one node and of pretended others."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

import pytest

from support import jobs

pytest.importorskip("adios2")
pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "io_checks.py"
CHECKS = re.findall(r"^def (check_\w+)", PROGRAM.read_text(), re.MULTILINE)

#: Ranks, and how many of them share a pretended node; None: all.
JOBS = [(1, None), (2, None), (3, 1), (4, None), (6, 2)]


@functools.cache
def reports(ranks: int, per_node: int | None) -> dict[str, list[str]]:
    """Run all checks once."""
    variables = {} if per_node is None else {"GONDWANA_RANKS_PER_NODE": str(per_node)}
    outcome = jobs.run_ranks(ranks, PROGRAM, timeout=120, variables=variables)
    assert outcome.status == 0, str(outcome)
    lines = [json.loads(line) for line in outcome.stdout.splitlines() if line.startswith('{"check"')]
    return {line["check"]: line["problems"] for line in lines}


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize(("ranks", "per_node"), JOBS)
def test_io(ranks: int, per_node: int | None, name: str) -> None:
    problems = reports(ranks, per_node)[name]
    assert not problems, "\n".join(problems)
