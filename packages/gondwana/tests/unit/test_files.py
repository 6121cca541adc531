"""Files that users name: what is replaced, what is written to, and what is refused before a run."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gondwana.errors import UsageError
from gondwana.results import ResultError, check_writable, write_json
from gondwana.runtime import files

AS_ROOT = os.geteuid() == 0


@pytest.fixture
def full_device(tmp_path: Path) -> Path:
    """A device that is always full; /dev/full itself only where this test could not replace it."""
    if not AS_ROOT:
        return Path("/dev/full")
    device = tmp_path / "full"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
        device.open("wb").close()
    except PermissionError:
        pytest.skip("no devices can be made here")
    return device


def test_a_file_is_complete_or_what_it_was(tmp_path: Path) -> None:
    target = tmp_path / "result"
    target.write_text("old")
    with pytest.raises(FileNotFoundError), files.aside(target) as draft:
        draft.write_text("half") and (tmp_path / "absent").read_text()
    assert target.read_text() == "old"
    with files.aside(target) as draft:
        draft.write_text("whole")
        assert target.read_text() == "old"
    assert target.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [target]


def test_a_symbolic_link_is_followed_and_permissions_stay(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "result.json"
    target.write_text("old")
    target.chmod(0o600)
    for name, aim in (("link", target), ("dangling", tmp_path / "there" / "new.json")):
        link = tmp_path / name
        link.symlink_to(aim)
        check_writable(link)
        write_json(link, {"verified": True})
        assert link.is_symlink()
        assert json.loads(aim.read_text()) == {"verified": True}
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == ["new.json", "result.json"]


def test_a_device_is_written_to_and_stays_a_device(full_device: Path) -> None:
    check_writable(full_device)
    with pytest.raises(ResultError, match=r"--json .*full: the result cannot be written \(No space left on device\)"):
        write_json(full_device, {"verified": True})
    assert stat.S_ISCHR(full_device.stat().st_mode)
    check_writable("/dev/null")


def test_a_fifo_is_written_to_and_never_waited_for(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    check_writable(fifo)
    with pytest.raises(ResultError, match="No such device"):
        write_json(fifo, {})
    large = {"numbers": list(range(100_000))}  # more than a pipe holds
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reading, True)
    received = bytearray()

    def read() -> None:
        while part := os.read(reading, 1 << 16):
            received.extend(part)

    writer = os.open(fifo, os.O_WRONLY)
    reader = threading.Thread(target=read)
    reader.start()
    write_json(fifo, large)
    os.close(writer)
    reader.join(timeout=60)
    os.close(reading)
    assert json.loads(received) == large
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_what_was_printed_before_stays_in_the_file_behind_standard_output(tmp_path: Path) -> None:
    code = (
        "from gondwana.results import write_json; print('the run', flush=True); "
        "write_json('/dev/stdout', {'ok': 1}); print('the end')"
    )
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True, timeout=60)
    printed = (tmp_path / "out").read_text()
    assert printed.startswith("the run\n")
    assert printed.endswith("the end\n")
    assert json.loads(printed.removeprefix("the run\n").removesuffix("the end\n")) == {"ok": 1}


def test_what_cannot_be_written_is_refused_before(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for name, reason in {
            "": "the name is empty",
            str(tmp_path): "this is a folder",
            f"{tmp_path}/new/": "this is a folder",
            f"{tmp_path}/absent/x": "does not exist or cannot be written",
            f"{tmp_path}/file/x": "Not a directory",
            f"{tmp_path}/loop": "Too many levels of symbolic links",
            f"{tmp_path}/{'x' * 300}": "File name too long",
            f"{tmp_path}/socket": "neither a file nor a stream",
        }.items():
            with pytest.raises(UsageError, match=rf"^--json {name}: .*{reason}.*; name another file$"):
                check_writable(name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "loop", "socket"]


@pytest.mark.skipif(AS_ROOT, reason="root may write anywhere")
def test_permissions_count(tmp_path: Path) -> None:
    (tmp_path / "read-only").write_text("kept")
    (tmp_path / "read-only").chmod(0o400)
    with pytest.raises(UsageError, match="it is read-only"):
        check_writable(tmp_path / "read-only")
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="cannot be written"):
        check_writable(tmp_path / "new")


def test_a_full_disk_leaves_the_old_file_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "result.json"
    target.write_text("old")

    def write_bytes(path: Path, content: bytes) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    with pytest.raises(ResultError, match="No space left on device"):
        write_json(target, {"verified": True})
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]
