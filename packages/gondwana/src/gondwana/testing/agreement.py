"""Ranks that run the same tests agree after each of them on whether it has failed anywhere."""

from __future__ import annotations

import math
import os
import signal
import time
from typing import Any

import numpy as np

from gondwana.runtime import exits
from gondwana.runtime.progress import progress
from gondwana.runtime.watching import watchdog

PATIENCE = 10.0
"""Seconds that a rank whose test has failed gives the others to end that test, too."""


class Agreement:
    """The ranks of a session of tests. Creating one is collective over all ranks."""

    def __init__(self) -> None:
        from gondwana.teams import world  # now, as tests may be imported before MPI starts

        own = world.comm  # starts the watchdog, for one rank as well
        self.size: int = own.size
        self._comm: Any = own.Dup() if own.size > 1 else None

    def failures(self, failure: str | None) -> int:
        """Return on how many ranks a test has failed. Collective over all ranks; serves others while it waits.

        A rank that has failed does not wait long for the others, which may wait for it: it prints its failure and
        where all ranks are, and ends the job.

        Args:
            failure: what to print in that case; None if the test has not failed on this rank.
        """
        count = np.array([failure is not None], np.intc)
        if self._comm is None:
            return int(count[0])
        own = count.copy()
        request = self._comm.Iallreduce(own, count)
        end = math.inf if failure is None else time.monotonic() + PATIENCE
        pause = 1e-4
        while not request.Test():
            if progress():
                pause = 1e-4
                continue
            if failure is not None and time.monotonic() > end:
                _report_and_abort(failure)
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
        return int(count[0])

    def exchange(self, own: Any) -> list[Any]:
        """Return what every rank gives. Collective over all ranks."""
        found: list[Any] = [own] if self._comm is None else self._comm.allgather(own)
        return found


def _report_and_abort(failure: str) -> None:
    """Print the failure and where all ranks stand, and end the job."""
    exits.report(failure)
    if signal.getsignal(signal.SIGUSR1) not in (signal.SIG_DFL, signal.SIG_IGN, None):
        os.kill(os.getpid(), signal.SIGUSR1)  # asks the watchdog
        time.sleep(2 * watchdog.ANSWER_TIME)
    exits.abort(1)
