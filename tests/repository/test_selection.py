"""Which jobs `make test` runs, and which are left to `make test-more`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from gondwana.testing.plugin import Setting


@pytest.fixture(scope="module")
def selection() -> ModuleType:
    spec = importlib.util.spec_from_file_location("selection", Path(__file__).parents[2] / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("setting", [(1,), (2,), (3,), (2, 1), (3, 2), (4, 2), (2, 0, 2)])
def test_small_jobs_run_at_each_push(selection: ModuleType, setting: tuple[int, ...]) -> None:
    assert not selection.is_large(Setting(*setting))


@pytest.mark.parametrize("setting", [(4,), (6,), (8,), (3, 1), (6, 2), (2, 0, 3)])
def test_large_jobs_are_left_out(selection: ModuleType, setting: tuple[int, ...]) -> None:
    assert selection.is_large(Setting(*setting))
