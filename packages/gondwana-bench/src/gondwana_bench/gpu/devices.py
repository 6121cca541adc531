"""The device of a benchmark: its description, its memory, its clock, and the resources of its kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gondwana import Device
from gondwana.gpu.interface import Grid
from gondwana.memory.cuda_kind import CudaKind
from gondwana.memory.reclaim import reclaim
from gondwana_bench.measure import Variant

_RESOLUTION = 1e-9
"""Shortest time that is reported [s]: two events of an emulated device may have the same time."""


def describe(device: Device) -> dict[str, Any]:
    """Return the description of a device for a report. Local."""
    driver = device.driver
    return {**device.facts._asdict(), "driver": driver.name, "driver_version": ".".join(map(str, driver.version))}


def shortage(kind: CudaKind, nbytes: int) -> str | None:
    """Return why an amount of memory cannot be had, None if it is free. Local; waits for the device."""
    kind.device.synchronize()
    reclaim()
    free, _ = kind.device.driver.memory()
    if nbytes <= free:
        return None
    return f"it takes {nbytes / 1e9:.1f} GB, and {free / 1e9:.1f} are free on the device"


def on_device(device: Device, start: Callable[[], object]) -> Variant:
    """Return a variant from a function that starts work on a device's stream of kernels and does not wait. Local.

    Args:
        device: the device whose clock counts: from the beginning of the first work to the end of the last.
        start: starts the work of one operation.
    """
    device.activate()
    driver = device.driver
    first, last = driver.new_event(timing=True), driver.new_event(timing=True)

    def variant(calls: int) -> float:
        device.activate()
        driver.record(first, device.compute)
        for _ in range(calls):
            start()
        driver.record(last, device.compute)
        driver.await_event(last)
        return max(_RESOLUTION, driver.seconds(first, last))

    return variant


def launched(device: Device, start: Callable[[], object]) -> dict[str, Any]:
    """Run a function and return the resources of the last kernel that it launches, as a row. Local; waits.

    Registers of a thread, bytes of a thread that lie in memory, bytes of a block in shared memory, threads of a block
    along x and y, and blocks.
    """
    driver, seen = device.driver, []

    def launch(entry: int, grid: Grid, block: Grid, shared: int, stream: int, arguments: bytes) -> None:
        seen.append((entry, grid, block, shared))
        type(driver).launch(driver, entry, grid, block, shared, stream, arguments)

    driver.launch = launch  # type: ignore[method-assign]  # whatever launches, this is the one way
    try:
        start()
    finally:
        del driver.launch
    device.synchronize()
    entry, grid, block, shared = seen[-1]
    facts = driver.entry_facts(entry)
    return {
        "registers": facts.registers,
        "local_bytes": facts.local,
        "shared_bytes": facts.shared + shared,
        "block": f"{block[0]}x{block[1]}",
        "blocks": grid[0] * grid[1] * grid[2],
    }
