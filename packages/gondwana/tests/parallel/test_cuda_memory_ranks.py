"""CUDA memory of the emulated GPU in jobs of their own: on two hosts, where nothing can be shared, without a device."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import jobs, two_hosts

pytestmark = pytest.mark.parallel

CHECKS = Path(__file__).parent / "programs" / "cuda_memory_checks.py"
EMULATED = {"GONDWANA_CUDA": "emulated"}


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
