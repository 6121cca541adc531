"""The checks of the parallel programs of the packages as tests that each rank executes: see the mark `ranks`."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from support import jobs

FOLDERS = "packages/*/tests/parallel/programs"


def checks(*programs: str) -> pytest.MarkDecorator:
    """Parametrize a test by the checks of some programs, in their order.

    A program is not imported before a rank executes one of its checks, because that starts MPI.
    """
    found = [(program, name) for program in programs for name in jobs.check_names(_file(program))]
    return pytest.mark.parametrize(("program", "name"), [pytest.param(*one, id=one[1]) for one in found])


def _file(program: str) -> Path:
    (file,) = jobs.ROOT.glob(f"{FOLDERS}/{program}.py")
    return file


def run(program: str, name: str) -> None:
    """Execute a check. Collective over the world."""
    getattr(importlib.import_module(program), name)()
