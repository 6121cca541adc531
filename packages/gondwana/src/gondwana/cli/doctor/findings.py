"""Findings of ``gondwana doctor``: the lines of its report, and the trials of ranks that they come from."""

from __future__ import annotations

import enum
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from gondwana.cli import launch


class Verdict(enum.StrEnum):
    """The verdict on a finding."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True)
class Finding:
    """A line of the report: the subject, the verdict, the finding, and a remedy."""

    subject: str
    verdict: Verdict
    found: str
    remedy: str = ""


def judged(subject: str, ok: bool, found: str, remedy: str, otherwise: Verdict = Verdict.WARN) -> Finding:
    """Return a finding; its remedy is for one that is not OK. Pure."""
    return Finding(subject, Verdict.OK, found) if ok else Finding(subject, otherwise, found, remedy)


def answer(subject: str, command: launch.Command, word: str, seconds: float, remedy: str) -> dict[str, Any] | Finding:
    """Run a job; return the JSON that it prints after a word, or the finding that it printed none. Local: starts it.

    The output of a failing job goes to the standard error, too.

    Args:
        subject: subject of the finding.
        command: command of the job.
        word: first word of the line.
        seconds: time limit, after which the job is ended.
        remedy: advice if it fails.
    """
    try:
        done = subprocess.run(
            command.argv,
            env=command.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return Finding(subject, Verdict.FAIL, f"still running after {seconds:g} s", f"try it by hand: {command}")
    lines = [line for line in done.stdout.splitlines() if line.startswith(word)]
    if done.returncode or not lines:
        sys.stderr.write(done.stderr)
        reason = next((line for line in done.stderr.splitlines() if line.strip(" -")), f"status {done.returncode}")
        return Finding(subject, Verdict.FAIL, reason, remedy)
    found: dict[str, Any] = json.loads(lines[0].removeprefix(word))
    return found
