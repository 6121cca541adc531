"""Output, checkpoints and analysis on several ranks, of one node and of pretended others."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from gondwana.io.checksums import verify
from gondwana.io.dataset import Dataset
from support import jobs

pytest.importorskip("adios2")
pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "io_checks.py"
NAMES = jobs.check_names(PROGRAM)

#: Ranks, and how many of them share a pretended node; 0: all.
JOBS = [(1, 0), (2, 0), (3, 1), (4, 2), *(pytest.param(*job, marks=pytest.mark.more) for job in ((4, 0), (6, 2)))]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("ranks", "per_node"), JOBS)
def test_io(ranks: int, per_node: int, name: str) -> None:
    problems = jobs.reports(ranks, PROGRAM, per_node=per_node)[name]
    assert not problems, "\n".join(problems)


ERROR = """
import os, signal, sys
from pathlib import Path
import gondwana as gw
from gondwana.io.writer import StepWriter
sys.path.insert(0, sys.argv[1])
from support.datasets import writer_of
rank = gw.world.rank
u = gw.zeros(gw.RectDomain((0, 0), (64, 64)))
with StepWriter("a.bp", {"u": u}) as out:
    out.write(1, {"u": u})
    out.flush()
    if rank == 0:
        Path("writer").write_text(str(writer_of(os.getpid())))
        os.kill(writer_of(os.getpid()), signal.SIGSTOP)
    for step in 2, 3:
        out.write(step, {"u": u})
    if rank == 1:
        raise ValueError("the odd one")
    gw.world.barrier()
"""


def test_an_error_of_another_rank_than_the_writers_leaves_the_steps_written(tmp_path: Path) -> None:
    """The launcher kills the rank that has submitted them, while the process that writes them is stopped."""
    (tmp_path / "p.py").write_text(ERROR)
    command = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", "2", "p.py", str(jobs.ROOT / "tests")]
    outcome = jobs.run_command(command, cwd=tmp_path)
    assert "ValueError: the odd one" in outcome.stderr, str(outcome)
    writer = int((tmp_path / "writer").read_text())
    os.kill(writer, signal.SIGCONT)
    deadline = time.monotonic() + 60
    while jobs.left_behind([writer], 1) and time.monotonic() < deadline:
        pass
    with Dataset(tmp_path / "a.bp") as data:
        assert data.steps.tolist() == [1, 2, 3]
    assert "verified, 3 steps" in verify(tmp_path / "a.bp")
