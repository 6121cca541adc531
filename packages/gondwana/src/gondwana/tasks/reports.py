"""Messages about tasks: errors that nobody asked for, tasks that have not ended, waits that can never end."""

from __future__ import annotations

import atexit
import threading
import traceback
from typing import TYPE_CHECKING, Any

from gondwana.runtime import exits, progress
from gondwana.runtime.watching import rollcall, waits

if TYPE_CHECKING:
    from gondwana.tasks.scheduler import Home, Strand
    from gondwana.tasks.task import Task

_MOST = 5
"""The most tasks that a message names."""

_NOWHERE: rollcall.Place = ("a library", "", 0)
_unseen: dict[Task[Any], None] = {}
"""Tasks with errors that nobody has asked for, in the order in which they failed."""


def unseen(task: Task[Any]) -> None:
    """Note a task that has failed while nobody waited for it. Local."""
    _unseen[task] = None


def seen(task: Task[Any]) -> None:
    """Note that somebody has asked for the result of a task. Local."""
    _unseen.pop(task, None)


def stack(strand: Strand) -> rollcall.Stack:
    """Return the stack of a waiting strand, outermost frame first; empty if it runs. Local."""
    frame = strand.greenlet.gr_frame
    return [] if frame is None else _places(traceback.extract_stack(frame))


def _places(frames: traceback.StackSummary) -> rollcall.Stack:
    return [(entry.name, entry.filename, entry.lineno or 0) for entry in frames]


def refuse_deadlock(home: Home) -> None:
    """Raise if all strands of the only thread of the only rank wait for each other. Local.

    Raises:
        ProgressError: nothing can ever wake any of them.
    """
    waiting = home.waiting()
    others = [text for text in progress.unfinished() if text != _unfinished()]
    alone = exits.alone() and threading.active_count() == 1 and not others
    if alone and all(getattr(strand.waits, "local", False) for strand in waiting):
        raise progress.ProgressError(
            "the program and its tasks wait for each other, and nothing can wake any of them: "
            f"{_some([_described(strand) for strand in waiting])}. Let one put, take, notify or release what another "
            "waits for, or give timeout="
        )


def _described(strand: Strand) -> str:
    place = rollcall.user_place(stack(strand) or [_NOWHERE])
    name = "the program" if strand.task is None else repr(strand.task)
    return f"{name} waits for {strand.waits!r} at {place[1]}:{place[2]}"


def standing(home: Home) -> waits.Wait | None:
    """Describe what the program and its tasks wait for, None if one of them waits for something else. Local."""
    found: list[waits.Wait] = []
    texts: list[str] = []
    for strand in home.waiting():
        wait = None if strand.why is None else strand.why()
        if wait is None and not getattr(strand.waits, "local", False):
            return None
        found.append(wait or waits.Wait(f"for {strand.waits!r}", waits.TASKS))
        places = [place for place in stack(strand) if rollcall.has_user_code([place])]
        name = "in the program" if strand.task is None else f"in {strand.task!r}"
        texts.append(f"{name}{f' ({places[-1][1]}:{places[-1][2]})' if places else ''} {found[-1].what}")
    if len(found) == 1:
        return found[0]
    ranks = tuple(sorted({rank for wait in found for rank in wait.ranks}))
    return waits.Wait("; ".join(texts), waits.TASKS, ranks, max(wait.nbytes for wait in found))


def _unfinished() -> str | None:
    """Describe tasks that have not ended, and errors that nobody has asked for."""
    left = [repr(task) for home in _homes() for task in home.tasks()]
    errors = [_error(task) for task in list(_unseen)]
    texts = [f"{_count(left)} that {'has' if len(left) == 1 else 'have'} not ended ({_some(left)})"] if left else []
    if errors:
        texts.append(f"{_count(errors)} that failed while nobody asked for the result ({_some(errors)})")
    return " and ".join(texts) or None


def _homes() -> list[Home]:
    from gondwana.tasks import scheduler  # which imports this module

    return scheduler.homes()


def _error(task: Task[Any]) -> str:
    error = task.exception()
    assert error is not None
    stack = _places(traceback.extract_tb(error.__traceback__))
    function, file, line = rollcall.user_place(stack or [_NOWHERE])
    return f"{type(error).__name__}: {error} in {function} ({file}:{line})"


def _count(tasks: list[str]) -> str:
    return f"{len(tasks)} task{'s' if len(tasks) > 1 else ''}"


def _some(texts: list[str]) -> str:
    return "; ".join(texts[:_MOST] + ["..."] * (len(texts) > _MOST))


progress.account_for(_unfinished)
atexit.register(exits.report_if_alone)
