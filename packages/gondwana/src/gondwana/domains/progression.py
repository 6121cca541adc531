"""Arithmetic progressions: the index sets of one axis, as ascending Python ranges.

A range in normal form ends one past its last element and has step one if it has one element, so that equal sets are
equal in ``start``, ``stop`` and ``step``. ``len`` is not used: it fails beyond the machine word, extents do not.
"""

from __future__ import annotations

from math import gcd

EMPTY = range(0)


def extent(r: range) -> int:
    """Return the number of elements, however large. Local."""
    return max(0, (r.stop - r.start + r.step - 1) // r.step)


def normal(start: int, stop: int, step: int = 1) -> range:
    """Return the normal form of ``range(start, stop, step)`` with a positive step. Local."""
    if stop <= start:
        return EMPTY
    if step == 1:
        return range(start, stop)
    last = stop - 1 - (stop - 1 - start) % step
    return range(start, last + 1, step if last > start else 1)


def intersect(a: range, b: range) -> range:
    """Return the elements that two progressions share, by the Chinese remainder theorem. Local.

    Example:
        >>> intersect(range(0, 100, 6), range(3, 100, 9))
        range(12, 85, 18)
    """
    if a.step == b.step == 1:
        return normal(max(a.start, b.start), min(a.stop, b.stop))
    common = gcd(a.step, b.step)
    shift = b.start - a.start
    if not a or not b or shift % common:
        return EMPTY
    modulus = b.step // common
    member = a.start + a.step * (shift // common * pow(a.step // common, -1, modulus) % modulus)
    step = a.step * modulus
    low = max(a.start, b.start)
    return normal(low + (member - low) % step, min(a.stop, b.stop), step)


def subtract(a: range, b: range) -> list[range]:
    """Return the elements of ``a`` outside its non-empty subset ``b`` as disjoint progressions, in normal form. Local.

    The elements between those of a sparser ``b`` are given by residues or gap by gap, whichever is fewer.

    Example:
        >>> subtract(range(0, 10), range(2, 9, 3))
        [range(0, 2), range(3, 7, 3), range(4, 8, 3), range(9, 10)]
    """
    first, last = b[0], b[-1]
    ratio = b.step // a.step if last > first else 1
    if ratio <= extent(b):
        between = [normal(first + a.step * k, last, b.step) for k in range(1, ratio)]
    else:
        between = [normal(start + a.step, start + b.step, a.step) for start in b[:-1]]
    pieces = [normal(a.start, first, a.step), *between, normal(last + a.step, a.stop, a.step)]
    return [piece for piece in pieces if piece]


def join(a: range, b: range) -> range | None:
    """Return the union if ``b`` continues ``a`` as one progression, else None; both not empty and normal. Local.

    Example:
        >>> join(range(0, 3), range(3, 5)), join(range(0, 5, 2), range(6, 7)), join(range(0, 3), range(4, 6))
        (range(0, 5), range(0, 7, 2), None)
    """
    single_a, single_b = a.stop == a.start + 1, b.stop == b.start + 1
    step = b.step if single_a else a.step
    if b.start - a[-1] != step or not (single_a or single_b or a.step == b.step):
        return None
    return normal(a.start, b.stop, step)


def scale(r: range, factor: int) -> range:
    """Return the elements multiplied by ``factor``, in normal form. Local."""
    ends = (r[0] * factor, r[-1] * factor)
    return normal(min(ends), max(ends) + 1, max(1, r.step * abs(factor)))


def floor_divide(r: range, divisor: int) -> range:
    """Return the elements divided by ``divisor`` and rounded down, in normal form. Local.

    Raises:
        ValueError: the quotients are not equally spaced, because the step is neither at most the divisor nor a
            multiple of it.
    """
    step, size = r.step, abs(divisor)
    if step > size and step % size:
        raise ValueError(f"stride {step} // {divisor} is no stride: legal are multiples of {size} and up to {size}")
    ends = (r[0] // divisor, r[-1] // divisor)
    return normal(min(ends), max(ends) + 1, max(1, step // size))
