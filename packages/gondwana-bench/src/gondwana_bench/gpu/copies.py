"""The speed of copies within a device, by its driver and by a kernel: an upper bound for sweeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

import gondwana as gw
from gondwana.memory.cuda_kind import CudaKind
from gondwana_bench.gpu.devices import on_device, shortage
from gondwana_bench.measure import interleave
from gondwana_bench.rows import Row, columns, relative
from gondwana_bench.statistics import summarize

COLUMNS = columns(
    "size dtype nbytes driver_gb_per_s kernel_gb_per_s ratio verified",
    size="side", driver_gb_per_s="driver, GB/s", kernel_gb_per_s="foreach, GB/s", ratio="driver/foreach (95 %)",
    verified="same",
)  # fmt: skip


@gw.foreach
def copy_cells(p: gw.Point, target: Any, source: Any) -> None:
    """Copy an array."""
    target[p] = source[p]


@gw.foreach
def number_cells(p: gw.Point, a: Any) -> None:
    """Set each cell to a value that no cell near it has."""
    a[p] = gw.random(1, p, 0, a.dtype)


@gw.reduce(op="max")
def difference(p: gw.Point, a: Any, b: Any) -> float:
    """Return the largest difference of two arrays."""
    return abs(a[p] - b[p])  # type: ignore[no-any-return]


def measure(
    kind: CudaKind,
    sizes: Sequence[int],
    dtypes: Sequence[str],
    *,
    note: Callable[[str], None] = print,
    **timing: Any,
) -> Iterator[Row]:
    """Copy arrays of the sizes of the sweeps, ghosts included, one row each. Local; bytes read and written count.

    Args:
        kind: memory of the device.
        sizes: cells a side of a cube.
        dtypes: "float64", "float32".
        note: function that is called with each case that was left out, and the reason.
        timing: options of `measure.interleave`.

    Returns:
        Rows with GB/s (10^9) of both ways, their ratio, and whether the kernel's copy equals the source.
    """
    for size in sizes:
        for dtype in dtypes:
            missing = shortage(kind, 2 * (size + 2) ** 3 * np.dtype(dtype).itemsize)
            if missing is None:
                yield _measure_one(kind, size, dtype, timing)
            else:
                note(f"left out copies of {size}^3, {dtype}: {missing}")


def _measure_one(kind: CudaKind, size: int, dtype: str, timing: Mapping[str, Any]) -> Row:
    device = kind.device
    source, target = (gw.zeros((size,) * 3, dtype, ghost=1, order="F", kind=kind) for _ in range(2))
    nbytes = source.local.nbytes
    domain = source.local.domain
    number_cells(domain, source)
    extents = [array.local.extent for array in (source, target)]
    (start, _), (first, end) = extents

    def by_driver() -> None:
        device.driver.copy(first, start, end - first, device.compute)

    def by_kernel() -> None:
        copy_cells(domain, target, source)

    variants = {"driver": on_device(device, by_driver), "kernel": on_device(device, by_kernel)}
    samples = interleave(variants, **timing)
    target.fill(-1.0)
    by_kernel()
    verified = difference(domain, target, source) == 0.0
    driver, kernel = (summarize(samples[name]) for name in ("driver", "kernel"))
    source.close()
    target.close()
    return {
        "size": size,
        "dtype": dtype,
        "nbytes": nbytes,
        "driver_gb_per_s": 2e-9 * (end - first) / driver.median,
        "kernel_gb_per_s": 2e-9 * nbytes / kernel.median,
        **relative(samples["driver"], samples["kernel"]),
        "verified": verified,
        "seconds": {"driver": asdict(driver), "kernel": asdict(kernel)},
    }
