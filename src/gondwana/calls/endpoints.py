"""Both ends of a remote call: sending and serving requests, sending replies and completing futures."""

from __future__ import annotations

import itertools
import pickle
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from gondwana.calls import handlers, mailbox, names, rings, wire
from gondwana.calls.mailbox import Mailbox, Message
from gondwana.calls.node_rings import Found
from gondwana.errors import UsageError
from gondwana.futures import Future
from gondwana.runtime import exits, interruptions, progress
from gondwana.runtime.tracing import Route, counted, traced
from gondwana.teams import RemoteError, Team, world

T = TypeVar("T")
Key = tuple[int, int]

ERROR = 2
"""Bit of the tag of a reply that holds an error."""
FORGET = 0
"""Number of requests without a reply."""
_MOST_PER_POLL = 64
"""Messages that one poll serves at most, so that waiting calls check their condition in between."""

_SOON = 100
"""Polls for a reply alone, before a wait for it makes progress of all kinds: some 20 us."""

_numbers = itertools.count(1)
_answers: dict[int, Answer[Any]] = {}


class AwaitedError(LookupError):
    """Raised while a message is decoded that names an object which does not exist here yet.

    Args:
        key: of the object.
    """

    def __init__(self, key: Key) -> None:
        super().__init__(key)
        self.key = key


class Answer(Future[T]):
    """The future of a remote call."""

    __slots__ = ("_function", "_rank")

    def __init__(self, rank: int, function: Any) -> None:
        # As `Future.__init__`, without the time of a call.
        self._done = False
        self._value = self._error = self._calls = self._hooks = None
        self._rank, self._function = rank, function

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the reply has arrived. Blocks; user-level progress. See `Future.wait`."""
        if not self._done and not _comes_soon(self):
            super().wait(timeout)

    def _what(self) -> str:
        return f"the result of {_name(self._function)} on rank {self._rank}"


@dataclass(slots=True)
class _Parked:
    """A message that names an object which does not exist here yet."""

    queue: int
    source: int
    tag: int
    number: int
    data: bytearray


_parked: dict[Key, list[_Parked]] = {}
_released: deque[_Parked] = deque()


# -- sending ------------------------------------------------------------------------------------------------------


def world_rank(team: Team, rank: int) -> int:
    """Return the rank in the world of a rank of a team. Local.

    Raises:
        UsageError: there is no such rank.
    """
    if not 0 <= rank < team.size:
        raise UsageError(f"rank {rank}: the ranks of {team.name} are 0 to {team.size - 1}")
    return rank if team is world else team.world_ranks[rank]


def request(rank: int, team: Team, function: Callable[..., Any], args: Any, kwargs: Any) -> Answer[Any]:
    """Send a call and return the future of its result; wait for room. Local."""
    target = world_rank(team, rank)
    tag, parts = wire.encode_call(names.reference(function), args, kwargs)
    number = next(_numbers)
    answer: Answer[Any] = Answer(rank, function)
    _answers[number] = answer
    _send(target, tag, number, parts)
    return answer


def request_for(answer: Answer[Any], target: int, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Send a call to a rank of the world, whose result completes a future; wait for room. Local."""
    tag, parts = wire.encode_call(names.reference(function), args, kwargs)
    number = next(_numbers)
    _answers[number] = answer
    _send(target, tag, number, parts)


