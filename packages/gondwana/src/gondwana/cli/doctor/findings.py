"""Findings of ``gondwana doctor``: the lines of its report, and the trials of ranks that they come from."""

from __future__ import annotations

import enum
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gondwana.cli import launch
from gondwana.runtime.terminal import aligned, folded

_SUBJECT = 25
"""Columns of subjects on a terminal; longer ones are folded."""
_INDENT = " " * 6


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


def lines(findings: Sequence[Finding], width: int | None) -> list[str]:
    """Return the report; its first and its last line are the sentence. Pure.

    Args:
        findings: what was found.
        width: columns of the terminal, in which words stay whole; None: each finding is a line of columns that are two
            blanks apart at least.
    """
    said = sentence(findings)
    if width is not None:
        return [
            *folded(said, width),
            *(line for one in findings for line in _finding(one, width)),
            *folded(said, width),
        ]
    rows = [(one.verdict.value, one.subject, one.found, one.remedy) for one in findings]
    return [f"# {said}", *aligned(rows), f"# {said}"]


def sentence(findings: Sequence[Finding]) -> str:
    """Return the outcome in a sentence. Pure."""
    subjects = {verdict: [one.subject for one in findings if one.verdict is verdict] for verdict in Verdict}
    parts = [
        f"{len(subjects[verdict])} of {len(findings)} checks {what}: {', '.join(subjects[verdict])}"
        for verdict, what in ((Verdict.FAIL, "failed"), (Verdict.WARN, "warn"))
        if subjects[verdict]
    ]
    return f"{'; '.join(parts)}." if parts else f"All {len(findings)} checks are fine: parallel runs work here."


def _finding(one: Finding, width: int) -> list[str]:
    """A finding beside its subject, or below it if it has words that are longer than the room there."""
    column = len(_INDENT) + _SUBJECT + 2
    left = folded(one.subject, _SUBJECT)
    remedy = f"-> {one.remedy}" if one.remedy else ""
    if max(map(len, f"{one.found} {remedy}".split()), default=0) > width - column:
        texts = [f"{_INDENT}{line}" for text in (one.found, remedy) for line in folded(text, width - len(_INDENT))]
        return [*(f"{one.verdict.value if not at else '':6}{line}" for at, line in enumerate(left)), *texts]
    right = [line for text in (one.found, remedy) for line in folded(text, width - column)]
    height = max(len(left), len(right))
    rows = zip(left + [""] * (height - len(left)), right + [""] * (height - len(right)), strict=True)
    return [
        f"{one.verdict.value if not at else '':6}{subject:{_SUBJECT}}  {text}".rstrip()
        for at, (subject, text) in enumerate(rows)
    ]
