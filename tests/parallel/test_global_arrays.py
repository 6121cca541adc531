"""Global arrays and the exchange of ghosts on 1, 2, 3, 4 and 6 ranks: one job each, every check a test of its own.

GONDWANA_RANKS_PER_NODE makes the ranks of one machine believe in several nodes, so that messages are tested too.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "exchange_checks.py"
JOBS = [(1, 0), (2, 0), (3, 0), (4, 0), (6, 0), (2, 1), (3, 2), (4, 2)]


def check_names() -> list[str]:
    spec = importlib.util.spec_from_file_location("exchange_checks", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [name for name in vars(module) if name.startswith("check_")]


@functools.cache
def reports(ranks: int, per_node: int) -> dict[str, list[str]]:
    """Run all checks once on so many ranks."""
    variables = {"GONDWANA_RANKS_PER_NODE": str(per_node)} if per_node else {}
    outcome = jobs.run_ranks(ranks, PROGRAM, "--ranks", str(ranks), timeout=120, variables=variables)
    assert outcome.status == 0, str(outcome)
    lines = [json.loads(line) for line in outcome.stdout.splitlines() if line.startswith('{"check"')]
    return {line["check"]: line["problems"] for line in lines}


@pytest.mark.parametrize("name", check_names())
@pytest.mark.parametrize(("ranks", "per_node"), JOBS, ids=[f"{n}ranks{f'-{k}pernode' if k else ''}" for n, k in JOBS])
def test_global_arrays(ranks: int, per_node: int, name: str) -> None:
    problems = reports(ranks, per_node)[name]
    assert not problems, "\n".join(problems)
