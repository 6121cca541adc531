"""What `make test-gpu` does on a machine: it says why it cannot run, counts the tests, and ends what takes too long."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

from support import make_gpu_env, run_on_gpu

REPORT = """<testsuites><testsuite>
<testcase classname="tests.gpu.test_a" name="test_good"/>
<testcase classname="tests.gpu.test_a" name="test_bad"><failure>assert 1 == 2</failure><error>more</error></testcase>
<testcase classname="tests.gpu.test_a" name="test_left_out"><skipped/></testcase>
</testsuite></testsuites>"""


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


def test_tests_are_counted_and_failures_kept(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    found = run_on_gpu.read(report)
    assert (found["tests"], found["failed"], found["skipped"]) == (3, 1, 1)
    assert [failure["text"] for failure in found["failures"]] == ["assert 1 == 2", "more"]
    assert found["failures"][0]["test"] == "tests.gpu.test_a::test_bad"


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
