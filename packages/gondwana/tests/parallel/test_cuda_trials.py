"""What ranks find out about GPUs: which is whose, and what gondwana doctor tries with their memory.

On the stub of the driver device memory is host memory, which every MPI takes; on the emulated GPU none may touch it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support import jobs, stub_cuda

pytestmark = pytest.mark.parallel


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    return {**stub_cuda.build(tmp_path), "GONDWANA_CACHE_DIR": str(jobs.own_cache(tmp_path / "cache"))}


def try_it() -> None:
    from gondwana.cli.doctor import aware_trial

    aware_trial.main()


def try_what_damages() -> None:
    from gondwana.cli.doctor import aware_trial
    from gondwana.teams import world

    whole = aware_trial.exchange
    aware_trial.exchange = lambda gpu, size: [*whole(gpu, size), *["from GPU to host"] * (world.rank and size == 65536)]
    aware_trial.main()


def choose() -> None:
    from gondwana.gpu import device

    print(device.own_number(), device.own_number())


def test_the_ranks_of_a_node_take_the_devices_in_turn(variables: dict[str, str]) -> None:
    outcome = jobs.run_ranks(3, choose, variables=variables)
    assert outcome.status == 0, str(outcome)
    assert sorted(outcome.stdout.splitlines()) == ["0 0", "0 0", "1 1"]
    said = [line for line in outcome.stderr.splitlines() if line.startswith("gondwana:")]
    assert len(said) == 1
    assert said[0].startswith("gondwana: 3 ranks of ")
    assert said[0].endswith(" on 2 GPUs: Stub 40 (0: ranks 0, 2), Stub 41 (1: rank 1)")
    outcome = jobs.run_ranks(4, choose, variables={**variables, "GONDWANA_RANKS_PER_NODE": "2"})
    assert sorted(outcome.stdout.splitlines()) == ["0 0", "0 0", "1 1", "1 1"]
    assert "gondwana: 2 ranks on 2 GPUs (1 Stub 40, 1 Stub 41) on each of 2 nodes" in outcome.stderr


def test_a_rank_without_a_device_ends_the_job_with_one_error(variables: dict[str, str]) -> None:
    outcome = jobs.run_ranks(2, choose, variables={**variables, "STUB_CUDA_INIT": "100"})
    assert outcome.status == 2, str(outcome)
    assert outcome.stderr.count("the NVIDIA driver sees no GPU") == 1


def examine() -> None:
    import json
    from dataclasses import asdict

    from gondwana.cli.doctor.gpus import gpus

    print(json.dumps([asdict(finding) for finding in gpus()]))


@pytest.mark.slow
def test_memory_that_mpi_does_not_take_is_found_out(tmp_path: Path) -> None:
    variables = {"GONDWANA_CUDA": "emulated", "GONDWANA_CACHE_DIR": str(jobs.own_cache(tmp_path))}
    outcome = jobs.run_command([sys.executable, *jobs.python_arguments(examine)], variables=variables, timeout=120)
    assert outcome.status == 0, str(outcome)
    findings = {finding["subject"]: finding for finding in json.loads(outcome.stdout)}
    assert findings["GPU memory of another rank"]["found"] == "maps (CUDA IPC)"
    assert findings["pinned host memory"]["verdict"] == "OK"
    assert "MPI takes no GPU memory (it crashed" in findings["MPI and GPU memory"]["found"]
    variables["GONDWANA_MPI_CUDA"] = "1"
    outcome = jobs.run_command([sys.executable, *jobs.python_arguments(examine)], variables=variables, timeout=120)
    [finding] = [found for found in json.loads(outcome.stdout) if found["subject"] == "MPI and GPU memory"]
    assert finding["verdict"] == "FAIL"
    assert "did not take it: it crashed" in finding["found"]
    assert "set GONDWANA_MPI_CUDA=0" in finding["remedy"]


def test_a_trial_says_what_arrives(variables: dict[str, str]) -> None:
    outcome = jobs.run_ranks(2, try_it, variables=variables)
    assert outcome.status == 0, str(outcome)
    assert outcome.stdout.splitlines()[-2:] == ['AWARE {"claims": false}', 'AWARE {"problem": ""}']
    assert "2 ranks of" in outcome.stderr
    outcome = jobs.run_ranks(2, try_what_damages, variables=variables)
    assert outcome.status == 0, str(outcome)
    assert 'AWARE {"problem": "65536 bytes from GPU to host arrive damaged"}' in outcome.stdout


@pytest.mark.slow
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
