"""The example of ghosts that are exchanged by hand, by reading and writing arrays of other ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import jobs

pytestmark = pytest.mark.parallel

EXAMPLE = Path(__file__).parents[4] / "examples" / "ghosts.py"


def test_the_example_of_ghosts_by_hand() -> None:
    outcome = jobs.run_ranks(3, EXAMPLE)
    assert outcome.status == 0, str(outcome)
    assert outcome.stdout.count("same bits") == 4
