"""The interactive examples of the guide's pages run, each page from top to bottom as one session."""

from __future__ import annotations

import doctest
import importlib.util
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
PAGES = (
    "address-space.md",
    "arithmetic.md",
    "arrays.md",
    "coming-from/concurrent-futures.md",
    "coming-from/dask.md",
    "coming-from/julia.md",
    "coming-from/kokkos.md",
    "coming-from/mpi4py.md",
    "coming-from/titanium.md",
    "coming-from/upcxx.md",
    "compiled-communication.md",
    "completion-and-progress.md",
    "differentiation.md",
    "domains.md",
    "equations.md",
    "explicit-vectors.md",
    "ghosts-by-hand.md",
    "global-arrays-in-compiled-code.md",
    "inspect.md",
    "kernels.md",
    "live-view.md",
    "masks.md",
    "output.md",
    "own-files.md",
    "particles.md",
    "pairwise-clustering.md",
    "pools.md",
    "reductions.md",
    "remote-calls.md",
    "tasks.md",
    "remote-tasks.md",
    "solvers.md",
    "staggered-grids.md",
    "teams.md",
    "testing.md",
    "threads.md",
    "tracing.md",
    "transforms.md",
    "vector-sponge.md",
    "walls.md",
    "vector-valued-cells.md",
)

TOO_LARGE = {"differentiation.md": "jax"}
"""The pages that run where a package is installed that is too large to be one of the tests: 380 MB."""


@pytest.mark.parametrize("page", PAGES)
def test_examples_of_the_guide_run(page: str) -> None:
    package = TOO_LARGE.get(page)
    if package is not None and importlib.util.find_spec(package) is None:
        pytest.skip(f"the page needs {package}, which is too large to be installed for it: pip install {package}")
    lines = (GUIDE / page).read_text(encoding="utf-8").splitlines()
    # A closing fence would read as expected output; an empty line ends an example and keeps the line numbers.
    text = "\n".join("" if line.startswith("```") else line for line in lines)
    # As in a program. For a function without a module, pickle would look into all modules that are loaded.
    names = {"__name__": "__main__"}
    test = doctest.DocTestParser().get_doctest(text + "\n", names, page, str(GUIDE / page), 0)
    assert test.examples, "the page has no example"
    assert doctest.DocTestRunner().run(test).failed == 0
