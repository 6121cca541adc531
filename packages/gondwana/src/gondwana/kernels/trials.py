"""Trials: how long launches take, and which of two ways to do the same is faster."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

from gondwana.compiler import fingerprint, sources
from gondwana.compiler.multithreading.pool import threads
from gondwana.gpu.device import Device
from gondwana.kernels.cuda.tuning_records import recorded

_ROUNDS = 5


def is_faster(
    first: Callable[[], None], second: Callable[[], None], *, key: tuple[str, ...], device: Device | None
) -> bool:
    """Return whether the first of two ways to do the same is faster than the second. Local; blocks.

    Both are run a few times and timed, by the device if there is one; what is found is kept on disk, and is not
    measured again for the same key, name of the device or number of threads, and toolchain. So both must bear to be
    repeated.

    Args:
        first: launches kernels, and waits for nothing.
        second: launches others.
        key: names what they do, and how large it is.
        device: where they run: `kind.device`, None for the host.

    Example:
        >>> pays = gw.is_faster(fused, one_by_one, key=("heat", "512x512"), device=gw.cuda().device)    # doctest: +SKIP
    """

    def trial() -> dict[str, Any]:
        seconds = _on_host if device is None else functools.partial(measured, device)
        return {"first": seconds(first), "second": seconds(second)}

    found = recorded((*_place(device), "is_faster", *key), trial)
    return bool(found["first"] < found["second"])


def _place(device: Device | None) -> tuple[str, str]:
    """What outcomes depend on, besides what is done."""
    if device is None:
        builders = ("gondwana.kernels.cpu.build.build", "gondwana.kernels.cpu.build_pair.build_pair")
        return f"host, {threads()} threads {sources.digest(*builders, sources.OVERLOADS)}", fingerprint.toolchain()
    from gondwana.kernels.cuda.launch import toolchain

    return device.name, toolchain()


def _on_host(launch: Callable[[], None]) -> float:
    """How long a launch takes, the median of a few [s]."""
    launch()
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        launch()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


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
