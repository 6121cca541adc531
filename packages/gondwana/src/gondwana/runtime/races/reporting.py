"""Decorators by which collectives and messages report what they order; where nobody listens they do nothing."""

from __future__ import annotations

import ctypes
import functools
import inspect
import itertools
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from gondwana.runtime import progress
from gondwana.runtime.races import reporter
from gondwana.runtime.races.records import ALL, FROM, TO, Kind

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

_FROM_ROOT = {"bcast", "Bcast", "Ibcast", "scatter", "Scatter", "Scatterv", "Iscatter"}
_TO_ROOT = {"gather", "Gather", "Gatherv", "Igather", "reduce", "Reduce", "Ireduce"}

_inside: set[tuple[int, int, int]] = set()
"""Threads, with their places, that are inside a collective or a message: what it is made of is part of it."""
_teams: dict[int, int] = {}
_numbers, _requests = itertools.count(1), itertools.count(1)
_alike: Counter[tuple[int, ...]] = Counter()
_ends: dict[int, Callable[[], None]] = {}
"""What to report when a request has completed, by its identity."""


def team_number(team: Any) -> int:
    """Return the number of a team in records; the first call tells the detector about it. Local."""
    found = _teams.get(id(team.comm))
    if found is None:
        assert reporter is not None
        found = _teams[id(team.comm)] = next(_numbers)
        ranks = list(team.world_ranks)
        _alike[tuple(ranks)] += 1
        handle = ctypes.c_int64(team.comm.handle).value
        reporter.tell(team=found, ranks=ranks, number=_alike[tuple(ranks)], handle=handle)
    return found


def each_collective(kind: C) -> C:
    """Have the collectives of a class report whom they order: a decorator. Local."""
    for name, method in list(vars(kind).items()) if reporter is not None else ():
        if callable(method) and not name.startswith("_"):
            mode = FROM if name in _FROM_ROOT else TO if name in _TO_ROOT else ALL
            setattr(kind, name, _collective(method, mode, starts=name[0] == "I"))
    return kind


