"""An aid against programs that rely on more than they are promised: copies that start late.

With GONDWANA_DEBUG_COPY=N (N > 0) every copy, put and get is deferred by up to N polls of its rank, in no order that
could be relied on; until then its destination holds garbage if this rank can write there. A program that reads a
destination before operation completion, or changes a source before source completion, then computes something else.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import numpy as np

from gondwana.errors import UsageError
from gondwana.futures import Future, Promise, deferred_by
from gondwana.inputs import whole_number
from gondwana.teams import Team
from gondwana.transfer.box import StridedBox
from gondwana.transfer.paths import state
from gondwana.transfer.staged import Steps, run

VARIABLE = "GONDWANA_DEBUG_COPY"
_POISON = 0xA5

_most = 0
_delays = random.Random()


def delay_from_environment(team: Team) -> None:
    """Delay copies if GONDWANA_DEBUG_COPY says so."""
    global _most
    given = os.environ.get(VARIABLE, "0")
    most = whole_number(given)
    if most is None or most < 0:
        raise UsageError(f"{VARIABLE}={given!r}: give the most polls that a copy may be deferred by, 0 for none")
    _most = most
    state.delayed = _most > 0
    _delays.seed(team.rank)


def late(
    target: StridedBox, begin: Callable[[], tuple[Future[None], Future[None]]]
) -> tuple[Future[None], Future[None]]:
    """Have a copy start later. Local.

    Returns:
        The futures of operation completion and of source completion.
    """
    if target.memory is not None:
        target.store(np.frombuffer(bytes([_POISON]) * target.nbytes, target.dtype).reshape(target.shape))
    reusable: Promise[None] = Promise()

    def steps() -> Steps:
        yield deferred_by(_delays.randint(0, _most), _nothing)
        operation, source = begin()
        reusable.set_result(source)
        yield operation

    return run(steps()), reusable.future


def _nothing() -> None:
    return None
