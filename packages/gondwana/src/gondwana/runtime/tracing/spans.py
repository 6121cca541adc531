"""Spans: records of calls and of blocks of a program. Decorated functions stay unchanged if nothing records."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ParamSpec, TypeAlias, TypeVar

from gondwana.errors import UsageError
from gondwana.runtime.tracing import ranges
from gondwana.runtime.tracing.recorders import NONE, now, recorder

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

Name: TypeAlias = str | Callable[..., str]
"""The name of a span, or a function that returns it for the arguments of a call."""

Category: TypeAlias = str | Callable[[], str]
"""One of the few kinds of spans that are summed up, or a function that returns it."""

SPAN = "span"
"""The category of spans of the program's own."""


def traced(
    category: Category,
    name: Name | None = None,
    size: Callable[..., int] | None = None,
    about: Callable[..., dict[str, Any]] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: calls of a function become spans. Local.

    Args:
        category: category of the spans.
        name: name of the spans; None: the function's.
        size: returns the bytes that a call moves, for its arguments; of a kernel, the cells.
        about: returns what else the trace says of all calls of a name, for the arguments of the first one.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        if recorder is None:
            return function
        title = name or function.__qualname__
        return ranges.ranged(_recorded(function, category, title, size, about), title)

    return decorate


def each_method(category: Category) -> Callable[[C], C]:
    """Return a decorator: calls of the public methods of a class become spans. Local.

    Args:
        category: category of the spans.
    """

    def decorate(kind: C) -> C:
        for name, method in list(vars(kind).items()) if recorder is not None else ():
            if callable(method) and not name.startswith("_"):
                setattr(kind, name, ranges.ranged(_recorded(method, category, name), name))
        return kind

    return decorate


def source(function: Any, *_args: Any, **_kwargs: Any) -> dict[str, Any]:
    """Return where the function of a decorator is, for traces: nothing if no file has it. Local."""
    code = getattr(getattr(function, "py_func", None), "__code__", None)
    if code is None or code.co_filename.startswith("<"):
        return {}
    return {"source": f"{code.co_filename}:{code.co_firstlineno}"}


def _recorded(
    function: Callable[P, R],
    category: Category,
    name: Name,
    size: Callable[..., int] | None = None,
    about: Callable[..., dict[str, Any]] | None = None,
) -> Callable[P, R]:
    one = recorder
    assert one is not None
    add, number_of = one.add, one.number_of
    if isinstance(name, str) and isinstance(category, str) and size is None:
        number = number_of(name, category)

        @functools.wraps(function)
        def always_alike(*args: P.args, **kwargs: P.kwargs) -> R:
            begin = now()
            try:
                return function(*args, **kwargs)
            finally:
                add(begin, number)

        return always_alike

    @functools.wraps(function)
    def by_arguments(*args: P.args, **kwargs: P.kwargs) -> R:
        what = name if isinstance(name, str) else name(*args, **kwargs)
        kind = category if isinstance(category, str) else category()
        begin = now()
        try:
            return function(*args, **kwargs)
        finally:
            number = number_of(what, kind, None if about is None else functools.partial(about, *args, **kwargs))
            add(begin, number, NONE if size is None else size(*args, **kwargs))

    return by_arguments


Route: TypeAlias = tuple[int | None, int | None, int]
"""World ranks of the source and the target of a transfer, and its bytes; None stands for this rank."""


_counting: set[tuple[int, int, int]] = set()
"""Threads, with their places, that are inside a counted call: messages sent there are part of that call."""


def counted(
    category: str, route: Callable[..., Route | None], name: str | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: calls of a function become spans, and the messages that they send are counted. Local.

    Args:
        category: category of the spans.
        route: returns the route of the data for the result and the arguments of a call, None if nothing was sent.
        name: name of the spans; None: the function's.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        if recorder is None:
            return function
        title = name or function.__name__
        return ranges.ranged(_counted(function, recorder.number_of(title, category), route), title)

    return decorate


def _counted(function: Callable[P, R], number: int, route: Callable[..., Route | None]) -> Callable[P, R]:
    one = recorder
    assert one is not None

    @functools.wraps(function)
    def by_route(*args: P.args, **kwargs: P.kwargs) -> R:
        here = (threading.get_ident(), *one.place())
        if here in _counting:
            return function(*args, **kwargs)
        begin = now()
        _counting.add(here)
        try:
            result = function(*args, **kwargs)
        finally:
            _counting.discard(here)
        found = route(result, *args, **kwargs)
        one.add(begin, number, NONE if found is None else found[2])
        if found is not None:
            source, target, nbytes = found
            if source is not None:
                one.count_fetched(source, nbytes)
            if target is not None:
                one.count_sent(target, nbytes)
        return result

    return by_route


class _Span:
    """A block of the program. Local."""

    __slots__ = ("_begin", "_name", "_number", "_range")

    def __init__(self, name: str, number: int) -> None:
        self._name, self._number = name, number
        self._begin = 0
        self._range: Any = None

    def __enter__(self) -> None:
        self._range = ranges.begin(self._name)
        self._begin = now()

    def __exit__(self, *error: object) -> None:
        if recorder is not None:
            recorder.add(self._begin, self._number)
        ranges.end(self._range)


_NOTHING: AbstractContextManager[None] = nullcontext()


def span(name: str) -> AbstractContextManager[None]:
    """Return a context manager: code inside its `with` statement is a span of that name in the rank's trace. Local.

    Without a trace (`gondwana run --trace FILE`) it does nothing, and costs a tenth of a microsecond. Use few names
    rather than one for each step: a viewer sums up spans of one name.

    Args:
        name: name shown by a viewer.

    Raises:
        UsageError: the name is not a text, or empty; with and without a trace.

    Example:
        >>> import gondwana as gw
        >>> with gw.span("assemble the matrix"):
        ...     rows = [row * row for row in range(10)]
    """
    if name.__class__ is not str or not name:
        raise UsageError(f"gw.span({name!r}): give a name, a text that is not empty")
    return _NOTHING if recorder is None else _Span(name, recorder.number_of(name, SPAN))
