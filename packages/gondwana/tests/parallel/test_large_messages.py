"""Messages of more than 2^31 elements."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support import jobs

PROGRAM = Path(__file__).parent / "programs" / "large_messages.py"
NEEDED = 12 * 2**30


@pytest.mark.parallel
@pytest.mark.slow
@pytest.mark.more
def test_messages_beyond_32_bit_counts() -> None:
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if free < NEEDED:
        pytest.skip(f"needs {NEEDED >> 30} GiB of free memory, {free >> 30} are there")
    outcome = jobs.run_ranks(2, PROGRAM, timeout=120)
    assert outcome.status == 0, str(outcome)
    assert outcome.stdout == "moved\n"
