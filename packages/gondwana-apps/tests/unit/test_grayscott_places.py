"""Where the Gray-Scott app runs: what is chosen, what is said, and what is refused before anything starts."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

import gondwana as gw
from gondwana.cli import programs
from gondwana.cli.run import Device, device_option
from gondwana.errors import UsageError
from gondwana.memory.cuda_kind import CudaKind
from gondwana_apps import gpus
from gondwana_apps.grayscott import devices
from gondwana_apps.grayscott.devices import Demand, short_of_memory
from gondwana_apps.grayscott.settings import resolve

GIB = 2**30


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "lacking", lambda: "there is none")


@pytest.fixture
def a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "lacking", lambda: "")
    monkeypatch.setattr(gw, "cuda", lambda: CudaKind(0))


def test_without_a_gpu_only_who_asks_for_one_is_refused(no_gpu: None, capfd: pytest.CaptureFixture[str]) -> None:
    assert devices.check(resolve({})) is False
    assert devices.check(resolve({"device": "auto"})) is False
    with pytest.raises(UsageError, match='device: "cuda" cannot be had: there is none; or set device to') as error:
        devices.check(resolve({"backend": "CUDA"}))
    assert "\n" not in str(error.value)
    assert devices.choose(resolve({}), gw.world) is gw.host
    assert capfd.readouterr().err == ""
    assert devices.choose(resolve({"device": "auto"}), gw.world) is gw.host
    assert capfd.readouterr().err == 'gondwana: device "auto" is the host: rank 0: there is none\n'


def test_with_a_gpu_auto_takes_it(a_gpu: None) -> None:
    assert devices.check(resolve({"device": "cuda"})) is True
    assert devices.check(resolve({"device": "auto"})) is True
    assert devices.check(resolve({})) is False
    assert devices.choose(resolve({"device": "auto"}), gw.world) == CudaKind(0)
    assert devices.choose(resolve({"device": "cuda"}), gw.world) == CudaKind(0)
    assert devices.choose(resolve({}), gw.world) is gw.host


def test_a_login_node_needs_no_gpu(no_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert devices.check(resolve({"device": "cuda"})) is True
    assert devices.check(resolve({"device": "auto"})) is False
    monkeypatch.setenv("PMI_RANK", "0")  # a rank, not the launcher
    with pytest.raises(UsageError):
        devices.check(resolve({"device": "cuda"}))


def test_ranks_that_share_a_device_share_its_memory() -> None:
    settings = resolve({"L": 1024})
    alone = [Demand(f"GPU-{rank}", "H200", 60 * GIB, 100 * GIB) for rank in range(2)]
    assert short_of_memory(settings, alone) == ""
    sharing = [Demand("GPU-0", "H200", 60 * GIB, 100 * GIB), None, Demand("GPU-0", "H200", 50 * GIB, 104 * GIB)]
    line = short_of_memory(settings, sharing)
    assert line == (
        "L: 1024^3 cells in Float64 need 110 GiB on the H200 of ranks 0, 2 and 100 GiB are free; "
        "set L to at most 991, or use more GPUs"
    )
    assert short_of_memory(settings, [None, None]) == ""
    assert "free some memory" in short_of_memory(resolve({"L": 16}), [Demand("GPU-0", "H200", 10**6, 10)])


def test_the_device_of_a_run_becomes_an_argument_of_the_application() -> None:
    assert device_option("gray-scott", None, module=False) == []
    assert device_option("gray-scott", Device.cuda, module=False) == ["--device", "cuda"]
    assert device_option("gray-scott", Device.host, module=False) == ["--device", "host"]
    assert device_option("no such program", Device.cuda, module=False) == []


def test_programs_and_applications_without_devices_refuse_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"a program decides itself where its arrays lie.*leave the option out"):
        device_option(__file__, Device.cuda, module=False)
    entry = EntryPoint("elsewhere", "gondwana_apps.grayscott.kernels", programs.PROGRAMS)
    monkeypatch.setitem(programs.added(programs.PROGRAMS), "elsewhere", entry)
    with pytest.raises(UsageError, match="--device cuda: elsewhere does not run there; leave the option out"):
        device_option("elsewhere", Device.cuda, module=False)
