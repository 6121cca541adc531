"""The emulated GPU as the GPU of the process of the tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gondwana.gpu import choice
from gondwana.gpu import device as devices
from gondwana.gpu.driver import VARIABLE, driver
from gondwana.memory import reclaim

_devices: dict[int, devices.Device] = {}
"""The same ones for all tests: kernels that several of them use stay loaded there."""


@contextmanager
def emulated_gpu(*, fresh: bool = False) -> Iterator[None]:
    """Have this process find the emulated GPU, and afterwards what was there before.

    A fresh one is for tests after which nothing can be done with it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "emulated")
        patch.setattr(devices, "_devices", {} if fresh else _devices)
        _forget()
        gc.freeze()  # what was there before need not be looked through
        yield
        gc.collect()
        for one in devices.opened():
            one.synchronize()
        reclaim.reclaim()  # the next one may give out the same addresses
    _forget()


def _forget() -> None:
    driver.cache_clear()
    choice.own.cache_clear()
