"""Which MPI library mpi4py uses: found out once, and anew when something changes that may decide it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gondwana.cli import library
from gondwana.cli.library import Library
from gondwana.errors import LaunchError


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """The interpreters that were asked, each of which has the library of a file in `tmp_path`."""
    (tmp_path / "libmpi.so").write_text("of an MPI")
    package = tmp_path / "packages" / "mpi4py"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(package.parent), *sys.path])
    monkeypatch.setenv("GONDWANA_CACHE_DIR", str(tmp_path / "cache"))
    found: list[str] = []

    def ask(python: str) -> Library:
        found.append(python)
        return Library("Open MPI", str(len(found)), str(tmp_path / "libmpi.so"))

    monkeypatch.setattr(library, "ask", ask)
    library.mpi_library.cache_clear()
    yield found
    library.mpi_library.cache_clear()


def find(python: str = sys.executable) -> str:
    """The version of the library, as a process that has just started finds it."""
    library.mpi_library.cache_clear()
    return library.mpi_library(python).version


def test_it_is_asked_for_once(asked: list[str]) -> None:
    assert [find(), find(), find()] == ["1", "1", "1"]
    assert asked == [sys.executable]


def test_another_interpreter_is_always_asked(asked: list[str]) -> None:
    assert [find("python"), find("python")] == ["1", "2"]


@pytest.mark.parametrize("what", ["variable", "library", "package", "packages", "kept", "emptied"])
def test_a_change_is_noticed(asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str) -> None:
    assert find() == "1"
    kept = next((tmp_path / "cache").rglob("*.json"))
    match what:
        case "variable":
            monkeypatch.setenv("MPI4PY_LIBMPI", "/another/libmpi.so")
        case "library":
            (tmp_path / "libmpi.so").write_text("of another MPI")
        case "package":
            os.utime(tmp_path / "packages" / "mpi4py", ns=(1, 1))
        case "packages":
            (tmp_path / "packages" / "mpich").mkdir()
        case "kept":
            kept.write_text('["no", "library"]')
        case "emptied":
            kept.write_text("")
    assert [find(), find()] == ["2", "2"]


def test_a_folder_that_cannot_be_used_is_not_missed(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GONDWANA_CACHE_DIR", str(tmp_path / "file"))
    assert [find(), find()] == ["1", "2"]
    assert capsys.readouterr() == ("", "")


def test_a_failure_is_not_kept(asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(python: str) -> Library:
        raise LaunchError("mpi4py does not work")

    with monkeypatch.context() as here:
        here.setattr(library, "ask", fail)
        with pytest.raises(LaunchError):
            find()
    assert find() == "1"
