"""Remote procedure calls: functions that run on other ranks when those make progress, and the wait for all to end."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, overload

import numpy as np

from gondwana.calls import endpoints, mailbox
from gondwana.calls.reported import seen
from gondwana.futures import Future
from gondwana.runtime import cores, interruptions, ordering, progress
from gondwana.runtime.races import Kind, reporter
from gondwana.runtime.races.records import CALLS
from gondwana.runtime.watching import waits
from gondwana.teams import Team, world

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 1e-5, 1e-3


@overload
def rpc(rank: int, function: Callable[..., Future[T]], *args: Any, team: Team = world, **kwargs: Any) -> Future[T]: ...
@overload
def rpc(rank: int, function: Callable[..., T], *args: Any, team: Team = world, **kwargs: Any) -> Future[T]: ...
@seen
def rpc(rank: int, function: Callable[..., Any], *args: Any, team: Team = world, **kwargs: Any) -> Future[Any]:
    """Call `function(*args, **kwargs)` on another rank and return the future of its result. Local; internal progress.

    The call runs on that rank inside its next user-level progress, never immediately, not even on the own rank. Calls
    are not ordered. Arguments are copied before this returns. If the function returns a future, the reply waits for its
    result. An exception is sent back and raised by `result()`, with the traceback of that rank as a note.

    If there is no room for the message, this makes user-level progress until there is. In a callback, where that is
    not possible, the message waits on this rank: memory grows with what callbacks send.

    Args:
        rank: where to run it, a rank of `team`.
        function: sent by its name if that leads to it, as for functions of the program, which all ranks run; else by
            value, as lambdas and closures. Those work with the globals of the rank where they run.
        args: anything that can be pickled: values, arrays, global pointers, DistObjects (which arrive as that rank's
            own).
        team: the team of `rank`.
        kwargs: likewise.

    Raises:
        UsageError: there is no such rank.
        TypeError: an argument cannot be pickled.

    Example:
        >>> import gondwana as gw
        >>> gw.rpc(0, divmod, 7, 2).result()
        (3, 1)
    """
    return endpoints.request(rank, team, function, args, kwargs)


def rpc_ff(rank: int, function: Callable[..., Any], *args: Any, team: Team = world, **kwargs: Any) -> None:
    """Call a function on another rank and forget it: no result, no future. Local; internal progress.

    As `rpc`, but cheaper. An exception in the function is raised there, by the call that makes progress, and so ends
    the job. `quiesce` waits until all such calls have run; calls that have not run when the program ends may be lost.

    Args:
        rank: where to run it, a rank of `team`.
        function: as for `rpc`.
        args: as for `rpc`.
        team: the team of `rank`.
        kwargs: likewise.

    Raises:
        UsageError: there is no such rank.
        TypeError: an argument cannot be pickled.

    Example:
        >>> import gondwana as gw
        >>> arrived = gw.DistObject([], gw.world)
        >>> gw.rpc_ff(0, lambda here: here.value.append("hello"), arrived)
        >>> gw.quiesce(gw.world)
        >>> arrived.value
        ['hello']
    """
    endpoints.request_nothing(rank, team, function, args, kwargs)


@overload
def try_rpc(
    rank: int, function: Callable[..., Future[T]], *args: Any, team: Team = world, **kwargs: Any
) -> Future[T] | None: ...
@overload
def try_rpc(
    rank: int, function: Callable[..., T], *args: Any, team: Team = world, **kwargs: Any
) -> Future[T] | None: ...
@seen
def try_rpc(
    rank: int, function: Callable[..., Any], *args: Any, team: Team = world, **kwargs: Any
) -> Future[Any] | None:
    """Call a function on another rank, unless there is no room for the message now. Local; no progress.

    Args:
        rank: where to run it, a rank of `team`.
        function: as for `rpc`.
        args: as for `rpc`.
        team: the team of `rank`.
        kwargs: likewise.

    Returns:
        The future of the result; None: nothing was sent. Make progress before the next attempt.

    Raises:
        UsageError: there is no such rank.
        TypeError: an argument cannot be pickled.

    Example:
        >>> import gondwana as gw
        >>> gw.try_rpc(0, abs, -3).result()
        3
    """
    return endpoints.offer(rank, team, function, args, kwargs)


def try_rpc_ff(rank: int, function: Callable[..., Any], *args: Any, team: Team = world, **kwargs: Any) -> bool:
    """Call a function on another rank and forget it, unless there is no room now. Local; no progress.

    Args:
        rank: where to run it, a rank of `team`.
        function: as for `rpc`.
        args: as for `rpc`.
        team: the team of `rank`.
        kwargs: likewise.

    Returns:
        Whether the call was sent. If not, make progress before the next attempt.

    Raises:
        UsageError: there is no such rank.
        TypeError: an argument cannot be pickled.

    Example:
        >>> import gondwana as gw
        >>> gw.try_rpc_ff(0, abs, -3)
        True
    """
    return endpoints.offer_nothing(rank, team, function, args, kwargs)


@ordering.counted
def discharge() -> None:
    """Wait until no message of this rank waits for room on other ranks. Local; blocks; user-level progress.

    Call it before a long computation when callbacks may have sent much. It does not wait for arrival.

    Raises:
        ProgressError: called inside a callback while something waits.

    Example:
        >>> import gondwana as gw
        >>> gw.discharge()
    """
    box = mailbox.opened()
    if box is not None:
        progress.wait_until(lambda: box.queued == 0, "room for the waiting messages of this rank")


@contextmanager
def progress_thread() -> Iterator[None]:
    """Make user-level progress on a thread meanwhile, so that other ranks need not wait for this one. Local.

    Callbacks, and calls from other ranks, run on that thread while the program continues: protect what both use by a
    lock. The thread polls every 10 us while messages arrive and every 1 ms otherwise, which costs about one per cent of
    a core. A call that runs in Python shares the interpreter with the program. Compiled code releases the GIL, and so
    do many other libraries.

    Example:
        >>> import gondwana as gw
        >>> with gw.progress_thread():
        ...     total = sum(range(100))
    """
    ended = threading.Event()

    def run() -> None:
        pause = _FIRST_PAUSE
        try:
            while not ended.is_set():
                pause = _FIRST_PAUSE if progress.progress() else min(2 * pause, _LONGEST_PAUSE)
                time.sleep(pause)
        except (SystemExit, KeyboardInterrupt) as error:
            interruptions.raise_in_main(error)  # a call ends the rank, not this thread alone

    interruptions.prepare()
    thread = threading.Thread(target=run, name="gondwana-progress", daemon=True)
    thread.start()
    cores.unpin(thread.native_id or 0)
    try:
        yield
    finally:
        ended.set()
        thread.join()


@ordering.counted
def quiesce(team: Team = world) -> None:
    """Wait until every call between members has run, and all that these sent in turn. Collective over team.

    Blocks; user-level progress. It counts calls, replies and active messages, also those sent by callbacks and
    `Future.then`; a call that returns a future has run when that future is ready. The ranks sum up what they have sent
    and finished until both sums are equal, and unchanged, twice in a row.

    Args:
        team: the ranks whose calls among each other are waited for; calls to and from others are not.

    Raises:
        ProgressError: called inside a callback.

    Example:
        >>> import gondwana as gw
        >>> gw.rpc_ff(0, print, "hello")
        >>> gw.quiesce(gw.world)
        hello
    """
    progress.refuse_in_callback("quiescence")
    before: list[int] = []
    why = functools.partial(waits.of_collective, "gw.quiesce", (team.name, team.rank, team.world_ranks))
    while True:
        while progress.serve_all():
            pass
        if reporter is not None:  # what has run here is over for all when this ends
            reporter.add(Kind.JOIN, CALLS)
        totals = np.zeros(2, np.int64)
        mine = np.array(mailbox.own().totals(team.world_ranks), np.int64)
        progress.wait_until(team.Iallreduce(mine, totals).test, "quiescence", why=why)
        now = totals.tolist()
        if now == before and now[0] == now[1]:
            return
        before = now
