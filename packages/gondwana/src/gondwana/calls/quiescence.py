"""Quiescence: waiting until all remote calls, and what they have started, have ended."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gondwana.calls import mailbox
from gondwana.calls.active_messages import handlers
from gondwana.runtime import progress
from gondwana.teams import Team, world


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
    while True:
        while progress.progress():
            pass
        totals = np.zeros(2, np.int64)
        mine = np.array(_counts(team.world_ranks), np.int64)
        progress.wait_until(team.Iallreduce(mine, totals).test, "quiescence")
        now = totals.tolist()
        if now == before and now[0] == now[1]:
            return
        before = now


def _counts(ranks: Sequence[int]) -> tuple[int, int]:
    """Return how many messages this rank has sent to some ranks, and how many of theirs it has finished."""
    box, active = mailbox.own(), handlers.opened()
    sent, finished = box.totals(ranks)
    if active is not None:
        handled = active.totals(ranks)
        sent, finished = sent + handled[0], finished + handled[1]
    return sent, finished
