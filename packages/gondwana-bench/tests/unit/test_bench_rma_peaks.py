"""The peaks of `gondwana bench rma`: sizes that reach a part of the largest bandwidth."""

from __future__ import annotations

from typing import Any

import pytest

from gondwana.results import units_of
from gondwana_bench.rma.peaks import COLUMNS, peaks, size_that_reaches

CURVE = {8: 1.0, 64: 2.0, 512: 8.0, 4096: 16.0, 32768: 12.0}


def row(operation: str, size: int, ours: float, theirs: float, **others: Any) -> dict[str, Any]:
    common = {"operation": operation, "rival": "C", "size": size, "unit": "GB/s", "verified": True}
    return {**common, "ours": ours, "theirs": theirs, **others}


@pytest.mark.parametrize(
    ("fraction", "size"),
    [(0.5, 512), (1.0, 4096), (0.75, round((512 * 4096) ** 0.5)), (1 / 16, 8), (0.01, 8), (0.25, 128)],
)
def test_between_two_sizes_the_bandwidth_grows_with_the_logarithm(fraction: float, size: int) -> None:
    assert size_that_reaches(fraction, CURVE) == size


def test_the_first_crossing_counts_where_the_bandwidth_falls_again() -> None:
    assert size_that_reaches(0.9, {8: 1.0, 16: 10.0, 32: 5.0, 64: 9.5}) == round(8 * 2 ** (8 / 9))


def test_a_flat_bandwidth_is_reached_by_the_smallest_size() -> None:
    assert size_that_reaches(0.9, {8: 2.0, 16: 2.0}) == 8


def test_ours_and_rivals_have_a_row_each() -> None:
    rows = [row("put flood", size, figure, 2 * figure) for size, figure in CURVE.items()]
    rows += [row("copy flood", 8, 1.0, 2.0, verified=False), row("put", 8, 1.0, 2.0, unit="us")]
    found = peaks(rows)
    assert [(one["operation"], one["peak_gb_per_s"], one["peak_nbytes"]) for one in found] == [
        ("C", 32.0, 4096),
        ("put flood", 16.0, 4096),
    ]
    assert [one["verified"] for one in found] == [False, True]  # one comparison with C was wrong
    assert [one["half_nbytes"] for one in found] == [512, 512]
    assert all(list(COLUMNS) == list(one) for one in found)
    assert units_of("rma", found)["nine_tenths_nbytes"] == "B"


def test_one_size_has_no_peak() -> None:
    assert peaks([row("put flood", 8, 1.0, 2.0)]) == []
