"""What ``gondwana doctor`` finds: one line of its report each."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Verdict(enum.StrEnum):
    """How good a finding is."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was looked at, how it is, what was found, and what to do."""

    subject: str
    verdict: Verdict
    found: str
    remedy: str = ""
