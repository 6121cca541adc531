"""Folders of files that are executed later: no other user can change them, and a stopped process blocks nobody."""

from __future__ import annotations

import itertools
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gondwana.runtime import cache_folder
from support import jobs

STRANGER = 12345


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that the environment names; reports are made again."""
    monkeypatch.setenv("GONDWANA_CACHE_DIR", str(tmp_path / "cache"))
    cache_folder._report.cache_clear()
    yield tmp_path / "cache"
    cache_folder._report.cache_clear()


def reason() -> str:
    """Why there is no folder."""
    with pytest.raises(OSError, match=r"Errno") as caught:
        cache_folder.private_folder("objects")
    return cache_folder.describe(caught.value)


# -- the path ---------------------------------------------------------------------------------------------------------


def test_every_new_part_of_the_path_is_private(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONDWANA_CACHE_DIR", str(root / "a" / "b"))
    before = os.umask(0)
    try:
        found = cache_folder.cache_folder("objects")
    finally:
        os.umask(before)
    assert found == root / "a" / "b" / "objects"
    for part in (found, *found.parents[:3]):
        assert part.stat().st_mode & 0o777 == 0o700, part


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_can_write_is_refused(root: Path, mode: int) -> None:
    (root / "objects").mkdir(parents=True)
    (root / "objects").chmod(mode)
    assert reason() == f"{root / 'objects'}: other users can write to it (mode {mode:03o})"


def test_a_parent_that_others_can_write_is_refused(root: Path) -> None:
    (root / "objects").mkdir(parents=True, mode=0o700)
    root.chmod(0o775)
    assert reason() == f"{root}: other users can write to it (mode 775)"
    root.chmod(0o1777)  # as /tmp: others cannot rename what is there
    assert cache_folder.private_folder("objects") == root / "objects"


def test_a_folder_of_another_user_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "objects").mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(cache_folder, "_administrators", lambda: frozenset({0, os.geteuid(), root.stat().st_uid}))
    monkeypatch.setattr(os, "getuid", lambda: STRANGER)
    assert reason() == f"{root / 'objects'}: it belongs to another user (number {root.stat().st_uid})"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders to others")
def test_a_parent_of_another_user_is_refused(root: Path) -> None:
    (root / "objects").mkdir(parents=True, mode=0o700)
    os.chown(root, STRANGER, -1)
    assert reason() == f"{root}: it belongs to another user (number {STRANGER})"


def test_a_link_is_followed_once_and_its_end_is_checked(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    root.symlink_to(tmp_path / "elsewhere")
    assert cache_folder.private_folder("objects") == tmp_path / "elsewhere" / "objects"
    (tmp_path / "elsewhere").chmod(0o777)
    assert reason().startswith(f"{tmp_path / 'elsewhere'}: other users can write to it")
    root.unlink()
    root.symlink_to(root)
    assert reason().startswith(str(root))


def test_what_is_not_a_folder_is_refused(root: Path) -> None:
    root.mkdir()
    (root / "objects").write_text("")
    assert reason() == f"{root / 'objects'}: it is not a folder"


def test_the_next_folder_is_taken_if_that_of_the_user_is_not_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cache_folder._report.cache_clear()
    monkeypatch.delenv("GONDWANA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cache_folder.tempfile, "gettempdir", lambda: str(tmp_path))
    private = tmp_path / f"gondwana-{os.getuid()}"
    assert cache_folder.cache_folder("objects") == tmp_path / "home" / "gondwana" / "objects"
    assert capsys.readouterr().err == ""
    home = tmp_path / "home"
    home.chmod(0o775)  # as a umask of 002 leaves it
    for name in "objects", "native":
        assert cache_folder.cache_folder(name) == private / name
    assert capsys.readouterr().err == (
        f"gondwana: {home}: other users can write to it (mode 775), so compiled code is kept in {private}\n"
    )
    private.chmod(0o777)  # as if another user had been there first
    assert cache_folder.cache_folder("objects") is None


def test_root_without_a_number_owns_the_files_of_the_overflow_user(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"/proc/self/uid_map": "1000 1000 1\n", "/proc/sys/kernel/overflowuid": "65534\n"}
    monkeypatch.setattr(Path, "read_text", lambda path: texts[str(path)])
    assert cache_folder._administrators.__wrapped__() == {65534}
    texts["/proc/self/uid_map"] = "0 1000 1\n1 100000 65536\n"
    assert cache_folder._administrators.__wrapped__() == {0}


@pytest.mark.parallel
def test_the_reason_is_reported_once_a_job(root: Path) -> None:
    def program() -> None:
        import gondwana as gw

        @gw.jit
        def one() -> int:
            return 1

        @gw.jit
        def two() -> int:
            return 2

        assert one() + two() == 3
        assert gw.compilation().compiled == 2
        gw.world.barrier()

    root.mkdir()
    root.chmod(0o777)
    outcome = jobs.run_ranks(2, program, variables={"GONDWANA_CACHE_DIR": str(root)})
    assert outcome.status == 0, str(outcome)
    assert outcome.stderr == (
        f"gondwana: nothing compiled is kept: {root}: other users can write to it (mode 777); "
        "set GONDWANA_CACHE_DIR to a folder that only you can change\n"
    )


# -- the files --------------------------------------------------------------------------------------------------------


def test_only_regular_files_of_ours_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, link, fifo = tmp_path / "file", tmp_path / "link", tmp_path / "fifo"
    before = os.umask(0)
    try:
        cache_folder.keep(file, b"content")
    finally:
        os.umask(before)
    link.symlink_to(file)
    os.mkfifo(fifo, 0o600)
    for path, content in [(file, b"content"), (link, None), (fifo, None), (tmp_path, None), (tmp_path / "no", None)]:
        assert cache_folder.read(path) == content, path
        assert cache_folder.exists(path) == (content is not None), path
    for mode in (0o620, 0o602):
        file.chmod(mode)
        assert cache_folder.read(file) is None
        assert not cache_folder.exists(file)
    file.chmod(0o600)
    monkeypatch.setattr(os, "getuid", lambda: STRANGER)
    assert cache_folder.read(file) is None
    assert not cache_folder.exists(file)


# -- the lock ---------------------------------------------------------------------------------------------------------

HOLDER = """
import sys
from pathlib import Path
from gondwana.runtime.cache_folder import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_stopped_process_is_not_waited_for(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cache_folder, "PATIENCE", 0.3)
    file = tmp_path / "entry.o"
    command = [sys.executable, "-c", HOLDER, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGSTOP)
        try:
            with cache_folder.locked(file):
                message = capfd.readouterr().err
            assert message.startswith(f"gondwana: process {holder.pid}, which compiles the same, has not computed for")
            assert message.count("\n") == 1
            assert file.with_suffix(".lock").exists(), "the lock is still that of the other process"
        finally:
            holder.send_signal(signal.SIGCONT)
        holder.communicate(timeout=60)
    assert not file.with_suffix(".lock").exists()


