"""Common operations on vectors of the solvers of several applications, in compiled code."""

from __future__ import annotations

from typing import Any

import gondwana as gw


@gw.jit
def dot(x: Any, y: Any, first: int, end: int) -> float:
    """Return x . y over a range of elements, from four partial sums, so that no addition waits for the previous one.

    Local.

    Args:
        x: a vector.
        y: another, or the same.
        first: begin of the range.
        end: end of the range: the element after the last one.
    """
    s0 = s1 = s2 = s3 = 0.0
    whole = end - (end - first) % 4
    for i in range(first, whole, 4):
        s0 += x[i] * y[i]
        s1 += x[i + 1] * y[i + 1]
        s2 += x[i + 2] * y[i + 2]
        s3 += x[i + 3] * y[i + 3]
    for i in range(whole, end):
        s0 += x[i] * y[i]
    return (s0 + s1) + (s2 + s3)
