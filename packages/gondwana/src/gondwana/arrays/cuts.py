"""The cuts of the axes of a layout: widths of blocks as they are given, or from weights. Pure values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError

T = TypeVar("T")

Cuts: TypeAlias = tuple[tuple[int, ...] | None, ...]
"""Widths of the blocks along each axis, None for an axis that is cut by its division."""

_ACCEPTED: dict[type, Any] = {int: int | np.integer, bool: bool | np.bool_}


def per_axis(name: str, value: Any, ndim: int, kind: type[T]) -> tuple[T, ...]:
    """Return one value for each axis: given once, or as a sequence. Local.

    Args:
        name: name of the argument, for messages.
        value: the argument.
        ndim: number of axes.
        kind: type of a value: int or bool.

    Raises:
        UsageError: the argument is no such value, nor one for each axis.
    """
    values = tuple(value) if isinstance(value, Sequence | np.ndarray) else (value,) * ndim
    plain = kind is bool or not any(isinstance(item, bool | np.bool_) for item in values)
    if len(values) != ndim or not plain or not all(isinstance(item, _ACCEPTED[kind]) for item in values):
        raise UsageError(f"{name}={value!r}: give one {kind.__name__}, or one for each of the {ndim} axes")
    return tuple(kind(item) for item in values)  # type: ignore[call-arg]


def checked_cuts(cuts: Any, shape: Sequence[int]) -> Cuts | None:
    """Return the widths of the blocks along each axis as plain integers; None if no axis has any. Local.

    Args:
        cuts: the argument of `Layout.divide`.
        shape: extents of the domain.

    Raises:
        UsageError: the argument is illegal.
    """
    problem = f"cuts={cuts!r}: give for each of the {len(shape)} axes the widths of its blocks, or None"
    if not isinstance(cuts, Sequence) or len(cuts) != len(shape):
        raise UsageError(problem)
    found: list[tuple[int, ...] | None] = []
    for axis, (given, length) in enumerate(zip(cuts, shape, strict=True)):
        if given is None:
            found.append(None)
            continue
        if not isinstance(given, Sequence | np.ndarray) or not len(given):
            raise UsageError(problem)
        widths = per_axis("cuts", given, len(given), int)
        if min(widths) < 0 or sum(widths) != length:
            raise UsageError(
                f"cuts={cuts!r}: the widths of axis {axis} add up to {sum(widths)}: give widths of 0 or more that add "
                f"up to its extent, {length}"
            )
        found.append(widths)
    return tuple(found) if any(found) else None


def balanced_widths(axis: int, weights: npt.ArrayLike, length: int, parts: int) -> tuple[int, ...]:
    """Return the widths of so many blocks along an axis whose largest weight is the smallest possible. Local.

    Among such widths each block, from the first on, comes as near to its share of what is left as it can.

    Args:
        axis: axis, for messages.
        weights: weight of each coordinate.
        length: number of coordinates.
        parts: number of blocks.

    Raises:
        UsageError: a weight is negative, their sum is not finite, or their number is another one.
    """
    given = np.asarray(weights)
    fit = given.shape == (length,) and given.dtype.kind in "biuf" and given.min() >= 0
    with np.errstate(over="ignore"):
        sums = np.concatenate([[0.0], np.cumsum(given if fit and given.any() else np.ones(length), dtype=np.float64)])
    if not fit or not np.isfinite(sums[-1]):
        raise UsageError(
            f"weights of axis {axis} of shape {given.shape} and {given.dtype}: give {length} numbers of 0 or more with "
            "a finite sum"
        )
    # Bisection: the first bound is met, the other one is not, until no number lies between them.
    met, unmet = float(sums[-1]), 0.0
    while unmet < (bound := 0.5 * (met + unmet)) < met:
        if _latest_starts(sums, parts, bound)[0] == 0:
            met = bound
        else:
            unmet = bound
    starts, cut = _latest_starts(sums, parts, met), [0]
    for place in range(1, parts):
        share = sums[cut[-1]] + (sums[-1] - sums[cut[-1]]) / (parts - place + 1)
        near = int(np.searchsorted(sums, share))
        near -= near > cut[-1] and share - sums[near - 1] < sums[near] - share
        most = int(np.searchsorted(sums, sums[cut[-1]] + met, "right")) - 1
        cut.append(max(cut[-1], starts[place], min(near, most)))
    return tuple(np.diff([*cut, length]).tolist())


def _latest_starts(sums: npt.NDArray[np.float64], parts: int, bound: float) -> list[int]:
    """Where each block has to start at the earliest, from the last one back, so that none is heavier than a bound."""
    starts, end = [0] * parts, len(sums) - 1
    for place in reversed(range(parts)):
        end = starts[place] = int(np.searchsorted(sums, sums[end] - bound))
    return starts
