"""What gondwana doctor finds on a machine that has a GPU."""

from __future__ import annotations

from gondwana.cli.doctor.findings import Verdict
from gondwana.cli.doctor.gpus import gpus


def test_nothing_fails() -> None:
    findings = list(gpus())
    for finding in findings:
        print(f"{finding.verdict} {finding.subject}: {finding.found}")
    assert not [finding for finding in findings if finding.verdict is Verdict.FAIL]
    assert {"CUDA driver", "GPU 0", "GPU memory of another rank"} <= {finding.subject for finding in findings}
