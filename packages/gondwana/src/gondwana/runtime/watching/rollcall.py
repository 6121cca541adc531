"""The text of a roll call: ranks at the same place in the program share a line. Pure."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from gondwana.runtime.watching.waits import Wait

Place: TypeAlias = tuple[str, str, int]
"""Function, file, line."""

Stack: TypeAlias = list[Place]
"""The places of a thread's frames, outermost first."""

FINISHED: Place = ("", "", 0)
"""The only place in the stack of a rank whose program has finished."""


class Stand(NamedTuple):
    """Where a rank is in the program.

    Attributes:
        stack: places of its main thread; empty if it did not answer.
        wait: what it waits for, None if it does not wait or nobody knows.
    """

    stack: Stack
    wait: Wait | None = None

    @classmethod
    def read(cls, message: Any) -> Stand:
        """Return what another rank has sent in JSON.

        Raises:
            TypeError: it is something else.
            ValueError: it is something else.
        """
        stack, wait = message
        if wait is not None:
            what, kind, ranks, nbytes, tag = wait
            wait = Wait(str(what), str(kind), tuple(map(int, ranks)), int(nbytes), int(tag))
        return cls([(str(name), str(file), int(line)) for name, file, line in stack], wait)


_PACKAGE = Path(__file__).resolve().parents[2]


def roll_call(reason: str, stands: Mapping[int, Stand], advice: str = "") -> str:
    """Return the report on where all ranks are in the program, and what they wait for. Local.

    Args:
        reason: cause of the report.
        stands: where every rank is.
        advice: what to change, if that is known.
    """
    groups: dict[tuple[Place, str], list[int]] = {}
    for rank, stand in stands.items():
        if stand.stack:
            what = "" if stand.wait is None or stand.stack == [FINISHED] else stand.wait.what
            groups.setdefault((user_place(stand.stack), what), []).append(rank)
    silent = [rank for rank, stand in stands.items() if not stand.stack]
    places = [
        f"{name_ranks(ranks)} {_name(place)}" + (f" {'waits' if len(ranks) == 1 else 'wait'} {what}" if what else "")
        for (place, what), ranks in groups.items()
    ]
    if silent:
        places.append(f"{name_ranks(silent)} did not answer (ended, or busy in compiled code)")
    odd = "" if advice else _odd(groups.values(), silent)
    lines = [f"gondwana: where the ranks stand ({reason}):", f"  {'; '.join(places)}{odd}"]
    if advice:
        lines.append(f"  {advice}")
    for (place, _), ranks in groups.items():
        if place == FINISHED:
            continue
        part = program_part(stands[ranks[0]].stack)
        if stands[ranks[0]].wait is not None and place in part:
            part = part[: len(part) - part[::-1].index(place)]  # what it waits for is said above
            if len(part) == 1:
                continue
        lines.append(f"  rank {ranks[0]}, {_name(place)}:")
        lines += [f"    {function} ({file}:{line})" for function, file, line in part]
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


def _odd(groups: Collection[list[int]], silent: list[int]) -> str:
    sizes = sorted([(len(ranks), ranks) for ranks in groups] + ([(len(silent), silent)] if silent else []))
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
