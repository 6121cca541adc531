"""A rank that raises, exits or is killed inside any operation ends the job soon, is named, and leaves nothing."""

from __future__ import annotations

import os
import random
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gondwana.cli import launch
from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "endless_work.py"
RANKS = 3
LIMIT = 5.0
REPORTED = {
    "raise": r"\[rank {rank} on \S+\] .*HandlerError: the odd one",
    "exit": r"\[rank {rank} on \S+\] exits with status 3",
    "kill": r"rank {rank} (with PID|\(process)",
}
LAUNCHER = re.compile(r"-{60,}\n(?:MPI_ABORT|prterun).*?-{60,}\n", re.DOTALL)
"""What Open MPI's launcher says, perhaps in the middle of a rank's line."""
RANDOM = random.Random(20)
MOMENTS = [
    (("raise", "exit", "kill")[number % 3], RANDOM.randrange(RANKS), RANDOM.uniform(0.01, 0.8)) for number in range(20)
]


def ours() -> set[str]:
    """Files of ours with a name; folders are those of jobs that run now, for the files of Open MPI."""
    return {entry.name for entry in os.scandir("/dev/shm") if "gondwana" in entry.name and entry.is_file()}


@pytest.fixture
def shared_memory() -> Iterator[Path]:
    """A folder in shared memory where Open MPI keeps the files of this job alone; what is ours has no name anywhere."""
    with tempfile.TemporaryDirectory(prefix="gondwana-test-", dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    ("what", "rank", "moment"), [*MOMENTS[:9], *(pytest.param(*one, marks=pytest.mark.more) for one in MOMENTS[9:])]
)
def test_one_rank_goes_wrong_at_a_random_moment(what: str, rank: int, moment: float, shared_memory: Path) -> None:
    before = ours()
    job = launch.command(RANKS, [str(PROGRAM), what, str(rank), str(moment)], threads=1, time_limit=50)
    variables = {**job.variables, "OMPI_MCA_btl_sm_backing_directory": str(shared_memory)}
    outcome = jobs.run_command(job.argv, variables=variables, timeout=60)
    ended = time.time()
    raised = re.search(r"now ([\d.]+)", outcome.stdout)
    assert raised, str(outcome)
    assert ended - float(raised[1]) < LIMIT, str(outcome)
    assert outcome.status not in (0, 124), str(outcome)
    lines = outcome.stderr + LAUNCHER.sub("", outcome.stderr)
    assert re.search(REPORTED[what].format(rank=rank), " ".join(lines.split())), str(outcome)
    assert list(shared_memory.iterdir()) == []
    assert ours() <= before
