"""The peak of a bandwidth over the size of the transfers, and the sizes that reach half and nine tenths of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gondwana_bench.rows import Row, columns

HALF, NINE_TENTHS = 0.5, 0.9

COLUMNS = columns(
    "operation peak_gb_per_s peak_nbytes half_nbytes nine_tenths_nbytes verified",
    peak_gb_per_s="peak GB/s", peak_nbytes="at bytes", half_nbytes="N1/2", nine_tenths_nbytes="N0.9",
)  # fmt: skip


def peaks(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each operation that the rows give a bandwidth of several sizes of. Local.

    Args:
        rows: rows of `transfers.measure`.
    """
    bandwidths: dict[str, dict[int, float]] = {}
    wrong: set[str] = set()
    for row in rows:
        if row["unit"] != "GB/s":
            continue
        for name, figure in ((row["operation"], row["ours"]), (row["rival"], row["theirs"])):
            bandwidths.setdefault(name, {})[row["size"]] = figure
            if not row["verified"]:
                wrong.add(name)
    return [
        _row(name, of_sizes, name not in wrong) for name, of_sizes in sorted(bandwidths.items()) if len(of_sizes) > 1
    ]


def size_that_reaches(fraction: float, bandwidths: Mapping[int, float]) -> int:
    """Return the smallest size with a fraction of the peak, to the next byte. Local.

    Args:
        fraction: fraction of the largest bandwidth, above 0 and at most 1.
        bandwidths: bandwidth by size [bytes]. Between two sizes it is taken to grow with the logarithm of the size.
            If the smallest size has enough, that is returned: smaller ones were not measured.

    Example:
        >>> size_that_reaches(0.5, {8: 1.0, 32: 3.0, 128: 4.0})
        16
    """
    wanted = fraction * max(bandwidths.values())
    sizes = sorted(bandwidths)
    last = sizes[0]
    for size in sizes:
        if bandwidths[size] >= wanted:
            break
        last = size
    if size == last:
        return size
    share = (wanted - bandwidths[last]) / (bandwidths[size] - bandwidths[last])
    return round(last * math.exp2(share * math.log2(size / last)))


def _row(name: str, bandwidths: Mapping[int, float], verified: bool) -> Row:
    at = max(bandwidths, key=bandwidths.__getitem__)
    return {
        "operation": name,
        "peak_gb_per_s": bandwidths[at],
        "peak_nbytes": at,
        "half_nbytes": size_that_reaches(HALF, bandwidths),
        "nine_tenths_nbytes": size_that_reaches(NINE_TENTHS, bandwidths),
        "verified": verified,
    }
