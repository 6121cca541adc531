"""The device of a benchmark: its description, and whether its memory suffices."""

from __future__ import annotations

from typing import Any

from gondwana import Device
from gondwana.memory.cuda_kind import CudaKind
from gondwana.memory.reclaim import reclaim


def describe(device: Device) -> dict[str, Any]:
    """Return the description of a device for a report. Local."""
    driver = device.driver
    return {**device.facts._asdict(), "driver": driver.name, "driver_version": ".".join(map(str, driver.version))}


def shortage(kind: CudaKind, nbytes: int) -> str | None:
    """Return what is missing for an amount of memory, None if it is free. Local; waits for the device."""
    for _ in range(2):  # the first call records events behind the last use, the second frees what they precede
        kind.device.synchronize()
        reclaim()
    free, _ = kind.device.driver.memory()
    if nbytes <= free:
        return None
    return f"it takes {nbytes / 1e9:.1f} GB, and {free / 1e9:.1f} are free on the device"
