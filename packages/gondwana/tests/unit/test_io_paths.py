"""What is wrong with an output is said before the run, and nothing is created by asking."""

from __future__ import annotations

import errno
import fcntl
import os

import pytest

from gondwana.errors import UsageError
from gondwana.io.paths import check_output, claim, in_units


def dataset(path):
    path.mkdir()
    (path / "md.idx").write_bytes(b"")
    return path


def test_a_new_name_in_new_directories_is_fine(tmp_path):
    check_output(tmp_path / "a" / "b" / "gs.bp", 1 << 20)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", "/", ".", ".."])
def test_names_that_are_none(name):
    with pytest.raises(UsageError):
        check_output(name)


def test_a_file_or_another_directory_in_the_way(tmp_path):
    (tmp_path / "file").write_text("precious")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").write_text("precious")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="a file is there"):
        check_output(tmp_path / "file")
    with pytest.raises(UsageError, match="no dataset is there"):
        check_output(tmp_path / "folder")
    with pytest.raises(UsageError, match="is not a directory"):
        check_output(tmp_path / "file" / "gs.bp")
    check_output(tmp_path / "empty")


def test_a_dataset_may_be_replaced_unless_told_otherwise(tmp_path):
    path = dataset(tmp_path / "gs.bp")
    check_output(path)
    with pytest.raises(UsageError, match="exists: remove it or choose another name"):
        check_output(path, replace=False)


def test_a_disk_that_is_too_small(tmp_path):
    with pytest.raises(UsageError, match=r"it needs 1024\.0 TiB and .* has .* free"):
        check_output(tmp_path / "gs.bp", 1 << 50)


def test_a_directory_that_is_not_writable(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(UsageError, match=f"no permission in '{tmp_path}'"):
        check_output(tmp_path / "new" / "gs.bp")


def test_units():
    assert [in_units(n) for n in (0, 1023, 1536, 5 << 30)] == ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EBADF, errno.EOPNOTSUPP])
def test_a_dataset_is_written_where_there_are_no_locks(tmp_path, monkeypatch, number):
    def refuse(descriptor, how):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    os.close(claim(dataset(tmp_path / "gs.bp"), empty=True))
    assert not any((tmp_path / "gs.bp").iterdir())
