"""The text of a roll call: ranks at the same place in the program share a line. Pure."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

Place: TypeAlias = tuple[str, str, int]
"""Function, file, line."""

Stack: TypeAlias = list[Place]
"""The places of a thread's frames, outermost first."""

FINISHED: Place = ("", "", 0)
"""The only place in the stack of a rank whose program has finished."""

_PACKAGE = Path(__file__).resolve().parents[2]


def roll_call(reason: str, stacks: Mapping[int, Stack | None]) -> str:
    """Return the report on where all ranks are in the program. Local.

    Args:
        reason: cause of the report.
        stacks: stack of every rank; None if it did not answer.
    """
    groups: dict[Place, list[int]] = {}
    for rank, stack in stacks.items():
        if stack:
            groups.setdefault(user_place(stack), []).append(rank)
    silent = [rank for rank, stack in stacks.items() if not stack]
    places = [f"{name_ranks(ranks)} {_name(place)}" for place, ranks in groups.items()]
    if silent:
        places.append(f"{name_ranks(silent)} did not answer (ended, or busy in compiled code)")
    lines = [f"gondwana: where the ranks stand ({reason}):", f"  {'; '.join(places)}{_advice(groups, silent)}"]
    for place, ranks in groups.items():
        if place == FINISHED:
            continue
        lines.append(f"  rank {ranks[0]}, {_name(place)}:")
        lines += [f"    {function} ({file}:{line})" for function, file, line in program_part(stacks[ranks[0]] or [])]
    return "\n".join(lines) + "\n"


def user_place(stack: Stack) -> Place:
    """Return the innermost place of ``stack`` in the user's own code, or the innermost of all. Local."""
    own = [place for place in stack if not _is_library(place[1])]
    return own[-1] if own else stack[-1]


def has_user_code(stack: Stack) -> bool:
    """Return whether a place of ``stack`` is in the user's own code. Local."""
    return any(not _is_library(file) for _, file, _ in stack)


def program_part(stack: Stack) -> Stack:
    """Return ``stack`` from the first place in the user's own code on, without the start of the program. Local."""
    first = next((depth for depth, place in enumerate(stack) if not _is_library(place[1])), 0)
    return stack[first:]


def name_ranks(ranks: Sequence[int]) -> str:
    """Return ranks as messages name them: "rank 1", "ranks 0, 2, 3" or, for many, "ranks 0-6, 8". Local.

    Args:
        ranks: the ranks, in ascending order.

    Example:
        >>> import gondwana as gw
        >>> gw.name_ranks([0, 1, 2, 3, 6])
        'ranks 0-3, 6'
    """
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and runs[-1][-1] == rank - 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(parts)}"


def _advice(groups: Mapping[Place, list[int]], silent: list[int]) -> str:
    sizes = sorted([(len(ranks), ranks) for ranks in groups.values()] + ([(len(silent), silent)] if silent else []))
    if len(sizes) > 1 and sizes[0][0] < sizes[1][0]:
        return f": look at {name_ranks(sizes[0][1])}"
    return ""


def _name(place: Place) -> str:
    if place == FINISHED:
        return "at the end of the program"
    function, file, line = place
    return f"in {function} ({Path(file).name}:{line})"


@functools.cache
def _libraries() -> tuple[str, ...]:
    import sysconfig  # only to report

    return tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def _is_library(file: str) -> bool:
    if file.startswith(("<frozen", *_libraries())):
        return True
    return Path(file).is_relative_to(_PACKAGE)
