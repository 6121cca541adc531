"""What gondwana doctor tries on GPUs, on a driver whose device memory is host memory, which every MPI takes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support import jobs, stub_cuda

pytestmark = pytest.mark.parallel


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    return {**stub_cuda.build(tmp_path), "GONDWANA_CACHE_DIR": str(tmp_path / "cache")}


def ask() -> None:
    from gondwana.cuda import aware
    from gondwana.world import world

    assert not world.rank or aware.proven() is aware.proven()
    print("proven" if aware.proven() else "not proven")


def try_it() -> None:
    from gondwana.cli import aware_trial

    aware_trial.main()


def try_what_damages() -> None:
    from gondwana.cli import aware_trial
    from gondwana.world import world

    whole = aware_trial.exchange
    aware_trial.exchange = lambda gpu, size: [*whole(gpu, size), *["from GPU to host"] * (world.rank and size == 65536)]
    aware_trial.main()


def test_a_trial_proves_for_later_jobs(variables: dict[str, str]) -> None:
    def answers() -> set[str]:
        outcome = jobs.run_ranks(2, ask, variables=variables)
        assert outcome.status == 0, str(outcome)
        return set(outcome.stdout.split("\n")[:-1])

    assert answers() == {"not proven"}
    outcome = jobs.run_ranks(2, try_it, variables=variables)
    assert outcome.status == 0, str(outcome)
    assert 'AWARE {"problem": ""}' in outcome.stdout
    assert "2 ranks of" in outcome.stderr
    assert answers() == {"proven"}
    outcome = jobs.run_ranks(2, try_what_damages, variables=variables)
    assert outcome.status == 0, str(outcome)
    assert 'AWARE {"problem": "65536 bytes from GPU to host arrive damaged"}' in outcome.stdout
    assert answers() == {"not proven"}


def test_doctor_reports_devices_and_what_crashes(variables: dict[str, str], tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    outcome = jobs.run_command(
        [sys.executable, "-m", "gondwana.cli.main", "doctor", "--json", str(report)],
        variables={**variables, "COLUMNS": "200"},
        timeout=120,
    )
    assert outcome.status == 0, str(outcome)
    findings = {finding["subject"]: finding for finding in json.loads(report.read_text())["findings"]}
    assert findings["GPU 1"]["found"].startswith("Stub 41, capability 9.0, 8.0 GiB, GPU-2930373e")
    assert findings["pinned host memory"]["verdict"] == "OK"
    # Addresses of the stub mean nothing in another process.
    assert findings["GPU memory of another rank"]["found"] == "it crashed: Segmentation fault"
    assert findings["MPI and GPU memory"]["found"].startswith("MPI takes GPU memory")
