"""The device of a benchmark: what it is, and whether something fits its memory."""

from __future__ import annotations

from typing import Any

from gondwana.gpu.device import Device
from gondwana.memory.cuda_kind import CudaKind
from gondwana.memory.reclaim import reclaim


def describe(device: Device) -> dict[str, Any]:
    """Return what a device is, for a report. Local."""
    driver = device.driver
    return {**device.facts._asdict(), "driver": driver.name, "driver_version": ".".join(map(str, driver.version))}


def shortage(kind: CudaKind, nbytes: int) -> str | None:
    """Tell what is missing for so much memory; None if it fits. Local; waits for the device."""
    for _ in range(2):  # what was given back is marked first, and free when the device has passed the mark
        kind.device.synchronize()
        reclaim()
    free, _ = kind.device.driver.memory()
    if nbytes <= free:
        return None
    return f"it takes {nbytes / 1e9:.1f} GB, and {free / 1e9:.1f} are free on the device"
