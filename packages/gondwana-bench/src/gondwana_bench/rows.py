"""Rows of figures: the headings of their columns, and ours relative to a rival."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, TypeVar

from gondwana.errors import UsageError
from gondwana_bench.statistics import ratio, summarize

Row = dict[str, Any]
T = TypeVar("T")
K = TypeVar("K")
WORD = 8
WIDE = "GONDWANA_WIDE"
"""The variable of `--wide`, which all processes that print tables see."""

HEADINGS = {
    "case": "once", "dtype": "type", "source": "from", "target": "to", "size": "bytes", "nbytes": "bytes",
    "microseconds": "us", "rival_microseconds": "us", "ns_per_cell": "ns/cell", "gb_per_s": "GB/s",
    "ratio": "theirs/ours (95 %)", "ratio_of_best": "of best", "verified": "right",
}  # fmt: skip
"""Usual headings of columns that have other names than their keys."""

Figure = Callable[[Any], Any]
"""Computes a figure from the measurements of a program."""


def columns(keys: str, **headings: str) -> dict[str, str]:
    """Return the headings of a table by the keys of its rows: those given, else the usual ones, else the keys. Local.

    Args:
        keys: keys in the order of the table, separated by blanks.
        headings: headings by key.

    Example:
        >>> columns("loop size verified", size="elements")
        {'loop': 'loop', 'size': 'elements', 'verified': 'right'}
    """
    known = HEADINGS | headings
    return {key: known.get(key, key) for key in keys.split()}


def as_csv(heads: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """Return lines of cells as CSV, below one with the heads. Local."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([heads, *lines])
    return text.getvalue()


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return items by a key of each, in their order. Local.

    Example:
        >>> grouped([1, 2, 3], lambda item: item % 2)
        {1: [1, 3], 0: [2]}
    """
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def check_cases(parts: Sequence[str] | None, names: Sequence[str]) -> None:
    """Check that every part of a name, as `--cases` lists them, is in the name of a case. Local.

    Raises:
        UsageError: names one that is not, and the cases.
    """
    for part in parts or ():
        if not any(part in name for name in names):
            raise UsageError(f"--cases {part}: no case has that in its name; there are {'; '.join(names)}")


def check_ranks(ranks: int, why: str) -> None:
    """Check that there are at least two ranks. Local.

    Args:
        ranks: number of ranks.
        why: The reason for two of them, in words.

    Raises:
        UsageError: fewer ranks.
    """
    if ranks < 2:
        raise UsageError(f"--ranks {ranks}: {why}")


def check_words(why: str, example: str, ranks: int, sizes: Sequence[int]) -> None:
    """Check the ranks, and the sizes of data that consist of words. Local.

    Args:
        why: The reason for two ranks, in words.
        example: legal sizes.
        ranks: number of ranks.
        sizes: bytes.

    Raises:
        UsageError: fewer ranks; or the message has the given sizes and the legal ones.
    """
    check_ranks(ranks, why)
    check_numbers("--sizes", sizes, f"multiples of {WORD} bytes, such as {example}", least=WORD, multiple=WORD)


def check_names(option: str, given: Iterable[str], legal: Iterable[str]) -> None:
    """Check that an option lists legal names only. Local.

    Raises:
        UsageError: a name is not legal; the message has it and those that are.
    """
    for name in given:
        if name not in legal:
            raise UsageError(f"{option} {name}: legal are {', '.join(legal)}")


def check_numbers(option: str, given: Sequence[int], legal: str, *, least: int = 1, multiple: int = 1) -> None:
    """Check that an option lists numbers, and legal ones only. Local.

    Args:
        option: name of the option.
        given: the numbers.
        legal: the legal numbers in words.
        least: the smallest legal number.
        multiple: number that divides all of them.

    Raises:
        UsageError: the message has the given numbers and the legal ones.
    """
    if not given or any(number < least or number % multiple for number in given):
        raise UsageError(f"{option} {','.join(map(str, given))}: give {legal}")


def beside_c(samples: Mapping[str, Sequence[float]], verified: bool, prefix: str = "c_", **figures: Figure) -> Row:
    """Return the part of a row that compares ours with C. Local.

    Args:
        samples: seconds of "ours" and "c", one a round.
        verified: whether both computed the same.
        prefix: beginning of the keys of C, or of the rival in its place.
        figures: functions as for `beside`.
    """
    ours, theirs = samples["ours"], samples["c"]
    more = {"ratio_of_best": min(theirs) / min(ours), "verified": verified}
    return beside(theirs, ours, prefix, more, **figures)


def relative(theirs: Sequence[float] | None, ours: Sequence[float], key: str = "ratio") -> Row:
    """Return our speed relative to theirs, the inverse ratio of the times; None without theirs. Local."""
    if theirs is None:
        return dict.fromkeys((key, f"{key}_low", f"{key}_high"))
    speed = ratio(theirs, ours)
    return with_interval(key, speed.value, speed.low, speed.high)


def with_interval(key: str, value: float, low: float, high: float) -> Row:
    """Return a figure and the ends of its interval. Local."""
    return {key: value, f"{key}_low": low, f"{key}_high": high}


def beside(
    theirs: Sequence[float] | None,
    ours: Sequence[float],
    prefix: str = "rival_",
    more: Mapping[str, Any] = MappingProxyType({}),
    **figures: Figure,
) -> Row:
    """Return the part of a row that compares ours with a rival, from seconds of both, one a round. Local.

    Args:
        theirs: seconds of the rival; None without one.
        ours: seconds of ours.
        prefix: beginning of the keys of the rival.
        more: entries between the ratio and the seconds.
        figures: functions of the median of the seconds, as for `both`.
    """
    mine, other = summarize(ours), None if theirs is None else summarize(theirs)
    return {
        **both(mine.median, other and other.median, prefix, **figures),
        **relative(theirs, ours),
        **more,
        **both(mine, other, prefix, seconds=asdict),
    }


def both(ours: Any, theirs: Any, prefix: str, **figures: Figure) -> Row:
    """Return figures of ours and, with a prefix to their keys, of a rival; None without one. Local.

    Args:
        ours: data from which the figures are computed.
        theirs: the same of the rival; None without one.
        prefix: beginning of the keys of the rival.
        figures: function for each figure, by its key.

    Example:
        >>> both(2.0, None, "c_", double=lambda x: 2 * x)
        {'double': 4.0, 'c_double': None}
    """
    return {
        start + key: None if of is None else figure(of)
        for key, figure in figures.items()
        for start, of in (("", ours), (prefix, theirs))
    }


def judged(goal: float | None, found: float, words: str, *, most: bool = False) -> Row:
    """Return the part of a row that says a goal and whether it is met; Nones without one. Local.

    Args:
        goal: the least, or the most, that is wanted.
        found: figure that is compared with the goal.
        words: form of the goal.
        most: whether less is better.

    Example:
        >>> judged(2.0, 3.0, "{:g} x")
        {'goal': '>= 2 x', 'met': True}
    """
    if goal is None:
        return {"goal": None, "met": None}
    return {"goal": f"{'<=' if most else '>='} {words.format(goal)}", "met": found <= goal if most else found >= goal}


def in_milliseconds(seconds: float) -> float:
    """Return seconds in milliseconds. Local."""
    return seconds * 1e3


def in_microseconds(seconds: float) -> float:
    """Return seconds in microseconds. Local."""
    return seconds * 1e6
