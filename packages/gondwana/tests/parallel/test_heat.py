"""The heat program of the examples, with another box and something to conduct, against NumPy."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parents[4] / "examples" / "heat.py"
SHAPE, STEPS = (24, 17, 20), 100


def heat_program(target: Path) -> str:
    """The program itself: only the size of the box, the start and the report differ."""
    source = PROGRAM.read_text()
    for old, new in [
        ("(256, 256, 256))", f"{SHAPE})"),
        ("T_next = gw.zeros_like(T)\n", "T_next = gw.zeros_like(T)\nset_start(T)\n"),
        ("import gondwana as gw\n", f"import gondwana as gw\n{START}"),
    ]:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return f"{source}\nwhole = T.to_numpy(0)\nif whole is not None:\n    np.save({str(target)!r}, whole)\n"


START = """
import numpy as np

def set_start(T):
    whole = np.random.default_rng(1).random(T.domain.shape)
    T.local.copy_from(gw.Array(whole, T.domain))
"""


@functools.cache
def oracle() -> np.ndarray:
    """The same arithmetic in the same order."""
    old = np.random.default_rng(1).random(SHAPE)
    for _ in range(STEPS):
        total = np.roll(old, -1, 0) + np.roll(old, 1, 0)
        for axis in (1, 2):
            total = total + np.roll(old, -1, axis) + np.roll(old, 1, axis)
        old = old + 0.1 * (total - 6.0 * old)
    return old


@pytest.mark.parametrize(
    ("ranks", "threads"),
    [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), *(pytest.param(4, n, marks=pytest.mark.more) for n in (1, 2))],
)
def test_the_heat_program(ranks: int, threads: int, tmp_path: Path) -> None:
    program = tmp_path / "heat.py"
    program.write_text(heat_program(tmp_path / "heat.npy"))
    outcome = jobs.run_ranks(ranks, program, threads=threads)
    assert outcome.status == 0, str(outcome)
    assert np.array_equal(np.load(tmp_path / "heat.npy"), oracle())


def test_the_program_is_as_short_as_it_looks() -> None:
    lines = [line for line in PROGRAM.read_text().splitlines() if line.strip()]
    assert len(lines) <= 20
