"""The checks of the programs in tests/parallel/programs as tests that each rank executes: see the mark `ranks`."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from support import jobs

PROGRAMS = Path(__file__).parents[1] / "parallel" / "programs"


def checks(*programs: str) -> pytest.MarkDecorator:
    """Parametrize a test by the checks of some programs, in their order.

    A program is not imported before a rank executes one of its checks, because that starts MPI.
    """
    found = [(program, name) for program in programs for name in jobs.check_names(PROGRAMS / f"{program}.py")]
    return pytest.mark.parametrize(("program", "name"), [pytest.param(*one, id=one[1]) for one in found])


def run(program: str, name: str) -> None:
    """Execute a check. Collective over the world."""
    getattr(importlib.import_module(program), name)()
