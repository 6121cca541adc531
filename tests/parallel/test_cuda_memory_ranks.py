"""CUDA memory on 1, 2, 3 and 4 ranks with the emulated GPU: one job each, every check a test of its own.

The emulated GPU does everything as late and in as odd an order as a real one may. GONDWANA_RANKS_PER_NODE makes the
ranks of one machine believe in several nodes; those of one share a GPU, unless there are several.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support import checks, jobs, two_hosts

pytestmark = pytest.mark.parallel

CHECKS = Path(__file__).parent / "programs" / "cuda_memory_checks.py"
EMULATED = {"GONDWANA_CUDA": "emulated"}


def emulated(**more: object) -> dict[str, str]:
    """Environment variables of a job with emulated GPUs."""
    return EMULATED | {f"GONDWANA_{name}": str(value) for name, value in more.items()}


@pytest.mark.ranks(1, variables=emulated(EMULATED_DEVICES=2), id="copies", timeout=250)
@pytest.mark.ranks(2, variables=EMULATED, id="copies", timeout=250)
@pytest.mark.ranks(3, ranks_per_node=1, variables=emulated(FAKE_DEVICE_SEED=6), id="copies", timeout=250)
@pytest.mark.ranks(4, ranks_per_node=2, variables=emulated(FAKE_DEVICE_SEED=7, DEBUG_COPY=3), id="copies", timeout=250)
@checks.checks("copy_checks")
def test_copy(program: str, name: str) -> None:
    checks.run(program, name)


@pytest.mark.ranks(1, variables=emulated(EMULATED_DEVICES=2), timeout=250)
@pytest.mark.ranks(2, variables=EMULATED, timeout=250)
@pytest.mark.ranks(2, variables=emulated(EMULATED_DEVICES=2, FAKE_DEVICE_SEED=5), id="2devices", timeout=250)
@pytest.mark.ranks(3, ranks_per_node=1, variables=emulated(FAKE_DEVICE_SEED=6), timeout=250)
@pytest.mark.ranks(4, ranks_per_node=2, variables=emulated(FAKE_DEVICE_SEED=7), timeout=250)
@checks.checks("cuda_memory_checks")
def test_cuda_memory(program: str, name: str) -> None:
    checks.run(program, name)


@jobs.once
def reports_of_two_hosts() -> dict[str, list[str]]:
    return jobs.by_check(two_hosts.run_two_hosts(CHECKS, "--ranks", "2", timeout=200, variables=EMULATED))


@pytest.mark.parametrize("name", jobs.check_names(CHECKS))
def test_cuda_memory_on_two_hosts(name: str) -> None:
    problems = reports_of_two_hosts()[name]
    assert not problems, "\n".join(problems)


def copy_where_nothing_can_be_shared() -> None:
    """Every rank fails to attach the memory of every other, and to pin its own, several times."""
    import numpy as np

    import gondwana as gw
    from gondwana.gpu.driver import driver
    from gondwana.gpu.interface import CudaError

    def refuse(*_: object) -> None:
        raise CudaError("CUDA_ERROR_PEER_ACCESS_UNSUPPORTED: not on this machine")

    driver().attach = driver().register = refuse  # type: ignore[method-assign]
    for _ in range(2):
        host, there = gw.Segment(gw.world, 80_000), gw.Segment(gw.world, 80_000, gw.cuda(0))
        for rank in range(gw.world.size):
            gw.copy(host.pointer(dtype=float), there.pointer(rank, float), 10_000).wait()
            assert (gw.get(there.pointer(rank, float), 10_000).result() == 0).all()
            np.testing.assert_equal(gw.get(there.pointer(rank, float)).result(), 0)
        gw.world.barrier()


def test_what_is_refused_is_said_once_in_a_job() -> None:
    outcome = jobs.run_ranks(3, copy_where_nothing_can_be_shared, variables=EMULATED, timeout=120)
    assert outcome.status == 0, str(outcome)
    lines = [line for line in outcome.stderr.splitlines() if line.startswith("gondwana:")]
    assert sum("cannot be attached" in line and "copies to and from it are staged" in line for line in lines) == 1
    assert sum("cannot be pinned" in line for line in lines) == 1
    assert len(lines) == 2


def ask_for_a_device() -> None:
    import gondwana as gw

    gw.cuda(0)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"GONDWANA_CUDA": "", "CUDA_VISIBLE_DEVICES": ""}, "UsageError: "),
        ({"GONDWANA_CUDA": "fast"}, "GONDWANA_CUDA='fast'"),
        ({"GONDWANA_CUDA": "emulated", "GONDWANA_EMULATED_DEVICES": "0"}, "gw.cuda(0): "),
    ],
)
def test_no_device_is_said(variables: dict[str, str], message: str) -> None:
    outcome = jobs.run_ranks(1, ask_for_a_device, variables=variables)
    assert outcome.status != 0
    assert message in outcome.stderr
