"""The mark ``ranks`` of tests: which jobs a test asks for, and why one cannot be had here."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

HELP = (
    "ranks(*numbers, ranks_per_node=0, threads=1, variables=None, python=sys.executable, timeout=120, id=''): "
    "run the test on each of these numbers of ranks, in parallel jobs of their own (gondwana.testing)"
)


@dataclass(frozen=True)
class Setting:
    """The job that a test runs in. Tests with equal settings share a job.

    Args:
        ranks: how many.
        ranks_per_node: this many ranks take each other to be on one node; 0: all that are.
        threads: per rank.
        variables: environment variables of the job, as pairs.
        python: the interpreter of the ranks.
        timeout: seconds for the tests of each module in the job.
        id: what the names of its tests end with, beside the numbers; settings may be equal that differ in it.
    """

    ranks: int
    ranks_per_node: int = 0
    threads: int = 1
    variables: tuple[tuple[str, str], ...] = ()
    python: str = sys.executable
    timeout: float = 120
    id: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        """How the names of tests show it."""
        node = f"{self.ranks_per_node}pernode" if self.ranks_per_node else ""
        threads = f"{self.threads}threads" if self.threads > 1 else ""
        return "-".join(filter(None, (f"{self.ranks}ranks" if self.ranks > 1 else "1rank", node, threads, self.id)))

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of the job that are its own."""
        node = {"GONDWANA_RANKS_PER_NODE": str(self.ranks_per_node)} if self.ranks_per_node else {}
        return {**node, **dict(self.variables)}

    def missing(self) -> str | None:
        """Return what this machine lacks for the job, or None. Local: starts nothing."""
        if shutil.which(self.python) is None:
            return f"there is no interpreter {self.python}"
        if self.ranks > 1 and self.python == sys.executable and importlib.util.find_spec("mpi4py") is None:
            return f"{self.ranks} ranks need mpi4py: pip install 'gondwana[openmpi]'"
        return None


def settings_of(node: pytest.Item) -> list[Setting]:
    """Return the jobs that a test is marked for; several marks in one place add up, the closest place counts. Local.

    Raises:
        pytest.UsageError: a mark has no number of ranks, or options that it does not know.
    """
    places = list(node.iter_markers_with_node("ranks"))
    marks = [mark for place, mark in places if place is places[0][0]]
    return [setting for mark in reversed(marks) for setting in _settings(mark, node)]


def _settings(mark: pytest.Mark, node: pytest.Item) -> list[Setting]:
    numbers = mark.args
    if not numbers or not all(type(number) is int and number > 0 for number in numbers):
        raise pytest.UsageError(f"{node.nodeid}: @pytest.mark.ranks{numbers}: give numbers of ranks, as ranks(1, 2, 3)")
    try:
        return [Setting(number, **_options(**mark.kwargs)) for number in numbers]
    except TypeError as error:
        raise pytest.UsageError(f"{node.nodeid}: @pytest.mark.ranks: {error}; it is {HELP}") from None


def _options(
    *, variables: Mapping[str, object] | None = None, python: str | Path = sys.executable, **others: Any
) -> dict[str, Any]:
    pairs = tuple(sorted((name, str(value)) for name, value in (variables or {}).items()))
    return {"variables": pairs, "python": str(python), **others}
