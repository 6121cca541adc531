"""What gondwana doctor says about GPUs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gondwana.cli.doctor import gpus
from gondwana.cli.doctor.findings import Finding, Verdict
from gondwana.errors import LaunchError, UsageError
from support.recording_driver import RecordingDriver


def findings(monkeypatch: pytest.MonkeyPatch, trial: Any = "", job: Any = "") -> dict[str, Finding]:
    """What is found where the two trials end with this output, or this status."""

    def run(argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        end = trial if "gondwana.cli.doctor.gpu_trial" in argv else job
        if isinstance(end, BaseException):
            raise end
        text, status = ("", end) if isinstance(end, int) else end if isinstance(end, tuple) else (end, 0)
        return subprocess.CompletedProcess(argv, status, text, "")

    monkeypatch.setattr(gpus, "driver", lambda: RecordingDriver(2))
    monkeypatch.setattr(gpus.subprocess, "run", run)
    monkeypatch.setattr(gpus.launch, "command", lambda ranks, program, **_: gpus.launch.Command(tuple(program)))
    return {finding.subject: finding for finding in gpus.gpus()}


def test_without_a_gpu_there_is_one_line_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> RecordingDriver:
        raise UsageError("this machine has no NVIDIA driver")

    monkeypatch.setattr(gpus, "driver", none)
    assert list(gpus.gpus()) == [Finding("GPUs", Verdict.OK, "none: this machine has no NVIDIA driver")]


def test_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    found = findings(monkeypatch, 'GPU {"register": "", "attach": ""}\n', 'noise\nAWARE {"problem": ""}\n')
    assert {finding.verdict for finding in found.values()} == {Verdict.OK}
    assert found["CUDA driver"].found.startswith("recorded, cuda-bindings ")
    assert found["GPU 1"].found == "GPU 1, capability 9.0, 128.0 GiB, GPU-1, at 01:00.0"
    assert found["GPUs of ranks"].found.startswith("rank 0: GPU 0, rank 1: GPU 1, rank 2: GPU 0 and so on")
    assert found["GPU memory of another rank"].found == "maps (CUDA IPC)"
    assert found["pinned host memory"].found == "shared memory can be registered"
    assert found["MPI and GPU memory"].found.startswith("MPI takes GPU memory in a trial on one node, but does not say")


def test_gpus_that_are_hidden_are_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / str(number)).mkdir()
    monkeypatch.setattr(gpus, "_ALL_GPUS", tmp_path)
    found = findings(monkeypatch, 0, 0)["GPUs that this process sees"]
    assert (found.verdict, found.found) == (Verdict.WARN, "2 of 4 of this machine")
    assert "srun --gpu-bind=none" in found.remedy


def test_what_does_not_work_is_a_warning_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    found = findings(monkeypatch, 'GPU {"register": "no", "attach": "never"}', 'AWARE {"problem": "8 bytes damaged"}')
    for subject, text in {"pinned host memory": "no", "GPU memory of another rank": "never"}.items():
        assert (found[subject].verdict, found[subject].found) == (Verdict.WARN, text)
        assert found[subject].remedy
    assert found["MPI and GPU memory"].verdict is Verdict.OK  # the way around it costs time only
    assert "(8 bytes damaged): copies between nodes go through pinned" in found["MPI and GPU memory"].found


@pytest.mark.parametrize(
    ("claims", "forced", "problem", "verdict", "words"),
    [
        (True, "", "", Verdict.OK, "is given it by copies between nodes (MPI says so)"),
        (True, "0", "", Verdict.OK, "but GONDWANA_MPI_CUDA=0: copies between nodes go through pinned host memory"),
        (False, "1", "", Verdict.OK, "is given it by copies between nodes (GONDWANA_MPI_CUDA=1)"),
        (True, "", "8 bytes damaged", Verdict.FAIL, "did not take it: 8 bytes damaged"),
        (True, "", None, Verdict.FAIL, "did not take it: it crashed: Segmentation fault"),
        (None, "", "8 bytes damaged", Verdict.OK, "an MPI that is built for CUDA does without"),
    ],
)
def test_what_mpi_says_and_what_it_does(
    monkeypatch: pytest.MonkeyPatch, claims: object, forced: str, problem: str | None, verdict: Verdict, words: str
) -> None:
    monkeypatch.setenv("GONDWANA_MPI_CUDA", forced)
    lines = [{"claims": claims}] + ([] if problem is None else [{"problem": problem}])
    text = "".join(f"AWARE {json.dumps(line)}\n" for line in lines)
    found = findings(monkeypatch, 'GPU {"register": "", "attach": ""}', (text, 0 if lines[1:] else 139))
    finding = found["MPI and GPU memory"]
    assert finding.verdict is verdict
    assert words in finding.found
    assert ("GONDWANA_MPI_CUDA=0" in finding.remedy) == (verdict is Verdict.FAIL)


def test_crashes_and_hangs_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    found = findings(monkeypatch, -11, 139)
    assert found["memory of GPUs"].verdict is Verdict.FAIL
    assert found["memory of GPUs"].found == "it crashed: Segmentation fault"
    assert "(it crashed: Segmentation fault)" in found["MPI and GPU memory"].found
    slow = subprocess.TimeoutExpired("trial", 120)
    assert findings(monkeypatch, slow, slow)["memory of GPUs"].found == "still running after 120 s"


def test_without_mpi_it_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any, **__: Any) -> None:
        raise LaunchError("no mpi4py")

    monkeypatch.setattr(gpus.launch, "command", none)
    (found,) = gpus._mpi()
    assert found.found.startswith("not tried")


@pytest.mark.parametrize(
    ("status", "stderr", "words"),
    [
        (1, "Traceback ...\n  File\nValueError: too small\n", "ValueError: too small"),
        (1, "[rank 1 on n7] a.b.CudaError: no\n-----\nmpirun ended\n", "a.b.CudaError: no"),
        (1, "gondwana: error: no device\n", "gondwana: error: no device"),
        (3, "\n", "it ended with status 3"),
        (-9, "ValueError: hidden by what came after", "it crashed: Killed"),
        (134, "", "it crashed: Aborted"),
    ],
)  # fmt: skip
def test_endings_in_words(status: int, stderr: str, words: str) -> None:
    assert gpus.ending(status, stderr) == words
