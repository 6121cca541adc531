"""Remote completion: telling the owner of a destination that the data are there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from gondwana.calls.remote_calls import rpc
from gondwana.errors import UsageError
from gondwana.futures import Future, Promise
from gondwana.runtime import progress
from gondwana.sync.signals import Signal, SignalAt
from gondwana.teams import Team, world
from gondwana.transfer.places import Place

Notify: TypeAlias = Signal | SignalAt | tuple[Any, ...]
"""A signal, or one counter of it, or a function with its arguments as one tuple: `(function, *arguments)`."""


def check(notify: Notify, target: Place) -> None:
    """Raise if somebody cannot be told. Local.

    Raises:
        UsageError: it is neither a signal nor a function with arguments, or the owner is not in the signal's team.
    """
    if isinstance(notify, Signal):
        rank_in(notify.team, owner(target))
    elif not isinstance(notify, SignalAt) and not (isinstance(notify, tuple) and notify and callable(notify[0])):
        raise UsageError(f"notify={notify!r}: give a gw.Signal, signal.at(...), or a tuple (function, *arguments)")


def follow(operation: Future[None], notify: Notify, target: Place) -> Future[None]:
    """Tell the owner when a copy is complete: a signal is raised the moment that this rank knows it. Local.

    Returns:
        The future of the signal having been raised, or of the function having run.
    """
    if isinstance(notify, tuple):
        return operation.then(lambda _: rpc(owner(target), run, *notify))
    if isinstance(notify, Signal):
        return after(operation, functools.partial(notify.add, rank_in(notify.team, owner(target))))
    return after(operation, notify.add)


def after(operation: Future[None], add: Callable[[], None]) -> Future[None]:
    """Raise a signal the moment that this rank knows a copy to be complete; return the future of that. Local.

    Args:
        operation: of the copy.
        add: raises the signal.
    """
    promise: Promise[None] = Promise()

    def tell(done: Future[None]) -> None:
        error = done.exception()
        if error is not None:
            promise.set_exception(error)
            return
        add()
        promise.set_result(None)

    operation.at_once(tell)
    return promise.future


def run(function: Callable[..., Any], *arguments: Any) -> None:
    """Call the function of a notification, at the target; what it returns is of no interest. Local.

    As in `rpc_ff`, an exception is raised here, out of what makes progress: who started the copy may never look.
    """
    try:
        function(*arguments)
    except Exception as error:
        progress.enqueue(functools.partial(_fail, error))


def _fail(error: Exception) -> NoReturn:
    raise error


def owner(target: Place) -> int:
    """Rank in the world of the owner of a destination: this one for private memory."""
    return world.rank if target.owner is None else target.owner


def rank_in(team: Team, world_rank: int) -> int:
    """Rank in a team of a rank of the world. Local.

    Raises:
        UsageError: it is not in the team.
    """
    rank = team.rank_of_world(world_rank)
    if rank is None:
        raise UsageError(
            f"the signal of notify= belongs to {team!r}, which rank {world_rank} of the world, the owner of the "
            "destination, is not in"
        )
    return rank
