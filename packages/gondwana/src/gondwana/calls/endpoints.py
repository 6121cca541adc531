"""Both ends of a remote call: sending and serving requests, sending replies and completing futures."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from gondwana.calls import brief_calls, mailbox, names, reported, wire
from gondwana.calls.active_messages import handlers
from gondwana.calls.brief_calls import FAILED, NOTHING, NUMBER, OTHER, OUTCOME, PEER, SERVED, VALUE, senders
from gondwana.calls.inbox import Found
from gondwana.calls.mailbox import Mailbox, Message
from gondwana.errors import UsageError
from gondwana.futures import Future
from gondwana.runtime import exits, interruptions, ordering, progress, tracing
from gondwana.runtime.races import reporter
from gondwana.runtime.tracing import Route, counted, traced
from gondwana.runtime.watching import waits
from gondwana.sync import rings
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


@ordering.uncounted("wait", "result", "exception")
class Answer(Future[T]):
    """The future of a remote call."""

    __slots__ = ("_function", "_rank")
    by_others = True

    def __init__(self, rank: int, function: Any) -> None:
        # As `Future.__init__`, without the time of a call.
        self._done = False
        self._value = self._error = self._calls = self._hooks = None
        self._rank, self._function = rank, function

    @ordering.stepping
    def _block(self, timeout: float | None) -> None:
        if not _comes_soon(self):
            super()._block(timeout)

    def _what(self) -> str:
        return f"the result of {_name(self._function)} on rank {self._rank}"

    def result_of(self, why: waits.Why, timeout: float | None) -> T:
        """Return the result, as `result` does, of a call by which the library waits for something else. Blocks."""
        if not self._done and not _comes_soon(self):
            progress.wait_until(self.done, self._what(), timeout, self, bell=True, why=why)
        return self.result()


_Parked: TypeAlias = tuple[int, Found]
"""The queue of a message that names an object which does not exist here yet, and the message with bytes of its own."""

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
    answer: Answer[Any] = Answer(rank, function)
    if not _send_briefly(answer, rank, team, function, args, kwargs):
        request_for(answer, world_rank(team, rank), function, args, kwargs)
    return answer


def _send_briefly(
    answer: Answer[Any], rank: int, team: Team, function: Callable[..., Any], args: Any, kwargs: Any
) -> bool:
    """Send a call whose result completes a future by machine code; return False if it leaves that to others."""
    send = senders.get(rank if team is world else world_rank(team, rank))
    if send is None or kwargs:
        return False
    number = next(_numbers)
    _answers[number] = answer
    if send(number, function, args):
        return True
    del _answers[number]
    return False


def request_for(answer: Answer[Any], target: int, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Send a call to a rank of the world, whose result completes a future; wait for room. Local."""
    tag, parts = _encoded(function, args, kwargs, answer)
    number = next(_numbers)
    _answers[number] = answer
    _send(target, function, tag, number, parts)


