"""Findings of ``gondwana doctor``: the lines of its report."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Verdict(enum.StrEnum):
    """The verdict on a finding."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True)
class Finding:
    """A line of the report: the subject, the verdict, what was found, and what to do."""

    subject: str
    verdict: Verdict
    found: str
    remedy: str = ""
