"""Trials: how long launches take, which of two ways to do the same is faster, and what was found, kept on disk.

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


def recorded(key: tuple[str, ...], trial: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what the record of a key says, made by a trial now if there is none. Local; blocks.

    Args:
        key: all that the outcome depends on.
        trial: returns values for JSON.
    """
    name = hashlib.sha256("\0".join(key).encode()).hexdigest()
    if name not in _known:
        folder = _folder()
        _known[name] = trial() if folder is None else _from_disk(folder / f"{name}.json", trial)
    return _known[name]


def _place(device: Device | None) -> tuple[str, str]:
    """What outcomes depend on, besides what is done."""
    if device is None:
        builders = ("gondwana.kernels.cpu.build.build", "gondwana.kernels.cpu.build.build_pair")
        return f"host, {threads()} threads {sources.digest(*builders, sources.OVERLOADS)}", cache.toolchain()
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
    """A record, None if there is none, or it is damaged."""
    try:
        found = json.loads(read(file) or b"null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
