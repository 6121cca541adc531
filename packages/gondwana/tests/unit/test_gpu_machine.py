"""What `make test-gpu` does on a machine: it says why it cannot run, takes its steps, and ends what takes too long."""

from __future__ import annotations

import ctypes
import json
import shutil
import sys
from pathlib import Path

import pytest

from support import make_gpu_env, run_on_gpu

TESTS = """
import os, pytest, signal
def test_good(): pass
def test_bad(): assert 1 == 2
def test_left_out(): pytest.skip("why not")
@pytest.fixture
def broken():
    yield
    raise ValueError("at the end")
def test_ends_badly(broken): pass
def test_is_cut_off():
    if CUT: os.kill(os.getpid(), signal.SIGKILL)
"""


def test_without_a_driver_the_reason_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_library(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.delenv("GONDWANA_CUDA", raising=False)
    monkeypatch.setattr(ctypes, "CDLL", no_library)
    with pytest.raises(SystemExit) as ending:
        make_gpu_env.require_gpu()
    assert ending.value.code == 2
    assert capsys.readouterr().err == "make: no GPU here: no CUDA driver is installed (libcuda.so.1 was not found)\n"


def test_the_emulated_gpu_stands_in_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONDWANA_CUDA", "emulated")
    make_gpu_env.require_gpu()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder for results on a machine without tools of CUDA, whose tests and programs are tiny."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "program.py").write_text("print('watched')")
    monkeypatch.setattr(run_on_gpu, "TOOLKIT", tmp_path / "toolkit")
    monkeypatch.setattr(run_on_gpu, "FOLDERS", (str(tmp_path / "tests"), "--rootdir", str(tmp_path)))
    monkeypatch.setattr(run_on_gpu, "SANITIZED", ((tmp_path / "program.py",),))
    return tmp_path


def take(machine: Path, *words: str) -> tuple[int, dict[str, dict[str, object]]]:
    """The status of a run, and what it wrote of its steps."""
    command, sys.argv = sys.argv, ["run_on_gpu.py", "--out", str(machine / "out"), *words]
    try:
        status = run_on_gpu.main()
    finally:
        sys.argv = command
    return status, json.loads((machine / "out" / "gpu-steps.json").read_text())


def write_tests(machine: Path, *, cut: bool = False) -> None:
    (machine / "tests" / "test_few.py").write_text(TESTS.replace("CUT", str(cut)))


def write_tool(machine: Path, name: str, text: str) -> None:
    tool = machine / "toolkit" / "bin" / name
    tool.parent.mkdir(parents=True, exist_ok=True)
    tool.write_text(f"#!/usr/bin/env python3\nimport sys\nwords = sys.argv[1:]\n{text}")
    tool.chmod(0o755)


def test_tests_are_counted_and_failures_kept(machine: Path) -> None:
    write_tests(machine)
    status, steps = take(machine, "--steps", "tests")
    assert status == 1
    assert steps["tests"]["found"] == "3 passed, 2 failed, 1 skipped"
    found = json.loads((machine / "out" / "gpu-tests.json").read_text())
    assert [failure["test"].rpartition("::")[2] for failure in found["failures"]] == ["test_bad", "test_ends_badly"]
    assert "assert 1 == 2" in found["failures"][0]["text"]
    assert "at the end" in found["failures"][1]["text"]


def test_a_step_that_is_cut_off_leaves_its_results(machine: Path) -> None:
    write_tests(machine, cut=True)
    status, steps = take(machine, "--steps", "tests")
    assert status == 1
    assert (steps["tests"]["status"], steps["tests"]["found"]) == (
        -9,
        "2 passed, 2 failed, 1 skipped, FAILED, status -9",
    )


def test_tools_of_cuda_are_skipped_where_they_are_not(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    status, steps = take(machine, "--steps", "sanitizers,profile")
    assert status == 0
    assert {name: step["status"] for name, step in steps.items()} == {"sanitizers": 127, "profile": 127}
    assert "part of the CUDA toolkit" in str(steps["profile"]["found"])


def test_sanitizers_watch_and_the_profiler_measures(machine: Path) -> None:
    write_tool(
        machine,
        "compute-sanitizer",
        "log, tool = words[words.index('--log-file') + 1], words[words.index('--tool') + 1]\n"
        "open(log, 'w').write(f'{tool} of {words[-1]}')\n"
        "sys.exit(9 if tool == 'racecheck' else 0)\n",
    )
    write_tool(machine, "ncu", "open(words[words.index('--log-file') + 1], 'w').write(words[-1])\n")
    status, steps = take(machine, "--steps", "sanitizers profile")
    assert status == 1
    assert steps["sanitizers"]["found"] == "memcheck clean, racecheck FOUND ERRORS, synccheck clean"
    assert "racecheck of " in (machine / "out" / "gpu-racecheck.txt").read_text()
    assert (machine / "out" / "gpu-profile.csv").read_text().endswith("gpu_profile.py")
    write_tests(machine)
    assert set(take(machine, "--steps", "tests")[1]) == {"sanitizers", "profile", "tests"}


def test_a_step_that_does_not_exist_is_refused(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        take(machine, "--steps", "tests,bench")
    assert ending.value.code == 2
    assert "there is no step bench: legal are sanitizers, tests, benchmark, profile" in capsys.readouterr().err


def test_a_command_that_takes_too_long_is_ended_with_its_children(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_on_gpu, "GRACE", 1.0)
    stubborn = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(100)"
    assert run_on_gpu.run([sys.executable, "-c", stubborn], 0.5) == 124
    assert "ended after" in capsys.readouterr().out
    assert run_on_gpu.run([sys.executable, "-c", "raise SystemExit(3)"], 30.0) == 3


def test_the_toolkit_is_named_unless_the_user_named_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(run_on_gpu, "TOOLKIT", tmp_path)
    assert run_on_gpu.environment()["CUDA_HOME"] == str(tmp_path)
    monkeypatch.setenv("CUDA_PATH", "/elsewhere")
    assert "CUDA_HOME" not in run_on_gpu.environment()
