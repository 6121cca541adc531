"""Which device a rank uses, and the line that says so."""

from __future__ import annotations

import pytest

from gondwana.errors import UsageError
from gondwana.gpu import device
from gondwana.gpu.device import Use
from support.recording_driver import RecordingDriver

H200, A100 = "NVIDIA H200", "NVIDIA A100"


def use(number: int, physical: int, *, node: int = 0, name: str = H200) -> Use:
    return Use(node, f"n{node}", number, name, f"GPU-{node}-{physical}", f"0000:{physical:02x}:00.0")


def test_one_node_names_every_rank() -> None:
    uses = [use(rank % 2, rank % 2) for rank in range(4)]
    assert device.describe(uses) == "4 ranks of n0 on 2 GPUs: NVIDIA H200 (0: ranks 0, 2; 1: ranks 1, 3)"
    assert device.describe([use(0, 0)]) == "1 rank of n0 on 1 GPU: NVIDIA H200 (0: rank 0)"


def test_devices_are_told_apart_by_what_they_are() -> None:
    apart = [use(0, rank) for rank in range(2)]  # every rank sees one device, another one
    assert device.describe(apart) == (
        "2 ranks of n0 on 2 GPUs: NVIDIA H200 (0000:00:00.0: rank 0; 0000:01:00.0: rank 1)"
    )
    shared = [use(0, 3), use(1, 3)]  # one device by two numbers
    assert device.describe(shared) == "2 ranks of n0 on 1 GPU: NVIDIA H200 (0000:03:00.0: ranks 0, 1)"


def test_different_products_are_named() -> None:
    uses = [use(0, 0, name=A100), use(1, 1)]
    assert device.describe(uses) == "2 ranks of n0 on 2 GPUs: NVIDIA A100 (0: rank 0), NVIDIA H200 (1: rank 1)"


def test_nodes_that_are_alike_are_counted() -> None:
    uses = [use(rank % 2, rank % 2, node=rank // 4) for rank in range(16)]
    assert device.describe(uses) == "4 ranks on 2 GPUs (NVIDIA H200) on each of 4 nodes"
    uses += [use(0, 0, node=4, name=A100), use(1, 1, node=4)]
    assert device.describe(uses) == (
        "4 ranks on 2 GPUs (NVIDIA H200) on each of 4 nodes; 2 ranks on 2 GPUs (1 NVIDIA A100, 1 NVIDIA H200) on n4"
    )


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> RecordingDriver:
    one = RecordingDriver(3)
    monkeypatch.setattr(device, "driver", lambda: one)
    device.own_number.cache_clear()
    return one


def test_the_choice_is_said_once(recorder: RecordingDriver, capfd: pytest.CaptureFixture[str]) -> None:
    assert device.own_number() == 0
    assert device.own_number() == 0
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("gondwana: 1 rank of ")
    assert lines[0].endswith(" on 1 GPU: GPU 0 (0: rank 0)")
    device.own_number.cache_clear()


def test_a_rank_without_a_device_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> RecordingDriver:
        raise UsageError("this machine has no CUDA driver")

    monkeypatch.setattr(device, "driver", none)
    device.own_number.cache_clear()
    with pytest.raises(UsageError, match="no CUDA driver"):
        device.own_number()