def _outermost(call: Callable[..., Any], method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that is `call`, or itself where it is part of another."""

    @functools.wraps(method)
    def reported(team: Any, *args: Any, **kwargs: Any) -> Any:
        here = (threading.get_ident(), *progress.place())
        if here in _inside or team.size == 1:
            return method(team, *args, **kwargs)
        _inside.add(here)
        try:
            return call(team, *args, **kwargs)
        finally:
            _inside.discard(here)

    return reported


def _collective(method: Callable[..., Any], mode: int, *, starts: bool) -> Callable[..., Any]:
    one, signature = reporter, inspect.signature(method)
    assert one is not None

    def call(team: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(team, *args, **kwargs).arguments
        number, request = team_number(team), next(_requests) if starts else 0
        site = one.site(method.__name__)
        root = given.get("root", 0)
        if not 0 <= root < team.size:
            return method(team, *args, **kwargs)  # which refuses it
        one.add(Kind.ENTER, number, mode, root, request, site=site)
        one.flush()
        result = method(team, *args, **kwargs)
        if starts:
            _ends[id(result)] = lambda: one.add(Kind.LEAVE, number, request, site=site)
        else:
            one.add(Kind.LEAVE, number, 0, site=site)
        return result

    return _outermost(call, method)


def finishes(method: F) -> F:
    """Have the end of a request be reported: a decorator of the method that finishes it. Local."""
    if reporter is None:
        return method

    @functools.wraps(method)
    def reported(request: Any) -> Any:
        result = method(request)
        end = _ends.pop(id(request), None)
        if end is not None:
            end()
        return result

    return reported  # type: ignore[return-value]


def begins(method: F) -> F:
    """Have the start of a prepared request be reported: a decorator of `start`. Local."""
    if reporter is None:
        return method

    @functools.wraps(method)
    def reported(request: Any) -> Any:
        begun = getattr(request, "_begun", None)
        if begun is not None:
            begun()
        return method(request)

    return reported  # type: ignore[return-value]


def prepares(method: F) -> F:
    """Have starts of a prepared request be reported: a decorator of `Send_init` and `Recv_init`. Local."""
    return _message(method, _prepared)


def sends(method: F) -> F:
    """Have a message be reported, before it is sent: a decorator of `(team, data, dest, tag)`. Local."""
    return _message(method, _sent)


def receives(method: F) -> F:
    """Have a receive be reported: a decorator of methods with arguments `source` and `tag`. Local."""
    return _message(method, _received)


def exchanges(method: F) -> F:
    """Have a message and a receive be reported: a decorator of `Sendrecv`. Local."""
    return _message(method, _exchanged)


def _message(method: F, call: Callable[..., Any]) -> F:
    if reporter is None:
        return method
    signature = inspect.signature(method)

    def with_arguments(team: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(team, *args, **kwargs)
        bound.apply_defaults()
        return call(method, team, bound)

    return _outermost(with_arguments, method)  # type: ignore[return-value]


def _sent(method: Callable[..., Any], team: Any, bound: inspect.BoundArguments) -> Any:
    given = bound.arguments
    return _after_sending(team, given["dest"], given["tag"], lambda: method(*bound.args, **bound.kwargs))


def _after_sending(team: Any, dest: int, tag: int, then: Callable[[], Any]) -> Any:
    one = reporter
    assert one is not None
    if 0 <= dest < team.size:
        one.add(Kind.SEND, team_number(team), dest, tag)
        one.flush()
    return then()


def _received(method: Callable[..., Any], team: Any, bound: inspect.BoundArguments) -> Any:
    given = bound.arguments
    starts = method.__name__ == "Irecv"
    if not starts and (given["source"] is None or given["tag"] is None):
        found = team.Probe(given["source"], given["tag"])  # whose message it is
        given["source"], given["tag"] = found.source, found.tag
    end = _begun(team, given["source"], given["tag"], method.__name__)
    result = method(*bound.args, **bound.kwargs)
    if starts:
        _ends[id(result)] = functools.partial(end, result)
    else:
        end(None)
    return result


def _begun(team: Any, source: int | None, tag: int | None, what: str) -> Callable[[Any], None]:
    """Report that a receive begins; return what reports its end, given its request if it is not known whose it is."""
    one = reporter
    assert one is not None
    request, number, site = next(_requests), team_number(team), one.site(what)
    is_known = source is not None and tag is not None
    if source is not None and tag is not None and 0 <= source < team.size:
        one.add(Kind.EXPECT, number, source, tag, request)

    def end(of: Any) -> None:
        if not is_known:
            found = getattr(of.handle, "received", of.handle)
            one.add(Kind.EXPECT, number, found.source, found.tag, request)
        one.add(Kind.RECEIVE, request, site=site)

    return end


def _prepared(method: Callable[..., Any], team: Any, bound: inspect.BoundArguments) -> Any:
    given = bound.arguments
    result = method(*bound.args, **bound.kwargs)

    def begun() -> None:
        if "dest" in given:
            _after_sending(team, given["dest"], given["tag"], lambda: None)
        else:
            _ends[id(result)] = functools.partial(_begun(team, given["source"], given["tag"], "Recv_init"), result)

    result._begun = begun
    return result


def _exchanged(method: Callable[..., Any], team: Any, bound: inspect.BoundArguments) -> Any:
    given = bound.arguments

    def exchange() -> Any:
        source, tag = given["source"], given["recvtag"]
        end = _begun(team, source, tag, method.__name__)
        if source is None or tag is None:  # a request knows whose message it has got
            request = team.Irecv(given["recvbuf"], source, tag)
            team.Send(given["sendbuf"], given["dest"], given["sendtag"])
            request.wait()
            return end(request)
        result = method(*bound.args, **bound.kwargs)
        end(None)
        return result

    return _after_sending(team, given["dest"], given["sendtag"], exchange)
