"""Steps: calls of the program in which something may arrive. Decorated functions stay unchanged without a log."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from gondwana.runtime.ordering.event_log import STEP, TURN, log

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)


def counted(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a call of the program that may wait or make progress: it is a step of its own unless nested. Local."""
    one = log
    if one is None:
        return function
    words, replaying = one.words, one.replaying

    @functools.wraps(function)
    def step(*args: P.args, **kwargs: P.kwargs) -> R:
        if one.nested:
            return function(*args, **kwargs)
        one.nested = True
        words[STEP] += TURN
        try:
            return function(*args, **kwargs)
        finally:
            one.nested = False
            if replaying:
                one.end_step()

    return step


def each_counted(kind: C) -> C:
    """Decorate the methods of a class that block: all public ones without the I of MPI. Local."""
    for name, method in list(vars(kind).items()) if log is not None else ():
        if callable(method) and not name.startswith(("_", "I")):
            setattr(kind, name, counted(method))
    return kind


def caught_up(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a call that begins a step in machine code: in a replay it ends when the events of that have happened."""
    return stepping(function, 0) if log is not None and log.replaying else function


def plain(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that `counted` has decorated as it was before. Local."""
    found: Callable[P, R] = function.__wrapped__  # type: ignore[attr-defined]
    return found


def uncounted(*names: str) -> Callable[[C], C]:
    """Return a decorator of a class: calls of some inherited methods that `counted` has decorated are no steps."""

    def decorate(kind: C) -> C:
        for name in names if log is not None else ():
            setattr(kind, name, getattr(kind, name).__wrapped__)
        return kind

    return decorate


def stepping(function: Callable[P, R], turn: int = TURN) -> Callable[P, R]:
    """Decorate a call whose number is determined, also of nested ones: each begins a step. Local.

    Args:
        function: waits, if at all, for events, or not inside other calls.
        turn: what a call adds to the step.
    """
    one = log
    if one is None:
        return function
    words, replaying = one.words, one.replaying

    @functools.wraps(function)
    def step(*args: P.args, **kwargs: P.kwargs) -> R:
        words[STEP] += turn
        try:
            return function(*args, **kwargs)
        finally:
            if replaying:
                one.end_step()

    return step
