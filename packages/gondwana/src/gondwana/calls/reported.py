"""Calls as the race detector sees them: what orders a function behind its caller, and the caller behind the result.

All functions that a rank runs for others are one stream of it: they run one after the other, but at any moment at which
the program makes progress. So they are ordered behind their callers, and behind the moment at which the program has
made the distributed objects that they use; the program is ordered behind them only by what comes back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from gondwana.calls import names
from gondwana.futures import Following, Future
from gondwana.runtime.races import Kind, reporter
from gondwana.runtime.races.records import CALLS

A = TypeVar("A", bound=Future[Any])
F = TypeVar("F", bound=Callable[..., Any])
Name = tuple[int, int]

_answers: dict[int, Name] = {}
"""Names of the answers that are under way, by the identity of their futures."""


def announce(reference: Any, args: Any, kwargs: Any, answer: Future[Any] | None) -> tuple[Any, tuple[Any, ...], None]:
    """Report a call before it is sent, and return the reference and the arguments to send instead. Local.

    Args:
        reference: of the function.
        args: its arguments.
        kwargs: its keyword arguments.
        answer: future of its result; None without one.
    """
    assert reporter is not None
    name = reporter.new_name()
    reporter.post(name)
    reply = None
    if answer is not None:
        reply = _answers[id(answer)] = reporter.new_name()
    return names.reference(serve), (name, reply, reference, args, kwargs), None


def serve(name: Name, reply: Name | None, reference: Any, args: Any, kwargs: Any) -> Any:
    """Run a function for another rank. Local."""
    one = reporter
    assert one is not None
    value = None
    try:
        with one.acting(CALLS):
            one.take(name)
            value = names.referent(reference)(*args, **kwargs or {})
    finally:
        if reply is not None and not isinstance(value, Future):
            one.post(reply, CALLS)
    if reply is not None and isinstance(value, Future):
        value.at_once(lambda _: _post_late(reply))
    return value


def serving(function: F) -> F:
    """Have what a function does beside the program be a part of what this rank runs for others: a decorator. Local."""
    if reporter is None:
        return function
    one = reporter

    @functools.wraps(function)
    def report(*args: Any, **kwargs: Any) -> Any:
        with one.acting(CALLS):
            return function(*args, **kwargs)

    return report  # type: ignore[return-value]


def _post_late(reply: Name) -> None:
    assert reporter is not None
    reporter.add(Kind.FORK, CALLS)  # the future was completed by something that the program has seen
    reporter.post(reply, CALLS)


def _settled(answer: A) -> A:
    reply = _answers.pop(id(answer), None)
    if reply is not None and reporter is not None:
        reporter.take(reply)
    return answer


def _unchanged(answer: A) -> A:
    return answer


settled = _unchanged if reporter is None else _settled
"""Report that an answer has come whose future nobody but the library sees, and return that future."""


def observed(answer: Future[Any]) -> Future[Any]:
    """Return the future of an answer, which reports when the program has seen it. Local."""
    reply = _answers.pop(id(answer), None)
    if reply is None:
        return answer

    def value() -> Any:
        assert reporter is not None
        reporter.take(reply, site=reporter.site())
        return answer._value

    return Following(answer, value)


def seen(call: F) -> F:
    """Have the future that a function returns report when the program has seen it: a decorator. Local."""
    if reporter is None:
        return call

    @functools.wraps(call)
    def report(*args: Any, **kwargs: Any) -> Any:
        found = call(*args, **kwargs)
        return found if found is None else observed(found)

    return report  # type: ignore[return-value]
