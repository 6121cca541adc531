"""Trials on a device: how long launches take, and which of two ways to do the same is faster."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from gondwana.gpu.device import Device
from gondwana.kernels.cuda.tuning_records import recorded

_ROUNDS = 5


def is_faster(first: Callable[[], None], second: Callable[[], None], *, key: tuple[str, ...], device: Device) -> bool:
    """Return whether the first of two ways to do the same on a device is faster than the second. Local; blocks.

    Both are launched a few times and timed by the device; what is found is kept on disk, and is not measured again for
    the same key, name of the device and toolchain. So both must bear to be repeated.

    Args:
        first: launches kernels, and waits for nothing.
        second: launches others.
        key: names what they do, and how large it is.
        device: where they run: `kind.device`.

    Example:
        >>> pays = gw.is_faster(fused, one_by_one, key=("heat", "512x512"), device=gw.cuda().device)    # doctest: +SKIP
    """
    from gondwana.kernels.cuda.launch import toolchain

    def trial() -> dict[str, Any]:
        return {"first": measured(device, first), "second": measured(device, second)}

    found = recorded((device.name, toolchain(), "is_faster", *key), trial)
    return bool(found["first"] < found["second"])


def measured(device: Device, launch: Callable[[], None]) -> float:
    """Return how long launches take on a device, the median of a few [s]. Local; blocks."""
    driver = device.driver
    device.activate()
    launch()
    events = [(driver.new_event(timing=True), driver.new_event(timing=True)) for _ in range(_ROUNDS)]
    for first, last in events:
        driver.record(first, device.compute)
        launch()
        driver.record(last, device.compute)
    driver.finish(device.compute)
    times = [driver.seconds(first, last) for first, last in events]
    for event in (event for both in events for event in both):
        driver.free_event(event)
    return statistics.median(times)
