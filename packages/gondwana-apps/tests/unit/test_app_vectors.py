"""What solvers share, against plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gondwana_apps.vectors import dot


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 7, 8, 1001])
def test_dot_adds_up_four_sums(first: int, length: int) -> None:
    x, y = np.random.default_rng(length).standard_normal((2, first + length + 2))
    sums = [0.0] * 4
    for i in range(length):
        sums[i % 4 if i < length // 4 * 4 else 0] += x[first + i] * y[first + i]
    found = dot(x, y, first, first + length)
    assert found == (sums[0] + sums[1]) + (sums[2] + sums[3])
    exact = math.fsum(x[first : first + length] * y[first : first + length])
    assert found == pytest.approx(exact, rel=1e-12, abs=1e-12)