def test_a_process_of_another_host_has_a_fixed_time(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cache_folder, "PATIENCE", math.inf)
    monkeypatch.setattr(cache_folder, "FAR_PATIENCE", 0.3)
    monkeypatch.setattr(cache_folder, "_processor_time", lambda process: pytest.fail("it has this number elsewhere"))
    file = tmp_path / "entry.o"
    with cache_folder.locked(file):
        file.with_suffix(".lock").write_text(f"{os.getpid()} elsewhere")
        with cache_folder.locked(file):
            message = capfd.readouterr().err
    expected = f"gondwana: process {os.getpid()} on elsewhere, which compiles the same, has held its lock for 0.3 s"
    assert message.startswith(expected)


def test_a_process_that_computes_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(cache_folder, "PATIENCE", 0.0)
    monkeypatch.setattr(cache_folder, "_processor_time", lambda process: next(ticks))
    file = tmp_path / "entry.o"
    order: list[str] = []
    entered = threading.Event()

    def hold() -> None:
        with cache_folder.locked(file):
            entered.set()
            while next(ticks) < 20:  # until the other has looked many times
                threading.Event().wait(0.001)
            order.append("holder")

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(60)
    with cache_folder.locked(file):
        order.append("waiter")
    thread.join()
    assert order == ["holder", "waiter"]


def test_the_processor_time_of_a_process_is_read() -> None:
    spent = cache_folder._processor_time(str(os.getpid()))
    assert spent is not None
    while cache_folder._processor_time(str(os.getpid())) == spent:
        pass  # ends because this loop is what the process computes
    for process in ("", "0", "self/../..", "no number"):
        assert cache_folder._processor_time(process) is None, process