def request_nothing(rank: int, team: Team, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Send a call without a reply; wait for room. Local."""
    target = world_rank(team, rank)
    tag, parts = wire.encode_call(names.reference(function), args, kwargs)
    _send(target, tag, FORGET, parts)


def offer(rank: int, team: Team, function: Callable[..., Any], args: Any, kwargs: Any) -> Answer[Any] | None:
    """Send a call if there is room now, and return the future of its result. Local."""
    target = world_rank(team, rank)
    tag, parts = wire.encode_call(names.reference(function), args, kwargs)
    number = next(_numbers)
    answer = _answers[number] = Answer(rank, function)
    if _offer(target, Message(tag, number, parts)):
        return answer
    del _answers[number]
    return None


def offer_nothing(rank: int, team: Team, function: Callable[..., Any], args: Any, kwargs: Any) -> bool:
    """Send a call without a reply if there is room now; return whether it was sent. Local."""
    target = world_rank(team, rank)
    tag, parts = wire.encode_call(names.reference(function), args, kwargs)
    return _offer(target, Message(tag, FORGET, parts))


def _route(sent: bool | None, target: int, *message: Any) -> Route | None:
    """The way of a call: whether it was sent, where to, and its parts, which come last or inside of a message."""
    if sent is False:
        return None
    last = message[-1]
    return None, target, last.total if isinstance(last, Message) else sum(memoryview(part).nbytes for part in last)


@counted("call", _route, "send a call")
def _send(target: int, tag: int, number: int, parts: list[Any]) -> None:
    """Send a request; if it must wait for room, make progress where that is allowed."""
    box = mailbox.own()
    box.sent[target] += 1
    if not tag & wire.PARTS and box.post(target, rings.CALL, tag, number, parts[0]):
        return
    message = Message(tag, number, parts)
    box.submit(target, rings.CALL, message)
    try:
        if not message.finished() and not progress.in_callback():
            progress.wait_until(message.finished, f"room for a message to rank {target}")
    finally:
        box.keep(message)


@counted("call", _route, "send a call")
def _offer(target: int, message: Message) -> bool:
    box = mailbox.own()
    if not box.offer(target, rings.CALL, message):
        return False
    box.sent[target] += 1
    return True


@counted("call", lambda sent, box, *message: _route(sent, *message), "send a reply")
def _reply(box: Mailbox, target: int, tag: int, number: int, parts: list[Any]) -> None:
    """Send a reply; without room it waits, and with many waiting the requests of that rank wait too."""
    box.sent[target] += 1
    if tag & wire.PARTS == 0 and box.post(target, rings.CALL_REPLY, tag, number, parts[0]):
        return
    message = Message(tag, number, parts)
    box.submit(target, rings.CALL_REPLY, message)
    box.keep(message)


# -- replies arrive -----------------------------------------------------------------------------------------------


def _move() -> bool:
    """Make internal progress: send queued messages, and complete the futures of replies."""
    box = mailbox.opened()
    if box is None:
        return False
    seen = box.poll()
    done = seen & mailbox.WRITTEN != 0
    return _read_replies(box) or done if seen & mailbox.REPLIES else done


def _comes_soon(answer: Answer[Any]) -> bool:
    """Poll for a reply that comes within some microseconds, about the time of one round of progress of all kinds."""
    box = mailbox.opened()
    if box is None or not progress.may_poll_alone():
        return False
    for _ in range(_SOON):
        seen = box.poll()
        if seen & mailbox.REPLIES:
            _read_replies(box)
            if answer._done:
                return True
        if seen & ~mailbox.REPLIES:
            return False  # others want something, too
    return False


def _read_replies(box: Mailbox) -> bool:
    for served in range(_MOST_PER_POLL):
        if not box.reading.acquire(False):
            return served > 0
        try:
            found = box.take(rings.CALL_REPLY)
            if found is None:
                return served > 0
            _settle(box, *found)
            more = box.more()
        finally:
            box.reading.release()
        if not more:
            break
    return True


def _settle(box: Mailbox, source: int, tag: int, number: int, data: Any) -> None:
    """Complete the future that waits for a reply."""
    if tag == wire.BUILTIN:  # as most replies, and nothing can be wrong with it
        _answers.pop(number)._settle(wire.decode_builtin(data), None)
        box.finished[source] += 1
        return
    value: Any = None
    error: BaseException | None = None
    try:
        value = wire.decode(tag & wire.FORMS, data)
    except AwaitedError as awaited:
        _park(awaited.key, rings.CALL_REPLY, source, tag, number, data)
        return
    except Exception as problem:
        interruptions.let_pass(problem)
        error = problem
    else:
        if tag & ERROR:
            error, value = _remote_error(source, *value), None
    _answers.pop(number)._settle(value, error)
    box.finished[source] += 1


def _remote_error(source: int, pickled: bytes, text: str) -> BaseException:
    """Rebuild an exception of another rank, or return a RemoteError if that is not possible."""
    error: BaseException | None = None
    try:
        error = pickle.loads(pickled) if pickled else None
    except Exception as problem:
        interruptions.let_pass(problem)
    if not isinstance(error, BaseException):
        error = RemoteError(f"a call on rank {source} failed: {text.strip().splitlines()[-1]}")
    error.add_note(f"\nRaised by a call on rank {source}:\n{text}")
    return error


# -- requests are served ------------------------------------------------------------------------------------------


def _serve() -> bool:
    """Make user-level progress: run handlers and requests."""
    box, active = mailbox.opened(), handlers.opened()
    done = active is not None and active.serve()
    if box is not None and (box.seen & mailbox.REQUESTS or _released):
        return _serve_calls(box) or done
    return done


def _serve_calls(box: Mailbox) -> bool:
    flow = progress.thread.flow
    flow.depth += 1  # as `with progress.callback()`, which takes the time of half a call
    try:
        for served in range(_MOST_PER_POLL):
            if not box.reading.acquire(False):
                return served > 0
            try:
                found = None if _released else box.take(rings.CALL)
                if found is not None and found[1] == wire.BUILTIN:  # as most calls, and nothing can be wrong with it
                    source, _, number, data = found
                    content, error = wire.decode_builtin(data), None
                elif (found is None and not _released) or (call := _next_call(box, found)) is None:
                    return served > 0
                else:
                    source, number, content, error = call
            finally:
                box.reading.release()
            _run(box, source, number, content, error)
    finally:
        flow.depth -= 1
    return True


_Call: TypeAlias = tuple[int, int, Any, Exception | None]
"""The sender, the number and the content of a request, or the error of decoding it."""


def _next_call(box: Mailbox, found: Found | None) -> _Call | None:
    """Return the next request, from a message that has been taken if there is one; the caller holds `reading`."""
    if found is not None and (call := _read_call(*found)) is not None:
        return call
    while _released:
        parked = _released.popleft()
        if parked.queue == rings.CALL_REPLY:
            _settle(box, parked.source, parked.tag, parked.number, parked.data)
        elif (call := _read_call(parked.source, parked.tag, parked.number, parked.data)) is not None:
            return call
    while (found := box.take(rings.CALL)) is not None:
        if (call := _read_call(*found)) is not None:
            return call
    return None


def _read_call(source: int, tag: int, number: int, data: Any) -> _Call | None:
    try:
        return source, number, wire.decode(tag, data), None
    except AwaitedError as awaited:
        _park(awaited.key, rings.CALL, source, tag, number, data)
        return None
    except Exception as error:
        interruptions.let_pass(error)
        return source, number, None, error


@traced("call", "serve a call")
def _run(box: Mailbox, source: int, number: int, content: Any, error: Exception | None) -> None:
    """Run a request and send its reply, now or when the future that it returns is ready.

    An exit of this rank while it serves another ends this rank: the exception is not sent.
    """
    try:
        if error is not None:
            raise error
        reference, args, kwargs = content
        function = names.referent(reference)
        value = function(*args, **kwargs) if kwargs else function(*args)
    except SystemExit as leaving:
        if number != FORGET and exits.status_of(leaving) == 0:
            # This rank will wait for the others at exit, so none of them may wait for this reply.
            lost = RemoteError(f"rank {world.rank} has left the program, with status 0, in a call of rank {source}")
            _answer(box, source, number, None, lost)
        raise
    except Exception as problem:
        interruptions.let_pass(problem)
        if number == FORGET:
            problem.add_note(f"Raised by a call that rank {source} sent to rank {world.rank} by rpc_ff.")
            raise
        _answer(box, source, number, None, problem)
    else:
        if number == FORGET and value is None:
            box.finished[source] += 1
        elif isinstance(value, Future):
            _answer_later(box, source, number, value)
        else:
            _answer(box, source, number, value, None)


def _answer_later(box: Mailbox, source: int, number: int, value: Future[Any]) -> None:
    """Send the result or error of a request when the future that it has returned is ready."""
    # Pickling runs user code, which must not happen in internal progress; a local future ends outside of it.
    register = value.at_once if value.local and number != FORGET else value.add_done_callback
    register(lambda future: _answer(box, source, number, future._value, future._error))


def _answer(box: Mailbox, source: int, number: int, value: Any, error: BaseException | None) -> None:
    """Send the result or error of a request, unless it is one without a reply."""
    box.finished[source] += 1
    if number == FORGET:
        if error is not None:
            raise error
        return
    if error is None:
        try:
            tag, parts = wire.encode_result(value)
        except Exception as problem:
            interruptions.let_pass(problem)
            error = problem
        else:
            _reply(box, source, tag, number, parts)
            return
    _reply(box, source, ERROR, number, [_pickled_error(error)])


def _pickled_error(error: BaseException) -> bytes:
    text = "".join(traceback.format_exception(error))
    try:
        pickled = wire.encode(error)[1]
        return pickle.dumps((pickled[0] if len(pickled) == 1 else b"", text))
    except Exception as problem:
        interruptions.let_pass(problem)
        return pickle.dumps((b"", text))


def _park(key: Key, queue: int, source: int, tag: int, number: int, data: Any) -> None:
    _parked.setdefault(key, []).append(_Parked(queue, source, tag, number, bytearray(data)))


def release(key: Key) -> None:
    """Schedule the messages that wait for an object, which exists now. Local."""
    _released.extend(_parked.pop(key, ()))


def _must_poll() -> bool:
    box = mailbox.opened()
    return box is not None and box.must_poll()


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _unfinished() -> str | None:
    return f"{len(_answers)} remote calls without a reply" if _answers else None


progress.register(_move, _serve, _must_poll)
progress.account_for(_unfinished)
