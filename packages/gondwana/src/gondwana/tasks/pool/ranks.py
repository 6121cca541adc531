"""The workers of a pool that are the other ranks of its job, with messages sent as remote calls."""

from __future__ import annotations

import os
import time
from collections import deque

from gondwana.calls import endpoints, mailbox
from gondwana.calls.remote_calls import discharge
from gondwana.runtime import cores, idle, progress
from gondwana.tasks.pool import messages
from gondwana.tasks.pool.messages import Message
from gondwana.tasks.scheduler import has_tasks
from gondwana.teams import world

SPIN = 1e-3
"""Seconds that a rank polls for the next message, if the previous one came within that time; then it sleeps."""
SPIN_CROWDED = 1e-4
"""The same if ranks outnumber the cores."""
ALONE = 2e-5
"""Seconds that it polls without yielding the processor, unless ranks outnumber the cores."""
NAP, LONGEST_NAP = 2e-4, 2e-2
"""Seconds that a rank sleeps before it checks events that cannot wake it: a tenth of the time that it has waited,
between these limits, if ranks of other nodes may call; else the longest."""
ROOT = 0
"""The rank that submits."""

_inboxes: dict[str, deque[tuple[int, Message]]] = {}


def _deliver(key: str, source: int, message: Message) -> None:
    """Take a message for a pool; runs as a remote call."""
    inbox(key).append((source, message))


def inbox(key: str) -> deque[tuple[int, Message]]:
    """Return the messages for a pool that have arrived, perhaps before it exists here. Local."""
    return _inboxes.setdefault(key, deque())


class RankLine:
    """A rank's messages of a pool. Local; threads may share it.

    Args:
        key: name of the pool.
    """

    _progress = staticmethod(progress.serve_others)

    def __init__(self, key: str) -> None:
        self._key, self._rank = key, world.rank
        self._is_root = self._rank == ROOT
        mailbox.own()  # a writer into it wakes this rank
        self._inbox = inbox(key)
        self._spins = True
        self._woken = False

    def send_to(self, rank: int, message: Message) -> None:
        """Send a message; parts that do not fit now are kept. Local; does not block."""
        with progress.callback():
            endpoints.request_nothing(rank, world, _deliver, (self._key, self._rank, message), {})

    def take(self) -> list[tuple[int, Message]]:
        """Return the messages that have arrived, with the ranks that have sent them. Local; user-level progress."""
        self._progress()
        arrived = []
        while self._inbox:
            arrived.append(self._inbox.popleft())
        return arrived

    def _arrived(self) -> bool:
        self._progress()
        return bool(self._inbox) or self._woken

    def sleep(self, seconds: float, *, spin: bool = True) -> None:
        """Wait until something has arrived, `wake` is called, or the time is over. Blocks; user-level progress.

        It polls if the last message came soon, and else sleeps.

        Args:
            seconds: time limit.
            spin: whether a core is free to poll on.
        """
        crowded = cores.crowded()
        start = time.perf_counter()
        patience = min(seconds, SPIN_CROWDED if crowded else SPIN) if spin and self._spins else 0.0
        while not self._arrived() and not (self._is_root and has_tasks()):
            waited = time.perf_counter() - start
            if waited >= seconds:
                break
            if waited >= patience:
                nap = max(NAP, waited / 10) if idle.must_poll() else LONGEST_NAP
                idle.sleep(min(seconds - waited, LONGEST_NAP, nap), self._arrived)
            elif crowded or waited > ALONE:
                os.sched_yield()  # the awaited rank may need this core
        self._spins = time.perf_counter() - start < (SPIN_CROWDED if crowded else SPIN)
        self._woken = False

    def wake(self) -> None:
        """End a `sleep` of another thread. Local."""
        self._woken = True
        idle.wake()


class WorkerLine(RankLine):
    """The connection of a working rank to rank 0. Local.

    Args:
        key: name of the pool.
    """

    _progress = staticmethod(progress.progress)  # tasks of the pool may have left tasks of this rank behind

    def send(self, message: Message) -> None:
        """Send a message. Local; does not block."""
        self.send_to(ROOT, message)

    def receive(self, timeout: float | None) -> list[Message]:
        """Return the messages that have arrived; if there are none, wait for some, for at most `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        arrived = self.take()
        while not arrived:
            left = 1.0 if end is None else end - time.monotonic()
            if left <= 0:
                break
            self.sleep(left)
            arrived = self.take()
        return [message for _, message in arrived]


class Ranks(RankLine):
    """The connection of rank 0 to the working ranks. Local; threads may share it.

    Args:
        key: name of the pool.
    """

    @property
    def workers(self) -> int:
        """Number of workers."""
        return world.size - 1

    def send(self, worker: int, message: Message) -> None:
        """Send a message; parts that do not fit now are kept. Local; does not block."""
        self.send_to(worker, message)

    def receive(self) -> list[tuple[int, Message]]:
        """Return the messages that have arrived, with the ranks that have sent them. Does not block."""
        return self.take()

    def replace(self) -> bool:
        """Return False: a job cannot start ranks."""
        return False

    def name(self, worker: int) -> str:
        """Return the name of a worker for messages. Local."""
        return f"rank {worker}"

    def stop(self, *, at_once: bool) -> None:
        """Let the workers continue their program. Local; does not wait for them."""
        for rank in range(1, world.size):
            self.send(rank, (messages.STOP,))
        discharge()
