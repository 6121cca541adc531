"""Whether MPI takes device memory: what the user says, else what MPI says; and the form in which it gets it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from gondwana.errors import UsageError
from gondwana.teams import addresses, device_memory, mpi
from gondwana.teams.device_memory import DeviceBytes

ANSWER = ctypes.CFUNCTYPE(ctypes.c_int)


@pytest.fixture(autouse=True)
def undecided(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("GONDWANA_MPI_CUDA", raising=False)
    monkeypatch.setattr(mpi, "is_running", lambda: True)
    device_memory.is_taken.cache_clear()
    yield
    device_memory.is_taken.cache_clear()


def stand_in(monkeypatch: pytest.MonkeyPatch, answer: Callable[[], int] | None) -> None:
    """An MPI that gives an answer, or cannot be asked."""
    function = None if answer is None else ANSWER(answer)

    def find(name: str) -> int:
        if function is None:
            raise AttributeError(name)
        assert name == "MPIX_Query_cuda_support"
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    monkeypatch.setattr(addresses, "function", find)


@pytest.mark.parametrize(("answer", "claimed"), [(lambda: 1, True), (lambda: 0, False), (None, None)])
def test_mpi_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[], int] | None, claimed: bool | None
) -> None:
    stand_in(monkeypatch, answer)
    assert device_memory.claimed() is claimed
    assert device_memory.is_taken() is bool(claimed)
    stand_in(monkeypatch, lambda: not claimed)
    assert device_memory.is_taken() is bool(claimed)


@pytest.mark.parametrize("forced", ["0", "1"])
def test_the_user_decides(monkeypatch: pytest.MonkeyPatch, forced: str) -> None:
    stand_in(monkeypatch, lambda: 1 - int(forced))
    monkeypatch.setenv("GONDWANA_MPI_CUDA", forced)
    assert device_memory.is_taken() is (forced == "1")


def test_without_mpi_nothing_is_given_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi, "is_running", lambda: False)
    monkeypatch.setenv("GONDWANA_MPI_CUDA", "1")
    assert not device_memory.is_taken()


def test_illegal_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONDWANA_MPI_CUDA", "yes")
    for call in (device_memory.is_taken, lambda: device_memory.check_environment(None)):
        with pytest.raises(UsageError, match="GONDWANA_MPI_CUDA='yes': legal are 1"):
            call()


def test_parts_of_device_memory() -> None:
    whole = DeviceBytes(1000, 100, np.zeros(1))
    part = whole[20:50][5:]
    assert (part.address, part.nbytes, part.size) == (1025, 25, 25)
    assert part.__cuda_array_interface__["data"] == (1025, False)
    assert part.__cuda_array_interface__["shape"] == (25,)
    assert whole[90:200].nbytes == 10
