"""The proof that MPI takes device memory: what it holds for, and what ends it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gondwana.cuda import aware
from support import jobs
from support.recording_driver import RecordingDriver

LIBRARY = {"vendor": "Open MPI", "version": "5.0.8", "path": "/lib/libmpi.so.40"}


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[RecordingDriver]:
    """An MPI that runs, and a driver."""
    one = RecordingDriver(2)
    monkeypatch.setenv("GONDWANA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(aware, "driver", lambda: one)
    monkeypatch.setattr(aware.mpi, "is_running", lambda: True)
    monkeypatch.setattr(aware.mpi, "library", lambda: LIBRARY)
    aware.proven.cache_clear()
    yield one
    aware.proven.cache_clear()


def found_anew() -> bool:
    aware.proven.cache_clear()
    return aware.proven()


def test_a_proof_lasts_until_it_is_withdrawn() -> None:
    assert not aware.proven()
    aware.withdraw()
    aware.prove()
    assert aware.proven()
    assert found_anew()
    aware.prove()
    aware.withdraw()
    assert not aware.proven()
    assert not found_anew()


@pytest.mark.parametrize("change", ["MPI", "driver", "devices", "settings", "kernel"])
def test_a_proof_holds_for_what_was_tried(
    change: str, machine: RecordingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    aware.prove()
    if change == "MPI":
        monkeypatch.setattr(aware.mpi, "library", lambda: {**LIBRARY, "version": "5.0.9"})
    elif change == "driver":
        machine.name = "CUDA 13.1"
    elif change == "devices":
        machine.devices = 1
    elif change == "settings":
        monkeypatch.setenv("UCX_TLS", "tcp")
    else:
        monkeypatch.setattr(aware, "_kernel_module", lambda: "another version")
    assert not found_anew()
    monkeypatch.undo()


def test_without_mpi_or_a_folder_nothing_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    aware.prove()
    monkeypatch.setattr(aware.mpi, "is_running", lambda: False)
    assert not found_anew()
    aware.prove()
    aware.withdraw()
    monkeypatch.setattr(aware.mpi, "is_running", lambda: True)
    assert found_anew()
    monkeypatch.setattr(aware, "cache_folder", lambda name: None)
    assert not found_anew()
    aware.prove()
    assert not found_anew()


def test_asking_imports_no_mpi() -> None:
    source = "import sys; from gondwana.cuda import aware; print((aware.proven(), 'mpi4py.MPI' in sys.modules))"
    outcome = jobs.run_command([sys.executable, "-c", source])
    assert ast.literal_eval(outcome.stdout) == (False, False)
