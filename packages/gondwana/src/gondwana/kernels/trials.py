"""Trials: the time of launches, the faster of two ways to do the same, and the results, kept on disk.

One process of a node makes a trial, the others wait and read.
"""

from __future__ import annotations

import functools
import hashlib
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gondwana.compiler import cache, sources
from gondwana.compiler.multithreading.pool import threads
from gondwana.gpu.device import Device
from gondwana.runtime.cache_folder import cache_folder, keep, locked, read

_ROUNDS = 5

_known: dict[str, dict[str, Any]] = {}


def is_faster(
    first: Callable[[], None], second: Callable[[], None], *, key: tuple[str, ...], device: Device | None
) -> bool:
    """Return whether the first of two ways to do the same is faster than the second. Local; blocks.

    Both are run a few times and timed, by the device if there is one; the result is kept on disk, and is not measured
    again for the same key, name of the device or number of threads, and toolchain. So both must be repeatable.

    Args:
        first: launches kernels, and does not wait.
        second: launches others.
        key: names of the work and of its size.
        device: device that runs them: `kind.device`, None for the host.

    Example:
        >>> pays = gw.is_faster(fused, one_by_one, key=("heat", "512x512"), device=gw.cuda().device)    # doctest: +SKIP
    """

    def trial() -> dict[str, Any]:
        seconds = _on_host if device is None else functools.partial(measured, device)
        return {"first": seconds(first), "second": seconds(second)}

    found = recorded((*_place(device), "is_faster", *key), trial)
    return bool(found["first"] < found["second"])


def measured(device: Device, launch: Callable[[], None]) -> float:
    """Return the time of launches on a device, the median of a few [s]. Local; blocks."""
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


def recorded(key: tuple[str, ...], trial: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the record of a key, made by a trial now if it is missing. Local; blocks.

    Args:
        key: everything that the outcome depends on.
        trial: returns values for JSON.
    """
    name = hashlib.sha256("\0".join(key).encode()).hexdigest()
    if name not in _known:
        folder = _folder()
        _known[name] = trial() if folder is None else _from_disk(folder / f"{name}.json", trial)
    return _known[name]


def _place(device: Device | None) -> tuple[str, str]:
    """The facts that outcomes depend on, besides the work."""
    if device is None:
        builders = ("gondwana.kernels.cpu.build.build", "gondwana.kernels.cpu.build.build_pair")
        return f"host, {threads()} threads {sources.digest(*builders, sources.OVERLOADS)}", cache.toolchain()
    from gondwana.kernels.cuda.launch import toolchain

    return device.name, toolchain()


def _on_host(launch: Callable[[], None]) -> float:
    """The time of a launch, the median of a few [s]."""
    launch()
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        launch()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@functools.cache
def _folder() -> Path | None:
    return cache_folder("trials")


def _from_disk(file: Path, trial: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    found = _read(file)
    if found is not None:
        return found
    with locked(file):
        found = _read(file)
        if found is None:
            found = trial()
            keep(file, json.dumps(found).encode())
    return found


def _read(file: Path) -> dict[str, Any] | None:
    """A record, None if it is missing or damaged."""
    try:
        found = json.loads(read(file) or b"null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