def request_nothing(rank: int, team: Team, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Send a call without a reply; wait for room. Local."""
    send = senders.get(rank if team is world else world_rank(team, rank))
    if send is None or kwargs or not send(FORGET, function, args):
        target = world_rank(team, rank)
        tag, parts = _encoded(function, args, kwargs)
        _send(target, function, tag, FORGET, parts)


def offer(rank: int, team: Team, function: Callable[..., Any], args: Any, kwargs: Any) -> Answer[Any] | None:
    """Send a call if there is room now, and return the future of its result. Local."""
    answer: Answer[Any] = Answer(rank, function)
    if _send_briefly(answer, rank, team, function, args, kwargs):
        return answer
    target = world_rank(team, rank)
    tag, parts = _encoded(function, args, kwargs, answer)
    number = next(_numbers)
    _answers[number] = answer
    if _offer(target, function, tag, number, parts):
        return answer
    del _answers[number]
    return None


def offer_nothing(rank: int, team: Team, function: Callable[..., Any], args: Any, kwargs: Any) -> bool:
    """Send a call without a reply if there is room now; return whether it was sent. Local."""
    send = senders.get(rank if team is world else world_rank(team, rank))
    if send is not None and not kwargs and send(FORGET, function, args):
        return True
    target = world_rank(team, rank)
    tag, parts = _encoded(function, args, kwargs)
    return _offer(target, function, tag, FORGET, parts)


def _encoded(function: Any, args: Any, kwargs: Any, answer: Answer[Any] | None = None) -> tuple[int, list[Any]]:
    """Return the tag and the parts of the message of a call, which is about to be sent."""
    reference = names.reference(function)
    if reporter is not None:
        reference, args, kwargs = reported.announce(reference, args, kwargs, answer)
    return wire.encode_call(reference, args, kwargs)


def _route(sent: bool | None, target: int, *message: Any) -> Route | None:
    """The way of a call: whether it was sent, where to, and what else is in the message, the parts last."""
    return None if sent is False else (None, target, sum(memoryview(part).nbytes for part in message[-1]))


@counted("call", _route, "send a call")
def _send(target: int, function: Any, tag: int, number: int, parts: list[Any]) -> None:
    """Send a request; if it must wait for room, make progress where that is allowed."""
    box = mailbox.own()
    box.sent[target] += 1
    if _post(box, target, function, tag, number, parts):
        return
    message = Message(tag, number, parts)
    box.submit(target, rings.CALL, message)
    try:
        if not message.finished() and not progress.in_callback():
            why = waits.Wait(f"for room for a message to rank {target}", waits.ROOM, (target,))
            progress.wait_for_room(message.finished, why.what.removeprefix("for "), lambda: why)
    finally:
        box.keep(message)


@counted("call", _route, "send a call")
def _offer(target: int, function: Any, tag: int, number: int, parts: list[Any]) -> bool:
    box = mailbox.own()
    sent = _post(box, target, function, tag, number, parts) or box.offer(
        target, rings.CALL, Message(tag, number, parts)
    )
    box.sent[target] += sent
    return sent


def _post(box: Mailbox, target: int, function: Any, tag: int, number: int, parts: list[Any]) -> bool:
    """Send a request whole if there is room now."""
    short = not tag & wire.PARTS and box.brief.post(target, function, tag, number, parts[0])
    return short or box.post_long(target, rings.CALL, tag, number, parts)


@counted("call", lambda sent, box, *message: _route(sent, *message), "send a reply")
def _reply(box: Mailbox, target: int, tag: int, number: int, parts: list[Any]) -> None:
    """Send a reply; without room it waits, and with many waiting the requests of that rank wait too."""
    box.sent[target] += 1
    short = not tag & wire.PARTS and box.rings.push_one(target, rings.CALL_REPLY, tag, number, parts[0])
    if not short and not box.post_long(target, rings.CALL_REPLY, tag, number, parts):
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
    if box is None or not box.rings.awake or not progress.may_poll_alone():
        return False
    while _take_reply(box, _SOON):
        if answer._done:
            return True
    return False


def _take_reply(box: Mailbox, polls: int) -> bool:
    """Complete the future that waits for the next reply if that is a plain value; return whether there was one."""
    found = box.brief.take_reply(polls)
    if found is None:
        return False
    peer, number, value = found
    _answers.pop(number)._settle(value, None)
    box.finished[box.rings.ranks[peer]] += 1
    return True


def _read_replies(box: Mailbox) -> bool:
    done = False
    for _ in range(_MOST_PER_POLL):
        if box.rings.awake and _take_reply(box, 1):
            done = True
            continue
        if not box.reading.acquire(False):
            return done
        try:
            found = box.take(rings.CALL_REPLY)
            if found is None:
                return done
            _settle(box, *found)
            more = box.more(rings.CALL_REPLY)
        finally:
            box.reading.release()
        done = True
        if not more:
            break
    return True


def _settle(box: Mailbox, source: int, tag: int, number: int, data: Any) -> None:
    """Complete the future that waits for a reply."""
    value: Any = None
    error: BaseException | None = None
    try:
        value = wire.decode(tag & wire.FORMS, data)
    except wire.AwaitedError as awaited:
        _park(awaited.key, rings.CALL_REPLY, source, tag, number, data)
        return
    except BaseException as problem:
        interruptions.let_pass(problem)
        error = problem
    else:
        if tag & ERROR:
            error, value = wire.decode_error(source, *value), None
    reported.settled(_answers.pop(number))._settle(value, error)
    box.finished[source] += 1


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
        if tracing.recorder is not None or reporter is not None or _released or not box.rings.awake:
            return _serve_any(box, 0)
        done, rest = _serve_brief(box, flow)
        return _serve_any(box, done) if rest or box.is_coming(rings.CALL) else done > 0
    finally:
        flow.depth -= 1


def _serve_brief(box: Mailbox, flow: progress.Flow) -> tuple[int, bool]:
    """Serve brief calls; return how many, and whether there is another request that is none."""
    block = flow.calls
    if block is None:
        block = flow.calls = box.brief.block()
    report, done = block.report, 0
    while done < _MOST_PER_POLL:
        try:
            value = box.brief.serve(block.address, _MOST_PER_POLL - done)
        except BaseException as problem:
            if report[OUTCOME] != FAILED:
                raise  # what a signal handler has raised just before or after
            report[OUTCOME], done = NOTHING, done + report[SERVED]
            _fail(box, box.rings.ranks[report[PEER]], report[NUMBER], problem)
            continue
        done += report[SERVED]
        if report[OUTCOME] != VALUE:
            break
        _finish(box, box.rings.ranks[report[PEER]], report[NUMBER], value)
    return done, report[OUTCOME] == OTHER


def _serve_any(box: Mailbox, done: int) -> bool:
    """Serve requests of all kinds, after some have been served; return whether there were any."""
    for served in range(done, _MOST_PER_POLL):
        if not box.reading.acquire(False):
            return served > 0
        try:
            found = None if _released else box.take(rings.CALL)
            if (found is None and not _released) or (call := _next_call(box, found)) is None:
                return served > 0
        finally:
            box.reading.release()
        _run(box, *call)
    return True


_Call: TypeAlias = tuple[int, int, Any, BaseException | None]
"""The sender, the number and the content of a request, or the error of decoding it."""


def _next_call(box: Mailbox, found: Found | None) -> _Call | None:
    """Return the next request, from a message that has been taken if there is one; the caller holds `reading`."""
    if found is not None and (call := _read_call(*found)) is not None:
        return call
    while _released:
        queue, parked = _released.popleft()
        if queue == rings.CALL_REPLY:
            _settle(box, *parked)
        elif (call := _read_call(*parked)) is not None:
            return call
    while (found := box.take(rings.CALL)) is not None:
        if (call := _read_call(*found)) is not None:
            return call
    return None


def _read_call(source: int, tag: int, number: int, data: Any) -> _Call | None:
    try:
        return source, number, _read_content(source, tag, data), None
    except wire.AwaitedError as awaited:
        _park(awaited.key, rings.CALL, source, tag, number, data)
        return None
    except BaseException as error:
        interruptions.let_pass(error)
        return source, number, None, error


def _read_content(source: int, tag: int, data: Any) -> Any:
    """Return the reference of a function, its arguments and its keyword arguments."""
    brief, function = mailbox.own().brief, tag >> brief_calls.NUMBER_SHIFT
    if tag & brief_calls.NUMBERED:
        return brief.reference(source, function), () if tag & brief_calls.ALONE else wire.decode_builtin(data), None
    content = wire.decode(tag & wire.FORMS, data)
    if function:
        brief.learn(source, function, content[0])
    return content


@traced("call", "serve a call")
def _run(box: Mailbox, source: int, number: int, content: Any, error: BaseException | None) -> None:
    """Run a request and send its reply, now or when the future that it returns is ready."""
    try:
        if error is not None:
            raise error
        reference, args, kwargs = content
        function = names.referent(reference)
        value = function(*args, **kwargs) if kwargs else function(*args)
    except BaseException as problem:
        _fail(box, source, number, problem)
    else:
        _finish(box, source, number, value)


def _fail(box: Mailbox, source: int, number: int, problem: BaseException) -> None:
    """End a request that has raised something: send that to its sender, or raise it here. Called where it is handled.

    An exit of this rank while it serves another ends this rank: the exception is not sent.
    """
    if interruptions.is_interruption(problem):
        if isinstance(problem, SystemExit) and number != FORGET and exits.status_of(problem) == 0:
            # This rank will wait for the others at exit, so none of them may wait for this reply.
            lost = RemoteError(f"rank {world.rank} has left the program, with status 0, in a call of rank {source}")
            _answer(box, source, number, None, lost)
        interruptions.claim(problem)
        raise problem
    if number == FORGET:
        box.finished[source] += 1
        problem.add_note(f"Raised by a call that rank {source} sent to rank {world.rank} by rpc_ff.")
        raise problem
    _answer(box, source, number, None, problem)


def _finish(box: Mailbox, source: int, number: int, value: Any) -> None:
    """End a request that has returned: send its result, now or when the future that it has returned is ready."""
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
        except BaseException as problem:
            interruptions.let_pass(problem)
            error = problem
        else:
            _reply(box, source, tag, number, parts)
            return
    _reply(box, source, ERROR, number, [wire.encode_error(error)])


def _park(key: Key, queue: int, source: int, tag: int, number: int, data: Any) -> None:
    _parked.setdefault(key, []).append((queue, (source, tag, number, bytearray(data))))


def release(key: Key) -> None:
    """Schedule the messages that wait for an object, which exists now. Local."""
    _released.extend(_parked.pop(key, ()))


def _attend() -> bool:
    """Wait a moment for a message, and serve it."""
    box = mailbox.opened()
    if box is None or not box.rings.watch():
        return False
    moved = _move()
    return _serve() or moved


def _must_poll() -> bool:
    box = mailbox.opened()
    return box is not None and box.must_poll()


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _unfinished() -> str | None:
    return f"{len(_answers)} remote calls without a reply" if _answers else None


def connect(team: Team) -> None:
    """Serve the calls of other ranks. Collective over team, the world."""
    mailbox.connect(team)
    progress.register(_move, _serve, _must_poll)  # after `sync.delivery`, which brings what this looks for


progress.attend_by(_attend)
progress.account_for(_unfinished)
