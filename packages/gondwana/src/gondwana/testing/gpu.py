"""The emulated GPU as the GPU of this process, for a while."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from gondwana.gpu import device as devices
from gondwana.gpu.driver import EMULATED, VARIABLE, driver
from gondwana.memory import reclaim

_devices: dict[int, devices.Device] = {}
"""The devices, the same for all tests: kernels that several of them use stay loaded there."""


@contextmanager
def emulated_gpu(*, fresh: bool = False) -> Iterator[None]:
    """Let this process find the emulated GPU, and afterwards its former driver. Local.

    Args:
        fresh: whether it is a new one, for tests that leave it unusable. Other tests share one, on which the kernels
            of all of them stay loaded.

    Raises:
        UsageError: when a GPU is first used, if the package `gondwana-emulator` is not installed.

    Example:
        >>> from gondwana.testing.gpu import emulated_gpu
        >>> with emulated_gpu():
        ...     T = gw.full((2, 3), 1.5, kind=gw.cuda(0))
        ...     float(T.to_numpy().sum())
        9.0
    """
    kept = {} if fresh else _devices
    with mock.patch.dict(os.environ, {VARIABLE: EMULATED}), mock.patch.object(devices, "_devices", kept):
        _forget()
        gc.freeze()  # older objects need not be looked through
        try:
            yield
            gc.collect()
            for one in devices.opened():
                one.synchronize()
            reclaim.reclaim()  # the next one may give out the same addresses
        finally:
            _forget()


def _forget() -> None:
    driver.cache_clear()
    devices.own_number.cache_clear()
